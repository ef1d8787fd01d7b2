"""The Model Garden's checkpoint of a BERT encoder.

That is what the tasks of tf-models-official take as `init_checkpoint`: a
TensorFlow 2 checkpoint of the objects of `official.nlp.modeling.networks`'s
`BertEncoder` or `BertEncoderV2`, under the name "encoder". Beside it lie
vocab.txt and params.yaml, which holds the encoder's settings as a task has
them. Objects are found by name in the checkpoint's own graph, so neither
reading nor writing needs tf-models-official.

ELECTRA's discriminator fits in. Two things differ there:

- `hidden_activation: gelu` of a task is GELU's tanh approximation, so what is
  read has the `hidden_act` "gelu_new". The original has the error function, as
  an encoder has that is built with `inner_activation="gelu"`. The original's
  other activations have their names there too.
- A pooler follows on the first token's vector, which the original has not got.
  It is written as the identity, so that `pooled_output` is the tanh of that
  vector, and never read.

Shapes: B batch, L length, D hidden, H heads, W width of a head.
"""

import collections
import dataclasses
import os

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

from electra_tf import configs, errors
from electra_tf.checkpoints import sizes, tensor_files
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.checkpoints.formats import names
from electra_tf.errors import CheckpointError
from electra_tf.files import write_atomically
from electra_tf.text import vocabulary
from electra_tf.text.tokenization import ENCODER_FEATURES

# Name here -> setting of official.nlp's BertEncoderConfig: all that shapes
# tell and these, where they are not the same.
SETTINGS = {
    field.name: field.name
    for field in dataclasses.fields(configs.EncoderConfig)
    if field.name != "hidden_act"
} | {
    "num_hidden_layers": "num_layers",
    "hidden_dropout_prob": "dropout_rate",
    "attention_probs_dropout_prob": "attention_dropout_rate",
}

CHECKPOINT_NAME = "bert_model.ckpt"
PARAMS_FILE = "params.yaml"
# Where params.yaml has the encoder.
PARAMS_PATH = ("task", "model", "encoder")
# Names under which a checkpoint may hold the encoder.
ENCODERS = ("encoder", "model")
POOLER = "_pooler_layer"

# hidden_activation of its tasks -> hidden_act. They have one GELU only.
HIDDEN_ACTS = {"gelu": "gelu_new"} | {a: a for a in ("relu", "tanh", "linear")}
GELU_NOTE = (
    "tasks of the Model Garden compute GELU by its tanh approximation, this "
    "model with the error function: outputs differ from about the fourth "
    'digit on; an encoder built with inner_activation="gelu" makes them equal'
)

_GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"
# ALBERT has the table, but shares one layer.
_NEEDED = ("_embedding_layer/embeddings", "_transformer_layers/0")


class _Graph:
    """The objects of a checkpoint, by paths such as "encoder/_pooler_layer".

    `encoder` is the name of the BERT encoder; None if there is none.
    """

    def __init__(self, saved: tensor_files.TensorsOnDisk):
        self.saved = saved
        proto = trackable_object_graph_pb2.TrackableObjectGraph()
        proto.ParseFromString(saved.get(_GRAPH_KEY, b""))
        self._nodes = proto.nodes
        self.encoder: str | None = None
        for name in reversed(ENCODERS):
            if all(self.find(f"{name}/{part}") for part in _NEEDED):
                self.encoder = name

    def find(self, path: str) -> list:
        """The object at the end of a path, if there is one."""
        nodes = list(self._nodes[:1])
        for name in path.split("/"):
            nodes = [
                self._nodes[child.node_id]
                for node in nodes
                for child in node.children
                if child.local_name == name
            ]
        return nodes

    def key(self, path: str) -> str | None:
        """The key of the tensor of the variable at the end of a path."""
        attributes = [a for node in self.find(path) for a in node.attributes]
        return attributes[0].checkpoint_key if attributes else None


def recognise(path: str | os.PathLike) -> bool:
    """Whether a path is a checkpoint of TensorFlow 2's objects."""
    prefix = tensor_files.find(path)
    if prefix is None:
        return False
    # Where it is damaged, reading says what is wrong.
    beside = os.path.join(os.path.dirname(prefix), PARAMS_FILE)
    return os.path.exists(beside) or tensor_files.is_object_based(prefix)


def read(path: str | os.PathLike) -> Checkpoint:
    """Reads a checkpoint of an encoder, as the discriminator's.

    Files beside it tell the dropouts and the vocabulary; all sizes are in the
    tensors.

    Raises:
      CheckpointError: If it holds another network, or is damaged.
    """
    graph = _open(path)
    saved, prefix = graph.saved, graph.saved.prefix
    folder = os.path.dirname(prefix)
    root = f"{graph.encoder}/"
    (layers,) = graph.find(root + "_transformer_layers")
    project = graph.find(root + "_embedding_projection")
    keys, tensors = {}, {}
    for name in sizes.encoder_shapes(
        sizes.any_sizes(len(layers.children), bool(project)), "electra"
    ):
        key = graph.key(root + names.model_garden(name))
        if key is None or key not in saved.shapes:
            raise CheckpointError(
                f"{prefix} lacks the values of {name.removeprefix('electra/')}"
            )
        keys[name], tensor = key, saved[key]
        if "/attention/self/" in name:  # See `_with_heads`.
            tensor = tensor.reshape(*tensor.shape[:-2], -1)
        elif tensor.ndim == 3:
            tensor = tensor.reshape(-1, tensor.shape[-1])
        tensors[name] = tensor
    query = keys["electra/encoder/layer_0/attention/self/query/bias"]
    known = {
        "hidden_act": HIDDEN_ACTS["gelu"],
        **_read_params(os.path.join(folder, PARAMS_FILE)),
        "num_attention_heads": (saved.shapes[query] or [0])[0],
    }
    left = set(saved.shapes) - set(keys.values()) - {_GRAPH_KEY}
    poolers = {graph.key(f"{root}{POOLER}/{n}") for n in ("kernel", "bias")}
    unused, others = (
        sorted(key.removesuffix(tensor_files.OBJECT_SUFFIX) for key in part)
        for part in (left, left - poolers)
    )
    # Not counts, which stand alone, nor slots.
    others = [n for n in others if "/" in n and "optimizer" not in n.lower()]
    if others:
        errors.warn(f"{prefix}: nothing reads {', '.join(others[:8])}")
    checkpoint = sizes.read_sizes(tensors, prefix, {"electra": known})
    return dataclasses.replace(
        checkpoint,
        vocabulary=vocabulary.read(os.path.join(folder, vocabulary.VOCAB_FILE)),
        unused=tuple(unused),
        other_head=next((n for n in others if n.endswith("/kernel")), ""),
    )


def write(checkpoint: Checkpoint, path: str | os.PathLike) -> None:
    """Writes the discriminator's encoder, and warns of what differs there.

    Args:
      checkpoint: Has a discriminator.
      path: Folder for bert_model.ckpt, params.yaml and vocab.txt; a task takes
        it as `init_checkpoint`.
    """
    import yaml

    path = os.fspath(path)
    kept = checkpoint.encoder_only()
    config = kept.encoders["electra"]
    kept.check_vocabulary(path)
    if config.hidden_act == "gelu":
        errors.warn(GELU_NOTE)
    width, heads = config.hidden_size, config.num_attention_heads
    there = {
        f"{POOLER}/kernel": np.eye(width, dtype=np.float32),
        f"{POOLER}/bias": np.zeros(width, np.float32),
    }
    for name, tensor in kept.tensors.items():
        there[names.model_garden(name)] = _with_heads(name, tensor, heads)
    os.makedirs(path, exist_ok=True)
    tf.train.Checkpoint(encoder=_trackable(there)).write(
        os.path.join(path, CHECKPOINT_NAME)
    )
    # What makes a task find the checkpoint in the folder, wherever that is.
    tensor_files.write_checkpoint_file(path, CHECKPOINT_NAME)
    settings = {"task": {"model": {"encoder": params(config)}}}
    write_atomically(
        os.path.join(path, PARAMS_FILE),
        yaml.safe_dump(settings, sort_keys=False),
    )
    if kept.vocabulary is None:
        errors.warn("no vocab.txt is written, for want of a vocabulary")
    else:
        vocabulary.write(kept.vocabulary, path)


def params(config: configs.EncoderConfig) -> dict:
    """An encoder's settings, as a task of the Model Garden has them."""
    settings = {
        there: getattr(config, name) for name, there in SETTINGS.items()
    }
    # Both GELUs have one name there.
    activation = "gelu" if "gelu" in config.hidden_act else config.hidden_act
    settings["hidden_activation"] = activation
    return {"type": "bert", "bert": settings}


def forward(
    path: str | os.PathLike, inputs: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The Model Garden's own forward pass; see `reading.format_module`.

    Its pooled output has no counterpart in the original.
    """
    from official.nlp.configs import encoders

    graph = _open(path)
    config = read(path).encoders["electra"]
    encoder = encoders.build_encoder(encoders.EncoderConfig(params(config)))
    checkpoint = tf.train.Checkpoint(**{str(graph.encoder): encoder})
    status = checkpoint.read(graph.saved.prefix)
    status.expect_partial().assert_existing_objects_matched()
    features = [tf.constant(inputs[name]) for name in ENCODER_FEATURES]
    outputs = encoder(features, training=False)
    return {"sequence_output": outputs["sequence_output"].numpy()}


def _with_heads(name: str, tensor: np.ndarray, num_heads: int) -> np.ndarray:
    """Gives the attention's weights an axis for the heads."""
    if "/attention/self/" in name:  # [D, D] -> [D, H, W] and [D] -> [H, W].
        return tensor.reshape(*tensor.shape[:-1], num_heads, -1)
    if name.endswith("/attention/output/dense/kernel"):  # -> [H, W, D].
        return tensor.reshape(num_heads, -1, tensor.shape[-1])
    return tensor


def _trackable(weights: dict[str, np.ndarray]) -> tf.train.Checkpoint:
    """Path -> weights, as a tree of objects that a checkpoint can hold."""
    branches: dict = collections.defaultdict(dict)
    for path, value in weights.items():
        name, _, rest = path.partition("/")
        branches[name][rest] = value
    nodes = {
        name: tf.Variable(b[""]) if "" in b else _trackable(b)
        for name, b in branches.items()
    }
    return tf.train.Checkpoint(**nodes)


def _open(path: str | os.PathLike) -> _Graph:
    prefix = tensor_files.find(path)
    received = "no file that ends in .index"
    if prefix is not None:
        graph = _Graph(tensor_files.TensorsOnDisk(prefix))
        if graph.encoder is not None and not graph.find("masked_lm"):
            return graph
        received = (
            "a BERT" if graph.encoder else "a checkpoint of other objects"
        )
    raise CheckpointError(
        f"Expected an ELECTRA as the Model Garden's BertEncoder in "
        f"{prefix or os.fspath(path)}. Received: {received}"
    )


def _read_params(file: str) -> dict:
    """What params.yaml says of the encoder, by the names here."""
    import yaml

    if not os.path.exists(file):
        return {}
    try:
        with open(file, encoding="utf-8") as reader:
            settings = yaml.safe_load(reader)
        for name in PARAMS_PATH:
            settings = settings[name]
        settings = dict(settings[settings["type"]])
    except (OSError, ValueError, LookupError, TypeError, yaml.YAMLError):
        raise CheckpointError(
            f"Expected {'.'.join(PARAMS_PATH)} with the settings of a BERT "
            f"encoder in {file}. Received: something else"
        ) from None
    activation = settings.get("hidden_activation", "gelu")
    norm_first = settings.get("norm_first", False)
    if activation not in tuple(HIDDEN_ACTS) or norm_first:
        raise CheckpointError(
            f"Expected a hidden_activation of {', '.join(HIDDEN_ACTS)} and no "
            f"norm_first in {file}. Received: {activation} and {norm_first}"
        )
    known = {
        name: settings[there]
        for name, there in SETTINGS.items()
        if settings.get(there) is not None
    }
    return known | {"hidden_act": HIDDEN_ACTS[activation]}
