"""Batches for `PretrainingModel`, and its metrics over them.

Shapes: B batch, L length.
"""

import typing

import keras
import tensorflow as tf

from electra_tf import configs, pretraining
from electra_tf.keras_models import directions, token_ids
from electra_tf.model import losses
from electra_tf.pretraining_data import draws
from electra_tf.pretraining_data.records import FEATURE_NAMES
from electra_tf.training import engine, replicas


def checked(
    x, steps: int | None, argument: str, config: configs.ElectraConfig
) -> tf.data.Dataset:
    """A dataset of batches that a model can learn from.

    Args:
      x: What was given.
      steps: How many batches are asked for; None for all.
      argument: Named in the error.
      config: Of the model.

    Raises:
      ValueError: If it is anything else.
    """
    if not isinstance(x, tf.data.Dataset):
        raise ValueError(
            f"Expected {argument} to be a glob of TFRecords or a "
            f"tf.data.Dataset. Received: {argument}={x!r}"
        )
    if isinstance(x.element_spec, tuple) and len(x.element_spec) == 1:
        x = x.map(lambda features: features)
    spec = x.element_spec
    length = config.max_seq_length
    if not isinstance(spec, dict) or any(
        name not in spec
        or spec[name].shape.rank != 2
        or not spec[name].dtype.is_integer
        for name in FEATURE_NAMES
    ):
        raise ValueError(
            f"Expected batches of {', '.join(FEATURE_NAMES)}, integers, in "
            f"{argument}. Received: {spec}"
        )
    if spec["input_ids"].shape[1] != length:
        raise ValueError(
            f"Expected examples of {length} tokens in {argument} "
            "(max_seq_length; Preprocessor(pad_to_max=True)). Received: "
            f"{spec['input_ids']}"
        )
    if steps is None and x.cardinality() == tf.data.INFINITE_CARDINALITY:
        raise ValueError(
            f"Expected the number of steps, as {argument} does not end. "
            "Received: None"
        )
    if x.cardinality() == 0:
        raise ValueError(
            f"Expected {argument} as a dataset with batches. Received: one "
            "without"
        )
    # Those of TFRecords, with their draws, have been looked at.
    if "noise" in spec:
        return x
    return token_ids.checked(x, config.encoder, argument)


def with_noise(data, config: configs.ElectraConfig, number: int, step) -> dict:
    """The features of a batch, with draws where they come without.

    Args:
      data: Of a batch of `checked`.
      config: Of the model.
      number: That all draws follow from.
      step: <int>[], of the training; None for an evaluation, which always has
        the same draws.
    """
    features = dict(data)
    if "noise" not in features:
        seed = tf.constant([number, pretraining.EVAL_SEED_OFFSET])
        if step is not None:
            seed = tf.random.experimental.stateless_fold_in(
                tf.constant([number, 1]), tf.cast(step, tf.int32)
            )
        rows = tf.shape(features["input_ids"])[0]
        uniform = tf.random.stateless_uniform(
            [rows, draws.noise_width(config)], replicas.seed_of_replica(seed)
        )
        features["noise"] = draws.split_noise(config, uniform)
    return {
        name: x if name == "noise" else tf.cast(x, tf.int32)
        for name, x in features.items()
        if name in (*FEATURE_NAMES, "noise")
    }


class Ratio(keras.metrics.Metric):
    """One of the engine's metrics, over the batches of an epoch.

    Args:
      name: See `losses.metrics_from_sums`.
      shape: Of each of its sums.
    """

    def __init__(self, name: str, shape):
        super().__init__(name=name, dtype="float64")
        self.of_name = name
        directions.directed(self)
        self.value, self.weight = (
            self.add_variable(shape, "zeros", "float64", name=part)
            for part in ("value", "weight")
        )

    def update_state(self, sums: losses.Sums):
        self.value.assign_add(tf.cast(sums.value, tf.float64))
        self.weight.assign_add(tf.cast(sums.weight, tf.float64))

    def result(self):
        value, weight = self.value.value, self.weight.value
        if self.of_name == "disc_auc":
            return losses.auc(value, weight)
        return tf.math.divide_no_nan(value, weight)


def ratios(
    config: configs.ElectraConfig, loss_function: engine.LossFunction
) -> dict[str, Ratio]:
    """An objective's metrics, of which it is asked: a trace, no computation.

    Args:
      config: Of the model.
      loss_function: Of the engine.
    """
    features: dict[str, typing.Any] = {
        name: tf.TensorSpec([1, config.max_seq_length], tf.int32)
        for name in FEATURE_NAMES
    }
    width = draws.noise_width(config)

    def trace(features, uniform):
        noise = draws.split_noise(config, uniform)
        _, sums = loss_function(
            features | {"noise": noise}, None, losses.identity
        )
        return sums

    traced = tf.function(trace, autograph=False).get_concrete_function(
        features, tf.TensorSpec([1, width], tf.float32)
    )
    shapes = {
        name: of_name.value.shape
        for name, of_name in traced.structured_outputs.items()
    }
    return {
        name: Ratio(name, tuple(shapes.get(name, ())))
        for name in ("loss", *shapes, "gradient_norm")
    }
