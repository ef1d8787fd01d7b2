"""Latency: an exported classifier that answers one text a request.

The runtimes themselves are asked, without a server, from a text to its answer,
one thread each.
"""

import itertools
from collections.abc import Callable

import contest
import numpy as np

_SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_NUM_REQUESTS = 64


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


# The runtimes: each takes the settings and answers texts, one at a time.


def _answering(args, call: Callable[[str], dict]) -> contest.Run:
    """Asks a function of a text, whose words are tokens of `write_model`."""
    shape = [_NUM_REQUESTS, args.num_words]
    numbers = np.random.default_rng(0).integers(195, size=shape)
    requests = itertools.cycle(" ".join(f"w{n}" for n in x) for x in numbers)

    def run(num_steps: int) -> dict:
        for _ in range(num_steps):
            outputs = call(next(requests))
        (name,) = {"scores", "value", "logits"} & set(outputs)
        return {name: float(np.ravel(outputs[name])[-1])}

    return run


def saved_model(args) -> contest.Run:
    """The default signature of an export."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  (registers the ops)

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    loaded = tf.saved_model.load(f"{args.folder}/{args.path}/1")
    serve = loaded.signatures["serving_default"]

    def call(text: str) -> dict:
        outputs = serve(text=tf.constant([text]))
        return {name: value.numpy() for name, value in outputs.items()}

    return _answering(args, call)


def litert(args) -> contest.Run:
    """A file of `export --format=litert`."""
    from electra_tf.serving import on_device

    model = on_device.OnDeviceModel(f"{args.folder}/{args.path}")
    return _answering(args, lambda text: model(model.pack([text])))


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

    tokenizer = transformers.AutoTokenizer.from_pretrained(path)

    def call(text: str) -> dict:
        features = tokenizer([text], return_tensors="np")
        feed = {name: features[name].astype(np.int64) for name in names}
        return {"logits": session.run(None, feed)[0]}

    return _answering(args, call)


_RUNTIMES = {
    "onnxruntime": contest.Contestant(
        "latency.onnxruntime",
        packages=("torch", "transformers", "onnxscript", "onnxruntime"),
    ),
    "litert": contest.Contestant(
        "latency.litert", {"path": "litert/model.float32.tflite"}
    ),
    "litert_int8": contest.Contestant(
        "latency.litert", {"path": "litert/model.int8.tflite"}
    ),
    "saved_model": contest.Contestant(
        "latency.saved_model", {"path": "saved_model"}
    ),
}
LATENCY = contest.Benchmark(
    summary="a text a request: ONNX Runtime, LiteRT, SavedModel",
    unit="requests",
    contestants=_RUNTIMES,
    chosen=tuple(_RUNTIMES),
    against=("litert", "onnxruntime"),
    prepare=_prepare,
    flags={
        "model_dir": ("", "a classifier of single texts, or random weights"),
        "num_words": (10, "words of a text"),
        "num_steps": (50, "requests of a contestant in a round"),
        "num_rounds": (10, "rounds"),
        "num_warm_up_steps": (30, "requests after the first, not timed"),
    },
)
