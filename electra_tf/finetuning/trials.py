"""Which models a fine-tuning run has; each trained, asked and scored."""

import dataclasses
import functools
import itertools
import json
import math
import os
import typing
from collections.abc import Sequence

import tensorflow as tf

from electra_tf import configs, errors, model_directory
from electra_tf.checkpoints import reading
from electra_tf.files import write_atomically
from electra_tf.finetuning import batches, evaluation, features, predictions
from electra_tf.finetuning.configs import FinetuningConfig
from electra_tf.finetuning.preparation import Prepared, TaskData
from electra_tf.finetuning.tasks.task import Task
from electra_tf.model.finetuning_model import FinetuningModel
from electra_tf.training import engine as engine_lib
from electra_tf.training import loop, optimization, replicas


@dataclasses.dataclass(frozen=True)
class Trial:
    """One model of a run; its folder is `model_directory.trial_dir`.

    Attributes:
      number: From 1.
      seed: Of the head's weights, the order of the rows, and dropout.
      learning_rate: Peak rate.
      num_train_epochs: Passes over the training rows.
      fold: The part that is left out of training and scored, from 1; None
        without cross-validation.
      replaces: The degenerate trial that this one repeats with another seed.
    """

    number: int
    seed: int
    learning_rate: float
    num_train_epochs: float
    fold: int | None = None
    replaces: int | None = None

    def as_dict(self) -> dict:
        """For JSON, without what does not apply."""
        values = dataclasses.asdict(self)
        values["trial"] = values.pop("number")
        return {
            name: value for name, value in values.items() if value is not None
        }


def run_all(
    config: FinetuningConfig,
    prepared: Prepared,
    strategy: tf.distribute.Strategy,
) -> list[dict]:
    """Runs all trials of a run, and the degenerate ones again if asked.

    Args:
      config: Which trials there are.
      prepared: What they share.
      strategy: Of the run.

    Returns:
      What `run_trial` returns for each, in order.
    """
    trials = make_trials(config, prepared.optimizer.learning_rate)
    num_planned = len(trials)
    records = []
    for trial in trials:  # Grows below.
        whole = max(num_planned, trial.number)
        records.append(
            run_trial(
                trial,
                prepared,
                strategy,
                f"fine-tuning trial {trial.number}/{whole}",
            )
        )
        if records[-1]["degenerate"]:
            again = reseeded(trial, trials, config.reseed_degenerate)
            if again is not None:
                trials.append(again)
    return records


def make_trials(
    config: FinetuningConfig, learning_rate: float | None
) -> list[Trial]:
    """Every learning rate with every number of epochs, seed and fold.

    Args:
      config: Of the run.
      learning_rate: Where the run does not try several.

    Returns:
      The trials in the order in which they are run.
    """
    settings = itertools.product(
        config.learning_rates or (typing.cast(float, learning_rate),),
        config.num_train_epochs_options or (config.data.num_train_epochs,),
        range(config.num_trials),
        range(1, config.data.folds + 1) if config.data.folds else (None,),
    )
    return [
        Trial(number, config.run.seed + repetition, rate, epochs, fold)
        for number, (rate, epochs, repetition, fold) in enumerate(settings, 1)
    ]


def reseeded(degenerate: Trial, trials: list[Trial], most: int) -> Trial | None:
    """The trial that repeats a degenerate one with a new seed.

    Args:
      degenerate: Of `trials`.
      trials: All so far.
      most: How often a trial may be repeated.

    Returns:
      The trial, or None if it was repeated often enough.
    """
    attempts = 0
    first: Trial | None = degenerate
    while first is not None and first.replaces is not None:
        attempts += 1
        first = next(t for t in trials if t.number == first.replaces)
    if attempts >= most:
        return None
    return dataclasses.replace(
        degenerate,
        number=len(trials) + 1,
        # No trial of the plan has it.
        seed=max(trial.seed for trial in trials) + 1,
        replaces=degenerate.number,
    )


def build_model(
    encoder_config: configs.EncoderConfig,
    *tasks: Task,
    head_dropout: float | None = None,
) -> FinetuningModel:
    """The encoder with the tasks' heads.

    Args:
      encoder_config: Sizes of the encoder.
      *tasks: In the order of the heads.
      head_dropout: None for `heads.HEAD_DROPOUT_PROB`.
    """
    heads = [task.make_head(encoder_config) for task in tasks]
    if head_dropout is not None:
        for head in heads:
            head.set_dropout(head_dropout)
    return FinetuningModel(encoder_config, heads)


def run_trial(
    trial: Trial,
    prepared: Prepared,
    strategy: tf.distribute.Strategy,
    description: str,
) -> dict:
    """Trains and scores one model; reads the scores where that is done.

    Every worker of a cluster predicts by itself, so that all know the scores;
    the chief alone writes them.

    Args:
      trial: Which model.
      prepared: What it shares with the others.
      strategy: Of the run.
      description: Opens the live line.

    Returns:
      What the trial's results.json holds: its settings, "num_train_steps",
      "degenerate" (names of the tasks whose rows all got the same answer) and
      "tasks" (task name -> split -> scores).

    Raises:
      ConfigError: If the directory is that of another trial.
    """
    directory = model_directory.trial_dir(prepared.run.model_dir, trial.number)
    is_chief = replicas.is_chief(strategy)
    _claim(directory, trial, is_chief)
    results_path = os.path.join(directory, model_directory.RESULTS_FILE)
    if os.path.exists(results_path):
        with open(results_path, encoding="utf-8") as f:
            return json.load(f)
    data_of_tasks = prepared.folds[(trial.fold or 1) - 1]
    engine = _make_engine(trial, prepared, data_of_tasks, strategy, directory)
    predictors = {
        data.task.name: evaluation.make_predictor(
            engine.model, data.task.name, prepared.data_config.eval_batch_size
        )
        for data in data_of_tasks
    }

    def dev_scores() -> dict[str, float]:
        """All scores on "dev" of the model as it is, for the log."""
        return _flat_scores(
            {
                data.task.name: data.scores(
                    "dev", predictors[data.task.name](data.features["dev"])
                )
                for data in data_of_tasks
            }
        )

    metrics = ["loss"]
    if len(data_of_tasks) == 1:
        metrics += ["accuracy", "start_accuracy"]
    num_train_steps = engine.run.num_train_steps
    loop.train(
        engine,
        num_train_steps,
        description,
        tuple(f"{name}_{metric}" for name in predictors for metric in metrics),
        dev_scores,
    )
    result = trial.as_dict() | {
        "num_train_steps": num_train_steps,
        "degenerate": [],
        "tasks": {},
    }
    for data in data_of_tasks:
        name = data.task.name
        is_degenerate, result["tasks"][name] = _evaluate(
            predictors[name],
            data,
            directory if is_chief else "",
            f"{name}_" if len(data_of_tasks) > 1 else "",
        )
        if is_degenerate:
            result["degenerate"].append(name)
    if is_chief:
        loop.write_summaries(
            directory,
            "eval",
            num_train_steps,
            _flat_scores(
                {n: split["dev"] for n, split in result["tasks"].items()}
            ),
        )
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


def _make_engine(
    trial: Trial,
    prepared: Prepared,
    data_of_tasks: Sequence[TaskData],
    strategy: tf.distribute.Strategy,
    directory: str,
) -> engine_lib.Engine:
    """Model, optimizer and batches of a trial."""
    rows = [data.features["train"] for data in data_of_tasks]
    train_features = rows[0] if len(rows) == 1 else features.combine(rows)
    data_config = dataclasses.replace(
        prepared.data_config, num_train_epochs=trial.num_train_epochs
    )
    run = dataclasses.replace(
        prepared.run,
        model_dir=directory,
        seed=trial.seed,
        num_train_steps=data_config.num_train_steps(
            features.num_rows(train_features)
        ),
    )
    optimizer_config = dataclasses.replace(
        prepared.optimizer, learning_rate=trial.learning_rate
    )
    decay = optimizer_config.layerwise_lr_decay
    assert decay is not None
    replicas.set_policy(run)  # Seeds the new head.
    with strategy.scope():
        model = build_model(
            prepared.encoder_config,
            *(data.task for data in data_of_tasks),
            head_dropout=prepared.head_dropout,
        )
        if prepared.checkpoint is not None:
            reading.assign_all(
                prepared.checkpoint,
                model.variables
                if prepared.keep_head
                else model.electra.variables,
                prepared.source,
                "the encoder and the head"
                if prepared.keep_head
                else "the encoder",
            )
        optimizer = optimization.AdamWeightDecay(
            optimizer_config,
            run.num_train_steps,
            {
                v.path: optimization.layerwise_scale(
                    v.path,
                    prepared.encoder_config.num_hidden_layers,
                    decay,
                    optimizer_config.layerwise_top_layer_scaled,
                )
                for v in model.trainable_variables
            },
        )
        optimizer.build(model.trainable_variables)
        return engine_lib.Engine(
            strategy,
            model,
            make_loss_function(model),
            optimizer,
            run,
            data_config.train_batch_size,
            functools.partial(
                batches.train_dataset,
                train_features,
                run.seed,
                bucketed=(
                    data_config.bucketed and run.distribution_strategy != "tpu"
                ),
                length_step=(
                    batches.COMPILED_LENGTH_STEP
                    if run.jit_compile
                    else batches.LENGTH_STEP
                ),
            ),
        )


def make_loss_function(model: FinetuningModel):
    """The engine's view of the model."""

    def loss_function(features, dropout_seed, all_reduce_sum):
        outputs = model(
            features,
            dropout_seed=dropout_seed,
            all_reduce_sum=all_reduce_sum,
            teacher_forcing=True,
        )
        return outputs["total_loss"], model.metric_sums(outputs)

    return loss_function


def _flat_scores(scores: dict[str, dict]) -> dict[str, float]:
    """Task name -> metric -> score, as <task>_<metric> -> score."""
    return {
        f"{name}_{metric}": score
        for name, of_task in scores.items()
        for metric, score in of_task.items()
        if score is not None and math.isfinite(score)
    }


def _evaluate(
    predict: evaluation.Predictor, data: TaskData, directory: str, prefix: str
) -> tuple[bool, dict]:
    """Predicts every split but the training set, and scores those with labels.

    Args:
      predict: Asks the fine-tuned model.
      data: Of one task.
      directory: Where the predictions go; empty for nowhere.
      prefix: Begins the names of their files.

    Returns:
      Whether the task's rows of "dev" all got the same answer, and split ->
      scores.
    """
    is_degenerate = False
    scores = {}
    for split in data.examples:
        if split == "train":
            continue
        outputs = predict(data.features[split])
        if split == "dev":
            is_degenerate = bool(data.task.is_degenerate(outputs))
        if split in data.labelled:
            scores[split] = {
                name: float(value) if math.isfinite(value) else None
                for name, value in data.scores(split, outputs).items()
            }
        if directory:
            predictions.write(directory, prefix, data, split, outputs)
    return is_degenerate, scores
