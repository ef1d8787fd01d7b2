"""A pre-training run -> what it costs on some devices, before it is started.

A prediction is arithmetic: matrix products at an assumed share (MFU) of the
device's public peak, gradients over the link between the devices at its public
rate, not hidden behind the computation.
"""

import dataclasses
from collections.abc import Sequence

from electra_tf import configs, errors
from electra_tf.model import costs


@dataclasses.dataclass(frozen=True)
class Hardware:
    """One device as a run uses it; figures are the makers' public ones.

    Attributes:
      name: For people.
      peak: FLOP/s of dense matrix products in `precision`.
      precision: 'float32', 'mixed_bfloat16' or 'mixed_float16'.
      memory: Bytes; 0 where it is not limited here.
      link: Bytes/s from one device to the others, one way.
      mfu: Share of the peak that is assumed.
    """

    name: str
    peak: float
    precision: str
    memory: float
    link: float
    mfu: float


_GB = 1e9
# Name; TFLOP/s of dense matrix products in float32, as TensorFlow computes them
# unless told otherwise (on GPUs in TF32 if they have it, on TPUs in bfloat16),
# and in 16 bits; GB of memory; GB/s of the link; MFU: what well-tuned BERT-like
# training is commonly reported to reach, an assumption.
_MAKERS = {
    "v100": ("NVIDIA V100 SXM2", 15.7, 125, 32, 150, 0.25),
    "t4": ("NVIDIA T4", 8.1, 65, 16, 16, 0.25),
    "a10g": ("NVIDIA A10G", 35, 70, 24, 32, 0.35),
    "a100": ("NVIDIA A100 SXM 80 GB", 156, 312, 80, 300, 0.35),
    "h100": ("NVIDIA H100 SXM", 494, 989, 80, 450, 0.30),
    "l4": ("NVIDIA L4", 60, 121, 24, 32, 0.30),
    "rtx4090": ("NVIDIA RTX 4090", 82.6, 165, 24, 32, 0.35),
    "tpu_v2": ("TPU v2 core", 22.5, 22.5, 8, 60, 0.40),
    "tpu_v3": ("TPU v3 core", 61.5, 61.5, 16, 80, 0.40),
    "tpu_v4": ("TPU v4 chip", 275, 275, 32, 150, 0.40),
    "tpu_v5e": ("TPU v5e chip", 197, 197, 16, 200, 0.40),
    "tpu_v5p": ("TPU v5p chip", 459, 459, 95, 300, 0.40),
}
_WITHOUT_BFLOAT16 = ("v100", "t4")
HARDWARE = tuple(_MAKERS)
THIS_CPU = "this_cpu"
# Share of the matrix product rate that `bench.py training` measures
# for ELECTRA-Small on two cores, with a part of the batch on each.
CPU_MFU = 0.6


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a run costs on some devices.

    Attributes:
      num_parameters: Of both networks, shared ones once.
      micro_batch_size: Examples at once on a device.
      fits: Whether that fits into its memory.
      flops_per_step: Matrix products of the whole batch.
      memory: Part -> bytes on each device.
      all_reduce_bytes: Sent by each device in a step.
      seconds_per_step: Computation and then communication.
      days: Of the whole run.
    """

    num_parameters: int
    micro_batch_size: int
    fits: bool
    flops_per_step: float
    memory: dict[str, float]
    all_reduce_bytes: float
    seconds_per_step: float
    days: float


def devices(
    names: Sequence[str] | None = None,
    dtype_policy: str = "float32",
    settled: str | None = None,
) -> list[Hardware]:
    """Devices by their names.

    Args:
      names: Of `HARDWARE`, or `THIS_CPU`, which is measured; None for all of
        `HARDWARE`.
      dtype_policy: `RunConfig.dtype_policy`; 'auto' is what each device has.
      settled: What 'auto' is on this CPU.
    """
    return [_device(x, dtype_policy, settled) for x in names or HARDWARE]


def _device(key: str, dtype_policy: str, settled: str | None) -> Hardware:
    """A device as a run of that `RunConfig.dtype_policy` uses it."""
    if key == THIS_CPU:
        # TensorFlow is imported only where something is measured.
        from electra_tf.training import matmul_rate

        policy = settled or dtype_policy
        peak = matmul_rate.cpu_rate(policy.removeprefix("mixed_"))
        name = "this CPU, measured"
        return Hardware(name, peak, policy, 0.0, 10 * _GB, CPU_MFU)
    name, float32, half, memory, link, mfu = _MAKERS[key]
    has_half = key not in _WITHOUT_BFLOAT16 or dtype_policy == "mixed_float16"
    if dtype_policy == configs.AUTO:
        dtype_policy = "mixed_bfloat16" if has_half else "float32"
    is_fast = has_half and dtype_policy != "float32"
    peak = (half if is_fast else float32) * 1e12
    return Hardware(name, peak, dtype_policy, memory * _GB, link * _GB, mfu)


def plan(
    config: configs.PretrainingConfig,
    hardware: Hardware,
    num_devices: int = 1,
    micro_batch_size: int = 0,
) -> Plan:
    """Predicts a run.

    Args:
      config: The run.
      hardware: One device.
      num_devices: How many of them share each batch.
      micro_batch_size: Examples at once on a device; 0 for what the run says,
        and if it says nothing for as many as fit.

    Returns:
      The prediction.

    Raises:
      ConfigError: If the batch cannot be shared out evenly.
    """
    from electra_tf.model import ablations  # Imports TensorFlow.

    batch_size = config.data.train_batch_size
    if batch_size % num_devices:
        raise errors.ConfigError(
            "--num-devices must divide the batch size. Received: "
            f"num_devices={num_devices}, train_batch_size={batch_size}"
        )
    examples = batch_size // num_devices
    networks = ablations.networks(config.model)
    parameters = costs.num_parameters(networks)
    trained = costs.num_parameters([n for n in networks if n.is_trained])
    micro_batch_size = micro_batch_size or config.run.micro_batch_size
    at_once = min(micro_batch_size or examples, examples)
    if examples % at_once:
        raise errors.ConfigError(
            "The micro batch must divide the examples that a device has of a "
            f"batch. Received: micro_batch_size={at_once}, examples={examples}"
        )

    width = 4 if hardware.precision == "float32" else 2
    if not micro_batch_size:
        at_once = costs.most_at_once(networks, examples, width, hardware.memory)
    memory = costs.training_bytes(networks, examples, at_once, width)
    sent_width = 4 if config.run.gradient_reduction_dtype == "float32" else 2
    # A ring sends and receives the gradients nearly twice.
    sent = 2.0 * sent_width * trained * (num_devices - 1) / num_devices
    per_step = batch_size * float(costs.of_training_example(networks))
    seconds = per_step / (num_devices * hardware.peak * hardware.mfu)
    seconds += sent / hardware.link if sent else 0.0
    steps = config.run.num_train_steps
    return Plan(
        num_parameters=parameters,
        micro_batch_size=at_once,
        fits=costs.fits(sum(memory.values()), hardware.memory),
        flops_per_step=per_step,
        memory=memory,
        all_reduce_bytes=sent,
        seconds_per_step=seconds,
        days=seconds * steps / 86400,
    )


def table(config: configs.PretrainingConfig, rows, num_devices: int) -> str:
    """The plans as text.

    Args:
      config: The run.
      rows: (Hardware, Plan).
      num_devices: Of each.
    """
    first = rows[0][1]
    lines = [
        f"{first.num_parameters / 1e6:.1f} M parameters, "
        f"{config.run.num_train_steps} steps of {config.data.train_batch_size} "
        f"examples of {config.model.max_seq_length} tokens",
        f"matrix products: {first.flops_per_step:.3g} FLOPs a step, "
        f"{first.flops_per_step * config.run.num_train_steps:.3g} the run",
        f"\n{'device':22}{'dtype':>15}{'number':>7}{'TFLOP/s':>9}{'MFU':>6}"
        f"{'weights':>9}{'Adam':>7}{'grads':>7}{'activ.':>8}{'sum GB':>8}"
        f"{'at once':>9}{'sent GB':>9}{'s/step':>9}{'days':>9}",
    ]
    for hardware, predicted in rows:
        memory = [part / _GB for part in predicted.memory.values()]
        at_once = predicted.micro_batch_size if predicted.fits else "none"
        lines.append(
            f"{hardware.name:22}{hardware.precision:>15}{num_devices:>7}"
            f"{hardware.peak / 1e12:>9.4g}{hardware.mfu:>6.0%}"
            "{:>9.2f}{:>7.2f}{:>7.2f}{:>8.2f}".format(*memory)
            + f"{sum(memory):>8.2f}{at_once:>9}"
            f"{predicted.all_reduce_bytes / _GB:>9.3g}"
            f"{predicted.seconds_per_step:>9.3g}{predicted.days:>9.3g}"
        )
    lines.append(
        "\nPeaks and links are the makers' figures, MFU is assumed. "
        "'at once' is how many\nexamples of its part of a batch fit into a "
        "device: RunConfig.micro_batch_size. 'dtype' is\nRunConfig.dtype_policy"
        "; TPUs multiply float32 in bfloat16, GPUs since the A100 in TF32."
    )
    return "\n".join(lines)
