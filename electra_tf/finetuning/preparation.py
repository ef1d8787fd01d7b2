"""Configuration -> the plan of a run, all of it read and checked once."""

import dataclasses
from collections.abc import Sequence

from electra_tf import configs, errors
from electra_tf.finetuning import (
    class_weights,
    copies,
    long_texts,
    plan,
    recipe,
    starting_point,
    task_data,
)
from electra_tf.finetuning.configs import (
    FinetuningConfig,
    FinetuningDataConfig,
)
from electra_tf.model import heads
from electra_tf.tasks import by_name
from electra_tf.tasks.task import Task
from electra_tf.text import tokenization
from electra_tf.training import optimization

# Kinds whose heads drop nothing.
_WITHOUT_DROPOUT = ("tagging", "question_answering")


def prepare(config: FinetuningConfig) -> plan.RunPlan:
    """Reads all that a run needs, and decides what it leaves open.

    Raises:
      ValueError: If data, vocabulary and checkpoint do not fit together.
    """
    start = starting_point.read(config)
    config, cuts = within_positions(
        config, start.encoder_config.max_position_embeddings, start.source
    )
    tasks = make_tasks(config)
    _refuse_head_dropout(config, tasks)
    set_pooling(config.pooling, tasks, start.encoder_config)
    if config.keep_head:
        (task,) = tasks
        start = starting_point.with_head(start, task)
    fraction = config.data.dev_fraction
    cuts_train = config.data.folds or fraction
    wanted = ("train",) if cuts_train else ("train", "dev")
    data = read_rows(config, tasks, start.tokenizer, wanted)
    if fraction:
        (whole,) = data
        data = [task_data.hold_out(whole, fraction, config.run.seed)]
    about_data, remarks = _about_rows(config, data)
    hidden_size = start.encoder_config.hidden_size
    optimizer, notes = recipe.complete(
        config.optimizer,
        config.recipe,
        hidden_size,
        bool(config.learning_rates),
    )
    choices = recipe.choices(config, optimizer, hidden_size)
    if cuts:
        length = choices["max_seq_length"].value
        choices["max_seq_length"] = recipe.Choice(length, "checkpoint")
    chosen = ", ".join(f"{name} {what}" for name, what in choices.items())
    left = []
    names = config.data.task_names
    if len(names) == 1 and names[0] in by_name.TASK_NAMES:
        positions = start.encoder_config.max_position_embeddings
        left = recipe.left_to_defaults(names[0], choices, positions)
    found = plan.RunPlan(
        start=start,
        folds=_folds(config, data),
        data=config.data,
        optimizer=optimizer,
        run=config.run,
        trials=plan.make_trials(config, optimizer.learning_rate),
        reseed_degenerate=config.reseed_degenerate,
        patience=config.early_stopping_patience,
        notes=[
            *start.notes,
            *cuts,
            *notes,
            *recipe.given_way(config),
            f"recipe: {chosen}",
            *left,
            *remarks,
        ],
        recipe=choices,
        about_data=about_data,
    )
    warmup = dict.fromkeys(
        line
        for of_trial in map(found.of_trial, found.trials)
        for line in optimization.schedule_remarks(
            of_trial.optimizer, of_trial.run.num_train_steps
        )
    )
    return dataclasses.replace(found, notes=[*found.notes, *warmup])


def _folds(
    config: FinetuningConfig, data: Sequence[task_data.TaskData]
) -> list[list[task_data.TaskData]]:
    """The tasks of each fold, with the weights of classes in their rows."""
    folds = [list(data)]
    if config.data.folds:
        (whole,) = data
        folds = [
            [fold]
            for fold in task_data.cut_into_folds(
                whole, config.data.folds, config.run.seed
            )
        ]
    weights = config.weights_of_classes
    if weights is None:
        return folds
    return [
        [class_weights.apply(of_task, weights) for of_task in of_fold]
        for of_fold in folds
    ]


def _about_rows(
    config: FinetuningConfig, data: Sequence[task_data.TaskData]
) -> tuple[dict[str, dict], list[str]]:
    """What results.json and the user are told of all tasks' rows."""
    about, remarks = {}, []
    for of_task in data:
        remarks += remarks_on(of_task, config.data)
    for of_task in data:
        about[of_task.task.name], lines = look_at(
            of_task, bool(config.data.folds)
        )
        remarks += lines
    weights = config.weights_of_classes
    if weights is not None:
        for of_task in data:
            of_labels = class_weights.about(of_task, weights)
            remarks.append(class_weights.remark(of_task, of_labels))
            about[of_task.task.name]["class_weights"] = of_labels
    return about, remarks


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


def set_pooling(
    pooling: str, tasks: Sequence[Task], encoder: configs.EncoderConfig
) -> None:
    """Tells the tasks what their heads read of a text.

    Args:
      pooling: `FinetuningConfig.pooling`.
      tasks: Of the run.
      encoder: Below the heads.

    Raises:
      ConfigError: If a head reads something else.
    """
    for task in tasks:
        head = task.make_head(encoder)
        if not isinstance(head, heads.PooledHead):
            if pooling != configs.DEFAULT_POOLING:
                raise errors.ConfigError(
                    f"FinetuningConfig.pooling={pooling!r} needs heads on a "
                    f"whole text. Received: {task.name}, with a "
                    f"{type(head).__name__}"
                )
        # A task of one's own may have decided.
        elif head.pooling not in (configs.DEFAULT_POOLING, pooling):
            raise errors.ConfigError(
                f"Expected FinetuningConfig.pooling={head.pooling!r}, as the "
                f"head of {task.name} has it. Received: {pooling!r}"
            )
        task.pooling = pooling


def look_at(
    data: task_data.TaskData, has_folds: bool = False
) -> tuple[dict, list[str]]:
    """What results.json says of a task's rows, and lines for the user.

    Args:
      data: The task with its rows.
      has_folds: Whether "train" is cut into folds.
    """
    of_lengths = long_texts.about(data)
    of_copies = copies.about(data.task, data.examples, data.do_lower_case)
    lines = long_texts.remarks(of_lengths, data)
    lines += copies.remarks(of_copies, data.num_rows, has_folds)
    about = {"long_texts": of_lengths, "copies": of_copies}
    return (
        {what: told for what, told in about.items() if told},
        [f"{data.task.name}: {line}" for line in lines],
    )


def files_of(data: FinetuningDataConfig) -> dict[str, str]:
    """Split -> where its rows are, but for those of training.

    Of named tasks "data_dir" alone, which holds the splits of all.
    """
    if data.task_names:
        return {"data_dir": data.data_dir}
    files = {"dev": data.dev_file, "test": data.test_file}
    return {split: path for split, path in files.items() if path}


def remarks_on(
    data: task_data.TaskData, config: FinetuningDataConfig
) -> list[str]:
    """What the user should know of a task's files, a line each.

    Args:
      data: The task with its rows.
      config: Which files they are.
    """
    column = data.task.reading().get("label_column")
    what = f"no column {column!r} with labels" if column else "no labels"
    return data.remarks() + [
        f"{data.task.name}: {split}: {path} has {what}: its rows are "
        "predicted, and not scored"
        for split, path in files_of(config).items()
        if split in data.examples and split not in data.labelled
    ]


def within_positions(
    config: FinetuningConfig, num_positions: int, source: str
) -> tuple[FinetuningConfig, list[str]]:
    """Texts no longer than the encoder can read, and a line if that is less.

    Args:
      config: Of the run.
      num_positions: Of the encoder.
      source: Where the encoder is from, for the line.
    """
    wanted = config.data.max_seq_length
    if wanted <= num_positions:
        return config, []
    data = dataclasses.replace(config.data, max_seq_length=num_positions)
    return dataclasses.replace(config, data=data), [
        f"max_seq_length {num_positions} rather than {wanted}: {source} has "
        f"{num_positions} positions"
    ]


def make_tasks(config: FinetuningConfig) -> list[Task]:
    """The tasks of a run.

    Raises:
      ValueError: If a name is unknown, or a file missing or damaged.
    """
    return by_name.make_tasks(config.data, config.question_answering)


def read_rows(
    config: FinetuningConfig,
    tasks: Sequence[Task],
    tokenizer: tokenization.FullTokenizer,
    wanted: Sequence[str] = (),
    unwanted: Sequence[str] = (),
) -> list[task_data.TaskData]:
    """The tasks with their rows.

    Args:
      config: Of the run.
      tasks: Of the run, in the order of the model's heads.
      tokenizer: Of their texts.
      wanted: Splits that must be there.
      unwanted: Splits that are not read.

    Raises:
      ValueError: If rows cannot be read or used.
    """
    data, run = config.data, config.run
    # Where XLA compiles.
    is_compiled = run.jit_compile or run.distribution_strategy == "tpu"
    long_texts.choose(tasks, data, is_compiled)
    found = [
        task_data.read_rows(
            task, tokenizer, data.max_seq_length, wanted, unwanted
        )
        for task in tasks
    ]
    for of_task in found:
        long_texts.refuse_pairs(of_task)
    return found
