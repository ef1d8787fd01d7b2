"""Seed, step and example -> uniform draws, the same wherever they are made."""

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


def uniform_rows(seed: int, positions: tf.Tensor, width: int) -> tf.Tensor:
    """Uniform draws, those of each example from a seed of its own.

    Args:
      seed: The same for all rows.
      positions: <int64>[B].
      width: Draws in a row.

    Returns:
      <float32>[B, width] in [0, 1).
    """

    def row(position: tf.Tensor) -> tf.Tensor:
        seeds = tf.stack([tf.constant(seed, tf.int64), position])
        return tf.random.stateless_uniform([width], seeds)

    rows = tf.map_fn(row, positions, fn_output_signature=tf.float32)
    return tf.ensure_shape(rows, [positions.shape[0], width])
