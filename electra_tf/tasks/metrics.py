"""Scores of fine-tuning tasks, from numpy arrays."""

import collections
import typing
from collections.abc import Iterable

import numpy as np

# The label of a row, or all that it has.
Label = typing.TypeVar("Label", str, tuple[str, ...])


def mean(values: np.ndarray) -> float:
    """The mean, 0 of nothing."""
    values = np.asarray(values, np.float64)
    return float(values.mean()) if values.size else 0.0


def accuracy(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Share of equal entries, in per cent."""
    return 100.0 * mean(np.asarray(labels) == np.asarray(predictions))


def f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    """F1 of the label 1 in arrays of any shape, in per cent."""
    true, predicted = np.asarray(labels) == 1, np.asarray(predictions) == 1
    counts = (values.sum() for values in (true & predicted, predicted, true))
    return precision_recall_f1(*map(int, counts))["f1"]


def matthews_correlation(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Matthews' correlation coefficient, in per cent; 0 for one class."""
    # scikit-learn takes long to import, and few commands score anything.
    import sklearn.metrics

    return 100.0 * float(sklearn.metrics.matthews_corrcoef(labels, predictions))


def pearson(targets: np.ndarray, predictions: np.ndarray) -> float:
    """Pearson's correlation, in per cent; 0 where one does not vary."""
    return _correlation("pearsonr", targets, predictions)


def spearman(targets: np.ndarray, predictions: np.ndarray) -> float:
    """Spearman's rank correlation, in per cent; 0 as `pearson`."""
    return _correlation("spearmanr", targets, predictions)


def _correlation(name, targets, predictions) -> float:
    import scipy.stats

    targets = np.asarray(targets, np.float64)
    predictions = np.asarray(predictions, np.float64)
    if len(targets) < 2 or not np.ptp(targets) or not np.ptp(predictions):
        return 0.0
    return 100.0 * float(getattr(scipy.stats, name)(targets, predictions)[0])


def commonest(labels: Iterable[Label]) -> Label:
    """What occurs most often; of equals the first in their order."""
    counts = collections.Counter(labels)
    return max(sorted(counts), key=lambda label: counts[label])


def precision_recall_f1(
    num_correct: int, num_predicted: int, num_true: int
) -> dict[str, float]:
    """Precision, recall and F1, in per cent; all 0 if nothing is correct."""
    if not num_correct:
        return {"precision": 0.0, "recall": 0.0, "f1": 0.0}
    precision = 100.0 * num_correct / num_predicted
    recall = 100.0 * num_correct / num_true
    f1 = 2.0 * precision * recall / (precision + recall)
    return {"precision": precision, "recall": recall, "f1": f1}
