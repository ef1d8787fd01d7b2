"""Joins the test predictions of several runs for the GLUE benchmark.

    python tools/make_glue_submission.py --output=submission.zip \\
        models/cola models/rte models/mnli

Each model directory is one of electra_tf.run_finetuning on a task of GLUE whose
test file was in place; of several trials the one that was best on dev counts.
Says which of the benchmark's files are still missing.
"""

import sys

from electra_tf.command_line import arguments
from electra_tf.finetuning import predictions


def main(argv=None) -> int:
    """Parses the flags and writes the archive; returns the exit code."""
    parser = arguments.ArgumentParser("make_glue_submission", __doc__)
    add = parser.add_argument
    add("model_dirs", nargs="+", help="directories of fine-tuning runs")
    add("--output", required=True, help="the zip to write")
    return arguments.run(_make, parser, argv)


def _make(args) -> None:
    included, missing = predictions.write_archive(args.output, args.model_dirs)
    print(f"{args.output}: {', '.join(included)}")
    if missing:
        print(f"missing for a whole submission: {', '.join(missing)}")


if __name__ == "__main__":
    sys.exit(main())
