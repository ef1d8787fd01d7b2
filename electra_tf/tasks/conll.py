"""Files in the layout of CoNLL, a word and its tags in a row -> sentences."""

import itertools
import os
import statistics
import typing

from electra_tf.tasks.task import read_lines

OUTSIDE = "O"
# Where a word has no label, as in Hugging Face's data sets.
NO_LABEL = "-100"


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


def read(
    path: str | os.PathLike, tag_column: int = -1, as_original: bool = False
) -> list[Sentence]:
    """Reads sentences, and leaves out the comments above them.

    A row with tabs is separated by tabs, another one by spaces: a no-break
    space is a part of a word. A comment begins with "#", without the columns,
    or the tag, of other rows.

    Args:
      path: A file with blank rows between sentences. The word is in the first
        column.
      tag_column: Where the tag is; negative ones count from the end.
      as_original: Columns are separated by any white space, there are no
        comments, and what is behind the last blank row is dropped.

    Raises:
      ValueError: If the file cannot be read, rows have different numbers of
        columns, or lack the tag.
    """
    path = os.fspath(path)
    blocks = _blocks(path, as_original)
    rows = [cells for block in blocks for _, cells in block]
    plain = [r for r in rows if not r[0].startswith("#")]
    least = max(2, tag_column + 1, -tag_column)
    width = max(statistics.mode(map(len, plain)) if plain else 2, least)
    known = {r[tag_column] for r in plain if len(r) == width}

    def is_comment(row: tuple[int, list[str]]) -> bool:
        cells = row[1]
        has_tag = len(cells) == width and cells[tag_column] in known
        return cells[0].startswith("#") and not (has_tag or as_original)

    blocks = [list(itertools.dropwhile(is_comment, block)) for block in blocks]
    blocks = [block for block in blocks if block]
    if not blocks:
        raise ValueError(
            "Expected sentences with a blank row after each. Received: none "
            f"in {path!r}."
        )
    for row, cells in itertools.chain(*blocks):
        fits = len(cells) == width or (as_original and len(cells) >= least)
        if not fits or not cells[0]:
            what = "a word and a tag" if width == 2 else f"{width} columns"
            raise ValueError(
                f"Expected {what}, separated by tabs or spaces, as in other "
                f"rows. Received: {' '.join(cells)!r} in {path!r}, row {row}."
            )
    sentences = []
    for block in blocks:
        words, tags = (
            tuple(cells[column] for _, cells in block)
            for column in (0, tag_column)
        )
        sentences.append(Sentence(words, tags, block[0][0]))
    return sentences


def _blocks(path: str, as_original: bool) -> list[list[tuple[int, list[str]]]]:
    """Number and columns of the rows between blank ones."""
    blocks: list[list] = [[]]
    for number, line in enumerate(read_lines(path), start=1):
        if as_original:
            cells = line.split()
        elif "\t" in line:
            cells = [c.strip(" ") for c in line.rstrip("\t ").split("\t")]
        else:
            cells = [cell for cell in line.split(" ") if cell]
        if not line.strip():
            blocks.append([])
        elif cells[0] != "-DOCSTART-":
            blocks[-1].append((number, cells))
    return blocks[:-1] if as_original else blocks
