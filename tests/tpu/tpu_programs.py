"""Steps, compiled for a TPU by its own compiler, which needs no TPU.

In an environment of its own, with JAX and libtpu: make test-tpu.

    .venv-tpu/bin/python -m tests.tpu.tpu_programs --gin_file=gin/small.gin \\
        --gin_param=RunConfig.dtype_policy=\\'mixed_bfloat16\\' v5e:2x2 v4:2x2x1

prints what the compiler says of a step of pre-training.
"""

import argparse
import os
import time

# Before libtpu is loaded: there is no machine of Google's to ask.
os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")

import numpy as np
import pytest
import tensorflow as tf

from electra_tf import configs
from electra_tf.command_line import gin_files
from electra_tf.model import ablations, heads, masking
from electra_tf.model.finetuning_model import FinetuningModel
from electra_tf.training import engine as engine_lib
from electra_tf.training import optimization, replicas
from tests import helpers
from tests.training import engine_test
from tests.training.engine_test import OBJECTIVES, data_pattern  # noqa: F401

V5E = "v5e:2x2"


def _but_first(names):
    """All of these names, those after the first one for who has time."""
    first, *others = names
    dear = [pytest.param(name, marks=pytest.mark.dear) for name in others]
    return [first, *dear]


def compile_for_tpu(program: bytes, topology: str = V5E):
    """A serialized HLO program, compiled for one core.

    Args:
      program: Of TensorFlow's `experimental_get_compiler_ir`.
      topology: Such as "v5e:2x2".

    Returns:
      The executable, which says what it needs.
    """
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jax._src.lib.mlir import ir
    from jax.experimental import topologies

    device = topologies.get_topology_desc(
        platform="tpu", topology_name=topology
    ).devices[0]
    options = xla_client.CompileOptions()
    options.num_replicas = options.num_partitions = 1
    options.device_assignment = xla_client.DeviceAssignment.create(
        np.array([[device.id]])
    )
    module = xla_client._xla.mlir.xla_computation_to_mlir_module(
        xla_client.XlaComputation(program)
    )
    with mlir.make_ir_context():
        return device.client.compile(
            ir.Module.parse(module),
            xla_client.DeviceList((device,)),
            options,
        )


def lowered(function, *args) -> bytes:
    """A function of tensors as XLA gets it; `args` have its shapes."""
    compiled = tf.function(function, jit_compile=True, autograph=False)
    return compiled.experimental_get_compiler_ir(*args)(
        stage="hlo_serialized", platform_name="CPU"
    )


def lowered_step(engine: engine_lib.Engine, features) -> bytes:
    """A whole step: masking, both networks, gradients, optimizer, metrics."""
    zero = tf.constant(0, tf.int64)
    return lowered(engine.replica_step, features, zero, zero, tf.constant(1.0))


def first_batch(engine):
    return next(
        iter(engine.distribute(engine.train_dataset, engine.batch_size, 0))
    )


@pytest.mark.parametrize("objective", _but_first(OBJECTIVES))
def test_every_objective(tmp_path, data_pattern, objective):  # noqa: F811
    is_first = objective == "electra"
    run = helpers.run_config(tmp_path, micro_batch_size=2 * is_first)
    engine = engine_test.electra_engine(
        run, data_pattern, objective=OBJECTIVES[objective]
    )
    features = first_batch(engine)
    found = compile_for_tpu(lowered_step(engine, features))
    assert found.get_compiled_memory_stats().temp_size_in_bytes > 0
    if is_first:
        evaluation = lowered(engine.replica_eval, features)
        assert compile_for_tpu(evaluation).cost_analysis()["flops"] > 0


def labels(kind: str, length: int) -> dict[str, tf.Tensor]:
    """The features of a head's labels, for two rows."""
    zeros = tf.zeros([2, length], tf.int32)
    return {
        "classification": {"t_label_ids": zeros[:, 0]},
        "multi_label_classification": {"t_label_ids": zeros[:, :3]},
        "regression": {"t_targets": tf.zeros([2])},
        "tagging": {
            "t_labels": zeros,
            "t_labels_mask": tf.ones([2, length]),
            "t_labeled_positions": zeros,
        },
        "question_answering": {
            "t_start_positions": zeros[:, 0] + 3,
            "t_end_positions": zeros[:, 0] + 4,
            "t_is_impossible": zeros[:, 0],
        },
    }[kind]


HEADS = {
    "classification": lambda: heads.ClassificationHead("t", 8, 3),
    "multi_label_classification": lambda: heads.MultiLabelHead("t", 8, 3),
    "regression": lambda: heads.RegressionHead("t", 8),
    "tagging": lambda: heads.TaggingHead("t", 8, 3),
    "question_answering": lambda: heads.QuestionAnsweringHead(
        "t", 8, configs.QuestionAnsweringConfig(beam_size=3)
    ),
}


@pytest.mark.parametrize("kind", _but_first(HEADS))
def test_every_head_is_trained_and_answers(tmp_path, kind):
    config = helpers.encoder_config(num_hidden_layers=1)
    run = helpers.run_config(tmp_path)
    length = helpers.LENGTH
    ids = tf.fill([2, length], 5)
    inputs = {
        "input_ids": ids,
        "input_mask": tf.ones_like(ids),
        "segment_ids": tf.ones_like(ids),
    }
    strategy = replicas.make_strategy(run)
    with strategy.scope():
        model = FinetuningModel(config, [HEADS[kind]()])
        engine = engine_lib.Engine(
            strategy,
            model,
            model.training_loss,
            optimization.AdamWeightDecay(configs.OptimizerConfig(1e-3), 10),
            run,
            2,
            None,
        )
    step = lowered_step(engine, inputs | labels(kind, length))
    assert compile_for_tpu(step).cost_analysis()["flops"] > 0
    extra = {}
    if kind == "tagging":
        extra = {"t_labeled_positions": tf.zeros_like(ids)}
    answer = lowered(lambda x: model(x)["task_outputs"], inputs | extra)
    assert compile_for_tpu(answer).cost_analysis()["flops"] > 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gin_file", action="append", required=True)
    parser.add_argument("--gin_param", action="append", default=[])
    parser.add_argument("topology", nargs="+")
    args = parser.parse_args()
    config = gin_files.load(
        configs.PretrainingConfig, args.gin_file, args.gin_param
    )
    replicas.set_policy(config.run)
    model = ablations.make_model(
        config.model, masking.SpecialIds(cls=101, sep=102, mask=103)
    )
    size = config.data.train_batch_size
    strategy = replicas.make_strategy(config.run)
    engine = engine_lib.Engine(
        strategy,
        model,
        model.training_loss,
        optimization.AdamWeightDecay(
            config.optimizer, config.run.num_train_steps
        ),
        config.run,
        size,
        None,
    )
    ids = tf.ones([size, config.model.max_seq_length], tf.int32)
    draws = tf.zeros([size, config.model.max_predictions_per_seq])
    features = dict.fromkeys(("input_ids", "input_mask", "segment_ids"), ids)
    features["noise"] = masking.Noise(draws, draws, draws)
    program = lowered_step(engine, features)
    print(f"{config.run.dtype_policy}, {len(program) / 1e6:.1f} MB of HLO")
    for topology in args.topology:
        start = time.monotonic()
        found = compile_for_tpu(program, topology)
        memory, costs = found.get_compiled_memory_stats(), found.cost_analysis()
        print(
            f"{topology}: {memory.argument_size_in_bytes / 1e9:.2f} GB of "
            f"state, {memory.temp_size_in_bytes / 1e9:.2f} GB besides, "
            f"{costs['flops'] / 1e12:.3f} TFLOP a step of {size}, compiled in "
            f"{time.monotonic() - start:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
