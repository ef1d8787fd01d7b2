"""Turns a folder of text into TFRecords of pre-training examples.

  python3 tools/build_pretraining_dataset.py \\
      --corpus-dir my_corpus --vocab-file vocab.txt --output-dir tfrecords

The corpus is UTF-8 text, a sentence or paragraph a line, a blank line between
documents; folders inside it are read too, names that start with a dot are
not. The output is pretrain_data.tfrecord-<i>-of-<n> and manifest.json, which
says what it was made from. Its bytes depend on the corpus, the vocabulary,
the flags and the seed, and not on --num-processes.

The output folder must be new or empty. Nothing is ever wiped: what an
interrupted run left is begun anew, what a finished run left is recognised by
its manifest and kept.
"""

import argparse
import contextlib
import fcntl
import importlib.metadata
import json
import math
import multiprocessing
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from concurrent.futures.process import BrokenProcessPool
from typing import NamedTuple, TextIO

from electra_tf import command_line, corpus

# TensorFlow takes seconds to import: flags and folders are checked before.

MANIFEST = "manifest.json"
MANIFEST_VERSION = 1
# Everything unfinished lives in this folder inside the output folder.
UNFINISHED = "unfinished_build"

# Small files are built together, so that a corpus of a million files does not
# become a million parts.
PART_BYTES = 4 << 20

# Default number of output files: one for every 16 MiB of text, at least one
# for every 64 KiB up to eight, at most the original's 1000.
SHARD_BYTES = 16 << 20
SMALL_SHARD_BYTES = 64 << 10
MIN_SHARDS = 8
MAX_SHARDS = 1000

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
        "--max-seq-length",
        type=command_line.positive_int,
        default=128,
        help="Tokens in an example (default 128).",
    )
    parser.add_argument(
        "--num-processes",
        type=command_line.positive_int,
        default=1,
        help="Processes that build (default 1). Files are shared out among "
        "them, so a single large file keeps one busy.",
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
        type=command_line.positive_int,
        help="Output files. Default: one for every 16 MiB of text, but "
        "at least eight (fewer for less than 512 KiB) and at most 1000.",
    )
    return parser


class Build(NamedTuple):
    """What decides the bytes of the output; goes into the manifest."""

    max_seq_length: int
    blanks_separate_docs: bool
    do_lower_case: bool
    strip_accents: bool
    seed: int
    num_out_files: int


def build_dataset(args: argparse.Namespace) -> None:
    """Builds the data set, or finds it built.

    Args:
      args: As `make_parser` makes them.

    Raises:
      ValueError: On anything that the user can mend.
    """
    files = corpus.list_files(args.corpus_dir)
    output_dir = os.path.abspath(args.output_dir)
    finished = read_manifest(output_dir)
    refuse_foreign_files(output_dir, finished)
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
    settings = text_settings(args, tokenization.load_settings(args.vocab_file))
    build = Build(
        max_seq_length=args.max_seq_length,
        blanks_separate_docs=args.blanks_separate_docs is None
        or bool(args.blanks_separate_docs),
        seed=args.seed,
        num_out_files=args.num_out_files or default_num_shards(files),
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

    with unfinished_folder(output_dir) as folder:
        parts = make_parts(files, folder)
        progress = ProgressLine(
            sum(file.num_bytes for file in files), sys.stderr
        )
        records = build_parts(
            parts, build, args.vocab_file, args.num_processes, progress
        )
        progress.finish()
        inputs, totals = summarise(files, records)
        if not totals["examples"]:
            raise ValueError(
                f"Expected text that makes examples. Received: "
                f"{args.corpus_dir!r}, whose lines hold no token."
            )
        if totals["examples"] < build.num_out_files:
            say(
                f"warning: {totals['examples']} example(s) leave some of the "
                f"{build.num_out_files} output files empty"
            )
        names = [
            pretraining_examples.shard_name(i, build.num_out_files)
            for i in range(build.num_out_files)
        ]
        paths = [os.path.join(folder, name) for name in names]
        num_examples = pretraining_examples.merge_parts(
            [path for path, _ in parts], paths, build.seed
        )
        manifest = {
            "manifest_version": MANIFEST_VERSION,
            "flags": build._asdict(),
            "vocabulary": vocabulary,
            "inputs": inputs,
            "shards": [
                {
                    "name": name,
                    "examples": count,
                    "bytes": os.path.getsize(path),
                }
                for name, path, count in zip(
                    names, paths, num_examples, strict=True
                )
            ],
            "totals": totals,
            "versions": versions(),
        }
        publish(output_dir, folder, names, manifest)
    say(
        f"wrote {totals['examples']} examples of {totals['documents']} "
        f"documents, {totals['tokens']} tokens, to {len(names)} file(s) in "
        f"{output_dir}"
    )


def say(message: str) -> None:
    print(f"build_pretraining_dataset: {message}", file=sys.stderr)


def warn_of_blanks_flag(value: str | None) -> None:
    """Tells those who wrote `--blanks-separate-docs False` what it means."""
    if value is not None and value.lower() in LOOKS_FALSE:
        say(
            f"warning: --blanks-separate-docs {value} means yes, as in the "
            "original; use --no-blanks-separate-docs to switch it off"
        )


def text_settings(
    args: argparse.Namespace, of_vocab: dict[str, bool]
) -> dict[str, bool]:
    """Flags first, then what the vocabulary was made for, then yes."""
    settings = {}
    for name in ("do_lower_case", "strip_accents"):
        flag = getattr(args, name)
        made_for = of_vocab.get(name, True)
        settings[name] = made_for if flag is None else flag
        if name in of_vocab and settings[name] != made_for:
            say(
                f"warning: building with {name}={settings[name]}, but the "
                f"vocabulary was made for {name}={made_for}"
            )
    return settings


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


# The output folder.


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


def refuse_foreign_files(output_dir: str, finished: dict | None) -> None:
    """Refuses an output folder with files that this tool did not write.

    Raises:
      ValueError: If there are any, or the path is a file.
    """
    if os.path.exists(output_dir) and not os.path.isdir(output_dir):
        raise ValueError(
            f"Expected a folder as --output-dir. Received: {output_dir!r}, "
            "which is a file."
        )
    if finished is not None or not os.path.isdir(output_dir):
        return
    ours = {UNFINISHED, *planned_shards(os.path.join(output_dir, UNFINISHED))}
    foreign = sorted(set(os.listdir(output_dir)) - ours)
    if foreign:
        raise ValueError(
            "Expected a new or empty --output-dir. Received: "
            f"{output_dir!r}, which holds {len(foreign)} file(s) that this "
            f"tool did not write, such as {foreign[0]!r}."
        )


def planned_shards(folder: str) -> list[str]:
    """What an interrupted run was about to move out of `folder`."""
    try:
        with open(os.path.join(folder, "plan.json"), encoding="utf-8") as plan:
            return json.load(plan)
    except FileNotFoundError:
        return []


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
            refuse(f"{name} {finished['flags'][name]}, now {value}")
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

    It goes away at the end, and so does an output folder that stays empty.

    Raises:
      ValueError: If another run is building in the same folder.
    """
    folder = os.path.join(output_dir, UNFINISHED)
    is_new = not os.path.exists(output_dir)
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
        # What an interrupted run was moving out of this folder.
        for name in planned_shards(folder):
            with contextlib.suppress(FileNotFoundError):
                os.remove(os.path.join(output_dir, name))
        for name in os.listdir(folder):
            if name != "lock":
                os.remove(os.path.join(folder, name))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            if is_new:
                with contextlib.suppress(OSError):
                    os.rmdir(output_dir)


def publish(
    output_dir: str, folder: str, names: Sequence[str], manifest: dict
) -> None:
    """Moves finished shards to the output folder, the manifest last."""
    command_line.write_atomically(
        os.path.join(folder, "plan.json"), json.dumps(names)
    )
    for name in names:
        os.replace(os.path.join(folder, name), os.path.join(output_dir, name))
    command_line.write_atomically(
        os.path.join(output_dir, MANIFEST),
        json.dumps(manifest, indent=1, ensure_ascii=False) + "\n",
    )


# The work.


def make_parts(
    files: Sequence[corpus.CorpusFile], folder: str
) -> list[tuple[str, list[corpus.CorpusFile]]]:
    """Groups neighbouring files into parts of about PART_BYTES.

    Returns:
      For each part the file to write and the files to read. They depend on
      the corpus only.
    """
    groups: list[list[corpus.CorpusFile]] = []
    num_bytes = PART_BYTES
    for file in files:
        if num_bytes + file.num_bytes > PART_BYTES:
            groups.append([])
            num_bytes = 0
        groups[-1].append(file)
        num_bytes += file.num_bytes
    return [
        (os.path.join(folder, f"part-{i}"), group)
        for i, group in enumerate(groups)
    ]


def build_parts(parts, build: Build, vocab_file, num_processes, progress):
    """Builds all parts, in this process or in several.

    Args:
      parts: See `make_parts`.
      build: The flags.
      vocab_file: Path of the vocabulary.
      num_processes: How many processes to use.
      progress: A ProgressLine.

    Returns:
      The `FileRecord`s of all input files, in order.
    """
    num_processes = min(num_processes, len(parts))
    if num_processes == 1:
        worker = Worker(build, vocab_file, progress.add)
        return [
            record
            for part_path, files in parts
            for record in worker.write_part(part_path, files)
        ]
    # TensorFlow is imported, but nothing of it has run: so its modules can be
    # shared by forking (a second start per worker instead of four), and each
    # worker sets up threads of its own.
    context = multiprocessing.get_context("fork")
    counters = context.Array("q", len(progress.counts))
    with futures.ProcessPoolExecutor(
        num_processes,
        mp_context=context,
        initializer=start_worker,
        initargs=(build, vocab_file, counters),
    ) as pool:
        # Large parts first, so that no worker is left alone with one.
        by_size = sorted(
            parts, key=lambda part: -sum(file.num_bytes for file in part[1])
        )
        tasks = {
            part_path: pool.submit(run_worker, part_path, files)
            for part_path, files in by_size
        }
        try:
            pending = set(tasks.values())
            while pending:
                done, pending = futures.wait(
                    pending, 0.5, futures.FIRST_EXCEPTION
                )
                progress.set(counters[:])
                for task in done:
                    task.result()
        except BrokenProcessPool:
            raise ValueError(
                "A building process was killed, perhaps for want of memory; "
                "try fewer --num-processes."
            ) from None
        except BaseException:
            # Not after their parts: a mistake or Ctrl-C ends the run at once.
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.kill()
            raise
    return [
        record for part_path, _ in parts for record in tasks[part_path].result()
    ]


class Worker:
    """Writes parts with one thread."""

    def __init__(
        self, build: Build, vocab_file: str, report: Callable[[tuple], None]
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
        self._write_part = pretraining_examples.write_part
        self._tokenizer = tokenization.FullTokenizer(
            vocab_file, build.do_lower_case, build.strip_accents
        )
        self._tokenize_lines = pretraining_examples.make_line_tokenizer(
            self._tokenizer
        )

    def write_part(self, part_path: str, files: list[corpus.CorpusFile]):
        return self._write_part(
            files,
            part_path,
            self._tokenizer,
            self._tokenize_lines,
            self._build.max_seq_length,
            self._build.seed,
            self._build.blanks_separate_docs,
            self._report,
        )


_worker: Worker | None = None


def start_worker(build: Build, vocab_file: str, counters) -> None:
    """Sets up the worker of this process."""
    global _worker
    # Ctrl-C reaches every process of the group; the parent answers it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def report(done: tuple) -> None:
        with counters.get_lock():
            for i, count in enumerate(done):
                counters[i] += count

    _worker = Worker(build, vocab_file, report)


def run_worker(part_path: str, files: list[corpus.CorpusFile]):
    assert _worker is not None
    return _worker.write_part(part_path, files)


def summarise(files, records) -> tuple[list[dict], dict[str, int]]:
    """The manifest's entries of the inputs, and their sums."""
    inputs = [
        {
            "name": file.name,
            "bytes": file.num_bytes,
            "sha256": record.sha256,
            "documents": record.counts.num_documents,
            "tokens": record.counts.num_tokens,
            "examples": record.counts.num_examples,
            "example_tokens": record.counts.num_example_tokens,
        }
        for file, record in zip(files, records, strict=True)
    ]
    totals = {
        key: sum(entry[key] for entry in inputs)
        for key in (
            "bytes",
            "documents",
            "tokens",
            "examples",
            "example_tokens",
        )
    }
    return inputs, totals


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

    def __init__(self, total_bytes: int, stream: TextIO):
        self.counts = [0] * 5
        self._total_bytes = total_bytes
        self._stream = stream
        self._on_terminal = stream.isatty()
        self._start = self._last_drawn = time.monotonic()

    def add(self, done: tuple) -> None:
        """Adds the counts of a `pretraining_examples.Progress`."""
        self.set([a + b for a, b in zip(self.counts, done, strict=True)])

    def set(self, counts: list[int]) -> None:
        self.counts = counts
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
        share = num_bytes / self._total_bytes
        if num_bytes:
            to_go = round(seconds / share - seconds)
            eta = f"{to_go // 3600}:{to_go // 60 % 60:02}:{to_go % 60:02}"
        else:
            eta = "?"
        line = (
            f"{share:4.0%}  {num_documents:,} documents  "
            f"{num_examples:,} examples  {num_tokens:,} tokens  "
            f"{num_tokens / seconds:,.0f} tokens/s  ETA {eta}"
        )
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
