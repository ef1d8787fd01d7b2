"""Token ids, masks and segments that a model has, or an error.

A lookup in an embedding table refuses ids behind its end on a CPU alone: on a
GPU, and where XLA compiles, it answers with something else.
"""

import typing
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from electra_tf import configs


def checked(
    x,
    config: configs.EncoderConfig,
    name: str = "x",
    num_classes: int | None = None,
) -> typing.Any:
    """What a model is given, the ids of which exist.

    Args:
      x: A dictionary of arrays; a dataset of batches of such, or of tuples that
        begin with one, which is checked as it is read; anything else is
        returned as it is.
      config: Of the model.
      name: What the user calls it.
      num_classes: Of the numbers behind it in a dataset, where those are
        classes.

    Raises:
      ValueError: If an array has a value that the model has not.
    """
    if isinstance(x, Mapping):
        for feature, end in _ends(config).items():
            values = x.get(feature)
            if not isinstance(values, np.ndarray | list):
                continue
            if outside := _outside(np.asarray(values), end):
                raise ValueError(
                    f"Expected {feature} from 0 to {end - 1} in {name}. "
                    f"Received: {outside}"
                )
        return x
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
        if num_classes and labels and tf.is_tensor(labels[0]):
            ends_of_labels = {"labels": num_classes}
            found = _in_graph({"labels": labels[0]}, ends_of_labels, name)
            labels = (found["labels"],)
        return (features, *labels, *element[2:])

    return x.map(check, num_parallel_calls=tf.data.AUTOTUNE)


def check_labels(y, name: str = "y", num_classes: int | None = None) -> None:
    """Refuses numbers that are no labels; of arrays alone.

    Args:
      y: What the user gave.
      name: What the user calls it.
      num_classes: Where they are classes.

    Raises:
      ValueError: If there is such a number.
    """
    if not isinstance(y, np.ndarray | list):
        return
    values = np.asarray(y)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        row = int(
            np.argmin(np.isfinite(values).reshape(len(values), -1).all(1))
        )
        raise ValueError(
            f"Expected numbers as {name}. Received: {values[row]} in row {row}"
        )
    if num_classes and (outside := _outside(values, num_classes)):
        raise ValueError(
            f"Expected labels from 0 to {num_classes - 1} as {name}. Received: "
            f"{outside}"
        )


def _outside(values: np.ndarray, end: int) -> str:
    """What to say of whole numbers that are not all from 0 to below the end."""
    if not values.size or values.dtype.kind not in "iu":
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
        if values is None or not tf.as_dtype(values.dtype).is_integer:
            continue
        message = tf.strings.format(
            f"Expected {feature} from 0 to {end - 1} in {name}. Received: from "
            "{} to {}",
            (tf.reduce_min(values), tf.reduce_max(values)),
        )
        is_good = tf.reduce_all((values >= 0) & (values < end))
        checks.append(tf.debugging.Assert(is_good, [message]))
    with tf.control_dependencies(checks):
        return tf.nest.map_structure(tf.identity, features)
