import numpy as np
import pytest

from electra_tf.tasks import metrics


def test_accuracy():
    assert metrics.accuracy([1, 2, 3, 4], [1, 2, 3, 0]) == 75.0


def test_precision_recall_f1():
    found = metrics.precision_recall_f1(1, num_predicted=2, num_true=4)
    assert found == {
        "precision": 50.0,
        "recall": 25.0,
        "f1": pytest.approx(100 / 3),
    }
    assert metrics.precision_recall_f1(0, 0, 1)["f1"] == 0.0


def test_correlations():
    assert metrics.pearson([0, 1, 2], [0, 2, 4]) == pytest.approx(100.0)
    assert metrics.spearman([0, 1, 2], [0, 1, 9]) == pytest.approx(100.0)
    assert metrics.pearson([0, 1, 2], np.zeros(3)) == 0.0


def test_f1():
    labels, predictions = [1, 1, 1, 0], [1, 1, 0, 0]
    # Precision 1, recall 2/3.
    assert metrics.f1(labels, predictions) == pytest.approx(80.0)
    # Of 3 decisions for a label 2 are right; 4 were wanted.
    wanted = [[1, 1], [1, 0], [0, 1]]
    made = [[1, 0], [1, 1], [0, 0]]
    assert metrics.f1(wanted, made) == pytest.approx(400 / 7)
    assert metrics.f1([], []) == 0.0
