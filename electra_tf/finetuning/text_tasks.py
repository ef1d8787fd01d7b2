"""Tasks with one label or number for each text or pair of texts.

Shapes: N rows, L length.
"""

import abc
import os
import pathlib
import typing
import warnings
from collections.abc import Sequence

import numpy as np

from electra_tf.finetuning import features as features_lib
from electra_tf.finetuning import heads, metrics
from electra_tf.finetuning.features import Features
from electra_tf.finetuning.task import Task, read_tsv


class TextExample(typing.NamedTuple):
    """One text, or a pair of texts, with its label.

    Attributes:
      eid: Number of the example in its split.
      text_a: The text.
      text_b: The second text of a pair, or None.
      label: As in the file.
      source: File and row, for error messages.
    """

    eid: int
    text_a: str
    text_b: str | None
    label: str
    source: tuple[str, int]


class _TextTask(Task):
    """A task with one label for each text or pair of texts."""

    def features(self, examples, tokenizer, max_seq_length, is_training=False):
        del is_training
        features = features_lib.text_features(
            [example.text_a for example in examples],
            [example.text_b for example in examples],
            tokenizer,
            max_seq_length,
        )
        eids = [example.eid for example in examples]
        features[f"{self.name}_eid"] = np.array(eids, np.int32)
        return features | self._label_features(examples)

    @abc.abstractmethod
    def _label_features(self, examples: Sequence[TextExample]) -> Features:
        """What the labels become."""


class ClassificationTask(_TextTask):
    """A task whose labels come from a list.

    Attributes:
      labels: The list; a label's id is its index.
    """

    def __init__(self, name: str, labels: Sequence[str]):
        super().__init__(name)
        self.labels = list(labels)

    def _label_features(self, examples):
        ids = {label: i for i, label in enumerate(self.labels)}
        for example in examples:
            if example.label not in ids:
                path, row = example.source
                raise ValueError(
                    f"Expected one of the labels {_listing(self.labels)}. "
                    f"Received: {example.label!r} in {path!r}, row {row}."
                )
        label_ids = [ids[example.label] for example in examples]
        return {f"{self.name}_label_ids": np.array(label_ids, np.int32)}

    def make_head(self, config):
        return heads.ClassificationHead(
            self.name, config.hidden_size, len(self.labels)
        )

    def scores(self, outputs, examples=(), tokenizer=None, max_seq_length=0):
        del examples, tokenizer, max_seq_length
        return {
            "accuracy": metrics.accuracy(
                outputs["label_ids"], outputs["predictions"]
            ),
            "loss": metrics.mean(outputs["loss"]),
        }


def _listing(labels: Sequence[str], most: int = 10) -> str:
    shown = ", ".join(repr(label) for label in labels[:most])
    left_out = len(labels) - most
    return shown if left_out <= 0 else f"{shown} and {left_out} more"


class LabelledTextTask(ClassificationTask):
    """Labelled texts in files of two tab-separated columns, text and label.

    The first row of each file names the columns; their order and further
    columns do not matter. Quotes mean nothing. The labels are those of the
    training file, sorted.

    Args:
      name: See `Task`.
      files: Split ("train" is required, also "dev" and "test") -> file.

    Raises:
      ValueError: If the training file cannot be read or has less than two
        labels.
    """

    TEXT_COLUMN = "text"
    LABEL_COLUMN = "label"

    def __init__(self, name: str, files: dict[str, str]):
        self.files = {split: path for split, path in files.items() if path}
        if "train" not in self.files:
            raise ValueError(
                "Expected a training file, whose labels define the task. "
                f"Received: {sorted(self.files)}."
            )
        self._train_examples = self._read(self.files["train"])
        labels = sorted({example.label for example in self._train_examples})
        if len(labels) < 2:
            raise ValueError(
                "Expected two or more different labels. Received: "
                f"{self.files['train']!r} with the label {labels[0]!r} only."
            )
        super().__init__(name, labels)

    def read_examples(self, split):
        if split == "train":
            return list(self._train_examples)
        if split not in self.files:
            raise ValueError(
                f"Expected one of the splits {', '.join(sorted(self.files))}. "
                f"Received: {split!r}."
            )
        examples = self._read(self.files[split])
        self._label_features(examples)  # A label unknown in training raises.
        return examples

    def _read(self, path: str) -> list[TextExample]:
        rows = read_tsv(path)
        header_row, header = next(rows)
        for column in (self.TEXT_COLUMN, self.LABEL_COLUMN):
            if header.count(column) != 1:
                raise ValueError(
                    "Expected a first row with the columns "
                    f"{self.TEXT_COLUMN!r} and {self.LABEL_COLUMN!r}, "
                    f"separated by a tab. Received: {header} in {path!r}, row "
                    f"{header_row}."
                )
        text_column = header.index(self.TEXT_COLUMN)
        label_column = header.index(self.LABEL_COLUMN)
        examples: list[TextExample] = []
        for row, values in rows:
            if len(values) != len(header):
                raise ValueError(
                    f"Expected {len(header)} columns separated by tabs. "
                    f"Received: {len(values)} in {path!r}, row {row}."
                )
            label = values[label_column].strip()
            if not label:
                raise ValueError(
                    "Expected a label. Received: an empty one in "
                    f"{path!r}, row {row}."
                )
            examples.append(
                TextExample(
                    eid=len(examples),
                    text_a=values[text_column],
                    text_b=None,
                    label=label,
                    source=(path, row),
                )
            )
        if not examples:
            raise ValueError(
                "Expected examples after the first row. Received: none in "
                f"{path!r}."
            )
        return examples


class Columns(typing.NamedTuple):
    """Where the parts of an example are in a row of a GLUE file.

    Attributes:
      text_a: Column of the text; negative ones count from the end.
      text_b: Column of the second text, or None.
      label: Column of the label, or None for a split without labels.
      has_header: Whether the first row is no example.
    """

    text_a: int
    text_b: int | None
    label: int | None
    has_header: bool = True


def read_glue(
    path: str,
    columns: Columns,
    dummy_label: str,
    swap: bool = False,
    eid_offset: int = 0,
) -> list[TextExample]:
    """Reads a GLUE file as the original does.

    A row that lacks a column is left out, with a warning for all of them: some
    of GLUE's files have such rows. Example numbers count them.

    Args:
      path: The file.
      columns: Of the file.
      dummy_label: The label where the split has none.
      swap: Exchange the two texts.
      eid_offset: Number of the first example.

    Raises:
      ValueError: If the file cannot be read or no row has the columns.
    """
    wanted = [column for column in columns[:3] if column is not None]
    least = max(column + 1 if column >= 0 else -column for column in wanted)
    examples: list[TextExample] = []
    short_rows: list[tuple[int, int]] = []
    for row, values in read_tsv(path):
        if row == 1 and columns.has_header:
            continue
        if len(values) < least:
            short_rows.append((row, len(values)))
            continue
        text_a = values[columns.text_a]
        text_b = None if columns.text_b is None else values[columns.text_b]
        if swap and text_b is not None:
            text_a, text_b = text_b, text_a
        label = dummy_label if columns.label is None else values[columns.label]
        eid = row - 1 - columns.has_header + eid_offset
        examples.append(TextExample(eid, text_a, text_b, label, (path, row)))
    if short_rows:
        row, found = short_rows[0]
        problem = (
            f"Expected {least} or more columns separated by tabs. Received: "
            f"{found} in {path!r}, row {row}"
        )
        if not examples:
            raise ValueError(f"{problem}, and no row with enough.")
        warnings.warn(
            f"{problem}; {len(short_rows)} such row(s) are left out.",
            stacklevel=2,
        )
    if not examples:
        raise ValueError(f"Expected examples. Received: none in {path!r}.")
    return examples


class GlueFiles:
    """Mixed into GLUE tasks: one file for each split in one folder.

    Attributes:
      SPLIT_COLUMNS: Split -> columns; the others are of "train".
      DUMMY_LABEL: The label of splits without labels.
      UNORDERED: Whether the two texts may change places, so that training sees
        each pair in both orders.
    """

    SPLIT_COLUMNS: dict[str, Columns]
    DUMMY_LABEL: str
    UNORDERED = False

    data_dir: pathlib.Path
    double_unordered: bool

    def read_examples(self, split: str) -> list[TextExample]:
        path = os.fspath(self.data_dir / f"{self.file_stem(split)}.tsv")
        columns = self.SPLIT_COLUMNS.get(split, self.SPLIT_COLUMNS["train"])
        if split.startswith("test") or split == "diagnostic":
            columns = columns._replace(label=None)
        examples = read_glue(path, columns, self.DUMMY_LABEL)
        if self.UNORDERED and self.double_unordered and split == "train":
            examples += read_glue(
                path, columns, self.DUMMY_LABEL, True, len(examples)
            )
        return examples

    def file_stem(self, split: str) -> str:
        return split


class _GlueClassification(GlueFiles, ClassificationTask):
    """A GLUE task with labels.

    Args:
      data_dir: The folder with the task's files.
      double_unordered: See `GlueFiles.UNORDERED`.
    """

    NAME: str
    LABELS: tuple[str, ...] = ("0", "1")

    def __init__(
        self, data_dir: str | os.PathLike, double_unordered: bool = True
    ):
        super().__init__(self.NAME, self.LABELS)
        self.data_dir = pathlib.Path(data_dir)
        self.double_unordered = double_unordered
        self.DUMMY_LABEL = self.LABELS[0]


class Cola(_GlueClassification):
    """Corpus of Linguistic Acceptability; scored by Matthews' correlation."""

    NAME = "cola"
    SPLIT_COLUMNS = {
        "train": Columns(3, None, 1, has_header=False),
        "test": Columns(1, None, None),
    }

    def scores(self, outputs, examples=(), tokenizer=None, max_seq_length=0):
        del examples, tokenizer, max_seq_length
        return {
            "mcc": metrics.matthews_correlation(
                outputs["label_ids"], outputs["predictions"]
            ),
            "loss": metrics.mean(outputs["loss"]),
        }


class Sst(_GlueClassification):
    """Stanford Sentiment Treebank."""

    NAME = "sst"
    SPLIT_COLUMNS = {
        "train": Columns(0, None, 1),
        "test": Columns(1, None, None),
    }


class Mrpc(_GlueClassification):
    """Microsoft Research Paraphrase Corpus."""

    NAME = "mrpc"
    UNORDERED = True
    SPLIT_COLUMNS = {"train": Columns(3, 4, 0)}


class Qqp(_GlueClassification):
    """Quora Question Pairs."""

    NAME = "qqp"
    SPLIT_COLUMNS = {"train": Columns(3, 4, 5), "test": Columns(1, 2, None)}


class Mnli(_GlueClassification):
    """Multi-Genre Natural Language Inference; "dev" is the matched set."""

    NAME = "mnli"
    LABELS = ("contradiction", "entailment", "neutral")
    SPLIT_COLUMNS = {
        "train": Columns(8, 9, -1),
        "diagnostic": Columns(1, 2, None),
    }

    def file_stem(self, split):
        return "dev_matched" if split == "dev" else split


class Rte(_GlueClassification):
    """Recognizing Textual Entailment."""

    NAME = "rte"
    LABELS = ("entailment", "not_entailment")
    SPLIT_COLUMNS = {"train": Columns(1, 2, 3)}


class Qnli(Rte):
    """Question-answering Natural Language Inference."""

    NAME = "qnli"


class Wnli(_GlueClassification):
    """Winograd Natural Language Inference. Not in the original."""

    NAME = "wnli"
    SPLIT_COLUMNS = {"train": Columns(1, 2, 3)}


class RegressionTask(_TextTask):
    """A task whose labels are numbers in a range.

    Attributes:
      min_value: The least label.
      max_value: The greatest label.
    """

    def __init__(self, name: str, min_value: float, max_value: float):
        super().__init__(name)
        self.min_value = min_value
        self.max_value = max_value

    def _label_features(self, examples):
        targets = []
        for example in examples:
            try:
                value = float(example.label)
            except ValueError:
                value = float("nan")
            if not self.min_value <= value <= self.max_value:
                path, row = example.source
                raise ValueError(
                    f"Expected a number from {self.min_value} to "
                    f"{self.max_value}. Received: {example.label!r} in "
                    f"{path!r}, row {row}."
                )
            # Divided by the maximum, not by the range, as in the original.
            targets.append((value - self.min_value) / self.max_value)
        return {f"{self.name}_targets": np.array(targets, np.float32)}

    def make_head(self, config):
        return heads.RegressionHead(self.name, config.hidden_size)

    def scores(self, outputs, examples=(), tokenizer=None, max_seq_length=0):
        del examples, tokenizer, max_seq_length
        targets, predictions = outputs["targets"], outputs["predictions"]
        return {
            "pearson": metrics.pearson(targets, predictions),
            "spearman": metrics.spearman(targets, predictions),
            "mse": metrics.mean(np.square(targets - predictions)),
            "loss": metrics.mean(outputs["loss"]),
        }


class Sts(GlueFiles, RegressionTask):
    """Semantic Textual Similarity.

    Args:
      data_dir: The folder with the task's files.
      double_unordered: See `GlueFiles.UNORDERED`.
    """

    UNORDERED = True
    DUMMY_LABEL = "0.0"
    SPLIT_COLUMNS = {
        "train": Columns(-3, -2, -1),
        "test": Columns(-2, -1, None),
    }

    def __init__(
        self, data_dir: str | os.PathLike, double_unordered: bool = True
    ):
        super().__init__("sts", 0.0, 5.0)
        self.data_dir = pathlib.Path(data_dir)
        self.double_unordered = double_unordered
