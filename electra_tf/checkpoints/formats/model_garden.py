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

import glob
import os
import typing

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

from electra_tf import configs
from electra_tf.checkpoints import sizes
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.checkpoints.formats.layer_names import LayerNames
from electra_tf.errors import CheckpointError
from electra_tf.files import refuse_lfs_pointer, write_atomically
from electra_tf.text import vocabulary

# Name of the original within its scope -> path of the object in the encoder.
NAMES = LayerNames(
    tables={
        "embeddings/word_embeddings": "_embedding_layer/embeddings",
        "embeddings/token_type_embeddings": "_type_embedding_layer/embeddings",
        "embeddings/position_embeddings": (
            "_position_embedding_layer/embeddings"
        ),
    },
    layers={
        "embeddings/LayerNorm": "_embedding_norm_layer",
        "embeddings_project": "_embedding_projection",
    },
    transformer_layer="_transformer_layers/{}",
    transformer_layers={
        "attention/self/query": "_attention_layer/_query_dense",
        "attention/self/key": "_attention_layer/_key_dense",
        "attention/self/value": "_attention_layer/_value_dense",
        "attention/output/dense": "_attention_layer/_output_dense",
        "attention/output/LayerNorm": "_attention_layer_norm",
        "intermediate/dense": "_intermediate_dense",
        "output/dense": "_output_dense",
        "output/LayerNorm": "_output_layer_norm",
    },
)
# Sizes: name here -> setting of official.nlp's BertEncoderConfig.
SETTINGS = {
    "vocab_size": "vocab_size",
    "hidden_size": "hidden_size",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_attention_heads",
    "intermediate_size": "intermediate_size",
    "embedding_size": "embedding_size",
    "max_position_embeddings": "max_position_embeddings",
    "type_vocab_size": "type_vocab_size",
    "hidden_dropout_prob": "dropout_rate",
    "attention_probs_dropout_prob": "attention_dropout_rate",
    "initializer_range": "initializer_range",
}
# What params.yaml says and no shape does.
SETTINGS_NOT_IN_TENSORS = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "initializer_range",
)

CHECKPOINT_NAME = "bert_model.ckpt"
PARAMS_FILE = "params.yaml"
# Where params.yaml has the encoder.
PARAMS_PATH = ("task", "model", "encoder")
# Names under which a checkpoint may hold the encoder.
ENCODERS = ("encoder", "model")
POOLER = "_pooler_layer"

# hidden_activation of its tasks -> hidden_act. They have one GELU only.
HIDDEN_ACTS = {
    "gelu": "gelu_new",
    "relu": "relu",
    "tanh": "tanh",
    "linear": "linear",
}
GELU_NOTE = (
    "tasks of the Model Garden compute GELU by its tanh approximation, this "
    "model with the error function: outputs differ from about the fourth "
    'digit on; an encoder built with inner_activation="gelu" makes them equal'
)

_GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
_FIRST_LAYER = "_transformer_layers/0"
# What TensorFlow raises for files that are damaged or cut short.
_READ_ERRORS = (tf.errors.OpError, RuntimeError, IndexError, ValueError)


class _Graph:
    """The objects of a checkpoint, by the names that lead from one to another.

    Attributes:
      reader: Of the tensors.
      shapes: Key of a tensor -> its shape.
    """

    def __init__(self, reader):
        self.reader = reader
        self.shapes = reader.get_variable_to_shape_map()
        proto = trackable_object_graph_pb2.TrackableObjectGraph()
        if _GRAPH_KEY in self.shapes:
            proto.ParseFromString(reader.get_tensor(_GRAPH_KEY))
        self._nodes = proto.nodes

    def find(self, path: str, start: int | None = 0) -> int | None:
        """The object at the end of a path such as "encoder/_pooler_layer"."""
        if not self._nodes:
            return None
        node = start
        for name in path.split("/"):
            if node is None:
                return None
            node = next(
                (
                    child.node_id
                    for child in self._nodes[node].children
                    if child.local_name == name
                ),
                None,
            )
        return node

    def key(self, node: int | None) -> str | None:
        """The key of a variable's tensor."""
        if node is None:
            return None
        return next(
            (a.checkpoint_key for a in self._nodes[node].attributes), None
        )

    def encoder(self) -> int | None:
        """The BERT encoder, if there is one."""
        for name in ENCODERS:
            node = self.find(name)
            # ALBERT has the table, but shares one layer.
            needed = (NAMES.tables["embeddings/word_embeddings"], _FIRST_LAYER)
            if all(self.find(path, node) is not None for path in needed):
                return node
        return None


def recognise(path: str | os.PathLike) -> bool:
    """Whether a path is an object-based checkpoint with an encoder.

    Args:
      path: Folder with a `checkpoint` file, or a checkpoint's path up to
        ".index".
    """
    prefix = _prefix(path)
    if prefix is None:
        return False
    try:
        graph = _Graph(tf.train.load_checkpoint(prefix))
    except _READ_ERRORS:
        # Damaged, but one of these: reading says what is wrong.
        folder = os.path.dirname(prefix)
        return os.path.exists(os.path.join(folder, PARAMS_FILE))
    return graph.encoder() is not None or graph.find("encoder") is not None


def read(path: str | os.PathLike) -> Checkpoint:
    """Reads a checkpoint of an encoder.

    Args:
      path: See `recognise`. Files beside it tell the dropouts and the
        vocabulary; all sizes are in the tensors.

    Returns:
      The encoder as the discriminator's, and the vocabulary if there is one.

    Raises:
      CheckpointError: If it holds another network, or is damaged.
    """
    prefix, graph = _open(path)
    folder = os.path.dirname(prefix)
    encoder = graph.encoder()
    tensors = {}
    used = set()
    num_heads = None
    for name, node in _named_variables(graph, encoder).items():
        key = graph.key(node)
        if key not in graph.shapes:
            raise CheckpointError(f"{prefix} lacks the values of {name}")
        try:
            tensor = graph.reader.get_tensor(key)
        except _READ_ERRORS as error:
            raise _unreadable(prefix, error) from None
        used.add(key)
        if name == "encoder/layer_0/attention/self/query/bias":
            num_heads = tensor.shape[0]
        tensors[f"electra/{name}"] = _without_heads(name, tensor)
    known: dict[str, float | str] = {"hidden_act": HIDDEN_ACTS["gelu"]}
    known |= _read_params(os.path.join(folder, PARAMS_FILE))
    if num_heads is not None:
        known["num_attention_heads"] = num_heads
    config, _, assumed = sizes.read_sizes(tensors, prefix, {"electra": known})
    checkpoint = Checkpoint(
        tensors,
        discriminator=config,
        vocabulary=vocabulary.read(os.path.join(folder, vocabulary.VOCAB_FILE)),
        unused=tuple(
            sorted(
                key.removesuffix(_VALUE)
                for key in graph.shapes
                if key not in used and key != _GRAPH_KEY
            )
        ),
        assumed=assumed,
    )
    checkpoint.check_vocabulary(prefix)
    return checkpoint


def write(checkpoint: Checkpoint, path: str | os.PathLike) -> tuple[str, ...]:
    """Writes the discriminator's encoder; see `notes` for what differs there.

    Args:
      checkpoint: What to write.
      path: Folder for bert_model.ckpt, params.yaml and vocab.txt; a task takes
        it as `init_checkpoint`.

    Returns:
      Names of the tensors and optimizer slots that stay behind, sorted.

    Raises:
      CheckpointError: If there is no discriminator, or a tensor is missing.
    """
    import yaml

    path = os.fspath(path)
    kept = checkpoint.encoder_only()
    config = typing.cast(configs.EncoderConfig, kept.discriminator)
    kept.check_vocabulary(path)
    shapes = sizes.encoder_shapes(config, "electra")
    sizes.check_shapes(kept.tensors, shapes, "the checkpoint")
    tree: dict = {}
    for tensor_name in shapes:
        name = tensor_name.removeprefix("electra/")
        _insert(
            tree,
            NAMES.of(name),
            _with_heads(
                name, kept.tensors[tensor_name], config.num_attention_heads
            ),
        )
    width = config.hidden_size
    _insert(tree, f"{POOLER}/kernel", np.eye(width, dtype=np.float32))
    _insert(tree, f"{POOLER}/bias", np.zeros(width, np.float32))
    os.makedirs(path, exist_ok=True)
    tf.train.Checkpoint(encoder=_trackable(tree)).write(
        os.path.join(path, CHECKPOINT_NAME)
    )
    # What makes a task find the checkpoint in the folder, wherever that is.
    write_atomically(
        os.path.join(path, "checkpoint"),
        f'model_checkpoint_path: "{CHECKPOINT_NAME}"\n',
    )
    write_atomically(
        os.path.join(path, PARAMS_FILE),
        yaml.safe_dump(params(config), sort_keys=False),
    )
    if kept.vocabulary is not None:
        vocabulary.write(kept.vocabulary, path)
    return tuple(
        sorted(
            (set(checkpoint.tensors) - set(shapes)) | set(checkpoint.optimizer)
        )
    )


def notes(checkpoint: Checkpoint) -> tuple[str, ...]:
    """What the format cannot say, or says otherwise, of a checkpoint.

    Args:
      checkpoint: To be written.

    Returns:
      One line for the user each.
    """
    config = checkpoint.discriminator
    is_exact = config is not None and config.hidden_act == "gelu"
    found = [GELU_NOTE] if is_exact else []
    found += [
        "the Model Garden's pooler, which the original has not got, is the "
        "identity: pooled_output is the tanh of the first token's vector",
    ]
    if checkpoint.vocabulary is None:
        found.append("no vocab.txt is written, for want of a vocabulary")
    return tuple(found)


def params(config: configs.EncoderConfig) -> dict:
    """The encoder's settings, as a task of the Model Garden has them.

    Args:
      config: Sizes of the encoder.

    Returns:
      Nested settings, for params.yaml.
    """
    settings = {
        theirs: getattr(config, ours) for ours, theirs in SETTINGS.items()
    }
    settings["hidden_activation"] = _hidden_activation(config)
    nested: dict = {"type": "bert", "bert": settings}
    for name in reversed(PARAMS_PATH):
        nested = {name: nested}
    return nested


def _hidden_activation(config: configs.EncoderConfig) -> str:
    """What a task calls the activation, both GELUs alike."""
    is_gelu = config.hidden_act in ("gelu", "gelu_new")
    return "gelu" if is_gelu else config.hidden_act


def forward(
    path: str | os.PathLike, inputs: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The Model Garden's own forward pass on a checkpoint, without dropout.

    Args:
      path: See `recognise`.
      inputs: `input_ids`, `input_mask` and `segment_ids` <int32>[B, L].

    Returns:
      {"sequence_output": <float32>[B, L, D]}. The Model Garden's pooled output
      has no counterpart in the original.

    Raises:
      CheckpointError: If the checkpoint cannot be read.
    """
    from official.modeling import tf_utils
    from official.nlp.modeling import networks

    prefix, graph = _open(path)
    config = typing.cast(configs.EncoderConfig, read(path).discriminator)
    encoder = networks.BertEncoder(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        num_layers=config.num_hidden_layers,
        num_attention_heads=config.num_attention_heads,
        max_sequence_length=config.max_position_embeddings,
        type_vocab_size=config.type_vocab_size,
        inner_dim=config.intermediate_size,
        inner_activation=tf_utils.get_activation(_hidden_activation(config)),
        embedding_width=config.embedding_size,
        dict_outputs=True,
    )
    name = next(name for name in ENCODERS if graph.find(name) is not None)
    status = tf.train.Checkpoint(**{name: encoder}).read(prefix)
    status.expect_partial().assert_existing_objects_matched()
    outputs = encoder(
        [
            tf.constant(inputs["input_ids"]),
            tf.constant(inputs["input_mask"]),
            tf.constant(inputs["segment_ids"]),
        ],
        training=False,
    )
    return {"sequence_output": outputs["sequence_output"].numpy()}


def _named_variables(graph: _Graph, encoder: int | None) -> dict:
    """Name of the original within its scope -> object of the variable."""
    names = list(NAMES.tables)
    names += [f"embeddings/LayerNorm/{weight}" for weight in ("beta", "gamma")]
    if graph.find(NAMES.layers["embeddings_project"], encoder) is not None:
        names += [
            f"embeddings_project/{weight}" for weight in _weights("dense")
        ]
    index = 0
    while (
        graph.find(NAMES.transformer_layer.format(index), encoder) is not None
    ):
        names += [
            f"encoder/layer_{index}/{layer}/{weight}"
            for layer in NAMES.transformer_layers
            for weight in _weights(layer)
        ]
        index += 1
    return {name: graph.find(NAMES.of(name), encoder) for name in names}


def _weights(layer: str) -> tuple[str, str]:
    return (
        ("beta", "gamma") if layer.endswith("LayerNorm") else ("kernel", "bias")
    )


def _with_heads(name: str, tensor: np.ndarray, num_heads: int) -> np.ndarray:
    """Gives the attention's weights an axis for the heads.

    [D, D] becomes [D, H, W] and [D] becomes [H, W] for queries, keys and
    values, [D, D] becomes [H, W, D] for the layer on top.
    """
    if "/attention/self/" in name:
        return tensor.reshape(*tensor.shape[:-1], num_heads, -1)
    if name.endswith("/attention/output/dense/kernel"):
        return tensor.reshape(num_heads, -1, tensor.shape[-1])
    return tensor


def _without_heads(name: str, tensor: np.ndarray) -> np.ndarray:
    """The inverse of `_with_heads`."""
    if "/attention/self/" in name:
        return tensor.reshape(*tensor.shape[:-2], -1)
    if name.endswith("/attention/output/dense/kernel"):
        return tensor.reshape(-1, tensor.shape[-1])
    return tensor


def _insert(tree: dict, path: str, value: np.ndarray) -> None:
    *branches, leaf = path.split("/")
    for branch in branches:
        tree = tree.setdefault(branch, {})
    tree[leaf] = value


def _trackable(tree):
    """A tree of arrays as objects that a checkpoint can hold."""
    if isinstance(tree, np.ndarray):
        return tf.Variable(tree)
    return tf.train.Checkpoint(
        **{name: _trackable(branch) for name, branch in tree.items()}
    )


def _prefix(path: str | os.PathLike) -> str | None:
    """A checkpoint's path up to ".index", or None if there is none."""
    path = os.fspath(path).removesuffix(".index")
    if os.path.isdir(path):
        path = tf.train.latest_checkpoint(path) or ""
    return path if os.path.exists(path + ".index") else None


def _open(path: str | os.PathLike) -> tuple[str, _Graph]:
    """The prefix and the objects, after a look at what they are."""
    prefix = _prefix(path)
    if prefix is None:
        raise CheckpointError(
            f"Expected a checkpoint of the Model Garden in {os.fspath(path)}. "
            "Received: no file that ends in .index"
        )
    for file in glob.glob(glob.escape(prefix) + ".*"):
        refuse_lfs_pointer(file)
    try:
        graph = _Graph(tf.train.load_checkpoint(prefix))
    except _READ_ERRORS as error:
        raise _unreadable(prefix, error) from None
    if graph.encoder() is None:
        raise CheckpointError(
            f"Expected the Model Garden's BertEncoder in {prefix}. Received: "
            "a checkpoint of other objects"
        )
    if graph.find("masked_lm") is not None:
        raise CheckpointError(
            f"Expected an ELECTRA in {prefix}. Received: a BERT, with the head "
            "of a masked language model"
        )
    return prefix, graph


def _read_params(file: str) -> dict[str, float | str]:
    """What params.yaml says of the encoder and no shape does.

    Raises:
      CheckpointError: If it is of another encoder, or cannot be read.
    """
    import yaml

    if not os.path.exists(file):
        return {}
    try:
        with open(file, encoding="utf-8") as reader:
            found = yaml.safe_load(reader)
        for name in PARAMS_PATH:
            found = found[name]
        settings = found[found["type"]]
        activation = settings.get("hidden_activation", "gelu")
        norm_first = settings.get("norm_first", False)
    except (OSError, yaml.YAMLError, KeyError, TypeError, AttributeError):
        raise CheckpointError(
            f"Expected {'.'.join(PARAMS_PATH)} with the settings of a BERT "
            f"encoder in {file}. Received: something else"
        ) from None
    if activation not in tuple(HIDDEN_ACTS) or norm_first:
        raise CheckpointError(
            f"Expected a hidden_activation of {', '.join(HIDDEN_ACTS)} and "
            f"norm_first: false in {file}. Received: {activation} and "
            f"{str(norm_first).lower()}"
        )
    return {
        ours: settings[SETTINGS[ours]]
        for ours in SETTINGS_NOT_IN_TENSORS
        if SETTINGS[ours] in settings
    } | {"hidden_act": HIDDEN_ACTS[activation]}


def _unreadable(prefix: str, error: Exception) -> CheckpointError:
    # TensorFlow's message has a stack of lines; the first one tells.
    lines = str(error).splitlines() or [type(error).__name__]
    return CheckpointError(f"Cannot read checkpoint {prefix}: {lines[0]}")
