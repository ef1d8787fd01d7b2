"""Writes what a quickstart run found: a page to look at and a summary.

python tools/quickstart/write_report.py --build_dir=build/quickstart

reads the model directories pretrain, finetune_pretrained and
finetune_from_scratch and the files seconds/<stage> below --build_dir, and
writes there

  report.html    one page that needs no network: curves, scores, a confusion
                 matrix, held-out sentences with the discriminator's verdicts
  summary.json   the figures: heldout, classifier, seconds
"""

import os
import sys
import time

import quickstart_charts
import quickstart_figures
import report_page

from electra_tf import files
from electra_tf.command_line import arguments

REPORT_FILE = "report.html"
SUMMARY_FILE = "summary.json"
# Held-out examples that are judged.
_NUM_EXAMPLES = 256


def main(argv=None) -> int:
    """Parses the flags and writes the report; returns the exit code."""
    parser = arguments.ArgumentParser(prog="write_report", description=__doc__)
    parser.add_argument(
        "--build-dir", required=True, help="directory of a quickstart run"
    )
    # Without a GPU, which is not used here, TensorFlow prints a CUDA error.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    return arguments.run(_write_report, parser, argv)


def _write_report(args) -> None:
    started_at = time.monotonic()
    build = quickstart_figures.read_build(args.build_dir)
    from absl import logging

    logging.set_verbosity(logging.WARNING)
    # Imports TensorFlow: late, so that what is missing shows at once.
    import heldout_sentences

    examples, num_parameters = heldout_sentences.detect_heldout(
        os.path.join(args.build_dir, "pretrain"), _NUM_EXAMPLES
    )
    charts = quickstart_charts.draw_charts(build)
    build.seconds["report"] = round(time.monotonic() - started_at, 2)
    page = report_page.render(build, examples, num_parameters, charts)
    summary_path = os.path.join(args.build_dir, SUMMARY_FILE)
    files.write_json(summary_path, quickstart_figures.summarize(build))
    report_path = os.path.join(args.build_dir, REPORT_FILE)
    files.write_atomically(report_path, page)
    print(quickstart_figures.in_short(build))
    print(f"report: {report_path}\nsummary: {summary_path}")


if __name__ == "__main__":
    sys.exit(main())
