"""What a run takes of this machine where its configuration leaves it open.

`RunConfig.dtype_policy` = 'auto', `num_parallel_parts` = 0 and
`num_intra_op_threads` = 0 become what was found to be the fastest: see
docs/explain/performance.md. `micro_batch_size` = 0 is the whole batch, or the
most of it that fits into memory, by the estimate of `costs.training_bytes`.
Without networks TensorFlow is imported only to ask GPUs what they multiply. It
reads the number of threads when its first operation runs.
"""

import contextlib
import dataclasses
import os
import pathlib
import re
import subprocess
import typing
from collections.abc import Mapping, Sequence

from electra_tf import configs, errors
from electra_tf.model import costs

# What Linux calls a processor's products of bfloat16. Without them oneDNN
# converts to float32 and back.
_BFLOAT16 = r"^flags\s*:.*\b(amx_bf16|avx512_bf16)\b"
_CPU_INFO = "/proc/cpuinfo"
# How much a container may take, if not "max".
_LIMIT = "/sys/fs/cgroup/memory.max"
_GPU_MEMORY = (
    "nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits"
)
# Operations of a step that is cut in two, and of each part of more than two.
# Smaller parts are as fast or slower, and each takes its time to trace.
_LEAST_FLOPS_OF_TWO_PARTS = 1.25e9
_LEAST_FLOPS_OF_A_PART = 5e9
# Of a step. With less, products of bfloat16 save nothing: most of the time goes
# into starting operations.
_LEAST_FLOPS_OF_A_STEP = 1e10


def settle(
    run: configs.RunConfig,
    batch_size: int | None = None,
    step_flops: float | None = None,
    before: Mapping | None = None,
    networks: Sequence[costs.Network] = (),
) -> tuple[configs.RunConfig, str]:
    """Decides what a run leaves open.

    Args:
      run: Of the run. Every worker settles its own.
      batch_size: Examples of a step where it can be cut; None where not.
      step_flops: Matrix products of a step, where they are known.
      before: The record of the run that this one goes on with, whose choices
        go first: its sums have the same order then.
      networks: Of a step whose batch may be cut to fit into memory.

    Returns:
      The run with nothing left open that there is to choose, and what was
      chosen for people, empty where nothing was.

    Raises:
      ConfigError: If it leaves the dtype open to workers that may differ.
    """
    is_small = step_flops is not None and step_flops < _LEAST_FLOPS_OF_A_STEP
    chosen: dict[str, typing.Any] = {}
    before = before or {}
    if run.dtype_policy == configs.AUTO:
        policy = before.get("dtype_policy")
        if not policy and run.distribution_strategy == "multi_worker_mirrored":
            raise errors.ConfigError(
                "Expected a RunConfig.dtype_policy that all workers have, "
                "whatever their processors. Received: 'auto' with "
                "distribution_strategy='multi_worker_mirrored'"
            )
        chosen["dtype_policy"] = policy or dtype_policy(run, is_small)
    share = (batch_size or 0) // max(1, run.num_gpus or 0)
    is_one_host = run.distribution_strategy in ("one_device", "mirrored")
    if networks and is_one_host and not run.micro_batch_size and share:
        policy = chosen.get("dtype_policy", run.dtype_policy)
        width = 4 if policy == "float32" else 2
        at_once = costs.most_at_once(networks, share, width, _memory(run))
        if at_once < share:
            chosen["micro_batch_size"] = at_once
    uses_cpu = run.distribution_strategy == "one_device" and not run.num_gpus
    if uses_cpu and not run.jit_compile and batch_size and step_flops:
        share = chosen.get("micro_batch_size") or run.micro_batch_size or share
        share = min(share, batch_size)
        parts = run.num_parallel_parts or before.get("num_parallel_parts") or 0
        # A run that goes on may have other micro-batches.
        if not parts or (not run.num_parallel_parts and share % parts):
            parts = _num_parts(share, step_flops * share / batch_size)
        threads = 1 if is_small else -(-num_cores() // parts)
        wanted = {"num_parallel_parts": parts, "num_intra_op_threads": threads}
        chosen |= {k: v for k, v in wanted.items() if not getattr(run, k)}
    said = ", ".join(f"RunConfig.{k}={v!r}" for k, v in chosen.items())
    return dataclasses.replace(run, **chosen), said and f"chosen: {said}"


def settle_devices(run: configs.RunConfig) -> tuple[configs.RunConfig, str]:
    """Takes the GPUs of a run; to be called before TensorFlow makes a tensor.

    The process sees no others, and takes of their memory what it needs.

    Args:
      run: Of the run.

    Returns:
      The run with `num_gpus` and `jit_compile` decided, and a line about what
      it trains on; of workers that SLURM starts, without GPUs that nobody has
      asked for, as it gives each task its own later.
    """
    import tensorflow as tf

    is_tpu = run.distribution_strategy == "tpu"
    finds_gpus = not is_tpu and run.cluster_resolver != "slurm"
    gpus = tf.config.list_physical_devices("GPU") if finds_gpus else []
    number = run.num_gpus
    if number is None:
        is_one = run.distribution_strategy == "one_device"
        number = min(1, len(gpus)) if is_one else len(gpus)
    used = gpus[:number]
    if gpus:
        tf.config.set_visible_devices(used, "GPU")
    for gpu in used:
        tf.config.experimental.set_memory_growth(gpu, True)
    tf.config.experimental.enable_tensor_float_32_execution(run.tf32)
    if run.deterministic:
        tf.config.experimental.enable_op_determinism()
    jit_compile = number > 0 if run.jit_compile is None else run.jit_compile
    device = f"CPU, {num_cores()} cores"
    if is_tpu:
        device = f"TPU {run.tpu or 'local'}"
    elif number:
        details = map(tf.config.experimental.get_device_details, used)
        names = sorted({d.get("device_name", "GPU") for d in details})
        device = f"{number} x {', '.join(names) or 'GPU'}"
        device += ", TF32" * (run.tf32 and _gpus_have_bfloat16())
    elif gpus:
        device += f" (RunConfig.num_gpus=0 leaves {len(gpus)} GPUs alone)"
    if jit_compile and not is_tpu:
        device += ", whole steps by XLA"
    device += ", deterministic" * run.deterministic
    return (
        dataclasses.replace(run, num_gpus=number, jit_compile=jit_compile),
        f"device: {device}",
    )


def _num_parts(examples: int, step_flops: float) -> int:
    """The most parts that are equal, large enough, and have a core each."""
    enough = int(step_flops / _LEAST_FLOPS_OF_A_PART)
    if step_flops >= _LEAST_FLOPS_OF_TWO_PARTS:
        enough = max(2, enough)
    most = min(num_cores(), enough)
    return next((n for n in range(most, 0, -1) if examples % n == 0), 1)


def pretraining_step(config: configs.PretrainingConfig) -> dict:
    """What `settle` takes of a step: examples, networks, one's FLOPs."""
    from electra_tf.model import ablations  # Imports TensorFlow.

    network = costs.Network(config.model.encoder, config.model.max_seq_length)
    size = config.data.train_batch_size
    return {
        "batch_size": size,
        "step_flops": size * costs.of_training_example([network]),
        "networks": ablations.networks(config.model),
    }


def _memory(run: configs.RunConfig) -> float:
    """Bytes of each device of a run; 0 where they are not known."""
    if not run.num_gpus:
        sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
        with contextlib.suppress(OSError, ValueError):
            sizes.append(int(pathlib.Path(_LIMIT).read_text("utf-8")))
        return float(min(sizes))
    with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
        said = subprocess.run(
            _GPU_MEMORY.split(), capture_output=True, text=True, check=True
        )
        return 2.0**20 * min(map(int, said.stdout.split()))
    return 0.0


def dtype_policy(run: configs.RunConfig, is_small: bool = False) -> str:
    """What 'auto' stands for on the devices of a run.

    Args:
      run: Of the run.
      is_small: Whether its steps are too small for a CPU to gain by it.

    Returns:
      'mixed_bfloat16' where products of bfloat16 are faster, which is on TPUs,
      on GPUs since compute capability 8.0, and of large steps on CPUs that say
      so; otherwise 'float32'.
    """
    multiplies = run.distribution_strategy == "tpu"
    if not multiplies and run.num_gpus:
        multiplies = _gpus_have_bfloat16()
    elif not (multiplies or is_small):
        text = ""
        with contextlib.suppress(OSError):  # Of Linux.
            text = pathlib.Path(_CPU_INFO).read_text("utf-8", errors="replace")
        multiplies = bool(re.search(_BFLOAT16, text, re.MULTILINE))
    return "mixed_bfloat16" if multiplies else "float32"


def _gpus_have_bfloat16() -> bool:
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    details = map(tf.config.experimental.get_device_details, gpus)
    capabilities = [d.get("compute_capability", (0, 0)) for d in details]
    return min(capabilities, default=(0, 0)) >= (8, 0)


def num_cores() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
