"""A command -> several processes of it, the workers of a cluster."""

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

# A worker that saves because it was told to may take this long before the
# others are stopped; one that hangs in a collective does not hear SIGTERM.
_GRACE_SECONDS = 30.0
_SECONDS_BETWEEN_LOOKS = 0.05
# Opened here: a process that was just forked may be unable to, for locks that
# another thread held.
_LIBC = ctypes.CDLL(None)
# Of Linux, in sys/prctl.h.
_PR_SET_PDEATHSIG = 1


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody listens on."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for s in sockets:
            s.bind(("localhost", 0))
        return [s.getsockname()[1] for s in sockets]


def tf_config(ports: list[int], index: int) -> str:
    """TF_CONFIG of one worker."""
    return json.dumps(
        {
            "cluster": {"worker": [f"localhost:{port}" for port in ports]},
            "task": {"type": "worker", "index": index},
        }
    )


def _end_with_parent() -> None:
    """Has Linux tell this process to save and leave when its parent dies.

    However that happens: nobody else would stop a worker whose launcher was
    killed.
    """
    with contextlib.suppress(AttributeError):  # On other systems.
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class Cluster:
    """The processes.

    Args:
      num_workers: How many.
      command: What each of them runs.
    """

    def __init__(self, num_workers: int, command: Sequence[str]):
        self.processes: list[subprocess.Popen] = []
        self._num_workers = num_workers
        self._command = command
        self._threads: list[threading.Thread] = []
        self._told: int | None = None
        self._unwritten: OSError | None = None

    def start(self) -> None:
        """Starts all, those after a signal, too: they are told at once.

        Raises:
          ValueError: If the command cannot be run.
        """
        ports = free_ports(self._num_workers)
        for index in range(self._num_workers):
            try:
                process = subprocess.Popen(
                    self._command,
                    env=os.environ | {"TF_CONFIG": tf_config(ports, index)},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    errors="replace",
                    # Ctrl-C on the terminal comes from here, once.
                    start_new_session=True,
                    preexec_fn=_end_with_parent,
                )
            except OSError as error:
                self.signal(signal.SIGKILL)
                raise ValueError(
                    f"Cannot run {self._command[0]!r}: {error.strerror}"
                ) from None
            self.processes.append(process)
            if self._told is not None:
                process.send_signal(self._told)
            for source, target in (
                (process.stdout, sys.stdout),
                (process.stderr, sys.stderr),
            ):
                thread = threading.Thread(
                    target=self._pass_on,
                    args=(index, source, target),
                    daemon=True,
                )
                thread.start()
                self._threads.append(thread)

    def signal(self, number: int) -> None:
        """Sends a signal to every process that is there, or is yet to start."""
        self._told = number
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(number)

    def wait(self) -> int:
        """Waits for all, and stops them after the first error.

        Returns:
          The first exit code that is not 0, as a shell gives it, or 0.

        Raises:
          OSError: If what they wrote could not be passed on, once they have
            saved and left.
        """
        code, deadline, stopped_with = 0, float("inf"), None
        while any(process.poll() is None for process in self.processes):
            if not code:
                code = self._first_error()
                if code:
                    deadline = time.monotonic() + _GRACE_SECONDS
            if self._unwritten and not stopped_with:
                deadline = 0.0
            if time.monotonic() > deadline:
                stopped_with = (
                    signal.SIGKILL if stopped_with else signal.SIGTERM
                )
                self.signal(stopped_with)
                deadline = time.monotonic() + _GRACE_SECONDS
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        # A command may leave processes behind that keep its output open.
        deadline = time.monotonic() + _GRACE_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if self._unwritten:
            raise self._unwritten
        return code or self._first_error()

    def _first_error(self) -> int:
        for process in self.processes:
            if process.poll():
                code = process.returncode
                return 128 - code if code < 0 else code
        return 0

    def _pass_on(self, index: int, source, target) -> None:
        for line in source:
            if self._unwritten:  # Read on: a full pipe would hold a worker up.
                continue
            try:
                target.write(f"[{index}] {line}")
                target.flush()
            except OSError as error:
                self._unwritten = error


def run(num_workers: int, command: Sequence[str]) -> int:
    """Runs a command in every worker, and passes on what it is told to stop.

    Args:
      num_workers: Processes.
      command: What each of them runs.

    Returns:
      The first exit code that is not 0, as a shell gives it, or 0.

    Raises:
      ValueError: If the command cannot be run.
      OSError: If what the workers wrote could not be passed on.
    """
    cluster = Cluster(num_workers, command)
    # Before there is a process that would be left alone.
    previous = {
        number: signal.signal(number, lambda n, _: cluster.signal(n))
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        cluster.start()
        return cluster.wait()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
