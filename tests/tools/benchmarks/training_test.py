"""Tests of tools/benchmarks/training.py, at sizes that show no speed."""

import json

import pytest

from tests import helpers
from tools.benchmarks import benchmarking, training

TOOL = "tools/benchmarks/training.py"


def test_interleaving():
    calls = []

    def contestant(name, seconds):
        def call(num_steps):
            calls.append((name, num_steps))
            return seconds * num_steps

        return call

    found = benchmarking.interleave(
        (contestant("a", 1.0), contestant("b", 2.0)),
        3,
        2,
        lambda: calls.append("between"),
    )
    assert found == [[1.0, 1.0], [2.0, 2.0]]
    assert calls == [
        "between",
        ("a", 3),
        ("b", 3),
        "between",
        ("b", 3),
        ("a", 3),
        "between",
    ]


def test_spread():
    assert benchmarking.spread("ratio", [5.0, 1.0, 3.0, 2.0, 4.0]) == {
        "ratio": 3.0,
        "ratio_quartiles": [2.0, 4.0],
    }
    assert benchmarking.spread("ratio", [2.0])["ratio_quartiles"][1] == 2.0


def test_targets():
    result = {
        "speed": {"ratio": 1.4, "mfu": 0.5},
        "recompilation": {"traces_after_warm_up": 0},
    }
    assert benchmarking.judge(result, training.TARGETS) == {
        "speed.ratio": True,
        "speed.mfu": False,
        "recompilation.traces_after_warm_up": True,
    }


def test_a_noisy_machine_is_said_so():
    quiet = {"others": 0.01, "steal": 0.0, "spread": 0.02}
    assert benchmarking.warnings(quiet) == []
    assert benchmarking.warnings(quiet | {"others": 0.5}) == [
        "other processes took 50% of the machine"
    ]


def test_other_processes_are_seen():
    shares = benchmarking.Machine().shares()
    assert set(shares) == {"others", "steal"}
    assert all(0 <= share <= 1 for share in shares.values())


@pytest.mark.dear
def test_sections_measure(tmp_path):
    # The other sections take minutes, most of them for starting processes.
    sections = "speed,recompilation"
    output = tmp_path / "benchmark.json"
    result = helpers.execute(
        TOOL,
        "--tiny",
        "--batch-size=4",
        "--max-seq-length=16",
        "--num-rounds=2",
        "--num-steps=2",
        "--num-input-steps=2",
        f"--sections={sections}",
        f"--output={output}",
        timeout=600,
    )
    assert result.returncode == 0, result.stderr
    found = json.loads(output.read_text())
    for section in sections.split(","):
        assert found[section]
        assert section in result.stderr
    assert found["recompilation"]["traces_after_warm_up"] == 0


def test_an_unknown_section_is_refused(capsys):
    assert training.main(["--sections=speed,sped"]) == 1
    assert capsys.readouterr().err.endswith("Received: sped\n")
