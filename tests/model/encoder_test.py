"""Tests of model/encoder.py."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.model import encoder, kernels
from tests import helpers

LENGTH = helpers.LENGTH
LAYER_NAMES = [
    "attention/self/query/kernel",
    "attention/self/query/bias",
    "attention/self/key/kernel",
    "attention/self/key/bias",
    "attention/self/value/kernel",
    "attention/self/value/bias",
    "attention/output/dense/kernel",
    "attention/output/dense/bias",
    "attention/output/LayerNorm/beta",
    "attention/output/LayerNorm/gamma",
    "intermediate/dense/kernel",
    "intermediate/dense/bias",
    "output/dense/kernel",
    "output/dense/bias",
    "output/LayerNorm/beta",
    "output/LayerNorm/gamma",
]
NAMES = [
    "electra/embeddings/word_embeddings",
    "electra/embeddings/token_type_embeddings",
    "electra/embeddings/position_embeddings",
    "electra/embeddings/LayerNorm/beta",
    "electra/embeddings/LayerNorm/gamma",
    "electra/embeddings_project/kernel",
    "electra/embeddings_project/bias",
    *(f"electra/encoder/layer_0/{name}" for name in LAYER_NAMES),
    *(f"electra/encoder/layer_1/{name}" for name in LAYER_NAMES),
]


def build(direction="both", **changes):
    """An encoder whose weights are large enough to matter."""
    keras.utils.set_random_seed(0)
    built = encoder.Encoder(
        helpers.encoder_config(initializer_range=0.5, **changes),
        direction=direction,
    )
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


def test_shapes():
    outputs = call(build(), return_layers=True)
    assert outputs["sequence_output"].shape == (3, LENGTH, 8)
    assert outputs["pooled_output"].shape == (3, 8)
    assert outputs["embedding_output"].shape == (3, LENGTH, 8)
    assert [x.shape for x in outputs["all_encoder_layers"]] == (
        [(3, LENGTH, 8)] * 2
    )
    assert [x.shape for x in outputs["attention_probs"]] == (
        [(3, 2, LENGTH, LENGTH)] * 2
    )


def test_the_output_is_that_of_the_last_layer():
    outputs = call(build(), return_layers=True)
    np.testing.assert_array_equal(
        outputs["sequence_output"], outputs["all_encoder_layers"][-1]
    )
    np.testing.assert_array_equal(
        outputs["pooled_output"], outputs["sequence_output"][:, 0]
    )
    assert set(call(build())) == {"sequence_output", "pooled_output"}


def test_shorter_rows_than_the_positions():
    features = {k: v[:, :5] for k, v in helpers.inputs([0, 1]).items()}
    assert sequence(build(), features).shape == (2, 5, 8)


def test_variables_have_the_names_of_the_original():
    assert sorted(v.path for v in build().variables) == sorted(NAMES)


def test_variable_shapes():
    shapes = {v.path: tuple(v.shape) for v in build().variables}
    assert shapes["electra/embeddings/word_embeddings"] == (20, 6)
    assert shapes["electra/embeddings/token_type_embeddings"] == (2, 6)
    assert shapes["electra/embeddings/position_embeddings"] == (LENGTH, 6)
    assert shapes["electra/embeddings_project/kernel"] == (6, 8)
    layer = "electra/encoder/layer_1"
    assert shapes[f"{layer}/attention/self/query/kernel"] == (8, 8)
    assert shapes[f"{layer}/intermediate/dense/kernel"] == (8, 16)
    assert shapes[f"{layer}/output/dense/kernel"] == (16, 8)


def test_no_projection_where_the_widths_agree():
    paths = [v.path for v in build(embedding_size=8).variables]
    assert not [path for path in paths if "embeddings_project" in path]


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


def test_initial_weights():
    values = {
        v.path: v.numpy()
        for v in encoder_of_width(64, initializer_range=0.02).variables
    }
    for path, value in values.items():
        if path.endswith("gamma"):
            assert (value == 1).all(), path
        elif path.endswith(("beta", "bias")):
            assert (value == 0).all(), path
        elif "embeddings_project" in path:
            # Glorot: uniform up to sqrt(6 / (32 + 64)) = 0.25.
            assert 0.24 < np.abs(value).max() < 0.25, path
        else:
            # A normal one with deviation 0.02, cut at 0.04.
            assert np.abs(value).max() <= 0.04, path
            assert value.std() == pytest.approx(0.02 * 0.88, rel=0.25), path


def encoder_of_width(width, **changes):
    keras.utils.set_random_seed(0)
    built = encoder.Encoder(
        helpers.encoder_config(
            hidden_size=width, embedding_size=width // 2, **changes
        )
    )
    built.build()
    return built


def test_gelu():
    # x * Phi(x): Phi(1) = 0.8413447, Phi(-2) = 0.0227501.
    np.testing.assert_allclose(
        kernels.activation(tf.constant([0.0, 1.0, -2.0])),
        [0.0, 0.8413447, -0.0455003],
        atol=1e-6,
    )


def test_layer_norm():
    layer = encoder.LayerNorm(2)
    layer.build()
    layer.gamma.assign([2.0, 2.0])
    layer.beta.assign([1.0, 0.0])
    # Mean 4, deviation 3.
    np.testing.assert_allclose(
        layer(tf.constant([[1.0, 7.0]])), [[-1, 2]], rtol=1e-6
    )


def gradients(function, *inputs):
    """Of a sum that weighs every output differently."""
    inputs = [tf.constant(x) for x in inputs]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = tf.reshape(function(*inputs), [-1])
        total = tf.tensordot(outputs, tf.range(1.0, len(outputs) + 1.0), 1)
    return tape.gradient(total, inputs)


def test_gradient_of_gelu():
    x = np.linspace(-3.0, 3.0, 25, dtype=np.float32)
    (found,) = gradients(kernels.activation, x)
    (expected,) = gradients(lambda x: tf.nn.gelu(x, approximate=False), x)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_gradient_of_layer_norm():
    rng = np.random.default_rng(0)
    layer = encoder.LayerNorm(4)
    layer.build()
    gamma, beta = rng.normal(size=(2, 4)).astype(np.float32)
    layer.gamma.assign(gamma)
    layer.beta.assign(beta)
    x = rng.normal(size=(3, 4)).astype(np.float32)

    def reference(x, gamma, beta):
        mean = tf.reduce_mean(x, -1, keepdims=True)
        variance = tf.reduce_mean((x - mean) ** 2, -1, keepdims=True)
        return (x - mean) / tf.sqrt(variance) * gamma + beta

    expected = gradients(reference, x, gamma, beta)
    (of_x,) = gradients(layer, x)
    np.testing.assert_allclose(of_x, expected[0], atol=1e-4)
    weights = [layer.gamma.value, layer.beta.value]
    with tf.GradientTape() as tape:
        outputs = tf.reshape(layer(x), [-1])
        total = tf.tensordot(outputs, tf.range(1.0, 13.0), 1)
    of_gamma, of_beta = tape.gradient(total, weights)
    np.testing.assert_allclose(of_gamma, expected[1], atol=1e-4)
    np.testing.assert_allclose(of_beta, expected[2], atol=1e-4)


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
    other = dict(features)
    other["input_ids"] = np.where(padded, 17, features["input_ids"])
    other["segment_ids"] = np.where(padded, 1, features["segment_ids"])
    ours, theirs = sequence(build(), features), sequence(build(), other)
    np.testing.assert_allclose(ours[~padded], theirs[~padded], atol=1e-6)
    assert np.abs(ours[padded] - theirs[padded]).max() > 0.1


def changed_positions(direction):
    """Positions whose output changes when the token at 5 does."""
    built = build(direction)
    features = helpers.inputs([0])
    other = dict(features)
    other["input_ids"] = features["input_ids"].copy()
    other["input_ids"][0, 5] = 17
    difference = np.abs(sequence(built, features) - sequence(built, other))
    return np.flatnonzero(difference.max(axis=(0, 2)) > 1e-6).tolist()


def test_what_a_tower_sees():
    assert changed_positions("both") == list(range(12))
    assert changed_positions("left_to_right") == list(range(5, 12))
    assert changed_positions("right_to_left") == list(range(6))


def test_every_input_counts():
    built = build()
    features = helpers.inputs([0])
    usual = sequence(built, features)
    segments = dict(features, segment_ids=features["segment_ids"] + 1)
    assert np.abs(sequence(built, segments) - usual).max() > 1e-3
    swapped = features["input_ids"][:, [0, 2, 1, *range(3, 12)]]
    moved = sequence(built, dict(features, input_ids=swapped))
    assert np.abs(moved[:, 0] - usual[:, 0]).max() > 1e-3


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


def test_dropout_keeps_the_mean():
    (key,) = encoder.dropout_keys(SEED, 1)
    dropped = encoder.Dropout(0.25)(tf.ones([10000]), key).numpy()
    assert set(np.unique(dropped)) == {0.0, np.float32(1 / 0.75)}
    assert dropped.mean() == pytest.approx(1.0, abs=0.03)


def test_dropouts_of_one_seed_draw_apart():
    dropout, ones = encoder.Dropout(0.5), tf.ones([200])
    found = [
        dropout(ones, key).numpy() for key in encoder.dropout_keys(SEED, 3)
    ]
    assert not (found[0] == found[1]).all()
    assert not (found[1] == found[2]).all()


def test_dropout_draws_the_same_where_it_is_compiled():
    def dropped():
        keys = encoder.dropout_keys(SEED, 2)
        return [encoder.Dropout(0.5)(tf.ones([200]), key) for key in keys]

    compiled = tf.function(dropped, jit_compile=True)
    np.testing.assert_array_equal(compiled(), dropped())


def test_every_dropout_of_an_encoder_has_a_key_of_its_own(monkeypatch):
    taken = []
    draws = encoder.Dropout.draws

    def draws_and_tells(dropout, key):
        taken.append(tuple(key.numpy()))
        return draws(dropout, key)

    monkeypatch.setattr(encoder.Dropout, "draws", draws_and_tells)
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


def test_bfloat16_is_close_to_float32():
    # Policies are taken when a layer is built.
    expected = sequence(build())
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        found = sequence(build())
    finally:
        keras.config.set_dtype_policy("float32")
    # bfloat16 has 8 bits; the outputs are normalised to deviation 1.
    np.testing.assert_allclose(found.astype(np.float32), expected, atol=0.15)


def test_eager_equals_graph():
    built = build()
    compiled = tf.function(lambda: call(built, dropout_seed=SEED))
    np.testing.assert_allclose(
        compiled()["sequence_output"],
        sequence(built, dropout_seed=SEED),
        atol=1e-5,
    )
