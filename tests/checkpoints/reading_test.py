"""Tests of checkpoints/{reading,verify}.py."""

import dataclasses
import json

import numpy as np
import pytest

from electra_tf.checkpoints import reading, sizes, verify
from electra_tf.checkpoints.formats import original
from electra_tf.errors import CheckpointError
from electra_tf.model import encoder
from tests import helpers, notices
from tests.checkpoints import models


@pytest.fixture
def network():
    network = encoder.Encoder(models.ENCODER)
    network.build()
    return network


def test_assigns_nothing_where_a_shape_differs(network):
    before = [variable.numpy() for variable in network.variables]
    checkpoint = models.pretrained()
    name = "electra/encoder/layer_1/output/dense/bias"
    checkpoint.tensors[name] = np.zeros(9, np.float32)
    with pytest.raises(
        CheckpointError, match=rf"it: {name} must .* \[8\]. Received: \[9\]"
    ):
        reading.assign(checkpoint, network.variables, "it")
    for variable, value in zip(network.variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)


def test_assign_all_misses_nothing(network):
    checkpoint = dataclasses.replace(models.pretrained(), tensors={})
    with pytest.raises(
        CheckpointError,
        match="Expected all weights of the encoder in it. Received: a "
        "checkpoint without 39 of them, such as electra/",
    ):
        reading.assign_all(checkpoint, network.variables, "it", "the encoder")


@pytest.mark.parametrize(
    ("files", "name", "message"),
    [
        ([], "", "a folder with nothing in it"),
        (["a.txt"], "", "a folder with a.txt$"),
        (["a.txt"], "a.txt", "Received: the file .*a.txt$"),
        ([], "nothing", "nothing, does not exist$"),
        (["a.tar.gz"], "a.tar.gz", "unpack it, and name the folder"),
        (
            ["model.ckpt-3.index", "model.ckpt-7.index"],
            "",
            "name one, such as .*/model.ckpt-7$",
        ),
    ],
)
def test_refuses_what_is_no_checkpoint(tmp_path, files, name, message):
    for file in files:
        (tmp_path / file).write_text("")
    with pytest.raises(CheckpointError, match=message):
        reading.read_checkpoint(tmp_path / name)


def test_rows_that_pad_the_table_get_a_token(tmp_path):
    config = dataclasses.replace(models.ENCODER, vocab_size=24)
    tensors = models.random_tensors(sizes.encoder_shapes(config, "electra"))
    written = models.finetuned(tensors=tensors, discriminator=config, head=None)
    original.write(written, str(tmp_path))
    with notices.heard() as said:
        read = reading.read_checkpoint(tmp_path)
    extra = tuple(f"[unused{i}]" for i in range(4))
    assert read.vocabulary.tokens == (*models.VOCABULARY.tokens, *extra)
    assert "last 4 rows of the embedding table" in said[0]


@pytest.mark.parametrize(
    ("checkpoint", "kind", "name"),
    [
        (models.finetuned(), "", "finetuning_model"),
        (models.pretrained(), "", "discriminator"),
        (models.pretrained(), "detection", "discriminator"),
        (models.finetuned(), "encoding", "electra"),
    ],
)
def test_loads_the_network_with_its_weights(tmp_path, checkpoint, kind, name):
    original.write(checkpoint, str(tmp_path))
    model = reading.load_model(tmp_path, kind)
    assert model.name == name
    loaded = getattr(model, "keras_variables", model.variables)
    for variable in loaded:
        np.testing.assert_array_equal(
            variable.numpy(), checkpoint.tensors[variable.path]
        )


def test_loads_no_network_that_is_not_there(tmp_path):
    checkpoint = models.finetuned()
    original.write(checkpoint, str(tmp_path))
    with pytest.raises(CheckpointError, match="fine-tuned for classification"):
        reading.load_model(tmp_path, "detection")
    alone = dataclasses.replace(checkpoint, discriminator=None)
    with pytest.raises(CheckpointError, match="with a generator only"):
        reading.load_model("it", "", alone)
    other = dataclasses.replace(checkpoint, other_head="a parser")
    with pytest.raises(CheckpointError, match="Received: it, a parser;"):
        reading.load_model("it", "", other)


def test_refuses_another_vocabulary(tmp_path):
    original.write(models.pretrained(), str(tmp_path))
    with open(tmp_path / "vocab.txt", "a") as f:
        f.write("more\n")
    with pytest.raises(CheckpointError, match="was changed since: bring the"):
        reading.read_checkpoint(tmp_path)
    (tmp_path / "vocab.txt.json").unlink()
    with pytest.raises(CheckpointError, match="Received: 21 entries"):
        reading.read_checkpoint(tmp_path)


def test_hparams_that_contradict_the_vocabulary_are_told(tmp_path):
    original.write(models.pretrained(), str(tmp_path))
    assert not notices.of(reading.read_checkpoint, tmp_path)
    path = tmp_path / "hparams.json"
    hparams = helpers.read_json(path) | {"do_lower_case": False}
    path.write_text(json.dumps(hparams))
    with notices.heard() as said:
        read = reading.read_checkpoint(tmp_path)
    assert not read.vocabulary.do_lower_case
    (line,) = said
    assert "do_lower_case=True, the hparams False, which" in line


@pytest.mark.parametrize(
    ("flags", "expected", "said"),
    [
        ({}, (True, True), "taken as True, since the vocabulary has no cap"),
        ({"do_lower_case": False}, (False, None), ""),
        ({"do_lower_case": True, "strip_accents": False}, (True, False), ""),
    ],
)
def test_what_nothing_says_of_case_is_asked_or_taken_from_the_tokens(
    tmp_path, flags, expected, said
):
    vocabulary = dataclasses.replace(
        models.VOCABULARY, do_lower_case=None, strip_accents=None
    )
    original.write(models.finetuned(vocabulary=vocabulary), str(tmp_path))
    with notices.heard() as lines:
        read = reading.read_checkpoint(tmp_path, **flags).vocabulary
    assert (read.do_lower_case, read.strip_accents) == expected
    assert said in " ".join(lines) and len(lines) == bool(said)


def test_a_difference_is_found_on_real_tokens_alone():
    mask = np.array([[1, 0]])
    ours = {"x": np.array([[1.0, 2.0]]), "y": np.array([[1.0, 2.0]])}
    theirs = {"x": np.array([[1.0, 9.0]]), "y": np.array([[1.5, 2.0]])}
    x, y = verify.compare(ours, theirs, mask)
    assert (x.output, x.largest, x.magnitude, x.fits) == ("x", 0.0, 1.0, True)
    assert (y.output, y.largest, y.fits) == ("y", 0.5, False)
    assert not verify.Difference("z", float("nan"), 1.0).fits
    with pytest.raises(CheckpointError, match="Expected outputs such as x, y"):
        verify.compare(ours, {"z": mask}, mask)


@pytest.mark.parametrize(
    ("kind", "task_name", "expected"),
    [
        ("regression", "sts", (True, (0.0, 5.0))),
        ("classification", "mrpc", (True, (0.0, 1.0))),
        ("classification", "sst", (False, (0.0, 1.0))),
        # A task of one's own says it, or nothing does.
        ("classification", "letters", (None, (0.0, 1.0))),
        ("classification", "sts", (True, (0.0, 1.0))),
        ("tagging", "mrpc", (None, (0.0, 1.0))),
    ],
)
def test_tasks_of_the_original_are_known_by_their_names(
    tmp_path, kind, task_name, expected
):
    checkpoint = models.renamed_task(
        models.finetuned(kind, 1 if kind == "regression" else 2), task_name
    )
    original.write(checkpoint, str(tmp_path))
    head = reading.read_checkpoint(tmp_path).head
    assert (head.has_pairs, head.unit) == expected
