import dataclasses

import keras
import keras_hub
import numpy as np
import pytest
import tensorflow as tf

import electra_tf
from electra_tf.checkpoints import reading
from electra_tf.model import encoder as encoder_lib
from tests import helpers
from tests.checkpoints import models
from tests.keras_models import layer_checks, tasks

SIZES = dataclasses.asdict(helpers.encoder_config(initializer_range=0.5))
INPUTS = helpers.inputs(range(3))


def _encoder(**changes) -> electra_tf.Encoder:
    keras.utils.set_random_seed(1)
    return electra_tf.Encoder(**(SIZES | changes))


@pytest.fixture(scope="module")
def encoder():
    return _encoder()


def _sequence(model, **kwargs):
    return model(INPUTS, **kwargs)["sequence_output"].numpy()


# --- Checkpoints ----------------------------------------------------------


@pytest.mark.parametrize("format_name", reading.FORMATS)
def test_from_checkpoint_of_every_format(format_name, tmp_path):
    # KerasHub and the Model Garden have GELU's approximation.
    checkpoint = models.with_hidden_act(models.pretrained(), "gelu_new")
    if format_name == "original":
        checkpoint = models.pretrained()
    path = str(tmp_path / "checkpoint")
    reading.format_module(format_name).write(checkpoint, path)

    encoder = electra_tf.Encoder.from_checkpoint(path)

    expected = encoder_lib.Encoder(checkpoint.discriminator, "electra")
    expected.build()
    reading.assign_all(checkpoint, expected.variables, path, "all")
    layer_checks.assert_same_bits(encoder(INPUTS), expected(*INPUTS.values()))


def test_what_is_given_goes_before_the_checkpoint():
    encoder = electra_tf.Encoder.from_preset(
        models.pretrained(), hidden_dropout_prob=0.3, name="mine", seed=7
    )
    assert encoder.config.hidden_dropout_prob == 0.3
    assert (encoder.name, encoder.seed) == ("mine", 7)


@pytest.mark.parametrize("format_name", ["electra_tf", "huggingface"])
def test_save_checkpoint(encoder, format_name, tmp_path):
    preprocessor = electra_tf.Preprocessor(helpers.VOCAB, max_seq_length=9)
    encoder.save_checkpoint(
        tmp_path / "to", format_name, preprocessor=preprocessor
    )
    again = electra_tf.Encoder.from_checkpoint(tmp_path / "to")
    layer_checks.assert_same_bits(again(INPUTS), encoder(INPUTS))
    assert (
        electra_tf.Preprocessor.from_checkpoint(tmp_path / "to").vocabulary
        == preprocessor.vocabulary
    )
    with pytest.raises(ValueError, match="must be a new or empty folder"):
        encoder.save_checkpoint(tmp_path / "to")
    with pytest.raises(ValueError, match="Received: format='onnx'"):
        encoder.save_checkpoint(tmp_path / "new", format="onnx")


@pytest.mark.dear
def test_a_preset_of_kerashub(encoder, tmp_path):
    encoder.save_to_preset(tmp_path / "preset")
    again = electra_tf.Encoder.from_preset(tmp_path / "preset")
    tasks.assert_same_weights(again.electra, encoder.electra)
    backbone = keras_hub.models.ElectraBackbone.from_preset(
        str(tmp_path / "preset")
    )
    np.testing.assert_array_equal(
        backbone.token_embedding.embeddings, encoder.electra.variables[0]
    )


# --- Dropout --------------------------------------------------------------


def test_training_drops_out_otherwise_every_time(encoder):
    without = _sequence(encoder)
    np.testing.assert_array_equal(without, _sequence(encoder, training=False))
    first, second = (_sequence(encoder, training=True) for _ in range(2))
    assert np.abs(first - without).max() > 1e-3
    assert np.abs(first - second).max() > 1e-3


def test_the_seed_decides_what_drops_out():
    first, second, other = (
        _sequence(_encoder(seed=seed), training=True) for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(first, second)
    assert np.abs(first - other).max() > 1e-3


# --- Keras's checks -------------------------------------------------------


def test_config():
    layer_checks.check_config(_encoder(seed=5, dtype="mixed_bfloat16"))


@pytest.mark.parametrize("policy", layer_checks.POLICIES)
def test_policies(policy, encoder):
    of_policy = _encoder(dtype=policy)
    outputs = of_policy(INPUTS, training=True)
    compute = of_policy.compute_dtype
    assert {x.dtype.name for x in outputs.values()} == {compute}
    weights = {w.dtype for w in of_policy.weights}
    assert weights == {of_policy.variable_dtype}
    of_policy.set_weights(encoder.get_weights())
    np.testing.assert_allclose(
        tf.cast(of_policy(INPUTS)["sequence_output"], tf.float32),
        _sequence(encoder),
        atol=1e-5 if "float" in compute and compute[-2:] != "16" else 0.1,
    )


@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
def test_files(policy, tmp_path):
    layer_checks.check_saving(_encoder(dtype=policy), INPUTS, tmp_path)


@pytest.mark.dear
def test_strings_to_classes_in_one_model(tmp_path):
    encoder = _encoder()
    preprocessor = electra_tf.Preprocessor(helpers.VOCAB, max_seq_length=12)
    text = keras.Input((), dtype="string")
    vector = encoder(preprocessor(text))["pooled_output"]
    model = keras.Model(text, keras.layers.Dense(2)(vector))
    # XLA would end the process: it knows no strings.
    with pytest.warns(UserWarning, match="jit_compile=False"):
        model.compile("sgd", "mse", jit_compile=True)
    texts = tf.constant(["wa wb", "wc"])
    model.fit(texts, np.zeros([2, 2]), verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    layer_checks.assert_same_bits(again(texts), model(texts))


@pytest.mark.parametrize("change", [("quantize", "int8"), ("enable_lora", 2)])
def test_layers_that_were_changed_are_not_written(tmp_path, change):
    encoder = _encoder()
    layers = encoder._flatten_layers()
    layer = next(x for x in layers if x.name == "query")
    getattr(layer, change[0])(change[1])
    with pytest.raises(ValueError, match=f"{layer.path} after"):
        encoder.save_checkpoint(tmp_path / "to")


# --- What it refuses ------------------------------------------------------


@pytest.mark.parametrize(
    "inputs, message",
    [
        (INPUTS["input_ids"], "Expected a dictionary with input_ids"),
        ({"token_ids": INPUTS["input_ids"]}, "Received: .'token_ids'"),
        (INPUTS | {"input_ids": INPUTS["input_ids"] * 1.0}, "float64"),
        (
            INPUTS | {"segment_ids": INPUTS["segment_ids"][0]},
            r"shapes .*\(12,\)",
        ),
        (
            INPUTS | {"input_mask": INPUTS["input_mask"][:1]},
            r"shapes .*\(1, 12\)",
        ),
        (
            {name: np.pad(x, [[0, 0], [0, 1]]) for name, x in INPUTS.items()},
            r"at most 12 positions.*\(3, 13\)",
        ),
    ],
)
def test_what_it_refuses(encoder, inputs, message):
    with pytest.raises(ValueError, match=message):
        encoder(inputs)


def test_exports_after_a_call(encoder, tmp_path):
    """Keras does not know by itself what goes in."""
    names = ("input_ids", "input_mask", "segment_ids")
    features = {name: tf.ones([2, 5], tf.int32) for name in names}
    expected = encoder(features)["sequence_output"]
    encoder.export(str(tmp_path / "e"), verbose=False)
    loaded = tf.saved_model.load(str(tmp_path / "e"))
    found = loaded.serve(features)
    np.testing.assert_allclose(found["sequence_output"], expected, atol=1e-6)
