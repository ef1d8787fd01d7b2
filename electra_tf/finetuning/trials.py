"""The models of a fine-tuning run, one after the other; each one's record."""

import collections
import dataclasses
import json
import os

import tensorflow as tf

from electra_tf import errors, model_directory
from electra_tf.files import write_atomically
from electra_tf.finetuning import evaluation, fitting, predictions
from electra_tf.finetuning.plan import RunPlan, Trial, TrialPlan
from electra_tf.training import loop, replicas


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
      "degenerate" (names of the tasks whose rows all got the same answer) and
      "tasks" (task name -> split -> scores).

    Raises:
      ConfigError: If the directory is that of another trial.
    """
    directory = plan.run.model_dir
    is_chief = replicas.is_chief(strategy)
    _claim(directory, plan.trial, is_chief)
    results_path = os.path.join(directory, model_directory.RESULTS_FILE)
    if os.path.exists(results_path):
        with open(results_path, encoding="utf-8") as f:
            return json.load(f)
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
        lambda: evaluator.ask(["dev"]).dev_scores,
    )
    found = evaluator.ask()
    result = plan.trial.as_dict() | {
        "num_train_steps": plan.run.num_train_steps,
        "degenerate": found.degenerate,
        "tasks": found.scores,
    }
    if is_chief:
        loop.write_summaries(
            directory, "eval", plan.run.num_train_steps, found.dev_scores
        )
        for data in plan.tasks:
            prefix = f"{data.task.name}_" if len(plan.tasks) > 1 else ""
            for split, outputs in found.outputs[data.task.name].items():
                predictions.write(directory, prefix, data, split, outputs)
        write_atomically(results_path, json.dumps(result, indent=1) + "\n")
    # A worker that left now would take the collectives of the others down.
    engine.any_worker(False)
    return result


def _claim(directory: str, trial: Trial, is_chief: bool) -> None:
    """Says whose directory it is, or refuses that of another trial."""
    path = os.path.join(directory, model_directory.TRIAL_FILE)
    ours = trial.as_dict()
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            theirs = json.load(f)
        differences = [
            f"{name}={a!r} (was {b!r})"
            for name, a, b in model_directory.differences(ours, theirs)
        ]
        if differences:
            raise errors.ConfigError(
                f"{directory} holds another trial, which differs in: "
                f"{', '.join(differences)}. Choose another --model_dir, or "
                "the old values to continue that run"
            )
    elif is_chief:
        os.makedirs(directory, exist_ok=True)
        write_atomically(path, json.dumps(ours, indent=1) + "\n")
