"""Names of the original's variables -> those of other libraries, and back.

A table is a sequence of regular expressions and what takes their place. The
weights of a layer have one name everywhere but in transformers: kernel, bias,
gamma or beta.
"""

import functools
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from electra_tf.checkpoints import sizes

Table = Sequence[tuple[str, str]]

_SCOPE = (r"^(electra|generator)/", "")
KERASHUB: Table = (
    _SCOPE,
    ("embeddings/word_embeddings", "token_embedding/embeddings"),
    ("embeddings/token_type_embeddings", "segment_embedding/embeddings"),
    ("embeddings/position_embeddings", "position_embedding/embeddings"),
    ("embeddings/LayerNorm", "embeddings_layer_norm"),
    ("embeddings_project", "embeddings_projection"),
    (r"encoder/layer_(\d+)", r"transformer_layer_\1"),
    ("attention/self", "self_attention_layer"),
    ("attention/output/dense", "self_attention_layer/attention_output"),
    ("attention/output/LayerNorm", "self_attention_layer_norm"),
    ("intermediate/dense", "feedforward_intermediate_dense"),
    ("/output/dense", "/feedforward_output_dense"),
    ("/output/LayerNorm", "/feedforward_layer_norm"),
)
MODEL_GARDEN: Table = (
    _SCOPE,
    ("embeddings/word_embeddings", "_embedding_layer/embeddings"),
    ("embeddings/token_type_embeddings", "_type_embedding_layer/embeddings"),
    ("embeddings/position_embeddings", "_position_embedding_layer/embeddings"),
    ("embeddings/LayerNorm", "_embedding_norm_layer"),
    ("embeddings_project", "_embedding_projection"),
    (r"encoder/layer_(\d+)", r"_transformer_layers/\1"),
    (r"attention/self/(\w+)", r"_attention_layer/_\1_dense"),
    ("attention/output/dense", "_attention_layer/_output_dense"),
    ("attention/output/LayerNorm", "_attention_layer_norm"),
    ("intermediate/dense", "_intermediate_dense"),
    ("/output/dense", "/_output_dense"),
    ("/output/LayerNorm", "/_output_layer_norm"),
)
TRANSFORMERS: Table = (
    (r"^generator/", "electra/"),  # Each network is a model of its own.
    (r"/layer_(\d+)/", r"/layer/\1/"),
    (r"_embeddings$", "_embeddings/weight"),
    (r"/(kernel|gamma)$", "/weight"),
    (r"/beta$", "/bias"),
    (r"/dense_1/", "/dense_prediction/"),
    (r"^generator_predictions/output_bias$", "generator_lm_head/bias"),
    ("/", "."),
)
# The output layer's kernel, which is the table of word embeddings.
TIED = "generator_lm_head.weight"

_SIZES = sizes.any_sizes(num_layers=1)
HEAD_NAMES = (
    *sizes.discriminator_head_shapes(_SIZES),
    *sizes.masked_lm_head_shapes(_SIZES),
)


def renamed(name: str, table: Table) -> str:
    """The name in another library of one of the original's variables."""
    for pattern, there in table:
        name = re.sub(pattern, there, name)
    return name


kerashub = functools.partial(renamed, table=KERASHUB)
model_garden = functools.partial(renamed, table=MODEL_GARDEN)

# The names of the first layer stand for those of all.
_FROM_TRANSFORMERS = {
    renamed(name, TRANSFORMERS): name
    for name in (*sizes.encoder_shapes(_SIZES, "electra"), *HEAD_NAMES)
}


def from_transformers(name: str, scope: str) -> str | None:
    """The original's name of a tensor; None for those of fine-tuned heads."""
    # Conversions of old have TensorFlow's names of LayerNorm.
    name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name)
    name = re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name)
    layer = re.search(r"\.layer\.(\d+)\.", name)
    if layer is not None:
        name = name.replace(layer[0], ".layer.0.")
    original = _FROM_TRANSFORMERS.get(name)
    if original is not None and layer is not None:
        original = original.replace("/layer_0/", f"/layer_{layer[1]}/")
    return original and re.sub("^electra/", f"{scope}/", original)


def to_transformers(
    tensors: Mapping[str, np.ndarray], names: Iterable[str]
) -> dict[str, np.ndarray]:
    """Some of the original's tensors under their names there."""
    # A generator without tables has a copy of the discriminator's there.
    tensors = sizes.with_own_tables(tensors)
    return {
        renamed(name, TRANSFORMERS): transposed(name, tensors[name])
        for name in names
    }


def transposed(name: str, value: np.ndarray) -> np.ndarray:
    """A tensor as transformers has it, or the other way round."""
    return value.T if name.endswith("/kernel") else value
