"""Files in the layout of CoNLL, a word and its tags in a row -> sentences."""

import collections
import os
import re
import typing

from electra_tf.tasks import tag_schemes
from electra_tf.tasks.task import read_lines

_DOCUMENT = "-DOCSTART-"
# Numbers of words, of several words, and of those that are not written.
_OF_CONLL_U = re.compile(r"\d+([-.]\d+)?")
# One sentence with more words than this is a file without blank rows.
_LONGEST_SENTENCE = 1000


class Sentence(typing.NamedTuple):
    """A tagged sentence of a file.

    Attributes:
      words: Its words.
      tags: One for each word, as in the file.
      row: Its first row, from 1.
      has_tags: False where the tags stand for unknown ones.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    row: int
    has_tags: bool = True


class File(typing.NamedTuple):
    """The sentences of a file in its order, and the columns of its rows."""

    sentences: list[Sentence]
    num_columns: int

    @property
    def tags(self) -> set[str]:
        """All that occur."""
        return {tag for sentence in self.sentences for tag in sentence.tags}


def read(
    path: str | os.PathLike, tag_column: int = -1, train: File | None = None
) -> File:
    """Reads sentences, and leaves out what is none of them.

    A row with tabs is separated by tabs, another one by spaces: a no-break
    space is a part of a word. A comment stands above a sentence and begins with
    "#", without the columns, or the tag, of other rows.

    Args:
      path: A file with blank rows between sentences. The word is in the first
        column.
      tag_column: Where the tag is; negative ones count from the end.
      train: For a file that may lack tags, where the column is missing or is of
        one value, such as "_": the training file, which has them.

    Returns:
      The file.

    Raises:
      ValueError: If the file cannot be read, rows have different numbers of
        columns, or lack the tag.
    """
    path = os.fspath(path)
    blocks = _blocks(path)
    rows = [columns for block in blocks for _, columns in block]
    plain = [r for r in rows if r[0] != _DOCUMENT and not r[0].startswith("#")]
    counts = collections.Counter(map(len, plain)).most_common(1)
    width = counts[0][0] if counts else 2
    least = max(2, tag_column + 1, -tag_column)
    known = {r[tag_column] for r in plain if len(r) == width >= least}

    def is_above(columns: list[str]) -> bool:
        if not columns[0].startswith("#"):
            return columns[0] == _DOCUMENT
        return len(columns) != width or columns[tag_column] not in known

    for block in blocks:
        while block and is_above(block[0][1]):
            del block[0]
    blocks = [block for block in blocks if block]
    _check(blocks, width, path)
    has_tags = train is None or (
        width > 1
        and (
            known <= train.tags | {tag_schemes.OUTSIDE}
            or (width == train.num_columns and len(known) > 1)
        )
    )
    if has_tags and width < least:
        _refuse_row(blocks[0][0], least, path)
    sentences = []
    for block in blocks:
        words = tuple(columns[0] for _, columns in block)
        of_words = tuple(
            columns[tag_column] if has_tags else tag_schemes.OUTSIDE
            for _, columns in block
        )
        sentences.append(Sentence(words, of_words, block[0][0], has_tags))
    return File(sentences, width)


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


def _check(blocks: list, width: int, path: str) -> None:
    """Refuses what is no sentences, each word in a row of as many columns."""
    longest = max(blocks, key=len, default=())
    if not blocks or len(longest) > _LONGEST_SENTENCE:
        where = f", from row {longest[0][0]} on" if longest else ""
        raise ValueError(
            "Expected sentences with a blank row after each. Received: "
            f"{len(longest)} rows without one in {path!r}{where}."
        )
    rows = [row for block in blocks for row in block]
    for row in rows:
        if len(row[1]) != width or not row[1][0]:
            _refuse_row(row, width, path)
    number, columns = rows[0]
    advice = ""
    if sum(" " in row[1][0] for row in rows) > len(rows) / 2:
        advice = "a file with a text and its label in each row is a .tsv"
    elif len(rows) > len(blocks) and all(
        _OF_CONLL_U.fullmatch(row[1][0]) for row in rows
    ):
        advice = "of CoNLL-U, cut -f2,4 leaves words and parts of speech"
    if advice:
        raise ValueError(
            f"Expected a word and its tag in each row. Received: {path!r}, row "
            f"{number}, with {columns[0][:40]!r} for a word: {advice}."
        )


def _refuse_row(row: tuple[int, list[str]], width: int, path: str) -> None:
    what = "a word and a tag" if width == 2 else f"{width} columns"
    raise ValueError(
        f"Expected {what}, separated by tabs or spaces, as in other rows. "
        f"Received: {' '.join(row[1])!r} in {path!r}, row {row[0]}."
    )
