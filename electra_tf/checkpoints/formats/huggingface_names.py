"""Tensors under the original's names <-> under those of transformers.

Of an encoder and of the heads of pre-training. A kernel is the transpose of a
weight.
"""

import re
from collections.abc import Mapping

import numpy as np

from electra_tf import configs
from electra_tf.checkpoints import sizes

# What makes their names of the original's, beside a "." for each "/".
_SUBSTITUTIONS = (
    (r"^generator/", "electra/"),  # Each network is a model of its own.
    (r"/layer_(\d+)/", r"/layer/\1/"),
    (r"_embeddings$", "_embeddings/weight"),
    (r"/(kernel|gamma)$", "/weight"),
    (r"/beta$", "/bias"),
    (r"/dense_1/", "/dense_prediction/"),
    (r"^generator_predictions/output_bias$", "generator_lm_head/bias"),
)
# The output layer's kernel, which is the table of word embeddings.
TIED = "generator_lm_head.weight"


def _their_name(ours: str) -> str:
    for pattern, there in _SUBSTITUTIONS:
        ours = re.sub(pattern, there, ours)
    return ours.replace("/", ".")


_SIZES = sizes.any_sizes(num_layers=1)
_HEAD_NAMES = (
    *sizes.discriminator_head_shapes(_SIZES),
    *sizes.masked_lm_head_shapes(_SIZES),
)
# The names of the first layer stand for those of all.
_OUR_NAMES = {
    _their_name(name): name
    for name in (*sizes.encoder_shapes(_SIZES, "electra"), *_HEAD_NAMES)
}


def our_name(name: str, scope: str) -> str | None:
    """The original's name of a tensor; None for those of fine-tuned heads."""
    # Conversions of old have TensorFlow's names of LayerNorm.
    name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name)
    name = re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name)
    layer = re.search(r"\.layer\.(\d+)\.", name)
    if layer is not None:
        name = name.replace(layer[0], ".layer.0.")
    ours = _OUR_NAMES.get(name)
    if ours is None:
        return None
    if layer is not None:
        ours = ours.replace("/layer_0/", f"/layer_{layer[1]}/")
    return re.sub("^electra/", f"{scope}/", ours)


def encoder(
    tensors: Mapping[str, np.ndarray], scope: str, config: configs.EncoderConfig
) -> dict[str, np.ndarray]:
    """An encoder's tensors under their names there."""
    # A generator without tables has a copy of the discriminator's there.
    return {
        _their_name(name): transposed(
            name, tensors[sizes.stored_name(tensors, name)]
        )
        for name in sizes.encoder_shapes(config, scope)
    }


def pretraining_head(
    tensors: Mapping[str, np.ndarray], scope: str
) -> dict[str, np.ndarray]:
    """Tensors of a head of pre-training under their names there."""
    return {
        _their_name(name): transposed(name, tensors[name])
        for name in _HEAD_NAMES
        if name.startswith(scope) and name in tensors
    }


def transposed(ours: str, value: np.ndarray) -> np.ndarray:
    """A tensor of ours as it is there, or the other way round."""
    return value.T if ours.endswith("/kernel") else value
