"""Tests of fixed_corruption.py, with a model that has learned nothing."""

import dataclasses

import fixed_corruption
import numpy as np
import pytest
from sklearn import metrics

from electra_tf import model_directory, pretraining
from tests import helpers


@pytest.fixture
def model_dir(tmp_path, monkeypatch):
    monkeypatch.setattr(fixed_corruption, "_BATCH_SIZE", 4)
    model_dir = str(tmp_path / "model")
    helpers.write_pretrained(model_dir)
    helpers.write_vocab(model_dir)
    config = model_directory.read_pretraining_config(model_dir)
    rows = [helpers.row(number) for number in range(8)]
    for row in rows:  # All but [CLS] and a word are the second segment.
        row["segment_ids"] = [0, 0, *row["input_mask"][2:]]
    heldout = helpers.write_tfrecords(tmp_path / "heldout.tfrecord", rows)
    data = dataclasses.replace(config.data, heldout_files=heldout)
    config = dataclasses.replace(config, data=data)
    model_directory.write(config, "", [])
    return model_dir


def test_discriminators_read_what_the_generator_left(model_dir):
    text = fixed_corruption.corrupt(model_dir)
    assert set(text.segment_ids[text.input_mask == 1]) == {0, 1}
    model = pretraining.load_trained(model_dir).model
    outputs = model.electra(text.input_ids, text.input_mask, text.segment_ids)
    logits = model.discriminator_predictions(outputs["sequence_output"])
    is_real = text.input_mask == 1
    expected = metrics.roc_auc_score(
        text.is_fake_tokens[is_real], np.array(logits)[is_real]
    )
    assert fixed_corruption.auc(model_dir, text) == pytest.approx(expected)
    blind = text._replace(segment_ids=np.zeros_like(text.segment_ids))
    assert fixed_corruption.auc(model_dir, blind) != pytest.approx(expected)
