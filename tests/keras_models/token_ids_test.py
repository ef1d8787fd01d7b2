"""Ids that no embedding table has are refused, whatever computes."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import electra_tf
from electra_tf.keras_models import token_ids
from tests import helpers
from tests.checkpoints import models
from tests.keras_models import tasks


def _batch(name="input_ids", value=5):
    batch = {n: np.copy(x) for n, x in helpers.inputs(range(3)).items()}
    batch[name][1, 2] = value
    return batch


@pytest.mark.parametrize("name, value, message", tasks.IDS_THAT_NO_MODEL_HAS)
def test_of_arrays_and_of_datasets(name, value, message):
    good, bad = _batch(), _batch(name, value)
    assert token_ids.checked(good, models.ENCODER) is good
    with pytest.raises(ValueError, match=message):
        token_ids.checked(bad, models.ENCODER)
    labels = np.zeros(3, np.int32)
    for element in (bad, (bad, labels)):
        dataset = token_ids.checked(
            tf.data.Dataset.from_tensors(element), models.ENCODER
        )
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            next(iter(dataset))


class _Batches(keras.utils.PyDataset):
    def __init__(self, *batches):
        super().__init__(workers=2)
        self.batches = batches

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, index):
        return self.batches[index]


@pytest.mark.parametrize("make", [_Batches, lambda *b: (x for x in b)])
def test_of_what_python_yields(make):
    good, labels = _batch(), np.array([0, 1, 1])
    whole = labels.astype(np.float32)
    batches = [
        good,
        (good,),
        (good, labels),
        (good, whole, whole),
        (good, None),
    ]
    found = token_ids.checked(make(*batches), models.ENCODER, "x", 2)
    if make is _Batches:
        assert (found.num_batches, found.workers) == (5, 2)
        found = [found[index] for index in range(5)]
    assert list(found) == batches
    for batch, message in (
        ((_batch(value=20), labels), "input_ids from 0 to 19 in x"),
        ((_batch("input_mask", 2),), "input_mask from 0 to 1 in x"),
        ((good, labels + 1), "labels from 0 to 1 as labels of x. .* 1 to 2"),
        ((good, whole + 0.5), "labels from 0 to 1 as labels of x"),
        ((good, labels, whole * np.nan), "numbers as weights of x. .*: nan in"),
    ):
        found = token_ids.checked(make(batch), models.ENCODER, "x", 2)
        with pytest.raises(ValueError, match=message):
            found[0] if make is _Batches else next(found)


def test_numbers_that_are_none_in_a_dataset():
    good = np.ones(3, np.float32)
    bad = np.array([1.0, np.nan, np.inf], np.float32)
    for what, element, num_values in (
        ("weights", (_batch(), good, bad), None),
        ("labels", (_batch(), bad), None),
        ("labels", (_batch(), bad), 2),
    ):
        dataset = tf.data.Dataset.from_tensors(element)
        found = token_ids.checked(dataset, models.ENCODER, "x", num_values)
        assert found.element_spec == dataset.element_spec
        with pytest.raises(
            tf.errors.InvalidArgumentError,
            match=f"Expected finite {what} in x. Received",
        ):
            next(iter(found))
    whole = tf.data.Dataset.from_tensors((_batch(), good, good))
    _, labels, weights = next(iter(token_ids.checked(whole, models.ENCODER)))
    assert labels.numpy().tolist() == weights.numpy().tolist() == [1.0] * 3


def test_no_rows_at_all():
    model = electra_tf.TextClassifier.from_checkpoint(
        models.pretrained(), labels=["a", "b"], preprocessor=None
    )
    none = {name: values[:0] for name, values in _batch().items()}
    for ask in (
        lambda: model.predict(none),
        lambda: model.evaluate(none, np.zeros(0, np.int32)),
        lambda: model.fit(none, np.zeros(0, np.int32)),
    ):
        with pytest.raises(
            ValueError, match="Expected rows in input_ids of x. Received: none"
        ):
            ask()


def test_nothing_else_is_looked_at():
    texts = tf.data.Dataset.from_tensors((["wa"], [0]))
    for x in (texts, ["wa"], iter(()), {"input_ids": [[0.5]]}, {}):
        assert token_ids.checked(x, models.ENCODER) is x
    dataset = tf.data.Dataset.from_tensors((_batch(), [1, 2, 3])).repeat(2)
    found = token_ids.checked(dataset, models.ENCODER)
    assert found.cardinality() == 2
    assert found.element_spec == dataset.element_spec


def test_of_one_batch_and_of_weights():
    model = electra_tf.TextClassifier.from_checkpoint(
        models.pretrained(), labels=["a", "b"], preprocessor=None
    )
    model.compile(num_train_steps=9)
    x, y = _batch(), np.zeros(3, np.int32)
    nan = np.array([1.0, np.nan, 1.0])
    ids, labels = "input_ids from 0 to 19", "labels from 0 to 1"
    weights = "Expected numbers as sample_weight. Received: nan in row 1"
    for ask, message in (
        (lambda: model.train_on_batch(_batch(value=20), y), ids),
        (lambda: model.test_on_batch(_batch(value=20), y), ids),
        (lambda: model.predict_on_batch(_batch(value=20)), ids),
        (lambda: model.train_on_batch(x, y + 2), labels),
        (lambda: model.test_on_batch(x, y + 2), labels),
        (lambda: model.fit(x, y, sample_weight=nan), weights),
        (lambda: model.evaluate(x, y, sample_weight=nan), weights),
        (
            lambda: model.fit(x, y, validation_data=(x, y, nan)),
            "numbers as validation_sample_weight. Received: nan in row 1",
        ),
        (lambda: model.train_on_batch(x, y, sample_weight=nan), weights),
        (lambda: model.fit(x, y, class_weight={"a": 2.0}), r"\['a'\] among"),
        (lambda: model.fit(x, y, class_weight={2: 2.0}), r"\[2\] among"),
    ):
        with pytest.raises(ValueError, match=message):
            ask()


def test_where_xla_compiles():
    model = electra_tf.TextClassifier.from_checkpoint(
        models.pretrained(), labels=[0, 1], preprocessor=None
    )
    encoder = electra_tf.Encoder.from_checkpoint(models.pretrained())
    model.compile(jit_compile=True)
    bad, y = _batch(value=20), np.zeros(3, np.int32)
    for ask in (
        lambda: model.fit(bad, y),
        lambda: model.fit(_batch(), y, validation_data=(bad, y)),
        lambda: model.evaluate(bad, y),
        lambda: model.predict(bad),
        lambda: encoder.predict(bad),
    ):
        with pytest.raises(ValueError, match="input_ids from 0 to 19 in "):
            ask()


@pytest.mark.parametrize("compiles", [False, True])
def test_labels_that_there_are_not(compiles):
    model = electra_tf.TextClassifier.from_checkpoint(
        models.pretrained(), labels=["a", "b"], preprocessor=None
    )
    model.compile(jit_compile=compiles)
    x, good, bad = _batch(), np.array([0, 1, 1]), np.array([0, 1, 2])
    for ask in (
        lambda: model.fit(x, bad),
        lambda: model.fit(x, good, validation_data=(x, bad)),
        lambda: model.evaluate(x, bad),
    ):
        with pytest.raises(ValueError, match="labels from 0 to 1 as .*0 to 2"):
            ask()
    dataset = tf.data.Dataset.from_tensors((x, bad))
    with pytest.raises(tf.errors.InvalidArgumentError, match="labels from 0"):
        model.evaluate(dataset, verbose=0)


@pytest.mark.dear
@pytest.mark.parametrize("compiles", [False, True])
@pytest.mark.parametrize("value", [2, 0.5, -1.0])
def test_decisions_that_are_neither_0_nor_1(value, compiles):
    """XLA leaves out what a step asserts."""
    model = electra_tf.TextClassifier.from_checkpoint(
        models.pretrained(),
        labels=["a", "b"],
        multi_label=True,
        preprocessor=None,
    )
    model.compile(jit_compile=compiles)
    x, good = _batch(), np.array([[0, 1], [1, 1], [0, 0]], type(value))
    bad = good.copy()
    bad[1, 1] = value
    with pytest.raises(ValueError, match="labels from 0 to 1 as y. Received: "):
        model.fit(x, bad)
    with pytest.raises(ValueError, match="labels from 0 to 1 as validation_y"):
        model.fit(x, good, validation_data=(x, tf.constant(bad)))
    dataset = tf.data.Dataset.from_tensors((x, bad))
    with pytest.raises(tf.errors.InvalidArgumentError, match="labels from 0"):
        model.evaluate(dataset, verbose=0)


def test_classes_are_whole_numbers_one_a_row():
    model = electra_tf.TextClassifier.from_checkpoint(
        models.pretrained(), labels=["a", "b"], preprocessor=None
    )
    with pytest.raises(ValueError, match="0 to 1 as y. Received: float64, suc"):
        model.fit(_batch(), np.array([0.0, 1.0, 1.0]))
    with pytest.raises(ValueError, match=r"1 axis as y. .* the shape \(3, 1\)"):
        model.fit(_batch(), np.array([[0], [1], [1]]))


def test_a_quantity_that_is_no_number():
    model = electra_tf.TextRegressor.from_checkpoint(
        models.pretrained(), preprocessor=None
    )
    with pytest.raises(
        ValueError, match="numbers as y. Received: nan in row 1"
    ):
        model.fit(_batch(), np.array([0.0, np.nan, 1.0]))
