"""Cross-validation: the training rows, cut into parts."""

import typing
from collections.abc import Sequence

import numpy as np

from electra_tf import configs
from electra_tf.finetuning.preparation import TaskData, take_rows


class Fold(typing.NamedTuple):
    """Row numbers of the training set.

    Attributes:
      train: <int>[M], to train on.
      heldout: <int>[N - M], to score.
    """

    train: np.ndarray
    heldout: np.ndarray


def split(data: TaskData, num_folds: int, seed: int) -> list[Fold]:
    """Cuts the training rows into parts of equal size.

    With one label for each row, every part has the same share of each label.

    Args:
      data: With the split "train", a row of features for each example.
      num_folds: Number of parts.
      seed: Of the order.

    Returns:
      One fold for each part.

    Raises:
      ConfigError: If a label, or the set, has fewer rows than there are parts.
    """
    from sklearn import model_selection

    examples = data.examples["train"]
    labels: Sequence = [0] * len(examples)
    cut: typing.Any = model_selection.KFold
    if data.task.description().get("kind") == "classification":
        labels = [example.label for example in examples]
        cut = model_selection.StratifiedKFold
    rarest, count = min(
        ((label, labels.count(label)) for label in sorted(set(labels))),
        key=lambda pair: pair[1],
    )
    if count < num_folds:
        what = f"rows of the label {rarest!r}" if rarest != 0 else "rows"
        raise configs.ConfigError(
            "FinetuningDataConfig.folds must not exceed the rows of the "
            f"rarest label in training. Received: folds={num_folds}, but only "
            f"{count} {what}"
        )
    folds = cut(num_folds, shuffle=True, random_state=seed)
    return [Fold(*rows) for rows in folds.split(np.zeros(len(labels)), labels)]


def of_fold(data: TaskData, fold: Fold) -> TaskData:
    """The set of one fold: "dev" is what it leaves out of training."""
    rows_of = {"train": fold.train, "dev": fold.heldout}
    examples = {
        name: [data.examples["train"][row] for row in rows]
        for name, rows in rows_of.items()
    }
    features = {
        name: take_rows(data.features["train"], rows)
        for name, rows in rows_of.items()
    }
    for name in data.examples:
        if name not in rows_of:
            examples[name] = list(data.examples[name])
            features[name] = data.features[name]
    return TaskData(data.task, examples, features, data.labelled | {"dev"})
