"""Tests of heldout_sentences.py, with a model that has learned nothing."""

import json
import pathlib

import heldout_sentences
import pytest

from electra_tf import configs, errors, model_directory
from tests import helpers


@pytest.fixture
def config(tmp_path):
    """Of a run that has begun, with three held-out examples."""
    helpers.write_tfrecords(
        tmp_path / "heldout.tfrecord", [helpers.row(n) for n in range(3)]
    )
    return configs.PretrainingConfig(
        model=helpers.electra_config(),
        data=configs.PretrainingDataConfig(
            train_files="gone",
            vocab_file=helpers.write_vocab(tmp_path),
            heldout_files=str(tmp_path / "*.tfrecord"),
        ),
        optimizer=configs.OptimizerConfig(learning_rate=1e-3),
        run=helpers.run_config(tmp_path / "model"),
    )


@pytest.fixture
def model_dir(config):
    folder = config.run.model_dir
    helpers.write_pretrained(pathlib.Path(folder))
    model_directory.write(config, "", [])
    helpers.write_vocab(folder)
    return folder


@pytest.mark.dear
def test_every_real_token_is_judged_the_same_every_time(model_dir):
    detected = heldout_sentences.detect_heldout(model_dir, 10)
    examples, _ = detected
    originals = [[t.original for t in tokens] for tokens in examples]
    assert originals == [
        [helpers.VOCAB[i] for i in helpers.row(n)["input_ids"] if i]
        for n in range(3)
    ]
    tokens = [token for example in examples for token in example]
    for token in tokens:
        assert token.is_replaced == (token.original != token.shown)
        assert 0.0 < token.probability < 1.0
    assert 1 <= sum(token.is_replaced for token in tokens) <= 9
    assert heldout_sentences.detect_heldout(model_dir, 10) == detected
    assert heldout_sentences.detect_heldout(model_dir, 1)[0] == examples[:1]


@pytest.mark.parametrize(
    "part, name, value, message",
    [
        (None, "class", "FinetuningConfig", "of a pre-training run. Received"),
        ("run", "colour", 1, "config.json of this version"),
        ("data", "heldout_files", "", "which has none"),
        ("model", "electra_objective", False, "with a discriminator"),
    ],
)
def test_unfit_run(model_dir, part, name, value, message):
    record = model_directory.read_config(model_dir)
    (record[part] if part else record)[name] = value
    pathlib.Path(model_dir, "config.json").write_text(json.dumps(record))
    with pytest.raises(errors.ConfigError, match=message):
        heldout_sentences.detect_heldout(model_dir, 1)


def test_no_checkpoint(config):
    model_directory.write(config, "", [])
    with pytest.raises(errors.ConfigError, match="Expected a checkpoint in"):
        heldout_sentences.detect_heldout(config.run.model_dir, 1)
