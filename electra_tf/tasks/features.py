"""Examples -> numpy features: one row for each input of the model.

Every feature of a set is one array over all its rows. What a task adds to the
encoder's inputs is prefixed with its name, as in the original, so that rows of
several tasks fit into one batch.

Shapes: N rows, B batch, L length.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from electra_tf.text import tokenization
from electra_tf.text.tokenization import ENCODER_FEATURES

Features = dict[str, np.ndarray]

# Texts tokenized by one call: enough to keep the op busy.
_TOKENIZED_AT_ONCE = 4096


def _slices(num_rows: int) -> Iterator[slice]:
    for start in range(0, num_rows, _TOKENIZED_AT_ONCE):
        yield slice(start, start + _TOKENIZED_AT_ONCE)


def text_features(
    first: Sequence[str],
    second: Sequence[str | None],
    tokenizer: tokenization.FullTokenizer,
    max_seq_length: int,
) -> Features:
    """Packs texts as `[CLS] first [SEP]` or `[CLS] first [SEP] second [SEP]`.

    A row whose second text is missing or has no tokens is of the first form, as
    in the original.

    Args:
      first: N texts.
      second: N texts or None.
      tokenizer: Splits them.
      max_seq_length: L; a longer row loses the end of its longer text.

    Returns:
      `input_ids`, `input_mask`, `segment_ids`: <int32>[N, L].

    Raises:
      ValueError: If `max_seq_length` leaves no room for text.
    """
    shape = (len(first), max_seq_length)
    features = {name: np.zeros(shape, np.int32) for name in ENCODER_FEATURES}
    for rows in _slices(len(first)):
        tokens = tokenizer.tokenize(tf.constant(first[rows], tf.string))
        more = tokenizer.tokenize(
            tf.constant([text or "" for text in second[rows]], tf.string)
        )
        is_pair = more.row_lengths() > 0
        for selected, segments in (
            (~is_pair, [tokens]),
            (is_pair, [tokens, more]),
        ):
            if not tf.reduce_any(selected):
                continue
            packed = tokenizer.pack_inputs(
                [tf.ragged.boolean_mask(x, selected) for x in segments],
                max_seq_length,
                pad_to_max=True,
            )
            for name, values in packed.items():
                features[name][rows][selected.numpy()] = values.numpy()
    return features


def whole_texts(
    texts: Sequence[str],
    tokenizer: tokenization.FullTokenizer,
    most_tokens: int,
) -> Features:
    """Packs texts as `[CLS] text [SEP]`, as long as the longest of them.

    Args:
      texts: N texts.
      tokenizer: Splits them.
      most_tokens: The greatest L; a longer row loses its end.

    Returns:
      `input_ids`, `input_mask`, `segment_ids`: <int32>[N, L].
    """
    parts = []
    for rows in _slices(len(texts)):
        tokens = tokenizer.tokenize(tf.constant(texts[rows], tf.string))
        parts.append(tokenizer.pack_inputs([tokens], most_tokens))
    length = max(part["input_ids"].shape[1] for part in parts)
    return {
        name: np.concatenate(
            [
                np.pad(part[name], [(0, 0), (0, length - part[name].shape[1])])
                for part in parts
            ]
        )
        for name in ENCODER_FEATURES
    }


def tokenize_all(
    texts: Sequence[str], tokenizer: tokenization.FullTokenizer
) -> list[list[int]]:
    """Token ids of every text; equal texts are tokenized once."""
    unique = list(dict.fromkeys(texts))
    ids: list[list[int]] = []
    for rows in _slices(len(unique)):
        texts_tensor = tf.constant(unique[rows], tf.string)
        ids += tokenizer.tokenize(texts_tensor).to_list()
    ids_of = dict(zip(unique, ids, strict=True))
    return [ids_of[text] for text in texts]


def remarks(
    features: Features,
    tokenizer: tokenization.FullTokenizer,
    texts: Sequence[Sequence[str | None]] = (),
    longest: int = 0,
    advice: str = "",
    others: Iterable[str] = (),
) -> Iterator[str]:
    """What a model does not read of its rows, a line for each reason.

    Args:
      features: Of N rows.
      tokenizer: What has split them.
      texts: One or two columns of N texts, packed as by `text_features`;
        nothing for rows of another kind.
      longest: Tokens that a row of these may have.
      advice: What to do where they have more.
      others: What rows of another kind are made of.
    """
    num_tokens = features["input_mask"].sum(axis=-1)
    share = f"of {len(num_tokens)} texts"
    is_unknown = features["input_ids"] == tokenizer.unk_token_id
    # A row without text has [CLS] and [SEP].
    if num := int((2 * is_unknown.sum(axis=-1) > num_tokens - 2).sum()):
        yield (
            f"{num} of {len(num_tokens)} rows are [UNK] for the most part: the "
            "vocabulary is one of other texts"
        )
    strips_accents = tokenizer.do_lower_case and tokenizer.strip_accents
    decoded = (
        text.decode(errors="replace") if isinstance(text, bytes) else text or ""
        for text in itertools.chain(*texts, others)
    )
    yield from tokenization.lost_text(decoded, strips_accents)
    if not texts:
        return
    if num := int((num_tokens <= 2).sum()):
        yield f"{num} {share} have no token"
    is_full = num_tokens >= longest
    rows = [[t or "" for t in itertools.compress(x, is_full)] for x in texts]
    ids = (tokenize_all(column, tokenizer) for column in rows)
    lengths = [np.array([*map(len, column)], int) for column in ids]
    whole = 2 + lengths[0]
    for second in lengths[1:]:  # It brings another [SEP] if it has a token.
        whole = whole + second + (second > 0)
    if num := int((whole > longest).sum()):
        yield (
            f"{num} {share} have more than {longest} tokens (up to "
            f"{max(whole)}) and are cut: {advice}"
        )


def pad_rows(
    rows: Sequence[Sequence[float]], length: int, dtype=np.int32
) -> np.ndarray:
    """An array [N, length] of rows of at most that length, 0 behind them."""
    array = np.zeros((len(rows), length), dtype)
    for padded, row in zip(array, rows, strict=True):
        padded[: len(row)] = row
    return array


def num_rows(features: Features) -> int:
    """N."""
    return len(features["input_ids"])


def combine(features_of_tasks: Sequence[Features]) -> Features:
    """Rows of several tasks in one set, those of the first task first.

    Args:
      features_of_tasks: The features of each task, in the order of the model's
        heads.

    Returns:
      All features for all rows, 0 where a row's task does not have them, and
      `task_id` <int32>[N], the number of the task.
    """
    counts = [num_rows(features) for features in features_of_tasks]
    task_id = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    combined = {"task_id": task_id}
    for number, features in enumerate(features_of_tasks):
        for name, values in features.items():
            if name not in combined:
                shape = (len(task_id), *values.shape[1:])
                combined[name] = np.zeros(shape, values.dtype)
            combined[name][task_id == number] = values
    return combined
