"""Tests of pretraining_data/latent_semantic_analysis.py."""

import numpy as np
import pytest
import scipy.sparse

from electra_tf import errors
from electra_tf.pretraining_data import latent_semantic_analysis

# Tokens 0 to 3 are of one subject, 5 to 8 of another; no example has token 4.
NUM_TOKENS = 9


def examples(number=60):
    """<float32>[N, V], three different tokens of one subject each."""
    counts = np.zeros((number, NUM_TOKENS), np.float32)
    generator = np.random.default_rng(0)
    for i, row in enumerate(counts):
        row[generator.choice(4, 3, replace=False) + 5 * (i % 2)] = 1 + i % 3
    return counts


def vectors_of(counts, width=2, exponent=0.0):
    return latent_semantic_analysis.token_vectors(
        scipy.sparse.csr_matrix(counts), width, exponent
    )


def test_tokens_of_one_subject_are_alike():
    vectors = vectors_of(examples())
    likeness = vectors @ vectors.T
    of_subject = np.arange(NUM_TOKENS) // 5
    same = of_subject == of_subject[:, None]
    is_there = np.arange(NUM_TOKENS) != 4
    both = np.outer(is_there, is_there)
    assert likeness[same & both].min() > 0.99
    assert abs(likeness[~same & both]).max() < 0.1


def test_has_length_1_or_is_not_there():
    vectors = vectors_of(examples())
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors[4], 0.0)
    np.testing.assert_allclose(
        np.linalg.norm(np.delete(vectors, 4, axis=0), axis=1), 1.0, rtol=1e-6
    )


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.5])
def test_is_the_decomposition_of_the_weights(exponent):
    """Beside NumPy's; the signs of singular vectors are nobody's choice."""
    counts, width = examples(), 3
    frequencies = (counts > 0).sum(axis=0)
    weights = np.log(np.maximum(counts, 1)) + (counts > 0)
    weights *= 1 + np.log((1 + len(counts)) / (1 + frequencies))
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    _, singular_values, directions = np.linalg.svd(weights)
    expected = directions[:width].T * singular_values[:width] ** exponent
    expected[4] = 0
    expected /= np.maximum(
        np.linalg.norm(expected, axis=1, keepdims=True), 1e-9
    )
    found = vectors_of(counts, width, exponent)
    np.testing.assert_allclose(
        found @ found.T, expected @ expected.T, atol=1e-4
    )


def test_an_exponent_leaves_words_that_are_everywhere_no_subject():
    counts = examples()
    counts[:, 4] = 1.0
    ours = [vectors_of(counts, exponent=e) for e in (0.0, 1.0, 2.0)]
    # Of what a word is about, beside what all words have in common.
    of_subject = [
        np.abs(vectors[4] @ (vectors[0] - vectors[5])) for vectors in ours
    ]
    apart = [1.0 - vectors[0] @ vectors[5] for vectors in ours]
    assert of_subject[0] < 0.1 and apart[0] > apart[1] > apart[2] > 0.0
    common = [vectors[4] @ vectors[0] for vectors in ours]
    assert common[0] < common[1] < common[2]


def test_is_the_same_each_time():
    np.testing.assert_array_equal(
        vectors_of(examples()), vectors_of(examples())
    )


@pytest.mark.parametrize(
    ("counts", "width", "received"),
    [
        (examples(8)[:4], 5, "4 texts of 7 tokens"),
        (examples(), 9, "60 texts of 8 tokens"),
    ],
)
def test_refuses_less_than_it_is_wide(counts, width, received):
    with pytest.raises(errors.ConfigError) as caught:
        vectors_of(counts, width)
    assert str(caught.value).endswith(
        f"as embeddings are wide, {width} (EncoderConfig.embedding_size). "
        f"Received: {received}"
    )
