"""A docstring -> the English prose in it, one sentence a line."""

import inspect
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

MIN_SENTENCE_WORDS = 3
MAX_SENTENCE_WORDS = 100

_TYPOGRAPHY = str.maketrans(
    {
        "\u2018": "'",
        "\u2019": "'",
        "\u201c": '"',
        "\u201d": '"',
        "\u2013": "-",
        "\u2014": "-",
        "\u2026": "...",
        "\u00a0": " ",
        # Control characters, some of which would end a line further on.
        **dict.fromkeys([*range(9), *range(11, 32), 127, 133], ""),
    }
)
_FENCE = re.compile(r"^\s*(`{3,}|~{3,})")
_PROMPT = re.compile(r"^\s*(>>>|In \[\d*\]:|Out\[\d*\]:|\$ |% |C:\\)")
_DIRECTIVE = re.compile(r"^\s*\.\.\s+(?:\w+:)?([\w-]+)\s*::\s*(.*)$")
_EXPLICIT_MARKUP = re.compile(r"^\s*\.\.(\s|$)")
_PROSE_DIRECTIVES = {"admonition", "attention", "caution", "danger", "error"}
_PROSE_DIRECTIVES |= {"hint", "important", "note", "tip", "topic", "warning"}
_RULER = re.compile(r"^\s*[-=~^+#*_.'\"`:|]{3,}[-=~^+#*_.'\"`:|\s]*$")
_COLUMN_RULER = re.compile(r"^\s*[-=]{2,}(\s+[-=]{2,})+\s*$")
_UNDERLINE = re.compile(r"^\s*([-=~^#*+\"'])\1{2,}\s*$")
_TABLE_ROW = re.compile(r"\|.*\|")
_COLUMNS = re.compile(r"\S {3,}\S|\S\t+\S")
_BULLET = re.compile(r"^\s*(?:[-*+\u2022]|\(?\d{1,2}[.)]|\(?[a-z]\))\s+")

_SECTION = re.compile(
    r"^\s*(?:[#*]+\s*)?(args?|arguments?|params?|parameters|keyword arg\w*"
    r"|other parameters|attributes|attrs|inputs?|outputs?|properties|fields"
    r"|methods|returns?|yields?|raises|throws|warns|receives|call arg\w*"
    r"|references?|bibliography|see also|seealso|authors?|citations?"
    r"|licen[cs]e|credits|input shapes?|output shapes?"
    r"|example(?: usage)?|examples|usage|notes?|warnings?|routine listings"
    r"|functions|classes)\s*\**\s*(:?)\**\s*$",
    re.IGNORECASE,
)
_ENTRY_SECTIONS = re.compile(
    r"arg|param|attr|input|output|propert|field|method|return|yield|raise"
    r"|throw|warns|receive|keyword|call|function|class"
)
_DROPPED_SECTIONS = re.compile(
    r"reference|bibliography|see ?also|author|citation|licen|credit"
    r"|(in|out)put shape|routine"
)
_FIELD = re.compile(
    r"^\s*(?::(?P<name>[A-Za-z]+)(?:\s[^:]*)?:|@(?P<at>[a-z]+)(?:\s+\w+)?:)"
    r"(?:\s+(?P<text>.*)|\s*)$"
)
# "name: ...", "name (type): ...", "`name`: ...", "*args: ...", "a, b: ...".
_NAME = r"[`'\"*]{0,3}[A-Za-z_][\w.\[\]]*(?:\([^)]*\))?[`'\"]{0,2}"
_ENTRY = re.compile(
    rf"^\s*{_NAME}(?:(?:,| or| and|/)\s*{_NAME})*"
    r"(?:\s*\([^)]*\)|\s*<[^>]*>)?\s*(?::|--)(?:\s+(?P<text>.*)|\s*)$"
)
# "x : array_like, shape (n,)": numpydoc puts a space before the colon.
_TYPED_HEADER = re.compile(rf"^\s*{_NAME}(?:,\s*{_NAME}|,\s*\.\.\.)*\s+:(\s|$)")
_TYPE = re.compile(
    r"^[`{'\"]*(array|int|integer|float|str|string|bool|boolean|number"
    r"|none|callable|ndarray|object|list|tuple|dict|optional|sequence|iterable"
    r"|scalar|tensor|function|class|type|set|any|union|complex|path|file"
    r"|series|dataframe|index|label|axis|color|default|matrix|sparse|instance"
    r"|[\w.]+ instance|\{|\()",
    re.IGNORECASE,
)
_SIGNATURE = re.compile(r"^\s*[\w.]+\(.*\)?\s*(->.*|:)?$")
_CODE = re.compile(
    r"^\s*(import \w|from [\w.]+ import|def \w|class \w+[(:]|@\w|return \w"
    r"|for \w+(, \w+)* in .*:$|while .*:$|if .*:$|elif .*:$|else:$|try:$"
    r"|with .*:$|except\b.*:$|print\(|assert |raise \w+\(|#|//|/\*|</?\w+>?"
    r"|[\w.\[\]'\", ]+ (=|==|\+=|->|:=) \S|[\w.]+ = |[\w.]+\([^)]*\)$"
    r"|[})\]]+[,;]?$|.*[;{]$|\$\$|\\\w+|python3? -?\w|pip install)"
)
_LEGAL = re.compile(
    r"copyright|all rights reserved|licen[sc]ed? (under|to|agreement)"
    r"|apache license|\bwarrant(y|ies)\b|redistribut|\(c\) \d{4}",
    re.IGNORECASE,
)

# (a string without which the pattern cannot match, pattern, replacement)
_INLINE = tuple(
    (needle, re.compile(pattern), replacement)
    for needle, pattern, replacement in (
        ("![", r"!\[[^\]]*\]\([^)]*\)", ""),  # Images.
        ("[", r"\[([^\]]+)\]\s?\((?:[^()\s]|\([^)]*\))*\)", r"\1"),  # Links.
        ("][", r"\[([^\]]+)\]\[[^\]]*\]", r"\1"),
        (":math:", r":math:`(\w{1,12})`", r"\1"),
        (":`", r":(?:\w+:)?[\w+-]+:`~?([^`<]+?)\s*<[^`>]*>`", r"\1"),
        (":`~", r":(?:\w+:)?[\w+-]+:`~\.?(?:\w+\.)*([^`]+)`", r"\1"),
        (":`", r":(?:\w+:)?[\w+-]+:`[.!]?([^`]+)`", r"\1"),
        ("<", r"`([^`<]+?)\s*<[^`>]*>`_{0,2}", r"\1"),
        ("`", r"`{1,3}~?([^`]+?)`{1,3}_{0,2}", r"\1"),
        ("`", r"`", ""),
        # Citations: [1]_, [#]_, [Knu97]_. "Described in [1]_" makes no sentence
        # without it; the backslash has `is_prose` drop it.
        (
            "[",
            r"\b(as|by|from|in|of|see|to|with)\s(\[[\w#*,\s-]{1,20}\]_|\[\d+\])",
            r"\1 \\",
        ),
        ("]_", r"\s?\[[\w#*,\s-]{1,20}\]_", ""),
        ("[", r"\s?\[\d+(?:,\s*\d+)*\](?=[\s.,;:)]|$)", ""),
        ("**", r"(?<![\w*])\*\*([^\s*](?:[^*]*[^\s*])?)\*\*(?![\w*])", r"\1"),
        ("*", r"(?<![\w*])\*([^\s*](?:[^*]*[^\s*])?)\*(?![\w*])", r"\1"),
        ("|", r"(?<![\w|])\|(\w[^|]*)\|(?![\w|])", r"\1"),
        ("_", r"(?<!\w)__?([A-Za-z][^_]*)__?(?!\w)", r"\1"),
        ("<", r"</?[a-zA-Z]+\s*/?>", ""),
        ("\\", r"\\([*_`|<>\"' ])", r"\1"),
        ("::", r":{2,}(?=\s|$)", ":"),
        ("*", r"^\*+(?=[A-Z])", ""),
        (" ", r"^(?:[#>]+|[-*+\u2022])\s+", ""),
        ("(", r"\(\s*\)", ""),
        (" ", r"\s+", " "),
        (" ", r"\s+([.,;:!?)])(?=\s|$)", r"\1"),
    )
)

_MARKUP_CHARACTER = re.compile(r"[`\[\]|*_<\\#()]|::|\s\s|\s[.,;:!?)]|^[>+-]")
_FINAL = (".", ":", "!", "?", ";")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]*[A-Z0-9])")
_ABBREVIATION = re.compile(
    r"(?:\b(?i:e\.g|i\.e|etc|vs|cf|fig|figs|eq|eqs|no|al|approx|resp|dr|mr|mrs"
    r"|st|ref|refs|sec|ch|pp|vol|ed|eds|viz|ca|incl|min|max|dept|prof|dim|dims"
    r"|w\.r\.t|a\.k\.a|i\.i\.d)|\b[A-Z])\.$"
)
# What a dropped code block or link leaves behind.
_UNFINISHED = re.compile(
    r"(?:\b(?:a|an|and|are|as|at|be|by|for|from|in|is|of|on|or|see|than|that|the"
    r"|to|with|where|which|e\.g\.|i\.e\.)|[,(]|\b(?:in|of|see|to) *\.)$"
)
_WORD = re.compile(r"[A-Za-z]+(?:['\u2019-][A-Za-z]+)*")
# Addresses, citations, notes to oneself; compared in lower case.
_FORBIDDEN_TEXT = (
    *("http:", "https:", "ftp:", "www.", "arxiv", "doi:", "doi.org"),
    *(" et al", "isbn", "todo", "fixme"),
)
# Placeholders, mathematics, code, quoted titles, other scripts.
_FORBIDDEN = re.compile(
    r"%\(\w*\)|%[sdr](?!\w)|\{\{?\w*\}?\}|\$\{|<\w+=|\\|\$.*\$|\^\{|_\{|\w@\w"
    r"|[=<>]{2}|->|(?:^|[\s(]):\w+:|^\".*\"\W*$|\w\(\w+=| = "
    r"|[\u0400-\U0010ffff]"
)
_NOT_LETTER = re.compile(r"[^A-Za-z ]+")
_CODE_TOKEN = re.compile(r"[_=(){}\[\]<>/\\|@#$%^&*~+]|\w\.\w|\d|[a-z][A-Z]")
_COMMON = """
a an and are as at be been but by can do does each for from has have how if in
into is it its may more must no not of on only or other same should so some
such than that the their then there these this to two used was we when where
which will with without you
"""
_COMMON_WORDS = set(_COMMON.split())


def clean_docstring(docstring: str) -> list[str]:
    """Returns the prose of a docstring, one sentence per item.

    Code, doctests, tables, signatures, parameter headers, references and
    licences go; the words that describe parameters and results stay.
    """
    lines = inspect.cleandoc(docstring).translate(_TYPOGRAPHY).split("\n")
    return [
        sentence
        for paragraph in _join_paragraphs(_drop_headers(_drop_blocks(lines)))
        if not _LEGAL.search(paragraph)
        for sentence in split_sentences(_strip_inline_markup(paragraph))
        if is_prose(sentence)
    ]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _drop_blocks(lines: Sequence[str]) -> list[str]:
    """Blanks out code, doctests, directives and tables."""
    kept = []
    fence = None
    # Lines indented deeper than this belong to a block that is dropped.
    block_indent = None
    until_blank = False
    for line in lines:
        stripped = line.strip()
        kept.append("")  # Unless it turns out to be prose.
        if fence:
            if stripped.startswith(fence):
                fence = None
            continue
        if match := _FENCE.match(line):
            opening = match.group(1)
            if opening not in stripped[len(opening) :]:
                fence = opening
            continue
        if not stripped:
            until_blank = False
            continue
        if block_indent is not None:
            if _indent(line) > block_indent:
                continue
            block_indent = None
        if until_blank:
            continue
        if match := _DIRECTIVE.match(line):
            name, text = match.group(1).lower(), match.group(2)
            if name in _PROSE_DIRECTIVES:
                kept.append(" " * _indent(line) + text)
            else:
                block_indent = _indent(line)
        elif _EXPLICIT_MARKUP.match(line):  # Footnotes, targets, comments.
            block_indent = _indent(line)
        elif _PROMPT.match(line) or _COLUMN_RULER.match(line):
            until_blank = True
        elif stripped.endswith("::"):
            block_indent = _indent(line)
            kept[-1] = line.rstrip()[:-1]
        else:
            is_row = _TABLE_ROW.search(line) and line.count("|") > 2
            if not (is_row or _COLUMNS.search(stripped)):
                kept[-1] = line
    return kept


def _drop_headers(lines: Sequence[str]) -> list[str]:
    """Drops headings, whole reference sections and parameter headers."""
    kept: list[str] = []
    section, section_indent, underlined = "", 0, False
    for line, following in itertools.zip_longest(
        lines, lines[1:], fillvalue=""
    ):
        kept.append("")  # Unless it turns out to be prose.
        if not line.strip() or _RULER.match(line):
            continue
        match = _SECTION.match(line)
        if _UNDERLINE.match(following):
            section, section_indent = line.strip().lower(), _indent(line)
            underlined = True
        elif match and (match.group(2) or line.lstrip()[0] in "#*"):
            section, section_indent = match.group(1).lower(), _indent(line)
            underlined = False
        else:
            # "Reference:" is often followed by bullets at its own indent.
            is_outside = _indent(line) <= section_indent and not underlined
            if is_outside and not _BULLET.match(line):
                section = ""
            if not _DROPPED_SECTIONS.match(section):
                in_entries = bool(_ENTRY_SECTIONS.match(section))
                kept[-1:] = _strip_entry(
                    line, following, in_entries, underlined
                )
    return kept


def _strip_entry(
    line: str, following: str, in_entries: bool, underlined: bool
) -> list[str]:
    """Returns what prose one line of an entry holds, as zero to two lines."""
    if match := _FIELD.match(line):
        name = (match.group("name") or match.group("at")).lower()
        if name in ("type", "rtype", "ivar", "vartype"):
            return [""]
        return ["", match.group("text") or ""]
    bullet = _BULLET.match(line)
    body = line[bullet.end() :] if bullet else line
    if match := _TYPED_HEADER.match(body):
        rest = body[match.end() :].strip()
        if bullet:
            return ["", rest]
        if in_entries or not rest or _TYPE.match(rest):
            return [""]
    indented_next = _indent(following) > _indent(line)
    # numpydoc: a name or a type, then the description, indented.
    is_header = in_entries and underlined and indented_next and not bullet
    if is_header and not line.rstrip().endswith((".", ",")):
        return [""]
    if (in_entries or bullet) and (match := _ENTRY.match(body)):
        text = match.group("text") or ""
        if indented_next and _TYPE.match(text) and "optional" in text:
            text = ""
        return ["", text]
    if bullet:
        return ["", body]
    return [line]


def _join_paragraphs(lines: Iterable[str]) -> Iterator[str]:
    """Yields paragraphs: runs of lines that look like prose."""
    paragraph: list[str] = []
    indent = 0
    for line in [*lines, ""]:
        # Within a sentence, a line that looks like code is wrapped prose:
        # "...\nreturn a sliced object". Where it is code, `is_prose` drops the
        # sentence, which would be worth nothing with a hole in it.
        in_sentence = paragraph and not paragraph[-1].endswith(_FINAL)
        is_code = not in_sentence and (
            _CODE.match(line) or _SIGNATURE.match(line)
        )
        starts_new = not line.strip() or is_code or _indent(line) < indent
        if starts_new and paragraph:
            yield " ".join(paragraph)
            paragraph = []
        if line.strip() and not is_code:
            indent = _indent(line)
            paragraph.append(line.strip())


def _strip_inline_markup(text: str) -> str:
    if not _MARKUP_CHARACTER.search(text):
        return text
    for needle, pattern, replacement in _INLINE:
        if needle in text:
            text = pattern.sub(replacement, text)
    return text.strip()


def split_sentences(text: str) -> list[str]:
    """Splits after . ! ? before a capital or digit, unless abbreviated."""
    sentences: list[str] = []
    start = 0
    for match in _SENTENCE_END.finditer(text):
        if _ABBREVIATION.search(text, start, match.start()):
            continue
        sentences.append(text[start : match.end()].strip())
        start = match.end()
    sentences.append(text[start:].strip())
    return [sentence for sentence in sentences if sentence]


def is_prose(sentence: str) -> bool:
    """Tells whether a line reads as English rather than as code or a list."""
    words = _WORD.findall(sentence)
    if not MIN_SENTENCE_WORDS <= len(words) <= MAX_SENTENCE_WORDS:
        return False
    lowered = sentence.lower()
    if any(text in lowered for text in _FORBIDDEN_TEXT):
        return False
    if _FORBIDDEN.search(sentence) or _UNFINISHED.search(sentence[-10:]):
        return False
    if len(words) <= 4 and sentence.endswith(":"):  # "For example:"
        return False
    num_letters = len(_NOT_LETTER.sub("", sentence))
    if num_letters < 0.85 * len(sentence):
        return False
    if _CODE_TOKEN.search(sentence):
        tokens = [token.strip("(),.;:'\"[]") for token in sentence.split()]
        num_code = sum(bool(_CODE_TOKEN.search(token)) for token in tokens)
        if num_code > 0.34 * len(tokens):
            return False
    common = sum(word.lower() in _COMMON_WORDS for word in words)
    if len(words) >= 6:
        return common >= max(1, len(words) // 12)
    return common > 0 or sentence.endswith((".", "!", "?"))
