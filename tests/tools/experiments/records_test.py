"""Tests of the record table: rows, runs, rules and tables; nothing trains."""

import json
import pathlib
import re

import fixed_corruption
import pytest
import records
import run_records
from records import Record

from electra_tf import configs, model_directory
from electra_tf.command_line import gin_files
from electra_tf.finetuning import configs as finetuning_configs
from tests import helpers

ROW = records.RECORDS[0]


@pytest.fixture
def in_the_repository(monkeypatch):
    monkeypatch.chdir(helpers.ROOT)


# --- Rows ---------------------------------------------------------------------


def test_rows_have_names_and_changes_of_their_own():
    for name in ("name", "change"):
        values = [getattr(record, name) for record in records.RECORDS]
        assert len(set(values)) == len(values)


def test_every_gin_file_is_that_of_a_row():
    used = {
        path
        for record in records.RECORDS
        for path in (record.pretraining_gin_file, record.finetuning_gin_file)
    }
    folder = helpers.ROOT / "gin" / "records"
    assert {f"gin/records/{p.name}" for p in folder.glob("*.gin")} == used


@pytest.mark.parametrize("record", records.RECORDS, ids=lambda r: r.name)
def test_data_and_task_are_the_same_for_all(record, in_the_repository):
    first = gin_files.load(
        configs.PretrainingConfig, [ROW.pretraining_gin_file]
    )
    ours = gin_files.load(
        configs.PretrainingConfig, [record.pretraining_gin_file]
    )
    assert ours.data.vocab_file == first.data.vocab_file
    assert ours.run.keep_best_metric == ""
    assert ours.run.eval_steps
    task = gin_files.load(
        finetuning_configs.FinetuningConfig, [record.finetuning_gin_file]
    ).data
    for split in ("train", "dev", "test"):
        path = f"build/quickstart/corpus/labelled/{split}.tsv"
        assert getattr(task, f"{split}_file") == path


def test_rows_are_named():
    assert records.named(()) == records.RECORDS
    assert records.named([ROW.name]) == (ROW,)
    with pytest.raises(ValueError, match="Expected some of the rows disc_we"):
        records.named(["last"])


# --- Runs ---------------------------------------------------------------------


def test_runs_of_a_row(in_the_repository, tmp_path):
    pretraining, finetuning = records.runs_of(ROW, 2, str(tmp_path))
    folder = tmp_path / ROW.pretraining / "seed_2"
    assert pretraining.model_dir == str(folder / "pretraining")
    assert pretraining.config.run.seed == 2
    assert pretraining.config.run.num_intra_op_threads == 1
    assert finetuning.model_dir == str(folder / ROW.finetuning)
    assert finetuning.needs == (pretraining.model_dir,)
    assert finetuning.config.init_checkpoint == pretraining.model_dir
    assert finetuning.config.num_trials == 1
    assert finetuning.command[-1] == f"--model_dir={finetuning.model_dir}"
    assert not finetuning.is_finished()


def test_a_pretraining_of_several_rows_is_run_once(in_the_repository, tmp_path):
    other = Record("other", ROW.pretraining, ROW.finetuning, "nothing")
    runs = run_records.all_runs((ROW, other), 2, str(tmp_path))
    assert len(runs) == 4
    # The first seed of all rows comes first.
    assert [run.config.run.seed for run in runs] == [1, 1, 2, 2]


def test_the_generator_that_judges_is_trained_for_any_row(
    in_the_repository, tmp_path
):
    rows = records.named(["wide"])
    judge, *runs = run_records.all_runs(rows, 1, str(tmp_path))
    folder = tmp_path / records.RECORDS[0].pretraining / "seed_1"
    assert judge.model_dir == str(folder / "pretraining")
    assert [run.model_dir.split("/")[-3] for run in runs] == ["wide", "wide"]


def test_without_data_nothing_starts(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gin").symlink_to(helpers.ROOT / "gin")
    assert run_records.main(["--rows=first"]) == 1
    error = capsys.readouterr().err
    assert "no build/quickstart/vocab.txt; run electra-tf quickstart" in error


def test_a_dry_run_prints_commands(in_the_repository, capsys):
    assert run_records.main(["--rows=first", "--seeds=1", "--dry_run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "# first seed 1: to run"
    assert lines[1].startswith("python -m electra_tf.run_pretraining --gin_fi")


def test_without_the_first_row_there_is_no_text_to_judge_by(tmp_path, capsys):
    assert fixed_corruption.main([f"--output_dir={tmp_path}"]) == 1
    assert "Expected the generator of the first row" in capsys.readouterr().err


# --- Figures ------------------------------------------------------------------


def line(step, auc, accuracy, split="heldout"):
    return {
        "step": step,
        "split": split,
        "disc_auc": auc,
        "masked_lm_accuracy": accuracy,
    }


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ([line(100, 0.7, 0.3), line(200, 0.8, 0.3), line(400, 0.9, 0.3)], 5.0),
        # A generator that is too weak does not count, nor does training.
        ([line(100, 0.9, 0.1), line(400, 0.9, 0.3)], 10.0),
        ([line(100, 0.9, 0.3, "train"), line(400, 0.9, 0.3)], 10.0),
        ([line(100, 0.7, 0.3)], None),
    ],
)
def test_minutes_to_the_target(log, expected):
    assert records.minutes_to_target(log, 10.0) == expected


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value) + "\n")


@pytest.fixture
def runs_dir(tmp_path):
    """Two finished seeds of the first row, and one without fine-tuning."""
    for seed in (1, 2, 3):
        runs = records.runs_of(ROW, seed, str(tmp_path / "runs"))
        for run in runs[: 1 if seed == 3 else 2]:
            record = model_directory.as_dict(run.config)
            write(pathlib.Path(run.model_dir, "config.json"), record)
            pathlib.Path(run.model_dir, "checkpoint").touch()
        folder = tmp_path / "runs" / ROW.pretraining / f"seed_{seed}"
        pretraining = folder / "pretraining"
        evaluation = line(6000, 0.75 + seed / 20, 0.25)
        del evaluation["split"]
        write(pretraining / "eval_results.json", evaluation)
        write(pretraining / "metrics.jsonl", line(100, 0.7, 0.25, "train"))
        write(
            pretraining / "runs.jsonl",
            {
                "time": f"2026-11-2{seed}T10:00:00+0000",
                "argv": ["run.py", "--a=b"],
                "git_commit": "0123456789abcdef",
            },
        )
        write(folder / "pretraining.cost.json", {"cpu_seconds": 120.0})
        if seed == 3:
            continue
        write(pretraining / "fixed_corruption.json", {"auc": 0.7})
        scores = {"dev": {"accuracy": 50.0}, "test": {"accuracy": 50.0 + seed}}
        write(folder / ROW.finetuning / "results.json", {"trials": [scores]})
        write(folder / f"{ROW.finetuning}.cost.json", {"cpu_seconds": 30.0})
    trials = [{"dev": {"accuracy": 40.0}, "test": {"accuracy": 44.0}}] * 3
    quickstart = tmp_path / "quickstart"
    write(quickstart / "finetune_from_scratch/results.json", {"trials": trials})
    (quickstart / "query.txt").write_text("scipy  0.489  Sort.\n")
    write(
        tmp_path / "runs" / records.LATENT_FILE,
        {"dev_accuracy": 61.25, "test_accuracy": 60.5, "strength": 0.1},
    )
    labelled = quickstart / "corpus" / "labelled"
    labelled.mkdir(parents=True)
    for split in ("train", "dev", "test"):
        rows = [("sort the rows", "pandas"), ("draw a line", "matplotlib")]
        helpers.write_tsv(labelled / f"{split}.tsv", rows)
    return tmp_path


def test_what_is_finished_is_collected(runs_dir):
    figures = records.collect(
        str(runs_dir / "runs"), str(runs_dir / "quickstart")
    )
    (row,) = figures["rows"]
    assert row["name"] == ROW.name
    assert sorted(row["seeds"]) == ["1", "2"]
    first, second = row["seeds"].values()
    assert first["commit"] == "0123456"
    assert first["date"] == "2026-11-21"
    assert first["cpu_minutes"] == 2.0
    assert first["finetuning_cpu_minutes"] == 0.5
    assert first["minutes_to_target"] == 2.0
    assert (second["dev"], second["test"]) == (50.0, 52.0)
    assert row["means"]["test"] == 51.5
    assert row["means"]["fixed_auc"] == 0.7
    assert figures["baseline"]["test_accuracy"] == 100.0
    assert figures["quickstart"] == {
        "random weights": {"dev": [40.0] * 3, "test": [44.0] * 3},
        "answers": ["scipy  0.489  Sort."],
    }
    tables = records.blocks(figures)
    assert "51.5 +- 0.7" in tables["records"]
    cells = tables["quickstart"].splitlines()[2].strip("| ").split(" | ")
    assert [cell.strip() for cell in cells] == [
        "random weights",
        "3",
        "40.0 +- 0.0",
        "44.0 +- 0.0",
    ]
    assert "| LSA, logistic regression " in tables["quickstart"]
    assert re.search(r"\| 61\.2 +\| 60\.5 +\|", tables["quickstart"])


def test_of_some_seeds_the_table_says_how_many():
    assert records.spread([1.0, None], 1) == "1.0 (1 seed)"
    assert records.spread([1.0, 2.0], 1) == "1.5 +- 0.7"
    assert records.spread([], 1) == ""


# --- Figures of another time --------------------------------------------------


def collected(runs_dir):
    return records.collect(str(runs_dir / "runs"), str(runs_dir / "quickstart"))


def test_seeds_that_were_measured_are_not_run_again(
    in_the_repository, tmp_path
):
    rows = records.named(["first", "one_rate", "stable"])
    earlier = {
        "rows": [
            {"name": "first", "seeds": {"1": {}}},
            {"name": "stable", "seeds": {"1": {}, "2": {}}},
        ]
    }
    runs = run_records.all_runs(rows, 2, str(tmp_path), earlier)
    assert [
        (pathlib.Path(run.model_dir).relative_to(tmp_path)).as_posix()
        for run in runs
    ] == [
        # Its generator judges all.
        "first/seed_1/pretraining",
        "first/seed_1/one_rate",
        "first/seed_2/pretraining",
        "first/seed_2/first_finetuning",
        "first/seed_2/one_rate",
    ]


def test_earlier_figures_stand_beside_new_ones(runs_dir, tmp_path):
    figures = collected(runs_dir)
    (row,) = figures["rows"]
    third = row["seeds"]["2"] | {"test": 99.0, "commit": "earlier"}
    stable = {
        "name": "stable",
        "pretraining": "stable",
        "finetuning": "one_rate",
        "change": "warm-up, stable, decay",
    }
    earlier = figures | {
        "rows": [
            stable | {"seeds": {"1": third}},
            row | {"seeds": {"2": third, "3": third}},
        ],
        "quickstart": {"pre-trained": {"dev": [60.0], "test": [61.0]}},
        "pilots": {"dev": 12.5},
    }
    write(tmp_path / "earlier.json", earlier)
    merged = records.merged(
        records.read_earlier(str(tmp_path / "earlier.json")), figures, "e.json"
    )
    first, last = merged["rows"]
    assert (first["name"], last["name"]) == (ROW.name, "stable")
    # The new one where both have a seed.
    tests = {seed: of["test"] for seed, of in first["seeds"].items()}
    assert tests == {"1": 51.0, "2": 52.0, "3": 99.0}
    assert first["means"]["test"] == pytest.approx((51.0 + 52.0 + 99.0) / 3)
    assert merged["pilots"] == {"dev": 12.5}
    assert set(merged["quickstart"]) == {
        "pre-trained",
        "random weights",
        "answers",
    }
    assert "0123456, earlier" in records.blocks(merged)["records"]


def test_earlier_figures_of_other_texts_are_refused(runs_dir):
    figures = collected(runs_dir)
    other = figures | {
        "baseline": figures["baseline"] | {"test_accuracy": 54.1}
    }
    with pytest.raises(
        ValueError,
        match=r"same labelled texts in e\.json.*is 54\.1, and is 100",
    ):
        records.merged(other, figures, "e.json")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"name": "last"}, "Received: last, of the gin files first, first_f"),
        ({"finetuning": "one_rate"}, "Received: first, of the gin files first"),
        ({"seeds": 3}, "Expected figures of the record table"),
    ],
)
def test_earlier_figures_of_another_table_are_refused(
    runs_dir, tmp_path, capsys, in_the_repository, change, expected
):
    figures = collected(runs_dir)
    figures["rows"][0] |= change
    path = tmp_path / "earlier.json"
    write(path, figures)
    assert run_records.main([f"--earlier={path}", "--table_only"]) == 1
    error = capsys.readouterr().err
    assert expected in error and str(path) in error
