"""Judged held-out examples -> sentences to show, with their verdicts."""

import html
import re
import typing
from collections.abc import Iterable, Sequence

if typing.TYPE_CHECKING:
    from heldout_sentences import Token

# As the objective has it: a positive logit says "replaced".
_THRESHOLD = 0.5
# A shorter "sentence" is rather a name with a full stop in it.
_MIN_LENGTH = 6

SPECIAL = re.compile(r"\[[A-Z]+[0-9]*\]")
_SENTENCE_ENDS = (".", "!", "?")
_CLOSING = frozenset(".,;:!?)]}%")
_OPENING = frozenset("([{")
_BINDING = frozenset("-/_")
_QUOTES = frozenset("\"'`")
_AFTER_APOSTROPHE = frozenset(("s", "t", "d", "m", "re", "ve", "ll"))


def join_word_pieces(sentence: Sequence["Token"]) -> list[list[int]]:
    """Which word pieces are written without a space between them.

    A piece that goes on with a word starts with "##". What the generator drew
    stands alone, so that it is not overlooked, unless it goes on with a word
    where the original did.

    Args:
      sentence: Joined as the discriminator saw it.

    Returns:
      Groups of indices; spaces go between the groups.
    """
    groups: list[list[int]] = []
    is_open = dict.fromkeys(_QUOTES, False)
    joins_next = False
    for i, token in enumerate(sentence):
        piece = token.shown
        joins = joins_next
        joins_next = False
        if token.is_replaced:
            joins = _goes_on(piece) and _goes_on(token.original)
        elif _goes_on(piece) or piece in _CLOSING:
            joins = True
        elif piece in _OPENING:
            joins_next = True
        elif piece in _BINDING or _is_apostrophe(sentence, i):
            joins = joins_next = True
        elif piece in _QUOTES:
            joins = joins or is_open[piece]
            joins_next = not is_open[piece]
            is_open[piece] = not is_open[piece]
        if joins and groups:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


def _goes_on(piece: str) -> bool:
    return piece.startswith("##") and len(piece) > 2


def _is_apostrophe(sentence: Sequence["Token"], i: int) -> bool:
    return (
        sentence[i].shown == "'"
        and 0 < i < len(sentence) - 1
        and sentence[i - 1].shown[-1].isalpha()
        and sentence[i + 1].shown in _AFTER_APOSTROPHE
    )


def verdict(is_replaced: bool, probability: float) -> str:
    """What the discriminator's verdict on a token amounts to.

    Returns:
      "hit" (replaced, and called so), "miss" (replaced, called original),
      "false-alarm" (original, called replaced) or "clear".
    """
    if is_replaced:
        return "hit" if probability >= _THRESHOLD else "miss"
    return "false-alarm" if probability >= _THRESHOLD else "clear"


def split_sentences(tokens: Iterable["Token"]) -> list[list["Token"]]:
    """Splits an example after full stops and at its special tokens."""
    sentences: list[list[Token]] = [[]]
    for token in tokens:
        if SPECIAL.fullmatch(token.original) and token.original != "[UNK]":
            sentences.append([])
            continue
        sentences[-1].append(token)
        if token.original in _SENTENCE_ENDS:
            sentences.append([])
    return [sentence for sentence in sentences if sentence]


def reads_well(sentence: Sequence["Token"]) -> bool:
    """Whether a sentence is whole, mostly words, and lightly corrupted.

    The discriminator's verdict plays no part.
    """
    words = [token.original for token in sentence[:-1]]
    num_replaced = sum(token.is_replaced for token in sentence)
    num_words = sum(
        word == "a" or (word.isalpha() and len(word) > 1) or _goes_on(word)
        for word in words
    )
    return (
        sentence[-1].original == "."
        and 9 <= len(words) <= 26
        and words[0].isalpha()
        and len(words[-1]) > 2  # Not "vs."
        and num_words >= 0.9 * len(words)
        and not any(SPECIAL.fullmatch(word) for word in words)
        and 1 <= num_replaced <= 0.3 * len(words)
    )


def choose_sentences(
    examples: Iterable[Sequence["Token"]], num_sentences: int
) -> list[list["Token"]]:
    """Sentences that read well, spread evenly over the examples.

    At most one of each example, and none twice.
    """
    found: dict[tuple[str, ...], list[Token]] = {}
    for tokens in examples:
        last_length = _MIN_LENGTH
        for sentence in split_sentences(tokens):
            # "avoid pytest." is the start of "avoid pytest.raises here."
            is_whole = last_length >= _MIN_LENGTH
            last_length = len(sentence)
            key = tuple(token.original for token in sentence)
            if is_whole and reads_well(sentence) and key not in found:
                found[key] = sentence
                break
    sentences = list(found.values())
    if len(sentences) <= num_sentences:
        return sentences
    return [
        sentences[i * len(sentences) // num_sentences]
        for i in range(num_sentences)
    ]


_MARKS = {
    "hit": ("✓", "found"),
    "miss": ("✗", "missed"),
    "false-alarm": ("!", "false alarm"),
}


def mark(kind: str) -> str:
    """The sign behind a token with such a `verdict`, as HTML."""
    if kind not in _MARKS:
        return ""
    sign, meaning = _MARKS[kind]
    return f'<sup class="{kind}" role="img" aria-label="{meaning}">{sign}</sup>'


def render_sentence(sentence: Sequence["Token"]) -> str:
    """A sentence as the discriminator saw it, with its verdicts, as HTML."""
    return " ".join(
        '<span class="word">'
        + "".join(
            _render_token(sentence[i], position > 0)
            for position, i in enumerate(group)
        )
        + "</span>"
        for group in join_word_pieces(sentence)
    )


def _render_token(token: "Token", is_joined: bool) -> str:
    kind = verdict(token.is_replaced, token.probability)
    shown = token.shown.removeprefix("##") if is_joined else token.shown
    shown = _with_ellipsis(shown)
    attributes = (
        f'class="t {kind}" style="--p:{token.probability:.2f}" '
        f'title="replaced with {100 * token.probability:.0f} %"'
    )
    if not token.is_replaced:
        return f"<span {attributes}>{html.escape(shown)}</span>{mark(kind)}"
    original = html.escape(_with_ellipsis(token.original))
    return (
        f"<ruby {attributes}>{html.escape(shown)}"
        f"<rt><del>{original}</del></rt></ruby>{mark(kind)}"
    )


def _with_ellipsis(piece: str) -> str:
    """'##ing' -> '…ing'."""
    return f"…{piece[2:]}" if _goes_on(piece) else piece
