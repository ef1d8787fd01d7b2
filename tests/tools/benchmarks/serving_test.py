"""Tests of tools/benchmarks/serving.py, at sizes that show no speed."""

import argparse
import json
import sys
import threading
import time

import pytest

from tools.benchmarks import servers, serving


def test_clients_wait_for_their_answers():
    under_way = most = 0
    lock = threading.Lock()
    asked = []

    def client(texts):
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
            asked.append(texts)
        time.sleep(0.01)
        with lock:
            under_way -= 1

    rows = [["a"], ["b"], ["c"]]
    latencies, seconds = servers.closed_loop([client] * 4, rows, 12)
    assert len(latencies) == 12 and most == 4
    assert sorted(asked) == sorted(rows * 4)
    assert min(latencies) >= 0.01
    assert 0.03 <= seconds < 12 * 0.01 + 1.0


def test_a_clients_error_ends_the_measurement():
    def client(texts):
        raise ValueError("Expected an answer")

    with pytest.raises(ValueError, match="Expected an answer"):
        servers.closed_loop([client] * 3, [["a"]], 100)


def test_texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("one\ttwo\n\nthree\tfour\n")
    args = argparse.Namespace(texts=str(path), num_words=3)
    rows = serving.read_rows(args)
    assert rows == [["one", "two"], ["three", "four"]]
    args.texts = ""
    made_up = serving.read_rows(args)
    assert len({row[0] for row in made_up}) == len(made_up) == 64
    assert {len(row[0].split()) for row in made_up} == {3}
    path.write_text("\n")
    args.texts = str(path)
    with pytest.raises(ValueError, match="at least one text"):
        serving.read_rows(args)


@pytest.mark.dear
def test_padding_and_devices_are_measured_and_judged(tmp_path, capsys):
    output = tmp_path / "result.json"
    flags = (
        "--tiny --sections=padding,on_device --num-rounds=2 "
        "--num-timed-requests=1 --num-warm-up-requests=1"
    )
    status = serving.main([f"--output={output}", *flags.split()])
    assert status == 0
    found = json.loads(output.read_text())
    padding, on_device = found["padding"], found["on_device"]
    for number in serving.NUM_TEXTS:
        for figure in ("times_padded", "per_second", "padded_per_second"):
            assert padding[f"{figure}_{number}"] > 0
    assert on_device["rows"] == 64 and on_device["tokens_of_a_row"] == 12
    assert on_device["float32_error"] < 1e-5
    assert on_device["float32_equal_labels"] == 1.0
    assert on_device["int8_mb"] < on_device["float32_mb"]
    assert found["targets"]["on_device.float32_error"] is True
    assert "<= 1e-05, met" in capsys.readouterr().err


@pytest.mark.dear
def test_latency_is_measured_side_by_side(tmp_path, capsys):
    output = tmp_path / "result.json"
    flags = (
        "--tiny --sections=latency --num-rounds=2 --num-timed-requests=1 "
        "--num-warm-up-requests=1 --interop-python=/no/python "
        "--contestants=onnxruntime,litert_float32,ours_float32"
    )
    assert serving.main([f"--output={output}", *flags.split()]) == 0
    found = json.loads(output.read_text())["latency"]
    assert sorted(found["contestants"]) == ["litert_float32", "ours_float32"]
    assert found["ours_float32_times_litert_float32"] > 0
    assert found["litert_float32_error"] < 1e-5
    assert "left out: onnxruntime: /no/python" in "".join(capsys.readouterr())


@pytest.mark.dear
def test_runtimes_are_asked_side_by_side(tmp_path):
    output = tmp_path / "result.json"
    flags = (
        "--tiny --sections=runtimes --num-rounds=2 --num-timed-requests=2 "
        "--num-warm-up-requests=1"
    )
    assert serving.main([f"--output={output}", *flags.split()]) == 0
    found = json.loads(output.read_text())["runtimes"]
    assert sorted(found["contestants"]) == [
        "saved_model_float32",
        "saved_model_float32_threads",
    ]
    for figures in found["contestants"].values():
        assert figures["examples_per_second"] > 0
    assert len(found["contestants"]) == 2


def test_mistakes_end_in_one_line(capsys, tmp_path):
    for flags, message in (
        (["--sections=padding,speed"], "Received: speed"),
        ([f"--model-dir={tmp_path}"], "a folder with nothing in it"),
    ):
        assert serving.main(flags) == 1
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1


def test_a_server_that_does_not_start_is_said_so(tmp_path, monkeypatch):
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho no port is free >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    with (
        pytest.raises(ValueError, match="did not start: no port is free"),
        servers.run_server(str(tmp_path)),
    ):
        pass
