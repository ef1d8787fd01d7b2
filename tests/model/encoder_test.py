"""Tests of model/encoder.py."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.model import encoder
from tests import helpers

LENGTH = helpers.LENGTH


def build(direction="both", **changes):
    """An encoder whose weights are large enough to matter."""
    keras.utils.set_random_seed(0)
    config = helpers.encoder_config(**({"initializer_range": 0.5} | changes))
    built = encoder.Encoder(config, direction=direction)
    built.build()
    return built


def call(built, features=None, **kwargs):
    features = features or helpers.inputs([0, 1, 2])
    return built(
        features["input_ids"],
        features["input_mask"],
        features["segment_ids"],
        **kwargs,
    )


def sequence(built, features=None, **kwargs):
    return call(built, features, **kwargs)["sequence_output"].numpy()


SEED = tf.constant([3, 4], tf.int32)


def test_outputs():
    outputs = call(build(), return_layers=True)
    assert outputs["embedding_output"].shape == (3, LENGTH, 8)
    *_, last = outputs["all_encoder_layers"]
    assert last.shape == (3, LENGTH, 8)
    np.testing.assert_array_equal(outputs["sequence_output"], last)
    np.testing.assert_array_equal(outputs["pooled_output"], last[:, 0])
    shapes = [x.shape for x in outputs["attention_probs"]]
    assert shapes == [(3, 2, LENGTH, LENGTH)] * 2
    assert set(call(build())) == {"sequence_output", "pooled_output"}


def test_shared_embeddings_belong_to_the_other_encoder():
    first = build()
    second = encoder.Encoder(
        helpers.encoder_config(), "generator", first.embeddings
    )
    second.build()
    assert second.embeddings is first.embeddings
    generators = [v.path for v in second.variables if "generator" in v.path]
    assert "generator/embeddings_project/kernel" in generators
    assert "generator/encoder/layer_1/output/dense/bias" in generators
    assert not [path for path in generators if "/embeddings/" in path]


def test_attention_bias():
    mask = tf.constant([[1, 1, 0]])
    no = -10000.0

    def bias(direction):
        return encoder.attention_bias(mask, direction).numpy().tolist()

    assert bias("both") == [[[[0, 0, no]]]]
    assert bias("left_to_right") == [[[[0, no, no], [0, 0, no], [0, 0, no]]]]
    assert bias("right_to_left") == [[[[0, 0, no], [no, 0, no], [no, no, no]]]]


def test_attention_probabilities():
    probs = call(build(), return_layers=True)["attention_probs"][0].numpy()
    np.testing.assert_allclose(probs.sum(-1), 1.0, rtol=1e-5)
    # Row 1 has one token of padding, row 2 two.
    assert (probs[1, :, :, 11:] == 0).all()
    assert (probs[2, :, :, 10:] == 0).all()
    assert (probs[2, :, :, :10] > 0).all()


def test_padding_changes_no_real_token():
    features = helpers.inputs([1, 2])
    padded = features["input_mask"] == 0
    other = features | {
        "input_ids": np.where(padded, 17, features["input_ids"]),
        "segment_ids": np.where(padded, 1, features["segment_ids"]),
    }
    found, changed = sequence(build(), features), sequence(build(), other)
    np.testing.assert_allclose(found[~padded], changed[~padded], atol=1e-6)
    assert np.abs(found[padded] - changed[padded]).max() > 0.1


def changed_positions(direction):
    """Positions whose output changes when the token at 5 does."""
    built = build(direction)
    before = sequence(built, features := helpers.inputs([0]))
    features["input_ids"][0, 5] = 17
    difference = np.abs(before - sequence(built, features))
    return np.flatnonzero(difference.max(axis=(0, 2)) > 1e-6).tolist()


def test_what_a_tower_sees():
    assert changed_positions("both") == list(range(12))
    assert changed_positions("left_to_right") == list(range(5, 12))
    assert changed_positions("right_to_left") == list(range(6))


def test_no_dropout_without_a_seed():
    without = build(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    expected = sequence(without)
    np.testing.assert_array_equal(sequence(build()), expected)
    np.testing.assert_array_equal(
        sequence(without, dropout_seed=SEED), expected
    )


@pytest.mark.parametrize(
    ("hidden", "attention"), [(0.5, 0.0), (0.0, 0.5), (0.1, 0.1)]
)
def test_dropout_follows_from_its_seed(hidden, attention):
    built = build(
        hidden_dropout_prob=hidden, attention_probs_dropout_prob=attention
    )
    dropped = sequence(built, dropout_seed=SEED)
    np.testing.assert_array_equal(sequence(built, dropout_seed=SEED), dropped)
    assert np.abs(dropped - sequence(built)).max() > 1e-3
    other = sequence(built, dropout_seed=SEED + 1)
    assert np.abs(dropped - other).max() > 1e-3


def test_every_dropout_of_an_encoder_has_a_key_of_its_own(monkeypatch):
    taken = []
    drops = encoder.Dropout.drops

    def drops_and_tells(dropout, key):
        taken.append(tuple(key.numpy()))
        return drops(dropout, key)

    monkeypatch.setattr(encoder.Dropout, "drops", drops_and_tells)
    sequence(build(), dropout_seed=SEED)
    # One of the embeddings, three of each layer.
    assert len(set(taken)) == len(taken) == 7


def test_bfloat16_keeps_weights_and_probabilities_in_float32(mixed_bfloat16):
    built = build()
    assert {v.dtype for v in built.variables} == {"float32"}
    outputs = call(built, return_layers=True, dropout_seed=SEED)
    assert outputs["sequence_output"].dtype == tf.bfloat16
    assert outputs["pooled_output"].dtype == tf.bfloat16
    probs = outputs["attention_probs"][1]
    assert probs.dtype == tf.float32
    # bfloat16 would be off by a thousandth.
    np.testing.assert_allclose(
        tf.reduce_sum(probs, axis=-1), np.ones(probs.shape[:-1]), rtol=1e-6
    )


def test_bfloat16_normalises_in_float32(mixed_bfloat16):
    layer = encoder.LayerNorm(2)
    layer.build()
    # Neighbours in bfloat16: their mean is not one of its numbers.
    x = tf.constant([[1.0, 1.0078125]], tf.bfloat16)
    normalized = layer(x)
    assert normalized.dtype == tf.bfloat16
    assert tf.cast(normalized, tf.float32).numpy().tolist() == [[-1.0, 1.0]]
