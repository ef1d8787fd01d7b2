"""Turns text into TFRecords of pre-training examples on many machines.

  pip install 'electra_tf[beam]'
  python3 tools/build_pretraining_dataset_beam.py \\
      --corpus-dir my_corpus --vocab-file vocab.txt --output-dir tfrecords \\
      -- --direct_num_workers=2 --direct_running_mode=multi_processing

What follows "--" is for Apache Beam: its runner (Dataflow, Flink, Spark; its
own local one by default) and that one's options. The corpus and the output may
then be in any file system that Beam knows, such as gs://bucket/corpus.

The examples are those of tools/build_pretraining_dataset.py with the same
flags, in another order; the bytes do not depend on the runner or the number of
its workers. A file is built by one worker: a large corpus should be many files.
--dedup needs an order of documents, so it is the other tool's alone.

The output folder must be new or empty, or hold what an interrupted run of the
same command left, which is written again.
"""

import argparse
import functools
import os
import re
import sys
from collections.abc import Sequence

from electra_tf.command_line import arguments
from electra_tf.pretraining_data import building_flags
from electra_tf.pretraining_data.output_folder import HELDOUT_SUFFIX, MANIFEST

_LONGEST_REASON = 500


def make_parser() -> arguments.ArgumentParser:
    """The flags before "--"."""
    parser = arguments.ArgumentParser(
        prog="build_pretraining_dataset_beam", description=__doc__
    )
    parser.add_argument("--corpus-dir", required=True, help="Folder of text.")
    parser.add_argument(
        "--vocab-file", required=True, help="Vocabulary, one token a line."
    )
    parser.add_argument(
        "--output-dir", required=True, help="Where the TFRecords go."
    )
    parser.add_argument(
        "--no-blanks-separate-docs",
        dest="blanks_separate_docs",
        action="store_false",
        help="Skip blank lines; only the end of a file ends a document.",
    )
    building_flags.add(parser)
    return parser


def build_dataset(
    args: argparse.Namespace, beam_args: Sequence[str] = ()
) -> None:
    """Builds the data set.

    Args:
      args: As `make_parser` makes them.
      beam_args: Of the pipeline.

    Raises:
      ValueError: On anything that the user can mend.
    """
    try:
        import apache_beam as beam
    except ImportError:
        raise ValueError(
            "Expected Apache Beam. Received: an installation without it; "
            "pip install 'electra_tf[beam]'"
        ) from None
    from apache_beam.options.pipeline_options import PipelineOptions

    from electra_tf.pretraining_data import beam as beam_lib
    from electra_tf.pretraining_data import examples
    from electra_tf.text import vocabulary

    if args.max_seq_length < examples.MIN_SEQ_LENGTH:
        raise ValueError(
            "Expected --max-seq-length of at least "
            f"{examples.MIN_SEQ_LENGTH}. Received: "
            f"{args.max_seq_length}."
        )
    vocabulary.load_vocab(args.vocab_file)
    settings = building_flags.text_settings(
        args, vocabulary.load_settings(args.vocab_file), say
    )
    files = beam_lib.list_files(args.corpus_dir)
    build = beam_lib.Build(
        max_seq_length=args.max_seq_length,
        blanks_separate_docs=args.blanks_separate_docs,
        seed=args.seed,
        num_out_files=args.num_out_files
        or building_flags.default_num_shards(files),
        text_field=args.text_field,
        heldout_fraction=args.heldout_fraction,
        **settings,
    )
    with open(args.vocab_file, "rb") as reader:
        vocab = reader.read()
    output_dir = args.output_dir.rstrip("/")
    if "://" not in output_dir:
        output_dir = os.path.abspath(output_dir)
    suffixes = [""]
    if build.heldout_fraction:
        suffixes.append(HELDOUT_SUFFIX)
    for suffix in suffixes:
        make_folder(output_dir + suffix)
    task = beam_lib.Task(
        build,
        vocab,
        os.path.basename(args.vocab_file),
        output_dir,
        args.on_bad_input == "skip",
    )
    options = PipelineOptions(list(beam_args))
    try:
        with beam.Pipeline(options=options) as pipeline:
            beam_lib.build(pipeline, files, task)
    # A runner hands a worker's mistake back as it likes.
    except Exception as error:
        raise ValueError(reason_of(error)) from None
    say(f"wrote the examples of {len(files)} file(s) to {output_dir}")


def say(message: str) -> None:
    print(f"build_pretraining_dataset_beam: {message}", file=sys.stderr)


def make_folder(folder: str) -> None:
    """Makes an output folder, or refuses one with other files.

    Raises:
      ValueError: If it holds a finished data set, or files of another origin.
    """
    from apache_beam.io.filesystems import FileSystems

    from electra_tf.pretraining_data import beam as beam_lib

    (match,) = FileSystems.match([FileSystems.join(folder, "*")])
    names = [os.path.basename(m.path) for m in match.metadata_list]
    if MANIFEST in names:
        raise ValueError(
            "Expected a new or empty --output-dir. Received: "
            f"{folder!r}, which holds a finished data set."
        )
    ours = re.compile(
        rf"({beam_lib.TEMPORARY_PREFIX}.*|pretrain_data\.tfrecord-.*)"
    )
    foreign = [name for name in names if not ours.fullmatch(name)]
    if foreign:
        raise ValueError(
            "Expected a new or empty --output-dir. Received: "
            f"{folder!r}, which holds {len(foreign)} file(s) that this tool "
            f"did not write, such as {foreign[0]!r}."
        )
    if not names and not FileSystems.exists(folder):
        FileSystems.mkdirs(folder)


def reason_of(error: Exception) -> str:
    """The line that a worker's error ends with, without its traceback."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    known = [line for line in lines if re.match(r"[\w.]*(Error|Input): ", line)]
    reason = (known or lines or [type(error).__name__])[-1]
    reason = re.sub(r"^(?:[\w.]*(?:Error|Input): )+", "", reason)
    return re.sub(r" \[while running .*", "", reason)[:_LONGEST_REASON]


def main(argv: Sequence[str] | None = None) -> int:
    args = list(sys.argv[1:] if argv is None else argv)
    own, beam_args = args, []
    if "--" in args:
        place = args.index("--")
        own, beam_args = args[:place], args[place + 1 :]
    return arguments.run(
        functools.partial(build_dataset, beam_args=beam_args),
        make_parser(),
        own,
    )


if __name__ == "__main__":
    # Text needs no GPU, and TensorFlow would take all of its memory.
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    sys.exit(main())
