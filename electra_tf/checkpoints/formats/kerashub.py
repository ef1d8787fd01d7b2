"""KerasHub's preset of an `ElectraBackbone`, with its tokenizer.

A preset is a folder with config.json, model.weights.h5, tokenizer.json and
assets/tokenizer/vocabulary.txt. KerasHub has the encoder only: heads, and the
generator beside a discriminator, stay behind. Three things differ there:

- The feed-forward layers have GELU's tanh approximation, and no setting changes
  that. So what is read has the `hidden_act` "gelu_new". The original has the
  error function; `use_exact_gelu` gives it to a loaded backbone. A model with
  another activation is not written.
- A layer `pooled_dense` follows on the first token's vector, which the original
  has not got. It is written as the identity, so that `pooled_output` is the
  tanh of that vector, and never read.
- One rate is the dropout of activations and of attention probabilities.

Shapes: B batch, L length, D hidden.
"""

import gc
import glob
import json
import os
import warnings

import numpy as np

from electra_tf import configs, errors
from electra_tf.checkpoints import sizes
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.checkpoints.formats.layer_names import LayerNames
from electra_tf.errors import CheckpointError
from electra_tf.files import read_json, refuse_lfs_pointer
from electra_tf.text import vocabulary
from electra_tf.text.vocabulary import Vocabulary

# Name of the original within its scope -> path of the variable in KerasHub.
NAMES = LayerNames(
    tables={
        "embeddings/word_embeddings": "token_embedding/embeddings",
        "embeddings/token_type_embeddings": "segment_embedding/embeddings",
        "embeddings/position_embeddings": "position_embedding/embeddings",
    },
    layers={
        "embeddings/LayerNorm": "embeddings_layer_norm",
        "embeddings_project": "embeddings_projection",
    },
    transformer_layer="transformer_layer_{}",
    transformer_layers={
        "attention/self/query": "self_attention_layer/query",
        "attention/self/key": "self_attention_layer/key",
        "attention/self/value": "self_attention_layer/value",
        "attention/output/dense": "self_attention_layer/attention_output",
        "attention/output/LayerNorm": "self_attention_layer_norm",
        "intermediate/dense": "feedforward_intermediate_dense",
        "output/dense": "feedforward_output_dense",
        "output/LayerNorm": "feedforward_layer_norm",
    },
)
# Sizes: name here -> argument of ElectraBackbone.
SIZES = {
    "vocab_size": "vocab_size",
    "hidden_size": "hidden_dim",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "intermediate_size": "intermediate_dim",
    "embedding_size": "embedding_dim",
    "max_position_embeddings": "max_sequence_length",
    "type_vocab_size": "num_segments",
    "hidden_dropout_prob": "dropout",
}

CONFIG_FILE = "config.json"
TOKENIZER_FILE = "tokenizer.json"
# The weights may be in several files; a task's head is in a file of its own.
WEIGHTS_FILES = "model*.weights.h5"
TASK_WEIGHTS_FILE = "task.weights.h5"

# The name of a backbone is free. This one says that it is a generator's
# encoder; every other one is taken for a discriminator's.
GENERATOR = "generator"

# The only one that KerasHub has.
HIDDEN_ACT = "gelu_new"
GELU_NOTE = (
    "KerasHub computes GELU by its tanh approximation, this model with the "
    "error function: outputs differ from about the fourth digit on; "
    "electra_tf.checkpoints.formats.kerashub.use_exact_gelu(backbone) makes "
    "them equal"
)

# What KerasHub, Keras and h5py raise for files that do not fit or are damaged.
_LOAD_ERRORS = (
    *(OSError, ValueError, LookupError, TypeError, RuntimeError),
    *(AttributeError, AssertionError),
)


def recognise(path: str | os.PathLike) -> bool:
    """Whether a path is a preset that KerasHub saved, of any backbone."""
    try:
        with open(os.path.join(path, CONFIG_FILE), encoding="utf-8") as file:
            return "registered_name" in json.load(file)
    except (OSError, ValueError, TypeError, RecursionError):
        return False


def read(path: str | os.PathLike) -> Checkpoint:
    """Reads a preset: the encoder, and the vocabulary of its tokenizer.

    The encoder is the discriminator's unless its name says otherwise. Of a task
    model of this package, whose head stays behind, it has its own activation.

    Raises:
      CheckpointError: If it is not the preset of an ElectraBackbone, or is
        damaged.
    """
    path = os.fspath(path)
    backbone = _load(path)
    is_generator = backbone.name == GENERATOR
    try:
        config = configs.EncoderConfig(
            **{ours: getattr(backbone, SIZES[ours]) for ours in SIZES},
            attention_probs_dropout_prob=backbone.dropout,
            hidden_act=HIDDEN_ACT,
        )
    except errors.ConfigError as error:
        raise CheckpointError(f"{path}: {errors.first_line(error)}") from None
    weights = {variable.path: variable for variable in backbone.weights}
    scope = "generator" if is_generator else "electra"
    tensors = {
        # Attention kernels have an axis for the heads there.
        name: weights.pop(NAMES.of(name)).numpy().reshape(shape)
        for name, shape in sizes.encoder_shapes(config, scope).items()
    }
    unused = sorted(weights)
    del backbone, weights
    gc.collect()  # See `write`.
    if os.path.exists(os.path.join(path, TASK_WEIGHTS_FILE)):
        unused.append(TASK_WEIGHTS_FILE)
    return Checkpoint(
        tensors,
        discriminator=None if is_generator else config,
        generator=config if is_generator else None,
        vocabulary=_read_vocabulary(path),
        unused=tuple(unused),
        assumed=("initializer_range",),
    )


def write(checkpoint: Checkpoint, path: str | os.PathLike) -> None:
    """Writes a preset, and warns of what is not the same there.

    Of the checkpoint the discriminator's encoder and the vocabulary are
    written, or the generator's encoder where there is no discriminator.

    Raises:
      CheckpointError: If there is no encoder, or KerasHub cannot hold it.
    """
    import keras_hub

    path = os.fspath(path)
    scope, config = _encoder(checkpoint)
    if config.hidden_act not in ("gelu", HIDDEN_ACT):
        raise CheckpointError(
            "KerasHub's ElectraBackbone has GELU and no other activation. "
            f"Received: hidden_act={config.hidden_act!r}"
        )
    if config.hidden_act != HIDDEN_ACT:
        errors.warn(GELU_NOTE)
    checkpoint.check_vocabulary(path)
    tensors = checkpoint.tensors
    # Before the large part: a vocabulary may be refused.
    vocab = checkpoint.vocabulary
    tokenizer = _tokenizer(vocab) if vocab is not None else None
    if tokenizer is None:
        errors.warn("no tokenizer is written, for want of a vocabulary")
    backbone = keras_hub.models.ElectraBackbone(
        **{theirs: getattr(config, ours) for ours, theirs in SIZES.items()},
        dtype="float32",
        name=GENERATOR if scope == "generator" else "electra_backbone",
    )
    weights = {variable.path: variable for variable in backbone.weights}
    for name in sizes.encoder_shapes(config, scope):
        variable = weights.pop(NAMES.of(name))
        tensor = tensors[sizes.stored_name(tensors, name)]
        variable.assign(np.reshape(tensor, variable.shape))
    width = config.hidden_size
    weights.pop("pooled_dense/kernel").assign(np.eye(width, dtype=np.float32))
    weights.pop("pooled_dense/bias").assign(np.zeros(width, np.float32))
    assert not weights, weights
    backbone.save_to_preset(path)
    # A backbone's layers refer to each other, so nothing else frees it. Several
    # in memory would be most of what a conversion needs.
    del backbone, weights, variable
    gc.collect()
    if tokenizer is not None:
        tokenizer.save_to_preset(path)


def forward(
    path: str | os.PathLike, inputs: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """KerasHub's own forward pass on a preset; see `reading.format_module`.

    KerasHub's pooled output has no counterpart in the original.
    """
    backbone = _load(os.fspath(path))
    theirs = {
        "token_ids": inputs["input_ids"],
        "padding_mask": inputs["input_mask"],
        "segment_ids": inputs["segment_ids"],
    }
    outputs = backbone(theirs, training=False)
    prefix = "generator_" if backbone.name == GENERATOR else ""
    return {f"{prefix}sequence_output": outputs["sequence_output"].numpy()}


def use_exact_gelu(backbone) -> None:
    """Gives a loaded backbone the original's GELU, with the error function.

    Args:
      backbone: A `keras_hub.models.ElectraBackbone`. The change is not saved
        with it: a preset has no such setting.
    """
    import keras

    for layer in backbone.transformer_layers:
        # No public attribute leads to this layer.
        layer._feedforward_intermediate_dense.activation = (
            keras.activations.gelu
        )


def _encoder(checkpoint: Checkpoint) -> tuple[str, configs.EncoderConfig]:
    """Scope and sizes of the encoder that a preset holds."""
    for scope, config in checkpoint.encoders.items():
        return scope, config
    raise CheckpointError("KerasHub has an encoder. Received: none")


def _load(path: str):
    """The backbone of a preset, all of whose weights have a place."""
    import h5py
    import keras_hub

    preset = read_json(os.path.join(path, CONFIG_FILE), config=dict)
    registered = str(preset.get("registered_name"))
    if registered.partition(">")[2] != "ElectraBackbone":
        raise CheckpointError(
            f"Expected the preset of an ElectraBackbone in {path}. Received: "
            f"{registered}"
        )
    files = sorted(glob.glob(os.path.join(glob.escape(path), WEIGHTS_FILES)))
    if not files:
        raise CheckpointError(f"{path} lacks the weights, model.weights.h5")
    saved: list[object] = []
    for file in files:
        refuse_lfs_pointer(file)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # What does not fit is an error.
            backbone = keras_hub.models.ElectraBackbone.from_preset(
                path, dtype="float32"
            )
        for file in files:
            with h5py.File(file) as weights:
                weights.visititems(lambda _, item: saved.append(type(item)))
    except _LOAD_ERRORS as error:
        raise CheckpointError(
            f"KerasHub cannot read {path}: {errors.first_line(error)}"
        ) from None
    if (number := saved.count(h5py.Dataset)) != len(backbone.weights):
        # KerasHub passes over what it has no layer for.
        raise CheckpointError(
            f"Expected {len(backbone.weights)} weights in {path}, as its "
            f"{CONFIG_FILE} has it. Received: {number}"
        )
    return backbone


def _tokenizer(vocab: Vocabulary):
    """KerasHub's tokenizer for a vocabulary."""
    import keras_hub

    vocabulary.refuse_odd_tokens(vocab.tokens)
    try:
        return keras_hub.models.ElectraTokenizer(
            vocabulary=list(vocab.tokens),
            lowercase=vocab.lower_cases(),
            strip_accents=vocab.settled().strip_accents,
        )
    except _LOAD_ERRORS as error:
        raise CheckpointError(
            "KerasHub's tokenizer refuses the vocabulary: "
            f"{errors.first_line(error)}"
        ) from None


def _read_vocabulary(path: str) -> Vocabulary | None:
    """The vocabulary, if there is one."""
    import keras_hub

    if not os.path.exists(os.path.join(path, TOKENIZER_FILE)):
        return None
    try:
        tokenizer = keras_hub.models.ElectraTokenizer.from_preset(path)
        tokens = tuple(tokenizer.get_vocabulary())
        vocabulary.validate_vocab(tokens, path)
    except _LOAD_ERRORS as error:
        raise CheckpointError(
            f"KerasHub cannot read {path}: {errors.first_line(error)}"
        ) from None
    lower, strip = bool(tokenizer.lowercase), bool(tokenizer.strip_accents)
    return Vocabulary(tokens, lower, strip)
