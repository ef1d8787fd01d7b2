"""Asks an exported model about texts.

    python -m electra_tf.predict --saved_model=models/served "A fine film." ...

The SavedModel is one version of it, or the folder of the versions, of which the
newest is taken; its signature and metadata say what goes in and what comes out.
Texts are arguments, lines of --file or of standard input. Where the model takes
two texts they are separated by a tab. A file that ends in .jsonl has an object
on each line, such as {"text": "A fine film."}, so that texts may hold tabs and
ends of lines.

Prints one JSON object a line, in the order of the texts, or lines to read on a
terminal (--format).
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence

from electra_tf.command_line import arguments, text_lines
from electra_tf.command_line.text_lines import Line

_JSON_LINES = ".jsonl"
# Of the table in an answer to read.
_COLUMNS = (
    "tokens",
    "words",
    "answers",
    "labels",
    "probabilities",
    "scores",
    "starts",
    "ends",
)
# Of a list, in an answer to read.
_MOST_SHOWN = 8


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
        found = json.loads(line.content)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(
        isinstance(found.get(name), str) for name in names
    ):
        raise ValueError(
            f"{line.place}: expected a JSON object with the text(s) "
            f"{', '.join(names)}. Received: {_shorten(line)}"
        )
    # A lone surrogate, which JSON can hold, is no character.
    return [found[name].encode("utf-8", errors="replace") for name in names]


def _shorten(line: Line, most: int = 60) -> str:
    text = text_lines.decode(line.content)
    return repr(text if len(text) <= most else text[: most - 1] + "…")


def as_lines(answer: dict, input_names: Sequence[str]) -> list[str]:
    """An answer to read: the texts, then its outputs.

    Args:
      answer: Of `prediction.ExportedModel.predict`.
      input_names: Of the texts in it.

    Returns:
      Lines. What there is for each token, word or answer is a table.
    """
    texts = (text_lines.printable(answer[name]) for name in input_names)
    outputs = {n: v for n, v in answer.items() if n not in input_names}
    items: dict[str, list] = {}
    if "starts" in outputs:
        items = {n: outputs.pop(n) for n in _COLUMNS if n in outputs}
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


def make_parser() -> arguments.ArgumentParser:
    """The flags of this command."""
    parser = arguments.ArgumentParser(prog="predict", description=__doc__)
    text_lines.add_arguments(parser)
    parser.add_argument(
        "--saved-model",
        required=True,
        help="one version of a SavedModel, or the folder of its versions",
    )
    parser.add_argument(
        "--format",
        choices=("auto", "json", "text"),
        default="auto",
        help="default: text on a terminal, else json",
    )
    parser.add_argument(
        "--outputs",
        default="",
        help="which outputs to print, separated by commas (default: all)",
    )
    parser.add_argument(
        "--batch-size",
        type=arguments.positive_int,
        default=32,
        help="texts that are answered at once (default: %(default)s)",
    )
    return parser


def _predict(args: argparse.Namespace) -> None:
    lines = text_lines.read_lines(args.text, args.file)
    # Imports TensorFlow: late, so that --help is quick.
    from electra_tf.inference import predictor

    model = predictor.ExportedModel(
        args.saved_model, [name for name in args.outputs.split(",") if name]
    )
    is_json = bool(args.file) and args.file.endswith(_JSON_LINES)
    is_readable = args.format == "text" or (
        args.format == "auto" and sys.stdout.isatty()
    )
    is_typed = text_lines.is_typed(args.text, args.file)
    batch_size = 1 if is_typed else args.batch_size
    for batch in text_lines.in_batches(lines, batch_size):
        rows = [parse_line(line, model.input_names, is_json) for line in batch]
        for answer in model.predict(rows):
            if is_readable:
                print(*as_lines(answer, model.input_names), sep="\n")
            else:
                print(json.dumps(answer, ensure_ascii=False))
        sys.stdout.flush()


def main(argv: Sequence[str] | None = None) -> int:
    """Parses the flags and asks; returns the exit code."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    return arguments.run(_predict, make_parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
