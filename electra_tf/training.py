"""The training engine: strategy, step, loop, checkpoints, evaluation.

The only user of tf.distribute and of dtype policies. Orbit drives the outer
loop; pre-training and fine-tuning both run on it.
"""

import contextlib
import json
import math
import os
import signal
import sys
import time
import typing
from collections.abc import Callable, Sequence

import keras
import orbit
import tensorflow as tf

from electra_tf import (
    configs,
    losses,
    metrics_log,
    optimization,
    pretraining_data,
    progress,
)
from electra_tf.command_line import write_atomically

# In a model directory: the checkpoint that was best on held-out examples.
BEST_DIR = "best"

# The file that C++ writes its messages to.
_STDERR = 2

# Of gradients that travel together between CPUs: 16 MB are as fast, all at once
# or 1 MB take a third longer (docs/performance.md).
_PACK_BYTES = 4 * 2**20

# Metrics that say how fast a run is, which no two runs have in common.
SPEED_METRICS = ("examples_per_second", "gflop_per_second", "mfu")

# Takes (features, dropout_seed, all_reduce_sum); returns this replica's share
# of the loss <float32>[] and the sums that become metrics. What the loss is
# divided by goes through `all_reduce_sum`, <float32>[] in each call, and the
# features' share of it is the sum over their examples.
LossFunction = Callable[..., tuple[tf.Tensor, dict[str, losses.Sums]]]


class TrainingError(RuntimeError):
    """A run that cannot go on; the message is for the user."""


class Stopped(RuntimeError):
    """The run was told to stop, and has saved its state."""


# Takes (batch size of a part, first step, Shard); returns a dataset of parts.
MakeDataset = Callable[[int, int, pretraining_data.Shard], tf.data.Dataset]


def make_strategy(run: configs.RunConfig) -> tf.distribute.Strategy:
    """The distribution strategy that a run asks for.

    To be called before any operation runs: workers meet only at the start.

    Raises:
      ConfigError: If this machine, or the cluster, has no such thing.
    """
    # Imported here: tf-models-official takes a while.
    from official.common import distribute_utils

    try:
        if run.distribution_strategy == "multi_worker_mirrored":
            return tf.distribute.MultiWorkerMirroredStrategy(
                cluster_resolver=make_cluster_resolver(run)
            )
        return distribute_utils.get_distribution_strategy(
            distribution_strategy=run.distribution_strategy,
            num_gpus=run.num_gpus,
            tpu_address=run.tpu,
        )
    except configs.ConfigError:
        raise
    except (ValueError, RuntimeError, tf.errors.OpError) as error:
        raise configs.ConfigError(
            "Cannot set up RunConfig.distribution_strategy="
            f"{run.distribution_strategy!r} with num_gpus={run.num_gpus}: "
            f"{str(error).splitlines()[0]}"
        ) from None


def make_cluster_resolver(
    run: configs.RunConfig,
) -> tf.distribute.cluster_resolver.ClusterResolver:
    """What knows the addresses of all workers, and which of them this is.

    Raises:
      ConfigError: If the environment does not say so.
    """
    if run.cluster_resolver == "slurm":
        _require_environment(run, "SLURM_PROCID", "start it with srun")
        resolver = tf.distribute.cluster_resolver.SlurmClusterResolver(
            # Without GPUs it fails: let it think that each task has one.
            gpus_per_node=run.num_gpus or 1_000,
            gpus_per_task=None if run.num_gpus else 1,
            auto_set_gpu=bool(run.num_gpus),
        )
        cluster = resolver.cluster_spec()  # Sets its task_id.
        return _fixed_resolver(
            cluster,
            resolver.task_id,
            resolver.num_accelerators()["GPU"] if run.num_gpus else 0,
        )
    if run.cluster_resolver == "kubernetes":
        return _kubernetes_resolver(run)
    _require_environment(
        run,
        "TF_CONFIG",
        "see docs/scaling.md, or try it on this machine with "
        "tools/launch_local_cluster.py",
    )
    return tf.distribute.cluster_resolver.TFConfigClusterResolver()


def _require_environment(run: configs.RunConfig, name: str, hint: str) -> None:
    if not os.environ.get(name):
        raise configs.ConfigError(
            f"RunConfig.cluster_resolver={run.cluster_resolver!r} needs the "
            f"environment variable {name}: {hint}"
        )


def _kubernetes_resolver(run: configs.RunConfig):
    """Pods of one label, which are on the network of their hosts."""
    _require_environment(
        run, "HOST_IP", "take it from status.hostIP, see docs/scaling.md"
    )
    try:
        from kubernetes import client, config
    except ImportError:
        raise configs.ConfigError(
            "RunConfig.cluster_resolver='kubernetes' needs the package "
            "kubernetes: pip install kubernetes"
        ) from None
    # The resolver by itself looks for the configuration of a user's machine.
    config.load_incluster_config()
    resolver = tf.distribute.cluster_resolver.KubernetesClusterResolver(
        {"worker": [run.kubernetes_selector]},
        override_client=client.CoreV1Api(),
    )
    cluster = resolver.cluster_spec()
    workers = cluster.as_dict()["worker"]
    hosts = [address.rsplit(":", 1)[0] for address in workers]
    if os.environ["HOST_IP"] not in hosts:
        raise configs.ConfigError(
            f"Expected a pod with {run.kubernetes_selector} on the host "
            f"{os.environ['HOST_IP']}, found pods on: {', '.join(hosts)}"
        )
    return _fixed_resolver(
        cluster, hosts.index(os.environ["HOST_IP"]), run.num_gpus
    )


def _fixed_resolver(cluster, task_id: int, num_gpus: int):
    """Answers what another resolver found out, without looking again."""
    return tf.distribute.cluster_resolver.SimpleClusterResolver(
        cluster,
        task_type="worker",
        task_id=task_id,
        num_accelerators={"GPU": num_gpus},
        rpc_layer="grpc",
    )


def measure_matmul_rate(strategy: tf.distribute.Strategy) -> float:
    """What the devices of a run reach on large matrix products alone.

    Args:
      strategy: Of the run.

    Returns:
      Floating-point operations in a second, of all replicas together, in the
      dtype that the run computes in.
    """
    dtype = keras.config.dtype_policy().compute_dtype
    device = strategy.extended.worker_devices[0]
    size, repetitions = (1024, 2) if "CPU" in device else (8192, 8)

    def products(value):
        x = tf.fill([size, size], tf.cast(value, dtype))
        for _ in range(repetitions):
            x = tf.matmul(x, x)
        return x[0, 0]

    # The value is an argument: products of constants are computed only once.
    run = tf.function(
        lambda value: strategy.run(products, args=(value,)), autograph=False
    )
    fastest = float("inf")
    for _ in range(4):
        start = time.perf_counter()
        value = tf.constant(1 / size)
        for result in strategy.experimental_local_results(run(value)):
            result.numpy()
        fastest = min(fastest, time.perf_counter() - start)
    flops = strategy.num_replicas_in_sync * repetitions * 2 * size**3
    return flops / fastest


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process is the one that writes files and messages."""
    return strategy.extended.should_checkpoint


def set_policy(run: configs.RunConfig) -> None:
    """Sets the dtype policy and the seed of the initial weights."""
    keras.config.set_dtype_policy(run.dtype_policy)
    keras.utils.set_random_seed(run.seed)


def checkpointed_variables(
    model: keras.Model,
    optimizer: optimization.AdamWeightDecay | None = None,
    global_step: tf.Variable | None = None,
    loss_scale: optimization.LossScale | None = None,
) -> tf.train.Checkpoint:
    """A checkpoint with every variable under its path.

    `tf.train.Checkpoint(model=model)` drops layers that a Keras 3 model holds
    in lists, without an error; a flat map cannot.
    """
    parts: dict[str, typing.Any] = {
        "model": {v.path: v.value for v in model.variables}
    }
    if optimizer is not None:
        parts["optimizer"] = {
            name: slot.value for name, slot in optimizer.slots().items()
        }
        parts["iterations"] = optimizer.iterations.value
    if global_step is not None:
        parts["global_step"] = global_step
    if loss_scale is not None:
        parts["loss_scale"] = loss_scale.variables
    return tf.train.Checkpoint(**parts)


def restore_variables(
    variables: Sequence[keras.Variable], checkpoint: str, what: str
) -> None:
    """Reads variables from a checkpoint of `checkpointed_variables`.

    Args:
      variables: Some or all of a model's.
      checkpoint: Prefix.
      what: Named in the error.

    Raises:
      ConfigError: If one is missing there or has another shape.
    """
    try:
        restored = tf.train.Checkpoint(
            model={v.path: v.value for v in variables}
        ).read(checkpoint)
        restored.assert_existing_objects_matched()
    except (AssertionError, ValueError) as error:
        raise configs.ConfigError(
            f"Expected all weights of {what} in {checkpoint}: "
            f"{str(error).splitlines()[0]}"
        ) from None
    restored.expect_partial()


def _make_all_reduce_sum(context: tf.distribute.ReplicaContext):
    """Sums tensors over the replicas; does nothing where there is one."""

    def all_reduce_sum(tensors, bytes_per_pack=0):
        if context.num_replicas_in_sync == 1:
            return tensors
        options = tf.distribute.experimental.CommunicationOptions(
            bytes_per_pack
        )
        return context.all_reduce(
            tf.distribute.ReduceOp.SUM, tensors, options=options
        )

    return all_reduce_sum


def _add_to_loop_variable(total: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """total + x in the body of a loop.

    Where memory is short (on CPUs, from 205 MB on) TensorFlow's optimizer makes
    a large sum a temporary variable that waits for the first term. If that is
    the loop's own variable, one is also made after the last round, never taken
    away, and the next run of the same graph fails with AlreadyExistsError
    (github.com/tensorflow/tensorflow/issues/23780). An operation between the
    two, which hands the buffer on, avoids it.
    """
    return tf.raw_ops.Snapshot(input=total) + x


@contextlib.contextmanager
def _data_errors():
    """Turns TensorFlow's wrapping of a DataError back into one."""
    try:
        yield
    except tf.errors.OpError as error:
        if "DataError: " not in str(error):
            raise
        message = pretraining_data.data_error_message(error)
        raise pretraining_data.DataError(message) from None


@contextlib.contextmanager
def _lost_workers(model_dir: str):
    """Says in one line that another worker of the cluster has gone."""
    try:
        yield
    except tf.errors.OpError as error:
        if "Collective ops is aborted" not in str(error):
            raise
        raise TrainingError(
            "Another worker has gone, and a cluster cannot train without it. "
            "Start all workers again to go on from the last checkpoint in "
            f"{model_dir}"
        ) from None


def _check_batch_size(batch_size: int, num_replicas: int) -> None:
    if batch_size % num_replicas:
        raise configs.ConfigError(
            "The batch size must be a multiple of the number of replicas. "
            f"Received: batch_size={batch_size}, replicas={num_replicas}"
        )


class Engine(orbit.AbstractTrainer, orbit.AbstractEvaluator):
    """Trains and evaluates one model.

    Build it, and the model and optimizer before it, in the strategy's scope.

    Args:
      strategy: Where the replicas are.
      model: Its variables are trained.
      loss_function: See `LossFunction`.
      optimizer: Built with the model's trainable variables; None to evaluate
        only.
      run: Seeds, steps, directory.
      batch_size: Examples of a step, over all replicas.
      train_dataset: See `MakeDataset`.
      flops_per_example: Matrix products of one example in one step, to tell
        how busy the devices are; 0 where nobody asks.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: keras.Model,
        loss_function: LossFunction,
        optimizer: optimization.AdamWeightDecay,
        run: configs.RunConfig,
        batch_size: int,
        train_dataset: MakeDataset,
        flops_per_example: int = 0,
    ):
        self.strategy = strategy
        self.model = model
        self.loss_function = loss_function
        self.optimizer = optimizer
        self.run = run
        self.batch_size = batch_size
        self.train_dataset = train_dataset
        self.flops_per_example = flops_per_example
        self.micro_batch_size = self._micro_batch_size()
        self.global_step = orbit.utils.create_global_step()
        self.loss_scale: optimization.LossScale | None = None
        if run.dtype_policy == "mixed_float16":
            self.loss_scale = optimization.LossScale()
            optimizer.skips_non_finite_updates = True
        self._iterator = None
        self._dropout_seed = tf.constant([run.seed, 0], tf.int32)
        num_replicas = strategy.num_replicas_in_sync
        # XLA gets what lies between two collectives: on CPUs it cannot hold
        # one. A TPU compiles all of it by itself.
        self._compiled_step: Callable = self._replica_step
        self._compiled_gradients: Callable = self._gradients
        if run.jit_compile and run.distribution_strategy != "tpu":
            if num_replicas == 1:
                self._compiled_step = tf.function(
                    self._replica_step, jit_compile=True, autograph=False
                )
            else:
                self._compiled_gradients = tf.function(
                    self._gradients, jit_compile=True, autograph=False
                )

    def _micro_batch_size(self) -> int:
        """Examples that a replica works on at once."""
        _check_batch_size(self.batch_size, self.strategy.num_replicas_in_sync)
        whole = self._batch_of_a_replica()
        size = min(self.run.micro_batch_size or whole, whole)
        if whole % size:
            raise configs.ConfigError(
                "RunConfig.micro_batch_size must divide the examples that a "
                f"replica has of a batch. Received: micro_batch_size={size}, "
                f"examples={whole}"
            )
        if size % self.run.num_parallel_parts:
            raise configs.ConfigError(
                "RunConfig.num_parallel_parts must divide the examples that a "
                "replica works on at once. Received: num_parallel_parts="
                f"{self.run.num_parallel_parts}, examples={size}"
            )
        return size

    def distribute(
        self, make_dataset: MakeDataset, batch_size: int, first_step: int
    ):
        """One pipeline per worker, one part of the batch per replica.

        Raises:
          ConfigError: If the batch cannot be shared out evenly.
        """
        num_replicas = self.strategy.num_replicas_in_sync
        _check_batch_size(batch_size, num_replicas)

        def of_worker(context):
            local = num_replicas // context.num_input_pipelines
            shard = pretraining_data.Shard(
                num_replicas, context.input_pipeline_id * local, local
            )
            return make_dataset(batch_size // num_replicas, first_step, shard)

        return self.strategy.distribute_datasets_from_function(of_worker)

    def train(self, num_steps: tf.Tensor) -> dict[str, float]:
        """Runs some steps from the global step on.

        Args:
          num_steps: <int32>[].

        Returns:
          Metrics over these steps.
        """
        if self._iterator is None:
            self._iterator = iter(
                self.distribute(
                    self.train_dataset,
                    self.batch_size,
                    int(self.global_step.numpy()),
                )
            )
        with _data_errors():
            sums = self._train_loop(self._iterator, num_steps)
        return losses.metrics_from_sums(sums)

    @tf.function(reduce_retracing=True)
    def _train_loop(self, iterator, num_steps):
        # A first step outside the loop would do as well, but the graph would
        # hold it twice.
        step = self._train_step.get_concrete_function(iterator.element_spec)
        sums = tf.nest.map_structure(
            lambda x: tf.zeros(x.shape, x.dtype), step.structured_outputs
        )
        for _ in tf.range(num_steps):
            sums = tf.nest.map_structure(
                _add_to_loop_variable, sums, self._train_step(next(iterator))
            )
        return sums

    @tf.function(reduce_retracing=True)
    def _train_step(self, features):
        scale = self.loss_scale.scale.read_value() if self.loss_scale else 1.0
        per_replica = self.strategy.run(
            # Nothing there is left to AutoGraph, whose work would be a sixth
            # of the time to the first step.
            tf.autograph.experimental.do_not_convert(self._compiled_step),
            args=(features, self.global_step.read_value(), scale),
        )
        self.global_step.assign_add(1)
        sums = self._of_any_replica(per_replica)
        if self.loss_scale:
            # The norm of a step that was not taken has no weight.
            self.loss_scale.update(sums["gradient_norm"].weight > 0)
        return sums

    def _of_any_replica(self, per_replica):
        """The value of one replica, where all have the same."""
        return tf.nest.map_structure(
            lambda x: self.strategy.experimental_local_results(x)[0],
            per_replica,
        )

    def _sum_replicas(self, per_replica):
        return self.strategy.reduce(
            tf.distribute.ReduceOp.SUM, per_replica, axis=None
        )

    def _replica_step(self, features, step, scale):
        """Forward, backward and update on one replica's part of the batch."""
        context = tf.distribute.get_replica_context()
        num_replicas = context.num_replicas_in_sync
        all_reduce_sum = _make_all_reduce_sum(context)
        seed = tf.random.experimental.stateless_fold_in(
            self._dropout_seed, tf.cast(step, tf.int32)
        )
        if num_replicas > 1:
            seed = tf.random.experimental.stateless_fold_in(
                seed, context.replica_id_in_sync_group
            )
        totals, zeros = None, None
        if num_replicas > 1 or self._is_cut():
            weights, zeros = self._sums_of_weights(features, seed)
            totals = all_reduce_sum(weights) if weights else []
        gradients, loss, sums = self._compiled_gradients(
            features, seed, totals, zeros, scale
        )
        loss_sums = losses.Sums(loss, tf.constant(1.0 / num_replicas))
        variables = self.model.trainable_variables
        used = [
            v
            for v, g in zip(variables, gradients, strict=True)
            if g is not None
        ]
        # In one call, as every call is a message to all others.
        sums = all_reduce_sum(sums | {"total_loss": loss_sums})
        summed = self._reduce(
            [g for g in gradients if g is not None], all_reduce_sum
        )
        learning_rate = tf.cast(self.optimizer.learning_rate, tf.float32)
        if self.loss_scale:
            summed = [g / scale for g in summed]
        norm = self.optimizer.apply_summed(summed, used)
        one = tf.constant(1.0)
        norm_sums = losses.Sums(norm, one)
        if self.loss_scale:
            sums["loss_scale"] = losses.Sums(scale, one)
            norm_sums = tf.nest.map_structure(
                lambda x: tf.where(tf.math.is_finite(norm), x, 0.0), norm_sums
            )
        return sums | {
            "gradient_norm": norm_sums,
            "learning_rate": losses.Sums(learning_rate, one),
        }

    def _reduce(self, gradients, all_reduce_sum):
        """Gradients <float32> of one replica -> those of the whole batch."""
        if self.strategy.num_replicas_in_sync == 1:
            return gradients
        dtype = self.run.gradient_reduction_dtype
        summed = all_reduce_sum(
            [tf.cast(g, dtype) for g in gradients],
            # Packs were measured between CPUs only.
            0 if self.run.num_gpus else _PACK_BYTES,
        )
        return [tf.cast(g, tf.float32) for g in summed]

    def _sums_of_weights(self, features, seed):
        """What the losses of a replica's part of the batch are divided by.

        A loss function sums its weights by `all_reduce_sum`. These sums are
        asked for here and nothing else, so TensorFlow leaves out of this pass
        whatever they do not follow from: all but the masking.

        Args:
          features: Of the replica's part of the batch.
          seed: <int32>[2], of dropout.

        Returns:
          The sums in the order of the calls, and what a loss function returns
          beside the loss, all zero.
        """
        weights: list[tf.Tensor] = []

        def note(tensor):
            weights.append(tensor)
            return tensor

        _, sums = self.loss_function(features, seed, note)
        return weights, tf.nest.map_structure(
            lambda x: tf.zeros(x.shape, x.dtype), sums
        )

    def _gradients(self, features, seed, totals, zeros, scale):
        """Gradients of a replica's part of the batch, cut into micro-batches.

        Args:
          features: Of the replica's part of the batch.
          seed: <int32>[2], of dropout.
          totals: What the losses are divided by: `_sums_of_weights` of all
            replicas. None where the batch is in one piece.
          zeros: See `_sums_of_weights`.
          scale: <float32>[], of the loss; the gradients are that much larger.

        Returns:
          A <float32> gradient for each trainable variable, None where it does
          not take part; the replica's share of the loss <float32>[]; the sums
          of the loss function.
        """
        size, num_parts = self.micro_batch_size, self._num_micro_batches()
        if num_parts == 1:
            return self._gradients_in_parallel(features, seed, totals, scale)
        parts = tf.nest.map_structure(
            lambda x: tf.reshape(
                x, tf.concat([[num_parts, size], tf.shape(x)[1:]], axis=0)
            ),
            features,
        )
        variables = self.model.trainable_variables
        is_used = [False] * len(variables)

        def add_part(index, gradients, loss, sums):
            part_gradients, part_loss, part_sums = self._gradients_in_parallel(
                tf.nest.map_structure(lambda x: x[index], parts),
                tf.random.experimental.stateless_fold_in(seed, index),
                totals,
                scale,
            )
            is_used[:] = [g is not None for g in part_gradients]
            gradients = [
                total if g is None else _add_to_loop_variable(total, g)
                for total, g in zip(gradients, part_gradients, strict=True)
            ]
            loss = _add_to_loop_variable(loss, part_loss)
            sums = tf.nest.map_structure(_add_to_loop_variable, sums, part_sums)
            return index + 1, gradients, loss, sums

        _, gradients, loss, sums = tf.while_loop(
            lambda index, *_: index < num_parts,
            add_part,
            [0, [tf.zeros(v.shape) for v in variables], 0.0, zeros],
            parallel_iterations=1,
            maximum_iterations=num_parts,
        )
        gradients = [
            g if used else None
            for g, used in zip(gradients, is_used, strict=True)
        ]
        return gradients, loss, sums

    def _gradients_in_parallel(self, features, seed, totals, scale):
        """Gradients of one micro-batch, see `_gradients`.

        Nothing of one part waits for another, so TensorFlow runs them side by
        side.
        """
        num_parts = self.run.num_parallel_parts
        if num_parts == 1:
            return self._gradients_of_part(features, seed, totals, scale)
        size = self.micro_batch_size // num_parts
        gradients, part_losses, sums = zip(
            *[
                self._gradients_of_part(
                    tf.nest.map_structure(
                        lambda x, start=start: x[start : start + size], features
                    ),
                    tf.random.experimental.stateless_fold_in(seed, start),
                    totals,
                    scale,
                )
                for start in range(0, self.micro_batch_size, size)
            ],
            strict=True,
        )
        return (
            [
                None if of_variable[0] is None else tf.add_n(of_variable)
                for of_variable in zip(*gradients, strict=True)
            ],
            tf.add_n(part_losses),
            tf.nest.map_structure(lambda *of_parts: tf.add_n(of_parts), *sums),
        )

    def _gradients_of_part(self, features, seed, totals, scale):
        """Gradients of what is not cut any further, see `_gradients`."""
        variables = self.model.trainable_variables
        total_of = losses.identity
        if totals is not None:
            remaining = iter(totals)
            total_of = lambda _: next(remaining)  # noqa: E731
        with tf.GradientTape() as tape:
            loss, sums = self.loss_function(features, seed, total_of)
            scaled = loss * scale if self.loss_scale else loss
        gradients = tape.gradient(scaled, [v.value for v in variables])
        gradients = [
            None if g is None else tf.cast(tf.convert_to_tensor(g), tf.float32)
            for g in gradients
        ]
        return gradients, loss, sums

    def _batch_of_a_replica(self) -> int:
        return self.batch_size // self.strategy.num_replicas_in_sync

    def _num_micro_batches(self) -> int:
        return self._batch_of_a_replica() // self.micro_batch_size

    def _is_cut(self) -> bool:
        """Whether a replica's part of the batch is not in one piece."""
        return self._num_micro_batches() * self.run.num_parallel_parts > 1

    def any_worker(self, request: bool) -> bool:
        """Whether any worker asks for something; all ask at the same step."""
        return self._sum_over_replicas(float(request)) > 0

    def check_same_step(self) -> None:
        """Refuses to train when the workers do not start from one step.

        Raises:
          ConfigError: If their global steps differ.
        """
        step = int(self.global_step.numpy())
        mean = self._sum_over_replicas(float(step))
        mean /= self.strategy.num_replicas_in_sync
        if self._differs_anywhere(step, mean):
            raise configs.ConfigError(
                "Expected the same checkpoints for all workers, but this one "
                f"starts from step {step} and the mean is {mean:g}: "
                f"RunConfig.model_dir={self.run.model_dir} must be on a file "
                "system that all workers share"
            )

    def _differs_anywhere(self, step: int, mean: float) -> bool:
        # A worker that alone found the mean must not go on by itself.
        return self._sum_over_replicas(float(step != mean)) > 0

    def _sum_over_replicas(self, value: float) -> float:
        """Sums a number of this worker over the replicas of all workers."""
        if self.strategy.extended._in_multi_worker_mode():
            return float(self._sum_over_workers(tf.constant(value)))
        return value * self.strategy.num_replicas_in_sync

    @tf.function
    def _sum_over_workers(self, value):
        return self._sum_replicas(self.strategy.run(tf.identity, args=(value,)))

    def evaluate(self, num_steps):
        """Not used: evaluations name their dataset, see `evaluate_on`."""
        raise NotImplementedError

    def evaluate_on(
        self, make_dataset: MakeDataset, batch_size: int, num_steps: int
    ) -> dict[str, float]:
        """Evaluates without dropout.

        Args:
          make_dataset: See `MakeDataset`.
          batch_size: Over all replicas.
          num_steps: Batches.

        Returns:
          Metrics, "total_loss" among them.
        """
        iterator = iter(self.distribute(make_dataset, batch_size, 0))
        total: typing.Any = None
        for _ in range(num_steps):
            with _data_errors():
                sums = self._eval_step(next(iterator))
            total = (
                sums
                if total is None
                else tf.nest.map_structure(tf.add, total, sums)
            )
        return losses.metrics_from_sums(total)

    @tf.function(reduce_retracing=True)
    def _eval_step(self, features):
        return self._of_any_replica(
            self.strategy.run(self._replica_eval, args=(features,))
        )

    def _replica_eval(self, features):
        context = tf.distribute.get_replica_context()
        num_replicas = context.num_replicas_in_sync
        all_reduce_sum = _make_all_reduce_sum(context)
        loss, sums = self.loss_function(features, None, all_reduce_sum)
        loss_sums = losses.Sums(loss, tf.constant(1.0 / num_replicas))
        return all_reduce_sum(sums | {"total_loss": loss_sums})


class StopRequests:
    """Turns SIGTERM and SIGINT into a request that a loop can look at."""

    def __init__(self):
        self.signal_name = None

    def __enter__(self):
        self._previous = {}
        for number in (signal.SIGTERM, signal.SIGINT):
            try:
                self._previous[number] = signal.signal(number, self._note)
            except ValueError:  # Not in the main thread: nobody signals it.
                break
        return self

    def __exit__(self, *_):
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _note(self, number, frame):
        if self.signal_name is not None:
            raise KeyboardInterrupt  # Asked twice: at once.
        self.signal_name = signal.Signals(number).name
        print(
            f"\n{self.signal_name}: saving and leaving after this step "
            "(again to leave at once)",
            file=sys.stderr,
        )


def train(
    engine: Engine,
    num_train_steps: int,
    description: str,
    live_metrics: tuple[str, ...],
    evaluate: Callable[[], dict[str, float]] | None = None,
    watch: Callable[[int, dict[str, float]], dict[str, str]] | None = None,
) -> None:
    """Trains to the last step, from the last checkpoint if there is one.

    Args:
      engine: Model, optimizer and data.
      num_train_steps: The last step.
      description: Opens the live line.
      live_metrics: Metrics on the live line.
      evaluate: Called every `run.eval_steps` steps.
      watch: Takes a step and its metrics; returns what the user should know
        about them, each under a name by which it is said once.

    Raises:
      ConfigError: If the workers do not share `run.model_dir`.
      Stopped: After SIGTERM or SIGINT, once everything is saved.
      TrainingError: If the loss is not finite, or a worker has gone.
    """
    with _lost_workers(engine.run.model_dir):
        _train(
            engine,
            num_train_steps,
            description,
            live_metrics,
            evaluate,
            watch,
        )


def _train(
    engine, num_train_steps, description, live_metrics, evaluate, watch
) -> None:
    """See `train`."""
    run = engine.run
    if run.distribution_strategy != "tpu":
        _hush_compiler()
    checkpoints = _Checkpoints(engine)
    checkpoints.restore()
    engine.check_same_step()
    loop = _Loop(
        engine,
        checkpoints,
        num_train_steps,
        description,
        live_metrics,
        evaluate,
        watch,
    )
    summary_dir = os.path.join(run.model_dir, "train")
    with StopRequests() as loop.stop_requests, _QuietOrbit():
        controller = orbit.Controller(
            global_step=engine.global_step,
            trainer=engine,
            strategy=engine.strategy,
            train_actions=[loop.look],
            steps_per_loop=loop.steps_to_next_look,
            summary_dir=summary_dir if is_chief(engine.strategy) else None,
        )
        loop.start()
        try:
            controller.train(num_train_steps)
            checkpoints.save()
        finally:
            checkpoints.finish()
            loop.progress.close()


def _hush_compiler() -> None:
    """Has XLA say now, to nobody, what it says once in a process.

    It says that it compiled something, and no setting of TensorFlow's stops it.
    """
    sys.stderr.flush()
    stderr = os.dup(_STDERR)
    try:
        with open(os.devnull, "w", encoding="utf-8") as nowhere:
            os.dup2(nowhere.fileno(), _STDERR)
            tf.function(lambda x: x + 1.0, jit_compile=True)(tf.constant(0.0))
    finally:
        os.dup2(stderr, _STDERR)
        os.close(stderr)


class _Checkpoints:
    """Saves and restores a run; the chief alone writes.

    Nothing of a checkpoint's name is there before all of it is written, and
    the file "checkpoint" names the last whole one.

    Args:
      engine: What is saved.
    """

    def __init__(self, engine: Engine):
        self.run = engine.run
        self.is_chief = is_chief(engine.strategy)
        self.strategy = engine.strategy
        self.global_step = engine.global_step
        self.checkpoint = checkpointed_variables(
            engine.model,
            engine.optimizer,
            engine.global_step,
            engine.loss_scale,
        )
        # The state is copied before `save` returns, and "checkpoint" names a
        # checkpoint only once all of it is written, so what is restored is
        # the same as without.
        self._options = tf.train.CheckpointOptions(
            experimental_enable_async_checkpoint=self.run.async_checkpoints
        )
        self._saved_step: int | None = None
        if self.is_chief:
            self._manager = tf.train.CheckpointManager(
                self.checkpoint,
                self.run.model_dir,
                max_to_keep=self.run.keep_checkpoint_max,
                checkpoint_name="model.ckpt",
            )
            self._best_manager = tf.train.CheckpointManager(
                self.checkpoint,
                os.path.join(self.run.model_dir, BEST_DIR),
                max_to_keep=1,
                checkpoint_name="model.ckpt",
            )

    def restore(self) -> None:
        """Goes on from the last checkpoint, if there is one."""
        path = tf.train.latest_checkpoint(self.run.model_dir)
        if path:
            with self.strategy.scope():
                self.checkpoint.restore(path).assert_existing_objects_matched()
            self._saved_step = int(self.global_step.numpy())

    def save(self) -> None:
        """Saves the state of the current step, once."""
        step = int(self.global_step.numpy())
        if self.is_chief and step != self._saved_step:
            self._manager.save(checkpoint_number=step, options=self._options)
            self._saved_step = step

    def save_best(self, metrics: dict[str, float]) -> None:
        """Saves the state beside the others, with the metrics it reached."""
        if self.is_chief:
            step = int(self.global_step.numpy())
            self._best_manager.save(
                checkpoint_number=step, options=self._options
            )
            self._best_manager.sync()
            write_atomically(
                os.path.join(self._best_manager.directory, "eval_results.json"),
                json.dumps({"step": step} | metrics, indent=1) + "\n",
            )

    def finish(self) -> None:
        """Waits for what is being written."""
        if self.is_chief:
            self._manager.sync()


class _QuietOrbit:
    """Keeps the lines that Orbit prints from the live line."""

    def __enter__(self):
        self._stdout = sys.stdout
        self._null = open(os.devnull, "w")  # noqa: SIM115
        sys.stdout = self._null

    def __exit__(self, *_):
        sys.stdout = self._stdout
        self._null.close()


class _Loop:
    """What happens between two inner loops of a run."""

    def __init__(
        self,
        engine,
        checkpoints,
        num_train_steps,
        description,
        live_metrics,
        evaluate,
        watch,
    ):
        self.engine = engine
        self.checkpoints = checkpoints
        self.num_train_steps = num_train_steps
        self.live_metrics = live_metrics
        self.evaluate = evaluate
        self.watch = watch or (lambda step, metrics: {})
        self.is_chief = is_chief(engine.strategy)
        self.stop_requests = StopRequests()
        self.progress = progress.Progress(
            description, num_train_steps, "step", is_shown=self.is_chief
        )
        self._said: set[str] = set()

    def start(self):
        step = int(self.engine.global_step.numpy())
        if self.is_chief:
            self.log = metrics_log.MetricsLog(self.engine.run.model_dir, step)
        self.matmul_rate = 0.0
        if self.engine.flops_per_example:
            self.matmul_rate = measure_matmul_rate(self.engine.strategy)
        self.progress.start(step)
        self._last = (step, time.monotonic())

    def steps_to_next_look(self, step: int) -> int:
        """Steps until the next multiple of `steps_per_loop`.

        Also stops for evaluations and checkpoints, and early in a run, so
        that a mistake and the first figures show soon. Follows from the step
        alone: a run that goes on looks where it would have looked.
        """
        run = self.engine.run
        every = [run.steps_per_loop, run.save_checkpoints_steps]
        if run.eval_steps:
            every.append(run.eval_steps)
        steps = min(number - step % number for number in every)
        if step < run.steps_per_loop:
            steps = min(steps, 5 - step % 5)
        return steps

    def look(self, metrics: dict) -> None:
        """Logs, evaluates, saves, and stops the run where it must."""
        engine, run = self.engine, self.engine.run
        step = int(engine.global_step.numpy())
        now = time.monotonic()
        steps, seconds = step - self._last[0], now - self._last[1]
        speed = engine.batch_size * steps / seconds
        metrics["examples_per_second"] = speed
        if self.matmul_rate:
            flops = speed * engine.flops_per_example
            metrics["gflop_per_second"] = flops / 1e9
            metrics["mfu"] = flops / self.matmul_rate
        if not math.isfinite(metrics["total_loss"]):
            raise TrainingError(
                f"The loss became {metrics['total_loss']} between steps "
                f"{self._last[0]} and {step}; nothing was saved after step "
                f"{self._last[0]}. Try a lower OptimizerConfig.learning_rate "
                "or a longer warm-up"
            )
        if engine.loss_scale:
            metrics["skipped_steps"] = int(engine.loss_scale.skipped.numpy())
        shown = {
            name: metrics[name] for name in self.live_metrics if name in metrics
        }
        shown["examples/s"] = metrics["examples_per_second"]
        self.progress.update(step, shown)
        self._write(step, "train", metrics)
        if run.eval_steps and self.evaluate and step % run.eval_steps == 0:
            self._evaluate(step)
        stop = engine.any_worker(self.stop_requests.signal_name is not None)
        is_last = step == self.num_train_steps
        if stop or is_last or step % run.save_checkpoints_steps == 0:
            self.checkpoints.save()
        if stop and not is_last:
            self.checkpoints.finish()
            who = self.stop_requests.signal_name or "Another worker stopped"
            raise Stopped(
                f"{who} at step {step}: saved in {run.model_dir}; run again "
                "to go on"
            )
        self._last = (step, time.monotonic())

    def _evaluate(self, step: int) -> None:
        """Evaluates, and keeps what is better than all before."""
        run = self.engine.run
        evaluated = self.evaluate()
        if not self.is_chief:
            return
        best = run.keep_best_metric
        if best in evaluated and self.log.is_best(step, best, evaluated[best]):
            self.checkpoints.save_best(evaluated)
        self._write(step, "heldout", evaluated)
        write_summaries(run.model_dir, "eval", step, evaluated)
        self.progress.note(
            f"held-out at step {step}: " + progress.format_metrics(evaluated)
        )

    def _write(self, step: int, split: str, metrics: dict) -> None:
        """Logs metrics, and says what the user should know about them."""
        if not self.is_chief:
            return
        self.log.write(step, split, metrics)
        for name, advice in self.watch(step, metrics).items():
            if name not in self._said:
                self._said.add(name)
                self.progress.note(f"step {step}: {advice}")


def write_summaries(
    model_dir: str, name: str, step: int, metrics: dict[str, float]
) -> None:
    """Writes metrics for TensorBoard."""
    writer = tf.summary.create_file_writer(os.path.join(model_dir, name))
    with writer.as_default(step=step):
        for metric, value in metrics.items():
            tf.summary.scalar(metric, value)
    writer.close()
