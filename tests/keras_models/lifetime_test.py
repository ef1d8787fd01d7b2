"""What a model leaves behind: people fit one after the other in a notebook."""

import dataclasses
import weakref

import pytest
import tensorflow as tf

import electra_tf
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

    assert helpers.is_gone(use())


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

    assert helpers.is_gone(use())
