import math

import numpy as np
import pytest

from electra_tf.finetuning import metrics


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
    assert math.isnan(metrics.pearson([0, 1, 2], np.zeros(3)))
