"""Pre-trains, fine-tunes and judges the rows of the record table.

  electra-tf quickstart --until=tfrecords
  python tools/experiments/run_records.py --seeds=3

How much can be learned from the docstrings of the installation in a few CPU
minutes? A row (`records.RECORDS`) is one gin file below gin/records for
pre-training and one for fine-tuning on the quickstart's task; data, task,
evaluation and one thread are the same for all. docs/records.md has the rules
and what came out.

Below --output_dir, a run is one model directory,

  <pre-training>/seed_<n>/pretraining
                         /<fine-tuning>

with its log and cost beside it. What is finished is not run again, what was
interrupted goes on. Then every discriminator reads the same corrupted text
(`fixed_corruption`), and --figures gets what was measured.

More seeds of a table that is there, without its runs: what --earlier has is not
run again, and stands beside what is new.

  python tools/experiments/run_records.py --earlier=docs/figures/records.json
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence

import experiment_queue
import experiment_runs
import figure_files
import records
from experiment_runs import Run

from electra_tf.command_line import arguments

_HERE = os.path.dirname(__file__)


def all_runs(
    rows: Sequence[records.Record],
    num_seeds: int,
    output_dir: str,
    earlier: dict | None = None,
) -> list[Run]:
    """All runs, each once: the generator by which all are judged comes first.

    Then the first seed of all rows.

    Args:
      rows: Of the table.
      num_seeds: Of each, from 1.
      output_dir: Where the runs are.
      earlier: Figures (`records.collect`) whose seeds are not run again.
    """
    measured = records.measured_seeds(earlier or {"rows": []})
    judge, *_ = records.runs_of(records.RECORDS[0], 1, output_dir)
    found: dict[str, Run] = {judge.model_dir: judge}
    for seed in range(1, num_seeds + 1):
        for row in rows:
            runs = records.runs_of(row, seed, output_dir)
            if (row.name, seed) not in measured:
                for run in runs:
                    found.setdefault(run.model_dir, run)
    return list(found.values())


def run(args: argparse.Namespace) -> int:
    """Runs what is left and writes the figures; returns the exit code.

    Raises:
      ValueError: If there are no such rows, or no data; or if earlier figures
        are damaged, or of others.
    """
    rows = records.named(args.rows)
    earlier = records.read_earlier(args.earlier) if args.earlier else None
    runs = all_runs(rows, args.seeds, args.output_dir, earlier)
    if args.dry_run:
        experiment_queue.print_commands(runs)
        return 0
    code = 0
    if not args.table_only:
        _require_data(runs)
        code = experiment_queue.execute(runs, args.parallel)
        if code == arguments.EXIT_STOPPED:
            return code
        code = code or _judge(args)
    with figure_files.expecting("figures of finished runs", args.output_dir):
        figures = records.collect(args.output_dir, args.quickstart_dir)
        if earlier is not None:
            figures = records.merged(earlier, figures, args.earlier)
        tables = records.blocks(figures)
    figure_files.write(args.figures, figures)
    for table in tables.values():
        print(f"\n{table}")
    print(f"\nwritten: {args.figures}")
    return code


def _judge(args: argparse.Namespace) -> int:
    """What takes TensorFlow, which would stay in this process.

    Returns:
      An exit code; what failed has said why, and the tables have less.
    """
    commands = [
        ["fixed_corruption.py", f"--output_dir={args.output_dir}"],
        [
            "latent_features.py",
            f"--gin_file={experiment_runs.gin_path('quickstart.gin')}",
            f"--labelled_dir={args.quickstart_dir}/corpus/labelled",
            f"--output={os.path.join(args.output_dir, records.LATENT_FILE)}",
        ],
    ]
    codes = [
        subprocess.run(
            [sys.executable, os.path.join(_HERE, tool), *flags], check=False
        ).returncode
        for tool, *flags in commands
    ]
    return max(codes)


def _require_data(runs: Sequence[Run]) -> None:
    for one in runs:
        data = one.config.data
        if not os.path.exists(data.vocab_file):
            raise ValueError(
                f"Expected the data of {one.title}. Received: no "
                f"{data.vocab_file}; run electra-tf quickstart "
                "--until=tfrecords, or make record"
            )


def main(argv=None) -> int:
    """Runs the command; returns its exit code."""
    parser = arguments.ArgumentParser(prog="run_records", description=__doc__)
    add = parser.add_argument
    add(
        "--rows",
        type=arguments.names,
        default=(),
        help="Some rows, separated by commas (default: all).",
    )
    add(
        "--seeds",
        type=arguments.positive_int,
        default=3,
        help="Seeds 1, 2, ... of pre-training and of the fine-tuning after it "
        "(default: %(default)s).",
    )
    add(
        "--output-dir",
        default="build/records",
        help="Where the runs are (default: %(default)s).",
    )
    add(
        "--quickstart-dir",
        default="build/quickstart",
        help="Of electra-tf quickstart: the labelled texts, and what it "
        "trained (default: %(default)s).",
    )
    add(
        "--earlier",
        help="Figures of the same table, such as docs/figures/records.json: "
        "seeds that they have are not run again, but for the generator by "
        "which all are judged.",
    )
    add(
        "--figures",
        default="build/records/records.json",
        help="Where the figures go (default: %(default)s).",
    )
    experiment_queue.add_flags(parser)
    return arguments.run(run, parser, argv)


if __name__ == "__main__":
    sys.exit(main())
