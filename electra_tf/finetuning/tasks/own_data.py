"""Tasks of your own files: what their columns and labels are is looked up.

    task = own_data.make_task("moods", {"train": "a.tsv", "dev": "b.tsv"})

Texts are in one or two columns, labels in another one. What was taken for what
is in the task's `origin`, a line for the log, so that a wrong guess is seen.
"""

import os
from collections.abc import Mapping, Sequence

from electra_tf.finetuning import configs
from electra_tf.finetuning.tasks import (
    columns,
    table_files,
    tag_schemes,
    text_tasks,
)
from electra_tf.finetuning.tasks import labels as labels_lib
from electra_tf.finetuning.tasks.labels import OwnRow
from electra_tf.finetuning.tasks.own_files import OwnFiles
from electra_tf.finetuning.tasks.own_tagging import OwnTagging
from electra_tf.finetuning.tasks.own_texts import (
    OwnClassification,
    OwnMultiLabel,
    OwnRegression,
)
from electra_tf.finetuning.tasks.table_files import Table
from electra_tf.finetuning.tasks.task import Task

TASK_TYPES = ("auto", *configs.TASK_TYPES)

# Files with a word and its tags in each row.
_CONLL_ENDINGS = (".txt", ".conll")


def make_task(
    name: str,
    files: Mapping[str, str | os.PathLike],
    task_type: str = "auto",
    text_columns: Sequence[str] = (),
    label_column: str = "",
    label_separator: str = "",
    has_header: bool | None = None,
    skip_empty_texts: bool = False,
) -> Task:
    """A task of labelled rows in files.

    Args:
      name: See `Task`.
      files: Split ("train" is required, also "dev" and "test") -> a file ending
        in .tsv, .csv or .jsonl, or in .txt or .conll with a word and its tag in
        each row. "test" may have no labels.
      task_type: One of `TASK_TYPES`. "auto" takes fractions and many different
        numbers for regression, lists and separated labels for multi_label, and
        as many tags as words for tagging.
      text_columns: Names of one or two columns; without a header, columns are
        called "1", "2", ... By default the usual names are looked for.
      label_column: Name of the column of labels, likewise.
      label_separator: Between the labels of a row, such as "|"; makes "auto"
        multi_label.
      has_header: Whether the first row names the columns; None for what it
        looks like. Test and dev follow the training file.
      skip_empty_texts: Leave rows without a text out and count them, rather
        than refuse them.

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
    ending = os.path.splitext(paths["train"])[1].lower()
    if ending in _CONLL_ENDINGS and task_type in ("auto", "tagging"):
        return OwnTagging(name, paths)
    tables = {
        split: table_files.read_table(path) for split, path in paths.items()
    }
    train = tables.pop("train")
    train.check_columns()
    header_is_given = has_header is not None
    given = [name for name in (*text_columns, label_column) if name]
    train = columns.with_header_or_not(
        train, has_header, given, list(tables.values())
    )
    texts, label = columns.choose_columns(train, text_columns, label_column)
    source = OwnFiles(
        paths, train, tables, texts, label, header_is_given, skip_empty_texts
    )
    rows = source.rows("train")
    _refuse_conll(source, rows, task_type)
    labels_lib.check(rows, train.path, task_type)
    is_guessed = task_type == "auto"
    if is_guessed:
        task_type, label_separator = labels_lib.guess_type(
            rows, label_separator, train.path
        )
    task: Task
    if task_type == "tagging":
        task = OwnTagging(name, paths, source)
    elif task_type == "multi_label":
        task = OwnMultiLabel(name, source, label_separator, is_guessed)
    elif task_type == "regression":
        task = OwnRegression(name, source)
    else:
        task = OwnClassification(name, source)
    _describe(task, source, task_type)
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
    source = None
    if "columns" in reading:
        source = OwnFiles(
            paths,
            Table(
                reading["train_file"],
                reading["columns"],
                [],
                reading["has_header"],
            ),
            {split: table_files.read_table(p) for split, p in paths.items()},
            reading["text_columns"],
            reading["label_column"],
            skip_empty_texts=skip_empty_texts,
        )
    if about["kind"] == "tagging":
        return OwnTagging(name, paths, source, about)
    kinds: dict[str, type[Task]] = {
        "classification": OwnClassification,
        "regression": OwnRegression,
        "multi_label_classification": OwnMultiLabel,
    }
    return kinds[about["kind"]](name, source, trained=about)  # type: ignore


def _refuse_conll(
    source: OwnFiles, rows: Sequence[OwnRow], task_type: str
) -> None:
    """Refuses a table that has a word and its tag in each row."""
    if task_type not in ("auto", "tagging"):
        return
    tags = {row.label for row in rows if isinstance(row.label, str)}
    has_words = all(len(labels_lib.items(row.texts[0])) == 1 for row in rows)
    if has_words and tag_schemes.are_span_tags(sorted(tags)):
        raise ValueError(
            "Expected a text and its label in each row. Received: "
            f"{source.train.path!r}, row {rows[0].number}, with a word and its "
            f"tag, {rows[0].texts[0]!r} and {rows[0].label!r}: such a file "
            f"ends in {' or '.join(_CONLL_ENDINGS)}, and has a blank row after "
            "each sentence. --task_type=classification reads texts of one word."
        )


def _describe(task: Task, source: OwnFiles, task_type: str) -> None:
    train = source.train
    texts = " and ".join(repr(column) for column in source.text_columns)
    kind = task_type
    if hasattr(task, "labels"):
        kind += f" with {len(task.labels)} labels ("
        kind += f"{text_tasks.listing(task.labels, 5)})"
    if isinstance(task, OwnRegression):
        kind += f" from {task.min_value} to {task.max_value}"
    if isinstance(task, OwnMultiLabel):
        between = f"between {task.separator!r}"
        kind += f" {between}" if task.has_separator else f", none {between}"
    header = ""
    if not train.has_header:
        header = f", no header: row {train.rows[0].number} is "
        header += ", ".join(repr(value[:30]) for value in train.first)
    task.origin = (
        f"{train.path}: text in column {texts}, labels in "
        f"{source.label_column!r}{header}: {kind}"
    )
