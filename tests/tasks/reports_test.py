"""Tests of tasks/reports.py."""

import numpy as np
import pytest
import seqeval.metrics
import sklearn.metrics

from electra_tf.tasks import metrics, reports

# Two of the names are keys of scikit-learn's own report.
LABELS = ["accuracy", "macro avg", "red"]


def test_rows_with_one_label():
    true, predicted = np.array([0, 0, 0, 1, 2]), np.array([0, 0, 1, 1, 1])
    found = reports.of_classes(LABELS, true, predicted)
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
    found = reports.of_classes(LABELS, np.array([0, 2]), np.array([0, 2]))
    assert found["macro_f1"] == found["weighted_f1"] == 100.0
    assert found["classes"]["macro avg"]["support"] == 0


@pytest.mark.parametrize("kind", ["classes", "decisions"])
def test_reports_are_scikit_learns_and_add_up(kind):
    random = np.random.default_rng(1)
    shape, high = {"classes": (60, 3), "decisions": ((60, 3), 2)}[kind]
    true, predicted = random.integers(0, high, (2, *np.atleast_1d(shape)))
    make = getattr(reports, f"of_{kind}")
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
    parts = [
        make(LABELS, true[rows], predicted[rows])
        for rows in (slice(7), slice(7, 60))
    ]
    assert reports.pooled(parts) == whole


def test_reports_of_words_have_a_label_more_where_one_was_cut_off():
    labels = ["NN", "VB"]
    whole = reports.of_classes(labels, np.array([0, 1]), np.array([0, 0]))
    cut = reports.of_classes([*labels, "O"], np.array([1, 1]), np.array([2, 1]))
    for parts in ([whole, cut], [cut, whole]):
        assert reports.pooled(parts)["confusion_matrix"] == {
            "labels": ["NN", "VB", "O"],
            "counts": [[1, 0, 0], [1, 1, 1], [0, 0, 0]],
        }


def test_a_single_label_that_a_row_may_have():
    true, predicted = np.array([[1], [1], [0]]), np.array([[1], [0], [0]])
    found = reports.of_decisions(["red"], true, predicted)
    assert found["classes"]["red"]["support"] == 2
    assert found["classes"]["red"]["recall"] == 50.0
    assert found["confusion_matrices"]["counts"] == [[[1, 0], [1, 1]]]
    assert found["macro_f1"] == pytest.approx(200 / 3)
    assert found["macro_f1"] == pytest.approx(metrics.f1(true, predicted))


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
    found = reports.of_spans(*both)
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
    # One sentence has kinds that the other has not.
    parts = [
        reports.of_spans(*([s for s in of if s[0][0] == row] for of in both))
        for row in (0, 1)
    ]
    pooled = reports.pooled(parts)
    assert pooled["classes"] == found["classes"]
    assert pooled["weighted_f1"] == found["weighted_f1"]


def test_no_spans_at_all():
    found = reports.of_spans([], [])
    assert found["classes"] == {} and found["macro_f1"] == 0.0
    assert reports.pooled([found, found]) == found
