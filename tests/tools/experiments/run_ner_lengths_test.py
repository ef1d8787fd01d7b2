"""Tests of run_ner_lengths.py: its starts, its plan, and its table."""

import json

import ner_runs
import pytest
import run_ner_lengths
from ner_runs import SCRATCH, Setting

from electra_tf import model_directory

NAMES = ("electra/2.4e13", "bert/9.6e13")


@pytest.fixture
def starts(tmp_path):
    for name in NAMES:
        folder = tmp_path / "runs" / "objectives" / name / "seed_1"
        (folder / "pretraining").mkdir(parents=True)
        metrics = {"step": 7, "masked_lm_accuracy": 0.25}
        path = folder / "pretraining" / "eval_results.json"
        path.write_text(json.dumps(metrics))
    return run_ner_lengths.starts(NAMES, str(tmp_path / "runs"))


def options(folder):
    return ner_runs.FinetuningOptions(
        str(folder / "out"), "conll2003", (1, 2), (1000, 3000)
    )


def test_starts_are_runs_of_the_objectives(starts, tmp_path):
    assert [start.title for start in starts] == [
        "nothing",
        "ELECTRA, 2.4e13 FLOPs",
        "BERT, 9.6e13 FLOPs",
    ]
    folder = f"{tmp_path}/runs/objectives/electra/2.4e13/seed_1/pretraining"
    assert starts[0].model_dir == starts[1].model_dir == folder


@pytest.mark.parametrize("name", ["electra/9.6e13", "electra", "elektra/1e12"])
def test_a_start_that_is_not_there_is_one_line(name, starts, tmp_path, capsys):
    flags = [f"--starts={name}", f"--runs_dir={tmp_path}/runs"]
    flags += ["--conll_dir=c", f"--output_dir={tmp_path}/out"]
    assert run_ner_lengths.main(flags) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("run_ner_lengths: error: Expected starts such as ")
    assert f"Received: {name!r}, and no " in line
    assert not (tmp_path / "out").exists()


def test_rates_are_tried_without_the_test_part(starts, tmp_path):
    run = run_ner_lengths.choice_run(starts[0], options(tmp_path))
    assert run.model_dir == f"{tmp_path}/out/choices/{SCRATCH}"
    assert run.config.data.data_dir == f"{tmp_path}/out/data/3000"
    assert run.config.from_scratch and run.config.num_trials == 1
    assert run.config.learning_rates == (2e-4, 5e-4, 1e-3, 2e-3)
    assert run.config.data.num_train_epochs == 3.0
    assert run.needs == ()


def test_the_best_rate_is_compared(starts, tmp_path, monkeypatch):
    tried = [Setting(5e-4, 3.0, 40.0), Setting(1e-3, 3.0, 41.0)]
    monkeypatch.setattr(ner_runs, "settings_of", lambda run: tried)
    runs = run_ner_lengths.score_runs(starts, options(tmp_path))
    assert list(runs) == [
        (start.name, number) for number in (1000, 3000) for start in starts
    ]
    for (name, number), run in runs.items():
        assert run.model_dir == f"{tmp_path}/out/{number}/{name}"
        assert run.config.optimizer.learning_rate == 1e-3
        assert run.config.num_trials == 2 and run.config.run.seed == 1
        data_dir = f"{tmp_path}/out/data/{number}_with_test"
        assert run.config.data.data_dir == data_dir
        assert run.config.from_scratch == (name == SCRATCH)
    monkeypatch.setattr(ner_runs, "settings_of", lambda run: [])
    assert not run_ner_lengths.score_runs(starts, options(tmp_path))


def test_the_table_has_a_row_for_each_start(starts, tmp_path, monkeypatch):
    tried = [Setting(5e-4, 3.0, 40.0)]
    monkeypatch.setattr(ner_runs, "settings_of", lambda run: tried)
    runs = run_ner_lengths.score_runs(starts, options(tmp_path))
    for (name, number), run in runs.items():
        record = json.dumps(model_directory.as_dict(run.config))
        folder = tmp_path / "out" / str(number) / name
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(record)
        for seed in (1, 2):
            trial = {"seed": seed, "trial": seed, "learning_rate": 5e-4}
            f1 = number / 100 + seed + (name != SCRATCH)
            trial |= {"num_train_epochs": 3.0}
            trial["tasks"] = {"ner": {s: {"f1": f1} for s in ("dev", "test")}}
            (folder / f"trial_{seed}").mkdir()
            path = folder / f"trial_{seed}" / "results.json"
            path.write_text(json.dumps(trial))
        assert run.trials()
    figures = run_ner_lengths.collect(starts, options(tmp_path))
    assert figures["pretraining"]["bert_9.6e13"] == {
        "step": 7,
        "masked_lm_accuracy": 0.25,
    }
    table = run_ner_lengths.blocks(figures)["ner-lengths"]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table.splitlines()[2:]
    ]
    assert rows[0][:5] == ["1,000", "nothing", "5e-4", "3", "11.5 +- 0.7"]
    assert rows[1][1:6] == [
        *("ELECTRA, 2.4e13 FLOPs", "5e-4", "3", "12.5 +- 0.7"),
        "**+1.0 [+1.0, +1.0]**",
    ]
    assert [row[0] for row in rows] == ["1,000"] * 3 + ["3,000"] * 3
