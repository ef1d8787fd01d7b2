"""Tests of frozen_features.py: means of vectors, and what is made of them."""

import frozen_features
import numpy as np
import pytest


def test_dev_chooses_the_strength():
    draw = np.random.default_rng(0)
    vectors = draw.normal(size=(40, 3))
    labels = ["pos" if row[0] > 0 else "neg" for row in vectors]
    rows = vectors, labels
    found = frozen_features.fit(rows, rows, rows, strengths=(1e-9, 10.0))
    assert found.strength == 10.0
    assert found.dev_accuracy == found.test_accuracy == 100.0


@pytest.mark.dear
def test_a_long_text_is_the_mean_of_all_its_tokens(tmp_path):
    import electra_tf

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c"]
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("".join(f"{word}\n" for word in words))
    preprocessor = electra_tf.Preprocessor(str(vocab))
    encoder = electra_tf.Encoder(
        vocab_size=len(words),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=6,
    )
    encoder(preprocessor(["a"]))
    folder = str(tmp_path / "model")
    encoder.save_checkpoint(folder, preprocessor=preprocessor)
    told = []
    long = "a b c a b c"
    found = frozen_features.read(folder, [long, "a"], report=told.append)
    assert found.shape == (2, 16)
    assert told == [2]
    # Two windows of [CLS], four or two words, and [SEP].
    whole = encoder(preprocessor(["a b c a"]), return_layers=True)
    rest = encoder(preprocessor(["b c"]), return_layers=True)
    vectors = [
        np.concatenate([x["embedding_output"][0], x["sequence_output"][0]], -1)
        for x in (whole, rest)
    ]
    np.testing.assert_allclose(
        found[0], np.concatenate(vectors).mean(0), rtol=1e-4, atol=1e-5
    )
