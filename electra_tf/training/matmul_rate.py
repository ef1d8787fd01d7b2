"""The rate of devices at large matrix products alone: what MFU is a share of.

One way to measure it, for the log of a run, tools/plan_run.py and the
benchmarks.
"""

import statistics
import time

import keras
import tensorflow as tf

# Squares that tell a CPU's rate; the faster one counts.
CPU_SQUARES = ((1024, 1024, 1024), (2048, 2048, 2048))
# Products that are timed together take about as many operations.
_FLOPS_AT_ONCE = 1e10
# Of small ones, which take as long as the loop around them.
_MOST_REPEATS = 2000


class MatmulRate:
    """Times products [m, k] x [k, n], some at once.

    Args:
      shape: (m, k, n).
      repeats: Products at once; None for about a tenth of a second on a CPU.
      dtype: Of the products.
      strategy: Of the replicas, each of which does all products; None for one
        device.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        repeats: int | None = None,
        dtype: str = "float32",
        strategy: tf.distribute.Strategy | None = None,
    ):
        m, k, n = shape
        repeats = repeats or min(
            _MOST_REPEATS, max(1, int(_FLOPS_AT_ONCE / (2 * m * k * n)))
        )
        strategy = strategy or tf.distribute.get_strategy()
        self._strategy = strategy
        self._flops = strategy.num_replicas_in_sync * repeats * 2 * m * k * n

        def products(value):
            left = tf.fill([m, k], tf.cast(value, dtype))
            right = tf.fill([k, n], tf.cast(value, dtype))

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
        start = time.perf_counter()
        results = self._run(self._value)
        for result in self._strategy.experimental_local_results(results):
            result.numpy()
        return self._flops / (time.perf_counter() - start)


def of_strategy(strategy: tf.distribute.Strategy) -> float:
    """What the devices of a run reach, in the dtype that it computes in.

    Args:
      strategy: Of the run.

    Returns:
      Floating-point operations in a second, of all replicas together.
    """
    device = strategy.extended.worker_devices[0]
    size, repeats = (1024, 2) if "CPU" in device else (8192, 8)
    rate = MatmulRate(
        (size, size, size),
        repeats,
        keras.config.dtype_policy().compute_dtype,
        strategy,
    )
    return max(rate.measure() for _ in range(3))


def of_this_cpu() -> float:
    """What the processor of this machine reaches in float32."""
    rates = [MatmulRate(shape) for shape in CPU_SQUARES]
    # The first ones of a process are slower.
    rounds = [[rate.measure() for rate in rates] for _ in range(40)]
    return max(statistics.median(found) for found in zip(*rounds, strict=True))
