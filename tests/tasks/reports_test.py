"""Tests of tasks/reports.py."""

import numpy as np
import pytest
import seqeval.metrics
import sklearn.metrics

from electra_tf.tasks import reports

# Two of the names are keys of scikit-learn's own report.
LABELS = ["accuracy", "macro avg", "red"]


def test_rows_with_one_label():
    true, predicted = np.array([0, 0, 0, 1, 2]), np.array([0, 0, 1, 1, 1])
    found = reports.class_report(LABELS, true, predicted)
    third = 100 / 3
    assert found["classes"] == {
        "accuracy": {
            "precision": 100.0,
            "recall": pytest.approx(2 * third),
            "f1": pytest.approx(80.0),
            "support": 3,
        },
        "macro avg": {
            "precision": pytest.approx(third),
            "recall": 100.0,
            "f1": pytest.approx(50.0),
            "support": 1,
        },
        "red": {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 1},
    }
    assert found["macro_f1"] == pytest.approx((80 + 50) / 3)
    assert found["weighted_f1"] == pytest.approx((3 * 80 + 50) / 5)
    assert found["confusion_matrix"] == {
        "labels": LABELS,
        "counts": [[2, 1, 0], [0, 1, 0], [0, 1, 0]],
    }
    # A label that does not occur is not in the means.
    found = reports.class_report(LABELS, np.array([0, 2]), np.array([0, 2]))
    assert found["macro_f1"] == found["weighted_f1"] == 100.0
    assert found["classes"]["macro avg"]["support"] == 0


@pytest.mark.parametrize("kind", ["class", "decision"])
def test_reports_are_scikit_learns(kind):
    random = np.random.default_rng(1)
    shape, high = {"class": (60, 3), "decision": ((60, 3), 2)}[kind]
    true, predicted = random.integers(0, high, (2, *np.atleast_1d(shape)))
    make = getattr(reports, f"{kind}_report")
    whole = make(LABELS, true, predicted)
    expected = sklearn.metrics.classification_report(
        true, predicted, output_dict=True, zero_division=0.0
    )
    for number, scores in enumerate(whole["classes"].values()):
        of_label = expected[str(number)]
        assert scores == {
            "precision": pytest.approx(100 * of_label["precision"]),
            "recall": pytest.approx(100 * of_label["recall"]),
            "f1": pytest.approx(100 * of_label["f1-score"]),
            "support": of_label["support"],
        }
    for name in ("macro", "weighted"):
        assert whole[f"{name}_f1"] == pytest.approx(
            100 * expected[f"{name} avg"]["f1-score"]
        )


def test_reports_of_spans_are_seqevals():
    true = [["S-PER", "O", "B-LOC", "E-LOC"], ["S-LOC", "O"]]
    predicted = [["S-PER", "O", "O", "S-X"], ["S-LOC", "O"]]

    def spans(rows):
        return [
            ((row, position), tag[2:])
            for row, tags in enumerate(rows)
            for position, tag in enumerate(tags)
            if tag[0] in "SB"
        ]

    both = spans(true), spans(predicted)
    found = reports.span_report(*both)
    expected = seqeval.metrics.classification_report(
        true, predicted, output_dict=True, zero_division=0
    )
    assert list(found["classes"]) == ["LOC", "PER", "X"]
    for kind, scores in found["classes"].items():
        assert scores["f1"] == pytest.approx(100 * expected[kind]["f1-score"])
        assert scores["support"] == expected[kind]["support"]
    assert found["macro_f1"] == pytest.approx(
        100 * expected["macro avg"]["f1-score"]
    )
