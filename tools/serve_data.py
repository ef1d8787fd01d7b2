"""Prepares training batches for runs on other hosts: a tf.data service.

  python3 tools/serve_data.py --port=5050

A run on a host whose CPUs do not keep up takes its batches from here with
--gin_param="PretrainingDataConfig.data_service_address='grpc://HOST:5050'", or
from several hosts in turn, their addresses separated by commas. It sends what
to read and how, so nothing need be configured here; but the TFRecords must be
found under the same paths, and TensorFlow must be of the same version.

Whoever reaches the port can have this process read files: keep it inside a
network that you trust.
"""

import argparse
import os
import signal
import sys

from electra_tf.command_line import arguments


def _is_port(number: int) -> bool:
    """Whether it is one: a larger one would be taken for another."""
    return 1 <= number <= 65535


def serve_data(args: argparse.Namespace) -> None:
    """Serves until it is interrupted.

    Args:
      args: As `main` parses them.

    Raises:
      ValueError: If a port is taken.
    """
    worker_port = 0
    if args.worker_address:
        number = args.worker_address.rpartition(":")[2]
        is_one = number.isdecimal() and _is_port(int(number))
        if ":" not in args.worker_address or not is_one:
            raise ValueError(
                "Expected --worker-address of the form host:port. Received: "
                f"{args.worker_address!r}."
            )
        worker_port = int(number)

    import tensorflow as tf

    service = tf.data.experimental.service
    try:
        dispatcher = service.DispatchServer(
            service.DispatcherConfig(port=args.port)
        )
        # Its name must stay: the server ends with the object.
        worker = service.WorkerServer(
            service.WorkerConfig(
                dispatcher_address=f"localhost:{args.port}",
                worker_address=args.worker_address,
                port=worker_port,
            )
        )
    except (tf.errors.OpError, RuntimeError) as error:
        raise ValueError(f"Cannot serve at port {args.port}: {error}") from None
    # In `join` nobody would hear of Ctrl-C. Before the line that tells others
    # of this process, so that whoever has read it ends it in one way.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    print(f"serving at grpc://{os.uname().nodename}:{args.port}", flush=True)
    dispatcher.join()
    del worker


def main(argv=None) -> int:
    """Parses the flags and serves; returns the exit code."""
    parser = arguments.ArgumentParser(prog="serve_data", description=__doc__)
    add = parser.add_argument
    add(
        "--port",
        type=arguments.number(int, _is_port, "a port from 1 to 65535"),
        default=5050,
        help="Where runs reach this service (default 5050).",
    )
    add(
        "--worker-address",
        help="Name of this host and port by which runs reach its worker, such "
        "as host:5051 (default: localhost and a free port, which is right if "
        "the runs are on this host).",
    )
    return arguments.run(serve_data, parser, argv)


if __name__ == "__main__":
    # Reading needs no GPU, and TensorFlow would take all of its memory.
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    sys.exit(main())
