"""What holds of every format: what it can hold comes back bit by bit."""

import dataclasses

import numpy as np
import pytest

from electra_tf.checkpoints import checkpoint as checkpoint_lib
from electra_tf.checkpoints import reading, verify
from electra_tf.errors import CheckpointError
from tests import helpers
from tests.checkpoints import models

pytestmark = pytest.mark.usefixtures("quick_collections")


def masked_lm(has_discriminator):
    """One network that shares all weights with its generator."""
    both = models.pretrained()
    tensors = {
        name: tensor
        for name, tensor in both.tensors.items()
        if not name.startswith("generator/")
        and (has_discriminator or not name.startswith("discriminator_"))
    }
    kernel = models.random_tensors({"k": (8, 6)})["k"]
    tensors["generator_predictions/dense/kernel"] = kernel
    return dataclasses.replace(both, tensors=tensors, generator=None)


CHECKPOINTS = {
    "pair": models.pretrained(),
    "untied": models.pretrained(untied=True),
    "slots": models.pretrained(slots=True, max_seq_length=12),
    "float16": models.pretrained(
        slots=True,
        iterations=5,
        loss_scale={"scale": np.float32(4.0), "skipped": np.int64(2)},
    ),
    "towers": dataclasses.replace(
        models.electric(untied=True), is_electric=False
    ),
    "tied": masked_lm(has_discriminator=True),
    "masked_lm": masked_lm(has_discriminator=False),
    "segments": models.with_three_segments(),
    "relu": models.with_hidden_act(models.pretrained(), "relu"),
    "classification": models.finetuned(),
    "dotted": models.renamed_task(models.finetuned(), "a.b"),
    "multi_label": models.finetuned("multi_label_classification"),
    "regression": models.finetuned(
        "regression",
        1,
        {"options": {"has_pairs": True, "min_value": 1.0, "scale": 4.0}},
    ),
    "tagging": models.finetuned("tagging", 5),
    "question_answering": models.finetuned("question_answering"),
    "encoder": models.encoder_alone(helpers.VOCAB),
    "settings": models.encoder_alone(
        hidden_dropout_prob=0.2, initializer_range=0.5
    ),
    "no_projection": models.encoder_alone(helpers.VOCAB, embedding_size=8),
    "three": models.with_hidden_act(models.with_three_segments(), "gelu_new"),
}
HEADS = ["classification", "regression", "tagging", "question_answering"]
HELD = {
    "original": ["slots", "segments", "towers", "relu", *HEADS],
    "electra_tf": ["slots", "untied", "float16", "towers", "dotted", *HEADS],
    "huggingface": [
        *("pair", "untied", "segments", "tied", "masked_lm", "multi_label"),
        *("relu", *HEADS),
    ],
    "kerashub": ["encoder", "no_projection", "three"],
    "model_garden": ["encoder", "settings", "no_projection", "three"],
}


@pytest.mark.parametrize(
    ("name", "kind"), [(f, kind) for f in HELD for kind in HELD[f]]
)
def test_what_is_written_is_read_bit_by_bit(tmp_path, name, kind):
    written = CHECKPOINTS[kind]
    reading.format_module(name).write(written, str(tmp_path))
    assert reading.recognise(tmp_path) == name
    read = reading.read_checkpoint(tmp_path)
    models.assert_same_tensors(written, read)
    others = {"tensors", "optimizer"}
    if name in ("kerashub", "model_garden"):
        others |= {"unused", "assumed"}
    for field in dataclasses.fields(written):
        if field.name not in others:
            ours = getattr(written, field.name)
            assert getattr(read, field.name) == ours, field.name


@pytest.mark.parametrize("name", ["kerashub", "model_garden"])
def test_what_stays_behind(tmp_path, name):
    written = models.encoder_alone()
    zero = np.zeros(1, np.float32)
    written.tensors["discriminator_predictions/dense_1/bias"] = zero
    written.optimizer["electra/embeddings/word_embeddings/adam_m"] = zero
    writer = reading.format_module(name)
    writer.write(written, tmp_path)
    assert verify.unequal_tensors(written, writer.read(tmp_path)) == (
        [],
        [
            "discriminator_predictions/dense_1/bias",
            "electra/embeddings/word_embeddings/adam_m",
        ],
    )


@pytest.mark.parametrize("name", ["kerashub", "model_garden"])
def test_an_encoder_that_cannot_be_written_leaves_nothing(tmp_path, name):
    writer = reading.format_module(name)
    for written, message in (
        (models.encoder_alone(helpers.VOCAB[:-1]), "19 entries"),
        (checkpoint_lib.Checkpoint({}), "a discriminator"),
    ):
        with pytest.raises(CheckpointError, match=message):
            writer.write(written, tmp_path / "a")
    assert not (tmp_path / "a").exists()
