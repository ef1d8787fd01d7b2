"""Answers rows of token ids one at a time, for a benchmark to time.

    python tools/benchmarks/latency_worker.py --kind=litert --path=m.tflite \\
        --rows=rows.npz

A process for each contestant, of one thread. `onnxruntime` needs nothing of
electra_tf, but torch, transformers, onnx, onnxscript and onnxruntime
(requirements-interop.lock): --path is a folder of transformers, of which an
ONNX file is written there.

Prints the scores of all rows as JSON; then reads numbers of requests from
stdin, a line each, and answers with their seconds.

Shapes: N rows, L length.
"""

import argparse
import itertools
import json
import os
import sys
import time
from collections.abc import Callable

import numpy as np

Call = Callable[..., np.ndarray]
NAMES = ("input_ids", "input_mask", "segment_ids")


def saved_model(path: str) -> Call:
    """The signature `tokens` of a version."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  (registers the ops)

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    loaded = tf.saved_model.load(path)

    def call(**row) -> np.ndarray:
        tensors = {name: tf.constant(value) for name, value in row.items()}
        return _only(loaded.signatures["tokens"](**tensors)).numpy()

    return call


def litert(path: str) -> Call:
    """A file of `export --format=litert`."""
    from electra_tf.serving import on_device

    model = on_device.OnDeviceModel(path)
    return lambda **row: _only(model(row))


def onnxruntime(path: str) -> Call:
    """A classifier of transformers, in ONNX Runtime."""
    import onnxruntime as runtime
    import torch
    import transformers

    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        path, attn_implementation="eager"
    ).eval()
    file = os.path.join(path, "model.onnx")
    theirs = ("input_ids", "attention_mask", "token_type_ids")
    dims = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    with open(os.devnull, "w") as nothing:
        kept, sys.stdout = sys.stdout, nothing
        torch.onnx.export(
            model,
            # One tensor for all would become one input.
            kwargs={
                name: torch.ones([2, 8], dtype=torch.int64) for name in theirs
            },
            f=file,
            input_names=theirs,
            output_names=["logits"],
            dynamic_shapes=dict.fromkeys(theirs, dims),
            dynamo=True,
        )
        sys.stdout = kept
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = runtime.InferenceSession(
        file, options, providers=["CPUExecutionProvider"]
    )

    def call(**row) -> np.ndarray:
        feed = {
            name: row[ours].astype(np.int64)
            for name, ours in zip(theirs, NAMES, strict=True)
        }
        (logits,) = session.run(["logits"], feed)
        exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return exponentials / exponentials.sum(axis=-1, keepdims=True)

    return call


def _only(outputs):
    """The numbers among the outputs of a classifier or regressor."""
    (name,) = {"scores", "value"} & set(outputs)
    return outputs[name]


KINDS = {
    "saved_model": saved_model,
    "litert": litert,
    "onnxruntime": onnxruntime,
}


def main() -> None:
    """Prints the scores, then answers numbers of requests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=KINDS, required=True)
    parser.add_argument("--path", required=True)
    parser.add_argument("--rows", required=True)
    args = parser.parse_args()
    call = KINDS[args.kind](args.path)
    with np.load(args.rows) as arrays:
        lengths = arrays["input_mask"].sum(axis=1)
        rows = [
            {name: arrays[name][[i], :length] for name in NAMES}
            for i, length in enumerate(lengths)
        ]
    print(json.dumps([call(**row).tolist() for row in rows]), flush=True)
    turns = itertools.cycle(rows)
    for line in sys.stdin:
        start, cpu_start = time.perf_counter(), time.process_time()
        for _ in range(int(line)):
            call(**next(turns))
        found = {
            "seconds": time.perf_counter() - start,
            "cpu_seconds": time.process_time() - cpu_start,
        }
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
