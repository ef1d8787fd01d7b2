"""A finished fine-tuning run -> a page of HTML for a person.

Everything is read from the model directory: scores, logs, predictions.
"""

import html
import itertools
import json
import os
import pathlib
import typing
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from electra_tf import model_directory
from electra_tf.command_line import page
from electra_tf.files import write_atomically
from electra_tf.finetuning import (
    report_charts,
    report_rows,
    report_text,
    shown_rows,
)
from electra_tf.finetuning import results as results_lib
from electra_tf.finetuning.recipe import listed
from electra_tf.finetuning.report_rows import Row
from electra_tf.training import metrics_log

# More classes are drawn as a picture; a table would not fit.
_MOST_IN_TABLE = 20
_NUM_CONFUSIONS = 5
_NUM_WRONG_ROWS = 12
# Of fewer answers calibration is chance.
_LEAST_TO_CALIBRATE = 30


def write(model_dir: str, results: dict) -> None:
    """Writes report.html; where that fails, says so and leaves none.

    Args:
      model_dir: Of a finished run.
      results: Of `results.summarize`.
    """
    path = os.path.join(model_dir, model_directory.REPORT_FILE)
    try:
        write_atomically(path, render(model_dir, results))
    # A run that took hours has its scores by now, whatever is wrong here.
    except Exception as error:
        said = " ".join(str(error).split())
        print(f"no {path}: {type(error).__name__}: {said}")
        # That of an earlier run would have other scores.
        if os.path.exists(path):
            os.remove(path)


def render(model_dir: str, results: dict) -> str:
    """The whole page.

    Args:
      model_dir: Of a finished run.
      results: Of `results.summarize`.

    Returns:
      HTML.
    """
    tasks = results_lib.tasks_of(results)
    # Of all charts of the page, so that their parts have names of their own.
    names = (f"chart{number}" for number in itertools.count(1))
    sections = [_header(model_dir, results), _scores_section(results)]
    for name, of_task in tasks.items():
        title = f": {name}" if len(tasks) > 1 else ""
        sections.append(
            _curves_section(model_dir, results, name, of_task, title, names)
        )
        for split in _splits(results, name, of_task):
            rows = _Rows.read(model_dir, results, name, of_task, split)
            sections.append(_split_section(rows, title, names))
    sections.append(_run_section(model_dir, results))
    style = pathlib.Path(__file__).with_suffix(".css").read_text("utf-8")
    return page.render(f"{', '.join(tasks)}: fine-tuning", sections, style)


def _splits(results: dict, name: str, of_task: dict) -> list[str]:
    """The splits of a task that were scored."""
    scores = results_lib.scores_of(_best(results), name)
    return [split for split in of_task["num_rows"] if scores.get(split)]


def _best(results: dict) -> dict:
    best = results["best_on_dev"]
    return next(t for t in results["trials"] if t["trial"] == best)


# --- All tasks ---------------------------------------------------------------


def _header(model_dir: str, results: dict) -> str:
    tasks = results_lib.tasks_of(results)
    # Of the best setting, without those that were repeated.
    num_trials = len(results_lib.counted_trials(results))
    tiles = []
    for name, of_task in tasks.items():
        of = f"{name}, " if len(tasks) > 1 else ""
        metric = of_task["main_metric"]
        for split in _splits(results, name, of_task):
            mean = of_task[split].get(f"{metric}_mean")
            spread = of_task[split].get(f"{metric}_stdev")
            told = f"{of}{split}: {_in_words(metric)}"
            if spread is not None:
                told += f", mean of {num_trials} models, ± {spread:.1f}"
            tiles.append(page.tile(_figure(mean), told, "strong"))
            baseline = of_task["baseline"].get(split, {}).get(metric)
            if baseline is not None:
                told = f"{of}{split}: {of_task['baseline']['name']}"
                tiles.append(page.tile(_figure(baseline), told))
        # Of an evaluation alone there are none.
        for split, number in of_task["num_rows"].items():
            named = "training" if split == "train" else split
            tiles.append(page.tile(f"{number:,}", f"{of}{named} rows"))
    origin = (
        "an encoder with random weights"
        if results["from_scratch"]
        else "a pre-trained encoder"
    )
    num_models = len(results["trials"])
    models = (
        "one model and its scores"
        if num_models == 1
        else f"{num_models} models and their scores"
    )
    return f"""<header>
<p class="kicker">electra_tf · fine-tuning · {
        html.escape(os.path.basename(os.path.abspath(model_dir)))
    }</p>
<h1>{html.escape(", ".join(tasks))}</h1>
<p class="lead">What came out of fine-tuning {origin}: {models}, what is
mistaken for what, and how far the answers can be trusted.</p>
<div class="tiles">{"".join(tiles)}</div>
</header>"""


def _scores_section(results: dict) -> str:
    tables = "\n".join(map(_score_table, results_lib.score_tables(results)))
    remarks = "".join(
        f'<p class="note">{html.escape(remark)}</p>'
        for remark in results_lib.remarks(results)
    )
    # Of the data: what was found, cut, left out; earlier versions said it only.
    notes = "".join(
        f"<li>{html.escape(note)}</li>" for note in results.get("notes", ())
    )
    said = "<h3>What was said before training</h3>\n"
    return f"""<section>
<h2>Scores</h2>
{tables}
{remarks}
{f'{said}<ul class="notes">{notes}</ul>' if notes else ""}
</section>"""


def _score_table(table: results_lib.ScoreTable) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        first, *others = map(html.escape, cells)
        rest = "".join(
            f'<{tag} class="number">{cell}</{tag}>' for cell in others
        )
        return f'<tr><th scope="row">{first}</th>{rest}</tr>'

    rows = "\n".join(row(cells, "td") for cells in table.rows)
    return f"""<p>{html.escape(table.title)}</p>
<div class="scroll"><table class="scores"><thead>
{row(table.header, "th")}
</thead><tbody>
{rows}
</tbody></table></div>"""


def _run_section(model_dir: str, results: dict) -> str:
    """Command, versions and commit; nothing where they are not recorded."""
    path = os.path.join(model_dir, model_directory.RUNS_FILE)
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as f:
        record = json.loads(f.read().splitlines()[-1])
    return f"""<section>
<h2>How to get the same again</h2>
{_recipe(results)}
<p class="when">{html.escape(record["time"])}, commit
<code>{html.escape(record["git_commit"] or "unknown")}</code></p>
<pre>{html.escape(page.command_of(record["argv"]))}</pre>
<dl>{page.versions_of(record)}</dl>
</section>"""


def _recipe(results: dict) -> str:
    """What the models learned with; earlier versions did not keep it."""
    recipe = results.get("recipe", {})
    if not recipe:
        return ""
    rows = "\n".join(
        f'<tr><th scope="row"><code>{html.escape(name)}</code></th>'
        f'<td class="number">{html.escape(listed(choice["value"]))}</td>'
        f"<td>{html.escape(choice['source'])}</td></tr>"
        for name, choice in recipe.items()
    )
    return f"""<table class="recipe"><thead><tr><th scope="col">Parameter</th>
<th scope="col" class="number">Value</th><th scope="col">Where it is from</th>
</tr></thead><tbody>
{rows}
</tbody></table>"""


# --- A task ------------------------------------------------------------------


def _curves(
    model_dir: str, results: dict, name: str, metric: str
) -> tuple[list[report_charts.Curve], list[report_charts.Curve]]:
    """What the trials' logs have of a task: its losses, and its dev scores."""
    losses: list[report_charts.Curve] = []
    scores: list[report_charts.Curve] = []
    for trial in results["trials"]:
        path = os.path.join(
            model_directory.trial_dir(model_dir, trial["trial"]),
            model_directory.METRICS_FILE,
        )
        log = metrics_log.read(path)
        if not log:
            continue
        is_best = trial["trial"] == results["best_on_dev"]
        for found, key, split in (
            (losses, f"{name}_loss", "train"),
            (losses, f"{name}_loss", "heldout"),
            (scores, f"{name}_{metric}", "heldout"),
        ):
            points = [
                (record["step"], record[key])
                for record in log
                if record["split"] == split and key in record
            ]
            if split == "heldout":
                points += _last_points(log, trial, name, key)
            if points:
                is_train = split == "train"
                found.append(
                    report_charts.Curve(
                        points,
                        is_train,
                        is_best,
                        None if is_train else trial.get("best_step"),
                    )
                )
    return losses, scores


def _note_on_curves(
    results: dict, scores: Sequence[report_charts.Curve]
) -> str:
    """What the lines and points of the charts are, below them."""
    note = ""
    if len(results["trials"]) > 1:
        note = f"The strong line is trial {results['best_on_dev']}. "
    if any(curve.kept_step for curve in scores):
        note += (
            "Training could end early: a ring is the step whose weights were "
            "kept, and scored. "
        )
    if all(len(curve.points) == 1 for curve in scores):
        note += (
            "The dev set was scored once, at the end; with "
            "<code>RunConfig.eval_steps=50</code> it is scored every 50 steps."
        )
    return note


def _curves_section(
    model_dir: str,
    results: dict,
    name: str,
    of_task: dict,
    title: str,
    names: Iterator[str],
) -> str:
    metric = of_task["main_metric"]
    losses, scores = _curves(model_dir, results, name, metric)
    if not losses:  # An evaluation alone.
        return ""
    baseline = of_task["baseline"].get("dev", {}).get(metric)
    charts = report_charts.learning_curves(
        next(names), "Loss", losses
    ) + report_charts.learning_curves(
        next(names), f"Dev: {_in_words(metric)}", scores, baseline
    )
    legend = '<li><i class="key train"></i>training</li>\n'
    legend += '<li><i class="key heldout"></i>dev</li>'
    if baseline is not None:
        said = html.escape(of_task["baseline"]["name"])
        legend += f'\n<li><i class="key baseline"></i>{said}</li>'
    note = _note_on_curves(results, scores)
    return f"""<section>
<h2>How it learned{html.escape(title)}</h2>
<p>A dev loss that rises while the training loss falls means that the model
learns its training rows by heart: fewer epochs, or more rows.</p>
<ul class="legend">
{legend}
</ul>
<div class="grid two">{charts}</div>
<p class="note">{note}</p>
</section>"""


def _last_points(
    log: Sequence[dict], trial: dict, name: str, key: str
) -> report_charts.Points:
    """The score after the last step, where the log does not have it.

    Of a trial that may end early the last scores are those of other weights.
    """
    if trial.get("best_step") is not None:
        return []
    step = max((record["step"] for record in log), default=0)
    if any(r["step"] == step and r["split"] == "heldout" for r in log):
        return []
    dev = results_lib.scores_of(trial, name).get("dev", {})
    value = dev.get(key.removeprefix(f"{name}_"))
    return [] if value is None else [(step, value)]


# --- A split -----------------------------------------------------------------


class _Rows(typing.NamedTuple):
    """The rows of a split, and what was said of them.

    Attributes:
      split: Its name.
      kind: Of the task.
      labels: Of the task; none for some kinds.
      trials: Numbers of those whose answers these are.
      rows: Of all these trials.
      report: What `tasks.reports` says of them; empty if it is not known.
    """

    split: str
    kind: str
    labels: Sequence[str]
    trials: Sequence[int]
    rows: Sequence[Row]
    report: Mapping

    @classmethod
    def read(
        cls,
        model_dir: str,
        results: dict,
        name: str,
        of_task: dict,
        split: str,
    ) -> "_Rows":
        """Reads the predictions of a split.

        Those on the dev set are of all folds, otherwise of the best trial.
        """
        report = of_task.get("report", {}).get(split, {})
        trials = report.get("trials")
        if trials is None:
            trials = [results["best_on_dev"]]
            if "fold" in _best(results) and split == "dev":
                trials = results_lib.counted_trials(results)
        kind, labels = of_task.get("kind", ""), of_task.get("labels", [])
        prefix = f"{name}_" if "tasks" in results else ""
        rows = []
        for number in trials:
            path = os.path.join(
                model_directory.trial_dir(model_dir, number),
                f"{prefix}{split}_predictions.tsv",
            )
            if os.path.exists(path):
                num_scores = report_rows.num_scores(kind, labels)
                rows += report_rows.read(path, num_scores)
        return cls(split, kind, labels, trials, rows, report)


def _split_section(rows: _Rows, title: str, names: Iterator[str]) -> str:
    parts = [
        _classes_part(rows, names),
        _numbers_part(rows, names),
        _calibration_part(rows, names),
        shown_rows.render(rows.rows, rows.kind, rows.labels, _NUM_WRONG_ROWS),
    ]
    if len(rows.trials) > 1:
        whose = f"the trials {', '.join(map(str, rows.trials))} together"
    else:
        whose = f"trial {rows.trials[0]}"
    found = "\n".join(filter(None, parts))
    if not found:
        return ""
    return f"""<section>
<h2>The {html.escape(rows.split)} set{html.escape(title)}</h2>
<p class="when">{len(rows.rows):,} answers of {whose}.</p>
{found}
</section>"""


def _classes_part(rows: _Rows, names: Iterator[str]) -> str:
    classes = rows.report.get("classes", {})
    if not classes:
        return ""
    matrix = rows.report.get("confusion_matrix")
    is_numbered = matrix is not None and len(matrix["labels"]) > _MOST_IN_TABLE
    lines = []
    for number, (label, scores) in enumerate(classes.items(), start=1):
        first = f"{number} · {label}" if is_numbered else label
        cells = "".join(
            f'<td class="number">{scores[metric]:.2f}</td>'
            for metric in ("precision", "recall", "f1")
        )
        lines.append(
            f'<tr><th scope="row" dir="auto">{html.escape(first)}</th>'
            f'<td class="number">{scores["support"]:,}</td>{cells}'
            f'<td class="bar"><i style="width:{scores["f1"]:.1f}%"></i>'
            "</td></tr>"
        )
    table = "\n".join(lines)
    means = " · ".join(
        f"{words} {rows.report[metric]:.2f}"
        for metric, words in (
            ("macro_f1", "macro F1"),
            ("weighted_f1", "weighted F1"),
        )
        if metric in rows.report
    )
    part = f"""<h3>Each class</h3>
<p>Precision: how many of the rows that were given the label have it. Recall:
how many of those that have it were given it. F1 is between both; support
counts the rows that have the label.</p>
<div class="scroll"><table class="classes"><thead><tr>
<th scope="col">class</th><th scope="col" class="number">support</th>
<th scope="col" class="number">precision</th>
<th scope="col" class="number">recall</th>
<th scope="col" class="number">F1</th><th class="bar"></th></tr></thead><tbody>
{table}
</tbody></table></div>
<p class="note">{means}</p>"""
    if matrix is None:
        return part
    labels, counts = matrix["labels"], matrix["counts"]
    if is_numbered:
        picture = report_charts.confusion_picture(
            next(names), "True classes from top to bottom", np.array(counts)
        )
        picture = f'<div class="picture large">{picture}</div>'
    else:
        picture = page.confusion_matrix(labels, counts)
    return f"""{part}
<h3>What is taken for what</h3>
{picture}
{_confusions(labels, counts)}"""


def _confusions(labels: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    """The commonest mistakes in words."""
    commonest = report_text.confusions(labels, counts, _NUM_CONFUSIONS)
    if not commonest:
        return '<p class="note">Nothing is mistaken.</p>'
    said = "; ".join(
        f"{shown_rows.in_bold(true)} for {shown_rows.in_bold(predicted)} "
        f"{count:,} times"
        for count, true, predicted in commonest
    )
    return f'<p class="note">Most often it takes {said}.</p>'


def _numbers_part(rows: _Rows, names: Iterator[str]) -> str:
    if rows.kind != "regression" or not rows.rows:
        return ""
    labels, predictions = (
        np.array([float(value) for value in values])
        for values in zip(
            *((row.label, row.prediction) for row in rows.rows), strict=True
        )
    )
    chart = report_charts.predicted_numbers(
        next(names), "A dot for each row", labels, predictions
    )
    errors = predictions - labels
    return f"""<h3>Predicted and true numbers</h3>
<p>Predictions are off by {np.abs(errors).mean():.3f} on average, and on average
{abs(errors.mean()):.3f} too {"high" if errors.mean() > 0 else "low"}. On the
dotted line they would be right.</p>
<div class="picture">{chart}</div>"""


def _calibration_part(rows: _Rows, names: Iterator[str]) -> str:
    found = report_rows.calibration(rows.rows, rows.kind, rows.labels)
    if found is None:
        return ""
    number = int(found.counts.sum())
    if number < _LEAST_TO_CALIBRATE:
        return (
            '<p class="note">Calibration: not shown of fewer than '
            f"{_LEAST_TO_CALIBRATE} answers.</p>"
        )
    what = (
        "the probability of its answer"
        if rows.kind == "classification"
        else "the probability of each label of each row"
    )
    chart = report_charts.reliability(
        next(names), "How sure it is, and how often it is right", found
    )
    if rows.kind == "classification":
        excess = 100 * found.excess
        judged = "too sure" if excess > 0 else "too modest"
        verdict = f"It is {abs(excess):.1f} points {judged} on average."
    else:
        verdict = ""
    return f"""<h3>Can its probabilities be trusted?</h3>
<p>Its answers are put into ten bins by {what}; each bar shows what share of
its bin is right, the figure above it how many answers that is. On the dotted
line a model is right 80 times in a hundred when it says 80&nbsp;%. Expected
calibration error: <strong>{100 * found.error:.1f}&nbsp;%</strong>.
{verdict}</p>
<div class="picture">{chart}</div>"""


# --- Words -------------------------------------------------------------------


def _in_words(metric: str) -> str:
    return metric.replace("_", " ").replace("f1", "F1")


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"
