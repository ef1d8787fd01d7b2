"""Texts that a person gives a command, and texts shown to one.

Imports no TensorFlow.
"""

import codecs
import os
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from electra_tf.command_line import arguments

_STDIN = "-"
# How a file begins that is none of lines of UTF-8.
_BEGINNINGS = {
    b"\x1f\x8b": "packed by gzip",
    b"\xfd7zXZ\x00": "packed by xz",
    b"\x28\xb5\x2f\xfd": "packed by zstd",
    b"BZh91AY&SY": "packed by bzip2",
    b"PK\x03\x04": "packed by zip",
    b"PAR1\x15": "of Parquet",
    codecs.BOM_UTF16_LE: "in UTF-16",
    codecs.BOM_UTF16_BE: "in UTF-16",
}
# Their lines are rows of several values.
_TABLES = (".csv", ".json", ".parquet")
_OBJECTS = (".jsonl", ".ndjson")
# They turn the direction of all that follows.
_DIRECTION_MARKS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


class Line(NamedTuple):
    """One text as it was given.

    Attributes:
      place: Where it was, for messages, such as "reviews.txt, line 3".
      content: Its bytes, without the end of the line. UTF-8 is expected, and
        not checked: the tokenizer skips what is not.
    """

    place: str
    content: bytes


def add_arguments(parser: arguments.ArgumentParser) -> None:
    """Adds the texts and --file to a command's arguments."""
    parser.add_argument("text", nargs="*", help="texts (default: --file)")
    parser.add_argument(
        "--file",
        help="a file with one text a line; - for standard input (default: "
        "standard input where no text is given)",
    )


def read_batches(
    texts: Sequence[str],
    path: str | None,
    batch_size: int,
    takes_objects: bool = False,
) -> Iterator[list[Line]]:
    """The texts that a command was given.

    A file is read as its lines are asked for, so it may be endless. A blank
    line is an empty text: answers and lines stay side by side.

    Args:
      texts: Of the command line.
      path: Of --file.
      batch_size: Lines in a batch; a person who types has each by itself, as
        they wait for its answer.
      takes_objects: Whether the lines of a .jsonl may be objects.

    Returns:
      The lines in order, in batches, none of them empty.

    Raises:
      ValueError: If both are given, or the file cannot be read or has no
        texts for its lines; of a later line, behind those before it.
    """
    reads_stdin = not texts and path in (None, _STDIN)
    if reads_stdin and sys.stdin is None:
        raise ValueError("Expected texts. Received: a closed standard input")
    if path is not None:
        _refuse_tables(path, takes_objects)
    lines = _read_lines(texts, path)
    if reads_stdin and sys.stdin.isatty():
        print("one text a line; Ctrl-D on an empty line ends", file=sys.stderr)
        batch_size = 1
    return _in_batches(lines, batch_size)


def has_objects(path: str | None) -> bool:
    """Whether a file has JSON objects on its lines, by its name."""
    return (path or "").lower().endswith(_OBJECTS)


def _in_batches(lines: Iterator[Line], batch_size: int) -> Iterator[list[Line]]:
    """Lines in batches; those before a line that is refused come first."""
    batch: list[Line] = []
    try:
        for line in lines:
            batch.append(line)
            if len(batch) == batch_size:
                yield batch
                batch = []
    except ValueError:
        if batch:
            yield batch
        raise
    if batch:
        yield batch


def _read_lines(texts: Sequence[str], path: str | None) -> Iterator[Line]:
    if texts and path is not None:
        raise ValueError(
            f"Expected texts or --file, not both. Received: {len(texts)} "
            f"text(s) and --file={path}"
        )
    if texts:
        return iter(
            # What the shell passed, byte for byte.
            Line(f"text {number}", os.fsencode(text))
            for number, text in enumerate(texts, start=1)
        )
    if path in (None, _STDIN):
        return _lines_of(sys.stdin.buffer, "standard input")
    assert path is not None
    if not os.path.exists(path):
        raise ValueError(
            f"Expected a file of texts. Received: --file={path}, which does "
            "not exist"
        )
    if os.path.isdir(path):
        raise ValueError(
            f"Expected a file of texts. Received: --file={path}, a folder"
        )
    return _lines_of_file(path)


def _refuse_tables(path: str, takes_objects: bool) -> None:
    ending = os.path.splitext(path)[1].lower()
    if ending in _TABLES or (ending in _OBJECTS and not takes_objects):
        also = ", or .jsonl" * takes_objects
        raise ValueError(
            f"Expected a file with one text a line{also}. Received: "
            f"--file={path}, whose name is that of another kind: write its "
            "texts into a .txt"
        )


def _refuse_no_text(line: bytes, name: str, number: int) -> None:
    found = None
    if number == 1:
        found = next(
            (
                kind
                for beginning, kind in _BEGINNINGS.items()
                if line.startswith(beginning)
            ),
            None,
        )
    if not found and b"\0" in line:
        found = f"line {number}, with NUL bytes"
    if found:
        raise ValueError(
            f"Expected lines of text in UTF-8. Received: {name}, {found}"
        )


def _lines_of_file(path: str) -> Iterator[Line]:
    with open(path, "rb") as reader:
        yield from _lines_of(reader, path)


def _lines_of(reader: Iterable[bytes], name: str) -> Iterator[Line]:
    is_said = False
    for number, line in enumerate(reader, start=1):
        _refuse_no_text(line, name, number)
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        if not is_said and not _is_utf8(line):
            is_said = True
            print(
                f"note: {name}, line {number}: not UTF-8, of which other bytes "
                "are left out; what the file is in, such as LATIN1 or CP949, "
                "becomes UTF-8 by iconv -f CP949 -t UTF-8",
                file=sys.stderr,
            )
        yield Line(f"{name}, line {number}", line)


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def decode(content: bytes) -> str:
    """Text to show; what is not UTF-8 becomes U+FFFD."""
    return content.decode("utf-8", errors="replace")


def printable(text: str) -> str:
    """A text that cannot command the terminal: no control characters."""
    return "".join(
        " "
        if character in "\t\n\r"
        else "\ufffd"
        if unicodedata.category(character) in ("Cc", "Cs")
        or character in _DIRECTION_MARKS
        else character
        for character in text
    )


def display_width(text: str) -> int:
    """Columns that a text takes on a terminal."""
    return sum(
        0
        if unicodedata.category(character) in ("Mn", "Me", "Cf")
        else 2
        if unicodedata.east_asian_width(character) in "WF"
        else 1
        for character in text
    )
