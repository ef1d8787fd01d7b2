"""What a run found out about the model that it left."""

import os
import typing
from collections.abc import Mapping

from electra_tf import model_directory
from electra_tf.errors import CheckpointError
from electra_tf.files import read_json


class Scores(typing.NamedTuple):
    """Scores of one model.

    Attributes:
      by_split: Split -> metric -> value.
      data: What the run calls the data.
      about: How they came about, in a sentence or two.
    """

    by_split: Mapping[str, Mapping[str, float]]
    data: str
    about: str


def read(path: str | os.PathLike, step: int | None = None) -> Scores | None:
    """The scores of the model at a path.

    Args:
      path: As for `electra_tf_format.read`.
      step: Of its weights, where they say one.

    Returns:
      None where it is of no run, or of one without scores of that step.
    """
    path = os.path.abspath(path)
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    try:
        heldout = os.path.join(folder, model_directory.EVAL_RESULTS_FILE)
        if os.path.isfile(heldout):
            found = read_json(heldout)
            is_other = step is not None and found["step"] != step
            return None if is_other else _of_pretraining(found)
        trial = None
        name = os.path.basename(folder)
        if model_directory.PART_OF_RUN.fullmatch(name):
            # What is best of a run or a trial is of another step.
            trial = int(name.removeprefix("trial_"))
            folder = os.path.dirname(folder)
        results = os.path.join(folder, model_directory.RESULTS_FILE)
        if os.path.isfile(results):
            return _of_finetuning(read_json(results), trial)
    except (CheckpointError, LookupError, TypeError, ValueError):
        pass  # Not of this version: the model is none the worse for it.
    return None


def _of_pretraining(results: dict) -> Scores:
    step = results.pop("step")
    return Scores(
        {"held-out": _numbers(results)},
        "pre-training",
        f"Of held-out examples, at step {step}.",
    )


def _of_finetuning(results: dict, trial: int | None) -> Scores:
    number = results["best_on_dev"] if trial is None else trial
    trials = results["trials"]
    (found,) = (t for t in trials if t["trial"] == number)
    counts = ", ".join(
        f"{split} {count}" for split, count in results["num_rows"].items()
    )
    about = f"Of trial {number} of {len(trials)}. Rows: {counts}."
    if trial is None and len(trials) > 1:
        about += " The trial was chosen by its score on dev."
    return Scores(
        {s: _numbers(found[s]) for s in ("dev", "test") if s in found},
        str(results["task"]),
        about,
    )


def _numbers(metrics: Mapping) -> dict[str, float]:
    return {
        name: float(value)
        for name, value in metrics.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
