"""The results of runs with and without pre-training, as a Markdown table.

  python3 tools/experiments/results_table.py --runs-dir=build/results/runs

Reads <runs-dir>/<task>/{from_scratch,pretrained,pretrained_decay}/results.json,
as run_results.sh leaves them. The difference is that of the first two; it is
marked where it is larger than both standard deviations together.
"""

import argparse
import json
import pathlib
import sys

from electra_tf import model_directory
from electra_tf.command_line import arguments

_STARTS = ("from_scratch", "pretrained", "pretrained_decay")
_HEADER = ["task", "split", "rows", "metric", "baseline"]
_HEADER += ["from scratch", "pre-trained", "difference", "with decay"]
_NAMES = {
    "mcc": "Matthews' correlation",
    "spearman": "Spearman's correlation",
    "exact": "exact match",
    "macro_f1": "macro F1",
    "f1": "F1",
}


def read_runs(runs_dir: pathlib.Path) -> dict[str, dict[str, dict]]:
    """Task -> start -> what results.json holds.

    Raises:
      ValueError: If there is none, or one of a pair is missing.
    """
    found: dict[str, dict[str, dict]] = {}
    for folder in sorted(path for path in runs_dir.glob("*") if path.is_dir()):
        found[folder.name] = {}
        for start in _STARTS:
            path = folder / start / model_directory.RESULTS_FILE
            if not path.is_file():
                raise ValueError(
                    f"Expected the results of a finished run. Received: {path},"
                    " which does not exist."
                )
            found[folder.name][start] = json.loads(path.read_text("utf-8"))
    if not found:
        raise ValueError(
            f"Expected folders of tasks. Received: {runs_dir}, which has none."
        )
    return found


def rows(runs: dict[str, dict[str, dict]]) -> list[list[str]]:
    """One row for each task and split, the header first."""
    table = [_HEADER]
    for task, of_task in runs.items():
        pretrained = of_task["pretrained"]
        metric = pretrained["main_metric"]
        for split in pretrained["num_rows"]:
            if f"{metric}_mean" not in pretrained.get(split, {}):
                continue  # "train", or without labels.
            scores = [
                (found[f"{metric}_mean"], found[f"{metric}_stdev"] or 0.0)
                for found in (of_task[start][split] for start in _STARTS)
            ]
            (before, spread_before), (after, spread_after), _ = scores
            difference = f"{after - before:+.1f}"
            if abs(after - before) > spread_before + spread_after:
                difference = f"**{difference}**"
            scratch, ours, decayed = (
                f"{mean:.1f} +- {spread:.1f}" for mean, spread in scores
            )
            baseline = pretrained["baseline"].get(split, {}).get(metric)
            table.append(
                [
                    task,
                    split,
                    f"{pretrained['num_rows'][split]:,}",
                    _NAMES.get(metric, metric),
                    "" if baseline is None else f"{baseline:.1f}",
                    scratch,
                    ours,
                    difference,
                    decayed,
                ]
            )
    return table


def markdown(table: list[list[str]]) -> str:
    """The rows as a Markdown table, columns aligned."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    header, *rows = [
        [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        for row in table
    ]
    rule = ["-" * width for width in widths]
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, rule, *rows))


def _print_table(args: argparse.Namespace) -> None:
    print(markdown(rows(read_runs(args.runs_dir))))


def main() -> int:
    """Prints the table; returns the exit code."""
    parser = arguments.ArgumentParser(prog="results_table", description=__doc__)
    parser.add_argument(
        "--runs-dir",
        type=pathlib.Path,
        default=pathlib.Path("build/results/runs"),
        help="Folder of the tasks' folders (default: %(default)s).",
    )
    return arguments.run(_print_table, parser)


if __name__ == "__main__":
    sys.exit(main())
