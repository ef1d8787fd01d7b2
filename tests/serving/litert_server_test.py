"""Tests of serving/local_server/litert.py, against the SavedModel's answers."""

import http.client
import json
import os
import shutil
import types

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import (
    classification_pb2,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from electra_tf.serving import on_device
from electra_tf.serving.local_server import __main__, litert
from electra_tf.serving.local_server.servable import Servable, ServingError
from electra_tf.text import tokenization
from tests import helpers
from tests.checkpoints import models
from tests.serving.conftest import LABELS, NASTY, TEXTS

# Converting takes long.
pytestmark = pytest.mark.dear

ALL_TEXTS = [*(text.encode() for text in TEXTS), *NASTY]
IDS = {
    "input_ids": [[2, 5, 6, 3], [2, 7, 3, 0]],
    "input_mask": [[1, 1, 1, 1], [1, 1, 1, 0]],
    "segment_ids": [[0, 0, 0, 0], [0, 0, 0, 0]],
}


@pytest.fixture(scope="module")
def folder(exported, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("litert") / "letters")
    on_device.export(str(exported.model_dir), path)
    return path


@pytest.fixture(scope="module")
def saved(exported):
    return Servable(os.path.dirname(exported.path))


@pytest.fixture(scope="module")
def servable(folder):
    return litert.LiteRtServable(folder)


def request(signature="", **values):
    found = predict_pb2.PredictRequest()
    found.model_spec.name = "letters"
    found.model_spec.signature_name = signature
    for name, value in values.items():
        dtype = tf.string if name in ("text", "inputs") else tf.int32
        found.inputs[name].CopyFrom(tf.make_tensor_proto(value, dtype))
    return found


def examples():
    found = classification_pb2.ClassificationRequest()
    found.model_spec.name = "letters"
    found.model_spec.signature_name = "serving_bytes"
    for text in ALL_TEXTS:
        feature = tf.train.Feature(bytes_list=tf.train.BytesList(value=[text]))
        found.input.example_list.examples.add().features.feature[
            "text"
        ].CopyFrom(feature)
    return found


def arrays(response):
    return {k: tf.make_ndarray(v) for k, v in response.outputs.items()}


@pytest.mark.parametrize(
    "asked",
    [
        request(text=ALL_TEXTS),
        request(text=ALL_TEXTS[:1]),
        request(text=[]),
        request("tokens", **IDS),
        request("tokens", **{name: [[v[0][0]]] for name, v in IDS.items()}),
        request("tokens", **dict.fromkeys(IDS, np.zeros([0, 4], np.int32))),
    ],
    ids=["texts", "one", "none", "tokens", "one token", "no tokens"],
)
def test_answers_as_the_saved_model(servable, saved, asked):
    found, expected = (
        arrays(servable.predict(asked)),
        arrays(saved.predict(asked)),
    )
    assert found["label"].tolist() == expected["label"].tolist()
    assert found["scores"].shape == expected["scores"].shape
    np.testing.assert_allclose(found["scores"], expected["scores"], atol=1e-5)


def test_classifies_as_the_saved_model(servable, saved):
    found, expected = (s.classify(examples()) for s in (servable, saved))
    for a, b in zip(
        found.result.classifications,
        expected.result.classifications,
        strict=True,
    ):
        assert [c.label for c in a.classes] == LABELS
        np.testing.assert_allclose(
            [c.score for c in a.classes],
            [c.score for c in b.classes],
            atol=1e-5,
        )


def test_signatures_are_those_of_the_saved_model(servable, saved):
    assert servable.signatures.keys() == saved.signatures.keys()
    for name, expected in saved.signatures.items():
        found = servable.signatures[name]
        assert found.method_name == expected.method_name
        for side in ("inputs", "outputs"):
            assert {
                k: (v.dtype, len(v.tensor_shape.dim))
                for k, v in getattr(found, side).items()
            } == {
                k: (v.dtype, len(v.tensor_shape.dim))
                for k, v in getattr(expected, side).items()
            }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"segment_ids": [[0]]}, "as many values of one input"),
        ({"input_ids": [[2, 5, 6, 999]] * 2}, "Expected input_ids from 0 to"),
        ({"input_mask": [[1, 1, 1, -1]] * 2}, "Expected input_mask from 0 to"),
        ({"segment_ids": [[0, 0, 0, 2]] * 2}, "segment_ids from 0 to 1"),
        (
            {name: [[0] * 9] for name in IDS},
            "Expected at most 8 tokens a row",
        ),
        ({"input_mask": [[1, 1, 1, 1], [0, 0, 0, 0]]}, "a 1 in each row"),
        (dict.fromkeys(IDS, [[]]), "a 1 in each row"),
    ],
)
def test_refuses_tokens(servable, changes, message):
    with pytest.raises(ServingError, match=message):
        servable.predict(request("tokens", **(IDS | changes)))


@pytest.mark.parametrize(
    ("said", "greatest"),
    [({"type_vocab_size": 3}, 2), ({"type_vocab_size": 1}, 0), ({}, 1)],
)
def test_segments_are_those_of_the_encoder(said, greatest):
    scores = np.zeros([2, len(LABELS)], np.float32)
    about = {"kind": "classification", "labels": LABELS, "max_seq_length": 8}
    model = types.SimpleNamespace(
        metadata=about | said,
        tokenizer=tokenization.FullTokenizer(models.VOCABULARY),
        new_runner=lambda: lambda **_: {"scores": scores},
    )
    answer = litert._Signatures(model).signatures["tokens"]
    ids = {name: tf.constant(values) for name, values in IDS.items()}
    assert len(answer(**ids | {"segment_ids": ids["input_mask"] * greatest}))
    with pytest.raises(ServingError, match=f"segment_ids from 0 to {greatest}"):
        answer(**ids | {"segment_ids": ids["input_mask"] * (greatest + 1)})


def test_many_rows_go_in_parts(servable, monkeypatch):
    expected = arrays(servable.predict(request(text=ALL_TEXTS)))["scores"]
    monkeypatch.setattr(litert, "TOKENS_AT_ONCE", 20)
    found = arrays(servable.predict(request(text=ALL_TEXTS)))["scores"]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_rest_and_grpc(servable):
    assert servable.warm_up() == 2
    with __main__.LocalServer(servable) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.rest_port)
        connection.request(
            "POST", "/v1/models/letters:predict", '{"instances": ["wa wb"]}'
        )
        (rest,) = json.load(connection.getresponse())["predictions"]
        connection.close()
        with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            found = arrays(stub.Predict(request(text=["wa wb"])))
    assert rest["label"] == found["label"][0].decode()
    np.testing.assert_allclose(rest["scores"], found["scores"][0], atol=1e-6)


def test_int8(folder, saved):
    servable = litert.LiteRtServable(folder, weights="int8")
    found, expected = (
        arrays(s.predict(request(text=ALL_TEXTS)))["scores"]
        for s in (servable, saved)
    )
    np.testing.assert_allclose(found, expected, atol=0.1)


@pytest.mark.parametrize(
    ("kind", "numbers", "expected"),
    [
        (
            "multi_label_classification",
            [[0.6, 0.5, 0.7], [0.1, 0.2, 0.3]],
            {"label": [b"no|yes", b""]},
        ),
        ("classification", [[0.6, 0.3, 0.1]], {"label": [b"no"]}),
        ("regression", [1.5], {"value": [1.5]}),
    ],
)
def test_numbers_become_answers(servable, kind, numbers, expected):
    model = types.SimpleNamespace(
        _kind=kind,
        _labels=servable._model._labels,
        _run=lambda _: {"": np.array(numbers, np.float32)},
    )
    found = litert._Signatures._answer(model, {})
    for name, value in expected.items():
        assert found[name].numpy().tolist() == value


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "question_answering"}, "a model for question_answering"),
        ({"kind": "encoding"}, "a model for encoding"),
        ({"windows": {"stride": 2, "max_windows": 3}}, "in windows"),
    ],
)
def test_what_litert_does_not_do_is_refused(
    folder, tmp_path, capsys, changes, message
):
    copy = shutil.copytree(folder, tmp_path / "m")
    metadata = helpers.read_json(copy / "metadata.json")
    changes = changes | {"meaning_sha256": None}
    (copy / "metadata.json").write_text(json.dumps(metadata | changes))
    flags = [f"--model_base_path={copy}", "--runtime=litert"]
    assert __main__.main(flags) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error and "--runtime=tensorflow" in error


def test_flags_that_do_not_go_together_are_refused(exported, capsys):
    path = os.path.dirname(exported.path)
    flags = [f"--model_base_path={path}"]
    assert __main__.main([*flags, "--litert-weights=int8"]) == 1
    assert "--litert-weights with --runtime=litert" in capsys.readouterr().err
    assert __main__.main([*flags, "--runtime=litert"]) == 1
    assert "--format=litert" in capsys.readouterr().err
