"""Processes that train when they are told to, each with its own threads."""

import contextlib
import importlib
import multiprocessing
import os
import time
import typing

from electra_tf.training import local_cluster

_REPLICAS = "training_workers.replicas"


class Worker:
    """A process that trains when it is told to, like a `Contestant`.

    Args:
      make: Name of a function, as "module.function", called there.
      *args: What it takes; it returns a `benchmarking.Contestant`.
      environment: What its environment has beside ours.

    Attributes:
      cpu_seconds: Of a step, all its threads; one figure for each answer.
      losses: Of the last step of each answer, where there is one.
      num_traces: How often Python has run the step's code.
    """

    is_process = True

    def __init__(self, make: str, *args, environment=None):
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=_answer_requests,
            args=(theirs, make, args, environment or {}),
            # Whatever ends the benchmark, it waits for none that is left.
            daemon=True,
        )
        self._process.start()
        theirs.close()
        self.cpu_seconds: list[float] = []
        self.losses: list[float] = []
        self.num_traces = 0

    def ask(self, num_steps: int) -> None:
        with contextlib.suppress(BrokenPipeError):  # `seconds` tells why.
            self._connection.send(num_steps)

    def seconds(self) -> float:
        """The answer to a number of steps."""
        try:
            answer = self._connection.recv()
        except (EOFError, ConnectionResetError):
            raise ValueError(
                "A worker process ended: see its message above; without "
                "one it may have been killed for want of memory"
            ) from None
        if isinstance(answer, ValueError):
            raise answer
        seconds, cpu_seconds, losses, self.num_traces = answer
        self.cpu_seconds.append(cpu_seconds)
        self.losses += losses
        return seconds

    def __call__(self, num_steps: int) -> float:
        self.ask(num_steps)
        return self.seconds()

    def close(self) -> None:
        self.ask(0)
        self._process.join()


class Cluster:
    """Two worker processes that train together."""

    def __init__(self, args, pattern: str):
        ports = local_cluster.free_ports(2)
        self._workers = [
            Worker(
                _REPLICAS,
                args,
                "processes",
                pattern,
                environment={
                    "TF_CONFIG": local_cluster.tf_config(ports, index)
                },
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


def all_ready(workers: typing.Iterable, num_steps: int) -> None:
    """All of some workers do their first steps, side by side."""
    workers = list(workers)
    for worker in workers:
        worker.ask(num_steps)
    for worker in workers:
        worker.seconds()


def _answer_requests(connection, make, args, environment) -> None:
    """The life of a `Worker`: see `_work`, whose errors are answers, too."""
    os.environ.update(environment)
    try:
        module, function = make.split(".")
        _work(
            connection,
            getattr(importlib.import_module(module), function)(*args),
        )
    except ValueError as error:
        connection.send(error)


def _work(connection, contestant) -> None:
    """Answers numbers of steps; till 0.

    With seconds, all and of the CPU a step, the loss, if there is one, and how
    often the step was traced.
    """
    while num_steps := connection.recv():
        start, num_losses = time.process_time(), len(contestant.losses)
        seconds = contestant(num_steps)
        cpu_seconds = time.process_time() - start
        connection.send(
            (
                seconds,
                cpu_seconds / num_steps,
                contestant.losses[num_losses:],
                getattr(contestant, "num_traces", 0),
            )
        )


def reference(args, pattern):
    """The reference graph."""
    import contestants

    config = contestants.make_config(args.tiny, args.max_seq_length)
    # Supplies the initial weights and the records.
    product = contestants.Product(config, pattern, args.batch_size)
    return contestants.Reference(product, config, args.batch_size)


def product(args, dtype_policy: str, pattern):
    """The product on one device, in a dtype."""
    import contestants
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    return contestants.Product(
        contestants.make_config(args.tiny, args.max_seq_length),
        pattern,
        args.batch_size,
        args.micro_batch_size,
        is_parallel=True,
        dtype_policy=dtype_policy,
    )


def replicas(args, role: str, pattern):
    """Two replicas, or what they are measured against.

    Roles: "one_device"; "mirrored", two logical devices of this process;
    "processes", one of two processes.
    """
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
