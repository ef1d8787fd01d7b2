"""Measures how fast fine-tuning is.

    python tools/benchmarks/finetuning.py --output=result.json

All contestants train a model of the same size on the same rows. Sections:

* one for each of --tasks: examples/s of --contestants, side by side, by the
  clock and by CPU time, over all rounds together: the lengths of a round are a
  matter of chance. Each is a process of its own:
  - ours: the product's step, rows of similar length in a batch that is padded
    to its longest (FinetuningDataConfig.bucketed);
  - padded: the same, any rows padded to --max-seq-length;
  - transformers: its classifier under PyTorch, any rows padded to the longest
    of their batch (tools/benchmarks/transformers_training.py), in the
    environment of --interop-python.
  NAME_bfloat16 is the same with bfloat16 products: autocast there,
  mixed_bfloat16 here. ELECTRA-Small with random weights, unless
  --init-checkpoint names another model, whose sizes are taken.
* scores, with --scores-task: the dev scores of batches with and without rows of
  similar length over --num-trials seeds, and their difference in standard
  errors. It needs --init-checkpoint.

The data folder has the tasks' folders under GLUE's names or the original's.
Without one, rows are made up, about as long as those of MRPC and SST-2.
"""

import argparse
import contextlib
import dataclasses
import functools
import io
import math
import os
import random
import statistics
import sys
import tempfile
import typing
from collections.abc import Callable, Sequence

import benchmarking
import training_workers
import transformers_worker

from electra_tf import configs, files
from electra_tf.command_line import arguments
from electra_tf.finetuning import configs as finetuning_configs
from electra_tf.text.tokenization import ENCODER_FEATURES

if typing.TYPE_CHECKING:
    import contestants

    from electra_tf.text import tokenization

_RATIO = (">=", 2.5)
# Differences of means that chance alone exceeds once in twenty times.
_NOISE = ("<=", 2.0)
_WAYS = ("bucketed", "padded")
_BFLOAT16 = "_bfloat16"
CONTESTANTS = (
    "padded",
    "transformers",
    "transformers_bfloat16",
    "ours",
    "ours_bfloat16",
)
_LEARNING_RATE = 3e-4
_NUM_MADE_ROWS = 3000
_TINY = configs.EncoderConfig(30522, 16, 1, 2, 32, 8)


def make_training(
    encoder_config: configs.EncoderConfig,
    task,
    features,
    batch_size: int,
    bucketed: bool,
    dtype_policy: str = "float32",
) -> "contestants.Training":
    """The training of one task, ready to be timed.

    Args:
      encoder_config: Sizes of the encoder; its weights are random.
      task: The task.
      features: Of its training set.
      batch_size: Rows of a step.
      bucketed: See `batches.train_dataset`.
      dtype_policy: As RunConfig has it.
    """
    import contestants
    import tensorflow as tf

    from electra_tf.finetuning import batches
    from electra_tf.model.finetuning_model import FinetuningModel
    from electra_tf.training import replicas

    run = configs.RunConfig(
        model_dir="unused",
        num_train_steps=1_000_000,
        seed=0,
        dtype_policy=dtype_policy,
    )
    replicas.set_policy(run)
    model = FinetuningModel(encoder_config, [task.make_head(encoder_config)])
    return contestants.Training(
        tf.distribute.get_strategy(),
        model,
        model.training_loss,
        configs.OptimizerConfig(learning_rate=_LEARNING_RATE),
        run,
        batch_size,
        functools.partial(
            batches.train_dataset, features, run.seed, bucketed=bucketed
        ),
    )


def training_in_worker(
    args, encoder_config, task_name: str, path: str, name: str
) -> "contestants.Training":
    """The product as a contestant of this name, in a process of its own.

    Args:
      args: The flags.
      encoder_config: Sizes of the encoder.
      task_name: Of the task.
      path: File of the features.
      name: Of the contestant.
    """
    import numpy as np
    import tensorflow as tf

    from electra_tf.finetuning.tasks import by_name

    if args.num_intra_op_threads:
        tf.config.threading.set_intra_op_parallelism_threads(
            args.num_intra_op_threads
        )
    with np.load(path) as file:
        features = {name: file[name] for name in file.files}
    return make_training(
        encoder_config,
        by_name.get_task(task_name, args.data_dir),
        features,
        args.batch_size,
        name.removesuffix(_BFLOAT16) == "ours",
        "mixed_bfloat16" if name.endswith(_BFLOAT16) else "float32",
    )


def start_contestants(
    args, encoder_config, task, features, folder: str
) -> dict[str, typing.Any]:
    """The processes of --contestants, which do nothing yet."""
    import numpy as np

    path = os.path.join(folder, "features.npz")
    np.savez(path, **features)
    rows = os.path.join(folder, "rows.npz")
    np.savez(
        rows,
        **{name: features[name] for name in ENCODER_FEATURES},
        label_ids=features[f"{task.name}_label_ids"],
    )
    started: dict[str, typing.Any] = {}
    for name in args.contestants:
        if name.startswith("transformers"):
            started[name] = transformers_worker.Worker(
                args.interop_python,
                discriminator=transformers_worker.sizes(encoder_config),
                num_labels=len(task.labels),
                rows=rows,
                batch_size=args.batch_size,
                learning_rate=_LEARNING_RATE,
                is_bfloat16=name.endswith(_BFLOAT16),
            )
        else:
            started[name] = training_workers.Worker(
                "finetuning.training_in_worker",
                args,
                encoder_config,
                task.name,
                path,
                name,
            )
    return started


def measure_speed(args, task_name: str) -> benchmarking.Figures:
    """The section of one task."""
    from electra_tf.finetuning.tasks import by_name, text_tasks

    encoder_config, tokenizer = _encoder_and_tokenizer(args)
    task = by_name.get_task(task_name, args.data_dir)
    if not isinstance(task, text_tasks.ClassificationTask):
        raise ValueError(
            f"--tasks must be of one label a text. Received: {task_name}"
        )
    features = task.features(
        task.read_examples("train"), tokenizer, args.max_seq_length, True
    )
    with tempfile.TemporaryDirectory() as folder:
        started = start_contestants(
            args, encoder_config, task, features, folder
        )
        try:
            benchmarking.say(f"first steps of {', '.join(started)}")
            training_workers.all_ready(started.values(), args.num_warm_up_steps)
            traces = _num_traces(started)
            figures = benchmarking.compare(
                started,
                args.batch_size,
                args.num_steps,
                args.num_rounds,
                mean=statistics.fmean,
            )
        finally:
            for worker in started.values():
                worker.close()
    lengths = features["input_mask"].sum(axis=-1)
    return figures | {
        "mean_length": float(lengths.mean()),
        "num_rows": len(lengths),
        "num_traces_of_lengths": _num_traces(started) - traces,
    }


def _num_traces(started: dict[str, typing.Any]) -> int:
    return sum(
        worker.num_traces
        for name, worker in started.items()
        if not name.startswith("transformers")
    )


def make_rows(folder: str) -> str:
    """Writes rows of MRPC and SST-2 with made-up words, and their vocabulary.

    Args:
      folder: Where the tasks' folders go.

    Returns:
      Path of the vocabulary.
    """
    rng = random.Random(0)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = [f"w{i}" for i in range(benchmarking.SMALL.vocab_size)]
    words = words[: -len(special)]

    def text(num_words: float) -> str:
        return " ".join(rng.choices(words, k=max(1, round(num_words))))

    # Sentences of MRPC have 26 tokens, give or take 6; half of SST-2's phrases
    # have at most 9.
    pairs = [
        f"{rng.randrange(2)}\t1\t2\t{text(length + rng.gauss(0, 2))}"
        f"\t{text(length + rng.gauss(0, 2))}"
        for length in (rng.gauss(26, 6) for _ in range(_NUM_MADE_ROWS))
    ]
    phrases = [
        f"{text(min(50, rng.expovariate(1 / 11)))}\t{rng.randrange(2)}"
        for _ in range(_NUM_MADE_ROWS)
    ]
    header = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"
    files_of = {
        os.path.join("MRPC", "train.tsv"): [header, *pairs],
        os.path.join("SST-2", "train.tsv"): ["sentence\tlabel", *phrases],
        "vocab.txt": [*special, *words],
    }
    for name, lines in files_of.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        files.write_atomically(path, "\n".join(lines) + "\n")
    return os.path.join(folder, "vocab.txt")


def _encoder_and_tokenizer(
    args,
) -> tuple[configs.EncoderConfig, "tokenization.FullTokenizer"]:
    """Of --init-checkpoint, or ELECTRA-Small's sizes and --vocab-file."""
    from electra_tf.finetuning import starting_point
    from electra_tf.text import tokenization, vocabulary

    if args.init_checkpoint:
        config = make_config(args, args.tasks[0], "unused", True)
        start = starting_point.read(config)
        return start.encoder_config, start.tokenizer
    if not args.vocab_file:
        raise ValueError(
            "Expected --vocab-file or --init-checkpoint. Received: neither."
        )
    tokenizer = tokenization.FullTokenizer(
        vocabulary.Vocabulary(
            tuple(vocabulary.load_vocab(args.vocab_file)), True, True
        )
    )
    sizes = _TINY if args.tiny else benchmarking.SMALL
    return (
        dataclasses.replace(
            sizes,
            vocab_size=tokenizer.vocab_size,
            max_position_embeddings=max(512, args.max_seq_length),
        ),
        tokenizer,
    )


def make_config(
    args, task_name: str, model_dir: str, bucketed: bool
) -> finetuning_configs.FinetuningConfig:
    """A run on one task."""
    return finetuning_configs.FinetuningConfig(
        init_checkpoint=args.init_checkpoint,
        data=finetuning_configs.FinetuningDataConfig(
            task_names=(task_name,),
            data_dir=args.data_dir,
            vocab_file=args.vocab_file,
            max_seq_length=args.max_seq_length,
            train_batch_size=args.batch_size,
            eval_batch_size=128,
            num_train_epochs=args.num_train_epochs,
            bucketed=bucketed,
        ),
        optimizer=configs.OptimizerConfig(
            learning_rate=args.learning_rate,
            warmup_proportion=0.1,
            layerwise_lr_decay=None,
        ),
        run=configs.RunConfig(
            model_dir=model_dir, save_checkpoints_steps=1_000_000
        ),
        num_trials=args.num_trials,
    )


def measure_scores(args) -> benchmarking.Figures:
    """The scores section: both ways from one checkpoint, seed by seed."""
    from electra_tf.finetuning import finetune

    scores: dict[str, list[float]] = {}
    for way in _WAYS:
        with tempfile.TemporaryDirectory() as folder:
            config = make_config(
                args, args.scores_task, folder, way == "bucketed"
            )
            # Notes of two runs whose results come below.
            with contextlib.redirect_stdout(io.StringIO()):
                found = finetune.finetune(config, lambda: None)
        assert found is not None
        metric = found["main_metric"]
        scores[way] = [trial["dev"][metric] for trial in found["trials"]]
    means = {way: statistics.fmean(values) for way, values in scores.items()}
    return {
        "difference_in_standard_errors": in_standard_errors(*scores.values()),
        "difference": means["bucketed"] - means["padded"],
        **means,
        **{f"{way}_by_seed": values for way, values in scores.items()},
    }


def in_standard_errors(first: Sequence[float], second: Sequence[float]):
    """Size of the difference of two means, in standard errors of it.

    Args:
      first: Two scores or more.
      second: As many.

    Returns:
      0 or more; infinite where different scores have no spread.
    """
    difference = abs(statistics.fmean(first) - statistics.fmean(second))
    error = math.sqrt(
        statistics.variance(first) / len(first)
        + statistics.variance(second) / len(second)
    )
    if not difference:
        return 0.0
    return difference / error if error else math.inf


def make_parser() -> arguments.ArgumentParser:
    """The flags of this tool."""
    parser = benchmarking.make_parser(
        "benchmark_finetuning",
        __doc__,
        {
            "--batch-size": (32, "examples of a step"),
            "--max-seq-length": (128, "tokens that are padded to"),
            "--num-steps": (4, "steps of each way in each round"),
            "--num-rounds": (8, "rounds"),
            "--num-warm-up-steps": (3, "steps before anything is timed"),
            "--num-trials": (3, "seeds of the scores section, at least 2"),
            "--num-train-epochs": (3.0, "epochs of the scores section"),
            "--learning-rate": (3e-4, "peak rate of the scores section"),
        },
    )
    add = parser.add_argument
    add("--data-dir", default="", help="tasks' folders (default: made-up rows)")
    add("--tasks", default="mrpc,sst", help="to time (default: %(default)s)")
    add("--vocab-file", default="", help="vocabulary, without a checkpoint")
    add("--init-checkpoint", default="", help="a pre-trained model")
    add("--scores-task", default="", help="to score both ways on")
    add(
        "--num-intra-op-threads",
        type=int,
        default=0,
        help="as RunConfig has it (default: %(default)s)",
    )
    benchmarking.add_contestants(parser, "padded,ours")
    return parser


def _benchmark(args: argparse.Namespace) -> None:
    args.tasks = [name for name in args.tasks.split(",") if name]
    if not (args.tasks or args.scores_task):
        raise ValueError(
            "Expected tasks to time or one to score. Received: --tasks= and no "
            "--scores-task"
        )
    if args.scores_task and not args.init_checkpoint:
        raise ValueError(
            "--scores-task needs --init-checkpoint. Received: "
            f"--scores-task={args.scores_task}"
        )
    if args.scores_task and args.num_trials < 2:
        raise ValueError(
            "--num-trials must be at least 2 for a spread. "
            f"Received: {args.num_trials}"
        )
    args.contestants = benchmarking.chosen_contestants(
        args.contestants, CONTESTANTS, args.interop_python
    )
    with contextlib.ExitStack() as stack:
        if not args.data_dir:
            args.data_dir = stack.enter_context(tempfile.TemporaryDirectory())
            made = make_rows(args.data_dir)
            args.vocab_file = args.vocab_file or made
        _measure(args)


def _measure(args: argparse.Namespace) -> None:
    sections: dict[str, Callable[..., benchmarking.Figures]] = {
        name: functools.partial(measure_speed, task_name=name)
        for name in args.tasks
    }
    targets = {(name, "ours_times_padded"): _RATIO for name in args.tasks}
    if args.scores_task:
        sections["scores"] = measure_scores
        targets["scores", "difference_in_standard_errors"] = _NOISE
    benchmarking.measure(args, sections, targets)


def main(argv=None) -> int:
    """Measures; returns the exit code."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    return arguments.run(_benchmark, make_parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
