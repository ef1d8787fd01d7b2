import random
import re
import string
import sys

import pytest

from electra_tf import errors
from electra_tf.tasks import answers as answers_lib


def test_scripts_that_are_not_installed_are_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "official.nlp.tools", None)
    with pytest.raises(errors.ConfigError, match="--no-deps tf-models-offic"):
        answers_lib.require_scripts()


def test_squad_v1_counts_a_repeated_question_twice():
    answers = [("1", ["x y", "x"]), ("1", ["x y"]), ("2", ["z"])]
    scores = answers_lib.squad_v1_scores(answers, {"1": "x"})
    assert scores["exact_match"] == pytest.approx(100 / 3)
    assert scores["f1"] == pytest.approx(100 * (1 + 2 / 3) / 3)


def test_squad_v1_without_an_answer_wants_an_empty_one():
    scores = answers_lib.squad_v1_scores([("1", []), ("2", [])], {"1": "x"})
    assert scores == {"exact_match": 0.0, "f1": 0.0}


def test_squad_v2():
    scores = answers_lib.squad_v2_scores(
        answers={"1": ["x"], "2": ["y"], "3": []},
        predictions={"1": "x", "2": "y", "3": "z"},
        null_odds={"1": -5.0, "2": -1.0, "3": -3.0},
        na_threshold=-2.0,
    )
    # 2 is taken for unanswerable, 3 for answerable: both wrong.
    assert scores == {
        "exact": pytest.approx(100 / 3),
        "f1": pytest.approx(100 / 3),
        "total": 3,
        "HasAns_exact": 50.0,
        "HasAns_f1": 50.0,
        "HasAns_total": 2,
        "NoAns_exact": 0.0,
        "NoAns_f1": 0.0,
        "NoAns_total": 1,
        # Answering 1 alone: 1 and 3 are right.
        "best_exact": pytest.approx(200 / 3),
        "best_exact_thresh": -5.0,
        "best_f1": pytest.approx(200 / 3),
        "best_f1_thresh": -5.0,
    }


def test_korquad_compares_characters():
    normalize = answers_lib.normalize_korean_answer
    assert normalize("《한국》 (ABC), 'the' 일.") == "한국 abc the 일"
    same = answers_lib.korquad_scores([("1", ["x", "‘서울’"])], {"1": "서울."})
    assert same == {"exact_match": 100.0, "f1": 100.0}
    # 2 of 3 and of 2 characters; nothing is said of the second question.
    scores = answers_lib.korquad_scores(
        [("1", ["서울"]), ("2", ["부산"])], {"1": "서 울에"}
    )
    assert scores == {"exact_match": 0.0, "f1": pytest.approx(40.0)}


# The official scripts' definitions, evaluate-v1.1.py and evaluate-v2.0.py,
# written as plainly as they can be.


def _plain_words(text):
    kept = "".join(c for c in text.lower() if c not in string.punctuation)
    words = re.sub(r"\b(a|an|the)\b", " ", kept).split()
    return words


def _plain_f1(prediction, answer):
    predicted, true = _plain_words(prediction), _plain_words(answer)
    left, num_common = list(true), 0
    for word in predicted:
        if word in left:
            left.remove(word)
            num_common += 1
    if num_common == 0:
        return 0.0
    precision, recall = num_common / len(predicted), num_common / len(true)
    return 2 * precision * recall / (precision + recall)


def _plain_scores_1(questions, predictions):
    exact = f1 = 0.0
    for key, answers in questions:
        if key in predictions:
            text = predictions[key]
            exact += max(_plain_words(text) == _plain_words(a) for a in answers)
            f1 += max(_plain_f1(text, a) for a in answers)
    total = len(questions)
    return {"exact_match": 100 * exact / total, "f1": 100 * f1 / total}


def _plain_scores_2(questions, predictions, odds, threshold):
    exact, f1 = {}, {}
    for key, answers in questions.items():
        if key not in predictions:
            continue
        text = predictions[key]
        answers = [a for a in answers if _plain_words(a)] or [""]
        exact[key] = max(
            int(_plain_words(text) == _plain_words(a)) for a in answers
        )
        f1[key] = max(
            _plain_f1(text, a)
            if _plain_words(text) and _plain_words(a)
            else float(_plain_words(text) == _plain_words(a))
            for a in answers
        )

    def decided(scores, key, at):
        return scores[key] if odds[key] <= at else float(not questions[key])

    found = {}
    for prefix, keys in (
        ("", list(exact)),
        ("HasAns_", [k for k in exact if questions[k]]),
        ("NoAns_", [k for k in exact if not questions[k]]),
    ):
        for name, scores in (("exact", exact), ("f1", f1)):
            total = sum(decided(scores, k, threshold) for k in keys)
            found[prefix + name] = 100 * total / len(keys)
        found[f"{prefix}total"] = len(keys)
    for name, scores in (("exact", exact), ("f1", f1)):
        # Every threshold there is, and 0 for no answer everywhere.
        best, best_at = sum(not a for a in questions.values()), 0.0
        for at in sorted(odds.values()):
            total = 0.0
            for key, answers in questions.items():
                if odds[key] > at or key not in scores:
                    total += not answers
                elif answers:
                    total += scores[key]
                else:
                    total += not predictions[key]
            if total > best + 1e-9:
                best, best_at = total, at
        found[f"best_{name}"] = 100 * best / len(scores)
        found[f"best_{name}_thresh"] = best_at
    return found


def _generated(num_questions):
    rng = random.Random(7)
    text = "The a an cat Dog's sat, ON 1995 (mat) — Ünited u.s. x"
    words = text.split()

    def make_text():
        return " ".join(rng.choices(words, k=rng.randrange(1, 6)))

    questions, predictions = {}, {}
    for number in range(num_questions):
        key = f"q{number}"
        answers = [make_text() for _ in range(rng.randrange(1, 4))]
        questions[key] = answers
        chosen = rng.random()
        if chosen < 0.4:
            predictions[key] = rng.choice(answers).upper()
        elif chosen < 0.7:
            predictions[key] = f"{rng.choice(answers)} {make_text()}"
        elif chosen < 0.95:
            predictions[key] = rng.choice([make_text(), "", "the"])
    return rng, questions, predictions


def test_equals_the_official_definition_on_1000_predictions():
    _, questions, predictions = _generated(1000)
    found = answers_lib.squad_v1_scores(questions.items(), predictions)
    expected = _plain_scores_1(list(questions.items()), predictions)
    assert found == pytest.approx(expected, abs=1e-9)
    assert 10 < found["exact_match"] < found["f1"] < 90


def test_equals_the_official_definition_with_no_answers():
    rng, questions, predictions = _generated(1000)
    odds = {}
    for number, key in enumerate(questions):
        has_answer = number % 3 > 0
        if not has_answer:
            questions[key] = []
            predictions[key] = rng.choice([predictions.get(key, "x"), ""])
        predictions.setdefault(key, "x")
        odds[key] = rng.gauss(-1.0 if has_answer else 1.0, 2.0)
    arguments = (questions, predictions, odds, -0.5)
    found = answers_lib.squad_v2_scores(*arguments)
    expected = _plain_scores_2(*arguments)
    assert found == pytest.approx(expected, abs=1e-9)
    assert found["best_f1"] > found["f1"]
    assert found["best_f1_thresh"] != 0.0
