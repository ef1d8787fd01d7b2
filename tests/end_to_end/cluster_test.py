"""Two processes on loopback: killed, stopped, and compared with one."""

import random
import signal
import time

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.training import local_cluster
from tests import helpers, warm
from tests.end_to_end import resume_test

NUM_KILLS = resume_test.NUM_KILLS
NUM_TRAIN_STEPS = 20 * NUM_KILLS
FLAGS = ("-m", "electra_tf.run_pretraining", "--gin_file=run.gin")
ON_TWO = "--distribution_strategy=multi_worker_mirrored"
GIN = (
    resume_test.GIN
    + f"""
EncoderConfig.hidden_dropout_prob = 0.0
EncoderConfig.attention_probs_dropout_prob = 0.0
PretrainingDataConfig.train_batch_size = 32
PretrainingDataConfig.eval_batch_size = 8
RunConfig.num_train_steps = {NUM_TRAIN_STEPS}
"""
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cluster")
    return resume_test.write_run(folder, GIN, range(50), range(50, 66))


def start_workers(folder, model_dir, *flags_of_other, flags=FLAGS):
    """Two processes, as the launcher starts them; one may have flags more."""
    ports = local_cluster.free_ports(2)
    return [
        warm.start(
            *(*flags, f"--model_dir={model_dir}", ON_TWO),
            *flags_of_other[: index * len(flags_of_other)],
            cwd=folder,
            env=helpers.environment(
                TF_CONFIG=local_cluster.tf_config(ports, index)
            ),
        )
        for index in range(2)
    ]


def finish(processes):
    """Exit codes, outputs and errors."""
    ends = [process.communicate(timeout=300) for process in processes]
    codes = [process.returncode for process in processes]
    return [(code, *end) for code, end in zip(codes, ends, strict=True)]


@pytest.fixture(scope="module")
def undisturbed(folder):
    """Ends of a run in one process, and of one in two."""
    one = warm.start(*FLAGS, "--model_dir=one", cwd=folder)
    launcher = helpers.ROOT / "tools" / "launch_local_cluster.py"
    two = helpers.start(
        *(launcher, "--num_workers=2", "--", *helpers.command(*FLAGS)),
        *(ON_TWO, f"--model_dir={folder}/undisturbed"),
        cwd=folder,
    )
    return {"one": finish([one])[0], "two": finish([two])[0]}


@pytest.fixture(scope="module")
def disturbed(folder):
    """Ends of a run that is killed and begun again, and told to stop; and of
    the one that finishes it."""
    moments = random.Random(NUM_KILLS)
    workers = start_workers(folder, "disturbed")
    for _ in range(NUM_KILLS):
        resume_test.wait_for_a_moment(folder / "disturbed", workers[0], moments)
        for process in moments.sample(workers, 2):
            process.kill()
            time.sleep(moments.uniform(0, 0.1))
        finish(workers)
        workers = start_workers(folder, "disturbed")
    resume_test.wait_for_a_moment(folder / "disturbed", workers[0], moments)
    # The launcher passes it on to all; one is enough.
    workers[1].send_signal(signal.SIGTERM)
    return {
        "stopped": finish(workers),
        "again": finish(start_workers(folder, "disturbed")),
    }


def weights(model_dir):
    path = tf.train.latest_checkpoint(str(model_dir))
    reader = tf.train.load_checkpoint(path)
    return {
        name: reader.get_tensor(name)
        for name in reader.get_variable_to_dtype_map()
        if name.startswith(("model/", "optimizer/"))
    }


def assert_ended_well(ends):
    for code, _, stderr in ends:
        assert code == 0, stderr


def assert_refused(ends, lines):
    """Both processes end with a line that holds this, and write nothing."""
    for (code, _, stderr), line in zip(ends, lines, strict=True):
        assert code == 1
        last = stderr.splitlines()[-1]
        assert last.startswith(
            "electra-tf pretrain: error: Expected the same of a"
        )
        assert f"they differ in: {line}" in last


@pytest.mark.dear
def test_two_processes_learn_what_one_does(folder, undisturbed):
    assert_ended_well(undisturbed.values())
    names = ("one", "undisturbed")
    one, two = (resume_test.log_of(folder / name) for name in names)
    assert len(one) > NUM_TRAIN_STEPS
    for a, b in zip(one, two, strict=True):
        assert (a["step"], a["split"]) == (b["step"], b["split"])
        for name in a:
            if name.endswith("loss"):
                assert b[name] == pytest.approx(a[name], rel=1e-5), name
    expected, found = (weights(folder / name) for name in names)
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        atol = 1e-5 * max(1.0, np.abs(value).max())
        np.testing.assert_allclose(
            found[name], value, rtol=0, atol=atol, err_msg=name
        )


@pytest.mark.dear
def test_two_killed_processes_end_as_undisturbed_ones(
    folder, undisturbed, disturbed
):
    """Bit for bit, on the last checkpoint of both."""
    assert_ended_well(disturbed["again"])
    resume_test.assert_same_run(
        folder / "disturbed", folder / "undisturbed", NUM_TRAIN_STEPS
    )


@pytest.mark.dear
def test_a_signal_to_one_process_stops_both_at_one_step(disturbed):
    chief, other = disturbed["stopped"]
    assert chief[0] == other[0] == 75
    *_, line = chief[2].splitlines()
    assert line.startswith("Another worker stopped at step ")
    assert other[2].splitlines()[-1] == line.replace(
        "Another worker stopped", "SIGTERM"
    )


@pytest.mark.dear
def test_the_chief_alone_speaks_and_writes(folder, undisturbed):
    _, stdout, stderr = undisturbed["two"]
    lines = stdout.splitlines()
    assert "[0] pre-trained model: " + str(folder / "undisturbed") in lines
    # Each has devices of its own.
    (device,) = (x for x in lines if x.startswith("[1] "))
    assert device.startswith("[1] device: CPU, ")
    assert "[0] pre-training step " in stderr
    assert "[1] pre-training step " not in stderr
    for worker in range(2):  # Each of them, as each may be the one that waits.
        assert f"[{worker}] waiting for all of 2 workers: localhost:" in stderr
    assert len(list((folder / "undisturbed" / "train").iterdir())) == 1


@pytest.mark.dear
def test_a_worker_with_another_seed_or_data_is_refused(folder):
    workers = start_workers(
        *(folder, "refused", "--gin_param=RunConfig.seed=77"),
        "--gin_param=PretrainingDataConfig.train_files='heldout.tfrecord'",
    )
    line = "the settings, by flags or gin files, the training records, the init"
    assert_refused(finish(workers), [line] * 2)
    assert not (folder / "refused").exists()


@pytest.mark.dear
def test_workers_may_cut_their_batches_into_other_parts(folder):
    parts = "--gin_param=RunConfig.num_parallel_parts="
    flags = (*FLAGS, f"{parts}1", "--gin_param=RunConfig.num_train_steps=4")
    workers = start_workers(folder, "parts", f"{parts}2", flags=flags)
    assert_ended_well(finish(workers))
    assert resume_test.evaluations_of(folder / "parts")


@pytest.mark.dear
def test_ctrl_c_ends_who_waits_for_others(folder):
    tf_config = local_cluster.tf_config(local_cluster.free_ports(2), 0)
    alone = helpers.start(
        *(*FLAGS, "--model_dir=alone", ON_TWO),
        cwd=folder,
        env=helpers.environment(TF_CONFIG=tf_config),
    )
    for line in alone.stderr:
        if line.startswith("waiting for all of 2 workers"):
            break
    alone.send_signal(signal.SIGINT)
    assert alone.wait(timeout=60) == -signal.SIGINT


@pytest.mark.dear
def test_a_worker_that_fails_before_the_first_step_is_told_of(folder):
    files = "--gin_param=PretrainingDataConfig.train_files='none*'"
    ends = finish(start_workers(folder, "failed", files))
    assert [code for code, _, _ in ends] == [1, 1]
    lines = [stderr.splitlines()[-1] for _, _, stderr in ends]
    assert lines[0].startswith(
        "electra-tf pretrain: error: Another worker has go"
    )
    assert "Expected TFRecord files at none*, found none" in lines[1]


@pytest.mark.dear
def test_two_processes_fine_tune_as_one_does(folder, undisturbed):
    rows = [("wa wb", "yes"), ("wc wd we", "no"), ("wf wa", "yes")] * 5
    for name, some in (("train", rows), ("dev", rows[:7])):
        helpers.write_tsv(folder / f"{name}.tsv", some)
    flags = (
        *("-m", "electra_tf.run_finetuning", "--init_checkpoint=one"),
        *("--train_file=train.tsv", "--dev_file=dev.tsv"),
        *("--max_seq_length=12", "--num_train_epochs=2", "--num_trials=2"),
        "--gin_param=FinetuningDataConfig.train_batch_size=4",
        "--gin_param=FinetuningConfig.dropout=0.0",
    )
    one = warm.start(*flags, "--model_dir=finetuned_one", cwd=folder)
    assert_ended_well(finish([one]))
    assert_ended_well(
        finish(start_workers(folder, "finetuned_two", flags=flags))
    )
    for trial in (1, 2):
        expected, found = (
            helpers.read_json(folder / name / f"trial_{trial}/results.json")
            for name in ("finetuned_one", "finetuned_two")
        )
        assert found["tasks"]["own_data"]["dev"] == pytest.approx(
            expected["tasks"]["own_data"]["dev"], rel=1e-5
        )
