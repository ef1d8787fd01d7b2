"""Elementwise parts of a training step, each one pass over memory.

On a CPU a third of a step's time is not matrix products but moving activations
through memory once for every addition and multiplication. So what lies between
two matrix products is written as one function forward and one backward, and
each is compiled by XLA into one loop. Matrix products stay TensorFlow's, whose
kernels are faster than XLA's there.

Only graphs that train are compiled in parts: inference has the plain functions,
so that exported models need no compiler, and so has eager code. A step that is
compiled as a whole takes the parts in.

Shapes: B batch, L length, D hidden, H heads.
"""

import functools
import math
from collections.abc import Callable

import tensorflow as tf

# The original's BERT code has it.
LAYER_NORM_EPSILON = 1e-12
# Shifts and multipliers of a mixing function of 32 bits, found by search so
# that each bit put in changes each bit that comes out with a chance of one
# half: "triple32" of github.com/skeeto/hash-prospector (public domain).
_ROUNDS = ((17, 0xED5AD4BB), (11, 0xAC4C1B51), (15, 0x31848BAB))
_LAST_SHIFT = 14


def draw_keys(seed: tf.Tensor | None, number: int) -> list[tf.Tensor | None]:
    """The keys <int32>[2] of some dropouts, drawn all at once; None without.

    A draw of its own for each would be nearly a third of all operations in the
    graph of a step. Integers are the same wherever the code runs; of the same
    bits XLA makes other floats.
    """
    if seed is None:
        return [None] * number
    keys = tf.random.stateless_uniform(
        [number, 2],
        seed,
        minval=None,
        maxval=None,
        dtype=tf.int32,
        alg="philox",
    )
    return tf.unstack(keys, number)


def random_bits(shape: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
    """A random number for each place of a tensor.

    A hash of the place and the key, since generating bits beforehand, by Philox
    or the like, takes three times as long as the whole of dropout does without,
    and backward they would have to be kept.
    """
    key = tf.bitcast(key, tf.uint32)
    # 0, by two shifts that no compiler of graphs looks through. Where shapes
    # are static it would write the places of every dropout into the program,
    # 6 MB each in ELECTRA-Small.
    places = _right_shifted(_right_shifted(key[0], 31), 1)
    for size in tf.unstack(shape):
        along = tf.bitcast(tf.range(size), tf.uint32)
        places = places[..., tf.newaxis] * tf.bitcast(size, tf.uint32) + along
    bits = tf.bitwise.bitwise_xor(places, key[0])
    for number, (shift, multiplier) in enumerate(_ROUNDS):
        bits = _xor_shifted(bits, shift) * tf.constant(multiplier, tf.uint32)
        if number == 0:
            # With keys whose first numbers are alike, the same bits would
            # otherwise come in other places.
            bits += key[1]
    return _xor_shifted(bits, _LAST_SHIFT)


def _right_shifted(bits: tf.Tensor, shift: int) -> tf.Tensor:
    return tf.bitwise.right_shift(bits, tf.constant(shift, tf.uint32))


def _xor_shifted(bits: tf.Tensor, shift: int) -> tf.Tensor:
    return tf.bitwise.bitwise_xor(bits, _right_shifted(bits, shift))


def drop(
    x: tf.Tensor, key: tf.Tensor, rate: float, dtype: tf.DType | None = None
) -> tf.Tensor:
    """Sets a share `rate` of a tensor to 0 and scales the rest.

    In float32, so that the scale is no rounded one: in bfloat16 that of 0.1
    would be 1.1094, not 1.1111.
    """
    is_kept = random_bits(tf.shape(x), key) >= tf.constant(
        round(rate * 2**32), tf.uint32
    )
    dtype = dtype or x.dtype
    if x.dtype.size < tf.float32.size:
        x = tf.cast(x, tf.float32)
    scaled = tf.cast(x * (1.0 / (1.0 - rate)), dtype)
    return tf.where(is_kept, scaled, tf.zeros([], dtype))


def _has_gpu() -> bool:
    return bool(tf.config.get_visible_devices("GPU"))


def one_pass(function: Callable) -> Callable:
    """Compiles a pure function of tensors, for graphs that train on a CPU.

    On a GPU some 290 programs a step would each have to be started. The
    function gets an argument `compiles` that says whether to.
    """
    compiled = tf.function(function, jit_compile=True, autograph=False)

    @functools.wraps(function)
    def call(*args, compiles: bool):
        is_plain = not compiles or tf.executing_eagerly() or _has_gpu()
        return (function if is_plain else compiled)(*args)

    return call


def products_with_table(x: tf.Tensor, table: tf.Tensor) -> tf.Tensor:
    """Scalar products of <float>[N, E] with the V rows of an embedding table.

    A GPU's tensor cores want rows by eights, which 30,522 are not: there it
    gets six rows of zeros more, whose products are cut off.
    """
    num_rows = table.shape[0]
    if num_rows % 8 and _has_gpu():
        table = tf.pad(table, [[0, -num_rows % 8], [0, 0]])
        return tf.matmul(x, table, transpose_b=True)[:, :num_rows]
    return tf.matmul(x, table, transpose_b=True)


def with_gradient(function: Callable) -> Callable:
    """`tf.custom_gradient`, traced by itself: once for all models.

    In a graph TensorFlow keeps what a custom gradient refers to for as long as
    the process lives: the whole graph, and what its variables hold. A graph of
    the function's own has no variables.
    """

    def differentiable(*tensors, **constants):
        @tf.custom_gradient
        def computed(*tensors):
            return function(*tensors, **constants)

        return computed(*tensors)

    traced = tf.function(differentiable, autograph=False)

    @functools.wraps(function)
    def call(*tensors, **constants):
        chosen = differentiable if tf.executing_eagerly() else traced
        # A function that reads variables has a state, and always runs.
        return chosen(*map(tf.convert_to_tensor, tensors), **constants)

    del call.__wrapped__  # AutoGraph would call that instead.
    return call


@with_gradient
def dropout(x, key, rate):
    """`drop`, in training."""

    def gradient(upstream):
        return _drop(upstream, key, rate, compiles=True), None

    return _drop(x, key, rate, compiles=True), gradient


_drop = one_pass(drop)


def activation(
    x: tf.Tensor, is_training: bool = False, hidden_act: str = "gelu"
) -> tf.Tensor:
    """The activation of a name, as in the original's `get_activation`.

    GELU is x * Phi(x): "gelu" has Phi by the error function, "gelu_new" its
    tanh approximation (arXiv:1606.08415, section 2). In training what takes
    more than one operation is compiled.
    """
    simple = {"relu": tf.nn.relu, "tanh": tf.tanh, "linear": tf.identity}
    if hidden_act in simple:
        return simple[hidden_act](x)
    return _activation(x, is_training=is_training, hidden_act=hidden_act)


@with_gradient
def _activation(x, is_training, hidden_act):
    forward, backward = {
        "gelu": (_gelu, _gelu_gradient),
        "gelu_new": (_gelu_new, _gelu_new_gradient),
    }[hidden_act]

    def gradient(upstream):
        return backward(x, upstream, compiles=is_training)

    return forward(x, compiles=is_training), gradient


# Forward and backward share their functions, and yet one loop for both results
# takes 12.6 ms of a core for [2048, 1024], two loops 1.3 and 2.3 ms.


def wide(function: Callable) -> Callable:
    """Computes in float32 and rounds once, at the end.

    In bfloat16 every operation would round: XLA's loops are half as fast then,
    and less exact.
    """

    @functools.wraps(function)
    def call(*args):
        dtype = args[0].dtype
        if dtype.size >= tf.float32.size:
            return function(*args)
        result = function(*(tf.cast(x, tf.float32) for x in args))
        return tf.cast(result, dtype)

    return call


@one_pass
@wide
def _gelu(x):
    # In the order in which LiteRT's converter knows it; halving is exact, so
    # it is x * Phi(x) to the last bit.
    return (0.5 * x) * (1.0 + tf.math.erf(x * 0.5**0.5))


@one_pass
@wide
def _gelu_gradient(x, upstream):
    phi = 0.5 * (1.0 + tf.math.erf(x * 0.5**0.5))
    density = tf.exp(-0.5 * tf.square(x)) * (2.0 * math.pi) ** -0.5
    return upstream * (phi + x * density)


_TANH_SCALE, _TANH_CUBIC = (2.0 / math.pi) ** 0.5, 0.044715


@one_pass
@wide
def _gelu_new(x):
    tanh = tf.tanh(_TANH_SCALE * (x + _TANH_CUBIC * x * tf.square(x)))
    return x * (0.5 * (1.0 + tanh))


@one_pass
@wide
def _gelu_new_gradient(x, upstream):
    tanh = tf.tanh(_TANH_SCALE * (x + _TANH_CUBIC * x * tf.square(x)))
    inner_slope = _TANH_SCALE * (1.0 + 3.0 * _TANH_CUBIC * tf.square(x))
    phi = 0.5 * (1.0 + tanh)
    return upstream * (phi + 0.5 * x * (1.0 - tf.square(tanh)) * inner_slope)


@with_gradient
def layer_norm(x, gamma, beta):
    """Layer normalisation over the last axis, in float32."""
    output, normalized, scale = _normalize(x, gamma, beta)

    def gradient(upstream):
        x_gradient, gamma_gradient, beta_gradient = _normalize_gradient(
            upstream, normalized, scale, gamma
        )
        return tf.cast(x_gradient, x.dtype), gamma_gradient, beta_gradient

    return output, gradient


@with_gradient
def add_and_normalize(x, residual, gamma, beta, key, rate):
    """layer_norm(dropout(x) + residual), in training."""
    output, normalized, scale = _drop_add_normalize(
        x, residual, gamma, beta, key, rate, compiles=True
    )

    def gradient(upstream):
        gradients = _drop_add_normalize_gradient(
            upstream, normalized, scale, gamma, key, rate, compiles=True
        )
        return *gradients, None

    return output, gradient


@one_pass
def _drop_add_normalize(x, residual, gamma, beta, key, rate):
    dropped = drop(x, key, rate, tf.float32)
    output, normalized, scale = _normalize(
        dropped + tf.cast(residual, tf.float32), gamma, beta
    )
    return tf.cast(output, x.dtype), normalized, scale


@one_pass
def _drop_add_normalize_gradient(upstream, normalized, scale, gamma, key, rate):
    sum_gradient, gamma_gradient, beta_gradient = _normalize_gradient(
        upstream, normalized, scale, gamma
    )
    x_gradient = drop(sum_gradient, key, rate, upstream.dtype)
    return (
        x_gradient,
        tf.cast(sum_gradient, upstream.dtype),
        gamma_gradient,
        beta_gradient,
    )


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
    normalized_gradient = upstream * gamma
    product = normalized_gradient * normalized
    x_gradient = scale * (
        normalized_gradient
        - tf.reduce_mean(normalized_gradient, axis=-1, keepdims=True)
        - normalized * tf.reduce_mean(product, axis=-1, keepdims=True)
    )
    rows = list(range(upstream.shape.rank - 1))
    gamma_gradient = tf.reduce_sum(upstream * normalized, axis=rows)
    beta_gradient = tf.reduce_sum(upstream, axis=rows)
    return x_gradient, gamma_gradient, beta_gradient


def attention_probs(
    scores: tf.Tensor, bias: tf.Tensor, scale: float
) -> tf.Tensor:
    """softmax(scores * scale + bias) in float32."""
    return tf.nn.softmax(tf.cast(scores * scale, tf.float32) + bias)


@with_gradient
def dropped_attention(
    query, key, value, bias, dropout_key, scale, rate, recomputes
):
    """dropout(attention_probs(query key^T, ...)) value, in training.

    The product, its scale, the bias and the softmax stay TensorFlow's ops,
    which it merges where it can: XLA's maximum of every row alone takes about
    as long as oneDNN's softmax. The probabilities before dropout, which it
    returns beside the context, are to look at: no gradient goes through them.
    With `recomputes` the backward pass computes them again, so that no [B, H,
    L, L] is kept.
    """

    def attend(query):
        scores = tf.matmul(query, key, transpose_b=True)
        probs = attention_probs(scores, bias, scale)
        dropped = _drop(probs, dropout_key, rate, value.dtype, compiles=True)
        return probs, dropped

    probs, dropped = attend(query)
    context = tf.matmul(dropped, value)
    kept = None if recomputes else (probs, dropped)

    def gradient(upstream, probs_gradient):
        del probs_gradient  # None goes through them.
        probs, dropped = kept or attend(_after(query, upstream))
        # A row's products of probabilities and their gradients add up to those
        # of its context and the context's (arXiv:2205.14135, appendix B.2),
        # which are fewer.
        inner = tf.reduce_sum(
            tf.cast(upstream, tf.float32) * tf.cast(context, tf.float32),
            axis=-1,
            keepdims=True,
        )
        scores_gradient = _softmax_drop_gradient(
            tf.matmul(upstream, value, transpose_b=True),
            probs,
            inner,
            scale,
            dropout_key,
            rate,
            compiles=True,
        )
        return (
            tf.matmul(scores_gradient, key),
            tf.matmul(scores_gradient, query, transpose_a=True),
            tf.matmul(dropped, upstream, transpose_a=True),
            None,
            None,
        )

    return (context, tf.stop_gradient(probs)), gradient


def _after(x, other):
    """x, but no compiler may take what follows for what it has already.

    The 0 that is added is one that none of them finds.
    """
    first = tf.reshape(other, [-1])[0]
    return x + tf.cast(tf.minimum(tf.abs(first), 0), x.dtype)


@one_pass
def _softmax_drop_gradient(upstream, probs, inner, scale, key, rate):
    probs_gradient = drop(tf.cast(upstream, tf.float32), key, rate)
    scores_gradient = (probs_gradient - inner) * probs
    return tf.cast(scores_gradient * scale, upstream.dtype)
