"""Tests of tools/benchmarks/bench.py, at sizes that show no speed."""

import re
import time

import bench
import contest
import pytest

from tests import helpers

TOOL = "tools/benchmarks/bench.py"
HEAD = ["examples/s", "CPU ms each", "peak MB"]


def cells(page):
    """Of the table, without the rule below its head."""
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    head, _, *rows = [line.split("|")[1:-1] for line in lines]
    return [[cell.strip() for cell in row] for row in (head, *rows)]


def waiting(args):
    """A contestant: see `worker.py`."""

    def run(num_steps):
        print("What is printed is no answer.")
        time.sleep(args.seconds * num_steps)
        return {"loss": args.loss}

    return run


def a_contestant(**settings):
    return contest.Contestant(
        "tests.tools.benchmarks.bench_test.waiting",
        {"seconds": 0.01, "loss": 2.0} | settings,
    )


@pytest.fixture
def toy(monkeypatch):
    benchmark = contest.Benchmark(
        summary="waiting",
        unit="examples",
        contestants={
            "slow": a_contestant(seconds=0.2),
            "quick": a_contestant(),
            "absent": contest.Contestant("none", packages=("no_package",)),
        },
        chosen=("slow", "absent", "quick"),
        against=("slow", "absent"),
        prepare=lambda args: {"first_loss": 2.0},
        flags={"batch_size": (8, "examples of a step")},
        per_step="batch_size",
    )
    monkeypatch.setitem(bench.BENCHMARKS, "toy", benchmark)


def test_contestants_take_turns_and_are_compared(toy, tmp_path, capsys):
    output = tmp_path / "new" / "toy.md"
    flags = ["--num_rounds=3", "--num-steps=2", f"--output={output}"]
    assert bench.main(["toy", *flags]) == 0
    page = output.read_text()
    head, slow, quick = cells(page)
    assert head == ["", *HEAD, "loss", "times slow", "by CPU"]
    assert slow[0] == "slow" and quick[0] == "quick"
    assert 0 < float(slow[1].split()[0]) <= 8 / 0.2
    assert float(slow[3]) > 1 and slow[4] == "2"
    assert float(quick[5].split()[0]) > 2
    captured = capsys.readouterr()
    assert "left out: absent, which needs no_package\n" in captured.err
    assert page in captured.out
    assert "batch_size=8, num_rounds=3, num_steps=2" in page


def test_turns_go_back_and_forth():
    calls = []

    def contestant(name):
        def call(num_steps):
            calls.append((name, num_steps))
            return {"seconds": 1.0}

        return call

    rounds = contest.take_turns({n: contestant(n) for n in "ab"}, 3, 2)
    assert rounds == {name: [{"seconds": 1.0}] * 2 for name in "ab"}
    assert calls == [("a", 3), ("b", 3), ("b", 3), ("a", 3)]


def answers(seconds, cpu_seconds, **more):
    more |= {"cpu_seconds": cpu_seconds, "amount": 8}
    return [{"seconds": s, "peak_mb": s} | more for s in seconds]


ROUNDS = {
    "original": answers([2.0, 4.0, 2.0], 3.0),
    "electra_tf": answers([1.0, 1.0, 2.0], 1.5, loss=0.7),
}


def test_figures_are_medians_of_rounds():
    page = contest.table(ROUNDS, ["original", "left_out"], "rows")
    assert cells(page) == [
        ["", "rows/s", *HEAD[1:], "loss", "times original", "by CPU"],
        ["original", "4 (3 to 4)", "375", "4", "", "", ""],
        ["electra_tf", "8 (6 to 8)", "188", "2", "0.7"]
        + ["2.00 (1.50 to 3.00)", "2.00"],
    ]


@pytest.mark.dear
@pytest.mark.parametrize(
    "flags",
    [
        "training --contestants=reference,electra_tf,products "
        "--batch_size=4 --max_seq_length=16",
        "replicas --contestants=mirrored,two_processes --batch_size=4 "
        "--max_seq_length=16",
        "finetuning --contestants=padded,electra_tf_bfloat16 --batch_size=4",
        "fine_tuning_whole --contestants=electra_tf_bfloat16 --num_rows=8 "
        "--num_epochs=1",
        "data --contestants=original,one_process,two_processes --megabytes=1 "
        "--reference_mb=0.05",
        "latency --contestants=litert,litert_int8,saved_model --num_steps=2",
    ],
)
def test_a_benchmark_measures(flags, tmp_path):
    output = tmp_path / "result.md"
    few = ("--tiny", "--num_rounds=1", "--num_warm_up_steps=1")
    command = (TOOL, *flags.split(), *few, f"--output={output}")
    result = helpers.execute(*command, timeout=900)
    assert result.returncode == 0, result.stderr
    _, *rows = cells(output.read_text())
    (names,) = re.findall(r"--contestants=(\S+)", flags)
    assert [row[0] for row in rows] == names.split(",")
    for row in rows:
        assert float(row[1].split()[0]) > 0
