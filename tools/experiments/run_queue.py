"""Runs commands some at a time; each has a log, and is told when to stop."""

import pathlib
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from suite_runs import Run

from electra_tf import files
from electra_tf.command_line import arguments, progress
from electra_tf.training import signals

_SECONDS_BETWEEN_LOOKS = 0.2


class RunQueue:
    """Starts runs in their order, each when those that it needs are done.

    Args:
      runs: Those that are finished are not run again.
      parallel: Processes at a time.
    """

    def __init__(self, runs: Sequence[Run], parallel: int):
        self.num_runs = len(runs)
        self.parallel = parallel
        self.waiting = [run for run in runs if not run.is_finished()]
        self.running: dict[Run, subprocess.Popen] = {}
        # Run -> the last line of its log, or what it waited for.
        self.failures: dict[Run, str] = {}
        self.is_stopped = False
        done = self.num_runs - len(self.waiting)
        self._progress = progress.Progress("experiments", self.num_runs, "run")
        self._progress.start(done)
        self._shown: list[str] | None = None

    def execute(self) -> int:
        """Runs all that is left.

        SIGTERM and SIGINT are passed on: once to save, twice to leave.

        Returns:
          What the command ends with: 1 if a run failed, 75 after a signal.
        """
        with signals.handled(self._stop, signal.SIGTERM, signal.SIGINT):
            try:
                while self.running or (self.waiting and not self.is_stopped):
                    self._collect()
                    if not self.is_stopped:
                        self._start_some()
                    self._show()
                    time.sleep(_SECONDS_BETWEEN_LOOKS)
            finally:
                for process in self.running.values():
                    process.kill()  # Only after an error of ours.
                self._progress.close()
        for run, reason in self.failures.items():
            print(f"failed: {run.title}: {reason}", file=sys.stderr)
        if self.is_stopped:
            print("stopped; run again to go on", file=sys.stderr)
            return arguments.EXIT_STOPPED
        return 1 if self.failures else 0

    def _stop(self, number, frame) -> None:
        self.is_stopped = True
        for process in self.running.values():
            process.send_signal(signal.SIGTERM)
        self._progress.note(
            f"{signal.Signals(number).name}: waiting for "
            f"{len(self.running)} run(s) to save"
        )

    def _start_some(self) -> None:
        failed = {run.model_dir for run in self.failures}
        unfinished = {run.model_dir for run in (*self.waiting, *self.running)}
        for run in list(self.waiting):
            if lost := failed & set(run.needs):
                self.waiting.remove(run)
                self.failures[run] = f"needs {min(lost)}, which failed"
            elif len(self.running) < self.parallel and not unfinished & set(
                run.needs
            ):
                self.waiting.remove(run)
                self._start(run)

    def _start(self, run: Run) -> None:
        log = _log_of(run)
        with files.writing(str(log)):
            log.parent.mkdir(parents=True, exist_ok=True)
            with open(log, "ab") as file:
                file.write(f"$ python {shlex.join(run.command)}\n".encode())
                file.flush()
                process = subprocess.Popen(
                    [sys.executable, *run.command],
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    # Ctrl-C reaches it through us alone.
                    start_new_session=True,
                )
        self.running[run] = process
        if self.is_stopped:  # Asked in between.
            process.send_signal(signal.SIGTERM)

    def _collect(self) -> None:
        """Looks which processes have ended, and how."""
        for run, process in list(self.running.items()):
            if process.poll() is None:
                continue
            del self.running[run]
            if process.returncode and not self.is_stopped:
                log, code = _log_of(run), process.returncode
                text = log.read_text("utf-8", errors="replace")
                _, _, last = text.strip().rpartition("\n")
                ended = f"ended by signal {-code}; " if code < 0 else ""
                reason = f"{ended}{last} ({log})"
                self.failures[run] = reason
                self._progress.note(f"failed: {run.title}: {reason}")

    def _show(self) -> None:
        left = len(self.waiting) + len(self.running)
        titles = [run.title for run in self.running]
        if self.failures:
            titles.insert(0, f"{len(self.failures)} failed")
        if titles != self._shown:  # A line is enough, for an hour if need be.
            self._shown = titles
            self._progress.update(self.num_runs - left, ", ".join(titles))


def _log_of(run: Run) -> pathlib.Path:
    return pathlib.Path(f"{run.model_dir}.log")
