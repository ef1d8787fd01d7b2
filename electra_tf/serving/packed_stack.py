"""The transformer layers of a model that only answers, in fewer operations.

A server is asked for one short text at a time, and then an operation costs more
to start than to compute: oneDNN, which TensorFlow hands most of them to, wakes
another thread even for a few numbers. So

* queries, keys and values are one product, the scale of the scores in the
  weights of the queries, and get into the order of the heads at once;
* the weights of one kind are one variable for all layers. Taking a layer's out
  of it copies nothing, and an answer reads a dozen variables instead of 200;
* what moves or combines few numbers is put so that it is not handed to oneDNN:
  a transposition as one of integers with the same bits, a product of heads as
  `BatchMatMulV3`, a softmax as the exponential of `LogSoftmax`. All are ops
  that TensorFlow has on every device since 2.6;
* products may be of bfloat16: half the weights to read. These are constants
  then, which oneDNN packs once where a bias follows; those of variables it
  would pack in every call.

Shapes: B batch, L length, D hidden, H heads, I intermediate, N layers.
"""

import dataclasses
import typing

import numpy as np
import tensorflow as tf

from electra_tf import errors
from electra_tf.model import encoder, kernels
from electra_tf.serving import kinds
from electra_tf.serving.exportable import Source


class _Weights(typing.NamedTuple):
    """Of one layer; with N as first axis, of all layers."""

    projections: tf.Tensor  # <float32>[D, 3 * D]: queries, keys, values.
    projections_bias: tf.Tensor
    context: tf.Tensor  # <float32>[D, D].
    context_bias: tf.Tensor
    context_gamma: tf.Tensor
    context_beta: tf.Tensor
    intermediate: tf.Tensor  # <float32>[D, I].
    intermediate_bias: tf.Tensor
    output: tf.Tensor  # <float32>[I, D].
    output_bias: tf.Tensor
    output_gamma: tf.Tensor
    output_beta: tf.Tensor


# What the dense layers multiply in bfloat16; the rest stays float32.
_OF_PRODUCTS = frozenset(
    f"{part}{suffix}"
    for part in ("projections", "context", "intermediate", "output")
    for suffix in ("", "_bias")
)


# A graph is a proto, of at most 2 GiB.
_MOST_BYTES = 1.9e9


class PackedStack(tf.Module):
    """What `encoder.TransformerStack` computes in float32 without dropout.

    Args:
      stack: The layers, of which the weights are copied.
      dtype: Of the dense layers' products, one of `kinds.DTYPES`. Attention,
        softmax, normalisation and sums are float32 in both.
    """

    num_dropouts = 0

    def __init__(
        self, stack: encoder.TransformerStack, dtype: str = kinds.FLOAT32
    ):
        super().__init__(name="packed_stack")
        layers = stack.transformer_layers
        config = layers[0].attention.self_attention.config
        self._num_heads = config.num_attention_heads
        self._hidden_act = config.hidden_act
        self._is_bfloat16 = dtype == kinds.BFLOAT16
        self._packed = []
        # Not tracked: they are saved with the graph.
        self._constants: dict[str, np.ndarray] = {}
        columns = zip(*map(_weights_of, layers), strict=True)
        for name, of_layers in zip(_Weights._fields, columns, strict=True):
            stacked = tf.stack(of_layers)
            if self._is_bfloat16 and name in _OF_PRODUCTS:
                self._constants[name] = tf.cast(stacked, tf.bfloat16).numpy()
            else:
                self._packed.append(tf.Variable(stacked, trainable=False))

    def __call__(self, x, attention_bias, dropout_keys=None):
        """Transforms a batch of sequences.

        Args:
          x: <float32>[B * L, D].
          attention_bias: <float32>[B, 1, 1 or L, L].
          dropout_keys: None.

        Returns:
          As `encoder.TransformerStack` a list of outputs <float32>[B * L, D],
          but of the last layer alone, and an empty list for the attention
          probabilities.

        Raises:
          ValueError: If there should be dropout.
        """
        if dropout_keys is not None:
            raise ValueError(
                "Expected no dropout, as packed layers only answer. "
                f"Received: dropout_keys={dropout_keys}"
            )
        variables = iter(self._packed)
        columns = [
            # Each layer's by itself: a part of a constant is none.
            list(map(tf.constant, self._constants[name]))
            if name in self._constants
            else tf.unstack(next(variables))
            for name in _Weights._fields
        ]
        for weights in zip(*columns, strict=True):
            x = self._layer(x, attention_bias, _Weights(*weights))
        return [x], []

    def _layer(self, x, attention_bias, weights: _Weights) -> tf.Tensor:
        context = self._attend(x, attention_bias, weights)
        projected = _dense(context, weights.context, weights.context_bias)
        x = kernels.layer_norm(
            projected + x, weights.context_gamma, weights.context_beta
        )
        wide = kernels.activation(
            _dense(x, weights.intermediate, weights.intermediate_bias),
            hidden_act=self._hidden_act,
        )
        return kernels.layer_norm(
            _dense(wide, weights.output, weights.output_bias) + x,
            weights.output_gamma,
            weights.output_beta,
        )

    def _attend(self, x, attention_bias, weights: _Weights) -> tf.Tensor:
        """The heads' context <float32>[B * L, D]."""
        hidden_size = x.shape[-1]
        length = tf.shape(attention_bias)[-1]
        heads = [3, self._num_heads, hidden_size // self._num_heads]
        # The bias behind the reshaping, since TensorFlow merges it with the
        # product otherwise, and oneDNN's product with a bias copies the
        # weights first.
        if self._is_bfloat16:
            projected = tf.reshape(
                _dense(x, weights.projections, weights.projections_bias),
                [-1, length, *heads],
            )
        else:
            projected = tf.reshape(
                tf.matmul(x, weights.projections), [-1, length, *heads]
            ) + tf.reshape(weights.projections_bias, heads)
        query, key, value = tf.unstack(_transpose(projected, [2, 0, 3, 1, 4]))
        scores = _product(query, key, adj_y=True) + attention_bias
        probs = tf.exp(tf.nn.log_softmax(scores))
        context = _transpose(_product(probs, value), [0, 2, 1, 3])
        return tf.reshape(context, [-1, hidden_size])


def pack(found: Source, dtype: str = kinds.FLOAT32) -> Source:
    """A model that only answers, with its layers packed.

    Args:
      found: The model; its encoder changes.
      dtype: Of the layers' products: see `PackedStack`.

    Returns:
      The same, with the layers' variables in `packed_stack` instead of
      `keras_variables`.

    Raises:
      ConfigError: If the weights in bfloat16 are too large for a graph.
    """
    if dtype == kinds.BFLOAT16:
        _check_size(found)
    in_layers = {id(v) for v in found.encoder.stack.variables}
    found.encoder.stack = PackedStack(found.encoder.stack, dtype)
    return dataclasses.replace(
        found,
        keras_variables=[
            v for v in found.keras_variables if id(v) not in in_layers
        ],
        packed_stack=found.encoder.stack,
    )


def _check_size(found: Source) -> None:
    """Refuses layers that make a graph larger than protos may be."""
    num_bytes = 2 * sum(
        v.shape.num_elements() for v in found.encoder.stack.variables
    )
    if num_bytes > _MOST_BYTES:
        raise errors.ConfigError(
            "Expected layers of at most 1.9 GB in bfloat16, as the graph holds "
            f"them. Received: {num_bytes / 1e9:.1f} GB: export with "
            "--dtype=float32"
        )


def _weights_of(layer: encoder.TransformerLayer) -> _Weights:
    attention = layer.attention.self_attention
    parts = (attention.query, attention.key, attention.value)
    config = attention.config
    scale = (config.hidden_size // config.num_attention_heads) ** -0.5

    def side_by_side(query, key, value) -> tf.Tensor:
        return tf.concat([query.value * scale, key.value, value.value], axis=-1)

    context, output = layer.attention.residual_output, layer.residual_output
    intermediate = layer.intermediate.dense
    return _Weights(
        side_by_side(*(part.kernel for part in parts)),
        side_by_side(*(part.bias for part in parts)),
        context.dense.kernel.value,
        context.dense.bias.value,
        *context.layer_norm.weights_as_tensors(),
        intermediate.kernel.value,
        intermediate.bias.value,
        output.dense.kernel.value,
        output.dense.bias.value,
        *output.layer_norm.weights_as_tensors(),
    )


def _dense(x: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    product = tf.matmul(tf.cast(x, kernel.dtype), kernel)
    return tf.cast(tf.nn.bias_add(product, bias), x.dtype)


def _product(x: tf.Tensor, y: tf.Tensor, adj_y: bool = False) -> tf.Tensor:
    return tf.raw_ops.BatchMatMulV3(x=x, y=y, Tout=x.dtype, adj_y=adj_y)


def _transpose(x: tf.Tensor, order: list[int]) -> tf.Tensor:
    bits = tf.bitcast(x, tf.int32)
    return tf.bitcast(tf.transpose(bits, order), x.dtype)
