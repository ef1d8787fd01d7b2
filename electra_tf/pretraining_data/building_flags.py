"""Flags of the builders of TFRecords -> what they decide."""

import argparse
import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from electra_tf import errors
from electra_tf.command_line import arguments
from electra_tf.pretraining_data import corpus, manifest

if TYPE_CHECKING:
    from electra_tf.text import vocabulary as vocabulary_lib

# Default number of output files: one for every 16 MiB of text, at least one
# for every 64 KiB up to eight, at most the original's 1000.
SHARD_BYTES = 16 << 20
SMALL_SHARD_BYTES = 64 << 10
MIN_SHARDS = 8
MAX_SHARDS = 1000

_DEDUP_THRESHOLD = 0.8
_share = arguments.number(
    float, lambda share: 0 <= share <= 1, "a number from 0 to 1"
)


def add(parser: argparse.ArgumentParser) -> None:
    """Adds the flags that every builder has."""
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
        action="store_const",
        const="",
        help="Skip blank lines; only the end of a file ends a document.",
    )
    parser.add_argument(
        "--max-seq-length",
        type=arguments.number(
            int,
            lambda length: length >= manifest.MIN_SEQ_LENGTH,
            f"a whole number of at least {manifest.MIN_SEQ_LENGTH}",
        ),
        default=128,
        help="Tokens in an example (default 128).",
    )
    for flag, name, help_text in (
        ("lower-case", "do_lower_case", "Lower-case the text"),
        ("strip-accents", "strip_accents", "Strip accents if lower-casing"),
    ):
        parser.add_argument(
            f"--{flag}",
            f"--do-{flag}",
            dest=name,
            action="store_true",
            default=None,
            help=f"{help_text}. The default is what the vocabulary was made "
            "for, if <vocab-file>.json says so, otherwise yes.",
        )
        parser.add_argument(
            f"--no-{flag}", dest=name, action="store_false", default=None
        )
    parser.add_argument(
        "--seed", type=int, default=0, help="Of all random draws (default 0)."
    )
    parser.add_argument(
        "--num-out-files",
        type=arguments.positive_int,
        help="Output files. Default: one for every 16 MiB of text, but "
        "at least eight (fewer for less than 512 KiB) and at most 1000.",
    )
    add_reading(parser)
    parser.add_argument(
        "--heldout-fraction",
        type=arguments.number(
            float, lambda share: 0 <= share < 1, "a number from 0 to below 1"
        ),
        default=0.0,
        help="Share of documents that goes to a data set of its own, "
        f"<output-dir>{manifest.HELDOUT_SUFFIX}. Chosen by a hash of their "
        "words: copies stay together, and the seed does not matter "
        "(default 0; less than 1).",
    )


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of all that read a corpus."""
    parser.add_argument(
        "--text-field",
        default="text",
        help="Field of .jsonl and column of .parquet that holds a document "
        "(default text).",
    )
    parser.add_argument(
        "--on-bad-input",
        choices=("fail", "skip"),
        default="fail",
        help="What a damaged place does: end the run (the default; parts of "
        "TFRecords that are finished stay) or be left out, named and counted. "
        "Left out are a line that is not UTF-8, a row without text, the rest "
        "of a damaged archive or compressed file, a file that cannot be read "
        "or is of a kind that is not.",
    )


def add_local_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of the builder on one machine."""
    add(parser)
    parser.add_argument(
        "--blanks-separate-docs",
        metavar="VALUE",
        nargs="?",
        const="True",
        help="A blank line ends a document (the default). As in the original, "
        "every VALUE but the empty one means yes, even False: to switch it "
        "off use --no-blanks-separate-docs.",
    )
    parser.add_argument(
        "--num-processes",
        type=arguments.positive_int,
        default=1,
        help="Processes that build (default 1). Files are shared out among "
        "them, so a single large file keeps one busy.",
    )
    parser.add_argument(
        "--dedup",
        nargs="?",
        choices=("exact", "near"),
        const="near",
        default="",
        help="Drop documents that repeat earlier ones: exact but for case and "
        "white space, or also nearly (without a value). Reads the corpus "
        f"twice. {manifest.DROPPED_DOCUMENTS} in the output folder lists "
        "them.",
    )
    parser.add_argument(
        "--dedup-threshold",
        type=_share,
        help="Share of runs of five words in common from which documents are "
        f"near duplicates (default {_DEDUP_THRESHOLD}).",
    )
    parser.add_argument(
        "--preflight",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="First tokenize a sample of the corpus and warn of what breaks "
        "runs later: unknown words and characters, case, accents, padding "
        "(default yes).",
    )
    parser.add_argument(
        "--preflight-only",
        action="store_true",
        help="Build nothing; print that report.",
    )
    parser.add_argument(
        "--gin-file",
        action="append",
        default=[],
        help="Configuration of the run that the data are for: the report then "
        "compares sizes with it and counts its epochs.",
    )


def check(args: argparse.Namespace) -> None:
    """Refuses what needs no look at the corpus to be refused.

    Raises:
      ValueError: If a path is empty or nothing that TensorFlow can open, or a
        flag has no effect.
    """
    for path in (args.vocab_file, args.output_dir):
        if not corpus.is_utf8(path):
            raise ValueError(
                f"Expected paths in UTF-8. Received: {os.fsencode(path)!r}."
            )
    if not args.output_dir:
        raise ValueError("Expected a folder as --output-dir. Received: ''.")
    threshold = getattr(args, "dedup_threshold", None)
    if threshold is not None and args.dedup != "near":
        raise ValueError(
            "Expected --dedup-threshold with --dedup=near only. Received: "
            f"--dedup-threshold={threshold} "
            + (f"with --dedup={args.dedup}." if args.dedup else "alone.")
        )
    if getattr(args, "preflight_only", False) and not args.preflight:
        raise ValueError(
            "Expected --preflight-only or --no-preflight. Received: both."
        )
    gin_files = getattr(args, "gin_file", None)
    if gin_files and not args.preflight:
        raise ValueError(
            "Expected --gin-file with the preflight, which compares with it. "
            f"Received: --gin-file={gin_files[0]} with --no-preflight."
        )


def output_folders(args: argparse.Namespace) -> list[str]:
    """Where the data sets go, the training set first.

    Raises:
      ValueError: If that is no folder of this machine.
    """
    if "://" in args.output_dir:
        raise ValueError(
            "Expected --output-dir in a folder of this machine; "
            "tools/build_pretraining_dataset_beam.py writes to others. "
            f"Received: {args.output_dir}"
        )
    folder = os.path.abspath(args.output_dir)
    if not args.heldout_fraction:
        return [folder]
    return [
        manifest.folder_of(folder, share)
        for share in (manifest.TRAINING, manifest.HELDOUT)
    ]


def make_build(
    args: argparse.Namespace,
    files: Sequence[corpus.CorpusFile],
) -> tuple[manifest.Build, "vocabulary_lib.Vocabulary", dict]:
    """What the flags decide.

    How text is treated they say first, then the vocabulary, then it is yes.

    Args:
      args: Parsed by a parser of `add`; those of `add_local_flags` may be
        missing.
      files: The corpus.

    Returns:
      The build, its vocabulary, and the manifest's entry of that.

    Raises:
      ValueError: If the vocabulary cannot be used.
    """
    from electra_tf.text import vocabulary as vocabulary_lib

    given = vocabulary_lib.load(args.vocab_file)
    settings = {}
    for name in vocabulary_lib.TREATMENT:
        flag, made_for = getattr(args, name), getattr(given, name)
        settings[name] = next(
            (said for said in (flag, made_for) if said is not None), True
        )
        if made_for not in (None, settings[name]):
            errors.warn(
                f"building with {name}={settings[name]}, but the "
                f"vocabulary was made for {name}={made_for}"
            )
    if given.text_cleaning != "none":
        errors.warn(
            "the vocabulary was made for text_cleaning="
            f"{given.text_cleaning!r}, which the corpus must have been through "
            "already"
        )
    dedup = getattr(args, "dedup", "")
    threshold = getattr(args, "dedup_threshold", None)
    if threshold is None:
        threshold = _DEDUP_THRESHOLD
    build = manifest.Build(
        max_seq_length=args.max_seq_length,
        blanks_separate_docs=args.blanks_separate_docs is None
        or bool(args.blanks_separate_docs),
        seed=args.seed,
        num_out_files=args.num_out_files or default_num_shards(files),
        text_field=args.text_field,
        dedup=dedup,
        dedup_threshold=threshold if dedup == "near" else 0.0,
        heldout_fraction=args.heldout_fraction,
        **settings,
    )
    return (
        build,
        vocabulary_lib.Vocabulary(
            given.tokens, build.do_lower_case, build.strip_accents
        ),
        manifest.of_vocabulary(args.vocab_file, given.tokens),
    )


def default_num_shards(files: Sequence[corpus.CorpusFile]) -> int:
    """The number of output files for a corpus; see --num-out-files."""
    num_bytes = sum(file.num_bytes for file in files)
    return min(
        MAX_SHARDS,
        max(
            math.ceil(num_bytes / SHARD_BYTES),
            min(MIN_SHARDS, math.ceil(num_bytes / SMALL_SHARD_BYTES)),
        ),
    )
