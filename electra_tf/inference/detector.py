"""Text -> each token's probability of having been replaced.

What ELECTRA's discriminator was trained to say (arXiv:2003.10555, section 2),
asked of texts that nobody has corrupted on purpose.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from electra_tf import errors
from electra_tf.checkpoints import reading
from electra_tf.inference import text_rows
from electra_tf.inference.judged_text import JudgedText, JudgedToken
from electra_tf.text import cleaning, tokenization

# Windows that go through the model at once.
_BATCH_SIZE = 16


class Detector:
    """A pre-trained checkpoint that judges texts.

    Args:
      path: A checkpoint of any format with a discriminator's head.
      vocab_file: Where the checkpoint comes without a vocabulary.
      do_lower_case: Where it does not say whether text is lower-cased.

    Attributes:
      max_seq_length: The longest input that the model was trained with;
        longer texts are judged in windows that overlap.

    Raises:
      ValueError: If the checkpoint cannot be read, has no such head or no
        vocabulary.
    """

    def __init__(
        self,
        path: str,
        vocab_file: str | None = None,
        do_lower_case: bool | None = None,
    ):
        checkpoint = reading.read_checkpoint(path, vocab_file, do_lower_case)
        vocab = checkpoint.required_vocabulary(path)
        self._tokenizer = tokenization.FullTokenizer(vocab)
        # Offsets are those of cleaned text, where text is cleaned.
        self._text_cleaning = self._tokenizer.text_cleaning
        if self._text_cleaning != "none":
            self._tokenizer = self._tokenizer.without_cleaning()
            errors.warn(
                f"texts are cleaned first ({self._text_cleaning}): what is "
                "judged, shown and counted in characters is the cleaned text"
            )
        self._discriminator = reading.load_model(path, "detection", checkpoint)
        self.max_seq_length = text_rows.longest_row(
            checkpoint, self._discriminator.encoder.config
        )

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
        if self._text_cleaning != "none":
            strings = tf.constant([text.encode() for text in texts], tf.string)
            strings = cleaning.clean(strings, self._text_cleaning)
            texts = [text.decode() for text in strings.numpy().tolist()]
        tokens = text_rows.tokenize(self._tokenizer, texts)
        room = self.max_seq_length - 2
        windows = [
            (number, start)
            for number, row in enumerate(tokens)
            for start in window_starts(len(row.ids), room)
        ]
        rows = [
            tokens[number].ids[start : start + room]
            for number, start in windows
        ]
        judged = [[0.0] * len(x.ids) for x in tokens]
        most_context = [[-1] * len(x.ids) for x in tokens]
        verdicts = text_rows.ask_of_tokens(
            lambda input_ids, input_mask: self._discriminator.probabilities(
                input_ids, input_mask, np.zeros_like(input_ids)
            ),
            self._tokenizer,
            rows,
            _BATCH_SIZE,
        )
        for (number, start), probabilities in zip(
            windows, verdicts, strict=True
        ):
            for i, probability in enumerate(probabilities):
                context = min(i, len(probabilities) - 1 - i)
                if context > most_context[number][start + i]:
                    most_context[number][start + i] = context
                    judged[number][start + i] = probability
        vocab = self._tokenizer.vocab
        return [
            JudgedText(
                text, [JudgedToken(*t) for t in row.with_values(vocab, values)]
            )
            for text, row, values in zip(texts, tokens, judged, strict=True)
        ]


def window_starts(num_tokens: int, room: int) -> list[int]:
    """Where the windows over a text begin; each overlaps the next by half.

    Of windows with room for `room` tokens; [0] where everything fits. The last
    one ends with the text.
    """
    last = max(0, num_tokens - room)
    return [*range(0, last, max(1, room // 2)), last]
