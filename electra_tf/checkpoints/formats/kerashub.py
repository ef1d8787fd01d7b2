"""KerasHub's preset of an `ElectraBackbone`, with its tokenizer.

A preset is a folder with config.json, model.weights.h5, tokenizer.json and
assets/tokenizer/vocabulary.txt. KerasHub has the encoder only: heads and the
generator stay behind. Three things differ there:

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

import contextlib
import gc
import json
import os
import warnings
from collections.abc import Iterator

import numpy as np

from electra_tf import configs, errors
from electra_tf.checkpoints import sizes
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.checkpoints.formats import names
from electra_tf.errors import CheckpointError
from electra_tf.files import read_json
from electra_tf.text import vocabulary
from electra_tf.text.vocabulary import Vocabulary

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
# A task's head is in a file of its own.
TASK_WEIGHTS_FILE = "task.weights.h5"

# The only one that KerasHub has.
HIDDEN_ACT = "gelu_new"
GELU_NOTE = (
    "KerasHub computes GELU by its tanh approximation, this model with the "
    "error function: outputs differ from about the fourth digit on; "
    "electra_tf.checkpoints.formats.kerashub.use_exact_gelu(backbone) makes "
    "them equal"
)


@contextlib.contextmanager
def _in_one_line(source: str) -> Iterator[None]:
    """A CheckpointError in place of what KerasHub, Keras and h5py raise."""
    try:
        yield
    except (
        *(OSError, ValueError, LookupError, TypeError, RuntimeError),
        *(AttributeError, AssertionError),
    ) as error:
        raise CheckpointError(
            f"KerasHub cannot take {source}: {errors.first_line(error)}"
        ) from None


def recognise(path: str | os.PathLike) -> bool:
    """Whether a path is a preset that KerasHub saved, of any backbone."""
    try:
        with open(os.path.join(path, CONFIG_FILE), encoding="utf-8") as file:
            return "registered_name" in json.load(file)
    except (OSError, ValueError, TypeError, RecursionError):
        return False


def read(path: str | os.PathLike) -> Checkpoint:
    """Reads a preset: the encoder, and the vocabulary of its tokenizer.

    Of a task model of this package, whose head stays behind, the encoder has
    its own activation.

    Raises:
      CheckpointError: If it is not the preset of an ElectraBackbone, or is
        damaged.
    """
    import keras_hub

    path = os.fspath(path)
    backbone = _load(path)
    try:
        config = configs.EncoderConfig(
            **{name: getattr(backbone, SIZES[name]) for name in SIZES},
            attention_probs_dropout_prob=backbone.dropout,
            hidden_act=HIDDEN_ACT,
        )
    except errors.ConfigError as error:
        raise CheckpointError(f"{path}: {errors.first_line(error)}") from None
    weights = {variable.path: variable for variable in backbone.weights}
    tensors = {
        # Attention kernels have an axis for the heads there.
        name: weights.pop(names.kerashub(name)).numpy().reshape(shape)
        for name, shape in sizes.encoder_shapes(config, "electra").items()
    }
    unused = sorted(weights)
    del backbone, weights
    gc.collect()  # See `write`.
    has_head = os.path.exists(os.path.join(path, TASK_WEIGHTS_FILE))
    if has_head:
        unused.append(TASK_WEIGHTS_FILE)
        errors.warn(f"{path}: nothing reads {TASK_WEIGHTS_FILE}")
    vocab = None
    if os.path.exists(os.path.join(path, "tokenizer.json")):
        with _in_one_line(path):
            tokenizer = keras_hub.models.ElectraTokenizer.from_preset(path)
            tokens = tuple(tokenizer.get_vocabulary())
            vocabulary.validate_vocab(tokens, path)
        lower, strip = bool(tokenizer.lowercase), bool(tokenizer.strip_accents)
        vocab = Vocabulary(tokens, lower, strip)
    return Checkpoint(
        tensors,
        discriminator=config,
        vocabulary=vocab,
        unused=tuple(unused),
        other_head=TASK_WEIGHTS_FILE * has_head,
        assumed=("initializer_range",),
    )


def write(checkpoint: Checkpoint, path: str | os.PathLike) -> None:
    """Writes the discriminator's encoder, and warns of what differs there.

    Raises:
      CheckpointError: If there is none, or KerasHub cannot hold it.
    """
    import keras_hub

    path = os.fspath(path)
    checkpoint = checkpoint.encoder_only()
    config = checkpoint.encoders["electra"]
    if config.hidden_act not in ("gelu", HIDDEN_ACT):
        raise CheckpointError(
            "KerasHub's ElectraBackbone has GELU and no other activation. "
            f"Received: hidden_act={config.hidden_act!r}"
        )
    if config.hidden_act != HIDDEN_ACT:
        errors.warn(GELU_NOTE)
    checkpoint.check_vocabulary(path)
    # Before the large part: a vocabulary may be refused.
    if (vocab := checkpoint.vocabulary) is None:
        errors.warn("no tokenizer is written, for want of a vocabulary")
    else:
        vocabulary.refuse_odd_tokens(vocab.tokens)
        with _in_one_line("the vocabulary"):
            tokenizer = keras_hub.models.ElectraTokenizer(
                vocabulary=list(vocab.tokens),
                lowercase=vocab.lower_cases(),
                strip_accents=vocab.settled().strip_accents,
            )
    backbone = keras_hub.models.ElectraBackbone(
        **{there: getattr(config, name) for name, there in SIZES.items()},
        dtype="float32",
        name="electra_backbone",
    )
    weights = {variable.path: variable for variable in backbone.weights}
    for name, tensor in checkpoint.tensors.items():
        variable = weights.pop(names.kerashub(name))
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
    if vocab is not None:
        tokenizer.save_to_preset(path)


def forward(
    path: str | os.PathLike, inputs: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """KerasHub's own forward pass on a preset; see `reading.format_module`.

    KerasHub's pooled output has no counterpart in the original.
    """
    backbone = _load(os.fspath(path))
    features = {
        "token_ids": inputs["input_ids"],
        "padding_mask": inputs["input_mask"],
        "segment_ids": inputs["segment_ids"],
    }
    outputs = backbone(features, training=False)
    return {"sequence_output": outputs["sequence_output"].numpy()}


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


def _load(path: str):
    import keras_hub

    preset = read_json(os.path.join(path, CONFIG_FILE), config=dict)
    registered = str(preset.get("registered_name"))
    if registered.partition(">")[2] != "ElectraBackbone":
        raise CheckpointError(
            f"Expected the preset of an ElectraBackbone in {path}. Received: "
            f"{registered}"
        )
    with _in_one_line(path), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # What does not fit is an error.
        backbone = keras_hub.models.ElectraBackbone.from_preset(
            path, dtype="float32"
        )
    return backbone
