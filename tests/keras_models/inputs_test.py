"""Tests of keras_models/inputs.py."""

import numpy as np
import pandas as pd
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
    assert [labels.id_of(x) for x in values] == expected
    assert [labels.id_of(np.asarray(x)[()]) for x in values] == expected


def test_columns_of_a_frame_go_by_the_labels_they_name():
    matrix = np.array([[1, 0, 0], [0, 1, 1]])
    labels = inputs.Labels(["1", "2", "10"])
    for names in (["10", "1", "2"], [10, 1, 2], [10.0, 1.0, 2.0]):
        frame = pd.DataFrame(matrix[:, [2, 0, 1]], columns=names)
        found = labels.decisions(frame, "y", 2)
        np.testing.assert_array_equal(found, matrix)


def test_rows_by_name():
    rows = [
        {"text": "a", "label": 1, "id": 7},
        {"text": "b", "label": 0, "id": 8},
    ]
    dataset = tf.data.Dataset.from_tensor_slices(
        {"text": ["a", "b"], "label": [1, 0]}
    )
    for x in (rows, {n: [r[n] for r in rows] for n in rows[0]}):
        assert inputs.columns(x)[0] == [["a", "b"], [1, 0], None]
        assert inputs.columns(x, ["x", "y"])[0][1] == ["x", "y"]
    (x, y, _), size = inputs.columns(dataset.batch(2))
    assert (x, y.tolist(), size) == ([b"a", b"b"], [1, 0], 2)
    words = [{"tokens": ["a", "b"], "ner_tags": [0, -100]}]
    assert inputs.columns(words)[0][:2] == [[["a", "b"]], [[0, -100]]]
    two = {"text": ["a"], "label": [1], "score": [2]}
    assert inputs.columns(two)[0] == [["a"], None, None]
    pairs = [{"premise": "a", "hypothesis": "b"}]
    assert inputs.columns(pairs)[0] == [(["a"], ["b"]), None, None]
    two_texts = {"text": ["a"], "words": ["b"]}
    assert inputs.columns(two_texts)[0] == [two_texts, None, None]
    with pytest.raises(ValueError, match="rows of the same names"):
        inputs.columns([rows[0], {"text": "b"}])


GOOD, LABELS = helpers.inputs(range(3)), np.array([0, 1, 1])


def _model():
    return electra_tf.TextClassifier.from_checkpoint(
        models.pretrained(), labels=["a", "b"], preprocessor=None
    )


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("input_ids", 20, "input_ids from 0 to 19"),
        ("input_mask", 2, "input_mask from 0 to 1"),
        ("segment_ids", -1, "segment_ids from 0 to 1"),
        ("labels", 2, "labels from 0 to 1"),
    ],
)
def test_ids_and_labels_that_there_are_not(name, value, message):
    """On a GPU, or by XLA, a lookup of them would find other rows."""
    labels = LABELS + value if name == "labels" else LABELS
    bad = GOOD | {name: GOOD[name] * 0 + value} if name in GOOD else GOOD
    data = tf.data.Dataset.from_tensors((bad, labels))
    model = _model()
    model.compile(num_train_steps=9, jit_compile=True)
    uses = [
        lambda: model.fit(bad, labels),
        lambda: model.fit(GOOD, LABELS, validation_data=(bad, labels)),
        lambda: model.evaluate(bad, labels),
        lambda: model.evaluate(data),
    ]
    if name in GOOD:
        uses += [
            lambda: model.predict(bad),
            lambda: model.encoder().predict(bad),
        ]
    for use in uses:
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            use()


def test_what_a_model_of_ids_refuses():
    model = _model()
    for weight in ({2: 2.0}, {"c": 1.0}, "balanced"):
        with pytest.raises(ValueError, match="class_weight"):
            model.fit(GOOD, LABELS, class_weight=weight)
    for use in (model.fit, model.evaluate):
        with pytest.raises(ValueError, match="x as a dictionary of token ids"):
            use(["wa"], [1])
    with pytest.raises(ValueError, match="x as a dictionary of token ids"):
        model.predict(["wa"])
