"""Task models whose outputs are labels: names for them, and the head to make.

Shapes: N rows, C labels.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from electra_tf import configs, errors
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.keras_models import labels as labels_lib
from electra_tf.keras_models.task_model import TaskModel
from electra_tf.model import task_head
from electra_tf.tasks import text_tasks


class LabelledModel(TaskModel):
    """A task model with labels.

    Args:
      encoder: See `TaskModel`.
      head: With the labels, or how many outputs there are.
      preprocessor: See `TaskModel`.
      **kwargs: See `TaskModel`.
    """

    head_arguments: tuple[str, ...] = ("labels",)

    def __init__(
        self,
        encoder,
        head: task_head.TaskHead | Mapping,
        preprocessor,
        **kwargs,
    ):
        super().__init__(encoder, head, preprocessor, **kwargs)
        self._labels = labels_lib.Labels(
            self.head.labels
            or [str(i) for i in range(self.head.num_outputs or 0)]
        )

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the labels, in the order of the outputs."""
        return self._labels.names

    @classmethod
    def from_checkpoint(
        cls, path, labels: Sequence | int | None = None, **kwargs
    ):
        """Begins with a pre-trained, or a fine-tuned, checkpoint.

        The head of a fine-tuned one is kept if `labels` is None or the same.

        Args:
          path: See `TaskModel.from_checkpoint`.
          labels: See the class.
          **kwargs: What else the class has, or see
            `TaskModel.from_checkpoint`.
        """
        return super().from_checkpoint(path, labels=labels, **kwargs)

    from_preset = from_checkpoint

    @classmethod
    def new_head(cls, labels: Sequence | int, **options) -> task_head.TaskHead:
        """A head for labels.

        Args:
          labels: See the class.
          **options: Of the class.

        Raises:
          ValueError: If they are no labels.
        """
        raise NotImplementedError

    @classmethod
    def check_order(
        cls, theirs: Sequence[str], ours: Sequence[str], source: str
    ) -> None:
        """Where the order of a head's labels is asked for, refuses another."""

    @classmethod
    def head_for(cls, checkpoint: Checkpoint, source, labels=None, **options):
        found = cls.kept(checkpoint, **options)
        pooling = options.get("pooling")
        if found is not None and pooling not in (None, found.pooling):
            has = f"pooling={found.pooling!r}"
            if labels is None:
                raise errors.CheckpointError(
                    "Expected labels=[...] for a new head, as that of "
                    f"{source} has {has}. Received: labels=None and "
                    f"pooling={pooling!r}"
                )
            new = cls.new_head(labels, **options)
            errors.warn(
                f"A new head with pooling={pooling!r}: that of {source} has "
                f"{has}"
            )
            return new, False
        if labels is None:
            if found is None:
                head = checkpoint.head
                has = (
                    f"a head for {head.kind}" if head else "no fine-tuned head"
                )
                raise errors.CheckpointError(
                    f"Expected labels=[...] for a new head, as {source} has "
                    f"{has}. Received: labels=None"
                )
            return found, True
        if found is None:
            return cls.new_head(labels, **options), False
        ours, theirs = labels_lib.names(labels, least=1), found.labels
        if theirs in (None, ours) and len(ours) == found.num_outputs:
            return dataclasses.replace(found, labels=ours), True
        cls.check_order(theirs or (), ours, source)
        if found.pooling != configs.DEFAULT_POOLING:
            options["pooling"] = found.pooling
        errors.warn(
            f"A new head for the labels {text_tasks.listing(ours)}: that of "
            f"{source} is for "
            + (text_tasks.listing(theirs) if theirs else "others")
        )
        return cls.new_head(ours, **options), False

    def check_predictions(self, predictions, *axes: str) -> np.ndarray:
        """What `decode_predictions` was given, as an array.

        Args:
          predictions: <float>[..., C].
          *axes: What the message calls those before C.

        Raises:
          ValueError: If the shape is another, or a number not finite.
        """
        predictions = np.asarray(predictions)
        shape, num_labels = predictions.shape, len(self.labels)
        if len(shape) != len(axes) + 1 or shape[-1] != num_labels:
            raise ValueError(
                f"Expected predictions of {num_labels} labels, "
                f"[{', '.join(axes)}, {num_labels}]. Received: shape {shape}"
            )
        rows, *_ = np.nonzero(~np.isfinite(predictions))
        if rows.size:
            raise ValueError(
                "Expected predictions that are finite. Received: "
                f"{predictions[rows[0]]} in row {rows[0]}"
            )
        return predictions
