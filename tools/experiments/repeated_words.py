"""How much of a text is said twice within a few lines of it.

  python tools/experiments/repeated_words.py \\
      build/experiments/corpus/texts/docstrings build/experiments/corpus/reviews

Of the words in windows of --window, without the --num-frequent most frequent
ones of the folder, the share that stands in the same window again. What a
discriminator learns follows from it: where names are repeated, a word without
its like nearby is suspicious, and looking for it is what tasks on pairs of
sentences need.
"""

import argparse
import collections
import pathlib
import re
import sys
from collections.abc import Sequence

from electra_tf.command_line import arguments

_WORD = re.compile(r"\w+")


def share(words: Sequence[str], window: int, num_frequent: int) -> float:
    """Of rarer words, those that are in their window more than once.

    Args:
      words: Of a text, in its order.
      window: Words; what is left at the end is not looked at.
      num_frequent: Of the most frequent words, which are left out.

    Raises:
      ValueError: If nothing is left.
    """
    counts = collections.Counter(words)
    frequent = {word for word, _ in counts.most_common(num_frequent)}
    num_words = num_repeated = 0
    for start in range(0, len(words) - window + 1, window):
        here = collections.Counter(words[start : start + window])
        for word, count in here.items():
            if word not in frequent:
                num_words += count
                num_repeated += count * (count > 1)
    if not num_words:
        raise ValueError(
            f"Expected a window of {window} words, and more than the "
            f"{num_frequent} most frequent ones. Received: {len(words)} words, "
            f"{len(counts)} different ones."
        )
    return num_repeated / num_words


def read_words(path: pathlib.Path) -> list[str]:
    """Lower-cased words of a .txt file, or of those of a folder.

    Raises:
      ValueError: If there is none.
    """
    paths = sorted(path.glob("*.txt")) if path.is_dir() else [path]
    if not paths:
        raise ValueError(f"Expected .txt files. Received: none in {path}.")
    return [
        word
        for each in paths
        for word in _WORD.findall(each.read_text("utf-8").lower())
    ]


def _run(args: argparse.Namespace) -> None:
    for path in args.paths:
        found = share(read_words(path), args.window, args.num_frequent)
        print(f"{path}: {100.0 * found:.1f} % of the rarer words are repeated")


def main(argv: Sequence[str] | None = None) -> int:
    """Parses the flags and counts; returns the exit code."""
    parser = arguments.ArgumentParser(
        prog="repeated_words", description=__doc__
    )
    add = parser.add_argument
    add("paths", nargs="+", type=pathlib.Path, help=".txt files, or folders")
    add(
        "--window",
        type=arguments.positive_int,
        default=100,
        help="words (default: %(default)s)",
    )
    add(
        "--num-frequent",
        type=arguments.positive_int,
        default=200,
        help="words that are left out (default: %(default)s)",
    )
    return arguments.run(_run, parser, argv)


if __name__ == "__main__":
    sys.exit(main())
