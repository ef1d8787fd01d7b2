"""What a run found out about the model that it left."""

import os
import re
import typing
from collections.abc import Mapping

from electra_tf import model_directory
from electra_tf.errors import CheckpointError
from electra_tf.files import read_json

_TRIAL = re.compile(r"trial_(\d+)")


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
    is_best = os.path.basename(folder) == model_directory.BEST_DIR
    run, trial = _trial_of(os.path.dirname(folder) if is_best else folder)
    folder = folder if trial is None else run
    try:
        heldout = os.path.join(folder, model_directory.EVAL_RESULTS_FILE)
        if os.path.isfile(heldout):
            found = read_json(heldout)
            is_other = step is not None and found["step"] != step
            return None if is_other else _of_pretraining(found)
        results = os.path.join(folder, model_directory.RESULTS_FILE)
        if os.path.isfile(results):
            return _of_finetuning(read_json(results), trial, is_best, step)
    except (CheckpointError, LookupError, TypeError, ValueError):
        pass  # Not of this version: the model is none the worse for it.
    return None


def _trial_of(folder: str) -> tuple[str, int | None]:
    """The folder of the run, and the number of its trial that a folder is."""
    run, name = os.path.split(folder)
    match = _TRIAL.fullmatch(name)
    own_record = os.path.join(folder, model_directory.CONFIG_FILE)
    if match is None or os.path.isfile(own_record):
        return folder, None
    return run, int(match[1])


def _of_pretraining(results: dict) -> Scores:
    step = results.pop("step")
    return Scores(
        {"held-out": _numbers(results)},
        "pre-training",
        f"Of held-out examples, at step {step}.",
    )


def _of_finetuning(
    results: dict, trial: int | None, is_best: bool, step: int | None
) -> Scores | None:
    number = results["best_on_dev"] if trial is None else trial
    trials = results["trials"]
    (record,) = (t for t in trials if t["trial"] == number)
    best = record.get(model_directory.BEST_STEP)
    scored = best or record.get("last_step") or record.get("num_train_steps")
    is_known = step is not None and scored is not None
    if (is_best and best is None) or (is_known and step != scored):
        return None  # Weights of another step.
    of_task, of_trial = results, record
    if "tasks" in results:  # The head that is read is the first by name.
        name = min(results["tasks"])
        of_task, of_trial = results["tasks"][name], record["tasks"][name]
    about = f"Of trial {number} of {len(trials)}."
    if "fold" in record:
        about += f" On dev of fold {record['fold']} of {of_task['num_folds']}."
    else:
        counts = ", ".join(f"{s} {n}" for s, n in of_task["num_rows"].items())
        about += f" Rows: {counts}."
    if trial is None and len(trials) > 1:
        about += " The trial was chosen by its score on dev."
    return Scores(
        {s: _numbers(of_trial[s]) for s in ("dev", "test") if s in of_trial},
        str(of_task["task"]),
        about,
    )


def _numbers(metrics: Mapping) -> dict[str, float]:
    return {
        name: float(value)
        for name, value in metrics.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
