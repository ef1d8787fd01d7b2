"""A run's state <-> checkpoints on disk, the best one beside the last ones."""

import contextlib
import itertools
import math
import os
import re
import typing
from collections.abc import Sequence

import keras
import tensorflow as tf

from electra_tf import errors, model_directory
from electra_tf.files import read_json, write_json
from electra_tf.training import engine as engine_lib
from electra_tf.training import metrics_log, optimization, replicas


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
        slots = optimizer.slots().items()
        parts["optimizer"] = {name: slot.value for name, slot in slots}
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
            f"{errors.first_line(error)}"
        ) from None
    restored.expect_partial()


def checkpoint_state(folder: str):
    """What the file "checkpoint" of a folder says; None without one.

    Raises:
      CheckpointError: If it is damaged.
    """
    path = os.path.join(folder, "checkpoint")
    try:
        state = tf.train.get_checkpoint_state(folder)
        if state is None and os.path.isfile(path):
            raise ValueError("TensorFlow cannot parse it")
    except ValueError as error:  # Also of what is empty, or no text.
        raise errors.CheckpointError(
            f"Cannot read {path}, which names the last checkpoint: "
            f"{errors.first_line(error)}. A run that is started again without "
            "this file goes on from the newest checkpoint beside it"
        ) from None
    return state


def checkpoints_of(model_dir: str) -> list[str]:
    """Prefixes of a run's checkpoints, whole or not, the newest first.

    Those that the file "checkpoint" names, and those with an index, which is
    written last: data alone are what a run was killed over.
    """
    state = checkpoint_state(model_dir)
    named = state.all_model_checkpoint_paths if state else []
    pattern = os.path.join(model_dir, f"{model_directory.CHECKPOINT_NAME}-*")
    indexed = tf.io.gfile.glob(f"{pattern}.index")
    matches = (re.search(r"-(\d+)(\.index)?$", p) for p in (*named, *indexed))
    steps = {int(match[1]) for match in matches if match}
    return [f"{pattern[:-1]}{step}" for step in sorted(steps, reverse=True)]


def is_under_way(model_dir: str) -> bool:
    """Whether a run goes on there; if not, it begins.

    So it does where there is no checkpoint, and over one that is not whole and
    that the file "checkpoint", which comes after it, does not know: a run was
    killed over its first one.
    """
    prefixes = checkpoints_of(model_dir)
    if len(prefixes) == 1 and checkpoint_state(model_dir) is None:
        return is_whole(prefixes[0])
    return bool(prefixes)


def is_whole(prefix: str) -> bool:
    """Whether all of a checkpoint can be read, as its checksums say."""
    try:
        reader = tf.train.load_checkpoint(prefix)
        for name in reader.get_variable_to_shape_map():
            reader.get_tensor(name)
    # A file that ends too soon is an IndexError.
    except (tf.errors.OpError, RuntimeError, ValueError, IndexError):
        return False
    return True


class Checkpoints:
    """Saves and restores a run; the chief alone writes.

    Nothing of a checkpoint's name is there before all of it is written, and
    the file "checkpoint" names the last whole one.

    Args:
      engine: What is saved.
    """

    def __init__(self, engine: engine_lib.Engine):
        self.engine = engine
        self.run = engine.run
        self.is_chief = replicas.is_chief(engine.strategy)
        self.global_step = engine.global_step
        self.checkpoint = checkpointed_variables(
            *(engine.model, engine.optimizer),
            *(engine.global_step, engine.loss_scale),
        )
        # The folder is one of this machine, whosever the devices are.
        here = "/job:localhost" if replicas.has_other_host(self.run) else None
        self._at_once = tf.train.CheckpointOptions(here)
        # The state is copied before `save` returns, and "checkpoint" names a
        # checkpoint only once all of it is written, so what is restored is
        # the same as without.
        self._options = tf.train.CheckpointOptions(
            here,
            experimental_enable_async_checkpoint=self.run.async_checkpoints,
        )
        self._saved_step: int | None = None
        if self.is_chief:
            model_dir = self.run.model_dir
            best_dir = os.path.join(model_dir, model_directory.BEST_DIR)
            self._best_results = os.path.join(
                best_dir, model_directory.EVAL_RESULTS_FILE
            )
            checkpoint_state(best_dir)  # Refuses what is damaged.
            keep = self.run.keep_checkpoint_max or None
            self._manager, self._best_manager = (
                tf.train.CheckpointManager(
                    self.checkpoint,
                    folder,
                    max_to_keep=number,
                    checkpoint_name=model_directory.CHECKPOINT_NAME,
                )
                for folder, number in ((model_dir, keep), (best_dir, 1))
            )

    def restore(self) -> None:
        """Goes on from the newest checkpoint that is whole, if there is one.

        Raises:
          ConfigError: If there are some, but none is whole.
        """
        model_dir = self.run.model_dir
        prefixes = checkpoints_of(model_dir)
        damaged = list(itertools.takewhile(lambda p: not is_whole(p), prefixes))
        if damaged and self.is_chief:
            errors.warn(
                "passed over, as a part is missing or damaged: "
                + ", ".join(damaged)
            )
        if len(damaged) < len(prefixes):
            with self.engine.strategy.scope():
                self.checkpoint.restore(
                    prefixes[len(damaged)], self._at_once
                ).assert_existing_objects_matched()
            self._saved_step = int(self.global_step.numpy())
        elif is_under_way(model_dir):
            raise errors.ConfigError(
                f"None of the checkpoints in {model_dir} is whole. Choose "
                "another --model_dir, or move them away to train from the "
                "beginning"
            )

    def refuse_broken_weights(self) -> None:
        """Refuses weights that the last update has destroyed.

        The loss of a step is that of the weights before its update, so it does
        not tell.

        Raises:
          TrainingError: If one of them is no number.
        """
        for weight in self.engine.model.variables:
            if not keras.backend.is_float_dtype(weight.dtype):
                continue
            if not bool(tf.reduce_all(tf.math.is_finite(weight.value))):
                raise errors.TrainingError(
                    f"The update of step {int(self.global_step.numpy())} left "
                    f"NaN or infinity in {weight.path}; nothing was saved "
                    "after it. Try a lower OptimizerConfig.learning_rate or a "
                    "longer warm-up"
                )

    def save(self) -> None:
        """Saves the state of the current step, once.

        Raises:
          TrainingError: If it cannot be written, or its weights are broken.
        """
        self.refuse_broken_weights()
        step = int(self.global_step.numpy())
        if self.is_chief and step != self._saved_step:
            self._write(self._manager, step)
            self._saved_step = step

    def save_best(self, metrics: dict[str, float]) -> None:
        """Saves the state beside the others, with the metrics it reached.

        Of the chief.

        Raises:
          TrainingError: As `save`, or if it cannot be read back.
        """
        step = int(self.global_step.numpy())
        # No kill leaves the metrics of other weights.
        with contextlib.suppress(FileNotFoundError):
            os.remove(self._best_results)
        self._write(self._best_manager, step)
        self._best_manager.sync()
        self._read_back(self._best_manager, step)
        write_json(self._best_results, {"step": step} | metrics)

    def is_best(self, metric: str, value: float) -> bool:
        """Whether a value of now is better than that of the state in best/.

        Of two that are equal the earlier step is the best: a run that goes on
        keeps what it would have kept. What is damaged is no evaluation.
        """
        kept = {}
        with contextlib.suppress(errors.CheckpointError):
            kept = read_json(self._best_results, ("step",), step=int)
        other = kept.get(metric, math.nan)
        is_earlier = int(self.global_step.numpy()) < kept.get("step", 0)
        return metrics_log.is_better(metric, value, other) or (
            is_earlier and value == other
        )

    def finish(self) -> None:
        """Waits for what is being written."""
        if self.is_chief:
            self._manager.sync()

    def check_saved(self) -> None:
        """Makes sure that the last state is on disk, after `finish`.

        Errors of writing in the background are not told otherwise.

        Raises:
          TrainingError: If it is not.
        """
        if self.is_chief and self._saved_step is not None:
            self._read_back(self._manager, self._saved_step)

    def _write(self, manager: tf.train.CheckpointManager, step: int) -> None:
        try:
            manager.save(checkpoint_number=step, options=self._options)
        except (tf.errors.OpError, OSError) as error:
            raise errors.TrainingError(
                f"Cannot save step {step} in {manager.directory}: "
                f"{errors.first_line(error)}"
            ) from None

    def _read_back(self, manager: tf.train.CheckpointManager, step: int):
        name = f"{model_directory.CHECKPOINT_NAME}-{step}"
        prefix = os.path.join(manager.directory, name)
        if not is_whole(prefix):
            # Once more: it tells what went wrong in the background.
            self._write(manager, step)
            manager.sync()
        if not is_whole(prefix):
            raise errors.TrainingError(
                f"Step {step} was not saved: {prefix} cannot be read back. "
                "Run again to go on from the last whole checkpoint"
            )
