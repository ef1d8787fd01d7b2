"""Configuration -> the plan of a run, all of it read and checked once."""

import dataclasses
import typing
from collections.abc import Sequence

from electra_tf import errors
from electra_tf.configs import QuestionAnsweringConfig
from electra_tf.finetuning import (
    class_weights,
    copies,
    long_texts,
    plan,
    recipe,
    starting_point,
    task_data,
)
from electra_tf.finetuning.configs import FinetuningConfig
from electra_tf.finetuning.tasks import by_name
from electra_tf.finetuning.tasks.task import Task

# Kinds whose heads drop nothing.
_WITHOUT_DROPOUT = ("tagging", "question_answering")


def prepare(config: FinetuningConfig) -> plan.RunPlan:
    """Reads all that a run needs, and decides what it leaves open.

    Raises:
      ValueError: If data, vocabulary and checkpoint do not fit together.
    """
    start = starting_point.read(config)
    config, cuts = _within_positions(config, start)
    tasks = by_name.make_tasks(
        config.data,
        typing.cast(QuestionAnsweringConfig | None, config.question_answering),
    )
    _refuse_head_dropout(config, tasks)
    if config.keep_head:
        (task,) = tasks
        start = starting_point.with_head(start, task)
    long_texts.choose(
        tasks,
        config.data,
        # Where XLA compiles.
        config.run.jit_compile or config.run.distribution_strategy == "tpu",
    )
    wanted = ("train",) if config.data.folds else ("train", "dev")
    data = [
        task_data.read_rows(
            task, start.tokenizer, config.data.max_seq_length, wanted
        )
        for task in tasks
    ]
    for of_task in data:
        long_texts.refuse_pairs(of_task)
    folds = [data]
    if config.data.folds:
        (whole,) = data
        folds = [
            [fold]
            for fold in task_data.cut_into_folds(
                whole, config.data.folds, config.run.seed
            )
        ]
    remarks = [remark for of_task in data for remark in of_task.remarks()]
    hidden_size = start.encoder_config.hidden_size
    about_data = {}
    for of_task in data:
        about_data[of_task.task.name], lines = _look_at(
            of_task, bool(config.data.folds)
        )
        remarks += lines
    weights = config.weights_of_classes
    if weights is not None:
        for of_task in data:
            of_labels = class_weights.about(of_task, weights)
            remarks.append(class_weights.remark(of_task, of_labels))
            about_data[of_task.task.name]["class_weights"] = of_labels
        folds = [
            [class_weights.apply(of_task, weights) for of_task in of_fold]
            for of_fold in folds
        ]
    optimizer, notes = recipe.complete(
        config.optimizer,
        config.recipe,
        hidden_size,
        bool(config.learning_rates),
    )
    choices = recipe.choices(config, optimizer, hidden_size)
    chosen = ", ".join(f"{name} {what}" for name, what in choices.items())
    found = plan.RunPlan(
        start=start,
        folds=folds,
        data=config.data,
        optimizer=optimizer,
        run=config.run,
        trials=plan.make_trials(config, optimizer.learning_rate),
        reseed_degenerate=config.reseed_degenerate,
        notes=[*cuts, *notes, f"recipe: {chosen}", *remarks],
        recipe=choices,
        about_data=about_data,
    )
    warmup = dict.fromkeys(
        line
        for of_trial in map(found.of_trial, found.trials)
        for line in recipe.slow_warmup(
            of_trial.optimizer, of_trial.run.num_train_steps
        )
    )
    return dataclasses.replace(found, notes=[*found.notes, *warmup])


def _refuse_head_dropout(
    config: FinetuningConfig, tasks: Sequence[Task]
) -> None:
    """Refuses a dropout in heads that have none.

    Raises:
      ConfigError: If one is given.
    """
    if config.head_dropout is None:
        return
    for task in tasks:
        kind = task.description().get("kind")
        if kind in _WITHOUT_DROPOUT:
            raise errors.ConfigError(
                "FinetuningConfig.head_dropout needs heads on a whole text. "
                f"Received: {task.name}, {kind}, whose head drops nothing, as "
                "in the original; FinetuningConfig.dropout is the encoder's, "
                "too"
            )


def _look_at(
    data: task_data.TaskData, has_folds: bool
) -> tuple[dict, list[str]]:
    """What results.json says of a task's rows, and lines for the user."""
    name, tokenizer = data.task.name, data.tokenizer
    lower = tokenizer is not None and tokenizer.do_lower_case
    of_lengths = long_texts.about(data)
    of_copies = copies.about(data.task, data.examples, lower)
    lines = long_texts.remarks(of_lengths, data)
    lines += copies.remarks(of_copies, data.num_rows, has_folds)
    about = {"long_texts": of_lengths, "copies": of_copies}
    return (
        {what: told for what, told in about.items() if told},
        [f"{name}: {line}" for line in lines],
    )


def _within_positions(
    config: FinetuningConfig, start: starting_point.StartingPoint
) -> tuple[FinetuningConfig, list[str]]:
    """Texts no longer than the encoder can read, and a line if that is less."""
    wanted = config.data.max_seq_length
    longest = start.encoder_config.max_position_embeddings
    if wanted <= longest:
        return config, []
    data = dataclasses.replace(config.data, max_seq_length=longest)
    return dataclasses.replace(config, data=data), [
        f"max_seq_length {longest} rather than {wanted}: {start.source} has "
        f"{longest} positions"
    ]
