"""The rate of a CPU at large matrix products alone: what MFU is a share of.

It is the operations of a CPU second, times the cores: other work on the machine
changes it little, so a share of it is at most 1.
"""

import functools
import time
from collections.abc import Callable

import tensorflow as tf

from electra_tf.command_line.fastest import num_cores

# Of the products: 512 to 2048 differ by a twentieth.
_SIZE = 1024
_REPEATS = 2
# The best of some short series, with pauses: a core that has just been woken,
# or that others have heated, is slower for a while.
_NUM_SERIES, _SECONDS, _PAUSE = 5, 0.1, 0.1


def of_cpus(dtype: str = "float32") -> float:
    """What the cores that this process may use reach together.

    Args:
      dtype: Of the products.

    Returns:
      Floating-point operations in a second, if nothing else is running.
    """
    products = make_products(num_cores(), dtype)
    value = tf.constant(1 / _SIZE)
    products(value).numpy()  # The first time takes longer.
    best = 0.0
    for _ in range(_NUM_SERIES):
        end = time.perf_counter() + _SECONDS
        while time.perf_counter() < end:
            start = time.process_time()
            products(value).numpy()
            best = max(best, 1 / (time.process_time() - start))
        time.sleep(_PAUSE)
    # A chain a core, for the seconds of all cores together.
    return best * num_cores() ** 2 * _REPEATS * 2 * _SIZE**3


@functools.cache
def make_products(
    num_chains: int, dtype: str, repeats: int = _REPEATS
) -> Callable[[tf.Tensor], tf.Tensor]:
    """What multiplies squares, each product with the one before.

    Args:
      num_chains: Side by side, which share nothing: one alone would leave most
        cores cold.
      dtype: Of the products.
      repeats: Products of a chain.
    """

    def chain(value):
        left = tf.fill([_SIZE, _SIZE], tf.cast(value, dtype))
        right = tf.fill([_SIZE, _SIZE], tf.cast(1 / _SIZE, dtype))
        # Each follows from the one before, or it would be computed only once.
        _, left = tf.while_loop(
            lambda index, _: index < repeats,
            lambda index, left: (index + 1, tf.matmul(left, right)),
            [0, left],
        )
        return left[0, 0]

    # The value is an argument: products of constants are computed before the
    # graph runs. Chains are of other numbers each, or all would be one.
    return tf.function(
        lambda value: tf.add_n(
            [chain(c * value) for c in range(1, num_chains + 1)]
        ),
        autograph=False,
    )
