"""Texts -> rows of token ids for the networks of a checkpoint.

What judging (`detector`) and scoring (`scorer`) texts have in common.

Shapes: B rows of a batch, L length.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf import configs
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.text import tokenization


class TokenizedText(NamedTuple):
    """The tokens of one text, without [CLS] and [SEP].

    Each has a first character and one behind its last; None where these were
    not asked for. `num_left_out` more tokens are in the text.
    """

    ids: list[int]
    begins: list
    ends: list
    num_left_out: int

    def with_values(self, vocab: Sequence[str], values: Sequence[float]):
        """Token, begin, end and value, of values in the order of `ids`."""
        tokens = [vocab[i] for i in self.ids]
        return zip(tokens, self.begins, self.ends, values, strict=True)


def longest_row(checkpoint: Checkpoint, config: configs.EncoderConfig) -> int:
    """Tokens of the longest input that one of the networks was trained with."""
    positions = config.max_position_embeddings
    return min(checkpoint.max_seq_length or positions, positions)


def tokenize(
    tokenizer: tokenization.FullTokenizer,
    texts: Sequence[str],
    most: int | None = None,
    with_offsets: bool = True,
) -> list[TokenizedText]:
    """Tokenizes texts.

    Args:
      tokenizer: Splits them.
      texts: Of any length, in characters that UTF-8 can have.
      most: Tokens of a text to keep; None for all.
      with_offsets: Whether to say where the tokens are.

    Raises:
      ValueError: If offsets are asked of a tokenizer that cleans texts first,
        or there is one text alone, whose characters would be taken for texts.
    """
    if isinstance(texts, str):
        raise ValueError(f"Expected a list of texts. Received: {texts[:40]!r}")
    strings = tf.constant([text.encode() for text in texts], tf.string)
    columns = (
        tokenizer.tokenize_with_offsets(strings)
        if with_offsets
        else (tokenizer.tokenize(strings),)
    )
    num_tokens = columns[0].row_lengths().numpy().tolist()
    ids, *offsets = (x[:, :most].to_list() for x in columns)
    begins, ends = offsets or [[[None] * len(row) for row in ids]] * 2
    return [
        TokenizedText(row, begin, end, number - len(row))
        for row, begin, end, number in zip(
            ids, begins, ends, num_tokens, strict=True
        )
    ]


def in_batches(
    tokenizer: tokenization.FullTokenizer,
    rows: Sequence[Sequence[int]],
    batch_size: int,
) -> Iterator[tuple[list[int], np.ndarray, np.ndarray]]:
    """Packs rows, those of one length together, so that little is padding.

    Yields:
      For each batch which rows are in it, their `input_ids` <int32>[B, L], each
      as [CLS] ids [SEP] and padding, and `input_mask` <int32>[B, L], 1 on
      tokens, 0 on padding. Every row comes once, the shortest first.
    """
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    for first in range(0, len(rows), batch_size):
        numbers = order[first : first + batch_size]
        ids = tf.ragged.constant(
            [rows[i] for i in numbers], tf.int32, ragged_rank=1
        )
        # Nothing is cut.
        packed = tokenizer.pack_inputs([ids], 3 + len(rows[numbers[-1]]))
        yield (
            numbers,
            packed["input_ids"].numpy(),
            packed["input_mask"].numpy(),
        )


def ask_of_tokens(
    network: Callable[[np.ndarray, np.ndarray], tf.Tensor],
    tokenizer: tokenization.FullTokenizer,
    rows: Sequence[Sequence[int]],
    batch_size: int,
) -> list[list[float]]:
    """What a network says of every token of some rows.

    Args:
      network: From `input_ids` and `input_mask` to <float32>[B, L].
      tokenizer: Packs the rows.
      rows: Token ids without [CLS] and [SEP].
      batch_size: Rows in a batch.

    Returns:
      A number for each token id.
    """
    answers: list[list[float]] = [[]] * len(rows)
    for numbers, *batch in in_batches(tokenizer, rows, batch_size):
        for i, values in zip(numbers, network(*batch).numpy(), strict=True):
            answers[i] = values[1 : 1 + len(rows[i])].tolist()
    return answers
