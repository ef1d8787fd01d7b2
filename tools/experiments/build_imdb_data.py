"""Reviews without labels, and some numbers of labelled ones: docs/imdb.md.

  python3 tools/experiments/build_imdb_data.py --data-dir=data \\
      --output-dir=build/imdb

Reads from the data folder the Large Movie Review Dataset (Maas et al., 2011):

  imdb/unsup.txt.xz              a sentence a line, a blank line between reviews
  imdb/{train,test}.tsv.xz       text, label, rating, in an order that is random

and writes below the output folder:

  corpus/reviews_<n>.txt         the reviews without labels, in eight files
  labelled/train_<n>.tsv         the first n of train.tsv
  labelled/dev.tsv               the last of train.tsv, in none of them
  labelled/test.tsv              the first of test.tsv

The texts of the labelled files are no part of the corpus.
"""

import argparse
import itertools
import lzma
import pathlib
import sys
from collections.abc import Iterator, Sequence

import build_results_data

from electra_tf import files
from electra_tf.command_line import arguments

# Of labelled reviews to learn from; the last is what dev leaves.
SIZES = (100, 400, 1600, 6400, 23000)
# The last of the training reviews.
NUM_DEV = 2000
# The first of the test reviews; a share of 0.85 of them is known to 0.005.
NUM_TEST = 5000
# So that several processes share the building of examples.
_NUM_CORPUS_FILES = 8
_HEADER = "text\tlabel"


def read_labelled(path: pathlib.Path) -> list[str]:
    """The rows of a .tsv.xz as lines of text and label, without the header.

    Raises:
      ValueError: If it is not of that format.
    """
    found = []
    for number, line in enumerate(_lines(path), start=1):
        cells = line.split("\t")
        expected = ["text", "label", "rating"]
        if number == 1 and cells != expected:
            raise ValueError(
                f"Expected the header {expected}. Received: {path}, which "
                f"begins with {cells}."
            )
        if number == 1:
            continue
        if len(cells) != 3 or cells[1] not in ("neg", "pos"):
            raise ValueError(
                "Expected a text, neg or pos, and a rating. Received: "
                f"{path}, row {number}, {cells[1:]}."
            )
        found.append("\t".join(cells[:2]))
    return found


def reviews(path: pathlib.Path) -> Iterator[str]:
    """The reviews of a file without labels, a sentence a line."""
    for is_blank, lines in itertools.groupby(
        _lines(path), key=lambda line: not line.strip()
    ):
        if not is_blank:
            yield "\n".join(lines)


def _lines(path: pathlib.Path) -> Iterator[str]:
    """The lines of a .xz file, without their ends.

    Raises:
      ValueError: If it is damaged.
    """
    try:
        with lzma.open(path, "rt", encoding="utf-8", newline="\n") as f:
            for line in f:
                yield line.rstrip("\r\n")
    except (lzma.LZMAError, EOFError, UnicodeDecodeError) as error:
        raise ValueError(f"Cannot read {path}: {error}.") from None


def splits(
    train: Sequence[str],
    test: Sequence[str],
    sizes: Sequence[int] = SIZES,
    num_dev: int = NUM_DEV,
    num_test: int = NUM_TEST,
) -> dict[str, Sequence[str]]:
    """Name of each labelled file -> its rows.

    Raises:
      ValueError: If there are too few rows.
    """
    if len(train) < max(sizes) + num_dev:
        raise ValueError(
            f"Expected {max(sizes):,} rows to train on and {num_dev:,} of dev. "
            f"Received: {len(train):,} rows of train.tsv.xz."
        )
    if len(test) < num_test:
        raise ValueError(
            f"Expected {num_test:,} rows of test.tsv.xz. Received: "
            f"{len(test):,}."
        )
    found = {f"train_{size}": train[:size] for size in sizes}
    return found | {"dev": train[-num_dev:], "test": test[:num_test]}


def build(data_dir: pathlib.Path, output_dir: pathlib.Path) -> None:
    """Writes everything that the module's docstring lists.

    Raises:
      ValueError: If a file is missing or not of its format.
    """
    folder = data_dir / "imdb"
    labelled = splits(
        read_labelled(folder / "train.tsv.xz"),
        read_labelled(folder / "test.tsv.xz"),
    )
    write_corpus(folder / "unsup.txt.xz", output_dir / "corpus")
    for name, rows in labelled.items():
        write_labelled(output_dir / "labelled" / f"{name}.tsv", rows)


def write_corpus(path: pathlib.Path, output_dir: pathlib.Path) -> None:
    """Writes the reviews of a file without labels as reviews_<n>.txt.

    Raises:
      ValueError: If there are none, or the file is damaged.
    """
    texts = list(reviews(path))
    if not texts:
        raise ValueError(f"Expected reviews. Received: none in {path}.")
    for number in range(_NUM_CORPUS_FILES):
        part = texts[number::_NUM_CORPUS_FILES]
        path = output_dir / f"reviews_{number}.txt"
        _write(path, "\n\n".join(part) + "\n", len(part))


def write_labelled(path: pathlib.Path, rows: Sequence[str]) -> None:
    """Writes rows of `read_labelled` under their header."""
    _write(path, "\n".join([_HEADER, *rows]) + "\n", len(rows))


def _write(path: pathlib.Path, content: str, num_reviews: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_atomically(str(path), content)
    print(f"{path}: {num_reviews:,} reviews")


def _build(args: argparse.Namespace) -> None:
    build(args.data_dir, args.output_dir)


def main(argv: Sequence[str] | None = None) -> int:
    """Parses the flags and builds; returns the exit code."""
    parser = build_results_data.make_parser("build_imdb_data", __doc__)
    return arguments.run(_build, parser, argv)


if __name__ == "__main__":
    sys.exit(main())
