"""The ways to tag spans of words -> one of them, BIOES, and back.

IOB, BIO, BIOES, BILOU, BMES and BMEW say with a letter where in its span a word
is, before the kind or behind it (B-PER, PER_B), or without one (B). A *form* is
such a tag of the kind PER.
"""

import re
from collections.abc import Collection, Iterable, Sequence

from electra_tf.model import task_head

OUTSIDE = "O"
# Outside of spans where tags are such as PER-B.
_OUTSIDE_OF_KIND_FIRST = "-"
# Kind of spans where tags are B, I and O alone, as seqeval calls it.
NO_KIND = "_"

# Letter of a scheme -> that of BIOES: middle, last, unit, word.
_LETTERS = {
    **{letter: letter for letter in "BIES"},
    **{"M": "I", "L": "E", "U": "S", "W": "S"},
}
_FORMS = {
    "B-PER": re.compile(r"(?P<letter>[BIESMLUW])[-_](?P<kind>.+)", re.I),
    "PER-B": re.compile(r"(?P<kind>.+)[-_](?P<letter>[BIESMLUW])"),
    "B": re.compile(r"(?P<letter>[BIESMLUW])(?P<kind>)"),
}


def form_of(tags: Collection[str]) -> str:
    """How tags are written, if they tag spans.

    Args:
      tags: All that there are.

    Returns:
      "B-PER", "B_PER", "PER-B", "PER_B" or "B"; "" if they tag words.
    """
    for form, pattern in _FORMS.items():
        of_spans = sorted(t for t in tags if not _is_outside(t, form))
        matches = [pattern.fullmatch(tag) for tag in of_spans]
        if not of_spans or not all(matches):
            continue
        letters = {match["letter"].upper() for match in matches if match}
        has_outside = len(of_spans) < len(set(tags))
        if not any(letters <= {*s} for s in task_head.SCHEMES.values()):
            continue
        if form == "B" and not ("B" in letters and has_outside):
            continue
        if letters & set("BI") or has_outside:
            place = {"B-PER": 1, "PER-B": -2}.get(form)
            return form.replace("-", of_spans[0][place] if place else "-")
    return ""


def _is_outside(tag: str, form: str) -> bool:
    return tag.upper() == OUTSIDE or (
        form.startswith("PER") and tag == _OUTSIDE_OF_KIND_FIRST
    )


def _parts(tag: str, form: str) -> tuple[str, str]:
    """Letter and kind of a tag of a span; nothing of another one."""
    match = _FORMS[form.replace("_", "-")].fullmatch(tag)
    if match is None or _is_outside(tag, form):
        return "", ""
    return match["letter"].upper(), match["kind"] or NO_KIND


def as_bioes(tag: str, form: str) -> str:
    """A tag in the letters of BIOES, before the kind; others as they are.

    Args:
      tag: Such as "L-PER".
      form: See `form_of`; "" for tags of words.

    Returns:
      Such as "E-PER".
    """
    if not form:
        return tag
    letter, kind = _parts(tag, form)
    if letter:
        return f"{_LETTERS[letter]}-{kind}"
    return OUTSIDE if _is_outside(tag, form) else tag


def scheme_of(
    sentences: Iterable[Sequence[str]], form: str
) -> tuple[str, bool]:
    """In which scheme sentences are tagged.

    Args:
      sentences: The tags of each.
      form: See `form_of`.

    Returns:
      One of `task_head.SCHEMES`, and whether some spans are in another one:
      they begin with B- and with I-, or end without a last letter.
    """
    letters: set[str] = set()
    firsts: set[str] = set()  # Where no span of the kind is before.
    is_mixed = False
    for tags in sentences:
        before = ("", "")
        for tag in [*tags, OUTSIDE]:
            letter, kind = _parts(tag, form)
            goes_on = bool(letter) and kind == before[1]
            firsts |= {letter} if letter and not goes_on else set()
            is_mixed |= before[0] in ("B", "I", "M") and not (
                goes_on and letter in "IMEL"
            )
            letters.add(letter)
            before = (letter, kind)
    letters.discard("")
    if letters <= set("BI"):
        return "BIO" if "B" in firsts else "IOB1", firsts == {"B", "I"}
    schemes = task_head.SCHEMES.items()
    return next(name for name, of in schemes if letters <= {*of}), is_mixed


def in_scheme(
    tags: Sequence[str], scheme: str, form: str = "B-PER"
) -> list[str]:
    """The tags of a sentence in a scheme.

    Args:
      tags: In BIOES; others stay as they are.
      scheme: One of `task_head.SCHEMES`.
      form: See `form_of`.
    """
    answers = [task_head.in_scheme(tag, scheme, form) for tag in tags]
    if scheme == "IOB1":  # B- is for a span right behind one of its kind.
        for i, tag in enumerate(tags):
            if i and tag[:2] in ("B-", "S-") and tags[i - 1][1:] == tag[1:]:
                answers[i] = task_head.in_scheme(f"B{tag[1:]}", "BIO", form)
    return answers


def stray_tag(tags: Collection[str]) -> str:
    """The tag that keeps the others from being tags of spans.

    Args:
      tags: All that there are, those of no spans.

    Returns:
      The first in their order; "" if at most half of the others are such as
      B-PER, so that all are tags of words.
    """
    others = sorted({tag for tag in tags if tag.upper() != OUTSIDE})
    for form in ("B-PER", "PER-B"):
        good = [tag for tag in others if _parts(tag, form)[0]]
        begins = any(as_bioes(tag, form)[0] == "B" for tag in good)
        if len(good) > len(others) / 2 and begins:
            return next((t for t in others if t not in good), others[0])
    return ""
