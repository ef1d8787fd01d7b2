"""The ways to tag spans of words -> one of them: BIOES.

IOB, BIO, BIOES, BILOU, BMES and BMEW say with a letter where in its span a word
is, before the kind or behind it (B-PER, B_PER, PER-B), or without one (B).
"""

import re
from collections.abc import Collection, Sequence

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
_SCHEMES = tuple(map(frozenset, ("BIES", "BILU", "BMES", "BIEW", "BMEW")))

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
      "B-PER", "PER-B", "B", or nothing if they do not.
    """
    for form, pattern in _FORMS.items():
        of_spans = {t for t in tags if not _is_outside(t, form)}
        found = [pattern.fullmatch(tag) for tag in of_spans]
        if not of_spans or not all(found):
            continue
        letters = {match["letter"].upper() for match in found if match}
        has_outside = len(of_spans) < len(set(tags))
        if not any(letters <= scheme for scheme in _SCHEMES):
            continue
        if form == "B" and not ("B" in letters and has_outside):
            continue
        if letters & set("BI") or has_outside:
            return form
    return ""


def _is_outside(tag: str, form: str) -> bool:
    return tag.upper() == OUTSIDE or (
        form == "PER-B" and tag == _OUTSIDE_OF_KIND_FIRST
    )


def as_bioes(tag: str, form: str) -> str:
    """A tag in the letters of BIOES, before the kind; others as they are.

    Args:
      tag: Such as "L-PER".
      form: See `form_of`; nothing for tags of words.

    Returns:
      Such as "E-PER".
    """
    if not form:
        return tag
    if _is_outside(tag, form):
        return OUTSIDE
    match = _FORMS[form].fullmatch(tag)
    if not match:
        return tag
    letter = _LETTERS[match["letter"].upper()]
    return f"{letter}-{match['kind'] or NO_KIND}"


def are_span_tags(tags: Sequence[str]) -> bool:
    """Whether these few look like tags of spans, one with a kind among them."""
    form = form_of([*tags, OUTSIDE])
    return bool(form) and form != "B"


def stray_tag(tags: Collection[str]) -> str:
    """The tag that keeps the others from being tags of spans.

    Args:
      tags: All that there are, those of no spans.

    Returns:
      The first in their order; nothing if at most half of the others are such
      as B-PER, so that all are tags of words.
    """
    others = sorted({tag for tag in tags if tag.upper() != OUTSIDE})
    for form in ("B-PER", "PER-B"):
        good = [t for t in others if _FORMS[form].fullmatch(t)]
        letters = {as_bioes(tag, form)[0] for tag in good}
        if len(good) > len(others) / 2 and "B" in letters:
            return next((t for t in others if t not in good), others[0])
    return ""
