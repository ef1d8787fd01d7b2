"""The figures of docs/imdb_tried.md -> its tables."""

import collections
from collections.abc import Sequence

import experiments_table
import imdb_table
import tables
from imdb_table import CONTESTANTS

# What depends on the weights that pre-training left.
_PRETRAINED = ("pretrained", "embeddings", "frozen")
_GENERATORS = {
    "network": "by a network",
    "shared": "by the same network",
    "unigram": "by frequency",
}
_READ = {"cls": "[CLS]", "mean": "mean"}
_EMBEDDINGS: dict[bool | None, str] = {False: "random", True: "LSA"}
# The column of what `_embeddings` returns.
_EMBEDDINGS_TITLE = "embeddings at first, rate"


def blocks(figures: dict) -> dict[str, str]:
    """Name of each table of the page -> Markdown."""
    return {
        "pretrainings": _pretrainings([*figures.get("others", ()), figures]),
        "choices": _choices(figures.get("choices", ())),
    }


def _pretrainings(runs: Sequence[dict]) -> str:
    """Accuracy on test after each pre-training that was tried.

    Args:
      runs: What `imdb_runs.collect` returns of each, or those parts of it that
        pre-training decides; with "pooling" where that is not "cls", and
        "run", its number, where it was pre-trained in the same way again; or
        with "seed" in what it says of pre-training.
    """
    labels = [row["labels"] for row in runs[-1]["rows"]]
    table = [
        ["start", "replacements", "disc_weight", _EMBEDDINGS_TITLE]
        + ["steps", "CPU minutes"]
        + [f"{number:,}" for number in labels]
    ]
    for name in _PRETRAINED:
        for run in runs:
            pretraining = run["pretraining"]
            scores = {row["labels"]: row.get(name) for row in run["rows"]}
            if not any(scores.values()):
                continue
            minutes = pretraining["cpu_minutes"]
            table.append(
                [_start_of(run, name), _GENERATORS[pretraining["generator"]]]
                + [f"{pretraining['disc_weight']:g}"]
                + [_embeddings(pretraining)]
                + [f"{pretraining['num_train_steps']:,}"]
                + ["" if minutes is None else f"{minutes:.0f}"]
                + [imdb_table.score(scores.get(number)) for number in labels]
            )
    return tables.markdown(table)


def _embeddings(found: dict) -> str:
    """What they start with, and their share of the rate where it is not all."""
    first = _EMBEDDINGS.get(found.get("embeddings_from_data"), "")
    scale = found.get("embeddings_lr_scale", 1.0)
    return first if scale == 1.0 else f"{first}, {scale:g}"


def _start_of(run: dict, name: str) -> str:
    """Who it is, and what its heads read if that is not [CLS]."""
    again = f", run {run['run']}" if "run" in run else ""
    if (seed := run["pretraining"].get("seed", 1)) != 1:
        again = f", seed {seed}"
    reads_mean = name != "frozen" and run.get("pooling") == "mean"
    return CONTESTANTS[name] + again + ", mean" * reads_mean


def _choices(tried: Sequence[dict]) -> str:
    """What was tried on dev before, see `imdb_runs.choices`; seeds together."""
    table = [
        ["start", "replacements", "disc_weight", _EMBEDDINGS_TITLE]
        + ["read", "labels", "rate", "decay", "dropout", "epochs", "dev"]
        + ["seeds"]
    ]
    scores = collections.defaultdict(list)
    for one in tried:
        scores[tuple(_recipe(one))].append(one["dev"])
    for recipe, found in scores.items():
        score = experiments_table.statistics_of(found)
        table.append(
            [*recipe, experiments_table.spread(score), str(len(found))]
        )
    return tables.markdown(table)


def _recipe(one: dict) -> list[str]:
    step = one.get("step")
    return [
        CONTESTANTS[one["start"]]
        + (f", run {one['run']}" if "run" in one else "")
        + (f", step {step:,}" if step is not None else ""),
        _GENERATORS.get(one.get("generator", ""), ""),
        f"{one['disc_weight']:g}" if "disc_weight" in one else "",
        _embeddings(one),
        _READ[one["pooling"]]
        + ", by tokens" * one.get("weigh_windows", False)
        + ", balanced" * one.get("is_balanced", False),
        f"{one['labels']:,}",
        f"{one['learning_rate']:g}",
        f"{one['layerwise_lr_decay']:g}",
        f"{one['dropout']:g}",
        f"{one['num_epochs']:g}",
    ]
