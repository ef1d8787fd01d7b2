"""Measures how fast a pre-training step is, and what it loses around it.

    python tools/benchmarks/training.py --output=benchmark.json

JSON goes to --output or stdout, a table to stderr. The step is the product's
own, through `training.Engine`, on TFRecords that are made for the purpose. What
is compared is interleaved (A B B A ...), so that a machine whose speed drifts
changes both alike, and ratios are taken within a round. Sections:

* speed: examples/s, FLOP/s and their share of the float32 matrix product rate
  measured in between (MFU), against the same arithmetic done the original's
  way (tools/benchmarks/reference_graph.py). Each is a process of its own with
  the threads that it is fastest with: the reference shares every operation
  among the cores, the product has a part of the batch on each
  (RunConfig.num_parallel_parts).
* recompilation: Python traces of the step after warm-up.
* input: share of the time that a step waits for its batch.
* around: what checkpoints and logging take from the throughput.
* memory: growth of the process over many steps of a small model.
* mirrored, processes: two replicas, in one process and in two, against one
  device on the same cores.

The batch is ELECTRA-Small's (gin/small.gin), which takes 9 GB of memory in
each contestant, 18 in all. --micro-batch-size=32 makes that a quarter for the
product, --batch-size=32 for both.

A machine with other work on it is said so: believe its ratios, not its rates.
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import typing
from collections.abc import Sequence

from electra_tf.command_line import arguments

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
    ("speed", "ratio"): (">=", 1.3),
    ("speed", "mfu"): (">=", 0.60),
    ("recompilation", "traces_after_warm_up"): ("<=", 0),
    ("input", "share_waiting"): ("<=", 0.02),
    ("around", "share_lost"): ("<=", 0.03),
    ("memory", "growth_mb"): ("<=", 20),
    ("mirrored", "overhead"): ("<=", 0.15),
    ("processes", "overhead"): ("<=", 0.15),
}
# Squares whose rate is the machine's; the largest of their medians counts.
_SQUARES = (1024, 2048)
# What a worker is asked beside numbers of steps.
_MATMUL_RATES = "matmul rates"
# Of the public vocabulary of the released uncased models.
_SPECIAL_IDS = (101, 102, 103)
_NUM_EXAMPLES = 2000


def make_config(args) -> typing.Any:
    """The model: ELECTRA-Small, or a small one for the memory section."""
    from electra_tf import configs

    if args.tiny:
        encoder = configs.EncoderConfig(200, 16, 2, 2, 32, 8)
    else:
        encoder = configs.EncoderConfig(30522, 256, 12, 4, 1024, 128)
    return configs.ElectraConfig(encoder, args.max_seq_length)


def special_ids(config) -> typing.Any:
    from electra_tf.model import masking

    small = config.encoder.vocab_size <= max(_SPECIAL_IDS)
    return masking.SpecialIds(*((2, 3, 4) if small else _SPECIAL_IDS))


def write_examples(folder: str, config) -> str:
    """TFRecords of random words; one in twenty is short, as in real data.

    Returns:
      Their glob.
    """
    import numpy as np
    import tensorflow as tf

    rng = np.random.default_rng(0)
    ids = special_ids(config)
    length, vocab_size = config.max_seq_length, config.encoder.vocab_size
    for file in range(4):
        path = os.path.join(folder, f"{file}.tfrecord")
        with tf.io.TFRecordWriter(path) as writer:
            for _ in range(_NUM_EXAMPLES // 4):
                is_short = rng.random() < 0.05
                tokens = rng.integers(4, length) if is_short else length
                words = rng.integers(
                    max(ids) + 1, vocab_size, tokens - 2
                ).tolist()
                padding = [0] * (length - tokens)
                values = {
                    "input_ids": [ids.cls, *words, ids.sep, *padding],
                    "input_mask": [1] * tokens + padding,
                    "segment_ids": [0] * length,
                }
                example = tf.train.Example()
                for name, numbers in values.items():
                    feature = example.features.feature[name]
                    feature.int64_list.value.extend(numbers)
                writer.write(example.SerializeToString())
    return os.path.join(folder, "*.tfrecord")


class Product:
    """The product's training, ready to be timed.

    Args:
      config: The model.
      pattern: Of the TFRecords.
      batch_size: Examples of a step.
      micro_batch_size: As RunConfig has it.
      strategy: Of the replicas; None for one device.
      cached: Trains on one batch again and again.
      is_parallel: Whether each core has a part of the batch.

    Attributes:
      engine: A training.Engine.
      num_traces: How often Python has run the step's code.
    """

    def __init__(
        self,
        config,
        pattern,
        batch_size,
        micro_batch_size=0,
        strategy=None,
        cached=False,
        is_parallel=False,
    ):
        import keras
        import tensorflow as tf

        from electra_tf import configs, pretraining
        from electra_tf.model import electra
        from electra_tf.pretraining_data import batches as batches_lib
        from electra_tf.training import engine as engine_lib
        from electra_tf.training import optimization

        self.num_traces = 0
        strategy = strategy or tf.distribute.get_strategy()
        of_a_replica = batch_size // strategy.num_replicas_in_sync
        at_once = min(micro_batch_size or of_a_replica, of_a_replica)
        run = configs.RunConfig(
            model_dir=os.path.dirname(pattern),
            num_train_steps=1_000_000,
            micro_batch_size=micro_batch_size,
            num_parallel_parts=(
                math.gcd(at_once, os.cpu_count() or 1) if is_parallel else 1
            ),
        )
        keras.utils.set_random_seed(run.seed)
        data = batches_lib.PretrainingData(pattern, config, run.seed)

        def dataset(*shape):
            batches = data.dataset(*shape)
            return batches.take(1).cache().repeat() if cached else batches

        with strategy.scope():
            model = electra.PretrainingModel(config, special_ids(config))
            optimizer = optimization.AdamWeightDecay(
                make_optimizer_config(), run.num_train_steps
            )
            optimizer.build(model.trainable_variables)
            loss_function = pretraining.make_loss_function(model)

            def counting(*args):
                self.num_traces += 1
                return loss_function(*args)

            self.engine = engine_lib.Engine(
                strategy, model, counting, optimizer, run, batch_size, dataset
            )
        self.data = data

    def __call__(self, num_steps: int) -> float:
        """Runs some steps; returns their seconds."""
        import tensorflow as tf

        start = time.perf_counter()
        self.engine.train(tf.constant(num_steps))
        return time.perf_counter() - start


def make_optimizer_config() -> typing.Any:
    from electra_tf import configs

    return configs.OptimizerConfig(learning_rate=5e-4)


class Reference:
    """The reference graph on the same records, from the same weights."""

    def __init__(self, product: Product, config, batch_size: int):
        import reference_graph

        weights = {
            v.path: v.numpy() for v in product.engine.model.trainable_variables
        }
        self._graph = reference_graph.ReferenceGraph(
            config,
            make_optimizer_config(),
            product.engine.run.num_train_steps,
            tuple(special_ids(config)),
            weights,
        )

        def without_noise(features):
            return {k: v for k, v in features.items() if k != "noise"}

        self._iterator = iter(
            product.data.dataset(batch_size).map(without_noise)
        )

    def __call__(self, num_steps: int) -> float:
        """Runs some steps; returns their seconds."""
        import tensorflow as tf

        start = time.perf_counter()
        self._graph.train(self._iterator, tf.constant(num_steps)).numpy()
        return time.perf_counter() - start


class MatmulRate:
    """The machine's rate at float32 matrix products, in FLOP/s.

    Args:
      shapes: (m, k, n) of the products.
    """

    def __init__(self, shapes: Sequence[tuple[int, int, int]]):
        import tensorflow as tf

        self._cases = {}
        for m, k, n in shapes:
            a, b = tf.random.normal([m, k]), tf.random.normal([k, n])
            repeats = max(1, int(1e10 / (2 * m * k * n)))
            self._cases[m, k, n] = (self._make(a, b, repeats), repeats)
        self.measure()

    @staticmethod
    def _make(a, b, repeats):
        import tensorflow as tf

        @tf.function
        def multiply():
            total = tf.constant(0.0)
            for _ in tf.range(repeats):
                # What a loop changes is not computed once and for all.
                total += tf.matmul(a + total * 0.0, b)[0, 0]
            return total

        return multiply

    def measure(self) -> dict[str, float]:
        """The rate by shape, such as "1024x1024x1024"."""
        rates = {}
        for (m, k, n), (multiply, repeats) in self._cases.items():
            start = time.perf_counter()
            multiply().numpy()
            seconds = time.perf_counter() - start
            rates[_shape_name((m, k, n))] = 2 * m * k * n * repeats / seconds
        return rates


def _shape_name(shape: tuple[int, int, int]) -> str:
    return "x".join(map(str, shape))


def square_shapes() -> list[tuple[int, int, int]]:
    return [(n, n, n) for n in _SQUARES]


def model_shapes(config, batch_size: int) -> list[tuple[int, int, int]]:
    """The products that a step of this model has most of."""
    tokens = batch_size * config.max_seq_length
    hidden = config.encoder.hidden_size
    wide = config.encoder.intermediate_size
    scored = batch_size * config.max_predictions_per_seq
    return [
        (tokens, hidden, hidden),
        (tokens, hidden, wide),
        (tokens, wide, hidden),
        (hidden, tokens, wide),
        (scored, config.encoder.embedding_size, config.encoder.vocab_size),
    ]


def measure_speed(args, config, product: Product, reference: "Worker") -> dict:
    """The speed section."""
    import benchmarking

    from electra_tf.model import flops

    machine = benchmarking.Machine()
    ours_cpu_seconds: list[float] = []
    theirs_cpu_seconds: list[float] = []
    rates: dict[str, list[float]] = {}

    def of_product(num_steps: int) -> float:
        start = time.process_time()
        seconds = product(num_steps)
        ours_cpu_seconds.append((time.process_time() - start) / num_steps)
        return seconds

    def of_reference(num_steps: int) -> float:
        seconds = reference(num_steps)
        theirs_cpu_seconds.append(reference.cpu_seconds / num_steps)
        return seconds

    def measure_rates() -> None:
        for shape, rate in reference.measure_matmul_rates().items():
            rates.setdefault(shape, []).append(rate)

    ours, theirs = benchmarking.interleave(
        (of_product, of_reference),
        args.num_steps,
        args.num_rounds,
        measure_rates,
    )
    ours_cpu = statistics.median(ours_cpu_seconds)
    theirs_cpu = statistics.median(theirs_cpu_seconds)
    medians = {
        shape: statistics.median(found) for shape, found in rates.items()
    }
    squares = [_shape_name(shape) for shape in square_shapes()]
    matmul_rate = max(medians[s] for s in squares)
    per_example = flops.of_training_example(config)
    achieved = [args.batch_size * per_example / s for s in ours]
    ratios = benchmarking.spread(
        [b / a for a, b in zip(ours, theirs, strict=True)]
    )
    # Its seconds count as this program's once it has ended.
    reference.close()
    noise = machine.shares()
    noise["spread"] = (ratios["upper"] - ratios["lower"]) / ratios["median"]
    # Time of products is compared with those just before and after.
    around = rates[max(squares, key=lambda s: medians[s])]
    mfu = benchmarking.spread(
        [a / statistics.mean(around[i : i + 2]) for i, a in enumerate(achieved)]
    )
    return {
        "ratio": ratios["median"],
        "ratio_quartiles": [ratios["lower"], ratios["upper"]],
        "mfu": mfu["median"],
        "mfu_quartiles": [mfu["lower"], mfu["upper"]],
        "examples_per_second": args.batch_size / statistics.median(ours),
        "reference_examples_per_second": (
            args.batch_size / statistics.median(theirs)
        ),
        "seconds_per_step": statistics.median(ours),
        "reference_seconds_per_step": statistics.median(theirs),
        # Of all cores together: hardly changed by other work on the machine.
        "cpu_seconds_per_step": ours_cpu,
        "reference_cpu_seconds_per_step": theirs_cpu,
        "cpu_ratio": theirs_cpu / ours_cpu,
        "gflop_per_second": statistics.median(achieved) / 1e9,
        "gflop_per_example": per_example / 1e9,
        "matmul_gflop_per_second": matmul_rate / 1e9,
        "matmul_gflop_per_second_by_shape": {
            shape: rate / 1e9 for shape, rate in medians.items()
        },
        "noise": noise,
    }


def measure_recompilation(args, product: Product) -> dict:
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
    product = Product(
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


def measure_around(args, product: Product, seconds_per_step: float) -> dict:
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
    """Of `training.train` with a model of one weight, whose step is nothing."""
    import contextlib
    import io

    import keras
    import tensorflow as tf

    from electra_tf import configs
    from electra_tf.model import losses
    from electra_tf.training import engine as engine_lib
    from electra_tf.training import loop, optimization

    def run_steps(steps_per_loop: int) -> float:
        with tempfile.TemporaryDirectory() as folder:
            run = configs.RunConfig(
                folder,
                num_train_steps=2 * num_looks,
                steps_per_loop=steps_per_loop,
            )
            model = keras.Model(name="one_weight")
            weight = model.add_weight(name="w", shape=(), initializer="zeros")
            model.built = True
            optimizer = optimization.AdamWeightDecay(
                make_optimizer_config(), run.num_train_steps
            )
            optimizer.build(model.trainable_variables)

            def loss_function(features, dropout_seed, all_reduce_sum):
                del features, dropout_seed
                total = all_reduce_sum(tf.constant(1.0))
                # About as many metrics as pre-training has.
                sums = {
                    f"metric_{i}": losses.Sums(weight.value, total)
                    for i in range(10)
                }
                return tf.square(weight.value - 1.0) / total, sums

            def dataset(batch_size, first_step, shard):
                del first_step, shard
                return tf.data.Dataset.from_tensors(
                    {"x": tf.zeros([batch_size])}
                ).repeat()

            engine = engine_lib.Engine(
                tf.distribute.get_strategy(),
                model,
                loss_function,
                optimizer,
                run,
                1,
                dataset,
            )
            engine.train(tf.constant(2))
            start = time.perf_counter()
            with contextlib.redirect_stderr(io.StringIO()):
                loop.train(engine, run.num_train_steps, "", ("total_loss",))
            return time.perf_counter() - start

    often, seldom = run_steps(1), run_steps(2 * num_looks)
    # The first step of each was trained before.
    return max(0.0, often - seldom) / (2 * num_looks)


def measure_memory(args) -> dict:
    """Resident memory before and after many steps of a small model."""
    tiny = argparse.Namespace(**(vars(args) | {"tiny": True}))
    config = make_config(tiny)
    with tempfile.TemporaryDirectory() as folder:
        product = Product(config, write_examples(folder, config), 4)
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


class Worker:
    """Another process of this program, which trains when it is told to.

    Args:
      args: Flags of this process.
      role: See `work`.
      pattern: Of the TFRecords.
      environment: What its environment has beside ours.

    Attributes:
      cpu_seconds: Of all its threads, in the steps of the last answer.
    """

    def __init__(self, args, role: str, pattern: str, environment=None):
        flags = [f"--worker={role}", f"--pattern={pattern}"]
        flags += [
            f"--{name}={getattr(args, name.replace('-', '_'))}"
            for name in ("batch-size", "max-seq-length")
        ]
        if args.micro_batch_size:
            flags.append(f"--micro-batch-size={args.micro_batch_size}")
        self._process = subprocess.Popen(
            [sys.executable, __file__, *flags, *(["--tiny"] * args.tiny)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | (environment or {}),
        )

        self.cpu_seconds = 0.0

    def ask(self, request: int | str) -> None:
        """Asks for a number of steps, or for what the role has besides."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{request}\n")
        self._process.stdin.flush()

    def _answer(self) -> dict[str, float]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ValueError("A worker process ended: see its message above")
        return json.loads(line)

    def seconds(self) -> float:
        """The answer to a number of steps."""
        answer = self._answer()
        self.cpu_seconds = answer["cpu_seconds"]
        return answer["seconds"]

    def __call__(self, num_steps: int) -> float:
        self.ask(num_steps)
        return self.seconds()

    def measure_matmul_rates(self) -> dict[str, float]:
        """See `MatmulRate`; of the role "reference"."""
        self.ask(_MATMUL_RATES)
        return self._answer()

    def close(self) -> None:
        self._process.communicate("")


class _ReferenceAndRate(typing.NamedTuple):
    """What the role "reference" answers."""

    reference: Reference
    rate: MatmulRate

    def __call__(self, num_steps: int) -> float:
        return self.reference(num_steps)

    def measure(self) -> dict[str, float]:
        return self.rate.measure()


def _reference_and_rate(args) -> _ReferenceAndRate:
    import tensorflow as tf

    # A function for each shape of products is meant to be traced anew.
    tf.get_logger().setLevel("ERROR")
    config = make_config(args)
    # Supplies the initial weights and the records.
    product = Product(config, args.pattern, args.batch_size)
    shapes = square_shapes() + model_shapes(config, args.batch_size)
    return _ReferenceAndRate(
        Reference(product, config, args.batch_size), MatmulRate(shapes)
    )


class Cluster:
    """Two worker processes that train together."""

    def __init__(self, args, pattern: str):
        import socket

        ports = []
        for _ in range(2):
            with socket.socket() as free:
                free.bind(("localhost", 0))
                ports.append(free.getsockname()[1])
        hosts = [f"localhost:{port}" for port in ports]
        self._workers = [
            Worker(
                args,
                "processes",
                pattern,
                {
                    "TF_CONFIG": json.dumps(
                        {
                            "cluster": {"worker": hosts},
                            "task": {"type": "worker", "index": index},
                        }
                    )
                },
            )
            for index in range(2)
        ]

    def __call__(self, num_steps: int) -> float:
        for worker in self._workers:
            worker.ask(num_steps)
        return max(worker.seconds() for worker in self._workers)

    def close(self) -> None:
        for worker in self._workers:
            worker.ask(0)
        for worker in self._workers:
            worker.close()


def work(args) -> None:
    """The life of a `Worker`: answers numbers of steps with seconds.

    Roles: "one_device"; "mirrored", two logical devices of this process;
    "processes", one of two processes; "reference", which also answers
    `_MATMUL_RATES`.
    """
    contestant: typing.Any = (
        _reference_and_rate(args)
        if args.worker == "reference"
        else _replicas(args)
    )
    for line in sys.stdin:
        request = line.strip()
        if request == "0":
            break
        if request == _MATMUL_RATES:
            print(json.dumps(contestant.measure()), flush=True)
            continue
        start = time.process_time()
        seconds = contestant(int(request))
        cpu_seconds = time.process_time() - start
        answer = {"seconds": seconds, "cpu_seconds": cpu_seconds}
        print(json.dumps(answer), flush=True)


def _replicas(args) -> Product:
    import tensorflow as tf

    strategy = None
    tf.config.threading.set_intra_op_parallelism_threads(1)
    if args.worker == "mirrored":
        (cpu,) = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * 2
        )
        strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    elif args.worker == "processes":
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
    return Product(
        make_config(args),
        args.pattern,
        args.batch_size,
        args.micro_batch_size,
        strategy,
        is_parallel=strategy is None,
    )


def measure_replicas(args, role: str, pattern: str) -> dict:
    """Two replicas against one device, in processes that take turns."""
    import benchmarking

    one = Worker(args, "one_device", pattern)
    two = (
        Cluster(args, pattern)
        if role == "processes"
        else Worker(args, role, pattern)
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
    overheads = benchmarking.spread(
        [b / a - 1.0 for a, b in zip(alone, together, strict=True)]
    )
    return {
        "overhead": overheads["median"],
        "overhead_quartiles": [overheads["lower"], overheads["upper"]],
        "one_device_seconds_per_step": statistics.median(alone),
        "seconds_per_step": statistics.median(together),
    }


def _say(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what} ...", file=sys.stderr)


def measure(args) -> tuple[dict, dict[str, float]]:
    """All sections that were asked for, and noise."""
    import benchmarking
    import tensorflow as tf

    config = make_config(args)
    result: dict[str, typing.Any] = {
        "flags": vars(args),
        "cpus": os.cpu_count(),
    }
    machine = benchmarking.Machine()
    with tempfile.TemporaryDirectory() as folder:
        pattern = write_examples(folder, config)
        # Workers first: this process holds no memory and no threads yet.
        for section in ("mirrored", "processes"):
            if section in args.sections:
                _say(section)
                result[section] = measure_replicas(args, section, pattern)
        if not set(args.sections) - {"mirrored", "processes"}:
            return result, machine.shares()
        reference = None
        if "speed" in args.sections:
            _say("the reference starts")
            reference = Worker(args, "reference", pattern)
            reference(args.num_warm_up_steps)
        tf.config.threading.set_intra_op_parallelism_threads(1)
        _say("the product starts")
        product = Product(
            config,
            pattern,
            args.batch_size,
            args.micro_batch_size,
            is_parallel=True,
        )
        product(args.num_warm_up_steps)
        seconds_per_step = product(args.num_steps) / args.num_steps
        if "recompilation" in args.sections:
            _say("recompilation")
            result["recompilation"] = measure_recompilation(args, product)
        if reference is not None:
            _say("speed")
            result["speed"] = measure_speed(args, config, product, reference)
            seconds_per_step = result["speed"]["seconds_per_step"]
        if "input" in args.sections:
            _say("input")
            result["input"] = measure_input(
                args, config, pattern, seconds_per_step
            )
        if "around" in args.sections:
            _say("around")
            result["around"] = measure_around(args, product, seconds_per_step)
        if "memory" in args.sections:
            _say("memory")
            result["memory"] = measure_memory(args)
    noise = machine.shares() | result.get("speed", {}).get("noise", {})
    return result, noise


def make_parser() -> arguments.ArgumentParser:
    """The flags of this tool."""
    parser = arguments.ArgumentParser(
        prog="benchmark_training", description=__doc__
    )
    whole = arguments.positive_int
    parser.add_argument("--output", default="", help="JSON file")
    parser.add_argument(
        "--sections",
        default=",".join(SECTIONS),
        help="what to measure, separated by commas (default: %(default)s)",
    )
    for name, default, text in (
        ("batch-size", 128, "examples of a step"),
        ("max-seq-length", 128, "tokens of an example"),
        ("num-steps", 1, "steps of each contestant in each round"),
        ("num-rounds", 6, "rounds"),
        ("num-warm-up-steps", 2, "steps before anything is timed"),
        ("num-input-steps", 10, "steps of the input section"),
        ("num-memory-steps", 500, "steps of the memory section"),
        ("save-checkpoints-steps", 1000, "as RunConfig has it"),
        ("steps-per-loop", 100, "as RunConfig has it"),
    ):
        parser.add_argument(
            f"--{name}",
            type=whole,
            default=default,
            help=f"{text} (default: %(default)s)",
        )
    parser.add_argument(
        "--micro-batch-size",
        type=whole,
        default=0,
        help="examples that the product works on at once (default: all)",
    )
    parser.add_argument(
        "--tiny", action="store_true", help="a model for trying this out"
    )
    parser.add_argument("--worker", default="", help=argparse.SUPPRESS)
    parser.add_argument("--pattern", default="", help=argparse.SUPPRESS)
    return parser


def _benchmark(args: argparse.Namespace) -> None:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = os.environ.get(
        "TF_CPP_MIN_LOG_LEVEL", "3"
    )
    if args.worker:
        work(args)
        return
    import benchmarking

    args.sections = benchmarking.chosen_sections(args.sections, SECTIONS)
    result, noise = measure(args)
    benchmarking.report(result, noise, SECTIONS, TARGETS, args.output)


def main(argv: Sequence[str] | None = None) -> int:
    """Measures; returns the exit code."""
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    return arguments.run(_benchmark, make_parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
