"""Learns a WordPiece vocabulary from text.

  python3 tools/build_vocab.py --corpus-dir my_corpus --vocab-file vocab.txt \\
      --vocab-size 8000

Text is normalised and split into words by the tokenizer that will use the
vocabulary, so every entry can occur. The same corpus and flags give the same
bytes. How the text was treated is written to <vocab-file>.json, from where
tools/build_pretraining_dataset.py takes its defaults.

Layout: [PAD] is 0, then come [unused0], [unused1] and so on, then [UNK],
[CLS], [SEP], [MASK], single characters, and longer pieces by the order in
which they were learned. With 20000 entries or more there are 99 unused ones,
which puts [UNK] at 100, [CLS] at 101, [SEP] at 102 and [MASK] at 103, as in
BERT's vocabularies; a smaller vocabulary has none, and [UNK] to [MASK] are 1
to 4.
"""

import argparse
import os
import sys

from electra_tf.command_line import arguments
from electra_tf.pretraining_data import building, learned_vocabulary

_coverage = arguments.number(
    float, lambda share: 0 < share <= 1, "a number above 0 and up to 1"
)


def main(argv=None) -> int:
    """Parses the flags and learns; returns the exit code."""
    parser = arguments.ArgumentParser("electra-tf build-vocab", __doc__)
    add = parser.add_argument
    whole = arguments.positive_int
    line = "Folder of files, subfolders included, of any kind that "
    line += "tools/build_pretraining_dataset.py reads."
    add("--corpus-dir", required=True, help=line)
    add("--vocab-file", required=True, help="The vocabulary to write.")
    line = "Number of entries (default 30522, BERT's)."
    add("--vocab-size", type=whole, default=30522, help=line)
    on: dict = {"action": argparse.BooleanOptionalAction, "default": True}
    line = "Lower-case the text (default yes)."
    add("--lower-case", dest="do_lower_case", help=line, **on)
    line = "Strip accents if lower-casing (default yes)."
    add("--strip-accents", help=line, **on)
    line = "Pieces that occur less often are not learned (default 2)."
    add("--min-frequency", type=whole, default=2, help=line)
    line = "Share of the text's characters that must have an entry (default "
    line += "0.9995); a word with one of the rarest others becomes [UNK]."
    add("--character-coverage", type=_coverage, default=0.9995, help=line)
    building.add_reading(parser)
    return arguments.run(
        lambda args: learned_vocabulary.build(**vars(args)), parser, argv
    )


if __name__ == "__main__":
    # Text needs no GPU, and TensorFlow would take all of its memory.
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    sys.exit(main())
