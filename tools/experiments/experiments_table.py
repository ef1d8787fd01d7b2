"""Finished runs of a suite -> their figures, and a table in Markdown.

Scores are those of the dev sets in per cent: Matthews' correlation for CoLA,
Spearman's for STS-B, F1 of spans for CoNLL-2003, accuracy otherwise. The score
of a seed is the mean over the tasks that were fine-tuned on. Intervals are
Student's, over seeds: of three of them, 2.5 standard deviations to each side.
Differences from the suite's reference are taken seed by seed.
"""

import dataclasses
import itertools
import math
import os
import statistics
from collections.abc import Iterable, Mapping, Sequence

import experiment_runs
import figure_files
import tables
from experiment_runs import Options, Run, Variant
from experiment_suites import SUITES, TASKS

from electra_tf import configs, files, model_directory
from electra_tf.training import metrics_log

# Of eval_results.json, after the last stage.
HELDOUT = ("masked_lm_accuracy", "disc_auc", "disc_masked_lm_accuracy")
_CONFIDENCE = 0.95


def collect(suite: str, variants: Sequence[Variant], options: Options) -> dict:
    """The figures of all runs that are finished.

    Args:
      suite: Name of one of `SUITES`.
      variants: Its rows. Those of which nothing is finished are left out.
      options: Of the runs.

    Returns:
      What results.json holds: "suite", "title", "source", "reference",
      "pooling" (and "name", where that is not the original's), "tasks", and
      "rows", each with "row", "title", "budget_flops", "num_train_steps" (of
      each stage), "flops_per_step" (of all stages), "flops", "paper", "seeds"
      (seed -> "tasks", their "score", "heldout", "cpu_seconds", and where it
      is known "train_data", a digest of what was pre-trained on), "tasks" and
      "heldout" (name -> "mean", "stdev"), "score" and "minus_reference"
      ("mean", "stdev", "low", "high", "num_seeds"), "curve" (mean held-out
      metrics in the course of training); then "ordering", see `_ordering`.
      What is not known is None or left out.

    Raises:
      ValueError: If results are damaged, or not of the same rows.
    """
    title, source, reference, _ = dataclasses.astuple(SUITES[suite])
    for task in options.tasks:
        experiment_runs.refuse_unlike(
            [
                variant.task_dir(seed, task, options)
                for variant in variants
                for seed in options.seeds
            ],
            "rows",
        )
    rows = [_row(variant, options) for variant in variants]
    name = {}
    if options.pooling != configs.DEFAULT_POOLING:
        name["name"] = f"{suite}-{options.pooling}"
    return (
        name
        | {
            "suite": suite,
            "title": title,
            "source": source,
            "reference": reference,
            "pooling": options.pooling,
            "tasks": list(options.tasks),
        }
        | _compared([row for row in rows if row["seeds"]], reference)
    )


def _compared(rows: list[dict], reference: str) -> dict:
    """Rows with their differences from one of them, and how they are ordered.

    Raises:
      ValueError: If they are known to be pre-trained on other texts.
    """
    texts: dict[str, str] = {}
    for row in rows:
        for seed, found in row["seeds"].items():
            name = f"{row['row']}, seed {seed}"
            texts.setdefault(found.get("train_data", ""), name)
    texts.pop("", None)
    if len(texts) > 1:
        raise ValueError(
            "Expected rows that are pre-trained on the same records. Received: "
            f"others of {' than of '.join(texts.values())}."
        )
    references = {
        row["budget_flops"]: row for row in rows if row["row"] == reference
    }
    for row in rows:
        if other := references.get(row["budget_flops"]):
            row["minus_reference"] = _difference(row, other)
    return {"rows": rows, "ordering": _ordering(rows)}


def read_earlier(path: str, suite: str, options: Options) -> dict:
    """Figures that `collect` returned at another time, on any machine.

    Raises:
      ValueError: If they are missing or damaged, or of other rows, tasks or
        heads than those of a suite and its options.
    """
    results = files.read_json(path)
    ours = {"suite": suite, "tasks": options.tasks, "pooling": options.pooling}
    with figure_files.expecting(f"figures of {suite}", path):
        theirs = {
            "suite": results["suite"],
            "tasks": tuple(results["tasks"]),
            # Figures of before there was a choice have none.
            "pooling": results.get("pooling", configs.DEFAULT_POOLING),
        }
        if theirs == ours:
            blocks(results)
            measured_seeds(results)
    for name, value in ours.items():
        if theirs[name] != value:
            raise ValueError(
                f"Expected figures of {name} {_in_words(value)} in {path}. "
                f"Received: {_in_words(theirs[name])}."
            )
    return results


def _in_words(value: Sequence[str]) -> str:
    return value if isinstance(value, str) else ",".join(value)


def measured_seeds(results: dict) -> set[tuple[str, float | None, int]]:
    """Row, budget and seed of all that have a score on every task."""
    return {
        (row["row"], row["budget_flops"], int(seed))
        for row in results["rows"]
        for seed in _scores(row["seeds"])
    }


def merged(earlier: dict, results: dict, path: str) -> dict:
    """Earlier figures, and new ones beside them and in their place.

    Args:
      earlier: What `read_earlier` returned.
      results: What `collect` returned.
      path: Of the earlier ones, for messages.

    Returns:
      Figures with the seeds of both, the new ones' where both have one. A curve
      is the mean of both, by their numbers of seeds.

    Raises:
      ValueError: If a row is of another number of steps or FLOPs, or known to
        be pre-trained on other texts.
    """
    with figure_files.expecting("figures of finished runs", path):
        rows = {_key(row): row for row in earlier["rows"]}
        for row in results["rows"]:
            if before := rows.get(_key(row)):
                for name in ("num_train_steps", "flops_per_step"):
                    if before[name] != row[name]:
                        raise ValueError(
                            f"Expected {name} {row[name]} of {row['row']} in "
                            f"{path}. Received: {before[name]}, which is "
                            "another network, or another count."
                        )
                row = _merged_row(before, row, results["tasks"])
            rows[_key(row)] = row
        names = [row.name for row in SUITES[results["suite"]].rows]
        in_order = sorted(
            rows.values(),
            key=lambda r: (r["budget_flops"] or 0.0, names.index(r["row"])),
        )
        return results | _compared(in_order, results["reference"])


def _key(row: dict) -> tuple[str, float | None]:
    return row["row"], row["budget_flops"]


def _merged_row(before: dict, row: dict, tasks: Sequence[str]) -> dict:
    # What is only begun, such as a pre-training that other rows need, takes
    # nobody's place.
    new = {
        seed: found
        for seed, found in row["seeds"].items()
        if found["score"] is not None or seed not in _scores(before["seeds"])
    }
    only_before = before["seeds"].keys() - new.keys()
    curves = [(before, len(only_before)), (row, len(new))]
    points: dict[int, list[tuple[dict, int]]] = {}
    for one, num_seeds in curves:
        for point in one["curve"] if num_seeds else ():
            points.setdefault(point["step"], []).append((point, num_seeds))
    curve = []
    for _, here in sorted(points.items()):
        mean = dict(here[0][0])
        for name in HELDOUT:
            if all(name in point for point, _ in here):
                values, weights = zip(
                    *((point[name], number) for point, number in here),
                    strict=True,
                )
                mean[name] = statistics.fmean(values, weights)
        curve.append(mean)
    seeds = before["seeds"] | new
    seeds = {seed: seeds[seed] for seed in sorted(seeds, key=int)}
    return row | {"seeds": seeds} | _summaries(seeds, tasks) | {"curve": curve}


def _row(variant: Variant, options: Options) -> dict:
    """One variant, all seeds."""
    runs_of = {
        seed: experiment_runs.runs_of(variant, seed, options)
        for seed in options.seeds
    }
    seeds = {
        str(seed): found
        for seed, runs in runs_of.items()
        if (found := _seed(runs, options.tasks))
    }
    return {
        "row": variant.row.name,
        "title": variant.row.title,
        "budget_flops": variant.budget,
        "num_train_steps": [
            stage.config.run.num_train_steps for stage in variant.stages
        ],
        "flops_per_step": [stage.flops_per_step for stage in variant.stages],
        "flops": variant.flops,
        "paper": variant.row.paper,
        "seeds": seeds,
        **_summaries(seeds, options.tasks),
        "curve": _mean_curve(variant, runs_of.values()),
    }


def _summaries(seeds: Mapping[str, dict], tasks: Sequence[str]) -> dict:
    """Of a row, over its seeds."""
    return {
        "tasks": {
            task: statistics_of(_of_seeds(seeds, "tasks", task))
            for task in tasks
        },
        "score": statistics_of(list(_scores(seeds).values())),
        "heldout": {
            name: statistics_of(values)
            for name in HELDOUT
            if (values := _of_seeds(seeds, "heldout", name))
        },
    }


def _of_seeds(seeds: Mapping[str, dict], kind: str, name: str) -> list[float]:
    """A figure of each seed that has it."""
    return [s[kind][name] for s in seeds.values() if name in s[kind]]


def _seed(runs: Sequence[Run], tasks: Sequence[str]) -> dict | None:
    """What is finished of one seed; None where nothing is."""
    found: dict = {"tasks": {}, "score": None, "heldout": {}}
    finished = [
        run
        for run in runs
        if experiment_runs.is_of_table(run) and run.is_finished()
    ]
    stages = [run for run in runs if run.kind not in TASKS]
    for run in finished:
        if run.kind in TASKS:
            found["tasks"][run.kind] = _task_score(run.model_dir, run.kind)
        elif run is stages[-1]:  # What is fine-tuned.
            found["heldout"] = _read_json(
                run.model_dir, model_directory.EVAL_RESULTS_FILE
            )
            found |= _train_data(run.model_dir)
    if tasks and len(found["tasks"]) == len(tasks):
        found["score"] = statistics.fmean(found["tasks"].values())
    costs = [run.cost() for run in finished]
    known = [cost["cpu_seconds"] for cost in costs if "cpu_seconds" in cost]
    found["cpu_seconds"] = sum(known) if known else None
    return found if finished else None


def _train_data(model_dir: str) -> dict:
    """A digest of what was pre-trained on; {} if it is not known."""
    path = os.path.join(model_dir, model_directory.TRAIN_DATA_FILE)
    if not os.path.exists(path):
        return {}
    return {"train_data": files.read_json(path, sha256=str)["sha256"]}


def _task_score(model_dir: str, task: str) -> float:
    """In per cent; a correlation with answers that are all alike is 0."""
    path = os.path.join(model_dir, model_directory.RESULTS_FILE)
    metric = TASKS[task].metric
    with figure_files.expecting(f"the {metric} of one trial on dev", path):
        trials = files.read_json(path)["trials"]
        if len(trials) != 1:
            raise ValueError(
                "Expected one trial for each seed of pre-training "
                f"(FinetuningConfig.num_trials=1). Received: {path}, with "
                f"{len(trials)}."
            )
        score = trials[0]["dev"][metric]
    return 0.0 if score is None else score


def _read_json(model_dir: str, name: str) -> dict:
    path = os.path.join(model_dir, name)
    return files.read_json(path) if os.path.exists(path) else {}


def _scores(seeds: Mapping[str, dict]) -> dict[str, float]:
    """Seed -> score, of those that have one."""
    scores = {seed: found["score"] for seed, found in seeds.items()}
    return {seed: score for seed, score in scores.items() if score is not None}


def statistics_of(values: Sequence[float]) -> dict | None:
    """Mean, sample deviation and Student's interval of the mean.

    Args:
      values: One for each seed.

    Returns:
      "mean", "stdev", "low", "high" and "num_seeds"; all but the mean and the
      number are None for a single value. None without any.
    """
    # Takes a while.
    from scipy import stats

    if not values:
        return None
    mean, number = statistics.fmean(values), len(values)
    found = {"mean": mean, "stdev": None, "low": None, "high": None}
    if number > 1:
        stdev = statistics.stdev(values)
        quantile = stats.t.ppf((1 + _CONFIDENCE) / 2, number - 1)
        half = float(quantile) * stdev / math.sqrt(number)
        found |= {"stdev": stdev, "low": mean - half, "high": mean + half}
    return found | {"num_seeds": number}


def _difference(row: dict, other: dict) -> dict | None:
    """Of two rows' scores, over the seeds that both have."""
    ours, theirs = _scores(row["seeds"]), _scores(other["seeds"])
    return statistics_of([ours[s] - theirs[s] for s in ours if s in theirs])


def _mean_curve(
    variant: Variant, runs_of_seeds: Iterable[Sequence[Run]]
) -> list[dict]:
    """Held-out metrics of the last stage in the course of its training.

    Args:
      variant: The row.
      runs_of_seeds: Of each seed what `experiment_runs.runs_of` returns.

    Returns:
      "step", "flops" (stages before it included) and the mean of each metric
      over the seeds that got there.
    """
    if not variant.stages:
        return []
    points: dict[int, list[dict]] = {}
    for runs in runs_of_seeds:
        last_stage = runs[len(variant.stages) - 1]
        if not experiment_runs.is_of_table(last_stage):
            continue
        for step, metrics in read_heldout(last_stage.model_dir).items():
            points.setdefault(step, []).append(metrics)
    *before, last = variant.stages
    spent = sum(stage.flops for stage in before)
    return [
        {"step": step, "flops": spent + step * last.flops_per_step}
        | {
            name: statistics.fmean(record[name] for record in records)
            for name in HELDOUT
            if all(name in record for record in records)
        }
        for step, records in sorted(points.items())
    ]


def read_heldout(model_dir: str) -> dict[int, dict]:
    """Held-out evaluations of a run: step -> metrics, those of the end too."""
    path = os.path.join(model_dir, model_directory.METRICS_FILE)
    found = {
        record["step"]: record
        for record in metrics_log.read(path)
        if record["split"] == "heldout"
    }
    last = _read_json(model_dir, model_directory.EVAL_RESULTS_FILE)
    if "step" in last:
        found[last["step"]] = last
    return found


def _ordering(rows: Sequence[dict]) -> list[dict]:
    """The paper's order of the rows against ours, for each budget.

    Returns:
      "budget_flops", "paper" and "ours" (names, the best first, of the rows
      that both have), and of the pairs that the paper tells apart: "num_pairs",
      "num_alike" (ours in the same order), and of those whose difference is not
      0 within its interval "num_clearly_alike" and "num_clearly_other".
    """
    found = []
    for budget, of_budget in _by_budget(rows).items():
        both = [
            row
            for row in of_budget
            if row["paper"] is not None and row["score"]
        ]
        by_paper = sorted(both, key=lambda row: row["paper"], reverse=True)
        by_score = sorted(both, key=_mean_score, reverse=True)
        pairs = [
            (better, worse)
            for better, worse in itertools.combinations(by_paper, 2)
            if better["paper"] > worse["paper"]
        ]
        if not pairs:
            continue
        differences = [_difference(*pair) or {} for pair in pairs]
        intervals = [d for d in differences if d.get("low") is not None]
        found.append(
            {
                "budget_flops": budget,
                "paper": [row["row"] for row in by_paper],
                "ours": [row["row"] for row in by_score],
                "num_pairs": len(pairs),
                "num_alike": sum(
                    _mean_score(better) > _mean_score(worse)
                    for better, worse in pairs
                ),
                "num_clearly_alike": sum(d["low"] > 0 for d in intervals),
                "num_clearly_other": sum(d["high"] < 0 for d in intervals),
            }
        )
    return found


def _by_budget(rows: Sequence[dict]) -> dict[float | None, list[dict]]:
    found: dict[float | None, list[dict]] = {}
    for row in rows:
        found.setdefault(row["budget_flops"], []).append(row)
    return found


def _mean_score(row: dict) -> float:
    return row["score"]["mean"]


def markdown(results: dict) -> str:
    """The figures as text: a table for each budget, and what it says."""
    lines = [
        f"# {results['title']}: {results['source']}",
        "",
        "Dev scores in per cent: mean and standard deviation over seeds. In "
        "brackets 95 % intervals (Student's t over seeds; differences from "
        f"`{results['reference']}` seed by seed). The paper's numbers are of a "
        "larger model and of all tasks of GLUE.",
    ]
    if results["pooling"] != configs.DEFAULT_POOLING:
        lines[-1] += (
            f" Heads on a whole text read the {results['pooling']} of all "
            "tokens' vectors."
        )
    for budget, rows in _by_budget(results["rows"]).items():
        name = experiment_runs.budget_name(budget)
        title = (
            f"{name} FLOPs a row" if budget else "The steps of the gin files"
        )
        lines += ["", f"## {title}", "", _table(rows, results)]
        for ordering in results["ordering"]:
            if ordering["budget_flops"] == budget:
                lines += ["", _ordering_text(ordering)]
    return "\n".join(lines) + "\n"


def as_before(results: dict, before: dict) -> dict:
    """New figures of what a page shows, in place of its old ones.

    Args:
      results: What `collect` returns; rows at other compute are left out.
      before: Those of the page.

    Raises:
      ValueError: If they are of other tasks.
    """
    if list(results["tasks"]) != list(before["tasks"]):
        raise ValueError(
            f"Expected the tasks {', '.join(before['tasks'])}. Received: "
            f"{', '.join(results['tasks'])}; run_experiments.py --table_only "
            "makes the table of all that are there."
        )
    budgets = {row["budget_flops"] for row in before["rows"]}
    return results | {
        name: [x for x in results[name] if x["budget_flops"] in budgets]
        for name in ("rows", "ordering")
    }


def blocks(results: dict) -> dict[str, str]:
    """The tables of a page by their names: '<suite>-<budget>' -> Markdown.

    Args:
      results: What `collect` returns; with "name" where a page shows other
        results of the suite, too.
    """
    name = results.get("name", results["suite"])
    return {
        f"{name}-{experiment_runs.budget_name(budget)}": _table(rows, results)
        for budget, rows in _by_budget(results["rows"]).items()
    }


def _table(rows: Sequence[dict], results: dict) -> str:
    tasks = results["tasks"]
    heldout = [
        name for name in HELDOUT if any(name in row["heldout"] for row in rows)
    ]
    table = [
        [
            "row",
            "seeds",
            "mean",
            f"minus {results['reference']}",
            "paper",
            *(f"{TASKS[t].title}, {TASKS[t].metric_title}" for t in tasks),
            *heldout,
            "steps",
            "FLOPs",
            "CPU minutes",
        ]
    ]
    for row in rows:
        score = row["score"] or {}
        # Of those that the means are of, once there are any.
        of_means = _scores(row["seeds"]) or row["seeds"]
        seconds = [
            seconds
            for seed in of_means
            if (seconds := row["seeds"][seed]["cpu_seconds"])
        ]
        table.append(
            [
                row["title"],
                str(score.get("num_seeds", 0)),
                spread(score) + _interval(score),
                ""
                if row["row"] == results["reference"]
                else difference(row.get("minus_reference")),
                "" if row["paper"] is None else f"{row['paper']:.1f}",
                *(spread(row["tasks"][task]) for task in tasks),
                *(_number(row["heldout"].get(name)) for name in heldout),
                " + ".join(f"{steps:,}" for steps in row["num_train_steps"]),
                f"{row['flops']:.3g}".replace("e+", "e"),
                f"{statistics.fmean(seconds) / 60:.1f}" if seconds else "",
            ]
        )
    # A column that nothing is known of is none.
    columns = [column for column in zip(*table, strict=True) if any(column[1:])]
    return tables.markdown([list(row) for row in zip(*columns, strict=True)])


def _number(summary: dict | None) -> str:
    return f"{summary['mean']:.3f}" if summary else ""


def spread(summary: dict | None, decimals: int = 1) -> str:
    """Of `statistics_of`: '61.2 +- 0.8', or '61.2' of one seed."""
    if not summary:
        return ""
    text = f"{summary['mean']:.{decimals}f}"
    if summary["stdev"] is not None:
        text += f" +- {summary['stdev']:.{decimals}f}"
    return text


def _interval(summary: dict | None, sign: str = "", decimals: int = 1) -> str:
    if not summary or summary["low"] is None:
        return ""
    low, high = (
        f"{summary[end]:{sign}.{decimals}f}" for end in ("low", "high")
    )
    return f" [{low}, {high}]"


def difference(summary: dict | None, decimals: int = 1) -> str:
    """Likewise '-1.6 [-4.5, +1.3]', bold where that does not hold 0."""
    if not summary:
        return ""
    text = f"{summary['mean']:+.{decimals}f}"
    text += _interval(summary, "+", decimals)
    if summary["low"] is None or summary["low"] <= 0 <= summary["high"]:
        return text
    return f"**{text}**"


def _ordering_text(ordering: dict) -> str:
    return (
        f"Paper: {' > '.join(ordering['paper'])}. Ours: "
        f"{' > '.join(ordering['ours'])}. Of {ordering['num_pairs']} pairs "
        f"that the paper tells apart, {ordering['num_alike']} are in its order "
        f"here; {ordering['num_clearly_alike']} in its order and "
        f"{ordering['num_clearly_other']} in the other one by more than the "
        "seeds explain."
    )
