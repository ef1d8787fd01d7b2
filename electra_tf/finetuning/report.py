"""A finished fine-tuning run -> report.html, a page for a person.

Everything is read from the model directory: scores, logs, predictions.

Shapes: N rows, K bins, C classes.
"""

import json
import os
import typing
from collections.abc import Mapping, Sequence

import numpy as np

from electra_tf import model_directory
from electra_tf.command_line import charts, page
from electra_tf.command_line.page import Html, fill
from electra_tf.files import write_atomically
from electra_tf.finetuning import results as results_lib
from electra_tf.finetuning.configs import FinetuningDataConfig
from electra_tf.finetuning.recipe import listed
from electra_tf.model import task_head
from electra_tf.training import metrics_log

_BLOCKS = page.blocks(__file__)
# A table of more classes would not fit: what is confused most often does.
_MOST_IN_TABLE = 30
_NUM_CONFUSIONS = 15
_NUM_WRONG_ROWS = 12
# Of a text that is shown.
_MOST_CHARACTERS = 1000
# Of fewer answers calibration is chance.
_LEAST_TO_CALIBRATE = 30


def write(model_dir: str, results: dict) -> None:
    """Writes report.html; where that fails, says so and leaves none."""
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
    """The whole page, from a model directory and `results.summarize`."""
    names = list(results_lib.tasks_of(results))
    folder = os.path.basename(os.path.abspath(model_dir))
    title = ", ".join(names)
    if names == [FinetuningDataConfig.task_name]:  # Files of one's own.
        title = folder
    tasks = [_Task(model_dir, results, name) for name in names]
    encoder = "a pre-trained encoder"
    if results["from_scratch"]:
        encoder = "an encoder with random weights"
    number, models = len(results["trials"]), "one model and its scores"
    if number > 1:
        models = f"{number} models and their scores"
    header = page.header(
        f"electra_tf · fine-tuning · {folder}",
        title,
        f"What came out of fine-tuning {encoder}: {models}, what is mistaken "
        "for what, and how far the answers can be trusted.",
        [tile for task in tasks for tile in task.tiles()],
    )
    sections = [header, _scores(results, names)]
    for task in tasks:
        sections.append(task.curves())
        sections += map(task.answers, task.splits)
    sections.append(_run(model_dir, results))
    return page.render(f"{title}: fine-tuning", sections)


def _scores(results: dict, names: Sequence[str]) -> Html:
    """The table of all trials, and what is to be said of it."""
    parts: list[Html] = []
    for task in names:
        scores = results_lib.score_table(results, task)
        parts.append(fill("<p>{}</p>", scores.title))
        columns = "t" + "n" * (len(scores.header) - 1)
        parts.append(page.table("scores", columns, scores.header, scores.rows))
    for line in results_lib.remarks(results):
        parts.append(fill('<p class="note">{}</p>', line))
    return page.section("Scores", *parts)


def _run(model_dir: str, results: dict) -> Html:
    """Settings, command and versions; nothing for an evaluation alone."""
    path = os.path.join(model_dir, model_directory.RUNS_FILE)
    if not os.path.exists(path):
        return Html()
    with open(path, encoding="utf-8") as f:
        record = json.loads(f.read().splitlines()[-1])
    rows = [
        (name, listed(choice["value"]), choice["source"])
        for name, choice in results["recipe"].items()
    ]
    head = ["Parameter", "Value", "Where it is from"]
    recipe = page.table("recipe", "cnt", head, rows)
    return page.section("How to get the same again", recipe, page.run(record))


# --- A task ------------------------------------------------------------------


class _Task:
    """A task's part of the page."""

    def __init__(self, model_dir: str, results: dict, name: str):
        self.model_dir, self.results, self.name = model_dir, results, name
        tasks = results_lib.tasks_of(self.results)
        self.summary = tasks[self.name]
        # Of several tasks each is named.
        self.prefix = f"{self.name}, " if len(tasks) > 1 else ""
        self.suffix = f": {self.name}" if len(tasks) > 1 else ""
        self.chart = f"task{list(tasks).index(self.name)}"
        self.metric = self.summary["main_metric"]
        self.metric_in_words = self.metric.replace("_", " ").replace("f1", "F1")
        self.baseline = self.summary["baseline"]
        self.best = self.results["best_on_dev"]
        self.splits = [s for s in self.summary["num_rows"] if s in self.summary]

    def tiles(self) -> list[tuple[str, ...]]:
        """The main metric beside its baseline, and numbers of rows."""
        number = len(results_lib.counted_trials(self.results))
        tiles: list[tuple[str, ...]] = []
        for split in self.splits:
            mean = self.summary[split].get(f"{self.metric}_mean")
            spread = self.summary[split].get(f"{self.metric}_stdev")
            what = f"{self.prefix}{split}: {self.metric_in_words}"
            if spread is not None:
                what += f", mean of {number} models, ± {spread:.1f}"
            value = "–" if mean is None else f"{mean:.1f}"
            tiles.append((value, what, "strong"))
            score = self.baseline.get(split, {}).get(self.metric)
            if score is not None:
                what = f"{self.prefix}{split}: {self.baseline['name']}"
                tiles.append((f"{score:.1f}", what))
        # An evaluation alone has no training rows.
        for split, count in self.summary["num_rows"].items():
            what = "training" if split == "train" else split
            tiles.append((f"{count:,}", f"{self.prefix}{what} rows"))
        return tiles

    def curves(self) -> Html:
        """How losses and dev scores went; nothing for an evaluation alone."""
        losses: list[charts.Curve] = []
        scores: list[charts.Curve] = []
        for trial in self.results["trials"]:
            folder = model_directory.trial_dir(self.model_dir, trial["trial"])
            path = os.path.join(folder, model_directory.METRICS_FILE)
            log = metrics_log.read(path)
            best = trial["trial"] == self.best
            points = charts.points(log, "train", f"{self.name}_loss")
            losses.append(charts.Curve(points, "train", "training", best))
            for curves, metric in ((losses, "loss"), (scores, self.metric)):
                points = charts.points(log, "heldout", f"{self.name}_{metric}")
                dev = results_lib.scores_of(trial, self.name).get("dev", {})
                if log and not points and dev.get(metric) is not None:
                    points = [(log[-1]["step"], dev[metric])]
                kept = trial.get("best_step")
                curves.append(
                    charts.Curve(points, "heldout", "dev", best, kept)
                )
        if not any(curve.points for curve in losses):
            return Html()
        legend = {"train": "training", "heldout": "dev"}
        value = self.baseline.get("dev", {}).get(self.metric)
        if value is not None:
            legend["baseline"] = self.baseline["name"]
            last = max(step for curve in losses for step, _ in curve.points)
            scores.append(charts.Curve([(0, value), (last, value)], "baseline"))
        titles = ("Loss", f"Dev: {self.metric_in_words}")
        drawn = [
            charts.learning_curves(f"{self.chart}-{i}", titles[i], curves)
            for i, curves in enumerate((losses, scores))
        ]
        return page.section(
            f"How it learned{self.suffix}",
            fill(
                _BLOCKS["curves"],
                legend=page.legend(legend),
                charts=drawn,
                best=self.best,
            ),
        )

    def answers(self, split: str) -> Html:
        """What the answers to a split show."""
        kind = self.summary.get("kind", "")
        labels = self.summary.get("labels") or ()
        report = self.summary.get("report", {}).get(split, {})
        prefix = f"{self.name}_" if "tasks" in self.results else ""
        folder = model_directory.trial_dir(self.model_dir, self.best)
        path = os.path.join(folder, f"{prefix}{split}_predictions.tsv")
        rows = []
        if kind in _RATES and os.path.exists(path):
            rows = _read_rows(path, kind, labels)
        parts = [
            _classes(report),
            _calibration(rows, kind, f"{self.chart}-{split}"),
            worst_rows(rows, kind, labels),
        ]
        if not any(parts):
            return Html()
        when = fill(_BLOCKS["answers"], number=len(rows), best=self.best)
        return page.section(f"The {split} set{self.suffix}", when, *parts)


# --- Pictures of a split -----------------------------------------------------


def _classes(report: Mapping) -> Html:
    """Scores of each class, and what is taken for what."""
    if not report.get("classes"):
        return Html()
    rows = []
    for label, scores in report["classes"].items():
        shown = [f"{scores[of]:.2f}" for of in ("precision", "recall", "f1")]
        support, bar = f"{scores['support']:,}", scores["f1"] / 100
        rows.append((label, support, *shown, bar))
    head = ["class", "support", "precision", "recall", "F1", ""]
    table = page.table("classes", "tnnnnb", head, rows)
    part = fill(_BLOCKS["classes"], table=table, **report)
    if not (matrix := report.get("confusion_matrix", {})).get("labels"):
        return part
    pairs = results_lib.confusions(**matrix)
    lines = [
        fill(_BLOCKS["confused"], count=count, true=true, predicted=predicted)
        for count, true, predicted in pairs[:_NUM_CONFUSIONS]
    ]
    said = f"Most often it takes {'; '.join(lines)}."
    picture = Html()
    if len(matrix["labels"]) <= _MOST_IN_TABLE:
        picture = page.confusion_matrix(**matrix)
    commonest = Html(said if lines else "Nothing is mistaken.")
    more = fill(_BLOCKS["confusion"], matrix=picture, commonest=commonest)
    return Html(f"{part}\n{more}")


def _calibration(rows: Sequence["Row"], kind: str, chart: str) -> Html:
    """How sure a model is of its answers against how often it is right."""
    if not rows or kind != "classification":
        return Html()
    pairs = [(row.label == row.prediction, max(row.scores)) for row in rows]
    if len(pairs) < _LEAST_TO_CALIBRATE:
        return fill(_BLOCKS["too_few"], least=_LEAST_TO_CALIBRATE)
    right, sure = 100 * np.array(pairs, np.float64).T
    # A probability on an edge is in the lower bin.
    places = np.searchsorted(np.linspace(0, 100, 11)[1:-1], sure)
    bins, counts = np.unique(places, return_counts=True)
    sureness, shares = (
        np.bincount(places, values)[bins] / counts for values in (sure, right)
    )
    figure, axes = charts.new_figure(4.6, 3.4)
    axes.plot([0, 100], [0, 100], linewidth=1.4, **charts.STYLES["baseline"])
    axes.set_xlabel("how sure it is, %")
    axes.set_ylabel("how often it is right, %", color=charts.MUTED)
    axes.grid(axis="y", color=charts.LINE, linewidth=0.8)
    bars = axes.bar(10 * bins + 5, shares, 9, color=charts.ACCENT, alpha=0.6)
    numbers = [f"{count:,}" for count in counts]
    axes.bar_label(bars, numbers, color=charts.MUTED, fontsize=8)
    style = {"color": charts.INK, "markeredgecolor": charts.SURFACE}
    axes.plot(sureness, shares, "o", markersize=4, **style)
    ticks = range(0, 101, 20)
    axes.set(xlim=(0, 100), ylim=(0, 108), xticks=ticks, yticks=ticks)
    told = [
        f"{sure:.0f} % sure, {share:.0f} % right, {count} times"
        for sure, share, count in zip(sureness, shares, counts, strict=True)
    ]
    excess = (sure - right).mean()
    judged = "too sure" if excess > 0 else "too modest"
    title = "How sure it is, and how often it is right"
    return fill(
        _BLOCKS["calibration"],
        # The expected calibration error, section 2 of arXiv:1706.04599.
        error=np.average(np.abs(sureness - shares), weights=counts),
        excess=abs(excess),
        judged=judged,
        chart=charts.to_html(figure, chart, title, told),
    )


# --- The worst rows ----------------------------------------------------------


class Row(typing.NamedTuple):
    """A line of <split>_predictions.tsv.

    Attributes:
      label: What is right; several are separated by "|", by spaces for words,
        by " | " for answers.
      prediction: Likewise.
      scores: Of classes their probabilities; of tags that of the least sure
        word.
      texts: The rest of the line.
    """

    label: str
    prediction: str
    scores: tuple[float, ...]
    texts: tuple[str, ...]


def _read_rows(path: str, kind: str, labels: Sequence[str]) -> list[Row]:
    columns = {"regression": 0, "tagging": 1, "question_answering": 1}
    num_scores = columns.get(kind, len(labels))
    with open(path, encoding="utf-8", newline="\n") as f:
        _, *lines = f.read().removesuffix("\n").split("\n")
    rows = []
    for line in lines:
        label, prediction, *cells = line.split("\t")
        scores = tuple(float(cell or "nan") for cell in cells[:num_scores])
        rows.append(Row(label, prediction, scores, tuple(cells[num_scores:])))
    return rows


def worst_rows(rows: Sequence[Row], kind: str, labels: Sequence[str]) -> Html:
    """The rows that a model has wrong, each text once, the worst first."""
    if not rows:
        return Html()
    rated = [(row, *_RATES[kind](row, labels)) for row in rows]
    wrong = sorted((r for r in rated if r[1] > 0), key=lambda r: -r[1])
    if not wrong:
        return Html(_BLOCKS["none_wrong"])
    # Once, where several trials have it wrong.
    lines: dict[tuple[str, ...], Html] = {}
    for row, _, note in wrong:
        if row.texts not in lines and len(lines) < _NUM_WRONG_ROWS:
            lines[row.texts] = _line(row, note)
    counted = f"{len(wrong):,} of {len(rows):,} answers are wrong. "
    return fill(
        _BLOCKS["worst"],
        counted="" if kind == "regression" else counted,
        rows=list(lines.values()),
    )


def _line(row: Row, note: str) -> Html:
    """The texts of a row, and what is said of it."""
    shown = []
    for text in row.texts:
        if len(text) > _MOST_CHARACTERS:
            text = text[:_MOST_CHARACTERS] + " …"
        shown.append(fill(_BLOCKS["text"], text=text or Html(_BLOCKS["empty"])))
    said = fill(
        _BLOCKS["said"],
        label=row.label or "nothing",
        prediction=row.prediction or "nothing",
        note=note,
    )
    return fill(_BLOCKS["row"], texts=shown, said=said)


# Of each kind: how wrong a row is, 0 where it is right, and a note on it.


def _rate_decisions(row: Row, labels: Sequence[str]) -> tuple[float, str]:
    """How sure a model is of a wrong label, or that a right one is wrong."""
    probabilities = dict(zip(labels, row.scores, strict=True))
    right, given = (
        set(cell.split(task_head.LABEL_SEPARATOR))
        for cell in (row.label, row.prediction)
    )
    wrong = {x: p for x, p in probabilities.items() if x in right ^ given}
    # Never 100 % of what is wrong, nor 0 of what is right.
    shares = {x: min(max(100 * p, 0.1), 99.9) for x, p in wrong.items()}
    note = ", ".join(f"{x} with {share:.1f} %" for x, share in shares.items())
    errors = [abs((x in right) - p) for x, p in wrong.items()]
    return max(errors, default=0.0), note


def _rate_number(row: Row, labels: Sequence[str]) -> tuple[float, str]:
    error = abs(float(row.prediction) - float(row.label))
    return error, f"off by {error:.3f}"


def _rate_tags(row: Row, labels: Sequence[str]) -> tuple[float, str]:
    # "-" stands for a word that no model saw.
    given, right = (
        ["O" if tag == "-" else tag for tag in cell.split(" ")]
        for cell in (row.prediction, row.label)
    )
    # Above 0 also for a sentence of which no word was seen.
    error = 0.0 if given == right else max(row.scores[0], 1e-9)
    return error, f"sure of each word with {100 * row.scores[0]:.1f} % or more"


def _rate_answer(row: Row, labels: Sequence[str]) -> tuple[float, str]:
    """One less the words in common with the nearest answer."""
    given = set(row.prediction.lower().split())
    answers = (set(x.lower().split()) for x in row.label.split(" | "))
    share = max(
        len(given & answer) / max(len(given | answer), 1)
        if given
        else not answer
        for answer in answers
    )
    return 1.0 - share, ""


_RATES = {
    "classification": _rate_decisions,
    "multi_label_classification": _rate_decisions,
    "regression": _rate_number,
    "tagging": _rate_tags,
    "question_answering": _rate_answer,
}
