"""A text with the discriminator's verdict on every token, and how to show it.

As one line of JSON, as lines on a terminal, or with others on a page of HTML.
Imports no TensorFlow.
"""

import html
import json
import pathlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from electra_tf.command_line import text_lines

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
      text: As it was given, or cleaned where the model has learned from
        cleaned text. Characters that belong to no token are white space, or
        such as the tokenizer leaves out.
      tokens: In order, without [CLS] and [SEP].
    """

    text: str
    tokens: list[JudgedToken]


def pieces(
    judged: JudgedText,
) -> Iterator[tuple[bool, int, int, float]]:
    """Cuts a text into tokens and what is between them.

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


# --- As JSON -----------------------------------------------------------------


def as_json(judged: JudgedText) -> str:
    """One line: the text, and its tokens with offsets and probabilities."""
    return json.dumps(
        {
            "text": judged.text,
            "tokens": [
                token._asdict() | {"probability": round(token.probability, 6)}
                for token in judged.tokens
            ],
        },
        ensure_ascii=False,
    )


# --- On a terminal -----------------------------------------------------------


def as_lines(judged: JudgedText, width: int) -> list[str]:
    """The text as it was typed, then its tokens above their percentages.

    Args:
      judged: What to show.
      width: Columns of the terminal, at which tokens are wrapped.
    """
    lines = [text_lines.printable(judged.text)]
    above, below, used = "", "", 0
    for token in judged.tokens:
        shown = text_lines.printable(token.token)
        percentage = f"{100 * token.probability:.0f}"
        token_width = text_lines.display_width(shown)
        columns = max(token_width, len(percentage)) + 1
        if used and used + columns > width + 1:
            lines += [above.rstrip(), below.rstrip()]
            above, below, used = "", "", 0
        above += shown + " " * (columns - token_width)
        below += percentage.ljust(columns)
        used += columns
    if used:
        lines += [above.rstrip(), below.rstrip()]
    return lines


# --- On a page ---------------------------------------------------------------

_EMPTY = '<span class="note">(an empty text)</span>'


def render(texts: Sequence[JudgedText], checkpoint: str) -> str:
    """The page of texts that a checkpoint has judged: HTML, in one file."""
    shown = "\n".join(map(_render_text, texts))
    return (
        pathlib.Path(__file__)
        .with_suffix(".html")
        .read_text(encoding="utf-8")
        .replace("{checkpoint}", html.escape(checkpoint))
        .replace("{texts}", shown or '<p class="note">No texts.</p>')
    )


def _render_text(judged: JudgedText) -> str:
    """One text as it was typed, every token marked and measured, in HTML."""
    parts = []
    for is_token, begin, end, probability in pieces(judged):
        text = html.escape(judged.text[begin:end])
        if not is_token:
            parts.append(text)
            continue
        is_replaced = probability >= REPLACED_FROM
        parts.append(
            f'<ruby class="{"t replaced" if is_replaced else "t"}" '
            f'style="--p:{probability:.3f}" '
            f'title="replaced with a probability of {100 * probability:.1f} %">'
            f"{text}<rt>{100 * probability:.0f}</rt></ruby>"
        )
    num_replaced = sum(
        token.probability >= REPLACED_FROM for token in judged.tokens
    )
    return (
        f'<article><p class="text" dir="auto">{"".join(parts) or _EMPTY}</p>'
        f'<p class="note">{num_replaced} of {len(judged.tokens)} tokens '
        "called replaced</p></article>"
    )
