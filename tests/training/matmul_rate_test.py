"""Tests of training/matmul_rate.py, against NumPy."""

import itertools
import time
import timeit
import types

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.training import matmul_rate


def numpy_rate(m, k, n):
    x, y = np.ones((m, k), np.float32), np.ones((k, n), np.float32)
    clock = time.process_time  # Whatever else the machine does.
    seconds = min(timeit.repeat(lambda: x @ y, timer=clock, number=2, repeat=4))
    return 2 * 2 * m * k * n / seconds


@pytest.mark.parametrize("shape", [(512, 512, 512), (256, 512, 1024)])
def test_the_products_are_computed_every_time(shape):
    """A graph that computes them once is 64 times as fast."""
    found = matmul_rate.MatmulRate(shape, repeats=64).measure_by_cpu()
    assert 1e8 < found < 20 * numpy_rate(*shape)


def test_the_rate_of_a_strategy_is_that_of_the_cores(monkeypatch):
    """Which are those that the process may use, twice for two workers."""
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    found = matmul_rate.of_strategy(strategy)
    cores = matmul_rate.num_cores()
    assert 1e8 < found < 20 * cores * numpy_rate(1024, 1024, 1024)
    monkeypatch.setattr(matmul_rate, "num_cores", lambda: 3 * cores)
    monkeypatch.setattr(matmul_rate, "_rate_of_cores", lambda *_: Rate())
    assert matmul_rate.of_strategy(strategy) == 3 * cores * 7.0
    two = types.SimpleNamespace(
        extended=types.SimpleNamespace(worker_devices=["CPU:0"]),
        num_replicas_in_sync=2,
    )
    assert matmul_rate.of_strategy(two) == 2 * 3 * cores * 7.0


class Rate:
    """Of rounds that take turns, the fastest counts."""

    def __init__(self):
        self.rounds = itertools.cycle((5.0, 7.0, 6.0))

    def measure_by_cpu(self):
        return next(self.rounds)
