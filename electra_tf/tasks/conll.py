"""Files in the layout of CoNLL, a word and its tags in a row -> sentences."""

import collections
import os
import re
import typing

from electra_tf.tasks import tag_schemes
from electra_tf.tasks.task import read_lines

_DOCUMENT = "-DOCSTART-"
# Such as "# text = ..." of CoNLL-U.
_KEY_AND_VALUE = re.compile(r"#\s*[\w.]+\s*[=:]")
# CoNLL-U: tokens of several words, and words that are not written.
_BETWEEN_WORDS = re.compile(r"\d+-\d+|\d+\.\d+")
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


class _Row(typing.NamedTuple):
    """A row that is not blank."""

    number: int
    columns: list[str]
    line: str
    begins: bool  # A sentence, or is above one that begins.


class File(typing.NamedTuple):
    """What a file has.

    Attributes:
      sentences: In its order.
      num_columns: Of each row.
      num_comments: Rows that are none of a sentence.
    """

    sentences: list[Sentence]
    num_columns: int
    num_comments: int = 0

    @property
    def tags(self) -> set[str]:
        """All that occur."""
        return {tag for sentence in self.sentences for tag in sentence.tags}


def read(
    path: str | os.PathLike,
    tag_column: int = -1,
    train: File | None = None,
) -> File:
    """Reads sentences, and leaves out what is none of them.

    A row with tabs is separated by tabs, another one by spaces: a no-break
    space is a part of a word. Comments stand above a sentence: "# id ...",
    "# text = ...".

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
    rows = _rows(path)
    width, is_comment = _comments(rows, tag_column)
    sentences: list[list[_Row]] = []
    begins = True
    num_comments = 0
    for row in rows:
        begins |= row.begins
        if begins and is_comment(row):
            num_comments += row.columns[0] != _DOCUMENT
            continue
        if len(row.columns) != width:
            raise ValueError(
                f"Expected {_expected(width)}, as in other rows. Received: "
                f"{row.line!r} in {path!r}, row {row.number}."
            )
        if not row.columns[0]:
            raise ValueError(
                f"Expected a word. Received: {row.line!r} in {path!r}, row "
                f"{row.number}."
            )
        if begins:
            sentences.append([])
        sentences[-1].append(row)
        begins = False
    _check_sentences(sentences, path)
    has_tags = _have_tags(sentences, width, tag_column, train)
    least = max(2, tag_column + 1, -tag_column)
    if has_tags and width < least:
        row = sentences[0][0]
        raise ValueError(
            f"Expected {_expected(least)}. Received: {row.line!r} in {path!r}, "
            f"row {row.number}."
        )
    return File(
        [
            Sentence(
                tuple(row.columns[0] for row in sentence),
                tuple(
                    row.columns[tag_column] if has_tags else tag_schemes.OUTSIDE
                    for row in sentence
                ),
                sentence[0].number,
                has_tags,
            )
            for sentence in sentences
        ],
        width,
        num_comments,
    )


def _expected(width: int) -> str:
    what = "a word and a tag" if width == 2 else f"{width} columns"
    return f"{what}, separated by tabs or spaces"


def _rows(path: str) -> list[_Row]:
    rows = []
    begins = True
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            begins = True
            continue
        if "\t" in line:
            columns = [c.strip(" ") for c in line.rstrip("\t ").split("\t")]
        else:
            columns = [c for c in line.split(" ") if c]
        rows.append(_Row(number, columns, line, begins))
        begins = False
    return rows


def _comments(rows: list[_Row], tag_column: int):
    """The number of columns, and what tells a comment from a sentence's row.

    "#" is a word, too: it has as many columns as others, and one of their tags.
    """
    plain = [row for row in rows if not row.columns[0].startswith("#")]
    counts = collections.Counter(
        len(row.columns) for row in plain if row.columns[0] != _DOCUMENT
    )
    width = max(counts, key=lambda count: counts[count]) if counts else 2
    # A file without that column is refused behind this.
    has_tags = -width <= tag_column < width
    tags = {
        r.columns[tag_column]
        for r in plain
        if has_tags and len(r.columns) == width
    }

    def is_comment(row: _Row) -> bool:
        first = row.columns[0]
        if not first.startswith("#"):
            return first == _DOCUMENT
        if len(row.columns) != width or not has_tags:
            return True
        tag = row.columns[tag_column]
        if tag in tags or tag_schemes.form_of({tag, "B-x"}):
            return False
        return first == "#" or bool(_KEY_AND_VALUE.match(row.line))

    return width, is_comment


def _check_sentences(sentences: list[list[_Row]], path: str) -> None:
    if not sentences:
        raise ValueError(
            "Expected sentences with a blank row after each. Received: none "
            f"in {path!r}."
        )
    rows = [row for sentence in sentences for row in sentence]
    num_texts = sum(" " in row.columns[0] for row in rows)
    if num_texts > len(rows) / 2:
        raise ValueError(
            f"Expected a word and its tag in each row. Received: {path!r}, row "
            f"{rows[0].number}, with the text {rows[0].columns[0][:40]!r}: a "
            "file with a text and its label in each row is a .tsv."
        )
    if len(rows) > len(sentences) and all(map(_is_numbered, sentences)):
        raise ValueError(
            f"Expected a word and its tag in each row. Received: {path!r}, row "
            f"{rows[0].number}, with the number of a word, as CoNLL-U has it: "
            "cut -f2,4 leaves words and parts of speech."
        )
    for sentence in sentences:
        if len(sentence) > _LONGEST_SENTENCE:
            raise ValueError(
                "Expected sentences with a blank row after each. Received: "
                f"{len(sentence)} rows without one in {path!r}, from row "
                f"{sentence[0].number} on."
            )


def _is_numbered(sentence: list[_Row]) -> bool:
    """Whether the first column counts words, as 1, 2-3, 2, 3, 3.1, 4."""
    whole = [r.columns[0] for r in sentence if r.columns[0].isdigit()]
    others = [r.columns[0] for r in sentence if not r.columns[0].isdigit()]
    return whole == [str(i) for i in range(1, len(whole) + 1)] and all(
        map(_BETWEEN_WORDS.fullmatch, others)
    )


def _have_tags(
    sentences: list[list[_Row]],
    width: int,
    tag_column: int,
    train: File | None,
) -> bool:
    if train is None:
        return True
    if width == 1:
        return False
    found = {row.columns[tag_column] for rows in sentences for row in rows}
    if width < train.num_columns:
        return found <= train.tags
    return len(found) > 1 or found <= train.tags | {tag_schemes.OUTSIDE}
