"""A text with the log-probability of every token in its context, and as JSON.

Imports no TensorFlow.
"""

import json
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


def as_json(
    scored: ScoredText, with_tokens: bool = False, with_cut: bool = False
) -> str:
    """One line of output; with each token's score and place, or the cut."""
    answer: dict = {
        "text": scored.text,
        "score": round(scored.score, 6),
        "num_tokens": len(scored.tokens),
        "per_token": scored.per_token,
        "perplexity": scored.perplexity,
    }
    for name in ("per_token", "perplexity"):
        if answer[name] is not None:
            answer[name] = round(answer[name], 6)
    if with_cut:
        answer["truncated"] = scored.num_left_out > 0
    if with_tokens:
        answer["tokens"] = [
            token._asdict() | {"score": round(token.score, 6)}
            for token in scored.tokens
        ]
    return json.dumps(answer, ensure_ascii=False)
