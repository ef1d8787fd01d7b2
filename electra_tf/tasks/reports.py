"""What a classifier's answers show of each class, by scikit-learn.

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

import itertools
from collections.abc import Hashable, Iterable, Sequence

import numpy as np


def of_classes(
    labels: Sequence[str], true: np.ndarray, predicted: np.ndarray
) -> dict:
    """The report of rows with one label each.

    The means are over the labels that occur, as scikit-learn takes them.

    Args:
      labels: C names.
      true: <int>[N], indices of `labels`.
      predicted: Likewise.
    """
    from sklearn import metrics

    counts = metrics.confusion_matrix(
        true, predicted, labels=np.arange(len(labels))
    )
    return _of_confusion_matrix(labels, counts)


def of_decisions(
    labels: Sequence[str], true: np.ndarray, predicted: np.ndarray
) -> dict:
    """The report of rows with any number of labels.

    Args:
      labels: C names.
      true: <int>[N, C], 1 where a row has the label.
      predicted: Likewise.
    """
    from sklearn import metrics

    # A single column would count as rows of two classes.
    both = (np.pad(values, [(0, 0), (0, 1)]) for values in (true, predicted))
    counts = metrics.multilabel_confusion_matrix(*both)
    return _of_confusion_matrices(labels, counts[:-1])


def of_spans(
    true: Iterable[tuple[Hashable, str]],
    predicted: Iterable[tuple[Hashable, str]],
) -> dict:
    """The report of spans by their kinds, those that occur.

    Args:
      true: Where each span is, and its kind; "support" counts them.
      predicted: Likewise.
    """
    wanted, found = set(true), set(predicted)
    kinds = sorted({kind for _, kind in wanted | found})
    tables = np.zeros((len(kinds), 2, 2), np.int64)
    for spans, cell in (
        # What is no span anywhere is not counted.
        (found - wanted, (0, 1)),
        (wanted - found, (1, 0)),
        (wanted & found, (1, 1)),
    ):
        for _, kind in spans:
            tables[(kinds.index(kind), *cell)] += 1
    return _of_confusion_matrices(kinds, tables)


def pooled(reports: Sequence[dict]) -> dict:
    """The report of all rows of several reports of one task."""
    if "confusion_matrix" in reports[0]:
        matrices = [report["confusion_matrix"] for report in reports]
        # Of words, "O" is there only where one was cut off.
        labels = list(
            dict.fromkeys(
                itertools.chain(*(matrix["labels"] for matrix in matrices))
            )
        )
        counts = np.zeros((len(labels), len(labels)), np.int64)
        for matrix in matrices:
            ids = [labels.index(label) for label in matrix["labels"]]
            counts[np.ix_(ids, ids)] += np.array(matrix["counts"], np.int64)
        return _of_confusion_matrix(labels, counts)
    tables = [report["confusion_matrices"] for report in reports]
    # Of spans, a report has only those kinds that it met.
    of_label: dict[str, np.ndarray] = {}
    for table in tables:
        for label, counts in zip(table["labels"], table["counts"], strict=True):
            of_label[label] = of_label.get(label, 0) + np.array(counts)
    counts = np.reshape(list(of_label.values()), (-1, 2, 2))
    return _of_confusion_matrices(list(of_label), counts)


def _of_confusion_matrix(labels: Sequence[str], counts: np.ndarray) -> dict:
    """The report of <int>[C, C], a row for each true label."""
    true, predicted = _expanded(counts)
    occurring = counts.any(axis=0) | counts.any(axis=1)
    return _report(labels, np.flatnonzero(occurring), true, predicted) | {
        "confusion_matrix": {"labels": list(labels), "counts": counts.tolist()}
    }


def _of_confusion_matrices(labels: Sequence[str], counts: np.ndarray) -> dict:
    """The report of <int>[C, 2, 2], a table for each label."""
    counts = counts.astype(np.int64)
    num_rows = counts.sum(axis=(1, 2)).max(initial=0)
    # Columns are counted one by one: what stood beside what does not matter.
    # One more, as a single one would count as rows of two classes.
    true, predicted = np.zeros((2, num_rows, len(labels) + 1), np.int64)
    for column, of_label in enumerate(counts):
        num = of_label.sum()
        true[:num, column], predicted[:num, column] = _expanded(of_label)
    return _report(labels, np.arange(len(labels)), true, predicted) | {
        "confusion_matrices": {
            "labels": list(labels),
            "counts": counts.tolist(),
        }
    }


def _expanded(counts: np.ndarray) -> list[np.ndarray]:
    """Counts <int>[C, C] -> true and predicted ids, each <int>[N]."""
    return [
        np.repeat(ids.ravel(), counts.ravel())
        for ids in np.indices(counts.shape)
    ]


def _report(
    labels: Sequence[str],
    counted: np.ndarray,
    true: np.ndarray,
    predicted: np.ndarray,
) -> dict:
    """What all reports have.

    Args:
      labels: C names.
      counted: <int>[M], the labels that the means are over.
      true: <int>[N] or <int>[N, C + 1].
      predicted: Likewise.
    """
    # scikit-learn takes long to import, and few commands score anything.
    from sklearn import metrics

    classes: dict[str, dict] = {
        label: {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 0}
        for label in labels
    }
    if not len(counted):
        return {"classes": classes, "macro_f1": 0.0, "weighted_f1": 0.0}
    found = metrics.classification_report(
        true,
        predicted,
        labels=counted,
        # Labels of users may be called "accuracy" or "macro avg".
        target_names=[str(number) for number in counted],
        output_dict=True,
        zero_division=0.0,
    )
    for number in counted:
        scores = found[str(number)]
        classes[labels[number]] = {
            "precision": 100.0 * float(scores["precision"]),
            "recall": 100.0 * float(scores["recall"]),
            "f1": 100.0 * float(scores["f1-score"]),
            "support": int(scores["support"]),
        }
    return {
        "classes": classes,
        "macro_f1": 100.0 * float(found["macro avg"]["f1-score"]),
        "weighted_f1": 100.0 * float(found["weighted avg"]["f1-score"]),
    }
