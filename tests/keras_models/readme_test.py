"""The lines of the README run as they are."""

import re
import shutil

import keras
import numpy as np
import pandas
import pytest
import tensorflow as tf

from tests import helpers
from tests.keras_models.tasks import TARGETS, TEXTS


@pytest.mark.dear
def test_in_a_notebook(pretrained, tmp_path, monkeypatch):
    readme = (helpers.ROOT / "README.md").read_text()
    (block,) = re.findall(
        r"## In a notebook\n\n((?: {4}.*\n|\n)+)", readme, re.MULTILINE
    )
    code = re.sub("^ {4}", "", block, flags=re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    shutil.copytree(pretrained, "build/quickstart/pretrain")
    rows = pandas.DataFrame({"text": TEXTS * 11, "label": TARGETS * 11})
    rows.to_csv("reviews.csv", index=False)
    names = {}
    exec(code, names)
    classifier = names["classifier"]
    assert classifier.labels == ("neg", "pos")
    assert names["probabilities"].shape == (2, 2)
    expected = classifier.predict(TEXTS, verbose=0)
    again = keras.models.load_model("film.keras")
    np.testing.assert_array_equal(again.predict(TEXTS, verbose=0), expected)
    served = tf.saved_model.load("models/film/1").signatures["serving_default"]
    found = served(text=tf.constant(TEXTS))["scores"]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    # Labels are names or numbers.
    ids = [classifier.labels.index(label) for label in TARGETS]
    classifier.fit(TEXTS, ids, verbose=0)
