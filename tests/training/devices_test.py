"""What a step is where it is compiled as a whole, as GPUs have it."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.model import kernels
from tests import helpers
from tests.training import engine_test
from tests.training.engine_test import data_pattern  # noqa: F401

# What a step leaves outside of XLA, where it is one program: the iterator, the
# step's number, and handing over the rest.
OUTSIDE = {
    *("Placeholder", "Const", "Identity", "NoOp", "AssignAddVariableOp"),
    *("ReadVariableOp", "StatefulPartitionedCall", "PartitionedCall"),
}


def programs(graph):
    """Names of the functions of a graph that XLA compiles."""
    return {
        function.signature.name
        for function in graph.as_graph_def().library.function
        if function.attr["_XlaMustCompile"].b
    }


@pytest.mark.parametrize("gpus", [[], ["GPU"]])
def test_parts_of_a_step_are_programs_on_a_cpu_alone(monkeypatch, gpus):
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda _: gpus)

    @tf.function(autograph=False)
    def drop(x):
        return kernels._drop(x, tf.constant([1, 2]), 0.1, compiles=True)

    graph = drop.get_concrete_function(tf.TensorSpec([3, 5])).graph
    assert bool(programs(graph)) == (not gpus)


def test_xla_has_all_of_a_step(tmp_path, data_pattern):  # noqa: F811
    """So that no operation on integers of it is one of the host's."""
    run = helpers.run_config(tmp_path, jit_compile=True)
    engine = engine_test.electra_engine(run, data_pattern)
    spec = engine.distribute(
        engine.train_dataset, engine.batch_size, 0
    ).element_spec
    for step in (engine._train_step, engine._eval_step):
        graph = step.get_concrete_function(spec).graph
        assert {op.type for op in graph.get_operations()} <= OUTSIDE
        calls = {
            op.get_attr("f").name
            for op in graph.get_operations()
            if op.type in ("StatefulPartitionedCall", "PartitionedCall")
        }
        assert calls and calls <= programs(graph)


def test_rows_by_eights_have_the_same_products(monkeypatch):
    random = np.random.default_rng(0)
    x, table = (
        tf.constant(random.normal(size=[n, 4]), tf.float32) for n in (3, 21)
    )

    def products(gpus):
        monkeypatch.setattr(tf.config, "get_visible_devices", lambda _: gpus)
        with tf.GradientTape() as tape:
            tape.watch([x, table])
            result = kernels.products_with_table(x, table)
        return [result, *tape.gradient(result, [x, table], result)]

    for plain, padded in zip(products([]), products(["GPU"]), strict=True):
        np.testing.assert_allclose(plain, padded, rtol=1e-6, atol=1e-6)
        assert plain.shape == padded.shape
