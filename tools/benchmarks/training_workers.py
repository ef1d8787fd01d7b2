"""Processes that train when they are told to, each with its own threads."""

import contextlib
import multiprocessing
import os
import time
import typing

from electra_tf.training import local_cluster

# What a worker is asked beside numbers of steps.
_MATMUL_RATES = "matmul rates"


class Worker:
    """A process that trains when it is told to.

    Args:
      args: Flags of the benchmark.
      role: See `_work`.
      pattern: Of the TFRecords.
      environment: What its environment has beside ours.

    Attributes:
      cpu_seconds: Of a step, all its threads; one figure for each answer.
    """

    def __init__(self, args, role: str, pattern: str, environment=None):
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=_answer_requests,
            args=(theirs, args, role, pattern, environment or {}),
            # Whatever ends the benchmark, it waits for none that is left.
            daemon=True,
        )
        self._process.start()
        theirs.close()
        self.cpu_seconds: list[float] = []

    def ask(self, request: int | str) -> None:
        """Asks for a number of steps, or for what the role has besides."""
        with contextlib.suppress(BrokenPipeError):  # `_answer` tells why.
            self._connection.send(request)

    def _answer(self) -> typing.Any:
        try:
            answer = self._connection.recv()
        except (EOFError, ConnectionResetError):
            raise ValueError(
                "A worker process ended: see its message above"
            ) from None
        if isinstance(answer, ValueError):
            raise answer
        return answer

    def seconds(self) -> float:
        """The answer to a number of steps."""
        seconds, cpu_seconds = self._answer()
        self.cpu_seconds.append(cpu_seconds)
        return seconds

    def __call__(self, num_steps: int) -> float:
        self.ask(num_steps)
        return self.seconds()

    def measure_matmul_rates(self) -> dict[str, float]:
        """Shape -> FLOP/s; of the role "reference"."""
        self.ask(_MATMUL_RATES)
        return self._answer()

    def close(self) -> None:
        self.ask(0)
        self._process.join()


class Cluster:
    """Two worker processes that train together."""

    def __init__(self, args, pattern: str):
        ports = local_cluster.free_ports(2)
        self._workers = [
            Worker(
                args,
                "processes",
                pattern,
                {"TF_CONFIG": local_cluster.tf_config(ports, index)},
            )
            for index in range(2)
        ]

    def __call__(self, num_steps: int) -> float:
        for worker in self._workers:
            worker.ask(num_steps)
        return max(worker.seconds() for worker in self._workers)

    def close(self) -> None:
        for worker in self._workers:
            worker.ask(0)
        for worker in self._workers:
            worker.close()


def _answer_requests(connection, args, role, pattern, environment) -> None:
    """The life of a `Worker`: see `_work`, whose errors are answers, too."""
    os.environ.update(environment)
    try:
        _work(connection, args, role, pattern)
    except ValueError as error:
        connection.send(error)


def _work(connection, args, role: str, pattern: str) -> None:
    """Answers numbers of steps with seconds, all and of the CPU a step; till 0.

    Roles: "one_device"; "mirrored", two logical devices of this process;
    "processes", one of two processes; "reference", which also answers
    `_MATMUL_RATES`.
    """
    measure_rates: typing.Callable[[], dict[str, float]] | None = None
    if role == "reference":
        contestant, measure_rates = _reference_and_rates(args, pattern)
    else:
        contestant = _replicas(args, role, pattern)
    while request := connection.recv():
        if request == _MATMUL_RATES:
            assert measure_rates is not None
            connection.send(measure_rates())
            continue
        start = time.process_time()
        seconds = contestant(request)
        cpu_seconds = time.process_time() - start
        connection.send((seconds, cpu_seconds / request))


def _reference_and_rates(args, pattern):
    """The reference, and what measures the rate of matrix products."""
    import contestants
    import tensorflow as tf

    from electra_tf.training import matmul_rate

    # A function for each shape of products is meant to be traced anew.
    tf.get_logger().setLevel("ERROR")
    config = contestants.make_config(args.tiny, args.max_seq_length)
    # Supplies the initial weights and the records.
    product = contestants.Product(config, pattern, args.batch_size)
    rates = {
        shape_name(shape): matmul_rate.MatmulRate(shape)
        for shape in _model_shapes(config, args.batch_size)
    }
    return (
        contestants.Reference(product, config, args.batch_size),
        lambda: {name: rate.measure() for name, rate in rates.items()},
    )


def shape_name(shape: tuple[int, int, int]) -> str:
    """(2, 3, 4) -> "2x3x4"."""
    return "x".join(map(str, shape))


def _model_shapes(config, batch_size: int) -> list[tuple[int, int, int]]:
    """The products that a step of this model has most of."""
    tokens = batch_size * config.max_seq_length
    hidden = config.encoder.hidden_size
    wide = config.encoder.intermediate_size
    scored = batch_size * config.max_predictions_per_seq
    return [
        (tokens, hidden, hidden),
        (tokens, hidden, wide),
        (tokens, wide, hidden),
        (hidden, tokens, wide),
        (scored, config.encoder.embedding_size, config.encoder.vocab_size),
    ]


def _replicas(args, role, pattern):
    import contestants
    import tensorflow as tf

    strategy = None
    tf.config.threading.set_intra_op_parallelism_threads(1)
    if role == "mirrored":
        (cpu,) = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * 2
        )
        strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    elif role == "processes":
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
    return contestants.Product(
        contestants.make_config(args.tiny, args.max_seq_length),
        pattern,
        args.batch_size,
        args.micro_batch_size,
        strategy,
        is_parallel=strategy is None,
    )
