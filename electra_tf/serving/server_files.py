"""What TF Serving needs: the files beside a SavedModel, and the ops in it.

The files (warm-up, configuration, start) are written once, beside the versions,
and are then the user's: the next export leaves them alone. The warm-up requests
are in every version.

Stock TF Serving links TensorFlow's own ops and TF-Text's `ops_lib`; TF Serving
2.17 to 2.19 take the latter from TF-Text 2.12.1. A graph with another op loads
in Python, but not there: `check` refuses it.
"""

import os
import re

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from electra_tf import errors
from electra_tf.files import write_atomically
from electra_tf.serving import signatures

WARMUP_FILE = "tf_serving_warmup_requests"
MODELS_FILE = "models.config"
BATCHING_FILE = "batching_parameters.txt"
COMPOSE_FILE = "compose.yaml"

# The server's image whose ops `check` goes by.
IMAGE = "tensorflow/serving:2.19.1"

# Of the warm-up requests.
WARMUP_BATCH_SIZES = (1, 8, 32)
# Rows of the largest request, and of the largest batch.
_LARGEST = 128

# Ops of TF-Text 2.12.1's `ops_lib` that the tokenizer is made of. More of them
# are there; one that is missed here should be looked up before it is added.
TEXT_OPS = frozenset({"FastWordpieceTokenizeWithOffsets", "NormalizeUTF8"})

# How ops begin that TensorFlow's Python package has, but that call back into
# Python or are not linked into a server.
_NOT_LINKED = ("EagerPyFunc", "PyFunc", "TPU", "Xla")

# Ops of the graph itself: the API of `tf.raw_ops` leaves them out.
_STRUCTURAL_OPS = frozenset({"NoOp", "_Arg", "_Retval"})

_MODELS = """\
# --model_config_file: which models there are. All versions that a client may
# ask for by number: model_version_policy {{ all {{}} }}
model_config_list {{
  config {{
    name: "{name}"
    base_path: "/models/{name}"
    model_platform: "tensorflow"
  }}
}}
"""

_BATCHING = f"""\
# --batching_parameters_file: requests that arrive together go through the model
# together. A batch is as long as its longest text.
# Rows of the largest request, and of the largest batch. Splitting stays off:
# many answers are as wide as the longest text of their batch, and the server
# cannot put those of two batches together (it copies them side by side, or
# aborts).
max_batch_size {{ value: {_LARGEST} }}
enable_large_batch_splitting {{ value: false }}
# How long the first request of a batch waits for others.
batch_timeout_micros {{ value: 1000 }}
# Requests beyond this queue are refused at once, with UNAVAILABLE.
max_enqueued_batches {{ value: 100 }}
num_batch_threads {{ value: 2 }}
# Token ids and words of different lengths: padded to the longest.
pad_variable_length_inputs: true
"""

_COMPOSE = """\
# docker compose up, in this folder. gRPC on port 8500, REST on port 8501.
services:
  "{name}":
    image: {image}
    ports:
      - "127.0.0.1:8500:8500"
      - "127.0.0.1:8501:8501"
    volumes:
      - .:/models/{name}:ro
    command:
      - --model_config_file=/models/{name}/{models}
      - --model_config_file_poll_wait_seconds=60
      - --enable_batching=true
      - --batching_parameters_file=/models/{name}/{batching}
    restart: unless-stopped
"""


# --- Files -------------------------------------------------------------------


def model_name(output_dir: str) -> str:
    """What the server calls a model: as its configuration does, or its folder.

    In the latter all but letters, digits, "_", "-" and ".", which the server's
    addresses do not take, becomes "_".
    """
    folder = os.path.basename(os.path.abspath(output_dir))
    own = re.sub(r"[^A-Za-z0-9_.\-]+", "_", folder) or "model"
    path = os.path.join(output_dir, MODELS_FILE)
    if not os.path.isfile(path):
        return own
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = [line.split("#")[0] for line in file]
    names = re.findall(r'\bname\s*:\s*"([^"]*)"', "\n".join(lines))
    return own if own in names or not names else names[0]


def write(output_dir: str, name: str) -> list[str]:
    """Writes the server's files that are not there yet; returns their names."""
    contents = {
        MODELS_FILE: _MODELS.format(name=name),
        BATCHING_FILE: _BATCHING,
        COMPOSE_FILE: _COMPOSE.format(
            name=name,
            image=IMAGE,
            models=MODELS_FILE,
            batching=BATCHING_FILE,
        ),
    }
    written = []
    for file, content in contents.items():
        path = os.path.join(output_dir, file)
        if not os.path.exists(path):
            write_atomically(path, content)
            written.append(file)
    return written


def write_warmup_requests(
    path: str, name: str, example_inputs: dict[str, list[str]]
) -> list[int]:
    """Writes requests that the server runs before it takes any.

    Each batch size comes twice: with the shortest text only, and with all of
    them by turns.

    Args:
      path: The file, of `PredictionLog` records.
      name: Of the model.
      example_inputs: Input of the default signature -> texts.

    Returns:
      Batch size of each request; none, which is said, where
      tensorflow-serving-api is not installed.
    """
    try:
        from tensorflow_serving.apis import prediction_log_pb2
    except ImportError:
        errors.warn(
            "without requests to warm a server up, which need "
            "tensorflow-serving-api: pip install 'electra_tf[serving]'"
        )
        return []
    num_examples = len(next(iter(example_inputs.values())))
    shortest = min(
        range(num_examples),
        key=lambda i: sum(len(texts[i]) for texts in example_inputs.values()),
    )
    batches: list[list[int]] = []
    for size in WARMUP_BATCH_SIZES:
        batches.append([shortest] * size)
        batches.append([i % num_examples for i in range(size)])
    with tf.io.TFRecordWriter(path) as writer:
        for chosen in batches:
            log = prediction_log_pb2.PredictionLog()
            request = log.predict_log.request
            request.model_spec.name = name
            request.model_spec.signature_name = signatures.DEFAULT
            for key, texts in example_inputs.items():
                batch = [texts[i].encode() for i in chosen]
                request.inputs[key].CopyFrom(tf.make_tensor_proto(batch))
            writer.write(log.SerializeToString())
    return list(map(len, batches))


# --- Ops ---------------------------------------------------------------------


def read_proto(path: str) -> saved_model_pb2.SavedModel:
    """The SavedModel proto of one exported version.

    Raises:
      ConfigError: If there is none.
    """
    file = os.path.join(path, tf.saved_model.SAVED_MODEL_FILENAME_PB)
    if not os.path.isfile(file):
        raise errors.ConfigError(
            f"Expected a SavedModel at {path}, found none: export one with "
            "electra-tf export"
        )
    with open(file, "rb") as f:
        return saved_model_pb2.SavedModel.FromString(f.read())


def ops_of(path: str) -> set[str]:
    """The names of all ops of a SavedModel, its functions included."""
    ops: set[str] = set()
    for meta_graph in read_proto(path).meta_graphs:
        functions = meta_graph.graph_def.library.function
        ops.update(node.op for node in meta_graph.graph_def.node)
        ops.update(node.op for f in functions for node in f.node_def)
        ops.difference_update(f.signature.name for f in functions)
    return ops


def foreign_ops(names: set[str]) -> list[str]:
    """Those that stock TF Serving does not link, sorted."""
    return sorted(
        name
        for name in names - TEXT_OPS - _STRUCTURAL_OPS
        if not hasattr(tf.raw_ops, name) or name.startswith(_NOT_LINKED)
    )


def check(path: str) -> None:
    """Refuses a SavedModel that stock TF Serving could not load.

    Raises:
      ConfigError: If it has such ops.
    """
    foreign = foreign_ops(ops_of(path))
    if foreign:
        raise errors.ConfigError(
            "Expected ops of TensorFlow and of TF-Text 2.12.1 only, as stock "
            f"TF Serving has them. Received: {', '.join(foreign)}"
        )
