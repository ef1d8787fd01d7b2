"""Tests of how serving/local_server/__main__.py begins and ends."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request

import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from electra_tf.serving.local_server import __main__
from electra_tf.serving.local_server.servable import Servable


def test_passes_over_a_version_without_a_model(exported, tmp_path):
    (tmp_path / "1").symlink_to(exported.path)
    (tmp_path / "2").mkdir()
    (tmp_path / "\u00b2").touch()
    found = Servable(str(tmp_path))
    assert found.version == 1
    assert f"passed over {tmp_path / '2'}: no SavedModel in it" in found.notes


def test_refuses_a_model_without_a_signature(
    exported, tmp_path, monkeypatch, capsys
):
    """A newer version that another program wrote."""
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "")
    (tmp_path / "1").symlink_to(exported.path)
    tf.saved_model.save(tf.Module(), str(tmp_path / "2"))
    assert __main__.main([f"--model_base_path={tmp_path}"]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.endswith(
        "Expected a SavedModel with the signature serving_default. Received: "
        f"{tmp_path / '2'}, with no signature\n"
    )


def test_refuses_a_folder_without_versions(
    exported, tmp_path, monkeypatch, capsys
):
    # Which the server sets for its own process.
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "")
    (tmp_path / "file").touch()
    (tmp_path / "lite").mkdir()
    (tmp_path / "lite" / "model.int8.tflite").touch()
    for path, what in (
        (tmp_path, "which has none: export one with electra-tf export"),
        (tmp_path / "no", "which does not exist: export one with electra-tf"),
        (tmp_path / "file", "a file: export one with electra-tf export"),
        (tmp_path / "lite", "which has files for LiteRT: add --runtime=litert"),
        (exported.path, "one version itself: give the folder in which it is"),
    ):
        assert __main__.main([f"--model_base_path={path}"]) == 1
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert (
            "Expected a folder of the versions 1, 2, ... of a SavedModel. "
            f"Received: {path}, {what}" in error
        )


@pytest.mark.dear
def test_a_damaged_warm_up_is_one_line(exported, tmp_path, monkeypatch, capsys):
    # Which the server sets for its own process.
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "")
    version = shutil.copytree(exported.path, tmp_path / "1")
    requests = version / "assets.extra" / "tf_serving_warmup_requests"
    record = prediction_log_pb2.PredictionLog()
    record.predict_log.request.model_spec.signature_name = "other"
    for records, message in (
        (None, "as number 1: .*corrupted record"),
        ([b"\xff"], "as number 1: .*[Pp]ars"),
        (
            [record.SerializeToString()],
            'as number 1: Serving signature key "other" not found',
        ),
    ):
        requests.write_bytes(b"no records at all")
        if records is not None:
            with tf.io.TFRecordWriter(str(requests)) as writer:
                for content in records:
                    writer.write(content)
        assert __main__.main([f"--model_base_path={tmp_path}"]) == 1
        error = capsys.readouterr().err.splitlines()[-1]
        assert re.search(f"warm-up requests in .* {message}", error)


@pytest.mark.dear
def test_a_taken_port_is_one_line(exported):
    folder = os.path.dirname(exported.path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        # Of its own process: what C++ says is told it before the first import.
        done = subprocess.run(
            [
                *(sys.executable, "-m", "electra_tf.serving.local_server"),
                *(f"--model_base_path={folder}", "--rest_api_port=0"),
                f"--port={port}",
            ],
            capture_output=True,
            text=True,
        )
    # Behind a note on the model.
    assert done.stderr.splitlines()[1:] == [
        "local_server: error: Expected a free port for gRPC. Received: "
        f"{port}, which is taken"
    ]
    assert done.returncode == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_runs_is_answered_before_the_end(
    exported, monkeypatch, capsys, number
):
    # Which the server sets for its own process.
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "")
    answers = []
    predict, start = Servable.predict, __main__.LocalServer.start

    def ask(port):
        address = f"http://127.0.0.1:{port}/v1/models/letters:predict"
        body = json.dumps({"instances": ["wa"]}).encode()
        with urllib.request.urlopen(address, body) as response:
            answers.append(response.status)

    def predict_slowly(self, request):
        time.sleep(0.3)
        os.kill(os.getpid(), number)
        time.sleep(0.3)
        return predict(self, request)

    def start_and_ask(self):
        start(self)
        client.append(threading.Thread(target=ask, args=[self.rest_port]))
        client[0].start()

    client: list[threading.Thread] = []
    monkeypatch.setattr(Servable, "predict", predict_slowly)
    monkeypatch.setattr(__main__.LocalServer, "start", start_and_ask)
    folder = os.path.dirname(exported.path)
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    # Which a shell has its background jobs ignore.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        code = __main__.main(
            [f"--model_base_path={folder}", "--port=0", "--rest_api_port=0"]
        )
    finally:
        for other, handler in before.items():
            signal.signal(other, handler)
    client[0].join()
    assert (code, answers) == (130, [200])
    # Behind a note on the model.
    assert capsys.readouterr().err.splitlines()[1:] == [
        "local_server: interrupted"
    ]
