"""Text -> its pseudo-log-likelihood.

The sum over a text's tokens of log p(x_t | all other tokens), which says how
natural the text is: it ranks what a speech recogniser or a translator offers.
It comes from one of two kinds of model:

* Electric (arXiv:2012.08561) gives every token's term in one pass over the
  text, see `one_pass_log_probs`.
* A masked language model needs a pass for each token, which is [MASK] in it
  (arXiv:1910.14659, section 2), see `masked_log_probs`. ELECTRA's generator
  is one.

Shapes: B rows of a batch, L length.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from electra_tf.checkpoints import reading, sizes
from electra_tf.errors import CheckpointError
from electra_tf.inference import text_rows
from electra_tf.inference.scored_text import (
    AUTO,
    MASKED,
    ONE_PASS,
    ScoredText,
    ScoredToken,
)
from electra_tf.model import electra, masking
from electra_tf.text import tokenization

DESCRIPTIONS = {
    ONE_PASS: "one pass over a text, energies of Electric's discriminator",
    MASKED: "one pass for each token, probabilities of a masked language model",
}
_TOKENS = tf.TensorSpec([None, None], tf.int32)
_PER_ROW = tf.TensorSpec([None], tf.int32)


def one_pass_log_probs(discriminator: electra.Discriminator) -> Callable:
    """Electric's discriminator, asked for log p(x_t | all other tokens).

    It was trained to tell the data from noise (arXiv:2012.08561, section 2.2).
    Where a share m of the tokens in a context is drawn from the noise q and
    the rest from the data p, a token x is noise with the probability

        m q(x) / (m q(x) + (1 - m) p(x))
            = sigmoid(log q(x) + log(m / (1 - m)) - log p(x)).

    The logit that was trained, with the label 1 for noise, is

        E(x) + log q(x) + log(m / (1 - m)),

    E(x) being the head's output (`_get_discriminator_output` of
    `electra.PretrainingModel`). The loss is least where the two are equal:
    E(x) = -log p(x), whatever q and m are. So minus the head's output is the
    log-probability, and neither the generator nor m is needed any more.

    Nothing makes exp(-E(x)) sum to 1 over the vocabulary but training, in
    whose optimum it does. With Z for the sum, what is returned is
    log p(x) + log Z, and may be above 0 in a model short of its optimum.

    One constant remains: the logit has `mask_prob` for m. Positions that are
    drawn twice make the share of noise smaller, and [CLS] and [SEP], which
    count but are never drawn, make it larger. Every token's score is off by
    log-odds(mask_prob) - log-odds(share), in rows of 128 with a mask_prob of
    0.15 by +0.08. It is the same for all texts, and needs no care in ranking
    texts of one number of tokens.

    Args:
      discriminator: Electric's.

    Returns:
      From `input_ids` and `input_mask` <int32>[B, L] to <float32>[B, L], log
      p(x_t | all other tokens) up to log Z, in nats; it means nothing at [CLS],
      [SEP] and padding.
    """

    @tf.function(input_signature=[_TOKENS] * 2, autograph=False)
    def log_probs(input_ids, input_mask):
        segment_ids = tf.zeros_like(input_ids)
        return -discriminator.logits(input_ids, input_mask, segment_ids)

    return log_probs


def masked_log_probs(masked_lm: reading.MaskedLm) -> Callable:
    """A masked language model, asked for log p(x_t | all other tokens).

    Returns:
      From `input_ids` <int32>[B, L] with [MASK] at `positions`, `input_mask`
      <int32>[B, L], `positions` <int32>[B] and `token_ids` <int32>[B] to
      <float32>[B], log p(token | all other tokens) of these, in nats.
    """

    @tf.function(
        input_signature=[_TOKENS] * 2 + [_PER_ROW] * 2, autograph=False
    )
    def log_probs(input_ids, input_mask, positions, token_ids):
        segment_ids = tf.zeros_like(input_ids)
        outputs = masked_lm.encoder(input_ids, input_mask, segment_ids)
        vectors = masking.gather_positions(
            outputs["sequence_output"], positions[:, tf.newaxis]
        )
        logits = tf.cast(masked_lm.head(vectors)[:, 0], tf.float32)
        return -tf.nn.sparse_softmax_cross_entropy_with_logits(
            token_ids, logits
        )

    return log_probs


class Scorer:
    """A pre-trained checkpoint that scores texts.

    Args:
      path: A checkpoint of any format: Electric's, or one with a masked
        language model's head.
      vocab_file: Where the checkpoint comes without a vocabulary.
      method: ONE_PASS for Electric, MASKED for the others, or AUTO.
      batch_size: Rows that go through the network at once.
      do_lower_case: Where it does not say whether text is lower-cased.

    Attributes:
      method: ONE_PASS or MASKED.
      most_tokens: Of a text; the longest input that the model was trained
        with, less [CLS] and [SEP].

    Raises:
      ValueError: If the checkpoint cannot be read, is of another kind, or has
        no vocabulary.
    """

    def __init__(
        self,
        path: str,
        vocab_file: str | None = None,
        method: str = AUTO,
        batch_size: int = 32,
        do_lower_case: bool | None = None,
    ):
        checkpoint = reading.read_checkpoint(path, vocab_file, do_lower_case)
        vocab = checkpoint.required_vocabulary(path)
        self._tokenizer = tokenization.FullTokenizer(vocab)
        is_masked_lm = sizes.masked_lm_encoder(checkpoint.tensors) is not None
        if method != MASKED and reading.is_electric(checkpoint):
            self.method = ONE_PASS
        elif method != ONE_PASS and is_masked_lm:
            self.method = MASKED
        else:
            raise CheckpointError(
                "Expected Electric or a masked language model, such as a "
                f"generator, as the method {method} asks. Received: {path}"
            )
        self._batch_size = batch_size
        is_one_pass = self.method == ONE_PASS
        kind = "energies" if is_one_pass else "masked_lm"
        network = reading.load_model(path, kind, checkpoint)
        ask = one_pass_log_probs if is_one_pass else masked_log_probs
        self._log_probs = ask(network)
        longest = text_rows.longest_row(checkpoint, network.encoder.config)
        self.most_tokens = longest - 2

    def score(
        self,
        texts: Sequence[str],
        with_offsets: bool = False,
        truncate: bool = False,
        places: Sequence[str] | None = None,
    ) -> list[ScoredText]:
        """Scores texts; none changes the score of another.

        Args:
          texts: In characters that UTF-8 can have.
          with_offsets: Whether to say where the tokens are.
          truncate: Cut texts that are too long instead of refusing them.
          places: What to call each text in an error; "text 1" and so on.

        Returns:
          The scores, in the order of the texts; 0 for a text without tokens.

        Raises:
          ValueError: If a text is too long, the model gives a score that is
            not finite, or the tokenizer cannot say where tokens are.
        """
        places = places or [f"text {i}" for i in range(1, len(texts) + 1)]
        tokenized = text_rows.tokenize(
            self._tokenizer, texts, self.most_tokens, with_offsets
        )
        for place, row in zip(places, tokenized, strict=True):
            if row.num_left_out and not truncate:
                raise ValueError(
                    f"{place}: expected at most {self.most_tokens} tokens, "
                    "as the model was trained with. Received: "
                    f"{len(row.ids) + row.num_left_out} tokens (see "
                    "--truncate)"
                )
        rows, vocab = [x.ids for x in tokenized], self._tokenizer.vocab
        if self.method == ONE_PASS:
            scores = text_rows.ask_of_tokens(
                self._log_probs, self._tokenizer, rows, self._batch_size
            )
        else:
            scores = self._score_masked(rows)
        for place, values in zip(places, scores, strict=True):
            if not all(map(math.isfinite, values)):
                raise ValueError(
                    f"{place}: expected finite scores. Received: "
                    f"{sum(values)}, from a model with damaged weights"
                )
        return [
            ScoredText(
                text,
                [
                    ScoredToken(token, score, begin, end)
                    for token, begin, end, score in row.with_values(
                        vocab, values
                    )
                ],
                row.num_left_out,
            )
            for text, row, values in zip(texts, tokenized, scores, strict=True)
        ]

    def _score_masked(self, rows: list[list[int]]) -> list[list[float]]:
        """The score of every token of rows, masking each token in turn."""
        scores = [[math.nan] * len(row) for row in rows]
        asked = [(i, j) for i, row in enumerate(rows) for j in range(len(row))]
        for numbers, input_ids, input_mask in text_rows.in_batches(
            self._tokenizer, [rows[i] for i, _ in asked], self._batch_size
        ):
            tokens = [asked[number] for number in numbers]
            # [CLS] is before the text.
            positions = np.array([1 + j for _, j in tokens], np.int32)
            chosen = (np.arange(len(tokens)), positions)
            token_ids = input_ids[chosen]
            input_ids[chosen] = self._tokenizer.mask_token_id
            log_probs = self._log_probs(
                input_ids, input_mask, positions, token_ids
            )
            for (i, j), log_prob in zip(
                tokens, log_probs.numpy().tolist(), strict=True
            ):
                scores[i][j] = log_prob
        return scores
