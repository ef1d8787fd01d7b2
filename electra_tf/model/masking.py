"""Batch -> masked batch -> corrupted batch, as pure functions.

Nothing here draws a random number: every function takes uniform draws, so that
a run can be repeated and the original's recorded draws can be replayed.

Shapes: B batch, L length, N slots for predictions, V vocabulary, D hidden.
"""

import typing
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from electra_tf import configs

# The original's pretrain_helpers guard both logarithms of the Gumbel noise.
GUMBEL_FLOOR = 1e-9
# The original lowers the logit of a disallowed token by this much.
DISALLOWED_PENALTY = 1000.0
# Tokens whose probabilities `sample` adds up before it looks at each.
SAMPLE_BLOCK = 128


class Inputs(typing.NamedTuple):
    """A batch for one network; the original's Inputs.

    Attributes:
      input_ids: <int32>[B, L].
      input_mask: <int32>[B, L], 1 on real tokens, 0 on padding.
      segment_ids: <int32>[B, L].
      masked_lm_positions: <int32>[B, N], 0 in unused slots.
      masked_lm_ids: <int32>[B, N], the true tokens, 0 in unused slots.
      masked_lm_weights: <float32>[B, N], 1 on used slots, 0 on the others.
    """

    input_ids: tf.Tensor
    input_mask: tf.Tensor
    segment_ids: tf.Tensor
    masked_lm_positions: tf.Tensor | None = None
    masked_lm_ids: tf.Tensor | None = None
    masked_lm_weights: tf.Tensor | None = None


class Noise(typing.NamedTuple):
    """The uniform draws of one batch, all <float32> in [0, 1).

    Attributes:
      positions: [B, N] ([B, L] for distinct positions and for whole words),
        which positions are masked.
      mask: [B, N], which of them become [MASK].
      sample: [B, N], the generator's samples; or [B, N, V], drawn the
        original's way with Gumbel noise.
    """

    positions: tf.Tensor
    mask: tf.Tensor
    sample: tf.Tensor


class SpecialIds(typing.NamedTuple):
    """Ids of the tokens that masking must know."""

    cls: int
    sep: int
    mask: int

    @classmethod
    def of(cls, vocab) -> "SpecialIds":
        """Those of a `text.vocabulary.Vocabulary`."""
        return cls(vocab.cls_token_id, vocab.sep_token_id, vocab.mask_token_id)


def is_candidate(
    input_ids: tf.Tensor, input_mask: tf.Tensor, special_ids: tuple[int, ...]
) -> tf.Tensor:
    """Which tokens may be masked: real ones that are not special.

    Args:
      input_ids: <int32>[B, L].
      input_mask: <int32>[B, L].
      special_ids: Ids of [CLS], [SEP] and [MASK], as the original has them.

    Returns:
      <bool>[B, L].
    """
    candidate = tf.cast(input_mask, tf.bool)
    for special_id in special_ids:
        candidate &= tf.not_equal(input_ids, special_id)
    return candidate


def number_of_predictions(
    input_mask: tf.Tensor, mask_prob: float, max_predictions_per_seq: int
) -> tf.Tensor:
    """How many positions of each row are masked; the original's rule.

    The product is float32 and rounds half to even; "tokens" counts [CLS] and
    [SEP].

    Args:
      input_mask: <int32>[B, L].
      mask_prob: Share of the tokens that are masked.
      max_predictions_per_seq: N.

    Returns:
      <int32>[B], between 1 and N.
    """
    tokens = tf.cast(tf.reduce_sum(input_mask, axis=-1), tf.float32)
    wanted = tf.cast(tf.round(tokens * mask_prob), tf.int32)
    return tf.maximum(1, tf.minimum(max_predictions_per_seq, wanted))


def draw_positions(
    candidate: tf.Tensor, uniform: tf.Tensor, distinct: bool = False
) -> tf.Tensor:
    """Positions drawn uniformly from the candidates of each row.

    Args:
      candidate: <bool>[B, L].
      uniform: <float32>[B, N] in [0, 1); <float32>[B, L] where `distinct`.
      distinct: Without replacement. The original draws with replacement (a
        categorical over the candidates), which is the default.

    Returns:
      <int32>[B, N], or <int32>[B, L] where `distinct`: all positions in a
      random order, candidates first. Rows without candidates give 0, unless
      `distinct`.
    """
    if distinct:
        keys = tf.where(candidate, uniform, uniform + 1.0)
        return tf.argsort(keys, axis=-1, stable=True)
    # Candidates first, in order; the k-th of them is position order[k].
    order = tf.argsort(tf.cast(~candidate, tf.int32), axis=-1, stable=True)
    count = tf.reduce_sum(tf.cast(candidate, tf.int32), axis=-1, keepdims=True)
    rank = tf.cast(uniform * tf.cast(count, tf.float32), tf.int32)
    rank = tf.clip_by_value(rank, 0, tf.maximum(count - 1, 0))
    return tf.gather(order, rank, batch_dims=1)


def continues_a_word(vocab: Sequence[str]) -> np.ndarray:
    """Which entries of a WordPiece vocabulary continue a word: "##" ones.

    Args:
      vocab: The tokens in the order of their ids.

    Returns:
      <bool>[V].
    """
    return np.array([token.startswith("##") for token in vocab], bool)


def draw_whole_words(
    candidate: tf.Tensor,
    is_continuation: tf.Tensor,
    uniform: tf.Tensor,
    num_predictions: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Positions of words drawn uniformly, without replacement.

    The rule of BERT's later release: the words of a row come in random order,
    and each is taken whole, or passed over if it would exceed the row's number
    of predictions. So a row may have a few predictions less than it asked for,
    and none if every word is longer. A continuation after a token that is no
    candidate is a word of its own.

    Args:
      candidate: <bool>[B, L].
      is_continuation: <bool>[B, L], tokens that belong to the word of the
        token before them.
      uniform: <float32>[B, L] in [0, 1), of which a word uses that of its
        first token.
      num_predictions: <int32>[B], positions wanted.

    Returns:
      <int32>[B, L]: all positions, the drawn ones first and in order; and
      <int32>[B], how many were drawn.
    """
    batch_size, length = tf.unstack(tf.shape(candidate))
    follows = tf.pad(candidate[:, :-1], [[0, 0], [1, 0]])
    is_first = candidate & ~(is_continuation & follows)
    # Positions before the first word count as its tokens, but are none.
    word = tf.maximum(tf.cumsum(tf.cast(is_first, tf.int32), axis=-1) - 1, 0)
    rows = length * tf.range(batch_size)[:, tf.newaxis]

    def sum_per_word(values, words):
        total = tf.math.unsorted_segment_sum(
            tf.reshape(tf.cast(values, tf.int32), [-1]),
            tf.reshape(rows + words, [-1]),
            batch_size * length,
        )
        return tf.reshape(total, [batch_size, length])

    # First tokens in random order, then the positions that are none.
    order = draw_positions(is_first, uniform, distinct=True)
    word_in_order = tf.gather(word, order, batch_dims=1)
    sizes = tf.gather(
        sum_per_word(candidate, word), word_in_order, batch_dims=1
    )
    is_word = tf.gather(is_first, order, batch_dims=1)
    taken = _take_while_room(sizes, is_word, num_predictions)
    is_drawn = candidate & (
        tf.gather(sum_per_word(taken, word_in_order), word, batch_dims=1) > 0
    )
    positions = tf.argsort(tf.cast(~is_drawn, tf.int32), axis=-1, stable=True)
    return positions, tf.reduce_sum(tf.cast(is_drawn, tf.int32), axis=-1)


def _take_while_room(
    sizes: tf.Tensor, is_open: tf.Tensor, room: tf.Tensor
) -> tf.Tensor:
    """Takes each item <bool>[B, L] in turn that does not exceed the room left.

    A round takes all open items up to the first that exceeds the room. That is
    smaller than the item then, so all of its size are out, and a few rounds do.
    """

    def take(is_open, room, taken):
        open_sizes = tf.where(is_open, sizes, 0)
        fits = tf.cumsum(open_sizes, axis=-1) <= room[:, tf.newaxis]
        is_taken = is_open & fits
        room -= tf.reduce_sum(tf.where(is_taken, sizes, 0), axis=-1)
        is_open &= ~fits & (sizes <= room[:, tf.newaxis])
        return is_open, room, taken | is_taken

    is_open &= sizes <= room[:, tf.newaxis]
    _, _, taken = tf.while_loop(
        lambda is_open, room, taken: tf.reduce_any(is_open),
        take,
        (is_open, room, tf.zeros_like(is_open)),
    )
    return taken


def mask(
    inputs: Inputs,
    drawn_positions: tf.Tensor,
    mask_uniform: tf.Tensor,
    num_predictions: tf.Tensor,
    mask_token_id: int,
    masked_token_prob: float = 0.85,
) -> Inputs:
    """Replaces drawn positions by [MASK] (section 2 of arXiv:2003.10555).

    The released code masks 85 % of the drawn positions and leaves the rest as
    they are, never a random token; the paper's text says all of them.

    Args:
      inputs: A batch without masked positions.
      drawn_positions: <int32>[B, N].
      mask_uniform: <float32>[B, N]; a position is masked where this is below
        `masked_token_prob`.
      num_predictions: <int32>[B], slots to use; the others get position 0,
        id 0 and weight 0.
      mask_token_id: Id of [MASK].
      masked_token_prob: Share of the positions that become [MASK].

    Returns:
      The masked batch, with its masked_lm fields.
    """
    num_slots = tf.shape(drawn_positions)[1]
    weights = tf.sequence_mask(num_predictions, num_slots, dtype=tf.int32)
    positions = drawn_positions * weights
    ids = gather_positions(inputs.input_ids, drawn_positions) * weights
    is_masked = tf.cast(mask_uniform < masked_token_prob, tf.int32)
    replaced_ids, _ = scatter_update(
        inputs.input_ids,
        tf.fill(tf.shape(positions), mask_token_id),
        positions * is_masked,
    )
    return inputs._replace(
        input_ids=replaced_ids,
        masked_lm_positions=positions,
        masked_lm_ids=ids,
        masked_lm_weights=tf.cast(weights, tf.float32),
    )


def mask_tokens(
    inputs: Inputs,
    noise: Noise,
    config: configs.ElectraConfig,
    special_ids: SpecialIds,
) -> Inputs:
    """Draws positions, and masks them.

    Args:
      inputs: The unmasked batch.
      noise: Its draws.
      config: Says how many positions, and which.
      special_ids: Ids of [CLS], [SEP] and [MASK].

    Returns:
      The masked batch.
    """
    positions = draw_positions(
        is_candidate(inputs.input_ids, inputs.input_mask, special_ids),
        noise.positions,
        config.distinct_positions,
    )[:, : config.max_predictions_per_seq]
    return mask_positions(inputs, positions, noise.mask, config, special_ids)


def mask_positions(
    inputs: Inputs,
    drawn_positions: tf.Tensor,
    mask_uniform: tf.Tensor,
    config: configs.ElectraConfig,
    special_ids: SpecialIds,
) -> Inputs:
    """Masks drawn positions, as many as each row's length asks for.

    Args:
      inputs: The unmasked batch.
      drawn_positions: <int32>[B, N].
      mask_uniform: <float32>[B, N].
      config: See `mask_tokens`.
      special_ids: See `mask_tokens`.

    Returns:
      The masked batch.
    """
    wanted = number_of_predictions(
        inputs.input_mask, config.mask_prob, config.max_predictions_per_seq
    )
    candidate = is_candidate(inputs.input_ids, inputs.input_mask, special_ids)
    # A row with nothing to mask gives NaN in the original; here it has no
    # predictions. Distinct positions cannot outnumber the candidates.
    num_candidates = tf.reduce_sum(tf.cast(candidate, tf.int32), axis=-1)
    limit = (
        num_candidates
        if config.distinct_positions
        else tf.where(num_candidates > 0, wanted, 0)
    )
    return mask(
        inputs,
        drawn_positions,
        mask_uniform,
        tf.minimum(wanted, limit),
        special_ids.mask,
        config.masked_token_prob,
    )


def unmask(inputs: Inputs) -> Inputs:
    """Puts the true tokens back (the original's function of this name)."""
    input_ids, _ = scatter_update(
        inputs.input_ids, inputs.masked_lm_ids, inputs.masked_lm_positions
    )
    return inputs._replace(input_ids=input_ids)


def scatter_update(
    sequence: tf.Tensor, updates: tf.Tensor, positions: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Writes tokens into a sequence (the original's function of this name).

    Two departures from a plain scatter, both the original's: slots pointing at
    position 0 are ignored, and updates that share a position are averaged,
    rounding down.

    Args:
      sequence: <int32>[B, L].
      updates: <int32>[B, N].
      positions: <int32>[B, N].

    Returns:
      The updated sequence <int32>[B, L], and <int32>[B, L] with 1 at the
      positions that were written.
    """
    batch_size, length = tf.unstack(tf.shape(sequence))
    rows = length * tf.range(batch_size)[:, tf.newaxis]
    flat = tf.reshape(rows + positions, [-1])

    def sum_per_position(values):
        total = tf.math.unsorted_segment_sum(
            tf.reshape(values, [-1]), flat, batch_size * length
        )
        return tf.reshape(total, [batch_size, length])

    written = tf.cast(positions > 0, tf.int32)
    count = sum_per_position(written)
    total = sum_per_position(updates * written)
    is_written = tf.minimum(count, 1)
    updated = tf.where(count > 0, total // tf.maximum(count, 1), sequence)
    return updated, is_written


def gather_positions(sequence: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    """The entries of each row at its positions.

    Args:
      sequence: [B, L] or [B, L, D].
      positions: <int32>[B, N].

    Returns:
      [B, N] or [B, N, D].
    """
    return tf.gather(sequence, positions, batch_dims=1)


def disallow(logits: tf.Tensor, token_ids: tf.Tensor) -> tf.Tensor:
    """Lowers the logit of one token of each slot beyond being drawn.

    Args:
      logits: <float32>[B, N, V].
      token_ids: <int32>[B, N].

    Returns:
      <float32>[B, N, V].
    """
    return logits - DISALLOWED_PENALTY * tf.one_hot(token_ids, logits.shape[-1])


def sample_with_gumbel_noise(
    logits: tf.Tensor, uniform: tf.Tensor
) -> tf.Tensor:
    """One token per slot, the original's way: argmax of logits plus noise.

    The original takes a softmax before the argmax, which changes nothing but
    the rounding, and is left out.

    Args:
      logits: <float32>[B, N, V].
      uniform: <float32>[B, N, V] in [0, 1).

    Returns:
      <int32>[B, N].
    """
    noise = -tf.math.log(-tf.math.log(uniform + GUMBEL_FLOOR) + GUMBEL_FLOOR)
    return tf.argmax(logits + noise, axis=-1, output_type=tf.int32)


def sample(logits: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
    """One token per slot from softmax(logits), by inverting its cumulative sum.

    The same distribution as `sample_with_gumbel_noise` from one draw a slot
    instead of V, which makes it cheap and lets every example carry its draws.

    Args:
      logits: <float32>[B, N, V].
      uniform: <float32>[B, N] in [0, 1); [B, N, V] for the original's way.

    Returns:
      <int32>[B, N].
    """
    if uniform.shape.rank == 3:
        return sample_with_gumbel_noise(logits, uniform)
    vocab_size = logits.shape[-1]
    num_blocks = -(-vocab_size // SAMPLE_BLOCK)
    largest = tf.reduce_max(logits, axis=-1, keepdims=True)
    blocks = tf.reshape(
        tf.pad(
            tf.exp(logits - largest),
            [[0, 0], [0, 0], [0, num_blocks * SAMPLE_BLOCK - vocab_size]],
        ),
        [-1, tf.shape(logits)[1], num_blocks, SAMPLE_BLOCK],
    )
    # A cumulative sum over the whole vocabulary is slow: first the block in
    # which the draw falls, then the token in the block.
    sums = tf.reduce_sum(blocks, axis=-1)
    ends = tf.cumsum(sums, axis=-1)
    threshold = uniform * ends[..., -1]
    block = tf.minimum(_num_below(ends, threshold), num_blocks - 1)
    start = tf.gather(ends - sums, block, batch_dims=2)
    inside = tf.cumsum(tf.gather(blocks, block, batch_dims=2), axis=-1)
    # Rounding may push a draw next to the end of a block beyond it.
    within = tf.minimum(_num_below(inside, threshold - start), SAMPLE_BLOCK - 1)
    return tf.minimum(block * SAMPLE_BLOCK + within, vocab_size - 1)


def _num_below(ends: tf.Tensor, threshold: tf.Tensor) -> tf.Tensor:
    """How many ends are at most the threshold: <int32>[B, N]."""
    is_below = ends <= threshold[..., tf.newaxis]
    return tf.reduce_sum(tf.cast(is_below, tf.int32), axis=-1)
