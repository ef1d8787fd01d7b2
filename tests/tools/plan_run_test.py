"""Tests of tools/plan_run.py."""

import dataclasses

import pytest
import tensorflow as tf

from electra_tf import configs, errors
from electra_tf.model import electra, masking
from tests import helpers
from tools import plan_run

SMALL = str(helpers.ROOT / "gin" / "small.gin")
HARDWARE = plan_run.Hardware("round", 1e12, "float32", 16e9, 1e9, 0.5)

ELECTRIC = {"electra_objective": False, "electric_objective": True}


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
        {"electra_objective": False, "untied_generator_embeddings": True},
        {"uniform_generator": True},
        {"unigram_generator": True},
        {"untied_generator": False, "generator_hidden_size": 1.0},
        {"untied_generator_embeddings": True},
        {"disentangled_embeddings": True},
        {"discriminator_objective": "replace_mlm"},
        {"discriminator_objective": "all_tokens_mlm"},
        {"discriminator_objective": "all_tokens_mlm", "copy_mechanism": False},
        {"generator_training": "adversarial"},
        {"generator_training": "frozen", "untied_generator_embeddings": True},
        ELECTRIC,
        ELECTRIC | {"untied_generator_embeddings": True},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "sizes",
    [
        {},
        {"type_vocab_size": 3, "num_hidden_layers": 5},
        {"embedding_size": 8},
    ],
    ids=str,
)
def test_parameters_are_those_of_the_model(changes, sizes):
    # Of 8 units 4 and 3, of 2 layers 2 and 1, of 5 layers 5 and 2.
    for shares in ({}, {"generator_hidden_size": 0.4, "generator_layers": 0.5}):
        encoder = helpers.encoder_config(**sizes)
        model_config = config(encoder=encoder, **(shares | changes)).model
        with tf.Graph().as_default():  # Shapes alone, no values.
            model = electra.PretrainingModel(
                model_config, masking.SpecialIds(2, 3, 4)
            )
        frequencies = model.unigram_log_probs
        counted = plan_run.num_parameters(model_config)
        assert counted == model.count_params() - (
            0 if frequencies is None else encoder.vocab_size
        )


def test_a_masked_language_model_keeps_its_own_activations():
    """Not those of a generator that it does not have."""
    sizes = [
        plan_run.plan(
            config(electra_objective=False, generator_hidden_size=share),
            HARDWARE,
        ).memory["activations"]
        for share in (0.25, 0.5)
    ]
    assert sizes[0] == sizes[1]


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
    with pytest.raises(errors.ConfigError, match="num_devices=3"):
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
