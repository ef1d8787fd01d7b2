"""A run's state <-> checkpoints on disk, the best one beside the last ones."""

import json
import os
import typing
from collections.abc import Sequence

import keras
import tensorflow as tf

from electra_tf import errors, model_directory
from electra_tf.files import write_atomically
from electra_tf.training import engine as engine_lib
from electra_tf.training import optimization, replicas


def checkpointed_variables(
    model: keras.Model,
    optimizer: optimization.AdamWeightDecay | None = None,
    global_step: tf.Variable | None = None,
    loss_scale: optimization.LossScale | None = None,
) -> tf.train.Checkpoint:
    """A checkpoint with every variable under its path.

    `tf.train.Checkpoint(model=model)` drops layers that a Keras 3 model holds
    in lists, without an error; a flat map cannot.
    """
    parts: dict[str, typing.Any] = {
        "model": {v.path: v.value for v in model.variables}
    }
    if optimizer is not None:
        parts["optimizer"] = {
            name: slot.value for name, slot in optimizer.slots().items()
        }
        parts["iterations"] = optimizer.iterations.value
    if global_step is not None:
        parts["global_step"] = global_step
    if loss_scale is not None:
        parts["loss_scale"] = loss_scale.variables
    return tf.train.Checkpoint(**parts)


def restore_variables(
    variables: Sequence[keras.Variable], checkpoint: str, what: str
) -> None:
    """Reads variables from a checkpoint of `checkpointed_variables`.

    Args:
      variables: Some or all of a model's.
      checkpoint: Prefix.
      what: Named in the error.

    Raises:
      ConfigError: If one is missing there or has another shape.
    """
    try:
        restored = tf.train.Checkpoint(
            model={v.path: v.value for v in variables}
        ).read(checkpoint)
        restored.assert_existing_objects_matched()
    except (AssertionError, ValueError) as error:
        raise errors.ConfigError(
            f"Expected all weights of {what} in {checkpoint}: "
            f"{str(error).splitlines()[0]}"
        ) from None
    restored.expect_partial()


class Checkpoints:
    """Saves and restores a run; the chief alone writes.

    Nothing of a checkpoint's name is there before all of it is written, and
    the file "checkpoint" names the last whole one.

    Args:
      engine: What is saved.
    """

    def __init__(self, engine: engine_lib.Engine):
        self.run = engine.run
        self.is_chief = replicas.is_chief(engine.strategy)
        self.strategy = engine.strategy
        self.global_step = engine.global_step
        self.checkpoint = checkpointed_variables(
            engine.model,
            engine.optimizer,
            engine.global_step,
            engine.loss_scale,
        )
        # The state is copied before `save` returns, and "checkpoint" names a
        # checkpoint only once all of it is written, so what is restored is
        # the same as without.
        self._options = tf.train.CheckpointOptions(
            experimental_enable_async_checkpoint=self.run.async_checkpoints
        )
        self._saved_step: int | None = None
        if self.is_chief:
            self._manager = tf.train.CheckpointManager(
                self.checkpoint,
                self.run.model_dir,
                max_to_keep=self.run.keep_checkpoint_max,
                checkpoint_name=model_directory.CHECKPOINT_NAME,
            )
            self._best_manager = tf.train.CheckpointManager(
                self.checkpoint,
                os.path.join(self.run.model_dir, model_directory.BEST_DIR),
                max_to_keep=1,
                checkpoint_name=model_directory.CHECKPOINT_NAME,
            )

    def restore(self) -> None:
        """Goes on from the last checkpoint, if there is one."""
        path = tf.train.latest_checkpoint(self.run.model_dir)
        if path:
            with self.strategy.scope():
                self.checkpoint.restore(path).assert_existing_objects_matched()
            self._saved_step = int(self.global_step.numpy())

    def save(self) -> None:
        """Saves the state of the current step, once."""
        step = int(self.global_step.numpy())
        if self.is_chief and step != self._saved_step:
            self._manager.save(checkpoint_number=step, options=self._options)
            self._saved_step = step

    def save_best(self, metrics: dict[str, float]) -> None:
        """Saves the state beside the others, with the metrics it reached."""
        if self.is_chief:
            step = int(self.global_step.numpy())
            self._best_manager.save(
                checkpoint_number=step, options=self._options
            )
            self._best_manager.sync()
            write_atomically(
                os.path.join(
                    self._best_manager.directory,
                    model_directory.EVAL_RESULTS_FILE,
                ),
                json.dumps({"step": step} | metrics, indent=1) + "\n",
            )

    def finish(self) -> None:
        """Waits for what is being written."""
        if self.is_chief:
            self._manager.sync()
