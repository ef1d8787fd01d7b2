"""The runs of docs/imdb.md, and their figures; runs nothing."""

import collections
import json
import math
import os
import pathlib
import re
import shlex
import statistics
import typing
from collections.abc import Sequence

import experiment_runs
import figure_files
import tf_idf
from experiment_runs import Run

from electra_tf import configs, files, model_directory
from electra_tf.command_line import gin_files
from electra_tf.finetuning import configs as finetuning_configs
from electra_tf.training import metrics_log

# The weights to start from: all, the embeddings alone (`ner_parts`), none.
STARTS = ("pretrained", "embeddings", "from_scratch")
# What a logistic regression reads: `frozen_features`, `latent_features` and
# `tf_idf`.
LINEAR = ("frozen", "latent", "tfidf")
_KEPT = (*tf_idf.Baseline._fields, "cpu_seconds")
_TASK = "imdb"
# What there is once more of every other pre-training.
OF_PRETRAINING = ("pretrained", "frozen")


class _Recipe(typing.NamedTuple):
    """Of fine-tuning the pre-trained start; chosen as docs/imdb_tried.md says.

    The head begins at random and takes a high rate, what pre-training left
    takes lower ones.

    Attributes:
      num_epochs: Passes over the labelled reviews.
      learning_rate: Of the head.
      layerwise_lr_decay: Factor from each layer to the one below it; between
        the head and the top layer it counts twice, as in the original.
      dropout: 0 for none.
      weigh_windows: Whether a window counts as much as it has tokens.
      is_balanced: Whether rare labels weigh more, so that all count alike.
    """

    num_epochs: int
    learning_rate: float = 2e-3
    layerwise_lr_decay: float = 0.4
    dropout: float = 0.1
    weigh_windows: bool = False
    is_balanced: bool = False

    def params(self) -> tuple[str, ...]:
        """Its bindings."""
        return (
            f"FinetuningDataConfig.num_train_epochs={self.num_epochs:.1f}",
            f"OptimizerConfig.learning_rate={self.learning_rate}",
            f"OptimizerConfig.layerwise_lr_decay={self.layerwise_lr_decay}",
            f"FinetuningConfig.dropout={self.dropout}",
            *self.of_both(),
        )

    def of_both(self) -> tuple[str, ...]:
        """Those that random weights have, too."""
        return (
            *[_WEIGH_WINDOWS] * self.weigh_windows,
            *[_BALANCED] * self.is_balanced,
        )


_WEIGH_WINDOWS = "FinetuningDataConfig.weigh_windows=True"
_BALANCED = "FinetuningConfig.class_weights='balanced'"
# Labelled reviews -> passes over them, and how the pre-trained start learns.
NUM_EPOCHS = {100: 20, 400: 10, 1600: 3, 6400: 1, 23000: 1}
_PRETRAINED = {
    # The head alone: what is below it would learn next to nothing. Of these
    # reviews 59 are good ones.
    100: _Recipe(100, 5e-3, 1e-6, 0.0, weigh_windows=True, is_balanced=True),
    400: _Recipe(20),
    1600: _Recipe(8),
    6400: _Recipe(6),
    23000: _Recipe(4),
}
# Of random weights, where they take more passes: then with dropout.
_MORE_EPOCHS = {23000: 4}


def params(start: str, size: int) -> tuple[str, ...]:
    """Bindings of a start and a number of labelled reviews."""
    if start == "pretrained":
        return _PRETRAINED[size].params()
    if start != "from_scratch":
        return ()
    found: tuple[str, ...] = ("FinetuningConfig.from_scratch=True",)
    if num_epochs := _MORE_EPOCHS.get(size):
        found += (
            f"FinetuningDataConfig.num_train_epochs={num_epochs:.1f}",
            "FinetuningConfig.dropout=0.1",
        )
    return found + _PRETRAINED[size].of_both()


def folder_of(name: str, build_dir: str, again: int = 1) -> str:
    """A folder of what depends on a pre-training.

    Args:
      name: That of the first one's.
      build_dir: Where all of them are.
      again: 1 for the first pre-training, 2 for the second, ...
    """
    return os.path.join(build_dir, name if again == 1 else f"{name}_{again}")


def pretraining(
    gin_params: tuple[str, ...] = (), again: int = 1, build_dir: str = ""
) -> Run:
    """One pre-training run; others differ from the first in their seed.

    Args:
      gin_params: For it.
      again: See `folder_of`.
      build_dir: Of others.
    """
    path = experiment_runs.gin_path("results/imdb.gin")
    config = gin_files.load(configs.PretrainingConfig, [path], gin_params)
    model_dir = config.run.model_dir
    if again > 1:
        model_dir = folder_of("pretrain", build_dir, again)
    return experiment_runs.make_run(
        "pre-training",
        ((path,), gin_params, config),
        config.run.seed + again - 1,
        model_dir,
        {},
        "pretraining",
        1.0,
    )


def finetuning(
    start: str,
    size: int,
    build_dir: str,
    num_seeds: int = 5,
    gin_params: tuple[str, ...] = (),
    again: int = 1,
) -> Run:
    """All models of a start and a number of labelled reviews, as one run.

    Args:
      start: One of `STARTS`.
      size: A key of `NUM_EPOCHS`.
      build_dir: Where the data and the runs are.
      num_seeds: Models, with seeds 1, 2, ...
      gin_params: For all runs.
      again: Which pre-training it starts from, see `folder_of`.
    """
    path = experiment_runs.gin_path("results/imdb_finetuning.gin")
    labelled = os.path.join(build_dir, "labelled", f"train_{size}.tsv")
    bindings = (
        f"FinetuningDataConfig.train_file={json.dumps(labelled)}",
        f"FinetuningDataConfig.num_train_epochs={NUM_EPOCHS[size]:.1f}",
        f"FinetuningConfig.num_trials={num_seeds}",
        *params(start, size),
        *gin_params,
    )
    config = gin_files.load(
        finetuning_configs.FinetuningConfig, [path], bindings
    )
    scored = sum(_NUM_SCORED.values())
    # A row that is trained on costs as much as three that are scored.
    weight = num_seeds * (3 * size * config.data.num_train_epochs + scored)
    return experiment_runs.make_run(
        f"{start} {size:,}",
        ((path,), bindings, config),
        1,
        os.path.join(folder_of("runs", build_dir, again), f"{start}_{size}"),
        {"init_checkpoint": init_checkpoint(start, build_dir, again)},
        "finetuning",
        weight,
    )


def init_checkpoint(start: str, build_dir: str, again: int = 1) -> str:
    """The model directory that a start begins with."""
    if start == "embeddings":
        return os.path.join(build_dir, "parts", start)
    return folder_of("pretrain", build_dir, again)


# Of pre-training's held-out evaluations.
_CURVE = ("step", "disc_auc", "masked_lm_accuracy")
_NUM_SCORED = {"dev": 2000, "test": 5000}


def linear_path(
    build_dir: str, features: str, size: int, again: int = 1
) -> pathlib.Path:
    """Where the figures of a logistic regression are.

    Args:
      build_dir: See `finetuning`.
      features: One of `LINEAR`.
      size: Labelled reviews.
      again: See `folder_of`.
    """
    folder = folder_of("runs", build_dir, again)
    return pathlib.Path(folder, f"{features}_{size}.json")


def collect(
    build_dir: str,
    pretraining_params: tuple[str, ...] = (),
    finetuning_params: tuple[str, ...] = (),
) -> dict:
    """The figures of all runs, as far as they are there.

    Args:
      build_dir: See `finetuning`.
      pretraining_params: Bindings that pre-training was given.
      finetuning_params: Likewise all fine-tuning.

    Returns:
      What results.json holds: "pretraining" (what `_pretraining` returns),
      "pooling" (what heads read), and "rows", for each number of labelled
      reviews "labels", "standard_error" of a score in points, and for each
      contestant that has a result what `_scores` or `tf_idf.fit` returns, with
      "cpu_seconds"; then how far it is above TF-IDF, as in
      "pretrained_minus_tfidf"; what `choices` returns, if there are any; and
      "others", the same of other pre-trainings as far as it depends on them.

    Raises:
      ValueError: If results are damaged, or not of the same data and weights.
    """
    found = _of_one(
        pretraining(pretraining_params),
        build_dir,
        finetuning_params,
        (*STARTS, *LINEAR),
    )
    if tried := choices(build_dir):
        found["choices"] = tried
    others = []
    again = 2
    while os.path.isdir(folder_of("pretrain", build_dir, again)):
        run = pretraining(pretraining_params, again, build_dir)
        others.append(
            _of_one(run, build_dir, finetuning_params, OF_PRETRAINING, again)
        )
        again += 1
    if others:
        found["others"] = others
    return found


def _of_one(
    run: Run,
    build_dir: str,
    params: tuple[str, ...],
    contestants: Sequence[str],
    again: int = 1,
) -> dict:
    """See `collect`: what there is of one pre-training.

    Args:
      run: The pre-training.
      build_dir: See `finetuning`.
      params: Of all fine-tuning.
      contestants: Of `STARTS` and `LINEAR`.
      again: See `folder_of`.
    """
    rows = []
    model_dirs: dict[str, list[str]] = collections.defaultdict(list)
    for size in NUM_EPOCHS:
        row: dict = {"labels": size}
        for name in contestants:
            if name in STARTS:
                tuned = finetuning(
                    name, size, build_dir, gin_params=params, again=again
                )
                if scores := _scores(tuned):
                    row[name] = scores
                    for key in (name, str(size)):
                        model_dirs[key].append(tuned.model_dir)
                continue
            path = linear_path(build_dir, name, size, again)
            if path.is_file():
                found_there = files.read_json(path)
                with figure_files.expecting(f"scores of {name}", path):
                    row[name] = {field: found_there[field] for field in _KEPT}
        experiment_runs.refuse_unlike(model_dirs[str(size)], "rows")
        _compare(row)
        rows.append(row)
    for start in STARTS:
        experiment_runs.refuse_unlike(model_dirs[start], "initial weights")
    return {
        "pretraining": _pretraining(run),
        "rows": rows,
        "pooling": _pooling(build_dir, params),
    }


def with_earlier(figures: dict, earlier: dict) -> dict:
    """Adds what earlier figures have of runs that are gone.

    Args:
      figures: What `collect` returns.
      earlier: The same of another time, such as docs/figures/imdb.json.

    Returns:
      `figures` with the other pre-trainings and the choices of both, those of
      earlier first; what is in both once.
    """
    tried = list(earlier.get("choices", ()))
    left = list(tried)
    for one in figures.get("choices", ()):
        if one in left:
            left.remove(one)  # Another seed may have the same score.
        else:
            tried.append(one)
    # One that nothing was fine-tuned of yet takes no other one's place.
    here = [
        one
        for one in figures.get("others", ())
        if any(len(row) > 1 for row in one["rows"])
    ]
    of_now = [one["pretraining"]["command"] for one in here]
    others = [
        one
        for one in earlier.get("others", ())
        if one["pretraining"]["command"] not in of_now
    ]
    others += here
    return figures | {"choices": tried, "others": others}


def _pooling(build_dir: str, params: tuple[str, ...]) -> str:
    run = finetuning(STARTS[0], min(NUM_EPOCHS), build_dir, 1, params)
    assert isinstance(run.config, finetuning_configs.FinetuningConfig)
    return run.config.pooling


def choices(build_dir: str) -> list[dict]:
    """What was tried on dev: a run of one's own is <build_dir>/choices/<name>.

    Returns:
      For each of its models "start", "step" of pre-training where that was not
      its end, "labels", "learning_rate", "layerwise_lr_decay", "dropout",
      "pooling", "num_epochs", "dev", the accuracy, and "weigh_windows" and
      "is_balanced" (labels' weights) where it is so; and what `_kind` returns
      of the pre-training, if its folder is there.

    Raises:
      ValueError: If such a run is damaged, or of other data.
    """
    found = []
    pattern = f"*/trial_*/{model_directory.RESULTS_FILE}"
    for path in sorted(pathlib.Path(build_dir, "choices").glob(pattern)):
        config = model_directory.read_config(str(path.parents[1]))
        with figure_files.expecting("a model of film reviews", path):
            trial = files.read_json(path)
            labelled = re.search(
                r"train_(\d+)\.tsv$", config["data"]["train_file"]
            )
            step = re.search(r"-(\d+)$", config["init_checkpoint"])
            from_scratch = config["from_scratch"]
            one = {
                "start": "from_scratch" if from_scratch else "pretrained",
                "labels": int(labelled[1]),  # type: ignore[index]
                "learning_rate": trial["learning_rate"],
                "layerwise_lr_decay": config["optimizer"]["layerwise_lr_decay"],
                "dropout": config["dropout"] or 0.0,
                "pooling": config.get("pooling", configs.DEFAULT_POOLING),
                "num_epochs": trial["num_train_epochs"],
                "dev": trial["tasks"][_TASK]["dev"]["accuracy"],
            }
            if config["data"].get("weigh_windows"):
                one["weigh_windows"] = True
            if config.get("class_weights") == "balanced":
                one["is_balanced"] = True
            if from_scratch:
                one["embeddings_from_data"] = False
            else:
                one |= {"step": int(step[1])} if step else {}
                one |= _kind_of(config["init_checkpoint"])
            found.append(one)
    return found


def _kind_of(init_checkpoint: str) -> dict:
    """Of the run whose checkpoint this is; nothing if that is not there."""
    path = pathlib.Path(init_checkpoint)
    folder = path if path.is_dir() else path.parent
    if not (folder / model_directory.CONFIG_FILE).is_file():
        return {}
    return _kind(model_directory.read_pretraining_config(str(folder)))


def _compare(row: dict) -> None:
    """Adds to a row what follows from its scores."""
    if "tfidf" not in row:
        return
    share = row["tfidf"]["test_accuracy"] / 100.0
    row["standard_error"] = 100.0 * math.sqrt(
        share * (1.0 - share) / _NUM_SCORED["test"]
    )
    for features in LINEAR:
        if features in row and features != "tfidf":
            row[f"{features}_minus_tfidf"] = (
                row[features]["test_accuracy"] - row["tfidf"]["test_accuracy"]
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
        "seed": config.run.seed,
        "num_train_steps": run.num_train_steps,
        "train_batch_size": config.data.train_batch_size,
        "hidden_size": encoder.hidden_size,
        "num_hidden_layers": encoder.num_hidden_layers,
        **_kind(config),
        "cpu_minutes": _cpu_minutes(run),
        "git_commit": run.git_commit(),
        "curve": [],
    }
    if experiment_runs.is_of_table(run):
        path = os.path.join(run.model_dir, model_directory.METRICS_FILE)
        with figure_files.expecting("metrics of pre-training", path):
            found["curve"] = [
                {name: record[name] for name in _CURVE}
                for record in metrics_log.read(path)
                if record["split"] == "heldout"
            ]
    return found


def _kind(config: configs.PretrainingConfig) -> dict:
    """What tells one pre-training of the page from another."""
    generator = "network" if config.model.untied_generator else "shared"
    if config.model.unigram_generator:
        generator = "unigram"
    return {
        "generator": generator,
        "disc_weight": config.model.disc_weight,
        "embeddings_from_data": config.data.embeddings_from_data,
        "embeddings_lr_scale": config.optimizer.embeddings_lr_scale,
    }


def _cpu_minutes(run: Run) -> float | None:
    """Of all processes that worked on a run; None if that is not known."""
    seconds = run.cost().get("cpu_seconds")
    return None if seconds is None else seconds / 60.0


def _scores(run: Run) -> dict:
    """Accuracy in per cent by seed, of the models that are finished.

    Returns:
      "dev" and "test", each with "seeds" (in order), "mean" and "stdev" (None
      of one); "num_epochs", "num_train_steps", "learning_rate", "cpu_minutes"
      of all seeds, "git_commit" and "command". Empty if there is no model, or
      that of another configuration.
    """
    config = run.config
    assert isinstance(config, finetuning_configs.FinetuningConfig)
    records = run.trials() if experiment_runs.is_of_table(run) else []
    if not records:
        return {}
    with figure_files.expecting("accuracy of each seed", run.model_dir):
        num_train_steps = records[0]["num_train_steps"]
        of_splits = {
            split: [r["tasks"][_TASK][split]["accuracy"] for r in records]
            for split in _NUM_SCORED
        }
    found: dict = {
        "num_epochs": config.data.num_train_epochs,
        "num_train_steps": num_train_steps,
        "learning_rate": config.optimizer.learning_rate,
        "cpu_minutes": _cpu_minutes(run),
        "git_commit": run.git_commit(),
        "command": "python " + shlex.join(run.command),
    }
    for split, scores in of_splits.items():
        found[split] = {
            "seeds": scores,
            "mean": statistics.fmean(scores),
            "stdev": statistics.stdev(scores) if len(scores) > 1 else None,
        }
    return found
