"""A docstring -> the English prose in it, one sentence a line."""

import inspect
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

_MIN_WORDS = 3
_MAX_WORDS = 100

# Without control characters, some of which would end a line of the corpus.
_TYPOGRAPHY: dict = dict.fromkeys([*range(9), *range(11, 32), 127, 133])
_TYPOGRAPHY |= str.maketrans(
    "\u2018\u2019\u201c\u201d\u2013\u2014\xa0", "''\"\"-- "
)

# --- Blocks -------------------------------------------------------------------
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
# Doctests, commands and tables last until a blank line.
_PROMPT = re.compile(
    r"\s*(>>>|In \[\d*\]:|Out\[\d*\]:|\$ |% |[-=]{2,}\s+[-=]{2})"
)
_DIRECTIVE = re.compile(r"\s*\.\.(?:\s+(?:\w+:)?([\w-]+)\s*::\s*(.*)|\s|$)")
_PROSE_DIRECTIVES = "admonition attention caution danger error hint important"
_PROSE_DIRECTIVES += " note tip topic warning"
_TABLE_ROW = re.compile(r"(?:[^|]*\|){3}|\S {3,}\S|\S\t")

# --- Sections and their entries -----------------------------------------------
_RULER = re.compile(r"\s*([-=~^#*+_.\"'`:|])\1{2,}[-=~^#*+_.\"'`:|\s]*$")
_ENTRIES = "arg|param|attr|input|output|propert|field|method|return|yield|raise"
_ENTRIES += "|throw|warns|receive|function|class"
_DROPPED = "reference|bibliography|see ?also|author|citation|licen[cs]e|credit"
_DROPPED += "|shape|routine listing"
_HEADING = re.compile(
    r"\s*(?P<mark>[#*]*)\s*(?:keyword |call |other |input |output )?"
    rf"(?:(?P<entries>{_ENTRIES})|(?P<dropped>{_DROPPED})|example|usage|note"
    r"|warning)\w*\s*\**(?P<colon>:?)\**\s*$",
    re.IGNORECASE,
)
_BULLET = re.compile(r"\s*(?:[-*+\u2022]|\(?\d{1,2}[.)]|\(?[a-z]\))\s+")
_FIELD = re.compile(r"\s*[:@](?P<name>\w+)(?:\s[^:]*)?:(?P<text>\s.*|$)")
# "name: ...", "name (type): ...", "*args: ...", "a, b: ...", "x : array_like".
_NAME = r"[`'\"*]{0,3}[A-Za-z_][\w.\[\]]*(?:\([^)]*\))?[`'\"]{0,2}"
_ENTRY = re.compile(
    rf"\s*{_NAME}(?:(?:,| or| and|/)\s*(?:{_NAME}|\.\.\.))*"
    r"(?:\s*\([^)]*\)|\s*<[^>]*>)?(?P<type>\s*)(?::|--)(?P<text>\s.*|$)"
)

# --- Sentences ----------------------------------------------------------------
_LEGAL = re.compile(
    r"copyright|all rights reserved|licen[sc]ed? (under|to|agreement)"
    r"|apache license|\bwarrant(y|ies)\b|redistribut|\(c\) \d{4}",
    re.IGNORECASE,
)
_INLINE = (
    (r"!\[[^\]]*\]\([^)]*\)", ""),  # Images.
    (
        r"\[([^\]]+)\]\s?(?:\((?:[^()\s]|\([^)]*\))*\)|\[[^\]]*\])",
        r"\1",
    ),  # Links.
    (r":(?:\w+:)?[\w+-]+:`~\.?(?:\w+\.)*([^`]+)`", r"\1"),  # Roles.
    (r":(?:\w+:)?[\w+-]+:(?=`)", ""),
    (r"`([^`<]+?)\s*<[^`>]*>`_{0,2}", r"\1"),
    (r"`{1,3}~?([^`]+?)`{1,3}_{0,2}", r"\1"),
    # "Described in [1]_" is no sentence without it; `is_prose` drops it.
    (r"\b(as|by|from|in|of|see|to|with)\s(\[[\w#*,\s-]+\]_|\[\d+\])", r"\1 \\"),
    (r"\s?\[[\w#*,\s-]{1,20}\]_|\s?\[\d+(?:,\s*\d+)*\](?=[\s.,;:)]|$)", ""),
    (r"(?<![\w*])(\*{1,2})([^\s*](?:[^*]*[^\s*])?)\1(?![\w*])", r"\2"),
    (r"(?<![\w|])\|(\w[^|]*)\|(?![\w|])", r"\1"),
    (r"(?<!\w)__?([A-Za-z][^_]*)__?(?!\w)", r"\1"),
    (r"</?[a-zA-Z]+\s*/?>|`|^[#>*+\u2022-]+\s+|\(\s*\)", ""),
    (r"\\([*_`|<>\"' ])", r"\1"),
    (r":{2,}(?=\s|$)", ":"),
    (r"\s+", " "),
    (r"\s+([.,;:!?)])(?=\s|$)", r"\1"),
)
_MARKUP_CHARACTER = re.compile(r"[`\[\]|*_<\\#()]|::|\s\s|\s[.,;:!?)]|^[>+-]")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]*[A-Z0-9])")
_ABBREVIATION = re.compile(
    r"\b((?i:e\.g|i\.e|etc|vs|cf|al|figs?|eqs?|nos?|approx|resp|dr|mr|st|refs?"
    r"|sec|ch|pp|vol|eds?|viz|ca|incl|min|max|prof|dims?|w\.r\.t|a\.k\.a"
    r"|i\.i\.d)|[A-Z])\.$"
)
_WORD = re.compile(r"[A-Za-z]+(?:['-][A-Za-z]+)*")
# Addresses, citations, notes to oneself, placeholders, mathematics, code,
# quoted titles, other scripts.
_FORBIDDEN = re.compile(
    r"(?i:https?:|ftp:|www\.|arxiv|doi:|doi\.org| et al|isbn|todo|fixme)"
    r"|%\(\w*\)|%[sdr](?!\w)|\{\{?\w*\}?\}|\$\{|<\w+=|\\|\$.*\$|\^\{|_\{|\w@\w"
    r"|[=<>]{2}|->|(?:^|[\s(]):\w+:|^\".*\"\W*$|\w\(\w+=| = "
    r"|[\u0400-\U0010ffff]"
)
# What a dropped code block or link leaves behind.
_UNFINISHED = re.compile(
    r"(?:\b(?:a|an|and|are|as|at|be|by|for|from|in|is|of|on|or|see|than|that|the"
    r"|to|with|where|which|e\.g\.|i\.e\.)|[,(]|\b(?:in|of|see|to) *\.)$"
)
_NOT_LETTER = re.compile(r"[^A-Za-z ]+")
_CODE_TOKEN = re.compile(r"[_=(){}\[\]<>/\\|@#$%^&*~+]|\w\.\w|\d|[a-z][A-Z]")
_COMMON = """
a an and are as at be been but by can do does each for from has have how if in
into is it its may more must no not of on only or other same should so some such
than that the their then there these this to two used was we when where which
will with without you
"""
_COMMON_WORDS = frozenset(_COMMON.split())


def clean_docstring(docstring: str) -> list[str]:
    """Returns the prose of a docstring, one sentence per item.

    Code, doctests, tables, signatures, parameter headers, references and
    licences go; the words that describe parameters and results stay.
    """
    lines = inspect.cleandoc(docstring).translate(_TYPOGRAPHY).split("\n")
    prose = _without_headers(_without_blocks(lines))
    sentences: list[str] = []
    # A paragraph is a run of lines that are indented alike.
    for _, run in itertools.groupby(prose, lambda x: x.strip() and _indent(x)):
        text = " ".join(line.strip() for line in run)
        if _LEGAL.search(text):
            continue
        if _MARKUP_CHARACTER.search(text):
            for pattern, replacement in _INLINE:
                text = re.sub(pattern, replacement, text)
        sentences += filter(is_prose, split_sentences(text.strip()))
    return sentences


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _without_blocks(lines: Sequence[str]) -> Iterator[str]:
    """Blanks out code, doctests, directives and tables."""
    fence = ""
    # A block's lines are deeper than its head, or end at a blank line.
    deeper_than, until_blank = 1000, False
    for line in lines:
        text = line.strip()
        until_blank = until_blank and bool(text)
        if text and _indent(line) <= deeper_than:
            deeper_than = 1000
        shown = ""
        if fence:
            fence = "" if text.startswith(fence) else fence
        elif match := _FENCE.match(line):
            is_one_line = match[1] in text[len(match[1]) :]
            fence = "" if is_one_line else match[1]
        elif not text or until_blank or deeper_than < 1000:
            pass
        elif match := _DIRECTIVE.match(line):
            if (match[1] or "").lower() in _PROSE_DIRECTIVES.split():
                yield ""
                shown = " " * _indent(line) + match[2]
            else:
                deeper_than = _indent(line)
        elif _PROMPT.match(line):
            until_blank = True
        elif text.endswith("::"):
            deeper_than = _indent(line)
            shown = line.rstrip()[:-1]
        elif not _TABLE_ROW.search(text):
            shown = line
        yield shown


def _without_headers(lines: Iterable[str]) -> Iterator[str]:
    """Drops headings, sections of references and the names of parameters."""
    heading, heading_indent, is_underlined = None, 0, False
    all_lines = [*lines, ""]
    for line, following in itertools.pairwise(all_lines):
        indent, indent_below = _indent(line), _indent(following)
        match = _HEADING.match(line)
        if not line.strip() or _RULER.match(line):
            yield ""
        elif (
            _RULER.match(following)
            or match
            and (match["mark"] or match["colon"])
        ):
            heading, heading_indent = match, indent
            is_underlined = bool(_RULER.match(following))
            yield ""
        else:
            # "Reference:" is often followed by bullets at its own indent.
            is_below = indent > heading_indent or _BULLET.match(line)
            if not (is_underlined or is_below):
                heading = None
            if heading and heading["dropped"]:
                continue
            text = _described(line, bool(heading and heading["entries"]))
            if text != line:  # A paragraph, together with what is below it.
                yield ""
                text = " " * max(indent, indent_below) + text.strip()
            yield text


def _described(line: str, has_entries: bool) -> str:
    """A line without the bullet, the name and the type of a parameter."""
    if match := _FIELD.match(line):
        is_type = match["name"] in ("type", "rtype", "ivar", "vartype")
        return "" if is_type else match["text"]
    if bullet := _BULLET.match(line):
        line = line[bullet.end() :]
    if (bullet or has_entries) and (match := _ENTRY.match(line)):
        # numpydoc has a type there, and the text below: "x : array_like".
        return "" if match["type"] and not bullet else match["text"]
    return line


def split_sentences(text: str) -> list[str]:
    """Splits after . ! ? before a capital or digit, unless abbreviated."""
    sentences: list[str] = []
    start = 0
    for match in _SENTENCE_END.finditer(text):
        if not _ABBREVIATION.search(text, start, match.start()):
            sentences.append(text[start : match.end()].strip())
            start = match.end()
    sentences.append(text[start:].strip())
    return [sentence for sentence in sentences if sentence]


def is_prose(sentence: str) -> bool:
    """Tells whether a line reads as English rather than as code or a list."""
    words = _WORD.findall(sentence)
    if (
        not _MIN_WORDS <= len(words) <= _MAX_WORDS
        or (len(words) <= 4 and sentence.endswith(":"))  # "For example:"
        or len(_NOT_LETTER.sub("", sentence)) < 0.85 * len(sentence)
        or _FORBIDDEN.search(sentence)
        or _UNFINISHED.search(sentence[-10:])
    ):
        return False
    if _CODE_TOKEN.search(sentence):
        tokens = [token.strip("(),.;:'\"[]") for token in sentence.split()]
        num_code = sum(map(bool, map(_CODE_TOKEN.search, tokens)))
        if num_code > 0.34 * len(tokens):
            return False
    num_common = sum(word.lower() in _COMMON_WORDS for word in words)
    if len(words) < 6:
        return num_common > 0 or sentence.endswith((".", "!", "?"))
    return num_common >= max(1, len(words) // 12)
