"""What a user hands to `fit` -> columns, labels as ids, token ids that exist.

Lists, arrays, tensors, columns of pandas and Arrow, and a `tf.data.Dataset` of
texts, which is read into columns. Nothing here knows a model.

Shapes: N rows, B batch.
"""

import itertools
import typing
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from electra_tf import configs
from electra_tf.keras_models import preprocessor
from electra_tf.tasks import tables, tagging, text_tasks
from electra_tf.text.tokenization import ENCODER_FEATURES

# One column of texts, or the two of pairs.
Texts = tuple[list[bytes], ...]
_NUMBER = int | np.integer
BATCH_SIZE = 32


def short(value: typing.Any, most: int = 40) -> str:
    """A value in few words."""
    shown = repr(value)
    return shown if len(shown) <= most else shown[: most - 3] + "..."


# --- Columns ------------------------------------------------------------------


def texts(x: typing.Any, name: str = "x") -> Texts:
    """The texts, or pairs of texts, that a user means.

    Returns:
      One or two lists of N texts.
    """
    try:
        parts = preprocessor.parts_of(x)
        texts = [preprocessor.as_texts(part).numpy() for part in parts]
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    shapes = {np.shape(column) for column in texts}
    if len(shapes) > 1 or shapes & {(), (0,)}:
        raise ValueError(
            f"Expected {name} as texts: a list, an array or a column of "
            "strings, df['text'], for pairs a tuple (first, second), or a "
            f"tf.data.Dataset of batches. Received: {short(x)}"
        )
    return tuple(column.tolist() for column in texts)


def rows(x: typing.Any, name: str, num_rows: int | None = None) -> list:
    """The N values of a list, an array, a tensor or a column, [N] or [N, 1]."""
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


def numbers(x: typing.Any, name: str, num_rows: int) -> np.ndarray:
    """A finite number for each row, [N]; see `rows`."""
    column = rows(x, name, num_rows)
    try:
        values = np.array(column, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: {error}") from None
    if values.ndim != 1 or not np.isfinite(values).all():
        raise ValueError(
            f"Expected {name} as a finite number for each row. Received: "
            f"{short(values, 200)}"
        )
    return values


def _whole_column(batches: Sequence[tf.Tensor]):
    values = list(itertools.chain(*(batch.numpy() for batch in batches)))
    return values if batches[0].dtype == tf.string else np.array(values)


def columns(x, y=None, weights=None, name: str = "x") -> tuple[list, int]:
    """x, y, weights, and the rows of a batch; of a dataset, of a task's
    examples, of rows by name, or as given.
    """
    if not isinstance(x, tf.data.Dataset):
        x, own = _of_examples(x)
        x, y = _of_rows(x, own if y is None else y, name)
        return [x, y, weights], BATCH_SIZE
    if y is not None or weights is not None:
        raise ValueError(
            "Expected labels and weights in the dataset. Received: them "
            "beside it"
        )
    spec, batches = x.element_spec, []
    parts = spec if isinstance(spec, tuple) else (spec,)
    if x.cardinality() != tf.data.INFINITE_CARDINALITY:
        batches = [tf.nest.flatten(element) for element in x]
    if (
        not batches
        or len(parts) > 3
        or any(tensor.shape.rank == 0 for tensor in batches[0])
    ):
        raise ValueError(
            f"Expected {name} as a dataset of batches of texts that ends, as "
            "they are read before the first step: tf.data.Dataset."
            "from_tensor_slices((texts, labels)).batch(32), or with weights. "
            f"Received: {int(x.cardinality())} times {short(spec, 200)}"
        )
    whole = [_whole_column(column) for column in zip(*batches, strict=True)]
    packed = tf.nest.pack_sequence_as(parts, whole)
    x, y, weights = (*packed, None, None)[:3]
    x, y = _of_rows(x, y, name)
    if isinstance(y, tuple):
        y = list(zip(*y, strict=True))
    return [x, y, weights], max(1, len(batches[0][0].numpy()))


def _of_examples(x: typing.Any) -> tuple:
    """Columns and labels of a task's examples; all else as it is, and None."""
    if not isinstance(x, list) or not x:
        return x, None
    if isinstance(x[0], tagging.TaggingExample):
        return [list(e.words) for e in x], [list(e.labels) for e in x]
    if not isinstance(x[0], text_tasks.TextExample):
        return x, None
    texts = [e.text_a for e in x]
    labels = [list(e.labels) if e.labels else e.label for e in x]
    if x[0].text_b is None:
        return texts, labels
    return (texts, [e.text_b for e in x]), labels


def _of_rows(x: typing.Any, y: typing.Any, name: str) -> tuple:
    """Columns and labels of rows, or of columns, by the names that
    `tables.choose_columns` knows, of exported models' inputs or of SQuAD; y if
    it is given, and all else as it is."""
    if isinstance(x, list) and x and isinstance(x[0], Mapping):
        try:
            x = {column: [row[column] for row in x] for column in x[0]}
        except (KeyError, TypeError):
            raise ValueError(
                f"Expected {name} as rows of the same names, {[*x[0]]}. "
                f"Received: {short(x, 200)}"
            ) from None
    names = x if isinstance(x, Mapping) else getattr(x, "columns", ())
    names = {name for name in names if isinstance(name, str)}
    usual = [*tables.TEXT_PAIRS, "text text_pair", "question context"]
    pairs = [pair for pair in map(str.split, usual) if {*pair} <= names]
    texts = pairs or [[n] for n in tables.TEXT_NAMES if n in names]
    labels = [n for n in (*tables.LABEL_NAMES, "answers") if n in names]
    if len(texts) != 1:
        return x, y
    columns = [x[column] for column in texts[0]]
    if y is None and len(labels) == 1:
        y = x[labels[0]]
    return tuple(columns) if columns[1:] else columns[0], y


# --- Labels -------------------------------------------------------------------


def label_names(labels: typing.Any, least: int = 2) -> tuple[str, ...]:
    """The names of labels."""
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
    return [v.item() if isinstance(v, np.generic) else v for v in values]


class Labels:
    """The labels of a task: names, or numbers, and their ids.

    A number is looked up among the names where these are numbers, and counts
    the labels from 0 where they are not. 1.0 is 1.

    Args:
      names: In the order of their ids.
    """

    def __init__(self, names: Sequence[str]):
        self.names = tuple(names)
        numbers = [text_tasks.number(name) for name in names]
        self._are_numbers = bool(np.isfinite(numbers).all())
        values = numbers if self._are_numbers else range(len(names))
        self._ids: dict = {}
        if len(set(values)) == len(names):  # Not 1 and 01: by their names.
            self._ids = {value: i for i, value in enumerate(values)}
        self._ids |= {name: i for i, name in enumerate(names)}

    def id_of(self, value: typing.Any) -> int | None:
        """The id of a name or number; None if it is no label."""
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        if isinstance(value, bool) and not self._are_numbers:
            # No place of a label.
            value = str(value)
            value = value if value in self._ids else value.lower()
        is_value = isinstance(value, str | int | float)
        return self._ids.get(value) if is_value else None

    def known(self, value: typing.Any, name: str, row: int) -> int:
        """The id of what is in a row."""
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
        """Which labels each row has, <int32>[N, C]."""
        if hasattr(y, "iloc") and hasattr(y, "columns"):  # By their names.
            ids: typing.Any = [self.id_of(column) for column in y.columns]
            if set(ids) == set(range(len(self.names))):
                y = y.iloc[:, np.argsort(ids)]
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


def num_batches(x, batch_size: int, share: float) -> int | None:
    """Batches of token ids in an epoch; None where nothing tells."""
    if isinstance(x, Mapping):
        num_rows = int(len(next(iter(x.values()))) * (1.0 - share))
        return -(-num_rows // batch_size)
    if isinstance(x, tf.data.Dataset):
        number = int(x.cardinality())
        return number if number >= 0 else None
    return getattr(x, "num_batches", None)


def checked(
    x: typing.Any,
    y: typing.Any,
    config: configs.EncoderConfig,
    num_labels: int | None = None,
) -> typing.Any:
    """Refuses token ids and labels that a model has not.

    Returns:
      x; of a dataset one whose batches are checked as they are read.
    """
    if isinstance(x, tf.data.Dataset):

        def check(*batch):
            features, labels, _ = (*batch, None, None)[:3]
            asserts = _asserts(features, labels, config, num_labels)
            with tf.control_dependencies(asserts):
                batch = tf.nest.map_structure(_same, batch)
            return batch[0] if len(batch) == 1 else batch

        return x.map(check, num_parallel_calls=tf.data.AUTOTUNE)
    if isinstance(x, Mapping):
        _asserts(x, y, config, num_labels)
    return x


def _same(value):
    return tf.identity(value) if tf.is_tensor(value) else value


def _asserts(x, y, config, num_labels) -> list:
    ends = (config.vocab_size, 2, config.type_vocab_size)
    numbers = [
        (name, tf.cast(x[name], tf.float32), end)
        for name, end in zip(ENCODER_FEATURES, ends, strict=True)
        if name in x
    ]
    if num_labels and y is not None and not isinstance(y, Mapping):
        numbers.append(("labels", tf.cast(y, tf.float32), num_labels))
    return [
        tf.debugging.Assert(
            tf.reduce_all((values >= 0) & (values < end)),
            [f"Expected {name} from 0 to {end - 1}. Received: ", values],
        )
        for name, values, end in numbers
    ]
