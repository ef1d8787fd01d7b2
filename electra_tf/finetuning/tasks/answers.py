"""From tokens of an answer to the answer in the passage's own spelling."""

import collections
import re
import string
from collections.abc import Callable, Iterable, Mapping, Sequence

from electra_tf.text import tokenization


def join_word_pieces(tokens: Sequence[str]) -> str:
    """What word pieces spell, e.g. "steve smith" of steve, smi, ##th."""
    text = " ".join(tokens).replace(" ##", "").replace("##", "")
    return " ".join(text.split())


def original_spans(
    token_texts: Sequence[str],
    original_texts: Sequence[str],
    tokenizer: tokenization.FullTokenizer,
) -> list[str]:
    """What normalised answers are in the passage's own spelling.

    The normalised text of the words that hold the answer is aligned with those
    words, character by character, white space aside. Where the numbers of
    characters differ, or the answer is not found, the words as a whole are the
    answer.

    Args:
      token_texts: Answers put together from tokens, e.g. "steve smith".
      original_texts: The words that hold them, e.g. "Steve Smith's".
      tokenizer: Normalises.

    Returns:
      E.g. "Steve Smith".
    """
    words = tokenization.split_into_words(
        list(original_texts), tokenizer.do_lower_case, tokenizer.strip_accents
    ).to_list()
    spans = []
    for token_text, original, of_text in zip(
        token_texts, original_texts, words, strict=True
    ):
        normalised = " ".join(word.decode("utf-8") for word in of_text)
        spans.append(_original_span(token_text, original, normalised))
    return spans


def _original_span(token_text: str, original: str, normalised: str) -> str:
    start = normalised.find(token_text) if token_text else -1
    places = [i for i, char in enumerate(original) if char != " "]
    if start < 0 or len(places) != len(normalised.replace(" ", "")):
        return original
    num_before = len(normalised[:start].replace(" ", ""))
    num_inside = len(token_text.replace(" ", ""))
    return original[
        places[num_before] : places[num_before + num_inside - 1] + 1
    ]


_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


# Marks that KorQuAD's script makes white space.
_KOREAN_MARKS = re.compile("['\"\u300a\u300b<>\u3008\u3009()\u2018\u2019]")


def normalize_korean_answer(text: str) -> str:
    """Lower case without quotes, brackets, punctuation and extra space."""
    text = _KOREAN_MARKS.sub(" ", text).lower().translate(_NO_PUNCTUATION)
    return " ".join(text.split())


def normalize_answer(text: str) -> str:
    """Lower case without ASCII punctuation, articles and extra white space."""
    text = text.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", text).split())


def exact_match(prediction: str, answer: str) -> float:
    """1 if both are the same once normalised, else 0."""
    return float(normalize_answer(prediction) == normalize_answer(answer))


def korean_exact_match(prediction: str, answer: str) -> float:
    """1 if both are the same once normalised as in KorQuAD, else 0."""
    return float(
        normalize_korean_answer(prediction) == normalize_korean_answer(answer)
    )


def f1(
    prediction: str, answer: str, empty_ones_are_equal: bool = False
) -> float:
    """Harmonic mean of the shares of words in common.

    Args:
      prediction: The predicted answer.
      answer: A true answer.
      empty_ones_are_equal: Whether two answers without words are equal, as in
        SQuAD 2.0; else they have nothing in common.
    """
    predicted = normalize_answer(prediction).split()
    true = normalize_answer(answer).split()
    if empty_ones_are_equal and not (predicted and true):
        return float(predicted == true)
    return _f1_of_parts(predicted, true)


def korean_f1(prediction: str, answer: str) -> float:
    """KorQuAD's F1: harmonic mean of the shares of characters in common."""
    predicted = normalize_korean_answer(prediction).replace(" ", "")
    true = normalize_korean_answer(answer).replace(" ", "")
    return _f1_of_parts(predicted, true)


def _f1_of_parts(predicted: Sequence[str], true: Sequence[str]) -> float:
    common = collections.Counter(predicted) & collections.Counter(true)
    num_common = sum(common.values())
    if not num_common:
        return 0.0
    precision = num_common / len(predicted)
    recall = num_common / len(true)
    return 2 * precision * recall / (precision + recall)


def squad_v1_scores(
    answers: Iterable[tuple[str, Sequence[str]]],
    predictions: Mapping[str, str],
    is_korean: bool = False,
) -> dict[str, float]:
    """Exact match and F1, best over the answers, mean over the questions.

    Args:
      answers: Question and its true answers; a question that occurs twice
        counts twice.
      predictions: Question -> predicted answer; a missing one scores 0.
      is_korean: Compare as KorQuAD does.

    Returns:
      "exact_match" and "f1" in per cent.
    """
    score_exact: Callable[..., float] = exact_match
    score_f1: Callable[..., float] = f1
    if is_korean:
        score_exact, score_f1 = korean_exact_match, korean_f1
    exact_total = f1_total = 0.0
    num_questions = 0
    for question, true in answers:
        num_questions += 1
        predicted = predictions.get(question)
        if predicted is None:
            continue
        exact_total += max((score_exact(predicted, a) for a in true), default=0)
        f1_total += max((score_f1(predicted, a) for a in true), default=0)
    num_questions = max(1, num_questions)
    return {
        "exact_match": 100.0 * exact_total / num_questions,
        "f1": 100.0 * f1_total / num_questions,
    }


def squad_v2_scores(
    answers: Mapping[str, Sequence[str]],
    predictions: Mapping[str, str],
    null_odds: Mapping[str, float],
    na_threshold: float,
) -> dict[str, float]:
    """The scores of SQuAD 2.0.

    Args:
      answers: Question -> true answers; none where the question has none.
      predictions: Question -> the best answer, had the question one.
      null_odds: Question -> how much speaks for no answer.
      na_threshold: Above this, the prediction is "no answer".

    Returns:
      "exact", "f1" and "total"; the same of the questions with and without an
      answer, prefixed "HasAns_" and "NoAns_"; and the best "exact" and "f1"
      that any threshold gives, "best_exact" and "best_f1", with the thresholds
      "best_exact_thresh" and "best_f1_thresh".
    """
    has_answer = {question: bool(true) for question, true in answers.items()}
    raw: dict[str, dict[str, float]] = {"exact": {}, "f1": {}}
    for question, true in answers.items():
        if question not in predictions:
            continue
        predicted = predictions[question]
        true = [a for a in true if normalize_answer(a)] or [""]
        raw["exact"][question] = max(exact_match(predicted, a) for a in true)
        raw["f1"][question] = max(
            f1(predicted, a, empty_ones_are_equal=True) for a in true
        )
    thresholded = {
        name: {
            question: (
                float(not has_answer[question])
                if null_odds[question] > na_threshold
                else score
            )
            for question, score in scores.items()
        }
        for name, scores in raw.items()
    }

    def means(questions: Iterable[str], prefix: str) -> dict[str, float]:
        questions = [q for q in questions if q in raw["exact"]]
        if not questions:
            return {}
        found: dict[str, float] = {
            prefix + name: 100.0
            * sum(scores[q] for q in questions)
            / len(questions)
            for name, scores in thresholded.items()
        }
        return found | {f"{prefix}total": len(questions)}

    scores = means(answers, "")
    scores |= means((q for q in answers if has_answer[q]), "HasAns_")
    scores |= means((q for q in answers if not has_answer[q]), "NoAns_")
    for name in raw:
        best, threshold = _best_threshold(
            predictions, raw[name], null_odds, has_answer
        )
        scores[f"best_{name}"] = best
        scores[f"best_{name}_thresh"] = threshold
    return scores


def _best_threshold(
    predictions, scores, null_odds, has_answer
) -> tuple[float, float]:
    """The best score over all thresholds, in per cent, and its threshold.

    Starts from "no answer" everywhere, with threshold 0, and lets one question
    after another be answered, the surest one first.
    """
    current = best = float(sum(not has for has in has_answer.values()))
    best_threshold = 0.0
    for question in sorted(null_odds, key=lambda q: null_odds[q]):
        if question not in scores:
            continue
        if has_answer[question]:
            current += scores[question]
        elif predictions[question]:
            current -= 1.0
        if current > best:
            best = current
            best_threshold = null_odds[question]
    return 100.0 * best / max(1, len(scores)), best_threshold
