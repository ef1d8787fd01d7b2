"""What a user hands to `fit` -> columns, labels as ids, token ids that exist.

Lists, arrays, tensors, columns of pandas and Arrow, and a `tf.data.Dataset` of
texts, which is read into columns. Nothing here knows a model.

Shapes: N rows, B batch.
"""

import itertools
import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from electra_tf import configs
from electra_tf.keras_models import preprocessor
from electra_tf.tasks import tagging, text_tasks
from electra_tf.text.tokenization import ENCODER_FEATURES
from electra_tf.training.numpy_functions import numpy_function

# One column of texts, or the two of pairs.
Texts = tuple[list[bytes], ...]
_NUMBER = int | np.integer
# A column that is called so is no text.
_NO_TEXTS = ("label", "labels")


def short(value: typing.Any, most: int = 40) -> str:
    """A value in few words."""
    shown = repr(value)
    return shown if len(shown) <= most else shown[: most - 3] + "..."


def positive(**numbers: typing.Any) -> None:
    """Refuses what is given and is no whole number of at least 1."""
    for name, value in numbers.items():
        is_whole = isinstance(value, _NUMBER) and not isinstance(value, bool)
        if value is not None and not (is_whole and value >= 1):
            raise ValueError(
                f"Expected {name} as a whole number of at least 1. Received: "
                f"{name}={short(value)}"
            )


# --- Columns ------------------------------------------------------------------


def texts(
    x: typing.Any, name: str = "x", order: Sequence[str] | None = None
) -> Texts:
    """The texts, or pairs of texts, that a user means.

    Args:
      x: A list, an array, a string tensor or a pandas column of N texts; for
        pairs a tuple of two of them, a dictionary of text and text_pair, or a
        DataFrame with two columns.
      name: Of the argument, for the errors.
      order: Names of the two columns of a DataFrame; None for their own order.

    Returns:
      One or two lists of N texts.

    Raises:
      ValueError: If it is something else.
    """
    names: typing.Any = frame_names(x)
    if names:
        if labels := [n for n in names if str(n).lower() in _NO_TEXTS]:
            raise _no_texts(
                name, f"a DataFrame with the column {labels[0]!r}: df['text']"
            )
        pair = [preprocessor.TEXT, preprocessor.TEXT_PAIR]
        for known in (order, pair):
            names = known if known and set(known) == set(names) else names
        x = tuple(x[column] for column in names)
    if isinstance(x, keras.utils.PyDataset | types.GeneratorType):
        raise _no_texts(name, f"a {type(x).__name__}")
    parts = preprocessor.parts_of(x)
    if any(isinstance(p, str | bytes) or np.ndim(p) == 0 for p in parts):
        raise _no_texts(name, f"{short(x)} by itself")
    try:
        found = [preprocessor.as_texts(part).numpy().tolist() for part in parts]
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if not found[0] or len({len(part) for part in found}) > 1:
        sizes = " and ".join(str(len(part)) for part in found)
        raise _no_texts(name, f"{sizes} texts")
    return tuple(found)


def frame_names(x: typing.Any) -> list | None:
    """Names of the columns of a DataFrame; None of all else."""
    is_frame = hasattr(x, "columns") and hasattr(x, "iloc")
    return list(x.columns) if is_frame and len(x.columns) > 1 else None


def _no_texts(name: str, received: str) -> ValueError:
    return ValueError(
        f"Expected {name} as texts: a list, an array or a column of strings, "
        "for pairs a tuple (first, second), or a tf.data.Dataset of batches. "
        f"Received: {received}"
    )


def rows(x: typing.Any, name: str, num_rows: int | None = None) -> list:
    """The N values of a list, an array, a tensor or a column, [N] or [N, 1].

    Args:
      x: What the user gave.
      name: Of the argument.
      num_rows: N; None for any.

    Raises:
      ValueError: If it is something else.
    """
    if hasattr(x, "to_pylist"):  # Of Arrow.
        x = x.to_pylist()
    elif hasattr(x, "shape"):
        x = np.asarray(x)
        x = (x[:, 0] if x.shape[1:] == (1,) else x).tolist()
    is_list = isinstance(x, Sequence) and not isinstance(x, str | bytes)
    if not is_list or not len(x) or len(x) != (num_rows or len(x)):
        wanted = f"{num_rows} values, as x has rows" if num_rows else "values"
        received = f"{len(x)} values" if is_list else short(x)
        raise ValueError(
            f"Expected a list or a column of {wanted}, in {name}. Received: "
            f"{received}"
        )
    return list(x)


def numbers(
    x: typing.Any, name: str, num_rows: int, least: float = -math.inf
) -> np.ndarray:
    """A finite number for each row, [N].

    Args:
      x: A list, an array, a tensor or a column.
      name: Of the argument.
      num_rows: N.
      least: That they may be.

    Raises:
      ValueError: If there is another one.
    """
    for row, value in enumerate(values := rows(x, name, num_rows)):
        is_number = isinstance(value, int | float | np.number)
        if not is_number or not least <= value < math.inf or value == -math.inf:
            wanted = "a number" if math.isinf(least) else f"{least:g} or more"
            raise ValueError(
                f"Expected {name} as {wanted} for each row. Received: "
                f"{short(value)} in row {row}"
            )
    return np.array(values)


def of_dataset(dataset: tf.data.Dataset, name: str = "x") -> tuple[tuple, int]:
    """The columns of a dataset of batches of texts.

    Args:
      dataset: Of x, (x, y) or (x, y, sample_weight), where x and y may be
        tuples or dictionaries of columns.
      name: Of the argument, for the errors.

    Returns:
      x, y and sample_weight, None where there is none; the rows of a batch.

    Raises:
      ValueError: If it has no end, no rows or no batches.
    """
    wanted = f"Expected {name} as a dataset of batches of texts"
    if dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
        raise ValueError(
            f"{wanted} that ends, such as dataset.take(100): they are read "
            "before the first step. Received: one without an end"
        )
    spec = dataset.element_spec
    batches = [tf.nest.flatten(element) for element in dataset]
    if not batches:
        raise ValueError(f"{wanted}, with rows. Received: one without")
    if any(tensor.shape.rank == 0 for tensor in batches[0]) or (
        isinstance(spec, tuple) and len(spec) > 3
    ):
        raise ValueError(
            f"{wanted}, (texts,), (texts, labels) or (texts, labels, weights):"
            " tf.data.Dataset.from_tensor_slices((texts, labels)).batch(32). "
            f"Received: one of {short(spec, 200)}"
        )
    parts = tf.nest.pack_sequence_as(
        spec, [_whole_column(column) for column in zip(*batches, strict=True)]
    )
    x, y, weights = (
        *(parts if isinstance(spec, tuple) else (parts,)),
        None,
        None,
    )[:3]
    if isinstance(y, tuple):
        y = list(zip(*y, strict=True))
    return (x, y, weights), max(1, len(batches[0][0].numpy()))


def _whole_column(batches: Sequence[tf.Tensor]):
    values = list(itertools.chain(*(batch.numpy() for batch in batches)))
    return values if batches[0].dtype == tf.string else np.array(values)


def of_examples(x: typing.Any) -> tuple[typing.Any, typing.Any] | None:
    """The columns of a task's examples; None of what is none.

    Args:
      x: What `Task.read_examples` returns, of a task of texts or of tags.

    Returns:
      Texts, pairs of texts or words, and their labels.
    """
    if not isinstance(x, list) or not x:
        return None
    if isinstance(x[0], tagging.TaggingExample):
        return [list(e.words) for e in x], [list(e.labels) for e in x]
    if not isinstance(x[0], text_tasks.TextExample):
        return None
    texts = [e.text_a for e in x]
    labels = [list(e.labels) if e.labels else e.label for e in x]
    if x[0].text_b is None:
        return texts, labels
    return (texts, [e.text_b for e in x]), labels


# --- Labels -------------------------------------------------------------------


def label_names(labels: typing.Any, least: int = 2) -> tuple[str, ...]:
    """The names of labels.

    Args:
      labels: Names or whole numbers in the order of the outputs; or how many
        there are, for the names "0", "1", ...
      least: As many there must be.

    Raises:
      ValueError: If they are something else, or one is there twice.
    """
    names = tuple(map(str, given_labels(labels)))
    if len(set(names)) < len(names) or len(names) < least or "" in names:
        raise ValueError(
            f"Expected {least} labels or more, each once. Received: "
            f"labels={short(list(names), 200)}"
        )
    return names


def given_labels(labels: typing.Any) -> list[str | int | bool]:
    """Labels as they were given; see `label_names`."""
    if isinstance(labels, _NUMBER) and not isinstance(labels, bool):
        labels = range(labels)
    values = labels.tolist() if hasattr(labels, "tolist") else labels
    is_list = isinstance(values, Sequence) and not isinstance(values, str)
    if not is_list or not all(isinstance(v, str | _NUMBER) for v in values):
        raise ValueError(
            "Expected labels as a list of names or whole numbers. Received: "
            f"labels={short(labels, 200)}"
        )
    return list(values)


def _numbers_of(labels: Sequence[str], kind: Callable) -> list:
    """What the labels are as finite numbers; nothing if one is none."""
    try:
        values = [kind(label) for label in labels]
    except ValueError:
        return []
    return values if all(map(math.isfinite, values)) else []


class Labels:
    """The labels of a task: names, or numbers, and their ids.

    A number is looked up among the names where these are numbers, and counts
    the labels from 0 where they are not. 1.0 is 1.

    Args:
      names: In the order of their ids.
    """

    def __init__(self, names: Sequence[str]):
        self.names = tuple(names)
        self._ids = {name: i for i, name in enumerate(self.names)}
        found = _numbers_of(names, int) or _numbers_of(names, float)
        self._are_numbers = bool(found)
        counted = found or range(len(names))
        self._of_numbers = {number: i for i, number in enumerate(counted)}
        if len(self._of_numbers) < len(self.names):
            self._of_numbers = {}  # Such as 1 and 01: go by the names.

    def id_of(self, value: typing.Any) -> int | None:
        """The id of a name or number; None if it is no label."""
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        if isinstance(value, bool | np.bool_) and not self._are_numbers:
            name = str(value)  # No place of a label.
            return self._ids.get(name, self._ids.get(name.lower()))
        if isinstance(value, str):
            return self._ids.get(value)
        if isinstance(value, int | float | np.number | np.bool_):
            return self._of_numbers.get(float(value))
        return None

    def known(self, value: typing.Any, name: str, row: int) -> int:
        """The id of what is in a row.

        Raises:
          ValueError: If it is no label.
        """
        label = self.id_of(value)
        if label is None:
            raise ValueError(
                f"Expected {name} as labels, names or numbers of "
                f"{text_tasks.listing(self.names)}. Received: {short(value)}, "
                f"of type {type(value).__name__}, in row {row}"
            )
        return label

    def ids(self, y: typing.Any, name: str, num_rows: int) -> np.ndarray:
        """The ids <int32>[N] of a column of names or numbers."""
        values = enumerate(rows(y, name, num_rows))
        return np.array([self.known(v, name, row) for row, v in values], "i4")

    def decisions(self, y: typing.Any, name: str, num_rows: int) -> np.ndarray:
        """Which labels each row has, <int32>[N, C].

        Args:
          y: A list of labels for each row; or a 0 or 1 for each label, in an
            array [N, C] or a DataFrame, which goes by the names of its columns.
          name: Of the argument.
          num_rows: N.
        """
        if columns := frame_names(y):
            by_name = {str(column): column for column in columns}
            if set(by_name) == set(self.names):
                y = y[[by_name[label] for label in self.names]]
        if np.ndim(y if hasattr(y, "shape") else 0) == 2:
            matrix = np.asarray(y)
            if matrix.shape != (num_rows, len(self.names)) or set(
                np.unique(matrix)
            ) - {0, 1}:
                raise ValueError(
                    f"Expected {name} of 0 and 1, of the shape ({num_rows}, "
                    f"{len(self.names)}). Received: {short(matrix)}"
                )
            return matrix.astype(np.int32)
        wanted = np.zeros((num_rows, len(self.names)), np.int32)
        for row, values in enumerate(rows(y, name, num_rows)):
            is_list = isinstance(values, list | tuple | set | np.ndarray)
            for value in values if is_list else ():
                wanted[row, self.known(value, name, row)] += 1
            if not is_list or wanted[row].max(initial=0) > 1:
                raise ValueError(
                    f"Expected {name} as a list of labels for each row, "
                    "each once, or a 0 or 1 for each label as an array [N, "
                    f"{len(self.names)}]. Received: {short(values)} in row "
                    f"{row}"
                )
        return wanted


# --- Token ids ----------------------------------------------------------------
# A lookup in an embedding table refuses ids behind its end on a CPU alone: on a
# GPU, and where XLA compiles, it answers with something else.


def are_ids(x: typing.Any) -> bool:
    """Whether x is token ids, or a dataset of batches of them."""
    if isinstance(x, tf.data.Dataset):
        x = x.element_spec
        x = x[0] if isinstance(x, tuple) else x
    return isinstance(x, Mapping) and ENCODER_FEATURES[0] in x


class Checked:
    """Refuses token ids, labels and weights that a model has not.

    Args:
      config: Of the model's encoder.
      num_values: Where labels are whole numbers from 0 on, how many of these:
        the classes, or 2 where each is a decision; None for quantities.
      rank: Axes of the labels.
    """

    def __init__(
        self,
        config: configs.EncoderConfig,
        num_values: int | None = None,
        rank: int = 1,
    ):
        self._ends = dict(
            zip(
                ENCODER_FEATURES,
                (config.vocab_size, 2, config.type_vocab_size),
                strict=True,
            )
        )
        self._num_values = num_values
        self._rank = rank

    def __call__(self, x, y=None, weights=None, prefix: str = "") -> typing.Any:
        """x; of a dataset one whose batches are checked as they are read.

        Raises:
          ValueError: If there is such a number.
        """
        if isinstance(x, tf.data.Dataset):
            return x.map(self._in_graph, num_parallel_calls=tf.data.AUTOTUNE)
        for name, end in self._ends.items() if isinstance(x, Mapping) else ():
            if _is_array(x.get(name)):
                _refuse_outside(x[name], f"{name} in {prefix}x", end)
        if _is_array(y):
            name = f"labels in {prefix}y"
            if self._num_values and np.ndim(y) != self._rank:
                raise ValueError(
                    f"Expected {name} of the rank {self._rank}. Received: the "
                    f"shape {np.shape(y)}"
                )
            _refuse_outside(y, name, self._num_values)
        if _is_array(weights):
            _refuse_outside(weights, f"{prefix}sample_weight", math.inf)
        return x

    def _in_graph(self, *element):
        tensors = [t for t in tf.nest.flatten(element) if tf.is_tensor(t)]

        def check(*arrays):
            values = iter(arrays)
            parts = tf.nest.map_structure(
                lambda t: next(values) if tf.is_tensor(t) else t, element
            )
            self(*parts)
            return np.int32(0)

        done = numpy_function(check, tensors, tf.int32)
        with tf.control_dependencies([done]):
            checked = tf.nest.map_structure(
                lambda t: tf.identity(t) if tf.is_tensor(t) else t, element
            )
        return checked[0] if len(element) == 1 else checked


def _is_array(values) -> bool:
    return isinstance(values, np.ndarray | list) or (
        tf.is_tensor(values) and hasattr(values, "numpy")
    )


def _refuse_outside(values, name: str, end: float | None) -> None:
    """Refuses numbers that are not finite, or not from 0 to below the end."""
    values = np.asarray(values)
    is_number = values.dtype.kind in "iufb"
    if not values.size or not is_number:
        received = values.dtype.name if values.size else "no rows"
        raise ValueError(f"Expected numbers as {name}. Received: {received}")
    least, most = values.min(), values.max()
    is_good = np.isfinite(values).all()
    if end is not None:
        is_whole = math.isinf(end) or (values == np.round(values)).all()
        is_good &= is_whole and least >= 0 and most < end
    if not is_good:
        to = (
            "of 0 or more"
            if end == math.inf
            else f"from 0 to {end and end - 1}"
        )
        wanted = "finite" if end is None else to
        raise ValueError(
            f"Expected {name} {wanted}. Received: from {least} to {most}"
        )
