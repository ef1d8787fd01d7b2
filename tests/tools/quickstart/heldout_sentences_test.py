"""Tests of heldout_sentences.py, with a model that has learned nothing."""

import heldout_sentences
import pytest
import tensorflow as tf

from electra_tf import configs, errors, model_directory
from electra_tf.model import ablations, masking
from electra_tf.text import vocabulary
from electra_tf.training import replicas, saving

VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"]
LENGTH = 8


@pytest.fixture
def config(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(VOCAB) + "\n")
    with tf.io.TFRecordWriter(str(tmp_path / "heldout.tfrecord")) as writer:
        for first in (5, 6, 7):
            features = {
                "input_ids": [2, first, 9, 10, 11, 3, 0, 0],
                "input_mask": [1] * 6 + [0] * 2,
                "segment_ids": [0] * LENGTH,
            }
            example = tf.train.Example()
            for name, values in features.items():
                example.features.feature[name].int64_list.value.extend(values)
            writer.write(example.SerializeToString())
    encoder = configs.EncoderConfig(
        vocab_size=len(VOCAB),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=LENGTH,
    )
    return configs.PretrainingConfig(
        model=configs.ElectraConfig(
            encoder, max_seq_length=LENGTH, mask_prob=0.3
        ),
        data=configs.PretrainingDataConfig(
            train_files="gone",
            vocab_file=str(tmp_path / "vocab.txt"),
            heldout_files=str(tmp_path / "*.tfrecord"),
        ),
        optimizer=configs.OptimizerConfig(learning_rate=1e-3),
        run=configs.RunConfig(
            model_dir=str(tmp_path / "model"), num_train_steps=1
        ),
    )


@pytest.fixture
def model_dir(config):
    model_directory.write(config, "", [])
    replicas.set_policy(config.run)
    vocab = vocabulary.load_of_size(
        config.data.vocab_file, config.model.encoder.vocab_size
    )
    vocabulary.write(vocab, config.run.model_dir)
    model = ablations.make_model(config.model, masking.SpecialIds.of(vocab))
    tf.train.CheckpointManager(
        saving.checkpointed_variables(model), config.run.model_dir, 1
    ).save()
    return config.run.model_dir


@pytest.mark.dear
def test_every_real_token_is_judged_the_same_every_time(model_dir):
    detected = heldout_sentences.detect_heldout(model_dir, 10)
    examples, _ = detected
    originals = [[t.original for t in tokens] for tokens in examples]
    assert originals == [
        ["[CLS]", first, "e", "f", "g", "[SEP]"] for first in "abc"
    ]
    tokens = [token for example in examples for token in example]
    for token in tokens:
        assert token.is_replaced == (token.original != token.shown)
        assert 0.0 < token.probability < 1.0
    assert 1 <= sum(token.is_replaced for token in tokens) <= 6
    assert heldout_sentences.detect_heldout(model_dir, 10) == detected
    assert heldout_sentences.detect_heldout(model_dir, 1)[0] == examples[:1]


def test_no_checkpoint(config):
    model_directory.write(config, "", [])
    record = model_directory.read_pretraining_config(config.run.model_dir)
    assert record == config
    with pytest.raises(errors.ConfigError, match="Expected a checkpoint in"):
        heldout_sentences.detect_heldout(config.run.model_dir, 1)
