"""Configuration -> what all models of a run share, read and checked once."""

import dataclasses
import typing
from collections.abc import Mapping, Sequence

import numpy as np

from electra_tf import configs, errors
from electra_tf.checkpoints import reading, task_heads
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.configs import QuestionAnsweringConfig
from electra_tf.finetuning import recipe
from electra_tf.finetuning.configs import FinetuningConfig, FinetuningDataConfig
from electra_tf.finetuning.features import Features
from electra_tf.finetuning.tasks import by_name, own_data, text_tasks
from electra_tf.finetuning.tasks.task import Task
from electra_tf.text import tokenization, vocabulary

# Kinds whose labels are a list in the task.
_WITH_LABELS = ("classification", "multi_label_classification", "tagging")


@dataclasses.dataclass(frozen=True)
class TaskData:
    """A task with its rows.

    Attributes:
      task: The task.
      examples: Split -> its examples; "train" and "dev" are there.
      features: Split -> what the model reads of them.
      labelled: The splits that can be scored.
      tokenizer: Of their texts.
      max_seq_length: L of the features.
    """

    task: Task
    examples: Mapping[str, Sequence]
    features: Mapping[str, Features]
    labelled: frozenset[str]
    tokenizer: tokenization.FullTokenizer | None = None
    max_seq_length: int = 0

    @property
    def scored_splits(self) -> list[str]:
        """All with labels but "train"."""
        return [s for s in self.examples if s != "train" and s in self.labelled]

    @property
    def num_rows(self) -> dict[str, int]:
        """Split -> number of its examples."""
        return {split: len(rows) for split, rows in self.examples.items()}

    def scores(
        self, split: str, outputs: dict[str, np.ndarray]
    ) -> dict[str, float]:
        """`Task.scores` of what the head said of the rows of a split."""
        return self.task.scores(
            outputs, self.examples[split], self.tokenizer, self.max_seq_length
        )


@dataclasses.dataclass(frozen=True)
class Prepared:
    """What all trials of a run share: its configuration, resolved.

    Attributes:
      encoder_config: Sizes of the encoder.
      head_dropout: In the heads; None for their own.
      checkpoint: The weights to begin with; None for random ones.
      source: Path of the checkpoint, for error messages.
      keep_head: Whether these weights include the head's.
      tokenizer: Of all texts.
      folds: For each fold the tasks, in the order of the model's heads; one
        fold without cross-validation.
      data_config: Sizes of batches and how many there are.
      optimizer: With all rates; each trial may bring its own peak rate.
      run: Of all trials together.
      notes: What was chosen for the user, a line each.
    """

    encoder_config: configs.EncoderConfig
    head_dropout: float | None
    checkpoint: Checkpoint | None
    source: str
    keep_head: bool
    tokenizer: tokenization.FullTokenizer
    folds: list[list[TaskData]]
    data_config: FinetuningDataConfig
    optimizer: configs.OptimizerConfig
    run: configs.RunConfig
    notes: list[str]


def prepare(config: FinetuningConfig) -> Prepared:
    """Reads all that a run needs.

    Raises:
      ValueError: If data, vocabulary and checkpoint do not fit together.
    """
    whole = reading.read_checkpoint(config.init_checkpoint)
    checkpoint = _encoder_of(whole, config.init_checkpoint)
    encoder_config = typing.cast(
        configs.EncoderConfig, checkpoint.discriminator
    )
    _check_expected_encoder(config, checkpoint)
    if config.dropout is not None:
        encoder_config = dataclasses.replace(
            encoder_config,
            hidden_dropout_prob=config.dropout,
            attention_probs_dropout_prob=config.dropout,
        )
    tokenizer = make_tokenizer(config, checkpoint)
    _check_sizes(config, encoder_config, tokenizer)
    tasks_of_run = _make_tasks(config)
    if config.keep_head:
        (task,) = tasks_of_run
        _adopt_labels(whole, task, config.init_checkpoint)
        head = _tensors_of_head(whole, task.name)
        checkpoint = dataclasses.replace(
            checkpoint, tensors=dict(checkpoint.tensors) | head
        )
    data = [_read_task(config.data, task, tokenizer) for task in tasks_of_run]
    folds = [data]
    if config.data.folds:
        (whole_set,) = data
        folds = [
            [of_fold]
            for of_fold in _cut_into_folds(
                whole_set, config.data.folds, config.run.seed
            )
        ]
    remarks = _remarks(data)
    optimizer, notes = recipe.complete(
        config.optimizer,
        config.recipe,
        encoder_config.hidden_size,
        bool(config.learning_rates),
    )
    return Prepared(
        encoder_config,
        config.dropout,
        None if config.from_scratch else checkpoint,
        config.init_checkpoint,
        config.keep_head,
        tokenizer,
        folds,
        config.data,
        optimizer,
        config.run,
        notes + remarks,
    )


def _remarks(data_of_tasks: Sequence[TaskData]) -> list[str]:
    """What the files were taken for, and what is wrong with them."""
    lines = []
    for data in data_of_tasks:
        if data.task.origin:
            lines.append(data.task.origin)
        for warning in data.task.warnings(data.examples, data.features):
            lines.append(f"{data.task.name}: {warning}")
    return lines


def read_encoder(init_checkpoint: str) -> Checkpoint:
    """The encoder of a checkpoint of any format.

    Raises:
      ValueError: If there is none, or it cannot be read.
    """
    return _encoder_of(
        reading.read_checkpoint(init_checkpoint), init_checkpoint
    )


def _encoder_of(checkpoint: Checkpoint, init_checkpoint: str) -> Checkpoint:
    if checkpoint.discriminator is None:
        raise errors.ConfigError(
            "FinetuningConfig.init_checkpoint must be a checkpoint with a "
            f"discriminator. Received: {init_checkpoint}, with a generator only"
        )
    return checkpoint.encoder_only()


def make_tokenizer(
    config: FinetuningConfig, checkpoint: Checkpoint
) -> tokenization.FullTokenizer:
    """Of the given vocabulary, or of the one beside the checkpoint."""
    found, source = checkpoint.vocabulary, config.init_checkpoint
    if config.data.vocab_file:
        source = config.data.vocab_file
        found = vocabulary.load(source)
    if found is None:
        raise errors.ConfigError(
            "FinetuningDataConfig.vocab_file must be given, as there is no "
            f"vocabulary beside {source}"
        )
    made_for = {}
    if found.do_lower_case is not None:
        made_for = {
            "do_lower_case": found.do_lower_case,
            "strip_accents": found.strips_accents(),
        }
    return tokenization.FullTokenizer(
        vocabulary.Vocabulary(
            found.tokens,
            *_text_settings(config.data, made_for, source),
            _text_cleaning(config.data, found.text_cleaning, source),
        )
    )


def _text_cleaning(
    data: FinetuningDataConfig, made_for: str, source: str
) -> str:
    """The wanted text cleaning, or that which the vocabulary was made for.

    Raises:
      ConfigError: If the two differ.
    """
    if data.text_cleaning is None:
        return made_for
    if made_for not in ("none", data.text_cleaning):
        raise errors.ConfigError(
            f"FinetuningDataConfig.text_cleaning must be {made_for!r}, as for "
            f"{source}. Received: text_cleaning={data.text_cleaning!r}"
        )
    return data.text_cleaning


def _text_settings(
    data: FinetuningDataConfig,
    made_for: dict[str, bool],
    source: str,
) -> tuple[bool, bool]:
    """Whether text is lower-cased, and whether it loses its accents.

    Args:
      data: May say so.
      made_for: What the vocabulary was made for, where that is known.
      source: Where the vocabulary comes from.

    Raises:
      ConfigError: If the two differ.
    """
    settings: dict[str, bool] = {}
    for name in ("do_lower_case", "strip_accents"):
        wanted = getattr(data, name)
        known = made_for.get(name)
        # Without lower-casing, accents are kept whatever is said of them.
        counts = settings.get("do_lower_case", True)
        if counts and known is not None and wanted not in (None, known):
            raise errors.ConfigError(
                f"FinetuningDataConfig.{name} must be {known}, as for "
                f"{source}. Received: {name}={wanted}"
            )
        settings[name] = next(
            value for value in (wanted, known, True) if value is not None
        )
    return settings["do_lower_case"], settings["strip_accents"]


def _check_expected_encoder(
    config: FinetuningConfig, checkpoint: Checkpoint
) -> None:
    """Compares what was said of the encoder with what the checkpoint has."""
    expected = config.expected_encoder or {}
    received = {
        name: getattr(checkpoint.discriminator, name) for name in expected
    }
    different = [name for name in expected if expected[name] != received[name]]
    if not different:
        return

    def listed(values):
        return ", ".join(f"{name}={values[name]!r}" for name in different)

    advice = ""
    assumed = [name for name in different if name in checkpoint.assumed]
    if assumed:
        advice = (
            f", where nothing says {' and '.join(assumed)}, so that the "
            "default is assumed: write the hparams of the pre-training to "
            "hparams.json beside the checkpoint"
        )
    raise errors.ConfigError(
        f"Expected an encoder with {listed(expected)}. Received: "
        f"{config.init_checkpoint} with {listed(received)}{advice}"
    )


def _check_sizes(config, encoder_config, tokenizer) -> None:
    data = config.data
    if tokenizer.vocab_size != encoder_config.vocab_size:
        raise errors.ConfigError(
            f"Expected the vocabulary of {config.init_checkpoint} with "
            f"{encoder_config.vocab_size} entries. Received: {data.vocab_file} "
            f"with {tokenizer.vocab_size}"
        )
    if data.max_seq_length > encoder_config.max_position_embeddings:
        raise errors.ConfigError(
            "FinetuningDataConfig.max_seq_length must not exceed the "
            f"{encoder_config.max_position_embeddings} positions of "
            f"{config.init_checkpoint}. Received: "
            f"max_seq_length={data.max_seq_length}"
        )


def _make_tasks(config: FinetuningConfig) -> list[Task]:
    """The tasks that a configuration names, or that of its files.

    Raises:
      ValueError: If a name is unknown, or a file missing or damaged.
    """
    data = config.data
    if data.task_names:
        options = typing.cast(
            QuestionAnsweringConfig | None, config.question_answering
        )
        return [
            by_name.get_task(
                name, data.data_dir, data.double_unordered, options
            )
            for name in data.task_names
        ]
    files = {"train": data.train_file}
    for split, path in (("dev", data.dev_file), ("test", data.test_file)):
        if path:
            files[split] = path
    return [
        own_data.make_task(
            data.task_name,
            files,
            data.task_type,
            data.text_columns,
            data.label_column,
            data.label_separator,
            data.has_header,
            data.skip_empty_texts,
        )
    ]


def _read_task(
    config: FinetuningDataConfig,
    task: Task,
    tokenizer: tokenization.FullTokenizer,
) -> TaskData:
    """Reads all splits of a task."""
    splits = task.splits()
    wanted = ["train"] if config.folds else ["train", "dev"]
    missing = [split for split in wanted if split not in splits]
    if missing:
        _refuse_missing(config, task, missing[0])
    examples = {split: task.read_examples(split) for split in splits}
    features = {
        split: task.features(
            rows, tokenizer, config.max_seq_length, split == "train"
        )
        for split, rows in examples.items()
    }
    labelled = frozenset(filter(task.has_labels, splits))
    return TaskData(
        task, examples, features, labelled, tokenizer, config.max_seq_length
    )


def _refuse_missing(
    config: FinetuningDataConfig, task: Task, split: str
) -> None:
    """Says which file of a task is missing, and where it was looked for.

    Raises:
      ValueError: Always.
    """
    try:
        task.read_examples(split)
    except ValueError as error:
        if not config.task_names:
            raise
        data_dir = config.data_dir
        folders = map(str, by_name.possible_folders(task.name, data_dir))
        raise errors.ConfigError(
            f"Expected the files of the task {task.name!r} in "
            f"{', '.join(folders)} or {data_dir}. "
            f"{error}"
        ) from None
    raise errors.ConfigError(
        f"Expected the split {split!r} of the task {task.name!r}. Received: "
        f"{', '.join(task.splits()) or 'none'}"
    )


def _cut_into_folds(
    data: TaskData, num_folds: int, seed: int
) -> list[TaskData]:
    """The sets of all folds: each leaves another part out of training.

    With one label for each row, every part has the same share of each label.

    Args:
      data: With the split "train", a row of features for each example.
      num_folds: Number of parts.
      seed: Of the order.

    Returns:
      For each part the set in which it is "dev".

    Raises:
      ConfigError: If a label, or the set, has fewer rows than there are parts.
    """
    from sklearn import model_selection

    examples = data.examples["train"]
    labels: Sequence = [0] * len(examples)
    cut: typing.Any = model_selection.KFold
    if data.task.description().get("kind") == "classification":
        labels = [example.label for example in examples]
        cut = model_selection.StratifiedKFold
    rarest, count = min(
        ((label, labels.count(label)) for label in sorted(set(labels))),
        key=lambda pair: pair[1],
    )
    if count < num_folds:
        what = f"rows of the label {rarest!r}" if rarest != 0 else "rows"
        raise errors.ConfigError(
            "FinetuningDataConfig.folds must not exceed the rows of the "
            f"rarest label in training. Received: folds={num_folds}, but only "
            f"{count} {what}"
        )
    folds = cut(num_folds, shuffle=True, random_state=seed)
    return [
        _of_fold(data, {"train": rows, "dev": heldout})
        for rows, heldout in folds.split(np.zeros(len(labels)), labels)
    ]


def _of_fold(data: TaskData, rows_of: Mapping[str, np.ndarray]) -> TaskData:
    """The set of one fold: some splits are rows <int>[M] of "train"."""
    whole = data.features["train"]
    others = [name for name in data.examples if name not in rows_of]
    return dataclasses.replace(
        data,
        examples={
            name: [data.examples["train"][row] for row in rows]
            for name, rows in rows_of.items()
        }
        | {name: data.examples[name] for name in others},
        features={
            name: {feature: values[rows] for feature, values in whole.items()}
            for name, rows in rows_of.items()
        }
        | {name: data.features[name] for name in others},
        labelled=data.labelled | set(rows_of),
    )


def _adopt_labels(checkpoint: Checkpoint, task: Task, source: str) -> None:
    """Makes a task's labels those of the head of a checkpoint.

    The rows at hand may have fewer labels than the head, not more.

    Args:
      checkpoint: With a fine-tuned head.
      task: Its `labels` become the head's, in the head's order.
      source: Path of the checkpoint, for error messages.

    Raises:
      ConfigError: If there is no head, it is of another kind, or it lacks a
        label.
    """
    head = checkpoint.head
    kind = task.description().get("kind")
    if head is None or head.kind != kind:
        raise errors.ConfigError(
            f"FinetuningConfig.keep_head needs a checkpoint with a head for "
            f"{kind}. Received: {source}, with "
            + (f"one for {head.kind}" if head else "no fine-tuned head")
        )
    if kind not in _WITH_LABELS:
        return
    labels = list(task.labels)  # type: ignore[attr-defined]
    num_outputs = head.num_outputs or len(head.labels or ())
    if head.labels is None:
        if len(labels) != num_outputs:
            raise errors.ConfigError(
                f"Expected {num_outputs} labels, as many as the head of "
                f"{source} has. Received: {len(labels)}, "
                + text_tasks.listing(labels)
            )
        return
    unknown = [label for label in labels if label not in head.labels]
    if unknown:
        raise errors.ConfigError(
            f"Expected the labels of the head of {source}, "
            f"{text_tasks.listing(head.labels)}. Received: {len(labels)} "
            f"labels, with {text_tasks.listing(unknown)} among them; without "
            "FinetuningConfig.keep_head a new head is trained"
        )
    task.labels = list(head.labels)  # type: ignore[attr-defined]


def _tensors_of_head(
    checkpoint: Checkpoint, task_name: str
) -> dict[str, np.ndarray]:
    """The head's weights, under the names that they have in a task's scope."""
    assert checkpoint.head is not None
    found = task_heads.head_tensors(
        checkpoint.tensors, checkpoint.head.task_name
    )
    return {
        f"task_specific/{task_name}/{name}": tensor
        for name, tensor in found.items()
    }
