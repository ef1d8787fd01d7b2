"""Processes that train when they are told to, each with its own threads.

Run as a program, this is such a process: it answers lines of stdin.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import typing
from collections.abc import Sequence

from electra_tf.command_line import arguments
from electra_tf.training import local_cluster

# What a worker is asked beside numbers of steps.
_MATMUL_RATES = "matmul rates"


class Worker:
    """A process of this file, which trains when it is told to.

    Args:
      args: Flags of the benchmark.
      role: See `work`.
      pattern: Of the TFRecords.
      environment: What its environment has beside ours.

    Attributes:
      cpu_seconds: Of a step, all its threads; one figure for each answer.
    """

    def __init__(self, args, role: str, pattern: str, environment=None):
        flags = [f"--role={role}", f"--pattern={pattern}"]
        flags += [
            f"--{name}={getattr(args, name.replace('-', '_'))}"
            for name in ("batch-size", "max-seq-length")
        ]
        if args.micro_batch_size:
            flags.append(f"--micro-batch-size={args.micro_batch_size}")
        self._process = subprocess.Popen(
            [sys.executable, __file__, *flags, *(["--tiny"] * args.tiny)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | (environment or {}),
        )
        self.cpu_seconds: list[float] = []

    def ask(self, request: int | str) -> None:
        """Asks for a number of steps, or for what the role has besides."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{request}\n")
        self._process.stdin.flush()

    def _answer(self) -> dict[str, float]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ValueError("A worker process ended: see its message above")
        return json.loads(line)

    def seconds(self) -> float:
        """The answer to a number of steps."""
        answer = self._answer()
        self.cpu_seconds.append(answer["cpu_seconds_per_step"])
        return answer["seconds"]

    def __call__(self, num_steps: int) -> float:
        self.ask(num_steps)
        return self.seconds()

    def measure_matmul_rates(self) -> dict[str, float]:
        """Shape -> FLOP/s; of the role "reference"."""
        self.ask(_MATMUL_RATES)
        return self._answer()

    def close(self) -> None:
        self._process.communicate("")


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


def work(args: argparse.Namespace) -> None:
    """The life of a `Worker`: answers numbers of steps with seconds.

    Roles: "one_device"; "mirrored", two logical devices of this process;
    "processes", one of two processes; "reference", which also answers
    `_MATMUL_RATES`.
    """
    measure_rates: typing.Callable[[], dict[str, float]] | None = None
    if args.role == "reference":
        contestant, measure_rates = _reference_and_rates(args)
    else:
        contestant = _replicas(args)
    for line in sys.stdin:
        request = line.strip()
        if request == "0":
            break
        if request == _MATMUL_RATES:
            assert measure_rates is not None
            answer = measure_rates()
        else:
            num_steps = int(request)
            start = time.process_time()
            answer = {"seconds": contestant(num_steps)}
            cpu_seconds = time.process_time() - start
            answer["cpu_seconds_per_step"] = cpu_seconds / num_steps
        print(json.dumps(answer), flush=True)


def _reference_and_rates(args):
    """The reference, and what measures the rate of matrix products."""
    import contestants
    import tensorflow as tf

    from electra_tf.training import matmul_rate

    # A function for each shape of products is meant to be traced anew.
    tf.get_logger().setLevel("ERROR")
    config = contestants.make_config(args.tiny, args.max_seq_length)
    # Supplies the initial weights and the records.
    product = contestants.Product(config, args.pattern, args.batch_size)
    rates = {
        shape_name(shape): matmul_rate.MatmulRate(shape)
        for shape in (
            *matmul_rate.CPU_SQUARES,
            *_model_shapes(config, args.batch_size),
        )
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


def _replicas(args):
    import contestants
    import tensorflow as tf

    strategy = None
    tf.config.threading.set_intra_op_parallelism_threads(1)
    if args.role == "mirrored":
        (cpu,) = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * 2
        )
        strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    elif args.role == "processes":
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
    return contestants.Product(
        contestants.make_config(args.tiny, args.max_seq_length),
        args.pattern,
        args.batch_size,
        args.micro_batch_size,
        strategy,
        is_parallel=strategy is None,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Works until stdin ends; returns the exit code."""
    parser = arguments.ArgumentParser(
        prog="training_workers", description=__doc__
    )
    parser.add_argument("--role", required=True)
    parser.add_argument("--pattern", required=True)
    parser.add_argument("--batch-size", type=int, required=True)
    parser.add_argument("--max-seq-length", type=int, required=True)
    parser.add_argument("--micro-batch-size", type=int, default=0)
    parser.add_argument("--tiny", action="store_true")
    return arguments.run(work, parser, argv)


if __name__ == "__main__":
    sys.exit(main())
