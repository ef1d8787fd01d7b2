"""Asks an exported model about texts.

    electra-tf predict --saved_model=models/served "A fine film." ...

The SavedModel is one version of it, or the folder of the versions, of which the
newest is taken; its signature and metadata say what goes in and what comes out.
Texts are arguments, lines of --file or of standard input. Where the model takes
two texts they are separated by a tab. A file that ends in .jsonl or .ndjson has
an object on each line, such as {"text": "A fine film."}, so that texts may hold
tabs and ends of lines; --input-format=jsonl reads others so, too. What stands
before a line that is refused is answered.

Prints one JSON object a line, in the order of the texts, or lines to read on a
terminal (--format).
"""

import argparse
import json
import sys
from collections.abc import Sequence

from electra_tf import errors
from electra_tf.command_line import arguments, text_lines
from electra_tf.inference import exchange


def _predict(args: argparse.Namespace) -> None:
    is_json = args.input_format == "jsonl" or (
        args.input_format == "auto"
        and (args.file or "").lower().endswith(text_lines.OBJECTS)
    )
    is_readable = args.format == "text" or (
        args.format == "auto" and sys.stdout.isatty()
    )
    is_said = is_json or args.input_format == "text"

    def parse(number: int, line: text_lines.Line) -> list[bytes]:
        if not (is_said or number):  # The first line tells.
            exchange.refuse_object(line, model.input_names)
        return exchange.parse_line(line, model.input_names, is_json)

    batches = text_lines.read_batches(
        args.text, args.file, args.batch_size, parse
    )
    # Imports TensorFlow: late, so that --help is quick.
    from electra_tf.inference import predictor

    model = predictor.ExportedModel(args.saved_model, args.outputs)
    num_texts = 0
    for rows in batches:
        num_texts += len(rows)
        for answer in model.predict(rows):
            if is_readable:
                print(*exchange.as_lines(answer, model.input_names), sep="\n")
            else:
                print(json.dumps(answer, ensure_ascii=False))
        sys.stdout.flush()
    if model.num_cut:
        errors.warn(
            f"{model.num_cut} of {num_texts} texts were not read to their end: "
            'see "truncated"'
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Parses the flags and asks; returns the exit code."""
    parser = arguments.ArgumentParser("electra-tf predict", __doc__)
    add = parser.add_argument
    text_lines.add_arguments(parser)
    line = "folder of a SavedModel's versions, or one of them"
    add("--saved-model", required=True, help=line)
    line = "default: text on a terminal, else json"
    add("--format", choices=("auto", "json", "text"), default="auto", help=line)
    line = "default: jsonl where --file ends in .jsonl or .ndjson, else text"
    kinds = ("auto", "text", "jsonl")
    add("--input-format", choices=kinds, default="auto", help=line)
    line = "which outputs to print, separated by commas (default: all)"
    add("--outputs", type=arguments.names, default=(), help=line)
    line = "texts that are answered at once (default: %(default)s)"
    add("--batch-size", type=arguments.positive_int, default=32, help=line)
    return arguments.run(_predict, parser, argv)


if __name__ == "__main__":
    sys.exit(main())
