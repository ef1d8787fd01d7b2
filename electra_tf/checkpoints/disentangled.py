"""Gradient-disentangled embeddings, as one table for each network and back.

While such a model is trained, `word_embeddings` are the generator's, and the
discriminator's are the sum of these and `word_embeddings_delta`
(arXiv:2111.09543, section 3.2). No other format knows that, so a checkpoint is
read with a table for the discriminator and a copy for the generator.
"""

from collections.abc import Mapping

import numpy as np

TABLES = (
    "embeddings/word_embeddings",
    "embeddings/token_type_embeddings",
    "embeddings/position_embeddings",
    "embeddings/LayerNorm/beta",
    "embeddings/LayerNorm/gamma",
)
WORDS = "electra/embeddings/word_embeddings"
DELTA = f"{WORDS}_delta"


def fold(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The weights of a run, each network with tables of its own."""
    folded = dict(tensors)
    delta = folded.pop(DELTA, None)
    if delta is None:
        return folded
    for name in TABLES:
        folded[f"generator/{name}"] = folded[f"electra/{name}"]
    folded[WORDS] = folded[WORDS] + delta
    return folded


def unfold(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The inverse of `fold`, up to the rounding of one subtraction.

    There is a delta where both networks have a table of one shape. A table for
    one stands for both, whose difference is 0. Of the generator's other tables
    those that are not the discriminator's stay: a model with a delta has no
    place for them.
    """
    unfolded = dict(tensors)
    words = unfolded.get(f"generator/{TABLES[0]}")
    whole = unfolded.get(WORDS)
    if words is None or whole is None or words.shape != whole.shape:
        return unfolded
    unfolded[DELTA] = whole - words
    unfolded[WORDS] = words
    del unfolded[f"generator/{TABLES[0]}"]
    for name in TABLES[1:]:
        own = f"generator/{name}"
        if np.array_equal(unfolded[own], unfolded[f"electra/{name}"]):
            del unfolded[own]
    return unfolded
