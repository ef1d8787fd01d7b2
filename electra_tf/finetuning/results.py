"""The scores of a run's models -> summary, and a table to read."""

import collections
import json
import os
import statistics
import typing
from collections.abc import Iterable, Mapping, Sequence

from electra_tf import errors, model_directory
from electra_tf.command_line.text_lines import display_width
from electra_tf.files import read_json, write_atomically
from electra_tf.finetuning.task_data import TaskData

# Metrics of a split in the table, and those that are no scores.
_MOST_METRICS = 3
_NOT_SHOWN = ("loss", "total")

_SETTINGS = ("learning_rate", "num_train_epochs")


def summarize(
    parts: Sequence[Sequence[TaskData]],
    records: Sequence[dict],
    from_scratch: bool,
    row_facts: Mapping[str, dict] | None = None,
    best_on_dev: int | None = None,
) -> dict:
    """What results.json holds.

    A trial that another one repeats with a new seed is listed, but does not
    count in means and medians.

    Args:
      parts: The sets of all tasks, for each fold; once without folds.
      records: Of `finetune.run_trial`, in order.
      from_scratch: Whether the encoder began with random weights.
      row_facts: Task name -> what is said of its rows.
      best_on_dev: The trial that was chosen before; None to choose it.

    Returns:
      "trials", the records; "best_on_dev", the number of the trial with the
      highest mean of main metrics there among those of the best setting;
      "settings", of each rate and number of epochs the trials and the scores,
      the best on dev first. Under "tasks", for each task its description,
      "num_rows", "baseline", split -> <metric>_mean, _median, _stdev, _min and
      _max over the trials of the best setting, and "report": see `_report`. Of
      a single task all this is at the top; see docs/reference/outputs.md.
    """
    tasks = {data.task.name: data for data in parts[0]}

    def dev_score(record: dict) -> float:
        """The mean over the tasks, -1000 for a score that is no number."""
        scores = [
            record["tasks"][name].get("dev", {}).get(data.task.main_metric)
            for name, data in tasks.items()
        ]
        return statistics.fmean(-1e3 if s is None else s for s in scores)

    replaced = {r["replaces"] for r in records if "replaces" in r}
    groups = collections.defaultdict(list)
    for record in records:
        if record["trial"] not in replaced:
            groups[tuple(record[name] for name in _SETTINGS)].append(record)
    ranked = sorted(
        groups.values(),
        key=lambda group: -statistics.fmean(map(dev_score, group)),
    )
    best = max(ranked[0], key=dev_score)
    if best_on_dev is not None:
        best = next(r for r in records if r["trial"] == best_on_dev)
    trials = [
        {key: value for key, value in record.items() if key != "reports"}
        for record in records
    ]
    settings = [
        {name: group[0][name] for name in _SETTINGS}
        | {"trials": [r["trial"] for r in group]}
        | {"tasks": {name: _statistics(group, name) for name in tasks}}
        for group in ranked
    ]
    summaries = {
        name: {"task": name, "main_metric": data.task.main_metric}
        | data.task.description()
        | data.text_options()
        | _num_rows(data, parts)
        | (row_facts or {}).get(name, {})
        | {"baseline": _baseline([part[i] for part in parts])}
        | _statistics(ranked[0], name)
        | _report(name, best)
        for i, (name, data) in enumerate(tasks.items())
    }

    def lifted(record: dict) -> dict:
        """What the only task has is at the top."""
        if len(tasks) > 1:
            return record
        (task_results,) = record["tasks"].values()
        return {k: v for k, v in record.items() if k != "tasks"} | task_results

    summary = {
        "from_scratch": from_scratch,
        "trials": [*map(lifted, trials)],
        "best_on_dev": best["trial"],
        "degenerate_trials": [r["trial"] for r in records if r["degenerate"]],
        "replaced_trials": sorted(replaced),
    }
    if len(ranked) > 1:
        summary["settings"] = [*map(lifted, settings)]
    return lifted(summary | {"tasks": summaries})


def _num_rows(data: TaskData, parts: Sequence[Sequence[TaskData]]) -> dict:
    if len(parts) == 1:
        return {"num_rows": data.num_rows}
    whole = sum(len(part[0].examples["dev"]) for part in parts)
    num_rows = data.num_rows | {"train": whole, "dev": whole}
    return {"num_rows": num_rows, "num_folds": len(parts)}


def _report(name: str, best: dict) -> dict:
    """Split -> what `tasks.reports` says of its rows and the best trial, and
    "trial", its number."""
    by_split = best["reports"].get(name, {})
    number = {"trial": best["trial"]}
    report = {split: number | of for split, of in by_split.items()}
    return {"report": report} if report else {}


def _by_split(records: Iterable[dict[str, dict]]) -> dict[str, dict[str, list]]:
    """Split -> metric -> scores of all that have one, in order."""
    values: dict = collections.defaultdict(
        lambda: collections.defaultdict(list)
    )
    for by_split in records:
        for split, scores in by_split.items():
            for metric, score in scores.items():
                if score is not None:
                    values[split][metric].append(score)
    return values


def _statistics(records: Iterable[dict], task: str) -> dict:
    """Split -> <metric>_mean and so on; the spread is that of a sample."""
    values = _by_split(record["tasks"][task] for record in records)
    return {
        split: {
            f"{metric}_{name}": value
            for metric, scores in split_scores.items()
            for name, value in (
                ("mean", statistics.fmean(scores)),
                ("median", statistics.median(scores)),
                ("stdev", statistics.stdev(scores) if scores[1:] else None),
                ("min", min(scores)),
                ("max", max(scores)),
            )
        }
        for split, split_scores in values.items()
    }


def _baseline(parts: Sequence[TaskData]) -> dict:
    """Scores of a model that reads no text, means over the folds."""
    if any("train" not in data.examples for data in parts):
        return {"name": ""}
    baselines = [
        data.task.baseline(
            data.examples["train"],
            {
                split: rows
                for split, rows in data.examples.items()
                if split != "train" and split in data.labelled
            },
        )
        for data in parts
    ]
    name = baselines[0]["name"]
    if parts[1:]:  # The answer of no single fold.
        whole = parts[0].examples
        rows = [*whole["train"], *whole["dev"]]
        name = parts[0].task.baseline(rows, {})["name"]
    values = _by_split(
        {k: v for k, v in b.items() if k != "name"} for b in baselines
    )
    return {"name": name} | {
        split: {metric: statistics.fmean(of) for metric, of in scores.items()}
        for split, scores in values.items()
    }


# --- Files -------------------------------------------------------------------


def write(directory: str, results: dict) -> None:
    """Writes results.json and, of the same, results.txt."""
    for name, content in (
        (model_directory.RESULTS_FILE, json.dumps(results, indent=1)),
        (model_directory.TABLE_FILE, format_results(results)),
    ):
        write_atomically(os.path.join(directory, name), content + "\n")


def read(model_dir: str, advice: str = "") -> dict:
    """results.json of a finished run; `advice` closes the error without one.

    Raises:
      ValueError: If there is none, or it is damaged or of no fine-tuning.
    """
    path = os.path.join(model_dir, model_directory.RESULTS_FILE)
    if not os.path.isfile(path):
        raise errors.ConfigError(
            f"Expected a finished fine-tuning run in {model_dir}, found no "
            f"{model_directory.RESULTS_FILE} there{advice}"
        )
    return read_json(path, ("best_on_dev",), trials=list[dict], best_on_dev=int)


def read_of_trial(directory: str) -> dict:
    """results.json of a finished trial.

    Raises:
      CheckpointError: If it is damaged or of another trial.
    """
    path = os.path.join(directory, model_directory.RESULTS_FILE)
    needed = ("trial", "degenerate", "tasks", *_SETTINGS)
    return read_json(
        path, needed, trial=int, degenerate=list, tasks=dict[str, dict]
    )


# --- What a person reads -----------------------------------------------------


def tasks_of(results: dict) -> dict[str, dict]:
    """Task name -> what `summarize` says of it, as it does of several."""
    return results.get("tasks") or {results["task"]: results}


def scores_of(record: dict, name: str) -> dict:
    """What a trial, or a setting, has for a task, by split."""
    return record["tasks"][name] if "tasks" in record else record


def counted_trials(results: dict) -> list[int]:
    """Numbers of the trials that means are over: those of the best setting."""
    if "settings" in results:
        return results["settings"][0]["trials"]
    numbers = [trial["trial"] for trial in results["trials"]]
    return [n for n in numbers if n not in results["replaced_trials"]]


def format_results(results: dict) -> str:
    """The results as tables of text, without a line end at the end."""
    lines = []
    for name in tasks_of(results):
        table = score_table(results, name)
        lines += [table.title, *_aligned([table.header, *table.rows]), ""]
    return "\n".join([*lines, *remarks(results)]).rstrip("\n")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines: the first column to the left, the others to the right."""
    columns = []
    for number, column in enumerate(zip(*rows, strict=True)):
        width = max(map(display_width, column))
        blanks = [" " * (width - display_width(cell)) for cell in column]
        pairs = zip(column, blanks, strict=True)
        columns.append([c + b if number == 0 else b + c for c, b in pairs])
    return [
        f"  {'  '.join(cells)}".rstrip() for cells in zip(*columns, strict=True)
    ]


def confusions(
    labels: Sequence[str], counts: Sequence[Sequence[int]]
) -> list[tuple[int, str, str]]:
    """How often, the true label, the predicted: of each mistake, most first.

    Args:
      labels: C names.
      counts: For each true label how often each one was predicted.
    """
    wrong = (
        (count, true, predicted)
        for true, row in zip(labels, counts, strict=True)
        for predicted, count in zip(labels, row, strict=True)
        if count and true != predicted
    )
    return sorted(wrong, key=lambda mistake: -mistake[0])


class ScoreTable(typing.NamedTuple):
    """A row for each trial, then their summary; below what was trained on."""

    title: str
    header: list[str]
    rows: list[list[str]]


def score_table(results: dict, name: str) -> ScoreTable:
    """The scores of a task."""
    task_results, trials = tasks_of(results)[name], results["trials"]
    main = task_results["main_metric"]
    columns = [
        (split, metric)
        for split, scores in scores_of(trials[0], name).items()
        if isinstance(scores, dict)
        for metric in [
            main,
            *(m for m in scores if m not in (main, *_NOT_SHOWN)),
        ][:_MOST_METRICS]
    ]
    settings = [
        key
        for key in ("fold", *_SETTINGS)
        if len({trial.get(key) for trial in trials}) > 1
    ]
    header = ["", "seed", *settings, *(" ".join(c) for c in columns)]

    def row(label, scores, cells=(), kind=""):
        cells = cells or [""] * (1 + len(settings))
        values = (scores.get(s, {}).get(m + kind) for s, m in columns)
        return [label, *cells, *map(_number, values)]

    rows = [
        row(
            f"trial {trial['trial']}",
            scores_of(trial, name),
            [str(trial["seed"]), *(f"{trial[key]:g}" for key in settings)],
        )
        for trial in trials
    ]
    groups = results.get("settings", [])
    for group in groups:
        label = f"mean of {_setting(group)}"
        rows.append(row(label, scores_of(group, name), kind="_mean"))
    for kind in ("mean", "stdev", "median") if len(trials) > 1 else ():
        label = f"{kind} of the best on dev" if groups else kind
        rows.append(row(label, task_results, kind=f"_{kind}"))
    baseline = task_results["baseline"]
    if baseline["name"]:
        rows.append(row(baseline["name"], baseline))
    num_rows = task_results["num_rows"]
    title = ", ".join(f"{count} rows of {s}" for s, count in num_rows.items())
    if "train" in num_rows:
        title = f"{num_rows['train']} training rows"
    if "num_folds" in task_results:
        title += (
            f" in {task_results['num_folds']} folds, each of them scored once"
        )
    if results["from_scratch"]:
        title += ", from random weights"
    return ScoreTable(f"{name}: {title}", header, rows)


def _setting(group: dict) -> str:
    rate, epochs = group["learning_rate"], group["num_train_epochs"]
    return f"rate {rate:g}, {epochs:g} epoch{'s' * (epochs != 1)}"


def remarks(results: dict) -> list[str]:
    """What the figures do not say by themselves."""
    trials, best = results["trials"], results["best_on_dev"]
    lines = [
        f"{name}: {counts['line']}"
        for name, task_results in tasks_of(results).items()
        for split, counts in task_results.get("copies", {}).items()
        if split != "train" and "line" in counts
    ]
    for name, task_results in tasks_of(results).items():
        metric, baseline = task_results["main_metric"], task_results["baseline"]
        score = task_results.get("dev", {}).get(f"{metric}_mean")
        least = baseline.get("dev", {}).get(metric)
        if None not in (score, least) and score <= least:
            rate, epochs = (max(t[key] for t in trials) for key in _SETTINGS)
            advice = " --num_train_epochs=10" * (epochs < 10)
            advice += f" --learning_rate={3 * rate:g}" * (rate < 1e-3)
            lines.append(
                f"{name}: no better on dev than the same answer to all: try"
                + (advice or " other rows, as rate and epochs are high")
            )
    if "fold" in trials[0]:
        lines.append(
            f"report the mean over the folds; trial {best}, whose fold went "
            "best, is what exporting takes"
        )
    elif len(trials) > 1:
        lines.append(
            f"best on dev: trial {best}, chosen on dev among {len(trials)}, so "
            "its score there is optimistic"
        )
    if "settings" in results:
        setting = _setting(results["settings"][0])
        lines.append(f"best setting on dev: {setting}; optimistic, too")
    repeated = {trial.get("replaces"): trial["trial"] for trial in trials}
    for trial in trials:
        number, best_step = trial["trial"], trial.get("best_step", "")
        if best_step is None:
            lines.append(
                f"trial {number} has the last weights, as no score on dev was "
                "a number"
            )
        elif best_step:
            lines.append(
                f"trial {number} has the weights of step {best_step}, the best "
                f"on dev, of {trial['last_step']}; its scores on dev are "
                "optimistic"
            )
        if trial["degenerate"]:
            advice = (
                "try another seed (--reseed_degenerate), a lower learning rate "
                "or more epochs"
            )
            if again := repeated.get(number):
                advice = f"trial {again} repeats it, and counts in its place"
            lines.append(
                f"trial {number} is degenerate: it says the same of every row "
                f"of the dev set of {', '.join(trial['degenerate'])}; {advice}"
            )
    return lines
