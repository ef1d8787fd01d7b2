"""A checkpoint -> what an exported model is made of."""

import dataclasses
import os
import typing

import keras

from electra_tf import configs, errors, files, model_directory
from electra_tf.checkpoints import reading
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.model import encoder, task_head
from electra_tf.model.finetuning_model import FinetuningModel
from electra_tf.model.windows import Windows
from electra_tf.serving import kinds
from electra_tf.text import tokenization, vocabulary

# What others are is for the task, or the user, to say.
_IS_PAIR = {
    "tagging": False,
    kinds.DETECTION: False,
    "question_answering": True,
}


@dataclasses.dataclass(frozen=True)
class Source:
    """A model and all that is known of it.

    Attributes:
      kind: One of `kinds.KINDS`.
      model: What computes: a `FinetuningModel`, an `encoder.Encoder` or a
        `electra.Discriminator`.
      tokenizer: The one that it was trained with.
      vocab_file: The tokenizer's vocabulary, as long as its folder is there.
      max_seq_length: Longer inputs are cut, unless there are `windows`.
      head: The `task_head.TaskHead` that answers; None without one.
      has_pairs: Whether the input is two texts.
      windows: How longer texts are read, as in training; None for the cut.
      metadata: What goes into metadata.json beside the model.
    """

    kind: str
    model: typing.Any
    tokenizer: tokenization.FullTokenizer
    vocab_file: str
    max_seq_length: int
    head: typing.Any = None
    has_pairs: bool = False
    windows: Windows | None = None
    metadata: dict = dataclasses.field(default_factory=dict)

    @property
    def task_name(self) -> str:
        """Scope of the head; "" without one."""
        return self.head.task_name if self.head else ""

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the logits."""
        if not self.head or self.kind == "regression":
            return ()
        numbers = map(str, range(self.head.num_outputs or 0))
        return self.head.tags or tuple(numbers)

    @property
    def encoder(self) -> encoder.Encoder:
        """The encoder of the model."""
        if isinstance(self.model, FinetuningModel):
            return self.model.electra
        return getattr(self.model, "encoder", self.model)

    @property
    def keras_variables(self) -> list[keras.Variable]:
        """The model's variables."""
        return list(
            getattr(self.model, "keras_variables", self.model.variables)
        )


def load(
    model_dir: str,
    vocab_dir: str,
    kind: str = kinds.AUTO,
    has_pairs: bool | None = None,
    max_seq_length: int | None = None,
    vocab_file: str | None = None,
    do_lower_case: bool | None = None,
) -> Source:
    """Rebuilds a model from a checkpoint.

    Args:
      model_dir: Of a fine-tuning run, whose trial that was best on dev is
        taken, of a pre-training run, or a checkpoint of any other format.
      vocab_dir: An empty folder for the vocabulary, which must be there until
        the model is saved.
      kind: One of `kinds.KINDS`; "auto" for that of the fine-tuned head, else
        replaced-token detection where the checkpoint has a head for it, else
        encoding.
      has_pairs: Whether the input is two texts; None to go by the task.
      max_seq_length: Where to cut; None for the length of the training.
      vocab_file: Where the checkpoint comes without a vocabulary.
      do_lower_case: Where it does not say whether text is lower-cased.

    Returns:
      The model and what is known of it.

    Raises:
      ValueError: If there is no such model, no vocabulary with it, or it
        cannot do what it is asked for.
    """
    checkpoint = reading.read_checkpoint(model_dir, vocab_file, do_lower_case)
    if kind == kinds.AUTO:
        checkpoint.refuse_other_head(model_dir)
        kind = kinds.ENCODING
        if "discriminator_predictions/dense/kernel" in checkpoint.tensors:
            kind = kinds.DETECTION
        if checkpoint.head is not None:
            kind = checkpoint.head.kind
    encoder_sizes = checkpoint.required_sizes(model_dir)
    head = checkpoint.head
    if kind in kinds.TASK_KINDS and (head is None or head.kind != kind):
        raise errors.ConfigError(
            f"Expected a model that was fine-tuned for {kind}. Received: "
            f"{model_dir}, with "
            + (f"a head for {head.kind}" if head else "no fine-tuned head")
        )
    is_pair = _reads_pairs(kind, head, has_pairs, model_dir)
    words = checkpoint.required_vocabulary(model_dir)
    vocabulary.write(words, vocab_dir)
    longest = encoder_sizes.max_position_embeddings
    # A training on longer ones cut them to the positions.
    trained = min(checkpoint.max_seq_length or longest, longest)
    length = trained if max_seq_length is None else max_seq_length
    if not 8 <= length <= longest:
        raise errors.ConfigError(
            f"max_seq_length must be from 8 to the {longest} positions of "
            f"{model_dir}. Received: max_seq_length={length}"
        )
    windows = None
    if kind not in kinds.TASK_KINDS:
        head = None
    elif head is not None:
        checkpoint.warn_of_heads(model_dir)
        try:
            windows = head.windows_of(length)
        except ValueError as error:
            raise errors.ConfigError(
                f"{model_dir} was trained on windows, which do not fit "
                f"max_seq_length={length}: {error}"
            ) from None
        if windows and is_pair:
            raise errors.ConfigError(
                f"Expected no pairs, as {model_dir} reads a long text in "
                "windows. Received: has_pairs=True (--pairs)"
            )
    num_segments = encoder_sizes.type_vocab_size
    if num_segments < 2 and is_pair:
        raise errors.ConfigError(
            "Expected an encoder with a segment for each of two texts. "
            f"Received: {model_dir}, with type_vocab_size={num_segments}"
        )
    part = "detection" if kind == kinds.DETECTION else kind
    part = "" if kind in kinds.TASK_KINDS else part
    model = reading.load_model(model_dir, part, checkpoint)
    is_of_text = kind in task_head.TEXT_KINDS
    source = Source(
        kind=kind,
        model=model,
        tokenizer=tokenization.FullTokenizer(words),
        vocab_file=os.path.join(vocab_dir, vocabulary.VOCAB_FILE),
        max_seq_length=length,
        head=head,
        has_pairs=is_pair and (is_of_text or kind == kinds.ENCODING),
        windows=windows,
    )
    notes = []
    if head and is_of_text and head.has_pairs is has_pairs is None:
        notes.append(
            f"nothing says whether the head {head.task_name!r} takes one text "
            "or two: taken as one (--pairs)"
        )
        errors.warn(notes[0])
    if source.tokenizer.strip_accents:
        errors.warn(
            "texts lose their accents and the marks of other scripts, as in "
            "training: the metadata says strip_accents"
        )
    metadata = _metadata(source, checkpoint, model_dir) | {"notes": notes}
    return dataclasses.replace(source, metadata=metadata)


def _reads_pairs(
    kind: str,
    head: task_head.TaskHead | None,
    has_pairs: bool | None,
    model_dir: str,
) -> bool:
    """Whether the input is two texts: as in training, or as is asked for."""
    trained = _IS_PAIR.get(kind)
    if head is not None and kind in task_head.TEXT_KINDS:
        trained = head.has_pairs
    if has_pairs is None:
        return bool(trained)
    if trained not in (None, has_pairs):
        raise errors.ConfigError(
            f"Expected {kind} of {'two texts' if trained else 'one text'}, as "
            f"{model_dir} was trained. Received: has_pairs={has_pairs} "
            f"({'--pairs' if has_pairs else '--no-pairs'})"
        )
    return has_pairs


def _metadata(source: Source, checkpoint: Checkpoint, model_dir: str) -> dict:
    metadata: dict[str, typing.Any] = {
        "kind": source.kind,
        "task": source.task_name or None,
        "labels": list(source.labels),
        "has_pairs": source.has_pairs,
        "max_seq_length": source.max_seq_length,
        "do_lower_case": source.tokenizer.do_lower_case,
        "strip_accents": source.tokenizer.strip_accents,
        "text_cleaning": source.tokenizer.text_cleaning,
        "vocab_size": source.tokenizer.vocab_size,
        "type_vocab_size": source.encoder.config.type_vocab_size,
        "vocab_sha256": files.sha256_of_file(source.vocab_file),
        "global_step": checkpoint.global_step,
        "scores": _scores(model_dir),
    }
    if source.windows is not None:
        metadata["windows"] = source.windows.about()
    head = source.head
    if head and head.pooling != configs.DEFAULT_POOLING:
        metadata["pooling"] = head.pooling
    if source.kind == "regression":
        metadata["min_value"], metadata["scale"] = head.unit
    if source.kind == "tagging":
        metadata["segment"] = head.segment_of_words()
        metadata["lower_cases_words"] = head.as_original
    if source.kind == "question_answering":
        options = dataclasses.asdict(head.question_answering)
        metadata["question_answering"] = options
    return metadata


def _scores(model_dir: str) -> dict | None:
    """Of a fine-tuning run's best trial; None for other checkpoints."""
    path = os.path.join(model_dir, model_directory.RESULTS_FILE)
    if not os.path.isfile(path):
        return None
    results = files.read_json(path, best_on_dev=int, trials=list[dict])
    best = results.get("best_on_dev")
    trials = results.get("trials") or []
    return next((t for t in trials if t.get("trial") == best), None)
