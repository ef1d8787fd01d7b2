"""Tests of training/numpy_functions.py: as long as it takes, and no longer."""

import gc
import weakref

import numpy as np
import tensorflow as tf

from electra_tf.training.numpy_functions import numpy_function
from tests import helpers


def test_a_numpy_function_lives_as_long_as_an_iterator():
    def doubled():
        def double(value):
            return 2 * value

        def mapped(value):
            return numpy_function(double, [value], tf.int64)

        found.append(weakref.ref(double))
        return tf.data.Dataset.range(3).map(mapped).prefetch(1)

    found = []
    numbers = iter(doubled())
    gc.collect()
    assert [int(number) for number in numbers] == [0, 2, 4]
    del numbers
    assert helpers.is_gone(found[0])


def test_a_numpy_function_lives_as_long_as_what_its_dataset_is_made_in():
    def doubled(_):
        def double(value):
            return 2 * value

        def mapped(value):
            return numpy_function(double, [value], tf.int64)

        found.append(weakref.ref(double))
        return tf.data.Dataset.range(3).map(mapped)

    @tf.function
    def total():
        return doubled(None).reduce(np.int64(0), lambda x, y: x + y)

    found = []
    outer = tf.data.Dataset.range(2).flat_map(doubled)
    gc.collect()
    assert [int(number) for number in outer] == [0, 2, 4] * 2
    assert int(total()) == 6
    gc.collect()
    assert int(total()) == 6
    del outer, total
    assert all(map(helpers.is_gone, found))
