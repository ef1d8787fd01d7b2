"""Python functions inside of datasets, which end with them."""

import inspect
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
    """`tf.numpy_function` that does not keep its function.

    TensorFlow keeps the function of each for as long as the process lives, with
    all that it refers to: examples that it reads, the model that it belongs to.
    Here the function that a dataset maps has to refer to it, so that it lives
    as long as the dataset and its iterators.

    Args:
      function: Takes and returns arrays.
      inputs: What it takes.
      dtypes: Of what it returns.
      stateful: Whether it may return something else for the same inputs.

    Returns:
      Tensors of the dtypes.
    """
    is_method = inspect.ismethod(function)
    find = (weakref.WeakMethod if is_method else weakref.ref)(function)

    def call(*arrays):
        return typing.cast(Callable, find())(*arrays)

    return tf.numpy_function(call, inputs, dtypes, stateful=stateful)
