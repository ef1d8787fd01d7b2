"""Tests of electra_tf/checkpoints/formats/original.py."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf import errors
from electra_tf.checkpoints.formats import original
from electra_tf.command_line import original_settings
from tests import helpers
from tests.checkpoints import models


class Tiny(keras.layers.Layer):
    """Two variables: electra/kernel [2, 3] and electra/bias [3]."""

    def build(self, input_shape=None):
        self.kernel = self.add_weight(name="kernel", shape=(2, 3))
        self.bias = self.add_weight(name="bias", shape=(3,))


@pytest.fixture
def variables():
    layer = Tiny(name="electra")
    layer.build()
    return layer.variables


def write(prefix, tensors: dict) -> str:
    """A checkpoint of TensorFlow 1."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        saved = {
            name: tf.compat.v1.get_variable(
                name, initializer=value, use_resource=False
            )
            for name, value in tensors.items()
        }
        session.run(tf.compat.v1.global_variables_initializer())
        return tf.compat.v1.train.Saver(saved).save(session, str(prefix))


KERNEL = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_loads_by_name_and_reports_the_rest(tmp_path, variables):
    prefix = write(
        tmp_path / "model.ckpt-7",
        {
            "electra/kernel": KERNEL,
            "electra/kernel/adam_m": KERNEL,
            "global_step": np.int64(7),
        },
    )
    for path in (prefix, prefix + ".index", str(tmp_path)):
        variables[0].assign(tf.zeros([2, 3]))
        report = helpers.load_original(path, variables)
        assert report.used == ("electra/kernel",)
        assert report.unused == ("electra/kernel/adam_m", "global_step")
        assert report.missing == ("electra/bias",)
        np.testing.assert_array_equal(variables[0].numpy(), KERNEL)


def test_wrong_shape_is_named_and_nothing_is_loaded(tmp_path, variables):
    before = [variable.numpy() for variable in variables]
    prefix = write(
        tmp_path / "model.ckpt-7",
        {
            "electra/bias": np.ones(3, np.float32),
            "electra/kernel": np.ones((2, 4), np.float32),
        },
    )
    with pytest.raises(
        ValueError,
        match=r"electra/kernel must have the shape \[2, 3\]\. "
        r"Received: \[2, 4\]",
    ):
        helpers.load_original(prefix, variables)
    for variable, value in zip(variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)


def test_missing_file(tmp_path, variables):
    prefix = str(tmp_path / "model.ckpt-7")
    with pytest.raises(ValueError, match="model.ckpt-7.index is missing"):
        helpers.load_original(prefix, variables)


def test_folder_without_checkpoint(tmp_path, variables):
    with pytest.raises(ValueError, match="Received: a folder without one"):
        helpers.load_original(str(tmp_path), variables)


def test_the_checkpoint_that_a_folder_names(tmp_path, variables):
    folder = tmp_path / "there"
    folder.mkdir()
    write(folder / "model.ckpt-7", {"electra/kernel": KERNEL})
    # Moved, with a path of where it was.
    (folder / "checkpoint").write_text(
        'model_checkpoint_path: "/gone/model.ckpt-7"\n'
    )
    helpers.load_original(str(folder), variables)
    np.testing.assert_array_equal(variables[0].numpy(), KERNEL)
    # Of a copy, with the path of the other one, which has learned on.
    other = tmp_path / "other"
    other.mkdir()
    write(other / "model.ckpt-7", {"electra/kernel": KERNEL + 1.0})
    (folder / "checkpoint").write_text(
        f'model_checkpoint_path: "{other}/model.ckpt-7"\n'
    )
    helpers.load_original(str(folder), variables)
    np.testing.assert_array_equal(variables[0].numpy(), KERNEL)
    (folder / "checkpoint").write_text(
        'model_checkpoint_path: "model.ckpt-9"\n'
    )
    with pytest.raises(ValueError, match="is there. Received: model.ckpt-9$"):
        helpers.load_original(str(folder), variables)
    (folder / "checkpoint").write_text("damaged")
    with pytest.raises(ValueError, match="^Cannot read .*there/checkpoint, wh"):
        helpers.load_original(str(folder), variables)


@pytest.mark.parametrize("size", [0, 10])
@pytest.mark.parametrize("suffix", [".index", ".data-00000-of-00001"])
def test_damaged_file(tmp_path, variables, suffix, size):
    prefix = write(tmp_path / "model.ckpt-7", {"electra/kernel": KERNEL})
    damaged = tmp_path / f"model.ckpt-7{suffix}"
    damaged.write_bytes(damaged.read_bytes()[:size])
    with pytest.raises(ValueError, match="^Cannot read checkpoint .*-7: "):
        helpers.load_original(prefix, variables)


def test_checkpoint_of_tensorflow_2(tmp_path, variables):
    checkpoint = tf.train.Checkpoint(kernel=tf.Variable(KERNEL))
    prefix = checkpoint.write(str(tmp_path / "object"))
    with pytest.raises(ValueError, match="object-based checkpoint"):
        helpers.load_original(prefix, variables)


def test_reads_all_tensors(tmp_path):
    prefix = write(tmp_path / "model.ckpt-7", {"electra/kernel": KERNEL})
    (tensor,) = original.read_original_checkpoint(prefix).items()
    assert tensor[0] == "electra/kernel"
    np.testing.assert_array_equal(tensor[1], KERNEL)


def test_heads_and_feed_forward_follow_an_overridden_width():
    config = original_settings.encoder_config(
        {"model_hparam_overrides": {"hidden_size": 192}}
    )
    assert config.num_attention_heads == 3
    assert config.intermediate_size == 768


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("gelu", "gelu"),
        ("relu", "relu"),
        ("tanh", "tanh"),
        ("linear", "linear"),
        ("ReLU", "relu"),
        ("", "linear"),
        (None, "linear"),
    ],
)
def test_activations_are_those_of_get_activation(theirs, ours):
    config = original_settings.encoder_config(
        {"model_hparam_overrides": {"hidden_act": theirs}}
    )
    assert config.hidden_act == ours


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model_size": "tiny"}, "one of small, base, large. Received: .*tiny"),
        (
            {"model_hparam_overrides": {"hidden_act": "gelu_new"}},
            "of gelu, relu, tanh, linear, or for none, which is linear. "
            "Received: hidden_act='gelu_new'",
        ),
        (
            {"model_hparam_overrides": {"hidden_act": ["relu"]}},
            r"Received: hidden_act=\['relu'\]",
        ),
        ({"model_hparam_overrides": {"width": 3}}, "Received: width"),
    ],
)
def test_refuses_what_it_cannot_build(settings, message):
    with pytest.raises(errors.ConfigError, match=message):
        original_settings.encoder_config(settings)


def test_says_that_the_original_knows_no_mean_of_all_tokens():
    checkpoint = models.finetuned("classification", 2)
    assert original.notes(checkpoint) == ()
    head = dataclasses.replace(checkpoint.head, options={"pooling": "mean"})
    (note,) = original.notes(dataclasses.replace(checkpoint, head=head))
    assert "the head 'letters' reads the mean of all tokens'" in note


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (
            "classification",
            {"hidden_activation": "gelu"},
            "the head 'letters' has a hidden layer, the original's none: the",
        ),
        (
            "tagging",
            {"segment": 0},
            "reads words in segment 0, the original's in segment 1",
        ),
        (
            "classification",
            {"options": {"windows": {"stride": 4, "max_windows": 2}}},
            "reads a long text in windows, which the original cuts: the",
        ),
    ],
)
def test_says_what_the_original_answers_otherwise(kind, changes, message):
    checkpoint = models.finetuned(kind)
    assert original.notes(checkpoint) == ()
    head = dataclasses.replace(checkpoint.head, **changes)
    (note,) = original.notes(dataclasses.replace(checkpoint, head=head))
    assert message in note
