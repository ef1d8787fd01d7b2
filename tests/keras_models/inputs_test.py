"""Tests of keras_models/inputs.py."""

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

import electra_tf
from electra_tf.keras_models import inputs
from tests import helpers
from tests.checkpoints import models


@pytest.mark.parametrize(
    ("names", "values", "expected"),
    [
        (["neg", "pos"], [1, 0], [1, 0]),
        (["neg", "pos"], [1.0, 0.0], [1, 0]),
        (["1", "2"], [1, 2], [0, 1]),
        # By their value, too, not by their place.
        (["1.0", "2.0"], [1, 2], [0, 1]),
        (["0.5", "1.5"], [1.5, 0.5], [1, 0]),
        (["nan", "inf"], [1, 0], [1, 0]),
        (["0", "1"], [True, False], [1, 0]),
        # Not the second label and the first one.
        (["true", "false"], [True, False], [0, 1]),
        (["True", "False"], [True, False], [0, 1]),
        (["yes", "no"], [True, 0.5], [None, None]),
        (["neg", "pos"], [-1.0, float("nan")], [None, None]),
        # Labels that are one number go by their names.
        (["1", "01", "2"], ["01", 2], [1, None]),
        (["a", "b"], [b"b", "c"], [1, None]),
    ],
)
def test_labels(names, values, expected):
    labels = inputs.Labels(names)
    for kind in (lambda x: x, np.asarray):
        assert [
            labels.id_of(kind(x)[()] if kind is np.asarray else x)
            for x in values
        ] == expected


@pytest.mark.parametrize(
    "column",
    [
        [1, 0],
        (1, 0),
        np.array([1.0, 0.0], np.float32),
        np.array([[1], [0]]),
        tf.constant([1, 0]),
        pa.array([1, 0]),
    ],
)
def test_a_column_in_every_form(column):
    assert inputs.Labels(["a", "b"]).ids(column, "y", 2).tolist() == [1, 0]
    assert inputs.numbers(column, "y", 2).tolist() == [1.0, 0.0]
    with pytest.raises(ValueError, match="3 values, as x has rows"):
        inputs.rows(column, "y", 3)


def _batch(name="input_ids", value=5):
    batch = {n: np.copy(x) for n, x in helpers.inputs(range(3)).items()}
    batch[name][1, 2] = value
    return batch


GOOD, LABELS, WEIGHTS = _batch(), np.array([0, 1, 1]), np.ones(3, np.float32)
BAD = [
    ((_batch("input_ids", 20), LABELS), "input_ids in x from 0 to 19"),
    ((_batch("input_mask", 2), LABELS), "input_mask in x from 0 to 1"),
    ((_batch("segment_ids", -1), LABELS), "segment_ids in x from 0 to 1"),
    ((GOOD, LABELS + 1), "labels in y from 0 to 1"),
    ((GOOD, LABELS + 0.5), "labels in y from 0 to 1"),
    ((GOOD, LABELS * np.nan), "labels in y from 0 to 1"),
    ((GOOD, np.array(["a", "b", "b"])), "numbers as labels in y"),
    ((GOOD, LABELS, WEIGHTS * np.nan), "sample_weight of 0 or more"),
    ((GOOD, LABELS, -WEIGHTS), "sample_weight of 0 or more"),
    ((GOOD, LABELS[:, np.newaxis]), "of the rank 1"),
]


@pytest.mark.parametrize(("batch", "message"), BAD)
def test_ids_labels_and_weights_that_there_are_not(batch, message):
    check = inputs.Checked(models.ENCODER, num_values=2)
    with pytest.raises(ValueError, match=message):
        check(*batch)
    checked = check(tf.data.Dataset.from_tensors(batch))
    with pytest.raises(tf.errors.OpError, match=message):
        next(iter(checked))


def test_what_is_good_stays_as_it_is():
    check = inputs.Checked(models.ENCODER, num_values=2)
    for element in (GOOD, (GOOD,), (GOOD, LABELS), (GOOD, LABELS, WEIGHTS)):
        dataset = tf.data.Dataset.from_tensors(element).repeat(2)
        checked = check(dataset)
        assert checked.cardinality() == 2
        first, expected = next(iter(checked)), next(iter(dataset))
        for a, b in zip(
            tf.nest.flatten(first), tf.nest.flatten(expected), strict=True
        ):
            np.testing.assert_array_equal(a, b)
    # Quantities are any numbers that are finite.
    of_numbers = inputs.Checked(models.ENCODER)
    assert of_numbers(GOOD, np.array([-0.5, 7.0, 1e9])) is GOOD
    with pytest.raises(ValueError, match="labels in y finite"):
        of_numbers(GOOD, np.array([0.0, np.nan, 1.0]))


@pytest.mark.parametrize("jit_compile", [False, True])
def test_every_method_looks_at_ids(jit_compile):
    """XLA leaves out what a step asserts, and looks up other rows."""
    model = electra_tf.TextClassifier.from_checkpoint(
        models.pretrained(), labels=["a", "b"], preprocessor=None
    )
    model.compile(num_train_steps=9, jit_compile=jit_compile)
    bad = _batch(value=20)
    none = {name: values[:0] for name, values in GOOD.items()}
    for x, message in ((bad, "input_ids in .*x from"), (none, "no rows")):
        for use in (
            lambda x: model.fit(x, LABELS[: len(x["input_ids"])]),
            lambda x: model.fit(GOOD, LABELS, validation_data=(x, LABELS)),
            lambda x: model.evaluate(x, LABELS),
            lambda x: model.train_on_batch(x, LABELS),
            lambda x: model.test_on_batch(x, LABELS),
            lambda x: model.predict_on_batch(x),
            lambda x: model.predict(x),
            lambda x: model.encoder().predict(x),
        ):
            with pytest.raises(ValueError, match=message):
                use(x)
    for weight in ({2: 2.0}, {"c": 1.0}, "balanced"):
        with pytest.raises(ValueError, match="class_weight"):
            model.fit(GOOD, LABELS, class_weight=weight)
    for use in (model.fit, model.evaluate):
        with pytest.raises(ValueError, match="x as a dictionary of token ids"):
            use(["wa"], [1])
    with pytest.raises(ValueError, match="x as a dictionary of token ids"):
        model.predict(["wa"])
