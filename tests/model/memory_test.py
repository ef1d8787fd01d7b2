"""Tests of model/memory.py, against models that are built."""

import pytest
import tensorflow as tf

from electra_tf.model import ablations, masking, memory
from tests import helpers

ELECTRIC = {"electra_objective": False, "electric_objective": True}


def _dear(changes: dict):
    """A case for test-dear alone."""
    return pytest.param(changes, marks=pytest.mark.dear)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"electra_objective": False},
        {"electra_objective": False, "untied_generator_embeddings": True},
        {"uniform_generator": True},
        _dear({"unigram_generator": True}),
        {"untied_generator": False, "generator_hidden_size": 1.0},
        {"untied_generator_embeddings": True},
        _dear({"disentangled_embeddings": True}),
        _dear({"discriminator_objective": "replace_mlm"}),
        {"discriminator_objective": "all_tokens_mlm"},
        _dear(
            {
                "discriminator_objective": "all_tokens_mlm",
                "copy_mechanism": False,
            }
        ),
        _dear({"generator_training": "adversarial"}),
        {"generator_training": "frozen", "untied_generator_embeddings": True},
        ELECTRIC,
        _dear(ELECTRIC | {"untied_generator_embeddings": True}),
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
        model_config = helpers.electra_config(
            encoder=encoder, **(shares | changes)
        )
        with tf.Graph().as_default():  # Shapes alone, no values.
            model = ablations.make_model(
                model_config, masking.SpecialIds(2, 3, 4)
            )
        has_frequencies = isinstance(model, ablations.UnigramGenerator)
        counted = memory.num_parameters(ablations.networks(model_config))
        assert counted == model.count_params() - (
            encoder.vocab_size if has_frequencies else 0
        )


def test_a_masked_language_model_keeps_its_own_activations():
    """Not those of a generator that it does not have."""
    first, second = (
        memory.activation_bytes(
            ablations.networks(
                helpers.electra_config(
                    electra_objective=False, generator_hidden_size=share
                )
            ),
            examples=8,
            width=4,
        )
        for share in (0.25, 0.5)
    )
    assert first == second > 0
