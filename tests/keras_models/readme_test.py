"""The notebook of the guides does what its page says.

That every block runs as typed is in tests/guides_test.py.
"""

import shutil

import keras
import numpy as np
import pandas
import pytest
import tensorflow as tf

from tests import docs_test
from tests.keras_models.tasks import TARGETS, TEXTS

# That of the guides; a folder of the test stands in its place.
_HANDLE = "hf://google/electra-small-discriminator"


@pytest.mark.dear
def test_in_a_notebook(pretrained, tmp_path, monkeypatch):
    code, *_ = docs_test.fences("docs/guides/keras.md", "python")
    monkeypatch.chdir(tmp_path)
    shutil.copytree(pretrained, "pretrained")
    rows = pandas.DataFrame({"text": TEXTS * 11, "label": TARGETS * 11})
    for name in ("train", "dev"):
        rows.to_csv(f"{name}.tsv", index=False, sep="\t")
    names: dict = {}
    exec(code.replace(_HANDLE, "pretrained"), names)
    assert names["classifier"].labels == ("neg", "pos")
    assert names["probabilities"].shape == (1, 2)
    expected = names["classifier"].predict(TEXTS, verbose=0)
    again = keras.models.load_model("topic.keras")
    np.testing.assert_array_equal(again.predict(TEXTS, verbose=0), expected)
    path = "models/topic/1"
    served = tf.saved_model.load(path).signatures["serving_default"]
    found = served(text=tf.constant(TEXTS))["scores"]
    np.testing.assert_allclose(found, expected, atol=1e-5)
