"""Tests of serving/saved_model.py."""

import dataclasses
import hashlib
import json
import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf
import yaml
from google.protobuf import (
    text_format,
)
from tensorflow_serving.apis import prediction_log_pb2
from tensorflow_serving.config import model_server_config_pb2

from electra_tf.checkpoints.formats import electra_tf_format
from electra_tf.serving import saved_model, server_files
from tests import helpers
from tests.checkpoints import models
from tests.serving.conftest import LABELS, TEXTS, write_finetuned

# A program that knows nothing of electra_tf.
_CLIENT = """
import json, sys
import tensorflow as tf
import tensorflow_text
assert not [name for name in sys.modules if name.startswith("electra_tf")]
loaded = tf.saved_model.load(sys.argv[1])
call = loaded.signatures["serving_default"]
def ask(texts):
    answer = call(text=tf.constant(texts, tf.string))
    return {
        "dtypes": [answer["label"].dtype.name, answer["scores"].dtype.name],
        "shapes": [answer["label"].shape, answer["scores"].shape],
        "labels": [label.decode() for label in answer["label"].numpy()],
        "scores": answer["scores"].numpy().tolist(),
    }

texts = json.loads(sys.argv[2])
print(json.dumps({
    "inputs": list(call.structured_input_signature[1]),
    "outputs": sorted(call.structured_outputs),
    "all": ask(texts),
    "none": ask([]),
}, default=list))
"""


@pytest.fixture(scope="module")
def answers(exported, tmp_path_factory):
    # Neither the package nor the files that it was made from are at hand.
    environment = helpers.environment()
    del environment["PYTHONPATH"]
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    result = helpers.execute(
        *("-c", _CLIENT, exported.path, json.dumps(TEXTS)),
        cwd=elsewhere,
        env=environment,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


def test_answers_raw_text(answers):
    assert answers["inputs"] == ["text"]
    assert answers["outputs"] == ["label", "scores", "truncated"]
    answer = answers["all"]
    assert answer["dtypes"] == ["string", "float32"]
    assert answer["shapes"] == [[5], [5, 3]]
    np.testing.assert_allclose(np.sum(answer["scores"], -1), 1.0, rtol=1e-5)
    best = np.argmax(answer["scores"], -1)
    assert answer["labels"] == [LABELS[i] for i in best]
    # Of no text there is an answer, too.
    assert answers["none"]["shapes"] == [[0], [0, 3]]
    assert answers["none"]["dtypes"] == ["string", "float32"]


def test_answers_as_the_best_model(exported, answers):
    model = exported.model
    # [CLS] wa wb [SEP]; [CLS] [SEP]; [UNK] for "unknown" and "words".
    rows = {0: [2, 5, 6, 3], 1: [2, 3], 3: [2, 1, 1, 3], 4: [2, 1, 3]}
    # "wc", ",", "wd", "?" again and again, cut to 8 tokens.
    rows[2] = [2, 7, 1, 8, 1, 7, 1, 3]
    for number, ids in rows.items():
        ids = tf.constant([ids])
        features = {"input_ids": ids, "input_mask": tf.ones_like(ids)}
        outputs = model(features | {"segment_ids": tf.zeros_like(ids)})
        scores = tf.nn.softmax(outputs["task_outputs"]["letters"]["logits"])
        np.testing.assert_allclose(
            answers["all"]["scores"][number], scores[0], atol=1e-5
        )


def test_metadata(exported):
    found = helpers.read_json(f"{exported.path}/assets.extra/metadata.json")
    expected = {
        "kind": "classification",
        "task": "letters",
        "labels": LABELS,
        "has_pairs": False,
        "max_seq_length": 8,
        "do_lower_case": True,
        "strip_accents": True,
        "vocab_size": len(helpers.VOCAB),
        "type_vocab_size": 2,
        "scores": {"trial": 2, "dev": {"accuracy": 90.0}},
        "warmup_requests": [1, 1, 8, 8, 32, 32],
    }
    assert {name: found[name] for name in expected} == expected
    with open(f"{exported.path}/assets/vocab.txt", "rb") as f:
        vocab = f.read()
    assert vocab.decode().split() == helpers.VOCAB
    assert found["vocab_sha256"] == hashlib.sha256(vocab).hexdigest()
    assert found["versions"]["tensorflow"] == tf.__version__
    default = found["signatures"]["serving_default"]
    assert default["inputs"] == {"text": {"dtype": "string", "shape": [None]}}
    assert default["outputs"] == {
        "label": {"dtype": "string", "shape": [None]},
        "scores": {"dtype": "float32", "shape": [None, 3]},
        "truncated": {"dtype": "bool", "shape": [None]},
    }
    assert set(found["signatures"]) == {"serving_default", "tokens"}


def test_versions(exported, tmp_path):
    assert os.path.basename(exported.path) == "1"
    for name in ("1", "7", "notes", "tmp-3", "\u00b2"):
        (tmp_path / name).mkdir()
    path = saved_model._rename_to_next_version(
        str(tmp_path / "tmp-3"), str(tmp_path)
    )
    assert path == str(tmp_path / "8")
    assert sorted(os.listdir(tmp_path)) == ["1", "7", "8", "notes", "\u00b2"]


def test_nothing_is_left_of_an_export_that_fails(
    exported, tmp_path, monkeypatch
):
    def save(module, path, signatures):
        os.makedirs(path)
        raise tf.errors.ResourceExhaustedError(None, None, "disk full")

    monkeypatch.setattr(tf.saved_model, "save", save)
    with pytest.raises(ValueError, match="Cannot write .*exported': disk full"):
        saved_model.export(str(exported.model_dir), str(tmp_path / "exported"))
    assert os.listdir(tmp_path / "exported") == []


def test_files_for_the_server(exported, tmp_path):
    folder = pathlib.Path(exported.path).parent
    files = ["batching_parameters.txt", "compose.yaml", "models.config"]
    assert sorted(os.listdir(folder)) == ["1", *files]
    parsed = model_server_config_pb2.ModelServerConfig()
    text_format.Parse((folder / "models.config").read_text(), parsed)
    (model,) = parsed.model_config_list.config
    assert (model.name, model.base_path) == ("letters", "/models/letters")
    compose = yaml.safe_load((folder / "compose.yaml").read_text())
    (service,) = compose["services"].values()
    assert service["image"].startswith("tensorflow/serving:")
    assert service["volumes"] == [".:/models/letters:ro"]

    def write():
        return server_files.write(str(tmp_path), "letters")

    # What a user changed stays.
    (tmp_path / "models.config").write_text("mine")
    assert write() == files[:2]
    assert (tmp_path / "models.config").read_text() == "mine"
    assert write() == []
    batching = (tmp_path / files[0]).read_text()
    assert "max_batch_size { value: 128 }" in batching
    assert "pad_variable_length_inputs: true" in batching


def test_the_model_takes_its_warm_up_requests(exported):
    path = f"{exported.path}/assets.extra/tf_serving_warmup_requests"
    signature = tf.saved_model.load(exported.path).signatures["serving_default"]
    sizes = []
    for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
        log = prediction_log_pb2.PredictionLog.FromString(record)
        request = log.predict_log.request
        assert request.model_spec.name == "letters"
        assert request.model_spec.signature_name == "serving_default"
        texts = tf.make_ndarray(request.inputs["text"])
        sizes.append(len(texts))
        assert len(signature(text=tf.constant(texts))["label"]) == len(texts)
    assert sizes == [1, 1, 8, 8, 32, 32]


def test_the_name_of_a_configuration_stays(tmp_path):
    server_files.write(str(tmp_path), "reviews")
    assert server_files.model_name(str(tmp_path)) == "reviews"
    more = 'config { name: "%s" }\n'
    (tmp_path / server_files.MODELS_FILE).write_text(more % "a" + more % "b")
    assert server_files.model_name(str(tmp_path)) == "a"
    assert server_files.model_name("/served/my model/") == "my_model"
    assert server_files.model_name("/served/a.b-1/") == "a.b-1"


def assert_refused(match, model_dir, output, **options):
    with pytest.raises(ValueError, match=match):
        saved_model.export(str(model_dir), str(output), **options)
    assert not os.path.exists(output)


@pytest.mark.parametrize("name", ["results.json", "model.json"])
def test_refuses_an_unfinished_run(tmp_path, name):
    model_dir, _ = write_finetuned(tmp_path)
    os.remove(model_dir / name)
    match = f"a finished fine-tuning run with {name} in {model_dir}: "
    assert_refused(match, model_dir, tmp_path / "exported")


@pytest.mark.parametrize("kind", ["classification", "question_answering"])
def test_refuses_two_texts_without_a_second_segment(tmp_path, kind):
    found = models.finetuned(kind)
    name = "electra/embeddings/token_type_embeddings"
    options = found.head.options
    if kind == "classification":
        options = {"has_pairs": True}
    one_segment = dataclasses.replace(
        found,
        tensors=found.tensors | {name: found.tensors[name][:1]},
        discriminator=dataclasses.replace(
            found.discriminator, type_vocab_size=1
        ),
        head=dataclasses.replace(found.head, options=options),
    )
    electra_tf_format.write(one_segment, str(tmp_path / "model"))
    assert_refused(
        "a segment for each of two texts.*type_vocab_size=1",
        *(tmp_path / "model", tmp_path / "exported"),
    )
