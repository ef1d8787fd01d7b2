"""A checkpoint and a vocabulary -> what every model of a run begins with."""

import dataclasses
import functools
import hashlib
import typing

import numpy as np

from electra_tf import configs, errors, files
from electra_tf.checkpoints import reading, task_heads
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.finetuning.configs import FinetuningConfig, FinetuningDataConfig
from electra_tf.model.task_head import TaskHead
from electra_tf.tasks import tagging, text_tasks
from electra_tf.tasks.task import Task
from electra_tf.text import tokenization, vocabulary

# Kinds whose labels are a list in the task.
_WITH_LABELS = ("classification", "multi_label_classification", "tagging")


@dataclasses.dataclass(frozen=True)
class StartingPoint:
    """What every model of a run begins with.

    Attributes:
      encoder_config: Sizes of the encoder, and its dropout.
      head_dropout: In the heads; None for their own.
      checkpoint: The weights to begin with; None for random ones.
      source: Path of the checkpoint, for error messages.
      keep_head: Whether these weights include the head's.
      tokenizer: Of all texts.
    """

    encoder_config: configs.EncoderConfig
    head_dropout: float | None
    checkpoint: Checkpoint | None
    source: str
    keep_head: bool
    tokenizer: tokenization.FullTokenizer

    @functools.cached_property
    def digests(self) -> dict[str, str]:
        """Of what a model begins with: "vocabulary", and "initial weights" with
        the sizes and the dropout that they are trained with."""
        digest = hashlib.sha256()
        tensors = self.checkpoint.tensors if self.checkpoint else {}
        for name in sorted(tensors):
            tensor = np.ascontiguousarray(tensors[name])
            digest.update(f"{name} {tensor.dtype} {tensor.shape}\n".encode())
            digest.update(tensor.reshape(-1).view(np.uint8).data)
        weights = [self.encoder_config, digest.hexdigest()]
        vocab = self.tokenizer.vocabulary
        return {
            "vocabulary": files.sha256_of_values([vocab]),
            "initial weights": files.sha256_of_values(weights),
        }


def read(config: FinetuningConfig) -> StartingPoint:
    """Reads `init_checkpoint` and the vocabulary; `with_head` adds the head.

    Raises:
      ValueError: If one cannot be read, they do not fit together, or they are
        not what the configuration expects.
    """
    source = config.init_checkpoint
    treatment = {n: getattr(config.data, n) for n in vocabulary.TREATMENT}
    if config.data.vocab_file:  # Whose treatment of text it is then.
        treatment = {}
    checkpoint = reading.read_checkpoint(
        source,
        **{n: value for n, value in treatment.items() if value is not None},
    )
    if checkpoint.discriminator is None:
        raise errors.ConfigError(
            "FinetuningConfig.init_checkpoint must be a checkpoint with a "
            f"discriminator. Received: {source}, with a generator only"
        )
    remarks: list[str] = []
    if not config.keep_head:
        remarks += _unused_heads(config, checkpoint)
        checkpoint = checkpoint.encoder_only()
    encoder_config = typing.cast(
        configs.EncoderConfig, checkpoint.discriminator
    )
    vocab, vocab_source = checkpoint.vocabulary, source
    if config.data.vocab_file:
        vocab_source = config.data.vocab_file
        vocab = vocabulary.in_place_of(
            vocab, vocabulary.load(vocab_source), vocab_source
        )
    if vocab is None:
        raise errors.ConfigError(
            "FinetuningDataConfig.vocab_file must be given, as there is no "
            f"vocabulary beside {vocab_source}"
        )
    if config.data.do_lower_case is None:
        remarks += vocab.case_notes()
    for remark in remarks:
        errors.warn(f"{source}: {remark}")
    _check_expected_encoder(config.expected_encoder or {}, checkpoint, source)
    vocab = _treated_as_wanted(vocab, config.data, vocab_source)
    if len(vocab.tokens) != encoder_config.vocab_size:
        raise errors.ConfigError(
            f"Expected the vocabulary of {source} with "
            f"{encoder_config.vocab_size} entries. Received: "
            f"{config.data.vocab_file} with {len(vocab.tokens)}"
        )
    if config.dropout is not None:
        encoder_config = dataclasses.replace(
            encoder_config,
            hidden_dropout_prob=config.dropout,
            attention_probs_dropout_prob=config.dropout,
        )
    return StartingPoint(
        encoder_config,
        config.dropout if config.head_dropout is None else config.head_dropout,
        None if config.from_scratch else checkpoint,
        source,
        config.keep_head,
        tokenization.FullTokenizer(vocab),
    )


def _unused_heads(
    config: FinetuningConfig, checkpoint: Checkpoint
) -> list[str]:
    """A line for each task of the run whose head is there, and is not used."""
    if config.from_scratch:
        return []
    names = config.data.task_names or (config.data.task_name,)
    kept = checkpoint.head.task_name if checkpoint.head else None
    advice = ""
    if names == (kept,):
        advice = ": FinetuningConfig.keep_head=True goes on with it"
    return [
        f"the head for {name} is not used, a new one is trained{advice}"
        for name in task_heads.task_names(checkpoint.tensors)
        if name in names
    ]


def _check_expected_encoder(
    expected: dict, checkpoint: Checkpoint, source: str
) -> None:
    """Compares what was said of the encoder with what the checkpoint has."""
    encoder = checkpoint.discriminator
    differing = [n for n in expected if expected[n] != getattr(encoder, n)]
    if not differing:
        return
    wanted = ", ".join(f"{name}={expected[name]!r}" for name in differing)
    received = ", ".join(f"{n}={getattr(encoder, n)!r}" for n in differing)
    assumed = " and ".join(n for n in differing if n in checkpoint.assumed)
    if assumed:
        received += (
            f", where nothing says {assumed}, so that the default is assumed: "
            "write the hparams of the pre-training to hparams.json beside the "
            "checkpoint"
        )
    raise errors.ConfigError(
        f"Expected an encoder with {wanted}. Received: {source} with {received}"
    )


def _treated_as_wanted(
    vocab: vocabulary.Vocabulary, data: FinetuningDataConfig, source: str
) -> vocabulary.Vocabulary:
    """A vocabulary with the treatment of text that is wanted, or its own.

    Raises:
      ConfigError: If it was made for another one than is wanted.
    """
    made_for = vocab.treatment()
    if vocab.text_cleaning == "none":  # Nothing says so.
        del made_for["text_cleaning"]
    settings: dict[str, typing.Any] = {}
    for name, default in (
        ("do_lower_case", vocab.lower_cases()),
        ("strip_accents", True),
        ("text_cleaning", "none"),
    ):
        wanted = getattr(data, name)
        settings[name] = made_for.get(name, default)
        # Without lower-casing, accents are kept whatever is said of them.
        counts = name != "strip_accents" or settings["do_lower_case"]
        if counts and wanted not in (None, made_for.get(name, wanted)):
            raise errors.ConfigError(
                f"FinetuningDataConfig.{name} must be {made_for[name]!r}, as "
                f"for {source}. Received: {name}={wanted!r}"
            )
        if wanted is not None:
            settings[name] = wanted
    return dataclasses.replace(vocab, **settings)


def with_head(start: StartingPoint, task: Task) -> StartingPoint:
    """Begins with the head of the checkpoint, too.

    The rows at hand may have fewer labels than the head, not more.

    Args:
      start: With a fine-tuned head in its checkpoint.
      task: Its `labels` become the head's, in the head's order, and so do the
        segment of a tagger's words, the unit of a regression's labels and the
        layer in front of the last one.

    Returns:
      The same with the head's weights under the task's name.

    Raises:
      ConfigError: If there is no head, it is of another kind or pooling, it
        lacks a label, or the task's own is another one of several.
    """
    assert start.checkpoint is not None
    head, kind = start.checkpoint.head, task.description().get("kind")
    if head is None or head.kind != kind:
        raise errors.ConfigError(
            f"FinetuningConfig.keep_head needs a checkpoint with a head for "
            f"{kind}. Received: {start.source}, with "
            + (f"one for {head.kind}" if head else "no fine-tuned head")
        )
    if task.pooling != head.pooling:
        raise errors.ConfigError(
            f"FinetuningConfig.pooling must be {head.pooling!r}, as the head "
            f"of {start.source} has it, with keep_head. Received: "
            f"{task.pooling!r}"
        )
    tensors = start.checkpoint.tensors
    own = task_heads.head_tensors(tensors, task.name)
    if own and head.task_name != task.name:
        raise errors.ConfigError(
            f"FinetuningConfig.keep_head takes the first head by name, in "
            f"{start.source} that for {head.task_name}. Received: the task "
            f"{task.name}, which has another one there"
        )
    task.hidden_activation = head.hidden_activation
    start.checkpoint.warn_of_heads(start.source)
    if kind in _WITH_LABELS:
        _adopt_labels(task, head, start.source)
    if isinstance(task, tagging.TaggingTask):
        task.segment = head.segment_of_words()
    if isinstance(task, text_tasks.RegressionTask):
        _adopt_unit(task, head, start.source)
    of_head = {
        f"task_specific/{task.name}/{name}": tensor
        for name, tensor in task_heads.head_tensors(
            tensors, head.task_name
        ).items()
    }
    return dataclasses.replace(
        start,
        checkpoint=dataclasses.replace(
            start.checkpoint, tensors=tensors | of_head
        ),
    )


def _adopt_unit(
    task: text_tasks.RegressionTask, head: TaskHead, source: str
) -> None:
    """Puts the labels in the unit of the head's outputs."""
    if not {"min_value", "scale"} <= set(head.options):
        return
    before = task.min_value, task.max_value
    task.min_value, task.scale = head.unit
    task.max_value = head.options.get("max_value", sum(head.unit))
    after = task.min_value, task.max_value
    if after != before:
        errors.warn(
            f"the head of {source} is for numbers from {after[0]:g} to "
            f"{after[1]:g}, and keeps that unit; those at hand are from "
            f"{before[0]:g} to {before[1]:g}"
        )


def _adopt_labels(task: Task, head: TaskHead, source: str) -> None:
    """Puts the labels in the order of the head's outputs."""
    labels = list(task.labels)  # type: ignore[attr-defined]
    num_outputs = head.num_outputs or len(head.labels or ())
    if head.labels is None:
        if len(labels) != num_outputs:
            raise errors.ConfigError(
                f"Expected {num_outputs} labels, as many as the head of "
                f"{source} has. Received: {len(labels)}, "
                + text_tasks.listing(labels)
            )
        numbers = [str(number) for number in range(num_outputs)]
        if set(labels) == set(numbers):
            labels = numbers
        errors.warn(
            f"nothing says which labels the head of {source} has: its outputs "
            f"are taken for {text_tasks.listing(labels)}, in this order"
        )
    else:
        if unknown := [label for label in labels if label not in head.labels]:
            raise errors.ConfigError(
                f"Expected the labels of the head of {source}, "
                f"{text_tasks.listing(head.labels)}. Received: {len(labels)} "
                f"labels, with {text_tasks.listing(unknown)} among them; "
                "without FinetuningConfig.keep_head a new head is trained"
            )
        labels = list(head.labels)
    task.labels = labels  # type: ignore[attr-defined]
