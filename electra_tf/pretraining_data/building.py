"""A corpus -> TFRecords and their manifest, on one machine.

Parts of the corpus are built in one process or in several, as files in a folder
of unfinished work inside the output folder; what is made of them is moved to
the output folder at the end. Nothing is wiped, and all appears or none.

The flags of all builders are here, too.
"""

import argparse
import collections
import contextlib
import functools
import gc
import glob
import json
import math
import multiprocessing
import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent import futures
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any

import numpy as np

from electra_tf import errors
from electra_tf import files as files_lib
from electra_tf.command_line import arguments, progress
from electra_tf.pretraining_data import corpus, deduplication
from electra_tf.pretraining_data import manifest as manifest_lib
from electra_tf.pretraining_data import parts as parts_lib

if TYPE_CHECKING:
    from electra_tf.text import vocabulary as vocabulary_lib

# Default number of output files: one for every 16 MiB of text, at least one
# for every 64 KiB up to eight, at most the original's 1000.
SHARD_BYTES = 16 << 20
SMALL_SHARD_BYTES = 64 << 10
MIN_SHARDS = 8
MAX_SHARDS = 1000

# Above this share the builder warns.
_MAX_CUT = 0.2
# In the folder of unfinished work: what is being moved out of it.
_MOVING = "moving.json"

say = functools.partial(arguments.say, "electra-tf build-data")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags that every builder has."""
    add = parser.add_argument
    add("--corpus-dir", required=True, help="Folder of text.")
    add("--vocab-file", required=True, help="Vocabulary, one token a line.")
    add("--output-dir", required=True, help="Where the TFRecords go.")
    line = "A blank line of a text ends a document (the default). As in the "
    line += "original every VALUE but the empty one means yes, even False."
    optional: dict = {"metavar": "VALUE", "nargs": "?", "const": "True"}
    add("--blanks-separate-docs", default="True", help=line, **optional)
    no: dict = {"dest": "blanks_separate_docs", "action": "store_const"}
    line = "Only the end of a file ends a document."
    add("--no-blanks-separate-docs", const="", help=line, **no)
    length = arguments.number(
        int,
        lambda length: length >= manifest_lib.MIN_SEQ_LENGTH,
        f"a whole number of at least {manifest_lib.MIN_SEQ_LENGTH}",
    )
    line = "Tokens in an example (default 128)."
    add("--max-seq-length", type=length, default=128, help=line)
    for flag, name, line in (
        ("lower-case", "do_lower_case", "Lower-case the text"),
        ("strip-accents", "strip_accents", "Strip accents if lower-casing"),
    ):
        add(
            *(f"--{flag}", f"--do-{flag}"),
            dest=name,
            action=argparse.BooleanOptionalAction,
            help=f"{line}. The default is what the vocabulary was made for, if "
            "<vocab-file>.json says so, otherwise yes.",
        )
    add("--seed", type=int, default=0, help="Of all random draws (default 0).")
    line = "Output files. Default: one for every 16 MiB of text, but at least "
    line += "eight (fewer for less than 512 KiB) and at most 1000."
    add("--num-out-files", type=arguments.positive_int, help=line)
    add_reading(parser)
    share = arguments.number(
        float, lambda share: 0 <= share < 1, "a number from 0 to below 1"
    )
    line = "Share of documents that goes to a data set of its own, <output-dir>"
    line += f"{manifest_lib.HELDOUT_SUFFIX}. Chosen by a hash of their words: "
    line += "copies stay together, and the seed does not matter (default 0; "
    line += "less than 1)."
    add("--heldout-fraction", type=share, default=0.0, help=line)


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of all that read a corpus."""
    line = "Field of .jsonl and column of .parquet that holds a document "
    line += "(default text)."
    parser.add_argument("--text-field", default="text", help=line)
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
    add_flags(parser)
    add, whole = parser.add_argument, arguments.positive_int
    line = "Processes that build (default 1). Files are shared out among them, "
    line += "so a single large file keeps one busy."
    add("--num-processes", type=whole, default=1, help=line)
    optional: dict = {"choices": ("exact", "near"), "nargs": "?"}
    line = "Drop documents that repeat earlier ones: exact but for case and "
    line += "white space, or also nearly (without a value). Reads the corpus "
    line += f"twice. {manifest_lib.DROPPED_DOCUMENTS} in the output folder "
    line += "lists them."
    add("--dedup", const="near", default="", help=line, **optional)
    share = arguments.number(
        float, lambda share: 0 <= share <= 1, "a number from 0 to 1"
    )
    line = "Share of runs of five words in common from which documents are "
    line += "near duplicates (default %(default)s)."
    add("--dedup-threshold", type=share, default=0.8, help=line)
    line = "First tokenize a sample of the corpus and warn of unknown words "
    line += "and lost accents (default yes)."
    yes_or_no = argparse.BooleanOptionalAction
    add("--preflight", action=yes_or_no, default=True, help=line)
    line = "Build nothing; print that report."
    add("--preflight-only", action="store_true", help=line)


def output_folder(args: argparse.Namespace) -> str:
    """Where the training set goes.

    Raises:
      ValueError: If that is no folder of this machine, or a path is nothing
        that TensorFlow can open.
    """
    for path in (args.vocab_file, args.output_dir):
        if not corpus.is_utf8(path):
            raise ValueError(
                f"Expected paths in UTF-8. Received: {os.fsencode(path)!r}."
            )
    if not args.output_dir or "://" in args.output_dir:
        raise ValueError(
            "Expected --output-dir in a folder of this machine; "
            "tools/build_pretraining_dataset_beam.py writes to others. "
            f"Received: {args.output_dir!r}."
        )
    return os.path.abspath(args.output_dir)


def make_build(
    args: argparse.Namespace,
    files: Sequence[corpus.CorpusFile],
) -> tuple[manifest_lib.Build, "vocabulary_lib.Vocabulary", dict]:
    """What the flags decide.

    How text is treated they say first, then the vocabulary, then it is yes.

    Args:
      args: Parsed by a parser of `add_flags`; those of `add_local_flags` may
        be missing.
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
        settings[name] = made_for is not False if flag is None else flag
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
    build = manifest_lib.Build(
        max_seq_length=args.max_seq_length,
        blanks_separate_docs=bool(args.blanks_separate_docs),
        seed=args.seed,
        num_out_files=args.num_out_files or default_num_shards(files),
        text_field=args.text_field,
        dedup=dedup,
        dedup_threshold=args.dedup_threshold if dedup == "near" else 0.0,
        heldout_fraction=args.heldout_fraction,
        **settings,
    )
    return (
        build,
        vocabulary_lib.Vocabulary(
            given.tokens, build.do_lower_case, build.strip_accents
        ),
        manifest_lib.vocabulary_entry(args.vocab_file, given.tokens),
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


def build_dataset(args: argparse.Namespace) -> None:
    """Builds the data set, or finds it built.

    Args:
      args: The flags of `add_local_flags`.

    Raises:
      ValueError: On anything that the user can mend.
    """
    bad_inputs = corpus.BadInputs()
    skips = args.on_bad_input == "skip"
    output_dir = output_folder(args)
    if not args.preflight_only and manifest_lib.read(output_dir) is None:
        _refuse_foreign_files(output_dir, bool(args.heldout_fraction))
    files = corpus.list_files(
        args.corpus_dir,
        bad_inputs.note if skips else None,
        args.vocab_file,
        output_dir,
    )
    if args.blanks_separate_docs.lower() in ("0", "false", "no", "off"):
        errors.warn(
            f"--blanks-separate-docs {args.blanks_separate_docs} means yes, as "
            "in the original: --no-blanks-separate-docs switches it off"
        )
    # All that needs no TensorFlow, which takes seconds to import, is checked.
    say("importing TensorFlow")
    build, vocabulary, entry = make_build(args, files)
    # No more than there is work for.
    num_processes = min(args.num_processes, len(parts_lib.make_parts(files)))
    # Processes of the crew are forked with what is imported here.
    from electra_tf.pretraining_data import examples  # noqa: F401

    choices = (build, vocabulary, skips)
    if args.preflight_only or (
        args.preflight and manifest_lib.read(output_dir) is None
    ):
        # Not in this process where others are forked from it.
        with Crew(min(num_processes, 2), *choices) as crew:
            crew.run("preflight", [files])
    if args.preflight_only:
        return
    start = time.monotonic()
    with unfinished_folder(output_dir) as folder:
        # Another run may have come first, before this one locked the folder.
        finished = manifest_lib.read(output_dir)
        if finished is not None:
            manifest_lib.check_finished(
                output_dir, finished, build, entry, files, skips
            )
            say(f"{output_dir} already holds this data set; nothing to do")
            return
        _refuse_foreign_files(output_dir, bool(args.heldout_fraction))
        with Crew(num_processes, *choices) as crew:
            outputs = _build_outputs(crew, folder, files, build, entry, skips)
        _publish(output_dir, folder, outputs)
    for share, content in outputs.items():
        totals = content["totals"]
        say(
            f"wrote {totals['examples']} examples of {totals['documents']} "
            f"documents, {totals['tokens']} tokens, to "
            f"{len(content['shards'])} file(s) in "
            f"{manifest_lib.folder_of(output_dir, share)}"
        )
        # Two or three of an example's tokens are [CLS] and [SEP].
        in_examples = totals["example_tokens"] - 2 * totals["examples"]
        if (cut := 1 - in_examples / totals["tokens"]) > _MAX_CUT:
            errors.warn(
                f"{cut:.0%} of the tokens are in no example: what does not fit "
                "into one is cut off; give a sentence a line"
            )
    say(f"{time.monotonic() - start:.1f} s")
    totals = outputs[manifest_lib.TRAINING]["totals"]
    if totals["dropped_documents"]:
        say(
            f"dropped {totals['dropped_documents']} document(s) that repeat "
            f"earlier ones; {manifest_lib.DROPPED_DOCUMENTS} lists them"
        )
    if num_bad := bad_inputs.count + totals["bad_inputs"]:
        errors.warn(f"left out {num_bad} damaged place(s) of the corpus")


def _build_outputs(
    crew: "Crew",
    folder: str,
    files: Sequence[corpus.CorpusFile],
    build: manifest_lib.Build,
    entry: dict,
    skips: bool,
) -> dict[str, dict]:
    """Share -> the manifest of its files, which are made by way of parts."""
    parts = parts_lib.make_parts(files)
    versions = manifest_lib.versions()
    if build.dedup:
        parts = _find_duplicates(crew, folder, files, parts, build)
    # The number of output files changes no part, and of what is dropped each
    # part has a digest.
    for_parts = build._replace(num_out_files=0, dedup_threshold=0.0)
    decisions = (for_parts, entry["sha256"], versions)
    parts = [part.at(folder, decisions) for part in parts]
    records = _build_parts(crew, parts, skips)
    for share in build.shares:
        try:
            manifest_lib.refuse_empty(records, build, share)
        except ValueError:
            # Nothing here can be of use to another run.
            for part in parts:
                with contextlib.suppress(FileNotFoundError):
                    os.remove(part.path + ".json")
            raise
    return {
        share: manifest_lib.make(
            build,
            share,
            records,
            _merge(folder, parts, records, build, share),
            entry,
            versions,
        )
        for share in build.shares
    }


def _find_duplicates(
    crew: "Crew",
    folder: str,
    files: Sequence[corpus.CorpusFile],
    parts: Sequence[parts_lib.Part],
    build: manifest_lib.Build,
) -> list[parts_lib.Part]:
    parts = [
        part._replace(path=os.path.join(folder, f"fingerprints-{i}"))
        for i, part in enumerate(parts)
    ]
    crew.run("fingerprint", parts, "looking for duplicates")
    all_records = os.path.join(folder, "fingerprints")
    sizes = [os.path.getsize(part.path) for part in parts]
    with files_lib.writing(all_records), open(all_records, "wb") as writer:
        for part in parts:
            with open(part.path, "rb") as reader:
                shutil.copyfileobj(reader, writer, 1 << 20)
    if not any(sizes):
        return parts
    records = np.memmap(all_records, deduplication.RECORD, "r")
    threshold = build.dedup_threshold if build.dedup == "near" else None
    decided = deduplication.decide(records, threshold)
    dropped = os.path.join(folder, manifest_lib.DROPPED_DOCUMENTS)
    names = [file.name for file in files]
    with files_lib.writing(dropped), open(dropped, "w") as listing:
        listing.writelines(deduplication.listing(records, decided, names))
    ends = np.cumsum(sizes) // deduplication.RECORD.itemsize
    decisions = np.split(decided["kept"] >= 0, ends[:-1])
    return [
        part._replace(is_dropped=some)
        for part, some in zip(parts, decisions, strict=True)
    ]


def _build_parts(
    crew: "Crew", parts: Sequence[parts_lib.Part], skips: bool
) -> list[manifest_lib.FileRecord]:
    """Builds the parts that no earlier run has finished."""
    finished = [parts_lib.read_record(part, skips) for part in parts]
    missing = [p for p, r in zip(parts, finished, strict=True) if r is None]
    if len(missing) < len(parts):
        say(f"{len(parts) - len(missing)} of {len(parts)} parts are finished")
    crew.run("build", missing, "building examples")
    return [
        record
        for part, records in zip(parts, finished, strict=True)
        for record in records or parts_lib.read_record(part, True) or ()
    ]


def _merge(
    folder: str,
    parts: Sequence[parts_lib.Part],
    records: Sequence[manifest_lib.FileRecord],
    build: manifest_lib.Build,
    share: str,
) -> list[dict]:
    """Deals the parts' examples of a share to its output files."""
    num_examples = sum(r[share]["examples"] for r in records)
    names = build.shard_names(share)
    if num_examples < len(names):
        errors.warn(
            f"{num_examples} example(s) leave some of the {len(names)} output "
            "files empty"
        )
    # Copying is quick: what another run has merged is merged anew.
    made = _made(folder, share)
    shutil.rmtree(made, ignore_errors=True)
    os.makedirs(made)
    paths = [os.path.join(made, name) for name in names]
    inputs = [part.path_of(share) for part in parts]
    parts_lib.merge(inputs, paths, build.seed)
    if build.dedup and not share:
        dropped = os.path.join(folder, manifest_lib.DROPPED_DOCUMENTS)
        shutil.copy(dropped, made)
    quotient, rest = divmod(num_examples, len(names))
    return [
        {
            "name": name,
            "examples": quotient + (i < rest),
            "bytes": os.path.getsize(path),
        }
        for i, (name, path) in enumerate(zip(names, paths, strict=True))
    ]


def _made(folder: str, share: str) -> str:
    """Where the output files of a share are made."""
    return os.path.join(folder, f"merged-{share or 'training'}")


class Crew:
    """Works on tasks in this process or in several."""

    def __init__(self, num_processes: int, *choices):
        """Starts the processes; `choices` are those of `_make_builder`."""
        self._choices = choices
        self._builder: parts_lib.PartBuilder | None = None
        self._pool: futures.ProcessPoolExecutor | None = None
        self._progress: progress.Progress | None = None
        self._others = multiprocessing.active_children()
        self._counts: collections.Counter[str] = collections.Counter()
        # Lists of tokens come by the million and hold no cycles, but each
        # search for some looks at them and at all of TensorFlow too.
        self._thresholds = gc.get_threshold()
        gc.set_threshold(1_000_000, 50, 100)
        if num_processes > 1:
            # TensorFlow is imported, but nothing of it has run: so its modules
            # can be shared by forking (a second start per worker instead of
            # four), and each worker sets up threads of its own.
            self._pool = futures.ProcessPoolExecutor(
                num_processes,
                mp_context=multiprocessing.get_context("fork"),
                initializer=_start_worker,
                initargs=choices,
            )

    def __enter__(self) -> "Crew":
        return self

    def __exit__(self, kind, *_) -> None:
        gc.set_threshold(*self._thresholds)
        if self._pool is None:
            return
        if kind is None:
            self._pool.shutdown()
            return
        # Not after their parts: a mistake or Ctrl-C ends the run at once.
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            if process not in self._others:
                process.kill()

    def run(self, method: str, tasks: Sequence, activity: str = "") -> None:
        """Calls a method of `PartBuilder` with each; nothing comes back.

        An activity on parts is shown as it goes.
        """
        if activity:
            num_bytes = sum(part.num_bytes for part in tasks)
            self._progress = progress.Progress(activity, num_bytes)
            self._counts.clear()
        if self._pool is None:
            if self._builder is None and tasks:
                self._builder = _make_builder(*self._choices)
            for task in tasks:
                getattr(self._builder, method)(task, self._report)
        else:
            # Large parts first, so that no worker is left alone with one.
            tasks = sorted(tasks, key=lambda t: -getattr(t, "num_bytes", 0))
            left = [self._pool.submit(_work, method, task) for task in tasks]
            try:
                for future in futures.as_completed(left):
                    self._report(future.result())
            except BrokenProcessPool:
                raise ValueError(
                    "A building process was killed, perhaps for want of "
                    "memory; try fewer --num-processes."
                ) from None
        if self._progress is not None:
            self._progress.close()
            self._progress = None

    def _report(self, done: dict[str, int]) -> None:
        counts = self._counts
        counts.update(done)
        if self._progress is None:
            return
        figures = f"{counts['documents']:,} documents"
        if num_tokens := counts["tokens"]:
            speed = num_tokens / self._progress.seconds
            figures += (
                f"  {counts['examples']:,} examples  {num_tokens:,} "
                f"tokens  {speed:,.0f} tokens/s"
            )
        self._progress.update(counts["bytes"], figures)


def _make_builder(
    build: manifest_lib.Build,
    vocabulary: "vocabulary_lib.Vocabulary",
    skips: bool,
) -> parts_lib.PartBuilder:
    """What a process works with; it keeps TensorFlow's ops to one thread."""
    import tensorflow as tf

    from electra_tf.text import tokenization

    # Refused where TensorFlow has already run something, which is the case
    # only where this is called from another program.
    with contextlib.suppress(RuntimeError):
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
    return parts_lib.PartBuilder(
        build,
        tokenization.FullTokenizer(vocabulary),
        corpus.BadInputs().note if skips else None,
    )


# What a process of the crew works with.
_builder: parts_lib.PartBuilder | None = None


def _start_worker(*choices) -> None:
    global _builder
    parent = multiprocessing.parent_process()
    assert parent is not None

    def leave_with_parent() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=leave_with_parent, daemon=True).start()
    # Ctrl-C reaches every process of the group; the parent answers it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _builder = _make_builder(*choices)


def _work(method: str, task: Any) -> dict[str, int]:
    """Has this process of the crew do a task; what it has done."""
    done: collections.Counter[str] = collections.Counter()
    getattr(_builder, method)(task, done.update)
    return done


def _refuse_foreign_files(output_dir: str, holds_out: bool) -> None:
    """Refuses output folders with files that no run of the builder wrote."""
    moving = _moving(output_dir)
    for share in [manifest_lib.TRAINING, manifest_lib.HELDOUT][: 1 + holds_out]:
        folder = manifest_lib.folder_of(output_dir, share)
        if os.path.isdir(folder):
            known = {manifest_lib.UNFINISHED, *moving.get(folder, ())}
            foreign = sorted(set(os.listdir(folder)) - known)
            manifest_lib.refuse_foreign(folder, foreign)
        elif os.path.exists(folder):
            raise ValueError(
                f"Expected a folder as --output-dir. Received: {folder!r}, "
                "which is a file."
            )


def _moving(output_dir: str) -> dict[str, list[str]]:
    """Folder -> names of what a run that was killed was moving there."""
    path = os.path.join(output_dir, manifest_lib.UNFINISHED, _MOVING)
    with contextlib.suppress(OSError), open(path) as reader:
        return json.load(reader)
    return {}


@contextlib.contextmanager
def unfinished_folder(output_dir: str) -> Iterator[str]:
    """A folder for everything unfinished, for one run at a time.

    It goes away once the run has succeeded. Otherwise it stays, if a part is
    finished, and so the same command need not build that part again.

    Raises:
      ValueError: If another run is building in the same folder.
    """
    folder = os.path.join(output_dir, manifest_lib.UNFINISHED)
    is_new = not os.path.exists(output_dir)
    try:
        os.makedirs(folder, exist_ok=True)
        lock = files_lib.lock(folder)
    except OSError as error:
        raise ValueError(
            f"Cannot write to {output_dir!r}: {error.strerror}."
        ) from None
    # One that ends may remove the folder meanwhile.
    if lock is None or not os.path.isdir(folder):
        raise ValueError(f"Another run is building in {output_dir!r}.")
    succeeded = False
    try:
        yield folder
        succeeded = True
    finally:
        num_finished = len(glob.glob("part-*.json", root_dir=folder))
        if succeeded or not num_finished:
            shutil.rmtree(folder, ignore_errors=True)
            if is_new:
                with contextlib.suppress(OSError):
                    os.rmdir(output_dir)
        else:
            say(
                f"{num_finished} finished part(s) stay in {folder}; the same "
                "command goes on from there"
            )
        os.close(lock)


def _publish(output_dir: str, folder: str, outputs: dict[str, dict]) -> None:
    """Moves what is made to where it belongs, the manifests last."""
    folders = {s: manifest_lib.folder_of(output_dir, s) for s in outputs}
    _refuse_foreign_files(output_dir, manifest_lib.HELDOUT in outputs)
    # What a run that was killed here has moved is made anew: see `_merge`.
    for target, names in _moving(output_dir).items():
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                os.remove(os.path.join(target, name))
    made = {share: os.listdir(_made(folder, share)) for share in outputs}
    files_lib.write_json(
        os.path.join(folder, _MOVING),
        {folders[s]: [*made[s], manifest_lib.FILE_NAME] for s in outputs},
    )
    # The training set's manifest says that all is done: it comes last.
    for share, content in reversed(outputs.items()):
        os.makedirs(folders[share], exist_ok=True)
        for name in made[share]:
            # To another file system it is copied.
            shutil.move(
                os.path.join(_made(folder, share), name),
                os.path.join(folders[share], name),
            )
        files_lib.write_atomically(
            os.path.join(folders[share], manifest_lib.FILE_NAME),
            manifest_lib.text_of(content),
        )
