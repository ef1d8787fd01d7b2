"""Tests of serving/local_server.py: TF Serving's REST requests and refusals."""

import base64
import concurrent.futures
import json
import os
import re
import signal
import socket
import threading
import urllib.error
import urllib.request

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.finetuning import evaluation
from electra_tf.serving import local_server
from electra_tf.tasks import features as features_lib
from tests import helpers
from tests.serving.conftest import LABELS, NASTY, TEXTS

MODEL = "/v1/models/letters"
PREDICT = f"{MODEL}:predict"
TOKENS = {"input_ids": [2, 5, 3], "input_mask": [1, 1, 1]}


def segments(*ids):
    """A request for token ids."""
    rows = [TOKENS | {"segment_ids": ids}]
    return {"signature_name": "tokens", "instances": rows}


def serve(model) -> int:
    """Serves a model until the tests end; returns the port."""
    server = local_server.create_server(model)
    threading.Thread(target=server.run, daemon=True).start()
    return server.effective_port


def request(port, path, body=None):
    """Status and JSON of an answer."""
    if isinstance(body, dict):
        body = json.dumps(body).encode()
    try:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{port}{path}", body, timeout=60
        ) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.fixture(scope="module")
def port(exported):
    return serve(local_server.RestModel(os.path.dirname(exported.path)))


@pytest.fixture(scope="module")
def ask(port):
    """A function from a path and a body to the status and the JSON answer."""
    return lambda path, body=None: request(port, path, body)


@pytest.fixture(scope="module")
def expected(exported):
    """Texts, and the scores that the evaluation gives them."""
    tokenizer = helpers.make_tokenizer(f"{exported.path}/assets/vocab.txt")
    texts = [*(text.encode() for text in TEXTS), *NASTY]
    features = features_lib.text_features(
        texts, [None] * len(texts), tokenizer, 8
    )
    predict = evaluation.make_predictor(exported.model, "letters", 4)
    return texts, tf.nn.softmax(predict(features)["logits"]).numpy()


def as_base64(texts):
    return [{"b64": base64.b64encode(text).decode()} for text in texts]


def test_answers_as_the_evaluation(expected, ask):
    texts, scores = expected
    status, answer = ask(PREDICT, {"instances": as_base64(texts)})
    assert status == 200
    rows = answer["predictions"]
    labels = [LABELS[i] for i in scores.argmax(-1)]
    assert [row["label"] for row in rows] == labels
    found = [row["scores"] for row in rows]
    np.testing.assert_allclose(found, scores, atol=1e-5)


def test_rows_and_columns(ask):
    status, rows = ask(PREDICT, {"instances": ["wa", "wb"]})
    assert status == 200
    named = {"instances": [{"text": "wa"}, {"text": "wb"}]}
    assert ask(f"{MODEL}/versions/1:predict", named) == (200, rows)
    columns = {
        name: [row[name] for row in rows["predictions"]]
        for name in ("label", "scores", "truncated")
    }
    for inputs in (["wa", "wb"], {"text": ["wa", "wb"]}):
        status, answer = ask(PREDICT, {"inputs": inputs})
        assert (status, answer) == (200, {"outputs": columns})
    _, nothing = ask(PREDICT, {"inputs": {"text": []}})
    assert nothing == {"outputs": {"label": [], "scores": [], "truncated": []}}


def test_a_signature_of_several_inputs(ask):
    row = TOKENS | {"segment_ids": [0, 0, 0]}
    columns = {name: [ids] for name, ids in row.items()}
    (_, by_row), (_, by_column) = (
        ask(PREDICT, {"signature_name": "tokens"} | body)
        for body in ({"instances": [row]}, {"inputs": columns})
    )
    _, of_text = ask(PREDICT, {"instances": ["wa"]})
    (found,), (expected,) = by_row["predictions"], of_text["predictions"]
    np.testing.assert_allclose(found["scores"], expected["scores"], atol=1e-6)
    assert by_column["outputs"]["scores"] == [found["scores"]]


@pytest.mark.parametrize(
    "body, message",
    [
        (b"\xff", "JSON Parse error"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"instances": [%s]}' % (b"9" * 4301), "JSON Parse error"),
        (b"[1]", "'instances'"),
        ({"instances": ["wa"], "inputs": ["wa"]}, "'instances'"),
        ({"instances": []}, "list of rows"),
        ({"instances": [{"txt": "wa"}]}, "inputs text"),
        ({"inputs": {"txt": ["wa"]}}, "inputs text"),
        ({"instances": [3]}, "JSON Value: 3 is not of .* string"),
        ({"instances": [{"b64": "?"}]}, "Input text"),
        (b'{"instances": ["\\ud800"]}', "surrogate"),
        ({"inputs": "wa"}, "rank 1 but one of rank 0"),
        ({"instances": ["wa", ["wb"]]}, "Input text"),
        # TensorFlow itself ends where a tensor has so many dimensions.
        (b'{"inputs": ["wa", %s"wb"%s]}' % (b"[" * 300, b"]" * 300), "Input"),
        ({"signature_name": ["no"], "instances": ["wa"]}, "not found"),
        # TensorFlow takes the first three for 0 or 1.
        (segments(0, 2**40, 0), "JSON Value: 1099511627776 .* int32"),
        (segments(0, True, 0), "JSON Value: true"),
        (segments(0, float("nan"), 0), "JSON Value: NaN"),
        (segments(0, 0), "as many values of one input as of the other"),
        (segments(0, 9, 0), "^assertion failed: .Expected segment_ids"),
    ],
)
def test_what_is_wrong_is_400_and_one_line(ask, body, message):
    status, answer = ask(PREDICT, body)
    assert status == 400
    assert list(answer) == ["error"]
    assert re.search(message, answer["error"])
    assert "\n" not in answer["error"]


@pytest.mark.parametrize(
    "path, body, status, message",
    [
        ("other:predict", {}, 404, "Servable not found for request: Latest(o"),
        ("other", None, 404, "Servable not found for request: Latest(other)"),
        ("letters/versions/7", None, 404, "Specific(letters, 7)"),
        ("letters/versions/" + "9" * 5000, None, 404, "Specific(letters, 9"),
        ("letters:predict", None, 400, "Malformed request: GET /v1/models/le"),
        ("letters:guess", {}, 400, "Malformed request: POST"),
        ("../../x", None, 404, "Malformed request: GET"),
    ],
)
def test_other_addresses(ask, path, body, status, message):
    code, answer = ask(os.path.normpath(f"/v1/models/{path}"), body)
    assert code == status
    assert list(answer) == ["error"] and message in answer["error"]


def test_status(ask):
    status = {"error_code": "OK", "error_message": ""}
    available = {"version": "1", "state": "AVAILABLE", "status": status}
    for path in (MODEL, f"{MODEL}/versions/1"):
        assert ask(path) == (200, {"model_version_status": [available]})


def test_numbers_that_json_has_not_are_an_error(tmp_path):
    """As of a model whose weights a training has destroyed."""
    module = tf.Module()
    module.divide = tf.function(
        lambda x: {"y": 1.0 / x},
        input_signature=[tf.TensorSpec([None], tf.float32, "x")],
    )
    signatures = {"serving_default": module.divide}
    tf.saved_model.save(module, str(tmp_path / "1"), signatures)
    port = serve(local_server.RestModel(str(tmp_path), "divide"))
    path = "/v1/models/divide:predict"
    # One output has no name in the answer.
    expected = (200, {"predictions": [0.33333334, 2.0]})
    assert request(port, path, {"instances": [3, 0.5]}) == expected
    status, answer = request(port, path, {"inputs": {"x": [0.0]}})
    assert status == 500 and "not JSON compliant" in answer["error"]


def test_answers_at_once_are_not_mixed_up(ask, expected):
    texts, scores = expected
    bodies = [{"instances": [text]} for text in as_base64(texts)] * 8
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda body: ask(PREDICT, body), bodies))
    np.testing.assert_allclose(
        [answer["predictions"][0]["scores"] for _, answer in answers],
        np.tile(scores, [8, 1]),
        atol=1e-5,
    )


@pytest.mark.parametrize("name", ["", "no", "file", "letters"])
def test_what_is_no_export_is_one_line(exported, tmp_path, name, capsys):
    (tmp_path / "file").touch()
    (tmp_path / "letters").symlink_to(exported.path)
    flags = [f"--model_base_path={tmp_path / name}"]
    assert local_server.main(flags) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and f"Received: {tmp_path / name}" in error


def test_a_taken_port_is_one_line(exported):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        model = local_server.RestModel(os.path.dirname(exported.path))
        with pytest.raises(ValueError, match=f"free port .*{port}, Address"):
            local_server.create_server(model, port)


@pytest.mark.parametrize(
    "number",
    [pytest.param(signal.SIGINT, marks=pytest.mark.dear), signal.SIGTERM],
)
def test_signals_end_the_command(exported, number):
    folder = os.path.dirname(exported.path)
    process = helpers.start(
        *("-m", "electra_tf", "serve", "--rest_api_port=0"),
        f"--model_base_path={folder}",
        # A shell has its background jobs ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.default_int_handler
        ),
    )
    line = process.stdout.readline()
    found = re.match(r"serving letters, version 1: .*:(\d+)/v1/", line)
    status, _ = request(int(found[1]), PREDICT, {"instances": ["wa"]})
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert status == 200
    assert (process.returncode, out) == (0, "stopped\n")
    assert "Traceback" not in err
