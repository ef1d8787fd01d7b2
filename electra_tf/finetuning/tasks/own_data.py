"""Tasks of your own files: what their columns and labels are is looked up.

    task = own_data.make_task("moods", {"train": "a.tsv", "dev": "b.tsv"})

Texts are in one or two columns, labels in another one. What was taken for what
is in the task's `origin`, a line for the log, so that a wrong guess is seen.
"""

import collections
import dataclasses
import os
import typing
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from electra_tf.finetuning import configs
from electra_tf.finetuning.tasks import table_files, tagging, text_tasks
from electra_tf.finetuning.tasks.table_files import Table, Value
from electra_tf.finetuning.tasks.task import Task
from electra_tf.finetuning.tasks.text_tasks import (
    MultiLabelTask,
    TextExample,
    number,
)

TASK_TYPES = ("auto", *configs.TASK_TYPES)

TEXT_PAIRS = (
    ("text_a", "text_b"),
    ("sentence1", "sentence2"),
    ("sentence_a", "sentence_b"),
    ("question1", "question2"),
    ("premise", "hypothesis"),
    ("question", "sentence"),
)
TEXT_NAMES = (
    *("text", "sentence", "document", "comment", "comments", "question"),
    *("review", "content", "tokens", "words", "title"),
)
LABEL_NAMES = (
    *("label", "labels", "score", "tags", "ner_tags", "tag", "class"),
    *("category", "target", "rating", "sentiment", "hate", "gold_label"),
)
_USUAL_NAMES = frozenset(
    name for names in (*TEXT_PAIRS, TEXT_NAMES, LABEL_NAMES) for name in names
)

# Files with a word and its tags in each row.
_CONLL_ENDINGS = (".txt", ".conll")
# Outside of spans where tags are such as PER-B.
_OUTSIDE_OF_KIND_FIRST = (tagging.OUTSIDE, "-")
# Between the labels of a row, in the order in which they are looked for.
_SEPARATORS = ("|", ";", ",")
# More different whole numbers than this are a quantity, not classes.
_MOST_NUMBERED_CLASSES = 20
# With this many rows, labels that never repeat are no classes.
_LEAST_ROWS_TO_JUDGE = 20


class OwnRow(typing.NamedTuple):
    """A row of a file.

    Attributes:
      texts: One or two; a list of words where the file has lists.
      label: As in the file; None in a split without labels.
      number: Of its first line in the file.
    """

    texts: list[Value]
    label: Value
    number: int


@dataclasses.dataclass
class OwnFiles:
    """The files of a task, and which columns count.

    Attributes:
      paths: Split -> file.
      train: The training file's rows.
      text_columns: Names of one or two columns.
      label_column: Name of the column of labels.
      skip_empty_texts: Leave rows without a text out.
      num_skipped: Split -> how many were, once it was read.
    """

    paths: dict[str, str]
    train: Table
    text_columns: list[str]
    label_column: str
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
            table = table_files.read_table(
                self.paths[split], None, _USUAL_NAMES, like=self.train
            )
        texts = [table.column(name, "text") for name in self.text_columns]
        label = None
        if split != "test" or self.label_column in table.columns:
            label = table.column(self.label_column, "labels")
        if split == "test" and label is not None:
            # A column of nothing stands for labels that are kept secret.
            values = (row.values[label] for row in table.rows)
            if all(value in (None, "") for value in values):
                label = None
        rows = []
        for row in table.rows:
            found = [row.values[i] for i in texts]
            empty = [
                name
                for name, text in zip(self.text_columns, found, strict=True)
                if not _items(text)
            ]
            if empty and self.skip_empty_texts:
                continue
            if empty:
                raise ValueError(
                    "Expected a text. Received: an empty one in "
                    f"{table.path!r}, row {row.number}, column {empty[0]!r} "
                    "(skip_empty_texts leaves such rows out)."
                )
            value = None if label is None else row.values[label]
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
    given = [name.lower() for name in (*text_columns, label_column) if name]
    names = _USUAL_NAMES.union(given)
    train = table_files.read_table(paths["train"], has_header, names)
    texts, label = choose_columns(train, text_columns, label_column)
    source = OwnFiles(paths, train, texts, label, skip_empty_texts)
    rows = source.rows("train")
    if task_type == "auto":
        task_type, label_separator = guess_type(rows, label_separator)
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


def _describe(task: Task, source: OwnFiles, task_type: str) -> None:
    texts = " and ".join(repr(column) for column in source.text_columns)
    kind = task_type
    if hasattr(task, "labels"):
        kind += f" with {len(task.labels)} labels ("
        kind += f"{text_tasks.listing(task.labels, 5)})"
    if isinstance(task, OwnRegression):
        kind += f" from {task.min_value} to {task.max_value}"
    task.origin = (
        f"{source.train.path}: text in column {texts}, labels in "
        f"{source.label_column!r}"
        + ("" if source.train.has_header else ", no header")
        + f": {kind}"
    )


def choose_columns(
    table: Table, text_columns: Sequence[str] = (), label_column: str = ""
) -> tuple[list[str], str]:
    """Which columns hold the texts and the labels.

    Args:
      table: The training file.
      text_columns: Those of the texts, if they are known.
      label_column: That of the labels, if it is known.

    Returns:
      Names of one or two columns, and of another one.

    Raises:
      ValueError: If there are no such columns, or more than one choice.
    """
    if len(text_columns) > 2:
        raise ValueError(
            "Expected one or two text columns. Received: "
            f"{', '.join(text_columns)}."
        )
    texts = list(text_columns)
    for name in texts:
        table.column(name, "text")
    if label_column:
        table.column(label_column, "labels")
    by_name = {column.lower(): column for column in table.columns[::-1]}
    taken = {*texts, label_column}
    if not texts:
        usual = [
            [by_name[name] for name in names if name in by_name]
            for names in (*TEXT_PAIRS, *((name,) for name in TEXT_NAMES))
        ]
        counts = [2] * len(TEXT_PAIRS) + [1] * len(TEXT_NAMES)
        texts = next(
            (
                found
                for found, count in zip(usual, counts, strict=True)
                if len(found) == count and not taken & set(found)
            ),
            [],
        )
    if not label_column:
        label_column = next(
            (
                by_name[name]
                for name in LABEL_NAMES
                if name in by_name and by_name[name] not in texts
            ),
            "",
        )
    left = [c for c in table.columns if c not in (*texts, label_column)]
    if not texts and not label_column and len(left) in (2, 3):
        label_column = _fewest_values(table, left[0], left[-1])
        left.remove(label_column)
    if not texts and len(left) in ((1,) if table.has_header else (1, 2)):
        texts = left
    elif not label_column and len(left) == 1:
        label_column = left[0]
    for found, what, setting in (
        (texts, "texts", "text_columns"),
        (label_column, "labels", "label_column"),
    ):
        if not found:
            raise ValueError(
                f"Expected to find the column of the {what} by its name, such "
                f"as {(TEXT_NAMES if what == 'texts' else LABEL_NAMES)[0]!r}. "
                f"Received: {table.path!r} with the columns "
                f"{', '.join(table.columns)}: say which in {setting}."
            )
    return texts, label_column


def _fewest_values(table: Table, first: str, last: str) -> str:
    """That of two columns with fewer different values; of equals the last."""

    def num_values(name):
        column = table.columns.index(name)
        return len({str(row.values[column]) for row in table.rows})

    return first if num_values(first) < num_values(last) else last


def guess_type(rows: Sequence[OwnRow], separator: str = "") -> tuple[str, str]:
    """What kind of task the labels make.

    Args:
      rows: Of the training file.
      separator: Between the labels of a row, where that is known.

    Returns:
      One of `TASK_TYPES` but "auto", and the separator of multi_label.
    """
    if any(isinstance(row.label, list) for row in rows):
        is_tagging = all(
            len(_items(row.texts[0])) == len(_items(row.label)) for row in rows
        )
        return ("tagging" if is_tagging else "multi_label"), separator
    if separator:
        return "multi_label", separator
    labels = [str(row.label) for row in rows]
    numbers = {number(label) for label in labels}
    if all(np.isfinite(value) for value in numbers):
        is_quantity = len(numbers) > _MOST_NUMBERED_CLASSES or any(
            value != round(value) for value in numbers
        )
        return ("regression" if is_quantity else "classification"), ""
    num_tags = [len(label.split()) for label in labels]
    if max(num_tags) > 1 and all(
        count == len(_items(row.texts[0]))
        for count, row in zip(num_tags, rows, strict=True)
    ):
        return "tagging", ""
    for separator in _SEPARATORS:
        if _separates(separator, set(labels)):
            return "multi_label", separator
    return "classification", ""


def _separates(separator: str, labels: set[str]) -> bool:
    """Whether parts of labels are labels, by themselves or in others."""
    counts = collections.Counter(
        part.strip() for label in labels for part in label.split(separator)
    )
    compound = [label for label in labels if separator in label]
    return any(
        counts[part.strip()] > 1
        for label in compound
        for part in label.split(separator)
        if part.strip()
    )


def _items(value: Value) -> list[str]:
    """The words, or the tags, of a row."""
    if isinstance(value, list):
        return value
    return (value or "").split()


class _OwnTextTask(text_tasks.TextTask):
    """Mixed into tasks with texts from files of one's own."""

    source: OwnFiles

    def splits(self):
        return self.source.splits()

    def has_labels(self, split):
        return self.source.has_labels(split)

    def read_examples(self, split):
        examples = []
        path = self.source.paths.get(split, "")
        for row in self.source.rows(split):
            texts = [
                " ".join(_items(t)) if isinstance(t, list) else t
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
        skipped = [
            f"{split}: {count} rows without a text are left out"
            for split, count in self.source.num_skipped.items()
            if count
        ]
        return skipped + super().warnings(examples, features)

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

    def __init__(self, name: str, source: OwnFiles):
        self.source = source
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
        if len(different) == len(labels) >= _LEAST_ROWS_TO_JUDGE:
            raise ValueError(
                "Expected labels that repeat. Received: "
                f"{len(different)} different ones in the {len(labels)} rows of "
                f"{path!r}, column {source.label_column!r}: is another column "
                "meant (label_column), or numbers (task_type='regression')?"
            )
        super().__init__(name, different)

    @property
    def unknown_label(self):
        return self.labels[0]


class OwnRegression(_OwnTextTask, text_tasks.RegressionTask):
    """A number a row; the range is that of the training file."""

    def __init__(self, name: str, source: OwnFiles):
        self.source = source
        path = source.train.path
        values = []
        for row in source.rows("train"):
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

    @property
    def unknown_label(self):
        return str(self.min_value)


class OwnMultiLabel(_OwnTextTask, MultiLabelTask):
    """Any labels a row: a list in JSON, or separated; none is allowed."""

    def __init__(self, name: str, source: OwnFiles, separator: str):
        self.source = source
        self.separator = separator or _SEPARATORS[0]
        labels = {
            label
            for row in source.rows("train")
            for label in self._split(row.label)
        }
        if not labels:
            raise ValueError(
                "Expected labels. Received: none in "
                f"{source.train.path!r}, column {source.label_column!r}."
            )
        super().__init__(name, sorted(labels))

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

    Tags such as B-PER, or PER-B, stand for spans if all do, else for
    themselves. The labels are those of the training file.

    Args:
      name: See `Task`.
      paths: Split -> file, in CoNLL's layout if there is no `source`.
      source: Columns of words and of tags, separated by white space or lists.
    """

    def __init__(
        self, name: str, paths: dict[str, str], source: OwnFiles | None = None
    ):
        super().__init__(name, paths, as_original=False)
        self.source = source
        self.is_kind_first = False
        self.is_kind_first = _are_kind_first(self._tags())
        tags = sorted(self._tags())
        self.is_token_level = tags == [tagging.OUTSIDE] or not all(
            tagging.is_span_tag(tag) for tag in tags
        )
        if self.is_token_level:
            self._labels = tags
        else:
            kinds = sorted({tag[2:] for tag in tags if tag != tagging.OUTSIDE})
            self._labels = [
                *(p + kind for kind in kinds for p in tagging.PREFIXES),
                tagging.OUTSIDE,
            ]
        self.origin = (
            f"{paths['train']}: a word and its tag in each row: tagging with "
            f"{len(tags)} tags ({text_tasks.listing(tags, 5)})"
        )

    def has_labels(self, split):
        return self.source is None or self.source.has_labels(split)

    def sentences(self, split):
        path = self.files[split]
        if self.source is None:
            return [
                sentence._replace(tags=self._as_usual(sentence.tags))
                for sentence in tagging.read_sentences(path, True)
            ]
        sentences = []
        for row in self.source.rows(split):
            words = _items(row.texts[0])
            tags = _items(row.label)
            if row.label is None:
                tags = [self.labels[-1]] * len(words)
            if len(words) != len(tags):
                raise ValueError(
                    "Expected as many tags as words. Received: "
                    f"{len(words)} words and {len(tags)} tags in {path!r}, row "
                    f"{row.number}."
                )
            sentences.append(
                tagging.Sentence(
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
        """PER-B as B-PER, where the training file has the former."""
        if not self.is_kind_first:
            return tuple(tags)
        return tuple(
            tagging.OUTSIDE
            if tag in _OUTSIDE_OF_KIND_FIRST
            else f"{tag[-1]}-{tag[:-2]}"
            for tag in tags
        )

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


def _are_kind_first(tags: Collection[str]) -> bool:
    """Whether tags are such as PER-B and -, as Korean sets have them."""
    of_spans = set(tags).difference(_OUTSIDE_OF_KIND_FIRST)
    ends = tuple(f"-{prefix[0]}" for prefix in tagging.PREFIXES)
    return bool(of_spans) and all(
        tag.endswith(ends) and len(tag) > 2 for tag in of_spans
    )
