"""Tests of keras_models/labels.py."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.keras_models import labels


@pytest.mark.parametrize(
    ("names", "values", "expected"),
    [
        (["neg", "pos"], [1, 0], [1, 0]),
        (["neg", "pos"], [1.0, 0.0], [1, 0]),
        (["1", "2"], [1, 2], [0, 1]),
        (["1", "2"], [1.0, 2.0], [0, 1]),
        # By their value, too, not by their place.
        (["1.0", "2.0"], [1.0, 2.0], [0, 1]),
        (["1.0", "2.0"], [1, 2], [0, 1]),
        (["0.5", "1.5"], [1.5, 0.5], [1, 0]),
        (["nan", "inf"], [1, 0], [1, 0]),
    ],
)
def test_numbers_are_looked_up_or_count(names, values, expected):
    found = labels.Labels(names)
    assert [found.id_of(value) for value in values] == expected
    for of_numpy in (np.float32, np.float64, type(values[0])):
        column = np.array(values, of_numpy)
        np.testing.assert_array_equal(found.ids(column, "y", 2), expected)
        np.testing.assert_array_equal(
            found.graph_ids(tf.constant(column)), expected
        )


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["0", "1"], [1, 0]),
        (["1.0", "0.0"], [0, 1]),
        # Not the second label and the first one.
        (["true", "false"], [0, 1]),
        (["True", "False"], [0, 1]),
        (["yes", "no"], [None, None]),
    ],
)
def test_what_is_true_or_false(names, expected):
    found = labels.Labels(names)
    for kind in (bool, np.bool_):
        assert [found.id_of(kind(x)) for x in (1, 0)] == expected


def test_what_is_true_or_false_in_a_graph():
    y = tf.constant([True, False])
    assert labels.Labels(["0", "1"]).graph_ids(y).numpy().tolist() == [1, 0]
    with pytest.raises(ValueError, match="a dataset with labels of bool"):
        labels.Labels(["neg", "pos"]).graph_ids(y)


def test_labels_that_are_one_number_go_by_their_names():
    found = labels.Labels(["1", "01", "2"])
    assert [found.id_of(name) for name in found.names] == [0, 1, 2]
    assert found.id_of(2) is None
    with pytest.raises(ValueError, match="Received: a dataset with labels of"):
        found.graph_ids(tf.constant([2]))


@pytest.mark.parametrize("value", [0.5, 2.0, -1.0, float("nan"), float("inf")])
def test_other_numbers_are_none(value):
    found = labels.Labels(["neg", "pos"])
    assert found.id_of(value) is None
    with pytest.raises(tf.errors.InvalidArgumentError, match="Expected labels"):
        found.graph_ids(tf.constant([value, 1.0]))
