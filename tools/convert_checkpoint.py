"""Converts a checkpoint of ELECTRA from one format to another.

    electra-tf convert --input=models/electra_small \\
        --output=models/electra_small_hf --output-format=huggingface

The format of --input is recognised: a folder or prefix of the original's
model.ckpt-N, a Hugging Face directory (or a folder with `generator` and
`discriminator`), a KerasHub preset, a checkpoint of the Model Garden, a model
directory of electra_tf. Sizes are read from the tensors.

Generator, discriminator, heads, optimizer slots, step and vocabulary travel as
far as the output's format can hold them; the command says what stays behind,
and docs/reference/checkpoint-formats.md has the table.

The output is read again and compared bit by bit, and where the other format's
library is installed, both sides compute the same random inputs. A mismatch, or
any other error, leaves no output.
"""

import argparse
import sys

from electra_tf import files
from electra_tf.checkpoints.formats import FORMATS
from electra_tf.command_line import arguments


def main(argv=None) -> int:
    """Parses the flags and converts; returns the exit code."""
    parser = arguments.ArgumentParser("electra-tf convert", __doc__)
    add = parser.add_argument
    add("--input", required=True, help="the checkpoint, of any format")
    add("--output", required=True, help="a folder that is new or empty")
    add("--output-format", required=True, choices=tuple(FORMATS))
    arguments.add_vocabulary(parser)
    line = "whether accents are dropped (default: with lower-casing)"
    parser.add_values(bool, strip_accents=line)
    line = (
        "what the original's --hparams was, for a checkpoint of the original "
    )
    line += (
        "without a file hparams.json beside it: needed where attention heads "
    )
    line += "are not 64 wide, as no tensor tells their number"
    add("--hparams", metavar="FILE", help=line)
    line = "leave everything behind but the discriminator's encoder"
    add("--encoder-only", action="store_true", help=line)
    yes_or_no = argparse.BooleanOptionalAction
    line = "compare the output with the input (default)"
    add("--verify", action=yes_or_no, default=True, help=line)
    return arguments.run(_convert, parser, argv)


def _convert(args: argparse.Namespace) -> None:
    files.refuse_used(args.output, "--output")
    from absl import logging

    logging.set_verbosity(logging.ERROR)
    # Imports TensorFlow: late, so that --help and mistakes are quick.
    from electra_tf.checkpoints import converting

    converting.convert(converting.Conversion(**vars(args)))


if __name__ == "__main__":
    sys.exit(main())
