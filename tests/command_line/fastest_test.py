"""What a run takes of the machine where nothing is said."""

import dataclasses

import pytest
import tensorflow as tf

from electra_tf import configs, errors
from electra_tf.command_line import fastest
from electra_tf.model import costs
from tests import helpers

LARGE = 1e12
PROCESSOR = "processor\t: 0\nflags\t\t: fpu {flags}\n\nflags\t: of the next\n"


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Sets cores and the processor's flags."""

    def make(cores=2, flags="avx512f"):
        path = tmp_path / "cpuinfo"
        path.write_text(PROCESSOR.format(flags=flags))
        monkeypatch.setattr(fastest, "_CPU_INFO", str(path))
        monkeypatch.setattr(fastest, "num_cores", lambda: cores)

    make()
    return make


def run_config(**changes):
    return configs.RunConfig(model_dir="unused", **changes)


def parts_and_threads(run, batch_size, step_flops=LARGE, before=None):
    settled, _ = fastest.settle(run, batch_size, step_flops, before)
    return settled.num_parallel_parts, settled.num_intra_op_threads


@pytest.mark.parametrize(
    ("cores", "batch_size", "step_flops", "expected"),
    [
        (2, 32, LARGE, (2, 1)),
        (2, 33, LARGE, (1, 2)),
        (6, 32, LARGE, (4, 2)),
        (64, 128, LARGE, (64, 1)),
        (1, 32, LARGE, (1, 1)),
        # Small models: too little for more parts, or for a part of its own.
        (2, 32, 2e9, (2, 1)),
        (16, 32, 2e9, (2, 1)),
        (1, 32, 2e9, (1, 1)),
        (2, 33, 2e9, (1, 1)),
        (16, 32, 1e9, (1, 1)),
        (16, 32, 3e10, (4, 4)),
    ],
)
def test_parts_and_threads(machine, cores, batch_size, step_flops, expected):
    machine(cores)
    found = parts_and_threads(run_config(), batch_size, step_flops)
    assert found == expected


def test_parts_divide_the_micro_batch(machine):
    machine(4)
    run = run_config(micro_batch_size=6)
    assert parts_and_threads(run, 12) == (3, 2)
    # And are as large as others are: of 6 examples, not of 12.
    assert parts_and_threads(run, 12, 3e10) == (3, 2)
    assert parts_and_threads(run, 12, 2e10) == (2, 2)


def test_a_batch_that_does_not_fit_is_cut(machine, monkeypatch):
    networks = [costs.Network(helpers.encoder_config(), helpers.LENGTH)]

    def settled(memory, **changes):
        monkeypatch.setattr(fastest, "_memory", lambda run: memory)
        run = run_config(**changes)
        return fastest.settle(run, 32, LARGE, networks=networks)

    whole = sum(costs.training_bytes(networks, 32, 32, 4).values())
    assert settled(2 * whole)[0].micro_batch_size == 0
    run, said = settled(whole)
    assert run.micro_batch_size == 16
    assert "RunConfig.micro_batch_size=16" in said
    assert run.num_parallel_parts == 2
    assert settled(whole, dtype_policy="mixed_float16")[0].micro_batch_size == 0
    assert settled(1.0)[0].micro_batch_size == 1
    for given in (
        {"micro_batch_size": 32},
        # Whose workers may have more and less.
        {
            "distribution_strategy": "multi_worker_mirrored",
            "micro_batch_size": 0,
        },
    ):
        cut = settled(1.0, **given)[0].micro_batch_size
        assert cut == given["micro_batch_size"]


def test_memory_of_a_container_and_of_gpus(monkeypatch, tmp_path):
    limit, program = tmp_path / "memory.max", tmp_path / "nvidia-smi"
    monkeypatch.setattr(fastest, "_LIMIT", str(limit))
    whole = fastest._memory(run_config())
    limit.write_text("max\n")
    assert fastest._memory(run_config()) == whole
    limit.write_text("4096\n")
    assert fastest._memory(run_config()) == 4096
    monkeypatch.setenv("PATH", str(tmp_path))
    assert fastest._memory(run_config(num_gpus=2)) == 0
    program.write_text("#!/bin/sh\necho 40960; echo 81920\n")
    program.chmod(0o755)
    assert fastest._memory(run_config(num_gpus=2)) == 40960 * 2**20


def test_what_is_given_stays(machine):
    given = run_config(
        num_parallel_parts=4, num_intra_op_threads=3, dtype_policy="float32"
    )
    assert fastest.settle(given, 32, LARGE)[0] == given
    assert parts_and_threads(run_config(num_parallel_parts=4), 32) == (4, 1)
    assert parts_and_threads(run_config(num_intra_op_threads=3), 32) == (2, 3)


def test_other_devices_and_xla_have_their_own_ways(machine):
    for changes in (
        {"num_gpus": 1},
        {"distribution_strategy": "multi_worker_mirrored"},
        {"jit_compile": True},
    ):
        run = run_config(**changes)
        assert fastest.settle(run, 32, LARGE) == (run, "")
    # Nothing is cut where no batch is known.
    assert fastest.settle(run_config()) == (run_config(), "")


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("avx512_bf16 amx_tile", "mixed_bfloat16"),
        ("amx_bf16 avx512_fp16", "mixed_bfloat16"),
        ("avx512f avx512_vnni", "float32"),
    ],
)
def test_auto_is_what_the_processor_multiplies(machine, flags, expected):
    machine(flags=flags)
    settled, said = fastest.settle(run_config(dtype_policy="auto"))
    assert settled == run_config(dtype_policy=expected)
    assert said == f"chosen: RunConfig.dtype_policy={expected!r}"


def test_auto_of_other_machines_and_steps(machine, monkeypatch):
    machine(flags="avx512_bf16")
    run = run_config(dtype_policy="auto")
    # Small steps, then large ones.
    assert fastest.settle(run, 32, 2e9)[0].dtype_policy == "float32"
    assert fastest.settle(run, 32, 2e10)[0].dtype_policy == "mixed_bfloat16"
    tpu = run_config(distribution_strategy="tpu")
    assert fastest.dtype_policy(tpu) == "mixed_bfloat16"
    # There is no GPU here.
    assert fastest.dtype_policy(run_config(num_gpus=1)) == "float32"
    # Nor is there Linux.
    monkeypatch.setattr(fastest, "_CPU_INFO", "/nowhere/cpuinfo")
    assert fastest.dtype_policy(run_config()) == "float32"
    workers = {"distribution_strategy": "multi_worker_mirrored"}
    with pytest.raises(errors.ConfigError, match="all workers have.*'auto'"):
        fastest.settle(run_config(dtype_policy="auto", **workers))


def test_what_a_run_began_with_goes_first(machine):
    machine(cores=4, flags="avx512_bf16")
    before = dataclasses.asdict(
        run_config(num_parallel_parts=2, num_intra_op_threads=1)
    )
    run = run_config(dtype_policy="auto")
    settled, said = fastest.settle(run, 32, LARGE, before)
    assert settled.dtype_policy == "float32"
    assert settled.num_parallel_parts == settled.num_intra_op_threads == 2
    assert said.endswith("RunConfig.num_intra_op_threads=2")


@pytest.fixture
def gpus(monkeypatch):
    """Lets TensorFlow find two GPUs; what it was told is in the list."""
    told = []
    gpus = ["GPU 0", "GPU 1"]
    config = tf.config.experimental
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda _: gpus)
    monkeypatch.setattr(
        config,
        "get_device_details",
        lambda _: {"device_name": "A GPU", "compute_capability": (8, 0)},
    )
    monkeypatch.setattr(
        tf.config, "set_visible_devices", lambda *args: told.append(args)
    )
    for name in (
        "set_memory_growth",
        "enable_tensor_float_32_execution",
        "enable_op_determinism",
    ):
        monkeypatch.setattr(
            config, name, lambda *args, name=name: told.append((name, *args))
        )
    return told


@pytest.mark.parametrize(
    ("changes", "number", "is_compiled", "line"),
    [
        ({}, 1, True, "device: 1 x A GPU, TF32, whole steps by XLA"),
        (
            {"distribution_strategy": "mirrored", "jit_compile": False},
            *(2, False, "device: 2 x A GPU, TF32"),
        ),
        (
            {"distribution_strategy": "mirrored", "num_gpus": 1, "tf32": False},
            *(1, True, "device: 1 x A GPU, whole steps by XLA"),
        ),
        (
            {"num_gpus": 0, "deterministic": True},
            *(0, False, "(RunConfig.num_gpus=0 leaves 2 GPUs alone), determi"),
        ),
        ({"distribution_strategy": "tpu"}, 0, False, "device: TPU local"),
        ({"cluster_resolver": "slurm"}, 0, False, "device: CPU, "),
    ],
)
def test_a_gpu_that_is_there_is_used(gpus, changes, number, is_compiled, line):
    run, said = fastest.settle_devices(run_config(**changes))
    assert (run.num_gpus, run.jit_compile) == (number, is_compiled)
    assert line in said
    tf32 = ("enable_tensor_float_32_execution", run.tf32)
    assert tf32 in gpus
    assert (("enable_op_determinism",) in gpus) == run.deterministic
    mine = ["GPU 0", "GPU 1"][:number]
    assert [x for x in gpus if x[0] == "set_memory_growth"] == [
        ("set_memory_growth", gpu, True) for gpu in mine
    ]
    finds = run.cluster_resolver != "slurm" and "tpu" not in changes.values()
    assert ((mine, "GPU") in gpus) == finds


def test_parts_of_before_that_do_not_divide_are_chosen_anew(machine):
    before = dataclasses.asdict(run_config(num_parallel_parts=2))
    run = run_config(micro_batch_size=1)
    assert parts_and_threads(run, 32, before=before) == (1, 2)
