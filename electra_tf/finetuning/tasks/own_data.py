"""Tasks of your own files: what their columns and labels are is looked up.

    task = own_data.make_task("moods", {"train": "a.tsv", "dev": "b.tsv"})

Texts are in one or two columns, labels in another one. What was taken for what
is in the task's `origin`, a line for the log, so that a wrong guess is seen.
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence

import numpy as np

from electra_tf.finetuning import configs
from electra_tf.finetuning.tasks import (
    columns,
    conll,
    table_files,
    tag_schemes,
    tagging,
    text_tasks,
)
from electra_tf.finetuning.tasks import labels as labels_lib
from electra_tf.finetuning.tasks.labels import OwnRow
from electra_tf.finetuning.tasks.table_files import Table, Value
from electra_tf.finetuning.tasks.task import Task
from electra_tf.finetuning.tasks.text_tasks import (
    MultiLabelTask,
    TextExample,
    number,
)

TASK_TYPES = ("auto", *configs.TASK_TYPES)

# Files with a word and its tags in each row.
_CONLL_ENDINGS = (".txt", ".conll")
# What empty texts become on the way through pandas.
_EMPTY_TEXTS = ("nan", "NaN", "<NA>", "None", "null")


@dataclasses.dataclass
class OwnFiles:
    """The files of a task, and which columns count.

    Attributes:
      paths: Split -> file.
      train: The training file's rows.
      others: Those of the other splits, their header as a row.
      header_is_given: Whether it was said if there is a header.
      text_columns: Names of one or two columns.
      label_column: Name of the column of labels.
      skip_empty_texts: Leave rows without a text out.
      num_skipped: Split -> how many were, once it was read.
    """

    paths: dict[str, str]
    train: Table
    others: dict[str, Table]
    text_columns: list[str]
    label_column: str
    header_is_given: bool = False
    skip_empty_texts: bool = False

    def __post_init__(self):
        self._rows: dict[str, list[OwnRow]] = {}
        self.num_skipped: dict[str, int] = {}

    def rows(self, split: str) -> list[OwnRow]:
        """The rows of a split.

        Raises:
          ValueError: If the file cannot be read, lacks a column, or a row has
            no text or, in a file with labels, no label.
        """
        if split not in self.paths:
            raise ValueError(
                f"Expected one of the splits {', '.join(sorted(self.paths))}. "
                f"Received: {split!r}."
            )
        if split not in self._rows:
            self._rows[split] = self._read(split)
        return self._rows[split]

    def has_labels(self, split: str) -> bool:
        """Whether the rows of a split have labels; only "test" may not."""
        return self.rows(split)[0].label is not None

    def reading(self) -> dict:
        """See `Task.reading`."""
        return {
            "train_file": self.train.path,
            "columns": self.train.columns,
            "has_header": self.train.has_header,
            "text_columns": self.text_columns,
            "label_column": self.label_column,
        }

    def splits(self) -> list[str]:
        """All splits, those with labels first."""
        return sorted(
            self.paths,
            key=lambda split: (
                split != "train",
                not self.has_labels(split),
                list(self.paths).index(split),
            ),
        )

    def _read(self, split: str) -> list[OwnRow]:
        table = self.train
        if split != "train":
            table = columns.like_train(
                self.others.pop(split),
                self.train,
                [*self.text_columns, self.label_column],
                not self.header_is_given,
            )
        texts = [table.column(name, "text") for name in self.text_columns]
        label = None
        if split != "test" or columns.has_like(table, self.label_column):
            # Refused where it is called otherwise.
            label = table.column(self.label_column, "labels")
        if split == "test" and label is not None:
            # A column of nothing stands for labels that are kept secret.
            values = (row.values[label] for row in table.rows)
            if all(value in (None, "") for value in values):
                label = None
        rows = []
        for row in table.rows:
            found = [row.values[i] for i in texts]
            value = None if label is None else row.values[label]
            for item in (*found, value):
                if isinstance(item, table_files.Json):
                    raise ValueError(
                        "Expected a text, or a list of texts. Received: "
                        f"{item[:40]} in {table.path!r}, row {row.number}."
                    )
            empty = [
                name
                for name, text in zip(self.text_columns, found, strict=True)
                if not labels_lib.items(text)
            ]
            if empty and self.skip_empty_texts:
                continue
            if empty:
                raise ValueError(
                    "Expected a text. Received: an empty one in "
                    f"{table.path!r}, row {row.number}, column {empty[0]!r} "
                    "(skip_empty_texts leaves such rows out)."
                )
            if label is not None and value is None:
                value = ""
            if isinstance(value, str):
                value = value.strip()
            rows.append(OwnRow(found, value, row.number))
        if not rows:
            raise ValueError(
                f"Expected texts. Received: none in {table.path!r}."
            )
        self.num_skipped[split] = len(table.rows) - len(rows)
        return rows


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
    if task_type == "auto":
        task_type, label_separator = labels_lib.guess_type(
            rows, label_separator, train.path
        )
    task: Task
    if task_type == "tagging":
        task = OwnTagging(name, paths, source)
    elif task_type == "multi_label":
        task = OwnMultiLabel(name, source, label_separator)
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
        kind += f" between {task.separator!r}" * task.has_separator
    header = ""
    if not train.has_header:
        header = f", no header: row {train.rows[0].number} is "
        header += ", ".join(repr(value[:30]) for value in train.first)
    task.origin = (
        f"{train.path}: text in column {texts}, labels in "
        f"{source.label_column!r}{header}: {kind}"
    )


class _OwnTextTask(text_tasks.TextTask):
    """Mixed into tasks with texts from files of one's own."""

    source: OwnFiles

    def reading(self):
        return self.source.reading()

    def splits(self):
        return self.source.splits()

    def has_labels(self, split):
        return self.source.has_labels(split)

    def read_examples(self, split):
        examples = []
        path = self.source.paths.get(split, "")
        for row in self.source.rows(split):
            texts = [
                " ".join(labels_lib.items(t)) if isinstance(t, list) else t
                for t in row.texts
            ]
            source = (path, row.number)
            text_a, text_b = (*texts, None)[:2]
            examples.append(
                TextExample(
                    eid=len(examples),
                    text_a=text_a,
                    text_b=text_b,
                    source=source,
                    has_label=row.label is not None,
                    **self.label_fields(row.label, source),
                )
            )
        self.label_features(examples)  # A label unknown in training raises.
        return examples

    def warnings(self, examples=None, features=None):
        found = [
            f"{split}: {count} rows without a text are left out"
            for split, count in self.source.num_skipped.items()
            if count
        ]
        for split, of_split in (examples or {}).items():
            texts = [t for e in of_split for t in (e.text_a, e.text_b)]
            num_empty = sum(text in _EMPTY_TEXTS for text in texts)
            if num_empty:
                found.append(
                    f"{split}: {num_empty} texts are such as 'nan': had they "
                    "none?"
                )
            if split != "train":
                labels = [e.labels or e.label for e in of_split if e.has_label]
                found += labels_lib.one_for_all(split, labels)
        found += labels_lib.remarks(getattr(self, "labels", ()))
        return found + super().warnings(examples, features)

    def label_fields(self, label: Value, source: tuple[str, int]) -> dict:
        """`label`, and what else of an example comes from it."""
        if label is None:
            return {"label": self.unknown_label}
        if isinstance(label, list) or not label:
            received = "a list" if label else "an empty one"
            path, row = source
            raise ValueError(
                f"Expected a label. Received: {received} in {path!r}, row "
                f"{row}."
            )
        return {"label": label}

    @property
    def unknown_label(self) -> str:
        """Stands for the label where there is none."""
        raise NotImplementedError


class OwnClassification(_OwnTextTask, text_tasks.ClassificationTask):
    """One label a row; the labels are those of the training file, sorted."""

    main_metric = "macro_f1"

    def __init__(
        self, name: str, source: OwnFiles, trained: Mapping | None = None
    ):
        self.source = source
        if trained is not None:
            super().__init__(name, trained["labels"])
            return
        path = source.train.path
        labels = []
        for row in source.rows("train"):
            fields = self.label_fields(row.label, (path, row.number))
            labels.append(fields["label"])
        different = sorted(set(labels))
        if len(different) < 2:
            raise ValueError(
                "Expected two or more different labels. Received: "
                f"{path!r} with the label {different[0]!r} only."
            )
        super().__init__(name, different)

    @property
    def unknown_label(self):
        return self.labels[0]


class OwnRegression(_OwnTextTask, text_tasks.RegressionTask):
    """A number a row; the range is that of the training file."""

    def __init__(
        self, name: str, source: OwnFiles, trained: Mapping | None = None
    ):
        self.source = source
        if trained is not None:
            self.has_decimal_commas = trained["reading"]["has_decimal_commas"]
            names = ("min_value", "max_value", "scale")
            super().__init__(name, *(trained[value] for value in names))
            return
        path = source.train.path
        values = []
        rows = source.rows("train")
        self.has_decimal_commas = labels_lib.have_decimal_commas(
            [row.label for row in rows if isinstance(row.label, str)], path
        )
        for row in rows:
            fields = self.label_fields(row.label, (path, row.number))
            values.append(number(fields["label"]))
            if not np.isfinite(values[-1]):
                raise ValueError(
                    f"Expected a number. Received: {row.label!r} in {path!r}, "
                    f"row {row.number}."
                )
        least, most = min(values), max(values)
        if least == most:
            raise ValueError(
                "Expected two or more different numbers. Received: "
                f"{path!r} with {least} only."
            )
        super().__init__(name, least, most, scale=most - least)

    def reading(self):
        commas = {"has_decimal_commas": self.has_decimal_commas}
        return super().reading() | commas

    def label_fields(self, label, source):
        fields = super().label_fields(label, source)
        if self.has_decimal_commas:
            fields["label"] = fields["label"].replace(",", ".")
        return fields

    @property
    def unknown_label(self):
        return str(self.min_value)


class OwnMultiLabel(_OwnTextTask, MultiLabelTask):
    """Any labels a row: a list in JSON, or separated; none is allowed."""

    def __init__(
        self,
        name: str,
        source: OwnFiles,
        separator: str = "",
        trained: Mapping | None = None,
    ):
        self.source = source
        if trained is not None:
            self.separator = trained["reading"]["label_separator"]
            super().__init__(name, trained["labels"])
            return
        rows = source.rows("train")
        texts = [row.label for row in rows if isinstance(row.label, str)]
        self.separator = separator or labels_lib.separator_of(
            texts, source.train.path
        )
        self.has_separator = any(self.separator in text for text in texts)
        if separator and texts and not self.has_separator:
            raise ValueError(
                f"Expected labels with {separator!r} between them "
                f"(label_separator). Received: none in {source.train.path!r}, "
                f"column {source.label_column!r}, such as {texts[0]!r}."
            )
        labels = {label for row in rows for label in self._split(row.label)}
        if not labels:
            raise ValueError(
                "Expected labels. Received: none in "
                f"{source.train.path!r}, column {source.label_column!r}."
            )
        super().__init__(name, sorted(labels))

    def reading(self):
        return super().reading() | {"label_separator": self.separator}

    def label_fields(self, label, source):
        del source
        labels = tuple(self._split(label))
        return {"label": "|".join(labels), "labels": labels}

    def _split(self, label: Value) -> list[str]:
        if label is None:
            return []
        if isinstance(label, str):
            label = label.split(self.separator)
        return [part.strip() for part in label if part.strip()]


class OwnTagging(tagging.TaggingTask):
    """A tag for each word.

    Tags stand for spans if all do, in one of the ways of `tag_schemes`, else
    for themselves. The labels are those of the training file.

    Args:
      name: See `Task`.
      paths: Split -> file, in CoNLL's layout if there is no `source`.
      source: Columns of words and of tags, separated by white space or lists.
      trained: See `task_of_model`; None to look at the training file.
    """

    def __init__(
        self,
        name: str,
        paths: dict[str, str],
        source: OwnFiles | None = None,
        trained: Mapping | None = None,
    ):
        super().__init__(name, paths, as_original=False)
        self.source = source
        self._read: dict[str, conll.File] = {}
        self.form = ""
        if trained is not None:
            self.form = trained["reading"]["form"]
            self.is_token_level = trained["is_token_level"]
            self._labels = list(trained["labels"])
            return
        found = self._tags()
        self.form = tag_schemes.form_of(found)
        stray = "" if self.form else tag_schemes.stray_tag(found)
        if stray:
            row = next(
                s.row for s in self.sentences("train") if stray in s.tags
            )
            raise ValueError(
                "Expected tags such as B-PER, I-PER and O, as others are. "
                f"Received: {stray!r} in {paths['train']!r}, in the sentence "
                f"that begins in row {row}."
            )
        tags = sorted(self._tags())
        self.is_token_level = not self.form
        if self.is_token_level:
            self._refuse_other_columns(tags)
            self._labels = tags
        else:
            kinds = sorted({tag[2:] for tag in tags if tag != tagging.OUTSIDE})
            self._labels = [
                *(p + kind for kind in kinds for p in tagging.PREFIXES),
                tagging.OUTSIDE,
            ]
        changed = sorted(found.difference(tags))
        self.origin = (
            f"{paths['train']}: a word and its tag in each row: tagging with "
            f"{len(tags)} tags ({text_tasks.listing(tags, 5)})"
            + f", written {text_tasks.listing(changed, 5)}"
            * bool(changed)
        )
        num_comments = sum(file.num_comments for file in self._read.values())
        if num_comments:
            self.origin += f"; {num_comments} rows of comments left out"

    def _refuse_other_columns(self, tags: list[str]) -> None:
        """Refuses what is no column of tags, or none of words."""
        path = self.files["train"]
        if len(tags) == 1:
            raise ValueError(
                f"Expected words with different tags. Received: {tags[0]!r} "
                f"for all words of {path!r}."
            )
        words = {w for s in self.sentences("train") for w in s.words}
        if tag_schemes.form_of(words):
            raise ValueError(
                "Expected a word and its tag in each row, the tag last. "
                f"Received: tags in place of words, such as {max(words)!r}, in "
                f"{path!r}."
            )

    def reading(self):
        of_columns = self.source.reading() if self.source else {}
        return of_columns | {"form": self.form}

    def has_labels(self, split):
        if self.source is not None:
            return self.source.has_labels(split)
        return self._file(split).sentences[0].has_tags

    def _file(self, split: str) -> conll.File:
        """What a file in CoNLL's layout has; only "test" may lack tags."""
        if split not in self._read:
            has_train = split == "test" and "train" in self.files
            train = self._file("train") if has_train else None
            self._read[split] = conll.read(self.files[split], train=train)
        return self._read[split]

    def sentences(self, split):
        path = self.files[split]
        if self.source is None:
            return [
                sentence._replace(tags=self._as_usual(sentence.tags))
                for sentence in self._file(split).sentences
            ]
        sentences = []
        for row in self.source.rows(split):
            words = labels_lib.items(row.texts[0])
            # Lists may have what no file of words and tags has.
            tags = [tag.strip() for tag in labels_lib.items(row.label)]
            if "" in tags or not all(map(str.strip, words)):
                raise ValueError(
                    "Expected words, and a tag for each. Received: an empty "
                    f"{'tag' if '' in tags else 'word'} in {path!r}, row "
                    f"{row.number}."
                )
            if row.label is None:
                tags = [self.labels[-1]] * len(words)
            if len(words) != len(tags):
                raise ValueError(
                    "Expected as many tags as words. Received: "
                    f"{len(words)} words and {len(tags)} tags in {path!r}, row "
                    f"{row.number}."
                )
            sentences.append(
                conll.Sentence(
                    tuple(words),
                    self._as_usual(tags),
                    row.number,
                    has_tags=row.label is not None,
                )
            )
        return sentences

    def _tags(self) -> set[str]:
        """Those of the training file."""
        return {t for s in self.sentences("train") for t in s.tags}

    def _as_usual(self, tags: Sequence[str]) -> tuple[str, ...]:
        """The tags of spans in one way, see `tag_schemes`."""
        return tuple(tag_schemes.as_bioes(tag, self.form) for tag in tags)

    def warnings(self, examples=None, features=None):
        names = self.labels
        if not self.is_token_level:
            names = sorted({label[2:] for label in names} - {""})
        found = labels_lib.remarks(names)
        return found + super().warnings(examples, features)

    def labels_of_tags(self, sentence, path):
        labels = super().labels_of_tags(sentence, path)
        unknown = [label for label in labels if label not in self.labels]
        if unknown:
            raise ValueError(
                f"Expected one of the labels {text_tasks.listing(self.labels)},"
                f" as in the training file. Received: {unknown[0]!r} in "
                f"{path!r}, row {sentence.row}."
            )
        return labels
