"""Tests of training/matmul_rate.py, against NumPy."""

import time
import timeit

import numpy as np
import tensorflow as tf

from electra_tf.training import matmul_rate


def seconds_of(call, number):
    """CPU seconds of one call, whatever else the machine does."""
    clock = time.process_time
    return min(timeit.repeat(call, timer=clock, number=number)) / number


def test_the_products_are_computed_every_time():
    """A graph that computes them once is 16 times as fast."""
    x = np.ones((1024, 1024), np.float32)
    products = matmul_rate.make_products(2, "float32", repeats=8)
    value = tf.constant(1.0)
    assert products(value).numpy() == 3.0  # 1 and 2 of the two chains.
    seconds = seconds_of(lambda: products(value).numpy(), 1)
    assert seconds > 16 * seconds_of(lambda: x @ x, 2) / 5
    cores = matmul_rate.num_cores()
    found = matmul_rate.of_cpus()
    assert 1e8 < found < 5 * cores * 2 * 1024**3 / seconds_of(lambda: x @ x, 2)
