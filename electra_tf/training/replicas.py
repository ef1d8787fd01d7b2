"""What a run asks for -> tf.distribute's strategy; sums over its replicas."""

import os
import reprlib
import signal
import sys
import typing

import keras
import tensorflow as tf

from electra_tf import configs, errors
from electra_tf.command_line import fastest
from electra_tf.training import signals


class Shard(typing.NamedTuple):
    """Which parts of every global batch an input pipeline yields.

    Attributes:
      num_parts: Parts in a global batch: replicas of the whole cluster.
      first_part: The first part of this pipeline.
      local_parts: How many parts are this pipeline's: replicas of its worker.
    """

    num_parts: int
    first_part: int
    local_parts: int

    def part(self, index):
        """Number of the index-th part that the pipeline yields."""
        step, local = index // self.local_parts, index % self.local_parts
        return step * self.num_parts + self.first_part + local


WHOLE = Shard(num_parts=1, first_part=0, local_parts=1)

# Batches that are prepared ahead of the step that takes them.
PREFETCHED_BATCHES = 4

# Of gradients that travel together between CPUs: 16 MB are as fast, all at once
# or 1 MB take a third longer.
PACK_BYTES = 4 * 2**20

# Who trains, in the names of TF_CONFIG.
_JOBS = ("chief", "master", "worker")

# Of datasets whose iterators end at once. The tuner of tf.data sleeps for as
# long as its iterator has run, up to a minute, and who lets go of the iterator
# waits for it. The datasets here have nothing to tune.
UNTUNED = tf.data.Options()
UNTUNED.autotune.enabled = False


def make_strategy(run: configs.RunConfig) -> tf.distribute.Strategy:
    """The distribution strategy that a run asks for.

    To be called before any operation runs: workers meet only at the start.

    Raises:
      ConfigError: If this machine, or the cluster, has no such thing.
    """
    name = run.distribution_strategy
    gpus = tf.config.list_physical_devices("GPU")
    # In the place of GPUs that are not there, CPU 0 would work.
    num_gpus = run.num_gpus or 0
    if name != "tpu" and len(gpus) < num_gpus:
        raise errors.ConfigError(
            f"Expected {num_gpus} GPUs on this host (RunConfig.num_gpus), "
            f"found {len(gpus)}"
        )
    try:
        if name == "multi_worker_mirrored":
            resolver = make_cluster_resolver(run)
            cluster = resolver.cluster_spec().as_dict()
            addresses = [a for job in _JOBS for a in cluster.get(job, ())]
            # Ctrl-C ends the process at once while TensorFlow waits, for long
            # and in silence: there is nothing to save yet, and Python would
            # hear of it afterwards. SIGTERM TensorFlow takes for itself there.
            with signals.handled(signal.SIG_DFL, signal.SIGINT):
                if len(addresses) > 1:
                    print(
                        f"waiting for all of {len(addresses)} workers: "
                        f"{', '.join(addresses)}",
                        file=sys.stderr,
                        flush=True,
                    )
                return tf.distribute.MultiWorkerMirroredStrategy(
                    cluster_resolver=resolver
                )
        if name == "tpu":
            resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
                run.tpu
            )
            if has_other_host(run):
                tf.config.experimental_connect_to_cluster(resolver)
            tf.tpu.experimental.initialize_tpu_system(resolver)
            return tf.distribute.TPUStrategy(resolver)
        if name == "mirrored" and num_gpus:
            return tf.distribute.MirroredStrategy(
                [f"device:GPU:{i}" for i in range(num_gpus)]
            )
        if name == "mirrored":
            raise ValueError("without GPUs take 'one_device'")
        if num_gpus > 1:
            raise ValueError("one_device is for no more than one GPU")
        return tf.distribute.OneDeviceStrategy(
            "device:GPU:0" if num_gpus else "device:CPU:0"
        )
    except errors.ConfigError:
        raise
    # Of what TF_CONFIG holds TensorFlow makes any of them.
    except (
        *(ValueError, TypeError, AttributeError, KeyError),
        *(RuntimeError, tf.errors.OpError),
    ) as error:
        raise errors.ConfigError(
            f"Cannot set up RunConfig.distribution_strategy={name!r} with "
            f"num_gpus={num_gpus}: {errors.first_line(error)}"
        ) from None


def has_other_host(run: configs.RunConfig) -> bool:
    """Whether the devices are at another machine, which makes their batches.

    No Python code of this process runs there.
    """
    is_named = run.tpu not in ("", "local")
    return run.distribution_strategy == "tpu" and is_named


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
        num_gpus = resolver.num_accelerators()["GPU"] if run.num_gpus else 0
        # Answers what that one found out, without looking again.
        return tf.distribute.cluster_resolver.SimpleClusterResolver(
            cluster,
            task_type="worker",
            task_id=resolver.task_id,
            num_accelerators={"GPU": num_gpus},
            rpc_layer="grpc",
        )
    _require_environment(
        run,
        "TF_CONFIG",
        "see docs/guides/gpus-tpus.md, or try it on this machine with "
        "tools/launch_local_cluster.py",
    )
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    # Without a cluster each machine would train by itself, the chief of all;
    # an evaluator has nothing to do here, as the workers evaluate.
    if resolver.task_type not in {*_JOBS} & {*resolver.cluster_spec().jobs}:
        raise errors.ConfigError(
            'Expected TF_CONFIG with "cluster", the addresses of all workers, '
            'and "task", which of them this is. Received: '
            f"{reprlib.repr(os.environ['TF_CONFIG'])}"
        )
    return resolver


def _require_environment(run: configs.RunConfig, name: str, hint: str) -> None:
    if not os.environ.get(name):
        raise errors.ConfigError(
            f"RunConfig.cluster_resolver={run.cluster_resolver!r} needs the "
            f"environment variable {name}: {hint}"
        )


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process is the one that writes files and messages."""
    return strategy.extended.should_checkpoint


def are_several_workers(strategy: tf.distribute.Strategy) -> bool:
    """Whether other processes take part, each with a copy of the model."""
    return strategy.extended._in_multi_worker_mode()


def set_policy(run: configs.RunConfig) -> None:
    """Sets the dtype policy and the seed of the initial weights."""
    policy = run.dtype_policy
    if policy == configs.AUTO:
        policy = fastest.dtype_policy(run)
    keras.config.set_dtype_policy(policy)
    keras.utils.set_random_seed(run.seed)


def shared_variable(value, dtype: tf.DType, name: str) -> tf.Variable:
    """A variable that is not trained and is the same on all replicas."""
    aggregation = tf.VariableAggregation.ONLY_FIRST_REPLICA
    return tf.Variable(
        value, False, dtype=dtype, name=name, aggregation=aggregation
    )


def make_all_reduce_sum(context: tf.distribute.ReplicaContext):
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


def seed_of_replica(seed: tf.Tensor) -> tf.Tensor:
    """A seed <int32>[2] of all replicas -> this one's, unlike the others'."""
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return seed
    return tf.random.experimental.stateless_fold_in(
        seed, context.replica_id_in_sync_group
    )
