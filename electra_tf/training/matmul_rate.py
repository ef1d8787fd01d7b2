"""The rate of devices at large matrix products alone: what MFU is a share of.

One way to measure it, for the log of a run, tools/plan_run.py and the
benchmarks. Of CPUs it is the operations of a CPU second, times the cores: other
work on the machine changes it little, so a share of it is at most 1.
"""

import functools
import time
from collections.abc import Callable

import keras
import tensorflow as tf

from electra_tf.command_line.fastest import num_cores

# The best of some short series, with pauses: a core that has just been woken,
# or that others have heated, is slower for a while.
_NUM_SERIES, _SECONDS, _PAUSE = 5, 0.1, 0.1


@functools.cache
def _measure(
    size: int,
    repeats: int,
    dtype: str = "float32",
    strategy: tf.distribute.Strategy | None = None,
    num_chains: int = 1,
    clock: Callable[[], float] = time.process_time,
) -> Callable[[], float]:
    """A function that measures the FLOPs a second of products of squares."""
    strategy = strategy or tf.distribute.get_strategy()
    flops = num_chains * repeats * 2.0 * size**3 * strategy.num_replicas_in_sync

    def chain(value):
        left = tf.fill([size, size], tf.cast(value, dtype))
        right = tf.fill([size, size], tf.cast(1 / size, dtype))
        # Each follows from the one before, or it would be computed only once.
        return tf.while_loop(
            lambda index, _: index < repeats,
            lambda index, left: (index + 1, tf.matmul(left, right)),
            [0, left],
        )[1][0, 0]

    def products(value):
        # Of other numbers each, or all would be computed once.
        return tf.add_n([chain(c * value) for c in range(1, num_chains + 1)])

    # The value is an argument: products of constants are computed before the
    # graph runs.
    run = tf.function(
        lambda value: strategy.run(products, args=(value,)), autograph=False
    )

    def rate() -> float:
        start = clock()
        results = run(tf.constant(1 / size))
        for result in strategy.experimental_local_results(results):
            result.numpy()
        return flops / (clock() - start)

    rate()  # The first time takes longer.
    return rate


def strategy_rate(strategy: tf.distribute.Strategy) -> float:
    """What the devices of a run reach, in the dtype that it computes in.

    Args:
      strategy: Of the run. Its workers are taken to be alike.

    Returns:
      Floating-point operations in a second, of all replicas together.
    """
    devices = strategy.extended.worker_devices
    dtype = keras.config.dtype_policy().compute_dtype
    if "CPU" in devices[0]:
        num_workers = strategy.num_replicas_in_sync // len(devices)
        return num_workers * cpu_rate(dtype)
    rate = _measure(8192, 8, dtype, strategy, clock=time.perf_counter)
    return max(rate() for _ in range(3))


def cpu_rate(dtype: str = "float32") -> float:
    """What the cores that this process may use reach together.

    Args:
      dtype: Of the products.

    Returns:
      Floating-point operations in a second, if nothing else is running.
    """
    # A chain a core: one alone would leave most of them cold. Squares of 512 to
    # 2048 differ by a twentieth.
    rate = _measure(1024, 2, dtype, num_chains=num_cores())
    best = 0.0
    for _ in range(_NUM_SERIES):
        end = time.perf_counter() + _SECONDS
        while time.perf_counter() < end:
            best = max(best, rate())
        time.sleep(_PAUSE)
    return num_cores() * best
