"""Runs commands some at a time, each with a log; told to stop, it tells them.

Several queues may work on the same runs.
"""

import argparse
import collections
import dataclasses
import fcntl
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence

from experiment_runs import Run

from electra_tf.command_line import arguments, progress

_SECONDS_BETWEEN_LOOKS = 0.2
# Seconds between two lines where the output is no terminal.
_SECONDS_BETWEEN_LINES = 60.0


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds --parallel, --dry_run and --table_only."""
    parser.add_argument(
        "--parallel",
        type=arguments.positive_int,
        default=1,
        help="Runs at a time, of one thread each: as many as there are cores "
        "(default: %(default)s).",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="Only say what would be run."
    )
    parser.add_argument(
        "--table-only",
        action="store_true",
        help="Only write figures, table and plot of the runs that are there.",
    )


def print_commands(runs: Sequence[Run]) -> None:
    """Every run with its command, as it can be typed."""
    for run in runs:
        state = "finished" if run.is_finished() else "to run"
        print(f"# {run.title}: {state}\npython {shlex.join(run.command)}\n")


def execute(runs: Sequence[Run], parallel: int) -> int:
    """Runs what is left of some runs; returns what the command ends with."""
    queue = Queue(runs, parallel)
    queue.execute()
    return queue.exit_code()


@dataclasses.dataclass(frozen=True)
class Failure:
    """A run that did not come to its end.

    Attributes:
      run: The run.
      reason: The last line of its log, or what it waited for.
    """

    run: Run
    reason: str


class Queue:
    """Starts runs in their order, each when those that it needs are done.

    Args:
      runs: Those that are finished are not run again.
      parallel: Processes at a time.
    """

    def __init__(self, runs: Sequence[Run], parallel: int):
        self.num_runs = len(runs)
        self.parallel = parallel
        self.running: dict[Run, tuple[subprocess.Popen, float]] = {}
        self.failures: list[Failure] = []
        self.stop_requests = 0
        self._line = progress.LiveLine(_SECONDS_BETWEEN_LINES)
        # Kind -> weight and seconds of each finished run.
        self._finished: dict[str, list[tuple[float, float]]] = (
            collections.defaultdict(list)
        )
        self.waiting: list[Run] = []
        # Model directory -> what was made from it, or will be.
        self._made_from: dict[str, list[str]] = collections.defaultdict(list)
        for run in runs:
            for needed in run.needs:
                self._made_from[needed].append(run.model_dir)
            if run.is_finished():
                self._note_time(run)
            else:
                self.waiting.append(run)

    def execute(self) -> list[Failure]:
        """Runs all that is left.

        Returns:
          What failed, in order. After SIGTERM or SIGINT, once all processes
          have saved and left, `was_stopped` is true.
        """
        previous = {
            number: signal.signal(number, self._stop)
            for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            while self.running or (self.waiting and not self.was_stopped):
                self._collect()
                if not self.was_stopped:
                    self._start_some()
                self._line.show(self._progress())
                time.sleep(_SECONDS_BETWEEN_LOOKS)
        finally:
            for process, _ in self.running.values():
                process.kill()  # Only after an error of ours.
            for number, handler in previous.items():
                signal.signal(number, handler)
            self._line.close()
        return self.failures

    @property
    def was_stopped(self) -> bool:
        return self.stop_requests > 0

    def exit_code(self) -> int:
        """Says how it ended; returns what the command ends with."""
        for failure in self.failures:
            print(
                f"failed: {failure.run.title}: {failure.reason}",
                file=sys.stderr,
            )
        if self.was_stopped:
            print("stopped; run again to go on", file=sys.stderr)
            return arguments.EXIT_STOPPED
        return 1 if self.failures else 0

    def _stop(self, number, frame) -> None:
        """Passes a request on: once to save, a second time to leave."""
        self.stop_requests += 1
        for process, _ in self.running.values():
            _ask_to_stop(process)
        self._line.note(
            f"{signal.Signals(number).name}: waiting for "
            f"{len(self.running)} run(s) to save"
        )

    def _start_some(self) -> None:
        unfinished = {run.model_dir for run in (*self.waiting, *self.running)}
        for run in list(self.waiting):
            if len(self.running) >= self.parallel:
                return
            failed = {f.run.model_dir for f in self.failures}
            if lost := failed & set(run.needs):
                self.waiting.remove(run)
                self.failures.append(
                    Failure(run, f"needs {min(lost)}, which failed")
                )
            elif reason := left_behind(run, self._made_from[run.model_dir]):
                self.waiting.remove(run)
                self.failures.append(Failure(run, reason))
            elif not unfinished & set(run.needs) and self._start(run):
                self.waiting.remove(run)

    def _start(self, run: Run) -> bool:
        """Starts a run, unless the process of another queue is at it.

        Returns:
          Whether this queue need not come back to it.
        """
        log = pathlib.Path(run.log_file)
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "ab") as file:
            try:
                # Held by the process, whose output the file is, to its end.
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            if run.is_finished():  # By the other queue.
                return True
            if not os.path.isdir(run.model_dir):  # Nor has it cost anything.
                pathlib.Path(run.cost_file).unlink(missing_ok=True)
            file.write(f"$ python {' '.join(run.command)}\n".encode())
            file.flush()
            process = subprocess.Popen(
                [sys.executable, *run.command],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                # Ctrl-C reaches it through us alone: twice means at once.
                start_new_session=True,
            )
        self.running[run] = (process, time.monotonic())
        if self.stop_requests:  # Asked in between.
            _ask_to_stop(process)
        return True

    def _collect(self) -> None:
        """Looks which processes have ended, and how."""
        for run, (process, started_at) in list(self.running.items()):
            # Like process.poll(), but it knows what the process took.
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if not pid:
                continue
            process.returncode = os.waitstatus_to_exitcode(status)
            del self.running[run]
            run.add_cost(
                seconds=time.monotonic() - started_at,
                cpu_seconds=usage.ru_utime + usage.ru_stime,
            )
            if process.returncode == 0:
                self._note_time(run)
            elif not self.was_stopped:
                reason = _last_line(run.log_file, process.returncode)
                self.failures.append(Failure(run, reason))
                self._line.note(f"failed: {run.title}: {reason}")

    def _note_time(self, run: Run) -> None:
        if seconds := run.cost().get("seconds"):
            self._finished[run.kind].append((run.weight, seconds))

    def _progress(self) -> str:
        left = len(self.waiting) + len(self.running)
        parts = [f"runs {self.num_runs - left}/{self.num_runs}"]
        if self.failures:
            parts.append(f"{len(self.failures)} failed")
        for run in self.running:
            steps = run.num_train_steps
            share = f" {run.step()}/{steps}" if steps else ""
            parts.append(run.title + share)
        return " | ".join([*parts, f"ETA {self._eta()}"])

    def _eta(self) -> str:
        """From what runs of each kind took; '?' before each has been seen."""
        rates = {
            kind: sum(s for _, s in found) / sum(w for w, _ in found)
            for kind, found in self._finished.items()
        }
        now, seconds = time.monotonic(), 0.0
        for run, (_, started_at) in self.running.items():
            share = (
                run.step() / run.num_train_steps if run.num_train_steps else 0
            )
            # With what it took before it was interrupted.
            spent = now - started_at + run.cost().get("seconds", 0.0)
            if run.kind in rates:
                whole = rates[run.kind] * run.weight
            elif share > 0:
                whole = spent / share
                rates[run.kind] = whole / run.weight
            else:
                return "?"
            seconds += max(0.0, whole - spent)
        for run in self.waiting:
            if run.kind not in rates:
                return "?"
            seconds += rates[run.kind] * run.weight
        return progress.format_seconds(seconds / self.parallel)


def left_behind(run: Run, made_from_it: Iterable[str]) -> str:
    """Says what is there of a run that is still to be begun; '' if nothing is.

    It would be taken for finished, and is of another run, which is gone.

    Args:
      run: What is to be begun, or is there.
      made_from_it: Paths of what is made from it, there or not.
    """
    if os.path.isdir(run.model_dir):
        return ""
    for path in made_from_it:
        if os.path.exists(path):
            return (
                f"{path} was made from a run that is gone: move it away, too, "
                f"or bring {run.model_dir} back"
            )
    return ""


def _ask_to_stop(process: subprocess.Popen) -> None:
    """Sends SIGTERM to a process that `_collect` has not seen end.

    Its own send_signal would look whether it has, and take its status away.
    """
    os.kill(process.pid, signal.SIGTERM)


def _last_line(log_file: str, returncode: int) -> str:
    """What a failed run said last."""
    with open(log_file, encoding="utf-8", errors="replace") as file:
        lines = [line.strip() for line in file if line.strip()]
    last = lines[-1] if lines else ""
    if returncode < 0:
        try:
            name = signal.Signals(-returncode).name
        except ValueError:  # Of those that have none.
            name = f"signal {-returncode}"
        last = f"ended by {name}; {last}"
    return f"{last} ({log_file})"
