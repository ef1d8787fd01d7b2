"""Measures what batches of rows of similar length save in fine-tuning.

    python tools/benchmarks/finetuning.py --data-dir=glue --output=result.json

Both ways train the same model on the same rows with the product's own step:
bucketed by length and padded to the bucket, as FinetuningDataConfig.bucketed
has it, and any rows padded to --max-seq-length. Sections:

* one for each of --tasks: examples/s of both, and their ratio by the clock and
  by CPU time, over all rounds together: the lengths of a round are a matter of
  chance. ELECTRA-Small with random weights, unless --init-checkpoint names
  another model.
* scores, with --scores-task: the dev scores of both ways over --num-trials
  seeds, and their difference in standard errors. It needs --init-checkpoint.

The data folder has the tasks' folders under GLUE's names or the original's.
"""

import argparse
import contextlib
import dataclasses
import functools
import io
import math
import os
import statistics
import sys
import tempfile
import typing
from collections.abc import Callable, Sequence

import benchmarking

from electra_tf import configs
from electra_tf.command_line import arguments
from electra_tf.finetuning import configs as finetuning_configs

if typing.TYPE_CHECKING:
    import contestants

    from electra_tf.text import tokenization

_RATIO = (">=", 2.5)
# Differences of means that chance alone exceeds once in twenty times.
_NOISE = ("<=", 2.0)
_WAYS = ("bucketed", "padded")
_TINY = configs.EncoderConfig(30522, 16, 1, 2, 32, 8)


def make_training(
    encoder_config: configs.EncoderConfig,
    task,
    features,
    batch_size: int,
    bucketed: bool,
) -> "contestants.Training":
    """The training of one task, ready to be timed.

    Args:
      encoder_config: Sizes of the encoder; its weights are random.
      task: The task.
      features: Of its training set.
      batch_size: Rows of a step.
      bucketed: See `batches.train_dataset`.
    """
    import contestants
    import tensorflow as tf

    from electra_tf.finetuning import batches
    from electra_tf.model.finetuning_model import FinetuningModel
    from electra_tf.training import replicas

    run = configs.RunConfig(
        model_dir="unused", num_train_steps=1_000_000, seed=0
    )
    replicas.set_policy(run)
    model = FinetuningModel(encoder_config, [task.make_head(encoder_config)])
    return contestants.Training(
        tf.distribute.get_strategy(),
        model,
        model.training_loss,
        configs.OptimizerConfig(learning_rate=3e-4),
        run,
        batch_size,
        functools.partial(
            batches.train_dataset, features, run.seed, bucketed=bucketed
        ),
    )


def measure_speed(args, task_name: str) -> benchmarking.Figures:
    """The section of one task."""
    from electra_tf.finetuning.tasks import by_name

    encoder_config, tokenizer = _encoder_and_tokenizer(args)
    task = by_name.get_task(task_name, args.data_dir)
    features = task.features(
        task.read_examples("train"), tokenizer, args.max_seq_length, True
    )
    contestants = [
        make_training(
            encoder_config, task, features, args.batch_size, way == "bucketed"
        )
        for way in _WAYS
    ]
    for contestant in contestants:
        contestant(args.num_warm_up_steps)
    traces = [contestant.num_traces for contestant in contestants]
    machine = benchmarking.Machine()
    rounds = benchmarking.interleave(
        contestants, args.num_steps, args.num_rounds
    )
    bucketed, padded = map(statistics.fmean, rounds)
    bucketed_cpu, padded_cpu = (
        statistics.fmean(contestant.cpu_seconds[-args.num_rounds :])
        for contestant in contestants
    )
    by_round = benchmarking.spread("ratio", benchmarking.ratios(*rounds[::-1]))
    lengths = features["input_mask"].sum(axis=-1)
    return {
        "ratio": padded / bucketed,
        # Hardly changed by other work on the machine.
        "cpu_ratio": padded_cpu / bucketed_cpu,
        "ratio_quartiles_of_rounds": by_round["ratio_quartiles"],
        "examples_per_second": args.batch_size / bucketed,
        "padded_examples_per_second": args.batch_size / padded,
        "mean_length": float(lengths.mean()),
        "num_rows": len(lengths),
        "num_traces_of_lengths": sum(
            contestant.num_traces - before
            for contestant, before in zip(contestants, traces, strict=True)
        ),
        "noise": machine.shares(),
    }


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
    add("--data-dir", required=True, help="folder of the tasks' folders")
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
    return parser


def _benchmark(args: argparse.Namespace) -> None:
    args.tasks = [name for name in args.tasks.split(",") if name]
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
    import tensorflow as tf

    if args.num_intra_op_threads:
        tf.config.threading.set_intra_op_parallelism_threads(
            args.num_intra_op_threads
        )
    sections: dict[str, Callable[..., benchmarking.Figures]] = {
        name: functools.partial(measure_speed, task_name=name)
        for name in args.tasks
    }
    targets = {(name, "ratio"): _RATIO for name in args.tasks}
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
