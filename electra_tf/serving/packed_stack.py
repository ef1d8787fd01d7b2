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
  that TensorFlow has on every device since 2.6.

Shapes: B batch, L length, D hidden, H heads, I intermediate, N layers.
"""

import dataclasses
import typing

import tensorflow as tf

from electra_tf.model import encoder, kernels
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


class PackedStack(tf.Module):
    """What `encoder.TransformerStack` computes in float32 without dropout.

    Args:
      stack: The layers, of which the weights are copied.
    """

    def __init__(self, stack: encoder.TransformerStack):
        super().__init__(name="packed_stack")
        layers = stack.transformer_layers
        config = layers[0].attention.self_attention.config
        self._num_heads = config.num_attention_heads
        self._hidden_act = config.hidden_act
        self._packed = [
            tf.Variable(tf.stack(of_layers), trainable=False)
            for of_layers in zip(*map(_weights_of, layers), strict=True)
        ]

    def __call__(self, x, attention_bias, dropout_seed=None):
        """Transforms a batch of sequences.

        Args:
          x: <float32>[B * L, D].
          attention_bias: <float32>[B, 1, 1 or L, L].
          dropout_seed: None.

        Returns:
          As `encoder.TransformerStack` a list of outputs <float32>[B * L, D],
          but of the last layer alone, and an empty list for the attention
          probabilities.

        Raises:
          ValueError: If there is a seed.
        """
        if dropout_seed is not None:
            raise ValueError(
                "Expected no dropout_seed, as packed layers only answer. "
                f"Received: {dropout_seed}"
            )
        for weights in zip(*map(tf.unstack, self._packed), strict=True):
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
        projected = tf.reshape(
            tf.matmul(x, weights.projections), [-1, length, *heads]
        ) + tf.reshape(weights.projections_bias, heads)
        query, key, value = tf.unstack(_transpose(projected, [2, 0, 3, 1, 4]))
        scores = _product(query, key, adj_y=True) + attention_bias
        probs = tf.exp(tf.nn.log_softmax(scores))
        context = _transpose(_product(probs, value), [0, 2, 1, 3])
        return tf.reshape(context, [-1, hidden_size])


def pack(found: Source) -> Source:
    """A model that only answers, with its layers packed.

    Args:
      found: The model; its encoder changes.

    Returns:
      The same, with the layers' variables in `packed_stack` instead of
      `keras_variables`.
    """
    in_layers = {id(v) for v in found.encoder.stack.variables}
    found.encoder.stack = PackedStack(found.encoder.stack)
    return dataclasses.replace(
        found,
        keras_variables=[
            v for v in found.keras_variables if id(v) not in in_layers
        ],
        packed_stack=found.encoder.stack,
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
    return tf.nn.bias_add(tf.matmul(x, kernel), bias)


def _product(x: tf.Tensor, y: tf.Tensor, adj_y: bool = False) -> tf.Tensor:
    return tf.raw_ops.BatchMatMulV3(x=x, y=y, Tout=x.dtype, adj_y=adj_y)


def _transpose(x: tf.Tensor, order: list[int]) -> tf.Tensor:
    bits = tf.bitcast(x, tf.int32)
    return tf.bitcast(tf.transpose(bits, order), x.dtype)
