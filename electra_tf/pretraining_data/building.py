"""A corpus -> TFRecords and their manifest, on one machine.

Parts of the corpus are built in one process or in several, as files in a folder
of unfinished work inside the output folder; what is made of them is moved to
the output folder at the end. Nothing is wiped, and all appears or none.
"""

import argparse
import contextlib
import functools
import gc
import glob
import json
import multiprocessing
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any

import numpy as np

from electra_tf import errors
from electra_tf import files as files_lib
from electra_tf.command_line import arguments, progress
from electra_tf.pretraining_data import building_flags, corpus, deduplication
from electra_tf.pretraining_data import manifest as manifest_lib
from electra_tf.pretraining_data import parts as parts_lib
from electra_tf.pretraining_data.manifest import Counts, add_up

if TYPE_CHECKING:
    from electra_tf.text import vocabulary as vocabulary_lib

# More processes than this only read the same parts over and over.
MAX_MERGING_PROCESSES = 8
# In the folder of unfinished work: what is being moved out of it.
_MOVING = "moving.json"
_LOOKS_FALSE = ("0", "false", "n", "no", "off")

say = functools.partial(arguments.say, "build_pretraining_dataset")


def build_dataset(args: argparse.Namespace) -> None:
    """Builds the data set, or finds it built.

    Args:
      args: The flags of `building_flags.add_local_flags`.

    Raises:
      ValueError: On anything that the user can mend.
    """
    building_flags.check(args)
    bad_inputs = corpus.BadInputs()
    skips = args.on_bad_input == "skip"
    folders = building_flags.output_folders(args)
    output_dir = folders[0]
    finished = None if args.preflight_only else manifest_lib.read(output_dir)
    if finished is None and not args.preflight_only:
        _refuse_foreign_files(folders)
    files = corpus.list_files(
        args.corpus_dir,
        bad_inputs.note if skips else None,
        args.vocab_file,
        folders,
    )
    if (args.blanks_separate_docs or "").lower() in _LOOKS_FALSE:
        errors.warn(
            f"--blanks-separate-docs {args.blanks_separate_docs} means yes, as "
            "in the original; use --no-blanks-separate-docs to switch it off"
        )
    # All that needs no TensorFlow, which takes seconds to import, is checked.
    say("importing TensorFlow")
    build, vocabulary, entry = building_flags.make_build(args, files)
    # No more than there is work for.
    num_processes = min(args.num_processes, len(parts_lib.make_parts(files)))
    # Processes of the crew are forked with what is imported here.
    from electra_tf.pretraining_data import examples  # noqa: F401

    choices = (build, vocabulary, skips)
    if finished is None and args.preflight:
        # Not in this process where others are forked from it.
        with Crew(min(num_processes, 2), *choices) as crew:
            crew.run("preflight", [(files, args.gin_file)])
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
        _refuse_foreign_files(folders)
        # Parts and the output lie side by side, each as large as text.
        needed = 2 * sum(file.num_bytes for file in files)
        if (free := shutil.disk_usage(folder).free) < needed:
            errors.warn(
                f"{free >> 20} MiB are free, and this will take some "
                f"{needed >> 20} MiB or more while it runs"
            )
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
    num_tokens = crew.counts.num_tokens
    seconds = time.monotonic() - start
    speed = f", {num_tokens / seconds:,.0f} tokens/s" if num_tokens else ""
    say(f"{seconds:.1f} s{speed}")
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
    parts = [part.at(folder, "part", decisions) for part in parts]
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
            files,
            records,
            _merge(crew, folder, parts, records, build, share),
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
    """Looks for documents that repeat earlier ones."""
    decisions = (build.dedup, build.blanks_separate_docs, build.text_field)
    parts = [
        # Fingerprints name their file by its number.
        part.at(folder, "fingerprints", (*decisions, part.first_file))
        for part in parts
    ]
    parts_lib.remove_others(parts)
    missing = [part for part in parts if not os.path.exists(part.path)]
    num_bytes = sum(part.num_bytes for part in parts)
    done_before = num_bytes - sum(part.num_bytes for part in missing)
    crew.start_progress(
        num_bytes, Counts(done_before), "looking for duplicates"
    )
    crew.run("fingerprint", missing)
    all_records = os.path.join(folder, "fingerprints")
    _concatenate([part.path for part in parts], all_records)
    sizes = [os.path.getsize(part.path) for part in parts]
    if not any(sizes):
        return parts
    records = np.memmap(all_records, deduplication.RECORD, "r")
    threshold = build.dedup_threshold if build.dedup == "near" else None
    decided = deduplication.decide(records, len(files), threshold)
    ends = np.cumsum(sizes) // deduplication.RECORD.itemsize
    return [
        part._replace(
            decided=some,
            kept_names={
                i: files[i].name
                for i in np.unique(
                    some["kept_file"][some["kept_document"] > 0]
                ).tolist()
            },
        )
        for part, some in zip(parts, np.split(decided, ends[:-1]), strict=True)
    ]


def _build_parts(
    crew: "Crew", parts: Sequence[parts_lib.Part], skips: bool
) -> list[manifest_lib.FileRecord]:
    """Builds the parts that no earlier run has finished."""
    parts_lib.remove_others(parts)
    finished = [parts_lib.read_record(part, skips) for part in parts]
    done_before = [
        add_up(file.counts, file.heldout)
        for records in finished
        for file in records or ()
    ]
    if done_before:
        num_finished = len(parts) - finished.count(None)
        say(f"{num_finished} of {len(parts)} parts are finished")
    crew.start_progress(
        sum(part.num_bytes for part in parts),
        add_up(Counts(), *done_before),
        "building examples",
    )
    missing = [p for p, r in zip(parts, finished, strict=True) if r is None]
    crew.run("build", missing)
    return [
        record
        for part, records in zip(parts, finished, strict=True)
        for record in records or parts_lib.read_record(part, True) or ()
    ]


def _merge(
    crew: "Crew",
    folder: str,
    parts: Sequence[parts_lib.Part],
    records: Sequence[manifest_lib.FileRecord],
    build: manifest_lib.Build,
    share: str,
) -> list[dict]:
    """Deals the parts' examples of a share to its output files."""
    num_examples = sum(r.counts_of(share).num_examples for r in records)
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
    num_groups = min(len(names), crew.num_processes, MAX_MERGING_PROCESSES)
    crew.run(
        "merge",
        [
            (inputs, paths, build.seed, range(i, len(names), num_groups))
            for i in range(num_groups)
        ],
    )
    if build.dedup and not share:
        _concatenate(
            [part.path_of(manifest_lib.DROPPED) for part in parts],
            os.path.join(made, manifest_lib.DROPPED_DOCUMENTS),
        )
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


def _concatenate(paths: Sequence[str], target: str) -> None:
    """Writes the bytes of some files to one."""
    with (
        files_lib.whole_file(target) as temporary,
        open(temporary, "wb") as writer,
    ):
        for path in paths:
            with open(path, "rb") as reader:
                shutil.copyfileobj(reader, writer, 1 << 20)


class Crew:
    """Works on tasks in this process or in several."""

    def __init__(self, num_processes: int, *choices):
        """Starts the processes; `choices` are those of `_make_builder`."""
        self.num_processes = num_processes
        self._choices = choices
        self._builder: parts_lib.PartBuilder | None = None
        self._pool: futures.ProcessPoolExecutor | None = None
        self._progress: progress.Progress | None = None
        self._done_before: Sequence[int] = Counts()
        self._others = multiprocessing.active_children()
        self._counters: Any = [*Counts()]
        if num_processes > 1:
            # TensorFlow is imported, but nothing of it has run: so its modules
            # can be shared by forking (a second start per worker instead of
            # four), and each worker sets up threads of its own.
            context = multiprocessing.get_context("fork")
            self._counters = context.Array("q", Counts())
            self._pool = futures.ProcessPoolExecutor(
                num_processes,
                mp_context=context,
                initializer=_start_worker,
                initargs=(self._counters, *choices),
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
            if process not in self._others:
                process.kill()

    def start_progress(
        self, total_bytes: int, done_before: Sequence[int], activity: str
    ) -> None:
        """Counts of the tasks from now on go to a new line."""
        self._progress = progress.Progress(activity, total_bytes)
        self._progress.start(done_before[0])
        self._done_before = done_before
        self._counters[:] = Counts()

    @property
    def counts(self) -> Counts:
        """Of the tasks since `start_progress`: what this run has done."""
        return Counts(*self._counters[:])

    def run(self, method: str, tasks: Sequence) -> None:
        """Calls a method of `PartBuilder` with each; nothing comes back."""
        if self._pool is None:
            if self._builder is None and tasks:
                self._builder = _make_builder(*self._choices)
            with few_collections():
                for task in tasks:
                    getattr(self._builder, method)(task, self._report)
        else:
            # Large parts first, so that no worker is left alone with one.
            tasks = sorted(tasks, key=lambda t: -getattr(t, "num_bytes", 0))
            try:
                left = {self._pool.submit(_work, method, t) for t in tasks}
                while left:
                    done, left = futures.wait(
                        left, 0.2, futures.FIRST_EXCEPTION
                    )
                    self._show()
                    for future in done:
                        future.result()
            except BrokenProcessPool:
                raise ValueError(
                    "A building process was killed, perhaps for want of "
                    "memory; try fewer --num-processes."
                ) from None
        if self._progress is not None:
            self._progress.close()
            self._progress = None

    def _report(self, done: Sequence[int]) -> None:
        self._counters[:] = add_up(self._counters, done)
        self._show()

    def _show(self) -> None:
        """Shows counts of this run and what was done before."""
        if self._progress is None:
            return
        total = add_up(self._done_before, self.counts)
        figures = f"{total.num_documents:,} documents"
        if total.num_tokens:
            speed = self.counts.num_tokens / self._progress.seconds
            figures += (
                f"  {total.num_examples:,} examples  {total.num_tokens:,} "
                f"tokens  {speed:,.0f} tokens/s"
            )
        self._progress.update(total.num_bytes, figures)


@contextlib.contextmanager
def few_collections() -> Iterator[None]:
    """Makes Python's search for cyclic garbage rare.

    Lists of tokens come by the million and hold no cycles, but each search
    looks at them and at all of TensorFlow too.
    """
    thresholds = gc.get_threshold()
    _collect_rarely()
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def _collect_rarely() -> None:
    gc.freeze()
    gc.set_threshold(1_000_000, 50, 100)


def use_one_thread() -> None:
    """Keeps TensorFlow's ops to one thread in this process."""
    import tensorflow as tf

    # Refused where TensorFlow has already run something, which is the case
    # only where this is called from another program.
    with contextlib.suppress(RuntimeError):
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)


def _make_builder(
    build: manifest_lib.Build,
    vocabulary: "vocabulary_lib.Vocabulary",
    skips: bool,
) -> parts_lib.PartBuilder:
    from electra_tf.text import tokenization

    use_one_thread()
    return parts_lib.PartBuilder(
        build,
        tokenization.FullTokenizer(vocabulary),
        corpus.BadInputs().note if skips else None,
    )


# What a process of the crew works with: a builder, and where it reports.
_worker: tuple[parts_lib.PartBuilder, Callable] | None = None


def _start_worker(counters, *choices) -> None:
    """Sets up what a process of the crew works with."""
    global _worker
    parent = multiprocessing.parent_process()
    assert parent is not None

    def leave_with_parent() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=leave_with_parent, daemon=True).start()
    # Ctrl-C reaches every process of the group; the parent answers it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _worker = _make_builder(*choices), functools.partial(_count, counters)
    _collect_rarely()


def _count(counters, done: Sequence[int]) -> None:
    with counters.get_lock():
        counters[:] = add_up(counters[:], done)


def _work(method: str, task: Any) -> None:
    """Has this process of the crew do a task."""
    assert _worker is not None
    builder, report = _worker
    getattr(builder, method)(task, report)


def _refuse_foreign_files(folders: Sequence[str]) -> None:
    """Refuses output folders with files that no run of the builder wrote."""
    moving = _moving(folders[0])
    for folder in folders:
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
    lock = _lock(output_dir, folder)
    succeeded = False
    try:
        yield folder
        succeeded = True
    finally:
        # Parts that are built, or, before the first of them, looked through;
        # what is unfinished has an ending.
        num_finished = len(glob.glob("part-*.json", root_dir=folder)) or len(
            glob.glob("fingerprints-" + "[!.]" * 24, root_dir=folder)
        )
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


def _lock(output_dir: str, folder: str) -> int:
    """Makes and locks a folder, which a run that ends may remove meanwhile."""
    while True:
        try:
            os.makedirs(folder, exist_ok=True)
            lock = files_lib.lock(folder)
            if lock is None:
                raise ValueError(f"Another run is building in {output_dir!r}.")
            if os.path.isdir(folder) and os.path.samestat(
                os.fstat(lock), os.stat(folder)
            ):
                return lock
            os.close(lock)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise ValueError(
                f"Cannot write to {output_dir!r}: {error.strerror}."
            ) from None


def _publish(output_dir: str, folder: str, outputs: dict[str, dict]) -> None:
    """Moves what is made to where it belongs, the manifests last."""
    folders = {s: manifest_lib.folder_of(output_dir, s) for s in outputs}
    _refuse_foreign_files([*folders.values()])
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
