"""Tensors under the original's names <-> under those of transformers.

Of an encoder and of the heads of pre-training. "{}" is the number of a layer.
A kernel is the transpose of a weight.
"""

import re
from collections.abc import Mapping

import numpy as np

from electra_tf import configs
from electra_tf.checkpoints import sizes as sizes_lib

# Layers of an encoder, without its scope.
_TABLES = (
    "embeddings/word_embeddings",
    "embeddings/token_type_embeddings",
    "embeddings/position_embeddings",
)
_LAYER_NORMS = (
    "embeddings",
    "encoder/layer_{}/attention/output",
    "encoder/layer_{}/output",
)
_DENSE = (
    "embeddings_project",
    "encoder/layer_{}/attention/self/query",
    "encoder/layer_{}/attention/self/key",
    "encoder/layer_{}/attention/self/value",
    "encoder/layer_{}/attention/output/dense",
    "encoder/layer_{}/intermediate/dense",
    "encoder/layer_{}/output/dense",
)
# Of the heads of pre-training.
_HEAD_NAMES = {
    "discriminator_predictions/dense/kernel": (
        "discriminator_predictions.dense.weight"
    ),
    "discriminator_predictions/dense/bias": (
        "discriminator_predictions.dense.bias"
    ),
    "discriminator_predictions/dense_1/kernel": (
        "discriminator_predictions.dense_prediction.weight"
    ),
    "discriminator_predictions/dense_1/bias": (
        "discriminator_predictions.dense_prediction.bias"
    ),
    "generator_predictions/dense/kernel": "generator_predictions.dense.weight",
    "generator_predictions/dense/bias": "generator_predictions.dense.bias",
    "generator_predictions/LayerNorm/gamma": (
        "generator_predictions.LayerNorm.weight"
    ),
    "generator_predictions/LayerNorm/beta": (
        "generator_predictions.LayerNorm.bias"
    ),
    "generator_predictions/output_bias": "generator_lm_head.bias",
}
# The output layer's kernel, which is the table of word embeddings.
TIED = "generator_lm_head.weight"
# Part of the model, but no weights.
BUFFERS = ("electra.embeddings.position_ids",)


def _their_names() -> dict[str, str]:
    """Every pattern of an encoder's names: the original's -> theirs."""

    def theirs(layer: str) -> str:
        return layer.replace("layer_{}", "layer.{}").replace("/", ".")

    names = {table: f"{theirs(table)}.weight" for table in _TABLES}
    for layer in _LAYER_NORMS:
        names[f"{layer}/LayerNorm/gamma"] = f"{theirs(layer)}.LayerNorm.weight"
        names[f"{layer}/LayerNorm/beta"] = f"{theirs(layer)}.LayerNorm.bias"
    for layer in _DENSE:
        names[f"{layer}/kernel"] = f"{theirs(layer)}.weight"
        names[f"{layer}/bias"] = f"{theirs(layer)}.bias"
    return names


_THEIR_NAMES = _their_names()
_OUR_NAMES = {theirs: ours for ours, theirs in _THEIR_NAMES.items()}
_OUR_HEAD_NAMES = {theirs: ours for ours, theirs in _HEAD_NAMES.items()}


def our_name(name: str, scope: str) -> str | None:
    """The original's name of a tensor; None for those of fine-tuned heads."""
    # Conversions of old have TensorFlow's names of LayerNorm.
    name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name)
    name = re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name)
    if name in _OUR_HEAD_NAMES:
        return _OUR_HEAD_NAMES[name]
    prefix, _, rest = name.partition(".")
    if prefix != "electra":
        return None
    number = re.search(r"\.layer\.(\d+)\.", rest)
    if number is None:
        ours = _OUR_NAMES.get(rest)
    else:
        ours = _OUR_NAMES.get(rest.replace(number[0], ".layer.{}."))
        ours = ours and ours.format(number[1])
    return ours and f"{scope}/{ours}"


def encoder(
    tensors: Mapping[str, np.ndarray],
    scope: str,
    config: configs.EncoderConfig | None,
) -> dict[str, np.ndarray]:
    """An encoder's tensors under their names there."""
    assert config is not None
    found: dict[str, np.ndarray] = {}
    for ours in sizes_lib.encoder_shapes(config, scope):
        rest = ours.removeprefix(f"{scope}/")
        number = re.search(r"/layer_(\d+)/", rest)
        if number is not None:
            theirs = _THEIR_NAMES[rest.replace(number[0], "/layer_{}/")]
            theirs = theirs.format(number[1])
        else:
            theirs = _THEIR_NAMES[rest]
        # A generator without tables has a copy of the discriminator's there.
        value = tensors[ours if ours in tensors else f"electra/{rest}"]
        found[f"electra.{theirs}"] = _theirs(ours, value)
    return found


def pretraining_head(
    tensors: Mapping[str, np.ndarray], scope: str
) -> dict[str, np.ndarray]:
    """Tensors of a head of pre-training under their names there."""
    return {
        theirs: _theirs(ours, tensors[ours])
        for ours, theirs in _HEAD_NAMES.items()
        if ours.startswith(scope) and ours in tensors
    }


def _theirs(ours: str, value: np.ndarray) -> np.ndarray:
    return value.T if ours.endswith("/kernel") else value
