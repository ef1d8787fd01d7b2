"""Python commands as processes that need not import TensorFlow.

A test of whole runs starts a dozen processes, and more than a third of each
one's work is the import. So one process, the stove, imports it and runs nothing
of it; every command is forked from there, with its own arguments, folder and
environment.
"""

import atexit
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time

from tests import helpers

# What a run imports of others, and no more: a module of the package may be
# another one tomorrow.
PRELOADED = ("tensorflow", "tensorflow_text", "keras")
_SECONDS_BETWEEN_LOOKS = 0.01


class Process:
    """A command that was started, with what is needed of subprocess.Popen."""

    def __init__(self, stove: "Stove", pid: int, files, args):
        self.pid = pid
        self.args = args
        self.returncode: int | None = None
        self._stove = stove
        self._files = files

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._stove.exit_code(self.pid)
        return self.returncode

    def communicate(self, timeout: float = 300) -> tuple[str, str]:
        """Standard output and error, once the process has ended."""
        end = time.monotonic() + timeout
        while self.poll() is None:
            assert time.monotonic() < end, f"still running after {timeout} s"
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        texts = []
        for file in self._files:
            file.seek(0)
            texts.append(file.read())
        return texts[0], texts[1]

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Stove:
    """Starts commands from a process that has imported TensorFlow."""

    def __init__(self):
        self._process: subprocess.Popen | None = None
        self._exit_codes: dict[int, int] = {}

    def start(self, *args: str, cwd=helpers.ROOT, env=None) -> Process:
        """Starts a Python command: "-m" and a module, or a script."""
        files = [
            tempfile.NamedTemporaryFile("r+", encoding="utf-8")  # noqa: SIM115
            for _ in range(2)
        ]
        request = {"args": list(map(str, args)), "cwd": str(cwd)}
        request["env"] = env or helpers.environment()
        self._ask(request | {"outputs": [file.name for file in files]})
        pid = None
        while pid is None:
            pid = self._listen()
        return Process(self, pid, files, args)

    def exit_code(self, pid: int) -> int | None:
        """The exit code of a process, if it has ended."""
        assert self._process is not None and self._process.stdout is not None
        selector = selectors.DefaultSelector()
        selector.register(self._process.stdout, selectors.EVENT_READ)
        while pid not in self._exit_codes and selector.select(0):
            self._listen()
        return self._exit_codes.get(pid)

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def _ask(self, request: dict) -> None:
        if self._process is None:
            self._process = subprocess.Popen(
                helpers.command(__file__),
                env=helpers.environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                # Lines are read one by one, as the selector sees them come.
                bufsize=0,
            )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")

    def _listen(self) -> int | None:
        """Takes one line: of a process that has begun, or ended."""
        assert self._process is not None and self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the process that starts others has ended"
        what, *numbers = line.decode().split()
        pid, *code = map(int, numbers)
        if what == "began":
            return pid
        self._exit_codes[pid] = code[0]
        return None


_STOVE = Stove()
atexit.register(_STOVE.close)


def start(*args: str, **kwargs) -> Process:
    """Starts a Python command, as `helpers.start` does."""
    return _STOVE.start(*args, **kwargs)


def execute(*args: str, **kwargs) -> subprocess.CompletedProcess:
    """Runs a Python command to its end, as `helpers.execute` does."""
    process = start(*args, **kwargs)
    stdout, stderr = process.communicate()
    assert process.returncode is not None
    return subprocess.CompletedProcess(args, process.returncode, stdout, stderr)


# --- What runs in the process that has imported TensorFlow. ---


def _serve() -> None:
    """Forks a process for each line of standard input."""
    import importlib

    for name in PRELOADED:
        importlib.import_module(name)
    requests = os.fdopen(sys.stdin.fileno(), "rb", buffering=0)
    selector = selectors.DefaultSelector()
    selector.register(requests, selectors.EVENT_READ)
    children: set[int] = set()
    while True:
        if selector.select(_SECONDS_BETWEEN_LOOKS):
            line = requests.readline()
            if not line:
                return
            pid = os.fork()
            if not pid:
                os._exit(_run(json.loads(line)))
            children.add(pid)
            print("began", pid, flush=True)
        for pid in list(children):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                children.remove(pid)
                code = os.waitstatus_to_exitcode(status)
                print("ended", pid, code, flush=True)


def _run(request: dict) -> int:
    """Becomes the command that was asked for; returns its exit code."""
    import runpy
    import traceback

    for descriptor, path in enumerate(["/dev/null", *request["outputs"]]):
        flags = os.O_RDONLY if descriptor == 0 else os.O_WRONLY
        os.dup2(os.open(path, flags), descriptor)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    name, *rest = request["args"]
    code: object = 0
    try:
        if name == "-m":
            sys.argv = rest
            sys.path[0] = request["cwd"]
            runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        else:
            sys.argv = [name, *rest]
            sys.path[0] = os.path.dirname(name)
            runpy.run_path(name, run_name="__main__")
    except SystemExit as error:
        code = error.code
    except BaseException:
        traceback.print_exc()
        code = 1
    if isinstance(code, str):
        print(code, file=sys.stderr)
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return int(code or 0)  # type: ignore[call-overload]


if __name__ == "__main__":
    _serve()
