"""Classes that count for more in training, where some have few rows."""

import dataclasses
from collections.abc import Mapping

from electra_tf.finetuning.task_data import TaskData


def apply(data: TaskData, class_weights: str | Mapping[str, float]) -> TaskData:
    """The rows of a task, those of training with their weights.

    Scores and losses of other splits are those of rows that all count alike.

    Args:
      data: The task with its rows.
      class_weights: See `Task.loss_weights`.

    Raises:
      ValueError: If the task has no classes, or lacks a label.
    """
    weights, _ = data.task.loss_weights(data.examples["train"], class_weights)
    train = {
        **data.features["train"],
        f"{data.task.name}_loss_weights": weights,
    }
    return dataclasses.replace(data, features={**data.features, "train": train})


def about(
    data: TaskData, class_weights: str | Mapping[str, float]
) -> dict[str, float]:
    """Label -> weight over all training rows.

    With folds each model's weights come from its own rows, and differ a little.
    """
    return data.task.loss_weights(data.examples["train"], class_weights)[1]


def remark(data: TaskData, weights: Mapping[str, float]) -> str:
    """What the classes weigh, a line for the log."""
    # The rarest first.
    shown = sorted(weights.items(), key=lambda pair: -pair[1])
    listed = ", ".join(f"{label!r} {of:.4g}" for label, of in shown[:10])
    more = f" and {len(shown) - 10} more" if len(shown) > 10 else ""
    return f"{data.task.name}: class weights in training: {listed}{more}"
