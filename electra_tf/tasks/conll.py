"""Files in the layout of CoNLL, a word and its tags in a row -> sentences."""

import itertools
import os
import statistics
import typing

from electra_tf.tasks.task import read_lines

OUTSIDE = "O"
_DOCUMENT = "-DOCSTART-"


class Sentence(typing.NamedTuple):
    """A tagged sentence of a file.

    Attributes:
      words: Its words.
      tags: One for each word, as in the file.
      row: Its first row, from 1.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    row: int


def read(path: str | os.PathLike, tag_column: int = -1) -> list[Sentence]:
    """Reads sentences, and leaves out the comments above them.

    A row with tabs is separated by tabs, another one by spaces: a no-break
    space is a part of a word. A comment begins with "#", without the columns,
    or the tag, of other rows.

    Args:
      path: A file with blank rows between sentences. The word is in the first
        column.
      tag_column: Where the tag is; negative ones count from the end.

    Raises:
      ValueError: If the file cannot be read, rows have different numbers of
        columns, or lack the tag.
    """
    path = os.fspath(path)
    blocks = _blocks(path)
    rows = [cells for block in blocks for _, cells in block]
    plain = [r for r in rows if r[0] != _DOCUMENT and not r[0].startswith("#")]
    least = max(2, tag_column + 1, -tag_column)
    width = max(statistics.mode(map(len, plain)) if plain else 2, least)
    known = {r[tag_column] for r in plain if len(r) == width}

    def is_above(row: tuple[int, list[str]]) -> bool:
        cells = row[1]
        if not cells[0].startswith("#"):
            return cells[0] == _DOCUMENT
        return len(cells) != width or cells[tag_column] not in known

    blocks = [list(itertools.dropwhile(is_above, block)) for block in blocks]
    blocks = [block for block in blocks if block]
    if not blocks:
        _refuse_no_sentences(path)
    for row, cells in itertools.chain(*blocks):
        if len(cells) != width or not cells[0]:
            _refuse_row(path, row, " ".join(cells), width)
    return [_sentence(block, tag_column) for block in blocks]


def _refuse_no_sentences(path: str) -> typing.NoReturn:
    raise ValueError(
        "Expected sentences with a blank row after each. Received: none in "
        f"{path!r}."
    )


def _sentence(block, tag_column: int) -> Sentence:
    rows, cells = zip(*block, strict=True)
    words, tags = (tuple(row[c] for row in cells) for c in (0, tag_column))
    return Sentence(words, tags, rows[0])


def _blocks(path: str) -> list[list[tuple[int, list[str]]]]:
    """Number and columns of the rows between blank ones."""
    blocks: list[list] = [[]]
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            blocks.append([])
        elif "\t" in line:
            cells = line.rstrip("\t ").split("\t")
            blocks[-1].append((number, [cell.strip(" ") for cell in cells]))
        else:
            blocks[-1].append((number, [c for c in line.split(" ") if c]))
    return blocks


def read_as_original(
    path: str | os.PathLike, tag_column: int = -1
) -> list[Sentence]:
    """Reads sentences as the original does.

    Columns are separated by any white space, and what is behind the last blank
    row is dropped. See `read` for the rest.
    """
    path = os.fspath(path)
    sentences: list[Sentence] = []
    block: list[tuple[int, list[str]]] = []
    least = max(2, tag_column + 1, -tag_column)
    for row, line in enumerate(read_lines(path), start=1):
        cells = line.split()
        if not cells and block:
            sentences.append(_sentence(block, tag_column))
            block = []
        elif cells and cells[0] != _DOCUMENT:
            if len(cells) < least:
                _refuse_row(path, row, line, least)
            block.append((row, cells))
    if not sentences:
        _refuse_no_sentences(path)
    return sentences


def _refuse_row(path: str, row: int, line: str, width: int) -> None:
    """Refuses a row with another number of columns."""
    what = "a word and a tag" if width == 2 else f"{width} columns"
    raise ValueError(
        f"Expected {what}, separated by tabs or spaces, as in other rows. "
        f"Received: {line!r} in {path!r}, row {row}."
    )
