"""Tests of training/matmul_rate.py, against NumPy."""

import itertools
import time
import timeit
import types

import numpy as np
import tensorflow as tf

from electra_tf.training import matmul_rate


def numpy_rate(size):
    x = np.ones((size, size), np.float32)
    clock = time.process_time  # Whatever else the machine does.
    seconds = min(timeit.repeat(lambda: x @ x, timer=clock, number=2, repeat=4))
    return 2 * 2 * size**3 / seconds


def test_the_products_are_computed_every_time():
    """A graph that computes them once is 64 times as fast."""
    rate = matmul_rate._measure(512, repeats=64)()
    assert 1e8 < rate < 20 * numpy_rate(512)


def test_the_rate_of_a_strategy_is_that_of_the_cores(monkeypatch):
    """Which are those that the process may use, twice for two workers."""
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    cores = matmul_rate.num_cores()
    rate = matmul_rate.strategy_rate(strategy)
    assert 1e8 < rate < 20 * cores * numpy_rate(1024)
    monkeypatch.setattr(matmul_rate, "num_cores", lambda: 3 * cores)
    # Of rounds that take turns, the fastest counts.
    rounds = itertools.cycle((5.0, 7.0, 6.0))
    monkeypatch.setattr(
        matmul_rate, "_measure", lambda *_, **__: lambda: next(rounds)
    )
    two = types.SimpleNamespace(
        extended=types.SimpleNamespace(worker_devices=["CPU:0"]),
        num_replicas_in_sync=2,
    )
    assert matmul_rate.strategy_rate(two) == 2 * 3 * cores * 7.0
