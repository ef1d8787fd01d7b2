"""What the labels of a file are: classes, several a row, numbers or tags?

Only what is certain is taken. Otherwise the two readings are shown, and the
setting that decides between them.
"""

import collections
import re
import typing
import unicodedata
from collections.abc import Sequence

import numpy as np

from electra_tf.finetuning.tasks import tag_schemes
from electra_tf.finetuning.tasks.table_files import Value
from electra_tf.finetuning.tasks.text_tasks import number
from electra_tf.model import task_head

# What is left of a label that was missing. Nobody's class has such a name.
_SURELY_MISSING = frozenset(
    ("nan", "NaN", "-nan", "-NaN", "<NA>", "#N/A", "#NA", "#N/A N/A")
)
# These may be classes. Pandas reads all but "-" as missing; SNLI has that where
# nobody agreed.
MISSING = _SURELY_MISSING | {"NA", "N/A", "n/a", "NULL", "null", "None", "-"}

# Between the labels of a row, in the order in which they are looked for.
_SEPARATORS = (task_head.LABEL_SEPARATOR, ";", ",")
# More different whole numbers than this may be a quantity, or classes.
_MOST_NUMBERED_CLASSES = 20
# With this many rows, labels that hardly repeat are no classes.
_LEAST_ROWS_TO_JUDGE = 20

# What pandas writes of lists into a .csv.
_LIST = re.compile(r"\[(['\"].*['\"]|[0-9]+([ ,]+[0-9]+)*)?\]", re.DOTALL)
_DECIMAL_COMMA = re.compile("[+-]?[0-9]+,[0-9]+")
# 1,234 is a bit more than one in some countries, and a thousand in others.
_MAYBE_THOUSANDS = re.compile("[+-]?[1-9][0-9]{0,2},[0-9]{3}")


class OwnRow(typing.NamedTuple):
    """A row of a file.

    Attributes:
      texts: One or two; a list of words where the file has lists.
      label: As in the file; None in a split without labels.
      number: Of its first line in the file.
    """

    texts: list[Value]
    label: Value
    number: int


def items(value: Value) -> list[str]:
    """The words, or the tags, of a row."""
    if isinstance(value, list):
        return value
    return (value or "").split()


def check(rows: Sequence[OwnRow], path: str, task_type: str = "auto") -> None:
    """Refuses labels that stand for none, such as "nan", or for a list.

    Args:
      rows: With labels.
      path: Their file.
      task_type: Where it is known, "NA" and "None" are labels like others.

    Raises:
      ValueError: If there is such a label.
    """
    texts = [row.label for row in rows if isinstance(row.label, str)]
    if tag_schemes.form_of(set(" ".join(texts).split())):
        return  # "-" is outside of spans.
    for row in rows:
        if isinstance(row.label, str) and _LIST.fullmatch(row.label):
            raise ValueError(
                "Expected a label. Received: a list as text, "
                f"{row.label[:40]!r}, in {path!r}, row {row.number}: lists are "
                "for a .jsonl; in others, labels stand between '|'."
            )
        of_row = [row.label] if isinstance(row.label, str) else row.label
        label = next((v for v in of_row or () if v in MISSING), "")
        if label in _SURELY_MISSING:
            raise ValueError(
                f"Expected a label. Received: {label!r} in {path!r}, row "
                f"{row.number}, as where there was none."
            )
        if label and task_type == "auto":
            raise ValueError(
                f"Expected a label, or none, beyond doubt. Received: {label!r} "
                f"in {path!r}, row {row.number}. --task_type=classification "
                "reads it as a class; if the label is missing, leave the row "
                "out."
            )


def guess_type(
    rows: Sequence[OwnRow], separator: str = "", path: str = ""
) -> tuple[str, str]:
    """What kind of task the labels make.

    Args:
      rows: Of the training file.
      separator: Between the labels of a row, where that is known.
      path: The file, for error messages.

    Returns:
      One of `TASK_TYPES` but "auto", and the separator of multi_label.

    Raises:
      ValueError: If it may be one or another.
    """
    if any(isinstance(row.label, list) for row in rows):
        is_tagging = _have_a_tag_for_each_word(rows, path)
        return ("tagging" if is_tagging else "multi_label"), separator
    if separator:
        return "multi_label", separator
    labels = [str(row.label) for row in rows]
    kind = _kind_of_numbers(rows, labels, path)
    if kind:
        return kind
    num_tags = [len(label.split()) for label in labels]
    # If they are as many in all rows, the labels may have names of two words.
    are_tags = len(set(num_tags)) > 1 or tag_schemes.are_span_tags(
        " ".join(labels).split()
    )
    if (
        max(num_tags) > 1
        and are_tags
        and all(
            count == len(items(row.texts[0]))
            for count, row in zip(num_tags, rows, strict=True)
        )
    ):
        return "tagging", ""
    for separator in _SEPARATORS:
        if _separates(separator, set(labels), path):
            return "multi_label", separator
    different = len(set(labels))
    if different > len(labels) / 2 and len(labels) >= _LEAST_ROWS_TO_JUDGE:
        raise ValueError(
            f"Expected labels that repeat. Received: {different} different "
            f"ones in the {len(labels)} rows of {path!r}, such as "
            f"{labels[0][:40]!r}: is another column meant (--label_column), or "
            "numbers (--task_type=regression)? --task_type=classification "
            "takes them."
        )
    return "classification", ""


def _have_a_tag_for_each_word(rows: Sequence[OwnRow], path: str) -> bool:
    """Whether lists of labels are tags of the words.

    Raises:
      ValueError: If they are in some rows only, and look like it.
    """
    sizes = [(len(items(row.texts[0])), len(items(row.label))) for row in rows]
    num_fitting = sum(words == tags for words, tags in sizes)
    if num_fitting == len(rows):
        return True
    tags = [tag for row in rows for tag in items(row.label)]
    are_words = all(isinstance(row.texts[0], list) for row in rows)
    if not tag_schemes.are_span_tags(tags) and (
        not are_words or num_fitting <= len(rows) / 2
    ):
        return False
    row, (num_words, num_tags) = next(
        (row, size)
        for row, size in zip(rows, sizes, strict=True)
        if size[0] != size[1]
    )
    raise ValueError(
        "Expected a tag for each word, or labels of whole texts, beyond doubt. "
        f"Received: {num_words} words and {num_tags} labels in {path!r}, row "
        f"{row.number}; {num_fitting} of {len(rows)} rows have a label for "
        "each word. If that row is mended, or --task_type=tagging is given, "
        "they are tags; --task_type=multi_label reads labels of whole texts."
    )


def _kind_of_numbers(
    rows: Sequence[OwnRow], labels: Sequence[str], path: str
) -> tuple[str, str] | None:
    """What labels that are numbers make; None if they are none."""
    values = np.array([number(label) for label in labels])
    are_numbers = np.isfinite(values)
    with_comma = [
        i for i, v in enumerate(labels) if _DECIMAL_COMMA.fullmatch(v)
    ]
    if with_comma and all(
        is_number or "," in label
        for is_number, label in zip(are_numbers, labels, strict=True)
    ):
        if len(with_comma) + are_numbers.sum() < len(labels):
            return None  # There are more commas than one in a label.
        row, label = rows[with_comma[0]], labels[with_comma[0]]
        first, second = label.split(",")
        raise ValueError(
            f"Expected a number, or several labels, beyond doubt. Received: "
            f"{label!r} in {path!r}, row {row.number}. --task_type=regression "
            f"reads {first}.{second}, --task_type=multi_label the labels "
            f"{first!r} and {second!r}."
        )
    different = sorted(set(values[are_numbers]))
    is_whole = all(value == round(value) for value in different)
    is_quantity = len(different) > _MOST_NUMBERED_CLASSES or not is_whole
    if not are_numbers.all():
        if is_quantity and are_numbers.mean() > 0.5:
            row = rows[int(np.argmin(are_numbers))]
            raise ValueError(
                "Expected a number, as in most rows. Received: "
                f"{row.label!r} in {path!r}, row {row.number}. "
                "--task_type=classification reads all as names of classes."
            )
        return None
    if not is_quantity:
        if len(set(labels)) > len(different):
            _refuse_one_number_twice(rows, labels, path)
        return "classification", ""
    if not is_whole:
        return "regression", ""
    if len(labels) > 1 and (np.diff(values) == 1).all():
        raise ValueError(
            "Expected labels. Received: the numbers of the rows, "
            f"{labels[0]}, {labels[1]} and so on, in {path!r}: is another "
            "column meant (--label_column)? --task_type=regression takes them."
        )
    raise ValueError(
        "Expected classes, or a quantity, beyond doubt. Received: "
        f"{len(different)} different whole numbers from {labels[0]} on in "
        f"{path!r}. --task_type=classification reads a class in each, "
        "--task_type=regression a quantity."
    )


def _refuse_one_number_twice(rows, labels, path) -> None:
    spelled: dict[float, str] = {}
    for row, label in zip(rows, labels, strict=True):
        known = spelled.setdefault(number(label), label)
        if known != label:
            raise ValueError(
                f"Expected one way to write a number. Received: {known!r} and "
                f"{label!r} in {path!r}, row {row.number}. "
                "--task_type=classification reads two classes."
            )


def _separates(separator: str, labels: set[str], path: str) -> bool:
    """Whether parts of labels are labels.

    Nobody's name has a "|" in it, so that with one it is enough if a part
    occurs twice. "Food, Drink" may be two labels or the name of one: they are
    two if each part is also a label by itself, and one if no part is anything
    else.

    Raises:
      ValueError: If that is not certain.
    """
    counts = collections.Counter(
        part.strip() for label in labels for part in label.split(separator)
    )
    compound = [label for label in sorted(labels) if separator in label]
    parts = {
        part.strip() for label in compound for part in label.split(separator)
    } - {""}
    repeated = sorted(part for part in parts if counts[part] > 1)
    if not repeated:
        return False
    if separator == _SEPARATORS[0] or parts <= labels:
        return True
    label = next(label for label in compound if repeated[0] in label)
    raise ValueError(
        f"Expected one label a row, or several, beyond doubt. Received: "
        f"{label!r} in {path!r}, where {repeated[0]!r} occurs in others, too. "
        "--task_type=classification reads the name of one class, "
        "--task_type=multi_label labels between "
        f"{separator!r}."
    )


def separator_of(labels: Sequence[str], path: str) -> str:
    """What stands between the labels of a row, where there may be several.

    Args:
      labels: Of all rows.
      path: Their file.

    Raises:
      ValueError: If it may be one or another.
    """
    found = [s for s in _SEPARATORS if any(s in label for label in labels)]
    if len(found) < 2 or found[0] == _SEPARATORS[0]:
        return (found or _SEPARATORS)[0]
    raise ValueError(
        f"Expected one separator of labels. Received: {path!r} with "
        f"{' and '.join(map(repr, found))}: say which in --label_separator."
    )


def have_decimal_commas(labels: Sequence[str], path: str) -> bool:
    """Whether the commas in labels that are known to be numbers are decimal.

    Raises:
      ValueError: If they may separate thousands.
    """
    with_comma = [v for v in labels if _DECIMAL_COMMA.fullmatch(v)]
    if with_comma and (
        all(map(_MAYBE_THOUSANDS.fullmatch, with_comma))
        or any("." in label for label in labels)
    ):
        raise ValueError(
            "Expected a decimal point, or a decimal comma beyond doubt. "
            f"Received: {with_comma[0]!r} in {path!r}, which may be "
            f"{with_comma[0].replace(',', '.')} or "
            f"{with_comma[0].replace(',', '')}: write it so."
        )
    return bool(with_comma)


def one_for_all(split: str, labels: Sequence) -> list[str]:
    """A line where all rows of a split have the same label.

    Args:
      split: Its name.
      labels: Of its rows.
    """
    if len(labels) < 2 or len(set(labels)) > 1:
        return []
    what = f"the label {labels[0]!r}" if labels[0] else "no label"
    return [
        f"{split}: all {len(labels)} rows have {what}, by which they are "
        "scored: is it a placeholder?"
    ]


def remarks(labels: Sequence[str]) -> list[str]:
    """What should be looked at in the names of classes, a line each."""
    by_form = collections.defaultdict(list)
    for label in labels:
        plain = unicodedata.normalize("NFKC", label).casefold()
        shown = [c for c in plain if unicodedata.category(c) != "Cf"]
        by_form["".join("".join(shown).split())].append(label)
    return [
        f"the labels {' and '.join(map(repr, same))} differ in case, spaces or "
        "the coding of characters only"
        for same in by_form.values()
        if len(same) > 1
    ]
