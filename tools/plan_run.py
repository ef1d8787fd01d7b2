"""Predicts what a pre-training run costs before it is started.

    electra-tf plan --gin_file=gin/large.gin --hardware=a100 \
        --num_devices=8

prints FLOPs, memory per device, all-reduce traffic, step time and days. What
the run computes and sends in is `RunConfig.dtype_policy` and
`RunConfig.gradient_reduction_dtype`. Without
--hardware every device of the table is listed; --hardware=this_cpu measures
the matrix product rate of the machine that it runs on, in the run's dtype.

A prediction is arithmetic: matrix products at an assumed share (MFU) of the
device's public peak, gradients over the link between the devices at its public
rate, not hidden behind the computation. The shares are assumptions, not
measurements of ours. For this_cpu the share is what
docs/explain/performance.md has from tools/benchmarks/bench.py.
"""

import argparse
import sys

from electra_tf import configs
from electra_tf.command_line import arguments
from electra_tf.training import plan


def _plan(args: argparse.Namespace) -> None:
    from electra_tf.command_line import fastest, gin_files

    config = gin_files.load(
        configs.PretrainingConfig, args.gin_file, args.gin_param
    )
    run = config.run
    if plan.THIS_CPU in (args.hardware or ()):
        step_flops = fastest.pretraining_step(config)["step_flops"]
        run, chosen = fastest.settle(run, step_flops=step_flops)
        if chosen:
            print(chosen)
    rows = [
        (d, plan.plan(config, d, args.num_devices, args.micro_batch_size))
        for d in plan.devices(
            args.hardware, config.run.dtype_policy, run.dtype_policy
        )
    ]
    print(plan.table(config, rows, args.num_devices))


def main(argv=None) -> int:
    """Prints the plan; returns the exit code."""
    parser = arguments.ArgumentParser("electra-tf plan", __doc__)
    add = parser.add_argument
    whole = arguments.positive_int
    arguments.add_gin(parser, required=True)
    known = [*plan.HARDWARE, plan.THIS_CPU]
    line = "may be repeated (default: the whole table)"
    add("--hardware", action="append", choices=known, help=line)
    add("--num-devices", type=whole, default=1, help="devices (default 1)")
    line = "examples at once on a device (default: "
    line += "RunConfig.micro_batch_size, or as many as fit)"
    add("--micro-batch-size", type=whole, default=0, help=line)
    return arguments.run(_plan, parser, argv)


if __name__ == "__main__":
    sys.exit(main())
