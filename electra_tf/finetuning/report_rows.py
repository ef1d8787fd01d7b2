"""Written predictions -> what a report shows of rows: the worst, calibration.

Shapes: N rows, K bins.
"""

import collections
import string
import typing
from collections.abc import Callable, Sequence

import numpy as np

from electra_tf.model import task_head

# What stands for a word that no model saw, and how that counts.
_UNSEEN, _OUTSIDE = "-", "O"
_NUM_BINS = 10
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = ("a", "an", "the")


class Row(typing.NamedTuple):
    """A line of <split>_predictions.tsv.

    Attributes:
      label: What is right; several are separated by "|", by spaces for words,
        by " | " for answers.
      prediction: Likewise.
      scores: Of classes their probabilities; of tags that of the least sure
        word.
      texts: The rest of the line.
    """

    label: str
    prediction: str
    scores: tuple[float, ...]
    texts: tuple[str, ...]


class WrongRow(typing.NamedTuple):
    """A row and how wrong the model is about it, in a unit of the task."""

    row: Row
    error: float


class Calibration(typing.NamedTuple):
    """How sure a model is, and how often it is right, by bins that have rows.

    Attributes:
      sureness: <float>[K], means of the probabilities.
      shares: <float>[K], what share of them is right.
      counts: <int>[K], how many there are.
    """

    sureness: np.ndarray
    shares: np.ndarray
    counts: np.ndarray

    @property
    def error(self) -> float:
        """The expected calibration error: how far both are apart on average.

        Section 2 of arXiv:1706.04599.
        """
        return float(np.average(np.abs(self._gaps), weights=self.counts))

    @property
    def excess(self) -> float:
        """By how much it is too sure; below 0 for a model that is modest."""
        return float(np.average(self._gaps, weights=self.counts))

    @property
    def _gaps(self) -> np.ndarray:
        return self.sureness - self.shares


def num_scores(kind: str, labels: Sequence[str]) -> int:
    """How many columns of scores the predictions of a kind of task have."""
    if kind in ("classification", "multi_label_classification"):
        return len(labels)
    return 1 if kind in ("tagging", "question_answering") else 0


def read(path: str, num_scores: int) -> list[Row]:
    """Reads the predictions of a split.

    Args:
      path: <split>_predictions.tsv.
      num_scores: Columns behind label and prediction.

    Raises:
      ValueError: If a row has too few columns, or no numbers there.
    """
    with open(path, encoding="utf-8", newline="\n") as f:
        _, *lines = f.read().removesuffix("\n").split("\n")
    rows = []
    for number, line in enumerate(lines, start=2):
        cells = line.split("\t")
        where = f"in {path!r}, row {number}."
        if len(cells) < num_scores + 3:
            raise ValueError(
                f"Expected {num_scores + 3} or more columns. Received: "
                f"{len(cells)} {where}"
            )
        of_row = cells[2 : num_scores + 2]
        try:
            scores = tuple(float(score or "nan") for score in of_row)
        except ValueError:
            raise ValueError(
                f"Expected numbers in columns 3 to {num_scores + 2}. "
                f"Received: {', '.join(of_row)} {where}"
            ) from None
        texts = tuple(cells[num_scores + 2 :])
        rows.append(Row(cells[0], cells[1], scores, texts))
    return rows


# --- The worst rows ----------------------------------------------------------


def wrong_rows(
    rows: Sequence[Row], kind: str, labels: Sequence[str]
) -> list[WrongRow]:
    """The rows that a model has wrong, the worst first.

    Args:
      rows: Of one split.
      kind: Of the task, as `Task.description` has it.
      labels: Of the task.

    Returns:
      Of classes the most confident mistakes, by the probability that was given
      to what is wrong; of numbers all rows, by the distance; of tags the
      sentences with a wrong one, by the probability of the least sure word; of
      answers those that are none of the right ones, by how few of their words
      are right. Of other kinds of tasks nothing.
    """
    rate = _ERRORS.get(kind)
    if rate is None:
        return []
    rated = (WrongRow(row, rate(row, labels)) for row in rows)
    wrong = [found for found in rated if found.error > 0]
    return sorted(wrong, key=lambda found: -found.error)


def _error_of_class(row: Row, labels: Sequence[str]) -> float:
    return 0.0 if row.label == row.prediction else max(row.scores)


def _error_of_decisions(row: Row, labels: Sequence[str]) -> float:
    wrong = wrong_decisions(row, labels)
    return max((abs(is_right - p) for _, is_right, p in wrong), default=0.0)


def _error_of_number(row: Row, labels: Sequence[str]) -> float:
    return abs(float(row.prediction) - float(row.label))


def _error_of_tags(row: Row, labels: Sequence[str]) -> float:
    """Above 0 also for a sentence of which no word was seen."""
    is_right = all(
        predicted == label for label, predicted in tags_of_words(row)
    )
    return 0.0 if is_right else max(row.scores[0], 1e-9)


def _error_of_answer(row: Row, labels: Sequence[str]) -> float:
    given = _words_of_answer(row.prediction)
    return min(
        1.0 - _word_f1(given, _words_of_answer(answer))
        for answer in row.label.split(" | ")
    )


def _words_of_answer(text: str) -> collections.Counter:
    """Without case, punctuation and articles, as SQuAD's script has it."""
    words = text.lower().translate(_NO_PUNCTUATION).split()
    return collections.Counter(w for w in words if w not in _ARTICLES)


def _word_f1(first: collections.Counter, second: collections.Counter) -> float:
    if not first or not second:
        return float(first == second)
    return 2 * (first & second).total() / (first.total() + second.total())


_ERRORS: dict[str, Callable[[Row, Sequence[str]], float]] = {
    "classification": _error_of_class,
    "multi_label_classification": _error_of_decisions,
    "regression": _error_of_number,
    "tagging": _error_of_tags,
    "question_answering": _error_of_answer,
}


def decisions(row: Row, labels: Sequence[str]) -> list[tuple[str, bool, float]]:
    """Of each label whether the row has it, and its probability."""
    right = row.label.split(task_head.LABEL_SEPARATOR)
    return [
        (label, label in right, probability)
        for label, probability in zip(labels, row.scores, strict=True)
    ]


def wrong_decisions(
    row: Row, labels: Sequence[str]
) -> list[tuple[str, bool, float]]:
    """Those that the model has wrong."""
    predicted = row.prediction.split(task_head.LABEL_SEPARATOR)
    return [
        (label, has_label, probability)
        for label, has_label, probability in decisions(row, labels)
        if has_label != (label in predicted)
    ]


def tags_of_words(row: Row) -> list[tuple[str, str]]:
    """The right tag and the predicted one of each word."""
    predicted = (
        _OUTSIDE if tag == _UNSEEN else tag for tag in row.prediction.split(" ")
    )
    return list(zip(row.label.split(" "), predicted, strict=True))


# --- Calibration -------------------------------------------------------------


def calibration(
    rows: Sequence[Row], kind: str, labels: Sequence[str]
) -> Calibration | None:
    """How sure a model is against how often it is right.

    Args:
      rows: See `wrong_rows`, as are the others.
      kind: Of the task.
      labels: Of the task.

    Returns:
      Of classes it is about the predicted ones, of several labels a row about
      every label of every row; None for other tasks, and without rows.
    """
    if not rows or kind not in _SURENESS:
        return None
    right, sure = _SURENESS[kind](rows, labels)
    return _calibration_of(np.asarray(right, np.int32), np.asarray(sure))


def _of_predicted(rows, labels):
    right = [row.label == row.prediction for row in rows]
    return right, [max(row.scores) for row in rows]


def _of_decisions(rows, labels):
    every = [d for row in rows for d in decisions(row, labels)]
    return [has_label for _, has_label, _ in every], [p for *_, p in every]


_SURENESS = {
    "classification": _of_predicted,
    "multi_label_classification": _of_decisions,
}


def _calibration_of(right: np.ndarray, sure: np.ndarray) -> Calibration:
    """Ten bins of equal width, by scikit-learn.

    Args:
      right: <int>[N], 0 or 1.
      sure: <float>[N], probabilities.
    """
    # scikit-learn takes long to import, and few commands need it.
    from sklearn.calibration import calibration_curve

    shares, sureness = calibration_curve(right, sure, n_bins=_NUM_BINS)
    # Which it does not tell: a probability on an edge is in the lower bin.
    edges = np.linspace(0.0, 1.0, _NUM_BINS + 1)
    counts = np.bincount(np.searchsorted(edges[1:-1], sure))
    return Calibration(sureness, shares, counts[counts > 0])
