"""The original's optimizer: Adam without bias correction, decoupled decay."""

import collections
import dataclasses
import re
import typing
from collections.abc import Iterable, Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from electra_tf import configs, errors
from electra_tf.model import encoder, kernels
from electra_tf.training import replicas

# Variables whose name matches one of these are not decayed (the original's
# exclude_from_weight_decay).
NOT_DECAYED = re.compile(r"LayerNorm|layer_norm|bias")

# Variables of this many numbers are updated in one pass over memory; compiling
# that for each of the small shapes would take longer than it saves. Those go
# together: one by one they would be more than a fifth of the operations in the
# graph of a step.
_LARGE = 50_000


class _Kind(typing.NamedTuple):
    """How a variable is updated."""

    scale: float  # Share of the learning rate.
    is_decayed: bool
    is_large: bool  # It is updated by itself, in one pass.


@dataclasses.dataclass(eq=False)
class WarmupPolynomialDecay(keras.optimizers.schedules.LearningRateSchedule):
    """Polynomial decay to 0, times a linear warm-up.

    The rate of an update is that of the step count before it, so the first
    update under warm-up has rate 0 (the original's create_optimizer).

    Args:
      learning_rate: Peak rate.
      num_train_steps: Where the decay reaches 0.
      num_warmup_steps: Length of the warm-up; 0 for none.
      lr_decay_power: Power of the decay.
      num_decay_steps: Length of the decay, before which the rate is the peak
        (arXiv:2404.06395, section 4); None for all steps, as the original's.
    """

    learning_rate: float
    num_train_steps: int
    num_warmup_steps: float
    lr_decay_power: float = 1.0
    num_decay_steps: float | None = None

    def __call__(self, step):
        """The rate <float32>[] at a step count <int>[]."""
        step = tf.cast(step, tf.float32)
        if self.num_decay_steps is None:
            decayed = tf.minimum(step / self.num_train_steps, 1.0)
        else:
            first = self.num_train_steps - self.num_decay_steps
            decayed = tf.clip_by_value(
                (step - first) / self.num_decay_steps, 0.0, 1.0
            )
        rate = self.learning_rate * (1.0 - decayed) ** self.lr_decay_power
        if self.num_warmup_steps:
            rate *= tf.minimum(1.0, step / self.num_warmup_steps)
        return rate

    def get_config(self):
        return dict(vars(self))


def layerwise_scale(
    path: str,
    num_hidden_layers: int,
    decay: float,
    top_layer_scaled: bool = True,
) -> float:
    """Share of the learning rate that one variable gets in fine-tuning.

    decay^(layers + 2 - depth), with depth 0 for embeddings and their
    projection, i + 1 for transformer layer i and layers + 2 for a task's head
    (the original's _get_layer_lrs). So even the top layer is scaled by decay
    squared, one power more than the text of the paper suggests.

    Args:
      path: The variable's name.
      num_hidden_layers: Transformer layers.
      decay: Factor per layer; 1, and 0 or less, for no scaling.
      top_layer_scaled: False brings the exponent of everything below the head
        down by two, so that the top layer learns at the full rate.

    Returns:
      A factor; of at most 1 with a decay of at most 1.

    Raises:
      ValueError: If nothing says how deep the variable is.
    """
    if decay <= 0:
        return 1.0
    layer = re.search(r"encoder/layer_(\d+)/", path)
    if layer:
        depth = int(layer.group(1)) + 1
    elif "/embeddings/" in path or "/embeddings_project/" in path:
        depth = 0
    elif "task_specific/" in path:
        return 1.0
    else:
        raise ValueError(f"No layer-wise learning rate for variable {path}")
    exponent = num_hidden_layers + 2 - depth
    return decay ** (exponent if top_layer_scaled else exponent - 2)


def layerwise_scales(
    variables: Iterable[keras.Variable],
    num_hidden_layers: int,
    config: configs.OptimizerConfig,
) -> dict[str, float]:
    """Path of each variable -> its `layerwise_scale`."""
    assert config.layerwise_lr_decay is not None
    return {
        v.path: layerwise_scale(
            v.path,
            num_hidden_layers,
            config.layerwise_lr_decay,
            config.layerwise_top_layer_scaled,
        )
        for v in variables
    }


def refuse_layerwise_rates(config: configs.OptimizerConfig) -> None:
    """Refuses rates by layer for pre-training, which has one for all.

    Raises:
      ConfigError: If there would be several.
    """
    decay = config.layerwise_lr_decay
    if decay is None or 0.0 < decay != 1.0:
        raise errors.ConfigError(
            "OptimizerConfig.layerwise_lr_decay must be 0 or 1, one rate, in "
            f"pre-training. Received: layerwise_lr_decay={decay}"
        )


def warn_of_schedule(
    optimizer: configs.OptimizerConfig, num_train_steps: int
) -> None:
    """Warns of a schedule that does not fit the length of the training.

    The first step's rate is 0, as in the original.

    Args:
      optimizer: Of a model.
      num_train_steps: Of that model.

    Raises:
      ConfigError: If the decay is longer than the training.
    """
    warmup = optimizer.warmup_steps(num_train_steps)
    decay = optimizer.decay_steps(num_train_steps) or 0
    if num_train_steps == 1 and warmup:
        errors.warn(
            "a training of one step learns nothing, as a warm-up begins with "
            "the learning rate 0: take more steps"
        )
    elif num_train_steps < warmup + decay or num_train_steps <= warmup:
        errors.warn(
            f"a warm-up of {warmup:g} and a decay of {decay:g} steps leave "
            f"nothing of {num_train_steps} steps, so that the learning rate "
            "never reaches its peak: see OptimizerConfig.num_warmup_steps and "
            "warmup_proportion"
        )


class LossScale:
    """The factor that keeps small gradients from vanishing in float16.

    It is halved after a step whose gradients are not finite, which is not
    taken, and doubled after 2000 steps in a row that were (section 3.2 of
    arXiv:1710.03740; the figures are those of Keras and of NVIDIA's Apex).

    Attributes:
      scale: <float32>[].
      num_finite: <int64>[], steps taken since the scale changed.
      skipped: <int64>[], steps that were not taken.
      variables: Name -> each of these, as a checkpoint needs them.
    """

    INITIAL = 2.0**15
    STEPS_TO_GROW = 2000

    def __init__(self):
        self.variables = {
            name: replicas.shared_variable(value, dtype, name)
            for value, dtype, name in (
                (self.INITIAL, tf.float32, "scale"),
                (0, tf.int64, "num_finite"),
                (0, tf.int64, "skipped"),
            )
        }
        self.scale, self.num_finite, self.skipped = self.variables.values()

    def begin_again(self) -> None:
        """Goes back to where it began."""
        self.scale.assign(self.INITIAL)
        self.num_finite.assign(0)
        self.skipped.assign(0)

    def go_on(self, values: Mapping[str, np.ndarray]) -> bool:
        """Goes on with another run's; returns whether all of it was there.

        Args:
          values: Name -> value, as `variables` has them.
        """
        if not values.keys() >= self.variables.keys():
            return False
        for name, variable in self.variables.items():
            variable.assign(values[name])
        return True

    def update(self, is_finite: tf.Tensor) -> None:
        """Notes whether a step was taken.

        Args:
          is_finite: <bool>[], whether all gradients were.
        """
        num_finite = tf.where(is_finite, self.num_finite + 1, 0)
        grows = num_finite >= self.STEPS_TO_GROW
        factor = tf.where(is_finite, tf.where(grows, 2.0, 1.0), 0.5)
        # Below 1 it would no longer help, beyond float32 it would be infinite.
        self.scale.assign(tf.clip_by_value(self.scale * factor, 1.0, 2.0**120))
        self.num_finite.assign(
            tf.where(grows, tf.zeros_like(num_finite), num_finite)
        )
        self.skipped.assign_add(tf.cast(~is_finite, tf.int64))


@keras.saving.register_keras_serializable(package="electra_tf")
class AdamWeightDecay(keras.optimizers.Optimizer):
    """The original's AdamWeightDecayOptimizer with its gradient clipping.

    m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2,
    w -= rate * (m / (sqrt(v) + epsilon) + weight_decay_rate * w),
    without bias correction. Gradients are summed over replicas and only then
    clipped by their global norm; Keras clips before it sums.

    Args:
      config: Rates and moments.
      num_train_steps: Length of the schedule.
      scales: Variable path -> share of the learning rate; None for all 1.
      clip_norm_of_unmerged_rows: Clip by the norm that the original has on
        CPU and GPU, where a word embedding table that is only looked up in
        counts every look-up by itself: rows of one word are squared before
        they are added. The default is the true norm, which the original has
        on one core of a TPU. The update takes the added rows either way.
    """

    def __init__(
        self,
        config: configs.OptimizerConfig,
        num_train_steps: int,
        scales: dict[str, float] | None = None,
        clip_norm_of_unmerged_rows: bool = False,
    ):
        assert config.learning_rate is not None  # Chosen by the size before.
        schedule = WarmupPolynomialDecay(
            config.learning_rate,
            num_train_steps,
            config.warmup_steps(num_train_steps),
            config.lr_decay_power,
            config.decay_steps(num_train_steps),
        )
        super().__init__(learning_rate=schedule, name="adam_weight_decay")
        self.schedule = schedule
        self.config = config
        self.scales = scales or {}
        self.clip_norm_of_unmerged_rows = clip_norm_of_unmerged_rows
        # With a LossScale: an update of gradients that are not all finite
        # changes nothing.
        self.skips_non_finite_updates = False
        self.adam_m: list = []
        self.adam_v: list = []

    def get_config(self):
        return {
            "config": dataclasses.asdict(self.config),
            "num_train_steps": self.schedule.num_train_steps,
            "scales": self.scales,
            "clip_norm_of_unmerged_rows": self.clip_norm_of_unmerged_rows,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        known = configs.OptimizerConfig(**config["config"])
        return cls(**(config | {"config": known}))

    def build(self, variables):
        """Creates the slots, named as in the original's checkpoints."""
        if self.built:
            return
        super().build(variables)
        self.adam_m, self.adam_v = self.add_optimizer_variables(
            variables, ["adam_m", "adam_v"]
        )
        self._variable_paths = [variable.path for variable in variables]

    @property
    def learning_rate(self):
        """That of this step, of the schedule."""
        return self._get_current_learning_rate()

    @learning_rate.setter
    def learning_rate(self, learning_rate):
        raise ValueError(
            "Expected the rate of the paper's optimizer to follow its "
            "schedule; for LearningRateScheduler, ReduceLROnPlateau and the "
            "like compile the model with an optimizer of Keras. Received: "
            f"learning_rate={learning_rate!r}"
        )

    def slots(self) -> dict[str, keras.Variable]:
        """Slot name, as in the original's checkpoints -> slot."""
        slots: dict[str, keras.Variable] = {}
        moments = (self.adam_m, self.adam_v)
        for path, m, v in zip(self._variable_paths, *moments, strict=True):
            slots |= {f"{path}/adam_m": m, f"{path}/adam_v": v}
        return slots

    def go_on(self, iterations: int, slots: Mapping[str, np.ndarray]) -> int:
        """Goes on from another run's step.

        Args:
          iterations: Updates taken.
          slots: Name -> values; what is not there keeps its own.

        Returns:
          How many slots were there.
        """
        self.iterations.assign(iterations)
        known = {n: slot for n, slot in self.slots().items() if n in slots}
        for name, slot in known.items():
            slot.assign(slots[name])
        return len(known)

    def apply_summed(
        self, gradients: Sequence, variables: Sequence[keras.Variable]
    ) -> tf.Tensor:
        """One update from gradients that are summed over replicas already.

        Args:
          gradients: One for each variable.
          variables: Of those that the optimizer was built with, those that
            take part.

        Returns:
          <float32>[], the global norm before clipping.
        """
        pairs = list(zip(gradients, variables, strict=True))
        dense = [tf.cast(tf.convert_to_tensor(g), tf.float32) for g, _ in pairs]
        norm = tf.linalg.global_norm(
            [
                # The original looks segments up by a matrix product, so that
                # words alone have sparse gradients.
                tf.cast(g.values, tf.float32)
                if self.clip_norm_of_unmerged_rows
                and isinstance(g, tf.IndexedSlices)
                and v.path.endswith(f"/{encoder.WORD_EMBEDDINGS}")
                else merged
                for (g, v), merged in zip(pairs, dense, strict=True)
            ]
        )
        clipped, _ = tf.clip_by_global_norm(
            dense, self.config.clip_norm, use_norm=norm
        )
        self.apply(clipped, variables)
        if self.skips_non_finite_updates:
            self.iterations.assign_sub(
                tf.cast(~tf.math.is_finite(norm), self.iterations.dtype)
            )
        return norm

    def _all_reduce_sum_gradients(self, grads_and_vars):
        """Does nothing: `apply_summed` takes sums."""
        return grads_and_vars

    def _distributed_tf_update_step(
        self, distribution, grads_and_vars, learning_rate
    ):
        """Keras's, but for small variables of a kind: these go together."""
        alone, together = [], collections.defaultdict(list)
        for gradient, variable in grads_and_vars:
            kind = self._kind(self._get_variable_index(variable))
            # Its rates depend on the norms of each.
            if kind.is_large or self.config.optimizer == "lamb":
                alone.append((gradient, variable))
            else:
                together[kind].append((gradient, variable))
        super()._distributed_tf_update_step(distribution, alone, learning_rate)
        for pairs in together.values():
            gradients, variables = zip(*pairs, strict=True)
            indices = [self._get_variable_index(v) for v in variables]

            def update(_, gradients, learning_rate, indices=indices):
                self._update_together(gradients, indices, learning_rate)

            distribution.extended.update(
                variables[0],
                update,
                args=(gradients, learning_rate),
                group=False,
            )

    def _kind(self, index: int) -> _Kind:
        path = self._variable_paths[index]
        size = self._trainable_variables[index].shape.num_elements()
        scale = self.scales.get(path, 1.0)
        if f"/{encoder.WORD_EMBEDDINGS}" in path:  # And what they differ by.
            scale *= self.config.embeddings_lr_scale
        return _Kind(scale, not NOT_DECAYED.search(path), size >= _LARGE)

    def _update_together(
        self,
        gradients: Sequence[tf.Tensor],
        indices: Sequence[int],
        learning_rate: tf.Tensor,
    ) -> None:
        """`update_step` of variables of one kind, as if they were one."""
        states = [
            [group[index].value for index in indices]
            for group in (self._trainable_variables, self.adam_m, self.adam_v)
        ]
        gradient, *state = (
            tf.concat([_flat(x) for x in xs], axis=0)
            for xs in (gradients, *states)
        )
        sizes = [variable.shape.num_elements() for variable in states[0]]
        kind = self._kind(indices[0])
        updated = self._updated(state, gradient, kind, learning_rate)
        for targets, values in zip(states, updated, strict=True):
            parts = tf.split(values, sizes)
            for target, part in zip(targets, parts, strict=True):
                if target.shape.rank != 1:
                    part = tf.reshape(part, target.shape)
                target.assign(part)

    def update_step(self, gradient, variable, learning_rate):
        """Updates one variable and its slots.

        Args:
          gradient: <float32>, clipped.
          variable: <tf.Variable>, of one device.
          learning_rate: <float32>[].
        """
        index = self._get_variable_index(variable)
        targets = variable, self.adam_m[index].value, self.adam_v[index].value
        state = [tf.convert_to_tensor(x) for x in targets]
        updated = self._updated(
            state, gradient, self._kind(index), learning_rate
        )
        for target, value in zip(targets, updated, strict=True):
            target.assign(value)

    def _updated(
        self,
        state: Sequence[tf.Tensor],
        gradient: tf.Tensor,
        kind: _Kind,
        learning_rate: tf.Tensor,
    ) -> list[tf.Tensor]:
        """A variable's values, adam_m and adam_v after an update."""
        config = self.config
        variable, m, v = state
        rate = tf.cast(learning_rate, tf.float32) * kind.scale
        if config.optimizer == "lamb":
            updated = _lamb(
                *(variable, m, v, gradient, rate, self.iterations + 1),
                kind.is_decayed,
                config,
            )
        else:
            decay = config.weight_decay_rate if kind.is_decayed else 0.0
            updated = _adam(
                *(variable, m, v, gradient, rate),
                *(config.beta_1, config.beta_2, config.epsilon),
                max(0.0, decay),
                compiles=kind.is_large,
            )
        if not self.skips_non_finite_updates:
            return list(updated)
        # Clipping by a norm that is not finite makes every entry NaN.
        is_skipped = tf.math.is_nan(gradient)
        return [
            tf.where(is_skipped, old, new)
            for old, new in zip((variable, m, v), updated, strict=True)
        ]


def _flat(x: tf.Tensor | tf.Variable) -> tf.Tensor:
    return tf.convert_to_tensor(x) if x.shape.rank == 1 else tf.reshape(x, [-1])


@kernels.one_pass
def _adam(variable, m, v, gradient, rate, beta_1, beta_2, epsilon, decay):
    """A variable and its moments after an update."""
    # TensorFlow's fused kernel computes 1 - beta_2 in float32, 1.3e-5 off the
    # original's 0.001, which shows after a few steps.
    m = beta_1 * m + (1.0 - beta_1) * gradient
    v = beta_2 * v + (1.0 - beta_2) * tf.square(gradient)
    update = m / (tf.sqrt(v) + epsilon)
    if decay:
        update += decay * variable
    return variable - rate * update, m, v


def _lamb(variable, m, v, gradient, rate, step, is_adapted, config):
    """Algorithm 2 of arXiv:1904.00962; LayerNorm and biases are not adapted."""
    # Not compiled: XLA adds up the squares of a norm one after the other.
    m = config.beta_1 * m + (1.0 - config.beta_1) * gradient
    v = config.beta_2 * v + (1.0 - config.beta_2) * tf.square(gradient)
    step = tf.cast(step, tf.float32)
    update = (m / (1.0 - config.beta_1**step)) / (
        tf.sqrt(v / (1.0 - config.beta_2**step)) + config.epsilon
    )
    if is_adapted:
        update += max(0.0, config.weight_decay_rate) * variable
        length, step_length = tf.norm(variable), tf.norm(update)
        is_known = (length > 0.0) & (step_length > 0.0)
        update *= tf.where(
            is_known, tf.math.divide_no_nan(length, step_length), 1.0
        )
    return variable - rate * update, m, v
