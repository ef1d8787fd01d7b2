"""A checkpoint and a vocabulary -> what every model of a run begins with."""

import dataclasses
import functools
import hashlib

import numpy as np

from electra_tf import configs, errors, files, validation
from electra_tf.checkpoints import reading, task_heads
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.finetuning.configs import FinetuningConfig
from electra_tf.model.task_head import TaskHead
from electra_tf.tasks import tagging, text_tasks
from electra_tf.tasks.task import Task
from electra_tf.text import tokenization


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
    source, data = config.init_checkpoint, config.data
    checkpoint = reading.read_checkpoint(
        source, data.vocab_file, data.do_lower_case, data.strip_accents
    )
    encoder_config = checkpoint.discriminator
    if encoder_config is None:
        raise errors.ConfigError(
            "FinetuningConfig.init_checkpoint must be a checkpoint with a "
            f"discriminator. Received: {source}, with a generator only"
        )
    if not config.keep_head:
        if checkpoint.head and not config.from_scratch:
            errors.warn(
                f"{source}: its head for {checkpoint.head.task_name} is not "
                "used, a new one is trained: --keep_head goes on with it"
            )
        checkpoint = checkpoint.encoder_only()
    vocab = checkpoint.vocabulary
    if vocab is None:
        raise errors.ConfigError(
            "FinetuningDataConfig.vocab_file must be given, as there is no "
            f"vocabulary beside {source}"
        )
    if data.text_cleaning is not None:
        if vocab.text_cleaning not in ("none", data.text_cleaning):
            errors.warn(
                f"{source} says text_cleaning={vocab.text_cleaning!r}: "
                f"{data.text_cleaning!r} counts"
            )
        vocab = dataclasses.replace(vocab, text_cleaning=data.text_cleaning)
    expected = config.expected_encoder or {}
    validation.require_same(
        expected,
        {name: getattr(encoder_config, name) for name in expected},
        f"{source} has another encoder than is expected",
        way_out="Choose another --init_checkpoint; what nothing says of it "
        f"({', '.join(checkpoint.assumed)}), hparams.json beside it may say",
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


def with_head(start: StartingPoint, task: Task) -> StartingPoint:
    """Begins with the head of the checkpoint, too.

    The rows at hand may have fewer labels than the head, not more.

    Args:
      start: With a fine-tuned head in its checkpoint.
      task: Its labels, in their order, the segment of a tagger's words, and the
        unit of a regression's labels become the head's.

    Returns:
      The same with the head's weights under the task's name.

    Raises:
      ConfigError: If there is no head, it is of another kind or pooling, or it
        lacks a label.
    """
    assert start.checkpoint is not None
    head = start.checkpoint.head
    description = task.description()
    kind = description.get("kind")
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
    tensors = dict(start.checkpoint.tensors)
    task.hidden_activation = head.hidden_activation
    start.checkpoint.warn_of_heads(start.source)
    if "labels" in description:
        _adopt_labels(task, head, start.source)
    if isinstance(task, tagging.TaggingTask):
        task.segment = head.segment_of_words()
    if isinstance(task, text_tasks.RegressionTask) and (
        {"min_value", "scale"} <= set(head.options)
    ):
        task.min_value, task.scale = head.unit
        task.max_value = head.options.get("max_value", sum(head.unit))
    kept = task_heads.head_tensors(tensors, head.task_name).items()
    tensors |= {f"task_specific/{task.name}/{n}": value for n, value in kept}
    checkpoint = dataclasses.replace(start.checkpoint, tensors=tensors)
    return dataclasses.replace(start, checkpoint=checkpoint)


def _adopt_labels(task: Task, head: TaskHead, source: str) -> None:
    """Puts the labels in the order of the head's outputs."""
    labels = list(task.labels)  # type: ignore[attr-defined]
    known = list(head.labels or text_tasks.in_order(labels))
    if head.labels is None:
        errors.warn(
            f"nothing says which labels the head of {source} has: its outputs "
            f"are taken for {text_tasks.listing(known)}, in this order"
        )
    unknown = [label for label in labels if label not in known]
    if unknown or len(known) != (head.num_outputs or len(known)):
        raise errors.ConfigError(
            f"Expected the {head.num_outputs or len(known)} labels of the head "
            f"of {source}. Received: {len(labels)} labels, with "
            f"{text_tasks.listing(unknown or labels)} among them; without "
            "--keep_head a new head is trained"
        )
    task.labels = known  # type: ignore[attr-defined]
