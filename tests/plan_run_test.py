"""Tests of tools/plan_run.py."""

import dataclasses

import pytest

from electra_tf import configs, electra
from tests import helpers
from tools import plan_run

SMALL = str(helpers.ROOT / "gin" / "small.gin")
HARDWARE = plan_run.Hardware("round", 1e12, "float32", 16e9, 1e9, 0.5)


def config(**changes):
    return configs.PretrainingConfig(
        model=helpers.electra_config(**changes),
        data=configs.PretrainingDataConfig(
            "*.tfrecord", "vocab.txt", train_batch_size=8
        ),
        optimizer=configs.OptimizerConfig(1e-3),
        run=helpers.run_config("models", num_train_steps=86400),
    )


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"electra_objective": False},
        {"uniform_generator": True},
        {"untied_generator": False, "generator_hidden_size": 1.0},
        {"untied_generator_embeddings": True},
        {"disentangled_embeddings": True},
        {"electra_objective": False, "electric_objective": True},
    ],
)
def test_parameters_are_those_of_the_model(changes):
    model = electra.PretrainingModel(
        config(**changes).model, electra.SpecialIds(2, 3, 4)
    )
    counted = plan_run.num_parameters(config(**changes).model)
    assert counted == model.count_params()


def test_the_arithmetic():
    run = config()
    one = plan_run.plan(run, HARDWARE)
    assert one.seconds_per_step == pytest.approx(one.flops_per_step / 0.5e12)
    # 86400 steps: as many days as a step has seconds.
    assert one.days == pytest.approx(one.seconds_per_step)
    assert one.all_reduce_bytes == 0
    assert one.memory["Adam"] == 2 * one.memory["weights"]
    four = plan_run.plan(run, HARDWARE, num_devices=4)
    # Each sends three quarters of the gradients twice.
    assert four.all_reduce_bytes == 6 * one.num_parameters
    assert four.seconds_per_step == pytest.approx(
        one.seconds_per_step / 4 + 6e-9 * one.num_parameters
    )
    assert four.memory["activations"] == one.memory["activations"] / 4


def test_a_batch_that_does_not_fit_is_cut():
    run = config()
    whole = plan_run.plan(run, HARDWARE)
    assert (whole.micro_batch_size, whole.fits) == (8, True)
    needed = sum(whole.memory.values())
    small = dataclasses.replace(HARDWARE, memory=needed)
    cut = plan_run.plan(run, small)
    assert cut.micro_batch_size < 8
    assert cut.fits
    assert not plan_run.plan(run, dataclasses.replace(small, memory=1.0)).fits


def test_devices_must_share_evenly():
    with pytest.raises(configs.ConfigError, match="num_devices=3"):
        plan_run.plan(config(), HARDWARE, num_devices=3)


def test_prints_the_table_with_the_papers_figure(capsys):
    assert plan_run.main([f"--gin_file={SMALL}", "--num_devices=8"]) == 0
    text = capsys.readouterr().out
    assert "1.29e+18 the run" in text
    assert "the paper says: 1.4e18 FLOPs, 4 days on one V100" in text
    for hardware in plan_run.HARDWARE.values():
        assert hardware.name in text


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--gin_file=none.gin"], "Expected a gin file at none.gin"),
        ([f"--gin_file={SMALL}", "--mfu=2"], "--mfu must be above 0"),
        (
            [f"--gin_file={SMALL}", "--num_devices=3"],
            "--num-devices must divide the batch size",
        ),
    ],
)
def test_mistakes_end_in_one_line(flags, message, capsys):
    assert plan_run.main(flags) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
