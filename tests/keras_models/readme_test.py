"""The lines of the README run as they are."""

import re
import shutil

import keras
import numpy as np
import tensorflow as tf

import electra_tf
from tests import helpers
from tests.keras_models.tasks import TARGETS, TEXTS


def test_in_a_notebook(pretrained, tmp_path, monkeypatch):
    readme = (helpers.ROOT / "README.md").read_text()
    (block,) = re.findall(
        r"## In a notebook\n\n((?: {4}.*\n|\n)+)", readme, re.MULTILINE
    )
    code = re.sub("^ {4}", "", block, flags=re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    shutil.copytree(pretrained, "build/quickstart/pretrain")
    ids = [("neg", "pos").index(label) for label in TARGETS]
    given = {"texts": TEXTS, "dev_texts": TEXTS, "dev_labels": TARGETS}
    names = dict(given, labels=TARGETS)
    exec(code, names)
    classifier, again = names["classifier"], names["again"]
    expected = classifier.predict(TEXTS, verbose=0)
    np.testing.assert_array_equal(again.predict(TEXTS, verbose=0), expected)
    served = tf.saved_model.load("models/film/1").signatures["serving_default"]
    found = served(text=tf.constant(TEXTS))["scores"]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert isinstance(names["encoder"], electra_tf.Encoder)
    assert isinstance(again, keras.Model)
    # Labels are names or numbers.
    classifier.fit(TEXTS, ids, verbose=0)
