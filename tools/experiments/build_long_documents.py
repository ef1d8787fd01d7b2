"""Documents whose label is decided by words behind their 512th, as two .tsv.

  python3 tools/experiments/build_long_documents.py \\
      --text=wikitext-2/valid.txt --output-dir=data/long

Words of a text, whose order is drawn, stand for what says nothing; behind the
first 512 of them every twentieth is "good" or "bad". A word is at least one
token, so that a model that reads 512 tokens cannot do better than chance.
docs/finetuning.md has what models make of it.
"""

import argparse
import os
import random
import sys
from collections.abc import Iterator, Sequence

from electra_tf.command_line import arguments
from electra_tf.files import write_atomically

LABELS = ("bad", "good")
# Behind them are the words that count.
NUM_BEFORE = 512
# Words of the shortest and of the longest document.
NUM_WORDS = (700, 1400)
# One of so many words behind the first is the label.
EVERY = 20


def read_words(path: str) -> list[str]:
    """The words of a text, without those that are labels.

    Raises:
      ValueError: If the file cannot be read, or has none.
    """
    try:
        with open(path, encoding="utf-8") as f:
            words = [w for w in f.read().split() if w.isalpha()]
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"Cannot read {path!r}: {error}.") from None
    words = [word for word in words if word.lower() not in LABELS]
    if not words:
        raise ValueError(f"Expected words. Received: none in {path!r}.")
    return words


def documents(
    words: Sequence[str], number: int, seed: int
) -> Iterator[tuple[str, str]]:
    """Texts and their labels, both labels as often as each other.

    Args:
      words: That say nothing.
      number: Of documents.
      seed: Of what is drawn.

    Yields:
      A text and its label.
    """
    draw = random.Random(seed)
    for index in range(number):
        label = LABELS[index % 2]
        length = draw.randint(*NUM_WORDS)
        document = draw.choices(words, k=length)
        document[NUM_BEFORE::EVERY] = [label] * len(
            range(NUM_BEFORE, length, EVERY)
        )
        yield " ".join(document), label


def main(argv: Sequence[str] | None = None) -> int:
    """Parses the flags and writes; returns the exit code."""
    parser = arguments.ArgumentParser(description=__doc__)
    parser.add_argument("--text", required=True, help="a file of any text")
    parser.add_argument("--output-dir", required=True, help="for the two files")
    parser.add_argument(
        "--train-size",
        type=arguments.positive_int,
        default=1000,
        help="documents to train on (default: %(default)s)",
    )
    parser.add_argument(
        "--dev-size",
        type=arguments.positive_int,
        default=200,
        help="documents to score (default: %(default)s)",
    )
    return arguments.run(_write, parser, argv)


def _write(args: argparse.Namespace) -> None:
    words = read_words(args.text)
    os.makedirs(args.output_dir, exist_ok=True)
    sizes = {"train": args.train_size, "dev": args.dev_size}
    for seed, (split, size) in enumerate(sizes.items()):
        lines = [f"{t}\t{label}" for t, label in documents(words, size, seed)]
        path = os.path.join(args.output_dir, f"{split}.tsv")
        write_atomically(path, "\n".join(["text\tlabel", *lines]) + "\n")
        print(f"{path}: {size} documents")


if __name__ == "__main__":
    sys.exit(main())
