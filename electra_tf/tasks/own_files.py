"""Tasks of files of one's own: classes, numbers, several labels or tags a row.

    task = own_files.make_task("moods", {"train": "a.tsv", "dev": "b.tsv"})

How the training file was read is in the task's `origin`, a line for the log.
"""

import dataclasses
import os
import typing
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from electra_tf import errors
from electra_tf.model import task_head
from electra_tf.tasks import conll, tables, tag_schemes, tagging, text_tasks
from electra_tf.tasks.task import Task
from electra_tf.tasks.text_tasks import TextExample, listing, number

NO_LABEL = tagging.NO_LABEL
# A test file whose labels are all of these keeps them secret.
_SECRET = (None, "", NO_LABEL, int(NO_LABEL))

Value = str | list[str] | None


class Row(typing.NamedTuple):
    """The columns of a row that count.

    Attributes:
      source: File and number, for error messages.
      texts: One or two; a list of words where the file has a list.
      label: As in the file, "" for an empty one; None in a split without
        labels.
    """

    source: tuple[str, int]
    texts: Sequence[Value]
    label: Value


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
      task_type: One of `names.TASK_TYPES`. "auto" takes lists of words for
        tagging, lists of labels and labels with a separator for multi_label,
        numbers with a decimal point for regression, and all else for classes.
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

    Raises:
      ValueError: If the files cannot be read or make no such task.
    """
    paths = {split: os.fspath(path) for split, path in files.items() if path}
    if "train" not in paths:
        raise ValueError(
            "Expected a training file, whose labels define the task. "
            f"Received: {sorted(paths)}."
        )
    table = tables.read(paths["train"], has_header)
    if {"question", "context"} <= {*table.columns} and not text_columns:
        raise ValueError(
            "Expected texts with classes, numbers or tags. Received: "
            f"{table.path!r}, questions on passages, which are read as "
            "squad/train.json by --task_names=squad --data_dir=<its folder>."
        )
    texts, label = tables.choose_columns(table, text_columns, label_column)
    source = OwnFiles(
        paths,
        texts,
        label,
        has_header,
        list(label_names),
        label_separator or task_head.LABEL_SEPARATOR,
        skip_empty_texts,
    )
    if task_type == "auto":
        task_type = _kind_of_labels(source, bool(label_separator))
    if task_type == "regression":
        rows = source.rows("train")
        values = {text_tasks.number_in(_one(row), row.source) for row in rows}
        _refuse_few(values, source, 2)
        model: dict = {"min_value": min(values), "max_value": max(values)}
        model["scale"] = model["max_value"] - model["min_value"]
        what = "from {min_value} to {max_value}".format(**model)
    elif task_type == "tagging":
        model = _tags_of(name, source)
        what = f"with {len(model['labels'])} tags"
        if model["form"]:
            kinds = listing(_kinds_of_spans(model["labels"]), 5)
            what = f"with spans of {kinds} in {model['scheme']}"
    else:
        model = _labels_of(source, task_type == "classification")
        names = model["labels"]
        what = f"with {len(names)} labels ({listing(names, 5)})"
    task = _task(name, source, task_type, model)
    left = [c for c in table.columns if c not in (*texts, label)]
    task.origin = (
        f"{table.path}: text in {'columns' if texts[1:] else 'column'} "
        f"{' and '.join(map(repr, texts))}, labels in {label!r}: {task_type} "
        f"{what}" + f"; not read: {listing(left)}" * bool(left)
    )
    return task


def task_of_model(
    name: str,
    files: Mapping[str, str | os.PathLike],
    model: Mapping,
    skip_empty_texts: bool = False,
) -> Task:
    """The task of a model, for files that are like its training file.

    Args:
      name: See `Task`.
      files: "dev" or "test", or both -> file; see `make_task`.
      model: `Task.description` of the task that was trained, and as "reading"
        its `Task.reading`.
      skip_empty_texts: See `make_task`.

    Raises:
      ValueError: If a file cannot be read.
    """
    paths = {split: os.fspath(path) for split, path in files.items() if path}
    reading = model["reading"]
    source = OwnFiles(paths, **reading, skip_empty_texts=skip_empty_texts)
    kind = model["kind"].removesuffix("_classification")
    return _task(name, source, kind, model)


def _task(name: str, source: "OwnFiles", kind: str, model: Mapping) -> Task:
    """The task of one of `names.TASK_TYPES`, as `Task.description` has it."""
    task: Task
    if kind == "tagging":
        task = tagging.TaggingTask(
            name, source.paths, model["is_token_level"], False, model["labels"]
        )
        task.form, task.scheme = model["form"], model["scheme"]
    elif kind == "regression":
        unit = (model[key] for key in ("min_value", "max_value", "scale"))
        task = text_tasks.RegressionTask(name, *unit)
    elif kind == "multi_label":
        task = text_tasks.MultiLabelTask(name, model["labels"])
    else:
        task = text_tasks.ClassificationTask(name, model["labels"])
        task.main_metric = "macro_f1"
    task.source = source
    return task


@dataclasses.dataclass
class OwnFiles:
    """The files of a task, and which of their columns count.

    Attributes:
      paths: Split -> file.
      text_columns: See `make_task`, as are the others.
      label_column: "test" may lack it.
    """

    paths: dict[str, str]
    text_columns: list[str]
    label_column: str
    has_header: bool = True
    label_names: Sequence[str] = ()
    label_separator: str = task_head.LABEL_SEPARATOR
    skip_empty_texts: bool = False

    def __post_init__(self):
        self._rows: dict[str, list[Row]] = {}

    def rows(self, split: str) -> list[Row]:
        """The rows of a split, whose file is read once.

        Raises:
          ValueError: If the file cannot be read, lacks a column, or a row has
            no text.
        """
        if split not in self._rows:
            self._rows[split] = self._read(split)
        return self._rows[split]

    def has_labels(self, split: str) -> bool:
        """Whether the rows of a split have labels; only "test" may not."""
        return self.rows(split)[0].label is not None

    def splits(self) -> list[str]:
        """All splits: "train" first, those without labels last."""
        return sorted(
            self.paths, key=lambda s: (s != "train", not self.has_labels(s))
        )

    def reading(self) -> dict:
        """See `Task.reading`."""
        values = dataclasses.asdict(self)
        del values["paths"], values["skip_empty_texts"]
        return values

    def _read(self, split: str) -> list[Row]:
        path, is_test = self.paths[split], split == "test"
        table = tables.read(path, self.has_header)
        texts = [table.find(c, "--text_columns") for c in self.text_columns]
        flag = "" if is_test else "--label_column"
        label = table.find(self.label_column, flag)
        if is_test and label:
            labels = (values[label] for _, values in table.rows)
            if all(value in _SECRET for value in labels):
                label = ""
        rows = []
        for number_, values in table.rows:
            where = f"{path!r}, row {number_}"
            row_texts = [tables.value_of(values[t], where) for t in texts]
            if all(map(_words, row_texts)):
                said = None
                if label:
                    said = tables.value_of(values[label], where)
                    said = self._named(said, where)
                rows.append(Row((path, number_), row_texts, said))
            elif not self.skip_empty_texts:
                raise ValueError(
                    f"Expected a text. Received: an empty one in {where} "
                    "(--skip_empty_texts leaves such rows out)."
                )
        if not rows:
            raise ValueError(f"Expected texts. Received: none in {path!r}.")
        if num_skipped := len(table.rows) - len(rows):
            errors.warn(
                f"{path}: {num_skipped} rows without a text are left out"
            )
        return rows

    def _named(self, label: Value, where: str) -> Value:
        """A label without white space around it, by its name if it has one."""
        if isinstance(label, list):
            return [str(self._named(item, where)) for item in label]
        label = (label or "").strip()
        if not self.label_names or label in ("", NO_LABEL):
            return label
        if label.isdigit() and int(label) < len(self.label_names):
            return self.label_names[int(label)]
        raise ValueError(
            f"Expected a label from 0 to {len(self.label_names) - 1}, of which "
            f"--label_names has names. Received: {label!r} in {where}."
        )

    def split_label(self, label: Value) -> tuple[str, ...]:
        """The labels of a row that may have several."""
        parts = label or ()
        if isinstance(label, str):
            parts = label.split(self.label_separator)
        return tuple(part.strip() for part in parts if part.strip())

    def examples(self, split: str, may_be_many: bool) -> list[TextExample]:
        """The rows as texts, with a label or with any number of them."""
        examples = []
        for eid, row in enumerate(self.rows(split)):
            texts = (
                text if isinstance(text, str) else " ".join(text or ())
                for text in row.texts
            )
            text_a, text_b = (*texts, None)[:2]
            labels: tuple[str, ...] = ()
            if may_be_many:
                labels = self.split_label(row.label)
            elif row.label is not None:
                labels = (_one(row),)
            examples.append(
                TextExample(
                    eid,
                    str(text_a),
                    text_b,
                    task_head.LABEL_SEPARATOR.join(labels),
                    row.source,
                    row.label is not None,
                    labels if may_be_many else (),
                )
            )
        return examples

    def sentences(
        self, split: str, outside: str = tagging.OUTSIDE
    ) -> list[conll.Sentence]:
        """The rows as words and tags, `outside` where there are none."""
        sentences = []
        for row in self.rows(split):
            words, tags = _words(row.texts[0]), _words(row.label)
            if row.label is None:
                tags = [outside] * len(words)
            path, number_ = row.source
            if len(words) != len(tags) or not all(map(str.strip, words + tags)):
                raise ValueError(
                    "Expected words, none empty, and a tag for each "
                    "(--task_type says another kind of labels). Received: "
                    f"{len(words)} words and {len(tags)} tags in {path!r}, row "
                    f"{number_}."
                )
            sentences.append(conll.Sentence(tuple(words), tuple(tags), number_))
        return sentences


def _words(value: Value) -> list[str]:
    """The words, or the tags, of a row."""
    return value if isinstance(value, list) else (value or "").split()


def _one(row: Row) -> str:
    """The label of a row that has one."""
    if isinstance(row.label, str) and row.label not in ("", NO_LABEL):
        return row.label
    raise ValueError(
        f"Expected a label. Received: {row.label or 'an empty one'} in "
        f"{row.source[0]!r}, row {row.source[1]}."
    )


# --- What the labels of the training file say --------------------------------


def _kind_of_labels(source: OwnFiles, has_separator: bool) -> str:
    """One of `names.TASK_TYPES`."""
    rows = source.rows("train")
    if isinstance(rows[0].texts[0], list):
        return "tagging"
    has_lists = any(isinstance(row.label, list) for row in rows)
    values = [str(row.label) for row in rows]
    written = "".join(values)
    if has_separator or has_lists or task_head.LABEL_SEPARATOR in written:
        return "multi_label"
    if "." in written and np.isfinite([*map(number, values)]).all():
        return "regression"
    return "classification"


def _labels_of(source: OwnFiles, is_one: bool) -> dict:
    """The classes of the training file, in their order."""
    rows = source.rows("train")
    if is_one:
        labels = set(map(_one, rows))
    else:
        labels = {x for row in rows for x in source.split_label(row.label)}
    _refuse_few(labels, source, 1 + is_one)
    return {"labels": text_tasks.in_order(labels)}


def _tags_of(name: str, source: OwnFiles) -> dict:
    """How the training file tags its words: spans, if all tags are of some."""
    sentences = source.sentences("train")
    tags = {t for s in sentences for t in s.tags} - {NO_LABEL}
    _refuse_few(tags, source, 2)
    form, scheme = tag_schemes.form_of(tags), "BIOES"
    labels = text_tasks.in_order(tags)
    if form:
        scheme, is_mixed = tag_schemes.scheme_of(
            (sentence.tags for sentence in sentences), form
        )
        if is_mixed:
            errors.warn(
                f"{name}: the tags of training are in {scheme}, but some spans"
                " begin or end in another scheme: answers are in the first"
            )
        kinds = _kinds_of_spans(tag_schemes.as_bioes(t, form) for t in tags)
        labels = [p + kind for kind in kinds for p in tagging.PREFIXES]
        labels.append(tagging.OUTSIDE)
    elif all(map(str.isdigit, tags)):
        errors.warn(
            f"{name}: the tags are numbers, and scored as those of words: "
            "spans need their names, --label_names=O,B-PER,I-PER,..."
        )
    is_token_level = not form
    return {"labels": labels, "form": form, "scheme": scheme,
            "is_token_level": is_token_level}  # fmt: skip


def _kinds_of_spans(tags: Iterable[str]) -> list[str]:
    """Such as PER of B-PER; what the file calls them, unlike the letters."""
    return sorted({tag[2:] for tag in tags if tagging.is_span_tag(tag)} - {""})


def _refuse_few(labels: set, source: OwnFiles, least: int) -> None:
    if len(labels) < least:
        shown = listing(sorted(labels)) or "none"
        raise ValueError(
            f"Expected {least} or more different labels. Received: "
            f"{source.paths['train']!r} with {shown} only."
        )
