"""Tokens of an answer -> the answer in the passage's own spelling -> scores."""

import bisect
import collections
import re
import string
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

from electra_tf import errors
from electra_tf.text import tokenization

# Marks that KorQuAD's script makes white space.
_KOREAN_MARKS = re.compile("['\"\u300a\u300b<>\u3008\u3009()\u2018\u2019]")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


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
    answer. E.g. "steve smith", "Steve Smith's" -> "Steve Smith".
    """
    words = tokenization.split_into_words(
        list(original_texts), tokenizer.do_lower_case, tokenizer.strip_accents
    ).to_list()
    spans = []
    for token_text, original, text_words in zip(
        token_texts, original_texts, words, strict=True
    ):
        normalised = " ".join(word.decode("utf-8") for word in text_words)
        spans.append(_original_span(token_text, original, normalised))
    return spans


def _original_span(token_text: str, original: str, normalised: str) -> str:
    start = normalised.find(token_text) if token_text else -1
    places = [i for i, char in enumerate(original) if char != " "]
    num_characters = len(normalised.replace(" ", ""))
    # Marks of accents by themselves are lost.
    if len(places) != num_characters:
        places = [
            i for i in places if unicodedata.category(original[i]) != "Mn"
        ]
    if start < 0 or len(places) != num_characters:
        return original
    num_before = len(normalised[:start].replace(" ", ""))
    behind = num_before + len(token_text.replace(" ", ""))
    end = places[behind - 1] + 1
    while end < len(original) and unicodedata.category(original[end]) == "Mn":
        end += 1
    return original[places[num_before] : end]


def require_scripts() -> None:
    """Refuses to begin where nobody could score the answers.

    Raises:
      ConfigError: If SQuAD's scripts are not installed.
    """
    try:
        from official.nlp.tools import (  # noqa: F401
            squad_evaluate_v1_1,
            squad_evaluate_v2_0,
        )
    except ImportError:
        raise errors.ConfigError(
            "Answers are scored by SQuAD's scripts, which are in the package "
            "tf-models-official: pip install --no-deps tf-models-official"
        ) from None


def squad_v1_scores(
    answers: Iterable[tuple[str, Sequence[str]]],
    predictions: Mapping[str, str],
) -> dict[str, float]:
    """Exact match and F1 by the script of SQuAD 1.1.

    Args:
      answers: Question and its true answers; a question that occurs twice
        counts twice, and none stands for an empty answer.
      predictions: Question -> predicted answer; a missing one scores 0.

    Returns:
      "exact_match" and "f1" in per cent: best over the answers, mean over the
      questions.
    """
    from official.nlp.tools import squad_evaluate_v1_1

    scores = squad_evaluate_v1_1.evaluate(
        _as_squad((question, true or [""]) for question, true in answers),
        predictions,
    )
    return {
        "exact_match": 100.0 * scores["exact_match"],
        "f1": 100.0 * scores["final_f1"],
    }


def squad_v2_scores(
    answers: Mapping[str, Sequence[str]],
    predictions: Mapping[str, str],
    null_odds: Mapping[str, float],
    na_threshold: float,
) -> dict[str, float]:
    """The scores of SQuAD 2.0 by its script.

    Args:
      answers: Question -> true answers; none where the question has none.
      predictions: Question -> the best answer, had the question one.
      null_odds: Question -> how much speaks for no answer.
      na_threshold: Above this, the prediction is "no answer".

    Returns:
      "exact", "f1" and "total"; the same of the questions with and without an
      answer, prefixed "HasAns_" and "NoAns_"; and the best "exact" and "f1"
      that any threshold gives, "best_exact" and "best_f1", with the thresholds
      "best_exact_thresh" and "best_f1_thresh". Shares are in per cent.
    """
    from official.nlp.tools import squad_evaluate_v2_0

    # The script's threshold is 1, so it gets whole numbers in the order of the
    # odds: 2 and more above `na_threshold`, -1 and less below. Its 0 stays 0.
    odds = sorted(set(null_odds.values()))
    num_below = bisect.bisect_right(odds, na_threshold)
    ranks = [*range(-num_below, 0), *range(2, 2 + len(odds) - num_below)]
    rank_of = dict(zip(odds, ranks, strict=True))
    odds_of = dict(zip(ranks, odds, strict=True)) | {0: 0.0}
    scores = squad_evaluate_v2_0.evaluate(
        _as_squad(answers.items()),
        predictions,
        {question: rank_of[value] for question, value in null_odds.items()},
    )
    return {
        name.replace("final_", "best_"): (
            odds_of[value] if name.endswith("_thresh") else value
        )
        for name, value in scores.items()
        if not name.startswith("pr_")
    }


def _as_squad(answers: Iterable[tuple[str, Sequence[str]]]) -> list[dict]:
    """Questions and their true answers in the layout of SQuAD's files."""
    questions = [
        {"id": question, "answers": [{"text": text} for text in true]}
        for question, true in answers
    ]
    return [{"paragraphs": [{"qas": questions}]}]


def korquad_scores(
    answers: Iterable[tuple[str, Sequence[str]]],
    predictions: Mapping[str, str],
) -> dict[str, float]:
    """`squad_v1_scores` as KorQuAD's script has them: F1 of characters."""
    exact_match = f1 = 0.0
    num_questions = 0
    for question, true in answers:
        num_questions += 1
        predicted = normalize_korean_answer(predictions.get(question, ""))
        wanted = [normalize_korean_answer(text) for text in true]
        if question in predictions and wanted:
            exact_match += predicted in wanted
            f1 += max(_f1_of_characters(predicted, text) for text in wanted)
    return {
        "exact_match": 100.0 * exact_match / num_questions,
        "f1": 100.0 * f1 / num_questions,
    }


def normalize_korean_answer(text: str) -> str:
    """Lower case without quotes, brackets, punctuation and extra space."""
    text = _KOREAN_MARKS.sub(" ", text).lower().translate(_NO_PUNCTUATION)
    return " ".join(text.split())


def _f1_of_characters(predicted: str, true: str) -> float:
    """Harmonic mean of the shares of characters in common, space aside."""
    predicted, true = predicted.replace(" ", ""), true.replace(" ", "")
    common = collections.Counter(predicted) & collections.Counter(true)
    num_common = sum(common.values())
    if not num_common:
        return 0.0
    precision = num_common / len(predicted)
    recall = num_common / len(true)
    return 2 * precision * recall / (precision + recall)
