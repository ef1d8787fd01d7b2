"""Tests of training/matmul_rate.py, against NumPy."""

import timeit

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.training import matmul_rate


def numpy_rate(m, k, n):
    x, y = np.ones((m, k), np.float32), np.ones((k, n), np.float32)
    seconds = min(timeit.repeat(lambda: x @ y, number=2, repeat=4))
    return 2 * 2 * m * k * n / seconds


@pytest.mark.parametrize("shape", [(512, 512, 512), (256, 512, 1024)])
def test_the_products_are_computed_every_time(shape):
    """A graph that computes them once is 64 times as fast."""
    found = matmul_rate.MatmulRate(shape, repeats=64).measure()
    assert 1e8 < found < 20 * numpy_rate(*shape)


def test_the_rate_of_a_strategy():
    found = matmul_rate.of_strategy(tf.distribute.OneDeviceStrategy("CPU:0"))
    assert 1e8 < found < 20 * numpy_rate(1024, 1024, 1024)
