"""Checks finished TFRecords before a run does.

  python3 tools/check_data.py --data='tfrecords/*tfrecord*' \\
      --vocab-file=vocab.txt --gin-file=gin/small.gin

Every record is read: checksums, features, lengths, ids, mask, segments, [CLS]
and [SEP], duplicates, [UNK] and padding. The files and the vocabulary are
compared with the manifest beside the data. With --gin-file, sizes are compared
with that run's, and its epochs are counted; --data and --vocab-file are then
taken from it.

The exit code is 1 if something would end a run or train it on nonsense, and 0
if there is nothing but warnings.
"""

import argparse
import os
import sys

from electra_tf.command_line import arguments


def check_data(args: argparse.Namespace) -> None:
    """Prints the report.

    Raises:
      ValueError: If the data would break a run, or on a mistake in the flags.
    """
    config = None
    if args.gin_file:
        from electra_tf import configs
        from electra_tf.command_line import gin_files

        config = gin_files.load(
            configs.PretrainingConfig, args.gin_file, args.gin_param
        )
    elif args.gin_param:
        raise ValueError("Expected --gin-file with --gin-param, received none.")
    pattern = ",".join(args.data) or (config and config.data.train_files)
    vocab_file = args.vocab_file or (config and config.data.vocab_file)
    if not pattern or not vocab_file:
        raise ValueError(
            "Expected --data and --vocab-file, or --gin-file to take them "
            "from. Received neither."
        )

    from electra_tf.pretraining_data import check

    check.report_on_records(pattern, vocab_file, config).show(
        sys.stdout, f"would break a run over {pattern}"
    )


def main(argv=None) -> int:
    """Parses the flags and checks; returns the exit code."""
    parser = arguments.ArgumentParser("electra-tf check-data", __doc__)
    line = (
        "Glob of TFRecord files, or a folder that the builder wrote; several "
    )
    line += "times or with commas (default: the run's train_files)."
    parser.add_argument("--data", action="append", default=[], help=line)
    line = "Vocabulary, one token a line (default: the run's)."
    parser.add_values(str, vocab_file=line)
    arguments.add_gin(parser)
    return arguments.run(check_data, parser, argv)


if __name__ == "__main__":
    # Reading needs no GPU, and TensorFlow would take all of its memory.
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    sys.exit(main())
