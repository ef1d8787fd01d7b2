"""What every format is read into and written from.

The tensors carry the names of the original's variables, which are also the
paths of the variables here: a format's file holds one table from those names
to its own. Nothing here knows a format.
"""

import dataclasses

import numpy as np

from electra_tf import configs


class CheckpointError(ValueError):
    """A checkpoint that cannot be read or written; the message is for users."""


@dataclasses.dataclass(frozen=True)
class TaskHead:
    """A fine-tuned head.

    Attributes:
      kind: "classification", "regression", "tagging" or "question_answering".
      task_name: Scope of its variables: task_specific/<task_name>/...
      labels: Names of the classes, in the order of the logits; None where the
        checkpoint does not say.
      num_outputs: Width of the last layer of a classification, regression or
        tagging head.
      hidden_activation: Of the dense layer between the first token's vector
        and the output layer, as Hugging Face's classification head has one;
        None without one, as in the original.
      options: Of `QuestionAnsweringConfig`, for question answering.
    """

    kind: str
    task_name: str
    labels: tuple[str, ...] | None = None
    num_outputs: int | None = None
    hidden_activation: str | None = None
    options: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """The tokenizer's side of a checkpoint.

    Attributes:
      tokens: In the order of their ids.
      do_lower_case: Text is lower-cased first; None where nothing says so.
      strip_accents: Accents are deleted; None where nothing says so.
    """

    tokens: tuple[str, ...]
    do_lower_case: bool | None = None
    strip_accents: bool | None = None


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """An ELECTRA, whole or in part, in memory.

    Attributes:
      tensors: Name of the original's variable -> weights. What a format ties
        to another tensor (an output layer to the embedding table) is there
        once.
      discriminator: Sizes of the network in scope "electra"; None if absent.
      generator: Sizes of the network in scope "generator"; None if absent.
      head: The fine-tuned head, if there is one.
      optimizer: Name of the original's slot, such as
        "electra/embeddings/word_embeddings/adam_m" -> values; empty without.
      global_step: Steps trained; None where the checkpoint does not say.
      vocabulary: None where there is no vocabulary beside the checkpoint.
      unused: Names, as the format has them, of tensors that have no place
        here.
    """

    tensors: dict[str, np.ndarray]
    discriminator: configs.EncoderConfig | None = None
    generator: configs.EncoderConfig | None = None
    head: TaskHead | None = None
    optimizer: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    global_step: int | None = None
    vocabulary: Vocabulary | None = None
    unused: tuple[str, ...] = ()
