"""Labels as a user has them, names or numbers -> their ids.

A number is looked up among the names where these are numbers, and counts the
labels from 0 where they are not. 1.0 is 1.
"""

import math
import typing
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from electra_tf.keras_models import columns
from electra_tf.tasks.text_tasks import listing

_NUMBER = int | np.integer


def names(labels: typing.Any, least: int = 2) -> tuple[str, ...]:
    """The names of labels.

    Args:
      labels: Names or whole numbers in the order of the outputs; or how many
        there are, for the names "0", "1", ...
      least: As many there must be.

    Raises:
      ValueError: If they are something else, or one is there twice.
    """
    if isinstance(labels, _NUMBER) and not isinstance(labels, bool):
        labels = range(labels)
    if hasattr(labels, "tolist"):
        labels = labels.tolist()
    if not isinstance(labels, Sequence) or isinstance(labels, str | bytes):
        raise ValueError(
            "Expected labels as a list of names or numbers. Received: "
            f"labels={columns.short(labels)}"
        )
    found = tuple(
        str(label)
        for label in labels
        if isinstance(label, str | _NUMBER) and label != ""
    )
    if len(found) < len(labels) or len(set(found)) < len(found):
        raise ValueError(
            "Expected labels that are names or whole numbers, each once. "
            f"Received: labels={columns.short(list(labels), 200)}"
        )
    if len(found) < least:
        raise ValueError(
            f"Expected {least} labels or more. Received: labels={list(labels)}"
        )
    return found


def _numbers_of(labels: Sequence[str], kind: Callable) -> list:
    """What the labels are as finite numbers; nothing if one is none."""
    try:
        found = [kind(label) for label in labels]
    except ValueError:
        return []
    return found if all(map(math.isfinite, found)) else []


class Labels:
    """The labels of a task.

    Args:
      found: Their names.
    """

    def __init__(self, found: Sequence[str]):
        self.names = tuple(found)
        self._ids: dict[typing.Any, int] = {
            name: i for i, name in enumerate(self.names)
        }
        numbers = _numbers_of(self.names, int) or _numbers_of(self.names, float)
        self._are_numbers = bool(numbers)
        self._of_numbers = {
            number: i
            for i, number in enumerate(numbers or range(len(self.names)))
        }
        if len(self._of_numbers) < len(self.names):
            self._of_numbers = {}  # Such as 1 and 01: go by the names.

    def id_of(self, value: typing.Any) -> int | None:
        """The id of a name or number; None if it is no label."""
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        if isinstance(value, bool | np.bool_):
            # Unless labels are numbers it is none, and no place of a label.
            name = str(value)
            if not self._are_numbers:
                return self._ids.get(name, self._ids.get(name.lower()))
            value = int(value)
        if isinstance(value, str):
            return self._ids.get(value)
        if isinstance(value, _NUMBER):
            return self._of_numbers.get(int(value))
        if isinstance(value, float | np.floating):
            return self._of_numbers.get(float(value))
        return None

    def ids(self, y: typing.Any, name: str, num_rows: int) -> np.ndarray:
        """The ids of a column of labels, <int32>[N].

        Args:
          y: Names or numbers: a list, an array, a tensor or a column.
          name: Of the argument, for the errors.
          num_rows: N.

        Raises:
          ValueError: If a row has none of the labels.
        """
        values = columns.listed(y, name, self.refused)
        columns.check_rows(values, name, num_rows)
        return np.array(
            [self.known(v, name, row) for row, v in enumerate(values)], np.int32
        )

    def known(self, value: typing.Any, name: str, row: int) -> int:
        """The id of what is in a row.

        Raises:
          ValueError: If it is no label.
        """
        found = self.id_of(value)
        if found is None:
            raise self.refused(
                name,
                f"{columns.short(value)}, of type {type(value).__name__}, in "
                f"row {row}",
            )
        return found

    def refused(self, name: str, received: str) -> ValueError:
        """The error of labels that are none."""
        return ValueError(
            f"Expected {name} as labels, names or numbers of "
            f"{listing(self.names)}. Received: {received}."
        )

    def graph_ids(self, y: tf.Tensor) -> tf.Tensor:
        """The ids <int32>[...] of names <string> or of numbers, in a graph.

        Raises:
          ValueError: If they are of another type.
        """
        if y.dtype == tf.bool and self._are_numbers:
            y = tf.cast(y, tf.int32)
        if y.dtype == tf.string:
            keys = tf.constant(self.names)
        elif self._of_numbers and (y.dtype.is_integer or y.dtype.is_floating):
            keys = tf.constant(np.array(list(self._of_numbers)))
            dtype = y.dtype if y.dtype.is_floating else keys.dtype
            keys, y = tf.cast(keys, dtype), tf.cast(y, dtype)
        else:
            raise self.refused("y", f"a dataset with labels of {y.dtype.name}")
        # Not by a table, which somebody would have to keep.
        is_label = tf.equal(y[..., tf.newaxis], keys)
        is_known = tf.reduce_any(is_label, axis=-1)
        check = tf.debugging.Assert(
            tf.reduce_all(is_known),
            [
                f"Expected labels of {listing(self.names)}. Received: ",
                tf.boolean_mask(y, ~is_known),
            ],
        )
        with tf.control_dependencies([check]):
            return tf.argmax(
                tf.cast(is_label, tf.int32), axis=-1, output_type=tf.int32
            )
