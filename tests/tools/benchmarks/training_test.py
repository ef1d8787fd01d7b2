"""Tests of tools/benchmarks/training.py, at sizes that show no speed."""

import json
import math

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
        "speed": {"ours_times_reference": 1.4, "mfu": 0.5},
        "recompilation": {"traces_after_warm_up": 0},
    }
    # bfloat16 was not a contestant.
    assert benchmarking.judge(result, training.TARGETS) == {
        "speed.ours_times_reference": True,
        "speed.mfu": False,
        "recompilation.traces_after_warm_up": True,
    }


class OfSeconds:
    """A contestant whose steps take the seconds that are given."""

    is_process = False

    def __init__(self, seconds, cpu_seconds, losses=()):
        self.seconds, self.cpu_seconds = iter(seconds), []
        self.of_the_cpu, self.losses = cpu_seconds, list(losses)

    def __call__(self, num_steps):
        self.cpu_seconds.append(self.of_the_cpu)
        return next(self.seconds) * num_steps


@pytest.fixture
def compared():
    return benchmarking.compare(
        {
            "theirs": OfSeconds([2.0, 4.0, 2.0], 3.0, [10.5, 9.0]),
            "ours": OfSeconds([1.0, 1.0, 2.0], 1.5),
            "ours_bfloat16": OfSeconds([0.5, 0.5, 0.5], 0.5),
        },
        per_step=8,
        num_steps=2,
        num_rounds=3,
    )


def test_contestants_are_compared(compared):
    noise = compared.pop("noise")
    assert set(noise) == {"others", "steal", "spread"}
    assert compared == {
        "contestants": {
            "theirs": {
                "examples_per_second": 4.0,
                "examples_per_second_quartiles": [3.0, 4.0],
                "cpu_seconds_per_step": 3.0,
                "first_loss": 10.5,
                "last_loss": 9.0,
            },
            "ours": {
                "examples_per_second": 8.0,
                "examples_per_second_quartiles": [6.0, 8.0],
                "cpu_seconds_per_step": 1.5,
            },
            "ours_bfloat16": {
                "examples_per_second": 16.0,
                "examples_per_second_quartiles": [16.0, 16.0],
                "cpu_seconds_per_step": 0.5,
            },
        },
        # 2, 4 and 1 by rounds.
        "ours_times_theirs": 2.0,
        "ours_times_theirs_quartiles": [1.5, 3.0],
        "ours_times_theirs_cpu": 2.0,
        "ours_bfloat16_times_theirs": 4.0,
        "ours_bfloat16_times_theirs_quartiles": [4.0, 6.0],
        "ours_bfloat16_times_theirs_cpu": 6.0,
        "ours_bfloat16_times_ours": 2.0,
        "ours_bfloat16_times_ours_quartiles": [2.0, 3.0],
        "ours_bfloat16_times_ours_cpu": 3.0,
    }


def test_a_page_has_contestants_side_by_side(compared):
    result = {
        "flags": {"batch_size": 8},
        "cpus": 2,
        "speed": compared | {"mfu": 0.5},
        "warnings": ["other processes took 50% of the machine"],
        "targets": {"speed.mfu": False},
    }
    page = benchmarking.report_page(
        result, ["speed", "memory"], {("speed", "mfu"): (">=", 0.6)}
    )
    assert (
        page
        == """\
2 cores; batch_size=8

**Noisy machine**: other processes took 50% of the machine; believe ratios \
and CPU seconds, not rates.

## speed

|  | examples/s | quartiles | CPU s a step | loss, first, last \
| ours: times | quartiles | by CPU \
| ours_bfloat16: times | quartiles | by CPU |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
| theirs | 4.0 | 3.0 to 4.0 | 3 | 10.5, 9 \
| 2.00 | 1.50 to 3.00 | 2.00 | 4.00 | 4.00 to 6.00 | 6.00 |
| ours | 8.0 | 6.0 to 8.0 | 1.5 |  \
|  |  |  | 2.00 | 2.00 to 3.00 | 3.00 |
| ours_bfloat16 | 16.0 | 16.0 to 16.0 | 0.5 |  |  |  |  |  |  |  |

|  | measured | target |
| --- | --- | --- |
| mfu | 0.5 | >= 0.6, missed |
"""
    )


def test_contestants_without_packages_are_left_out(capsys):
    names = benchmarking.chosen_contestants(
        "transformers,ours", training.CONTESTANTS, "/no/python"
    )
    assert names == ["ours"]
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(
        "left out: transformers: /no/python does not have torch, transformers "
        "(make interop)"
    )


def test_a_contestant_that_learns_something_else_is_named():
    config = helpers.electra_config()
    found = {"first_loss": 3.0, "last_loss": 2.0}
    with pytest.raises(ValueError, match="x: expected a first loss near 37.65"):
        training.check_losses({"x": found}, config)
    found = {"first_loss": 37.0, "last_loss": math.nan}
    with pytest.raises(ValueError, match="x: the loss is nan"):
        training.check_losses({"x": found}, config)


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
        "--contestants=reference,ours",
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


def test_an_unknown_contestant_is_refused(capsys):
    assert training.main(["--contestants=ours,theirs"]) == 1
    assert capsys.readouterr().err.endswith("Received: theirs\n")
