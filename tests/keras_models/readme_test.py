"""The Python lines of the README run as they are."""

import re
import shutil
import sys

import keras
import numpy as np
import pandas
import pytest
import tensorflow as tf

from electra_tf.tasks import by_name
from tests import helpers
from tests.keras_models.tasks import TARGETS, TEXTS, classifier


def blocks() -> list[str]:
    """Blocks of Python, in their order."""
    readme = (helpers.ROOT / "README.md").read_text()
    found = re.findall(r"(?:^ {4}.*\n|\n(?= {4}))+", readme, re.MULTILINE)
    codes = [re.sub("^ {4}", "", block, flags=re.M).strip() for block in found]
    return [code for code in codes if re.search("^(import|from) ", code, re.M)]


def run(block: str) -> dict:
    names: dict = {}
    exec(block, names)
    return names


@pytest.mark.dear
def test_in_a_notebook(pretrained, tmp_path, monkeypatch):
    (code,) = [block for block in blocks() if "import pandas" in block]
    monkeypatch.chdir(tmp_path)
    shutil.copytree(pretrained, "build/quickstart/pretrain")
    rows = pandas.DataFrame({"text": TEXTS * 11, "label": TARGETS * 11})
    rows.to_csv("reviews.csv", index=False)
    names = run(code)
    assert names["classifier"].labels == ("neg", "pos")
    assert names["probabilities"].shape == (2, 2)
    expected = names["classifier"].predict(TEXTS, verbose=0)
    again = keras.models.load_model("film.keras")
    np.testing.assert_array_equal(again.predict(TEXTS, verbose=0), expected)
    served = tf.saved_model.load("models/film/1").signatures["serving_default"]
    found = served(text=tf.constant(TEXTS))["scores"]
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.dear
def test_a_task_a_preset_and_a_served_model(pretrained, tmp_path, monkeypatch):
    task, model, _, preset, served = blocks()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(by_name, "_registered", {})
    (tmp_path / "rhymes.py").write_text(task)
    (tmp_path / "data/rhymes").mkdir(parents=True)
    for split in ("train", "dev"):
        path = tmp_path / f"data/rhymes/{split}.txt"
        path.write_text("yes / wa / wb\nno / wc / wd\n" * 8)
    shutil.copytree(pretrained, "models/electra_small")
    shutil.copytree(pretrained, "build/quickstart/pretrain")
    trained = run(model)["model"]
    assert trained.head.has_pairs and trained.labels == ("no", "yes")
    assert (tmp_path / "models/rhymes_served/1").is_dir()
    names = run(preset)
    table = names["encoder"].electra.embeddings.word_embeddings
    np.testing.assert_array_equal(
        names["backbone"].token_embedding.embeddings, table
    )
    classifier(pretrained).export("models/served")
    run(served)
    sys.modules.pop("rhymes")
