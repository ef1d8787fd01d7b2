"""Sections of serving.py that ask `electra_tf.serving.local_server`."""

import contextlib
import http.client
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import typing
from collections.abc import Callable, Iterator, Sequence

import benchmarking
import numpy as np

if typing.TYPE_CHECKING:
    import serving

CONCURRENCIES = (1, 8, 32)
_ROOT = pathlib.Path(__file__).parents[2]
_SERVING = re.compile(
    r"serving (?P<name>\S+), .*http://127\.0\.0\.1:(?P<port>\d+)/"
)
# Seconds that a server may take to load and to warm up.
_START_SECONDS = 300.0


class Server(typing.NamedTuple):
    """`electra_tf.serving.local_server` in a process of its own.

    Attributes:
      name: Of the model.
      port: The port.
      pid: Of the process.
    """

    name: str
    port: int
    pid: int

    def cpu_seconds(self) -> float:
        """Of all threads that the process has, so far."""
        threads = pathlib.Path(f"/proc/{self.pid}/task").glob("*/schedstat")
        nanoseconds = (int(path.read_text().split()[0]) for path in threads)
        return sum(nanoseconds) / 1e9


@contextlib.contextmanager
def run_server(folder: str, *flags: str) -> Iterator[Server]:
    """Starts a server of a folder of versions, and ends it.

    Args:
      folder: Of an export.
      *flags: Further ones of the server.

    Raises:
      ValueError: If it does not start.
    """
    command = [sys.executable, "-m", "electra_tf.serving.local_server"]
    command += [f"--model_base_path={folder}", "--rest_api_port=0", *flags]
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=os.environ | {"PYTHONPATH": str(_ROOT)},
        ) as process,
    ):
        assert process.stdout is not None
        # A server that hangs ends like one that fails.
        timer = threading.Timer(_START_SECONDS, process.kill)
        timer.start()
        found = next(filter(None, map(_SERVING.search, process.stdout)), None)
        timer.cancel()
        if not found:
            log.seek(0)
            message = log.read()[-300:]
            raise ValueError(f"The local server did not start: {message}")
        try:
            yield Server(found["name"], int(found["port"]), process.pid)
        finally:
            process.terminate()


# Answers one text.
Client = Callable[[Sequence[str]], object]


def rest_client(server: Server, names: Sequence[str]) -> Client:
    """A client with a connection of its own, kept open."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.connect()

    def call(texts: Sequence[str]) -> object:
        row = dict(zip(names, texts, strict=True))
        connection.request(
            "POST",
            f"/v1/models/{server.name}:predict",
            json.dumps({"instances": [row]}),
            {"Content-Type": "application/json"},
        )
        response = connection.getresponse()
        content = response.read()
        if response.status != 200:
            raise ValueError(
                f"Expected an answer over REST. Received: {response.status}, "
                f"{content[:200].decode()}"
            )
        return content

    return call


def closed_loop(
    clients: Sequence[Client], rows: Sequence[Sequence[str]], num_requests: int
) -> tuple[list[float], float]:
    """Lets every client ask, wait for the answer, and ask again.

    Args:
      clients: One for each thread.
      rows: Texts, by turns.
      num_requests: Of all clients together.

    Returns:
      Seconds of each request, and of all of them together.

    Raises:
      Exception: The first one that a client raised.
    """
    numbers = iter(range(num_requests))
    lock = threading.Lock()
    latencies: list[float] = []
    errors: list[Exception] = []

    def ask(client: Client) -> None:
        while not errors:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            start = time.perf_counter()
            try:
                client(rows[number % len(rows)])
            # Whatever it is, the main thread raises it.
            except Exception as error:
                errors.append(error)
                return
            latencies.append(time.perf_counter() - start)

    threads = [threading.Thread(target=ask, args=(c,)) for c in clients]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - start
    if errors:
        raise errors[0]
    return latencies, seconds


def measure_loopback(
    args, exported: "serving.Exported"
) -> benchmarking.Figures:
    """The loopback section: REST at each concurrency."""
    result: benchmarking.Figures = {}
    machine = benchmarking.Machine()
    with run_server(exported.folder) as server:
        for concurrency in CONCURRENCIES:
            clients = [
                rest_client(server, exported.input_names)
                for _ in range(concurrency)
            ]
            closed_loop(clients, exported.rows, 2 * concurrency)
            latencies, seconds = closed_loop(
                clients, exported.rows, args.num_requests
            )
            key = f"rest_{concurrency}"
            p50, p99 = np.percentile(latencies, (50, 99)).tolist()
            result[f"{key}_p50_ms"] = 1e3 * p50
            result[f"{key}_p99_ms"] = 1e3 * p99
            result[f"{key}_per_second"] = args.num_requests / seconds
    # The server's seconds count as this program's once it has ended.
    return result | {"noise": machine.shares()}


class _Asked:
    """A server that is timed; looks like a `benchmarking.Contestant`."""

    is_process = True

    def __init__(self, server: Server, exported: "serving.Exported"):
        self._server = server
        self._clients = [rest_client(server, exported.input_names)]
        self._rows = exported.rows
        self.cpu_seconds: list[float] = []
        self.losses: list[float] = []

    def __call__(self, num_requests: int) -> float:
        before = self._server.cpu_seconds()
        _, seconds = closed_loop(self._clients, self._rows, num_requests)
        used = self._server.cpu_seconds() - before
        self.cpu_seconds.append(used / num_requests)
        return seconds


def measure_runtimes(
    args, exported: "serving.Exported"
) -> benchmarking.Figures:
    """The runtimes section: servers of the same weights, by turns."""
    with contextlib.ExitStack() as stack:
        threads = f"--tensorflow-intra-op-parallelism={os.cpu_count()}"
        commands = {
            "saved_model_float32": (exported.folder,),
            "saved_model_float32_threads": (exported.folder, threads),
        }
        contestants = {
            name: _Asked(stack.enter_context(run_server(*command)), exported)
            for name, command in commands.items()
        }
        for call in contestants.values():
            call(args.num_warm_up_requests)
        return benchmarking.compare(
            contestants, 1, args.num_timed_requests, args.num_rounds
        )
