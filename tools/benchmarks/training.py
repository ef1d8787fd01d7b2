"""Measures how fast a pre-training step is, and what it loses around it.

    python tools/benchmarks/training.py --output=benchmark.json

The step is the product's own, through `engine.Engine`, on TFRecords that are
made for the purpose. Sections:

* speed: examples/s of --contestants, side by side, by the clock and by CPU
  seconds, and the share of the matrix product rate that ours reach, measured in
  between (MFU; the log of a run has the same). Each is a process of its own
  with the threads that it is fastest with:
  - reference: the same arithmetic done the original's way
    (tools/benchmarks/reference_graph.py), every operation on all cores;
  - transformers: its ELECTRA under PyTorch (tools/benchmarks/
    transformers_training.py), in the environment of --interop-python; and the
    same with logits of the masked positions alone, transformers_masked;
  - ours: the product, a part of the batch on each core
    (RunConfig.num_parallel_parts).
  NAME_bfloat16 is the same with bfloat16 products: autocast there,
  mixed_bfloat16 here.
* recompilation: Python traces of the step after warm-up.
* input: share of the time that a step waits for its batch.
* around: what checkpoints and logging take from the throughput.
* memory: growth of the process over many steps of a small model.
* mirrored, processes: two replicas, in one process and in two, against one
  device on the same cores.

The batch is ELECTRA-Small's (gin/small.gin), which takes 9 GB of memory in
each contestant; --micro-batch-size=32 makes that a quarter for the product,
--batch-size=32 for all: 2 to 3.5 GB each.

A machine with other work on it is said so: believe its ratios, not its rates.
Of transformers believe neither there: PyTorch's CPU seconds grow as well, up to
five times, perhaps as its threads spin while they wait.
"""

import argparse
import collections
import contextlib
import io
import math
import os
import statistics
import sys
import tempfile
import time
import typing
from collections.abc import Callable

import benchmarking
import training_workers
import transformers_worker

from electra_tf.command_line import arguments

if typing.TYPE_CHECKING:
    import contestants

_BFLOAT16 = "_bfloat16"
CONTESTANTS = (
    "reference",
    "transformers",
    "transformers_bfloat16",
    "transformers_masked",
    "transformers_masked_bfloat16",
    "ours",
    "ours_bfloat16",
)
SECTIONS = (
    "speed",
    "recompilation",
    "input",
    "around",
    "memory",
    "mirrored",
    "processes",
)
# Section and figure -> whether it must be at least or at most, and what.
TARGETS = {
    ("speed", "ours_times_reference"): (">=", 1.3),
    ("speed", "ours_bfloat16_times_reference"): (">=", 4.0),
    ("speed", "ours_bfloat16_times_transformers_bfloat16"): (">=", 2.2),
    ("speed", "mfu"): (">=", 0.65),
    ("speed", "mfu_bfloat16"): (">=", 0.65),
    ("recompilation", "traces_after_warm_up"): ("<=", 0),
    ("input", "share_waiting"): ("<=", 0.02),
    ("around", "share_lost"): ("<=", 0.03),
    ("memory", "growth_mb"): ("<=", 20),
    ("mirrored", "overhead"): ("<=", 0.15),
    ("processes", "overhead"): ("<=", 0.15),
}


def start_contestants(args, config, pattern: str) -> dict[str, typing.Any]:
    """The processes of --contestants, which do nothing yet."""
    import contestants

    def transformers(**more) -> transformers_worker.Worker:
        return transformers_worker.Worker(
            args.interop_python,
            discriminator=transformers_worker.sizes(config.encoder),
            generator=transformers_worker.sizes(config.generator),
            # [PAD] is 0, [MASK] the last.
            special_ids=[0, *contestants.special_ids(config)],
            rows=os.path.join(os.path.dirname(pattern), contestants.ROWS),
            batch_size=args.batch_size,
            learning_rate=contestants.OPTIMIZER.learning_rate,
            **more,
        )

    started: dict[str, typing.Any] = {}
    for name in args.contestants:
        kind = name.removesuffix(_BFLOAT16)
        is_bfloat16 = name != kind
        if kind == "reference":
            started[name] = training_workers.Worker(
                "training_workers.reference", args, pattern
            )
        elif kind == "ours":
            started[name] = training_workers.Worker(
                "training_workers.product",
                args,
                "mixed_bfloat16" if is_bfloat16 else "float32",
                pattern,
            )
        else:
            started[name] = transformers(
                masked_alone=kind == "transformers_masked",
                is_bfloat16=is_bfloat16,
            )
    return started


def measure_speed(args, config, pattern: str) -> benchmarking.Figures:
    """The speed section."""
    from electra_tf.model import ablations, costs
    from electra_tf.training import matmul_rate

    ours = [name for name in args.contestants if name.startswith("ours")]
    dtypes = {
        name: "bfloat16" if name.endswith(_BFLOAT16) else "float32"
        for name in ours
    }
    rates: dict[str, list[float]] = collections.defaultdict(list)

    def measure_rates() -> None:
        for dtype in set(dtypes.values()):
            rates[dtype].append(matmul_rate.of_cpus(dtype))

    started = start_contestants(args, config, pattern)
    try:
        benchmarking.say(f"first steps of {', '.join(started)}")
        training_workers.all_ready(started.values(), 1)
        for worker in started.values():
            worker(args.num_warm_up_steps)
        figures = benchmarking.compare(
            started,
            args.batch_size,
            args.num_steps,
            args.num_rounds,
            measure_rates,
        )
    finally:
        for worker in started.values():
            worker.close()
    check_losses(figures["contestants"], config)
    per_example = costs.of_training_example(ablations.networks(config))
    for name in ours:
        found = figures["contestants"][name]
        peak = statistics.median(rates[dtypes[name]])
        of_a_core = peak / matmul_rate.num_cores()
        per_cpu_second = (
            args.batch_size * per_example / found["cpu_seconds_per_step"]
        )
        suffix = name.removeprefix("ours")
        figures |= {
            f"mfu{suffix}": found["examples_per_second"] * per_example / peak,
            f"mfu_of_cpu_seconds{suffix}": per_cpu_second / of_a_core,
            f"matmul_gflop_per_second{suffix}": peak / 1e9,
        }
    return figures | {"gflop_per_example": per_example / 1e9}


def check_losses(by_name: dict[str, benchmarking.Figures], config) -> None:
    """Whoever trains starts from the loss of knowing nothing.

    Raises:
      ValueError: If a loss is not finite, or the first is another one.
    """
    nothing_known = math.log(config.encoder.vocab_size) + (
        config.disc_weight * math.log(2)
    )
    for name, found in by_name.items():
        if not math.isfinite(found["last_loss"]):
            raise ValueError(f"{name}: the loss is {found['last_loss']}")
        if abs(found["first_loss"] / nothing_known - 1) > 0.2:
            raise ValueError(
                f"{name}: expected a first loss near {nothing_known:.2f}. "
                f"Received: {found['first_loss']:.2f}"
            )


def measure_recompilation(args, product: "contestants.Product") -> dict:
    """Traces of the step in further steps, in loops of several lengths."""
    before = product.num_traces
    for num_steps in (1, 2, args.num_steps):
        product(num_steps)
    return {
        "traces_after_warm_up": product.num_traces - before,
        "traces_in_warm_up": before,
    }


def measure_input(args, config, pattern: str, seconds_per_step: float) -> dict:
    """Waits for real records beside a step that has its batch already."""
    import contestants

    product = contestants.Product(
        config,
        pattern,
        args.batch_size,
        args.micro_batch_size,
        cached=True,
        is_parallel=True,
    )
    batches = iter(product.data.dataset(args.batch_size))
    next(batches)
    product(1)
    waits, start = 0.0, time.perf_counter()
    for _ in range(args.num_input_steps):
        asked = time.perf_counter()
        next(batches)
        waits += time.perf_counter() - asked
        product(1)
    total = time.perf_counter() - start
    # Alone, what the pipeline could deliver.
    begin = time.perf_counter()
    for _ in range(50):
        next(batches)
    alone = (time.perf_counter() - begin) / 50
    return {
        "share_waiting": waits / total,
        "pipeline_examples_per_second": args.batch_size / alone,
        "pipeline_share_of_step": alone / seconds_per_step,
    }


def measure_around(
    args, product: "contestants.Product", seconds_per_step: float
) -> dict:
    """Seconds of a checkpoint and of a look at the run, at gin's intervals."""
    import tensorflow as tf

    from electra_tf.training import saving

    saves = []
    with tempfile.TemporaryDirectory() as folder:
        manager = tf.train.CheckpointManager(
            saving.checkpointed_variables(
                product.engine.model,
                product.engine.optimizer,
                product.engine.global_step,
            ),
            folder,
            max_to_keep=1,
        )
        for number in range(4):
            start = time.perf_counter()
            manager.save(checkpoint_number=number)
            saves.append(time.perf_counter() - start)
    save = statistics.median(saves[1:])
    look = _seconds_of_a_look()
    of_saves = save / (args.save_checkpoints_steps * seconds_per_step)
    of_looks = look / (args.steps_per_loop * seconds_per_step)
    return {
        "share_lost": of_saves + of_looks,
        "seconds_of_a_checkpoint": save,
        "save_checkpoints_steps": args.save_checkpoints_steps,
        "seconds_of_a_look": look,
        "steps_per_loop": args.steps_per_loop,
    }


def _seconds_of_a_look(num_looks: int = 40) -> float:
    """Of `loop.train` with a model of one weight, whose step is nothing."""
    import contestants
    import keras
    import tensorflow as tf

    from electra_tf import configs
    from electra_tf.model import losses
    from electra_tf.training import loop

    def dataset(batch_size, first_step, shard):
        del first_step, shard
        features = {"x": tf.zeros([batch_size])}
        return tf.data.Dataset.from_tensors(features).repeat()

    def run_steps(steps_per_loop: int) -> float:
        model = keras.Model(name="one_weight")
        weight = model.add_weight(name="w", shape=(), initializer="zeros")
        model.built = True

        def loss_function(features, dropout_seed, all_reduce_sum):
            del features, dropout_seed
            total = all_reduce_sum(tf.constant(1.0))
            # About as many metrics as pre-training has.
            sums = {
                f"metric_{i}": losses.Sums(weight.value, total)
                for i in range(10)
            }
            return tf.square(weight.value - 1.0) / total, sums

        with tempfile.TemporaryDirectory() as folder:
            run = configs.RunConfig(
                folder,
                num_train_steps=2 * num_looks,
                steps_per_loop=steps_per_loop,
            )
            training = contestants.Training(
                tf.distribute.get_strategy(),
                model,
                loss_function,
                contestants.OPTIMIZER,
                run,
                1,
                dataset,
            )
            training(2)
            start = time.perf_counter()
            with contextlib.redirect_stderr(io.StringIO()):
                loop.train(
                    training.engine, run.num_train_steps, "", ("total_loss",)
                )
            return time.perf_counter() - start

    often, seldom = run_steps(1), run_steps(2 * num_looks)
    # The first step of each was trained before.
    return max(0.0, often - seldom) / (2 * num_looks)


def measure_memory(args) -> dict:
    """Resident memory before and after many steps of a small model."""
    import contestants

    config = contestants.make_config(True, args.max_seq_length)
    with tempfile.TemporaryDirectory() as folder:
        product = contestants.Product(
            config, contestants.write_examples(folder, config), 4
        )
        product(args.num_memory_steps // 5)
        before = _resident_mb()
        for _ in range(10):
            product(args.num_memory_steps // 10)
        growth = _resident_mb() - before
    return {"growth_mb": growth, "num_steps": args.num_memory_steps}


def _resident_mb() -> float:
    with open("/proc/self/statm", encoding="ascii") as f:
        pages = int(f.read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def measure_replicas(args, role: str, pattern: str) -> dict:
    """Two replicas against one device, in processes that take turns."""
    make = "training_workers.replicas"
    one = training_workers.Worker(make, args, "one_device", pattern)
    two = (
        training_workers.Cluster(args, pattern)
        if role == "processes"
        else training_workers.Worker(make, args, role, pattern)
    )
    try:
        for contestant in (one, two):
            contestant(args.num_warm_up_steps)
        alone, together = benchmarking.interleave(
            (one, two), args.num_steps, args.num_rounds
        )
    finally:
        one.close()
        two.close()
    overheads = [ratio - 1.0 for ratio in benchmarking.ratios(together, alone)]
    return benchmarking.spread("overhead", overheads) | {
        "one_device_seconds_per_step": statistics.median(alone),
        "seconds_per_step": statistics.median(together),
    }


def measure(args) -> tuple[dict, dict[str, float]]:
    """All sections that were asked for, and noise."""
    import contestants
    import tensorflow as tf

    config = contestants.make_config(args.tiny, args.max_seq_length)
    result: dict[str, benchmarking.Figures] = {}

    def run(name: str, section: Callable, *more) -> None:
        if name in args.sections:
            benchmarking.say(name)
            result[name] = section(args, *more)

    machine = benchmarking.Machine()
    with tempfile.TemporaryDirectory() as folder:
        pattern = contestants.write_examples(folder, config)
        # Workers first: this process holds no memory and no threads yet.
        for role in ("mirrored", "processes"):
            run(role, measure_replicas, role, pattern)
        tf.config.threading.set_intra_op_parallelism_threads(1)
        run("speed", measure_speed, config, pattern)
        if not set(args.sections) - {"mirrored", "processes", "speed"}:
            return result, _noise(machine, result)
        benchmarking.say("the product starts")
        product = contestants.Product(
            config,
            pattern,
            args.batch_size,
            args.micro_batch_size,
            is_parallel=True,
        )
        product(args.num_warm_up_steps)
        seconds_per_step = product(args.num_steps) / args.num_steps
        run("recompilation", measure_recompilation, product)
        run("input", measure_input, config, pattern, seconds_per_step)
        run("around", measure_around, product, seconds_per_step)
        run("memory", measure_memory)
    return result, _noise(machine, result)


def _noise(machine: benchmarking.Machine, result: dict) -> dict[str, float]:
    return machine.shares() | result.get("speed", {}).get("noise", {})


def _benchmark(args: argparse.Namespace) -> None:
    args.sections = benchmarking.chosen(args.sections, SECTIONS, "sections")
    args.contestants = benchmarking.chosen_contestants(
        args.contestants, CONTESTANTS, args.interop_python
    )
    whole = benchmarking.write(args, *measure(args), SECTIONS, TARGETS)
    benchmarking.report(args, whole, SECTIONS, TARGETS)


def main(argv=None) -> int:
    """Measures; returns the exit code."""
    parser = benchmarking.make_parser(
        "benchmark_training",
        __doc__,
        {
            "--batch-size": (128, "examples of a step"),
            "--max-seq-length": (128, "tokens of an example"),
            "--num-steps": (1, "steps of each contestant in each round"),
            "--num-rounds": (6, "rounds"),
            "--num-warm-up-steps": (2, "steps before anything is timed"),
            "--num-input-steps": (10, "steps of the input section"),
            "--num-memory-steps": (500, "steps of the memory section"),
            "--save-checkpoints-steps": (1000, "as RunConfig has it"),
            "--steps-per-loop": (100, "as RunConfig has it"),
        },
        SECTIONS,
    )
    parser.add_argument(
        "--micro-batch-size",
        type=arguments.positive_int,
        default=0,
        help="examples that the product works on at once (default: all)",
    )
    benchmarking.add_contestants(parser, "reference,ours")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    return arguments.run(_benchmark, parser, argv)


if __name__ == "__main__":
    sys.exit(main())
