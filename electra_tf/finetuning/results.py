"""The scores of a run's models -> summary, and a table to read."""

import collections
import json
import os
import statistics
import typing
from collections.abc import Iterable, Mapping, Sequence

from electra_tf import errors, model_directory
from electra_tf.command_line.text_lines import display_width
from electra_tf.files import check_fields, read_json, write_atomically
from electra_tf.finetuning import copies
from electra_tf.finetuning.task_data import TaskData
from electra_tf.tasks import reports

# Metrics of a split in the table, and those that are no scores.
_MOST_METRICS = 3
_NOT_SHOWN = ("loss", "total")
# Of more labels those with the lowest F1 are in the table.
_MOST_LABELS = 30
# A matrix of more labels is a list of what is confused most often.
_MOST_IN_MATRIX = 12
_MOST_CONFUSIONS = 15

_SETTINGS = ("learning_rate", "num_train_epochs")


def summarize(
    parts: Sequence[Sequence[TaskData]],
    records: Sequence[dict],
    from_scratch: bool,
    about_data: Mapping[str, dict] | None = None,
    best_on_dev: int | None = None,
) -> dict:
    """What results.json holds.

    A trial that another one repeats with a new seed is listed, but does not
    count in means and medians.

    Args:
      parts: The sets of all tasks, for each fold; once without folds.
      records: Of `trials.run_trial`, in order.
      from_scratch: Whether the encoder began with random weights.
      about_data: Task name -> what is said of its rows.
      best_on_dev: The trial that was chosen before; None to choose it.

    Returns:
      "from_scratch"; "trials", the records without their "reports";
      "best_on_dev", the number of the trial with the highest score there (the
      mean over the tasks' main metrics) among those of the best setting;
      "degenerate_trials" and "replaced_trials", their numbers; "settings", one
      entry for each learning rate and number of epochs with its trials and its
      scores, the best on dev first, if there are several.
      Then under "tasks", for each task: its description, what
      `TaskData.of_texts` returns, "main_metric", "num_rows", what `about_data`
      has, "baseline" (its name and its scores by split), and for each split
      <metric>_mean, _median, _stdev, _min and _max
      over the trials of the best setting; then "report", split -> what
      `tasks.reports` says of its rows, and "trials", whose answers these are:
      on "dev" of all folds together, otherwise of the trial "best_on_dev".
      There is none for tasks without classes. Of a single task all this is at
      the top, and its scores are in the trials themselves.
    """
    tasks = {data.task.name: data for data in parts[0]}
    main_metrics = {name: data.task.main_metric for name, data in tasks.items()}
    replaced = {r["replaces"] for r in records if "replaces" in r}
    counted = [r for r in records if r["trial"] not in replaced]
    groups = collections.defaultdict(list)
    for record in counted:
        groups[tuple(record[name] for name in _SETTINGS)].append(record)
    ranked = sorted(
        groups.values(),
        key=lambda group: statistics.fmean(
            _dev_score(r, main_metrics) for r in group
        ),
        reverse=True,
    )
    best = max(ranked[0], key=lambda r: _dev_score(r, main_metrics))
    if best_on_dev is not None:
        best = next(r for r in counted if r["trial"] == best_on_dev)
    found: dict = {
        "from_scratch": from_scratch,
        "trials": [
            {key: value for key, value in record.items() if key != "reports"}
            for record in records
        ],
        "best_on_dev": best["trial"],
        "degenerate_trials": [r["trial"] for r in records if r["degenerate"]],
        "replaced_trials": sorted(replaced),
        "tasks": {},
    }
    if len(ranked) > 1:
        found["settings"] = [
            {name: group[0][name] for name in _SETTINGS}
            | {"trials": [r["trial"] for r in group]}
            | {"tasks": {name: _summary(group, name) for name in tasks}}
            for group in ranked
        ]
    for name, data in tasks.items():
        of_task: dict = {"task": name, "main_metric": data.task.main_metric}
        of_task |= data.task.description() | data.of_texts()
        of_task["num_rows"] = data.num_rows
        if len(parts) > 1:
            of_task["num_folds"] = len(parts)
            examples = sum(len(part[0].examples["dev"]) for part in parts)
            of_task["num_rows"] = data.num_rows | {
                "train": examples,
                "dev": examples,
            }
        of_task |= (about_data or {}).get(name, {})
        of_task["baseline"] = _baseline(parts, name)
        of_task |= _summary(ranked[0], name)
        report = _report(name, best, ranked[0])
        found["tasks"][name] = of_task | ({"report": report} if report else {})
    return _flat(found)


def _report(name: str, best: dict, group: Sequence[dict]) -> dict:
    """Split -> report of a task by the best trial, or by all folds."""
    found = {}
    for split in best["reports"].get(name, ()):
        records = group if split == "dev" and "fold" in best else [best]
        found[split] = {"trials": [record["trial"] for record in records]}
        found[split] |= reports.pooled(
            [record["reports"][name][split] for record in records]
        )
    return found


def _dev_score(record: dict, main_metrics: dict[str, str]) -> float:
    """The mean over the tasks, -1000 for a score that is no number."""
    scores = [
        record["tasks"][name].get("dev", {}).get(metric)
        for name, metric in main_metrics.items()
    ]
    return statistics.fmean(-1e3 if s is None else s for s in scores)


def _flat(found: dict) -> dict:
    """Brings what a single task has to the top."""
    if len(found["tasks"]) > 1:
        return found

    def lift(record: dict) -> dict:
        record = dict(record)
        (of_task,) = record.pop("tasks").values()
        return record | of_task

    found = lift(found)
    for key in ("trials", "settings"):
        if key in found:
            found[key] = [lift(record) for record in found[key]]
    return found


def _by_split(found: Iterable[dict[str, dict]]) -> dict[str, dict[str, list]]:
    """Split -> metric -> scores of all that have one, in order."""
    values: dict = collections.defaultdict(
        lambda: collections.defaultdict(list)
    )
    for of_splits in found:
        for split, scores in of_splits.items():
            for metric, score in scores.items():
                if score is not None:
                    values[split][metric].append(score)
    return values


def _summary(records: Iterable[dict], task: str) -> dict:
    """Split -> <metric>_mean and so on; the spread is that of a sample."""
    found: dict = collections.defaultdict(dict)
    values = _by_split(record["tasks"][task] for record in records)
    for split, of_split in values.items():
        for metric, scores in of_split.items():
            spread = statistics.stdev(scores) if len(scores) > 1 else None
            found[split] |= {
                f"{metric}_mean": statistics.fmean(scores),
                f"{metric}_median": statistics.median(scores),
                f"{metric}_stdev": spread,
                f"{metric}_min": min(scores),
                f"{metric}_max": max(scores),
            }
    return dict(found)


def _baseline(parts: Sequence[Sequence[TaskData]], name: str) -> dict:
    """Scores of a model that reads no text, means over the folds."""
    of_parts = [
        next(data for data in part if data.task.name == name) for part in parts
    ]
    if any("train" not in data.examples for data in of_parts):
        return {"name": ""}
    values = _by_split(
        {
            split: data.task.baseline_scores_of_rows(
                data.examples["train"],
                data.examples[split],
                data.features.get(split, {}),
            )
            for split in data.scored_splits
        }
        for data in of_parts
    )
    found: dict = {"name": of_parts[0].task.baseline_name}
    for split, of_split in values.items():
        found[split] = {
            metric: statistics.fmean(scores)
            for metric, scores in of_split.items()
        }
    return found


def write(directory: str, results: dict) -> None:
    """Writes results.json and, of the same, results.txt."""
    for name, content in (
        (model_directory.RESULTS_FILE, json.dumps(results, indent=1)),
        (model_directory.TABLE_FILE, format_results(results)),
    ):
        write_atomically(os.path.join(directory, name), content + "\n")


def read(model_dir: str, advice: str = "", needed: Sequence[str] = ()) -> dict:
    """results.json of a finished run.

    Args:
      model_dir: Of the run.
      advice: Behind the error's line where there is none.
      needed: What it must have beside "best_on_dev".

    Raises:
      ValueError: If there is none, or it is damaged or of no fine-tuning.
    """
    path = os.path.join(model_dir, model_directory.RESULTS_FILE)
    if not os.path.isfile(path):
        raise errors.ConfigError(
            f"Expected a finished fine-tuning run in {model_dir}, found no "
            f"{model_directory.RESULTS_FILE} there{advice}"
        )
    found = read_json(path)
    if "best_on_dev" not in found:
        raise errors.ConfigError(
            f"Expected the results of a fine-tuning run in {path}. Received: "
            "others"
        )
    check_fields(found, path, needed, trials=list[dict], best_on_dev=int)
    return found


def read_of_trial(directory: str, tasks: Iterable[str] = ()) -> dict:
    """results.json of a finished trial.

    Args:
      directory: Of the trial.
      tasks: Names of those with scores that it must have.

    Raises:
      CheckpointError: If it is damaged or of another trial.
    """
    path = os.path.join(directory, model_directory.RESULTS_FILE)
    needed = ("trial", "degenerate", "tasks", *_SETTINGS)
    found = read_json(
        path, needed, trial=int, degenerate=list, tasks=dict[str, dict]
    )
    check_fields(found["tasks"], path, tuple(tasks))
    return found


def format_results(results: dict) -> str:
    """The results as a table.

    Args:
      results: Of `summarize`.

    Returns:
      Lines of text, without a line end at the end.
    """
    lines = []
    for name, of_task in tasks_of(results).items():
        table = score_table(results, name)
        lines += [table.title, *_aligned([table.header, *table.rows]), ""]
        for split, report in of_task.get("report", {}).items():
            whose = f"trial {report['trials'][0]}"
            if len(report["trials"]) > 1:
                times = len(report["trials"]) // of_task["num_folds"]
                repeated = f", {times} times" if times > 1 else ""
                whose = f"all rows of the folds{repeated}"
            lines += [*format_report(f"{name}, {split}, {whose}", report), ""]
    return "\n".join([*lines, *remarks(results)]).rstrip("\n")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines: the first column to the left, the others to the right."""
    widths = [
        max(map(display_width, column)) for column in zip(*rows, strict=True)
    ]
    lines = []
    for row in rows:
        first, *cells = (
            (text, " " * (width - display_width(text)))
            for width, text in zip(widths, row, strict=True)
        )
        others = (f"{blank}{text}" for text, blank in cells)
        lines.append("  " + "  ".join(["".join(first), *others]).rstrip())
    return lines


def format_report(title: str, report: dict) -> list[str]:
    """A report as lines.

    Args:
      title: Whose answers these are.
      report: See `tasks.reports`.
    """
    classes = report["classes"]
    shown = list(classes)
    lines = [f"{title}, by label:"]
    if len(shown) > _MOST_LABELS:
        # By a stable sort: of equals the first ones.
        worst = sorted(shown, key=lambda label: classes[label]["f1"])
        shown = worst[:_MOST_LABELS]
        lines[0] = (
            f"{title}, the {_MOST_LABELS} of {len(classes)} labels with the "
            "lowest F1 (results.json has all):"
        )
    columns = ("precision", "recall", "f1")
    rows = [["", *columns, "support"]]
    for label in shown:
        scores = [_number(classes[label][name]) for name in columns]
        rows.append([label, *scores, str(classes[label]["support"])])
    total = str(sum(scores["support"] for scores in classes.values()))
    for name in ("macro", "weighted"):
        f1 = _number(report[f"{name}_f1"])
        rows.append([f"{name} F1", "", "", f1, total])
    lines += _aligned(rows)
    if "confusion_matrix" not in report:
        return lines
    labels, counts = report["confusion_matrix"].values()
    if len(labels) <= _MOST_IN_MATRIX:
        rows = [["", *labels]]
        for label, of_label in zip(labels, counts, strict=True):
            rows.append([label, *map(str, of_label)])
        title = "how often each label (row) was taken for which (column):"
        return [*lines, title, *_aligned(rows)]
    confused = confusions(labels, counts, _MOST_CONFUSIONS)
    if confused:
        lines.append("taken for another label most often:")
    return lines + [
        f"  {count} x {true} for {predicted}"
        for count, true, predicted in confused
    ]


def confusions(
    labels: Sequence[str], counts: Sequence[Sequence[int]], most: int
) -> list[tuple[int, str, str]]:
    """What is mistaken most often: how often, the true label, the predicted.

    Args:
      labels: C names.
      counts: For each true label how often each one was predicted.
      most: Of mistakes.
    """
    wrong = (
        (count, true, predicted)
        for true, of_true in zip(labels, counts, strict=True)
        for predicted, count in zip(labels, of_true, strict=True)
        if count and true != predicted
    )
    return sorted(wrong, key=lambda mistake: -mistake[0])[:most]


class ScoreTable(typing.NamedTuple):
    """A row for each trial, then their summary; below what was trained on."""

    title: str
    header: list[str]
    rows: list[list[str]]


def tasks_of(results: dict) -> dict[str, dict]:
    """Task name -> what `summarize` says of it, as it does of several."""
    return results.get("tasks") or {results["task"]: results}


def scores_of(record: dict, name: str) -> dict:
    """What a trial, or a setting, has for a task, by split."""
    return record["tasks"][name] if "tasks" in record else record


def score_table(results: dict, name: str) -> ScoreTable:
    """The scores of a task.

    Args:
      results: Of `summarize`.
      name: Of the task.
    """
    of_task, trials = tasks_of(results)[name], results["trials"]
    scores = scores_of(trials[0], name)
    columns = [
        (split, metric)
        for split in scores
        if isinstance(scores[split], dict)
        for metric in _shown_metrics(scores[split], of_task["main_metric"])
    ]
    settings = [
        key
        for key in ("fold", *_SETTINGS)
        if len({trial.get(key) for trial in trials}) > 1
    ]
    header = ["", "seed", *settings, *(" ".join(c) for c in columns)]
    rows = [
        [
            f"trial {trial['trial']}",
            str(trial["seed"]),
            *(f"{trial[key]:g}" for key in settings),
            *(_number(scores_of(trial, name)[s].get(m)) for s, m in columns),
        ]
        for trial in trials
    ]
    blank = [""] * (1 + len(settings))
    groups = results.get("settings", [])
    summaries = [
        (f"mean of {_setting(group)}", scores_of(group, name), "_mean")
        for group in groups
    ]
    for kind in ("mean", "stdev", "median") if len(trials) > 1 else ():
        label = f"{kind} of the best on dev" if groups else kind
        summaries.append((label, of_task, f"_{kind}"))
    baseline = of_task["baseline"]
    if baseline["name"]:
        summaries.append((baseline["name"], baseline, ""))
    rows += [
        [label, *blank]
        + [_number(found.get(s, {}).get(m + kind)) for s, m in columns]
        for label, found, kind in summaries
    ]
    title = f"{name}: " + ", ".join(
        f"{count} rows of {split}"
        for split, count in of_task["num_rows"].items()
    )
    if "train" in of_task["num_rows"]:
        title = f"{name}: {of_task['num_rows']['train']} training rows"
    if "num_folds" in of_task:
        title += f" in {of_task['num_folds']} folds, each of them scored once"
    if results["from_scratch"]:
        title += ", from random weights"
    return ScoreTable(title, header, rows)


def _kept_weights(trial: dict) -> str:
    """Which weights a trial has that was trained with patience, and why."""
    best, last = trial["best_step"], trial["last_step"]
    total, since = trial["num_train_steps"], trial["evaluations_since_best"]
    why = f"trained to the end, step {last}"
    if last < total:
        after = f"{since} evaluations in a row that were not better"
        if since == 1:
            after = "1 evaluation in a row that was not better"
        why = f"training ended at step {last} of {total}, after {after}"
    whose = f"the weights of step {best}, the best on dev"
    if best is None:
        whose = "the last weights, as no score on dev was a number"
    return f"trial {trial['trial']} has {whose}; {why}"


def _degenerate(trial: dict, repeated_by: int | None) -> str:
    where = ""
    if len(trial.get("tasks", ())) > 1:
        where = f" of {', '.join(trial['degenerate'])}"
    advice = (
        ". Try another seed (FinetuningConfig.reseed_degenerate), a lower "
        "learning rate or more epochs"
    )
    if repeated_by:
        advice = (
            f"; trial {repeated_by} repeats it with another seed, and counts "
            "in its place"
        )
    return (
        f"trial {trial['trial']} is degenerate: it says the same of every row "
        f"of the dev set{where}{advice}"
    )


def _shown_metrics(scores: dict, main_metric: str) -> list[str]:
    """The main metric first."""
    others = [m for m in scores if m not in (main_metric, *_NOT_SHOWN)]
    return [main_metric, *others][:_MOST_METRICS]


def _setting(group: dict) -> str:
    rate, epochs = group["learning_rate"], group["num_train_epochs"]
    return f"rate {rate:g}, {epochs:g} epoch{'s' * (epochs != 1)}"


def counted_trials(results: dict) -> list[int]:
    """Numbers of the trials that means are over: those of the best setting.

    Args:
      results: Of `summarize`.
    """
    if "settings" in results:
        return results["settings"][0]["trials"]
    numbers = [trial["trial"] for trial in results["trials"]]
    return [n for n in numbers if n not in results["replaced_trials"]]


def remarks(results: dict) -> list[str]:
    """What the figures do not say by themselves."""
    lines = []
    trials, best = results["trials"], results["best_on_dev"]
    has_dev = False
    for name, of_task in tasks_of(results).items():
        has_dev |= "dev" in of_task["num_rows"]
        told = dict(of_task.get("copies", {}))
        told.pop("train", None)
        lines += [
            f"{name}: {line}"
            for line in copies.remarks(told, of_task["num_rows"])
        ]
    if "fold" in trials[0]:
        lines.append(
            f"report the mean over the folds; trial {best}, whose fold went "
            "best, is what exporting takes"
        )
    elif len(trials) > 1 and has_dev:
        lines.append(
            f"best on dev: trial {best}, chosen on dev among {len(trials)}, so "
            "its score there is optimistic"
        )
    if "settings" in results:
        setting = _setting(results["settings"][0])
        lines.append(
            f"best setting on dev: {setting}; its scores there are optimistic, "
            "too"
        )
    kept = [_kept_weights(trial) for trial in trials if "last_step" in trial]
    if kept:
        kept.append(
            "early stopping chose the weights on dev, so scores there are "
            "optimistic"
        )
    repeated = {trial.get("replaces"): trial["trial"] for trial in trials}
    return [
        *lines,
        *kept,
        *(
            _degenerate(trial, repeated.get(trial["trial"]))
            for trial in trials
            if trial["degenerate"]
        ),
    ]
