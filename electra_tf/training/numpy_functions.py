"""Python functions inside of datasets, which end with them."""

import typing
import weakref
from collections.abc import Callable, Sequence

import tensorflow as tf


def numpy_function(
    function: Callable,
    inputs: Sequence[tf.Tensor],
    dtypes: Sequence[tf.DType] | tf.DType,
    stateful: bool = True,
) -> typing.Any:
    """`tf.numpy_function` that does not keep its function for ever.

    TensorFlow keeps the function of each for as long as the process lives, with
    all that it refers to: examples that it reads, the model that it belongs to.
    Here the graphs around it keep it, which a dataset and its iterators have.

    Args:
      function: Takes and returns arrays.
      inputs: What it takes.
      dtypes: Of what it returns.
      stateful: Whether it may return something else for the same inputs.

    Returns:
      Tensors of the dtypes.
    """
    # The graphs of all functions around here refer to it, not the innermost
    # alone: a dataset that is made in another one's function has no Python
    # object left by the time it is iterated over.
    graph = tf.compat.v1.get_default_graph()
    while hasattr(graph, "outer_graph"):
        kept = getattr(graph, "_kept_functions", [])
        kept.append(function)
        graph._kept_functions = kept
        graph = graph.outer_graph
    find = weakref.ref(function)

    def call(*arrays):
        target = find()
        if target is None:
            # Asked by a thread that prefetches for a dataset which is just
            # gone. Whoever did wait for it would be told: a map may not end.
            raise StopIteration
        return target(*arrays)

    return tf.numpy_function(call, inputs, dtypes, stateful=stateful)
