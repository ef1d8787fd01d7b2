"""The runs of docs/imdb.md, and their figures; runs nothing."""

import dataclasses
import json
import math
import os
import pathlib
import shlex
import statistics

import experiment_runs
from experiment_runs import Run

from electra_tf import configs, model_directory
from electra_tf.command_line import gin_files
from electra_tf.finetuning import configs as finetuning_configs

STARTS = ("pretrained", "from_scratch")
_TASK = "imdb"


@dataclasses.dataclass(frozen=True)
class Setting:
    """How models are trained on the first of the labelled reviews.

    Attributes:
      num_epochs: Start -> passes over them.
      num_seeds: Models, with seeds 1, 2, ...
    """

    num_epochs: dict[str, float]
    num_seeds: int = 5


# Labelled reviews -> the setting, chosen on dev: docs/imdb.md says how.
SETTINGS = {
    100: Setting({"pretrained": 50, "from_scratch": 50}),
    400: Setting({"pretrained": 15, "from_scratch": 15}),
    1600: Setting({"pretrained": 5, "from_scratch": 5}),
    6400: Setting({"pretrained": 2, "from_scratch": 2}),
    23000: Setting({"pretrained": 1, "from_scratch": 1}, 2),
}
# Start -> bindings of its own, chosen likewise.
PARAMS: dict[str, tuple[str, ...]] = {
    "pretrained": (),
    "from_scratch": ("FinetuningConfig.from_scratch=True",),
}


def pretraining(gin_params: tuple[str, ...] = ()) -> Run:
    """The one pre-training run."""
    path = experiment_runs.gin_path("results/imdb.gin")
    config = gin_files.load(configs.PretrainingConfig, [path], gin_params)
    return experiment_runs.make_run(
        "pre-training",
        ((path,), gin_params, config),
        config.run.seed,
        config.run.model_dir,
        {},
        "pretraining",
        1.0,
    )


def finetuning(
    start: str, size: int, build_dir: str, gin_params: tuple[str, ...] = ()
) -> Run:
    """All models of a start and a number of labelled reviews, as one run.

    Args:
      start: One of `STARTS`.
      size: A key of `SETTINGS`.
      build_dir: Where the data and the runs are.
      gin_params: For all runs.
    """
    setting = SETTINGS[size]
    path = experiment_runs.gin_path("results/imdb_finetuning.gin")
    labelled = os.path.join(build_dir, "labelled", f"train_{size}.tsv")
    num_epochs = setting.num_epochs[start]
    params = (
        f"FinetuningDataConfig.train_file={json.dumps(labelled)}",
        f"FinetuningDataConfig.num_train_epochs={num_epochs:.1f}",
        f"FinetuningConfig.num_trials={setting.num_seeds}",
        *PARAMS[start],
        *gin_params,
    )
    config = gin_files.load(finetuning_configs.FinetuningConfig, [path], params)
    scored = sum(_NUM_SCORED.values())
    # A row that is trained on costs as much as three that are scored.
    weight = setting.num_seeds * (3 * size * num_epochs + scored)
    return experiment_runs.make_run(
        f"{start} {size:,}",
        ((path,), params, config),
        1,
        os.path.join(build_dir, "runs", f"{start}_{size}"),
        {"init_checkpoint": os.path.join(build_dir, "pretrain")},
        "finetuning",
        weight,
    )


_NUM_SCORED = {"dev": 2000, "test": 5000}


def tfidf_path(build_dir: str, size: int) -> pathlib.Path:
    """Where the figures of TF-IDF for a number of labelled reviews are."""
    return pathlib.Path(build_dir, "runs", f"tfidf_{size}.json")


def collect(build_dir: str) -> dict:
    """The figures of all runs, as far as they are there.

    Returns:
      What docs/figures/imdb.json holds: "pretraining" (what `_pretraining`
      returns), and "rows", for each number of labelled reviews "labels",
      "standard_error" of a score in points, and for each contestant that has a
      result what `_scores` or `tf_idf.fit` returns; then
      "pretrained_minus_tfidf" and "from_scratch_minus_tfidf".
    """
    found: dict = {"pretraining": _pretraining(pretraining()), "rows": []}
    for size in SETTINGS:
        row: dict = {"labels": size}
        for start in STARTS:
            if scores := _scores(finetuning(start, size, build_dir)):
                row[start] = scores
        path = tfidf_path(build_dir, size)
        if path.is_file():
            row["tfidf"] = json.loads(path.read_text("utf-8"))
        _compare(row)
        found["rows"].append(row)
    return found


def _compare(row: dict) -> None:
    """Adds to a row what follows from its scores."""
    if "tfidf" not in row:
        return
    share = row["tfidf"]["test_accuracy"] / 100.0
    row["standard_error"] = 100.0 * math.sqrt(
        share * (1.0 - share) / _NUM_SCORED["test"]
    )
    for start in STARTS:
        if start in row:
            row[f"{start}_minus_tfidf"] = (
                row[start]["test"]["mean"] - row["tfidf"]["test_accuracy"]
            )


def _pretraining(run: Run) -> dict:
    """What is known of it: sizes, cost and held-out scores."""
    config = run.config
    assert isinstance(config, configs.PretrainingConfig)
    encoder = config.model.encoder
    found = {
        "command": "python " + shlex.join(run.command),
        "num_train_steps": run.num_train_steps,
        "train_batch_size": config.data.train_batch_size,
        "hidden_size": encoder.hidden_size,
        "num_hidden_layers": encoder.num_hidden_layers,
        "cpu_minutes": run.cost().get("cpu_seconds", 0.0) / 60.0,
    }
    path = os.path.join(run.model_dir, model_directory.METRICS_FILE)
    records = model_directory.read_metrics(path)
    found["curve"] = [
        {
            name: record[name]
            for name in ("step", "disc_auc", "masked_lm_accuracy")
        }
        for record in records
        if record["split"] == "heldout"
    ]
    return found


def _scores(run: Run) -> dict:
    """Accuracy in per cent by seed, of the models that are finished.

    Returns:
      "dev" and "test", each with "seeds" (in order), "mean" and "stdev" (None
      of one); "num_epochs", "num_train_steps", "cpu_minutes" of all seeds, and
      "command". Empty if there is no model.
    """
    config = run.config
    assert isinstance(config, finetuning_configs.FinetuningConfig)
    records = []
    for number in range(1, config.num_trials + 1):
        folder = model_directory.trial_dir(run.model_dir, number)
        path = pathlib.Path(folder, model_directory.RESULTS_FILE)
        if path.is_file():
            records.append(json.loads(path.read_text("utf-8")))
    if not records:
        return {}
    found: dict = {
        "num_epochs": config.data.num_train_epochs,
        "num_train_steps": records[0]["num_train_steps"],
        "learning_rate": config.optimizer.learning_rate,
        "cpu_minutes": run.cost().get("cpu_seconds", 0.0) / 60.0,
        "command": "python " + shlex.join(run.command),
    }
    for split in _NUM_SCORED:
        scores = [r["tasks"][_TASK][split]["accuracy"] for r in records]
        found[split] = {
            "seeds": scores,
            "mean": statistics.fmean(scores),
            "stdev": statistics.stdev(scores) if len(scores) > 1 else None,
        }
    return found
