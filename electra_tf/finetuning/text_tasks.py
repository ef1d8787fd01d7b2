"""Tasks with one label or number for each text or pair of texts.

Shapes: N rows, L length.
"""

import abc
import collections
import os
import pathlib
import typing
import warnings
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from electra_tf.finetuning import features as features_lib
from electra_tf.finetuning import heads, metrics
from electra_tf.finetuning.features import Features
from electra_tf.finetuning.task import Task, read_tsv

# A regression model is degenerate if its predictions spread less than this
# share of the labels' spread: they follow the seed then, not the text.
_CONSTANT_SHARE = 0.02


class TextExample(typing.NamedTuple):
    """One text, or a pair of texts, with its label.

    Attributes:
      eid: Number of the example in its split.
      text_a: The text.
      text_b: The second text of a pair, or None.
      label: As in the file.
      source: File and row, for error messages.
      has_label: False where the label stands for an unknown one.
      labels: Where a row may have several: all of them.
    """

    eid: int
    text_a: str
    text_b: str | None
    label: str
    source: tuple[str, int]
    has_label: bool = True
    labels: tuple[str, ...] = ()


class TextTask(Task):
    """A task with texts, or pairs of texts, and something to say of each."""

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
        return features | self.label_features(examples)

    @abc.abstractmethod
    def label_features(self, examples: Sequence[TextExample]) -> Features:
        """What the labels become."""

    @abc.abstractmethod
    def score_names(self) -> list[str]:
        """The header of what `scores_of_rows` gives."""

    @abc.abstractmethod
    def scores_of_rows(
        self, outputs: dict[str, np.ndarray]
    ) -> Iterator[tuple[str, list[str]]]:
        """The prediction of each row, as in a file, and its scores."""

    def _train_labels(self) -> list[str]:
        """The labels of the training set; none if it has no files."""
        if "train" not in self.splits():
            return []
        return [example.label for example in self.read_examples("train")]

    def prediction_table(
        self, examples, outputs, tokenizer=None, max_seq_length=0
    ):
        del tokenizer, max_seq_length
        has_pairs = any(example.text_b is not None for example in examples)
        texts = ["text_a", "text_b"] if has_pairs else ["text"]
        header = ["label", "prediction", *self.score_names(), *texts]

        def rows():
            for example, (prediction, scores) in zip(
                examples, self.scores_of_rows(outputs), strict=True
            ):
                row = [
                    example.label if example.has_label else "",
                    prediction,
                    *scores,
                    example.text_a,
                ]
                yield [*row, example.text_b or ""] if has_pairs else row

        return header, rows()

    def warnings(self, examples=None, features=None):
        del examples
        found = []
        for split, of_split in (features or {}).items():
            length = of_split["input_ids"].shape[-1]
            num_full = int(of_split["input_mask"].all(axis=-1).sum())
            if num_full:
                found.append(
                    f"{split}: {num_full} of {len(of_split['input_ids'])} "
                    f"examples fill all {length} tokens; what was longer is cut"
                )
        return found


def commonest(labels: Sequence[str]) -> str:
    """The label that occurs most often; of equals the first by name."""
    counts = collections.Counter(labels)
    return max(sorted(counts), key=lambda label: counts[label])


class ClassificationTask(TextTask):
    """A task whose labels come from a list.

    Attributes:
      labels: The list; a label's id is its index.
    """

    def __init__(self, name: str, labels: Sequence[str]):
        super().__init__(name)
        self.labels = list(labels)

    @property
    def baseline_name(self):
        labels = self._train_labels()
        return f"majority class {commonest(labels)!r}" if labels else ""

    def baseline_scores(self, train_examples, examples):
        always = commonest([example.label for example in train_examples])
        labels = np.array([self.labels.index(e.label) for e in examples])
        scores = self.scores(
            {
                "label_ids": labels,
                "predictions": np.full_like(labels, self.labels.index(always)),
                "loss": np.zeros(0),
            }
        )
        del scores["loss"]
        return scores

    def is_degenerate(self, outputs):
        return len(np.unique(outputs["predictions"])) == 1

    def description(self):
        return {"kind": "classification", "labels": self.labels}

    def score_names(self):
        return list(self.labels)

    def scores_of_rows(self, outputs):
        scores = tf.nn.softmax(outputs["logits"]).numpy()
        for prediction, row in zip(outputs["predictions"], scores, strict=True):
            yield self.labels[prediction], [f"{score:.6f}" for score in row]

    def label_features(self, examples):
        ids = {label: i for i, label in enumerate(self.labels)}
        for example in examples:
            if example.label not in ids:
                path, row = example.source
                raise ValueError(
                    f"Expected one of the labels {listing(self.labels)}. "
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
            "macro_f1": metrics.f1(
                outputs["label_ids"], outputs["predictions"], "macro"
            ),
            "loss": metrics.mean(outputs["loss"]),
        }


def listing(labels: Sequence[str], most: int = 10) -> str:
    """The labels for a message, and how many are left out of it."""
    shown = ", ".join(repr(label) for label in labels[:most])
    left_out = len(labels) - most
    return shown if left_out <= 0 else f"{shown} and {left_out} more"


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
        examples.append(
            TextExample(
                eid,
                text_a,
                text_b,
                label,
                (path, row),
                has_label=columns.label is not None,
            )
        )
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
      SUBMISSIONS: Split -> its file in the benchmark's archive.
      DUMMY_LABEL: The label of splits without labels.
      UNORDERED: Whether the two texts may change places, so that training sees
        each pair in both orders.
    """

    SPLITS: tuple[str, ...] = ("train", "dev", "test")
    SPLIT_COLUMNS: dict[str, Columns]
    SUBMISSIONS: dict[str, str]
    DUMMY_LABEL: str
    UNORDERED = False

    data_dir: pathlib.Path
    double_unordered: bool

    def splits(self) -> list[str]:
        return [s for s in self.SPLITS if tf.io.gfile.exists(self._path(s))]

    def has_labels(self, split: str) -> bool:
        return not (split.startswith("test") or split == "diagnostic")

    def _path(self, split: str) -> str:
        return os.fspath(self.data_dir / f"{self.file_stem(split)}.tsv")

    def read_examples(self, split: str) -> list[TextExample]:
        path = self._path(split)
        columns = self.SPLIT_COLUMNS.get(split, self.SPLIT_COLUMNS["train"])
        if not self.has_labels(split):
            columns = columns._replace(label=None)
        examples = read_glue(path, columns, self.DUMMY_LABEL)
        if self.UNORDERED and self.double_unordered and split == "train":
            examples += read_glue(
                path, columns, self.DUMMY_LABEL, True, len(examples)
            )
        return examples

    def file_stem(self, split: str) -> str:
        return split

    def submission_rows(self, split, examples, outputs):
        if split not in self.SUBMISSIONS:
            return None
        predictions = self._submitted(outputs)
        rows = (
            [str(example.eid), prediction]
            for example, prediction in zip(examples, predictions, strict=True)
        )
        return self.SUBMISSIONS[split], ["index", "prediction"], rows

    def _submitted(self, outputs: dict[str, np.ndarray]) -> list[str]:
        """The predictions, as the benchmark writes them."""
        raise NotImplementedError


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

    def _submitted(self, outputs):
        return [self.labels[i] for i in outputs["predictions"]]


class _PairsOfEquals(_GlueClassification):
    """Whether two texts mean the same; the benchmark scores F1 too."""

    def scores(self, outputs, examples=(), tokenizer=None, max_seq_length=0):
        f1 = metrics.f1(outputs["label_ids"], outputs["predictions"])
        return super().scores(outputs) | {"f1": f1}


class Cola(_GlueClassification):
    """Corpus of Linguistic Acceptability; scored by Matthews' correlation."""

    NAME = "cola"
    SUBMISSIONS = {"test": "CoLA.tsv"}
    main_metric = "mcc"
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
            "accuracy": metrics.accuracy(
                outputs["label_ids"], outputs["predictions"]
            ),
            "loss": metrics.mean(outputs["loss"]),
        }


class Sst(_GlueClassification):
    """Stanford Sentiment Treebank."""

    NAME = "sst"
    SUBMISSIONS = {"test": "SST-2.tsv"}
    SPLIT_COLUMNS = {
        "train": Columns(0, None, 1),
        "test": Columns(1, None, None),
    }


class Mrpc(_PairsOfEquals):
    """Microsoft Research Paraphrase Corpus."""

    NAME = "mrpc"
    SUBMISSIONS = {"test": "MRPC.tsv"}
    UNORDERED = True
    SPLIT_COLUMNS = {"train": Columns(3, 4, 0)}


class Qqp(_PairsOfEquals):
    """Quora Question Pairs."""

    NAME = "qqp"
    SUBMISSIONS = {"test": "QQP.tsv"}
    SPLIT_COLUMNS = {"train": Columns(3, 4, 5), "test": Columns(1, 2, None)}


class Mnli(_GlueClassification):
    """Multi-Genre Natural Language Inference.

    "dev" and "test" are the matched sets; "diagnostic" is GLUE's own.
    """

    NAME = "mnli"
    SPLITS = (
        "train",
        "dev",
        "dev_mismatched",
        "test",
        "test_mismatched",
        "diagnostic",
    )
    SUBMISSIONS = {
        "test": "MNLI-m.tsv",
        "test_mismatched": "MNLI-mm.tsv",
        "diagnostic": "AX.tsv",
    }
    LABELS = ("contradiction", "entailment", "neutral")
    SPLIT_COLUMNS = {
        "train": Columns(8, 9, -1),
        "diagnostic": Columns(1, 2, None),
    }

    def file_stem(self, split):
        return f"{split}_matched" if split in ("dev", "test") else split


class Rte(_GlueClassification):
    """Recognizing Textual Entailment."""

    NAME = "rte"
    SUBMISSIONS = {"test": "RTE.tsv"}
    LABELS = ("entailment", "not_entailment")
    SPLIT_COLUMNS = {"train": Columns(1, 2, 3)}


class Qnli(Rte):
    """Question-answering Natural Language Inference."""

    NAME = "qnli"
    SUBMISSIONS = {"test": "QNLI.tsv"}


class Wnli(_GlueClassification):
    """Winograd Natural Language Inference. Not in the original."""

    NAME = "wnli"
    SUBMISSIONS = {"test": "WNLI.tsv"}
    SPLIT_COLUMNS = {"train": Columns(1, 2, 3)}


class RegressionTask(TextTask):
    """A task whose labels are numbers.

    Args:
      name: See `Task`.
      min_value: The least label.
      max_value: The greatest label.
      scale: What a label's distance from the least one is divided by. None
        for the greatest label, as in the original, which also refuses labels
        that are out of the range.
    """

    main_metric = "spearman"

    def __init__(
        self,
        name: str,
        min_value: float,
        max_value: float,
        scale: float | None = None,
    ):
        super().__init__(name)
        self.min_value = min_value
        self.max_value = max_value
        self.refuses_others = scale is None
        self.scale = max_value if scale is None else scale

    def label_features(self, examples):
        targets = []
        for example in examples:
            value = number(example.label)
            is_good = np.isfinite(value)
            if self.refuses_others:
                is_good = self.min_value <= value <= self.max_value
            if not is_good:
                path, row = example.source
                expected = (
                    f"a number from {self.min_value} to {self.max_value}"
                    if self.refuses_others
                    else "a number"
                )
                raise ValueError(
                    f"Expected {expected}. Received: {example.label!r} in "
                    f"{path!r}, row {row}."
                )
            targets.append((value - self.min_value) / self.scale)
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

    @property
    def baseline_name(self):
        labels = self._train_labels()
        mean = metrics.mean(np.array([number(label) for label in labels]))
        return f"mean {mean:.3f}" if labels else ""

    def baseline_scores(self, train_examples, examples):
        feature = f"{self.name}_targets"
        targets = self.label_features(examples)[feature]
        mean = metrics.mean(self.label_features(train_examples)[feature])
        scores = self.scores(
            {
                "targets": targets,
                "predictions": np.full_like(targets, mean),
                "loss": np.zeros(0),
            }
        )
        del scores["loss"]
        return scores

    def is_degenerate(self, outputs):
        spread = float(np.std(outputs["predictions"]))
        targets = outputs.get("targets", np.zeros(1))
        return spread <= _CONSTANT_SHARE * float(np.std(targets))

    def description(self):
        return {
            "kind": "regression",
            "min_value": self.min_value,
            "max_value": self.max_value,
            "scale": self.scale,
        }

    def in_units_of_labels(self, predictions: np.ndarray) -> np.ndarray:
        """What the head's outputs <float>[N] are as labels."""
        values = np.asarray(predictions, np.float64)
        return values * self.scale + self.min_value

    def score_names(self):
        return []

    def scores_of_rows(self, outputs):
        for value in self.in_units_of_labels(outputs["predictions"]):
            yield f"{value:.6f}", []


def number(text: str) -> float:
    """The number that a text holds; NaN if it holds none."""
    try:
        return float(text)
    except ValueError:
        return float("nan")


class Sts(GlueFiles, RegressionTask):
    """Semantic Textual Similarity.

    Args:
      data_dir: The folder with the task's files.
      double_unordered: See `GlueFiles.UNORDERED`.
    """

    UNORDERED = True
    SUBMISSIONS = {"test": "STS-B.tsv"}
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

    def _submitted(self, outputs):
        values = self.in_units_of_labels(outputs["predictions"])
        return [f"{value:.3f}" for value in np.clip(values, 0.0, 5.0)]
