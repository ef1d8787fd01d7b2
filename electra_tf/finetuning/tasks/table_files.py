"""Tables in files: tab-separated, comma-separated, or JSON lines.

A .tsv has a row in each line and no quotes, as GLUE's files. A .csv is what
Python's csv module reads: quotes around texts with commas or line breaks. A
.jsonl has an object in each line, whose values may be lists.

By the csv and json modules rather than by pandas, which fills short rows up,
takes `"a" b` for `a b`, keeps the last of two equal names, and does not know in
which line of the file a row begins; its one strict engine is the csv module.
"""

import contextlib
import csv
import io
import json
import os
import re
import typing
from collections.abc import Sequence

from electra_tf import errors
from electra_tf.finetuning.tasks.task import parse_json, read_lines

ENDINGS = (".tsv", ".csv", ".jsonl")
_OF_JSON = (
    " Questions in SQuAD's layout are tasks by name: --task_names=squad "
    "--data_dir=<the folder of train.json and dev.json>."
)

# Longer than any text that is meant: more is an open quote.
_LONGEST_FIELD = 10_000_000
# Between the columns of a .csv.
_SEPARATORS = (",", ";", "\t")
_SEPARATOR_LINE = re.compile('"?sep=([,;\t])"?', re.IGNORECASE)

Value = str | list[str] | None


class Json(str):
    """A JSON value that is neither a text nor a list of texts."""


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

    @property
    def first(self) -> list[str]:
        """The values of the first row."""
        return [str(value).strip() for value in self.rows[0].values]

    def with_header(self) -> "Table":
        """This table with its first row for names, "2" for a second one's none.

        Raises:
          ValueError: If two names are the same, there is no row below, or one
            repeats the header.
        """
        if self.has_header:
            return self
        number = self.rows[0].number
        _check_names([name for name in self.first if name], self.path, number)
        names = [n or c for n, c in zip(self.first, self.columns, strict=True)]
        if not self.rows[1:]:
            raise ValueError(
                "Expected rows after the header. Received: none in "
                f"{self.path!r}, whose header is {', '.join(names)}."
            )
        for row in self.rows[1:]:
            if row.values == self.rows[0].values:
                raise ValueError(
                    "Expected the header once. Received: again in "
                    f"{self.path!r}, row {row.number}."
                )
        return Table(self.path, names, self.rows[1:], has_header=True)

    def check_columns(self) -> None:
        """Refuses a table of one column.

        Raises:
          ValueError: If it is one, as it is with another separator.
        """
        if len(self.columns) > 1:
            return
        between = "commas, semicolons or tabs"
        if self.path.lower().endswith(".tsv"):
            between = "tabs, as in a .tsv"
        raise ValueError(
            f"Expected columns separated by {between}. Received: "
            f"{self.path!r}, row {self.rows[0].number}, with one: "
            f"{self.first[0][:40]!r}."
        )

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
        raise ValueError(
            f"Expected the column {name!r} for the {what}. Received: "
            f"{self.path!r} with the columns {', '.join(self.columns)}."
            + errors.did_you_mean(repr(name), map(repr, self.columns))
        )


def read_table(path: str | os.PathLike) -> Table:
    """Reads a table, its header as a row like others.

    Args:
      path: Ends in one of `ENDINGS`; any file that `tf.io.gfile` reads.

    Returns:
      The table; `Table.with_header` takes its first row for names.

    Raises:
      ValueError: If the file cannot be read, or has rows of different lengths.
    """
    path = os.fspath(path)
    ending = os.path.splitext(path)[1].lower()
    if ending == ".jsonl":
        return _read_jsonl(path)
    if ending not in ENDINGS:
        raise ValueError(
            f"Expected a file ending in {', '.join(ENDINGS)}. Received: "
            f"{path!r}." + _OF_JSON * (ending == ".json")
        )
    lines = read_lines(path)
    if ending == ".csv":
        rows = _read_csv(path, lines)
    else:
        rows = [
            Row(number, list(line.split("\t")))
            for number, line in enumerate(lines, start=1)
        ]
    rows = [row for row in rows if any(str(v).strip() for v in row.values)]
    if not rows:
        raise ValueError(
            f"Expected rows with values. Received: {path!r} with none."
        )
    width = len(rows[0].values)
    for row in rows:
        _check_length(row, width, path, ending)
    if ending == ".tsv":
        _check_quotes(rows, path)
    # A separator behind the last column, in every row.
    while width > 2 and not any(str(row.values[-1]).strip() for row in rows):
        rows = [Row(row.number, row.values[:-1]) for row in rows]
        width -= 1
    columns = [str(i + 1) for i in range(width)]
    return Table(path, columns, rows, has_header=False)


def _check_names(names: Sequence[str], path: str, row: int) -> None:
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


def _check_quotes(rows: Sequence[Row], path: str) -> None:
    """Refuses a .tsv that means its quotes: all of a column are in them, but
    maybe a header."""
    # Of two rows one may well be so by chance.
    header = 0 if len(rows) < 3 else 1
    for values in zip(*(row.values for row in rows), strict=True):
        is_quoted = [
            len(v) > 1 and v[0] == v[-1] == '"' for v in map(str, values)
        ]
        if all(is_quoted[header:]):
            first = is_quoted.index(True)
            raise ValueError(
                f"Expected texts without quotes around them. Received: {path!r}"
                f", row {rows[first].number}, with {values[first]!r}: quotes "
                "mean nothing in a .tsv. A file with quoted texts is a .csv, "
                "whatever separates its columns."
            )


def _read_csv(path: str, lines: Sequence[str]) -> list[Row]:
    """The rows by the separator with which all have the same length.

    Spreadsheets separate with what their country does, and say so, or not, in a
    first line such as "sep=;".
    """
    said = _SEPARATOR_LINE.fullmatch(lines[0])
    if said:
        return _csv_rows(path, ["", *lines[1:]], said[1])
    found = [s for s in _SEPARATORS if s in lines[0]]
    if len(found) < 2:
        return _csv_rows(path, lines, (found or _SEPARATORS)[0])
    fitting = {}
    for separator in found:
        with contextlib.suppress(ValueError):
            rows = _csv_rows(path, lines, separator)
            widths = {len(row.values) for row in rows}
            if len(widths) == 1 and widths != {1}:
                fitting[separator] = rows
    if len(fitting) > 1:
        raise ValueError(
            "Expected columns separated by commas, semicolons or tabs. "
            f"Received: {path!r}, where {' and '.join(map(repr, fitting))} "
            f"both may be it, as in row 1, {lines[0][:40]!r}: put texts with "
            'one of them in quotes, or write such as "sep=;" above the rows.'
        )
    for rows in fitting.values():
        return rows
    return _csv_rows(path, lines, max(found, key=lines[0].count))


def _csv_rows(path: str, lines: Sequence[str], separator: str) -> list[Row]:
    csv.field_size_limit(_LONGEST_FIELD)
    text = io.StringIO("\n".join(lines), newline="")
    reader = csv.reader(text, delimiter=separator, strict=True)
    rows = []
    number = 1
    try:
        for values in reader:
            rows.append(Row(number, list(values)))
            number = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(
            "Expected quotes in pairs, and two for one inside a quoted "
            f"text. Received: {path!r}, where the row that begins in line "
            f"{number} runs to line {max(number, reader.line_num)}: "
            f"{error}."
        ) from None
    return rows


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
        _check_names([name for name, _ in found], path, number)
        return dict(found)

    record = parse_json(line, path, number, pairs)
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
        if any(item is None or isinstance(item, list | dict) for item in value):
            return Json(json.dumps(value, ensure_ascii=False))
        return [str(_value(item)) for item in value]
    if isinstance(value, str):
        return value
    text = json.dumps(value, ensure_ascii=False)
    return Json(text) if isinstance(value, dict) else text
