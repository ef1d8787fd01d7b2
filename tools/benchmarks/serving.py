"""Serving: an exported classifier that answers one text a request.

`serving` asks the local server, over REST; `latency` asks the runtimes
themselves, without a server and without a tokenizer, one thread each.
"""

import atexit
import concurrent.futures
import http.client
import itertools
import json
import os
import queue
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable

import contest
import numpy as np

_SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_NUM_REQUESTS = 64
# What a server may take to load and to warm up.
_START_SECONDS = 300.0


def write_model(folder: str, is_tiny: bool) -> None:
    """A classifier with random weights, as a checkpoint."""
    import keras

    from electra_tf.checkpoints.checkpoint import Checkpoint
    from electra_tf.checkpoints.formats import electra_tf_format
    from electra_tf.model import task_head
    from electra_tf.model.finetuning_model import FinetuningModel
    from electra_tf.text.vocabulary import Vocabulary

    config = contest.encoder_config(is_tiny)
    keras.utils.set_random_seed(0)
    head = task_head.TaskHead("classification", "random", ("no", "yes"), 2)
    model = FinetuningModel(config, [task_head.make_head(head, config)])
    # A trained model has no biases of 0; TensorFlow would leave them out.
    for variable in model.variables:
        if variable.path.endswith("/bias"):
            values = keras.random.normal(variable.shape, stddev=0.02, seed=0)
            variable.assign(values)
    num_words = config.vocab_size - len(_SPECIAL_TOKENS)
    words = (f"w{i}" for i in range(num_words))
    checkpoint = Checkpoint(
        tensors={v.path: v.numpy() for v in model.variables},
        discriminator=config,
        head=head,
        vocabulary=Vocabulary((*_SPECIAL_TOKENS, *words), True, True),
        max_seq_length=128,
    )
    electra_tf_format.write(checkpoint, folder)


def _prepare(args) -> dict:
    """Writes a checkpoint and what is made of it, by the user's commands."""
    checkpoint = args.model_dir
    if not checkpoint:
        checkpoint = f"{args.folder}/checkpoint"
        write_model(checkpoint, args.tiny)

    def export(name: str, *flags: str) -> None:
        if any(name in contestant for contestant in args.names):
            contest.electra_tf(
                "export",
                f"--model_dir={checkpoint}",
                f"--output={args.folder}/{name}",
                *flags,
            )

    export("saved_model")
    export("litert", "--format=litert")
    if "onnxruntime" in args.names:
        contest.electra_tf(
            "convert",
            f"--input={checkpoint}",
            f"--output={args.folder}/onnxruntime",
            "--output-format=huggingface",
        )
    return {}


# The local server.


def serve(args) -> contest.Run:
    """Clients that each wait for their answer before they ask again."""
    from electra_tf.training import local_cluster

    (port,) = local_cluster.free_ports(1)
    path = "/v1/models/model"
    server = subprocess.Popen(
        [sys.executable, "-m", "electra_tf", "serve", "--model_name=model"]
        + [f"--model_base_path={args.folder}/{args.model}"]
        + [f"--rest_api_port={port}"],
        cwd=contest.ROOT,
    )
    # It would outlive the benchmark, and hold its caller's pipes open.
    atexit.register(server.kill)
    _wait(server, f"http://127.0.0.1:{port}{path}")
    connections: queue.SimpleQueue = queue.SimpleQueue()
    for _ in range(args.num_clients):
        connections.put(http.client.HTTPConnection("127.0.0.1", port))
    bodies = itertools.cycle(
        json.dumps({"instances": [{"text": " ".join(words)}]})
        for words in (
            [f"w{(7 * text + 3 * i) % 200}" for i in range(args.num_words)]
            for text in range(_NUM_REQUESTS)
        )
    )

    def ask(body: str) -> float:
        connection = connections.get()
        start = time.perf_counter()
        header = {"Content-Type": "application/json"}
        connection.request("POST", f"{path}:predict", body, header)
        response = connection.getresponse()
        content = response.read()
        seconds = time.perf_counter() - start
        connections.put(connection)
        if response.status != 200:
            raise ValueError(f"{response.status}: {content[:200].decode()}")
        return seconds

    def run(num_steps: int) -> dict:
        before = _cpu_seconds(server.pid)
        asked = itertools.islice(bodies, num_steps)
        with concurrent.futures.ThreadPoolExecutor(args.num_clients) as pool:
            seconds = list(pool.map(ask, asked))
        return {
            "cpu_seconds": _cpu_seconds(server.pid) - before,
            "p50_ms": 1e3 * statistics.median(seconds),
            "p99_ms": 1e3 * float(np.percentile(seconds, 99)),
        }

    return run


def _wait(server: subprocess.Popen, url: str) -> None:
    """Waits till a server has loaded its model."""
    deadline = time.monotonic() + _START_SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        try:
            urllib.request.urlopen(url, timeout=10).close()
            return
        except OSError:
            time.sleep(0.2)
    sys.exit("The local server did not start: see its message above")


def _cpu_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# The runtimes: each takes the settings and answers rows of token ids, one at a
# time.


def _answering(args, call: Callable[..., dict]) -> contest.Run:
    """Asks a function of input_ids, input_mask and segment_ids [1, L]."""
    rng = np.random.default_rng(0)
    shape = [_NUM_REQUESTS, 1, args.num_words + 2]
    rows = rng.integers(len(_SPECIAL_TOKENS), 200, shape, np.int32)
    rows[..., 0], rows[..., -1] = 2, 3
    requests = itertools.cycle(
        (row, np.ones_like(row), 0 * row) for row in rows
    )

    def run(num_steps: int) -> dict:
        for _ in range(num_steps):
            outputs = call(*next(requests))
        (name,) = {"scores", "value", "logits"} & set(outputs)
        return {name: float(np.ravel(outputs[name])[-1])}

    return run


def saved_model(args) -> contest.Run:
    """The signature `tokens` of an export."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  (registers the ops)

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    loaded = tf.saved_model.load(f"{args.folder}/{args.path}/1")

    def call(*row) -> dict:
        ids, mask, segments = map(tf.constant, row)
        outputs = loaded.signatures["tokens"](
            input_ids=ids, input_mask=mask, segment_ids=segments
        )
        return {name: value.numpy() for name, value in outputs.items()}

    return _answering(args, call)


def litert(args) -> contest.Run:
    """A file of `export --format=litert`."""
    from electra_tf.serving import on_device

    model = on_device.OnDeviceModel(f"{args.folder}/{args.path}")
    names = ("input_ids", "input_mask", "segment_ids")
    return _answering(
        args, lambda *row: model(dict(zip(names, row, strict=True)))
    )


def onnxruntime(args) -> contest.Run:
    """A classifier of transformers, in ONNX Runtime; its answers are logits."""
    import onnxruntime as runtime
    import torch
    import transformers

    path = f"{args.folder}/onnxruntime"
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        path, attn_implementation="eager"
    ).eval()
    names = ("input_ids", "attention_mask", "token_type_ids")
    dims = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    torch.onnx.export(
        model,
        # One tensor for all would become one input.
        kwargs={name: torch.ones([2, 8], dtype=torch.int64) for name in names},
        f=f"{path}/model.onnx",
        input_names=names,
        output_names=["logits"],
        dynamic_shapes=dict.fromkeys(names, dims),
        dynamo=True,
    )
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = runtime.InferenceSession(
        f"{path}/model.onnx", options, providers=["CPUExecutionProvider"]
    )

    def call(*row) -> dict:
        feed = (values.astype(np.int64) for values in row)
        (logits,) = session.run(None, dict(zip(names, feed, strict=True)))
        return {"logits": logits}

    return _answering(args, call)


_SERVERS = {
    f"saved_model_{num_clients}_clients": contest.Contestant(
        "serving.serve", {"model": "saved_model", "num_clients": num_clients}
    )
    for num_clients in (1, 8, 32)
}
_RUNTIMES = {
    "onnxruntime": contest.Contestant(
        "serving.onnxruntime",
        packages=("torch", "transformers", "onnxscript", "onnxruntime"),
    ),
    "litert": contest.Contestant(
        "serving.litert", {"path": "litert/model.float32.tflite"}
    ),
    "litert_int8": contest.Contestant(
        "serving.litert", {"path": "litert/model.int8.tflite"}
    ),
    "saved_model": contest.Contestant(
        "serving.saved_model", {"path": "saved_model"}
    ),
}
SERVING = contest.Benchmark(
    summary="one text a request to the local server, over REST",
    unit="requests",
    contestants=_SERVERS,
    chosen=tuple(_SERVERS),
    against=("saved_model_1_clients",),
    prepare=_prepare,
    flags={
        "model_dir": ("", "a classifier of single texts, or random weights"),
        "num_words": (10, "words of a text"),
        "num_steps": (50, "requests of a contestant in a round"),
        "num_rounds": (10, "rounds"),
        "num_warm_up_steps": (30, "requests after the first, not timed"),
    },
)
LATENCY = SERVING._replace(
    summary="one row of token ids a request: ONNX Runtime, LiteRT, SavedModel",
    contestants=_RUNTIMES,
    chosen=tuple(_RUNTIMES),
    against=("litert", "onnxruntime"),
)
