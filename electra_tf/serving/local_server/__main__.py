"""Answers TF Serving's REST and gRPC requests, for development.

    python -m electra_tf.serving.local_server --model_base_path=models/served

A thin shell over the SavedModel with the official protos, so that a client can
be written and tried where TF Serving's image cannot run; with --runtime=litert
over files for LiteRT, which answer one short text sooner. It has one model, one
version and no batching, and is not for production: it listens on this machine
only. Flags and ports are those of tensorflow_model_server.
"""

import concurrent.futures
import logging
import os
import signal
import socket
import sys
import threading
import typing

from waitress import wasyncore

from electra_tf.command_line import arguments

if typing.TYPE_CHECKING:
    from electra_tf.serving.local_server.servable import Servable

HOST = "127.0.0.1"

_port = arguments.number(
    arguments.digits,
    lambda n: n <= 65535,
    "a port from 0 (any free one) to 65535",
)


class LocalServer:
    """Both interfaces on this machine, until it is stopped.

    Args:
      servable: The model.
      rest_port: 0 for any free one.
      grpc_port: 0 for any free one.
      num_threads: Requests that are answered at once, over each of them.

    Attributes:
      rest_port: The port.
      grpc_port: The port.

    Raises:
      ValueError: If a port is taken.
    """

    def __init__(
        self,
        servable: "Servable",
        rest_port: int = 0,
        grpc_port: int = 0,
        num_threads: int = 32,
    ):
        # Imports TensorFlow: late, so that --help is quick.
        import grpc

        from electra_tf.serving.local_server import grpc_service, rest_service
        from electra_tf.serving.local_server.servable import MAX_REQUEST_SIZE

        try:
            listener = socket.create_server((HOST, rest_port))
        except OSError:
            raise _taken("REST", rest_port) from None
        self.rest_port = listener.getsockname()[1]
        self._grpc = grpc.server(
            concurrent.futures.ThreadPoolExecutor(num_threads),
            options=[
                ("grpc.max_receive_message_length", MAX_REQUEST_SIZE),
                ("grpc.max_send_message_length", -1),
                ("grpc.so_reuseport", 0),
            ],
        )
        grpc_service.add_to_server(servable, self._grpc)
        try:
            self.grpc_port = self._grpc.add_insecure_port(f"{HOST}:{grpc_port}")
        except RuntimeError:
            listener.close()
            raise _taken("gRPC", grpc_port) from None
        self._sockets: dict = {}
        self._rest = rest_service.create_server(
            servable, listener, num_threads, self._sockets
        )
        self._rest_thread = threading.Thread(target=self._rest.run, daemon=True)

    def start(self) -> None:
        """Begins to answer, in threads of its own."""
        self._rest_thread.start()
        self._grpc.start()

    def stop(self) -> None:
        """Ends both interfaces."""
        self._rest.task_dispatcher.shutdown()
        pulled = threading.Event()

        def close_all():
            # The trigger is one of them: not while it is being pulled, as
            # another pull may have woken this thread first.
            pulled.wait()
            wasyncore.close_all(self._sockets)

        # Closed by the thread that waits for them, which ends without any.
        self._rest.trigger.pull_trigger(close_all)
        pulled.set()
        self._rest_thread.join()
        self._grpc.stop(grace=None).wait()

    def __enter__(self) -> "LocalServer":
        self.start()
        return self

    def __exit__(self, *_) -> None:
        self.stop()


def _taken(interface: str, port: int) -> ValueError:
    return ValueError(
        f"Expected a free port for {interface}. Received: {port}, which is "
        "taken"
    )


def main(argv=None) -> int:
    """Parses the flags and serves until Ctrl-C; returns the exit code."""
    parser = arguments.ArgumentParser(prog="local_server", description=__doc__)
    parser.add_argument(
        "--model-base-path", required=True, help="directory of the versions"
    )
    parser.add_argument(
        "--model-name", help="default: as --model_base_path is called"
    )
    parser.add_argument(
        "--runtime",
        choices=("tensorflow", "litert"),
        default="tensorflow",
        help="litert: --model_base_path is an export of --format=litert; "
        "classifiers and regressors (default: %(default)s)",
    )
    parser.add_argument(
        "--litert-weights",
        choices=("float32", "int8"),
        help="which of its files (default: float32)",
    )
    parser.add_argument(
        "--tensorflow-intra-op-parallelism",
        type=arguments.positive_int,
        default=1,
        metavar="THREADS",
        help="of one operation; more help requests of many long texts alone "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--port", type=_port, default=8500, help="gRPC (default: %(default)s)"
    )
    parser.add_argument(
        "--rest-api-port",
        type=_port,
        default=8501,
        help="REST (default: %(default)s)",
    )
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # Read when grpc is imported. What it says of a port that is taken is C++'s.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    return arguments.run(_serve, parser, argv)


def _make_servable(args) -> "Servable":
    if args.runtime == "litert":
        from electra_tf.serving.local_server.litert import LiteRtServable

        return LiteRtServable(
            args.model_base_path,
            args.model_name,
            args.litert_weights or "float32",
        )
    if args.litert_weights:
        raise ValueError(
            "Expected --litert-weights with --runtime=litert only. Received: "
            f"{args.litert_weights} with --runtime={args.runtime}"
        )
    from electra_tf.serving.local_server.servable import Servable

    return Servable(args.model_base_path, args.model_name)


def _serve(args) -> None:
    # TensorFlow reads it when its first operation runs.
    threads = str(args.tensorflow_intra_op_parallelism)
    os.environ["TF_NUM_INTRAOP_THREADS"] = threads
    servable = _make_servable(args)
    # How many requests wait is no news, nor how many end with the server.
    logging.getLogger("waitress").setLevel(logging.ERROR)
    for note in servable.notes:
        arguments.say("local_server", note)
    number = servable.warm_up()
    # As Ctrl-C does it: what runs is answered.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with LocalServer(servable, args.rest_api_port, args.port) as server:
        print(
            f"serving {servable.name}, version {servable.version}, after "
            f"{number} warm-up requests: REST "
            f"http://{HOST}:{server.rest_port}/v1/models/{servable.name}, gRPC "
            f"{HOST}:{server.grpc_port}; for development only",
            flush=True,
        )
        threading.Event().wait()


if __name__ == "__main__":
    sys.exit(main())
