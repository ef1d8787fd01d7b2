"""Runs of run_pretraining that are killed or told to stop, and run again."""

import json
import os
import random
import signal
import time
import typing

import pytest

from electra_tf.model import ablations, costs
from electra_tf.training import metrics_log
from tests import helpers, warm
from tests.training import engine_test

# Moments at which a run is killed; more of them where it is to be tried hard.
NUM_KILLS = int(os.environ.get("ELECTRA_TF_NUM_KILLS", "1"))
NUM_TRAIN_STEPS = 60 * NUM_KILLS

GIN = f"""{helpers.GIN}
OptimizerConfig.num_warmup_steps = 5
PretrainingDataConfig.heldout_files = 'heldout.tfrecord'
PretrainingDataConfig.biases_from_data = True
PretrainingDataConfig.train_batch_size = 4
PretrainingDataConfig.eval_batch_size = 5
RunConfig.num_train_steps = {NUM_TRAIN_STEPS}
RunConfig.steps_per_loop = 1
RunConfig.save_checkpoints_steps = 7
RunConfig.keep_checkpoint_max = 100
RunConfig.eval_steps = 10
"""


def write_run(folder, gin, train, heldout):
    """Data, vocabulary and gin file of a run; returns the folder."""
    for name, numbers in (("train", train), ("heldout", heldout)):
        path = folder / f"{name}.tfrecord"
        helpers.write_tfrecords(path, map(helpers.row, numbers))
    helpers.write_vocab(folder)
    (folder / "run.gin").write_text(gin)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Of a run with dropout."""
    # In float32 it is workers that are killed, in cluster_test.py.
    gin = f"{GIN}RunConfig.dtype_policy = 'mixed_bfloat16'\n"
    folder = tmp_path_factory.mktemp("resume")
    return write_run(folder, gin, range(30), range(30, 45))


COMMAND = ("-m", "electra_tf.run_pretraining")


def start(folder, model_dir):
    flags = ("--gin_file=run.gin", f"--model_dir={model_dir}")
    return warm.start(*COMMAND, *flags, cwd=folder)


def log_of(model_dir):
    return metrics_log.read(f"{model_dir}/metrics.jsonl")


def evaluations_of(model_dir):
    return [r for r in log_of(model_dir) if r["split"] == "heldout"]


def is_under_way(model_dir):
    """Whether a run has done some steps and saved a checkpoint."""
    log = log_of(model_dir)
    return log and log[-1]["step"] >= 10 and list(model_dir.glob("*.index"))


def wait_for_a_moment(model_dir, process, moments):
    """Waits until a run goes on, and with many kills up to three seconds."""
    line = last_line(model_dir)
    while last_line(model_dir) == line:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    if NUM_KILLS > 1:
        time.sleep(moments.uniform(0, 3))


def last_line(model_dir):
    """Step and speed of the last line of a log: no two are alike."""
    log = log_of(model_dir)
    return log and (log[-1]["step"], log[-1].get("examples_per_second"))


class Run(typing.NamedTuple):
    """What became of a process."""

    returncode: int
    stdout: str
    stderr: str
    last_step: int


def finish(process, model_dir):
    outputs = process.communicate(timeout=300)
    return Run(process.returncode, *outputs, log_of(model_dir)[-1]["step"])


@pytest.fixture(scope="module")
def runs(folder):
    """Two at once: one undisturbed, the other killed, then told to stop."""
    undisturbed = start(folder, "undisturbed")
    model_dir = folder / "disturbed"
    process = start(folder, "disturbed")
    while not is_under_way(model_dir):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.kill()
    found = {"killed": finish(process, model_dir)}
    moments = random.Random(NUM_KILLS)
    for number in range(NUM_KILLS):
        process = start(folder, "disturbed")
        wait_for_a_moment(model_dir, process, moments)
        if number < NUM_KILLS - 1:
            process.kill()
            process.communicate()
    os.kill(process.pid, signal.SIGTERM)
    found["stopped"] = finish(process, model_dir)
    found["ended"] = finish(start(folder, "disturbed"), model_dir)
    found["undisturbed"] = finish(undisturbed, folder / "undisturbed")
    return found


def assert_same_run(model_dir, undisturbed, num_steps=NUM_TRAIN_STEPS):
    """The same losses, step by step, results, weights and optimizer."""

    def losses_of(model_dir):
        return [
            # No two runs are as fast.
            {k: record[k] for k in record if not k.endswith(("second", "mfu"))}
            for record in log_of(model_dir)
        ]

    steps = [r["step"] for r in log_of(undisturbed) if r["split"] == "train"]
    assert steps == list(range(1, num_steps + 1))
    assert losses_of(model_dir) == losses_of(undisturbed)
    results = (model_dir / "eval_results.json").read_text()
    assert results == (undisturbed / "eval_results.json").read_text()
    assert json.loads(results)["step"] == num_steps
    helpers.assert_same_checkpoint(model_dir, undisturbed)
    helpers.assert_same_checkpoint(model_dir / "best", undisturbed / "best")


def test_a_killed_and_stopped_run_ends_as_an_undisturbed_one(folder, runs):
    killed, stopped = runs["killed"], runs["stopped"]
    assert killed.returncode == -signal.SIGKILL
    assert stopped.returncode == 75
    step = stopped.last_step
    assert 10 <= killed.last_step < NUM_TRAIN_STEPS and step < NUM_TRAIN_STEPS
    line = f"SIGTERM at step {step}: saved in disturbed; run again to go on"
    assert stopped.stderr.splitlines()[-1] == line
    assert (folder / "disturbed" / f"model.ckpt-{step}.index").exists()
    assert runs["ended"].returncode == 0
    assert_same_run(folder / "disturbed", folder / "undisturbed")
    lines = (folder / "disturbed" / "runs.jsonl").read_text().splitlines()
    assert len(lines) == NUM_KILLS + 2


def test_prints_nothing_but_its_lines(runs):
    run = runs["undisturbed"]
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert lines[0].startswith("device: CPU, ")
    assert lines[1] == (
        "chosen: RunConfig.num_parallel_parts=1, "
        "RunConfig.num_intra_op_threads=1"
    )
    assert lines[2].startswith("0.0 M parameters, 30 examples of 12 tokens, ")
    assert lines[3] == "held-out:"
    assert lines[-1] == "pre-trained model: undisturbed"
    for line in run.stderr.splitlines():
        assert line.startswith(("pre-training step ", "held-out at "))


def test_the_log_says_how_busy_the_machine_is(folder, runs):
    encoder = helpers.encoder_config(num_hidden_layers=1)
    networks = ablations.networks(helpers.electra_config(encoder))
    per_example = costs.of_training_example(networks)
    for record in log_of(folder / "undisturbed"):
        if record["split"] == "train":
            assert 0 < record["mfu"] < 1
            assert 1e9 * record["gflop_per_second"] == pytest.approx(
                record["examples_per_second"] * per_example
            )


def test_checkpoints_come_at_round_steps(folder, runs):
    found = {p.stem for p in (folder / "undisturbed").glob("*.index")}
    steps = [*range(7, NUM_TRAIN_STEPS, 7), NUM_TRAIN_STEPS]
    assert found == {f"model.ckpt-{step}" for step in steps}


def test_the_best_checkpoint_is_kept(folder, runs):
    evaluations = evaluations_of(folder / "undisturbed")
    best = min(evaluations, key=lambda r: r["total_loss"])
    kept = folder / "undisturbed" / "best"
    (path,) = kept.glob("*.index")
    assert path.stem == f"model.ckpt-{best['step']}"
    results = helpers.read_json(kept / "eval_results.json")
    assert results | {"split": "heldout"} == best


def test_the_last_step_is_evaluated_once(folder, runs):
    model_dir = folder / "undisturbed"
    evaluations = evaluations_of(model_dir)
    steps = [r["step"] for r in evaluations]
    assert steps == list(range(10, NUM_TRAIN_STEPS + 1, 10))
    results = helpers.read_json(model_dir / "eval_results.json")
    assert results | {"split": "heldout"} == evaluations[-1]
    # TensorBoard's, one file for all.
    written = engine_test.summaries(model_dir / "eval", "total_loss")
    assert list(written) == steps


def test_another_run_in_the_directory_is_refused(folder, runs):
    flags = ("--gin_param=RunConfig.seed = 1", "--model_dir=undisturbed")
    result = warm.execute(*COMMAND, "--gin_file=run.gin", *flags, cwd=folder)
    assert result.returncode == 1
    line = "error: undisturbed holds another run's model. This run differs in"
    assert f"{line}: run.seed=1 (was 42). " in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_mistake_in_the_data_ends_with_one_line(folder):
    rows = [helpers.row(n) for n in range(3)]
    rows[1]["input_ids"][2] = len(helpers.VOCAB)
    path = helpers.write_tfrecords(folder / "bad.tfrecord", rows)
    param = f"--gin_param=PretrainingDataConfig.train_files = '{path}'"
    flags = ("--gin_file=run.gin", param, "--model_dir=bad")
    result = warm.execute(*COMMAND, *flags, cwd=folder)
    assert result.returncode == 1
    line = result.stderr.splitlines()[-1]
    assert line.startswith(
        "electra-tf pretrain: error: Expected token ids from 0 "
    )
    assert f"received 20 in record 1 of {path}: was it built with " in line
    assert "Traceback" not in result.stderr
    assert not (folder / "bad").exists()
