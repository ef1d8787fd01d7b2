"""Tests of adapting a released model to another text, by the command."""

import shutil
import time

import numpy as np
import pytest

from electra_tf.checkpoints.formats import huggingface, original
from tests import helpers, warm
from tests.checkpoints import models
from tests.end_to_end.resume_test import evaluations_of

STEPS = 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Text, and one model as a checkpoint of the original and as a pair."""
    folder = tmp_path_factory.mktemp("adapt")
    random = np.random.default_rng(0)
    words = random.choice(helpers.VOCAB[5:], (400, 9))
    lines = [" ".join(row) + "\n" * (1 + i % 2) for i, row in enumerate(words)]
    (folder / "texts").mkdir()
    (folder / "texts" / "a.txt").write_text("\n".join(lines))
    checkpoint = models.pretrained()
    original.write(checkpoint, str(folder / "tf1"))
    huggingface.write(checkpoint, str(folder / "pair"))
    shutil.copytree(folder / "pair/discriminator", folder / "alone")
    return folder


def command(folder, checkpoint, model_dir, *flags):
    return (
        *("-m", "electra_tf", "adapt", f"--checkpoint={checkpoint}"),
        *("--corpus_dir=texts", f"--model_dir={model_dir}", "--batch_size=4"),
        *("--heldout_fraction=0.2", "--gin_param=RunConfig.steps_per_loop=1"),
        *("--gin_param=RunConfig.save_checkpoints_steps=2", *flags),
    )


def adapt(folder, *args):
    return warm.execute(*command(folder, *args), cwd=folder)


@pytest.mark.dear
def test_a_checkpoint_of_the_original_is_adapted_across_a_kill(folder):
    args = (folder, "tf1", "mine", f"--num_train_steps={STEPS}")
    process = warm.start(*command(*args), cwd=folder)
    while not list((folder / "mine").glob("model.ckpt-*.index")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.kill()
    process.communicate()
    result = adapt(*args)
    assert result.returncode == 0, result.stderr
    assert "generator: that of the checkpoint" in result.stdout
    log = evaluations_of(folder / "mine")
    assert [r["step"] for r in log] == list(range(0, STEPS + 1, STEPS // 10))
    rows = [line.split() for line in result.stdout.splitlines()]
    table = {row[0]: row[1:] for row in rows if row}
    for name in ("masked_lm_accuracy", "disc_auc"):
        ends = log[0][name], log[-1][name]
        assert [*map(float, table[name])] == pytest.approx(ends, abs=1e-4)
    # What is scored before is the checkpoint, and what comes after is another.
    config = helpers.read_json(folder / "mine" / "config.json")
    assert config["init_checkpoint"] == "tf1"
    assert log[-1]["masked_lm_loss"] < log[0]["masked_lm_loss"]


@pytest.mark.dear
def test_a_checkpoint_of_any_format_is_scored(folder):
    """After `test_a_checkpoint_of_the_original_is_adapted_across_a_kill`."""
    config = "--gin_file=mine/operative_config.gin"
    command = ("-m", "electra_tf", "pretrain", config, "--eval_only")
    log = evaluations_of(folder / "mine")
    start = "--gin_param=PretrainingConfig.init_checkpoint='pair'"
    for flags, expected in (
        (["--model_dir=nowhere", start], log[0]),
        ([], log[-1]),
    ):
        result = warm.execute(*command, *flags, cwd=folder)
        assert result.returncode == 0, result.stderr
        rows = [line.split() for line in result.stdout.splitlines()]
        table = {row[0]: float(row[1]) for row in rows if len(row) == 2}
        loss = expected["masked_lm_loss"]
        assert table["masked_lm_loss"] == pytest.approx(loss, abs=1e-4)
    assert not (folder / "nowhere").exists()


@pytest.mark.dear
@pytest.mark.parametrize(
    ("checkpoint", "said"),
    [
        ("pair/discriminator", "generator: pair/generator"),
        ("alone", "a new one, 2 wide"),
    ],
)
def test_a_discriminator_finds_its_generator(folder, checkpoint, said):
    model_dir = f"of_{checkpoint.replace('/', '_')}"
    result = adapt(folder, checkpoint, model_dir, "--num_train_steps=1")
    assert result.returncode == 0, result.stderr
    assert said in result.stdout
    assert "vocabulary: 1.00 pieces a word, " in result.stdout
    before = evaluations_of(folder / model_dir)[0]
    assert before["step"] == 0 and before["masked_lm_loss"] > 0


@pytest.mark.parametrize(
    ("checkpoint", "flag", "line"),
    [
        ("pair/generator", "--seed=1", "discriminator"),
        ("tf1", "--heldout_fraction=0.0", "heldout_fraction"),
        ("tf1", "--corpus_dir=gone", "build-data"),
        ("tf1", "--generator=alone", "masked language model"),
    ],
)
def test_a_mistake_ends_in_one_line(folder, checkpoint, flag, line):
    name = f"refused{flag.replace('/', '_')}"
    result = adapt(folder, checkpoint, name, flag)
    assert result.returncode == 1
    assert line in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr
    assert not (folder / name).exists()
