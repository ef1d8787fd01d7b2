"""The Python blocks of the guides do what the guides say."""

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

# That of the guides; a folder of the test stands in its place.
_HANDLE = "hf://google/electra-small-discriminator"


def blocks(page: str) -> list[str]:
    """Blocks of Python of a guide, in their order."""
    text = (helpers.ROOT / f"docs/guides/{page}.md").read_text("utf-8")
    found = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
    return [block.replace(_HANDLE, "pretrained") for block in found]


def run(block: str) -> dict:
    names: dict = {}
    exec(block, names)
    return names


@pytest.mark.dear
def test_in_a_notebook(pretrained, tmp_path, monkeypatch):
    code = blocks("keras")[0]
    monkeypatch.chdir(tmp_path)
    shutil.copytree(pretrained, "pretrained")
    rows = pandas.DataFrame({"text": TEXTS * 11, "label": TARGETS * 11})
    for name in ("train", "dev"):
        rows.to_csv(f"{name}.tsv", index=False, sep="\t")
    names = run(code)
    assert names["classifier"].labels == ("neg", "pos")
    assert names["probabilities"].shape == (1, 2)
    expected = names["classifier"].predict(TEXTS, verbose=0)
    again = keras.models.load_model("topic.keras")
    np.testing.assert_array_equal(again.predict(TEXTS, verbose=0), expected)
    path = "models/topic/1"
    served = tf.saved_model.load(path).signatures["serving_default"]
    found = served(text=tf.constant(TEXTS))["scores"]
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.dear
def test_a_task_a_preset_and_a_served_model(pretrained, tmp_path, monkeypatch):
    task, model = blocks("add-a-task")
    (preset,) = [x for x in blocks("keras") if "import keras_hub" in x]
    served = blocks("serve")[0]
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(by_name, "_registered", {})
    (tmp_path / "rhymes.py").write_text(task)
    (tmp_path / "data/rhymes").mkdir(parents=True)
    for split in ("train", "dev"):
        path = tmp_path / f"data/rhymes/{split}.txt"
        path.write_text("yes / wa / wb\nno / wc / wd\n" * 8)
    for name in ("models/electra_small", "pretrained"):
        shutil.copytree(pretrained, name)
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
