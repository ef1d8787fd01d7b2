"""Finished runs of a suite -> figures, a table in Markdown and a plot.

A score of a seed is in per cent, and "mean" that over its tasks. Intervals are
Student's at 95 %, over seeds: of three, 2.5 standard deviations to each side.
Differences from the suite's reference are taken seed by seed.
"""

import collections
import math
import statistics
import sys
from collections.abc import Mapping, Sequence

import suite_runs
from suite_runs import Variant
from suites import Suite

from electra_tf import errors
from electra_tf.command_line import charts

# Of pre-training, after the last stage.
_HELDOUT = ("masked_lm_accuracy", "disc_auc", "disc_masked_lm_accuracy")
_CONFIDENCE = 0.95
MEAN = "mean"
# The one score of what has no seeds.
_ANY_SEED = "any"
# Rows are told apart by shape, too.
_MARKERS = "osD^vP*X<>"


def collect(variants: Sequence[Variant], suite: Suite) -> dict:
    """The figures of all runs that are finished.

    Args:
      variants: Rows. Those of which nothing is finished are left out.
      suite: Of the rows.

    Returns:
      What the suite's .json holds: "suite", "source", "reference", "size" (gin
      file), "budget_flops", "tasks" (name -> metric) and "rows", each with
      "row", "num_train_steps" (of each stage), "flops", "heldout" (metric ->
      mean over seeds), and by task, and "mean", "scores" (seed -> score),
      "statistics" and "minus_reference" (see `summary`).

    Raises:
      CheckpointError: If results are damaged.
    """
    rows = [row for v in variants if (row := _row(v, suite))["scores"]]
    by_name = {row["row"]: row["scores"] for row in rows}
    other = by_name.get(suite.reference, {})
    for row in rows:
        row["minus_reference"] = {
            name: figures
            for name in row["scores"].keys() & other.keys()
            if (figures := _difference(row["scores"][name], other[name]))
        }
    return {
        "suite": suite.name,
        "source": suite.source,
        "reference": suite.reference,
        "size": suite.size_gin_file,
        "budget_flops": suite.budget_flops,
        "tasks": {name: task.metric for name, task in suite.tasks.items()},
        "rows": rows,
    }


def _row(variant: Variant, suite: Suite) -> dict:
    scores: dict[str, dict[str, float]] = collections.defaultdict(dict)
    heldout: dict[str, list[float]] = collections.defaultdict(list)
    for seed in suite_runs.seeds_of(suite):
        runs = suite_runs.runs_of(variant, seed, suite)
        for run in filter(_is_of_table, runs):
            if run.task:
                task = suite.tasks[run.task]
                values = run.scores(task.split, task.metric)
                for number, score in enumerate(values, start=seed or 1):
                    name = str(number) if variant.row.gin_file else _ANY_SEED
                    scores[run.task][name] = score
            elif run == runs[len(variant.own_stages) - 1]:  # The last stage.
                for name in run.heldout().keys() & _HELDOUT:
                    heldout[name].append(run.heldout()[name])
    whole = [scores[task] for task in suite.tasks if task in scores]
    if len(whole) == len(suite.tasks):
        scores[MEAN] = {
            seed: statistics.fmean(of_task[seed] for of_task in whole)
            for seed in sorted(set.intersection(*map(set, whole)))
        }
    return {
        "row": variant.row.name,
        "num_train_steps": [s.num_steps for s in variant.own_stages],
        "flops": variant.flops,
        "heldout": {k: statistics.fmean(v) for k, v in heldout.items()},
        "scores": scores,
        "statistics": {
            name: summary(list(values.values()))
            for name, values in scores.items()
            if values
        },
    }


def _is_of_table(run: suite_runs.Run) -> bool:
    try:
        return run.is_finished()
    except errors.ConfigError as error:
        print(f"not in the table: {error}", file=sys.stderr)
        return False


def summary(values: Sequence[float]) -> dict:
    """Mean, sample deviation and Student's interval of the mean.

    Args:
      values: One for each seed.

    Returns:
      "mean", "stdev", "low", "high" and "num_seeds"; all but the mean and the
      number are None for a single value.
    """
    # Takes a while.
    from scipy import stats

    mean, number = statistics.fmean(values), len(values)
    figures = {"mean": mean, "stdev": None, "low": None, "high": None}
    if number > 1:
        stdev = statistics.stdev(values)
        quantile = stats.t.ppf((1 + _CONFIDENCE) / 2, number - 1)
        half = float(quantile) * stdev / math.sqrt(number)
        figures |= {"stdev": stdev, "low": mean - half, "high": mean + half}
    return figures | {"num_seeds": number}


def _difference(
    scores: Mapping[str, float], other: Mapping[str, float]
) -> dict | None:
    """Over the seeds that both have; what has none is compared with all."""
    fixed = other.get(_ANY_SEED)
    pairs = [(s, other.get(seed, fixed)) for seed, s in scores.items()]
    gaps = [own - other for own, other in pairs if other is not None]
    return summary(gaps) if gaps else None


def markdown(results: dict) -> str:
    """The figures as text, without columns of which nothing is known."""
    size = f" Sizes of `{results['size']}`." if results["size"] else ""
    title = "Steps of the gin files"
    if budget := results["budget_flops"]:
        title = f"{suite_runs.budget_name(budget)} FLOPs a row"
    tasks = results["tasks"]
    names = [f"{task}, {metric}" for task, metric in tasks.items()]
    minus = f"{MEAN} minus {results['reference']}"
    table = [["row", "seeds", MEAN, minus, *names, *_HELDOUT, "steps", "FLOPs"]]
    for row in results["rows"]:
        figures = row["statistics"]
        seeds = {str(f["num_seeds"]) for f in figures.values()}
        known = {k: f"{v:.3f}" for k, v in row["heldout"].items()}
        is_reference = row["row"] == results["reference"]
        ahead = None if is_reference else row["minus_reference"].get(MEAN)
        table.append(
            [
                row["row"],
                ", ".join(sorted(seeds)),
                spread(figures.get(MEAN)),
                difference(ahead),
                *(spread(figures.get(task)) for task in tasks),
                *(known.get(name, "") for name in _HELDOUT),
                " + ".join(f"{steps:,}" for steps in row["num_train_steps"]),
                f"{row['flops']:.3g}".replace("e+", "e"),
            ]
        )
    columns = [c for c in zip(*table, strict=True) if any(c[1:])]
    widths = [max(map(len, column)) for column in columns]
    header, *rest = [
        [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        for row in zip(*columns, strict=True)
    ]
    rule = ["-" * width for width in widths]
    lines = [
        f"# {results['suite']}: {results['source']}",
        "",
        "Per cent: mean and standard deviation over seeds, in brackets 95 % "
        "intervals of the mean (Student's t over seeds). Differences are taken "
        f"seed by seed, and bold where the interval does not hold 0.{size}",
        *("", f"## {title}", ""),
        *(f"| {' | '.join(row)} |" for row in (header, rule, *rest)),
    ]
    return "\n".join(lines) + "\n"


def spread(figures: dict | None) -> str:
    """Of a `summary`: '61.2 +- 0.8 [60.1, 62.3]', or '61.2' of one seed."""
    if not figures or figures["low"] is None:
        return f"{figures['mean']:.1f}" if figures else ""
    low, high = figures["low"], figures["high"]
    spread = f"{figures['mean']:.1f} +- {figures['stdev']:.1f}"
    return f"{spread} [{low:.1f}, {high:.1f}]"


def difference(figures: dict | None) -> str:
    """Likewise '-1.6 [-4.5, +1.3]', bold where that does not hold 0."""
    if not figures or figures["low"] is None:
        return f"{figures['mean']:+.1f}" if figures else ""
    low, high = figures["low"], figures["high"]
    text = f"{figures['mean']:+.1f} [{low:+.1f}, {high:+.1f}]"
    return f"**{text}**" if low * high > 0 else text


def draw(results: dict, path: str) -> None:
    """Draws the mean, and scores by task, with their intervals.

    Args:
      results: Of `collect`.
      path: A .png, or what else matplotlib writes.
    """
    names = [MEAN, *results["tasks"]]
    picture, axes = charts.new_figure(3 + 1.1 * len(names), 4.6)
    picture.patch.set_visible(True)
    num_rows = len(results["rows"])
    for number, row in enumerate(results["rows"]):
        offset = 0.6 * ((number + 0.5) / num_rows - 0.5)
        points = {
            place + offset: row["statistics"][name]
            for place, name in enumerate(names)
            if name in row["statistics"]
        }
        means = [of["mean"] for of in points.values()]
        # A single seed has no interval.
        highest = [of["high"] for of in points.values()]
        bars = [
            0.0 if high is None else high - mean
            for high, mean in zip(highest, means, strict=True)
        ]
        shape = _MARKERS[number % len(_MARKERS)]
        axes.errorbar(
            [*points], means, bars, fmt=shape, capsize=3, label=row["row"]
        )
    axes.set_xticks(range(len(names)), names)
    axes.set_ylabel("per cent")
    # Intervals of two seeds may be much longer than any score.
    low, high = axes.get_ylim()
    axes.set_ylim(max(low, -10.0), min(high, 101.0))
    axes.grid(color="0.9", linewidth=0.8)
    picture.legend(loc="outside lower center", ncols=4, frameon=False)
    picture.suptitle(f"{results['suite']}: {results['source']}", fontsize=11)
    picture.savefig(path, dpi=110)
