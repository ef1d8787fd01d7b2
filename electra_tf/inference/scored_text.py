"""A text with the log-probability of every token in its context.

Imports no TensorFlow.
"""

import math
from typing import NamedTuple

# How a checkpoint is asked: one pass over a text, one for each token, or what
# it was trained for.
METHODS = AUTO, ONE_PASS, MASKED = "auto", "one_pass", "masked"


class ScoredToken(NamedTuple):
    """One token of a text.

    Attributes:
      token: The word piece.
      score: log p(token | all other tokens), in nats.
      begin: Its first character in the text; None if it was not asked for.
      end: The character after its last one; None likewise.
    """

    token: str
    score: float
    begin: int | None = None
    end: int | None = None


class ScoredText(NamedTuple):
    """A text and its tokens.

    Attributes:
      text: As it was given.
      tokens: In order, without [CLS] and [SEP].
      num_left_out: Tokens at its end that were cut off.
    """

    text: str
    tokens: list[ScoredToken]
    num_left_out: int = 0

    @property
    def score(self) -> float:
        """The pseudo-log-likelihood: sum of the tokens', in nats."""
        return math.fsum(token.score for token in self.tokens)

    @property
    def per_token(self) -> float | None:
        """The mean over the tokens; None without any."""
        return self.score / len(self.tokens) if self.tokens else None

    @property
    def perplexity(self) -> float | None:
        """exp(-per_token); None without tokens, or beyond what floats hold."""
        if self.per_token is None:
            return None
        try:
            return math.exp(-self.per_token)
        except OverflowError:
            return None


def best_first(texts: list[ScoredText]) -> list[ScoredText]:
    """Sorts by score, the highest first; what has no tokens comes last."""
    return sorted(texts, key=lambda x: (not x.tokens, -x.score))
