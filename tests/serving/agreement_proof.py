"""The same answer everywhere, on real rows and on random strings.

The evaluation at training time, the SavedModel in Python and in C++, REST
and the file for devices agree to 1e-5 and on every label. Not part of the
default run: `make test-serving`. The weights are random, and larger than those
of a new model, so that answers differ from text to text.
"""

import base64
import csv
import json
import os
import pathlib
import random
import threading
import urllib.request

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.checkpoints import sizes
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.checkpoints.formats import electra_tf_format
from electra_tf.finetuning import evaluation
from electra_tf.model.task_head import TaskHead
from electra_tf.serving import exportable, local_server, on_device, saved_model
from electra_tf.tasks import features as features_lib
from electra_tf.text import vocabulary
from tests import helpers
from tests.checkpoints import models
from tests.serving import native
from tests.serving.conftest import NASTY

# The public sets; empty where there are none.
DATA = os.environ.get("ELECTRA_TF_DATA", "")
NUM_ROWS = 500
NUM_RANDOM = 10_000
LENGTH = 64
TOLERANCE = 1e-5

# Vocabulary, whether it lower-cases, file and its column of texts.
LANGUAGES = {
    "english": ("bert_uncased_vocab.txt", True, "glue/SST-2/dev.tsv", 0),
    "korean": ("koelectra_vocab.txt", False, "korean/hate-speech.val.tsv", 1),
}


def read_texts(path: pathlib.Path, column: int) -> list[bytes]:
    with open(path, encoding="utf-8", newline="") as f:
        rows = list(csv.reader(f, delimiter="\t", quoting=csv.QUOTE_NONE))
    texts = [row[column] for row in rows[1:] if len(row) > column]
    # The Korean set has fewer rows: they come again without the spaces.
    texts += [text.replace(" ", "") for text in texts]
    return [text.encode() for text in texts[:NUM_ROWS]]


@pytest.fixture(scope="module", params=LANGUAGES)
def language(request, tmp_path_factory):
    """An exported classifier, what was exported, and real texts."""
    vocab_name, do_lower_case, file, column = LANGUAGES[request.param]
    if not DATA:
        pytest.skip("no public sets: make test-serving DATA=<folder>")
    data = pathlib.Path(DATA)
    folder = tmp_path_factory.mktemp(request.param)
    found = vocabulary.read(
        data / "vocab" / vocab_name, do_lower_case, do_lower_case
    )
    encoder = helpers.encoder_config(
        vocab_size=len(found.tokens),
        hidden_size=64,
        num_attention_heads=4,
        intermediate_size=128,
        embedding_size=32,
        max_position_embeddings=LENGTH,
    )
    shapes = sizes.encoder_shapes(encoder, "electra") | {
        "task_specific/real/dense/kernel": (64, 3),
        "task_specific/real/dense/bias": (3,),
    }
    tensors = models.random_tensors(shapes)
    for name, tensor in tensors.items():
        if "/encoder/" in name and name.endswith("kernel"):
            tensor *= 0.5  # Deviation 0.2; a new model has 0.02.
    head = TaskHead("classification", "real", ("a", "b", "c"), 3)
    electra_tf_format.write(
        Checkpoint(tensors, encoder, head=head, vocabulary=found),
        str(folder / "model"),
    )
    path = saved_model.export(str(folder / "model"), str(folder / "real"))
    (folder / "vocab").mkdir()
    loaded = exportable.load(str(folder / "model"), str(folder / "vocab"))
    texts = read_texts(data / file, column)
    assert len(texts) == NUM_ROWS
    return path, loaded, [*texts, *NASTY]


@pytest.fixture(scope="module")
def signature(language):
    # Kept by it: the signatures do not keep what they belong to.
    loaded = tf.saved_model.load(language[0])
    yield loaded.signatures["serving_default"]


def evaluate(loaded, texts):
    """Labels and scores of the evaluation at training time."""
    features = features_lib.text_features(
        texts, [None] * len(texts), loaded.tokenizer, LENGTH
    )
    predict = evaluation.make_predictor(loaded.model, "real", 32)
    scores = tf.nn.softmax(predict(features)["logits"]).numpy()
    return [loaded.labels[i] for i in scores.argmax(-1)], scores


def ask(signature, texts):
    outputs = signature(text=tf.constant(texts, tf.string))
    return {name: values.numpy() for name, values in outputs.items()}


def over_rest(port, texts):
    encoded = [{"b64": base64.b64encode(text).decode()} for text in texts]
    body = json.dumps({"inputs": {"text": encoded}}).encode()
    url = f"http://127.0.0.1:{port}/v1/models/real:predict"
    with urllib.request.urlopen(url, body, timeout=120) as response:
        outputs = json.load(response)["outputs"]
    return {
        "label": np.array([label.encode() for label in outputs["label"]]),
        "scores": np.array(outputs["scores"]),
    }


def on_a_device(model, labels, texts):
    scores = model(model.pack(texts))["scores"]
    chosen = [labels[i].encode() for i in scores.argmax(-1)]
    return {"label": np.array(chosen), "scores": scores}


def in_batches(ask, texts, size):
    parts = [ask(texts[i : i + size]) for i in range(0, len(texts), size)]
    return {
        name: np.concatenate([part[name] for part in parts])
        for name in ("label", "scores")
    }


def test_same_answer_everywhere(language, signature, cpp_program, tmp_path):
    path, loaded, texts = language
    labels, scores = evaluate(loaded, texts)
    assert set(labels) == {"a", "b", "c"}
    answers = {"python": in_batches(lambda x: ask(signature, x), texts, 50)}
    model = local_server.RestModel(os.path.dirname(path))
    server = local_server.create_server(model)
    threading.Thread(target=server.run, daemon=True).start()
    answers["rest"] = in_batches(
        lambda x: over_rest(server.effective_port, x), texts, 33
    )
    if cpp_program is not None:
        inputs = {"text": np.array(texts, object)}
        answers["c++"] = native.ask(
            cpp_program, path, "serving_default", inputs, tmp_path
        )
    model_dir = os.path.join(os.path.dirname(path), "..", "model")
    file, _ = on_device.export(model_dir, str(tmp_path / "on_device"))
    device = on_device.OnDeviceModel(file)
    answers["litert"] = in_batches(
        lambda x: on_a_device(device, loaded.labels, x), texts, 20
    )
    differences = {}
    for name, answer in answers.items():
        assert [x.decode() for x in answer["label"]] == labels, name
        differences[name] = float(np.abs(answer["scores"] - scores).max())
    print(f"{len(texts)} rows, greatest differences: {differences}")
    assert max(differences.values()) <= TOLERANCE


def random_strings(number: int) -> list[bytes]:
    """Random bytes, random characters, and random words between them."""
    draw = random.Random(7)
    ranges = [(0, 0x250), (0x300, 0x3000), (0xAC00, 0xD7A4), (0x1F300, 0x1FA00)]
    words = ["the", "film", "\uc601\ud654", "[MASK]", "##s", "'s", "...", "\n"]

    def characters(size):
        return "".join(
            chr(draw.randrange(*draw.choice(ranges))) for _ in range(size)
        )

    found = []
    for _ in range(number):
        kind, size = draw.randrange(3), draw.randrange(60)
        if kind == 0:
            found.append(draw.randbytes(size))
        elif kind == 1:
            found.append(characters(size).encode("utf-8", "ignore"))
        else:
            parts = [draw.choice([*words, characters(2)]) for _ in range(size)]
            found.append(draw.choice(["", " "]).join(parts).encode())
    return found


def test_random_strings(language, signature):
    _, loaded, _ = language
    texts = random_strings(NUM_RANDOM)
    labels, scores = evaluate(loaded, texts)
    answer = in_batches(lambda x: ask(signature, x), texts, 100)
    assert [x.decode() for x in answer["label"]] == labels
    np.testing.assert_allclose(answer["scores"], scores, atol=TOLERANCE)
