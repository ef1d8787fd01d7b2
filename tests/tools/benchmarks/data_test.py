"""Tests of tools/benchmarks/data.py, at sizes that show no speed."""

import argparse
import itertools
import json
import time
import types

import pytest

from electra_tf.model import ablations, masking
from electra_tf.pretraining_data import batches, corpus
from tools.benchmarks import data


@pytest.fixture
def text(tmp_path):
    (tmp_path / "texts").mkdir()
    lines = [f"word{i} other{i} thing{i % 7} red blue" for i in range(400)]
    (tmp_path / "texts" / "a.txt").write_text("\n".join(lines))
    return str(tmp_path / "texts" / "a.txt")


def test_a_corpus_is_varied_and_kept(tmp_path, text):
    lines = data.varied_lines([text])
    with open(text) as reader:
        given = reader.read().split("\n")
    first = list(itertools.islice(lines, 401))
    second = list(itertools.islice(lines, 401))
    assert first != second
    for varied in (first, second):
        same = sum(a == b for a, b in zip(varied, given, strict=False))
        assert 0.5 < same / 400 < 0.9
    folder = str(tmp_path / "made")
    assert data.write_corpus(folder, lines, 30_000) == folder
    files = corpus.list_files(folder)
    assert 30_000 <= sum(file.num_bytes for file in files) < 30_100
    # It is not made again.
    data.write_corpus(folder, iter([]), 30_000)


def test_speed_is_measured_against_the_reference(tmp_path, text, monkeypatch):
    vocab_file = tmp_path / "vocab.txt"
    vocab_file.write_text(
        "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nred\nblue\nw\n##o\n##r\n##d\n"
    )
    args = argparse.Namespace(reference_mb=0.01, num_rounds=2, num_parts=1)
    found = data.measure_speed(args, str(tmp_path / "texts"), str(vocab_file))
    ratio = found["tokens_per_second"] / found["reference_tokens_per_second"]
    assert found["times_reference"] == pytest.approx(ratio, rel=0.9)
    assert found["times_reference_cpu"] > 0


def test_sections_are_judged_and_shown(tmp_path, monkeypatch, capsys):
    figures = {
        "times_reference": 12.0,
        "two_processes_times_one": 1.5,
        "memory_growth": 1.0,
        "noise": {"others": 0.5},
    }
    monkeypatch.setitem(data.SECTIONS, "building", lambda args: figures)
    output = tmp_path / "result.json"
    flags = [f"--output={output}", "--sections=building"]
    assert data.main(flags) == 0
    found = json.loads(output.read_text())
    assert found["building"] == figures
    assert found["targets"] == {
        "building.times_reference": True,
        "building.two_processes_times_one": False,
        "building.memory_growth": True,
    }
    shown = capsys.readouterr().err
    assert "1.5 | >= 1.8, missed |" in shown
    assert "Noisy machine" in shown


class InsteadOfTraining:
    """Has what is read, and waits instead of training."""

    def __init__(self, config, pattern, batch_size):
        self.data = batches.PretrainingData(pattern, config, 1)
        model = ablations.make_model(config, masking.SpecialIds(2, 3, 4))
        self.engine = types.SimpleNamespace(model=model)

    def __call__(self, num_steps):
        time.sleep(0.1 * num_steps)
        return 0.1 * num_steps


def test_reading_is_measured_against_training(tmp_path, monkeypatch):
    import contestants

    monkeypatch.setattr(contestants, "Product", InsteadOfTraining)
    output = tmp_path / "result.json"
    flags = "--sections=reading --tiny --num-rounds=1 --batches-per-step=2"
    assert data.main([f"--output={output}", *flags.split()]) == 0
    found = json.loads(output.read_text())["reading"]
    assert found["trained_examples_per_second"] == pytest.approx(160)
    assert found["times_training"] == pytest.approx(
        found["examples_per_second"] / 160
    )


def test_a_failed_run_is_said_so(tmp_path):
    with pytest.raises(ValueError, match="exit code 1: .*does not exist"):
        data.run_build(str(tmp_path / "none"), "vocab.txt", 1)


def test_an_unknown_section_is_refused(capsys):
    assert data.main(["--sections=building,bilding"]) == 1
    assert capsys.readouterr().err.endswith("Received: bilding\n")
