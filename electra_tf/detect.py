"""Shows how likely a pre-trained model takes each token for a replaced one.

    python -m electra_tf.detect --checkpoint=models/electra_small \
        "The chef ate the meal"

The checkpoint may be of any format that has the discriminator's head: a
pre-training run, the original's, Hugging Face's `electra-*-discriminator`, and
so on. Texts are arguments, lines of --file or of standard input, and may be of
any length.

Prints each text and below it its tokens with their probabilities in per cent,
in colour on a terminal. --json prints one object a line instead, with character
offsets; --html writes a page as well.
"""

import argparse
import json
import os
import shutil
import sys
from collections.abc import Sequence

from electra_tf import files
from electra_tf.command_line import arguments, text_lines
from electra_tf.inference.judged_text import REPLACED_FROM, JudgedText, pieces

# Probability -> background of the 256-colour palette, from yellow to red.
_COLOURS = ((0.75, 203), (0.5, 209), (0.25, 216), (0.1, 223))
_BLACK_ON = "\x1b[30;48;5;{}m"
_BOLD = "\x1b[1m"
_RESET = "\x1b[0m"
_BATCH_SIZE = 64


def as_json(judged: JudgedText) -> str:
    """One line: the text, and its tokens with offsets and probabilities."""
    return json.dumps(
        {
            "text": judged.text,
            "tokens": [
                {
                    "token": token.token,
                    "begin": token.begin,
                    "end": token.end,
                    "probability": round(token.probability, 6),
                }
                for token in judged.tokens
            ],
        },
        ensure_ascii=False,
    )


def as_lines(judged: JudgedText, width: int, in_colour: bool) -> list[str]:
    """The text as it was typed, then its tokens above their probabilities.

    Args:
      judged: What to show.
      width: Columns of the terminal.
      in_colour: Whether likely replaced tokens have a background.

    Returns:
      Lines, wrapped at the width (the text itself is left to the terminal).
    """
    lines = [_coloured_text(judged, in_colour)]
    above, below, used = "", "", 0
    for token in judged.tokens:
        shown = text_lines.printable(token.token)
        percentage = f"{100 * token.probability:.0f}"
        columns = max(text_lines.display_width(shown), len(percentage))
        if used and used + 1 + columns > width:
            lines += [above.rstrip(), below.rstrip()]
            above, below, used = "", "", 0
        padding = " " * (columns - text_lines.display_width(shown))
        separator = " " if used else ""
        above += (
            separator + _colour(shown, token.probability, in_colour) + padding
        )
        below += separator + percentage.ljust(columns)
        used += len(separator) + columns
    if used:
        lines += [above.rstrip(), below.rstrip()]
    return lines


def _coloured_text(judged: JudgedText, in_colour: bool) -> str:
    parts = []
    for is_token, begin, end, probability in pieces(judged):
        part = text_lines.printable(judged.text[begin:end])
        parts.append(_colour(part, probability, in_colour and is_token))
    return "".join(parts)


def _colour(text: str, probability: float, in_colour: bool) -> str:
    if not in_colour:
        return text
    for bound, colour in _COLOURS:
        if probability >= bound:
            bold = _BOLD if probability >= REPLACED_FROM else ""
            return f"{bold}{_BLACK_ON.format(colour)}{text}{_RESET}"
    return text


def uses_colour(choice: str, is_terminal: bool, environment) -> bool:
    """Whether to print in colour.

    Args:
      choice: "always", "never", or "auto": on a terminal that can, unless
        NO_COLOR is set (https://no-color.org).
      is_terminal: Of the output.
      environment: Such as os.environ.
    """
    if choice != "auto":
        return choice == "always"
    return (
        is_terminal
        and not environment.get("NO_COLOR")
        and environment.get("TERM") != "dumb"
    )


def make_parser() -> arguments.ArgumentParser:
    """The flags of this command."""
    parser = arguments.ArgumentParser(prog="detect", description=__doc__)
    text_lines.add_arguments(parser)
    parser.add_argument(
        "--checkpoint",
        required=True,
        help="a pre-trained checkpoint of any format, with the discriminator's "
        "head",
    )
    parser.add_argument(
        "--vocab-file", help="where the checkpoint comes without a vocabulary"
    )
    parser.add_argument("--html", metavar="FILE", help="write a page, too")
    parser.add_argument(
        "--json", action="store_true", help="print JSON lines instead"
    )
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="default: on a terminal, unless NO_COLOR is set",
    )
    return parser


def _detect(args: argparse.Namespace) -> None:
    lines = text_lines.read_lines(args.text, args.file)
    # Imports TensorFlow: late, so that --help is quick.
    from electra_tf.inference import detector, judged_text

    found = detector.Detector(args.checkpoint, args.vocab_file)
    for note in found.notes:
        print(f"detect: {note}", file=sys.stderr)
    is_typed = text_lines.is_typed(args.text, args.file)
    in_colour = uses_colour(args.color, sys.stdout.isatty(), os.environ)
    width = shutil.get_terminal_size().columns
    kept: list[JudgedText] = []
    for batch in text_lines.in_batches(lines, 1 if is_typed else _BATCH_SIZE):
        texts = [text_lines.decode(line.content) for line in batch]
        for judged in found.judge(texts):
            if args.json:
                print(as_json(judged))
            else:
                print(*as_lines(judged, width, in_colour), "", sep="\n")
            if args.html:
                kept.append(judged)
        sys.stdout.flush()
    if args.html:
        files.write_atomically(
            args.html, judged_text.render(kept, args.checkpoint)
        )
        print(f"detect: wrote {args.html}", file=sys.stderr)


def main(argv: Sequence[str] | None = None) -> int:
    """Parses the flags and judges; returns the exit code."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    return arguments.run(_detect, make_parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
