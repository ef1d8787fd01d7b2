"""The models of a fine-tuning run, one after the other; each one's record."""

import collections
import contextlib
import dataclasses
import os
from collections.abc import Sequence

import tensorflow as tf

from electra_tf import errors, model_directory, validation
from electra_tf.files import read_json, write_json
from electra_tf.finetuning import (
    digests,
    evaluation,
    fitting,
    predictions,
    results,
)
from electra_tf.finetuning.plan import RunPlan, Trial, TrialPlan
from electra_tf.finetuning.task_data import TaskData
from electra_tf.training import engine as engine_lib
from electra_tf.training import loop, metrics_log, replicas, saving

DIGESTS = model_directory.DIGESTS


def run_all(plan: RunPlan, strategy: tf.distribute.Strategy) -> list[dict]:
    """Runs all trials of a run, and the degenerate ones again if asked.

    Args:
      plan: Which trials there are, and what they share.
      strategy: Of the run.

    Returns:
      What `run_trial` returns for each, in order.
    """
    trials = list(plan.trials)
    waiting = collections.deque(
        (trial, plan.reseed_degenerate) for trial in trials
    )
    records = []
    while waiting:
        trial, num_repeats = waiting.popleft()
        of = max(len(plan.trials), trial.number)
        record = run_trial(
            plan.of_trial(trial),
            strategy,
            f"fine-tuning trial {trial.number}/{of}",
        )
        records.append(record)
        if record["degenerate"] and num_repeats:
            again = dataclasses.replace(
                trial,
                number=len(trials) + 1,
                # No other trial has it.
                seed=max(trial.seed for trial in trials) + 1,
                replaces=trial.number,
            )
            trials.append(again)
            waiting.append((again, num_repeats - 1))
    return records


def run_trial(
    plan: TrialPlan, strategy: tf.distribute.Strategy, description: str
) -> dict:
    """Trains and scores one model; reads the scores where that is done.

    Every worker of a cluster predicts by itself, so that all know the scores;
    the chief alone writes them.

    Args:
      plan: Of the model.
      strategy: Of the run.
      description: Opens the live line.

    Returns:
      What the trial's results.json holds: its settings, "num_train_steps",
      what `_take_best` says where there was patience, "degenerate" (names of
      the tasks whose rows all got the same answer) and "tasks" (task name ->
      split -> scores); and as "reports" what its reports.json holds, see
      `evaluation.reports`.

    Raises:
      ConfigError: If the directory is that of another trial.
    """
    directory = plan.run.model_dir
    is_chief = replicas.is_chief(strategy)
    claim = _read_claim(directory)
    if claim is not None:
        _refuse_other_settings(directory, plan.trial, claim)
    results_path = os.path.join(directory, model_directory.RESULTS_FILE)
    if os.path.exists(results_path):
        return _finished(plan, is_chief)
    if is_chief:
        os.makedirs(directory, exist_ok=True)
        _claim(plan)
    engine = fitting.make_engine(plan, strategy)
    evaluator = evaluation.Evaluator(
        engine.model, plan.tasks, plan.eval_batch_size
    )
    metrics = ["loss"]
    if len(plan.tasks) == 1:
        metrics += ["accuracy", "start_accuracy"]
    loop.train(
        engine,
        plan.run.num_train_steps,
        description,
        tuple(
            f"{data.task.name}_{metric}"
            for data in plan.tasks
            for metric in metrics
        ),
        evaluator.ask_dev,
        patience=plan.patience,
    )
    about: dict = {"num_train_steps": plan.run.num_train_steps}
    if plan.patience:
        with strategy.scope():
            about |= _take_best(plan, engine)
    found = evaluator.ask()
    result = (
        plan.trial.as_dict()
        | about
        | {"degenerate": found.degenerate, "tasks": found.scores}
    )
    reports = evaluation.reports(plan.tasks, found)
    if is_chief:
        step = about.get(model_directory.BEST_STEP) or int(
            engine.global_step.numpy()
        )
        with contextlib.closing(loop.Summaries(directory)) as summaries:
            summaries.write(step, found.dev_scores)
        write_predictions(directory, plan.tasks, found)
        _write_reports(directory, reports)
        write_json(results_path, result)
    # A worker that left now would take the collectives of the others down.
    engine.any_worker(False)
    return result | {"reports": reports}


def _take_best(plan: TrialPlan, engine: engine_lib.Engine) -> dict:
    """Gives a model that was trained with patience its best weights.

    Args:
      plan: Of the model.
      engine: Of its training, which has ended.

    Returns:
      "best_step", whose weights these now are; None where the dev score was
      never finite, and these are the last; "last_step", where training ended,
      and "evaluations_since_best".

    Raises:
      TrainingError: If the best weights are not there.
    """
    directory = plan.run.model_dir
    best = metrics_log.best_evaluation(
        metrics_log.read(os.path.join(directory, model_directory.METRICS_FILE)),
        plan.run.keep_best_metric,
    )
    step = best.record and best.record["step"]
    if step is not None:
        prefix = os.path.join(
            directory,
            model_directory.BEST_DIR,
            f"{model_directory.CHECKPOINT_NAME}-{step}",
        )
        if not os.path.isfile(f"{prefix}.index"):
            raise errors.TrainingError(
                f"Expected the best weights of {directory}, of step {step}, at "
                f"{prefix}, found none: delete {directory} and run again"
            )
        saving.restore_variables(engine.model.variables, prefix, "the model")
    return {
        model_directory.BEST_STEP: step,
        "last_step": int(engine.global_step.numpy()),
        "evaluations_since_best": best.num_since,
    }


def write_predictions(
    directory: str,
    tasks: Sequence[TaskData],
    found: evaluation.Evaluation,
) -> None:
    """Writes what a model said of each row, and what benchmarks want.

    Args:
      directory: For the files.
      tasks: With their rows.
      found: What the model said of some of these.
    """
    for data in tasks:
        prefix = f"{data.task.name}_" if len(tasks) > 1 else ""
        for split, outputs in found.outputs[data.task.name].items():
            predictions.write(directory, prefix, data, split, outputs)


def refuse_changes(plan: RunPlan) -> None:
    """Refuses a model directory whose trials are others than those planned.

    Nothing is written, so that all in the directory still belongs together.

    Args:
      plan: Of the run.

    Raises:
      ConfigError: If a trial there has other settings, or rows, labels,
        vocabulary or initial weights are not those that it was trained with.
    """
    planned = {trial.number: trial for trial in plan.trials}
    for number in model_directory.trial_numbers(plan.run.model_dir):
        directory = model_directory.trial_dir(plan.run.model_dir, number)
        claim = _read_claim(directory)
        if claim is None:
            continue
        if number in planned:
            _refuse_other_settings(directory, planned[number], claim)
        elif "replaces" not in claim:
            continue  # There were more trials before.
        if not _has_learned(directory):
            continue
        of_fold = dataclasses.replace(plan.trials[0], fold=claim.get("fold"))
        ours = plan.of_trial(of_fold).digests
        if changed := digests.changes(ours, claim[DIGESTS]):
            raise errors.ConfigError(
                f"{directory} holds a model of other data. Since it was "
                f"trained, these have changed: {', '.join(changed)}. Choose "
                "another --model_dir, or bring back what was there to go on "
                "with that run"
            )


def _finished(plan: TrialPlan, is_chief: bool) -> dict:
    """The results of a finished trial, with those of splits that are new."""
    directory = plan.run.model_dir
    path = os.path.join(directory, model_directory.RESULTS_FILE)
    result = results.read_of_trial(directory, [d.task.name for d in plan.tasks])
    reports = read_json(os.path.join(directory, model_directory.REPORTS_FILE))
    claim = _read_claim(directory)
    assert claim is not None
    new = digests.new_splits(plan.digests, claim[DIGESTS])
    if not new:
        return result | {"reports": reports}
    evaluator = evaluation.Evaluator(
        fitting.trained_model(directory, plan.start.encoder_config, plan.tasks),
        plan.tasks,
        plan.eval_batch_size,
    )
    found = evaluator.ask(new)
    for name, scores in found.scores.items():
        result["tasks"][name] |= scores
    for name, of_task in evaluation.reports(plan.tasks, found).items():
        reports[name] = reports.get(name, {}) | of_task
    if is_chief:
        write_predictions(directory, plan.tasks, found)
        _write_reports(directory, reports)
        write_json(path, result)
        _claim(plan)
    return result | {"reports": reports}


def _write_reports(directory: str, reports: dict[str, dict]) -> None:
    write_json(
        os.path.join(directory, model_directory.REPORTS_FILE),
        reports,
        indent=None,
    )


def _read_claim(directory: str) -> dict | None:
    """What the folder of a trial says of it; None without one."""
    path = os.path.join(directory, model_directory.TRIAL_FILE)
    if not os.path.exists(path):
        return None
    claim = read_json(path, **{DIGESTS: dict})
    if claim.get(DIGESTS, {}).get("format") != model_directory.DIGESTS_FORMAT:
        raise errors.ConfigError(
            f"{path} is of another version of electra_tf, whose runs this one "
            "does not go on with: choose another --model_dir"
        )
    digests.check(claim[DIGESTS], path)
    return claim


def _claim(plan: TrialPlan) -> None:
    """Says whose directory it is, and what its model learns from."""
    write_json(
        os.path.join(plan.run.model_dir, model_directory.TRIAL_FILE),
        plan.trial.as_dict() | {DIGESTS: plan.digests},
    )


def _has_learned(directory: str) -> bool:
    """Whether there is more in the folder of a trial than its settings."""
    path = os.path.join(directory, model_directory.RESULTS_FILE)
    return os.path.isfile(path) or bool(saving.checkpoints_of(directory))


def _refuse_other_settings(directory: str, ours: Trial, claim: dict) -> None:
    validation.require_same(
        ours.as_dict(), claim, f"{directory} holds another trial", [DIGESTS]
    )
