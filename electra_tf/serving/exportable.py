"""A checkpoint -> what an exported model is made of."""

import dataclasses
import os
import typing

import keras

from electra_tf import configs, errors, files, model_directory
from electra_tf.checkpoints import reading
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.configs import QuestionAnsweringConfig
from electra_tf.inference import detector
from electra_tf.model import encoder, task_head
from electra_tf.model.finetuning_model import FinetuningModel
from electra_tf.model.windows import Windows
from electra_tf.serving import kinds
from electra_tf.text import tokenization, vocabulary

# Kinds of heads on one text or two.
_TEXT_KINDS = ("classification", "multi_label_classification", "regression")

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
      task_name: Scope of the head; "" without one.
      labels: Names of the classes, in the order of the logits.
      inside: Of a tagger in IOB1, for each label the number of its kind's I-,
        -1 for O; none of others.
      has_pairs: Whether the input is two texts.
      windows: How longer texts are read, as in training; None for the cut.
      min_value: What is added to a regression model's outputs ...
      scale: ... after they are multiplied by this, to undo how the labels were
        scaled.
      question_answering: Options of that head.
      lower_cases_words: Whether a tagger's words are tokenized as the original
        does, which lower-cases whatever the vocabulary.
      segment: Of a tagger's words; None of other models.
      metadata: What goes into metadata.json beside the model.
    """

    kind: str
    model: typing.Any
    tokenizer: tokenization.FullTokenizer
    vocab_file: str
    max_seq_length: int
    task_name: str = ""
    labels: tuple[str, ...] = ()
    inside: tuple[int, ...] = ()
    has_pairs: bool = False
    windows: Windows | None = None
    min_value: float = 0.0
    scale: float = 1.0
    question_answering: QuestionAnsweringConfig | None = None
    lower_cases_words: bool = False
    segment: int | None = None
    metadata: dict = dataclasses.field(default_factory=dict)

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
        kind = _kind_of(checkpoint)
    if checkpoint.discriminator is None:
        raise errors.ConfigError(
            "Expected a checkpoint with a discriminator. Received: "
            f"{model_dir}, with a generator only"
        )
    head = checkpoint.head
    if kind in kinds.TASK_KINDS and (head is None or head.kind != kind):
        raise errors.ConfigError(
            f"Expected a model that was fine-tuned for {kind}. Received: "
            f"{model_dir}, with "
            + (f"a head for {head.kind}" if head else "no fine-tuned head")
        )
    is_pair = _reads_pairs(kind, head, has_pairs, model_dir)
    tokenizer, vocab_file = _tokenizer(checkpoint, model_dir, vocab_dir)
    length = _length(checkpoint, model_dir, max_seq_length)
    about: dict[str, typing.Any] = {}
    if head is not None and kind in kinds.TASK_KINDS:
        about = _about_head(head)
        about["windows"] = _windows(head, length, model_dir)
        if about["windows"] and is_pair:
            raise errors.ConfigError(
                f"Expected no pairs, as {model_dir} reads a long text in "
                "windows. Received: has_pairs=True (--pairs)"
            )
    num_segments = checkpoint.discriminator.type_vocab_size
    if num_segments < 2 and is_pair:
        raise errors.ConfigError(
            "Expected an encoder with a segment for each of two texts. "
            f"Received: {model_dir}, with type_vocab_size={num_segments}"
        )
    found = Source(
        kind=kind,
        model=_model_of(checkpoint, kind, model_dir),
        tokenizer=tokenizer,
        vocab_file=vocab_file,
        max_seq_length=length,
        has_pairs=is_pair and kind in (*_TEXT_KINDS, kinds.ENCODING),
        **about,
    )
    if kind in kinds.TASK_KINDS:
        checkpoint.warn_of_heads(model_dir)
    notes = _notes(checkpoint, found, has_pairs)
    for note in notes:
        errors.warn(note)
    metadata = _metadata(found, checkpoint, model_dir) | {"notes": notes}
    return dataclasses.replace(found, metadata=metadata)


def _length(
    checkpoint: Checkpoint, model_dir: str, max_seq_length: int | None
) -> int:
    """Where to cut: what is asked for, or the length of the training.

    Raises:
      ConfigError: If the model cannot read as much, or it is next to nothing.
    """
    assert checkpoint.discriminator is not None
    longest = checkpoint.discriminator.max_position_embeddings
    if max_seq_length is None:
        # A training on longer ones cut them to the positions.
        max_seq_length = min(checkpoint.max_seq_length or longest, longest)
    if not 8 <= max_seq_length <= longest:
        raise errors.ConfigError(
            f"max_seq_length must be from 8 to the {longest} positions of "
            f"{model_dir}. Received: max_seq_length={max_seq_length}"
        )
    return max_seq_length


def _model_of(checkpoint: Checkpoint, kind: str, model_dir: str):
    """The network of a kind with the weights of a checkpoint."""
    if kind == kinds.DETECTION:
        return detector.load_discriminator(checkpoint, model_dir)
    return reading.load_model(
        model_dir, kind if kind == kinds.ENCODING else "", checkpoint
    )


def _notes(
    checkpoint: Checkpoint, found: Source, has_pairs: bool | None
) -> list[str]:
    """What whoever asks the model should know, a line each."""
    notes: list[str] = []
    least, greatest = found.min_value, found.min_value + found.scale
    if found.kind == "regression" and not task_head.float32_tells_apart(
        least, greatest
    ):
        notes.append(
            f"the numbers are float32, which has few between {least:.15g} and "
            f"{greatest:.15g}: train on their differences from one of them"
        )
    head = checkpoint.head if found.kind in _TEXT_KINDS else None
    if head and has_pairs is None and head.has_pairs is None:
        notes.append(
            f"nothing says whether the head {head.task_name!r} takes one text "
            "or two: taken as one (--pairs)"
        )
    return notes


def _kind_of(checkpoint: Checkpoint) -> str:
    if checkpoint.head is not None:
        return checkpoint.head.kind
    has_head = any(
        name.startswith("discriminator_predictions/")
        for name in checkpoint.tensors
    )
    return kinds.DETECTION if has_head else kinds.ENCODING


def _about_head(head: task_head.TaskHead) -> dict:
    """What a fine-tuned head says of inputs and outputs."""
    about: dict[str, typing.Any] = {"task_name": head.task_name}
    if head.kind == "question_answering":
        about["question_answering"] = head.question_answering
        return about
    if head.kind == "regression":
        about["min_value"], about["scale"] = head.unit
    else:
        numbers = map(str, range(head.num_outputs or 0))
        about["labels"] = head.tags or tuple(numbers)
    if head.kind == "tagging":
        if head.scheme == "IOB1" and head.labels:
            numbered = {label: i for i, label in enumerate(head.labels)}
            about["inside"] = tuple(
                numbered.get(f"I{label[1:]}", -1) for label in head.labels
            )
        about["lower_cases_words"] = head.as_original
        about["segment"] = head.segment_of_words()
    return about


def _reads_pairs(
    kind: str,
    head: task_head.TaskHead | None,
    has_pairs: bool | None,
    model_dir: str,
) -> bool:
    """Whether the input is two texts: as in training, or as is asked for."""
    trained = _IS_PAIR.get(kind)
    if head is not None and kind in _TEXT_KINDS:
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


def _windows(
    head: task_head.TaskHead, max_seq_length: int, model_dir: str
) -> Windows | None:
    try:
        return head.windows_of(max_seq_length)
    except ValueError as error:
        raise errors.ConfigError(
            f"{model_dir} was trained on windows, which do not fit "
            f"max_seq_length={max_seq_length}: {error}"
        ) from None


def _tokenizer(
    checkpoint: Checkpoint, model_dir: str, vocab_dir: str
) -> tuple[tokenization.FullTokenizer, str]:
    found = checkpoint.required_vocabulary(model_dir)
    vocabulary.write(found, vocab_dir)
    vocab_file = os.path.join(vocab_dir, vocabulary.VOCAB_FILE)
    return tokenization.FullTokenizer(found), vocab_file


def _metadata(found: Source, checkpoint: Checkpoint, model_dir: str) -> dict:
    about: dict[str, typing.Any] = {
        "kind": found.kind,
        "task": found.task_name or None,
        "labels": list(found.labels),
        "has_pairs": found.has_pairs,
        "max_seq_length": found.max_seq_length,
        "do_lower_case": found.tokenizer.do_lower_case,
        "strip_accents": found.tokenizer.strip_accents,
        "text_cleaning": found.tokenizer.text_cleaning,
        "vocab_size": found.tokenizer.vocab_size,
        "type_vocab_size": found.encoder.config.type_vocab_size,
        "vocab_sha256": files.sha256_of_file(found.vocab_file),
        "global_step": checkpoint.global_step,
        "scores": _scores(model_dir),
    }
    if found.windows is not None:
        about["windows"] = found.windows.about()
    head = checkpoint.head
    if found.task_name and head and head.pooling != configs.DEFAULT_POOLING:
        about["pooling"] = head.pooling
    if found.kind == "regression":
        about |= {"min_value": found.min_value, "scale": found.scale}
    if found.kind == "tagging":
        about["segment"] = found.segment
        about["lower_cases_words"] = found.lower_cases_words
    if found.question_answering is not None:
        options = dataclasses.asdict(found.question_answering)
        about["question_answering"] = options
    return about


def _scores(model_dir: str) -> dict | None:
    """Of a fine-tuning run's best trial; None for other checkpoints."""
    path = os.path.join(model_dir, model_directory.RESULTS_FILE)
    if not os.path.isfile(path):
        return None
    results = files.read_json(path, best_on_dev=int, trials=list[dict])
    best = results.get("best_on_dev")
    trials = results.get("trials") or []
    return next((t for t in trials if t.get("trial") == best), None)
