"""A command -> several processes of it, the workers of a cluster."""

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Sequence

from electra_tf.training import signals

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


def run(num_workers: int, command: Sequence[str]) -> int:
    """Runs a command in every worker, and passes on what it is told to stop.

    Args:
      num_workers: Processes.
      command: What each of them runs.

    Returns:
      The first exit code that is not 0, as a shell gives it, or 0.

    Raises:
      ValueError: If the command cannot be run.
    """
    processes: list[subprocess.Popen] = []
    writers: list[subprocess.Popen] = []
    told: list[int] = []

    def tell(number: int, *_) -> None:
        told.append(number)
        for process in processes:
            if process.poll() is None:
                process.send_signal(number)

    # Before there is a process that would be left alone.
    with signals.handled(tell, signal.SIGTERM, signal.SIGINT):
        try:
            ports = free_ports(num_workers)
            for index in range(num_workers):
                process = _start(command, tf_config(ports, index))
                processes.append(process)
                if told:
                    process.send_signal(told[-1])
                writers.append(_writer(index, process.stdout, 1))
                writers.append(_writer(index, process.stderr, 2))
            code = _wait(processes, tell)
            # A command may leave processes behind that keep its output open.
            deadline = time.monotonic() + _GRACE_SECONDS
            for writer in writers:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    writer.wait(max(0.0, deadline - time.monotonic()))
                writer.kill()
        except ValueError:
            tell(signal.SIGKILL)
            raise
    return code


def _writer(index: int, source, target: int) -> subprocess.Popen:
    """Puts the number of a worker before the lines that it writes."""
    with source:  # Who writes is told when nobody reads.
        return subprocess.Popen(
            ["sed", "-u", f"s/^/[{index}] /"],
            stdin=source,
            stdout=target,
            start_new_session=True,
        )


def _start(command: Sequence[str], tf_config: str) -> subprocess.Popen:
    try:
        return subprocess.Popen(
            command,
            env=os.environ | {"TF_CONFIG": tf_config},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Ctrl-C on the terminal comes from here, once.
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
    except OSError as error:
        raise ValueError(
            f"Cannot run {command[0]!r}: {error.strerror}"
        ) from None


def _wait(processes, tell) -> int:
    """Waits for all, and stops them after the first error; the exit code."""
    code, deadline = 0, float("inf")
    numbers = [signal.SIGTERM, signal.SIGKILL]
    while True:
        is_over = all(process.poll() is not None for process in processes)
        failed = [process.returncode for process in processes if process.poll()]
        if failed and deadline == float("inf"):
            code, deadline = failed[0], time.monotonic() + _GRACE_SECONDS
        if is_over:
            return 128 - code if code < 0 else code
        if time.monotonic() > deadline:
            tell(numbers.pop(0) if len(numbers) > 1 else numbers[0])
            deadline = time.monotonic() + _GRACE_SECONDS
        time.sleep(_SECONDS_BETWEEN_LOOKS)
