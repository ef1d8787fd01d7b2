"""What a classifier's answers show of each class, as scikit-learn has it.

A report is made of counts alone, so those of several models, such as the folds
of a cross-validation, add up to the report of all their rows. It holds

  "classes": label -> "precision", "recall" and "f1", in per cent, and
      "support", how often the label is the right one;
  "macro_f1" and "weighted_f1": their mean, and that weighted by support;
  "confusion_matrix" where a row has one label: "labels", and "counts", a list
      for each label with how often each one was predicted for it;
  "confusion_matrices" where it may have several, or where spans are found:
      "labels", and "counts", [[true negatives, false positives], [false
      negatives, true positives]] for each label.

Shapes: N rows, C classes.
"""

from collections.abc import Hashable, Iterable, Sequence

import numpy as np


def class_report(
    labels: Sequence[str], true: np.ndarray, predicted: np.ndarray
) -> dict:
    """The report of rows with one label each.

    The means are over the labels that occur, as scikit-learn takes them.

    Args:
      labels: C names.
      true: <int>[N], indices of `labels`.
      predicted: Likewise.
    """
    counts = np.zeros((len(labels), len(labels)), np.int64)
    np.add.at(counts, (true, predicted), 1)
    right, support, said = counts.diagonal(), counts.sum(1), counts.sum(0)
    return _report(labels, right, support, said, support + said > 0) | {
        "confusion_matrix": {"labels": list(labels), "counts": counts.tolist()}
    }


def decision_report(
    labels: Sequence[str], true: np.ndarray, predicted: np.ndarray
) -> dict:
    """The report of rows with any number of labels.

    Args:
      labels: C names.
      true: <int>[N, C], 1 where a row has the label.
      predicted: Likewise.
    """
    counts = np.zeros((len(labels), 2, 2), np.int64)
    np.add.at(counts, (np.arange(len(labels)), true, predicted), 1)
    return _of_confusion_matrices(labels, counts)


def span_report(
    true: Iterable[tuple[Hashable, str]],
    predicted: Iterable[tuple[Hashable, str]],
) -> dict:
    """The report of spans by their kinds, those that occur.

    What is no span anywhere is not counted.

    Args:
      true: Where each span is, and its kind; "support" counts them.
      predicted: Likewise.
    """
    wanted, answered = set(true), set(predicted)
    kinds = sorted({kind for _, kind in wanted | answered})
    counts = np.zeros((len(kinds), 2, 2), np.int64)
    for span in wanted | answered:
        cell = (int(span in wanted), int(span in answered))
        counts[(kinds.index(span[1]), *cell)] += 1
    return _of_confusion_matrices(kinds, counts)


def _of_confusion_matrices(labels: Sequence[str], counts: np.ndarray) -> dict:
    """The report of <int>[C, 2, 2], a table for each label."""
    right, true, predicted = counts[:, 1, 1], counts.sum(2), counts.sum(1)
    counted = np.ones(len(labels), bool)
    return _report(labels, right, true[:, 1], predicted[:, 1], counted) | {
        "confusion_matrices": {
            "labels": list(labels),
            "counts": counts.tolist(),
        }
    }


def _report(
    labels: Sequence[str],
    right: np.ndarray,
    true: np.ndarray,
    predicted: np.ndarray,
    counted: np.ndarray,
) -> dict:
    """What all reports have, of <int>[C] counts; means are of `counted`."""
    precision = 100.0 * right / np.maximum(predicted, 1)
    recall = 100.0 * right / np.maximum(true, 1)
    f1 = 200.0 * right / np.maximum(true + predicted, 1)
    return {
        "classes": {
            label: {
                "precision": float(precision[i]),
                "recall": float(recall[i]),
                "f1": float(f1[i]),
                "support": int(true[i]),
            }
            for i, label in enumerate(labels)
        },
        "macro_f1": float(f1[counted].sum() / max(1, counted.sum())),
        "weighted_f1": float((f1 * true).sum() / max(1, true.sum())),
    }
