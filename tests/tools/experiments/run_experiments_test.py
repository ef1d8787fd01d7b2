"""Tests of run_experiments.py: the plan, the queue, and the flags."""

import json
import os
import pathlib
import re
import shutil
import signal
import threading
import time

import experiment_queue
import experiment_runs
import pytest
import run_experiments
from experiment_suites import SUITES, TASKS

from electra_tf import configs, model_directory
from electra_tf.command_line import gin_files
from electra_tf.finetuning import configs as finetuning_configs
from electra_tf.model import ablations, costs
from tests import helpers

TINY = "gin/experiments/tiny.gin"


def options(output_dir="out", **changes):
    values = {
        "size_gin_file": TINY,
        "output_dir": str(output_dir),
        "tasks": ("rte", "cola"),
        "seeds": (1, 2),
    }
    return experiment_runs.Options(**(values | changes))


def variants(suite, budget=1e12, rows=(), **changes):
    return {
        variant.row.name: variant
        for variant in experiment_runs.variants(
            suite, (budget,) if budget else (), options(**changes), rows
        )
    }


# --- Suites -------------------------------------------------------------------


@pytest.mark.parametrize("name", SUITES)
def test_a_suite_has_its_files(name):
    suite = SUITES[name]
    names = [row.name for row in suite.rows]
    assert len(set(names)) == len(names)
    assert suite.reference in names
    for row in suite.rows:
        for gin_file in (row.gin_file, row.first_stage or row.gin_file):
            path = helpers.ROOT / "gin" / "experiments" / f"{gin_file}.gin"
            assert path.is_file(), path


def test_a_suite_quotes_what_its_files_quote():
    for suite in SUITES.values():
        for row in suite.rows:
            path = helpers.ROOT / "gin" / "experiments" / f"{row.gin_file}.gin"
            if row.paper is not None:
                assert f"GLUE {row.paper} on the dev sets" in path.read_text()


def test_scores_are_what_the_tasks_report():
    from electra_tf.finetuning.tasks import by_name

    # Files of one's own have macro_f1 as their first figure; reviews, of which
    # half are good, are scored by accuracy everywhere.
    for name in TASKS.keys() - {"imdb"}:
        assert by_name.get_task(name, "").main_metric == TASKS[name].metric


# --- Equal compute ------------------------------------------------------------


def test_every_row_costs_the_budget():
    found = variants("objectives") | variants("training_algorithms")
    assert found.pop("random_weights").flops == 0
    for variant in found.values():
        assert variant.flops == pytest.approx(1e12, rel=2e-3)
    electra = found["electra"].stages[0]
    assert electra.flops_per_step == costs.of_pretraining_step(
        ablations.networks(electra.config.model), 16
    )
    assert electra.config.run.num_train_steps == round(
        1e12 / electra.flops_per_step
    )


def test_random_weights_are_fine_tuned_like_those_that_were_trained():
    found = variants("objectives", rows=("electra", "random_weights"))
    pretraining, *theirs = runs_of(found["electra"])
    ours = runs_of(found["random_weights"])
    for a, b in zip(theirs, ours, strict=True):
        assert a.needs == b.needs == (pretraining.model_dir,)
        assert (a.config.from_scratch, b.config.from_scratch) == (False, True)
        assert a.config.data == b.config.data
        assert a.config.optimizer == b.config.optimizer
        assert a.model_dir != b.model_dir


def runs_of(variant):
    return experiment_runs.runs_of(variant, 2, options())


def test_two_stages_have_as_many_steps():
    variant = variants("training_algorithms")["two_stage"]
    first, second = variant.stages
    assert first.name == "first_stage"
    assert not first.config.model.has_discriminator
    assert second.config.model.generator_training == "frozen"
    steps = {stage.config.run.num_train_steps for stage in variant.stages}
    per_step = first.flops_per_step + second.flops_per_step
    assert steps == {round(1e12 / per_step)}


def test_warm_up_keeps_its_share():
    tiny = variants("objectives", rows=("bert",))["bert"].stages[0].config
    assert tiny.optimizer.warmup_proportion == 0.25
    whole = variants("objectives", rows=("bert",), size_gin_file="")
    optimizer = whole["bert"].stages[0].config.optimizer
    # 10,000 of the million steps of its file.
    assert optimizer.warmup_proportion == 0.01


def test_a_warm_up_that_is_longer_than_the_training_stays_so():
    found = variants(
        "objectives",
        rows=("bert",),
        gin_params=("OptimizerConfig.num_warmup_steps=2000000",),
        size_gin_file="",
    )
    config = found["bert"].stages[0].config
    steps = config.run.num_train_steps
    assert config.optimizer.warmup_steps(steps) == 2 * steps


def test_without_a_budget_a_row_has_its_own_steps():
    found = variants("models", budget=None, size_gin_file="")
    (stage,) = found["small"].stages
    assert stage.config.run.num_train_steps == 1000000
    assert stage.config.optimizer.warmup_steps(1000000) == 10000
    assert found["small"].folder == "out/models/small/own_steps"
    assert len(found) == len(SUITES["models"].rows)


def test_an_evaluation_after_every_fifth():
    config = variants("objectives")["electra"].stages[0].config
    steps = config.run.num_train_steps
    assert 4 * config.run.eval_steps < steps <= 5 * config.run.eval_steps
    other = variants("objectives", gin_params=("RunConfig.eval_steps=7",))
    assert other["electra"].stages[0].config.run.eval_steps == 7


def test_what_suites_have_in_common_is_trained_once(capsys):
    found = variants("training_algorithms") | variants("newer_ideas")
    electra = "out/objectives/electra/1e12"
    assert found["joint"].folder == found["electra"].folder == electra
    assert found["bert"].folder == "out/objectives/bert/1e12"
    adversarial = "out/training_algorithms/adversarial/1e12"
    assert found["adversarial"].folder == adversarial
    # Of other steps and sizes, which tiny.gin replaces.
    assert "base_plus_plus" not in variants("models")
    assert (
        "base_plus_plus is, at this size, the same" in capsys.readouterr().err
    )


def test_commands_load_to_what_is_expected_of_them():
    """The plan judges model directories by configurations of its own."""
    (variant,) = variants("training_algorithms", rows=("two_stage",)).values()
    runs = experiment_runs.runs_of(variant, 2, options())
    assert [run.title.split()[-1] for run in runs] == [
        "first_stage",
        "pretraining",
        "rte",
        "cola",
    ]
    for run in runs:
        _, module, *flags = run.command
        values = [flag.split("=", 1) for flag in flags]
        loaded = gin_files.load(
            type(run.config),
            [value for name, value in values if name == "--gin_file"],
            [value for name, value in values if name == "--gin_param"]
            + [f"RunConfig.model_dir='{dict(values)['--model_dir']}'"],
        )
        assert loaded == run.config
        assert loaded.run.seed == 2
        assert module.endswith(
            "pretraining"
            if isinstance(run.config, configs.PretrainingConfig)
            else "finetuning"
        )
    first, second, rte, _ = runs
    folder = "out/training_algorithms/two_stage/1e12/seed_2/"
    assert first.model_dir == f"{folder}first_stage"
    assert second.config.init_checkpoint == first.model_dir
    assert second.config.init_generator_checkpoint == first.model_dir
    assert (first.needs, second.needs) == ((), (first.model_dir,))
    assert rte.needs == (second.model_dir,)
    assert rte.config.init_checkpoint == second.model_dir
    assert rte.config.num_trials == 1
    assert rte.config.data.num_train_epochs == 3.0


def test_heads_that_read_a_mean_have_folders_of_their_own():
    tasks = {"tasks": ("rte", "imdb", "ner")}
    (variant,) = variants("objectives", rows=("bert",)).values()
    pretraining, *of_cls = experiment_runs.runs_of(variant, 1, options(**tasks))
    same, *of_mean = experiment_runs.runs_of(
        variant, 1, options(**tasks, pooling="mean")
    )
    assert pretraining == same
    names = [pathlib.Path(run.model_dir).name for run in of_mean]
    # Tags are of every token anyway.
    assert names == ["rte_mean", "imdb_mean", "ner"]
    assert [run.config.pooling for run in of_mean] == ["mean", "mean", "cls"]
    assert [run.kind for run in of_mean] == ["rte", "imdb", "ner"]
    assert {run.config.pooling for run in of_cls} == {"cls"}
    assert of_cls[-1] == of_mean[-1]


def test_a_task_reads_a_whole_text_or_every_token():
    from electra_tf.finetuning.tasks import by_name, text_tasks

    for name in TASKS.keys() - {"imdb"}:
        task = by_name.get_task(name, "")
        whole = isinstance(task, text_tasks.TextTask)
        assert whole == TASKS[name].of_whole_text


# --- What is finished ---------------------------------------------------------


def write_finished(run, **content):
    """A model directory as the entry point leaves it."""
    folder = pathlib.Path(run.model_dir)
    folder.mkdir(parents=True)
    record = json.dumps(model_directory.as_dict(run.config))
    (folder / "config.json").write_text(record)
    # What makes it a run that has learned something.
    (folder / "checkpoint").write_text("")
    is_finetuning = isinstance(run.config, finetuning_configs.FinetuningConfig)
    name = "results.json" if is_finetuning else "eval_results.json"
    (folder / name).write_text(json.dumps(content))


def test_a_finished_run_is_told_by_its_last_step(tmp_path):
    (variant,) = variants(
        "objectives", rows=("bert",), output_dir=tmp_path
    ).values()
    run = experiment_runs.runs_of(variant, 1, options(tmp_path))[0]
    assert not run.is_finished()
    write_finished(run, step=run.num_train_steps - 1)
    assert not run.is_finished()
    results = pathlib.Path(run.model_dir, "eval_results.json")
    results.write_text(json.dumps({"step": run.num_train_steps}))
    assert run.is_finished()
    (other,) = variants(
        "objectives",
        rows=("bert",),
        output_dir=tmp_path,
        gin_params=("ElectraConfig.mask_prob=0.2",),
    ).values()
    other_run = experiment_runs.runs_of(other, 1, options(tmp_path))[0]
    with pytest.raises(ValueError, match=r"mask_prob=0.2 \(was 0.15\)"):
        other_run.is_finished()


def test_steps_of_a_run_under_way(tmp_path):
    (variant,) = variants(
        "objectives", rows=("bert",), output_dir=tmp_path
    ).values()
    run = experiment_runs.runs_of(variant, 1, options(tmp_path))[0]
    assert run.step() == 0
    path = pathlib.Path(run.model_dir, "metrics.jsonl")
    path.parent.mkdir(parents=True)
    path.write_text('{"step": 50}\n{"step": 100}\n{"st')
    assert run.step() == 100


# --- The queue ----------------------------------------------------------------


def make_run(folder, name, code, needs=()):
    """A run that only executes some Python."""
    config = configs.PretrainingConfig(
        helpers.electra_config(),
        configs.PretrainingDataConfig("*", "vocab.txt"),
        configs.OptimizerConfig(1e-3),
        helpers.run_config(folder / name),
    )
    needed = tuple(str(folder / other) for other in needs)
    return experiment_runs.Run(name, ("-c", code), config, needed, "kind", 1.0)


def test_runs_in_order_and_names_what_failed(tmp_path, capfd):
    trace = tmp_path / "trace"
    say = f"print(file=open({str(trace)!r}, 'a'), end="
    runs = [
        make_run(tmp_path, "c", f"{say}'c ')", ["b"]),
        make_run(tmp_path, "a", f"{say}'a ')"),
        make_run(tmp_path, "b", f"{say}'b ')", ["a"]),
        make_run(tmp_path, "bad", "print('why'); raise SystemExit(1)"),
        make_run(tmp_path, "after", f"{say}'never')", ["bad"]),
    ]
    failures = experiment_queue.Queue(runs, parallel=2).execute()
    assert trace.read_text() == "a b c "
    assert [failure.run.title for failure in failures] == ["bad", "after"]
    log = tmp_path / "bad.log"
    assert failures[0].reason == f"why ({log})"
    assert log.read_text().endswith("raise SystemExit(1)\nwhy\n")
    assert failures[1].reason == f"needs {tmp_path / 'bad'}, which failed"
    assert f"failed: bad: why ({log})" in capfd.readouterr().err
    cost = runs[0].cost()
    assert cost["cpu_seconds"] > 0 and 0 < cost["seconds"] < 60


def test_what_was_made_from_a_run_that_is_gone_is_not_kept(tmp_path):
    runs = [
        make_run(tmp_path, "a", "print('trained anew')"),
        make_run(tmp_path, "b", "raise SystemExit('again')", ["a"]),
    ]
    runs[0].add_cost(seconds=1e6, cpu_seconds=1e6)
    write_finished(runs[1])
    (tmp_path / "b" / "model.ckpt-8.index").touch()
    (failure,) = experiment_queue.Queue(runs, parallel=2).execute()
    assert failure.run is runs[0]
    assert failure.reason == (
        f"{tmp_path / 'b'} was made from a run that is gone: move it away, "
        f"too, or bring {tmp_path / 'a'} back"
    )
    shutil.rmtree(tmp_path / "b")
    assert not experiment_queue.Queue(runs[:1], parallel=2).execute()
    # What the other one took is not its cost.
    assert runs[0].cost()["cpu_seconds"] < 60


def test_a_run_that_was_ended_is_told_by_its_signal(tmp_path):
    log = tmp_path / "a.log"
    log.write_text("step 5\n")
    last = experiment_queue._last_line
    assert last(str(log), -9) == f"ended by SIGKILL; step 5 ({log})"
    assert last(str(log), -40) == f"ended by signal 40; step 5 ({log})"


def test_a_finished_run_is_not_run_again(tmp_path):
    run = make_run(tmp_path, "a", "raise SystemExit('again')")
    write_finished(run)
    (tmp_path / "a" / "model.ckpt-8.index").touch()
    assert experiment_queue.Queue([run], 1).execute() == []
    assert not (tmp_path / "a.log").exists()


def test_a_run_that_has_just_ended_when_it_is_to_stop(tmp_path):
    """Its status and its cost are still there to be collected."""
    run = make_run(tmp_path, "a", "print('done')")
    queue = experiment_queue.Queue([run], 1)
    queue._start_some()
    ((process, _),) = queue.running.values()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    queue._stop(signal.SIGTERM, None)
    queue._collect()
    assert not queue.running and not queue.failures
    assert run.cost()["cpu_seconds"] > 0
    assert queue.exit_code() == 75


TRAINS = """
import pathlib, time
pathlib.Path({trace!r}).open("a").write("x")
time.sleep(0.5)
pathlib.Path({folder!r}, "model.ckpt-8.index").touch()
"""


def test_two_queues_share_a_run(tmp_path):
    """One trains it; the other waits for it and goes on from there."""
    trace, folder = str(tmp_path / "trace"), str(tmp_path / "a")
    run = make_run(tmp_path, "a", TRAINS.format(trace=trace, folder=folder))
    write_finished(run)
    code = f"open({trace!r}, 'a').write('y')"
    after = make_run(tmp_path, "b", code, ["a"])
    one = experiment_queue.Queue([run], 1)
    other = experiment_queue.Queue([run, after], 1)
    one._start_some()
    assert other.execute() == []
    assert pathlib.Path(trace).read_text() == "xy"
    assert one.execute() == []


def test_the_remaining_time_follows_from_what_is_done(tmp_path):
    runs = [make_run(tmp_path, name, "") for name in "abc"]
    queue = experiment_queue.Queue(runs, parallel=2)
    assert queue._progress() == "runs 0/3 | ETA ?"
    write_finished(runs[0])
    (tmp_path / "a" / "model.ckpt-8.index").touch()
    runs[0].add_cost(seconds=40.0, cpu_seconds=1.0)
    runs[0].add_cost(seconds=20.0, cpu_seconds=1.0)  # It was interrupted.
    queue = experiment_queue.Queue(runs, parallel=2)
    assert queue._progress() == "runs 1/3 | ETA 1:00"


def test_what_was_done_before_counts_with_the_time_that_it_took(tmp_path):
    run = make_run(tmp_path, "a", "")
    queue = experiment_queue.Queue([run], parallel=1)
    write_finished(run)
    (tmp_path / "a" / "metrics.jsonl").write_text('{"step": 2}\n')
    run.add_cost(seconds=100.0, cpu_seconds=90.0)
    queue.waiting.remove(run)
    queue.running[run] = (None, time.monotonic())
    assert queue._progress() == "runs 0/1 | a 2/8 | ETA 5:00"


WAITS = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
pathlib.Path({ready!r}).touch()
time.sleep(60)
"""


def test_a_request_to_stop_is_passed_on(tmp_path, capfd):
    ready = tmp_path / "ready"

    def stop():
        while not ready.exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    runs = [
        make_run(tmp_path, "a", WAITS.format(ready=str(ready))),
        make_run(tmp_path, "b", "raise SystemExit('never')"),
    ]
    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=stop)
    thread.start()
    queue = experiment_queue.Queue(runs, parallel=1)
    assert queue.execute() == []
    thread.join()
    assert queue.was_stopped
    assert not (tmp_path / "b.log").exists()
    assert signal.getsignal(signal.SIGTERM) is before
    assert "SIGTERM: waiting for 1 run(s) to save" in capfd.readouterr().err


# --- The command --------------------------------------------------------------


def test_a_dry_run_says_what_there_is_to_do(tmp_path, capsys):
    arguments = [
        "--suite=objectives",
        "--rows=electra,bert",
        "--budget_flops=1e12,2e12",
        "--seeds=2",
        "--tasks=rte",
        f"--output_dir={tmp_path}",
        "--dry_run",
    ]
    assert run_experiments.main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith("| objectives | electra | 544 ")
    titles = [line for line in lines if line.startswith("# ")]
    # The first seed of all rows and budgets comes first.
    assert titles[:3] == [
        "# electra 1e12 seed 1 pretraining: to run",
        "# electra 1e12 seed 1 rte: to run",
        "# bert 1e12 seed 1 pretraining: to run",
    ]
    assert titles[8] == "# electra 1e12 seed 2 pretraining: to run"
    assert len(titles) == 2 * 2 * 2 * 2
    assert not list(tmp_path.iterdir())


def test_what_earlier_figures_have_is_not_run_again(tmp_path, capsys):
    figures = {
        "suite": "objectives",
        "reference": "electra",
        "tasks": ["rte"],
        "rows": [
            {
                "row": name,
                "title": name,
                "budget_flops": 1e12,
                "num_train_steps": [544],
                "flops": 1e12,
                "paper": None,
                "score": {"mean": 60.0, "stdev": None, "low": None},
                "tasks": {"rte": None},
                "heldout": {},
                "seeds": {
                    seed: {
                        "tasks": {"rte": 60.0},
                        "score": 60.0,
                        "cpu_seconds": None,
                    }
                    for seed in seeds
                },
            }
            for name, seeds in (("electra", "12"), ("bert", "1"))
        ],
    }
    path = tmp_path / "figures.json"
    path.write_text(json.dumps(figures))

    def titles(rows):
        arguments = [
            "--suite=objectives",
            f"--rows={rows}",
            "--budget_flops=1e12",
            "--seeds=3",
            "--tasks=rte",
            f"--output_dir={tmp_path}/runs",
            f"--earlier={path}",
            "--dry_run",
        ]
        assert run_experiments.main(arguments) == 0
        return re.findall("# (.*): to run", capsys.readouterr().out)

    assert titles("electra,bert") == [
        "bert 1e12 seed 2 pretraining",
        "bert 1e12 seed 2 rte",
        "electra 1e12 seed 3 pretraining",
        "electra 1e12 seed 3 rte",
        "bert 1e12 seed 3 pretraining",
        "bert 1e12 seed 3 rte",
    ]
    # Random weights have the sizes of what was trained, which has to be there.
    assert titles("electra,random_weights")[:2] == [
        "electra 1e12 seed 1 pretraining",
        "random_weights 1e12 seed 1 rte",
    ]
    assert titles("random_weights") == [
        f"random_weights 1e12 seed {seed} {what}"
        for seed in (1, 2, 3)
        for what in ("pretraining", "rte")
    ]


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--rows=bret"], "Expected one of the rows electra, all_tokens_mlm"),
        (["--tasks=mnli"], "Expected tasks among cola, .* Received: mnli"),
        (
            ["--gin_param=RunConfig.num_train_steps=5"],
            "Expected either --budget_flops, which decides the steps, or",
        ),
        (["--size_gin_file=tny.gin"], "Expected a gin file at tny.gin"),
        (
            ["--gin_param=RunConfig.seed = 7"],
            "Expected bindings of what the comparison leaves open. Received: "
            "RunConfig.seed = 7",
        ),
        (
            ["--finetuning_gin_param=RunConfig.model_dir='a'"],
            "Expected bindings of what the comparison leaves open.",
        ),
        (
            ["--finetuning_gin_param=FinetuningConfig.pooling='mean'"],
            "Expected bindings of what the comparison leaves open.",
        ),
        (["--suite=all", "--earlier=f.json"], "Expected one --suite with"),
        (["--earlier=f.json"], "Cannot read f.json: "),
        (["--gin_param=RunConfig.seeed=1"], "RunConfig has no parameter seeed"),
    ],
)
def test_a_mistake_is_one_line(flags, message, tmp_path, capsys):
    given = ["--suite=objectives", "--budget_flops=1e12", *flags]
    assert run_experiments.main([*given, f"--output_dir={tmp_path}/out"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert re.match(f"run_experiments: error: {message}", line), line
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("budget", ["-1", "12345678000000"])
def test_a_budget_is_positive_and_a_folders_name(budget, capsys):
    with pytest.raises(SystemExit):
        run_experiments.main(
            ["--suite=objectives", f"--budget_flops=1e12,{budget}"]
        )
    assert (
        "expected positive numbers of at most six digits"
        in capsys.readouterr().err
    )


def test_a_failed_run_ends_in_a_table_and_an_error(
    tmp_path, capfd, monkeypatch
):
    """Nothing is trained: the entry points are told of no file."""
    monkeypatch.setattr(
        experiment_runs,
        "_command",
        lambda *_: ("-c", "import sys; sys.exit('no data')"),
    )
    arguments = [
        "--suite=objectives",
        "--rows=bert",
        "--budget_flops=1e12",
        "--seeds=1",
        "--tasks=rte",
        f"--output_dir={tmp_path}",
    ]
    (variant,) = variants(
        "objectives", rows=("bert",), output_dir=tmp_path, tasks=("rte",)
    ).values()
    run = experiment_runs.runs_of(variant, 1, options(tmp_path))[0]
    write_finished(run, step=run.num_train_steps, masked_lm_accuracy=0.25)
    assert run_experiments.main(arguments) == 1
    output = capfd.readouterr()
    assert "| BERT | 0     |" in output.out
    assert output.err.splitlines()[-1].startswith(
        "failed: bert 1e12 seed 1 rte: no data ("
    )
    results = helpers.read_json(tmp_path / "objectives" / "results.json")
    (row,) = results["rows"]
    assert row["heldout"]["masked_lm_accuracy"]["mean"] == 0.25
    assert row["score"] is None
    plot = tmp_path / "objectives" / "results.png"
    assert plot.read_bytes().startswith(b"\x89PNG")
