"""Measures how fast an exported model answers.

    python tools/benchmarks/serving.py --output=benchmark_serving.json

Sections:

* padding: requests/s for short texts, padded to the longest of the request as
  exported models do, against the same model padded to --padded-length; with one
  text in a request, and with eight.
* loopback: latency (p50, p99) and requests/s of
  `python -m electra_tf.serving.local_server`, over REST, with 1, 8 and
  32 clients that each wait for their answer before they ask again: never more
  requests under way than clients, and --num-requests in all.
* runtimes: one client over REST, one text in a request: a server with one
  thread for an operation, and one with as many as there are cores, by turns.
* on_device: size, error, equal labels and latency of the float32 and the int8
  file for LiteRT, one thread; error against the SavedModel.
* latency: one text in a request, as token ids, one thread each, by turns: the
  SavedModel, LiteRT in float32 and int8, and ONNX
  Runtime over the same weights, exported by way of transformers and PyTorch in
  the environment of --interop-python. --contestants chooses. Greatest error of
  a score against the SavedModel in float32.

The model is that of --model-dir, by default one of ELECTRA-Small's size with
random weights; the texts those of --texts, one a line (pairs: with a tab), by
default made up, of --num-words words. Clients share the cores with the server.
"""

import argparse
import itertools
import os
import statistics
import sys
import tempfile
import typing
from collections.abc import Callable

import benchmarking
import latency
import numpy as np
import servers

from electra_tf.command_line import arguments

# Section and figure -> whether it must be at least or at most, and what.
TARGETS = {
    ("padding", "times_padded_1"): (">=", 3.0),
    ("padding", "times_padded_8"): (">=", 3.0),
    ("on_device", "float32_error"): ("<=", 1e-5),
    ("on_device", "int8_size_share"): ("<=", 0.3),
    ("on_device", "int8_times_float32"): (">=", 1.0),
    # At most 1.3 times its latency.
    ("latency", "ours_float32_times_litert_float32"): (">=", 1 / 1.3),
    ("latency", "litert_float32_error"): ("<=", 1e-5),
}
# Texts of a request in the padding section: one, and what a server that
# batches puts together.
NUM_TEXTS = (1, 8)
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
    from electra_tf.model import task_head
    from electra_tf.model.finetuning_model import FinetuningModel
    from electra_tf.text.vocabulary import Vocabulary

    tiny = configs.EncoderConfig(300, 32, 1, 2, 64, 32, 128)
    config = tiny if is_tiny else benchmarking.SMALL
    keras.utils.set_random_seed(0)
    head = task_head.TaskHead("classification", "random", ("no", "yes"), 2)
    model = FinetuningModel(config, [task_head.make_head(head, config)])
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
        if len({len(row) for row in rows}) > 1:
            raise ValueError(
                "Expected as many texts, separated by tabs, in each line of "
                f"{args.texts}. Received: one of {len(rows[0])} and others"
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

    from electra_tf.serving import exportable, saved_model

    with tempfile.TemporaryDirectory() as vocab_dir:
        found = exportable.load(exported.checkpoint, vocab_dir)
        served = saved_model.make_served_model(found)

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
    "loopback": servers.measure_loopback,
    "runtimes": servers.measure_runtimes,
    "on_device": measure_on_device,
    "latency": latency.measure_latency,
}


def _benchmark(args: argparse.Namespace) -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    args.sections = benchmarking.chosen(args.sections, SECTIONS, "sections")
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
