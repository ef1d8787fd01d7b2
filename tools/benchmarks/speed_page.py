"""Keeps what `make benchmarks` measured, in docs/figures/speed.json.

    python tools/benchmarks/speed_page.py

The tables of docs/performance.md that compare contestants are made of that file
(tools/experiments/documented.py), and so is the picture of the README.
"""

import argparse
import json
import pathlib
import sys

import benchmarking

from electra_tf import files
from electra_tf.command_line import arguments

# Name of a comparison -> file of `make benchmarks`, and its section.
COMPARISONS = {
    "training": ("training", "speed"),
    "finetuning_mrpc": ("finetuning", "mrpc"),
    "finetuning_sst": ("finetuning", "sst"),
    "serving_runtimes": ("serving", "runtimes"),
    "serving_latency": ("serving", "latency"),
}
_DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"


def collect(folder: pathlib.Path) -> dict:
    """The comparisons of all files.

    Args:
      folder: With training.json, finetuning.json and serving.json.

    Raises:
      ValueError: If a file or one of its sections is missing.
    """
    found: dict = {}
    warnings: dict[str, list[str]] = {}
    for name, (file, section) in COMPARISONS.items():
        path = folder / f"{file}.json"
        try:
            result = json.loads(path.read_text("utf-8"))
            found[name] = result[section]
        except (OSError, ValueError, KeyError) as error:
            raise ValueError(
                f"Expected the section {section} of `make benchmarks`. "
                f"Received: {path}: {error!r}"
            ) from error
        warnings[file] = result["warnings"]
    return found | {"warnings": warnings}


def blocks(figures: dict) -> dict[str, str]:
    """Name of each comparison, with dashes -> Markdown table."""
    return {
        name.replace("_", "-"): benchmarking.comparison_table(figures[name])
        for name in COMPARISONS
    }


def _keep(args: argparse.Namespace) -> None:
    figures = collect(args.folder)
    files.write_atomically(args.figures, json.dumps(figures, indent=1) + "\n")
    print(f"written: {args.figures}")


def main(argv=None) -> int:
    """Parses the flags and writes; returns the exit code."""
    parser = arguments.ArgumentParser(prog="speed_page", description=__doc__)
    parser.add_argument(
        "--folder",
        type=pathlib.Path,
        default=pathlib.Path("build/benchmarks"),
        help="what make benchmarks wrote (default: %(default)s)",
    )
    parser.add_argument(
        "--figures",
        default=str(_DOCS / "figures" / "speed.json"),
        help="where the figures go (default: docs/figures/speed.json)",
    )
    return arguments.run(_keep, parser, argv)


if __name__ == "__main__":
    sys.exit(main())
