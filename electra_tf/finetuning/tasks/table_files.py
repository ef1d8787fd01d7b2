"""Tables in files: tab-separated, comma-separated, or JSON lines.

A .tsv has a row in each line and no quotes, as GLUE's files. A .csv is what
Python's csv module reads: quotes around texts with commas or line breaks. A
.jsonl has an object in each line, whose values may be lists.
"""

import csv
import difflib
import io
import json
import os
import typing
from collections.abc import Collection, Iterator, Sequence

from electra_tf.finetuning.tasks.task import read_lines

ENDINGS = (".tsv", ".csv", ".jsonl")

# Longer than any text that is meant: more is an open quote.
_LONGEST_FIELD = 10_000_000

Value = str | list[str] | None


class Row(typing.NamedTuple):
    """One row.

    Attributes:
      number: Its first line in the file, from 1.
      values: One for each column; None for a JSON null.
    """

    number: int
    values: list[Value]


class Table(typing.NamedTuple):
    """A file's rows.

    Attributes:
      path: The file.
      columns: Their names; "1", "2", ... without a header.
      rows: One or more.
      has_header: Whether the names are the file's own.
    """

    path: str
    columns: list[str]
    rows: list[Row]
    has_header: bool

    def column(self, name: str, what: str) -> int:
        """Where a column is.

        Args:
          name: Of the column.
          what: What it is for, for the error message.

        Raises:
          ValueError: If there is no such column.
        """
        if name in self.columns:
            return self.columns.index(name)
        close = difflib.get_close_matches(name, self.columns, 1)
        raise ValueError(
            f"Expected the column {name!r} for the {what}. Received: "
            f"{self.path!r} with the columns {', '.join(self.columns)}."
            + (f" Did you mean {close[0]!r}?" if close else "")
        )


def read_table(
    path: str | os.PathLike,
    has_header: bool | None = None,
    usual_names: Collection[str] = (),
    like: Table | None = None,
) -> Table:
    """Reads a table.

    Args:
      path: Ends in one of `ENDINGS`; any file that `tf.io.gfile` reads.
      has_header: Whether the first row names the columns; None for what it
        looks like: a header holds one of `usual_names`.
      usual_names: In lower case.
      like: A table of the same kind, whose header, or lack of one, this one
        shares.

    Returns:
      The table.

    Raises:
      ValueError: If the file cannot be read, has no rows, or rows of different
        lengths.
    """
    path = os.fspath(path)
    ending = os.path.splitext(path)[1].lower()
    if ending == ".jsonl":
        return _read_jsonl(path)
    if ending not in ENDINGS:
        raise ValueError(
            f"Expected a file ending in {', '.join(ENDINGS)}. Received: "
            f"{path!r}."
        )
    lines = read_lines(path)
    rows = list(
        _csv_rows(path, lines) if ending == ".csv" else _tsv_rows(lines)
    )
    first = [str(value).strip() for value in rows[0].values]
    if has_header is None and like is not None:
        has_header = like.has_header and set(like.columns) & set(first) != set()
    if has_header is None:
        has_header = any(name.lower() in usual_names for name in first)
    if has_header:
        _check_header(first, path, rows[0].number)
        columns, rows = first, rows[1:]
    else:
        columns = [str(i + 1) for i in range(len(first))]
    if not rows:
        raise ValueError(
            "Expected rows after the header. Received: none in "
            f"{path!r}, whose header is {', '.join(columns)}."
        )
    for row in rows:
        _check_length(row, len(columns), path, ending)
    return Table(path, columns, rows, has_header)


def _check_header(names: Sequence[str], path: str, row: int) -> None:
    repeated = [name for i, name in enumerate(names) if name in names[:i]]
    if repeated:
        raise ValueError(
            "Expected a header with different names. Received: "
            f"{repeated[0]!r} twice in {path!r}, row {row}."
        )


def _check_length(row: Row, expected: int, path: str, ending: str) -> None:
    if len(row.values) == expected:
        return
    message = (
        f"Expected {expected} columns. Received: {len(row.values)} in "
        f"{path!r}, row {row.number}."
    )
    last = str(row.values[-1])
    if ending == ".tsv" and last.startswith('"') and last.count('"') % 2:
        message += (
            " It opens a quote that its line does not close: quotes mean "
            "nothing in a .tsv. A file with quoted texts is a .csv, whatever "
            "separates its columns."
        )
    raise ValueError(message)


def _tsv_rows(lines: Sequence[str]) -> Iterator[Row]:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield Row(number, list(line.split("\t")))


def _csv_rows(path: str, lines: Sequence[str]) -> Iterator[Row]:
    header = lines[0]
    # Spreadsheets write what their country separates with.
    delimiter = max(",;\t", key=header.count)
    csv.field_size_limit(_LONGEST_FIELD)
    text = io.StringIO("\n".join(lines), newline="")
    reader = csv.reader(text, delimiter=delimiter, strict=True)
    number = 1
    while True:
        try:
            values = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise ValueError(
                "Expected quotes in pairs, and two for one inside a quoted "
                f"text. Received: {path!r}, where the row that begins in line "
                f"{number} runs to line {max(number, reader.line_num)}: "
                f"{error}."
            ) from None
        if values:
            yield Row(number, list(values))
        number = reader.line_num + 1


def _read_jsonl(path: str) -> Table:
    columns: list[str] = []
    rows = []
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        record = _read_object(line, path, number)
        if not columns:
            columns = list(record)
        if set(record) != set(columns):
            missing = sorted(set(columns) - set(record))
            more = sorted(set(record) - set(columns))
            raise ValueError(
                f"Expected the names {', '.join(columns)}, as in the first "
                f"row. Received: {path!r}, row {number}, "
                + (
                    f"without {', '.join(missing)}."
                    if missing
                    else f"with {', '.join(more)}."
                )
            )
        rows.append(Row(number, [_value(record[name]) for name in columns]))
    return Table(path, columns, rows, has_header=True)


def _read_object(line: str, path: str, number: int) -> dict:
    def pairs(found):
        _check_header([name for name, _ in found], path, number)
        return dict(found)

    try:
        record = json.loads(line, object_pairs_hook=pairs)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"Expected a JSON object in each row. Received: {path!r}, row "
            f"{number}: {error.msg}."
        ) from None
    if not isinstance(record, dict) or not record:
        raise ValueError(
            f"Expected a JSON object in each row. Received: {path!r}, row "
            f"{number}: {line[:40]!r}."
        )
    return record


def _value(value: object) -> Value:
    """A JSON value as the text that it would be in another file."""
    if value is None:
        return None
    if isinstance(value, list):
        return [str(_value(item)) for item in value]
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)
