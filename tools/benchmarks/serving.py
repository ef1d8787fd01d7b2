"""Measures how fast an exported model answers.

    python tools/benchmarks/serving.py --output=benchmark_serving.json

Sections:

* padding: requests/s for short texts, padded to the longest of the request as
  exported models do, against the same model padded to --padded-length; with one
  text in a request, and with eight.
* loopback: latency (p50, p99) and requests/s of
  `python -m electra_tf.serving.local_server`, over gRPC and REST, with 1, 8 and
  32 clients that each wait for their answer before they ask again: never more
  requests under way than clients, and --num-requests in all.
* warm_up: the first request of a server that has run its warm-up requests,
  against the median of those behind it; several servers one after another.
* on_device: size, error, equal labels and latency of the float32 and the int8
  file for LiteRT, one thread; error against the SavedModel.
* latency: one text in a request, as token ids, one thread each, by turns: the
  SavedModel in float32 and in bfloat16, LiteRT in float32 and int8, and ONNX
  Runtime over the same weights, exported by way of transformers and PyTorch in
  the environment of --interop-python. --contestants chooses. Greatest error of
  a score against the SavedModel in float32.

The model is that of --model-dir, by default one of ELECTRA-Small's size with
random weights; the texts those of --texts, one a line (pairs: with a tab), by
default made up, of --num-words words. Clients share the cores with the server.
"""

import argparse
import contextlib
import http.client
import itertools
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import typing
from collections.abc import Callable, Iterator, Sequence

import benchmarking
import latency
import numpy as np

from electra_tf.command_line import arguments

# Section and figure -> whether it must be at least or at most, and what.
TARGETS = {
    ("padding", "times_padded_1"): (">=", 3.0),
    ("padding", "times_padded_8"): (">=", 3.0),
    ("warm_up", "first_times_median"): ("<=", 2.0),
    ("on_device", "float32_error"): ("<=", 1e-5),
    ("on_device", "int8_size_share"): ("<=", 0.3),
    ("on_device", "int8_times_float32"): (">=", 1.0),
    # At most 1.3 times its latency.
    ("latency", "ours_float32_times_litert_float32"): (">=", 1 / 1.3),
    ("latency", "litert_float32_error"): ("<=", 1e-5),
}
CONCURRENCIES = (1, 8, 32)
# Texts of a request in the padding section: one, and what a server that
# batches puts together.
NUM_TEXTS = (1, 8)
_ROOT = pathlib.Path(__file__).parents[2]
_SERVING = re.compile(
    r"serving (?P<name>\S+), .*REST http://127\.0\.0\.1:(?P<rest>\d+)/"
    r".*gRPC 127\.0\.0\.1:(?P<grpc>\d+)"
)
# Seconds that a server may take to load and to warm up.
_START_SECONDS = 300.0
_NUM_TEXTS = 64
_SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


class Exported(typing.NamedTuple):
    """What is measured.

    Attributes:
      folder: Of the versions.
      checkpoint: Path of the checkpoint.
      rows: Texts, one or two in each.
    """

    folder: str
    checkpoint: str
    rows: list[list[str]]

    @property
    def input_names(self) -> tuple[str, ...]:
        """What a classifier or regressor calls its inputs."""
        return ("text", "text_pair")[: len(self.rows[0])]


# The model and the texts.


def prepare(args, folder: str) -> Exported:
    """Exports the model, which is made unless it is given."""
    from electra_tf.serving import saved_model

    checkpoint = args.model_dir or write_model(
        os.path.join(folder, "checkpoint"), args.tiny
    )
    output = os.path.join(folder, "model")
    saved_model.export(checkpoint, output)
    return Exported(output, checkpoint, read_rows(args))


def write_model(folder: str, is_tiny: bool) -> str:
    """A classifier with random weights, as a checkpoint; returns its path."""
    import keras

    from electra_tf import configs
    from electra_tf.checkpoints.checkpoint import Checkpoint
    from electra_tf.checkpoints.formats import electra_tf_format
    from electra_tf.model import heads
    from electra_tf.model.finetuning_model import FinetuningModel
    from electra_tf.text.vocabulary import Vocabulary

    tiny = configs.EncoderConfig(300, 32, 1, 2, 64, 32, 128)
    config = tiny if is_tiny else benchmarking.SMALL
    keras.utils.set_random_seed(0)
    head = heads.TaskHead("classification", "random", ("no", "yes"), 2)
    model = FinetuningModel(config, [heads.make_head(head, config)])
    # Of a trained model none is 0; TensorFlow would leave their sums out.
    for variable in model.variables:
        if variable.path.endswith("/bias"):
            values = keras.random.normal(variable.shape, stddev=0.02, seed=0)
            variable.assign(values)
    num_words = config.vocab_size - len(_SPECIAL_TOKENS)
    electra_tf_format.write(
        Checkpoint(
            tensors={v.path: v.numpy() for v in model.variables},
            discriminator=config,
            head=head,
            vocabulary=Vocabulary(
                (*_SPECIAL_TOKENS, *(f"w{i}" for i in range(num_words))),
                do_lower_case=True,
                strip_accents=True,
            ),
            max_seq_length=128,
        ),
        folder,
    )
    return folder


def read_rows(args) -> list[list[str]]:
    """The texts of --texts, or made-up ones of so many words."""
    if args.texts:
        try:
            with open(args.texts, encoding="utf-8") as reader:
                lines = reader.read().splitlines()
        except UnicodeDecodeError as error:
            raise ValueError(
                f"Expected texts in UTF-8. Received: {args.texts}, with a byte "
                f"at {error.start} that is none"
            ) from None
        rows = [line.split("\t") for line in lines if line.strip()]
        if not rows:
            raise ValueError(
                f"Expected at least one text in {args.texts}, found none"
            )
        return rows
    return [
        [
            " ".join(
                f"w{(7 * row + 3 * word) % 200}"
                for word in range(args.num_words)
            )
        ]
        for row in range(_NUM_TEXTS)
    ]


# Padding.


def measure_padding(args, exported: Exported) -> benchmarking.Figures:
    """The padding section: two SavedModels of the same weights."""
    from electra_tf.inference import predictor

    with tempfile.TemporaryDirectory() as folder:
        save_padded(args, exported, folder)
        models = [
            predictor.ExportedModel(path) for path in (exported.folder, folder)
        ]
        result: benchmarking.Figures = {"padded_length": args.padded_length}
        machine = benchmarking.Machine()
        ratios: list[list[float]] = []
        for num_texts in NUM_TEXTS:
            contestants = [
                requests(model, exported, num_texts) for model in models
            ]
            for call in contestants:
                call(args.num_warm_up_requests)
            ours, padded = benchmarking.interleave(
                contestants, args.num_timed_requests, args.num_rounds
            )
            ratios.append(benchmarking.ratios(padded, ours))
            ours_cpu, padded_cpu = (
                statistics.median(call.cpu_seconds) for call in contestants
            )
            name = f"times_padded_{num_texts}"
            result |= benchmarking.spread(name, ratios[-1]) | {
                # Hardly changed by other work on the machine.
                f"{name}_cpu": padded_cpu / ours_cpu,
                f"per_second_{num_texts}": 1 / statistics.median(ours),
                f"padded_per_second_{num_texts}": (
                    1 / statistics.median(padded)
                ),
            }
    return result | {"noise": machine.noise(*ratios)}


def requests(
    model, exported: Exported, num_texts: int
) -> benchmarking.Contestant:
    """Asks a model for some texts at once, others every time."""
    import tensorflow as tf

    rows = exported.rows
    inputs = itertools.cycle(
        [
            {
                name: tf.constant(
                    [rows[(i + k) % len(rows)][n] for k in range(num_texts)]
                )
                for n, name in enumerate(exported.input_names)
            }
            for i in range(len(rows))
        ]
    )

    def ask(num_requests: int) -> None:
        for _ in range(num_requests):
            outputs = model.signature(**next(inputs))
            next(iter(outputs.values())).numpy()

    return benchmarking.Contestant(ask)


def save_padded(args, exported: Exported, path: str) -> None:
    """Saves the same model with every text padded to one length."""
    import tensorflow as tf

    from electra_tf.serving import exportable, packed_stack, saved_model

    with tempfile.TemporaryDirectory() as vocab_dir:
        found = exportable.load(exported.checkpoint, vocab_dir)
        served = saved_model.make_served_model(packed_stack.pack(found))

        def padded(*texts):
            features = found.tokenizer.pack_inputs(
                [found.tokenizer.tokenize(text) for text in texts],
                args.padded_length,
                pad_to_max=True,
            )
            return served.answer(served._run(features))

        call = tf.function(
            padded,
            input_signature=[
                tf.TensorSpec([None], tf.string, name)
                for name in exported.input_names
            ],
            autograph=False,
        )
        tf.saved_model.save(served, path, {"serving_default": call})


# The server on loopback.


class Server(typing.NamedTuple):
    """`electra_tf.serving.local_server` in a process of its own.

    Attributes:
      name: Of the model.
      rest_port: The port.
      grpc_port: The port.
    """

    name: str
    rest_port: int
    grpc_port: int


@contextlib.contextmanager
def run_server(folder: str) -> Iterator[Server]:
    """Starts a server of a folder of versions, and ends it.

    Raises:
      ValueError: If it does not start.
    """
    command = [sys.executable, "-m", "electra_tf.serving.local_server"]
    command += [f"--model_base_path={folder}", "--port=0", "--rest_api_port=0"]
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
            yield Server(found["name"], int(found["rest"]), int(found["grpc"]))
        finally:
            process.terminate()


# Answers one text.
Client = Callable[[Sequence[str]], object]


def grpc_client(server: Server, names: Sequence[str]) -> Client:
    """A client with a connection of its own, over which it has asked before.

    What it asked for is the model's signatures: no prediction.
    """
    import grpc
    import tensorflow as tf
    from tensorflow_serving.apis import (
        get_model_metadata_pb2,
        predict_pb2,
        prediction_service_pb2_grpc,
    )

    channel = grpc.insecure_channel(
        f"127.0.0.1:{server.grpc_port}",
        options=[("grpc.use_local_subchannel_pool", 1)],
    )
    grpc.channel_ready_future(channel).result(timeout=_START_SECONDS)
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    about = get_model_metadata_pb2.GetModelMetadataRequest()
    about.model_spec.name = server.name
    about.metadata_field.append("signature_def")
    stub.GetModelMetadata(about)
    tf.make_tensor_proto([b""], tf.string)

    def call(texts: Sequence[str]) -> object:
        request = predict_pb2.PredictRequest()
        request.model_spec.name = server.name
        for name, text in zip(names, texts, strict=True):
            request.inputs[name].CopyFrom(
                tf.make_tensor_proto([text.encode()], tf.string)
            )
        return stub.Predict(request)

    return call


def rest_client(server: Server, names: Sequence[str]) -> Client:
    """A client with a connection of its own, kept open."""
    connection = http.client.HTTPConnection("127.0.0.1", server.rest_port)
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


def measure_loopback(args, exported: Exported) -> benchmarking.Figures:
    """The loopback section: both protocols, by turns, at each concurrency."""
    result: benchmarking.Figures = {}
    machine = benchmarking.Machine()
    with run_server(exported.folder) as server:
        for concurrency in CONCURRENCIES:
            for protocol, connect in (
                ("grpc", grpc_client),
                ("rest", rest_client),
            ):
                clients = [
                    connect(server, exported.input_names)
                    for _ in range(concurrency)
                ]
                closed_loop(clients, exported.rows, 2 * concurrency)
                latencies, seconds = closed_loop(
                    clients, exported.rows, args.num_requests
                )
                key = f"{protocol}_{concurrency}"
                p50, p99 = np.percentile(latencies, (50, 99)).tolist()
                result[f"{key}_p50_ms"] = 1e3 * p50
                result[f"{key}_p99_ms"] = 1e3 * p99
                result[f"{key}_per_second"] = args.num_requests / seconds
    # The server's seconds count as this program's once it has ended.
    return result | {"noise": machine.shares()}


def measure_warm_up(args, exported: Exported) -> benchmarking.Figures:
    """The warm_up section: fresh servers, one after another."""
    machine = benchmarking.Machine()
    ratios, firsts = [], []
    for _ in range(args.num_servers):
        with run_server(exported.folder) as server:
            client = grpc_client(server, exported.input_names)
            latencies, _ = closed_loop([client], exported.rows[:1], 1)
            behind, _ = closed_loop(
                [client], exported.rows[:1], args.num_warm_up_requests
            )
        firsts.append(latencies[0])
        ratios.append(latencies[0] / statistics.median(behind))
    return {
        "first_times_median": statistics.median(ratios),
        "first_times_median_of_each_server": ratios,
        "first_ms": [1e3 * seconds for seconds in firsts],
        "noise": machine.shares(),
    }


# On the device.


def measure_on_device(args, exported: Exported) -> benchmarking.Figures:
    """The on_device section."""
    import tensorflow as tf

    from electra_tf.inference import predictor
    from electra_tf.serving import on_device

    version = predictor.find_version(exported.folder)
    signature = tf.saved_model.load(version).signatures["tokens"]
    with tempfile.TemporaryDirectory() as folder:
        paths = on_device.export(exported.checkpoint, folder)
        sizes = [os.path.getsize(path) for path in paths]
        models = [on_device.OnDeviceModel(path) for path in paths]
        features = [
            models[0].pack(*([text] for text in row)) for row in exported.rows
        ]
        expected = [
            signature(**{k: tf.constant(v) for k, v in x.items()})
            for x in features
        ]
        (name,) = {"scores", "value", "probabilities"} & set(expected[0])
        of_saved_model = [x[name].numpy() for x in expected]
        result: benchmarking.Figures = {"rows": len(features)}
        for kind, model, size in zip(
            ("float32", "int8"), models, sizes, strict=True
        ):
            found = [model(x)[name] for x in features]
            result[f"{kind}_mb"] = size / 1e6
            result[f"{kind}_error"] = max(
                float(np.abs(a - b).max())
                for a, b in zip(found, of_saved_model, strict=True)
            )
            result[f"{kind}_equal_labels"] = statistics.mean(
                float((_labels(a) == _labels(b)).mean())
                for a, b in zip(found, of_saved_model, strict=True)
            )
        result["int8_size_share"] = sizes[1] / sizes[0]

        def contestant(model) -> benchmarking.Contestant:
            inputs = itertools.cycle(features)

            def call(num_requests: int) -> None:
                for _ in range(num_requests):
                    model(next(inputs))

            return benchmarking.Contestant(call)

        contestants = [contestant(model) for model in models]
        for call in contestants:
            call(args.num_warm_up_requests)
        machine = benchmarking.Machine()
        float32, int8 = benchmarking.interleave(
            contestants, args.num_timed_requests, args.num_rounds
        )
    ratios = benchmarking.ratios(float32, int8)
    return result | {
        "float32_ms": 1e3 * statistics.median(float32),
        "int8_ms": 1e3 * statistics.median(int8),
        **benchmarking.spread("int8_times_float32", ratios),
        "tokens_of_a_row": statistics.mean(
            float(x["input_mask"].sum()) for x in features
        ),
        "noise": machine.noise(ratios),
    }


def _labels(values):
    """The likeliest class; of a single number, the number rounded."""
    if values.ndim > 1:
        return values.argmax(axis=-1)
    return values.round(1)


# All sections. A section takes the flags and the model, and returns figures.
SECTIONS: dict[str, Callable[[typing.Any, Exported], benchmarking.Figures]] = {
    "padding": measure_padding,
    "loopback": measure_loopback,
    "warm_up": measure_warm_up,
    "on_device": measure_on_device,
    "latency": latency.measure_latency,
}


def _benchmark(args: argparse.Namespace) -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    args.sections = benchmarking.chosen_sections(args.sections, SECTIONS)
    args.contestants = benchmarking.chosen_contestants(
        args.contestants, latency.CONTESTANTS, args.interop_python
    )
    sections = {name: SECTIONS[name] for name in args.sections}
    with tempfile.TemporaryDirectory() as folder:
        benchmarking.measure(args, sections, TARGETS, prepare(args, folder))


def main(argv=None) -> int:
    """Measures; returns the exit code."""
    parser = benchmarking.make_parser(
        "benchmark_serving",
        __doc__,
        {
            "--num-words": (10, "words of a made-up text"),
            "--padded-length": (128, "tokens of the other side of padding"),
            "--num-rounds": (10, "rounds"),
            "--num-timed-requests": (10, "requests of each side in a round"),
            "--num-warm-up-requests": (30, "requests before anything is timed"),
            "--num-requests": (300, "requests at each concurrency"),
            "--num-servers": (3, "servers of the warm_up section"),
        },
        SECTIONS,
    )
    benchmarking.add_contestants(parser, ",".join(latency.CONTESTANTS))
    parser.add_argument(
        "--model-dir",
        default="",
        help="a fine-tuned classifier or regressor (default: random weights)",
    )
    parser.add_argument(
        "--texts", default="", help="file of texts (default: made up)"
    )
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    return arguments.run(_benchmark, parser, argv)


if __name__ == "__main__":
    sys.exit(main())
