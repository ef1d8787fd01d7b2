"""metrics.jsonl: what a run logged, and which evaluation was best."""

import contextlib
import json
import math
import os
from collections.abc import Sequence

from electra_tf import files

# Of every line.
_LOGGED = {"step", "split"}


def begin(path: str, first_step: int) -> None:
    """Drops the lines of later steps.

    A run that was killed and goes on from an earlier checkpoint writes them
    again; at step 0 all of them, with that of the evaluation before training.
    """
    kept = [r for r in read(path) if r["step"] <= first_step and first_step]
    lines = (json.dumps(record) + "\n" for record in kept)
    files.write_atomically(path, "".join(lines))


def best_evaluation(
    records: Sequence[dict], metric: str
) -> tuple[dict | None, int]:
    """The best of the evaluations on held-out examples, and how many followed.

    Args:
      records: Of `read`, in order.
      metric: Lower is better where its name ends in "loss".

    Returns:
      The first record that was as good, None if none has the metric; and the
      number of evaluations after it.
    """
    best, num_since = None, 0
    for record in records:
        if record["split"] != "heldout":
            continue
        num_since += 1
        other = best[metric] if best else math.nan
        if metric in record and is_better(metric, record[metric], other):
            best, num_since = record, 0
    return best, num_since


def is_better(metric: str, value: float, other: float) -> bool:
    """Whether a value is better than another; NaN is the worst."""
    if math.isnan(value) or math.isnan(other):
        return not math.isnan(value)
    return value < other if metric.endswith("loss") else value > other


def read(path: str) -> list[dict]:
    """Lines of a metrics.jsonl, without those that are cut short or damaged."""
    if not os.path.exists(path):
        return []
    records = []
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            with contextlib.suppress(json.JSONDecodeError):
                records.append(json.loads(line))
    return [
        record
        for record in records
        if isinstance(record, dict)
        and record.keys() >= _LOGGED
        and type(record["step"]) is int
    ]
