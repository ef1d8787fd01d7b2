"""Starts one command several times, as the workers of a cluster.

    python tools/launch_local_cluster.py --num_workers=2 -- \\
      electra-tf pretrain --gin_file=gin/small.gin \\
      --distribution_strategy=multi_worker_mirrored

Every process gets its own TF_CONFIG with free ports of this machine. Lines that
they write are passed on behind the number of the worker, signals are passed to
all of them. When one ends with an error the others are stopped, and its exit
code is that of the launcher.
"""

import argparse
import sys

from electra_tf.command_line import arguments
from electra_tf.training import local_cluster


def main(argv=None) -> int:
    """Starts the workers; returns the exit code."""
    parser = arguments.ArgumentParser("launch_local_cluster", __doc__)
    add = parser.add_argument
    whole, line = arguments.positive_int, "processes to start"
    add("--num-workers", type=whole, required=True, help=line)
    line = "-- and the command of every worker"
    add("command", nargs=argparse.REMAINDER, help=line)
    argv = list(sys.argv[1:] if argv is None else argv)
    # What follows -- is the command's, underscores and all.
    split = argv.index("--") if "--" in argv else len(argv)
    command = argv[split + 1 :]

    def launch(args) -> int:
        if not command or args.command:
            raise ValueError(
                "Expected a command after --, such as: --num_workers=2 -- "
                "electra-tf pretrain --gin_file=run.gin"
            )
        return local_cluster.run(args.num_workers, command)

    return arguments.run(launch, parser, argv[:split])


if __name__ == "__main__":
    sys.exit(main())
