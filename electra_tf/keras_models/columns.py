"""What a user hands to `fit` -> columns of texts, labels and weights.

Lists, arrays, tensors and columns of pandas; what is none of these is refused
in Keras's manner. Nothing here knows a model.
"""

import typing
from collections.abc import Iterator, Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from electra_tf import errors
from electra_tf.keras_models import preprocessor
from electra_tf.model import task_head

# One column of texts, or the two of pairs.
Texts = tuple[list[bytes], ...]


def is_dataset(x: typing.Any) -> bool:
    """Whether x brings its labels and batches itself."""
    return isinstance(x, tf.data.Dataset | tf.distribute.DistributedDataset)


def may_end(x: typing.Any) -> bool:
    """Whether it is a dataset that does not tell whether it ends."""
    return (
        isinstance(x, tf.data.Dataset)
        and x.cardinality() == tf.data.UNKNOWN_CARDINALITY
    )


def has_pairs(dataset: tf.data.Dataset) -> bool:
    """Whether a dataset's inputs are two texts."""
    spec = dataset.element_spec
    return (
        len(tf.nest.flatten(spec[0] if isinstance(spec, tuple) else spec)) > 1
    )


def check_texts_of_dataset(
    dataset: tf.data.Dataset, with_labels: bool, name: str
) -> None:
    """Refuses a dataset that is not of batches of texts.

    Args:
      dataset: Of a user.
      with_labels: Whether labels belong to it, and may have weights.
      name: Of the argument, for the errors.

    Raises:
      ValueError: If it has other parts, types or shapes, or no rows.
    """
    spec = dataset.element_spec
    parts = spec if isinstance(spec, tuple) else (spec,)
    if not 1 + with_labels <= len(parts) <= 3:
        raise ValueError(
            "Expected a dataset of (texts, labels) or (texts, labels, "
            f"weights) as {name}. Received: one of {short(spec, 200)}"
        )
    if with_labels and len(parts) == 3:
        dtype, shape = parts[2].dtype, parts[2].shape
        is_number = dtype.is_floating or dtype.is_integer
        if not is_number or shape.rank not in (None, 1):
            raise ValueError(
                f"Expected weights in {name} as a number for each row. "
                f"Received: weights of {dtype.name} and the shape {shape}"
            )
    for of_texts in tf.nest.flatten(parts[0]):
        if of_texts.dtype != tf.string or of_texts.shape.rank == 0:
            raise ValueError(
                f"Expected {name} as a dataset of batches of texts, such as "
                "tf.data.Dataset.from_tensor_slices((texts, labels)).batch(32)."
                f" Received: one of {short(spec, 200)}"
            )
    if getattr(dataset, "cardinality", lambda: -1)() == 0:
        raise ValueError(
            f"Expected {name} as a dataset with rows. Received: one without"
        )


def texts(x: typing.Any, name: str = "x") -> Texts:
    """The texts, or pairs of texts, that a user means.

    Args:
      x: A list, an array, a string tensor or a pandas column of N texts; for
        pairs a tuple of two of them, or a DataFrame with two columns.
      name: Of the argument, for the errors.

    Returns:
      One or two lists of N texts.

    Raises:
      ValueError: If it is something else.
    """
    if _is_frame(x):
        by_name = {column: x[column] for column in x.columns}
        names = {preprocessor.TEXT, preprocessor.TEXT_PAIR}
        x = by_name if set(by_name) == names else tuple(by_name.values())
    if isinstance(x, Mapping):
        x = tuple(preprocessor.parts_of(x))
    parts = x if isinstance(x, tuple) else (x,)
    if len(parts) not in (1, 2):
        raise _refused(name, f"{len(parts)} columns")
    if isinstance(x, keras.utils.PyDataset | Iterator):
        raise ValueError(
            f"Expected {name} as columns or a tf.data.Dataset, such as "
            "tf.data.Dataset.from_generator makes. Received: a "
            f"{type(x).__name__}"
        )
    found = []
    for part in parts:
        if isinstance(part, str | bytes):
            raise _refused(name, f"the text {short(part)} by itself")
        if np.ndim(part) == 0 and hasattr(part, "dtype"):
            raise _refused(name, f"the text {short(part)} by itself")
        try:
            found.append(preprocessor.as_texts(part).numpy())
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    sizes = [len(part) for part in found]
    if not sizes[0]:
        raise _refused(name, "no text")
    if len(set(sizes)) > 1:
        raise ValueError(
            f"Expected as many second texts as first ones in {name}. Received: "
            f"{sizes[0]} and {sizes[1]}."
        )
    return tuple(part.tolist() for part in found)


def pair_names(x: typing.Any) -> list[str] | None:
    """What a DataFrame calls the two texts of its pairs; None of all else."""
    if not _is_frame(x) or len(x.columns) != 2:
        return None
    names = list(x.columns)
    return names if all(isinstance(name, str) for name in names) else None


def in_order(x: typing.Any, names: Sequence[str] | None) -> typing.Any:
    """A DataFrame of pairs with its columns in a known order.

    Args:
      x: What the user gave for texts.
      names: Of `pair_names`; what has other ones, or none, is left as it is.
    """
    theirs = pair_names(x)
    if names is None or theirs is None or set(theirs) != set(names):
        return x
    return x[list(names)]


def _is_frame(x: typing.Any) -> bool:
    """Whether it is a DataFrame."""
    return hasattr(x, "columns") and hasattr(x, "iloc")


def refuse_labels_in(x: typing.Any, y: typing.Any, name: str) -> None:
    """Refuses a DataFrame of texts one of whose columns is that of the labels.

    Args:
      x: What the user gave for texts.
      y: Their labels, in any form.
      name: Of x, for the error.
    """
    if not _is_frame(x):
        return
    labels = _as_strings(y)
    for column in x.columns:
        is_named_so = len(x.columns) > 1 and str(column).lower() in _LABELS
        is_same = labels is not None and _as_strings(x[column]) == labels
        if is_named_so or is_same:
            raise ValueError(
                f"Expected {name} without the labels. Received: a DataFrame "
                f"whose column {column!r} is that of the labels; one column "
                "is df['text'], a pair df[['first', 'second']]."
            )


# What is called so is no text.
_LABELS = ("label", "labels")


def _as_strings(column: typing.Any) -> list[str] | None:
    """The cells as text, to compare them; None if they are no plain ones."""
    rows = column.numpy() if tf.is_tensor(column) else column
    rows = rows.tolist() if hasattr(rows, "tolist") else rows
    if not isinstance(rows, list | tuple):
        return None
    return [
        x.decode("utf-8", "replace") if isinstance(x, bytes) else str(x)
        for x in rows
    ]


def listed(x: typing.Any, name: str, refused) -> list:
    """The N values of a list, an array, a tensor, a pandas or Arrow column.

    Args:
      x: What the user gave.
      name: Of the argument.
      refused: Makes the error, of the name and what was received.
    """
    if isinstance(x, str | bytes):
        raise refused(name, f"the text {short(x)}")
    if hasattr(x, "to_pylist"):  # Of Arrow.
        x = x.to_pylist()
    shape = getattr(x, "shape", None)
    if shape is not None:
        if len(shape) != 1:
            raise refused(name, f"an array of the shape {tuple(shape)}")
        x = np.asarray(x).tolist()
    if not isinstance(x, Sequence):
        raise refused(name, f"{short(x)}, a {type(x).__name__}")
    if not len(x):
        raise refused(name, "nothing")
    return list(x)


def one_a_row(y: typing.Any) -> typing.Any:
    """The values [N] of an array, a tensor or a DataFrame [N, 1], as Keras's
    labels often are; all others as they are."""
    if getattr(y, "ndim", None) != 2 or y.shape[1] != 1:
        return y
    return y.iloc[:, 0] if hasattr(y, "iloc") else y[:, 0]


def numbers(
    x: typing.Any, name: str, num_rows: int, are_labels: bool = False
) -> np.ndarray:
    """A number for each row, <float32>[N].

    Args:
      x: A list, an array, a tensor or a pandas column.
      name: Of the argument.
      num_rows: N.
      are_labels: Whether they are to be told apart; otherwise they are weights.

    Raises:
      ValueError: If it is something else, a number is not finite, a weight is
        negative, or float32 makes the same of labels that differ.
    """

    def refused(name, received):
        return ValueError(
            f"Expected {name} as a number for each text. Received: {received}."
        )

    values = listed(x, name, refused)
    check_rows(values, name, num_rows)
    for row, value in enumerate(values):
        is_number = isinstance(value, int | float | np.number)
        if not is_number or not np.isfinite(value):
            raise refused(name, f"{short(value)} in row {row}")
    least, greatest = float(min(values)), float(max(values))
    if not are_labels and least < 0.0:
        raise ValueError(
            f"Expected {name} of 0 or more. Received: {least:g} in row "
            f"{values.index(min(values))}"
        )
    if are_labels and not task_head.float32_tells_apart(least, greatest):
        raise refused(
            name,
            f"{least:.15g} to {greatest:.15g}, between which float32 has few "
            "numbers or none: give their differences from one of them, or "
            "other units",
        )
    return np.array(values, np.float32)


def positive(value: typing.Any, name: str) -> int:
    """A whole number of at least 1.

    Raises:
      ValueError: If it is something else.
    """
    is_whole = isinstance(value, int | np.integer)
    if not is_whole or isinstance(value, bool) or value < 1:
        raise ValueError(
            f"Expected {name} as a whole number of at least 1. Received: "
            f"{name}={short(value)}"
        )
    return int(value)


def check_executions(steps_per_execution: int, steps: int) -> None:
    """Refuses to cut steps that Keras takes several of at once.

    Of data without an end it would take more than it was told.

    Raises:
      ValueError: If the last of them would be cut.
    """
    if steps % steps_per_execution:
        raise ValueError(
            "Expected steps_per_execution to divide the steps of an epoch. "
            f"Received: steps_per_execution={steps_per_execution}, {steps} "
            "steps"
        )


def check_positive(**numbers: typing.Any) -> None:
    """Refuses what is given and is no whole number of at least 1.

    Args:
      **numbers: By the names that the user gave them; None where not given.

    Raises:
      ValueError: If there is such a one.
    """
    for name, value in numbers.items():
        if value is not None:
            positive(value, name)


def check_rows(values: Sequence, name: str, num_rows: int) -> None:
    """Refuses a column that has not as many rows as there are texts."""
    if len(values) != num_rows:
        raise ValueError(
            f"Expected as many values in {name} as in x, {num_rows}. Received: "
            f"{len(values)}."
        )


def select(x: typing.Any, rows: slice):
    """Some rows of columns."""
    if x is None:
        return None
    # A tuple of columns, or of what is refused later.
    if isinstance(x, tuple) and not any(
        isinstance(part, str | bytes) or np.isscalar(part) for part in x
    ):
        return tuple(select(part, rows) for part in x)
    if isinstance(x, Mapping):
        return {name: select(part, rows) for name, part in x.items()}
    return x.iloc[rows] if hasattr(x, "iloc") else x[rows]


def split(x, y, sample_weight, share: float):
    """The last share of the rows, as Keras's `validation_split` takes it.

    Args:
      x: A column, or a tuple of several.
      y: As many labels; a tuple of them is one column.
      sample_weight: As many numbers, likewise, or None.
      share: Between 0 and 1.

    Returns:
      The first rows of the three, and the last ones.

    Raises:
      ValueError: If one of the two would have no row, or x is a dataset.
    """
    if is_dataset(x):
        raise ValueError(
            "Expected validation_data beside a dataset. Received: "
            f"validation_split={share}"
        )
    column = x
    if isinstance(x, tuple | Mapping) and len(x):
        column = next(iter(x.values())) if isinstance(x, Mapping) else x[0]
    if not hasattr(column, "__len__"):
        raise _refused("x", f"{short(x)}, a {type(x).__name__}")
    num_rows = len(column)
    if not 0.0 < share < 1.0:
        raise ValueError(
            "Expected validation_split between 0 and 1. Received: "
            f"validation_split={share}"
        )
    kept = int(np.floor(num_rows * (1.0 - share)))
    if not 0 < kept < num_rows:
        raise ValueError(
            "Expected validation_split to leave rows on both sides. Received: "
            f"validation_split={share} of {num_rows} rows."
        )
    y, sample_weight = (
        list(of) if isinstance(of, tuple) else of for of in (y, sample_weight)
    )
    all_three = (x, y, sample_weight)
    return (
        tuple(select(of, slice(kept)) for of in all_three),
        tuple(select(of, slice(kept, None)) for of in all_three),
    )


def refuse_beside_dataset(
    y, sample_weight, batch_size: int | None = None
) -> None:
    """Refuses labels and weights where a dataset has them.

    Warns of a batch size, which a dataset has as well.

    Raises:
      ValueError: If there are any.
    """
    if y is not None or sample_weight is not None:
        raise ValueError(
            "Expected labels and weights in the dataset. Received: them beside "
            "it"
        )
    if batch_size is not None:
        errors.warn(
            f"batch_size={batch_size} is not used: a dataset has batches of "
            "its own"
        )


def short(value: typing.Any, most: int = 40) -> str:
    """A value in few words."""
    shown = repr(value)
    return shown if len(shown) <= most else shown[: most - 3] + "..."


def _refused(name: str, received: str) -> ValueError:
    return ValueError(
        f"Expected {name} as texts: a list, an array or a column of strings, "
        "and for pairs of texts a tuple of two of them, (first, second). "
        f"Received: {received}."
    )
