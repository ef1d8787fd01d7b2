"""What `make benchmarks` measured -> the comparisons of docs/performance.md."""

import json
import pathlib

import benchmarking

# Name of a comparison -> file of `make benchmarks`, and its section.
COMPARISONS = {
    "training": ("training", "speed"),
    "finetuning_mrpc": ("finetuning", "mrpc"),
    "finetuning_sst": ("finetuning", "sst"),
    "serving_runtimes": ("serving", "runtimes"),
    "serving_latency": ("serving", "latency"),
}


def read(folder: pathlib.Path) -> dict:
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
            warnings[file] = result["warnings"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"Expected the section {section} of `make benchmarks`. "
                f"Received: {path}: {error!r}"
            ) from error
    return found | {"warnings": warnings}


def blocks(figures: dict) -> dict[str, str]:
    """Name of each comparison, with dashes -> Markdown table."""
    return {
        name.replace("_", "-"): benchmarking.comparison_table(figures[name])
        for name in COMPARISONS
    }
