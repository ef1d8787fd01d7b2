"""Seed, step and example -> uniform draws, the same wherever they are made."""

import numpy as np
import tensorflow as tf

from electra_tf import configs
from electra_tf.model import masking
from electra_tf.training import replicas


def positions_of(
    shard: replicas.Shard, index: tf.Tensor, batch_size: int
) -> tf.Tensor:
    """Places in the stream of the examples of a batch, <int64>[B]."""
    return shard.part(index) * batch_size + tf.range(batch_size, dtype=tf.int64)


def noise_width(config: configs.ElectraConfig) -> int:
    """Uniform draws that an example takes."""
    return config.num_position_draws + 2 * config.max_predictions_per_seq


def split_noise(
    config: configs.ElectraConfig, uniform: tf.Tensor
) -> masking.Noise:
    """Draws <float32>[B, noise_width] in [0, 1) by their use."""
    num_slots = config.max_predictions_per_seq
    return masking.Noise(
        *tf.split(
            uniform,
            [config.num_position_draws, num_slots, num_slots],
            axis=-1,
        )
    )


def _two_lanes(first: int, second: int) -> np.ndarray:
    return np.array([first, second], np.uint64)[:, np.newaxis, np.newaxis]


# Philox-4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2,
# 3": its multipliers and what its key grows by from round to round. A counter
# or a result of four words is two lanes of two: words 0 and 2, words 1 and 3.
_PHILOX_MULTIPLIERS = _two_lanes(0xD2511F53, 0xCD9E8D57)
_PHILOX_KEY_STEPS = _two_lanes(0x9E3779B9, 0xBB67AE85)
_PHILOX_ROUNDS = 10
# The key with which TensorFlow scrambles the seeds of its stateless ops.
_SCRAMBLE_KEY = _two_lanes(0x3EC8F720, 0x02461E29)
_WORD = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def uniform_rows(seed: int, numbers: np.ndarray, width: int) -> np.ndarray:
    """Rows of uniform draws, each from a seed of its own, in one go.

    Row i has the bits of `tf.random.stateless_uniform([width], [seed,
    numbers[i]])` on a CPU. That op takes one seed at a time, and many small ops
    cost more than the draws.

    Args:
      seed: The same for all rows.
      numbers: <int64>[B].
      width: Draws in a row.

    Returns:
      <float32>[B, width] in [0, 1).
    """
    seeds = np.array([np.full_like(numbers, seed), numbers]).view(np.uint64)
    seeds = seeds[:, :, np.newaxis]
    words_0_2, words_1_3 = _philox(_SCRAMBLE_KEY, seeds & _WORD, seeds >> _HALF)
    # Words 0 and 1 are the row's key, 2 and 3 the upper half of its counter.
    key = np.stack([words_0_2[0], words_1_3[0]])
    shape = (2, len(numbers), -(-width // 4))
    counters_0_2 = np.empty(shape, np.uint64)
    counters_0_2[0] = np.arange(shape[-1])
    counters_0_2[1] = words_0_2[1]
    counters_1_3 = np.zeros(shape, np.uint64)
    counters_1_3[1] = words_1_3[1]
    words_0_2, words_1_3 = _philox(key, counters_0_2, counters_1_3)
    words = np.stack(
        [words_0_2[0], words_1_3[0], words_0_2[1], words_1_3[1]], axis=-1
    )
    words = words.reshape(len(numbers), -1)[:, :width].astype(np.uint32)
    # The last 23 bits are the mantissa of a number from 1 to 2.
    words = words & np.uint32(0x7FFFFF) | np.uint32(0x3F800000)
    return words.view(np.float32) - np.float32(1.0)


def _philox(
    key: np.ndarray, words_0_2: np.ndarray, words_1_3: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Both lanes of four random words for each counter, <uint64>[2, B, M].

    The key is <uint64>[2, B or 1, 1]; everything is below 2**32.
    """
    for _ in range(_PHILOX_ROUNDS):
        products = (words_0_2 * _PHILOX_MULTIPLIERS)[::-1]
        words_0_2 = products >> _HALF ^ words_1_3 ^ key
        words_1_3 = products & _WORD
        key = key + _PHILOX_KEY_STEPS & _WORD
    return words_0_2, words_1_3
