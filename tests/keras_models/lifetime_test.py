"""What a model leaves behind: people fit one after the other in a notebook."""

import dataclasses
import gc
import time
import weakref

import numpy as np
import pytest
import tensorflow as tf

import electra_tf
from electra_tf.training import numpy_functions
from tests import helpers
from tests.keras_models import tasks
from tests.keras_models.tasks import TARGETS, TEXTS

TAGS = [" ".join("B-X" if w == "wa" else "O" for w in t.split()) for t in TEXTS]
QUESTIONS, ANSWERS = ["wb"] * len(TEXTS), [text.split()[0] for text in TEXTS]
FORMS = {
    "text classifier": (tasks.classifier, TEXTS, TARGETS),
    "token classifier": (
        lambda path: electra_tf.TokenClassifier.from_checkpoint(
            path, labels=["O", "B-X", "I-X"]
        ),
        TEXTS,
        TAGS,
    ),
    "question answerer": (
        electra_tf.QuestionAnswerer.from_checkpoint,
        (QUESTIONS, TEXTS),
        ANSWERS,
    ),
}

_MOST_TRIES = 50


def _is_gone(found: weakref.ref) -> bool:
    """Soon: a dataset's threads have to end first, which hold its functions."""
    for _ in range(_MOST_TRIES):
        gc.collect()
        if found() is None:
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("is_dataset", [False, True])
def test_a_model_is_gone_after_its_fit(name, is_dataset, pretrained):
    make, x, y = FORMS[name]

    def use():
        model = make(pretrained)
        data = (x, y)
        if is_dataset:
            data = (tf.data.Dataset.from_tensor_slices(data).batch(5),)
        history = model.fit(*data, verbose=0).history
        assert history["loss"][0] > 0
        model.evaluate(*data, verbose=0)
        model.predict(x)
        return weakref.ref(model)

    assert _is_gone(use())


def test_a_pretraining_model_is_gone_after_its_fit(tmp_path):
    files = helpers.write_tfrecords(
        tmp_path / "train.tfrecord", map(helpers.row, range(16))
    )

    def use():
        preprocessor = electra_tf.Preprocessor(
            helpers.VOCAB, max_seq_length=helpers.LENGTH
        )
        sizes = dataclasses.asdict(helpers.encoder_config())
        model = electra_tf.PretrainingModel(preprocessor, **sizes)
        model.fit(files, 8, steps_per_epoch=2, verbose=0)
        return weakref.ref(model)

    assert _is_gone(use())


def test_a_numpy_function_lives_as_long_as_an_iterator():
    def doubled():
        def double(value):
            return 2 * value

        def mapped(value):
            return numpy_functions.numpy_function(double, [value], tf.int64)

        found.append(weakref.ref(double))
        return tf.data.Dataset.range(3).map(mapped).prefetch(1)

    found = []
    numbers = iter(doubled())
    gc.collect()
    assert [int(number) for number in numbers] == [0, 2, 4]
    del numbers
    assert _is_gone(found[0])


def test_a_numpy_function_lives_as_long_as_what_its_dataset_is_made_in():
    def doubled(_):
        def double(value):
            return 2 * value

        def mapped(value):
            return numpy_functions.numpy_function(double, [value], tf.int64)

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
    assert all(map(_is_gone, found))
