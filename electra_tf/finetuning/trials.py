"""One model of a fine-tuning run: trained, asked, scored."""

import dataclasses
import functools
import itertools
import json
import math
import os

import tensorflow as tf

from electra_tf import configs, errors, model_directory
from electra_tf.checkpoints import reading
from electra_tf.files import write_atomically
from electra_tf.finetuning import batches, evaluation, features, predictions
from electra_tf.finetuning import configs as finetuning_configs
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


def make_trials(config: finetuning_configs.FinetuningConfig) -> list[Trial]:
    """Every learning rate with every number of epochs, seed and fold.

    Args:
      config: Of the run; its optimizer has a learning rate.

    Returns:
      The trials in the order in which they are run.
    """
    rates = config.learning_rates
    if not rates:
        assert config.optimizer.learning_rate is not None
        rates = (config.optimizer.learning_rate,)
    settings = itertools.product(
        rates,
        config.num_train_epochs_options or (config.data.num_train_epochs,),
        range(config.num_trials),
        range(1, config.data.folds + 1) if config.data.folds else (None,),
    )
    return [
        Trial(number, config.run.seed + repetition, rate, epochs, fold)
        for number, (rate, epochs, repetition, fold) in enumerate(settings, 1)
    ]


def reseeded(
    degenerate: Trial,
    trials: list[Trial],
    config: finetuning_configs.FinetuningConfig,
) -> Trial | None:
    """The trial that repeats a degenerate one with a new seed.

    Args:
      degenerate: Of `trials`.
      trials: All so far.
      config: Of the run.

    Returns:
      The trial, or None if it was repeated often enough.
    """
    attempts = 0
    first: Trial | None = degenerate
    while first is not None and first.replaces is not None:
        attempts += 1
        first = next(t for t in trials if t.number == first.replaces)
    if attempts >= config.reseed_degenerate:
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
    config: finetuning_configs.FinetuningConfig,
    trial: Trial,
    prepared: Prepared,
    strategy: tf.distribute.Strategy,
    description: str,
) -> dict:
    """Trains and scores one model; reads the scores where that is done.

    Every worker of a cluster predicts by itself, so that all know the scores;
    the chief alone writes them.

    Args:
      config: Of the run; its optimizer is complete.
      trial: Which model.
      prepared: Data and encoder; with folds, those of the trial's fold.
      strategy: Of the run.
      description: Opens the live line.

    Returns:
      What the trial's results.json holds: its settings, "num_train_steps",
      "degenerate" (names of the tasks whose rows all got the same answer) and
      "tasks" (task name -> split -> scores).

    Raises:
      ConfigError: If the directory is that of another trial.
    """
    directory = model_directory.trial_dir(config.run.model_dir, trial.number)
    is_chief = replicas.is_chief(strategy)
    _claim(directory, trial, is_chief)
    results_path = os.path.join(directory, model_directory.RESULTS_FILE)
    if os.path.exists(results_path):
        with open(results_path, encoding="utf-8") as f:
            return json.load(f)
    engine = _make_engine(config, trial, prepared, strategy, directory)
    names = [data.task.name for data in prepared.data]
    metrics = ("loss", "accuracy", "start_accuracy")[
        : 3 if len(names) < 2 else 1
    ]
    predictors = {
        name: evaluation.make_predictor(
            engine.model, name, config.data.eval_batch_size
        )
        for name in names
    }

    def dev_scores() -> dict[str, float]:
        return _dev_scores(config, prepared, predictors)

    num_train_steps = engine.run.num_train_steps
    loop.train(
        engine,
        num_train_steps,
        description,
        tuple(f"{name}_{metric}" for name in names for metric in metrics),
        dev_scores,
    )
    result = trial.as_dict() | {
        "num_train_steps": num_train_steps,
        "degenerate": [],
        "tasks": {},
    }
    for data in prepared.data:
        is_degenerate, scores = _evaluate(
            config,
            predictors[data.task.name],
            data,
            prepared,
            directory if is_chief else "",
        )
        result["tasks"][data.task.name] = scores
        if is_degenerate:
            result["degenerate"].append(data.task.name)
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
    config: finetuning_configs.FinetuningConfig,
    trial: Trial,
    prepared: Prepared,
    strategy: tf.distribute.Strategy,
    directory: str,
) -> engine_lib.Engine:
    """Model, optimizer and batches of a trial."""
    rows = [data.features["train"] for data in prepared.data]
    train_features = rows[0] if len(rows) == 1 else features.combine(rows)
    data = dataclasses.replace(
        config.data, num_train_epochs=trial.num_train_epochs
    )
    num_train_steps = data.num_train_steps(features.num_rows(train_features))
    run = dataclasses.replace(
        config.run,
        model_dir=directory,
        seed=trial.seed,
        num_train_steps=num_train_steps,
    )
    optimizer_config = dataclasses.replace(
        config.optimizer, learning_rate=trial.learning_rate
    )
    decay = optimizer_config.layerwise_lr_decay
    assert decay is not None
    replicas.set_policy(run)  # Seeds the new head.
    with strategy.scope():
        model = build_model(
            prepared.encoder_config,
            *(data.task for data in prepared.data),
            head_dropout=config.dropout,
        )
        if not config.from_scratch:
            reading.assign_all(
                prepared.checkpoint,
                model.variables
                if config.keep_head
                else model.electra.variables,
                config.init_checkpoint,
                "the encoder and the head"
                if config.keep_head
                else "the encoder",
            )
        optimizer = optimization.AdamWeightDecay(
            optimizer_config,
            num_train_steps,
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
            config.data.train_batch_size,
            functools.partial(
                batches.train_dataset,
                train_features,
                run.seed,
                bucketed=(
                    config.data.bucketed and run.distribution_strategy != "tpu"
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


def _dev_scores(
    config: finetuning_configs.FinetuningConfig,
    prepared: Prepared,
    predictors: dict[str, evaluation.Predictor],
) -> dict[str, float]:
    """All scores on "dev" of the model as it is, for the log."""
    scores = {}
    for data in prepared.data:
        outputs = predictors[data.task.name](data.features["dev"])
        scores[data.task.name] = data.task.scores(
            outputs,
            data.examples["dev"],
            prepared.tokenizer,
            config.data.max_seq_length,
        )
    return _flat_scores(scores)


def _flat_scores(scores: dict[str, dict]) -> dict[str, float]:
    """Task name -> metric -> score, as <task>_<metric> -> score."""
    return {
        f"{name}_{metric}": score
        for name, of_task in scores.items()
        for metric, score in of_task.items()
        if score is not None and math.isfinite(score)
    }


def _evaluate(
    config: finetuning_configs.FinetuningConfig,
    predict: evaluation.Predictor,
    data: TaskData,
    prepared: Prepared,
    directory: str,
) -> tuple[bool, dict]:
    """Predicts every split but the training set, and scores those with labels.

    Args:
      config: Of the run.
      predict: Asks the fine-tuned model.
      data: Of one task.
      prepared: With the tokenizer.
      directory: Where the predictions go; empty for nowhere.

    Returns:
      Whether the task's rows of "dev" all got the same answer, and split ->
      scores.
    """
    task = data.task
    length = config.data.max_seq_length
    prefix = f"{task.name}_" if len(prepared.data) > 1 else ""
    is_degenerate = False
    scores = {}
    for split, examples in data.examples.items():
        if split == "train":
            continue
        outputs = predict(data.features[split])
        if split == "dev":
            is_degenerate = bool(task.is_degenerate(outputs))
        if split in data.labelled:
            scores[split] = {
                name: float(value) if math.isfinite(value) else None
                for name, value in task.scores(
                    outputs, examples, prepared.tokenizer, length
                ).items()
            }
        if directory:
            predictions.write(
                directory,
                prefix,
                task,
                split,
                examples,
                outputs,
                prepared.tokenizer,
                length,
            )
    return is_degenerate, scores
