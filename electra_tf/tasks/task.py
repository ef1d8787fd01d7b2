"""What every task of fine-tuning has, and how their files are read.

Shapes: N rows, L length.
"""

import abc
import codecs
import json
import os
import typing
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from electra_tf import configs, errors, files
from electra_tf.model import heads
from electra_tf.tasks.features import Features
from electra_tf.text import tokenization


def read_lines(path: str | os.PathLike) -> list[str]:
    """The lines of a text file, without their ends.

    Args:
      path: A UTF-8 file, or UTF-16 with a byte order mark; any that
        `tf.io.gfile` reads. Lines end at \\n, and every \\r is dropped, as by
        TensorFlow's reader of lines; at \\r in a file without any \\n.

    Raises:
      ValueError: If the file is missing, empty or not such text.
    """
    path = os.fspath(path)
    content = files.read_bytes(path, "file of examples")
    is_utf_16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = content.decode("utf-16" if is_utf_16 else "utf-8-sig")
        if "\0" in text:  # UTF-16 without its mark, or no text.
            start = content.index(b"\0")
            raise UnicodeDecodeError("utf-8", content, start, start + 1, "NUL")
    except UnicodeDecodeError as error:
        row = content[: error.start].count(b"\n") + 1
        raise ValueError(
            f"Expected text in UTF-8. Received: {path!r}, whose row {row} has "
            f"the byte 0x{content[error.start]:02x}: gunzip unpacks it, or "
            "iconv -f LATIN1 -t UTF-8 (or CP949, UTF-16LE, ...) converts it."
        ) from None
    text = text.replace("\r", "" if "\n" in text else "\n")
    if not text.strip():
        raise ValueError(
            f"Expected a file of examples. Received: {path!r}, which is empty."
        )
    lines = text.removesuffix("\n").split("\n")
    # Of files that were put together each has its mark.
    return [line.removeprefix("\ufeff") for line in lines]


def parse_json(text: str, path: str, row: int | None = None) -> typing.Any:
    """What a file of examples, or a row of it, holds as JSON.

    Args:
      text: All of the file, or of the row.
      path: Of the file, for the error message.
      row: Number of the row; None for all of the file.

    Raises:
      ValueError: If it is no JSON, has a name twice, or half a character.
    """
    expected = "JSON" if row is None else "a JSON object in each row"
    try:
        content = json.loads(text, object_pairs_hook=files.each_once)
        if "\\ud" in text.lower():  # Half a character, unless it is paired.
            json.dumps(content, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        row = row or getattr(error, "lineno", 1)
        what = getattr(error, "msg", error)
        if isinstance(error, UnicodeEncodeError):
            what = f"half a character, {error.object[error.start]!a}"
        raise ValueError(
            f"Expected {expected}. Received: {path!r}, row {row}: {what}."
        ) from None
    return content


class Task(abc.ABC):
    """One task of fine-tuning.

    A new task says what its examples, features, head and scores are; the rest
    has defaults.

    Attributes:
      name: Prefix of its features; scope of its head's variables.
      pooling: One of `configs.POOLINGS`: what a head on a whole text reads.
      hidden_activation: Of the layer in front of such a head's last one, where
        it goes on with a head that has one: see `heads.PooledHead`.
    """

    pooling: str = configs.DEFAULT_POOLING
    hidden_activation: str | None = None
    # The score by which models are ranked; greater is better, in per cent.
    main_metric: str = "accuracy"
    # What was read and what it was taken for, a line for the log.
    origin: str = ""
    # Files of one's own, see `own_files.OwnFiles`; None for other tasks.
    source: typing.Any = None
    # Where the files of a task by name were looked for, in words.
    looked_in: str = ""

    def __init__(self, name: str):
        self.name = name

    def splits(self) -> list[str]:
        """The splits whose files are there.

        "train" comes first, then what else has labels ("dev", ...), then what
        has none ("test", ...).
        """
        return self.source.splits() if self.source else []

    def has_labels(self, split: str) -> bool:
        """Whether the examples of a split can be scored."""
        if self.source:
            return self.source.has_labels(split)
        return not split.startswith("test")

    def read_examples(self, split: str) -> list:
        """The examples of "train", "dev" or another split.

        Raises:
          ValueError: If a file cannot be read or used, or the task has none.
        """
        raise ValueError(
            f"Expected a task with files. Received: {self.name!r}, asked for "
            f"{split!r}."
        )

    @abc.abstractmethod
    def features(
        self,
        examples: Sequence,
        tokenizer: tokenization.FullTokenizer,
        max_seq_length: int,
        is_training: bool = False,
    ) -> Features:
        """Turns examples into rows for the model.

        Args:
          examples: Of `read_examples`.
          tokenizer: Splits their texts.
          max_seq_length: L.
          is_training: Whether the features may hold what only training knows.

        Returns:
          `input_ids`, `input_mask`, `segment_ids` <int32>[N, L] and the task's
          own, which begin with its name, such as `<task>_eid` <int32>[N].
        """

    @abc.abstractmethod
    def make_head(self, config: configs.EncoderConfig) -> heads.Head:
        """The task's head on an encoder of these sizes.

        `pooling` is set behind it: see `TaskData.make_head`.
        """

    @abc.abstractmethod
    def scores(
        self,
        outputs: dict[str, np.ndarray],
        examples: Sequence = (),
        tokenizer: tokenization.FullTokenizer | None = None,
        max_seq_length: int = 0,
    ) -> dict[str, float]:
        """The task's metrics, under the original's names; shares in per cent.

        Args:
          outputs: The head's outputs for all rows of `features`, in order and
            without padding rows.
          examples: What `features` was called with, as are the next two.
            Question answering needs these; tagging without them scores only
            words that the model saw.
          tokenizer: See `examples`.
          max_seq_length: See `examples`.
        """

    def loss_weights(
        self, examples: Sequence, class_weights: str | Mapping[str, float]
    ) -> tuple[np.ndarray, dict[str, float]]:
        """What training rows count in the loss, as their labels weigh.

        Args:
          examples: Of training.
          class_weights: 'balanced', or label -> weight, 1 for the others.

        Returns:
          <float32>[N, ...], the feature `<task>_loss_weights`, and label ->
          weight, for the log.

        Raises:
          ValueError: If the task has no such labels.
        """
        raise ValueError(
            "FinetuningConfig.class_weights needs a task of classification or "
            f"multi_label. Received: {self.name}, "
            f"{self.description().get('kind', 'another kind')}"
        )

    def report(
        self,
        outputs: dict[str, np.ndarray],
        examples: Sequence = (),
        tokenizer: tokenization.FullTokenizer | None = None,
        max_seq_length: int = 0,
    ) -> dict:
        """How good each class is, see `reports`; nothing without classes.

        Takes what `scores` takes.
        """
        return {}

    def texts_of(self, example) -> Sequence[str] | None:
        """What a model reads of an example; copies have the same texts.

        None where the task does not say: copies are not looked for.
        """
        return None

    def baseline(
        self, train_examples: Sequence, splits: Mapping[str, Sequence]
    ) -> dict:
        """What a model that reads no text scores, without the loss.

        Args:
          train_examples: Tell the commonest label, or the mean.
          splits: Split -> examples to be scored.

        Returns:
          Split -> scores, and "name", such as "majority class 'no'"; an empty
          name without a baseline.
        """
        return {"name": ""}

    def is_degenerate(self, outputs: dict[str, np.ndarray]) -> bool:
        """Whether the model says the same of every row; see `scores`."""
        return False

    def prediction_table(
        self,
        examples: Sequence,
        outputs: dict[str, np.ndarray],
        tokenizer: tokenization.FullTokenizer | None = None,
        max_seq_length: int = 0,
    ) -> tuple[list[str], Iterator[list[str]]]:
        """A header, and a row for each example: label, prediction, scores,
        texts. Takes what `scores` takes."""
        raise NotImplementedError(f"{type(self).__name__} has no table.")

    def submission_rows(
        self, split: str, examples: Sequence, outputs: dict[str, np.ndarray]
    ) -> tuple[str, list[str], Iterator[list[str]]] | None:
        """What the GLUE benchmark wants of all examples of a split: the name of
        the file, such as "MNLI-m.tsv", its header and its rows."""
        return None

    def submission_json(
        self,
        examples: Sequence,
        outputs: dict[str, np.ndarray],
        tokenizer: tokenization.FullTokenizer | None = None,
        max_seq_length: int = 0,
    ) -> dict[str, dict]:
        """What SQuAD's official scripts read: name of a file, without its
        ending -> its content, for JSON. Takes what `scores` takes."""
        return {}

    def look_at(  # noqa: B027
        self, split: str, examples: Sequence, features: Features
    ) -> None:
        """Says by `warn` what the user should know about rows and what was
        made of them."""

    def warn(self, line: str) -> None:
        """Says a line, such as "train: 23 of 1190 rows lost their answer"."""
        errors.warn(f"{self.name}: {line}")

    def description(self) -> dict:
        """What export must know to rebuild the head and name its outputs.

        Returns:
          "kind", as `model.task_head.TaskHead` has it, and what belongs to it,
          such as "labels"; fit for JSON.
        """
        return {}

    def reading(self) -> dict:
        """How the training file was read, for other files like it.

        Returns:
          What `own_files.task_of_model` takes, fit for JSON; nothing for tasks
          whose files say all by themselves.
        """
        return self.source.reading() if self.source else {}
