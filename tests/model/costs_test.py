"""Tests of model/costs.py: operations of every objective; weights, memory."""

import dataclasses

import pytest
import tensorflow as tf

from electra_tf import configs
from electra_tf.command_line import gin_files
from electra_tf.model import ablations, costs, masking
from tests import helpers

# One layer everywhere: L = 4 tokens, N = 1 slot, D = 8, E = 8, V = 10.
ENCODER = configs.EncoderConfig(10, 8, 1, 2, 16)


def networks(**changes):
    values = {"max_seq_length": 4, "mask_prob": 0.25}
    return ablations.networks(
        configs.ElectraConfig(ENCODER, **(values | changes))
    )


# 4 projections, scores and averages over 4 tokens, up and down.
LAYER = 4 * (4 * 2 * 8 * 8 + 2 * 2 * 8 * 4 + 2 * 2 * 8 * 16)
MASKED_LM_HEAD = 2 * 8 * 8 + 2 * 8 * 10
DISCRIMINATOR_HEAD = 4 * (2 * 8 * 8 + 2 * 8)


# The generator's feed-forward layer is 4 times as wide as the rest.
WIDE_LAYER = LAYER + 4 * 2 * 2 * 8 * 16
# A generator half as wide, its projection and its head.
NARROW = (
    4 * (4 * 2 * 4 * 4 + 2 * 2 * 4 * 4 + 2 * 2 * 4 * 16)
    + 4 * 2 * 8 * 4
    + (2 * 4 * 8 + 2 * 8 * 10)
)
ELECTRIC = {"electra_objective": False, "electric_objective": True}
REPLACE_MLM = {"discriminator_objective": "replace_mlm"}
ALL_TOKENS = {"discriminator_objective": "all_tokens_mlm"}
ALL_TOKENS_NO_COPY = ALL_TOKENS | {"copy_mechanism": False}
ADVERSARIAL = {"generator_training": "adversarial"}
FROZEN = {"generator_training": "frozen", "untied_generator_embeddings": True}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"electra_objective": False}, LAYER + MASKED_LM_HEAD),
        ({"uniform_generator": True}, LAYER + DISCRIMINATOR_HEAD),
        # Networks that are shared are run twice.
        (
            {"untied_generator": False},
            2 * LAYER + MASKED_LM_HEAD + DISCRIMINATOR_HEAD,
        ),
        (
            {"generator_hidden_size": 0.5},
            LAYER + DISCRIMINATOR_HEAD + NARROW,
        ),
        # Every token is scored from two towers.
        (
            ELECTRIC | {"generator_hidden_size": 1.0},
            LAYER
            + DISCRIMINATOR_HEAD
            + 2 * WIDE_LAYER
            + 4 * (2 * 16 * 8 + 2 * 8 * 10),
        ),
    ],
)
def test_a_forward_pass_by_hand(changes, expected):
    model = networks(**changes)
    assert sum(map(costs.of_forward_pass, model)) == expected
    assert costs.of_training_example(model) == 3 * expected


# The same networks as the original's tables count them. D, G: forward passes.
NETWORK = costs.Transformer(
    *(8, 1),
    max_seq_length=4,
    vocab_size=10,
    intermediate_size=16,
    num_attention_heads=2,
    output_fraction=0.25,
    sparse_embed_lookup=True,
)
EVERY_TOKEN = dataclasses.replace(NETWORK, output_fraction=1.0)
ENCODER_PASS = NETWORK.encoder_flops()
D = NETWORK.infer_flops()
_NARROW = dataclasses.replace(
    NETWORK, hidden_size=2, embedding_size=8, intermediate_size=8
)
_NARROW = dataclasses.replace(_NARROW, num_attention_heads=1)
G = _NARROW.encoder_flops() + _NARROW.embedding_flops_output()


MLM = ENCODER_PASS + NETWORK.embedding_flops_output()
ALL = ENCODER_PASS + EVERY_TOKEN.embedding_flops_output()
MASKED = {"discriminator_objective": "replaced_token_detection_of_masked"}


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({"electra_objective": False}, MLM),
        ({}, G + D),
        ({"uniform_generator": True}, D),
        ({"unigram_generator": True}, D),
        (MASKED, G + D),
        (REPLACE_MLM, G + MLM),
        (ALL_TOKENS, G + ALL + 4 * 17),  # And a logit for each of 4 tokens.
        (ALL_TOKENS_NO_COPY, G + ALL),
        (ADVERSARIAL, G + 5 + D),  # A logit for the slot.
        ({"untied_generator": False}, MLM + D),
    ],
)
def test_a_step_is_two_passes_over_each_example(changes, expected):
    step = costs.of_pretraining_step(networks(**changes), 3)
    assert step == 3 * 2 * expected


def test_a_step_of_two_towers():
    every_token = dataclasses.replace(_NARROW, output_fraction=1.0)
    towers = 2 * _NARROW.encoder_flops()
    head = every_token.embedding_flops_output(input_size=4)
    # 4 tokens, 2 * 2 more inputs of the dense layer of 8.
    assert head - every_token.embedding_flops_output() == 4 * 2 * 2 * 8
    step = costs.of_pretraining_step(networks(**ELECTRIC), 3)
    assert step == 3 * 2 * (towers + head + D)


def test_a_step_of_the_paper_is_what_its_tables_have():
    small = gin_files.load(
        configs.PretrainingConfig, [str(helpers.ROOT / "gin" / "small.gin")]
    )
    discriminator = costs.Transformer(
        256,
        12,
        max_seq_length=128,
        embedding_size=128,
        # Slots that there are, and words looked up.
        output_fraction=19 / 128,
        sparse_embed_lookup=True,
    )
    assert costs.of_pretraining_step(ablations.networks(small.model), 128) == (
        costs.electra_train_flops(discriminator, 64, 12, 128, 1)
    )


@pytest.mark.parametrize(
    "changes",
    [
        {},
        FROZEN,
        ELECTRIC,
        *(
            pytest.param(changes, marks=pytest.mark.dear)
            for changes in (
                {"electra_objective": False},
                {
                    "electra_objective": False,
                    "untied_generator_embeddings": True,
                },
                {"untied_generator": False, "generator_hidden_size": 1.0},
                ALL_TOKENS,
                {"unigram_generator": True},
                {"disentangled_embeddings": True},
                REPLACE_MLM,
                ALL_TOKENS_NO_COPY,
                ADVERSARIAL,
                ELECTRIC | {"untied_generator_embeddings": True},
            )
        ),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "sizes",
    [
        {},
        pytest.param(
            {"type_vocab_size": 3, "num_hidden_layers": 5, "embedding_size": 8},
            marks=pytest.mark.dear,
        ),
    ],
    ids=str,
)
def test_parameters_are_those_of_the_model(changes, sizes):
    # Of 8 units 4 and 3, of 2 layers 2 and 1, of 5 layers 5 and 2.
    for shares in ({}, {"generator_hidden_size": 0.4, "generator_layers": 0.5}):
        encoder = helpers.encoder_config(**sizes)
        config = helpers.electra_config(encoder, **(shares | changes))
        with tf.Graph().as_default():  # Shapes alone, no values.
            model = ablations.make_model(config, masking.SpecialIds(2, 3, 4))
        has_frequencies = isinstance(model, ablations.UnigramGenerator)
        counted = costs.num_parameters(ablations.networks(config))
        assert counted == model.count_params() - (
            encoder.vocab_size if has_frequencies else 0
        )


def test_corrected_counts_the_whole_layer_norm_and_all_heads():
    tiny = costs.Transformer(2, 3, max_seq_length=1, vocab_size=10)
    corrected = dataclasses.replace(tiny, corrected=True)
    assert corrected.attention_flops() == tiny.attention_flops() + 5
    wide = dataclasses.replace(tiny, head_size=8)
    corrected = dataclasses.replace(wide, corrected=True)
    averages = 2 * (8 - 2) * 1
    output = 2 * (8 - 2) * 2
    assert corrected.attention_flops() == (
        wide.attention_flops() + 5 + averages + output
    )
