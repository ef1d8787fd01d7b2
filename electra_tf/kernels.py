"""Elementwise parts of a training step, each one pass over memory.

On a CPU a third of a step's time is not matrix products but moving activations
through memory once for every addition and multiplication. So what lies between
two matrix products is written as one function forward and one backward, and
each is compiled by XLA into one loop. Matrix products and random bits stay
TensorFlow's, whose kernels are faster than XLA's there.

Only graphs that train are compiled in parts: inference has the plain functions,
so that exported models need no compiler, and so has eager code. A step that is
compiled as a whole takes the parts in.

Shapes: B batch, L length, D hidden, H heads.
"""

import functools
import math
import typing
from collections.abc import Callable

import tensorflow as tf

# The original's BERT code has it.
LAYER_NORM_EPSILON = 1e-12
# Draws of dropout are 16 bits wide: half the random bits of 32, whose drawing
# is what dropout costs. A rate is rounded to a 65536th, and what is kept is
# scaled by the rounded rate.
_DRAW_BITS = 16


class Draws(typing.NamedTuple):
    """What one dropout keeps.

    Attributes:
      bits: <int16>[...], uniform over all values; of the activations' shape.
      rate: Share that becomes 0.
    """

    bits: tf.Tensor
    rate: float


def draw(shape: tf.Tensor, rate: float, seed: tf.Tensor) -> Draws:
    """Draws a dropout mask.

    Args:
      shape: <int32>[rank], of the activations.
      rate: Share that becomes 0.
      seed: <int32>[2].

    Returns:
      The draws, the same wherever the code runs: integers, since XLA makes
      other floats of the same bits.
    """
    size = tf.reduce_prod(shape)
    words = tf.random.stateless_uniform(
        [(size + 1) // 2],
        seed,
        minval=None,
        maxval=None,
        dtype=tf.int32,
        alg="philox",
    )
    bits = tf.reshape(tf.bitcast(words, tf.int16), [-1])[:size]
    return Draws(tf.reshape(bits, shape), rate)


def drop(x: tf.Tensor, bits: tf.Tensor, rate: float) -> tf.Tensor:
    """Sets what was drawn to 0 and scales the rest.

    Args:
      x: <float>[...].
      bits: <int16>[...], see `Draws`.
      rate: Share that becomes 0.

    Returns:
      <float>[...].
    """
    num_dropped = round(rate * 2**_DRAW_BITS)
    is_kept = bits >= tf.constant(num_dropped - 2 ** (_DRAW_BITS - 1), tf.int16)
    scale = 1.0 / (1.0 - num_dropped / 2**_DRAW_BITS)
    return tf.where(is_kept, x * scale, tf.zeros([], x.dtype))


def one_pass(function: Callable) -> Callable:
    """Compiles a pure function of tensors, for graphs that train.

    Args:
      function: Takes and returns tensors; other arguments are constants.

    Returns:
      The function, with an argument `is_training` that says whether to compile.
    """
    compiled = tf.function(function, jit_compile=True, autograph=False)

    @functools.wraps(function)
    def call(*args, is_training: bool):
        is_compiled = is_training and not tf.executing_eagerly()
        return (compiled if is_compiled else function)(*args)

    return call


def gelu(
    x: tf.Tensor, is_training: bool = False, hidden_act: str = "gelu"
) -> tf.Tensor:
    """x * Phi(x).

    Args:
      x: <float>[...].
      is_training: Compile this.
      hidden_act: "gelu" for Phi by the error function, "gelu_new" for its tanh
        approximation (arXiv:1606.08415, section 2).

    Returns:
      <float>[...].
    """
    with_slope = {"gelu": _gelu_and_slope, "gelu_new": _gelu_new_and_slope}

    @tf.custom_gradient
    def differentiable(x):
        y, slope = with_slope[hidden_act](x, is_training=is_training)
        return y, lambda upstream: upstream * slope

    return differentiable(x)


@one_pass
def _gelu_and_slope(x):
    phi = 0.5 * (1.0 + tf.math.erf(x * 0.5**0.5))
    density = tf.exp(-0.5 * tf.square(x)) * (2.0 * math.pi) ** -0.5
    return x * phi, phi + x * density


@one_pass
def _gelu_new_and_slope(x):
    scale, cubic = (2.0 / math.pi) ** 0.5, 0.044715
    tanh = tf.tanh(scale * (x + cubic * x * tf.square(x)))
    phi = 0.5 * (1.0 + tanh)
    inner_slope = scale * (1.0 + 3.0 * cubic * tf.square(x))
    return x * phi, phi + 0.5 * x * (1.0 - tf.square(tanh)) * inner_slope


def layer_norm(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> tf.Tensor:
    """Layer normalisation over the last axis, in float32.

    Args:
      x: <float>[..., D].
      gamma: <float32>[D].
      beta: <float32>[D].

    Returns:
      <float>[..., D].
    """

    @tf.custom_gradient
    def differentiable(x, gamma, beta):
        output, normalized, scale = _normalize(x, gamma, beta)

        def gradient(upstream):
            of_x, of_gamma, of_beta = _normalize_gradient(
                upstream, normalized, scale, gamma
            )
            return tf.cast(of_x, x.dtype), of_gamma, of_beta

        return output, gradient

    return differentiable(x, gamma, beta)


def add_and_normalize(
    x: tf.Tensor,
    residual: tf.Tensor,
    gamma: tf.Tensor,
    beta: tf.Tensor,
    draws: Draws,
) -> tf.Tensor:
    """layer_norm(dropout(x) + residual), in training.

    Args:
      x: <float>[..., D].
      residual: <float>[..., D].
      gamma: <float32>[D].
      beta: <float32>[D].
      draws: Of the dropout.

    Returns:
      <float>[..., D].
    """

    @tf.custom_gradient
    def differentiable(x, residual, gamma, beta):
        output, normalized, scale = _drop_add_normalize(
            x, residual, gamma, beta, *draws, is_training=True
        )

        def gradient(upstream):
            return _drop_add_normalize_gradient(
                upstream, normalized, scale, gamma, *draws, is_training=True
            )

        return output, gradient

    return differentiable(x, residual, gamma, beta)


@one_pass
def _drop_add_normalize(x, residual, gamma, beta, bits, rate):
    return _normalize(drop(x, bits, rate) + residual, gamma, beta)


@one_pass
def _drop_add_normalize_gradient(
    upstream, normalized, scale, gamma, bits, rate
):
    of_sum, of_gamma, of_beta = _normalize_gradient(
        upstream, normalized, scale, gamma
    )
    of_sum = tf.cast(of_sum, upstream.dtype)
    return drop(of_sum, bits, rate), of_sum, of_gamma, of_beta


def _normalize(x, gamma, beta):
    """The output, and what its gradient needs."""
    wide = tf.cast(x, tf.float32)
    centered = wide - tf.reduce_mean(wide, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centered), axis=-1, keepdims=True)
    scale = tf.math.rsqrt(variance + LAYER_NORM_EPSILON)
    normalized = centered * scale
    output = tf.cast(normalized * gamma + beta, x.dtype)
    return output, normalized, scale


def _normalize_gradient(upstream, normalized, scale, gamma):
    """Gradients of the input <float32>, gamma and beta."""
    upstream = tf.cast(upstream, tf.float32)
    of_normalized = upstream * gamma
    product = of_normalized * normalized
    of_x = scale * (
        of_normalized
        - tf.reduce_mean(of_normalized, axis=-1, keepdims=True)
        - normalized * tf.reduce_mean(product, axis=-1, keepdims=True)
    )
    rows = list(range(upstream.shape.rank - 1))
    of_gamma = tf.reduce_sum(upstream * normalized, axis=rows)
    of_beta = tf.reduce_sum(upstream, axis=rows)
    return of_x, of_gamma, of_beta


def attention_probs(
    scores: tf.Tensor, bias: tf.Tensor, scale: float
) -> tf.Tensor:
    """softmax(scores * scale + bias) in float32.

    Args:
      scores: <float>[B, H, L, L].
      bias: <float32>[B, 1, 1 or L, L].
      scale: Of the scores.

    Returns:
      <float32>[B, H, L, L].
    """
    return tf.nn.softmax(tf.cast(scores * scale, tf.float32) + bias)


def dropped_attention_probs(
    scores: tf.Tensor, bias: tf.Tensor, scale: float, draws: Draws
) -> tuple[tf.Tensor, tf.Tensor]:
    """dropout(attention_probs(...)), in training.

    Args:
      scores: <float>[B, H, L, L].
      bias: <float32>[B, 1, 1 or L, L]; takes no gradient.
      scale: Of the scores.
      draws: Of the dropout.

    Returns:
      <float>[B, H, L, L], and <float32>[B, H, L, L] before dropout, which is
      to look at: no gradient goes through it.
    """
    bias = tf.stop_gradient(bias)
    looked_at = []

    @tf.custom_gradient
    def differentiable(scores):
        dropped, probs = _softmax_drop(
            scores, bias, scale, *draws, is_training=True
        )
        looked_at.append(probs)

        def gradient(upstream):
            return _softmax_drop_gradient(
                upstream, probs, scale, *draws, is_training=True
            )

        return dropped, gradient

    dropped = differentiable(scores)
    return dropped, tf.stop_gradient(looked_at[0])


@one_pass
def _softmax_drop(scores, bias, scale, bits, rate):
    probs = attention_probs(scores, bias, scale)
    return drop(tf.cast(probs, scores.dtype), bits, rate), probs


@one_pass
def _softmax_drop_gradient(upstream, probs, scale, bits, rate):
    of_probs = tf.cast(drop(upstream, bits, rate), tf.float32)
    inner = tf.reduce_sum(of_probs * probs, axis=-1, keepdims=True)
    of_scores = (of_probs - inner) * probs
    return tf.cast(of_scores, upstream.dtype) * scale
