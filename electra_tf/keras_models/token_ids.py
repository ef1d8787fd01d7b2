"""Token ids, masks and segments that a model has, or an error.

A lookup in an embedding table refuses ids behind its end on a CPU alone: on a
GPU, and where XLA compiles, it answers with something else.
"""

import types
import typing
from collections.abc import Mapping

import keras
import numpy as np
import tensorflow as tf

from electra_tf import configs

_LABELS = "labels"


def checked(
    x,
    config: configs.EncoderConfig,
    name: str = "x",
    num_values: int | None = None,
) -> typing.Any:
    """What a model is given, the ids of which exist.

    Args:
      x: A dictionary of arrays; a dataset, PyDataset or generator of batches of
        such, or of tuples that begin with one, which is checked as it is read;
        anything else is returned as it is.
      config: Of the model.
      name: What the user calls it.
      num_values: See `check_labels`; of the labels behind it in a dataset.

    Raises:
      ValueError: If an array has a value that the model has not.
    """
    if isinstance(x, Mapping):
        for feature, end in _ends(config).items():
            values = x.get(feature)
            if not _is_array(values):
                continue
            numbers = np.asarray(values)
            if not numbers.size:
                raise ValueError(
                    f"Expected rows in {feature} of {name}. Received: none"
                )
            if outside := _outside(numbers, end):
                raise ValueError(
                    f"Expected {feature} from 0 to {end - 1} in {name}. "
                    f"Received: {outside}"
                )
        return x
    if isinstance(x, keras.utils.PyDataset):
        return _CheckedPyDataset(x, config, name, num_values)
    if isinstance(x, types.GeneratorType):
        return (_checked_batch(batch, config, name, num_values) for batch in x)
    if not isinstance(x, tf.data.Dataset):
        return x
    spec = x.element_spec
    first = spec[0] if isinstance(spec, tuple) else spec
    if not isinstance(first, Mapping):
        return x

    ends = _ends(config)

    def check(*element):
        features = _in_graph(element[0], ends, name)
        if not isinstance(spec, tuple):
            return features
        labels = element[1:2]
        if labels and tf.is_tensor(labels[0]):
            found = {_LABELS: finite(labels[0], f"labels in {name}")}
            if num_values:
                found = _in_graph(found, {_LABELS: num_values}, name)
            labels = (found[_LABELS],)
        weights = element[2:]
        if weights and tf.is_tensor(weights[0]):
            weights = (not_negative(weights[0], f"weights in {name}"),)
        return (features, *labels, *weights)

    return x.map(check, num_parallel_calls=tf.data.AUTOTUNE)


def finite(numbers: tf.Tensor, name: str) -> tf.Tensor:
    """Labels or weights of a dataset's batch, checked as they are read.

    Args:
      numbers: <float or int>[B, ...].
      name: What they are, and what the user calls the dataset.
    """
    if not numbers.dtype.is_floating:
        return numbers
    return tf.debugging.assert_all_finite(
        numbers, f"Expected finite {name}. Received"
    )


class _CheckedPyDataset(keras.utils.PyDataset):
    """A user's own, whose batches are checked as they are read."""

    def __init__(self, dataset: keras.utils.PyDataset, *how):
        super().__init__(
            dataset.workers,
            dataset.use_multiprocessing,
            dataset.max_queue_size,
        )
        self._dataset = dataset
        self._how = how

    def __getitem__(self, index):
        return _checked_batch(self._dataset[index], *self._how)

    @property
    def num_batches(self):
        return self._dataset.num_batches

    def on_epoch_begin(self):
        self._dataset.on_epoch_begin()

    def on_epoch_end(self):
        self._dataset.on_epoch_end()


def _checked_batch(
    batch, config: configs.EncoderConfig, name: str, num_values: int | None
):
    """A batch of a PyDataset or generator, or an error."""
    x, *labels = batch if isinstance(batch, tuple) else (batch,)
    checked(x, config, name)
    for weights in labels[1:]:
        check_weights(weights, f"weights of {name}")
    if labels and not num_values:
        check_labels(labels[0], f"labels of {name}")
    elif labels:
        values = np.asarray(labels[0])
        if values.dtype.kind == "f" and (values == np.round(values)).all():
            values = values.astype(np.int64)
        check_labels(values, f"labels of {name}", num_values, values.ndim)
    return batch


def not_negative(numbers: tf.Tensor, name: str) -> tf.Tensor:
    """`finite`, of weights, which must be 0 or more as well."""
    numbers = finite(numbers, name)
    least = tf.reduce_min(numbers)
    check = tf.debugging.Assert(
        least >= 0, [f"Expected {name} of 0 or more. Received:", least]
    )
    with tf.control_dependencies([check]):
        return tf.identity(numbers)


def check_weights(numbers, name: str) -> None:
    """`check_labels`, of weights, which must be 0 or more as well."""
    check_labels(numbers, name)
    if not _is_array(numbers):
        return
    least = np.min(numbers, initial=0.0)
    if least < 0.0:
        raise ValueError(f"Expected {name} of 0 or more. Received: {least:g}")


def check_labels(
    y, name: str = "y", num_values: int | None = None, rank: int = 1
) -> None:
    """Refuses numbers that are no labels; of arrays alone.

    Args:
      y: What the user gave.
      name: What the user calls it.
      num_values: Where labels are whole numbers from 0 on, how many of these:
        the classes, or 2 where each is a decision.
      rank: Axes of such labels.

    Raises:
      ValueError: If there is such a number.
    """
    if not _is_array(y):
        return
    values = np.asarray(y)
    is_fraction = values.dtype.kind == "f"
    if is_fraction and not np.isfinite(values).all():
        row = int(
            np.argmin(np.isfinite(values).reshape(len(values), -1).all(1))
        )
        raise ValueError(
            f"Expected numbers as {name}. Received: {values[row]} in row {row}"
        )
    if num_values is None:
        return
    if values.ndim != rank:
        raise ValueError(
            f"Expected labels of {rank} {'axis' if rank == 1 else 'axes'} as "
            f"{name}. Received: the shape {values.shape}"
        )
    outside = _outside(values, num_values)
    if is_fraction and (rank == 1 or (values != np.round(values)).any()):
        outside = f"{values.dtype.name}, such as {values.flat[0]}"
    if outside:
        raise ValueError(
            f"Expected labels from 0 to {num_values - 1} as {name}. Received: "
            f"{outside}"
        )


def _is_array(values) -> bool:
    return isinstance(values, np.ndarray | list) or (
        tf.is_tensor(values) and hasattr(values, "numpy")
    )


def _outside(values: np.ndarray, end: int) -> str:
    """What to say of numbers that are not all from 0 to below the end."""
    if not values.size or values.dtype.kind not in "iuf":
        return ""
    least, greatest = values.min(), values.max()
    if 0 <= least <= greatest < end:
        return ""
    return f"from {least} to {greatest}"


def _ends(config: configs.EncoderConfig) -> dict[str, int]:
    return {
        "input_ids": config.vocab_size,
        "input_mask": 2,
        "segment_ids": config.type_vocab_size,
    }


def _in_graph(features, ends: Mapping[str, int], name: str):
    checks = []
    for feature, end in ends.items():
        values = features.get(feature)
        if values is None:
            continue
        is_fraction = feature == _LABELS and values.dtype.is_floating
        if not (is_fraction or tf.as_dtype(values.dtype).is_integer):
            continue
        message = tf.strings.format(
            f"Expected {feature} from 0 to {end - 1} in {name}. Received: from "
            "{} to {}",
            (tf.reduce_min(values), tf.reduce_max(values)),
        )
        is_good = tf.reduce_all((values >= 0) & (values < end))
        if is_fraction:
            is_good &= tf.reduce_all(tf.equal(values, tf.round(values)))
        checks.append(tf.debugging.Assert(is_good, [message]))
    with tf.control_dependencies(checks):
        return tf.nest.map_structure(tf.identity, features)
