"""Builds a corpus of English prose from the docstrings of installed packages.

No data set ships with electra_tf, so the quickstart pre-trains on text that
every installation has: the docstrings of the standard library and of the
packages in site-packages. Files are parsed with `ast`, never imported.

    python tools/quickstart/build_docstring_corpus.py \\
        --output_dir=build/quickstart/corpus

writes

    train/*.txt, heldout/*.txt   one sentence per line, a blank line after each
                                 document (one docstring, or one module with
                                 --document=module)
    labelled/{train,dev,test}.tsv   text<TAB>label: which library is described
    manifest.json                flags, versions, counts, what was dropped

The path of a text is: find_files -> extract_docstrings -> clean_docstring ->
drop_repeats -> split by module -> write. Two rules keep the splits honest:

* A module (one file) is train or held-out by a hash of its path and the seed.
  Held-out modules are divided into dev and test in the same way.
* A document whose sentences repeat those of an earlier document is dropped, in
  either split. A held-out sentence of at least MIN_SHARED_WORDS words that also
  occurs in train is dropped from held-out; for test, one that occurs in dev as
  well. Comparison ignores case and white space.

The same seed and the same installation give the same text, byte for byte,
whatever --num_processes. Only the seconds in manifest.json differ.
"""

import argparse
import ast
import collections
import dataclasses
import gc
import hashlib
import importlib.metadata
import inspect
import json
import multiprocessing
import os
import pathlib
import platform
import re
import shutil
import signal
import sys
import sysconfig
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence

TOOL = "build_docstring_corpus"

STANDARD_LIBRARY = "python"
OUTPUT_NAMES = ("train", "heldout", "labelled", "manifest.json")

# Copies of other packages, re-exports and tests: no prose of their own.
_COPIES = "_api _vendor _vendored extern externals third_party vendor vendored"
_OTHERS = "__pycache__ dist-packages idle_test lib2to3 site-packages"
SKIPPED_DIRS = {*_COPIES.split(), *_OTHERS.split(), "test", "tests", "testing"}
SKIPPED_PACKAGES = frozenset(["electra_tf"])

MAX_FILE_BYTES = 2_000_000
MAX_FILE_CHARACTERS = 300_000  # Of clean prose; the rest of a file is dropped.
MIN_DOCSTRING_CHARACTERS = 40
MIN_DOCUMENT_WORDS = 8
MIN_SENTENCE_WORDS = 3
MAX_SENTENCE_WORDS = 100
MAX_SENTENCE_REPEATS = 3
MIN_SHARED_WORDS = 6
LABELLED_WORDS = (20, 60)
MAX_LABEL_SHARE = 1.5  # Of an even share, where other labels fall short.

# label: packages whose documents carry it.
LABELS = {
    "python": ("python",),
    "tensorflow": ("tensorflow",),
    "numpy": ("numpy",),
    "scipy": ("scipy",),
    "pandas": ("pandas",),
    "sklearn": ("sklearn",),
    "keras": ("keras", "keras_hub", "tf_keras"),
    "matplotlib": ("matplotlib", "mpl_toolkits"),
}
# TensorFlow carries an old copy of Keras; it would be labelled twice.
UNLABELLED_PATHS = re.compile(r"^tensorflow/python/(keras|tools/api)/")
MASK = "library"


class CorpusError(Exception):
    """A mistake that the user can mend; its text is one clear line."""


# --- Cleaning: docstring -> sentences --------------------------------------

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
    lines = _drop_blocks(lines)
    lines = _drop_headers(lines)
    sentences: list[str] = []
    for paragraph in _join_paragraphs(lines):
        if _LEGAL.search(paragraph):
            continue
        sentences.extend(
            sentence
            for sentence in split_sentences(_strip_inline_markup(paragraph))
            if is_prose(sentence)
        )
    return sentences


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
        if fence:
            if stripped.startswith(fence):
                fence = None
            kept.append("")
            continue
        if match := _FENCE.match(line):
            opening = match.group(1)
            if opening not in stripped[len(opening) :]:
                fence = opening
            kept.append("")
            continue
        if not stripped:
            until_blank = False
            kept.append("")
            continue
        if block_indent is not None:
            if _indent(line) > block_indent:
                kept.append("")
                continue
            block_indent = None
        if until_blank:
            kept.append("")
            continue
        if match := _DIRECTIVE.match(line):
            name, text = match.group(1).lower(), match.group(2)
            if name in _PROSE_DIRECTIVES:
                kept.extend(["", " " * _indent(line) + text])
            else:
                block_indent = _indent(line)
                kept.append("")
            continue
        if _EXPLICIT_MARKUP.match(line):  # Footnotes, targets, comments.
            block_indent = _indent(line)
            kept.append("")
            continue
        if _PROMPT.match(line) or _COLUMN_RULER.match(line):
            until_blank = True
            kept.append("")
            continue
        if stripped.endswith("::"):
            block_indent = _indent(line)
            kept.append(line.rstrip()[:-1])
            continue
        is_row = _TABLE_ROW.search(line) and line.count("|") > 2
        if is_row or _COLUMNS.search(stripped):
            kept.append("")
            continue
        kept.append(line)
    return kept


def _drop_headers(lines: Sequence[str]) -> list[str]:
    """Drops headings, whole reference sections and parameter headers."""
    kept = []
    section, section_indent, underlined = "", 0, False
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if not line.strip():
            kept.append("")
            continue
        if _RULER.match(line):
            kept.append("")
            continue
        if _UNDERLINE.match(following):
            section, section_indent = line.strip().lower(), _indent(line)
            underlined = True
            kept.append("")
            continue
        match = _SECTION.match(line)
        if match and (match.group(2) or line.lstrip()[0] in "#*"):
            section, section_indent = match.group(1).lower(), _indent(line)
            underlined = False
            kept.append("")
            continue
        # "Reference:" is often followed by bullets at its own indent.
        is_outside = _indent(line) <= section_indent and not underlined
        if is_outside and not _BULLET.match(line):
            section = ""
        if section and _DROPPED_SECTIONS.match(section):
            kept.append("")
            continue
        in_entries = bool(section and _ENTRY_SECTIONS.match(section))
        kept.extend(_strip_entry(line, following, in_entries, underlined))
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


# --- Reading files ----------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class SourceFile:
    """A Python file; `module` is its path inside its package's parent."""

    package: str
    module: str  # "scipy/stats/_qmc.py", "python/argparse.py"
    path: str
    num_bytes: int


@dataclasses.dataclass(frozen=True)
class FileProse:
    """The clean documents of one file, or why there are none."""

    documents: tuple[tuple[str, ...], ...] = ()
    num_docstrings: int = 0
    problem: str = ""  # "", "no_docstring", "too_large" or "unreadable"
    num_over_file_cap: int = 0


_DOCUMENTED = (
    ast.Module,
    ast.ClassDef,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
)


def extract_docstrings(tree: ast.Module) -> Iterator[str]:
    """Yields docstrings in the order of the source.

    NumPy and SciPy document compiled functions by calls of `add_newdoc`; their
    strings count as docstrings.
    """
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, _DOCUMENTED):
            if docstring := ast.get_docstring(node, clean=False):
                yield docstring
        elif isinstance(node, ast.Expr):
            yield from _add_newdoc_strings(node.value)
            continue
        for field in ("finalbody", "handlers", "orelse", "body"):
            children = getattr(node, field, None)
            if isinstance(children, list):
                stack.extend(reversed(children))


def _add_newdoc_strings(node: ast.AST) -> Iterator[str]:
    if not isinstance(node, ast.Call):
        return
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    if not name.startswith("add_newdoc"):
        return
    for argument in node.args:
        for part in ast.walk(argument):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield part.value


def read_file(source: SourceFile) -> FileProse:
    """Parses and cleans one file; a broken file is reported, never fatal."""
    if source.num_bytes > MAX_FILE_BYTES:
        return FileProse(problem="too_large")
    try:
        content = pathlib.Path(source.path).read_bytes()
        if b'"""' not in content and b"'''" not in content:
            return FileProse(problem="no_docstring")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Invalid escapes in old code.
            tree = ast.parse(content)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return FileProse(problem="unreadable")
    documents = []
    num_docstrings = num_characters = num_over_cap = 0
    for docstring in extract_docstrings(tree):
        if len(docstring) < MIN_DOCSTRING_CHARACTERS:
            continue
        num_docstrings += 1
        if num_characters > MAX_FILE_CHARACTERS:
            num_over_cap += 1
            continue
        sentences = clean_docstring(docstring)
        num_characters += sum(map(len, sentences))
        documents.append(tuple(sentences))
    return FileProse(tuple(documents), num_docstrings, "", num_over_cap)


def find_files(
    roots: Sequence[str], stdlib_root: str | None, packages: Sequence[str]
) -> list[SourceFile]:
    """Lists the Python files of packages, sorted by module path.

    Args:
      roots: site-packages directories; the first that has a package wins.
      stdlib_root: Directory of the standard library, named "python"; or None.
      packages: Names to read; empty for all.

    Raises:
      CorpusError: If a package is not installed.
    """
    places: dict[str, str] = {}
    if stdlib_root:
        places[STANDARD_LIBRARY] = stdlib_root
    for root in roots:
        try:
            entries = sorted(os.scandir(root), key=lambda entry: entry.name)
        except OSError as error:
            raise CorpusError(
                f"Cannot read {root}: {error.strerror}."
            ) from None
        for entry in entries:
            name = entry.name.removesuffix(".py")
            is_module = entry.is_dir() or entry.name.endswith(".py")
            if is_module and name.isidentifier():
                places.setdefault(name, entry.path)
    for name in SKIPPED_DIRS | SKIPPED_PACKAGES:
        places.pop(name, None)
    if missing := sorted(set(packages) - set(places)):
        raise CorpusError(
            f"--packages: not installed under {', '.join(roots)}: "
            f"{', '.join(missing)}."
        )
    files = [
        file
        for name in (packages or places)
        for file in _walk_package(name, places[name])
    ]
    return sorted(files, key=lambda file: file.module)


def _walk_package(package: str, place: str) -> Iterator[SourceFile]:
    if place.endswith(".py"):
        size = os.path.getsize(place)
        yield SourceFile(package, package + ".py", place, size)
        return
    for directory, subdirs, names in os.walk(place):
        subdirs[:] = [name for name in subdirs if name not in SKIPPED_DIRS]
        for name in names:
            if not name.endswith(".py"):
                continue
            if name.startswith("test_") or name.endswith("_test.py"):
                continue
            path = os.path.join(directory, name)
            relative = pathlib.Path(os.path.relpath(path, place)).as_posix()
            try:
                size = os.path.getsize(path)
            except OSError:  # A dangling link.
                continue
            yield SourceFile(package, f"{package}/{relative}", path, size)


def _start_worker() -> None:
    # Without the collector `ast.parse` takes half the time; trees hold no
    # cycles, so that nothing is lost.
    gc.disable()
    # Ctrl-C is the parent's to handle, or each worker prints a traceback.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def read_files(
    files: Sequence[SourceFile], num_processes: int
) -> Iterator[FileProse]:
    """Yields the prose of each file, in the order of `files`."""
    if num_processes == 1:
        yield from map(read_file, files)
        return
    with multiprocessing.Pool(num_processes, initializer=_start_worker) as pool:
        yield from pool.imap(read_file, files, chunksize=8)


def package_versions(
    roots: Sequence[str], packages: Iterable[str]
) -> dict[str, str]:
    """Returns the installed version of each package, "" where unknown."""
    versions: dict[str, str] = {}
    for distribution in importlib.metadata.distributions(path=list(roots)):
        top_level = distribution.read_text("top_level.txt")
        if top_level is None:
            record = distribution.read_text("RECORD") or ""
            names = {re.split(r"[/,]", row)[0] for row in record.split("\n")}
        else:
            names = set(top_level.split())
        for name in sorted(names):
            versions.setdefault(name.removesuffix(".py"), distribution.version)
    versions[STANDARD_LIBRARY] = platform.python_version()
    return {name: versions.get(name, "") for name in sorted(packages)}


# --- Splits and repeats -----------------------------------------------------


def stable_hash(seed: int, *parts: str) -> float:
    """Returns a number in [0, 1) that depends on its arguments alone."""
    text = "\0".join([str(seed), *parts])
    data = text.encode("utf-8", "backslashreplace")
    digest = hashlib.blake2b(data, digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def split_of_module(module: str, seed: int, heldout_fraction: float) -> str:
    """Returns "train", "dev" or "test"; the last two are held out, 1 to 2."""
    if stable_hash(seed, "split", module) >= heldout_fraction:
        return "train"
    return "dev" if stable_hash(seed, "dev", module) < 1 / 3 else "test"


def normalise(text: str) -> str:
    return " ".join(text.lower().split())


@dataclasses.dataclass
class Document:
    module: str
    package: str
    split: str
    sentences: list[str]

    def num_words(self) -> int:
        return sum(len(line.split()) for line in self.sentences)

    def num_characters(self) -> int:
        return sum(len(line) + 1 for line in self.sentences)


def drop_repeats(
    documents: Iterable[Document], dropped: collections.Counter
) -> list[Document]:
    """Drops repeated documents and sentences; see the head of this file.

    Train comes first, then dev, then test, so that what a later split shares
    with an earlier one is dropped from the later one.
    """
    order = {"train": 0, "dev": 1, "test": 2}
    ordered = sorted(documents, key=lambda document: order[document.split])
    kept = []
    seen_documents = set()
    num_seen: collections.Counter = collections.Counter()
    splits_seen: dict[str, str] = {}
    for document in ordered:
        if document.num_words() < MIN_DOCUMENT_WORDS:
            dropped["documents_too_short"] += 1
            continue
        keys = [normalise(sentence) for sentence in document.sentences]
        whole = "\n".join(keys)
        if whole in seen_documents:
            dropped["documents_repeated"] += 1
            continue
        seen_documents.add(whole)
        sentences = []
        for key, sentence in zip(keys, document.sentences, strict=True):
            first_split = splits_seen.setdefault(key, document.split)
            is_long = len(key.split()) >= MIN_SHARED_WORDS
            if is_long and first_split != document.split:
                dropped["sentences_shared_with_earlier_split"] += 1
                continue
            num_seen[key] += 1
            if num_seen[key] > MAX_SENTENCE_REPEATS:
                dropped["sentences_repeated"] += 1
                continue
            sentences.append(sentence)
        remaining = dataclasses.replace(document, sentences=sentences)
        if remaining.num_words() < MIN_DOCUMENT_WORDS:
            dropped["documents_too_short_without_repeats"] += 1
            continue
        kept.append(remaining)
    return kept


def limit_size(
    documents: Sequence[Document],
    max_characters: float,
    seed: int,
    dropped: collections.Counter,
) -> list[Document]:
    """Keeps whole modules, in an order drawn by hash, up to a size."""
    sizes: collections.Counter = collections.Counter()
    for document in documents:
        sizes[document.module] += document.num_characters()
    kept = set()
    total = 0
    for module in sorted(sizes, key=lambda name: stable_hash(seed, name)):
        total += sizes[module]
        if total > max_characters:
            break
        kept.add(module)
    dropped["documents_over_max_megabytes"] += sum(
        document.module not in kept for document in documents
    )
    return [document for document in documents if document.module in kept]


# --- The labelled task --------------------------------------------------------

_NAMES = "tensorflow|numpy|scipy|pandas|sklearn|keras|matplotlib|python|pyplot"
_ALIASES = "tf|np|pd|plt|mpl|sp|stdlib|pylab"
_ANY_NAME = re.compile(
    rf"{_NAMES}|scikit|standard library|\b\w*_(?:{_ALIASES})"
    rf"|(?<![A-Za-z0-9])(?:{_ALIASES})",
    re.IGNORECASE,
)
# "tf.data.Dataset" -> "Dataset": the path says which library it is.
_MODULE_PATH = re.compile(
    rf"(?<![\w.])(?:\w*(?:{_NAMES})\w*|{_ALIASES})(?:\.\w+)*\.(?=[A-Za-z_])",
    re.IGNORECASE,
)
_LIBRARY_NAME = re.compile(
    r"\b\w*scikits?(?:[-_ ]?learn)?\w*|\bstandard library\b"
    rf"|\w*(?:{_NAMES})\w*"
    rf"|(?<![A-Za-z0-9])(?:\w*_)?(?:{_ALIASES})\d?(?:_\w*)?(?![A-Za-z0-9])",
    re.IGNORECASE,
)
_TF_IDF = re.compile(r"\btf[-_ *x]+idf\b", re.IGNORECASE)  # Not TensorFlow.
_TF_COMPOUND = re.compile(
    r"\b(?:TF|Tf|tf)(?=[A-Z])\w*|\btf(?:lite|record|hub|2)\w*|\b\w+2tf\b"
)


def mask_library_names(text: str) -> str:
    """Replaces the name of every label, wherever it occurs, by "library".

    All names are masked in all texts, not only a text's own: otherwise the name
    of one library would rule that library out.
    """
    if not _ANY_NAME.search(text):
        return " ".join(text.replace('"', "").split())
    text = _TF_IDF.sub("tfidf", text)
    text = _MODULE_PATH.sub("", text)
    text = _TF_COMPOUND.sub(MASK, text)
    text = _LIBRARY_NAME.sub(MASK, text)
    text = re.sub(rf"\b{MASK}(?:[\s/.-]+{MASK}\b)+", MASK, text)
    return " ".join(text.replace('"', "").split())


def labelled_texts(document: Document) -> Iterator[str]:
    """Yields runs of whole sentences, each of 20 to 60 words."""
    shortest, longest = LABELLED_WORDS
    run: list[str] = []
    num_words = 0
    for sentence in document.sentences:
        masked = mask_library_names(sentence)
        if not masked.endswith((".", "!", "?", ":", ";")):
            masked += "."
        length = len(masked.split())
        if num_words + length > longest:
            if num_words >= shortest:
                yield " ".join(run)
            run, num_words = [], 0
        if length <= longest:
            run.append(masked)
            num_words += length
    if num_words >= shortest:
        yield " ".join(run)


def build_labelled(
    documents: Sequence[Document],
    labels: Sequence[str],
    sizes: dict[str, int],
    seed: int,
) -> dict[str, list[tuple[str, str]]]:
    """Returns (text, label) rows per split, as balanced as the data allow.

    First texts of docstrings are drawn before later ones, and in rounds, one
    per module and round, so that no module rules a label.
    """
    label_of = {package: label for label in labels for package in LABELS[label]}
    # (split, label) -> (module, position in docstring) -> [(hash, text)]
    texts_per_module: dict = collections.defaultdict(
        lambda: collections.defaultdict(list)
    )
    # (split, label) -> [(position, round, hash, text)]
    pools: dict = collections.defaultdict(list)
    seen = set()
    for document in documents:
        label = label_of.get(document.package)
        if label is None or UNLABELLED_PATHS.match(document.module):
            continue
        for position, text in enumerate(labelled_texts(document)):
            if normalise(text) in seen:
                continue
            seen.add(normalise(text))
            draw = stable_hash(seed, "row", text)
            texts = texts_per_module[document.split, label]
            texts[document.module, position].append((draw, text))
    for key, modules in texts_per_module.items():
        for (_, position), texts in modules.items():
            for turn, (draw, text) in enumerate(sorted(texts)):
                pools[key].append((position, turn, draw, text))
        pools[key].sort()
    splits = {}
    for split, size in sizes.items():
        counts = _quotas({x: len(pools[split, x]) for x in labels}, size)
        rows = [
            (text, label)
            for label, count in counts.items()
            for *_, text in pools[split, label][:count]
        ]
        rows.sort(key=lambda row: stable_hash(seed, "order", *row))
        splits[split] = rows
    return splits


def _quotas(available: dict[str, int], size: int) -> dict[str, int]:
    """Shares `size` among labels; what one cannot fill goes to the others."""
    quotas = {}
    remaining = size
    most = MAX_LABEL_SHARE * size / max(1, len(available))
    by_scarcity = sorted(available, key=lambda label: (available[label], label))
    for number, label in enumerate(by_scarcity):
        share = remaining // (len(by_scarcity) - number)
        quotas[label] = min(share, available[label], int(most))
        remaining -= quotas[label]
    return quotas


# --- Writing ------------------------------------------------------------------


def write_documents(
    documents: Sequence[Document],
    directory: pathlib.Path,
    num_files: int,
    seed: int,
    document_unit: str,
) -> None:
    """Writes modules, in an order drawn by hash, to files of equal size."""
    modules: dict[str, list[Document]] = collections.defaultdict(list)
    for document in documents:
        modules[document.module].append(document)
    directory.mkdir(parents=True)
    shards: list[list[str]] = [[] for _ in range(num_files)]
    sizes = [0] * num_files
    order = sorted(modules, key=lambda name: stable_hash(seed, "file", name))
    for module in order:
        shard = sizes.index(min(sizes))
        blocks = ["\n".join(d.sentences) + "\n" for d in modules[module]]
        text = ("" if document_unit == "module" else "\n").join(blocks) + "\n"
        shards[shard].append(text)
        sizes[shard] += len(text)
    for number, texts in enumerate(shards):
        name = f"{number:02d}-of-{num_files:02d}.txt"
        _write(directory / name, "".join(texts))


def write_labelled(
    splits: dict[str, list[tuple[str, str]]], directory: pathlib.Path
) -> None:
    directory.mkdir(parents=True)
    for split, rows in splits.items():
        lines = ["text\tlabel", *(f"{text}\t{label}" for text, label in rows)]
        _write(directory / f"{split}.tsv", "\n".join(lines) + "\n")


def _write(path: pathlib.Path, text: str) -> None:
    path.write_bytes(text.encode("utf-8"))


def check_output_dir(output_dir: pathlib.Path) -> dict | None:
    """Returns the manifest of an earlier run, or None for a fresh directory.

    Raises:
      CorpusError: If the directory holds anything that this tool did not write.
    """
    if not output_dir.exists():
        return None
    if not output_dir.is_dir():
        raise CorpusError(f"--output_dir is not a directory: {output_dir}")
    names = sorted(path.name for path in output_dir.iterdir())
    if not names:
        return None
    foreign = [name for name in names if name not in OUTPUT_NAMES]
    manifest = None
    if not foreign:
        try:
            text = (output_dir / "manifest.json").read_text("utf-8")
            manifest = json.loads(text)
        except (OSError, ValueError):
            manifest = None
    if not isinstance(manifest, dict) or manifest.get("tool") != TOOL:
        found = (foreign or names)[0]
        raise CorpusError(
            f"--output_dir holds files that this tool did not write: {found!r} "
            f"in {output_dir}. Choose another directory or empty it."
        )
    return manifest


def replace_directory(new: pathlib.Path, output_dir: pathlib.Path) -> None:
    old = output_dir.with_name(f"{output_dir.name}.old-{os.getpid()}")
    if output_dir.exists():
        output_dir.rename(old)
    try:
        new.rename(output_dir)
    except OSError:
        if old.exists():
            old.rename(output_dir)
        raise
    shutil.rmtree(old, ignore_errors=True)


class Progress:
    """One live line on a terminal, otherwise a line every few seconds."""

    def __init__(self, total: int, stream=None, seconds_per_line: float = 5.0):
        self.total = max(1, total)
        self.stream = stream or sys.stderr
        self.live = self.stream.isatty()
        self.interval = 0.2 if self.live else seconds_per_line
        self.start = self.last = time.monotonic()

    def update(self, done: int, note: str) -> None:
        now = time.monotonic()
        if now - self.last < self.interval and done < self.total:
            return
        self.last = now
        elapsed = now - self.start
        eta = elapsed * (self.total - done) / max(1, done)
        line = (
            f"reading {done / self.total:4.0%}  {elapsed:3.0f} s, "
            f"{eta:3.0f} s left  {note}"
        )
        if self.live:
            print(f"\r{line[:79]:<79}", end="", file=self.stream, flush=True)
        else:
            print(line, file=self.stream, flush=True)

    def close(self) -> None:
        if self.live:
            print(file=self.stream, flush=True)


# --- Command ------------------------------------------------------------------


def build_corpus(args: argparse.Namespace) -> dict:
    """Builds the corpus that the flags describe and returns its manifest.

    Raises:
      CorpusError: On any mistake that the user can mend.
    """
    start = time.monotonic()
    output_dir = pathlib.Path(args.output_dir).absolute()
    roots, stdlib_root = _roots(args)
    earlier = check_output_dir(output_dir)
    files = find_files(roots, stdlib_root, args.packages)
    packages = sorted({file.package for file in files})
    identity = {
        "tool": TOOL,
        "tool_hash": hashlib.blake2b(
            pathlib.Path(__file__).read_bytes(), digest_size=8
        ).hexdigest(),
        "python": platform.python_version(),
        "flags": _identifying_flags(args),
        "versions": package_versions(roots, packages),
    }
    if earlier and all(earlier.get(k) == v for k, v in identity.items()):
        print(
            f"{output_dir} is up to date: same tool, flags and package "
            "versions; nothing done.",
            file=sys.stderr,
        )
        return earlier
    temporary = output_dir.with_name(f"{output_dir.name}.tmp-{os.getpid()}")
    try:
        output_dir.parent.mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
    except OSError as error:
        raise CorpusError(
            f"--output_dir cannot be written: {output_dir}: {error.strerror}."
        ) from None
    try:
        manifest = _build_into(temporary, files, args, identity)
        manifest["seconds"] = round(time.monotonic() - start, 1)
        text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
        _write(temporary / "manifest.json", text)
        replace_directory(temporary, output_dir)
    except OSError as error:
        raise CorpusError(
            f"--output_dir cannot be written: {output_dir}: {error.strerror}."
        ) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return manifest


def _build_into(
    directory: pathlib.Path,
    files: Sequence[SourceFile],
    args: argparse.Namespace,
    identity: dict,
) -> dict:
    dropped: collections.Counter = collections.Counter()
    documents = _read_documents(files, args, dropped)
    documents = drop_repeats(documents, dropped)
    if args.max_megabytes:
        limit = args.max_megabytes * 1e6
        documents = limit_size(documents, limit, args.seed, dropped)
    train = [d for d in documents if d.split == "train"]
    heldout = [d for d in documents if d.split != "train"]
    for name, part in (("train", train), ("held-out", heldout)):
        if not part:
            raise CorpusError(
                f"No {name} prose found in {len(files)} files of "
                f"{len(identity['versions'])} packages; name more --packages, "
                "or change --max_megabytes or --heldout_fraction."
            )
    for name, part, num_files in (
        ("train", train, args.num_train_files),
        ("heldout", heldout, args.num_heldout_files),
    ):
        path = directory / name
        write_documents(part, path, num_files, args.seed, args.document)
    sizes = {
        "train": args.labelled_train_size,
        "dev": args.labelled_dev_size,
        "test": args.labelled_test_size,
    }
    present = {document.package for document in documents}
    labels = [x for x in args.labels if present.intersection(LABELS[x])]
    rows = build_labelled(documents, labels, sizes, args.seed)
    write_labelled(rows, directory / "labelled")
    return {
        **identity,
        "totals": _totals(train, heldout, files),
        "labelled": {
            split: dict(sorted(collections.Counter(x for _, x in part).items()))
            for split, part in rows.items()
        },
        "dropped": dict(sorted(dropped.items())),
        "packages": _package_totals(documents, files),
    }


def _read_documents(
    files: Sequence[SourceFile],
    args: argparse.Namespace,
    dropped: collections.Counter,
) -> list[Document]:
    documents = []
    progress = Progress(sum(file.num_bytes for file in files))
    num_bytes = num_files = 0
    for file, prose in zip(
        files, read_files(files, args.num_processes), strict=True
    ):
        num_bytes += file.num_bytes
        num_files += 1
        progress.update(num_bytes, f"{num_files} of {len(files)} files")
        if prose.problem:
            dropped[f"files_{prose.problem}"] += 1
        dropped["documents_over_file_cap"] += prose.num_over_file_cap
        split = split_of_module(file.module, args.seed, args.heldout_fraction)
        for sentences in prose.documents:
            if not sentences:
                dropped["documents_without_prose"] += 1
                continue
            documents.append(
                Document(file.module, file.package, split, list(sentences))
            )
    progress.close()
    return documents


def _totals(
    train: Sequence[Document],
    heldout: Sequence[Document],
    files: Sequence[SourceFile],
) -> dict:
    totals: dict = {"files": len(files)}
    for name, documents in (("train", train), ("heldout", heldout)):
        totals[name] = {
            "modules": len({document.module for document in documents}),
            "documents": len(documents),
            "sentences": sum(len(d.sentences) for d in documents),
            "words": sum(document.num_words() for document in documents),
            "characters": sum(d.num_characters() for d in documents),
        }
    return totals


def _package_totals(
    documents: Sequence[Document], files: Sequence[SourceFile]
) -> dict:
    packages = {
        name: {"files": count, "modules": 0, "documents": 0, "characters": 0}
        for name, count in sorted(
            collections.Counter(file.package for file in files).items()
        )
    }
    modules = collections.defaultdict(set)
    for document in documents:
        row = packages[document.package]
        modules[document.package].add(document.module)
        row["modules"] = len(modules[document.package])
        row["documents"] += 1
        row["characters"] += document.num_characters()
    return packages


def _roots(args: argparse.Namespace) -> tuple[list[str], str | None]:
    """Returns the directories of packages and of the standard library."""
    if args.root:
        return [args.root], args.stdlib_root
    paths = sysconfig.get_paths()
    candidates = [paths["purelib"], paths["platlib"], *sys.path]
    roots = [
        path
        for path in dict.fromkeys(candidates)
        if os.path.basename(path) in ("site-packages", "dist-packages")
        and os.path.isdir(path)
    ]
    return roots, args.stdlib_root or paths["stdlib"]


def _identifying_flags(args: argparse.Namespace) -> dict:
    """Flags that decide the bytes of the corpus."""
    others = ("output_dir", "num_processes")
    return {k: v for k, v in vars(args).items() if k not in others}


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def parse_flags(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Builds a corpus of English prose, split by module, from "
        "the docstrings of installed packages.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--output_dir", required=True, help="directory to write")
    add("--num_processes", type=int, default=2, help="files read at a time")
    add("--seed", type=int, default=0, help="seed of splits and order")
    add(
        "--packages",
        type=_names,
        default="",
        help="packages to read, with commas; python is the standard library; "
        "empty for all that are installed",
    )
    add(
        "--max_megabytes",
        type=float,
        default=0,
        help="most prose to keep, held-out included; 0 for no limit",
    )
    add(
        "--heldout_fraction",
        type=float,
        default=0.2,
        help="share of modules that are held out",
    )
    add(
        "--document",
        choices=["docstring", "module"],
        default="docstring",
        help="what a blank line closes; a module packs into longer examples",
    )
    add("--num_train_files", type=int, default=8, help="files in train/")
    add("--num_heldout_files", type=int, default=2, help="files in heldout/")
    add(
        "--labels",
        type=_names,
        default=",".join(LABELS),
        help="libraries to tell apart in labelled/",
    )
    add("--labelled_train_size", type=int, default=1600, help="rows")
    add("--labelled_dev_size", type=int, default=800, help="rows")
    add("--labelled_test_size", type=int, default=1600, help="rows")
    add(
        "--root",
        default="",
        help="directory of packages to read in place of site-packages; the "
        "standard library is then read only with --stdlib_root",
    )
    add("--stdlib_root", default="", help="directory of the standard library")
    args = parser.parse_args(argv)
    _check_flags(args)
    return args


def _check_flags(args: argparse.Namespace) -> None:
    for name in ("num_processes", "num_train_files", "num_heldout_files"):
        if getattr(args, name) < 1:
            raise CorpusError(
                f"--{name} must be at least 1. Received: {getattr(args, name)}"
            )
    for name in (
        "max_megabytes",
        "labelled_train_size",
        "labelled_dev_size",
        "labelled_test_size",
    ):
        if (value := getattr(args, name)) < 0:
            raise CorpusError(
                f"--{name} must not be negative. Received: {value}"
            )
    if not 0 < args.heldout_fraction < 1:
        raise CorpusError(
            "--heldout_fraction must lie between 0 and 1. "
            f"Received: {args.heldout_fraction}"
        )
    if unknown := sorted(set(args.labels) - set(LABELS)):
        raise CorpusError(
            f"--labels must be among {', '.join(LABELS)}. "
            f"Received: {', '.join(unknown)}"
        )
    for name in ("root", "stdlib_root"):
        if getattr(args, name) and not os.path.isdir(getattr(args, name)):
            raise CorpusError(
                f"--{name} is not a directory: {getattr(args, name)}"
            )


def main(argv: Sequence[str] | None = None) -> int:
    try:
        args = parse_flags(argv)
        manifest = build_corpus(args)
    except CorpusError as error:
        print(f"{TOOL}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{TOOL}: interrupted; nothing written.", file=sys.stderr)
        return 130
    for split in ("train", "heldout"):
        totals = manifest["totals"][split]
        print(
            f"{split}: {totals['characters'] / 1e6:.1f} MB, "
            f"{totals['documents']} documents of {totals['modules']} modules"
        )
    for split, counts in manifest["labelled"].items():
        print(f"labelled/{split}.tsv: {sum(counts.values())} rows")
    print(f"{args.output_dir}: {manifest['seconds']} s")
    return 0


if __name__ == "__main__":
    gc.disable()  # Nothing here is cyclic, and the collector costs seconds.
    sys.exit(main())
