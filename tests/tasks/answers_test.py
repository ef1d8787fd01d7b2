import random
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


def test_equals_the_official_definition_on_1000_predictions():
    """With no answer where the odds exceed the threshold, and the best one."""
    rng = random.Random(7)
    words = [
        "The",
        "a",
        "cat",
        "Dog's",
        "sat,",
        "1995",
        "(mat)",
        "—",
        "Ünited",
        "u.s.",
    ]
    answers, predictions, odds = {}, {}, {}
    for number in range(1000):
        key = f"q{number}"
        texts = [
            " ".join(["x", *rng.choices(words, k=rng.randrange(5))])
            for _ in range(2)
        ]
        answers[key] = texts if number % 3 else []
        extra = rng.choice(["", rng.choice(words)])
        predictions[key] = rng.choice(["", f"{texts[1].upper()} {extra}"])
        odds[key] = rng.gauss(-1.0 if number % 3 else 1.0, 2.0)
    # Each question by itself, where it is said to have an answer.
    alone = {
        key: answers_lib.squad_v1_scores([(key, texts)], predictions)
        if texts
        else dict.fromkeys(
            ("exact_match", "f1"), 100.0 * (not predictions[key])
        )
        for key, texts in answers.items()
    }

    def total(name, keys, most):
        scores = (
            alone[key][name]
            if odds[key] <= most
            else 100.0 * (not answers[key])
            for key in keys
        )
        return sum(scores) / len(keys)

    expected = {}
    has = [key for key in answers if answers[key]]
    no = [key for key in answers if not answers[key]]
    for prefix, keys in (("", list(answers)), ("HasAns_", has), ("NoAns_", no)):
        expected[f"{prefix}exact"] = total("exact_match", keys, -0.5)
        expected[f"{prefix}f1"] = total("f1", keys, -0.5)
        expected[f"{prefix}total"] = len(keys)
    for name, of in (("exact", "exact_match"), ("f1", "f1")):
        best = max((total(of, list(answers), x), -x) for x in odds.values())
        expected[f"best_{name}"] = best[0]
        expected[f"best_{name}_thresh"] = -best[1]
    scores = answers_lib.squad_v2_scores(answers, predictions, odds, -0.5)
    assert scores == pytest.approx(expected, abs=1e-9)
    assert 10 < scores["exact"] < scores["f1"] < scores["best_f1"] < 90
