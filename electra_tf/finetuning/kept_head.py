"""The head of a fine-tuned checkpoint, to go on with."""

import numpy as np

from electra_tf import configs
from electra_tf.checkpoint_conversion import task_heads
from electra_tf.checkpoint_conversion.checkpoint import Checkpoint
from electra_tf.finetuning.task import Task

# Kinds whose labels are a list in the task.
_WITH_LABELS = ("classification", "multi_label_classification", "tagging")


def adopt(checkpoint: Checkpoint, task: Task, source: str) -> None:
    """Makes a task's labels those of the head of a checkpoint.

    The rows at hand may have fewer labels than the head, not more.

    Args:
      checkpoint: With a fine-tuned head.
      task: Its `labels` become the head's, in the head's order.
      source: Path of the checkpoint, for error messages.

    Raises:
      ConfigError: If there is no head, it is of another kind, or it lacks a
        label.
    """
    head = checkpoint.head
    kind = task.description().get("kind")
    if head is None or head.kind != kind:
        raise configs.ConfigError(
            f"FinetuningConfig.keep_head needs a checkpoint with a head for "
            f"{kind}. Received: {source}, with "
            + (f"one for {head.kind}" if head else "no fine-tuned head")
        )
    if kind not in _WITH_LABELS:
        return
    labels = list(task.labels)  # type: ignore[attr-defined]
    num_outputs = head.num_outputs or len(head.labels or ())
    if head.labels is None:
        if len(labels) != num_outputs:
            raise configs.ConfigError(
                f"Expected {num_outputs} labels, as many as the head of "
                f"{source} has. Received: {len(labels)}, {_listing(labels)}"
            )
        return
    unknown = [label for label in labels if label not in head.labels]
    if unknown:
        raise configs.ConfigError(
            f"Expected the labels of the head of {source}, "
            f"{_listing(head.labels)}. Received: {len(labels)} labels, with "
            f"{_listing(unknown)} among them; without "
            "FinetuningConfig.keep_head a new head is trained"
        )
    task.labels = list(head.labels)  # type: ignore[attr-defined]


def _listing(labels) -> str:
    shown = ", ".join(repr(label) for label in labels[:10])
    return shown + (", ..." if len(labels) > 10 else "")


def tensors(checkpoint: Checkpoint, task_name: str) -> dict[str, np.ndarray]:
    """The head's weights, under the names that they have in a task's scope."""
    assert checkpoint.head is not None
    found = task_heads.head_tensors(
        checkpoint.tensors, checkpoint.head.task_name
    )
    return {
        f"task_specific/{task_name}/{name}": tensor
        for name, tensor in found.items()
    }
