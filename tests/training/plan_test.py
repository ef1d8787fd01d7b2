"""Tests of training/plan.py, with a device of round figures."""

import dataclasses

import pytest

from electra_tf import errors
from electra_tf.training import matmul_rate, plan
from tests import helpers

HARDWARE = plan.Hardware("round", 1e12, "float32", 16e9, 1e9, 0.5)


def config(micro_batch_size=0, **changes):
    run = {"num_train_steps": 86400, "micro_batch_size": micro_batch_size}
    data = {"train_batch_size": 8}
    return helpers.pretraining_config("m", model=changes, data=data, run=run)


def test_the_arithmetic():
    run = config()
    one = plan.plan(run, HARDWARE)
    assert one.seconds_per_step == pytest.approx(one.flops_per_step / 0.5e12)
    # 86400 steps: as many days as a step has seconds.
    assert one.days == pytest.approx(one.seconds_per_step)
    assert one.all_reduce_bytes == 0
    assert one.memory["Adam"] == 2 * one.memory["weights"]
    four = plan.plan(run, HARDWARE, num_devices=4)
    # Each sends three quarters of the gradients twice.
    assert four.all_reduce_bytes == 6 * one.num_parameters
    assert four.seconds_per_step == pytest.approx(
        one.seconds_per_step / 4 + 6e-9 * one.num_parameters
    )
    assert four.memory["activations"] == one.memory["activations"] / 4


def test_a_batch_that_does_not_fit_is_cut():
    run = config()
    whole = plan.plan(run, HARDWARE)
    assert (whole.micro_batch_size, whole.fits) == (8, True)
    needed = sum(whole.memory.values())
    small = dataclasses.replace(HARDWARE, memory=needed)
    cut = plan.plan(run, small)
    assert cut.micro_batch_size < 8
    assert cut.fits
    assert not plan.plan(run, dataclasses.replace(small, memory=1.0)).fits


def test_a_run_says_how_it_cuts_its_batch():
    run = config(micro_batch_size=2)
    assert plan.plan(run, HARDWARE).micro_batch_size == 2
    assert plan.plan(run, HARDWARE, 1, 4).micro_batch_size == 4
    with pytest.raises(errors.ConfigError, match="size=3, examples=8"):
        plan.plan(run, HARDWARE, 1, 3)
    with pytest.raises(errors.ConfigError, match="num_devices=3"):
        plan.plan(config(), HARDWARE, num_devices=3)


def test_what_does_not_learn_takes_its_weights_alone():
    sizes = {"untied_generator_embeddings": True}
    both = plan.plan(config(**sizes), HARDWARE)
    one = plan.plan(config(uniform_generator=True), HARDWARE)
    frozen = plan.plan(config(**sizes, generator_training="frozen"), HARDWARE)
    assert frozen.memory["weights"] == both.memory["weights"]
    for part in ("Adam", "gradients", "activations"):
        assert frozen.memory[part] == one.memory[part] < both.memory[part]
    assert one.flops_per_step < frozen.flops_per_step < both.flops_per_step


def test_devices_by_their_names(monkeypatch):
    assert len(plan.devices()) == len(plan.HARDWARE)
    rates = {"float32": 1e11, "bfloat16": 2e11}
    monkeypatch.setattr(matmul_rate, "cpu_rate", rates.get)
    (device,) = plan.devices(["this_cpu"])
    assert (device.peak, device.mfu) == (1e11, plan.CPU_MFU)
    found = plan.devices(["a100", "this_cpu"], "mixed_bfloat16")
    assert [device.peak for device in found] == [312e12, 2e11]
    found = plan.devices(["a100", "this_cpu"], "auto", "float32")
    assert [device.peak for device in found] == [312e12, 1e11]


@pytest.mark.parametrize(
    ("name", "policy", "precision", "teraflops"),
    [
        ("a100", "float32", "float32", 156),
        ("a100", "mixed_float16", "mixed_float16", 312),
        # Without bfloat16: what such a run computes there is no faster.
        ("v100", "mixed_bfloat16", "mixed_bfloat16", 15.7),
        ("v100", "auto", "float32", 15.7),
        ("v100", "mixed_float16", "mixed_float16", 125),
        ("tpu_v3", "float32", "float32", 61.5),
        ("tpu_v3", "auto", "mixed_bfloat16", 61.5),
    ],
)
def test_a_device_computes_what_the_run_says(
    name, policy, precision, teraflops
):
    (device,) = plan.devices([name], dtype_policy=policy)
    assert (device.precision, device.peak) == (precision, teraflops * 1e12)
