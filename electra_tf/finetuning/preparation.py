"""Configuration -> the plan of a run, all of it read and checked once.

A model is trained by its `TrialPlan` alone.
"""

import dataclasses
import itertools
import typing
from collections.abc import Mapping, Sequence

from electra_tf import configs, errors, files, model_directory
from electra_tf.finetuning import (
    evaluation,
    recipe,
    starting_point,
    task_data,
)
from electra_tf.finetuning.configs import FinetuningConfig, FinetuningDataConfig
from electra_tf.finetuning.starting_point import StartingPoint
from electra_tf.finetuning.task_data import TaskData
from electra_tf.model import heads
from electra_tf.model.windows import Windows
from electra_tf.tasks import by_name, own_files
from electra_tf.tasks import features as features_lib
from electra_tf.tasks.task import Task
from electra_tf.tasks.text_tasks import TextTask
from electra_tf.text import tokenization
from electra_tf.training import optimization


@dataclasses.dataclass(frozen=True)
class Trial:
    """What sets a model apart from the others of its run.

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


@dataclasses.dataclass(frozen=True)
class TrialPlan:
    """All that training and scoring one model needs, resolved.

    Attributes:
      trial: Its own choices.
      start: What the model begins with.
      tasks: In the order of the model's heads, with their rows.
      optimizer: With all rates.
      run: With the trial's directory, seed and number of steps.
      data: Sizes of batches.
      patience: Evaluations in a row without a better `run.keep_best_metric`
        after which training ends; 0 for never.
    """

    trial: Trial
    start: StartingPoint
    tasks: Sequence[TaskData]
    optimizer: configs.OptimizerConfig
    run: configs.RunConfig
    data: FinetuningDataConfig
    patience: int

    @property
    def digests(self) -> dict:
        """Of all that decides what is learned and scored; fit for JSON."""
        rows, texts, labels = {}, {}, {}
        for data in self.tasks:
            name = data.task.name
            rows[name], texts[name] = data.digests, data.text_options()
            labels[name] = files.sha256_of_values(
                data.task.description().get("labels") or ()
            )
        return {
            "format": model_directory.DIGESTS_FORMAT,
            "rows": rows,
            "of_texts": texts,
            "labels": labels,
        } | self.start.digests


@dataclasses.dataclass(frozen=True)
class RunPlan:
    """What all trials of a run share, and which there are.

    Attributes:
      config: Of the run, its lengths and rates resolved.
      start: What every model begins with.
      folds: For each fold the tasks, in the order of the model's heads; one
        fold without cross-validation.
      trials: In the order in which they are run.
      lines: How it learns, and how its files were read.
      recipe: What the models learn with, and where each value is from.
      row_facts: Task name -> what results.json says of its rows.
    """

    config: FinetuningConfig
    start: StartingPoint
    folds: Sequence[Sequence[TaskData]]
    trials: Sequence[Trial]
    lines: Sequence[str]
    recipe: Mapping[str, recipe.Choice]
    row_facts: Mapping[str, dict]

    def trial_plan(self, trial: Trial) -> TrialPlan:
        """The plan of one of `trials`, or of one that repeats it."""
        tasks = self.folds[(trial.fold or 1) - 1]
        num_rows = sum(
            features_lib.num_rows(of.features["train"]) for of in tasks
        )
        data = dataclasses.replace(
            self.config.data, num_train_epochs=trial.num_train_epochs
        )
        run = dataclasses.replace(
            self.config.run,
            model_dir=model_directory.trial_dir(
                self.config.run.model_dir, trial.number
            ),
            seed=trial.seed,
            num_train_steps=data.num_train_steps(num_rows),
        )
        if patience := self.config.early_stopping_patience:
            run = dataclasses.replace(
                run,
                eval_steps=run.eval_steps or data.steps_per_epoch(num_rows),
                keep_best_metric=evaluation.DEV_SCORE,
            )
        optimizer = dataclasses.replace(
            self.config.optimizer, learning_rate=trial.learning_rate
        )
        return TrialPlan(
            trial, self.start, tasks, optimizer, run, data, patience
        )


def prepare(config: FinetuningConfig) -> RunPlan:
    """Reads all that a run needs, and decides what it leaves open.

    Raises:
      ValueError: If data, vocabulary and checkpoint do not fit together.
    """
    start = starting_point.read(config)
    encoder = start.encoder_config
    length = config.data.max_seq_length
    positions = encoder.max_position_embeddings
    config = within_positions(config, positions, start.source)
    tasks = make_tasks(config)
    settle_heads(config, tasks, encoder)
    if config.keep_head:
        start = starting_point.with_head(start, tasks[0])
    data = read_rows(config, tasks, start.tokenizer, ("train", "dev"))
    parts = task_data.parts(
        data[0], config.data.folds, config.data.dev_fraction, config.run.seed
    )
    if config.data.dev_fraction:
        data = parts
    row_facts = {of.task.name: look_at(of, config.data) for of in data}
    folds = [[part] for part in parts] if config.data.folds else [data]
    if (weights := config.weights_of_classes) is not None:
        folds = _weighted(weights, data, folds, row_facts)
    choices = recipe.choices(config, encoder.hidden_size)
    if config.data.max_seq_length < length:
        choices["max_seq_length"] = recipe.Choice(
            config.data.max_seq_length, "checkpoint"
        )
    optimizer = recipe.complete(
        config.optimizer, config.recipe, encoder.hidden_size
    )
    data_config = dataclasses.replace(
        config.data,
        num_train_epochs=recipe.num_train_epochs(config, encoder.hidden_size),
    )
    config = dataclasses.replace(config, optimizer=optimizer, data=data_config)
    line = ", ".join(f"{name} {of}" for name, of in choices.items())
    origins = [task.origin for task in tasks if task.origin]
    plan = RunPlan(
        config,
        start,
        folds,
        make_trials(config),
        [f"recipe: {line}", *origins],
        choices,
        row_facts,
    )
    for trial in map(plan.trial_plan, plan.trials):
        optimization.warn_of_schedule(
            trial.optimizer, trial.run.num_train_steps
        )
    return plan


def make_trials(config: FinetuningConfig) -> list[Trial]:
    """Every learning rate with every number of epochs, seed and fold."""
    rate = typing.cast(float, config.optimizer.learning_rate)
    epochs = typing.cast(float, config.data.num_train_epochs)
    settings = itertools.product(
        config.learning_rates or (rate,),
        config.num_train_epochs_options or (epochs,),
        range(config.num_trials),
        range(1, config.data.folds + 1) if config.data.folds else (None,),
    )
    return [
        Trial(number, config.run.seed + repetition, rate, epochs, fold)
        for number, (rate, epochs, repetition, fold) in enumerate(settings, 1)
    ]


def _weighted(
    given: str | Mapping[str, float],
    data: Sequence[TaskData],
    folds: Sequence[Sequence[TaskData]],
    row_facts: dict[str, dict],
) -> list[list[TaskData]]:
    """The tasks of each fold, with the weights of classes in their rows."""
    for rows in data:
        task = rows.task
        _, weights = task.loss_weights(rows.examples["train"], given)
        row_facts[task.name]["class_weights"] = weights
        # The rarest first.
        rarest = sorted(weights, key=lambda label: -weights[label])[:10]
        shown = ", ".join(f"{label!r} {weights[label]:.4g}" for label in rarest)
        task.warn(f"class weights in training: {shown}")
    return [[rows.with_class_weights(given) for rows in fold] for fold in folds]


def settle_heads(
    config: FinetuningConfig,
    tasks: Sequence[Task],
    encoder: configs.EncoderConfig,
) -> None:
    """Tells the tasks what their heads read of a text.

    Raises:
      ConfigError: If a head reads something else, or drops nothing, as in the
        original.
    """
    is_default = config.pooling == configs.DEFAULT_POOLING
    for task in tasks:
        head = task.make_head(encoder)
        if not isinstance(head, heads.PooledHead):
            if not is_default or config.head_dropout is not None:
                raise errors.ConfigError(
                    "FinetuningConfig.pooling and head_dropout need heads on a "
                    f"whole text. Received: {task.name}, with a "
                    f"{type(head).__name__}"
                )
        # A task of one's own may have decided.
        elif head.pooling not in (configs.DEFAULT_POOLING, config.pooling):
            raise errors.ConfigError(
                f"Expected FinetuningConfig.pooling={head.pooling!r}, as the "
                f"head of {task.name} has it. Received: {config.pooling!r}"
            )
        task.pooling = config.pooling


def look_at(data: TaskData, config: FinetuningDataConfig) -> dict:
    """Warns of what is odd in a task's rows.

    Returns:
      What results.json says of them: see `task_data.copies`.
    """
    task = data.task
    for split, examples in data.examples.items():
        task.look_at(split, examples, data.features[split])
    column = task.reading().get("label_column")
    what = f"no column {column!r} with labels" if column else "no labels"
    for split, path in files_of(config).items():
        if split in data.examples and split not in data.labelled:
            task.warn(
                f"{split}: {path} has {what}: its rows are predicted, and not "
                "scored"
            )
    task_data.warn_of_unread(data)
    copies = task_data.copies(data, bool(config.folds))
    for counts in copies.values():
        if "line" in counts:
            task.warn(counts["line"])
    return {"copies": copies} if copies else {}


def files_of(data: FinetuningDataConfig) -> dict[str, str]:
    """Split -> where its rows are, but for those of training.

    Of named tasks "data_dir" alone, which holds the splits of all.
    """
    if data.task_names:
        return {"data_dir": data.data_dir}
    files = {"dev": data.dev_file, "test": data.test_file}
    return {split: path for split, path in files.items() if path}


def within_positions(
    config: FinetuningConfig, num_positions: int, source: str
) -> FinetuningConfig:
    """Texts no longer than the encoder can read; warns where that is less."""
    wanted = config.data.max_seq_length
    if wanted <= num_positions:
        return config
    errors.warn(
        f"max_seq_length {num_positions} rather than {wanted}: {source} has "
        f"{num_positions} positions"
    )
    data = dataclasses.replace(config.data, max_seq_length=num_positions)
    return dataclasses.replace(config, data=data)


def make_tasks(config: FinetuningConfig) -> list[Task]:
    """The tasks that a configuration names, or that of its files.

    Raises:
      ValueError: If a name is unknown, or a file missing or damaged.
    """
    data = config.data
    return [
        by_name.get_task(
            name,
            data.data_dir,
            data.double_unordered,
            config.question_answering,
        )
        for name in data.task_names
    ] or [
        own_files.make_task(
            data.task_name,
            {"train": data.train_file} | files_of(data),
            data.task_type,
            data.text_columns,
            data.label_column,
            data.label_separator,
            data.has_header,
            data.skip_empty_texts,
            data.label_names,
        )
    ]


def read_rows(
    config: FinetuningConfig,
    tasks: Sequence[Task],
    tokenizer: tokenization.FullTokenizer,
    wanted: Sequence[str] = (),
    unwanted: Sequence[str] = (),
) -> list[TaskData]:
    """The tasks with their rows.

    Args:
      wanted: Splits that must be there; "dev" only where nothing is held out.
      unwanted: Splits that are not read.

    Raises:
      ValueError: If rows cannot be read or used.
    """
    data, run = config.data, config.run
    if data.folds or data.dev_fraction:
        wanted = [split for split in wanted if split != "dev"]
    # Where XLA compiles.
    is_compiled = run.jit_compile or run.distribution_strategy == "tpu"
    _choose_windows(tasks, data, is_compiled)
    rows = [
        task_data.read_rows(
            task, tokenizer, data.max_seq_length, wanted, unwanted
        )
        for task in tasks
    ]
    if any(of.windows and of.has_pairs for of in rows):
        _refuse_windows(f"{tasks[0].name}, whose rows have two texts")
    return rows


def _refuse_windows(received: str) -> typing.NoReturn:
    raise errors.ConfigError(
        "FinetuningDataConfig.long_texts='windows' needs one task of "
        "classification, multi_label or regression, and one text in each row. "
        f"Received: {received}"
    )


def _choose_windows(
    tasks: Sequence[Task], data: FinetuningDataConfig, keeps_empty: bool
) -> None:
    """Tells a task how its texts are cut into windows, where they are."""
    if data.long_texts != "windows":
        return
    task = tasks[0]
    if len(tasks) > 1 or not isinstance(task, TextTask):
        kinds = (f"{t.name}, {t.description().get('kind')}" for t in tasks)
        _refuse_windows("; ".join(kinds))
    length = data.max_seq_length
    stride = data.window_stride or min(max(1, length // 2), length - 2)
    task.windows = Windows(
        length, stride, data.max_windows, keeps_empty, data.weigh_windows
    )
