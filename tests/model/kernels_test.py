"""Tests of model/kernels.py: compiled and plain, both directions."""

import functools
import weakref

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.model import kernels, losses
from tests import helpers

RNG = np.random.default_rng(0)
SEED = tf.constant([1, 2])


def normal(*shape):
    return tf.constant(RNG.normal(size=shape), tf.float32)


def outputs_and_gradients(function, *args):
    with tf.GradientTape() as tape:
        tape.watch(args)
        output = function(*args)
        # Not a plain sum, whose gradient layer normalisation makes 0.
        total = tf.reduce_sum(output * tf.cos(tf.cast(output, tf.float32)))
    return [output, *tape.gradient(total, args)]


(KEY,) = kernels.draw_keys(SEED, 1)


def drop_add_normalize(*args):
    return kernels.add_and_normalize(*args, KEY, rate=0.25)


def plain_normalize(x, gamma, beta):
    mean = tf.reduce_mean(x, -1, keepdims=True)
    variance = tf.reduce_mean((x - mean) ** 2, -1, keepdims=True)
    return (x - mean) / tf.sqrt(variance) * gamma + beta


def plain_drop_add_normalize(x, residual, gamma, beta):
    return plain_normalize(kernels.drop(x, KEY, 0.25) + residual, gamma, beta)


BIAS = tf.constant([[[[0.0, 0.0, 0.0, -10000.0]]]])


def attend(*heads, recomputes=False):
    return kernels.dropped_attention(
        *heads, BIAS, KEY, scale=0.5, rate=0.25, recomputes=recomputes
    )[0]


attend_again = functools.partial(attend, recomputes=True)


def plain_attend(query, key, value):
    scores = tf.matmul(query, key, transpose_b=True)
    probs = tf.nn.softmax(scores * 0.5 + BIAS)
    return tf.matmul(kernels.drop(probs, KEY, 0.25), value)


def plain_gelu(x):
    return tf.nn.gelu(x, approximate=False)


def activation(hidden_act):
    return functools.partial(
        kernels.activation, is_training=True, hidden_act=hidden_act
    )


@pytest.mark.parametrize(
    ("function", "plain", "shapes"),
    [
        (activation("gelu"), plain_gelu, [(5, 7)]),
        (
            activation("gelu_new"),
            functools.partial(tf.nn.gelu, approximate=True),
            [(5, 7)],
        ),
        (activation("relu"), tf.nn.relu, [(5, 7)]),
        (activation("tanh"), tf.tanh, [(5, 7)]),
        (activation("linear"), lambda x: x, [(5, 7)]),
        (kernels.layer_norm, plain_normalize, [(6, 8), (8,), (8,)]),
        (
            drop_add_normalize,
            plain_drop_add_normalize,
            [(6, 8), (6, 8), (8,), (8,)],
        ),
        (attend, plain_attend, [(2, 3, 4, 5)] * 3),
        (attend_again, plain_attend, [(2, 3, 4, 5)] * 3),
    ],
)
def test_forward_and_backward(function, plain, shapes):
    args = [normal(*shape) for shape in shapes]
    expected = outputs_and_gradients(plain, *args)
    compiled = tf.function(outputs_and_gradients, jit_compile=True)
    in_parts = tf.function(outputs_and_gradients)
    for call in (outputs_and_gradients, in_parts, compiled):
        for found, value in zip(call(function, *args), expected, strict=True):
            np.testing.assert_allclose(found, value, atol=1e-5)


def test_attention_that_is_not_kept_is_computed_twice():
    args = [normal(2, 3, 4, 5) for _ in range(3)]
    results, numbers = [], []
    for function in (attend, attend_again):
        step = tf.function(functools.partial(outputs_and_gradients, function))
        library = step.get_concrete_function(*args).graph.as_graph_def().library
        ops = [node.op for f in library.function for node in f.node_def]
        numbers.append(ops.count("Softmax"))
        results.append(step(*args))
    assert numbers[1] == numbers[0] + 1
    for once, twice in zip(*results, strict=True):
        np.testing.assert_array_equal(once, twice)


@pytest.mark.parametrize("hidden_act", ["gelu", "gelu_new"])
def test_half_precision_rounds_once(hidden_act):
    x, upstream = (tf.cast(normal(50, 8), tf.bfloat16) for _ in range(2))
    wide = tf.cast(x, tf.float32)
    with tf.GradientTape() as tape:
        tape.watch([x, wide])
        ours = kernels.activation(x, hidden_act=hidden_act)
        exact = kernels.activation(wide, hidden_act=hidden_act)
        product = tf.reduce_sum(exact * tf.cast(upstream, tf.float32))
        products = tf.reduce_sum(ours * upstream)
    np.testing.assert_array_equal(ours, tf.cast(exact, tf.bfloat16))
    of_ours, of_exact = tape.gradient([products, product], [x, wide])
    np.testing.assert_array_equal(of_ours, tf.cast(of_exact, tf.bfloat16))


def dropout(x):
    return kernels.dropout(x, KEY, rate=0.1)


def add_and_normalize(x, residual):
    scale = tf.linspace(0.5, 1.5, 8)
    return kernels.add_and_normalize(x, residual, scale, scale, KEY, rate=0.1)


@pytest.mark.parametrize(
    ("function", "num_args"), [(dropout, 1), (add_and_normalize, 2)]
)
def test_dropout_in_half_precision_rounds_once(function, num_args):
    args = [tf.cast(normal(50, 8), tf.bfloat16) for _ in range(num_args)]
    upstream = tf.cast(normal(50, 8), tf.bfloat16)
    wide = [tf.cast(x, tf.float32) for x in args]
    with tf.GradientTape() as tape:
        tape.watch([args, wide])
        ours = function(*args)
        exact = function(*wide)
        product = tf.reduce_sum(exact * tf.cast(upstream, tf.float32))
        products = tf.reduce_sum(ours * upstream)
    np.testing.assert_array_equal(ours, tf.cast(exact, tf.bfloat16))
    of_ours, of_exact = tape.gradient([products, product], [args, wide])
    for found, expected in zip(of_ours, of_exact, strict=True):
        np.testing.assert_array_equal(found, tf.cast(expected, tf.bfloat16))


def test_double_precision_stays_double():
    x = np.array([-1.0, 0.5, 3.0])
    expected = x * 0.5 * (1 + tf.math.erf(x / np.sqrt(2.0)))
    found = kernels.activation(tf.constant(x))
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_only_graphs_that_train_are_compiled():
    def num_compiled(is_training):
        concrete = tf.function(
            lambda x: kernels.activation(x, is_training)
        ).get_concrete_function(tf.TensorSpec([2, 2]))
        functions = concrete.graph.as_graph_def().library.function
        return sum(f.attr["_XlaMustCompile"].b for f in functions)

    assert num_compiled(True)
    assert not num_compiled(False)


@pytest.mark.parametrize(
    "function",
    {
        "activation": activation("gelu"),
        "activation_of_inference": kernels.activation,
        "dropout": lambda x: kernels.dropout(x, KEY, rate=0.25),
        "layer_norm": lambda x: kernels.layer_norm(x, x[0], x[1]),
        "add_and_normalize": lambda x: drop_add_normalize(x, x, x[0], x[1]),
        "attention": lambda x: attend(*[x[tf.newaxis, tf.newaxis]] * 3),
        "cross_entropy": lambda x: losses.cross_entropy(
            x[tf.newaxis], tf.ones([1, 4], tf.int32)
        ),
    }.items(),
    ids=lambda item: item[0],
)
def test_a_graph_is_gone_with_its_model(function):
    def train():
        weights = tf.Variable(normal(4, 4))
        # AutoGraph would log the function, and pytest keeps what is logged.
        step = tf.function(
            lambda: outputs_and_gradients(function[1], weights * 2.0),
            autograph=False,
        )
        step()
        return weakref.ref(step.get_concrete_function().graph)

    assert helpers.is_gone(train())


def test_probabilities_that_are_looked_at_have_no_dropout():
    heads = [normal(1, 1, 4, 2) for _ in range(3)]
    _, probs = kernels.dropped_attention(
        *heads, BIAS, KEY, scale=1.0, rate=0.5, recomputes=False
    )
    np.testing.assert_allclose(
        tf.reduce_sum(probs, -1), np.ones([1, 1, 4]), rtol=1e-6
    )


def bits_of(key, num=1 << 16):
    """Random bits as an array of bits [num, 32]."""
    numbers = kernels.random_bits(tf.constant([num]), tf.constant(key))
    return np.unpackbits(
        numbers.numpy()[:, np.newaxis].view(np.uint8), axis=-1
    ).astype(np.float32)


def test_random_bits_are_a_hash_of_place_and_key():
    def mixed(place, first, second):
        bits = place ^ first
        bits = ((bits ^ (bits >> 17)) * 0xED5AD4BB + second) % 2**32
        bits = (bits ^ (bits >> 11)) * 0xAC4C1B51 % 2**32
        bits = (bits ^ (bits >> 15)) * 0x31848BAB % 2**32
        return bits ^ (bits >> 14)

    found = kernels.random_bits(tf.constant([2, 3]), tf.constant([5, -1]))
    expected = [
        [mixed(3 * i + j, 5, 2**32 - 1) for j in range(3)] for i in range(2)
    ]
    assert found.dtype == tf.uint32
    assert found.numpy().tolist() == expected


def test_random_bits_of_static_shapes_are_no_constant():
    """As for a TPU, or where a whole step is compiled."""

    @tf.function(jit_compile=True, autograph=False)
    def drop(key):
        return kernels.drop(tf.ones([32, 4, 128, 128]), key, 0.1)

    get_program = drop.experimental_get_compiler_ir(tf.constant([1, 2]))
    assert len(get_program(stage="hlo_serialized")) < 2**16


@pytest.mark.parametrize("other", [(4, 6), (5, 7), (7, 5), (-2147483643, 6)])
def test_random_bits_of_neighbours_and_of_keys_are_independent(other):
    bits = bits_of((5, 6))
    # Five deviations of a share of 65,536 fair coins.
    limit = 5 * 0.5 / 256
    assert np.abs(bits.mean(0) - 0.5).max() < limit
    for lag in (1, 2, 3, 64, 128, 4096):
        agreements = (bits[lag:] == bits[:-lag]).mean(0)
        assert np.abs(agreements - 0.5).max() < 1.05 * limit, lag
    agreements = (bits == bits_of(other)).mean(0)
    assert np.abs(agreements - 0.5).max() < limit


def test_the_share_that_is_dropped():
    dropped = kernels.drop(tf.ones([100_000]), KEY, 0.1).numpy()
    # Four deviations of a share: 4 * sqrt(0.09 / 1e5) = 0.004.
    assert (dropped == 0).mean() == pytest.approx(0.1, abs=0.004)
    assert dropped.max() == np.float32(1 / 0.9)
