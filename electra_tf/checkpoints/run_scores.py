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
    """Scores of one model: split -> metric -> value.

    Attributes:
      data: What the run calls the data.
      about: How they came about, in a sentence or two.
    """

    by_split: Mapping[str, Mapping[str, float]]
    data: str
    about: str


def read(path: str | os.PathLike, step: int | None = None) -> Scores | None:
    """The scores of the model at a path of `electra_tf_format.read`.

    None where it is of no run, or of one without scores of that step.
    """
    folder = os.path.abspath(path)
    folder = folder if os.path.isdir(folder) else os.path.dirname(folder)
    is_best = os.path.basename(folder) == model_directory.BEST_DIR
    run = os.path.dirname(folder) if is_best else folder
    trial = _TRIAL.fullmatch(os.path.basename(run))
    if trial is not None and not _has(run, model_directory.CONFIG_FILE):
        run = folder = os.path.dirname(run)
    else:
        trial = None
    name = model_directory.RESULTS_FILE
    is_pretraining = _has(folder, model_directory.EVAL_RESULTS_FILE)
    if is_pretraining:
        name = model_directory.EVAL_RESULTS_FILE
    try:
        results = read_json(os.path.join(folder, name))
        if is_pretraining:
            return _of_pretraining(results, step)
        number = int(trial[1]) if trial else None
        return _of_finetuning(results, number, is_best, step)
    except (CheckpointError, LookupError, TypeError, ValueError):
        return None  # Not of this version: the model is none the worse for it.


def _has(folder: str, name: str) -> bool:
    return os.path.isfile(os.path.join(folder, name))


def _of_pretraining(results: dict, step: int | None) -> Scores | None:
    scored = results.pop("step")
    if step not in (None, scored):
        return None
    about = f"Of held-out examples, at step {scored}."
    return Scores({"held-out": _numbers(results)}, "pre-training", about)


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
    task, scores = results, record
    if "tasks" in results:  # The head that is read is the first by name.
        name = min(results["tasks"])
        task, scores = results["tasks"][name], record["tasks"][name]
    about = f"Of trial {number} of {len(trials)}."
    if "fold" in record:
        about += f" On dev of fold {record['fold']} of {task['num_folds']}."
    else:
        counts = ", ".join(f"{s} {n}" for s, n in task["num_rows"].items())
        about += f" Rows: {counts}."
    if trial is None and len(trials) > 1:
        about += " The trial was chosen by its score on dev."
    splits = {s: _numbers(scores[s]) for s in ("dev", "test") if s in scores}
    return Scores(splits, str(task["task"]), about)


def _numbers(metrics: Mapping) -> dict[str, float]:
    return {
        name: float(value)
        for name, value in metrics.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
