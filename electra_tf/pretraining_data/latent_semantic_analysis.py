"""Counts of tokens in texts -> a vector for each token.

Latent semantic analysis (Deerwester et al., 1990): tokens of the same texts get
similar vectors, in seconds and without a network. A network that starts with
them does not have to learn first what its texts are about.

Shapes: N texts, V vocabulary, E width.
"""

import numpy as np
import scipy.sparse

from electra_tf import errors

_SEED = 0


def token_vectors(
    counts: scipy.sparse.csr_matrix, width: int, exponent: float = 0.0
) -> np.ndarray:
    """The right singular vectors of the texts' TF-IDF.

    Args:
      counts: <float32>[N, V], how often a token stands in a text.
      width: E.
      exponent: Of the singular values, by which the directions are weighted
        before vectors get length 1 (Caron, 2001). The first direction is common
        to all texts: the larger the exponent, the more words that are
        everywhere have of it, and the less of any other.

    Returns:
      <float32>[V, E], of length 1; of zeros for tokens that no text has.

    Raises:
      ConfigError: If texts or tokens are fewer than `width`.
    """
    # Takes seconds.
    from sklearn import decomposition, preprocessing

    counts.eliminate_zeros()
    frequencies = np.bincount(counts.indices, minlength=counts.shape[1])
    num_texts, num_tokens = counts.shape[0], np.count_nonzero(frequencies)
    if min(num_texts, num_tokens) < width:
        raise errors.ConfigError(
            "PretrainingDataConfig.embeddings_from_data takes as many texts "
            "(of embeddings_num_examples examples) and as many different "
            f"tokens as embeddings are wide, {width} "
            "(EncoderConfig.embedding_size). Received: "
            f"{num_texts} texts of {num_tokens} tokens"
        )
    weights = _weights(counts)
    analysis = decomposition.TruncatedSVD(width, random_state=_SEED)
    analysis.fit(weights)
    # To the power of 0 all is 1, to the last bit.
    vectors = analysis.components_.T * analysis.singular_values_**exponent
    # A rare token's vector is short, and added to that of a position it would
    # hardly count: all get one length.
    vectors = preprocessing.normalize(vectors)
    vectors[frequencies == 0] = 0.0
    return vectors.astype(np.float32)


def likeness(counts: scipy.sparse.csr_matrix) -> tuple[float, float]:
    """How alike texts are that belong together, and how alike others are.

    Args:
      counts: <float32>[2 * N, V], of N texts, and of one for each of them.

    Returns:
      Mean cosines of the TF-IDF of both, and of each and that of another.
    """
    counts.eliminate_zeros()
    weights = _weights(counts)
    half = weights.shape[0] // 2
    ours, theirs = weights[:half], weights[half:]
    others = theirs[np.roll(np.arange(half), half // 2)]
    together, apart = (ours.multiply(x).sum() / half for x in (theirs, others))
    return float(together), float(apart)


def _weights(counts: scipy.sparse.csr_matrix) -> scipy.sparse.csr_matrix:
    """TF-IDF, in which a repeated token says little more than a single one."""
    # Takes seconds.
    from sklearn.feature_extraction import text

    return text.TfidfTransformer(sublinear_tf=True).fit_transform(counts)
