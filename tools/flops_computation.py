"""Prints what it costs to train and to run ELECTRA and its contemporaries.

    electra-tf flops

The figures are those behind the tables of arXiv:2003.10555, counted as its
released code counts them: an operation is one addition, multiplication or
function of a number, a matrix product has two for each entry pair, and a
training step costs twice its forward pass. Text is looked up by one-hot matrix
products, as on a TPU.

Two terms of that count are smaller than what they stand for, and kept because
the published figures contain them; --corrected counts them in full:

* The LayerNorm after the attention is counted for one number instead of for
  the whole hidden vector.
* Where the heads together are wider than the hidden vector (T5-11B), the
  weighted average of values and the output projection are counted as wide as
  the hidden vector.
"""

import argparse
import sys

from electra_tf.command_line import arguments
from electra_tf.model import costs


def _print_table(args: argparse.Namespace) -> None:
    print(costs.table(costs.model_costs(args.corrected)))


def main(argv=None) -> int:
    """Prints the table; returns the exit code."""
    parser = arguments.ArgumentParser("electra-tf flops", __doc__)
    line = "count the two terms in full that the original counts in part"
    parser.add_argument("--corrected", action="store_true", help=line)
    return arguments.run(_print_table, parser, argv)


if __name__ == "__main__":
    sys.exit(main())
