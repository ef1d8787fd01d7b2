"""Which ops stock TF Serving has, and which ones a SavedModel needs.

Stock TF Serving links TensorFlow's own ops and TF-Text's `ops_lib`; TF Serving
2.17 to 2.19 take the latter from TF-Text 2.12.1. A graph with another op loads
in Python, but not there.
"""

import os

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from electra_tf import configs

# Ops of TF-Text 2.12.1's `ops_lib` that the tokenizer is made of. More of them
# are there; one that is missed here should be looked up before it is added.
TEXT_OPS = frozenset({"FastWordpieceTokenizeWithOffsets", "NormalizeUTF8"})

# Ops that TensorFlow's Python package has, but that call back into Python or
# are not linked into a server.
_NOT_LINKED = (
    "EagerPyFunc",
    "PyFunc",
    "PyFuncStateless",
    "TPU",
    "Xla",
)

# Ops of the graph itself: the API of `tf.raw_ops` leaves them out.
_STRUCTURAL_OPS = frozenset({"NoOp", "_Arg", "_Retval"})


def read_proto(path: str) -> saved_model_pb2.SavedModel:
    """The SavedModel proto of an export.

    Args:
      path: One version.

    Raises:
      ConfigError: If there is none.
    """
    file = os.path.join(path, tf.saved_model.SAVED_MODEL_FILENAME_PB)
    if not os.path.isfile(file):
        raise configs.ConfigError(
            f"Expected a SavedModel at {path}, found none: export one with "
            "tools/export_saved_model.py"
        )
    saved = saved_model_pb2.SavedModel()
    with open(file, "rb") as f:
        saved.ParseFromString(f.read())
    return saved


def ops_of(path: str) -> set[str]:
    """The names of all ops of a SavedModel, its functions included."""
    found: set[str] = set()
    for meta_graph in read_proto(path).meta_graphs:
        graph = meta_graph.graph_def
        found.update(node.op for node in graph.node)
        names = {function.signature.name for function in graph.library.function}
        for function in graph.library.function:
            found.update(node.op for node in function.node_def)
        found -= names
    return found


def foreign_ops(names: set[str]) -> list[str]:
    """Those that stock TF Serving does not link, sorted."""

    def is_linked(name: str) -> bool:
        if name in TEXT_OPS or name in _STRUCTURAL_OPS:
            return True
        return hasattr(tf.raw_ops, name) and not name.startswith(_NOT_LINKED)

    return sorted(name for name in names if not is_linked(name))


def check(path: str) -> None:
    """Refuses a SavedModel that stock TF Serving could not load.

    Raises:
      ConfigError: If it has such ops.
    """
    foreign = foreign_ops(ops_of(path))
    if foreign:
        raise configs.ConfigError(
            "Expected ops of TensorFlow and of TF-Text 2.12.1 only, as stock "
            f"TF Serving has them. Received: {', '.join(foreign)}"
        )
