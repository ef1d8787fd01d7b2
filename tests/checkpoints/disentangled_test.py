"""Tests of electra_tf/checkpoints/disentangled.py."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.checkpoints import disentangled, reading, verify
from electra_tf.checkpoints.formats import original
from electra_tf.errors import CheckpointError
from electra_tf.training import saving
from tests import helpers, notices


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run's directory, and the model in it, whose two tables differ."""
    model_dir = tmp_path_factory.mktemp("disentangled") / "model"
    model = helpers.write_pretrained(model_dir, disentangled_embeddings=True)
    delta = model.electra.embeddings.word_embeddings_delta
    values = np.random.default_rng(0).normal(size=delta.shape)
    delta.assign(values.astype(np.float32))
    tf.train.CheckpointManager(
        saving.checkpointed_variables(model), str(model_dir), 1
    ).save()
    return model_dir, model


def test_each_network_is_read_with_a_table_of_its_own(run):
    model_dir, model = run
    with notices.heard() as said:
        read = reading.read_checkpoint(model_dir)
    assert "sum of its two tables" in said[0]
    assert disentangled.DELTA not in read.tensors
    inputs = verify.random_inputs(read.discriminator)
    outputs = verify.forward(read, inputs)
    args = [
        tf.constant(inputs[name])
        for name in ("input_ids", "input_mask", "segment_ids")
    ]
    is_token = inputs["input_mask"] > 0
    for name, network in (
        ("sequence_output", model.electra),
        ("generator_sequence_output", model.generator),
    ):
        np.testing.assert_allclose(
            outputs[name][is_token],
            network(*args)["sequence_output"].numpy()[is_token],
            atol=2e-6,
        )


def test_the_original_has_no_such_generator(run, tmp_path):
    checkpoint = reading.read_checkpoint(run[0])
    with pytest.raises(CheckpointError, match="generator"):
        original.write(checkpoint, str(tmp_path))
    original.write(checkpoint.encoder_only(), str(tmp_path))
    found = reading.read_checkpoint(tmp_path).tensors[disentangled.WORDS]
    np.testing.assert_array_equal(found, checkpoint.tensors[disentangled.WORDS])
