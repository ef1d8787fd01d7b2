"""Parts of a corpus -> workers, in this process or in several."""

import contextlib
import gc
import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any

from electra_tf import files
from electra_tf.command_line import progress
from electra_tf.pretraining_data import (
    corpus,
    deduplication,
    manifest,
    output_folder,
    parts,
)

if TYPE_CHECKING:
    from electra_tf.text import vocabulary as vocabulary_lib

# Damaged places that one process names; the others are counted.
MAX_NAMED_BAD_INPUTS = 10


class BadInputs:
    """Names damaged places that are left out, up to a number, and counts."""

    def __init__(self, say: Callable[[str], object] = output_folder.say):
        self.count = 0
        self._say = say

    def note(self, message: str) -> None:
        self.count += 1
        if self.count <= MAX_NAMED_BAD_INPUTS:
            self._say(f"left out: {message}")
        if self.count == MAX_NAMED_BAD_INPUTS:
            self._say("further damaged places are counted only")


class Crew:
    """Works on tasks in this process or in several."""

    def __init__(
        self,
        build: manifest.Build,
        vocabulary: "vocabulary_lib.Vocabulary",
        num_processes: int,
        skips: bool,
    ):
        self.num_processes = num_processes
        self._worker: Worker | None = None
        self._pool: futures.ProcessPoolExecutor | None = None
        self._progress: progress.Progress | None = None
        self._done_before: Sequence[int] = parts.Counts()
        self._counts = parts.Counts()
        self._arguments = (build, vocabulary, skips)
        self._others = multiprocessing.active_children()
        if num_processes > 1:
            # TensorFlow is imported, but nothing of it has run: so its modules
            # can be shared by forking (a second start per worker instead of
            # four), and each worker sets up threads of its own.
            context = multiprocessing.get_context("fork")
            self._counters = context.Array("q", self._counts)
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
            if process not in self._others:
                process.kill()

    def start_progress(
        self, total_bytes: int, done_before: Sequence[int], activity: str
    ) -> None:
        """Counts of the tasks from now on go to a new line.

        Args:
          total_bytes: Text of all tasks, done or not.
          done_before: Counts, as in `parts.Counts`, of what need not be run.
          activity: Opens the line.
        """
        self._progress = progress.Progress(activity, total_bytes)
        self._progress.start(done_before[0])
        self._done_before = done_before
        self._counts = parts.Counts()
        if self._pool is not None:
            self._counters[:] = self._counts

    @property
    def counts(self) -> parts.Counts:
        """Of the tasks since `start_progress`: what this process has done."""
        if self._pool is not None:
            return parts.Counts(*self._counters[:])
        return self._counts

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
            self._progress.close()
            self._progress = None

    def _report(self, done: Sequence[int]) -> None:
        self._counts = parts.add_up(self._counts, done)
        self._show()

    def _show(self) -> None:
        """Shows counts of this run and what was done before."""
        if self._progress is None:
            return
        total = parts.add_up(self._done_before, self.counts)
        figures = f"{total.num_documents:,} documents"
        if total.num_tokens:
            speed = self.counts.num_tokens / self._progress.seconds
            figures += (
                f"  {total.num_examples:,} examples  {total.num_tokens:,} "
                f"tokens  {speed:,.0f} tokens/s"
            )
        self._progress.update(total.num_bytes, figures)

    def _run_in_pool(self, pool, method: str, tasks: Sequence) -> None:
        # Large parts first, so that no worker is left alone with one.
        tasks = sorted(tasks, key=lambda task: -getattr(task, "num_bytes", 0))
        with telling_of_killed():
            pending = {pool.submit(call_worker, method, task) for task in tasks}
            while pending:
                done, pending = futures.wait(
                    pending, 0.2, futures.FIRST_EXCEPTION
                )
                self._show()
                for future in done:
                    future.result()


@contextlib.contextmanager
def telling_of_killed() -> Iterator[None]:
    """Says in a line that a process of a pool was killed.

    Raises:
      ValueError: If one was.
    """
    try:
        yield
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
    collect_rarely()
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def collect_rarely() -> None:
    """As `few_collections`, from now on."""
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


class Worker:
    """Does the tasks of one process, with one thread."""

    def __init__(
        self,
        build: manifest.Build,
        vocabulary: "vocabulary_lib.Vocabulary",
        skips: bool,
        report: Callable[[Sequence[int]], None],
    ):
        from electra_tf.pretraining_data import part_files
        from electra_tf.text import tokenization

        use_one_thread()
        self._looks_for_near = build.dedup == "near"
        self._report = report
        self._builder = part_files.PartBuilder(
            build,
            tokenization.FullTokenizer(vocabulary),
            BadInputs().note if skips else None,
        )

    def fingerprint(self, part: parts.Part) -> None:
        """Writes the fingerprints of a part's documents."""
        # Named when the examples are built.
        reading = self._builder.reading
        if reading.on_bad_input is not None:
            reading = reading._replace(on_bad_input=lambda message: None)

        def documents():
            for number, file in enumerate(part.files, part.first_file):
                for found, num_bytes in corpus.documents_of(
                    corpus.read_lines(file.path, reading=reading)
                ):
                    for document in found:
                        yield number, document
                    self._report(parts.Counts(num_bytes, len(found)))

        fingerprinter = deduplication.Fingerprinter(self._looks_for_near)
        with (
            files.whole_file(part.path) as temporary,
            open(temporary, "wb") as writer,
        ):
            for records in fingerprinter(documents()):
                writer.write(records.tobytes())

    def build(self, part: parts.Part) -> None:
        """Writes the examples of a part, and last its record."""
        records = self._builder.write(part, self._report)
        sizes = {
            ending: os.path.getsize(part.path + ending)
            for ending in ("", f".{parts.DROPPED}", f".{parts.HELDOUT}")
            if os.path.exists(part.path + ending)
        }
        files.write_atomically(
            part.path + ".json", json.dumps([sizes, records])
        )

    def merge(self, task: tuple) -> None:
        """Writes some output files: see `merge_parts`."""
        from electra_tf.pretraining_data import part_files

        part_files.merge_parts(*task)


def start_child() -> None:
    """Makes a process that was forked here depend on its parent.

    It holds none of the parent's locks, and leaves once the parent has gone,
    whatever that was killed by.
    """
    output_folder.forget_locks()
    parent = multiprocessing.parent_process()
    assert parent is not None

    def leave_with_parent() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=leave_with_parent, daemon=True).start()


_worker: Worker | None = None


def start_worker(
    build: manifest.Build,
    vocabulary: "vocabulary_lib.Vocabulary",
    skips: bool,
    counters,
) -> None:
    """Sets up the worker of this process."""
    global _worker
    start_child()
    # Ctrl-C reaches every process of the group; the parent answers it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def report(done: Sequence[int]) -> None:
        with counters.get_lock():
            for i, count in enumerate(done):
                counters[i] += count

    _worker = Worker(build, vocabulary, skips, report)
    collect_rarely()


def call_worker(method: str, task: Any) -> None:
    """Has the worker of this process do a task."""
    assert _worker is not None
    getattr(_worker, method)(task)
