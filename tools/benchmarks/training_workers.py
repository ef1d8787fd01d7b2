"""The contestants that train with TensorFlow: see worker.py.

Each takes the flags and settings of training.py as a namespace.
"""

import functools
import math
import os
import time

import contest
import numpy as np
import reference_graph
import tensorflow as tf
import training

from electra_tf import configs
from electra_tf.finetuning import batches as finetuning_batches
from electra_tf.model import ablations, costs, masking, task_head
from electra_tf.model.finetuning_model import FinetuningModel
from electra_tf.pretraining_data import batches
from electra_tf.training import (
    engine,
    local_cluster,
    matmul_rate,
    optimization,
    replicas,
)

_SPECIAL_IDS = masking.SpecialIds(*training.SPECIAL_IDS)


def _config(args) -> configs.ElectraConfig:
    encoder = contest.encoder_config(args.tiny)
    return configs.ElectraConfig(encoder, args.max_seq_length)


def _data(args) -> batches.PretrainingData:
    return batches.PretrainingData(
        f"{args.folder}/*.tfrecord", _config(args), 1
    )


def _optimizer(args) -> configs.OptimizerConfig:
    return configs.OptimizerConfig(
        learning_rate=args.learning_rate, num_warmup_steps=10_000
    )


def _run_config(args, **settings) -> configs.RunConfig:
    """Sets the policy that it names, too."""
    run = configs.RunConfig(
        model_dir=args.folder,
        num_train_steps=1_000_000,
        dtype_policy=getattr(args, "dtype_policy", "float32"),
        **settings,
    )
    replicas.set_policy(run)
    return run


def _training(args, make_model, run, dataset, strategy=None) -> engine.Engine:
    strategy = strategy or tf.distribute.get_strategy()
    with strategy.scope():
        model = make_model()
        return engine.Engine(
            strategy,
            model,
            model.training_loss,
            optimization.AdamWeightDecay(_optimizer(args), run.num_train_steps),
            run,
            args.batch_size,
            dataset,
        )


def _pretraining(args, strategy=None) -> engine.Engine:
    """On one device each core has a part of the batch."""
    cores = math.gcd(args.batch_size, os.cpu_count() or 1)
    return _training(
        args,
        lambda: ablations.make_model(_config(args), _SPECIAL_IDS),
        _run_config(args, num_parallel_parts=1 if strategy else cores),
        _data(args).dataset,
        strategy,
    )


def _run(trained: engine.Engine, loss: str = "total_loss") -> contest.Run:
    def run(num_steps: int) -> dict:
        metrics = trained.train(tf.constant(num_steps))
        return {"loss": float(metrics[loss])}

    return run


def pretrain(args) -> contest.Run:
    """electra_tf on one device, with the threads that it is fastest with."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    return _run(_pretraining(args))


def mirrored(args) -> contest.Run:
    """Two replicas on two logical devices of one process."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * 2
    )
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    return _run(_pretraining(args, strategy))


def cluster_worker(args) -> contest.Run:
    """One of the processes of `two_processes`."""
    os.environ["TF_CONFIG"] = args.tf_config
    tf.config.threading.set_intra_op_parallelism_threads(1)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    return _run(_pretraining(args, strategy))


def two_processes(args) -> contest.Run:
    """Two workers that train together: this process and one that it starts."""
    ports = local_cluster.free_ports(2)
    args.tf_config = local_cluster.tf_config(ports, 1)
    other = contest.Process("training_workers.cluster_worker", vars(args))
    args.tf_config = local_cluster.tf_config(ports, 0)
    train = cluster_worker(args)

    def run(num_steps: int) -> dict:
        start = time.process_time()
        other.ask(num_steps)
        figures = train(num_steps)
        cpu_seconds = other.answer()["cpu_seconds"]
        cpu_seconds += time.process_time() - start
        return figures | {"cpu_seconds": cpu_seconds}

    return run


def reference(args) -> contest.Run:
    """The original's way, from the same weights on the same records.

    Every operation has all cores, with which it is fastest.
    """
    model = ablations.make_model(_config(args), _SPECIAL_IDS)
    graph = reference_graph.ReferenceGraph(
        _config(args),
        _optimizer(args),
        1_000_000,
        _SPECIAL_IDS,
        {v.path: v.numpy() for v in model.trainable_variables},
    )

    def without_noise(features):
        return {k: v for k, v in features.items() if k != "noise"}

    iterator = iter(_data(args).dataset(args.batch_size).map(without_noise))

    def run(num_steps: int) -> dict:
        return {"loss": float(graph.train(iterator, tf.constant(num_steps)))}

    return run


def products(args) -> contest.Run:
    """The FLOPs of a step at the rate of large matrix products."""
    is_bfloat16 = hasattr(args, "dtype_policy")
    step = costs.of_training_example(ablations.networks(_config(args)))
    step *= args.batch_size

    def run(num_steps: int) -> dict:
        rate = matmul_rate.cpu_rate("bfloat16" if is_bfloat16 else "float32")
        seconds = num_steps * step / rate
        cpu_seconds = seconds * matmul_rate.num_cores()
        return {"seconds": seconds, "cpu_seconds": cpu_seconds}

    return run


def finetune(args) -> contest.Run:
    """electra_tf, rows of similar length in a batch unless `args` say no."""
    run = _run_config(args, seed=0)
    config = contest.encoder_config(args.tiny)
    head = task_head.TaskHead("classification", "rows", ("no", "yes"), 2)
    with np.load(f"{args.folder}/rows.npz") as file:
        features = {name: file[name] for name in file.files}
    features["rows_label_ids"] = features.pop("label_ids")
    dataset = functools.partial(
        finetuning_batches.train_dataset,
        features,
        run.seed,
        bucketed=getattr(args, "bucketed", True),
    )
    trained = _training(
        args,
        lambda: FinetuningModel(config, [task_head.make_head(head, config)]),
        run,
        dataset,
    )
    return _run(trained, "loss")
