"""What the columns of a table are: is there a header, where are the texts?

Only what is certain is taken. Otherwise the two readings are shown, and the
setting that decides between them.
"""

import re
from collections.abc import Callable, Sequence

import numpy as np

from electra_tf.command_line.column_names import (
    NAMES_OF_TEXTS,
    TEXT_NAMES,
    TEXT_PAIRS,
)
from electra_tf.finetuning.tasks import labels, tag_schemes
from electra_tf.finetuning.tasks.table_files import Table
from electra_tf.finetuning.tasks.text_tasks import number

LABEL_NAMES = (
    *("label", "labels", "score", "tags", "ner_tags", "tag", "class"),
    *("category", "target", "rating", "sentiment", "hate", "gold_label"),
)
# Usual names that are no text, nor a class, of anybody's.
_NEVER_DATA = frozenset(
    (
        *(name for names in TEXT_PAIRS[:4] for name in names),
        *("text", "sentence", "document", "tokens"),
        *("label", "labels", "tags", "ner_tags", "gold_label"),
    )
)
# A cell with more than this is no name of a column.
_MOST_WORDS_OF_A_NAME = 5
_LEAST_ROWS_TO_JUDGE = 20
_SENTENCE_ENDS = (".", "!", "?", "。", "…")


def with_header_or_not(
    table: Table,
    has_header: bool | None = None,
    given_columns: Sequence[str] = (),
    others: Sequence[Table] = (),
) -> Table:
    """The training file with its names.

    Args:
      table: As `table_files.read_table` gives it.
      has_header: Whether its first row names the columns, if that is known.
      given_columns: Names that it should have.
      others: Files of the same kind.

    Returns:
      The table, its names those of its first row if that is a header.

    Raises:
      ValueError: If it may be one or not.
    """
    if table.has_header:
        return table
    if has_header is None:
        has_header = looks_like_header(table, given_columns, others)
    if has_header is None:
        raise ValueError(_two_readings(table))
    return table.with_header() if has_header else table


def _two_readings(table: Table) -> str:
    cells = " | ".join(table.first)
    as_header = f"columns {', '.join(map(repr, table.first))}"
    as_row = f"values {', '.join(map(repr, table.first))}"
    try:
        texts, label = choose_columns(table)
        value = dict(zip(table.columns, table.first, strict=True))
        names = " and ".join(repr(value[name]) for name in texts)
        as_row = f"text {names}, label {value[label]!r}"
    except ValueError:
        pass  # Then it is shown as it is.
    return (
        "Expected a first row that is a header, or none, beyond doubt. "
        f"Received: {table.path!r}, row {table.rows[0].number}: {cells[:200]}. "
        f"--has_header reads it as a header: {as_header[:200]}. "
        f"--nohas_header reads it as a row: {as_row[:200]}."
    )


def looks_like_header(
    table: Table,
    given_columns: Sequence[str] = (),
    others: Sequence[Table] = (),
) -> bool | None:
    """Whether the first row of a table names its columns.

    Args:
      table: Without names of its own.
      given_columns: Names that are expected; "1", "2", ... without a header.
      others: Files of the same kind.

    Returns:
      None if that is not certain.
    """
    cells = table.first
    names = [cell.lower() for cell in cells]
    rows = [r for r in table.rows[1:] if r.values != table.rows[0].values]
    columns = [
        [str(row.values[i]).strip() for row in rows] for i in range(len(cells))
    ]
    pairs = list(zip(cells, columns, strict=True))
    if not set(given_columns) <= set(table.columns):
        return True
    if given_columns and not set(given_columns) & set(cells):
        # Columns by number, as there are no names; unless these are some.
        return None if _NEVER_DATA & set(names) else False
    of_label = {i for i, name in enumerate(names) if name in LABEL_NAMES}
    is_named = bool(_NEVER_DATA & set(names)) or (
        bool(of_label) and bool(NAMES_OF_TEXTS & set(names))
    )
    above_numbers = any(
        len(below) > 1
        and _are_numbers(below)
        and not (cell in labels.MISSING or _are_numbers([cell]))
        for cell, below in pairs
    )
    is_shared = any(
        other.first == cells
        and [row.values for row in other.rows[1:2]]
        != [row.values for row in table.rows[1:2]]
        for other in others
        if not other.has_header
    )
    alike = {
        i for i, (cell, below) in enumerate(pairs) if _is_one_of(cell, below)
    }
    long = {i for i, cell in enumerate(cells) if _is_sentence(cell)}
    if is_named or above_numbers or is_shared:
        # The labels of a column "hate" may be "hate" and "none".
        against = (alike - of_label if is_named else alike) | long
        return None if against else True
    is_odd = any(
        cell
        and len(set(below)) <= len(below) / 2
        and not _is_one_of(cell, below)
        and not _are_numbers([cell])
        for cell, below in pairs
    )
    is_usual = bool((NAMES_OF_TEXTS | set(LABEL_NAMES)) & set(names))
    if alike and (not (is_odd or is_usual) or len(alike | long) == len(cells)):
        return False
    # With fewer rows, labels that are all different say nothing.
    is_judged = len(rows) >= _LEAST_ROWS_TO_JUDGE
    return False if long and is_judged and not (is_odd or is_usual) else None


def _is_one_of(cell: str, below: Sequence[str]) -> bool:
    """Whether a cell is such as those below it."""
    if not cell:
        return False
    if cell in below or (_are_numbers([cell]) and _are_numbers(below)):
        return True
    if tag_schemes.are_span_tags(cell.split()):
        return True
    parts = re.split(r"[|;,]", cell)
    if len(parts) < 2:
        return False
    known = {p.strip() for value in below for p in re.split(r"[|;,]", value)}
    return known.issuperset(part.strip() for part in parts)


def _are_numbers(values: Sequence[str]) -> bool:
    """Whether all are numbers, but for empty ones; decimal commas count."""
    return any(values) and all(
        np.isfinite(number(value.replace(",", ".")))
        for value in values
        if value
    )


def _is_sentence(cell: str) -> bool:
    return len(cell.split()) > _MOST_WORDS_OF_A_NAME or cell.endswith(
        _SENTENCE_ENDS
    )


def has_like(table: Table, train: Table, name: str) -> bool:
    """Whether a column is called so, but for case, signs and a plural.

    Args:
      table: Where it is looked for.
      train: The training file, whose other columns are none like it.
      name: Of a column of `train`.
    """
    others = set(train.columns) - {name}
    wanted = _plain(name)
    return any(
        _plain(column) == wanted
        for column in table.columns
        if column not in others
    )


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name.lower()).removesuffix("s")


def like_train(
    table: Table, train: Table, needed: Sequence[str], may_guess: bool
) -> Table:
    """Another file of the same kind, which shares its header, or lack of one.

    Args:
      table: As `table_files.read_table` gives it.
      train: The training file, with its names.
      needed: Columns that count, that of the labels last.
      may_guess: Whether nobody said if there is a header.

    Raises:
      ValueError: If this one differs.
    """
    where = f"Received: {table.path!r}, row {table.rows[0].number}: "
    where += " | ".join(table.first)[:200]
    if train.has_header:
        if table.has_header or set(needed) & set(table.first):
            return table.with_header()
        raise ValueError(
            f"Expected a header with {', '.join(map(repr, needed))}, as in "
            f"{train.path!r}. {where}."
        )
    if table.has_header or (may_guess and looks_like_header(table)):
        raise ValueError(
            f"Expected no header, as in {train.path!r} (--has_header says that "
            f"both have one). {where}."
        )
    # Labels may be missing, where they come last.
    missing = len(train.columns) - len(table.columns)
    if missing and (missing != 1 or train.columns[-1] != needed[-1]):
        raise ValueError(
            f"Expected {len(train.columns)} columns, as in {train.path!r}. "
            f"Received: {len(table.columns)} in {table.path!r}."
        )
    if missing and _has_labels_last(table, train):
        raise ValueError(
            f"Expected {len(train.columns)} columns, as in {train.path!r}, or "
            f"all but the labels. Received: {len(table.columns)} in "
            f"{table.path!r}, whose last one has nothing but labels."
        )
    return table


def _has_labels_last(table: Table, train: Table) -> bool:
    """Whether the last column of a table is that of the training's labels."""
    labels = {str(row.values[-1]) for row in train.rows}
    return labels.issuperset(str(row.values[-1]) for row in table.rows)


def choose_columns(
    table: Table, text_columns: Sequence[str] = (), label_column: str = ""
) -> tuple[list[str], str]:
    """Which columns hold the texts and the labels.

    Args:
      table: The training file.
      text_columns: Those of the texts, if they are known.
      label_column: That of the labels, if it is known.

    Returns:
      Names of one or two columns, and of another one.

    Raises:
      ValueError: If there are no such columns, or more than one choice.
    """
    _check_given(table, text_columns, label_column)
    texts = list(text_columns) or _texts_by_name(table, label_column)
    given = {*text_columns, label_column}
    label_column = label_column or _labels_by_name(table, texts)
    left = [c for c in table.columns if c not in (*texts, label_column)]
    num_left = len(left)
    if not texts and num_left > 1 + (not label_column):
        # Numbers of rows are no texts.
        left = [c for c in left if not _counts_rows(_values(table, c))]
    if not texts and not label_column and len(left) in (2, 3):
        label_column = _column_of_labels(table, left, len(left) < num_left)
        left = [column for column in left if column != label_column]
    if not texts and len(left) == 1:
        texts = left
    elif not texts and len(left) == 2 and label_column and not table.has_header:
        texts = _checked_pair(table, left)
    elif not label_column and len(left) == 1:
        label_column = left[0]
    for found, what, setting in (
        (texts, "texts", "text_columns"),
        (label_column, "labels", "label_column"),
    ):
        if not found:
            raise ValueError(
                f"Expected to find the column of the {what} by its name, such "
                f"as {(TEXT_NAMES if what == 'texts' else LABEL_NAMES)[0]!r}. "
                f"Received: {table.path!r} with the columns "
                f"{', '.join(table.columns)}: say which in --{setting}."
            )
    _check_twins(table, texts, label_column, given)
    return texts, label_column


def _check_given(
    table: Table, text_columns: Sequence[str], label_column: str
) -> None:
    """Checks columns that the user names.

    Raises:
      ValueError: If there are too many, one twice, or one that is not there.
    """
    if len(text_columns) > 2:
        raise ValueError(
            "Expected one or two text columns. Received: "
            f"{', '.join(text_columns)}."
        )
    for name in text_columns:
        table.column(name, "text")
    if label_column:
        table.column(label_column, "labels")
    given = [*text_columns, label_column]
    repeated = [name for name in given if given.count(name) > 1]
    if repeated:
        raise ValueError(
            "Expected different columns for texts and labels. Received: "
            f"{repeated[0]!r} twice."
        )


def _by_name(table: Table) -> dict[str, str]:
    """The first column of each name, whatever its case."""
    return {column.lower(): column for column in table.columns[::-1]}


def _texts_by_name(table: Table, label_column: str) -> list[str]:
    """The columns of texts, by usual names: a pair, one or none.

    Args:
      table: The training file.
      label_column: That of the labels, if it is known.

    Raises:
      ValueError: If there are several, and no pair.
    """
    by_name = _by_name(table)
    by_name = {n: c for n, c in by_name.items() if c != label_column}
    for pair in TEXT_PAIRS:
        if by_name.keys() >= set(pair):
            return [by_name[name] for name in pair]
    texts = [by_name[name] for name in TEXT_NAMES if name in by_name]
    if len(texts) > 1:  # A title is that of another text.
        texts = [name for name in texts if name.lower() != "title"]
    if len(texts) > 1:
        raise ValueError(
            "Expected one column of texts, or a pair with usual names. "
            f"Received: {table.path!r} with "
            f"{' and '.join(map(repr, texts))}: say which in "
            "--text_columns, one or two."
        )
    return texts


def _labels_by_name(table: Table, texts: Sequence[str]) -> str:
    """The column of the labels, by its usual name; nothing without one.

    Args:
      table: The training file.
      texts: The columns of texts, as far as they are known.

    Raises:
      ValueError: If there are several.
    """
    by_name = _by_name(table)
    usual = [
        name
        for name in LABEL_NAMES
        if name in by_name and by_name[name] not in texts
    ]
    if len(usual) == 1 or _NEVER_DATA & set(usual[:1]):
        return by_name[usual[0]]
    if usual:
        raise ValueError(
            "Expected one column of labels. Received: "
            f"{table.path!r} with {' and '.join(map(repr, usual))}: say "
            "which in --label_column."
        )
    return ""


def _check_twins(
    table: Table, texts: Sequence[str], label_column: str, given: set[str]
) -> None:
    """Refuses columns that were found where others differ by case alone.

    Raises:
      ValueError: If there are any, and the user named none of them.
    """
    for name in {*texts, label_column} - given:
        twins = [c for c in table.columns if c.lower() == name.lower()]
        if len(twins) > 1 and not given.intersection(twins):
            setting = "label_column" if name == label_column else "text_columns"
            raise ValueError(
                "Expected columns whose names differ by more than case. "
                f"Received: {table.path!r} with "
                f"{' and '.join(map(repr, twins))}: say which in --{setting}."
            )


def _values(table: Table, name: str) -> list[str]:
    column = table.columns.index(name)
    return [str(row.values[column]).strip() for row in table.rows]


def _counts_rows(values: Sequence[str]) -> bool:
    """Whether values are different whole numbers, as an id is."""
    return len(set(values)) == len(values) and all(
        re.fullmatch("[0-9]+", value) for value in values
    )


def _column_of_labels(
    table: Table, names: Sequence[str], must_repeat: bool
) -> str:
    """Which of two or three columns has labels, the first or the last.

    Numbers beside texts are labels, and tags of spans. Otherwise it is that
    with fewer different values; of equals the one whose values are no texts.

    Args:
      table: The training file.
      names: Of the columns.
      must_repeat: Whether labels that are no numbers must repeat.

    Returns:
      Its name; nothing if that is not certain.
    """
    found = [names[0], names[-1]]
    tests: list[Callable[[list[str]], int]] = [
        lambda values: not _are_numbers(values),
        lambda values: not tag_schemes.form_of(set(" ".join(values).split())),
        lambda values: len({*values}),
        _are_texts,
    ]
    for test in tests:
        first, last = (int(test(_values(table, name))) for name in found)
        if first != last:
            name = found[first > last]
            values = _values(table, name)
            is_good = len(set(values)) <= len(values) / 2
            if is_good or not must_repeat or _are_numbers(values):
                return name
            return ""
    return ""


def _are_texts(values: Sequence[str]) -> bool:
    """Whether most are of several words, or long ones of other scripts."""
    num_texts = sum(
        " " in value or (len(value) > 4 and not value.isascii())
        for value in values
    )
    return num_texts > len(values) / 2


def _checked_pair(table: Table, names: Sequence[str]) -> list[str]:
    """Two columns of a file without a header as a pair of texts.

    Raises:
      ValueError: If one may be something else, such as a name of the row.
    """
    for name, other in (names, names[::-1]):
        values = _values(table, name)
        if not _are_texts(values):
            raise ValueError(
                "Expected texts, or one column of them. Received: "
                f"{table.path!r} with such as {values[0][:40]!r} in column "
                f"{name!r}. --text_columns={','.join(names)} reads a pair of "
                f"texts, --text_columns={other} one text."
            )
    return list(names)
