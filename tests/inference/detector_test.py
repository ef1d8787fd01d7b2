"""Tests of electra_tf/inference/detector.py."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.checkpoints import reading
from electra_tf.errors import CheckpointError
from electra_tf.inference import detector, scorer
from electra_tf.inference.judged_text import JudgedText
from tests import helpers, notices


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """A model directory with its vocabulary, and the model in it."""
    model_dir = tmp_path_factory.mktemp("pretrained")
    helpers.write_vocab(model_dir)
    return str(model_dir), helpers.write_pretrained(model_dir)


@pytest.fixture(scope="module")
def loaded(pretrained):
    return detector.Detector(pretrained[0])


def test_two_towers_without_electric_are_no_electric(tmp_path):
    helpers.write_vocab(tmp_path)
    helpers.write_pretrained(
        tmp_path, two_tower_generator=True, untied_generator_embeddings=True
    )
    (expected,) = detector.Detector(str(tmp_path)).judge(["wa wb"])
    assert len(expected.tokens) == 2
    for output_format in ("electra_tf", "original"):
        converted = tmp_path / output_format
        checkpoint = reading.read_checkpoint(tmp_path)
        reading.format_module(output_format).write(checkpoint, str(converted))
        (judged,) = detector.Detector(str(converted)).judge(["wa wb"])
        assert judged == expected
        with pytest.raises(CheckpointError, match="Expected Electric"):
            scorer.Scorer(str(converted))


def expected_probabilities(model, words):
    """What the pre-training model's own networks say of [CLS] words [SEP]."""
    ids = tf.constant([[helpers.CLS, *words, helpers.SEP]])
    outputs = model.electra(ids, tf.ones_like(ids), tf.zeros_like(ids))
    logits = model.discriminator_predictions(outputs["sequence_output"])
    return tf.sigmoid(logits)[0, 1:-1].numpy()


def test_tokens_are_judged_as_in_pretraining(pretrained, loaded):
    short, empty, longer = loaded.judge(["wa wb", "", "Wc, \u00e9 wd"])
    assert [t[:3] for t in short.tokens] == [("wa", 0, 2), ("wb", 3, 5)]
    assert empty == JudgedText("", [])
    assert [t[:3] for t in longer.tokens] == [
        ("wc", 0, 2),
        ("[UNK]", 2, 3),
        ("[UNK]", 4, 5),
        ("wd", 6, 8),
    ]
    for judged, words in ((short, [5, 6]), (longer, [7, 1, 1, 8])):
        np.testing.assert_allclose(
            [t.probability for t in judged.tokens],
            expected_probabilities(pretrained[1], words),
            atol=1e-5,
        )


def test_a_long_text_is_judged_with_the_most_context(pretrained, loaded):
    # Windows of 10 tokens begin at 0, 5, 10 and 13.
    assert detector.window_starts(23, 10) == [0, 5, 10, 13]
    assert detector.window_starts(10, 10) == detector.window_starts(0, 10)
    words = [5 + i % 15 for i in range(23)]
    text = " ".join(helpers.VOCAB[i] for i in words)
    (judged,) = loaded.judge([text])
    assert [t.token for t in judged.tokens] == text.split()
    of_window = {
        start: expected_probabilities(pretrained[1], words[start : start + 10])
        for start in (0, 5, 10, 13)
    }
    for place, start in ((0, 0), (6, 0), (9, 5), (14, 10), (22, 13)):
        assert judged.tokens[place].probability == pytest.approx(
            of_window[start][place - start], abs=1e-5
        )


def test_where_texts_are_cleaned_the_cleaned_text_is_judged(
    pretrained, loaded, tmp_path
):
    shutil.copytree(pretrained[0], tmp_path, dirs_exist_ok=True)
    settings: dict = dict.fromkeys(("do_lower_case", "strip_accents"), True)
    settings["text_cleaning"] = "kcelectra"
    (tmp_path / "vocab.txt.json").write_text(json.dumps(settings))
    with notices.heard() as lines:
        found = detector.Detector(str(tmp_path))
    assert "texts are cleaned first (kcelectra)" in lines[-1]
    texts = ["wa   https://example.org/a wb", ""]
    assert found.judge(texts) == loaded.judge(["wa wb", ""])


def test_checkpoints_without_the_head_are_refused(pretrained, tmp_path):
    helpers.write_vocab(tmp_path)
    helpers.write_pretrained(tmp_path / "masked_lm", electra_objective=False)
    paths = str(tmp_path / "masked_lm"), str(tmp_path / "vocab.txt")
    line = "with the discriminator's head.*with an encoder, but without"
    with pytest.raises(ValueError, match=line):
        detector.Detector(*paths)
