"""The original's optimizer in Keras's `fit`, and data in step with it."""

import dataclasses
import typing
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from electra_tf import configs, errors
from electra_tf.training import optimization, replicas
from electra_tf.training.numpy_functions import numpy_function


def asked_config(
    optimizer: typing.Any,
    learning_rate: float | None,
    num_train_steps: int | None,
    default: configs.OptimizerConfig,
) -> configs.OptimizerConfig | None:
    """The paper's optimizer that `compile` was asked for; None for another."""
    if optimizer == "auto":
        optimizer = default
    if not isinstance(optimizer, configs.OptimizerConfig):
        if learning_rate is not None or num_train_steps is not None:
            raise ValueError(
                "Expected learning_rate and num_train_steps with 'auto' or an "
                "OptimizerConfig; an optimizer brings its own. Received: "
                f"optimizer={optimizer!r}, learning_rate={learning_rate}, "
                f"num_train_steps={num_train_steps}"
            )
        return None
    if learning_rate is None:
        return optimizer
    return dataclasses.replace(optimizer, learning_rate=float(learning_rate))


def warn_of_the_end(
    optimizer: typing.Any, num_steps: int | None, callbacks: typing.Any = None
) -> None:
    """Warns of steps that learn nothing, as they are behind the schedule's end.

    Nothing is said where a callback may go on within them.
    """
    is_resumed = any(
        isinstance(callback, keras.callbacks.BackupAndRestore)
        for callback in keras.tree.flatten(callbacks or [])
    )
    is_ours = isinstance(optimizer, optimization.AdamWeightDecay)
    if not is_ours or is_resumed or num_steps == 0:
        return
    end = optimizer.schedule.num_train_steps
    behind = int(optimizer.iterations.numpy()) + (num_steps or 1) - end
    if behind > 0:
        which = f"{min(behind, num_steps)} of {num_steps} " if num_steps else ""
        errors.warn(
            f"{which}steps to come learn nothing: the learning rate is 0 from "
            f"step {end} on, where compile(num_train_steps=...) or the first "
            "fit let it end; compile again to begin anew"
        )


def refuse_passed_over(model: keras.Model, base: type, step: str) -> None:
    """Refuses a subclass whose `call` or `compute_loss` no step would call."""
    for name in ("call", "compute_loss"):
        if getattr(type(model), name) is not getattr(base, name):
            raise ValueError(
                f"Expected {step} in {type(model).__name__} beside {name}: "
                "that of its base takes the loss of the network. Received: "
                f"{name} alone"
            )


def steps_taken(optimizer: keras.optimizers.Optimizer) -> keras.Variable:
    """Counts the batches whose gradients an optimizer has taken.

    `iterations` counts updates, of which each may be made of several batches.
    Steps that float16 skips are in neither.
    """
    return getattr(optimizer, "inner_optimizer", optimizer)._iterations


class Start(keras.callbacks.Callback):
    """Notes with which step a training begins, for the data to go on with it.

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
        """Batches from the step <int64>[] with which the training begins."""

        @tf.autograph.experimental.do_not_convert
        def begin(_):
            return batches_from(
                numpy_function(lambda: self.first_step, [], tf.int64)
            )

        one = tf.data.Dataset.range(1)
        return one.flat_map(begin).with_options(replicas.UNTUNED)


def directed(metric: keras.metrics.Metric) -> typing.Any:
    """The metric with the direction of its name, which callbacks ask for."""
    if not metric.name.endswith(("rate", "norm", "scale")):
        is_error = any(x in metric.name for x in ("loss", "error", "mse"))
        metric._direction = "down" if is_error else "up"
    return metric


@keras.saving.register_keras_serializable(package="electra_tf")
class FinetuningOptimizer(optimization.AdamWeightDecay):
    """AdamWeightDecay with the layer-wise rates of fine-tuning.

    Args:
      config: With all rates.
      num_hidden_layers: Of the encoder below the head.
      num_train_steps: Where the rate reaches 0. None for the end of every
        `fit`, which then begins anew: see `begin`.
    """

    def __init__(
        self,
        config: configs.OptimizerConfig,
        num_hidden_layers: int,
        num_train_steps: int | None = None,
    ):
        # Until `begin` says how many: fewer than the decay are refused.
        least = max(1, config.num_decay_steps)
        super().__init__(config, num_train_steps or least)
        self.num_hidden_layers = num_hidden_layers
        self.num_train_steps = num_train_steps

    def build(self, variables):
        """Creates the slots, and looks up the rates of the layers.

        Raises:
          ValueError: If it has some for other variables, or there are none.
        """
        known = {v.path for v in self._trainable_variables}
        if not variables or self.built and known != {v.path for v in variables}:
            raise ValueError(
                "Expected variables to train, and compile after a change of "
                f"what learns. Received: {len(variables)} variables to train, "
                f"and an optimizer of {len(known)}"
            )
        if not self.built:
            self.scales = optimization.layerwise_scales(
                variables, self.num_hidden_layers, self.config
            )
            super().build(variables)

    def begin(self, num_train_steps: int) -> None:
        """Begins a training of some steps, as if nothing had been learned.

        Args:
          num_train_steps: Where the rate reaches 0.
        """
        optimization.warn_of_schedule(self.config, num_train_steps)
        self.schedule.num_train_steps = num_train_steps
        self.schedule.num_warmup_steps = self.config.warmup_steps(
            num_train_steps
        )
        self.schedule.num_decay_steps = self.config.decay_steps(num_train_steps)
        for variable in self.variables:
            variable.assign(keras.ops.zeros_like(variable))

    def get_config(self):
        return {
            "config": dataclasses.asdict(self.config),
            "num_hidden_layers": self.num_hidden_layers,
            "num_train_steps": self.num_train_steps,
        }
