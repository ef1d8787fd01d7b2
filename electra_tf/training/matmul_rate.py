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

# Products of a CPU: 512 to 2048 differ by a twentieth.
_CPU_SQUARE = (1024, 1024, 1024)
# The best of some short series, with pauses: a core that has just been woken,
# or that others have heated, is slower for a while.
_NUM_SERIES, _SECONDS, _PAUSE = 5, 0.1, 0.1


class MatmulRate:
    """Times products [m, k] x [k, n], some at once.

    Args:
      shape: (m, k, n).
      repeats: Products at once.
      dtype: Of the products.
      strategy: Of the replicas, each of which does all products; None for one
        device.
      num_chains: Sequences of that many products side by side, which share
        nothing.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        repeats: int,
        dtype: str = "float32",
        strategy: tf.distribute.Strategy | None = None,
        num_chains: int = 1,
    ):
        m, k, n = shape
        strategy = strategy or tf.distribute.get_strategy()
        self._strategy = strategy
        self._flops = num_chains * repeats * 2 * m * k * n
        self._flops *= strategy.num_replicas_in_sync

        def products(value):
            # Of other numbers each, or all would be computed once.
            return tf.add_n(
                [chain(c * value) for c in range(1, num_chains + 1)]
            )

        def chain(value):
            left = tf.fill([m, k], tf.cast(value, dtype))
            right = tf.fill([k, n], tf.cast(1 / k, dtype))

            # Each follows from the one before, or it would be computed only
            # once.
            def multiply(index, left, total):
                product = tf.matmul(left, right)
                total += product[0, 0]
                left = product if m == k == n else left + total * 0.0
                return index + 1, left, total

            _, left, total = tf.while_loop(
                lambda index, *_: index < repeats,
                multiply,
                [0, left, tf.zeros([], dtype)],
            )
            return left[0, 0] + total

        # The value is an argument: products of constants are computed before
        # the graph runs. A square of this one is the same again.
        self._run = tf.function(
            lambda value: strategy.run(products, args=(value,)),
            autograph=False,
        )
        self._value = tf.constant(1 / k)
        self.measure()  # The first time takes longer.

    def measure(self) -> float:
        """Floating-point operations in a second, of all replicas together."""
        return self._flops / self._time(time.perf_counter)

    def measure_by_cpu(self) -> float:
        """Floating-point operations in a CPU second."""
        return self._flops / self._time(time.process_time)

    def _time(self, clock: Callable[[], float]) -> float:
        start = clock()
        results = self._run(self._value)
        for result in self._strategy.experimental_local_results(results):
            result.numpy()
        return clock() - start


def of_strategy(strategy: tf.distribute.Strategy) -> float:
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
        return num_workers * of_cpus(dtype)
    rate = MatmulRate((8192, 8192, 8192), 8, dtype, strategy)
    return max(rate.measure() for _ in range(3))


def of_cpus(dtype: str = "float32") -> float:
    """What the cores that this process may use reach together.

    Args:
      dtype: Of the products.

    Returns:
      Floating-point operations in a second, if nothing else is running.
    """
    rate = _rate_of_cores(num_cores(), dtype)
    best = 0.0
    for _ in range(_NUM_SERIES):
        end = time.perf_counter() + _SECONDS
        while time.perf_counter() < end:
            best = max(best, rate.measure_by_cpu())
        time.sleep(_PAUSE)
    return num_cores() * best


@functools.cache
def _rate_of_cores(num_chains: int, dtype: str) -> MatmulRate:
    """A chain a core: one alone would leave most of them cold."""
    return MatmulRate(_CPU_SQUARE, 2, dtype, None, num_chains)
