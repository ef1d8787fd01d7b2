"""Tests of model/masking.py."""

import math

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.model import masking

CLS, SEP, MASK = 2, 3, 4


def constant(rows, dtype=tf.int32):
    return tf.constant(rows, dtype)


def test_candidates_are_real_tokens_that_are_not_special():
    candidate = masking.is_candidate(
        constant([[CLS, 9, MASK, 8, SEP, 0, 7]]),
        constant([[1, 1, 1, 1, 1, 0, 0]]),
        (CLS, SEP, MASK),
    )
    assert candidate.numpy().tolist() == [
        [False, True, False, True, False, False, False]
    ]


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (2, 1),  # 0.5 rounds to 0, but at least one is masked.
        (6, 2),  # 1.5 rounds to 2.
        (10, 2),  # 2.5 rounds to 2.
        (14, 4),  # 3.5 rounds to 4.
        (16, 4),  # 4 slots is all there is.
        (20, 4),
        (0, 1),
    ],
)
def test_number_of_predictions_rounds_half_to_even(tokens, expected):
    mask = constant([[1] * tokens + [0] * (20 - tokens)])
    found = masking.number_of_predictions(mask, 0.25, 4)
    assert found.numpy().tolist() == [expected]


def test_positions_are_the_candidates_in_equal_shares():
    positions = masking.draw_positions(
        constant([[False, True, False, True, True]], tf.bool),
        constant([[0.0, 0.33, 0.34, 0.66, 0.67, 0.9999999]], tf.float32),
    )
    assert positions.numpy().tolist() == [[1, 1, 3, 3, 4, 4]]


def test_distinct_positions_have_candidates_first():
    positions = masking.draw_positions(
        constant([[False, True, True, False, True]], tf.bool),
        constant([[0.1, 0.9, 0.2, 0.05, 0.5]], tf.float32),
        distinct=True,
    )
    assert positions.numpy().tolist() == [[2, 4, 1, 3, 0]]


def test_continues_a_word():
    vocab = ["[PAD]", "##", "play", "##ing", "#"]
    found = masking.continues_a_word(vocab)
    assert np.flatnonzero(found).tolist() == [1, 3]


def greedily(candidate, continues, uniform, wanted):
    """The rule, word by word."""
    words = []
    for i, is_candidate in enumerate(candidate):
        if is_candidate and continues[i] and i and candidate[i - 1]:
            words[-1].append(i)
        elif is_candidate:
            words.append([i])
    drawn = []
    for word in sorted(words, key=lambda word: uniform[word[0]]):
        if len(drawn) + len(word) <= wanted:
            drawn += word
    return sorted(drawn)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_draw_whole_words_of_random_rows(jit_compile):
    rng = np.random.default_rng(0)
    shape = (200, 40)
    candidate = rng.random(shape) < 0.9
    continues = rng.random(shape) < rng.random((200, 1))
    uniform = rng.random(shape).astype(np.float32)
    wanted = rng.integers(0, 20, 200).astype(np.int32)
    positions, num_drawn = tf.function(
        masking.draw_whole_words, jit_compile=jit_compile
    )(candidate, continues, uniform, wanted)
    for i in range(200):
        expected = greedily(candidate[i], continues[i], uniform[i], wanted[i])
        assert num_drawn[i] == len(expected)
        assert sorted(positions[i].numpy()) == list(range(40))
        assert positions[i, : len(expected)].numpy().tolist() == expected


def test_mask():
    inputs = masking.Inputs(
        input_ids=constant([[CLS, 11, 12, 13, SEP], [CLS, 21, 22, SEP, 0]]),
        input_mask=constant([[1] * 5, [1] * 4 + [0]]),
        segment_ids=constant([[0] * 5, [0] * 5]),
    )
    masked = masking.mask(
        inputs,
        drawn_positions=constant([[3, 1, 2], [2, 1, 1]]),
        # In the first row, the second position keeps its token.
        mask_uniform=constant([[0.0, 0.85, 0.5], [0.8, 0.0, 0.0]], tf.float32),
        num_predictions=constant([2, 1]),
        mask_token_id=MASK,
        masked_token_prob=0.85,
    )
    assert masked.input_ids.numpy().tolist() == [
        [CLS, 11, 12, MASK, SEP],
        [CLS, 21, MASK, SEP, 0],
    ]
    assert masked.masked_lm_positions.numpy().tolist() == [[3, 1, 0], [2, 0, 0]]
    assert masked.masked_lm_ids.numpy().tolist() == [[13, 11, 0], [22, 0, 0]]
    assert masked.masked_lm_weights.numpy().tolist() == [[1, 1, 0], [1, 0, 0]]
    assert masked.masked_lm_weights.dtype == tf.float32
    assert masked.segment_ids is inputs.segment_ids


def test_unmask_puts_the_true_tokens_back():
    inputs = masking.Inputs(
        input_ids=constant([[CLS, MASK, 12, MASK, SEP]]),
        input_mask=constant([[1] * 5]),
        segment_ids=constant([[0] * 5]),
        # Position 3 was drawn twice; the last slot is not used.
        masked_lm_positions=constant([[3, 1, 3, 0]]),
        masked_lm_ids=constant([[13, 11, 13, 0]]),
        masked_lm_weights=constant([[1, 1, 1, 0]], tf.float32),
    )
    assert masking.unmask(inputs).input_ids.numpy().tolist() == [
        [CLS, 11, 12, 13, SEP]
    ]


@pytest.mark.parametrize(
    ("rows", "tokens", "positions", "expected", "is_written"),
    [
        # What shares a position is averaged and rounded down:
        # (5 + 8) / 2 = 6.5 and (1 + 2 + 2) / 3 = 1.67.
        ([10, 11, 12, 13], [5, 8, 7], [2, 2, 3], [10, 11, 6, 7], [0, 0, 1, 1]),
        ([20, 21, 22], [1, 2, 2], [1, 1, 1], [20, 1, 22], [0, 1, 0]),
        # Position 0 is none; token 0 is one.
        ([10, 11, 12], [5, 8], [0, 2], [10, 11, 8], [0, 0, 1]),
        ([10, 11, 12], [0], [1], [10, 0, 12], [0, 1, 0]),
    ],
)
def test_scatter_update(rows, tokens, positions, expected, is_written):
    updated, written = masking.scatter_update(
        constant([rows]), constant([tokens]), constant([positions])
    )
    assert updated.numpy().tolist() == [expected]
    assert written.numpy().tolist() == [is_written]


def sample(logits, draws):
    """Samples of one distribution, one for each draw."""
    logits = tf.tile(constant([[logits]], tf.float32), [1, len(draws), 1])
    tokens = masking.sample(logits, constant([draws], tf.float32))
    assert tokens.dtype == tf.int32
    return tokens.numpy()[0].tolist()


def test_sample_inverts_the_cumulative_sum():
    logits = [math.log(p) for p in (0.1, 0.2, 0.3, 0.4)]
    # The cumulative sums are 0.1, 0.3, 0.6 and 1.
    draws = [0.0, 0.09, 0.11, 0.29, 0.31, 0.59, 0.61, 0.9999999]
    assert sample(logits, draws) == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("vocab_size", [129, 255, 256, 300])
def test_sample_in_vocabularies_of_several_blocks(vocab_size):
    logits = [-1e4] * vocab_size
    for token in (0, 127, 128, vocab_size - 1):
        logits[token] = 3.0
    # Four tokens of probability 1/4: a draw on the border is the next token.
    draws = [0.0, 0.2, 0.25, 0.4, 0.5, 0.7, 0.75, 0.9999999]
    tokens = [0, 0, 127, 127, 128, 128, vocab_size - 1, vocab_size - 1]
    if vocab_size == 129:
        # 128 is the last token: three tokens of probability 1/3.
        tokens = [0, 0, 0, 127, 127, 128, 128, 128]
    assert sample(logits, draws) == tokens


def test_sample_skips_what_is_impossible():
    logits = [-1e4, 0.0, -1e4, 0.0, -1e4]
    assert sample(logits, [0.0, 0.5, 0.9999999]) == [1, 3, 3]


def test_sample_equals_numpy():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=200).astype(np.float32)
    draws = rng.uniform(size=50).astype(np.float32)
    probs = np.exp(logits.astype(np.float64))
    ends = np.cumsum(probs) / probs.sum()
    # No draw is so close to a border that rounding could matter.
    assert np.abs(ends[:, np.newaxis] - draws).min() > 1e-6
    expected = np.searchsorted(ends, draws, side="right")
    assert sample(logits, draws.tolist()) == expected.tolist()


def test_gumbel_noise_grows_with_the_draw():
    tokens = masking.sample_with_gumbel_noise(
        constant(
            [[[0.0, 0.0, 0.0], [2.0, 0.0, 0.0], [1.0, 0.0, 0.0]]], tf.float32
        ),
        # Noise -log(-log(u)): 0.37, 2.25, -0.83.
        constant([[[0.5, 0.9, 0.1]] * 3], tf.float32),
    )
    # 0.37 < 2.25; 2.37 > 2.25; 1.37 < 2.25.
    assert tokens.numpy().tolist() == [[1, 0, 1]]
