"""GLUE's tasks, from the files of its archive."""

import os
import pathlib
import typing
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from electra_tf import errors
from electra_tf.tasks import metrics, text_tasks
from electra_tf.tasks.task import read_lines

# The files of the benchmark's archive, in its order.
SUBMISSIONS = (
    *("CoLA.tsv", "SST-2.tsv", "MRPC.tsv", "STS-B.tsv", "QQP.tsv"),
    *("MNLI-m.tsv", "MNLI-mm.tsv", "QNLI.tsv", "RTE.tsv", "WNLI.tsv", "AX.tsv"),
)


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
    path: str, columns: Columns, labels: Sequence[str] = ()
) -> list[text_tasks.TextExample]:
    """Reads a GLUE file as the original does.

    A row that lacks a column is left out, with a warning for all of them: some
    of GLUE's files have such rows. Example numbers count them.

    Raises:
      ValueError: If the file cannot be read, has no header where GLUE's file
        has one, but one of the labels, or no row has the columns.
    """
    wanted = [column for column in columns[:3] if column is not None]
    least = max(column + 1 if column >= 0 else -column for column in wanted)
    has_label = columns.label is not None
    examples: list[text_tasks.TextExample] = []
    short_rows: list[tuple[int, int]] = []
    for row, line in enumerate(read_lines(path), start=1):
        values = line.split("\t")  # Quotes mean nothing.
        if not line:
            continue
        if row == 1 and columns.has_header:
            _check_header(values, columns, labels, path)
            continue
        if len(values) < least:
            short_rows.append((row, len(values)))
            continue
        examples.append(
            text_tasks.TextExample(
                row - 1 - columns.has_header,
                values[columns.text_a],
                None if columns.text_b is None else values[columns.text_b],
                "" if columns.label is None else values[columns.label],
                (path, row),
                has_label,
                glue_index=None if has_label else values[0],
            )
        )
    if short_rows:
        row, num_columns = short_rows[0]
        problem = (
            f"Expected {least} or more columns separated by tabs. Received: "
            f"{num_columns} in {path!r}, row {row}"
        )
        if not examples:
            raise ValueError(f"{problem}, and no row with enough.")
        errors.warn(f"{problem}; {len(short_rows)} such row(s) are left out.")
    if not examples:
        raise ValueError(f"Expected examples. Received: none in {path!r}.")
    return examples


def _check_header(
    header: Sequence[str], columns: Columns, labels: Sequence[str], path: str
) -> None:
    """Refuses an example in place of a header."""
    place = columns.label or 0
    name = header[place] if -len(header) <= place < len(header) else ""
    if name in labels or np.isfinite(text_tasks.number(name)):
        raise ValueError(
            "Expected a header, as in GLUE's file, which is no example. "
            f"Received: {name!r} in its column {place % len(header) + 1} in "
            f"{path!r}, row 1."
        )


class GlueFiles(text_tasks.TextTask):
    """Mixed into GLUE tasks: one file for each split in one folder.

    Args:
      data_dir: The folder with the task's files.
      double_unordered: See `UNORDERED`.

    Attributes:
      SPLIT_COLUMNS: Split -> columns; the others are of "train".
      SUBMISSIONS: Split -> its file in the benchmark's archive.
      UNORDERED: Whether the two texts may change places, so that training sees
        each pair in both orders.
    """

    NAME: str
    SPLITS: tuple[str, ...] = ("train", "dev", "test")
    SPLIT_COLUMNS: dict[str, Columns]
    SUBMISSIONS: dict[str, str]
    UNORDERED = False
    # What the kind of the task is made with.
    OF_KIND: tuple

    def __init__(
        self, data_dir: str | os.PathLike, double_unordered: bool = True
    ):
        super().__init__(self.NAME, *self.OF_KIND)
        self.data_dir = pathlib.Path(data_dir)
        self.double_unordered = double_unordered

    def splits(self) -> list[str]:
        return [s for s in self.SPLITS if tf.io.gfile.exists(self._path(s))]

    def has_labels(self, split: str) -> bool:
        return not (split.startswith("test") or split == "diagnostic")

    def _path(self, split: str) -> str:
        return os.fspath(self.data_dir / f"{self.file_stem(split)}.tsv")

    def file_stem(self, split: str) -> str:
        return split

    def read_examples(self, split: str) -> list[text_tasks.TextExample]:
        path = self._path(split)
        columns = self.SPLIT_COLUMNS.get(split, self.SPLIT_COLUMNS["train"])
        if not self.has_labels(split):
            columns = columns._replace(label=None)
        examples = read_glue(path, columns, getattr(self, "labels", ()))
        if self.UNORDERED and self.double_unordered and split == "train":
            num = len(examples)
            examples += [
                e._replace(
                    eid=num + e.eid, text_a=e.text_b or "", text_b=e.text_a
                )
                for e in examples
            ]
        return examples

    def submission_rows(self, split, examples, outputs):
        if split not in self.SUBMISSIONS:
            return None
        predictions = self._submitted(outputs)
        rows = (
            [example.glue_index or str(example.eid), prediction]
            for example, prediction in zip(examples, predictions, strict=True)
        )
        return self.SUBMISSIONS[split], ["index", "prediction"], rows

    def _submitted(self, outputs: dict[str, np.ndarray]) -> list[str]:
        """The predictions, as the benchmark writes them."""
        raise NotImplementedError


class _GlueClassification(GlueFiles, text_tasks.ClassificationTask):
    """A GLUE task with labels."""

    OF_KIND: tuple = (("0", "1"),)

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
        labels, predictions = outputs["label_ids"], outputs["predictions"]
        return {
            "mcc": metrics.matthews_correlation(labels, predictions),
            "accuracy": metrics.accuracy(labels, predictions),
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
        *("train", "dev", "dev_mismatched"),
        *("test", "test_mismatched", "diagnostic"),
    )
    SUBMISSIONS = {
        "test": "MNLI-m.tsv",
        "test_mismatched": "MNLI-mm.tsv",
        "diagnostic": "AX.tsv",
    }
    OF_KIND = (("contradiction", "entailment", "neutral"),)
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
    OF_KIND = (("entailment", "not_entailment"),)
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


class Sts(GlueFiles, text_tasks.RegressionTask):
    """Semantic Textual Similarity."""

    NAME = "sts"
    OF_KIND = (0.0, 5.0)
    UNORDERED = True
    SUBMISSIONS = {"test": "STS-B.tsv"}
    SPLIT_COLUMNS = {
        "train": Columns(-3, -2, -1),
        "test": Columns(-2, -1, None),
    }

    def scores(self, outputs, examples=(), tokenizer=None, max_seq_length=0):
        """Adds `mse_in_points`: the original's `mse` is that of points / 5."""
        scores = super().scores(outputs)
        in_points = scores.pop("mse")
        return {
            "pearson": scores["pearson"],
            "spearman": scores["spearman"],
            "mse_in_points": in_points,
            "mse": in_points / self.scale**2,
            "loss": scores["loss"],
        }

    def _submitted(self, outputs):
        values = self.in_units_of_labels(outputs["predictions"])
        return [f"{value:.3f}" for value in np.clip(values, 0.0, 5.0)]


TASKS = (Cola, Mnli, Mrpc, Qnli, Qqp, Rte, Sst, Sts, Wnli)
