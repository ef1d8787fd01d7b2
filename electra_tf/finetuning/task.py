"""What every task of fine-tuning has, and how their files are read.

Shapes: N rows, L length.
"""

import abc
import os
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from electra_tf import configs, tokenization
from electra_tf.finetuning import heads
from electra_tf.finetuning.features import Features


def read_lines(path: str | os.PathLike) -> list[str]:
    """The lines of a text file, without their ends.

    Args:
      path: A UTF-8 file; any that `tf.io.gfile` reads. Lines end at \\n only,
        a \\r before it is dropped.

    Raises:
      ValueError: If the file is missing, empty or not UTF-8.
    """
    path = os.fspath(path)
    try:
        with tf.io.gfile.GFile(path, "rb") as reader:
            content = reader.read()
    except tf.errors.NotFoundError:
        raise ValueError(
            f"Expected a file of examples. Received: {path!r}, which does not "
            "exist."
        ) from None
    except (tf.errors.OpError, OSError) as error:
        reason = getattr(error, "message", str(error))
        raise ValueError(f"Cannot read {path!r}: {reason}") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        row = content[: error.start].count(b"\n") + 1
        raise ValueError(
            f"Expected text in UTF-8. Received: {path!r}, row {row}, with the "
            f"byte 0x{content[error.start]:02x}."
        ) from None
    if not text.strip():
        raise ValueError(
            f"Expected a file of examples. Received: {path!r}, which is empty."
        )
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def read_tsv(path: str | os.PathLike) -> Iterator[tuple[int, list[str]]]:
    """Rows of a file of tab-separated values, counted from 1.

    Quotes mean nothing, as in GLUE's files. Blank rows are left out.
    """
    for row, line in enumerate(read_lines(path), start=1):
        if line:
            yield row, line.split("\t")


class Task(abc.ABC):
    """One task of fine-tuning.

    Attributes:
      name: Prefix of its features; scope of its head's variables.
    """

    def __init__(self, name: str):
        self.name = name

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
        """The task's head on an encoder of these sizes."""

    @abc.abstractmethod
    def scores(
        self,
        outputs: dict[str, np.ndarray],
        examples: Sequence = (),
        tokenizer: tokenization.FullTokenizer | None = None,
        max_seq_length: int = 0,
    ) -> dict[str, float]:
        """The task's metrics, under the original's names.

        Args:
          outputs: The head's outputs for all rows of `features`, in order and
            without padding rows.
          examples: What `features` was called with; this and the next two are
            needed for question answering only.
          tokenizer: See `examples`.
          max_seq_length: See `examples`.

        Returns:
          Metric name -> value; shares and correlations in per cent.
        """
