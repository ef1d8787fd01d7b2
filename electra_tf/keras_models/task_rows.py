"""What the models of all tasks say of their rows, for `text_pipeline`.

Shapes: N rows.
"""

import typing

import numpy as np
import tensorflow as tf

from electra_tf.keras_models.engine_model import EngineModel
from electra_tf.model.windows import Windows
from electra_tf.tasks.features import Features


class TaskRows(EngineModel):
    """A model of a task: what its texts and labels are."""

    preprocessor: typing.Any
    # The head's features that `fit` learns from.
    target_names: tuple[str, ...]
    # And those that are of no use to a network.
    bookkeeping: tuple[str, ...] = ()

    @property
    def target_rank(self) -> int:
        """Axes of the labels; with several for a row they are two."""
        return 1

    @property
    def windows(self) -> Windows | None:
        """How longer texts are read; None for the cut."""
        raise NotImplementedError

    @property
    def has_pairs(self) -> bool | None:
        """Whether the inputs are pairs; None where nothing has said so yet."""
        raise NotImplementedError

    def read_inputs(self, x, name: str = "x"):
        """Checks what the user calls x.

        Raises:
          ValueError: If it is not what the task reads.
        """
        raise NotImplementedError

    def features(self, inputs, y, name: str = "y") -> Features:
        """What the model reads of inputs, and the labels where there are any.

        Args:
          inputs: Of `read_inputs`.
          y: Labels, or None.
          name: Of y, for the errors.

        Returns:
          <...>[N, ...]; names of the task's own begin with the task's.
        """
        raise NotImplementedError

    def graph_example(self, x, y):
        """Features of a batch of a dataset, and the labels if there are any."""
        targets = None if y is None else self.graph_targets(y)
        return self.graph_inputs(x), targets

    def graph_inputs(self, x) -> dict[str, tf.Tensor]:
        """Features of a batch of a dataset, in the graph; without labels."""
        raise NotImplementedError

    def graph_targets(self, y):
        """The labels of a batch of a dataset, as numbers."""
        raise NotImplementedError

    def weights_of_classes(self, class_weight, targets) -> np.ndarray:
        """Keras's `class_weight` for each row, <float32>[N].

        Args:
          class_weight: Label -> weight, or "balanced".
          targets: The labels as numbers, [N].
        """
        raise ValueError(
            "Expected class_weight with a TextClassifier. Received: "
            f"class_weight={class_weight!r} of a {type(self).__name__}."
        )

    def graph_weights_of_classes(self, class_weight, targets) -> tf.Tensor:
        """The same of a batch of a dataset."""
        return tf.convert_to_tensor(
            self.weights_of_classes(class_weight, targets)
        )

    def rows_of_features(self, features: Features, inputs) -> np.ndarray:
        """Whose row of inputs each row of features is, <int>[rows]."""
        return np.arange(len(features["input_ids"]))

    def num_batches(self, rows, dataset) -> int | None:
        """Batches of a dataset; None where it does not say.

        Args:
          rows: What the user gave.
          dataset: What became of it.
        """
        del rows
        cardinality = getattr(dataset, "cardinality", lambda: -2)()
        return int(cardinality) if cardinality >= 0 else None

    @property
    def num_label_values(self) -> int | None:
        """See `token_ids.check_labels`; None where labels are quantities, or
        some of their numbers stand for no label."""
        return None

    def refuse_other_inputs(self, has_pairs: bool, name: str) -> None:
        """Refuses pairs for a model of texts, and texts for one of pairs."""
        if self.has_pairs in (None, has_pairs):
            return
        raise ValueError(
            f"Expected {'pairs of texts' if self.has_pairs else 'texts'} as "
            f"{name}, as the model was trained on. Received: "
            f"{'pairs of texts' if has_pairs else 'texts'}"
        )

    def note_pairs(self, has_pairs: bool, names: list | None = None) -> None:
        """Texts or pairs, with these names of columns, are read from now on."""

    def note_targets(self, features: Features | None) -> None:
        """What labels tell of the task; None of a dataset's, not yet read."""
