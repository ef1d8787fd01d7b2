"""Text -> each token's probability of having been replaced.

What ELECTRA's discriminator was trained to say (arXiv:2003.10555, section 2),
asked of texts that nobody has corrupted on purpose.

Shapes: W windows, L length, D hidden.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from electra_tf import configs
from electra_tf.checkpoints import reading
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.errors import CheckpointError
from electra_tf.inference import text_rows
from electra_tf.inference.judged_text import JudgedText, JudgedToken
from electra_tf.model import electra, encoder

# Windows that go through the model at once.
_BATCH_SIZE = 16
_HEAD = "discriminator_predictions/dense/kernel"
# The generator of a model whose discriminator cannot be asked without it.
_ELECTRIC = "generator_ltr/"


class Discriminator(tf.Module):
    """The encoder and its head.

    Args:
      config: Sizes.
    """

    def __init__(self, config: configs.EncoderConfig):
        super().__init__(name="discriminator")
        self.encoder = encoder.Encoder(config, "electra")
        self.encoder.build()
        self.head = electra.DiscriminatorHead(config)
        self.head.build()

    @property
    def keras_variables(self) -> list:
        """Of both, as Keras has them: their paths are the original's names."""
        return [*self.encoder.variables, *self.head.variables]

    def logits(self, input_ids, input_mask, segment_ids):
        """Scores tokens.

        Args:
          input_ids: <int32>[W, L].
          input_mask: <int32>[W, L], 1 on tokens, 0 on padding.
          segment_ids: <int32>[W, L].

        Returns:
          <float32>[W, L], the head's output: before the sigmoid, or Electric's
          energies.
        """
        outputs = self.encoder(input_ids, input_mask, segment_ids)
        return tf.cast(self.head(outputs["sequence_output"]), tf.float32)

    @tf.function(
        input_signature=[tf.TensorSpec([None, None], tf.int32)] * 3,
        autograph=False,
    )
    def probabilities(self, input_ids, input_mask, segment_ids):
        """Judges tokens; takes what `logits` takes.

        Returns:
          <float32>[W, L], the probabilities of having been replaced.
        """
        return tf.sigmoid(self.logits(input_ids, input_mask, segment_ids))


def is_electric(checkpoint: Checkpoint) -> bool:
    """Whether the discriminator is Electric's: the two towers are there."""
    return any(name.startswith(_ELECTRIC) for name in checkpoint.tensors)


def load_discriminator(checkpoint: Checkpoint, source: str) -> Discriminator:
    """The discriminator of a pre-trained checkpoint of any format.

    Args:
      checkpoint: Of `reading.read_checkpoint`.
      source: Its path, for error messages.

    Returns:
      The discriminator, with the checkpoint's weights.

    Raises:
      CheckpointError: If there is no discriminator, or no head of it, or if
        it is Electric's, whose probabilities need the generator.
    """
    config = checkpoint.discriminator
    if config is None or _HEAD not in checkpoint.tensors:
        if config is None:
            received = "with a generator only"
        elif checkpoint.head is not None:
            received = f"fine-tuned for {checkpoint.head.kind}"
        else:
            received = "with an encoder, but without such a head"
        raise CheckpointError(
            "Expected a pre-trained checkpoint with the discriminator's head, "
            f"which tells replaced tokens. Received: {source}, {received}"
        )
    if is_electric(checkpoint):
        raise CheckpointError(
            "Expected a discriminator that judges tokens by itself. Received: "
            f"{source}, Electric, which adds its generator's verdict"
        )
    discriminator = Discriminator(config)
    reading.assign_all(
        checkpoint, discriminator.keras_variables, source, "the discriminator"
    )
    return discriminator


class Detector:
    """A pre-trained checkpoint that judges texts.

    Args:
      path: A checkpoint of any format with a discriminator's head.
      vocab_file: Where the checkpoint comes without a vocabulary.

    Attributes:
      max_seq_length: The longest input that the model was trained with;
        longer texts are judged in windows that overlap.
      notes: What had to be assumed, for people.

    Raises:
      ValueError: If the checkpoint cannot be read, has no such head or no
        vocabulary.
    """

    def __init__(self, path: str, vocab_file: str | None = None):
        checkpoint = text_rows.read_checkpoint(path, vocab_file)
        self._discriminator = load_discriminator(checkpoint, path)
        self.max_seq_length = text_rows.longest_row(
            checkpoint, self._discriminator.encoder.config
        )
        self._tokenizer, self.notes = text_rows.make_tokenizer(checkpoint, path)

    def judge(self, texts: Sequence[str]) -> list[JudgedText]:
        """Judges every token of some texts.

        A text that is too long goes through the model in windows that overlap
        by half, and of a token's verdicts the one with the most context
        counts (as the original chooses for answers in long contexts).

        Args:
          texts: Of any length, in characters that UTF-8 can have.

        Returns:
          One verdict for each text.
        """
        tokens = text_rows.tokenize(self._tokenizer, texts)
        room = self.max_seq_length - 2
        windows = [
            (number, start)
            for number, of_text in enumerate(tokens)
            for start in window_starts(len(of_text.ids), room)
        ]
        rows = [
            tokens[number].ids[start : start + room]
            for number, start in windows
        ]
        judged: list[list[float]] = [[0.0] * len(x.ids) for x in tokens]
        most_context = [[-1] * len(x.ids) for x in tokens]
        for (number, start), probabilities in zip(
            windows, self._judge_rows(rows), strict=True
        ):
            size = len(probabilities)
            for i, probability in enumerate(probabilities):
                context = min(i, size - 1 - i)
                if context > most_context[number][start + i]:
                    most_context[number][start + i] = context
                    judged[number][start + i] = probability
        vocab = self._tokenizer.vocab
        return [
            JudgedText(
                text,
                [
                    JudgedToken(vocab[i], begin, end, probability)
                    for i, begin, end, probability in zip(
                        of_text.ids,
                        of_text.begins,
                        of_text.ends,
                        probabilities,
                        strict=True,
                    )
                ],
            )
            for text, of_text, probabilities in zip(
                texts, tokens, judged, strict=True
            )
        ]

    def _judge_rows(self, rows: Sequence[Sequence[int]]) -> list[list[float]]:
        """Verdicts on rows of token ids without [CLS] and [SEP]."""
        judged: list[list[float]] = [[]] * len(rows)
        for batch in text_rows.in_batches(self._tokenizer, rows, _BATCH_SIZE):
            probabilities = self._discriminator.probabilities(
                batch.input_ids,
                batch.input_mask,
                np.zeros_like(batch.input_ids),
            ).numpy()
            for row, i in enumerate(batch.numbers):
                judged[i] = probabilities[row, 1 : 1 + len(rows[i])].tolist()
        return judged


def window_starts(num_tokens: int, room: int) -> list[int]:
    """Where the windows over a text begin; each overlaps the next by half.

    Args:
      num_tokens: Of the text.
      room: Tokens that fit into a window.

    Returns:
      Indices of tokens; [0] where everything fits. The last window ends with
      the text.
    """
    last = max(0, num_tokens - room)
    return [*range(0, last, max(1, room // 2)), last]
