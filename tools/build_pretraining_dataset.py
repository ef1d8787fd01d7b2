"""Turns a folder of text into TFRecords of pre-training examples.

  python3 tools/build_pretraining_dataset.py \\
      --corpus-dir my_corpus --vocab-file vocab.txt --output-dir tfrecords

The corpus is a folder, folders inside it included; names that start with a dot
are no part of it. Files hold UTF-8 text, a sentence or paragraph a line, a
blank line between documents; .jsonl and .parquet a document a row; .tar any of
these; .gz, .xz and .zst around any of these. The output is
pretrain_data.tfrecord-<i>-of-<n> and manifest.json, which says what it was made
from. Its bytes depend on the corpus, the vocabulary, the flags and the seed,
and not on --num-processes.

The output folder must be new or empty. Nothing is ever wiped: what a finished
run left is recognised by its manifest and kept, and after an interrupted or
failed run the same command goes on where it was.
"""

import argparse
import contextlib
import fcntl
import gc
import hashlib
import importlib.metadata
import json
import multiprocessing
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from concurrent.futures.process import BrokenProcessPool
from typing import Any, NamedTuple, TextIO

from electra_tf import building_flags, command_line, corpus
from electra_tf.dataset_files import (
    HELDOUT_SUFFIX,
    MANIFEST,
    MANIFEST_VERSION,
)

# TensorFlow takes seconds to import: flags and folders are checked before.

# Everything unfinished lives in this folder inside the output folder.
UNFINISHED = "unfinished_build"
# What has to be moved from there, once everything is made.
PLAN = "plan.json"
DROPPED_DOCUMENTS = "dropped_documents.jsonl"
# In the unfinished folder: what becomes of each document, as an array on disk,
# and the names of the files that it numbers.
DECISIONS = "decisions"
FILE_NAMES = "file_names.json"
DECISION = [
    ("is_exact", "?"),
    ("similarity", "<f4"),
    ("kept_file", "<i8"),
    # 0 for documents that stay.
    ("kept_document", "<i8"),
]

# Small files are built together, so that a corpus of a million files does not
# become a million parts.
PART_BYTES = 4 << 20

# More processes than this only read the same parts over and over.
MAX_MERGING_PROCESSES = 8

# Damaged places that one process names; the others are counted.
MAX_NAMED_BAD_INPUTS = 10
# Of a dropped document's beginning in the listing.
SHOWN_CHARACTERS = 80

LOOKS_FALSE = ("0", "false", "n", "no", "off")


def make_parser() -> command_line.ArgumentParser:
    """The flags: the original's, then ours."""
    parser = command_line.ArgumentParser(
        prog="build_pretraining_dataset", description=__doc__
    )
    parser.add_argument(
        "--corpus-dir", required=True, help="Folder of text files."
    )
    parser.add_argument(
        "--vocab-file", required=True, help="Vocabulary, one token a line."
    )
    parser.add_argument(
        "--output-dir", required=True, help="Where the TFRecords go."
    )
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
        "--no-blanks-separate-docs",
        dest="blanks_separate_docs",
        action="store_const",
        const="",
        help="Skip blank lines; only the end of a file ends a document.",
    )
    add_build_flags(parser)
    return parser


def add_build_flags(parser: argparse.ArgumentParser) -> None:
    """The flags that do not say what the input is."""
    building_flags.add(parser)
    parser.add_argument(
        "--num-processes",
        type=command_line.positive_int,
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
        f"twice. {DROPPED_DOCUMENTS} in the output folder lists them.",
    )
    parser.add_argument(
        "--dedup-threshold",
        type=building_flags.share,
        default=0.8,
        help="Share of runs of five words in common from which documents are "
        "near duplicates (default 0.8).",
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


class Build(NamedTuple):
    """What decides the bytes of the output; goes into the manifest."""

    max_seq_length: int
    blanks_separate_docs: bool
    do_lower_case: bool
    strip_accents: bool
    seed: int
    num_out_files: int
    text_field: str = "text"
    dedup: str = ""
    dedup_threshold: float = 0.0
    heldout_fraction: float = 0.0


class Part(NamedTuple):
    """Files that are built together.

    Attributes:
      path: What its files in the unfinished folder are called, before their
        endings. Names a digest of what decides their bytes.
      files: What is read.
      first_file: Number of the first of them in the corpus.
      first_document: Number of the first document in the corpus, if that
        matters.
      num_documents: How many there are, if that matters.
      decided: A digest of which of them are dropped.
    """

    path: str
    files: Sequence[corpus.CorpusFile]
    first_file: int
    first_document: int = 0
    num_documents: int = 0
    decided: str = ""

    @property
    def documents(self) -> slice:
        """Their numbers in the corpus."""
        return slice(
            self.first_document, self.first_document + self.num_documents
        )

    @property
    def num_bytes(self) -> int:
        return sum(file.num_bytes for file in self.files)


def build_dataset(args: argparse.Namespace) -> None:
    """Builds the data set, or finds it built.

    Args:
      args: As `make_parser` makes them.

    Raises:
      ValueError: On anything that the user can mend.
    """
    bad_inputs = BadInputs()
    skips = args.on_bad_input == "skip"
    files = corpus.list_files(
        args.corpus_dir, bad_inputs.note if skips else None
    )
    output_dir = os.path.abspath(args.output_dir)
    folders = [output_dir]
    if args.heldout_fraction:
        folders.append(output_dir + HELDOUT_SUFFIX)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        finish_publishing(output_dir)
    finished = read_manifest(output_dir)
    if finished is not None:
        remove_leftovers(output_dir)
    for folder in folders if finished is None else []:
        refuse_foreign_files(folder)
    warn_of_blanks_flag(args.blanks_separate_docs)
    say("importing TensorFlow")

    from electra_tf import pretraining_examples, tokenization

    if args.max_seq_length < pretraining_examples.MIN_SEQ_LENGTH:
        raise ValueError(
            "Expected --max-seq-length of at least "
            f"{pretraining_examples.MIN_SEQ_LENGTH}. Received: "
            f"{args.max_seq_length}."
        )
    vocab = tokenization.load_vocab(args.vocab_file)
    settings = building_flags.text_settings(
        args, tokenization.load_settings(args.vocab_file), say
    )
    build = Build(
        max_seq_length=args.max_seq_length,
        blanks_separate_docs=args.blanks_separate_docs is None
        or bool(args.blanks_separate_docs),
        seed=args.seed,
        num_out_files=args.num_out_files
        or building_flags.default_num_shards(files),
        text_field=args.text_field,
        dedup=args.dedup,
        dedup_threshold=args.dedup_threshold if args.dedup == "near" else 0.0,
        heldout_fraction=args.heldout_fraction,
        **settings,
    )
    vocabulary = {
        "file": os.path.basename(args.vocab_file),
        "sha256": corpus.sha256_of_file(args.vocab_file),
        "entries": len(vocab),
    }
    if finished is not None:
        check_finished(output_dir, finished, build, vocabulary, files)
        say(f"{output_dir} already holds this data set; nothing to do")
        return

    if args.preflight or args.preflight_only:
        preflight(
            files, build, args.vocab_file, args.gin_file, args.num_processes
        )
    if args.preflight_only:
        return

    start = time.monotonic()
    with unfinished_folder(output_dir) as folder:
        warn_of_little_room(folder, files)
        parts = make_parts(files)
        decisions = (build, vocabulary["sha256"], versions())
        with Crew(build, args.vocab_file, args.num_processes, skips) as crew:
            if build.dedup:
                parts = find_duplicates(crew, folder, files, parts, build)
            parts = [
                part._replace(path=part_path(folder, part, decisions))
                for part in parts
            ]
            records = build_parts(crew, files, parts, skips)
            outputs = merge(crew, folder, files, parts, records, build)
        for output in outputs:
            output["manifest"] |= {
                "vocabulary": vocabulary,
                "versions": versions(),
            }
        publish(output_dir, folder, outputs)
    seconds = time.monotonic() - start
    for output, shown in zip(outputs, folders, strict=True):
        totals = output["manifest"]["totals"]
        say(
            f"wrote {totals['examples']} examples of {totals['documents']} "
            f"documents, {totals['tokens']} tokens, to "
            f"{len(output['manifest']['shards'])} file(s) in {shown}"
        )
    num_tokens = sum(o["manifest"]["totals"]["tokens"] for o in outputs)
    say(f"{seconds:.1f} s, {num_tokens / seconds:,.0f} tokens/s")
    totals = outputs[0]["manifest"]["totals"]
    if totals["dropped_documents"]:
        say(
            f"dropped {totals['dropped_documents']} document(s) that repeat "
            f"earlier ones; {DROPPED_DOCUMENTS} lists them"
        )
    if num_bad := bad_inputs.count + totals["bad_inputs"]:
        say(f"warning: left out {num_bad} damaged place(s) of the corpus")


def preflight(
    files: Sequence[corpus.CorpusFile],
    build: Build,
    vocab_file: str,
    gin_files: Sequence[str],
    num_processes: int,
) -> None:
    """Prints the report on a sample of the corpus.

    Raises:
      ValueError: If what is to be built cannot be trained on.
    """
    task = (files, build, vocab_file, gin_files)
    if num_processes == 1:
        report = make_report(*task)
    else:
        # In a process of its own: those that build are forked from this one,
        # in which nothing of TensorFlow must have run.
        context = multiprocessing.get_context("fork")
        with futures.ProcessPoolExecutor(1, mp_context=context) as pool:
            report = pool.submit(make_report, *task).result()
    report.print(sys.stderr)
    if report.errors:
        raise ValueError(
            f"{len(report.errors)} problem(s) would break a run over this "
            "corpus; --no-preflight builds it nevertheless."
        )


def make_report(files, build: Build, vocab_file: str, gin_files):
    """See `data_report.report_on_text`."""
    import tensorflow as tf

    from electra_tf import configs, data_report, gin_config, tokenization

    # As for building, which may go on in this process.
    with contextlib.suppress(RuntimeError):
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
    run = None
    if gin_files:
        run = data_report.run_of_config(
            gin_config.load(configs.PretrainingConfig, gin_files)
        )
    reading = corpus.Reading(build.blanks_separate_docs, build.text_field)
    return data_report.report_on_text(
        data_report.take_sample(files, reading),
        tokenization.FullTokenizer(
            vocab_file, build.do_lower_case, build.strip_accents
        ),
        vocab_file,
        build.max_seq_length,
        run,
    )


def say(message: str) -> None:
    print(f"build_pretraining_dataset: {message}", file=sys.stderr)


class BadInputs:
    """Names damaged places that are left out, up to a number, and counts."""

    def __init__(self):
        self.count = 0

    def note(self, message: str) -> None:
        self.count += 1
        if self.count <= MAX_NAMED_BAD_INPUTS:
            say(f"left out: {message}")
        if self.count == MAX_NAMED_BAD_INPUTS:
            say("further damaged places are counted only")


def warn_of_blanks_flag(value: str | None) -> None:
    """Tells those who wrote `--blanks-separate-docs False` what it means."""
    if value is not None and value.lower() in LOOKS_FALSE:
        say(
            f"warning: --blanks-separate-docs {value} means yes, as in the "
            "original; use --no-blanks-separate-docs to switch it off"
        )


def read_manifest(output_dir: str) -> dict | None:
    """The manifest of a finished build, or None.

    Raises:
      ValueError: If there is a manifest that is not ours.
    """
    path = os.path.join(output_dir, MANIFEST)
    if not os.path.exists(path):
        return None
    try:
        with open(path, encoding="utf-8") as reader:
            manifest = json.load(reader)
        version = manifest["manifest_version"]
    except (ValueError, TypeError, KeyError):
        version = None
    if version != MANIFEST_VERSION:
        raise ValueError(
            f"Expected a manifest of version {MANIFEST_VERSION}. Received: "
            f"{path!r} of version {version}; choose another --output-dir."
        )
    return manifest


def refuse_foreign_files(output_dir: str) -> None:
    """Refuses an output folder with files that this tool did not write.

    Raises:
      ValueError: If there are any, or the path is a file.
    """
    if os.path.exists(output_dir) and not os.path.isdir(output_dir):
        raise ValueError(
            f"Expected a folder as --output-dir. Received: {output_dir!r}, "
            "which is a file."
        )
    if not os.path.isdir(output_dir):
        return
    foreign = sorted(set(os.listdir(output_dir)) - {UNFINISHED})
    if foreign:
        raise ValueError(
            "Expected a new or empty --output-dir. Received: "
            f"{output_dir!r}, which holds {len(foreign)} file(s) that this "
            f"tool did not write, such as {foreign[0]!r}."
        )


def check_finished(
    output_dir: str,
    finished: dict,
    build: Build,
    vocabulary: dict,
    files: Sequence[corpus.CorpusFile],
) -> None:
    """Checks that a finished build is the one asked for, and whole.

    Raises:
      ValueError: If it is not.
    """

    def refuse(difference: str) -> None:
        raise ValueError(
            f"Expected a new or empty --output-dir. Received: {output_dir!r}, "
            f"which holds another data set: {difference}."
        )

    for name, value in build._asdict().items():
        if finished["flags"][name] != value:
            refuse(f"{name} {finished['flags'][name]!r}, now {value!r}")
    if finished["vocabulary"]["sha256"] != vocabulary["sha256"]:
        refuse("its vocabulary is not the one given now")
    recorded = {entry["name"]: entry for entry in finished["inputs"]}
    if recorded.keys() != {file.name for file in files}:
        changed = sorted(recorded.keys() ^ {file.name for file in files})
        refuse(f"{changed[0]!r} is new or gone in the corpus")
    for file in files:
        if (
            recorded[file.name]["bytes"] != file.num_bytes
            or corpus.sha256_of_file(file.path) != recorded[file.name]["sha256"]
        ):
            refuse(f"{file.name!r} of the corpus has changed")
    check_shards(output_dir, finished)
    if build.heldout_fraction:
        heldout_dir = output_dir + HELDOUT_SUFFIX
        heldout = read_manifest(heldout_dir)
        if heldout is None:
            refuse(f"what it held out is not in {heldout_dir!r}")
        else:
            check_shards(heldout_dir, heldout)


def check_shards(output_dir: str, finished: dict) -> None:
    for shard in finished["shards"]:
        path = os.path.join(output_dir, shard["name"])
        if not os.path.exists(path) or os.path.getsize(path) != shard["bytes"]:
            raise ValueError(
                f"Expected {shard['bytes']} bytes in {path!r}, as {MANIFEST} "
                "says. Received: a file that is missing or of another size; "
                "choose another --output-dir."
            )


@contextlib.contextmanager
def unfinished_folder(output_dir: str) -> Iterator[str]:
    """A folder for everything unfinished, for one run at a time.

    It goes away once the run has succeeded. Otherwise it stays, if a part is
    finished, and so the same command need not build that part again.

    Raises:
      ValueError: If another run is building in the same folder.
    """
    folder = os.path.join(output_dir, UNFINISHED)
    is_new = not os.path.exists(output_dir)
    with lock_folder(output_dir, folder):
        succeeded = False
        try:
            yield folder
            succeeded = True
        finally:
            num_finished = sum(
                name.startswith("part-") and name.endswith(".json")
                for name in os.listdir(folder)
            )
            if succeeded or not num_finished:
                shutil.rmtree(folder, ignore_errors=True)
                if is_new:
                    with contextlib.suppress(OSError):
                        os.rmdir(output_dir)
            else:
                say(
                    f"{num_finished} finished part(s) stay in {folder}; the "
                    "same command goes on from there"
                )


@contextlib.contextmanager
def lock_folder(output_dir: str, folder: str) -> Iterator[None]:
    """Keeps other runs out.

    Raises:
      ValueError: If another run is at work, or the folder cannot be made.
    """
    try:
        os.makedirs(folder, exist_ok=True)
        lock = open(os.path.join(folder, "lock"), "w")  # noqa: SIM115
    except OSError as error:
        raise ValueError(
            f"Cannot write to {output_dir!r}: {error.strerror}."
        ) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(
                f"Another run is building in {output_dir!r}."
            ) from None
        yield


def publish(output_dir: str, folder: str, outputs: Sequence[dict]) -> None:
    """Moves what is made to where it belongs, the manifests last.

    Args:
      output_dir: The output folder.
      folder: The unfinished folder.
      outputs: For each data set `suffix` of the output folder's name, `made`
        (the folder in `folder` with its files), `names` of these and its
        `manifest`.
    """
    command_line.write_atomically(
        os.path.join(folder, PLAN), json.dumps(outputs)
    )
    move_outputs(output_dir, folder)


def finish_publishing(output_dir: str) -> None:
    """Does what a run that was killed while publishing had still to do.

    Raises:
      FileNotFoundError: If there was none.
    """
    folder = os.path.join(output_dir, UNFINISHED)
    os.stat(os.path.join(folder, PLAN))
    with lock_folder(output_dir, folder):
        move_outputs(output_dir, folder)
        shutil.rmtree(folder)


def remove_leftovers(output_dir: str) -> None:
    """Removes what a run killed in its last moment had still to remove."""
    folder = os.path.join(output_dir, UNFINISHED)
    if os.path.isdir(folder):
        with lock_folder(output_dir, folder):
            shutil.rmtree(folder)


def move_outputs(output_dir: str, folder: str) -> None:
    with open(os.path.join(folder, PLAN), encoding="utf-8") as reader:
        outputs = json.load(reader)
    # The training set's manifest says that all is done: it comes last.
    for output in reversed(outputs):
        target = output_dir + output["suffix"]
        os.makedirs(target, exist_ok=True)
        for name in output["names"]:
            # Unless it was moved before.
            with contextlib.suppress(FileNotFoundError):
                os.replace(
                    os.path.join(folder, output["made"], name),
                    os.path.join(target, name),
                )
        command_line.write_atomically(
            os.path.join(target, MANIFEST),
            json.dumps(output["manifest"], indent=1, ensure_ascii=False) + "\n",
        )


def warn_of_little_room(
    folder: str, files: Sequence[corpus.CorpusFile]
) -> None:
    """Parts and the output lie side by side, each about as large as text."""
    needed = 2 * sum(file.num_bytes for file in files)
    free = shutil.disk_usage(folder).free
    if free < needed:
        say(
            f"warning: {free >> 20} MiB are free, and this will take some "
            f"{needed >> 20} MiB or more while it runs"
        )


# The work.


def make_parts(files: Sequence[corpus.CorpusFile]) -> list[Part]:
    """Groups neighbouring files into parts of about PART_BYTES.

    Returns:
      Parts without a path. They depend on the corpus only.
    """
    groups: list[list[corpus.CorpusFile]] = []
    num_bytes = PART_BYTES
    for file in files:
        if num_bytes + file.num_bytes > PART_BYTES:
            groups.append([])
            num_bytes = 0
        groups[-1].append(file)
        num_bytes += file.num_bytes
    parts = []
    first_file = 0
    for group in groups:
        parts.append(Part("", group, first_file))
        first_file += len(group)
    return parts


def part_path(
    folder: str, part: Part, decisions: Any, kind: str = "part"
) -> str:
    """The name of a part's files: what decides their bytes is in it."""
    key = [
        decisions,
        [(file.name, file.num_bytes, file.mtime_ns) for file in part.files],
        part.decided,
    ]
    digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:24]
    return os.path.join(folder, f"{kind}-{digest}")


def find_duplicates(
    crew: "Crew",
    folder: str,
    files: Sequence[corpus.CorpusFile],
    parts: Sequence[Part],
    build: Build,
) -> list[Part]:
    """Looks for documents that repeat earlier ones.

    What it finds goes to files in the unfinished folder, since the workers
    read them.

    Returns:
      The parts with the numbers of their documents.
    """
    import numpy as np

    from electra_tf import deduplication

    decisions = (build.dedup, build.blanks_separate_docs, build.text_field)
    parts = [
        part._replace(path=part_path(folder, part, decisions, "fingerprints"))
        for part in parts
    ]
    missing = [part for part in parts if not os.path.exists(part.path)]
    crew.start_progress(
        sum(part.num_bytes for part in parts),
        [
            sum(part.num_bytes for part in parts)
            - sum(part.num_bytes for part in missing),
            *[0] * 4,
        ],
        "looking for duplicates ",
    )
    crew.run("fingerprint", missing)
    all_records = os.path.join(folder, "fingerprints")
    first_document = 0
    numbered = []
    with open(all_records, "wb") as writer:
        for part in parts:
            num_bytes = os.path.getsize(part.path)
            num_documents = num_bytes // deduplication.RECORD.itemsize
            with open(part.path, "rb") as reader:
                shutil.copyfileobj(reader, writer, 1 << 20)
            numbered.append(
                part._replace(
                    first_document=first_document, num_documents=num_documents
                )
            )
            first_document += num_documents
    if not first_document:
        return numbered
    records = np.memmap(all_records, deduplication.RECORD, "r")
    duplicates = deduplication.find_duplicates(
        records, build.dedup_threshold if build.dedup == "near" else None
    )
    # Where each file's documents begin.
    first_of_file = np.searchsorted(
        np.array(records["file"]), np.arange(len(files))
    )
    decided = np.zeros(len(records), DECISION)
    decided["is_exact"] = duplicates.is_exact
    decided["similarity"] = duplicates.similarity
    kept_file = np.array(records["file"][duplicates.earlier], np.int64)
    decided["kept_file"] = kept_file
    # Documents of a file are numbered from 1 for people.
    decided["kept_document"] = np.where(
        duplicates.earlier >= 0,
        duplicates.earlier - first_of_file[kept_file] + 1,
        0,
    )
    decided.tofile(os.path.join(folder, DECISIONS))
    names = json.dumps([file.name for file in files])
    command_line.write_atomically(os.path.join(folder, FILE_NAMES), names)
    return [
        part._replace(
            decided=hashlib.sha256(
                names.encode() + decided[part.documents].tobytes()
            ).hexdigest()
        )
        for part in numbered
    ]


class PartRecord(NamedTuple):
    """What a finished part says of itself, in JSON.

    Attributes:
      num_bytes: Of its files, by their ending.
      files: What became of the input files: `FileRecord`s.
    """

    num_bytes: dict[str, int]
    files: list


def read_part_record(path: str, skips: bool) -> PartRecord | None:
    """The record of a part, if it is finished and whole.

    Args:
      path: See `Part`.
      skips: Whether damaged places may have been left out.
    """
    from electra_tf import pretraining_examples

    try:
        with open(path + ".json", encoding="utf-8") as reader:
            num_bytes, rows = json.load(reader)
        if any(
            os.path.getsize(path + ending) != size
            for ending, size in num_bytes.items()
        ):
            return None
    except FileNotFoundError:
        return None
    files = [
        pretraining_examples.FileRecord(
            row[0],
            row[1],
            pretraining_examples.Progress(*row[2]),
            pretraining_examples.Progress(*row[3]),
            *row[4:],
        )
        for row in rows
    ]
    if any(file.num_bad_inputs for file in files) and not skips:
        return None
    return PartRecord(num_bytes, files)


def build_parts(
    crew: "Crew",
    files: Sequence[corpus.CorpusFile],
    parts: Sequence[Part],
    skips: bool,
) -> list:
    """Builds the parts that no earlier run has finished.

    Returns:
      The `FileRecord`s of all input files, in order.
    """
    from electra_tf import pretraining_examples

    remove_other_parts({os.path.basename(part.path) for part in parts}, parts)
    found = [read_part_record(part.path, skips) for part in parts]
    done_before = [
        pretraining_examples.add_up(file.counts, file.heldout)
        for record in found
        if record is not None
        for file in record.files
    ]
    missing = [
        part
        for part, record in zip(parts, found, strict=True)
        if record is None
    ]
    if done_before:
        say(f"{len(parts) - len(missing)} of {len(parts)} parts are finished")
    crew.start_progress(
        sum(file.num_bytes for file in files),
        pretraining_examples.add_up(
            pretraining_examples.Progress(), *done_before
        ),
    )
    crew.run("build", missing)
    records = []
    for part, record in zip(parts, found, strict=True):
        record = record or read_part_record(part.path, True)
        assert record is not None
        records += record.files
    return records


def remove_other_parts(names: set[str], parts: Sequence[Part]) -> None:
    """Removes what was built with other flags or from files as they were."""
    folder = os.path.dirname(parts[0].path)
    for name in os.listdir(folder):
        if name.startswith("part-") and name.partition(".")[0] not in names:
            os.remove(os.path.join(folder, name))


def merge(
    crew: "Crew",
    folder: str,
    files: Sequence[corpus.CorpusFile],
    parts: Sequence[Part],
    records: Sequence,
    build: Build,
) -> list[dict]:
    """Deals the parts' examples to the output files.

    Returns:
      See `publish`.

    Raises:
      ValueError: If a data set would have no example.
    """
    from electra_tf import pretraining_examples

    outputs = []
    shares = [pretraining_examples.TRAINING]
    if build.heldout_fraction:
        shares.append(pretraining_examples.HELDOUT)
    for share_name in shares:
        inputs, totals = summarise(files, records, share_name)
        if not totals["examples"]:
            # Nothing here can be of use to another run.
            for part in parts:
                with contextlib.suppress(FileNotFoundError):
                    os.remove(part.path + ".json")
            raise ValueError(
                f"Expected a --heldout-fraction that holds something out. "
                f"Received: {build.heldout_fraction} of "
                f"{sum(r.counts.num_documents for r in records)} document(s)."
                if share_name
                else "Expected text that makes examples. Received: a corpus "
                f"of {len(files)} file(s) whose lines hold no token."
            )
        num_shards = build.num_out_files
        if share_name:
            num_shards = max(1, round(num_shards * build.heldout_fraction))
        if totals["examples"] < num_shards:
            say(
                f"warning: {totals['examples']} example(s) leave some of the "
                f"{num_shards} output files empty"
            )
        ending = f".{share_name}" if share_name else ""
        key = [part.path for part in parts] + [num_shards, build.seed]
        made = f"merged-{hashlib.sha256(repr(key).encode()).hexdigest()[:24]}"
        made += ending
        os.makedirs(os.path.join(folder, made), exist_ok=True)
        names = [
            pretraining_examples.shard_name(i, num_shards)
            for i in range(num_shards)
        ]
        paths = [os.path.join(folder, made, name) for name in names]
        wanted = [i for i, path in enumerate(paths) if not os.path.exists(path)]
        num_groups = min(len(wanted), crew.num_processes, MAX_MERGING_PROCESSES)
        crew.run(
            "merge",
            [
                (
                    [part.path + ending for part in parts],
                    paths,
                    build.seed,
                    wanted[i::num_groups],
                )
                for i in range(num_groups)
            ],
        )
        quotient, rest = divmod(totals["examples"], num_shards)
        manifest: dict[str, Any] = {
            "manifest_version": MANIFEST_VERSION,
            "share": share_name or "training",
            "flags": build._asdict(),
            "inputs": inputs,
            "shards": [
                {
                    "name": name,
                    "examples": quotient + (i < rest),
                    "bytes": os.path.getsize(path),
                }
                for i, (name, path) in enumerate(zip(names, paths, strict=True))
            ],
            "totals": totals,
        }
        if build.dedup and not share_name:
            names = [*names, DROPPED_DOCUMENTS]
            with open(
                os.path.join(folder, made, DROPPED_DOCUMENTS), "wb"
            ) as writer:
                for part in parts:
                    with open(part.path + ".dropped", "rb") as reader:
                        shutil.copyfileobj(reader, writer)
        outputs.append(
            {
                "suffix": HELDOUT_SUFFIX if share_name else "",
                "made": made,
                "names": names,
                "manifest": manifest,
            }
        )
    return outputs


def summarise(files, records, share_name: str) -> tuple[list, dict]:
    """The manifest's entries of the inputs, and their sums."""
    inputs = []
    for file, record in zip(files, records, strict=True):
        counts = record.heldout if share_name else record.counts
        inputs.append(
            {
                "name": file.name,
                "bytes": file.num_bytes,
                "sha256": record.sha256,
                "documents": counts.num_documents,
                "tokens": counts.num_tokens,
                "examples": counts.num_examples,
                "example_tokens": counts.num_example_tokens,
                "dropped_documents": record.num_dropped,
                "bad_inputs": record.num_bad_inputs,
            }
        )
    totals = {
        key: sum(entry[key] for entry in inputs)
        for key in (
            "bytes",
            "documents",
            "tokens",
            "examples",
            "example_tokens",
            "dropped_documents",
            "bad_inputs",
        )
    }
    return inputs, totals


class Crew:
    """Works on tasks in this process or in several."""

    def __init__(
        self, build: Build, vocab_file: str, num_processes: int, skips: bool
    ):
        self.num_processes = num_processes
        self._worker: Worker | None = None
        self._pool: futures.ProcessPoolExecutor | None = None
        self._progress: ProgressLine | None = None
        self._counts = [0] * 5
        self._arguments = (build, vocab_file, skips)
        if num_processes > 1:
            # TensorFlow is imported, but nothing of it has run: so its modules
            # can be shared by forking (a second start per worker instead of
            # four), and each worker sets up threads of its own.
            context = multiprocessing.get_context("fork")
            self._counters = context.Array("q", 5)
            self._pool = futures.ProcessPoolExecutor(
                num_processes,
                mp_context=context,
                initializer=start_worker,
                initargs=(*self._arguments, self._counters),
            )

    def __enter__(self) -> "Crew":
        return self

    def __exit__(self, kind, *_) -> None:
        if self._pool is None:
            return
        if kind is None:
            self._pool.shutdown()
            return
        # Not after their parts: a mistake or Ctrl-C ends the run at once.
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.kill()

    def start_progress(
        self, total_bytes: int, done_before: Sequence[int], activity: str = ""
    ) -> None:
        """Counts of the tasks from now on go to a new line."""
        self._progress = ProgressLine(
            total_bytes, sys.stderr, done_before, activity
        )
        self._counts = [0] * 5
        if self._pool is not None:
            self._counters[:] = [0] * 5

    def run(self, method: str, tasks: Sequence) -> None:
        """Calls a method of `Worker` with each task; nothing comes back."""
        if self._pool is None:
            if self._worker is None and tasks:
                self._worker = Worker(*self._arguments, self._report)
            with few_collections():
                for task in tasks:
                    getattr(self._worker, method)(task)
        else:
            self._run_in_pool(self._pool, method, tasks)
        if self._progress is not None:
            self._progress.finish()
            self._progress = None

    def _report(self, done: Sequence[int]) -> None:
        self._counts = [a + b for a, b in zip(self._counts, done, strict=True)]
        if self._progress is not None:
            self._progress.set(self._counts)

    def _run_in_pool(self, pool, method: str, tasks: Sequence) -> None:
        # Large parts first, so that no worker is left alone with one.
        in_order = sorted(
            tasks, key=lambda task: -getattr(task, "num_bytes", 0)
        )
        try:
            pending = {
                pool.submit(call_worker, method, task) for task in in_order
            }
            while pending:
                done, pending = futures.wait(
                    pending, 0.2, futures.FIRST_EXCEPTION
                )
                if self._progress is not None:
                    self._progress.set(self._counters[:])
                for future in done:
                    future.result()
        except BrokenProcessPool:
            raise ValueError(
                "A building process was killed, perhaps for want of memory; "
                "try fewer --num-processes."
            ) from None


@contextlib.contextmanager
def few_collections() -> Iterator[None]:
    """Makes Python's search for cyclic garbage rare.

    Lists of tokens come by the million and hold no cycles, but each search
    looks at them and at all of TensorFlow too.
    """
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(1_000_000, 50, 100)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


class Worker:
    """Does the tasks of one process, with one thread."""

    def __init__(
        self,
        build: Build,
        vocab_file: str,
        skips: bool,
        report: Callable[[Sequence[int]], None],
    ):
        import tensorflow as tf

        from electra_tf import pretraining_examples, tokenization

        # Refused where TensorFlow has already run something, which is the
        # case only where this tool is called from another program.
        with contextlib.suppress(RuntimeError):
            tf.config.threading.set_intra_op_parallelism_threads(1)
            tf.config.threading.set_inter_op_parallelism_threads(1)
        self._build = build
        self._report = report
        self._reading = corpus.Reading(
            build.blanks_separate_docs,
            build.text_field,
            BadInputs().note if skips else None,
        )
        self._tokenizer = tokenization.FullTokenizer(
            vocab_file, build.do_lower_case, build.strip_accents
        )
        self._tokenize_lines = pretraining_examples.CachingLineTokenizer(
            self._tokenizer
        )

    def fingerprint(self, part: Part) -> None:
        """Writes the fingerprints of a part's documents."""
        from electra_tf import deduplication, pretraining_examples

        # Named when the examples are built.
        reading = self._reading
        if reading.on_bad_input is not None:
            reading = reading._replace(on_bad_input=lambda message: None)

        def documents():
            for number, file in enumerate(part.files, part.first_file):
                for found, num_bytes in pretraining_examples.documents_of(
                    corpus.read_lines(file.path, reading=reading)
                ):
                    for document in found:
                        yield number, document
                    self._report((num_bytes, len(found), 0, 0, 0))

        fingerprinter = deduplication.Fingerprinter(self._build.dedup == "near")
        temporary = part.path + ".tmp"
        with open(temporary, "wb") as writer:
            for records in fingerprinter(documents()):
                writer.write(records.tobytes())
        os.replace(temporary, part.path)

    def build(self, part: Part) -> None:
        """Writes the examples of a part, and last its record."""
        from electra_tf import pretraining_examples

        build = self._build
        endings = ["", ".dropped"] if build.dedup else [""]
        heldout_path = None
        if build.heldout_fraction:
            heldout_path = f"{part.path}.{pretraining_examples.HELDOUT}"
            endings.append(f".{pretraining_examples.HELDOUT}")
        with contextlib.ExitStack() as stack:
            chooser = None
            if build.dedup or build.heldout_fraction:
                dropped = None
                if build.dedup:
                    dropped = stack.enter_context(
                        open(part.path + ".dropped", "w", encoding="utf-8")
                    )
                chooser = Chooser(part, build.heldout_fraction, dropped)
            records = pretraining_examples.write_part(
                part.files,
                part.path,
                self._tokenizer,
                self._tokenize_lines,
                build.max_seq_length,
                build.seed,
                self._reading,
                self._report,
                heldout_path,
                chooser,
            )
        if chooser is not None:
            chooser.check_all_seen()
        num_bytes = {
            ending: os.path.getsize(part.path + ending) for ending in endings
        }
        command_line.write_atomically(
            part.path + ".json", json.dumps(PartRecord(num_bytes, records))
        )

    def merge(self, task: tuple) -> None:
        """Writes some output files: see `merge_parts`."""
        from electra_tf import pretraining_examples

        pretraining_examples.merge_parts(*task)


class Chooser:
    """Says which share gets a document of a part, in the order of reading."""

    def __init__(self, part: Part, heldout_fraction: float, dropped):
        self._part = part
        self._heldout_fraction = heldout_fraction
        self._dropped = dropped
        self._num_seen = 0
        if dropped is not None and part.num_documents:
            import numpy as np

            folder = os.path.dirname(part.path)
            self._decided = np.memmap(
                os.path.join(folder, DECISIONS), DECISION, "r"
            )[part.documents]
            with open(
                os.path.join(folder, FILE_NAMES), encoding="utf-8"
            ) as reader:
                self._names = json.load(reader)

    def __call__(
        self, file_number: int, document_number: int, lines: list[str]
    ) -> str:
        from electra_tf import deduplication, pretraining_examples

        position = self._num_seen
        self._num_seen += 1
        if self._dropped is not None:
            if position >= self._part.num_documents:
                self.check_all_seen()
            if self._decided[position]["kept_document"]:
                self._list(position, file_number, document_number, lines)
                return pretraining_examples.DROPPED
        if self._heldout_fraction and deduplication.is_held_out(
            deduplication.digest_of(lines), self._heldout_fraction
        ):
            return pretraining_examples.HELDOUT
        return pretraining_examples.TRAINING

    def check_all_seen(self) -> None:
        """Checks that the files hold what they held before.

        Raises:
          ValueError: If they do not.
        """
        if self._dropped is None or self._num_seen == self._part.num_documents:
            return
        raise ValueError(
            "Expected the corpus to stay as it is while it is read. Received: "
            f"other documents than before in {self._part.files[0].name!r} or "
            "a file after it; run again."
        )

    def _list(self, position, file_number, document_number, lines) -> None:
        decision = self._decided[position]
        entry = {
            "file": self._part.files[file_number].name,
            "document": document_number + 1,
            "reason": "exact" if decision["is_exact"] else "near",
            "similarity": round(float(decision["similarity"]), 3),
            "kept_file": self._names[int(decision["kept_file"])],
            "kept_document": int(decision["kept_document"]),
            "begins": " ".join(lines)[:SHOWN_CHARACTERS],
        }
        print(json.dumps(entry, ensure_ascii=False), file=self._dropped)


_worker: Worker | None = None


def start_worker(build: Build, vocab_file: str, skips: bool, counters) -> None:
    """Sets up the worker of this process."""
    global _worker
    # Ctrl-C reaches every process of the group; the parent answers it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def report(done: Sequence[int]) -> None:
        with counters.get_lock():
            for i, count in enumerate(done):
                counters[i] += count

    _worker = Worker(build, vocab_file, skips, report)
    few_collections().__enter__()


def call_worker(method: str, task: Any) -> None:
    assert _worker is not None
    getattr(_worker, method)(task)


def versions() -> dict[str, str]:
    """Of what the bytes could depend on."""
    found = {"python": sys.version.split()[0]}
    for package in ("electra_tf", "tensorflow", "tensorflow-text"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


class ProgressLine:
    """Documents, examples, tokens a second and time to go, on one line.

    On a terminal the line is drawn over and over; elsewhere a new one is
    written every few seconds.
    """

    TERMINAL_SECONDS = 0.2
    LOG_SECONDS = 5.0

    def __init__(
        self,
        total_bytes: int,
        stream: TextIO,
        done_before: Sequence[int] = (0,) * 5,
        activity: str = "",
    ):
        self.counts = list(done_before)
        self._before = list(done_before)
        self._activity = activity
        self._total_bytes = max(total_bytes, 1)
        self._stream = stream
        self._on_terminal = stream.isatty()
        self._start = self._last_drawn = time.monotonic()

    def set(self, counts: Sequence[int]) -> None:
        """Takes counts as in `Progress`, of this run."""
        self.counts = [a + b for a, b in zip(self._before, counts, strict=True)]
        pause = self.TERMINAL_SECONDS if self._on_terminal else self.LOG_SECONDS
        if time.monotonic() - self._last_drawn >= pause:
            self._draw()

    def finish(self) -> None:
        self._draw()
        if self._on_terminal:
            print(file=self._stream)

    def _draw(self) -> None:
        self._last_drawn = time.monotonic()
        seconds = max(self._last_drawn - self._start, 1e-9)
        num_bytes, num_documents, num_tokens, num_examples, _ = self.counts
        if new_bytes := num_bytes - self._before[0]:
            to_go = round(seconds * (self._total_bytes - num_bytes) / new_bytes)
            eta = f"{to_go // 3600}:{to_go // 60 % 60:02}:{to_go % 60:02}"
        else:
            eta = "?"
        figures = [f"{self._activity}{num_bytes / self._total_bytes:4.0%}"]
        figures.append(f"{num_documents:,} documents")
        if num_tokens:
            speed = (num_tokens - self._before[2]) / seconds
            figures.append(f"{num_examples:,} examples")
            figures.append(f"{num_tokens:,} tokens")
            figures.append(f"{speed:,.0f} tokens/s")
        line = "  ".join([*figures, f"ETA {eta}"])
        if self._on_terminal:
            print(f"\r{line}\x1b[K", end="", file=self._stream, flush=True)
        else:
            print(line, file=self._stream, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    return command_line.run(build_dataset, make_parser(), argv)


if __name__ == "__main__":
    # Text needs no GPU, and TensorFlow would take all of its memory.
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    sys.exit(main())
