"""What every format is read into and written from.

The tensors carry the names of the original's variables, which are also the
paths of the variables here: a format's file holds one table from those names
to its own. Nothing here knows a format.
"""

import collections
import dataclasses
import re
from collections.abc import Iterable, Mapping

import numpy as np

from electra_tf import configs, errors
from electra_tf.checkpoints import task_heads
from electra_tf.model.task_head import TaskHead
from electra_tf.text import vocabulary as vocabulary_lib


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
        They may be read from disk only when they are asked for.
      global_step: Steps trained; None where the checkpoint does not say.
      iterations: Updates taken, fewer than steps where gradients in float16
        were not finite; None where the checkpoint does not say.
      loss_scale: Name -> value, as of `optimization.LossScale`; empty without.
      vocabulary: None where there is no vocabulary beside the checkpoint.
      unused: Names, as the format has them, of tensors that have no place
        here.
      other_head: What a head among these is called there; "" without one.
      max_seq_length: Of the training; None where the checkpoint does not say.
      is_electric: Whether a discriminator beside two towers is Electric's, and
        adds their verdict; None where the checkpoint does not say.
      assumed: Fields of `configs.EncoderConfig` that nothing beside the
        tensors says, so that they have their defaults (heads 64 wide).
    """

    tensors: dict[str, np.ndarray]
    discriminator: configs.EncoderConfig | None = None
    generator: configs.EncoderConfig | None = None
    head: TaskHead | None = None
    optimizer: Mapping[str, np.ndarray] = dataclasses.field(
        default_factory=dict
    )
    global_step: int | None = None
    iterations: int | None = None
    loss_scale: Mapping[str, np.ndarray] = dataclasses.field(
        default_factory=dict
    )
    vocabulary: vocabulary_lib.Vocabulary | None = None
    unused: tuple[str, ...] = ()
    other_head: str = ""
    max_seq_length: int | None = None
    is_electric: bool | None = None
    assumed: tuple[str, ...] = ()

    @property
    def encoders(self) -> dict[str, configs.EncoderConfig]:
        """Scope -> sizes, of the networks that there are."""
        both = {"electra": self.discriminator, "generator": self.generator}
        return {scope: c for scope, c in both.items() if c is not None}

    @property
    def activations(self) -> tuple[str, ...]:
        """The `hidden_act` of its networks, each once."""
        acts = (config.hidden_act for config in self.encoders.values())
        return tuple(dict.fromkeys(acts))

    def warn_of_heads(self, source: str) -> None:
        """Warns where `head` is one of several."""
        names = task_heads.task_names(self.tensors)
        if self.head is not None and len(names) > 1:
            errors.warn(
                f"{source}: of the heads for {', '.join(names)} only that for "
                f"{self.head.task_name}, the first by name, is taken"
            )

    def required_vocabulary(self, source: str) -> vocabulary_lib.Vocabulary:
        """The vocabulary.

        Raises:
          CheckpointError: If there is none.
        """
        if self.vocabulary is None:
            raise errors.CheckpointError(
                f"Expected a vocabulary beside {source}, found none: name it "
                "with --vocab-file"
            )
        return self.vocabulary

    def required_sizes(self, source: str = "one") -> configs.EncoderConfig:
        """Those of the discriminator's encoder.

        Raises:
          CheckpointError: If there is no discriminator.
        """
        if self.discriminator is None:
            raise errors.CheckpointError(
                "Expected a checkpoint with a discriminator. Received: "
                f"{source}, with a generator only"
            )
        return self.discriminator

    def encoder_only(self) -> "Checkpoint":
        """The discriminator's encoder and the vocabulary, and nothing else.

        Raises:
          CheckpointError: If there is no discriminator.
        """
        tensors = self.tensors.items()
        return Checkpoint(
            {name: t for name, t in tensors if name.startswith("electra/")},
            self.required_sizes(),
            vocabulary=self.vocabulary,
            max_seq_length=self.max_seq_length,
            unused=self.unused,
            assumed=self.assumed,
        )

    def refuse_other_head(self, source: str) -> None:
        """Raises a CheckpointError for a head that there is not here."""
        if self.other_head:
            raise errors.CheckpointError(
                f"Expected a head that there is here, too. Received: {source}, "
                f"{self.other_head}; without its head it is an encoder "
                "(electra_tf.Encoder in Keras; --encoder-only, or "
                "--kind=encoding of electra-tf export)"
            )

    def check_head(self, source: str) -> None:
        """Raises a CheckpointError where the head does not fit the weights."""
        if (head := self.head) is None:
            return
        bias = self.tensors.get(f"task_specific/{head.task_name}/dense/bias")
        wrong = ""
        if bias is None:
            wrong = f"there must be tensors of {head.task_name!r}"
        elif head.num_outputs not in (None, len(bias)):
            wrong = (
                f"num_outputs must be the width of the head's layer, "
                f"{len(bias)}. Received: {head.num_outputs}"
            )
        elif len(set(head.labels or ())) < len(head.labels or ()):
            wrong = (
                f"labels must differ. Received: {', '.join(head.labels or ())}"
            )
        if wrong:
            raise errors.CheckpointError(f"{source}: {wrong}")

    def check_vocabulary(self, source: str) -> None:
        """Raises a CheckpointError where tokens and embeddings differ."""
        config = self.discriminator or self.generator
        if self.vocabulary is None or config is None:
            return
        received = len(self.vocabulary.tokens)
        if received != config.vocab_size:
            raise errors.CheckpointError(
                f"{source}: expected a vocabulary with {config.vocab_size} "
                "entries, as many as the embedding table has rows. Received: "
                f"{received} entries"
            )


def summarize(names: Iterable[str], most: int = 8) -> str:
    """Tensors in a few words, such as "electra (39), generator (34)"."""
    parts = collections.Counter(
        "optimizer slots"
        if name.endswith(("/adam_m", "/adam_v"))
        else re.sub(r"^(task_specific/[^/]+|[^/.]+).*", r"\1", name)
        for name in names
    )
    shown = [f"{part} ({count})" for part, count in sorted(parts.items())]
    return ", ".join(shown[:most]) + (", ..." if len(shown) > most else "")
