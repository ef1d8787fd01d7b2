"""What is exchanged with an exported model: lines -> texts, answers -> lines.

Imports no TensorFlow.
"""

import json
from collections.abc import Sequence

from electra_tf import files
from electra_tf.command_line import column_names, text_lines
from electra_tf.command_line.text_lines import Line

# What there is for each of several tokens, words or answers; in an answer to
# read, the columns of a table.
COLUMNS = (
    "tokens",
    "words",
    "answers",
    "labels",
    "probabilities",
    "scores",
    "starts",
    "ends",
)
# What the inputs of exported models are called, in the order of a line.
INPUT_NAMES = ("text", "text_pair", "question", "context")
# Of a list, in an answer to read.
_MOST_SHOWN = 8


def refuse_no_texts(line: Line, names: Sequence[str], path: str | None) -> None:
    """Refuses a first line that is there for another reason than its texts.

    Args:
      line: As it was given.
      names: Of the model's inputs.
      path: Of the file, if it is in one.

    Raises:
      ValueError: If it is a JSON object with these inputs or, in a .tsv, has
        nothing but names of columns.
    """
    try:
        found = json.loads(line.content)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict) and found.keys() >= set(names):
        raise ValueError(
            f"{line.place}: expected a text. Received: a JSON object with "
            f"{', '.join(names)}: --input-format=jsonl reads such lines, "
            "--input-format=text takes them for texts"
        )
    cells = text_lines.decode(line.content).lower().split("\t")
    if (
        (path or "").lower().endswith(".tsv")
        and len(cells) == len(names)
        and column_names.NAMES_OF_TEXTS.union(names).issuperset(cells)
    ):
        raise ValueError(
            f"{line.place}: expected a text. Received: the names of columns "
            f"{_shorten(line)}: delete this line (--input-format=text takes "
            "it for a text)"
        )


def parse_lines(
    batch: Sequence[Line], names: Sequence[str], is_json: bool
) -> tuple[list[list[bytes]], ValueError | None]:
    """The texts of lines, as far as none is refused, and that refusal.

    Args:
      batch: The lines.
      names: See `parse_line`.
      is_json: See `parse_line`.
    """
    rows: list[list[bytes]] = []
    for line in batch:
        try:
            rows.append(parse_line(line, names, is_json))
        except ValueError as error:
            return rows, error
    return rows, None


def parse_line(line: Line, names: Sequence[str], is_json: bool) -> list[bytes]:
    """The texts of one line.

    Args:
      line: As it was given.
      names: Of the model's inputs.
      is_json: Whether it is a JSON object rather than texts between tabs.

    Returns:
      As many texts as there are names, as bytes.

    Raises:
      ValueError: If it has other texts than these.
    """
    if is_json:
        return _parse_json(line, names)
    texts = line.content.split(b"\t")
    if len(texts) != len(names):
        expected = (
            f"{len(names)} texts ({', '.join(names)}) separated by a tab"
            if len(names) > 1
            else "one text without a tab"
        )
        raise ValueError(
            f"{line.place}: expected {expected}. Received: {len(texts)} "
            f"text(s), {_shorten(line)}"
        )
    return texts


def _parse_json(line: Line, names: Sequence[str]) -> list[bytes]:
    try:
        found = json.loads(line.content, object_pairs_hook=files.each_once)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(
        isinstance(found.get(name), str) for name in names
    ):
        raise ValueError(
            f"{line.place}: expected a JSON object with the text(s) "
            f"{', '.join(names)}, each once. Received: {_shorten(line)}"
        )
    left_out = [
        name
        for name in INPUT_NAMES
        if name not in names and found.get(name) is not None
    ]
    if left_out:
        raise ValueError(
            f"{line.place}: expected no other text(s) than {', '.join(names)}, "
            f"which the model takes. Received: {', '.join(left_out)} as well"
        )
    try:
        return [found[name].encode("utf-8") for name in names]
    except UnicodeEncodeError:  # JSON can hold what is no character.
        raise ValueError(
            f"{line.place}: expected characters of Unicode. Received: half a "
            f"surrogate pair in {_shorten(line)}"
        ) from None


def _shorten(line: Line, most: int = 60) -> str:
    text = text_lines.decode(line.content)
    return repr(text if len(text) <= most else text[: most - 1] + "…")


def as_lines(answer: dict, input_names: Sequence[str]) -> list[str]:
    """An answer to read: the texts, then its outputs.

    Args:
      answer: Of `predictor.ExportedModel.predict`.
      input_names: Of the texts in it.

    Returns:
      Lines. What there is for each token, word or answer is a table.
    """
    texts = (text_lines.printable(answer[name]) for name in input_names)
    outputs = {n: v for n, v in answer.items() if n not in input_names}
    items: dict[str, list] = {}
    if "starts" in outputs:
        items = {n: outputs.pop(n) for n in COLUMNS if n in outputs}
        outputs.pop("input_mask", None)
        outputs.pop("sequence_output", None)
        if not {"tokens", "words", "answers"} & set(items):
            items = {}  # Offsets of nothing that is shown.
    width = max(map(len, outputs), default=0)
    return [
        " | ".join(texts),
        *(
            f"  {name:{width}}  {text_lines.printable(_readable(value))}"
            for name, value in outputs.items()
        ),
        *_table(items),
    ]


def _table(columns: dict[str, list]) -> list[str]:
    """A line for each item, without the names of the columns."""
    cells = []
    for values in columns.values():
        shown = [text_lines.printable(_readable(value)) for value in values]
        width = max(map(text_lines.display_width, shown), default=0)
        cells.append(
            [x + " " * (width - text_lines.display_width(x)) for x in shown]
        )
    return ["  " + "  ".join(row).rstrip() for row in zip(*cells, strict=True)]


def _readable(value) -> str:
    """A value in a line that a person reads to its end."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        best = sorted(value.items(), key=lambda item: -item[1])
        shown = [f"{name} {_readable(score)}" for name, score in best]
    elif isinstance(value, list):
        shown = [_readable(part) for part in value]
    else:
        return str(value)
    rest = len(shown) - _MOST_SHOWN
    return ", ".join(shown[:_MOST_SHOWN]) + (
        f", ... ({rest} more)" if rest > 0 else ""
    )
