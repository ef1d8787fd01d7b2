"""Tests of electra_tf/checkpoints/formats/electra_tf_format.py."""

import dataclasses
import json
import os

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.checkpoints import reading, task_heads
from electra_tf.checkpoints.formats import electra_tf_format
from electra_tf.errors import CheckpointError
from electra_tf.training import saving
from tests import helpers, notices
from tests.checkpoints import models


def test_training_restores_it(tmp_path):
    checkpoint = models.pretrained()
    electra_tf_format.write(checkpoint, str(tmp_path))
    model = helpers.write_pretrained(tmp_path / "other")
    saving.restore_variables(
        model.variables, str(tmp_path / "model.ckpt-0"), "the model"
    )
    for variable in model.variables:
        np.testing.assert_array_equal(
            variable.numpy(), checkpoint.tensors[variable.path]
        )


def test_reads_a_run_whose_generator_is_no_network(tmp_path):
    # A share that no generator could have: 171 units with 2 heads.
    width = helpers.encoder_config(hidden_size=256, intermediate_size=8)
    model = helpers.write_pretrained(
        tmp_path, width, uniform_generator=True, generator_hidden_size=0.66667
    )
    read = reading.read_checkpoint(tmp_path)
    assert read.discriminator == model.config.encoder
    assert read.generator is None


def test_reads_what_pretraining_leaves(tmp_path):
    model = helpers.write_pretrained(tmp_path / "model")
    for path in ("model", "model/ckpt-1", "model/ckpt-1.index"):
        read = reading.read_checkpoint(tmp_path / path)
        assert read.discriminator == model.config.encoder
        assert read.generator == model.config.generator
        assert sorted(read.tensors) == sorted(v.path for v in model.variables)
        for variable in model.variables:
            np.testing.assert_array_equal(
                variable.numpy(), read.tensors[variable.path]
            )
    assert read.max_seq_length == helpers.LENGTH


@pytest.mark.parametrize("part", ["best", "trial_2", "trial_2/best"])
def test_reads_the_parts_of_a_run(tmp_path, part):
    model = helpers.write_pretrained(tmp_path)
    folder = tmp_path / part
    tf.train.CheckpointManager(
        saving.checkpointed_variables(model), str(folder), 1
    ).save()
    for path in (tmp_path / "ckpt-1.index", tmp_path / "checkpoint"):
        path.unlink()
    for path in (folder, folder / "ckpt-1"):
        assert reading.recognise(path) == "electra_tf"
        read = reading.read_checkpoint(path)
        assert read.discriminator == model.config.encoder
    other = tmp_path / "other"
    folder.rename(other)
    assert not electra_tf_format.recognise(str(other))


def test_refuses_a_directory_without_a_checkpoint(tmp_path):
    helpers.write_pretrained(tmp_path)
    os.remove(tmp_path / "checkpoint")
    with pytest.raises(CheckpointError, match="started again, names one"):
        electra_tf_format.read(str(tmp_path))
    with pytest.raises(CheckpointError, match="Expected a model directory"):
        electra_tf_format.read(str(tmp_path / "nothing"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, r"Expected format \d in .*config.json. Received: 2, "),
        ({"model": None}, "config.json lacks model"),
        (
            {"class": "FinetuningConfig"},
            "finished fine-tuning run with results",
        ),
    ],
)
def test_refuses_odd_records(tmp_path, changes, message):
    helpers.write_pretrained(tmp_path)
    record = helpers.read_json(tmp_path / "config.json") | changes
    (tmp_path / "config.json").write_text(json.dumps(record))
    with pytest.raises(CheckpointError, match=message):
        electra_tf_format.read(str(tmp_path))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"labels": ["a"]},
            "num_outputs must be as many as there are labels, 1",
        ),
        ({"num_outputs": 3.5}, "num_outputs must be a whole number"),
        ({"kind": "poetry"}, "kind must be classification or"),
        ({"options": {"colour": 1}}, "no option colour"),
        ({"colour": "red"}, "Cannot read .* 'colour'"),
        (
            {"kind": "question_answering", "options": {"beam_size": "x"}},
            "QuestionAnsweringConfig.beam_size must be int",
        ),
    ],
)
def test_refuses_an_odd_head(changes, message):
    record = dataclasses.asdict(models.finetuned().head)
    record["labels"] = list(record["labels"])
    assert task_heads.head_from_dict(record, "it") == models.finetuned().head
    with pytest.raises(CheckpointError, match=message):
        task_heads.head_from_dict(record | changes, "it")


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (
            "classification",
            {"task_name": "other"},
            "there must be tensors of 'other'",
        ),
        (
            "classification",
            {"num_outputs": 2, "labels": ["a", "b"]},
            "num_outputs must be the width of .*layer, 3. Received: 2",
        ),
        ("classification", {"labels": [*"aba"]}, "differ. Received: a, b, a"),
    ],
)
def test_refuses_a_head_that_is_not_that_of_the_weights(
    tmp_path, kind, changes, message
):
    number = 1 if kind == "regression" else 3
    electra_tf_format.write(models.finetuned(kind, number), str(tmp_path))
    path = tmp_path / "config.json"
    record = helpers.read_json(path)
    record["head"] |= changes
    path.write_text(json.dumps(record))
    with pytest.raises(CheckpointError, match=message):
        reading.read_checkpoint(tmp_path)


def test_a_tagger_whose_segment_nothing_says(tmp_path):
    electra_tf_format.write(models.finetuned("tagging"), str(tmp_path))
    assert not notices.of(reading.read_checkpoint, tmp_path)
    path = tmp_path / "config.json"
    record = helpers.read_json(path)
    record["head"]["segment"] = None
    path.write_text(json.dumps(record))
    (line,) = notices.of(reading.read_checkpoint, tmp_path)
    assert "in which segment the tagger reads its words: taken as 1" in line
    path.write_text(json.dumps(record | {"head": {}}))
    with pytest.raises(CheckpointError, match="Cannot read .* missing"):
        reading.read_checkpoint(tmp_path)


def test_odd_numbers_are_named(tmp_path):
    checkpoint = models.finetuned(global_step=2**63 - 1)
    checkpoint.tensors["task_specific/letters/dense/bias"][1] = np.nan
    electra_tf_format.write(checkpoint, str(tmp_path))
    (line,) = notices.of(reading.read_checkpoint, tmp_path)
    assert "1 tensors hold NaN or infinity, such as task_specific/l" in line
