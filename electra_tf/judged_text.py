"""A text with the discriminator's verdict on every token.

Imports no TensorFlow.
"""

from collections.abc import Iterator
from typing import NamedTuple

# A token is called replaced from here on: as the original counts its accuracy.
REPLACED_FROM = 0.5


class JudgedToken(NamedTuple):
    """One token of a text.

    Attributes:
      token: The word piece.
      begin: Its first character in the text.
      end: The character after its last one.
      probability: The discriminator's probability that it was replaced.
    """

    token: str
    begin: int
    end: int
    probability: float


class JudgedText(NamedTuple):
    """A text and its tokens.

    Attributes:
      text: As it was given. Characters that belong to no token are white
        space, or such as the tokenizer leaves out.
      tokens: In order, without [CLS] and [SEP].
    """

    text: str
    tokens: list[JudgedToken]


def pieces(
    judged: JudgedText,
) -> Iterator[tuple[bool, int, int, float]]:
    """Cuts a text into tokens and what is between them.

    Args:
      judged: The text.

    Yields:
      Whether it is a token, its first character, the character after its last,
      its probability (0 between tokens); all characters, each once. Tokens of
      one character (it became several) are one piece, with the highest
      probability of them.
    """
    position = 0
    waiting: list = []
    for token in [*judged.tokens, None]:
        if waiting and (token is None or token.begin >= waiting[-1].end):
            begin, end = waiting[0].begin, waiting[-1].end
            if begin > position:
                yield False, position, begin, 0.0
            yield True, begin, end, max(t.probability for t in waiting)
            position, waiting = end, []
        if token is not None:
            waiting.append(token)
    if position < len(judged.text):
        yield False, position, len(judged.text), 0.0
