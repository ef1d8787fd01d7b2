"""What `fit` and its like hand to Keras."""

import keras
import numpy as np
import pytest

import electra_tf
from electra_tf.keras_models import resuming
from tests.keras_models import tasks
from tests.keras_models.tasks import LABELS, TARGETS, TEXTS, classifier


@pytest.fixture
def handed(monkeypatch):
    """Arguments of Keras's own methods, by name."""
    found = {}

    def instead_of(name):
        def method(self, x, batch_size=None, verbose="auto", **kwargs):
            found[name] = {"x": x, "verbose": verbose, **kwargs}
            return np.zeros([len(TEXTS), 12, len(LABELS)])

        monkeypatch.setattr(keras.Model, name, method)

    for name in ("fit", "evaluate", "predict"):
        instead_of(name)
    return found


def test_arguments_are_in_the_order_of_keras(pretrained, handed):
    tagger = electra_tf.TokenClassifier.from_checkpoint(
        pretrained, labels=LABELS
    )
    for model, y in (
        (classifier(pretrained), TARGETS),
        (tagger, [[LABELS[0]] * len(text.split()) for text in TEXTS]),
    ):
        model.compile("sgd")
        handed.clear()
        model.fit(TEXTS, y, 8, 3, 0)
        model.evaluate(TEXTS, y, 8, 0)
        model.predict(TEXTS, 8, 0)
        assert [of["verbose"] for of in handed.values()] == [0, 0, 0]
        assert handed["fit"]["epochs"] == 3


def test_steps_on_columns_are_those_of_the_first_rows(pretrained, handed):
    weights = np.arange(len(TEXTS), dtype=np.float32)  # Tells the rows.
    model = classifier(pretrained)
    model.compile("sgd")
    model.evaluate(TEXTS, TARGETS, 4, sample_weight=weights, steps=2)
    model.fit(
        TEXTS,
        TARGETS,
        validation_data=(TEXTS, TARGETS, weights),
        validation_batch_size=4,
        validation_steps=2,
    )
    assert handed["evaluate"]["steps"] is None
    assert handed["fit"]["validation_steps"] is None
    for data in (handed["evaluate"]["x"], handed["fit"]["validation_data"]):
        rows = np.concatenate([of_rows.numpy() for *_, of_rows in data])
        assert sorted(rows) == list(range(8))
    with pytest.raises(ValueError, match="Received: steps=0"):
        model.evaluate(TEXTS, TARGETS, steps=0)
    with pytest.raises(ValueError, match="Received: validation_steps=0"):
        model.fit(TEXTS, TARGETS, validation_split=0.5, validation_steps=0)


def test_a_fit_goes_on_with_the_next_epoch(pretrained):
    model = classifier(pretrained)
    model.compile("sgd")
    for taken, steps_per_epoch, first in (
        (0, 3, 0),
        (3, 3, 3),
        (4, 3, 6),  # An epoch of other rows, or one that was not finished.
    ):
        model.optimizer.iterations.assign(taken)
        start = model._start(steps_per_epoch)
        start.set_model(model)
        start.on_train_begin()
        assert start.first_step == first


@pytest.mark.dear
def test_epochs_one_by_one_are_those_of_one_fit(pretrained):
    whole, parts = classifier(pretrained), classifier(pretrained)
    for model in (whole, parts):
        model.compile(num_train_steps=6)
    rows = dict(batch_size=8, verbose=0)
    whole.fit(TEXTS, TARGETS, epochs=2, **rows)
    for epoch in range(2):
        parts.fit(TEXTS, TARGETS, epochs=epoch + 1, initial_epoch=epoch, **rows)
    tasks.assert_equal_bits(
        parts.network.get_weights(), whole.network.get_weights()
    )


@pytest.mark.parametrize(
    ("pad_to_max", "lengths"), [(False, {4, 8}), (True, {12})]
)
def test_lengths_of_batches(pretrained, pad_to_max, lengths):
    preprocessor = electra_tf.Preprocessor.from_checkpoint(
        pretrained, max_seq_length=12, pad_to_max=pad_to_max
    )
    model = classifier(pretrained, preprocessor=preprocessor)
    data = model._train_dataset(
        model._arrays(TEXTS, TARGETS, None), 1, True, resuming.Start()
    )
    found = {x["input_ids"].shape[1] for x, _ in data.take(len(TEXTS))}
    assert found == lengths
