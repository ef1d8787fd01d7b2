"""The original's optimizer, as Keras's `fit` takes it."""

import dataclasses
import math
import typing
from collections.abc import Mapping

import keras

from electra_tf import configs, errors
from electra_tf.keras_models import resuming
from electra_tf.training import optimization


def peak_rate(learning_rate: typing.Any) -> float:
    """What `compile` takes as the greatest rate of the paper's schedule.

    Raises:
      ValueError: If it is no such number.
    """
    try:
        rate = float(learning_rate)
    except (TypeError, ValueError):
        rate = math.nan
    if 0.0 < rate < math.inf:
        return rate
    raise ValueError(
        "Expected learning_rate as a number above 0, the peak of the paper's "
        "schedule; another schedule belongs to an optimizer of Keras. "
        f"Received: learning_rate={learning_rate!r}"
    )


def refuse_schedule(
    optimizer: typing.Any,
    learning_rate: float | None,
    num_train_steps: int | None,
) -> None:
    """Refuses what `compile` tells of a schedule beside an optimizer.

    Args:
      optimizer: What `compile` got, which is made already.
      learning_rate: Of `compile`.
      num_train_steps: Of `compile`.

    Raises:
      ValueError: If any of the two is given.
    """
    if learning_rate is not None or num_train_steps is not None:
        raise ValueError(
            "Expected learning_rate and num_train_steps with 'auto' or an "
            "OptimizerConfig; an optimizer brings its own. Received: "
            f"optimizer={optimizer!r}, learning_rate={learning_rate}, "
            f"num_train_steps={num_train_steps}"
        )


def warn_of_the_end(
    optimizer: typing.Any, num_steps: int | None, callbacks: typing.Any = None
) -> None:
    """Warns of steps that learn nothing, as they are behind the schedule's end.

    Args:
      optimizer: The paper's, or another one, of which nothing is said.
      num_steps: That are to come; None if nobody knows.
      callbacks: Of `fit`; with one that may go on within these steps nothing
        is said either.
    """
    is_ours = isinstance(optimizer, optimization.AdamWeightDecay)
    has_steps = num_steps is None or num_steps > 0
    if not (is_ours and has_steps) or resuming.is_resumed(callbacks):
        return
    end = optimizer.schedule.num_train_steps
    behind = int(optimizer.iterations.numpy()) + (num_steps or 1) - end
    if behind > 0:
        which = (
            "steps to come"
            if num_steps is None
            else f"{min(behind, num_steps)} of {num_steps} steps to come"
        )
        errors.warn(
            f"{which} learn nothing: the learning rate is 0 from step {end} "
            "on, where compile(num_train_steps=...) or the first fit let it "
            "end; compile again to begin anew"
        )


@keras.saving.register_keras_serializable(package="electra_tf")
class FinetuningOptimizer(optimization.AdamWeightDecay):
    """AdamWeightDecay with the layer-wise rates of fine-tuning.

    Args:
      config: With all rates, or what JSON keeps of one.
      num_hidden_layers: Of the encoder below the head.
      num_train_steps: Where the rate reaches 0. None for the end of every
        `fit`, which then begins anew: see `begin`.
    """

    def __init__(
        self,
        config: configs.OptimizerConfig | Mapping,
        num_hidden_layers: int,
        num_train_steps: int | None = None,
    ):
        if not isinstance(config, configs.OptimizerConfig):
            config = configs.OptimizerConfig(**config)
        # Until `begin` says how many: fewer than the decay are refused.
        least = max(1, config.num_decay_steps)
        super().__init__(config, num_train_steps or least)
        self.num_hidden_layers = num_hidden_layers
        self.num_train_steps = num_train_steps

    def build(self, variables):
        """Creates the slots, and looks up the rates of the layers.

        Raises:
          ValueError: If it has some for other variables.
        """
        if self.built:
            ours = {v.path for v in self._trainable_variables}
            if ours != {v.path for v in variables}:
                raise ValueError(
                    "Expected compile after a change of what learns. Received: "
                    f"{len(variables)} variables to train, and an optimizer "
                    f"of {len(ours)}"
                )
            return
        if not variables:
            raise ValueError(
                "Expected something that learns. Received: no variables to "
                "train, as trainable is False of all of the model; of the "
                "encoder alone it is encoder.trainable"
            )
        self.scales = optimization.layerwise_scales(
            variables, self.num_hidden_layers, self.config
        )
        super().build(variables)

    def begin(self, num_train_steps: int) -> None:
        """Begins a training of some steps, as if nothing had been learned.

        Args:
          num_train_steps: Where the rate reaches 0.
        """
        for line in optimization.schedule_remarks(self.config, num_train_steps):
            errors.warn(line)
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

    @classmethod
    def from_config(cls, config, custom_objects=None):
        del custom_objects
        return cls(**config)
