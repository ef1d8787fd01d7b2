"""What a fine-tuned head is, as checkpoints say it, and its layers."""

import dataclasses
import re
import typing

import numpy as np

from electra_tf import configs, errors
from electra_tf.model import heads, windows

_POOLED: dict[str, type[heads.PooledHead]] = {
    "classification": heads.ClassificationHead,
    "multi_label_classification": heads.MultiLabelHead,
    "regression": heads.RegressionHead,
}
# On a text, or on a pair of texts.
TEXT_KINDS = tuple(_POOLED)
KINDS = (*TEXT_KINDS, "tagging", "question_answering")
# Segment of a tagger's words, where nothing says another; from the original.
TAGGING_SEGMENT = 1
# Between several labels of one text, where they are one string.
LABEL_SEPARATOR = "|"

# Scheme in which spans are tagged -> its letters for B, I, E and S of BIOES.
SCHEMES = {
    **{"BIOES": "BIES", "BIO": "BIIB", "IOB1": "IIII", "BILOU": "BILU"},
    **{"BMES": "BMES", "BIEW": "BIEW", "BMEW": "BMEW"},
}

# Of float32, from the least label of a regression to the greatest.
_LEAST_STEPS = 256


@dataclasses.dataclass(frozen=True)
class TaskHead:
    """A fine-tuned head.

    Attributes:
      kind: One of `KINDS`.
      task_name: Scope of its variables: task_specific/<task_name>/...
      labels: Names of the classes, in the order of the logits; None where the
        checkpoint does not say.
      num_outputs: Width of the last layer of a classification, regression or
        tagging head.
      hidden_activation: Of the dense layer between the text's vector and the
        output layer, as Hugging Face's classification head has one;
        None without one, as in the original.
      options: Of `QuestionAnsweringConfig`, for question answering; of other
        kinds what `Task.description` says and answers depend on.
      segment: Of a tagger's words, with [CLS] and [SEP]; None where nothing
        says it, and for other kinds.
    """

    kind: str
    task_name: str
    labels: tuple[str, ...] | None = None
    num_outputs: int | None = None
    hidden_activation: str | None = None
    options: dict = dataclasses.field(default_factory=dict)
    segment: int | None = None

    @property
    def pooling(self) -> str:
        """One of `configs.POOLINGS`; of a text's head."""
        return self.options.get("pooling", configs.DEFAULT_POOLING)

    @property
    def has_pairs(self) -> bool | None:
        """Whether it takes two texts; None where nothing says so."""
        return self.options.get("has_pairs")

    @property
    def unit(self) -> tuple[float, float]:
        """Of a regression's labels, the least and the scale.

        A label is output * scale + least; 0 and 1 where nothing says so.
        """
        options = self.options
        least, scale = options.get("min_value", 0.0), options.get("scale", 1.0)
        return float(least), float(scale)

    @property
    def as_original(self) -> bool:
        """See `tagging.TaggingTask`; of a tagger."""
        return bool(self.options.get("as_original"))

    @property
    def tags(self) -> tuple[str, ...] | None:
        """`labels` as answers have them: a tagger's in the scheme of the file
        that it was trained on. Of IOB1, where a tag depends on the one before
        it, those of BIO."""
        if self.labels is None or self.kind != "tagging":
            return self.labels
        scheme = "BIO" if self.scheme == "IOB1" else self.scheme
        form = self.options.get("form") or "B-PER"
        return tuple(in_scheme(label, scheme, form) for label in self.labels)

    @property
    def scheme(self) -> str:
        """One of `SCHEMES`, in which a tagger's answers are."""
        return self.options.get("scheme", "BIOES")

    @property
    def question_answering(self) -> configs.QuestionAnsweringConfig:
        """Its options; of a head for question answering."""
        return configs.QuestionAnsweringConfig(**self.options)

    def windows_of(self, max_seq_length: int) -> windows.Windows | None:
        """How longer texts are read, of any text's head; None for the cut.

        Args:
          max_seq_length: Tokens of a window.

        Raises:
          ValueError: If windows so short leave gaps at this head's stride.
        """
        options = self.options.get("windows")
        if options is None:
            return None
        return windows.Windows(max_seq_length, **options)

    def segment_of_words(self) -> int:
        """The segment of a tagger's words, said or taken for granted."""
        return TAGGING_SEGMENT if self.segment is None else self.segment


def in_scheme(label: str, scheme: str, form: str = "B-PER") -> str:
    """A label of BIOES in one of `SCHEMES`; any other label as it is.

    Args:
      label: Such as "S-PER".
      scheme: Such as "BIO".
      form: How tags are written: "B-PER", "B_PER", "PER-B", "PER_B" or "B".

    Returns:
      Such as "B-PER".
    """
    if label[:2] not in ("B-", "I-", "E-", "S-"):
        return label
    letter = SCHEMES[scheme]["BIES".index(label[0])]
    written = {"B": letter, "PER": label[2:]}
    return "".join(written.get(part, part) for part in re.split("([-_])", form))


def make_head(head: TaskHead, config: configs.EncoderConfig) -> heads.Head:
    """The layers of a head, not built.

    Args:
      head: What to make.
      config: Of the encoder below.

    Returns:
      A layer.

    Raises:
      CheckpointError: If there is no such head here.
    """
    name, width = head.task_name, config.hidden_size
    num_outputs = typing.cast(int, head.num_outputs)
    if head.kind in _POOLED:
        return _POOLED[head.kind](
            name,
            width,
            1 if head.kind == "regression" else num_outputs,
            head.hidden_activation,
            head.pooling,
        )
    if head.kind == "tagging":
        return heads.TaggingHead(name, width, num_outputs)
    if head.kind == "question_answering":
        return heads.QuestionAnsweringHead(name, width, head.question_answering)
    raise errors.CheckpointError(
        f"Expected a head of {', '.join(KINDS)}. Received: {head.kind}"
    )


def float32_tells_apart(least: float, greatest: float) -> bool:
    """Whether float32 has numbers enough for a regression's labels.

    Args:
      least: The least label.
      greatest: The greatest one; the same if there is one alone.
    """
    largest = max(abs(least), abs(greatest))
    if max(largest, greatest - least) > np.finfo(np.float32).max:
        return False
    step = float(np.spacing(np.float32(largest)))
    return least == greatest or greatest - least >= _LEAST_STEPS * step
