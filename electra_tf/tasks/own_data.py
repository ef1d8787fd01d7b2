"""Tasks of files of one's own: classes, numbers, several labels or tags a row.

    task = own_data.make_task("moods", {"train": "a.tsv", "dev": "b.tsv"})

How the training file was read is in the task's `origin`, a line for the log.
"""

import os
import typing
from collections.abc import Mapping, Sequence

import numpy as np

from electra_tf.finetuning import configs
from electra_tf.model import task_head
from electra_tf.tasks import own_files, text_tasks
from electra_tf.tasks.own_files import OwnFiles, Row, Value
from electra_tf.tasks.own_tagging import OwnTagging
from electra_tf.tasks.task import Task
from electra_tf.tasks.text_tasks import TextExample, number

TASK_TYPES = ("auto", *configs.TASK_TYPES)

# Files with a word and its tags in each row.
_CONLL_ENDINGS = (".txt", ".conll")
# With this many rows, labels that hardly repeat are no classes.
_LEAST_ROWS_TO_JUDGE = 20


def make_task(
    name: str,
    files: Mapping[str, str | os.PathLike],
    task_type: str = "auto",
    text_columns: Sequence[str] = (),
    label_column: str = "",
    label_separator: str = "",
    has_header: bool = True,
    skip_empty_texts: bool = False,
    label_names: Sequence[str] = (),
) -> Task:
    """A task of labelled rows in files.

    Args:
      name: See `Task`.
      files: Split ("train" is required, also "dev" and "test") -> a file ending
        in .tsv, .csv, .jsonl or .json, or in .txt or .conll with a word and its
        tag in each row. "test" may have no labels.
      task_type: One of `TASK_TYPES`. "auto" takes lists of words for tagging,
        lists of labels and labels with a separator for multi_label, numbers
        with a decimal point for regression, and all else for classes.
      text_columns: Names of one or two columns; by default `text` or a usual
        pair.
      label_column: Name of the column of labels; by default `label`.
      label_separator: Between the labels of a row, "|" by default; makes "auto"
        multi_label.
      has_header: Whether the first row of a .tsv or .csv names the columns,
        which are called "1", "2", ... otherwise.
      skip_empty_texts: Leave rows without a text out and count them, rather
        than refuse them.
      label_names: Names of labels that are the numbers 0, 1, ... in the files.

    Returns:
      The task.

    Raises:
      ValueError: If the files cannot be read or make no such task.
    """
    if task_type not in TASK_TYPES:
        raise ValueError(
            f"Expected one of the task types {', '.join(TASK_TYPES)}. "
            f"Received: {task_type!r}."
        )
    paths = {split: os.fspath(path) for split, path in files.items() if path}
    if "train" not in paths:
        raise ValueError(
            "Expected a training file, whose labels define the task. "
            f"Received: {sorted(paths)}."
        )
    train = paths["train"]
    is_conll = train.lower().endswith(_CONLL_ENDINGS)
    if is_conll and task_type in ("auto", "tagging"):
        return OwnTagging(name, paths)
    table = own_files.read_table(train, has_header)
    texts, label = own_files.choose_columns(
        table, text_columns, label_column, has_header
    )
    source = OwnFiles(
        paths,
        train,
        table.columns,
        texts,
        label,
        has_header,
        list(label_names),
        skip_empty_texts,
    )
    rows = source.rows("train", table)
    if task_type == "auto":
        task_type = kind_of_labels(rows, label_separator, train)
    kind = task_type
    task: typing.Any
    if kind == "tagging":
        task = OwnTagging(name, paths, source)
        kind += f" with {task.listed()}"
    else:
        separator = label_separator or task_head.LABEL_SEPARATOR
        task = _task_of_texts(name, source, kind, separator)
        if kind == "regression":
            kind += f" from {task.min_value} to {task.max_value}"
        else:
            kind += f" with {len(task.labels)} labels ("
            kind += f"{text_tasks.listing(task.labels, 5)})"
    left = [c for c in table.columns if c not in (*texts, label)]
    task.origin = (
        f"{train}: text in {'columns' if texts[1:] else 'column'} "
        f"{' and '.join(map(repr, texts))}, labels in "
        f"{label!r}: {kind}"
        + f"; not read: {text_tasks.listing(left)}"
        * bool(left)
    )
    return task


def task_of_model(
    name: str,
    files: Mapping[str, str | os.PathLike],
    about: Mapping,
    skip_empty_texts: bool = False,
) -> Task:
    """The task of a model, for files that are like its training file.

    Args:
      name: See `Task`.
      files: "dev" or "test", or both -> file; see `make_task`.
      about: `Task.description` of the task that was trained, and as "reading"
        its `Task.reading`.
      skip_empty_texts: See `make_task`.

    Raises:
      ValueError: If a file cannot be read.
    """
    reading = about["reading"]
    paths = {split: os.fspath(path) for split, path in files.items() if path}
    source: typing.Any = None
    if "text_columns" in reading:
        known = {name: reading[name] for name in own_files.READING}
        source = OwnFiles(paths, **known, skip_empty_texts=skip_empty_texts)
    kind = about["kind"]
    if kind == "tagging":
        return OwnTagging(name, paths, source, about)
    if kind == "regression":
        unit = (about[key] for key in ("min_value", "max_value", "scale"))
        return OwnRegression(name, source, *unit)
    if kind == "classification":
        return OwnClassification(name, source, about["labels"])
    task = OwnMultiLabel(name, source, about["labels"])
    task.separator = reading["label_separator"]
    return task


def kind_of_labels(
    rows: Sequence[Row], separator: str = "", path: str = ""
) -> str:
    """What kind of task the labels of the training file make.

    Args:
      rows: Of the file.
      separator: Between the labels of a row, where it is given.
      path: The file, for the error message.

    Returns:
      One of `TASK_TYPES` but "auto".

    Raises:
      ValueError: If there are almost as many labels as rows.
    """
    if isinstance(rows[0].texts[0], list):
        return "tagging"
    labels = [row.label for row in rows]
    if separator or any(
        isinstance(label, list) or task_head.LABEL_SEPARATOR in str(label)
        for label in labels
    ):
        return "multi_label"
    values = list(map(str, labels))
    if np.isfinite([*map(number, values)]).all() and "." in "".join(values):
        return "regression"
    num_labels = len(set(values))
    if num_labels > len(rows) / 2 and len(rows) >= _LEAST_ROWS_TO_JUDGE:
        raise ValueError(
            f"Expected labels that repeat. Received: {num_labels} different "
            f"ones in {len(rows)} rows of {path!r}, such as {values[0][:40]!r}:"
            " say which column in --label_column, or the kind in --task_type "
            "(classification, regression, multi_label or tagging)."
        )
    return "classification"


def _task_of_texts(
    name: str, source: OwnFiles, kind: str, separator: str
) -> "_OwnTexts":
    """The task whose labels are those of the training file."""
    path = source.paths["train"]
    rows = source.rows("train")
    if kind == "multi_label":
        labels = {x for row in rows for x in _split(row.label, separator)}
        if not labels:
            raise ValueError(f"Expected labels. Received: none in {path!r}.")
        task = OwnMultiLabel(name, source, text_tasks.in_order(labels))
        task.separator = separator
        return task
    given = [_one(row.label, (path, row.number)) for row in rows]
    values = [number(label) for label in given]
    if kind == "regression" and not np.isfinite(values).all():
        row = rows[int(np.argmin(np.isfinite(values)))]
        raise ValueError(
            f"Expected a number with a decimal point. Received: {row.label!r} "
            f"in {path!r}, row {row.number}."
        )
    if len(set(values if kind == "regression" else given)) < 2:
        raise ValueError(
            "Expected two or more different labels. Received: "
            f"{path!r} with the label {given[0]!r} only."
        )
    if kind == "classification":
        return OwnClassification(name, source, text_tasks.in_order(set(given)))
    least, most = min(values), max(values)
    if not task_head.float32_tells_apart(least, most):
        raise ValueError(
            "Expected labels that float32 tells apart, such as their "
            f"differences from one of them. Received: {path!r} with "
            f"{least:.15g} to {most:.15g}."
        )
    return OwnRegression(name, source, least, most, most - least)


def _one(label: Value, source: tuple[str, int]) -> str:
    """The label of a row that has one."""
    if isinstance(label, str) and label not in ("", own_files.NO_LABEL):
        return label
    raise ValueError(
        f"Expected a label. Received: {label or 'an empty one'} in "
        f"{source[0]!r}, row {source[1]}."
    )


def _split(label: Value, separator: str) -> tuple[str, ...]:
    parts = label.split(separator) if isinstance(label, str) else label or ()
    return tuple(part.strip() for part in parts if part.strip())


class _OwnTexts(text_tasks.TextTask):
    """Mixed into tasks with texts from files of one's own."""

    stand_in = ""  # For a label where there is none.

    def __init__(self, name: str, source: OwnFiles, *of_kind):
        super().__init__(name, *of_kind)
        self.source = source

    def reading(self):
        return self.source.reading()

    def splits(self):
        return self.source.splits()

    def has_labels(self, split):
        return self.source.has_labels(split)

    def read_examples(self, split):
        examples = []
        for row in self.source.rows(split):
            texts = [t if isinstance(t, str) else " ".join(t or ())
                     for t in row.texts]  # fmt: skip
            place = (self.source.paths[split], row.number)
            examples.append(
                TextExample(
                    eid=len(examples),
                    text_a=texts[0],
                    text_b=texts[1] if texts[1:] else None,
                    source=place,
                    has_label=row.label is not None,
                    **self.fields_of(row.label, place),
                )
            )
        self.label_features(examples)  # A label unknown in training raises.
        return examples

    def warnings(self, examples=None, features=None):
        return self.source.warnings() + super().warnings(examples, features)

    def fields_of(self, label: Value, place: tuple[str, int]) -> dict:
        """What of an example comes from its label, or stands for none."""
        if label is None:
            return {"label": self.stand_in}
        return {"label": _one(label, place)}


class OwnClassification(_OwnTexts, text_tasks.ClassificationTask):
    """One label a row."""

    main_metric = "macro_f1"

    @property
    def stand_in(self):
        return self.labels[0]


class OwnRegression(_OwnTexts, text_tasks.RegressionTask):
    """A number a row; the range is that of the training file."""

    @property
    def stand_in(self):
        return str(self.min_value)


class OwnMultiLabel(_OwnTexts, text_tasks.MultiLabelTask):
    """Any labels a row: a list in JSON, or separated; none is allowed."""

    separator = task_head.LABEL_SEPARATOR

    def reading(self):
        return super().reading() | {"label_separator": self.separator}

    def fields_of(self, label, place):
        del place
        labels = _split(label, self.separator)
        return {
            "label": task_head.LABEL_SEPARATOR.join(labels),
            "labels": labels,
        }
