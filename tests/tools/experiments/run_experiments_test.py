"""Tests of run_experiments.py: commands, the queue, tables, and one suite."""

import dataclasses
import json
import pathlib
import re
import shlex
import signal
import time

import pytest
import run_experiments
import run_queue
import suite_runs
import suite_table
from suites import SUITES

from electra_tf import errors, model_directory
from electra_tf.command_line import gin_files
from electra_tf.finetuning import configs as finetuning_configs
from electra_tf.model import ablations, costs
from tests import helpers

TINY = "gin/experiments/tiny.gin"


def options(suite="objectives", output_dir="out", **changes):
    values = {"tasks": ("rte", "cola"), "num_seeds": 2, "size_gin_file": TINY}
    values |= {"name": suite, "output_dir": str(output_dir)}
    values |= {"budget_flops": 1e12} | changes
    known = SUITES[suite].tasks
    values["tasks"] = {n: known[n] for n in values["tasks"]}
    return dataclasses.replace(SUITES[suite], **values)


def variants(suite, rows=(), **changes):
    found = suite_runs.variants(options(suite, **changes), rows)
    return {variant.row.name: variant for variant in found}


# --- Commands -----------------------------------------------------------------

_PRETRAINED = "build/experiments/runs/objectives/bert/6e12/seed_2/pretraining"
_OF_BERT = (
    "python -m electra_tf.run_pretraining "
    "--gin_file=gin/experiments/objectives/bert.gin "
    "--gin_file=gin/experiments/tiny.gin "
    "--gin_param=RunConfig.num_train_steps=3931 "
    "--gin_param=RunConfig.eval_steps=787 --gin_param=RunConfig.seed=2 "
    f"--model_dir={_PRETRAINED}",
    "python -m electra_tf.run_finetuning --gin_file=gin/finetune/rte.gin "
    "--gin_file=gin/experiments/finetuning/rte.gin "
    "--gin_file=gin/experiments/finetuning.gin "
    "--gin_param=FinetuningConfig.pooling='cls' --gin_param=RunConfig.seed=2 "
    f'--gin_param=FinetuningConfig.init_checkpoint="{_PRETRAINED}" '
    "--model_dir=build/experiments/runs/objectives/bert/6e12/seed_2/rte",
)
_OF_TFIDF = (
    "python tools/experiments/baselines.py "
    "--train_file=build/imdb/labelled/train_400.tsv "
    "--dev_file=build/imdb/labelled/dev.tsv "
    "--test_file=build/imdb/labelled/test.tsv "
    "--output_dir=build/imdb/runs/few_labels/tfidf/own_steps/400",
)


@pytest.mark.parametrize(
    ("suite", "row", "task", "expected"),
    [
        ("objectives", "bert", "rte", _OF_BERT),
        ("few_labels", "tfidf", "400", _OF_TFIDF),
    ],
)
def test_the_commands_of_a_row(suite, row, task, expected, capsys):
    """As they were typed for the figures of docs/results.md."""
    flags = ["--seeds=2", "--dry_run", f"--rows={row}", f"--tasks={task}"]
    assert run_experiments.main([f"--suite={suite}", *flags]) == 0
    lines = re.findall("^python .*", capsys.readouterr().out, re.M)
    of_last_seed = lines[-len(expected) :]
    assert [" ".join(shlex.split(line)) for line in of_last_seed] == [*expected]
    assert len(lines) == len(expected) * (2 if suite == "objectives" else 1)


def test_two_stages_start_from_each_other_and_share_the_budget():
    variant = variants("training_algorithms")["two_stage"]
    first, second = variant.stages
    assert not first.config.model.has_discriminator
    assert second.config.model.generator_training == "frozen"
    per_step = first.flops_per_step + second.flops_per_step
    assert {first.num_steps, second.num_steps} == {round(1e12 / per_step)}
    one, other, rte, _ = suite_runs.runs_of(variant, 2, options())
    assert other.config.init_checkpoint == one.model_dir
    assert other.config.init_generator_checkpoint == one.model_dir
    assert (one.needs, other.needs) == ((), (one.model_dir,))
    assert rte.config.init_checkpoint == other.model_dir
    for run in (one, other, rte):  # The plan loads what the command loads.
        flags = [flag.split("=", 1) for flag in run.command[2:]]
        params = [value for name, value in flags if name == "--gin_param"]
        files = [value for name, value in flags if name == "--gin_file"]
        params.append(f"RunConfig.model_dir='{dict(flags)['--model_dir']}'")
        assert gin_files.load(type(run.config), files, params) == run.config


def test_a_first_stage_is_the_run_of_another_row():
    changes = {"tasks": ("400",), "budget_flops": None}
    changes["size_gin_file"] = ""
    chosen = options("adaptation", num_seeds=5, **changes)
    found = variants("adaptation", ("general", "adapted_5"), **changes)
    general, adapted = (
        suite_runs.runs_of(variant, None, chosen) for variant in found.values()
    )
    assert general[0].command == adapted[0].command
    # One network for both parts.
    assert adapted[1].config.init_checkpoint == general[0].model_dir
    assert not adapted[1].config.init_generator_checkpoint
    assert adapted[2].config.init_checkpoint == adapted[1].model_dir
    assert (
        adapted[1].config.data.vocab_file == general[0].config.data.vocab_file
    )


def test_every_row_costs_the_budget():
    found = variants("objectives")
    assert found.pop("random_weights").flops == 0
    for variant in found.values():
        assert variant.flops == pytest.approx(1e12, rel=2e-3)
    (stage,) = found["electra"].stages
    networks = ablations.networks(stage.config.model)
    assert stage.flops_per_step == costs.of_pretraining_step(networks, 16)


def test_random_weights_are_fine_tuned_like_those_that_were_trained():
    found = variants("objectives", rows=("electra", "random_weights"))
    (pretraining, *trained), (same, *random) = (
        suite_runs.runs_of(variant, 2, options()) for variant in found.values()
    )
    assert pretraining.command == same.command
    for a, b in zip(trained, random, strict=True):
        assert a.needs == b.needs == (pretraining.model_dir,)
        assert (a.config.from_scratch, b.config.from_scratch) == (False, True)
        assert a.config.data == b.config.data
        assert a.model_dir != b.model_dir


def test_warm_up_keeps_its_share():
    (stage,) = variants("objectives", rows=("bert",))["bert"].stages
    assert stage.config.optimizer.warmup_proportion == 0.25
    # Without a budget a row has its own steps.
    found = variants("models", budget_flops=None, size_gin_file="")
    (stage,) = found["small"].stages
    assert stage.num_steps == 1000000
    assert stage.config.optimizer.warmup_steps(1000000) == 10000
    assert found["small"].folder == "out/models/small/own_steps"
    assert len(found) == len(SUITES["models"].rows)


# --- What is finished ---------------------------------------------------------


def write_finished(run, results):
    """A model directory as the entry point leaves it, or a baseline's."""
    folder = pathlib.Path(run.model_dir)
    folder.mkdir(parents=True, exist_ok=True)
    name = "results.json"
    if run.config is not None:
        record = json.dumps(model_directory.as_dict(run.config))
        (folder / "config.json").write_text(record)
        # What makes it a run that has learned something.
        (folder / "checkpoint").touch()
        if not isinstance(run.config, finetuning_configs.FinetuningConfig):
            name = "eval_results.json"
    (folder / name).write_text(json.dumps(results))


def runs_of_bert(folder, **changes):
    found = variants("objectives", rows=("bert",), output_dir=folder, **changes)
    return suite_runs.runs_of(found["bert"], 1, options(output_dir=folder))


def test_a_run_is_finished_when_its_results_exist(tmp_path):
    pretraining, rte, _ = runs_of_bert(tmp_path)
    assert not pretraining.is_finished() and not rte.is_finished()
    steps = pretraining.config.run.num_train_steps
    for step in (steps - 1, steps):
        write_finished(pretraining, {"step": step})
        assert pretraining.is_finished() == (step == steps)
    # One of two is repeated by another, which is still to come.
    trials = {"trials": [{"trial": 1}], "replaced_trials": [1]}
    write_finished(rte, trials)
    assert not rte.is_finished()
    write_finished(rte, {"trials": [{"trial": 1}]})
    assert rte.is_finished()
    params = ("ElectraConfig.mask_prob=0.2",)
    other, *_ = runs_of_bert(tmp_path, gin_params=params)
    with pytest.raises(errors.ConfigError, match="mask_prob=0.2"):
        other.is_finished()


# --- The queue ----------------------------------------------------------------


def make_run(folder, name, code, needs=()):
    """A run that only executes some Python."""
    needed = tuple(str(folder / other) for other in needs)
    command = ("-c", code)
    return suite_runs.Run(command, str(folder / name), needed, None, name)


def finish(folder):
    path = pathlib.Path(folder, "results.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('{"trials": [{"dev": {}}]}')


def test_runs_in_order_and_names_what_failed(tmp_path, capfd):
    trace = tmp_path / "trace"
    say = f"print(file=open({str(trace)!r}, 'a'), end="
    finish(tmp_path / "done")
    runs = [
        make_run(tmp_path, "c", f"{say}'c ')", ["b"]),
        make_run(tmp_path, "a", f"{say}'a ')"),
        make_run(tmp_path, "b", f"{say}'b ')", ["a", "done"]),
        make_run(tmp_path, "bad", "print('why'); raise SystemExit(1)"),
        make_run(tmp_path, "after", f"{say}'never')", ["bad"]),
        make_run(tmp_path, "killed", "import os; os.kill(os.getpid(), 9)"),
        make_run(tmp_path, "done", "raise SystemExit('again')"),
    ]
    assert run_queue.RunQueue(runs, parallel=2).execute() == 1
    assert trace.read_text() == "a b c "
    said = capfd.readouterr().err
    log = tmp_path / "bad.log"
    assert f"failed: bad: why ({log})" in said
    assert f"failed: after: needs {tmp_path / 'bad'}, which failed" in said
    assert "failed: killed: ended by signal 9; " in said
    assert re.search(r"experiments run 7/7 \| 3 failed \| ETA 0:00", said)
    assert log.read_text().endswith("why\n")
    assert not (tmp_path / "done.log").exists()


# --- Tables -------------------------------------------------------------------


def test_intervals_are_students():
    found = suite_table.summary([1.0, 2.0, 3.0])
    assert (found["mean"], found["stdev"], found["num_seeds"]) == (2.0, 1.0, 3)
    # 4.303 is the quantile of two degrees of freedom; 4.303 / sqrt(3) = 2.484.
    assert found["low"] == pytest.approx(2.0 - 2.484, abs=1e-3)
    assert found["high"] == pytest.approx(2.0 + 2.484, abs=1e-3)
    one = suite_table.summary([5.0])
    assert (one["mean"], one["low"]) == (5.0, None)
    assert suite_table.spread(found) == "2.0 +- 1.0 [-0.5, 4.5]"
    assert suite_table.difference(found) == "+2.0 [-0.5, +4.5]"
    clear = suite_table.summary([-3.0, -3.1])
    assert suite_table.difference(clear) == "**-3.0 [-3.7, -2.4]**"


def score(folder, suite, rows, **changes):
    """Writes scores: row -> seed -> score on RTE, and returns the table."""
    chosen = options(suite, folder, tasks=("rte",), **changes)
    for variant in suite_runs.variants(chosen):
        for seed, value in rows.get(variant.row.name, {}).items():
            for run in suite_runs.runs_of(variant, seed, chosen):
                if run.task:
                    trial = {"trial": 1, "dev": {"accuracy": value}}
                    write_finished(run, {"trials": [trial]})
                else:
                    results = {"step": run.config.run.num_train_steps}
                    write_finished(run, results | {"disc_auc": 0.75})
    return suite_table.collect(suite_runs.variants(chosen), chosen)


def test_a_table_of_what_is_there(tmp_path):
    rows = {"electra": {1: 60.0, 2: 62.0}, "bert": {1: 50.0, 2: 51.0}}
    results = score(tmp_path, "objectives", rows)
    rows = {}
    for line in suite_table.markdown(results).splitlines():
        if line.startswith("| "):
            name, *cells = [cell.strip() for cell in line.split("|")[1:-1]]
            rows[name] = cells
    of_electra = "61.0 +- 1.4 [48.3, 73.7]"
    of_bert = "50.5 +- 0.7 [44.1, 56.9]"
    minus = "**-10.5 [-16.9, -4.1]**"
    head = ["seeds", "mean", "mean minus electra", "rte, accuracy"]
    assert rows["row"] == [*head, "disc_auc", "steps", "FLOPs"]
    ended = [["0.750", "544", "9.99e11"], ["0.750", "655", "1e12"]]
    assert rows["electra"] == ["2", of_electra, "", of_electra, *ended[0]]
    assert rows["bert"] == ["2", of_bert, minus, of_bert, *ended[1]]


def test_a_baseline_without_seeds_is_compared_with_each_of_them(tmp_path):
    changes = {"size_gin_file": "", "budget_flops": None}
    chosen = options("few_labels", tmp_path, tasks=("100", "400"), **changes)
    found = suite_runs.variants(chosen)
    accuracies = {"pretrained": [80.0, 82.0], "tfidf": [75.0]}
    for variant in found:
        for run in suite_runs.runs_of(variant, None, chosen):
            if variant.row.name in accuracies and run.task:
                trials = [
                    {"trial": n, "test": {"accuracy": x}}
                    for n, x in enumerate(accuracies[variant.row.name], start=1)
                ]
                write_finished(run, {"trials": trials})
    results = suite_table.collect(found, chosen)
    pretrained, tfidf = results["rows"]
    assert pretrained["row"] == "pretrained" and tfidf["row"] == "tfidf"
    assert pretrained["minus_reference"]["100"]["mean"] == 6.0
    assert pretrained["minus_reference"]["mean"]["num_seeds"] == 2
    assert tfidf["statistics"]["400"]["stdev"] is None


# --- A suite from its data to its table ---------------------------------------

SIZES = f"""
    EncoderConfig.vocab_size={len(helpers.VOCAB)}
    EncoderConfig.max_position_embeddings={helpers.LENGTH}
    ElectraConfig.max_seq_length={helpers.LENGTH}
    EncoderConfig.hidden_size=16 EncoderConfig.embedding_size=16
    EncoderConfig.num_hidden_layers=1 EncoderConfig.intermediate_size=16
    PretrainingDataConfig.train_batch_size=2
    PretrainingDataConfig.eval_batch_size=2
    PretrainingDataConfig.num_eval_steps=1
    RunConfig.steps_per_loop=10 RunConfig.dtype_policy='float32'
""".split()


@pytest.mark.dear
def test_a_suite_is_killed_and_goes_on_to_its_table(tmp_path):
    pattern = helpers.write_tfrecords(
        tmp_path / "0.tfrecord", [helpers.row(number) for number in range(20)]
    )
    folder = tmp_path / "finetuning_data" / "sst"
    folder.mkdir(parents=True)
    lines = ["sentence\tlabel", *["a b\t1", "b c\t0"] * 4]
    for split in ("train", "dev"):
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    params = [
        *SIZES,
        f"PretrainingDataConfig.train_files='{pattern}'",
        f"PretrainingDataConfig.heldout_files='{pattern}'",
        f"PretrainingDataConfig.vocab_file='{helpers.write_vocab(tmp_path)}'",
    ]
    of_finetuning = [
        f"FinetuningDataConfig.data_dir='{tmp_path}'",
        f"FinetuningDataConfig.max_seq_length={helpers.LENGTH}",
        "FinetuningDataConfig.num_train_epochs=4.0",
    ]
    command = [
        *("tools/experiments/run_experiments.py", "--suite=objectives"),
        *("--rows=electra,random_weights", "--tasks=sst", "--seeds=1"),
        *("--budget_flops=6e7", "--parallel=2"),
        f"--output_dir={tmp_path / 'runs'}",
        *(f"--gin_param={param}" for param in params),
        *(f"--finetuning_gin_param={param}" for param in of_finetuning),
    ]
    process = helpers.start(*command)
    folder = tmp_path / "runs/objectives/electra/6e07/seed_1"
    metrics = folder / "pretraining" / "metrics.jsonl"
    while process.poll() is None and not metrics.exists():
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate()
    assert process.returncode == 75, said
    assert said.endswith("stopped; run again to go on\n")
    assert not (folder / "sst").exists()
    result = helpers.execute(*command)
    assert result.returncode == 0, result.stderr
    log = (folder / "pretraining.log").read_text()
    assert log.count("$ python -m electra_tf.run_pretraining") == 2
    runs = (folder / "pretraining" / "runs.jsonl").read_text().splitlines()
    assert len(runs) == 2
    results = helpers.read_json(tmp_path / "runs" / "objectives.json")
    electra, random_weights = results["rows"]
    assert electra["scores"]["sst"].keys() == {"1"}
    assert electra["heldout"]["disc_auc"] >= 0.0
    assert random_weights["minus_reference"]["sst"]["num_seeds"] == 1
    assert "| random_weights |" in result.stdout
    picture = tmp_path / "runs" / "objectives.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    # All of it is there now.
    log_size = (folder / "pretraining.log").stat().st_size
    assert helpers.execute(*command).returncode == 0
    assert (folder / "pretraining.log").stat().st_size == log_size


def test_a_run_of_another_configuration_is_left_out(tmp_path, capsys):
    rows = {"electra": {1: 60.0}, "bert": {1: 50.0}}
    score(tmp_path, "objectives", rows)
    params = ("FinetuningDataConfig.num_train_epochs=7.0",)
    results = score(tmp_path, "objectives", {}, finetuning_gin_params=params)
    assert not results["rows"]
    assert "not in the table: " in capsys.readouterr().err
