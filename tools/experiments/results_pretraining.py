"""Pre-trains a model of docs/results.md, and keeps what it costs.

  python3 tools/experiments/results_pretraining.py english

That is run_pretraining with gin/results/<model>.gin. Its log and its CPU
seconds are beside its model directory. What is finished is not run again, and
what was interrupted goes on.
"""

import argparse
import sys

import experiment_queue
import experiment_runs

from electra_tf import configs
from electra_tf.command_line import arguments
from electra_tf.command_line import gin_files as gin_files_lib

# Name, of its gin file and of its folder -> title.
MODELS = {"english": "English", "korean": "Korean"}


def run_of(model: str) -> experiment_runs.Run:
    """The pre-training of one of `MODELS`."""
    path = experiment_runs.gin_path(f"results/{model}.gin")
    config = gin_files_lib.load(configs.PretrainingConfig, [path])
    return experiment_runs.make_run(
        f"{model} pre-training",
        ((path,), (), config),
        config.run.seed,
        config.run.model_dir,
        {},
        "pretraining",
        1.0,
    )


def _run(args: argparse.Namespace) -> int:
    runs = [run_of(args.model)]
    if args.dry_run:
        experiment_queue.print_commands(runs)
        return 0
    return experiment_queue.execute(runs, 1)


def main(argv=None) -> int:
    """Runs the command; returns its exit code."""
    parser = arguments.ArgumentParser(
        prog="results_pretraining", description=__doc__
    )
    parser.add_argument("model", choices=list(MODELS), help="Which one.")
    parser.add_argument(
        "--dry-run", action="store_true", help="Only say what would be run."
    )
    return arguments.run(_run, parser, argv)


if __name__ == "__main__":
    sys.exit(main())
