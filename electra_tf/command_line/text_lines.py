"""Texts that a person gives a command, and texts shown to one.

Imports no TensorFlow.
"""

import os
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple

from electra_tf import errors
from electra_tf.command_line import arguments

# Their lines are rows of several values.
_TABLES = (".csv", ".json", ".parquet")
OBJECTS = (".jsonl", ".ndjson")
# Categories of what commands a terminal; marks that turn its direction.
_CONTROL = ("Cc", "Cs")
_MARKS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


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
    line = "a file with one text a line; - for standard input (default: "
    line += "standard input where no text is given)"
    parser.add_values(str, file=line)


def read_batches(
    texts: Sequence[str],
    path: str | None,
    batch_size: int,
    parse: Callable[[int, Line], Any] | None = None,
) -> Iterator[list]:
    """The texts that a command was given.

    A file is read as its lines are asked for, so it may be endless. A blank
    line is an empty text: answers and lines stay side by side.

    Args:
      texts: Of the command line.
      path: Of --file.
      batch_size: Lines in a batch; a person who types has each by itself, as
        they wait for its answer.
      parse: What makes a row of a line and its number, from 0; the lines of a
        .jsonl may be objects then.

    Returns:
      The lines, or rows, in order, in batches, none of them empty.

    Raises:
      ValueError: If both are given, or the file cannot be read or has no
        texts for its lines; of a later line, behind those before it.
    """
    if texts and path is not None:
        raise ValueError(
            f"Expected texts or --file, not both. Received: {len(texts)} "
            f"text(s) and --file={path}"
        )
    lines: Iterator
    if texts:
        # What the shell passed, byte for byte.
        given = enumerate(map(os.fsencode, texts), start=1)
        lines = (Line(f"text {number}", text) for number, text in given)
    elif path is None or path == "-":
        if sys.stdin is None:
            raise ValueError(
                "Expected texts. Received: a closed standard input"
            )
        if sys.stdin.isatty():
            print(
                "one text a line; Ctrl-D on an empty line ends", file=sys.stderr
            )
            batch_size = 1
        lines = _lines_of(sys.stdin.buffer, "standard input")
    elif path.lower().endswith(_TABLES + OBJECTS * (parse is None)):
        raise ValueError(
            "Expected a file with one text a line"
            f"{', or .jsonl' * (parse is not None)}. Received: --file={path}, "
            "whose name is that of another kind: write its texts to a .txt"
        )
    else:
        lines = _lines_of(open(path, "rb"), path)  # noqa: SIM115
    if parse is not None:
        lines = (parse(number, line) for number, line in enumerate(lines))
    return _in_batches(lines, batch_size)


def _in_batches(lines: Iterator, batch_size: int) -> Iterator[list]:
    """Lines in batches; those before a line that is refused come first."""
    batch: list = []
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


def _lines_of(reader: BinaryIO, name: str) -> Iterator[Line]:
    is_said = False
    for number, line in enumerate(reader, start=1):
        place = f"{name}, line {number}"
        if b"\0" in line:  # As in what is packed, or in UTF-16.
            raise ValueError(
                f"Expected lines of text in UTF-8. Received: {place}, with NUL "
                "bytes"
            )
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        if not is_said and decode(line).encode() != line:
            is_said = True
            errors.warn(
                f"{place}: not UTF-8, of which other bytes are left out; what "
                "the file is in, such as LATIN1 or CP949, becomes UTF-8 by "
                "iconv -f CP949 -t UTF-8"
            )
        yield Line(place, line)


def decode(content: bytes) -> str:
    """Text to show; what is not UTF-8 becomes U+FFFD."""
    return content.decode("utf-8", errors="replace")


def printable(text: str) -> str:
    """A text that cannot command the terminal: no control characters."""
    text = re.sub(r"[\t\n\r]", " ", text)
    return "".join(
        "\ufffd" if c in _MARKS or unicodedata.category(c) in _CONTROL else c
        for c in text
    )


def display_width(text: str) -> int:
    """Columns that a text takes on a terminal."""
    return sum(
        1 + (unicodedata.east_asian_width(c) in "WF")
        for c in text
        if unicodedata.category(c) not in ("Mn", "Me", "Cf")
    )
