"""Tests of serving/packed_stack.py."""

import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf import configs, errors
from electra_tf.model import encoder
from electra_tf.serving import kinds, packed_stack
from tests import helpers
from tests.serving.conftest import Exported


def build(**changes):
    """An encoder of which every weight matters."""
    keras.utils.set_random_seed(0)
    built = encoder.Encoder(helpers.encoder_config(**changes))
    built.build()
    for variable in built.variables:
        noise = keras.random.normal(variable.shape, stddev=0.5)
        variable.assign_add(noise)
    return built


def call(built):
    features = helpers.inputs([0, 1, 2])
    return built(
        features["input_ids"], features["input_mask"], features["segment_ids"]
    )


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"num_attention_heads": 1},
        *({"hidden_act": name} for name in configs.HIDDEN_ACTS),
    ],
)
def test_packed_layers_compute_the_same(changes):
    built = build(**changes)
    expected = call(built)
    built.stack = packed_stack.PackedStack(built.stack)
    found = call(built)
    for name in ("sequence_output", "pooled_output"):
        np.testing.assert_allclose(found[name], expected[name], atol=1e-5)


def test_packed_layers_have_no_dropout():
    packed = packed_stack.PackedStack(build().stack)
    with pytest.raises(ValueError, match="Expected no dropout, as"):
        packed(tf.zeros([4, 8]), tf.zeros([1, 1, 1, 4]), [tf.constant([1, 2])])


def test_small_operations_are_none_that_onednn_takes():
    packed = packed_stack.PackedStack(build().stack)
    graph = (
        tf.function(packed, autograph=False)
        .get_concrete_function(
            tf.TensorSpec([None, 8]), tf.TensorSpec([None, 1, 1, None])
        )
        .graph
    )
    types = [op.type for op in graph.get_operations()]
    assert not {"BatchMatMulV2", "Softmax", "Einsum"} & set(types)
    transposed = [
        op.inputs[0].dtype
        for op in graph.get_operations()
        if op.type == "Transpose"
    ]
    assert transposed == [tf.int32] * 4
    # Of queries, keys and values one, and three more, in each of two layers.
    assert types.count("MatMul") == 8


def test_an_export_has_every_weight_once(exported: Exported):
    saved = tf.train.list_variables(f"{exported.path}/variables/variables")
    num_saved = sum(
        np.prod(shape, dtype=int)
        for name, shape in saved
        if name != "_CHECKPOINTABLE_OBJECT_GRAPH"
    )
    assert num_saved == sum(v.numpy().size for v in exported.model.variables)


@pytest.mark.parametrize("num_attention_heads", [1, 2])
def test_products_in_bfloat16(num_attention_heads):
    built = build(num_attention_heads=num_attention_heads)
    expected = call(built)["sequence_output"]
    built.stack = packed_stack.PackedStack(built.stack, kinds.BFLOAT16)
    found = call(built)["sequence_output"]
    assert found.dtype == tf.float32
    error = np.abs(found - expected).max() / np.abs(expected).max()
    # Eight bits of mantissa, in two layers of large weights.
    assert 1e-4 < error < 0.05
    # Of weights in bfloat16, none is a variable, which oneDNN would not pack.
    assert {v.shape.rank for v in built.stack.variables} == {2}


def test_weights_too_large_for_a_graph_are_refused(monkeypatch):
    monkeypatch.setattr(packed_stack, "_MOST_BYTES", 100)
    found = types.SimpleNamespace(encoder=build())
    with pytest.raises(errors.ConfigError, match="Expected layers of at most"):
        packed_stack.pack(found, kinds.BFLOAT16)
