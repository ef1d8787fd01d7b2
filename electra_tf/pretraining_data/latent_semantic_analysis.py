"""Counts of tokens in examples -> a vector for each token.

Latent semantic analysis (Deerwester et al., 1990): tokens of the same examples
get similar vectors, in seconds and without a network. A network that starts
with them does not have to learn first what its texts are about.

Shapes: N examples, V vocabulary, E width.
"""

import numpy as np
import scipy.sparse

from electra_tf import errors

_SEED = 0


def token_vectors(counts: scipy.sparse.csr_matrix, width: int) -> np.ndarray:
    """The right singular vectors of the examples' TF-IDF.

    Args:
      counts: <float32>[N, V], how often a token stands in an example.
      width: E.

    Returns:
      <float32>[V, E], of length 1; of zeros for tokens that no example has.

    Raises:
      ConfigError: If examples or tokens are fewer than `width`.
    """
    # Takes seconds.
    from sklearn import decomposition, preprocessing
    from sklearn.feature_extraction import text

    counts.eliminate_zeros()
    frequencies = np.bincount(counts.indices, minlength=counts.shape[1])
    num_examples, num_tokens = counts.shape[0], np.count_nonzero(frequencies)
    if min(num_examples, num_tokens) < width:
        raise errors.ConfigError(
            "PretrainingDataConfig.embeddings_from_data takes as many examples "
            f"and as many different tokens as embeddings are wide, {width} "
            "(EncoderConfig.embedding_size). Received: "
            f"{num_examples} examples of {num_tokens} tokens"
        )
    # A token that is repeated says little more than one that is there.
    weights = text.TfidfTransformer(sublinear_tf=True).fit_transform(counts)
    analysis = decomposition.TruncatedSVD(width, random_state=_SEED)
    vectors = analysis.fit(weights).components_.T
    # Rare tokens would be short: alike, and all but the position's.
    vectors = preprocessing.normalize(vectors)
    vectors[frequencies == 0] = 0.0
    return vectors.astype(np.float32)
