"""Predicts what a pre-training run costs before it is started.

    python tools/plan_run.py --gin_file=gin/large.gin --hardware=a100 \
        --num_devices=8

prints FLOPs, memory per device, all-reduce traffic, step time and days, with
the paper's figure beside them where the run is one of its models. Without
--hardware every device of the table is listed; --hardware=this_cpu measures
the matrix product rate of the machine that it runs on.

A prediction is arithmetic: matrix products at an assumed share (MFU) of the
device's public peak, gradients over the link between the devices at its public
rate, not hidden behind the computation. The shares are assumptions, not
measurements of ours; change them with --mfu. For this_cpu the share is what
docs/performance.md has from tools/benchmarks/training.py.
"""

import argparse
import dataclasses
import pathlib
import statistics
import sys
import typing
from collections.abc import Sequence

from electra_tf import configs, errors
from electra_tf.command_line import arguments
from electra_tf.model import flops


@dataclasses.dataclass(frozen=True)
class Hardware:
    """One device; figures are the makers' public ones.

    Attributes:
      name: For people.
      peak: FLOP/s of dense matrix products in `precision`.
      precision: 'float32' or 'mixed_bfloat16'.
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
# Shares: what well-tuned BERT-like training is commonly reported to reach,
# lower where the memory is slow for the arithmetic. An assumption.
HARDWARE = {
    "v100": Hardware(
        "NVIDIA V100 SXM2 (float16)",
        125e12,
        "mixed_bfloat16",
        32 * _GB,
        150e9,
        0.25,
    ),
    "t4": Hardware(
        "NVIDIA T4 (float16)", 65e12, "mixed_bfloat16", 16 * _GB, 16e9, 0.25
    ),
    "a10g": Hardware(
        "NVIDIA A10G", 70e12, "mixed_bfloat16", 24 * _GB, 32e9, 0.35
    ),
    "a100": Hardware(
        "NVIDIA A100 SXM 80 GB", 312e12, "mixed_bfloat16", 80 * _GB, 300e9, 0.35
    ),
    "h100": Hardware(
        "NVIDIA H100 SXM", 989e12, "mixed_bfloat16", 80 * _GB, 450e9, 0.30
    ),
    "l4": Hardware("NVIDIA L4", 121e12, "mixed_bfloat16", 24 * _GB, 32e9, 0.30),
    "rtx4090": Hardware(
        "NVIDIA RTX 4090", 165e12, "mixed_bfloat16", 24 * _GB, 32e9, 0.35
    ),
    "tpu_v2": Hardware(
        "TPU v2 core", 22.5e12, "mixed_bfloat16", 8 * _GB, 60e9, 0.40
    ),
    "tpu_v3": Hardware(
        "TPU v3 core", 61.5e12, "mixed_bfloat16", 16 * _GB, 80e9, 0.40
    ),
    "tpu_v4": Hardware(
        "TPU v4 chip", 275e12, "mixed_bfloat16", 32 * _GB, 150e9, 0.40
    ),
    "tpu_v5e": Hardware(
        "TPU v5e chip", 197e12, "mixed_bfloat16", 16 * _GB, 200e9, 0.40
    ),
    "tpu_v5p": Hardware(
        "TPU v5p chip", 459e12, "mixed_bfloat16", 95 * _GB, 300e9, 0.40
    ),
}
THIS_CPU = "this_cpu"
# Share of the matrix product rate that tools/benchmarks/training.py measures
# for ELECTRA-Small on two cores, with a part of the batch on each.
CPU_MFU = 0.6

# Of arXiv:2003.10555: FLOPs and hardware of table 1 and appendix A, by the
# sizes and steps of the run.
PAPER = {
    (12, 256, 1_000_000): "1.4e18 FLOPs, 4 days on one V100",
    (12, 768, 766_000): "6.4e19 FLOPs, 4 days on 16 TPUv3",
    (24, 1024, 400_000): "7.1e20 FLOPs",
    (24, 1024, 1_750_000): "3.1e21 FLOPs",
}


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a run costs on some devices.

    Attributes:
      num_parameters: Of both networks, shared ones once.
      micro_batch_size: Examples at once on a device.
      fits: Whether that fits into its memory.
      flops_per_step: Matrix products of the whole batch.
      flops_of_run: All steps.
      flops_as_the_paper_counts: Of the whole run; None for other objectives.
      memory: Part -> bytes on each device.
      all_reduce_bytes: Sent by each device in a step.
      seconds_per_step: Computation and then communication.
      days: Of the whole run.
    """

    num_parameters: int
    micro_batch_size: int
    fits: bool
    flops_per_step: float
    flops_of_run: float
    flops_as_the_paper_counts: float | None
    memory: dict[str, float]
    all_reduce_bytes: float
    seconds_per_step: float
    days: float


def num_parameters(config: configs.ElectraConfig) -> int:
    """Weights of both networks and their heads, by arithmetic."""
    encoder = config.encoder
    total = _embedding_parameters(encoder) + _encoder_parameters(encoder)
    total += _discriminator_head_parameters(config)
    if config.disentangled_embeddings:
        total += encoder.vocab_size * (encoder.embedding_size or 0)
    if not config.has_generator_network:
        return total
    generator = flops.generator_config(config)
    towers = 2 if config.two_tower_generator else 1
    if generator is not encoder:
        total += towers * _encoder_parameters(generator)
        if config.untied_generator_embeddings:
            total += towers * _embedding_parameters(generator)
    if config.generator_training == "adversarial":
        total += generator.hidden_size + 1  # Expects the reward.
    return total + _masked_lm_head_parameters(
        generator, towers * generator.hidden_size
    )


def _discriminator_head_parameters(config: configs.ElectraConfig) -> int:
    hidden = config.encoder.hidden_size
    if not config.has_discriminator:
        return 0
    if config.has_binary_discriminator:
        return hidden * hidden + hidden + hidden + 1
    head = _masked_lm_head_parameters(config.encoder, hidden)
    is_copying = (
        config.discriminator_objective == "all_tokens_mlm"
        and config.copy_mechanism
    )
    return head + (hidden + 1 if is_copying else 0)


def _masked_lm_head_parameters(
    config: configs.EncoderConfig, input_size: int
) -> int:
    width = config.embedding_size or config.hidden_size
    return input_size * width + width + 2 * width + config.vocab_size


def _embedding_parameters(config: configs.EncoderConfig) -> int:
    rows = config.vocab_size + config.type_vocab_size
    rows += config.max_position_embeddings + 2  # And LayerNorm.
    return rows * (config.embedding_size or config.hidden_size)


def _encoder_parameters(config: configs.EncoderConfig) -> int:
    hidden, wide = config.hidden_size, config.intermediate_size
    attention = 4 * (hidden * hidden + hidden) + 2 * hidden
    feed_forward = 2 * hidden * wide + wide + hidden + 2 * hidden
    total = config.num_hidden_layers * (attention + feed_forward)
    if config.embedding_size != hidden:
        total += (config.embedding_size or hidden) * hidden + hidden
    return total


def _activation_bytes(
    config: configs.ElectraConfig, examples: float, width: int
) -> float:
    """What the backward pass needs of the forward pass.

    A layer keeps, of each token, about: the input, queries, keys, values,
    context and both normalised sums (9 vectors with their dropout draws), the
    wide activation three times, and of each head its scores twice and the
    draws; the generator's head its logits, their exponentials and gradients in
    float32.
    """
    length = config.max_seq_length

    def of_encoder(encoder: configs.EncoderConfig) -> float:
        token = 9 * encoder.hidden_size + 3 * encoder.intermediate_size
        token *= width
        scores = encoder.num_attention_heads * length * (width + 4 + 2)
        return encoder.num_hidden_layers * length * (token + scores)

    total = 0.0
    if config.has_discriminator:
        total += of_encoder(config.encoder)
    if config.has_generator_network:
        towers = 2 if config.two_tower_generator else 1
        total += towers * of_encoder(flops.generator_config(config))
        scored = length if towers == 2 else config.max_predictions_per_seq
        total += 3 * 4 * scored * config.encoder.vocab_size
    return examples * total


def _paper_flops(config: configs.PretrainingConfig) -> float | None:
    """The whole run as the paper counts it."""
    model, encoder = config.model, config.model.encoder
    is_plain = model.electra_objective and model.untied_generator
    if not is_plain or not model.has_generator_network:
        return None
    generator = model.generator
    discriminator = flops.Transformer(
        encoder.hidden_size,
        encoder.num_hidden_layers,
        max_seq_length=model.max_seq_length,
        vocab_size=encoder.vocab_size,
        embedding_size=encoder.embedding_size,
        intermediate_size=encoder.intermediate_size,
        num_attention_heads=encoder.num_attention_heads,
    )
    return flops.electra_train_flops(
        discriminator,
        generator.hidden_size,
        generator.num_hidden_layers,
        config.data.train_batch_size,
        config.run.num_train_steps,
        not model.untied_generator_embeddings,
    )


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
      micro_batch_size: Examples at once on a device; 0 for as many as fit.

    Returns:
      The prediction.

    Raises:
      ConfigError: If the batch cannot be shared out evenly.
    """
    batch_size = config.data.train_batch_size
    if batch_size % num_devices:
        raise errors.ConfigError(
            "--num-devices must divide the batch size. Received: "
            f"num_devices={num_devices}, train_batch_size={batch_size}"
        )
    examples = batch_size // num_devices
    parameters = num_parameters(config.model)

    def memory_with(at_once: int) -> dict[str, float]:
        width = 4 if hardware.precision == "float32" else 2
        return {
            "weights": 4.0 * parameters,
            "Adam": 8.0 * parameters,
            "gradients": 4.0 * parameters * (1 if at_once == examples else 2),
            "activations": _activation_bytes(config.model, at_once, width),
        }

    at_once = min(micro_batch_size or examples, examples)
    if not micro_batch_size:
        # The most that fits.
        while at_once > 1 and not _fits(memory_with(at_once), hardware):
            at_once = max(d for d in range(1, at_once) if examples % d == 0)
    memory = memory_with(at_once)
    # A ring sends and receives the gradients nearly twice.
    sent = 2 * 4.0 * parameters * (num_devices - 1) / num_devices
    per_step = batch_size * float(flops.of_training_example(config.model))
    computing = per_step / (num_devices * hardware.peak * hardware.mfu)
    talking = sent / hardware.link if sent else 0.0
    seconds = computing + talking
    steps = config.run.num_train_steps
    return Plan(
        num_parameters=parameters,
        micro_batch_size=at_once,
        fits=_fits(memory, hardware),
        flops_per_step=per_step,
        flops_of_run=per_step * steps,
        flops_as_the_paper_counts=_paper_flops(config),
        memory=memory,
        all_reduce_bytes=sent,
        seconds_per_step=seconds,
        days=seconds * steps / 86400,
    )


def _fits(memory: dict[str, float], hardware: Hardware) -> bool:
    """Whether a tenth of the device is left for the rest."""
    total = sum(memory.values())
    return not hardware.memory or total < 0.9 * hardware.memory


def paper_figure(config: configs.PretrainingConfig) -> str:
    """What the paper says of this run; empty where it is none of its own."""
    encoder = config.model.encoder
    return PAPER.get(
        (
            encoder.num_hidden_layers,
            encoder.hidden_size,
            config.run.num_train_steps,
        ),
        "",
    )


def measured_cpu() -> Hardware:
    """This machine, its matrix product rate measured."""
    import training

    rate = training.MatmulRate(training.square_shapes())
    # The first ones of a process are slower.
    rounds = [rate.measure() for _ in range(40)]
    return Hardware(
        "this CPU, measured",
        max(statistics.median(r[shape] for r in rounds) for shape in rounds[0]),
        "float32",
        0.0,
        10e9,
        CPU_MFU,
    )


def table(config: configs.PretrainingConfig, rows, num_devices: int) -> str:
    """The plans as text.

    Args:
      config: The run.
      rows: (Hardware, Plan).
      num_devices: Of each.
    """
    first = rows[0][1]
    batch_size = config.data.train_batch_size
    lines = [
        f"{first.num_parameters / 1e6:.1f} M parameters, "
        f"{config.run.num_train_steps} steps of {batch_size} examples of "
        f"{config.model.max_seq_length} tokens",
        f"matrix products: {first.flops_per_step:.3g} FLOPs a step, "
        f"{first.flops_of_run:.3g} the run",
    ]
    if first.flops_as_the_paper_counts:
        lines.append(
            "as the paper counts:        "
            f"{first.flops_as_the_paper_counts:.3g} the run"
        )
    if paper_figure(config):
        lines.append(f"the paper says: {paper_figure(config)}")
    lines.append(
        f"\n{'device':28}{'number':>7}{'TFLOP/s':>9}{'MFU':>6}"
        f"{'weights':>9}{'Adam':>7}{'grads':>7}{'activ.':>8}{'sum GB':>8}"
        f"{'at once':>9}{'sent GB':>9}{'s/step':>9}{'days':>9}"
    )
    for hardware, predicted in rows:
        total = sum(predicted.memory.values())
        at_once = f"{predicted.micro_batch_size}" if predicted.fits else "none"
        parts = "".join(
            f"{part / _GB:>{width}.2f}"
            for part, width in zip(
                predicted.memory.values(), (9, 7, 7, 8), strict=True
            )
        )
        lines.append(
            f"{hardware.name:28}{num_devices:>7}{hardware.peak / 1e12:>9.4g}"
            f"{hardware.mfu:>6.0%}{parts}{total / _GB:>8.2f}{at_once:>9}"
            f"{predicted.all_reduce_bytes / _GB:>9.3g}"
            f"{predicted.seconds_per_step:>9.3g}{predicted.days:>9.3g}"
        )
    lines.append(
        "\nPeaks and links are the makers' figures, MFU is assumed (--mfu). "
        "'at once' is how many\nexamples of its part of a batch fit into a "
        "device: RunConfig.micro_batch_size."
    )
    return "\n".join(lines)


def make_parser() -> arguments.ArgumentParser:
    """The flags of this tool."""
    parser = arguments.ArgumentParser(prog="plan_run", description=__doc__)
    whole = arguments.positive_int
    parser.add_argument(
        "--gin-file", action="append", required=True, help="as for the run"
    )
    parser.add_argument(
        "--gin-param", action="append", default=[], help="as for the run"
    )
    parser.add_argument(
        "--hardware",
        action="append",
        choices=[*HARDWARE, THIS_CPU],
        help="may be repeated (default: the whole table)",
    )
    parser.add_argument(
        "--num-devices", type=whole, default=1, help="(default: %(default)s)"
    )
    parser.add_argument(
        "--micro-batch-size",
        type=int,
        default=0,
        help="examples at once on a device (default: as many as fit)",
    )
    parser.add_argument(
        "--mfu", type=float, help="share of the peak, instead of the table's"
    )
    return parser


def _plan(args: argparse.Namespace) -> None:
    from electra_tf.command_line import gin_files

    if args.mfu is not None and not 0 < args.mfu <= 1:
        raise ValueError(
            f"--mfu must be above 0 and at most 1. Received: {args.mfu}"
        )
    config = typing.cast(
        configs.PretrainingConfig,
        gin_files.load(
            configs.PretrainingConfig, args.gin_file, args.gin_param
        ),
    )
    devices = [
        measured_cpu() if name == THIS_CPU else HARDWARE[name]
        for name in args.hardware or HARDWARE
    ]
    if args.mfu is not None:
        devices = [dataclasses.replace(d, mfu=args.mfu) for d in devices]
    rows = [
        (d, plan(config, d, args.num_devices, args.micro_batch_size))
        for d in devices
    ]
    print(table(config, rows, args.num_devices))


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the plan; returns the exit code."""
    sys.path.insert(0, str(pathlib.Path(__file__).parent / "benchmarks"))
    return arguments.run(_plan, make_parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
