"""Data that go on with the step at which Keras's callbacks go on."""

import typing
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from electra_tf.training import replicas
from electra_tf.training.numpy_functions import numpy_function


def steps_taken(optimizer: keras.optimizers.Optimizer) -> keras.Variable:
    """Counts the batches whose gradients an optimizer has taken.

    `iterations` counts updates, of which each may be made of several batches.
    Steps that float16 skips are in neither.
    """
    return getattr(optimizer, "inner_optimizer", optimizer)._iterations


def is_resumed(callbacks: typing.Any) -> bool:
    """Whether a training may go on within the steps that `fit` is told."""
    return any(
        isinstance(callback, keras.callbacks.BackupAndRestore)
        for callback in keras.tree.flatten(callbacks or [])
    )


class Start(keras.callbacks.Callback):
    """Notes with which step a training begins.

    It stands behind the user's callbacks: `BackupAndRestore` tells the step
    when the training begins, long after the dataset was made.

    Args:
      iterations: `steps_taken` at step 0 of the data; below 0 where the data
        were begun before the optimizer was.
    """

    def __init__(self, iterations: int = 0):
        super().__init__()
        self._before = iterations
        self.first_step = np.int64(0)

    def on_train_begin(self, logs=None):
        now = int(steps_taken(self.model.optimizer).numpy())
        self.first_step = np.int64(now - self._before)

    def dataset(
        self, batches_from: Callable[[tf.Tensor], tf.data.Dataset]
    ) -> tf.data.Dataset:
        """Batches from the step with which the training begins.

        Args:
          batches_from: From a step <int64>[] to the batches from there on.
        """

        def begin(_):
            return batches_from(
                numpy_function(lambda: self.first_step, [], tf.int64)
            )

        one = tf.data.Dataset.range(1)
        return one.flat_map(begin).with_options(replicas.UNTUNED)
