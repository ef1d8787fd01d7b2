"""Tests of electra_tf/checkpoints/formats/model_garden.py, against it."""

import os
import shutil

import numpy as np
import pytest
import tensorflow as tf
import yaml
from official.nlp.configs import encoders
from official.nlp.data import sentence_prediction_dataloader
from official.nlp.modeling import models, networks
from official.nlp.tasks import sentence_prediction

from electra_tf import errors
from electra_tf.checkpoints.formats import model_garden
from tests import helpers, notices
from tests.checkpoints import models as our_models

INPUTS = our_models.INPUTS
ours = our_models.sequence_output
CLASSES = [networks.BertEncoder, networks.BertEncoderV2]
# With a projection of the embeddings, and without.
CLASSES_AND_WIDTHS = (
    (CLASSES[0], 6),
    (CLASSES[1], 8),
    pytest.param(CLASSES[0], 8, marks=pytest.mark.dear),
    pytest.param(CLASSES[1], 6, marks=pytest.mark.dear),
)


def library_encoder(cls=networks.BertEncoder, **changes):
    """A random encoder of the Model Garden's making."""
    values = {
        "vocab_size": len(helpers.VOCAB),
        "hidden_size": 8,
        "num_layers": 2,
        "num_attention_heads": 2,
        "max_sequence_length": helpers.LENGTH,
        "type_vocab_size": 2,
        "inner_dim": 16,
        "embedding_width": 6,
    }
    if cls is networks.BertEncoder:
        values["dict_outputs"] = True
    built = cls(**(values | changes))
    call(built)
    rng = np.random.default_rng(2)
    for variable in built.variables:
        variable.assign(rng.normal(0, 0.5, variable.shape))
    return built


def call(built):
    """The sequence output of an encoder of the Model Garden."""
    features = {
        "input_word_ids": tf.constant(INPUTS["input_ids"]),
        "input_mask": tf.constant(INPUTS["input_mask"]),
        "input_type_ids": tf.constant(INPUTS["segment_ids"]),
    }
    return built(features, training=False)["sequence_output"].numpy()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A checkpoint of ours, to be copied and damaged."""
    path = tmp_path_factory.mktemp("model_garden") / "written"
    model_garden.write(our_models.encoder_alone(helpers.VOCAB), path)
    return path


@pytest.fixture
def damaged(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "damaged")


@pytest.mark.parametrize(("cls", "embedding_size"), CLASSES_AND_WIDTHS)
def test_the_model_garden_computes_what_we_wrote(tmp_path, cls, embedding_size):
    written = our_models.encoder_alone(embedding_size=embedding_size)
    model_garden.write(written, tmp_path)
    loaded = library_encoder(cls, embedding_width=embedding_size)
    status = tf.train.Checkpoint(encoder=loaded).read(
        str(tmp_path / "bert_model.ckpt")
    )
    status.assert_existing_objects_matched()
    expected = ours(written)
    our_models.assert_close(call(loaded), expected)
    kernel, bias = loaded.pooler_layer.get_weights()
    np.testing.assert_array_equal(np.eye(8) + bias, kernel)
    received = model_garden.forward(tmp_path, INPUTS)["sequence_output"]
    our_models.assert_close(received, expected)


@pytest.mark.parametrize(("cls", "embedding_width"), CLASSES_AND_WIDTHS)
def test_we_compute_what_the_model_garden_wrote(tmp_path, cls, embedding_width):
    built = library_encoder(cls, embedding_width=embedding_width)
    tf.train.Checkpoint(encoder=built).save(str(tmp_path / "ckpt"))
    with notices.heard() as lines:
        read = model_garden.read(tmp_path)
    assert not lines and not read.other_head
    assert read.discriminator == helpers.encoder_config(
        embedding_size=embedding_width, hidden_act="gelu_new"
    )
    assert read.assumed == (
        "hidden_dropout_prob",
        "attention_probs_dropout_prob",
        "initializer_range",
    )
    assert len(read.unused) == 3  # The pooler and the count of checkpoints.
    our_models.assert_close(ours(read), call(built))
    our_models.assert_close(
        model_garden.forward(tmp_path, INPUTS)["sequence_output"], call(built)
    )


def test_checkpoint_of_a_whole_model(tmp_path):
    """As a task's training leaves it: the encoder is at two places."""
    built = library_encoder()
    model = models.BertClassifier(network=built, num_classes=3)
    prefix = tf.train.Checkpoint(model=model, **model.checkpoint_items).write(
        str(tmp_path / "ckpt")
    )
    with notices.heard() as lines:
        read = model_garden.read(prefix)
    (line,) = lines
    assert "nothing reads model/" in line
    assert line.endswith(read.other_head) and "kernel" in read.other_head
    our_models.assert_close(ours(read), call(built))
    assert not set(read.tensors) - set(our_models.encoder_alone().tensors)
    # The pooler, and the classifier's output layer.
    assert len(read.unused) == 4


@pytest.mark.dear
def test_a_task_loads_it(tmp_path):
    """params.yaml and init_checkpoint are all that a task needs."""
    written = our_models.encoder_alone(attention_probs_dropout_prob=0.3)
    model_garden.write(written, tmp_path / "first")
    os.rename(tmp_path / "first", tmp_path / "moved")
    params = yaml.safe_load((tmp_path / "moved/params.yaml").read_text())
    config = sentence_prediction.SentencePredictionConfig(
        init_checkpoint=str(tmp_path / "moved"),
        train_data=sentence_prediction_dataloader.SentencePredictionDataConfig(),
    )
    config.override(params["task"])
    task = sentence_prediction.SentencePredictionTask(config)
    model = task.build_model()
    task.initialize(model)
    network = model.checkpoint_items["encoder"]
    expected = ours(written)
    our_models.assert_close(call(network), expected)
    received = model_garden.forward(tmp_path / "moved", INPUTS)
    our_models.assert_close(received["sequence_output"], expected)
    settings = config.model.encoder.get()
    assert isinstance(settings, encoders.BertEncoderConfig)
    assert settings.attention_dropout_rate == 0.3


@pytest.mark.dear
@pytest.mark.parametrize("hidden_act", ["gelu", "relu"])
def test_other_activations(tmp_path, hidden_act):
    """Of the exact GELU what the note advises."""
    written = our_models.encoder_alone(hidden_act=hidden_act)
    said = notices.of(model_garden.write, written, tmp_path)
    assert said[-1].startswith("no vocab.txt")
    is_noted = model_garden.GELU_NOTE in said
    assert is_noted == (hidden_act == "gelu")
    encoder = library_encoder(inner_activation=hidden_act)
    tf.train.Checkpoint(encoder=encoder).read(str(tmp_path / "bert_model.ckpt"))
    our_models.assert_close(call(encoder), ours(written))
    if not is_noted:
        read = model_garden.read(tmp_path)
        assert read.discriminator == written.discriminator
        received = model_garden.forward(tmp_path, INPUTS)["sequence_output"]
        our_models.assert_close(received, ours(written))


def truncate(path):
    path.write_bytes(path.read_bytes()[:100])


def replace(path, text):
    path.write_text(text)


INDEX = "bert_model.ckpt.index"
DATA = "bert_model.ckpt.data-00000-of-00001"
LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda p: (p / INDEX).unlink(), "to name one that is there"),
        (lambda p: (p / DATA).unlink(), f"its data file .*{DATA} is missing"),
        (lambda p: truncate(p / INDEX), "Cannot read checkpoint"),
        (lambda p: replace(p / DATA, LFS), "Git LFS pointer"),
        (lambda p: replace(p / "params.yaml", "task: 1"), "task.model.encoder"),
        (
            lambda p: replace(
                p / "params.yaml",
                (p / "params.yaml").read_text().replace("gelu", "swish"),
            ),
            "of gelu, relu, tanh, linear and .*Received: swish and False",
        ),
        (
            lambda p: replace(
                p / "params.yaml",
                (p / "params.yaml")
                .read_text()
                .replace("layers: 2", "layers: 3"),
            ),
            "say num_hidden_layers=3, but its tensors have num_hidden_layers=2",
        ),
        (
            lambda p: replace(p / "vocab.txt", "\n".join(helpers.VOCAB[:-1])),
            "tokens that .* was written with. Received: .*vocab.txt",
        ),
    ],
)
def test_damaged_checkpoint(damaged, damage, message):
    damage(damaged)
    with pytest.raises(errors.CheckpointError, match=message) as error:
        model_garden.read(damaged).check_vocabulary(str(damaged))
    assert "\n" not in str(error.value)
    assert str(damaged) in str(error.value)


@pytest.mark.dear
def test_checkpoint_of_another_architecture(tmp_path):
    albert = networks.AlbertEncoder(
        vocab_size=20, hidden_size=8, num_attention_heads=2, num_layers=1
    )
    prefix = tf.train.Checkpoint(encoder=albert).write(str(tmp_path / "a"))
    with pytest.raises(errors.CheckpointError, match="other objects"):
        model_garden.read(prefix)
    bert = models.BertPretrainerV2(library_encoder(networks.BertEncoderV2))
    bert(bert.inputs)
    prefix = tf.train.Checkpoint(**bert.checkpoint_items).write(
        str(tmp_path / "b")
    )
    with pytest.raises(errors.CheckpointError, match="Received: a BERT"):
        model_garden.read(prefix)
