"""What a step is where it is compiled as a whole, as GPUs have it."""

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
    dataset = engine.distribute(engine.train_dataset, engine.batch_size, 0)
    graph = engine._train_step.get_concrete_function(dataset.element_spec).graph
    assert {op.type for op in graph.get_operations()} <= OUTSIDE
    calls = {
        op.get_attr("f").name
        for op in graph.get_operations()
        if op.type in ("StatefulPartitionedCall", "PartitionedCall")
    }
    assert calls and calls <= programs(graph)
