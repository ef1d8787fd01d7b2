"""Files of labelled rows -> the columns that count, by one convention.

A .tsv or .csv has a header, a .jsonl an object in each line, a .json a list of
rows or an object of columns. Texts are in the column `text` or in a usual pair,
labels in `label`; other names are given. What does not fit is refused with the
flag that mends it.
"""

import csv
import json
import os
import typing
from collections.abc import Mapping, Sequence

from electra_tf import errors
from electra_tf.tasks import conll
from electra_tf.tasks.task import parse_json, read_lines

TEXT_NAMES = ("text", "sentence", "tokens", "words")
TEXT_PAIRS = ["text_a text_b", "sentence1 sentence2", "sentence_a sentence_b"]
TEXT_PAIRS += ["question1 question2", "premise hypothesis", "question sentence"]
LABEL_NAMES = ("label", "labels", "score", "tags", "ner_tags")
# Longer than any text that is meant: more is an open quote.
_LONGEST_FIELD = 10_000_000


class Table(typing.NamedTuple):
    """A file's rows: the number of each, from 1, and its values by column.

    Without a header columns are "1", "2", ...
    """

    path: str
    rows: list[tuple[int, dict]]

    @property
    def columns(self) -> list[str]:
        """Their names, in the file's order."""
        return list(self.rows[0][1])

    def find(self, name: str, flag: str = "") -> str:
        """What the file calls a column, whatever the case; "" if it has none.

        Raises:
          ValueError: If it has none, and there is a flag for another one.
        """
        same = [c for c in self.columns if c.lower() == name.lower()]
        if flag and not same:
            raise ValueError(
                f"Expected the column {name!r}, or another one by {flag}. "
                f"Received: {self.described()}."
                + errors.did_you_mean(repr(name), map(repr, self.columns))
            )
        return name if name in same else "".join(same[:1])

    def described(self) -> str:
        """The file and its columns, for a message."""
        names = ", ".join(repr(name[:40]) for name in self.columns[:20])
        return f"{self.path!r} with the columns {names}"


def read(path: str | os.PathLike, has_header: bool = True) -> Table:
    """Reads a table.

    Args:
      path: A .tsv (no quotes), .csv, .jsonl or .json in UTF-8, or a .txt or
        .conll, whose columns are `words` and `tags`; any file that
        `tf.io.gfile` reads.
      has_header: Whether the first row of a .tsv or .csv names the columns.

    Raises:
      ValueError: If the file cannot be read, has no rows, or rows of different
        columns.
    """
    path = os.fspath(path)
    ending = os.path.splitext(path)[1].lower()
    if ending in (".txt", ".conll"):
        rows_of_words = [
            (s.row, {"words": list(s.words), "tags": list(s.tags)})
            for s in conll.read(path)
        ]
        return Table(path, rows_of_words)
    if ending in (".jsonl", ".json"):
        content = read_json(path)
        if isinstance(content, dict):
            raise ValueError(
                "Expected a list of rows, or an object of columns of the same "
                f"length. Received: {path!r}. Files in SQuAD's layout are read "
                "by --task_names=squad --data_dir=<their folder>."
            )
        names = content[0][1].keys()
        for number, record in content:
            if record.keys() != names:
                raise ValueError(
                    f"Expected the names {', '.join(names)}, as in the first "
                    f"row. Received: {', '.join(record)} in {path!r}, row "
                    f"{number}."
                )
        return Table(path, content)
    if ending not in (".tsv", ".csv"):
        raise ValueError(
            "Expected a file ending in .tsv, .csv, .jsonl or .json, or with a "
            f"word and its tag in each row .txt or .conll. Received: {path!r}."
        )
    rows = _read_separated(path, has_quotes=ending == ".csv")
    rows = [row for row in rows if any(map(str.strip, row[1]))]
    if not rows[has_header:]:
        raise ValueError(
            f"Expected rows{' below the header' * bool(rows)}. Received: none "
            f"in {path!r}."
        )
    width = len(rows[0][1])
    columns = [str(i + 1) for i in range(width)]
    if has_header:
        columns = [name.strip() for name in rows.pop(0)[1]]
    twice = [c for i, c in enumerate(columns) if c and c in columns[:i]]
    if twice:
        raise ValueError(
            f"Expected a header with different names. Received: {twice[0]!r} "
            f"twice in {path!r} (--has_header=False if it is a row)."
        )
    for number, values in rows:
        if len(values) != width:
            raise ValueError(
                f"Expected {width} columns, as in the first row. Received: "
                f"{len(values)} in {path!r}, row {number} (quotes count in a "
                ".csv alone)."
            )
    by_name = [(n, dict(zip(columns, v, strict=True))) for n, v in rows]
    return Table(path, by_name)


def _read_separated(path: str, has_quotes: bool) -> list[tuple[int, list[str]]]:
    """The rows of a .tsv, or of a .csv by the separator that cuts its first
    line most often: spreadsheets take that of their country."""
    csv.field_size_limit(_LONGEST_FIELD)
    lines = read_lines(path)
    separator, options = "\t", {"quoting": csv.QUOTE_NONE}
    if has_quotes:
        options = {}
        separator = max(
            ",;\t", key=lambda s: len(next(csv.reader(lines[:1], delimiter=s)))
        )
    reader = csv.reader(
        (line + "\n" for line in lines),
        delimiter=separator,
        strict=True,
        **options,  # type: ignore[arg-type]
    )
    rows, number = [], 1
    try:
        for values in reader:
            rows.append((number, values))
            number = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(
            "Expected quotes in pairs, and two for one inside a quoted text. "
            f"Received: {path!r}, row {number}: {error}."
        ) from None
    return rows


def read_json(path: str) -> dict | list[tuple[int, dict]]:
    """The rows of a .jsonl or .json, each with its number, or its object.

    Args:
      path: An object in each line, also of a .json, as Hugging Face's data sets
        write it; or one list of objects; or one object whose values are lists,
        the columns; or either as `data`; or one of another kind, which is
        returned.

    Raises:
      ValueError: If the file is something else.
    """
    lines = [
        line for line in enumerate(read_lines(path), start=1) if line[1].strip()
    ]
    first = lines[0][1].strip()
    has_lines = len(lines) > 1 and first[0] == "{" and first[-1] == "}"
    if has_lines or path.lower().endswith(".jsonl"):
        records = [(n, parse_json(line, path, n)) for n, line in lines]
    else:
        content = parse_json("\n".join(line for _, line in lines), path)
        if isinstance(content, dict):
            data = rows_of(content.get("data", content))
            row = data[0] if isinstance(data, list) and data else None
            if not isinstance(row, dict) or "paragraphs" in row:
                return content
            content = data
        if not isinstance(content, list) or not content:
            raise ValueError(f"Expected a list of rows. Received: {path!r}.")
        records = list(enumerate(content, start=1))
    for number, record in records:
        if not isinstance(record, dict) or not record:
            raise ValueError(
                f"Expected a JSON object in each row. Received: {path!r}, row "
                f"{number}: {str(record)[:40]!r}."
            )
    return records


def rows_of(columns: typing.Any) -> typing.Any:
    """The rows of columns, lists of one length by their names; an object of
    such columns is one itself. All else is as it is."""
    is_object = isinstance(columns, Mapping)
    values = [*map(rows_of, columns.values())] if is_object else []
    sizes = {len(v) if isinstance(v, list) else -1 for v in values}
    if len(sizes) != 1 or -1 in sizes:
        return columns
    rows = zip(*values, strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def choose_columns(
    table: Table, text_columns: Sequence[str] = (), label_column: str = ""
) -> tuple[list[str], str]:
    """Which columns hold the texts and the labels.

    Args:
      table: The training file; two columns without names are text and label.
      text_columns: Those of the texts, where they are named.
      label_column: That of the labels, where it is named.

    Raises:
      ValueError: If there are no such columns, or more than one choice.
    """
    columns = table.columns
    if columns == ["1", "2"]:
        text_columns, label_column = text_columns or "1", label_column or "2"
    texts = [table.find(name, "--text_columns") for name in text_columns]
    if label_column:
        label_column = table.find(label_column, "--label_column")
    others = {c.lower(): c for c in columns if c not in (*texts, label_column)}
    if not texts:
        pairs = [p for p in map(str.split, TEXT_PAIRS) if {*p} <= others.keys()]
        single = [[n] for n in others if n in {*TEXT_NAMES}.difference(*pairs)]
        choices = [[others[n] for n in names] for names in [*pairs, *single]]
        texts = _only(choices, table, "text", "'text', or a usual pair")
    if not label_column:
        choices = [[others[n]] for n in others if n in LABEL_NAMES]
        label_column = _only(choices, table, "label", "'label'")[0]
    if len(texts) > 2 or len({*texts, label_column}) <= len(texts):
        raise ValueError(
            "Expected one or two text columns and another one of labels. "
            f"Received: --text_columns={','.join(texts)} "
            f"--label_column={label_column}."
        )
    return texts, label_column


def _only(
    choices: Sequence[list[str]], table: Table, what: str, usual: str
) -> list[str]:
    """The only choice of columns that there is."""
    if len(choices) == 1:
        return choices[0]
    where = " (--has_header=False if these are a row)"
    if choices:
        names = (repr(",".join(columns)) for columns in choices)
        where = f", where it may be {' or '.join(names)}"
    raise ValueError(
        f"Expected one column {usual}: say which in --{what}_column"
        f"{'s' * (what == 'text')}. Received: {table.described()}{where}."
    )


def value_of(value: typing.Any, where: str) -> str | list[str]:
    """A value as the text that it would be in a .tsv, or a list of such."""
    items = value if isinstance(value, list) else [value]
    is_odd = isinstance(value, list) and None in value
    if is_odd or any(isinstance(item, list | dict) for item in items):
        raise ValueError(
            "Expected a text, or a list of texts. Received: "
            f"{json.dumps(value, ensure_ascii=False)[:40]} in {where}."
        )
    if isinstance(value, list):
        return [str(value_of(item, where)) for item in value]
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value)
