"""The figures of docs/results.md, from its runs, and its tables.

  python3 tools/experiments/results_figures.py --results-dir=build/results

Reads <results-dir>/{english,korean}/pretrain and
<results-dir>/runs/<task>/{from_scratch,pretrained,pretrained_decay}, as
run_results.sh leaves them; writes results.json, the tables as results.md and
the curves of pre-training as results.png there.
tools/experiments/documented.py takes them from there into the page.
"""

import argparse
import pathlib
import statistics
import sys
from collections.abc import Sequence

import experiment_runs
import figure_files
import pictures
import results_pretraining
import tables

from electra_tf import files, model_directory
from electra_tf.command_line import arguments
from electra_tf.pretraining_data import manifest
from electra_tf.training import metrics_log

# A start -> its column.
_STARTS = {
    "from_scratch": "from scratch",
    "pretrained": "pre-trained",
    "pretrained_decay": "with decay",
}
_METRICS = ("disc_auc", "masked_lm_accuracy")
# Of the curves: millions of tokens, and these.
_CURVES = ("disc_auc", "masked_lm_loss")
_NAMES = {
    "mcc": "Matthews' correlation",
    "spearman": "Spearman's correlation",
    "exact": "exact match",
    "macro_f1": "macro F1",
    "f1": "F1",
}


# --- Runs -> figures ----------------------------------------------------------


def collect(results_dir: pathlib.Path) -> dict:
    """What was measured.

    Args:
      results_dir: Of run_results.sh.

    Returns:
      What results.json holds: "pretraining", a list of what `_pretraining`
      returns; "rows", one for each task and split, see `_rows`; "commits", of
      "pretraining" and "finetuning", the earliest first.

    Raises:
      ValueError: If a run is missing, damaged, or not what its folder says.
    """
    pretraining = {
        model: results_dir / model / "pretrain"
        for model in results_pretraining.MODELS
    }
    runs = read_runs(results_dir / "runs")
    rows = []
    for task, of_task in runs.items():
        folder = results_dir / "runs" / task
        for what, starts in (
            ("rows", list(_STARTS)),
            ("initial weights", ["pretrained", "pretrained_decay"]),
        ):
            model_dirs = [str(folder / start) for start in starts]
            experiment_runs.refuse_unlike(model_dirs, what)
        with figure_files.expecting(f"the scores of {task}", folder):
            rows += _rows(task, of_task)
    return {
        "pretraining": [
            _pretraining(model, folder) for model, folder in pretraining.items()
        ],
        "rows": rows,
        "commits": {
            "pretraining": _commits(list(pretraining.values())),
            "finetuning": _commits(
                [
                    results_dir / "runs" / task / start
                    for task in runs
                    for start in _STARTS
                ]
            ),
        },
    }


def _pretraining(model: str, folder: pathlib.Path) -> dict:
    """Of one model.

    Returns:
      "model"; "num_tokens" of its text; sizes and steps; "cpu_minutes" (None if
      they are not known); "disc_auc" and "masked_lm_accuracy" of "split": held
      out, or the last look at training; "curve", training's, each point with
      "num_tokens" and `_CURVES`.
    """
    config = model_directory.read_pretraining_config(str(folder))
    encoder, batch = config.model.encoder, config.data.train_batch_size
    length = config.model.max_seq_length
    seconds = experiment_runs.cost_of(str(folder)).get("cpu_seconds")
    log_path = folder / model_directory.METRICS_FILE
    log = metrics_log.read(str(log_path))
    split = "heldout" if config.data.heldout_files else "train"
    with figure_files.expecting("metrics of pre-training", log_path):
        looks = [line for line in log if line["split"] == "train"]
        last = [line for line in log if line["split"] == split][-1]
        if split == "heldout":
            last = files.read_json(folder / model_directory.EVAL_RESULTS_FILE)
        metrics = {name: last[name] for name in _METRICS}
        if last["step"] != config.run.num_train_steps:
            raise ValueError(
                f"Expected {config.run.num_train_steps:,} steps of {folder}. "
                f"Received: {last['step']:,}; run_results.sh DATA {model} goes "
                "on with them."
            )
        curve = [
            {"num_tokens": line["step"] * batch * length}
            | {name: line[name] for name in _CURVES}
            for line in looks
        ]
    return {
        "model": model,
        "num_tokens": _num_tokens(folder.parent / "tfrecords"),
        "num_hidden_layers": encoder.num_hidden_layers,
        "hidden_size": encoder.hidden_size,
        "vocab_size": encoder.vocab_size,
        "num_train_steps": config.run.num_train_steps,
        "train_batch_size": batch,
        "max_seq_length": length,
        "cpu_minutes": None if seconds is None else seconds / 60.0,
        "split": split,
        **metrics,
        "curve": curve,
    }


def _num_tokens(folder: pathlib.Path) -> int:
    """Of the text that examples were made of."""
    path = folder / manifest.FILE_NAME
    with figure_files.expecting("the manifest of a data set", path):
        return files.read_json(path)["totals"]["tokens"]


def read_runs(runs_dir: pathlib.Path) -> dict[str, dict[str, dict]]:
    """Task -> start -> what results.json holds.

    Raises:
      ValueError: If there is none, or one of a task is missing, damaged or
        another one's.
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
            results = files.read_json(path)
            config = model_directory.read_config(str(path.parent))
            with figure_files.expecting(f"the results of {start}", path):
                results["layerwise_lr_decay"] = config["optimizer"][
                    "layerwise_lr_decay"
                ]
                _refuse_other_start(start, results, path)
                if results["task"] != folder.name:
                    raise ValueError(
                        f"Expected results of {folder.name}. Received: {path}, "
                        f"of {results['task']}."
                    )
            found[folder.name][start] = results
    if not found:
        raise ValueError(
            f"Expected folders of tasks. Received: {runs_dir}, which has none."
        )
    return found


def _refuse_other_start(start: str, results: dict, path: pathlib.Path) -> None:
    """Refuses results that are in the folder of another start.

    Raises:
      ValueError: If they are.
    """
    expected = start == "from_scratch", start == "pretrained_decay"
    received = results["from_scratch"], bool(results["layerwise_lr_decay"])
    if expected != received:
        raise ValueError(
            f"Expected from_scratch={expected[0]} and "
            f"{'a' if expected[1] else 'no'} decay of the rate. Received: "
            f"{path}, with from_scratch={received[0]} and "
            f"{'a' if received[1] else 'no'} decay."
        )


def _rows(task: str, of_task: dict[str, dict]) -> list[dict]:
    """One for each split that is scored.

    Returns:
      "task", "split", "num_rows", "metric", "baseline" (None without one);
      "starts", for each of `_STARTS` what `_start` returns;
      "difference", pre-trained minus from scratch.

    Raises:
      ValueError: If the starts were scored on other rows, or otherwise.
    """
    pretrained = of_task["pretrained"]
    metric = pretrained["main_metric"]
    found = []
    for start, results in of_task.items():
        for name in ("main_metric", "num_rows"):
            if results[name] != pretrained[name]:
                raise ValueError(
                    f"Expected one {name} for all starts of {task}. Received: "
                    f"{pretrained[name]} and, of {start}, {results[name]}."
                )
    for split, num_rows in pretrained["num_rows"].items():
        if split not in pretrained["trials"][0]:
            continue  # "train", or without labels.
        starts = {
            start: _start(results, split, metric)
            for start, results in of_task.items()
        }
        found.append(
            {
                "task": task,
                "split": split,
                "num_rows": num_rows,
                "metric": metric,
                "baseline": pretrained["baseline"].get(split, {}).get(metric),
                "starts": starts,
                "difference": starts["pretrained"]["mean"]
                - starts["from_scratch"]["mean"],
            }
        )
    return found


def _start(results: dict, split: str, metric: str) -> dict:
    """Recipe and scores of one start, of trials that no other one repeats.

    A correlation with answers that are all alike, which is none, counts as 0.
    """
    trials = [
        trial
        for trial in results["trials"]
        if trial["trial"] not in results["replaced_trials"]
    ]
    scores = [trial[split][metric] or 0.0 for trial in trials]
    return {
        "learning_rate": trials[0]["learning_rate"],
        "layerwise_lr_decay": results["layerwise_lr_decay"],
        "num_train_epochs": trials[0]["num_train_epochs"],
        "num_trials": len(trials),
        "degenerate_trials": results["degenerate_trials"],
        "scores": scores,
        "mean": statistics.fmean(scores),
        "stdev": statistics.stdev(scores) if len(scores) > 1 else None,
    }


def _commits(model_dirs: Sequence[pathlib.Path]) -> list[str]:
    """Those of the code that worked on runs last, the earliest first."""
    starts = [experiment_runs.last_start(str(folder)) for folder in model_dirs]
    by_time = sorted(
        (start.get("time", ""), start["git_commit"])
        for start in starts
        if start.get("git_commit")
    )
    commits = (
        commit[:7] + ("-dirty" if commit.endswith("-dirty") else "")
        for _, commit in by_time
    )
    return list(dict.fromkeys(commits))


# --- Figures -> tables --------------------------------------------------------


def blocks(figures: dict) -> dict[str, str]:
    """The tables of docs/results.md, and its commits: name -> Markdown."""
    return {
        "results-pretraining": _pretraining_table(figures["pretraining"]),
        "results": tables.markdown(_table(figures["rows"])),
        "results-commits": _commits_line(figures["commits"]),
    }


def _pretraining_table(models: Sequence[dict]) -> str:
    """A column for each model."""
    rows: dict[str, list[str]] = {
        "": [results_pretraining.MODELS[of["model"]] for of in models],
        "file": [f"`gin/results/{of['model']}.gin`" for of in models],
        "tokens of text": [f"{of['num_tokens'] / 1e6:.1f} M" for of in models],
        "read": [f"{_num_passes(of):.2g} times" for of in models],
        "network": [
            f"{of['num_hidden_layers']} layers, {of['hidden_size']} wide, "
            f"{of['vocab_size']:,} entries"
            for of in models
        ],
        "steps": [
            f"{of['num_train_steps']:,} of {of['train_batch_size']} examples "
            f"of {of['max_seq_length']} tokens"
            for of in models
        ],
        "CPU minutes": [
            "" if of["cpu_minutes"] is None else f"{of['cpu_minutes']:.0f}"
            for of in models
        ],
        "scored on": [
            {"heldout": "held-out text", "train": "the last look at training"}[
                of["split"]
            ]
            for of in models
        ],
    }
    for name in _METRICS:
        rows[name] = [f"{of[name]:.3f}" for of in models]
    return tables.markdown([[name, *cells] for name, cells in rows.items()])


def _num_passes(of: dict) -> float:
    """How often the text is read."""
    tokens_a_step = of["train_batch_size"] * of["max_seq_length"]
    return of["num_train_steps"] * tokens_a_step / of["num_tokens"]


def _table(rows: Sequence[dict]) -> list[list[str]]:
    """One row for each task and split, the header first."""
    scratch, ours, decayed = _STARTS.values()
    table = [
        ["task", "split", "rows", "metric", "baseline"]
        + [scratch, ours, "difference", decayed]
    ]
    for row in rows:
        scores = {
            start: f"{of['mean']:.1f}"
            + ("" if of["stdev"] is None else f" +- {of['stdev']:.1f}")
            for start, of in row["starts"].items()
        }
        baseline = row["baseline"]
        table.append(
            [
                row["task"],
                row["split"],
                f"{row['num_rows']:,}",
                _NAMES.get(row["metric"], row["metric"]),
                "" if baseline is None else f"{baseline:.1f}",
                scores["from_scratch"],
                scores["pretrained"],
                _difference(row),
                scores["pretrained_decay"],
            ]
        )
    return table


def _difference(row: dict) -> str:
    """Bold where it is larger than both standard deviations together.

    Of single trials nothing is known of chance.
    """
    text = f"{row['difference']:+.1f}"
    spreads = [
        row["starts"][start]["stdev"]
        for start in ("from_scratch", "pretrained")
    ]
    if None in spreads or abs(row["difference"]) <= sum(spreads):
        return text
    return f"**{text}**"


def _commits_line(commits: dict[str, list[str]]) -> str:
    return (
        f"Fine-tuning {_at(commits['finetuning'])}, pre-training "
        f"{_at(commits['pretraining'])}."
    )


def _at(commits: Sequence[str]) -> str:
    if not commits:
        return "at a commit that is not known"
    if len(commits) == 1:
        return f"at commit {commits[0]}"
    return f"at commits {commits[0]} to {commits[-1]}"


# --- Figures -> picture -------------------------------------------------------


def draw(figures: dict, path: str) -> None:
    """Writes the curves of pre-training.

    Args:
      figures: Of `collect`.
      path: A .png, or what else matplotlib writes.
    """
    picture, panels = pictures.new(7.2, 2.6, 2)
    for axes, name in zip(panels, _CURVES, strict=True):
        for of in figures["pretraining"]:
            axes.plot(
                [point["num_tokens"] / 1e6 for point in of["curve"]],
                [point[name] for point in of["curve"]],
                label=results_pretraining.MODELS[of["model"]],
                linewidth=1.3,
            )
        axes.set_xlabel("million tokens")
    panels[0].set_ylabel("disc_auc")
    panels[1].set_ylabel("masked_lm_loss, nats")
    panels[0].legend(frameon=False)
    picture.savefig(path, dpi=100)


# --- The command --------------------------------------------------------------


def _write(args: argparse.Namespace) -> None:
    folder = args.results_dir
    with figure_files.expecting("figures of finished runs", folder):
        figures = collect(folder)
        text = "\n\n".join(blocks(figures).values()) + "\n"
        figure_files.write(folder / "results.json", figures)
        files.write_atomically(str(folder / "results.md"), text)
        draw(figures, str(folder / "results.png"))
    print(text)
    print(f"written: {folder / 'results.{json,md,png}'}")


def main(argv=None) -> int:
    """Writes figures, tables and picture; returns the exit code."""
    parser = arguments.ArgumentParser(
        prog="results_figures", description=__doc__
    )
    parser.add_argument(
        "--results-dir",
        type=pathlib.Path,
        default=pathlib.Path("build/results"),
        help="Where run_results.sh works (default: %(default)s).",
    )
    return arguments.run(_write, parser, argv)


if __name__ == "__main__":
    sys.exit(main())
