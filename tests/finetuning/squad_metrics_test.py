import pytest

from electra_tf.finetuning import squad_metrics


def test_normalize_answer():
    normalize = squad_metrics.normalize_answer
    assert normalize("The  Cat's, a hat!") == "cats hat"


def test_f1():
    assert squad_metrics.f1("a b c d", "b d") == pytest.approx(0.8)  # "a" goes.
    assert squad_metrics.f1("the", "a") == 0.0
    assert squad_metrics.f1("the", "a", empty_ones_are_equal=True) == 1.0


def test_squad_v1_counts_a_repeated_question_twice():
    answers = [("1", ["x y", "x"]), ("1", ["x y"]), ("2", ["z"])]
    scores = squad_metrics.squad_v1_scores(answers, {"1": "x"})
    assert scores["exact_match"] == pytest.approx(100 / 3)
    assert scores["f1"] == pytest.approx(100 * (1 + 2 / 3) / 3)


def test_squad_v2():
    scores = squad_metrics.squad_v2_scores(
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
