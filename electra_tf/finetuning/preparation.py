"""Configuration -> encoder, tokenizer, tasks and features, checked."""

import dataclasses
import os
import tempfile
import typing
from collections.abc import Mapping, Sequence

import numpy as np

from electra_tf import configs, tokenization
from electra_tf.checkpoint_conversion import reading, vocabulary
from electra_tf.checkpoint_conversion.checkpoint import Checkpoint
from electra_tf.finetuning import (
    features_cache,
    kept_head,
    own_data,
    tasks,
)
from electra_tf.finetuning.features import Features
from electra_tf.finetuning.qa_config import QuestionAnsweringConfig
from electra_tf.finetuning.task import Task


@dataclasses.dataclass(frozen=True)
class TaskData:
    """A task with its rows.

    Attributes:
      task: The task.
      examples: Split -> its examples; "train" and "dev" are there.
      features: Split -> what the model reads of them.
      labelled: The splits that can be scored.
    """

    task: Task
    examples: Mapping[str, Sequence]
    features: Mapping[str, Features]
    labelled: frozenset[str]

    @property
    def scored_splits(self) -> list[str]:
        """All with labels but "train"."""
        return [s for s in self.examples if s != "train" and s in self.labelled]

    @property
    def num_rows(self) -> dict[str, int]:
        """Split -> number of its examples."""
        return {split: len(rows) for split, rows in self.examples.items()}


@dataclasses.dataclass(frozen=True)
class Prepared:
    """What all trials of a run share.

    Attributes:
      encoder_config: Sizes of the encoder.
      checkpoint: Its weights, and those of the head if that is kept.
      tokenizer: Of all texts.
      data: The tasks, in the order of the model's heads.
    """

    encoder_config: configs.EncoderConfig
    checkpoint: Checkpoint
    tokenizer: tokenization.FullTokenizer
    data: list[TaskData]


def prepare(config: configs.FinetuningConfig) -> Prepared:
    """Reads all that a run needs.

    Raises:
      ValueError: If data, vocabulary and checkpoint do not fit together.
    """
    whole = reading.read_checkpoint(config.init_checkpoint)
    checkpoint = _encoder_of(whole, config.init_checkpoint)
    encoder_config = typing.cast(
        configs.EncoderConfig, checkpoint.discriminator
    )
    if config.dropout is not None:
        encoder_config = dataclasses.replace(
            encoder_config,
            hidden_dropout_prob=config.dropout,
            attention_probs_dropout_prob=config.dropout,
        )
    tokenizer = make_tokenizer(config, checkpoint)
    _check_sizes(config, encoder_config, tokenizer)
    tasks_of_run = make_tasks(config)
    if config.keep_head:
        (task,) = tasks_of_run
        kept_head.adopt(whole, task, config.init_checkpoint)
        head = kept_head.tensors(whole, task.name)
        checkpoint = dataclasses.replace(
            checkpoint, tensors=dict(checkpoint.tensors) | head
        )
    return Prepared(
        encoder_config,
        checkpoint,
        tokenizer,
        [_read_task(config, task, tokenizer) for task in tasks_of_run],
    )


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
        raise configs.ConfigError(
            "FinetuningConfig.init_checkpoint must be a checkpoint with a "
            f"discriminator. Received: {init_checkpoint}, with a generator only"
        )
    return checkpoint.encoder_only()


def make_tokenizer(
    config: configs.FinetuningConfig, checkpoint: Checkpoint
) -> tokenization.FullTokenizer:
    """Of the given vocabulary, or of the one beside the checkpoint."""
    vocab_file, found = config.data.vocab_file, checkpoint.vocabulary
    if vocab_file:
        return tokenization.FullTokenizer(
            vocab_file,
            *_text_settings(
                config.data, tokenization.load_settings(vocab_file), vocab_file
            ),
            _text_cleaning(
                config.data,
                tokenization.load_text_cleaning(vocab_file),
                vocab_file,
            ),
        )
    if found is None:
        raise configs.ConfigError(
            "FinetuningDataConfig.vocab_file must be given, as there is no "
            f"vocabulary beside {config.init_checkpoint}"
        )
    made_for = {}
    if found.do_lower_case is not None:
        made_for = {
            "do_lower_case": found.do_lower_case,
            "strip_accents": vocabulary.strips_accents(found),
        }
    settings = _text_settings(config.data, made_for, config.init_checkpoint)
    with tempfile.TemporaryDirectory() as folder:
        vocabulary.write(found, folder)
        return tokenization.FullTokenizer(
            os.path.join(folder, vocabulary.VOCAB_FILE),
            *settings,
            _text_cleaning(
                config.data, found.text_cleaning, config.init_checkpoint
            ),
        )


def _text_cleaning(
    data: configs.FinetuningDataConfig, made_for: str, source: str
) -> str:
    """The wanted text cleaning, or that which the vocabulary was made for.

    Raises:
      ConfigError: If the two differ.
    """
    if data.text_cleaning is None:
        return made_for
    if made_for not in ("none", data.text_cleaning):
        raise configs.ConfigError(
            f"FinetuningDataConfig.text_cleaning must be {made_for!r}, as for "
            f"{source}. Received: text_cleaning={data.text_cleaning!r}"
        )
    return data.text_cleaning


def _text_settings(
    data: configs.FinetuningDataConfig, made_for: dict[str, bool], source: str
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
            raise configs.ConfigError(
                f"FinetuningDataConfig.{name} must be {known}, as for "
                f"{source}. Received: {name}={wanted}"
            )
        settings[name] = next(
            value for value in (wanted, known, True) if value is not None
        )
    return settings["do_lower_case"], settings["strip_accents"]


def _check_sizes(config, encoder_config, tokenizer) -> None:
    data = config.data
    if tokenizer.vocab_size != encoder_config.vocab_size:
        raise configs.ConfigError(
            f"Expected the vocabulary of {config.init_checkpoint} with "
            f"{encoder_config.vocab_size} entries. Received: {data.vocab_file} "
            f"with {tokenizer.vocab_size}"
        )
    if data.max_seq_length > encoder_config.max_position_embeddings:
        raise configs.ConfigError(
            "FinetuningDataConfig.max_seq_length must not exceed the "
            f"{encoder_config.max_position_embeddings} positions of "
            f"{config.init_checkpoint}. Received: "
            f"max_seq_length={data.max_seq_length}"
        )


def make_tasks(config: configs.FinetuningConfig) -> list[Task]:
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
            tasks.get_task(name, data.data_dir, data.double_unordered, options)
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
    config: configs.FinetuningConfig,
    task: Task,
    tokenizer: tokenization.FullTokenizer,
) -> TaskData:
    """Reads all splits of a task."""
    splits = task.splits()
    wanted = ["train"] if config.data.folds else ["train", "dev"]
    missing = [split for split in wanted if split not in splits]
    if missing:
        _refuse_missing(config, task, missing[0])
    examples = {split: task.read_examples(split) for split in splits}
    cache_dir = features_cache.folder(config)
    features = {
        split: features_cache.features_of(
            task,
            split,
            rows,
            tokenizer,
            config.data.max_seq_length,
            cache_dir,
        )
        for split, rows in examples.items()
    }
    labelled = frozenset(filter(task.has_labels, splits))
    return TaskData(task, examples, features, labelled)


def _refuse_missing(
    config: configs.FinetuningConfig, task: Task, split: str
) -> None:
    """Says which file of a task is missing, and where it was looked for.

    Raises:
      ValueError: Always.
    """
    try:
        task.read_examples(split)
    except ValueError as error:
        if not config.data.task_names:
            raise
        data_dir = config.data.data_dir
        folders = map(str, tasks.possible_folders(task.name, data_dir))
        raise configs.ConfigError(
            f"Expected the files of the task {task.name!r} in "
            f"{', '.join(folders)} or {data_dir}. "
            f"{error}"
        ) from None
    raise configs.ConfigError(
        f"Expected the split {split!r} of the task {task.name!r}. Received: "
        f"{', '.join(task.splits()) or 'none'}"
    )


def take_rows(features: Features, rows: np.ndarray) -> Features:
    """Some rows of all features; `rows` <int>[M] -> [M, ...]."""
    return {name: values[rows] for name, values in features.items()}
