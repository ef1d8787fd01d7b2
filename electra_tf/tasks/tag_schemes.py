"""The ways to tag spans of words -> one of them, BIOES, and back.

IOB, BIO, BIOES, BILOU, BMES and BMEW say with a letter where in its span a word
is, before the kind or behind it (B-PER, PER_B), or without one (B). A *form* is
such a tag of the kind PER.
"""

import re
from collections.abc import Collection, Iterable, Sequence

from electra_tf.model import task_head
from electra_tf.tasks.conll import NO_LABEL, OUTSIDE

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
    """How the tags of a file are written, if they tag spans.

    "B-PER", "B_PER", "PER-B", "PER_B" or "B"; "" if they tag words. Most must
    be of spans; whoever reads them refuses others.
    """
    for form in _FORMS:
        parts = {tag: _parts(tag, form)[0] for tag in sorted(tags)}
        spans = [tag for tag, x in parts.items() if x not in ("", OUTSIDE)]
        used, letters = {parts[tag] for tag in spans}, list(parts.values())
        has_outside, num_strays = OUTSIDE in letters, letters.count("")
        if (
            any(used <= {*of} for of in task_head.SCHEMES.values())
            and ("B" in used or (has_outside and not num_strays))
            and num_strays < len(spans)
            and (
                form != "B" or (has_outside and not num_strays and "B" in used)
            )
        ):
            place = {"B-PER": 1, "PER-B": -2}.get(form)
            return form.replace("-", spans[0][place] if place else "")
    return ""


def _parts(tag: str, form: str) -> tuple[str, str]:
    """Letter and kind of a tag, O outside of spans; nothing of another tag."""
    form = form.replace("_", "-")
    # Outside of spans where tags are such as PER-B.
    if tag.upper() == OUTSIDE or (form == "PER-B" and tag == "-"):
        return OUTSIDE, ""
    match = _FORMS[form].fullmatch(tag)
    if match is None:
        return "", ""
    # Of B, I and O alone seqeval calls the kind so.
    return match["letter"].upper(), match["kind"] or "_"


def as_bioes(tag: str, form: str) -> str:
    """A tag such as L-PER in the letters of BIOES, E-PER; others as is."""
    letter, kind = _parts(tag, form) if form else ("", "")
    if letter == OUTSIDE:
        return OUTSIDE
    return f"{_LETTERS[letter]}-{kind}" if letter else tag


def scheme_of(
    sentences: Iterable[Sequence[str]], form: str
) -> tuple[str, bool]:
    """In which of `task_head.SCHEMES` sentences are tagged.

    And whether some spans are in another one: they begin with other letters, or
    end without a last letter.
    """
    letters: set[str] = set()
    firsts: set[str] = set()  # Where no span of the kind is before.
    is_cut = False
    for tags in sentences:
        last, before = "", ""
        for tag in [*(tag for tag in tags if tag != NO_LABEL), OUTSIDE]:
            letter, kind = _parts(tag, form)
            letters.add(letter)
            goes_on = bool(kind) and kind == before
            firsts |= {letter} if kind and not goes_on else set()
            is_cut |= last in ("B", "I", "M") and not (
                goes_on and letter in "IMEL"
            )
            last, before = letter, kind
    letters -= {"", OUTSIDE}
    if letters <= set("BI"):
        return "BIO" if "B" in firsts else "IOB1", firsts == {"B", "I"}
    schemes = task_head.SCHEMES.items()
    name, of = next(x for x in schemes if letters <= {*x[1]})
    return name, is_cut or not firsts <= {of[0], of[-1]}


def in_scheme(
    tags: Sequence[str], scheme: str, form: str = "B-PER"
) -> list[str]:
    """The tags of a sentence, from BIOES, in one of `task_head.SCHEMES`."""
    answers = [task_head.in_scheme(tag, scheme, form) for tag in tags]
    if scheme == "IOB1":  # B- is for a span right behind one of its kind.
        for i, tag in enumerate(tags):
            if i and tag[:2] in ("B-", "S-") and tags[i - 1][1:] == tag[1:]:
                answers[i] = task_head.in_scheme(f"B{tag[1:]}", "BIO", form)
    return answers
