"""Measures what batches of rows of similar length save in fine-tuning.

    python tools/benchmarks/finetuning.py --data-dir=glue --output=result.json

JSON goes to --output or stdout, a table to stderr. Both ways train the same
model on the same rows with the product's own step: bucketed by length and
padded to the bucket, as FinetuningDataConfig.bucketed has it, and any rows
padded to --max-seq-length. They take turns (A B B A ...), so that a machine
whose speed drifts changes both alike. Sections:

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
import time
import typing
from collections.abc import Callable, Sequence

import benchmarking

from electra_tf import configs
from electra_tf.command_line import arguments
from electra_tf.finetuning import configs as finetuning_configs

_RATIO = (">=", 2.5)
# Differences of means that chance alone exceeds once in twenty times.
_NOISE = ("<=", 2.0)
_WAYS = ("bucketed", "padded")
_SMALL = configs.EncoderConfig(30522, 256, 12, 4, 1024, 128)
_TINY = configs.EncoderConfig(30522, 16, 1, 2, 32, 8)


class Training:
    """The training of one task, ready to be timed.

    Args:
      encoder_config: Sizes of the encoder; its weights are random.
      task: The task.
      features: Of its training set.
      batch_size: Rows of a step.
      bucketed: See `batches.train_dataset`.
      seed: Of the weights and of the order of the rows.
    """

    def __init__(
        self, encoder_config, task, features, batch_size, bucketed, seed=0
    ):
        import tensorflow as tf

        from electra_tf.finetuning import batches
        from electra_tf.model.finetuning_model import FinetuningModel
        from electra_tf.training import engine, optimization, replicas

        run = configs.RunConfig(
            model_dir="unused", num_train_steps=1_000_000, seed=seed
        )
        replicas.set_policy(run)
        model = FinetuningModel(
            encoder_config, [task.make_head(encoder_config)]
        )
        optimizer = optimization.AdamWeightDecay(
            configs.OptimizerConfig(learning_rate=3e-4), run.num_train_steps
        )
        optimizer.build(model.trainable_variables)
        self.num_traces = 0

        def counting(*args):
            self.num_traces += 1
            return model.training_loss(*args)

        self._engine = engine.Engine(
            tf.distribute.get_strategy(),
            model,
            counting,
            optimizer,
            run,
            batch_size,
            functools.partial(
                batches.train_dataset, features, run.seed, bucketed=bucketed
            ),
        )
        self.cpu_seconds = 0.0

    def __call__(self, num_steps: int) -> float:
        """Runs some steps; returns their seconds by the clock."""
        import tensorflow as tf

        start, cpu_start = time.perf_counter(), time.process_time()
        self._engine.train(tf.constant(num_steps))
        self.cpu_seconds += time.process_time() - cpu_start
        return time.perf_counter() - start


def measure_speed(args, task_name: str) -> dict[str, typing.Any]:
    """The section of one task."""
    from electra_tf.finetuning.tasks import by_name
    from electra_tf.text import tokenization

    encoder_config, tokenizer = _encoder_and_tokenizer(args)
    task = by_name.get_task(task_name, args.data_dir)
    examples = task.read_examples("train")
    assert isinstance(tokenizer, tokenization.FullTokenizer)
    features = task.features(examples, tokenizer, args.max_seq_length, True)
    contestants = [
        Training(
            encoder_config, task, features, args.batch_size, way == "bucketed"
        )
        for way in _WAYS
    ]
    for contestant in contestants:
        contestant(args.num_warm_up_steps)
        contestant.cpu_seconds = 0.0
    traces = [contestant.num_traces for contestant in contestants]
    machine = benchmarking.Machine()
    rounds = benchmarking.interleave(
        contestants, args.num_steps, args.num_rounds
    )
    bucketed, padded = (statistics.fmean(seconds) for seconds in rounds)
    by_round = benchmarking.spread(
        [b / a for a, b in zip(*rounds, strict=True)]
    )
    cpu = [contestant.cpu_seconds for contestant in contestants]
    lengths = features["input_mask"].sum(axis=-1)
    return {
        "ratio": padded / bucketed,
        # Hardly changed by other work on the machine.
        "cpu_ratio": cpu[1] / cpu[0],
        "ratio_quartiles_of_rounds": [by_round["lower"], by_round["upper"]],
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


def _encoder_and_tokenizer(args) -> tuple[configs.EncoderConfig, typing.Any]:
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
    sizes = _TINY if args.tiny else _SMALL
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


def measure_scores(args) -> dict[str, typing.Any]:
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
    difference = means["bucketed"] - means["padded"]
    return {
        "difference_in_standard_errors": in_standard_errors(
            scores["bucketed"], scores["padded"]
        ),
        "difference": difference,
        "bucketed": means["bucketed"],
        "padded": means["padded"],
        "bucketed_by_seed": scores["bucketed"],
        "padded_by_seed": scores["padded"],
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
    parser = arguments.ArgumentParser(
        prog="benchmark_finetuning", description=__doc__
    )
    whole = arguments.positive_int
    add = parser.add_argument
    add("--output", default="", help="JSON file")
    add("--data-dir", required=True, help="folder of the tasks' folders")
    add("--tasks", default="mrpc,sst", help="to time (default: %(default)s)")
    add("--vocab-file", default="", help="vocabulary, without a checkpoint")
    add("--init-checkpoint", default="", help="a pre-trained model")
    add("--scores-task", default="", help="to score both ways on")
    for name, kind, default, text in (
        ("batch-size", whole, 32, "examples of a step"),
        ("max-seq-length", whole, 128, "tokens that are padded to"),
        ("num-steps", whole, 4, "steps of each way in each round"),
        ("num-rounds", whole, 8, "rounds"),
        ("num-warm-up-steps", whole, 3, "steps before anything is timed"),
        ("num-trials", whole, 3, "seeds of the scores section, at least 2"),
        ("num-train-epochs", float, 3.0, "epochs of the scores section"),
        ("learning-rate", float, 3e-4, "peak rate of the scores section"),
        ("num-intra-op-threads", int, 0, "as RunConfig has it"),
    ):
        add(
            f"--{name}",
            type=kind,
            default=default,
            help=f"{text} (default: %(default)s)",
        )
    add("--tiny", action="store_true", help="a model for trying this out")
    return parser


def _benchmark(args: argparse.Namespace) -> None:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
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
    result: dict[str, typing.Any] = {
        "flags": vars(args),
        "cpus": os.cpu_count(),
    }
    targets: dict[tuple[str, str], tuple[str, float]] = {}
    sections: dict[str, Callable[[], dict[str, typing.Any]]] = {}
    for task_name in args.tasks:
        sections[task_name] = functools.partial(measure_speed, args, task_name)
        targets[task_name, "ratio"] = _RATIO
    if args.scores_task:
        sections["scores"] = functools.partial(measure_scores, args)
        targets["scores", "difference_in_standard_errors"] = _NOISE
    noise: dict[str, float] = {}
    for name, measure in sections.items():
        result[name] = measure()
        for kind, share in result[name].get("noise", {}).items():
            noise[kind] = max(noise.get(kind, 0.0), share)
    benchmarking.report(result, noise, tuple(sections), targets, args.output)


def main(argv: Sequence[str] | None = None) -> int:
    """Measures; returns the exit code."""
    return arguments.run(_benchmark, make_parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
