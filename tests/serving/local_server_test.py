"""Tests of serving/local_server/__main__.py and what it is made of."""

import base64
import gzip
import http.client
import json
import os
import time
import urllib.error
import urllib.request

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from electra_tf.finetuning import evaluation
from electra_tf.finetuning import features as features_lib
from electra_tf.serving.local_server import __main__, rest_service
from electra_tf.serving.local_server.servable import Servable
from tests import helpers
from tests.serving import odd_requests
from tests.serving.conftest import LABELS, NASTY, TEXTS

MODEL = odd_requests.MODEL

NUM_ODD_REQUESTS = int(os.environ.get("ELECTRA_TF_NUM_ODD_REQUESTS", "150"))


@pytest.fixture(scope="module")
def servable(exported):
    return Servable(os.path.dirname(exported.path))


@pytest.fixture(scope="module")
def server(servable):
    with __main__.LocalServer(servable) as running:
        yield running


@pytest.fixture(scope="module")
def ask(server):
    """A function from a path and a body to the status and the JSON answer."""

    def send(path, body=None, **headers):
        if isinstance(body, dict):
            body = json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{server.rest_port}{path}", body, headers
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    return send


@pytest.fixture(scope="module")
def channel(server):
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as found:
        yield found


@pytest.fixture(scope="module")
def stub(channel):
    return prediction_service_pb2_grpc.PredictionServiceStub(channel)


def predict_request(texts, name="letters", **inputs):
    request = predict_pb2.PredictRequest()
    request.model_spec.name = name
    inputs = inputs or {"text": tf.make_tensor_proto(texts, tf.string)}
    for key, value in inputs.items():
        request.inputs[key].CopyFrom(value)
    return request


def arrays(response):
    return {k: tf.make_ndarray(v) for k, v in response.outputs.items()}


@pytest.fixture(scope="module")
def expected(exported):
    """What the evaluation says of the texts below."""
    tokenizer = helpers.make_tokenizer(
        os.path.join(exported.path, "assets", "vocab.txt")
    )
    texts = [*(text.encode() for text in TEXTS), *NASTY]
    features = features_lib.text_features(
        texts, [None] * len(texts), tokenizer, 8
    )
    predict = evaluation.make_predictor(exported.model, "letters", 4)
    return texts, tf.nn.softmax(predict(features)["logits"]).numpy()


def test_same_answer_everywhere(expected, servable, ask, stub):
    texts, scores = expected
    labels = [LABELS[i] for i in scores.argmax(-1)]
    request = predict_request(texts)
    answers = {
        "python": arrays(servable.predict(request)),
        "grpc": arrays(stub.Predict(request)),
    }
    as_base64 = [{"b64": base64.b64encode(text).decode()} for text in texts]
    status, rest = ask(f"{MODEL}:predict", {"instances": as_base64})
    assert status == 200
    answers["rest"] = {
        "label": np.array(
            [row["label"].encode() for row in rest["predictions"]]
        ),
        "scores": np.array([row["scores"] for row in rest["predictions"]]),
    }
    for name, answer in answers.items():
        assert [x.decode() for x in answer["label"]] == labels, name
        np.testing.assert_allclose(answer["scores"], scores, atol=1e-5)


def test_rest_formats(ask):
    status, rows = ask(f"{MODEL}:predict", {"instances": ["wa", "wb"]})
    assert status == 200
    _, named = ask(
        f"{MODEL}/versions/1:predict",
        {"instances": [{"text": "wa"}, {"text": "wb"}]},
    )
    assert named == rows
    _, columns = ask(f"{MODEL}:predict", {"inputs": ["wa", "wb"]})
    assert columns["outputs"] == {
        name: [row[name] for row in rows["predictions"]]
        for name in ("label", "scores")
    }
    _, named = ask(f"{MODEL}:predict", {"inputs": {"text": ["wa", "wb"]}})
    assert named == columns
    _, none = ask(f"{MODEL}:predict", {"inputs": {"text": []}})
    assert none == {"outputs": {"label": [], "scores": []}}
    tokens = {"input_ids": [2, 5, 3], "input_mask": [1, 1, 1]}
    status, by_ids = ask(
        f"{MODEL}:predict",
        {
            "signature_name": "tokens",
            "instances": [tokens | {"segment_ids": [0, 0, 0]}],
        },
    )
    np.testing.assert_allclose(
        by_ids["predictions"][0]["scores"],
        rows["predictions"][0]["scores"],
        atol=1e-6,
    )


def test_rest_body_that_is_no_utf8(ask):
    body = b'{"instances": ["wa \xff wb"]}'
    status, answer = ask(f"{MODEL}:predict", body)
    assert status == 200
    assert answer == ask(f"{MODEL}:predict", {"instances": ["wa  wb"]})[1]


def test_base64_without_padding(ask):
    padded, bare = (
        ask(f"{MODEL}:predict", {"instances": [{"b64": coded}]})
        for coded in ("d2E=", "d2E")
    )
    assert padded[0] == 200
    assert padded == bare


def test_rest_body_packed_by_gzip(ask, monkeypatch):
    address = f"{MODEL}:predict"
    body = json.dumps({"instances": ["wa"]}).encode()
    packed = gzip.compress(body)
    how = {"Content-Encoding": "gzip"}
    assert ask(address, packed, **how) == ask(address, body)
    for damaged in (body, packed[:-1], packed[:-8] + bytes(8), packed + b"x"):
        assert ask(address, damaged, **how) == (
            400,
            {
                "error": "Expected a body packed by gzip, as Content-Encoding "
                f"says. Received: {len(damaged)} bytes that cannot be unpacked"
            },
        )
    monkeypatch.setattr(rest_service, "MAX_REQUEST_SIZE", len(body) - 1)
    status, answer = ask(address, packed, **how)
    assert status == 413
    assert answer["error"].startswith("Request Entity Too Large: exceeds ")


def test_what_an_assertion_says_is_without_its_place(ask):
    row = {"input_ids": [99], "input_mask": [1], "segment_ids": [0]}
    body = {"signature_name": "tokens", "instances": [row]}
    assert ask(f"{MODEL}:predict", body) == (
        400,
        {"error": "assertion failed: [Expected input_ids from 0 to 19.]"},
    )


def test_classify(ask, stub):
    status, answer = ask(
        f"{MODEL}:classify",
        {
            "signature_name": "serving_bytes",
            "examples": [{"text": "wa"}, {"text": ["wb"]}],
        },
    )
    assert status == 200
    _, rows = ask(f"{MODEL}:predict", {"instances": ["wa", "wb"]})
    assert [dict(row) for row in answer["results"]] == [
        dict(zip(LABELS, row["scores"], strict=True))
        for row in rows["predictions"]
    ]
    request = classification_pb2.ClassificationRequest()
    request.model_spec.name = "letters"
    request.model_spec.signature_name = "serving_bytes"
    for text in (b"wa", b"wb"):
        example = request.input.example_list.examples.add()
        example.features.feature["text"].bytes_list.value.append(text)
    response = stub.Classify(request)
    for row, of_rest in zip(
        response.result.classifications, answer["results"], strict=True
    ):
        assert [c.label for c in row.classes] == LABELS
        np.testing.assert_allclose(
            [c.score for c in row.classes], [s for _, s in of_rest], rtol=1e-6
        )


@pytest.mark.parametrize(
    "path, body, status, message",
    [
        (":predict", b"", 400, "JSON Parse error: The document is empty"),
        (":predict", b"{", 400, "JSON Parse error: "),
        (":predict", b"[" * 100_000, 400, "JSON Parse error: nested"),
        (":predict", b"[1]", 400, "JSON Value: [1] Is not object"),
        (
            ":predict",
            b'{"instances": ["wa"], "instances": ["ki"]}',
            400,
            "JSON Parse error: the name 'instances' twice in an object",
        ),
        (
            ":classify",
            b'{"examples": [{"text": "wa", "text": "ki"}]}',
            400,
            "JSON Parse error: the name 'text' twice in an object",
        ),
        (
            ":predict",
            b'{"instances": [%s]}' % (b"9" * 4301),
            400,
            "JSON Parse error: Number too big to be stored in double.",
        ),
        (
            ":predict",
            b'{"inputs": %s"wa"%s}' % (b"[" * 65, b"]" * 65),
            400,
            "Expects text to have rank 1 but one of rank 65 is provided",
        ),
        (
            ":predict",
            b'{"signature_name": "\xff", "instances": ["wa"]}',
            400,
            'Serving signature name: "\\udcff" not found in signature def',
        ),
        (
            ":classify",
            b'{"signature_name": "serving_bytes", "examples": [{"\xff": 1}]}',
            400,
            "Feature: text (data type: string) is required",
        ),
        (":predict", {}, 400, "Missing 'inputs' or 'instances' key"),
        (":predict", {"instances": []}, 400, "No values in 'instances' array"),
        (":predict", {"instances": "wa"}, 400, "to be an list/array"),
        (
            ":predict",
            {"instances": ["wa"], "inputs": ["wa"]},
            400,
            "only one of 'inputs' or 'instances' keys",
        ),
        (
            ":predict",
            {"instances": ["wa", 3]},
            400,
            "Failed to process element: 1 of 'instances' list. Error: "
            "INVALID_ARGUMENT: JSON Value: 3 Type: Number is not of expected "
            "type: string",
        ),
        (
            ":predict",
            {"instances": [{"txt": "wa"}]},
            400,
            'JSON object: {"txt": "wa"} keys must be equal to: text',
        ),
        (
            ":predict",
            {"instances": ["wa", ["wb"]]},
            400,
            "Expecting shape [] but got: [1]",
        ),
        (
            ":predict",
            {"inputs": {"txt": ["wa"]}},
            400,
            "Missing named input: text in 'inputs' object.",
        ),
        (":predict", {"inputs": "wa"}, 400, "Expects text to have rank 1"),
        (
            ":predict",
            {"inputs": {"text": ["wa", ["wb"]]}},
            400,
            "Expecting shape [] but got: [1]",
        ),
        (
            ":predict",
            {"instances": [{"b64": "?"}]},
            400,
            "Unable to base64 decode",
        ),
        *(
            (
                ":predict",
                {"instances": [{"b64": coded}]},
                400,
                "Unable to base64 decode",
            )
            for coded in ("d2E==", "d", "d=")
        ),
        *(
            (
                ":predict",
                b'{"instances": [{"text": "%s"}]}' % text,
                400,
                "JSON Parse error: The surrogate pair in string is invalid.",
            )
            # The last two would be \u00e9, and a text with its one half.
            for text in (
                rb"\ud800",
                rb"\udc80",
                rb"\udcc3\udca9",
                rb"wa\uD800x",
            )
        ),
        (
            ":predict",
            {"signature_name": "no", "instances": ["wa"]},
            400,
            'Serving signature name: "no" not found in signature def',
        ),
        (
            ":predict",
            {"signature_name": 1, "instances": ["wa"]},
            400,
            "'signature_name' key must be a string value.",
        ),
        (
            ":predict",
            {
                "signature_name": "tokens",
                "instances": [
                    {"input_ids": [99], "input_mask": [1], "segment_ids": [0]}
                ],
            },
            400,
            "Expected input_ids from 0 to 19.",
        ),
        (
            ":classify",
            {"examples": [{"text": "wa"}]},
            400,
            "Expected classification signature method_name to be "
            "tensorflow/serving/classify. Was: tensorflow/serving/predict",
        ),
        (
            ":regress",
            {"signature_name": "serving_bytes", "examples": [{"text": "wa"}]},
            400,
            "Expected regression signature method_name",
        ),
        (":classify", {"instances": []}, 400, "key 'examples' is expected"),
        (
            ":classify",
            {"signature_name": "serving_bytes", "examples": [{"t": "wa"}]},
            400,
            "Feature: text (data type: string) is required",
        ),
        (
            ":classify",
            {"examples": [{"text": {"wa": 1}}]},
            400,
            "Feature: text has element with unexpected JSON type: Object",
        ),
        (
            "/versions/7:predict",
            {"instances": ["wa"]},
            404,
            "Servable not found for request: Specific(letters, 7)",
        ),
        (":guess", {"instances": ["wa"]}, 400, "Malformed request: POST /v1/"),
    ],
)
def test_rest_refuses(ask, path, body, status, message):
    found, answer = ask(MODEL + path, body)
    assert found == status
    assert list(answer) == ["error"]
    assert message in answer["error"]
    assert "\n" not in answer["error"]


def test_rest_refuses_other_addresses(ask):
    status, answer = ask("/v1/models/other:predict", {"instances": ["wa"]})
    assert (status, answer["error"]) == (
        404,
        "Servable not found for request: Latest(other)",
    )
    status, answer = ask("/v1/models/letters/labels/stable")
    assert (status, answer["error"]) == (
        400,
        "Unrecognized servable version label: stable",
    )
    status, answer = ask("/v1/")
    assert (status, answer["error"]) == (400, "Malformed request: GET /v1/")
    status, answer = ask("/")
    assert (status, answer["error"]) == (404, "Malformed request: GET /")


def test_rest_status_and_metadata(ask):
    status, answer = ask(MODEL)
    assert status == 200
    assert answer["model_version_status"][0]["version"] == "1"
    assert answer["model_version_status"][0]["state"] == "AVAILABLE"
    status, answer = ask(f"{MODEL}/metadata")
    signatures = answer["metadata"]["signature_def"]["signature_def"]
    assert sorted(signatures) == ["serving_bytes", "serving_default", "tokens"]
    inputs = signatures["serving_default"]["inputs"]
    assert inputs["text"]["dtype"] == "DT_STRING"


@pytest.mark.parametrize(
    "request_, code, message",
    [
        (
            predict_request(["wa"], name="other"),
            "NOT_FOUND",
            "Servable not found for request: Latest(other)",
        ),
        (
            predict_request([], txt=tf.make_tensor_proto(["wa"])),
            "INVALID_ARGUMENT",
            "input tensor alias not found in signature: txt.",
        ),
        (
            predict_request(
                [],
                text=tf.make_tensor_proto(["wa"]),
                more=tf.make_tensor_proto(["wa"]),
            ),
            "INVALID_ARGUMENT",
            "input size does not match signature: 2!=1 len({more,text}) != "
            "len({text}). Sent extra: {more}. Missing but required: {}.",
        ),
        (
            predict_request([], text=tf.make_tensor_proto([1])),
            "INVALID_ARGUMENT",
            "Expects text to be string but int32 is provided",
        ),
        (
            predict_request([], text=tf.make_tensor_proto([["wa"]])),
            "INVALID_ARGUMENT",
            "Expects text to have rank 1 but one of rank 2 is provided",
        ),
        *(
            (predict_request([], text=tensor_pb2.TensorProto(**of_text)), *rest)
            for of_text, *rest in (
                (
                    {"dtype": 999},
                    "INVALID_ARGUMENT",
                    "Expects text to be string but unknown dtype enum (999) is",
                ),
                (
                    {"dtype": 21},
                    "INVALID_ARGUMENT",
                    "Expects text to be string but variant is provided",
                ),
                (
                    {"dtype": 7, "tensor_shape": {"dim": [{"size": -1}]}},
                    "INVALID_ARGUMENT",
                    "tensor parsing error: text",
                ),
                (
                    {"dtype": 7, "tensor_shape": {"dim": [{"size": 10**9}]}},
                    "INVALID_ARGUMENT",
                    "tensor parsing error: text: ",
                ),
            )
        ),
    ],
)
def test_grpc_refuses(stub, request_, code, message):
    with pytest.raises(grpc.RpcError) as caught:
        stub.Predict(request_, timeout=60)
    assert caught.value.code().name == code
    assert caught.value.details().startswith(message)


def test_grpc_output_filter_and_signature(stub):
    request = predict_request(["wa"])
    request.output_filter.append("label")
    response = stub.Predict(request)
    assert list(response.outputs) == ["label"]
    assert response.model_spec.version.value == 1
    assert response.model_spec.signature_name == "serving_default"
    request.output_filter.append("guess")
    with pytest.raises(grpc.RpcError, match="alias not found in signature: gu"):
        stub.Predict(request)
    request = predict_request(["wa"])
    request.model_spec.signature_name = "no"
    with pytest.raises(grpc.RpcError) as caught:
        stub.Predict(request)
    assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert caught.value.details() == 'Serving signature key "no" not found.'


def test_grpc_metadata_and_status(stub, channel):
    request = get_model_metadata_pb2.GetModelMetadataRequest()
    request.model_spec.name = "letters"
    request.metadata_field.append("signature_def")
    response = stub.GetModelMetadata(request)
    found = get_model_metadata_pb2.SignatureDefMap()
    response.metadata["signature_def"].Unpack(found)
    assert "text" in found.signature_def["serving_default"].inputs
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = "letters"
    models = model_service_pb2_grpc.ModelServiceStub(channel)
    (status,) = models.GetModelStatus(request).model_version_status
    assert (status.version, status.state) == (1, 30)


def test_odd_requests(server, channel, ask):
    good = f"{MODEL}:predict", {"instances": ["wa"]}
    expected = ask(*good)
    faults = {}
    for request in odd_requests.draw(20, NUM_ODD_REQUESTS):
        if request.method:
            fault = odd_requests.grpc_fault(channel, request)
        else:
            fault = odd_requests.rest_fault(server.rest_port, request)
        if fault:
            faults[request] = fault
    assert not faults
    assert ask(*good) == expected


HEAD = f"POST {MODEL}:predict HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.parametrize(
    "request_, status, message",
    [
        ("x\r\n\r\n", 400, "Bad Request: Start line is invalid"),
        (f"GET {MODEL} HTTP/1.1\r\nA\r\n\r\n", 400, "Invalid header"),
        ("GET http://[x HTTP/1.1\r\n\r\n", 400, "Invalid IPv6 URL"),
        (HEAD + "Content-Length: -1\r\n\r\n", 400, "Content-Length is invalid"),
        (HEAD + f"Content-Length: {'9' * 5000}\r\n\r\n", 400, "digits"),
        (
            HEAD + "Expect: 100-continue\r\nContent-Length: 99999999\r\n\r\n",
            413,
            "Request Entity Too Large",
        ),
        (HEAD + f"A: {'a' * 70_000}\r\n\r\n", 431, "exceeds max_header"),
        (HEAD + "Transfer-Encoding: gzip\r\n\r\n", 501, "not supported"),
        (
            HEAD + "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
            400,
            "Invalid chunk size",
        ),
        (
            f"GET {MODEL}/versions/{'9' * 5000} HTTP/1.1\r\n\r\n",
            400,
            "Failed to convert version: 999",
        ),
    ],
)
def test_what_is_no_request(server, request_, status, message):
    response, body = odd_requests.exchange(
        server.rest_port, request_.encode("latin-1"), 30
    )
    assert response.status == status
    assert response.getheader("Content-Type") == "application/json"
    answer = json.loads(body)
    assert list(answer) == ["error"] and message in answer["error"]


def test_a_connection_stays_open(server):
    connection = http.client.HTTPConnection(
        "127.0.0.1", server.rest_port, timeout=30
    )
    for method, path, status in (
        ("GET", MODEL, 200),
        ("HEAD", MODEL, 400),
        ("GET", "/v1/models/other", 404),
        ("GET", MODEL, 200),
    ):
        connection.request(method, path)
        sock = connection.sock
        response = connection.getresponse()
        response.read()
        assert response.status == status and connection.sock is sock
    connection.close()


def test_large_requests_and_texts(ask, servable):
    status, answer = ask(f"{MODEL}:predict", {"instances": ["wa wb"] * 1000})
    assert status == 200
    assert len(answer["predictions"]) == 1000
    status, answer = ask(f"{MODEL}:predict", {"instances": ["wa " * 350_000]})
    assert status == 200
    short = arrays(servable.predict(predict_request(["wa " * 6])))
    np.testing.assert_allclose(
        answer["predictions"][0]["scores"], short["scores"][0], atol=1e-6
    )


def test_answers_at_once_are_not_mixed_up(ask, expected):
    import concurrent.futures

    texts, scores = expected
    bodies = [
        {"instances": [{"b64": base64.b64encode(text).decode()}]}
        for text in texts
    ] * 8
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda b: ask(f"{MODEL}:predict", b), bodies))
    found = [answer["predictions"][0]["scores"] for _, answer in answers]
    np.testing.assert_allclose(found, np.tile(scores, [8, 1]), atol=1e-5)


def test_warms_up(servable):
    assert servable.warm_up() == 6


def test_refuses_a_taken_port(servable, server):
    with pytest.raises(ValueError, match="free port for REST"):
        __main__.LocalServer(servable, rest_port=server.rest_port)
    with pytest.raises(ValueError, match="free port for gRPC"):
        __main__.LocalServer(servable, grpc_port=server.grpc_port)


def test_stops_while_another_thread_wakes_it(servable, monkeypatch):
    """As a worker does that has just answered."""
    with __main__.LocalServer(servable) as running:
        trigger = running._rest.trigger
        pull = trigger._physical_pull

        def pull_behind_another():
            pull()
            time.sleep(0.2)
            pull()

        monkeypatch.setattr(trigger, "_physical_pull", pull_behind_another)
    assert not running._rest_thread.is_alive()
