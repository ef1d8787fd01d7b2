"""Finished runs of run_ner.py -> their figures, and tables in Markdown."""

import collections
import pathlib
from collections.abc import Mapping, Sequence

import experiment_runs
import experiments_table
import figure_files
import ner_parts
import ner_runs
import tables
from experiment_runs import Run
from ner_runs import HALF, PRETRAINED, RESCALED, SCRATCH, Options

_SPLITS = ("dev", "test")
_BEGINS_WITH = {
    SCRATCH: "nothing",
    PRETRAINED: "all weights",
    HALF: "half of the steps",
    "embeddings": "embeddings alone",
    "layers": "layers alone",
    RESCALED: "all, words rescaled",
    ner_runs.FASTER: "all, lower layers faster",
}
_RECIPE = ("learning_rate", "num_train_epochs")
_HELDOUT = ("disc_auc", "masked_lm_accuracy", "total_loss")


def collect(options: Options) -> dict:
    """The figures of what is finished.

    Returns:
      What ner.json holds: "pretraining", "choices", "scores" and "case", each a
      list of runs with model, command, commit and CPU seconds. The first has
      held-out metrics; the second "settings" (rate, epochs, F1 on dev); the
      others start, labelled sentences, recipe, "trials" (a seed's F1 on dev and
      test) and "dev" and "test", their statistics. Then "differences", of each
      start of "scores" minus from scratch, seed by seed.

    Raises:
      ValueError: If results are damaged, or not of the same data and weights.
    """
    found: dict = {
        "num_choice_sentences": ner_runs.NUM_CHOICE_SENTENCES,
        "pretraining": [],
        "choices": [],
    }
    for model in options.models:
        run = ner_runs.pretraining_run(model, options)
        if experiment_runs.is_of_table(run) and run.is_finished():
            found["pretraining"].append(
                {"model": model}
                | _heldout(run)
                | {"deviations": ner_parts.deviations(run.model_dir)}
                | run.origin()
            )
    for start in ner_runs.CHOICES:
        if settings := ner_runs.settings(start, options):
            found["choices"].append(
                {
                    "model": options.models[0],
                    "start": start,
                    "settings": [s._asdict() for s in settings],
                }
                | ner_runs.choice_run(start, options).origin()
            )
    compared: list[Run] = []
    for name, runs in (
        ("scores", ner_runs.score_runs(options)),
        ("case", ner_runs.case_runs(options)),
    ):
        # Of a run that was stopped, the seeds that it has.
        scored = [
            run
            for run in runs
            if experiment_runs.is_of_table(run) and run.trials()
        ]
        found[name] = [_scored(run) for run in scored]
        compared += scored
    _refuse_unlike(compared)
    found["differences"] = differences(found["scores"])
    return found


def _heldout(run: Run) -> dict:
    """Held-out metrics at the end of pre-training, and in the course of it."""
    heldout = experiments_table.read_heldout(run.model_dir)
    with figure_files.expecting("held-out metrics of a run", run.model_dir):
        course = {
            step: {name: metrics[name] for name in _HELDOUT}
            for step, metrics in sorted(heldout.items())
        }
        last = course[run.num_train_steps]
    return {
        "steps": run.num_train_steps,
        **last,
        "course": [{"step": step} | of for step, of in course.items()],
    }


def _refuse_unlike(runs: Sequence[Run]) -> None:
    """Refuses runs that differ in more than their start and their labels.

    Raises:
      ValueError: If there are any.
    """
    groups = collections.defaultdict(list)
    for run in runs:
        model, number, start = pathlib.Path(run.model_dir).parts[-3:]
        groups[number, "rows"].append(run.model_dir)
        groups[f"{model} {start}", "initial weights"].append(run.model_dir)
    for (_, what), model_dirs in groups.items():
        experiment_runs.refuse_unlike(model_dirs, what)


def _scored(run: Run) -> dict:
    model, number, start = pathlib.Path(run.model_dir).parts[-3:]
    about = {"model": model, "start": start, "num_sentences": int(number)}
    return about | scores_of(run)


def scores_of(run: Run) -> dict:
    """F1 of each seed of a run on dev and test, and their statistics.

    Returns:
      "learning_rate", "num_train_epochs", "trials", "dev", "test", and what
      `Run.origin` says.
    """
    with figure_files.expecting("F1 of each seed", run.model_dir):
        trials = [
            {name: trial[name] for name in ("seed", *_RECIPE)}
            | {split: trial["tasks"]["ner"][split]["f1"] for split in _SPLITS}
            for trial in run.trials()
        ]
    recipe = {name: trials[0][name] for name in _RECIPE}
    return {
        **recipe,
        "trials": [
            {name: trial[name] for name in ("seed", *_SPLITS)}
            for trial in trials
        ],
        **{
            split: experiments_table.statistics_of(
                [trial[split] for trial in trials]
            )
            for split in _SPLITS
        },
        **run.origin(),
    }


def differences(scores: Sequence[dict]) -> list[dict]:
    """Pre-trained minus from scratch, for each model and number of labels."""
    of_start = {
        (run["model"], run["num_sentences"], run["start"]): run
        for run in scores
    }
    found = []
    for (model, number, start), run in of_start.items():
        other = of_start.get((model, number, SCRATCH))
        if start == SCRATCH or other is None:
            continue
        entry: dict = {"model": model, "num_sentences": number, "start": start}
        for split in _SPLITS:
            before = {t["seed"]: t[split] for t in other["trials"]}
            entry[split] = experiments_table.statistics_of(
                [
                    trial[split] - before[trial["seed"]]
                    for trial in run["trials"]
                    if trial["seed"] in before
                ]
            )
        found.append(entry)
    return found


def blocks(figures: dict) -> dict[str, str]:
    """The tables of docs/ner.md: name -> Markdown."""
    return {
        "ner-pretraining": tables.markdown(_pretraining_table(figures)),
        "ner-choices": tables.markdown(_choices_table(figures)),
        "ner-scores": scores_table(figures, _BEGINS_WITH),
        "ner-case": tables.markdown(_case_table(figures)),
    }


def _pretraining_table(figures: dict) -> list[list[str]]:
    table = [
        ["model", "steps", "disc_auc", "masked_lm_accuracy", "CPU minutes"]
    ]
    for run in figures["pretraining"]:
        table.append(
            [
                run["model"],
                f"{run['steps']:,}",
                f"{run['disc_auc']:.3f}",
                f"{run['masked_lm_accuracy']:.3f}",
                f"{run['cpu_seconds'] / 60:.1f}" if run["cpu_seconds"] else "",
            ]
        )
    return table


def _choices_table(figures: dict) -> list[list[str]]:
    """A row for each start, a column for each setting; the best is bold."""
    columns = sorted(
        {
            (setting["num_train_epochs"], setting["learning_rate"])
            for run in figures["choices"]
            for setting in run["settings"]
        }
    )
    table = [
        [
            "begins with",
            *(f"{epochs:g} epochs, {_rate(rate)}" for epochs, rate in columns),
        ]
    ]
    for run in figures["choices"]:
        scores = {
            (s["num_train_epochs"], s["learning_rate"]): s["f1"]
            for s in run["settings"]
        }
        best = max(scores.values())
        cells = []
        for column in columns:
            text = f"{scores[column]:.1f}" if column in scores else ""
            cells.append(f"**{text}**" if scores.get(column) == best else text)
        table.append([_BEGINS_WITH[run["start"]], *cells])
    return table


def scores_table(figures: dict, titles: Mapping[str, str]) -> str:
    """A row for each start, by labelled sentences, in Markdown.

    Args:
      figures: Has "scores" and "differences".
      titles: Of the starts, for people.
    """
    of_start = {
        (entry["num_sentences"], entry["start"]): entry
        for entry in figures["differences"]
    }
    table = [
        [
            *("sentences", "begins with", "rate", "epochs"),
            *("dev", "minus nothing", "test", "minus nothing", "seeds"),
        ]
    ]
    for run in figures["scores"]:
        number, start = run["num_sentences"], run["start"]
        entry = of_start.get((number, start))
        cells = []
        for split in _SPLITS:
            cells.append(experiments_table.spread(run[split]))
            cells.append(
                experiments_table.difference(entry[split]) if entry else ""
            )
        table.append(
            [
                f"{number:,}",
                titles[start],
                _rate(run["learning_rate"]),
                f"{run['num_train_epochs']:g}",
                *cells,
                str(len(run["trials"])),
            ]
        )
    return tables.markdown(table)


def _case_table(figures: dict) -> list[list[str]]:
    """All models, from nothing and from half of the steps."""
    table = [["model", "begins with", "rate", "dev", "test", "seeds"]]
    numbers = {run["num_sentences"] for run in figures["case"]}
    for start in (SCRATCH, HALF):
        for run in (*figures["scores"], *figures["case"]):
            if run["start"] == start and run["num_sentences"] in numbers:
                table.append(
                    [
                        run["model"],
                        _BEGINS_WITH[start],
                        _rate(run["learning_rate"]),
                        experiments_table.spread(run["dev"]),
                        experiments_table.spread(run["test"]),
                        str(len(run["trials"])),
                    ]
                )
    return table


def _rate(rate: float) -> str:
    """0.0005 -> '5e-4'."""
    return f"{rate:.0e}".replace("e-0", "e-")
