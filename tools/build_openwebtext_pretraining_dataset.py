"""Turns OpenWebText as it is downloaded into TFRecords.

  python3 tools/build_openwebtext_pretraining_dataset.py --data-dir data

`data/openwebtext` holds the .xz archives, `data/vocab.txt` the vocabulary; the
TFRecords go to `data/pretrain_tfrecords`. This is build_pretraining_dataset.py
with these folders and a document a file; it explains the other flags.
"""

import argparse
import os
import pathlib
import sys
from collections.abc import Sequence

from electra_tf import command_line


def make_parser(builder) -> command_line.ArgumentParser:
    parser = command_line.ArgumentParser(
        prog="build_openwebtext_pretraining_dataset", description=__doc__
    )
    parser.add_argument(
        "--data-dir",
        required=True,
        help="Folder with openwebtext/ and vocab.txt.",
    )
    builder.add_build_flags(parser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    import build_pretraining_dataset as builder

    def build(args: argparse.Namespace) -> None:
        args.corpus_dir = os.path.join(args.data_dir, "openwebtext")
        args.vocab_file = os.path.join(args.data_dir, "vocab.txt")
        args.output_dir = os.path.join(args.data_dir, "pretrain_tfrecords")
        # The end of a file ends a document, and nothing else does.
        args.blanks_separate_docs = ""
        builder.build_dataset(args)

    return command_line.run(build, make_parser(builder), argv)


if __name__ == "__main__":
    # Text needs no GPU, and TensorFlow would take all of its memory.
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    sys.exit(main())
