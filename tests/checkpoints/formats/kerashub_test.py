"""Tests of electra_tf/checkpoints/formats/kerashub.py, against KerasHub."""

import dataclasses
import json
import shutil

import keras
import keras_hub
import numpy as np
import pytest
import tensorflow as tf

from electra_tf import errors
from electra_tf.checkpoints import reading
from electra_tf.checkpoints.formats import kerashub
from electra_tf.text import vocabulary as vocabulary_lib
from tests import helpers, notices
from tests.checkpoints import models

pytestmark = pytest.mark.usefixtures("quick_collections")

SPECIAL = helpers.VOCAB[:5]
UNCASED = [
    *(*SPECIAL, ".", ",", "!", "a", "b", "##b", "##c", "caf", "##e", "uber"),
    *("east", "##ern", "\u6771", "\u4eac", "12", "##3"),
]
CASED = [
    *(*SPECIAL, ".", ",", "!", "A", "a", "B", "##b", "Caf", "##\xe9"),
    *("\xdcber", "\ud55c", "##\uad6d", "##\uc5b4", "\uc11c", "##\uc6b8"),
    "##\uc5d0",
]
LINES = [
    "a, ab abc! unknown",
    "Caf\xe9 \xdcber Eastern. A B",
    "\u6771\u4eac 123 12",
    "  \t a\nb ",
    "",
]
KOREAN = ["\ud55c\uad6d\uc5b4, \uc11c\uc6b8\uc5d0 A.", "\uc11c\uc6b8 \ub3c4"]
INPUTS = models.INPUTS
ours = models.sequence_output


def library_backbone(**changes):
    """A random backbone of KerasHub's making."""
    keras.utils.set_random_seed(1)
    values = {
        "vocab_size": len(helpers.VOCAB),
        "num_layers": 2,
        "num_heads": 2,
        "hidden_dim": 8,
        "embedding_dim": 6,
        "intermediate_dim": 16,
        "dropout": 0.2,
        "max_sequence_length": helpers.LENGTH,
    }
    backbone = keras_hub.models.ElectraBackbone(**(values | changes))
    rng = np.random.default_rng(2)
    for variable in backbone.weights:
        variable.assign(rng.normal(0, 0.5, variable.shape))
    return backbone


@pytest.fixture(scope="module")
def preset(tmp_path_factory):
    """A preset of ours, to be copied and damaged."""
    path = tmp_path_factory.mktemp("kerashub") / "preset"
    kerashub.write(models.encoder_alone(helpers.VOCAB), path)
    return path


@pytest.fixture
def damaged(preset, tmp_path):
    return shutil.copytree(preset, tmp_path / "preset")


def library_output(backbone):
    features = {
        "token_ids": INPUTS["input_ids"],
        "padding_mask": INPUTS["input_mask"],
        "segment_ids": INPUTS["segment_ids"],
    }
    return {name: np.asarray(x) for name, x in backbone(features).items()}


@pytest.mark.parametrize("embedding_size", [6, 8])
def test_kerashub_computes_what_we_wrote(tmp_path, embedding_size):
    written = models.encoder_alone(embedding_size=embedding_size)
    kerashub.write(written, tmp_path)
    received = kerashub.forward(tmp_path, INPUTS)["sequence_output"]
    models.assert_close(received, ours(written))
    backbone = keras_hub.models.Backbone.from_preset(str(tmp_path))
    outputs = library_output(backbone)
    models.assert_close(outputs["sequence_output"], ours(written))
    # The pooler is the identity.
    np.testing.assert_allclose(
        outputs["pooled_output"],
        np.tanh(outputs["sequence_output"][:, 0]),
        atol=1e-6,
    )


@pytest.mark.dear
def test_kerashub_has_the_approximation_of_gelu_only(tmp_path):
    written = models.encoder_alone(hidden_act="gelu")
    said = notices.of(kerashub.write, written, tmp_path)
    assert kerashub.GELU_NOTE in said and "no tokenizer" in said[-1]
    received = kerashub.forward(tmp_path, INPUTS)["sequence_output"]
    exact = ours(written)
    assert np.abs(received - exact).max() > 1e-5 * np.abs(exact).max()
    assert kerashub.read(tmp_path).discriminator.hidden_act == "gelu_new"
    backbone = keras_hub.models.ElectraBackbone.from_preset(str(tmp_path))
    kerashub.use_exact_gelu(backbone)
    models.assert_close(library_output(backbone)["sequence_output"], exact)


@pytest.mark.parametrize("embedding_dim", [6, 8])
def test_we_compute_what_kerashub_wrote(tmp_path, embedding_dim):
    backbone = library_backbone(embedding_dim=embedding_dim)
    backbone.save_to_preset(str(tmp_path))
    read = kerashub.read(tmp_path)
    assert read.discriminator == helpers.encoder_config(
        hidden_act="gelu_new",
        embedding_size=embedding_dim,
        hidden_dropout_prob=0.2,
        attention_probs_dropout_prob=0.2,
    )
    assert read.generator is None
    assert read.vocabulary is None
    assert read.unused == ("pooled_dense/bias", "pooled_dense/kernel")
    models.assert_close(
        ours(read),
        kerashub.forward(tmp_path, INPUTS)["sequence_output"],
    )


@pytest.mark.parametrize(
    ("tokens", "do_lower_case", "lines"),
    [
        (UNCASED, True, LINES),
        pytest.param(UNCASED, None, LINES, marks=pytest.mark.dear),
        (CASED, False, LINES + KOREAN),
        pytest.param(CASED, None, LINES + KOREAN, marks=pytest.mark.dear),
    ],
)
def test_the_tokenizers_agree(tmp_path, tokens, do_lower_case, lines):
    vocab = vocabulary_lib.Vocabulary(tuple(tokens), do_lower_case)
    written = models.encoder_alone(vocab_size=len(tokens))
    kerashub.write(dataclasses.replace(written, vocabulary=vocab), tmp_path)
    (tmp_path / "vocab.txt").write_text("\n".join(tokens), encoding="utf-8")
    expected = helpers.make_tokenizer(
        tmp_path / "vocab.txt", do_lower_case=tokens is UNCASED
    ).tokenize(lines)
    theirs = keras_hub.models.ElectraTokenizer.from_preset(str(tmp_path))
    # KerasHub has one tokenizer in Python and one in TensorFlow.
    assert [list(row) for row in theirs(lines)] == expected.to_list()
    in_graph = tf.data.Dataset.from_tensors(lines).map(theirs)
    assert next(iter(in_graph)).to_list() == expected.to_list()
    assert kerashub.read(tmp_path).vocabulary == vocabulary_lib.Vocabulary(
        tuple(tokens), tokens is UNCASED, tokens is UNCASED
    )


def edit_config(path, **changes):
    file = path / "config.json"
    config = json.loads(file.read_text())
    config["config"] |= changes
    file.write_text(json.dumps(config))


def replace(path, text):
    path.write_text(text)


def truncate(path):
    path.write_bytes(path.read_bytes()[:5000])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda p: truncate(p / "model.weights.h5"), "truncated file"),
        (lambda p: replace(p / "config.json", "{"), "Cannot read .*config"),
        (lambda p: edit_config(p, vocab_size=21), "token_embedding"),
        (lambda p: edit_config(p, num_heads=4), "could not be loaded"),
        (
            lambda p: (p / "assets/tokenizer/vocabulary.txt").unlink(),
            "vocabulary.txt",
        ),
        (
            lambda p: replace(
                p / "assets/tokenizer/vocabulary.txt",
                "\n".join(helpers.VOCAB[:-1]),
            ),
            "expected a vocabulary with 20 entries.*Received: 19 entries",
        ),
        (
            lambda p: replace(p / "assets/tokenizer/vocabulary.txt", "[UNK]"),
            r"Cannot find special token",
        ),
    ],
)
def test_damaged_preset(damaged, damage, message):
    damage(damaged)
    with pytest.raises(errors.CheckpointError, match=message) as error:
        reading.read_checkpoint(damaged)
    assert "\n" not in str(error.value)
    assert str(damaged) in str(error.value)


def test_a_head_is_said_and_is_no_encoder(damaged):
    (damaged / "task.weights.h5").touch()
    with notices.heard() as said:
        checkpoint = reading.read_checkpoint(damaged)
    assert any("nothing reads task.weights.h5" in line for line in said)
    with pytest.raises(
        errors.CheckpointError, match="task.weights.h5; without"
    ):
        checkpoint.refuse_other_head("preset")


def test_preset_of_another_architecture(tmp_path):
    keras_hub.models.BertBackbone(
        vocabulary_size=20,
        num_layers=1,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=16,
        max_sequence_length=12,
    ).save_to_preset(str(tmp_path))
    assert kerashub.recognise(tmp_path)
    with pytest.raises(
        errors.CheckpointError, match="Received: keras_hub>BertBackbone"
    ):
        kerashub.read(tmp_path)


def test_refuses_activations_that_kerashub_lacks(tmp_path):
    with pytest.raises(errors.CheckpointError, match="hidden_act='relu'$"):
        kerashub.write(models.encoder_alone(hidden_act="relu"), tmp_path / "a")
    assert not (tmp_path / "a").exists()
