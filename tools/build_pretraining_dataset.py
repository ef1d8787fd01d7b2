"""Turns a folder of text into TFRecords of pre-training examples.

  python3 tools/build_pretraining_dataset.py \\
      --corpus-dir my_corpus --vocab-file vocab.txt --output-dir tfrecords

The corpus is a folder, folders inside it included; names that start with a dot
are no part of it. Files hold UTF-8 text, a sentence or paragraph a line, a
blank line between documents; .jsonl, .ndjson and .parquet a document a row;
.tar any of these; .gz, .xz and .zst around any of these. The output is
pretrain_data.tfrecord-<i>-of-<n> and manifest.json, which says what it was made
from. Its bytes depend on the corpus, the vocabulary, the flags and the seed,
and not on --num-processes.

The output folder must be new or empty. Nothing is ever wiped: what a finished
run left is recognised by its manifest and kept, and after an interrupted or
failed run the same command goes on where it was.
"""

import os
import sys

from electra_tf.command_line import arguments
from electra_tf.pretraining_data import building


def main(argv=None) -> int:
    """Parses the flags and builds; returns the exit code."""
    parser = arguments.ArgumentParser("electra-tf build-data", __doc__)
    building.add_local_flags(parser)
    return arguments.run(building.build_dataset, parser, argv)


if __name__ == "__main__":
    # Text needs no GPU, and TensorFlow would take all of its memory.
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    sys.exit(main())
