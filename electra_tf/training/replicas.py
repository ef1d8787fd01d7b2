"""What a run asks for -> tf.distribute's strategy; sums over its replicas."""

import contextlib
import json
import os
import reprlib
import signal
import socket
import sys
import threading
import typing
from collections.abc import Iterator

import keras
import tensorflow as tf

from electra_tf import configs, errors
from electra_tf.command_line import fastest


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
    _require_gpus(run)
    try:
        if run.distribution_strategy == "multi_worker_mirrored":
            resolver = make_cluster_resolver(run)
            with _ended_by_ctrl_c():
                _announce(resolver.cluster_spec().as_dict())
                return tf.distribute.MultiWorkerMirroredStrategy(
                    cluster_resolver=resolver
                )
        if (
            run.distribution_strategy != "tpu"
        ):  # Whose hosts are its own affair.
            _warn_of_unread_cluster(run.distribution_strategy)
        try:
            # Imported here: tf-models-official takes a while.
            from official.common import distribute_utils
        except ImportError:
            return _make_strategy_alone(run)
        return distribute_utils.get_distribution_strategy(
            distribution_strategy=run.distribution_strategy,
            num_gpus=run.num_gpus,
            tpu_address=run.tpu,
        )
    except errors.ConfigError:
        raise
    except (ValueError, RuntimeError, tf.errors.OpError) as error:
        raise errors.ConfigError(
            "Cannot set up RunConfig.distribution_strategy="
            f"{run.distribution_strategy!r} with num_gpus={run.num_gpus}: "
            f"{errors.first_line(error)}"
        ) from None


def _make_strategy_alone(run: configs.RunConfig) -> tf.distribute.Strategy:
    """What tf-models-official makes, where it is not installed."""
    if run.distribution_strategy == "tpu":
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(run.tpu)
        if has_other_host(run):
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return tf.distribute.TPUStrategy(resolver)
    if run.distribution_strategy == "mirrored":
        return tf.distribute.MirroredStrategy(
            [f"device:GPU:{i}" for i in range(run.num_gpus)]
        )
    if run.num_gpus > 1:
        raise ValueError("one_device is for no more than one GPU")
    kind = "GPU" if run.num_gpus else "CPU"
    return tf.distribute.OneDeviceStrategy(f"device:{kind}:0")


def has_other_host(run: configs.RunConfig) -> bool:
    """Whether the devices are at another machine, which makes their batches.

    No Python code of this process runs there.
    """
    is_named = run.tpu not in ("", "local")
    return run.distribution_strategy == "tpu" and is_named


def _require_gpus(run: configs.RunConfig) -> None:
    """Refuses GPUs that are not there, in whose place CPU 0 would work."""
    if run.distribution_strategy == "mirrored" and not run.num_gpus:
        raise errors.ConfigError(
            "RunConfig.distribution_strategy='mirrored' needs num_gpus, the "
            "devices to mirror on. Received: num_gpus=0; on a CPU take "
            "'one_device'"
        )
    found = len(tf.config.list_physical_devices("GPU"))
    if run.distribution_strategy != "tpu" and found < run.num_gpus:
        raise errors.ConfigError(
            f"Expected {run.num_gpus} GPUs on this host "
            f"(RunConfig.num_gpus), found {found}"
        )


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
        "see docs/scaling.md, or try it on this machine with "
        "tools/launch_local_cluster.py",
    )
    _require_cluster(os.environ["TF_CONFIG"])
    return tf.distribute.cluster_resolver.TFConfigClusterResolver()


def _announce(cluster: dict[str, list[str]]) -> None:
    """Says for whom TensorFlow waits, which it does for long and in silence."""
    addresses = [address for job in _JOBS for address in cluster.get(job, ())]
    if len(addresses) > 1:
        print(
            f"waiting for all of {len(addresses)} workers: "
            f"{', '.join(addresses)}",
            file=sys.stderr,
            flush=True,
        )
        for address in addresses:
            host = address.rpartition(":")[0].strip("[]")
            try:
                socket.getaddrinfo(host, None)
            except (OSError, UnicodeError) as error:
                # A machine may get its name later.
                print(
                    f"warning: {host!r} of {address!r} is not known here yet: "
                    f"{error}",
                    file=sys.stderr,
                    flush=True,
                )


@contextlib.contextmanager
def _ended_by_ctrl_c() -> Iterator[None]:
    """Lets Ctrl-C end the process at once while TensorFlow waits.

    There is nothing to save yet, and Python would hear of it afterwards.
    SIGTERM is not ours there: TensorFlow takes it for itself.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _require_cluster(tf_config: str) -> None:
    """Refuses a TF_CONFIG of which TensorFlow makes another cluster.

    Without a cluster every machine would train by itself, and be the chief of
    all; of an address that is there twice, all would wait for the other one.
    """
    try:
        found = json.loads(tf_config)
    except ValueError:
        found = None
    cluster = found.get("cluster") if isinstance(found, dict) else None
    if not (isinstance(cluster, dict) and cluster):
        raise errors.ConfigError(
            'Expected TF_CONFIG as a JSON object with "cluster", the addresses '
            'of all workers, and "task", which of them this is. Received: '
            f"{reprlib.repr(tf_config)}"
        )
    known = set()
    for job, addresses in cluster.items():
        if not (
            isinstance(addresses, list)
            and all(isinstance(address, str) for address in addresses)
        ):
            raise errors.ConfigError(
                f"Expected a list of addresses, host:port, as {job!r} of the "
                f"cluster in TF_CONFIG. Received: {reprlib.repr(addresses)}"
            )
        for address in addresses:
            host, _, port = address.rpartition(":")
            if not host or "/" in host or not _is_number(port, 2**16):
                raise errors.ConfigError(
                    f"Expected addresses, host:port, as {job!r} of the cluster "
                    f"in TF_CONFIG. Received: {address!r}"
                )
            if address in known:
                raise errors.ConfigError(
                    "Expected an address of its own for each worker of the "
                    f"cluster in TF_CONFIG. Received: {address!r} twice"
                )
            known.add(address)
    task = found.get("task")
    if not (isinstance(task, dict) and {"type", "index"} <= set(task)):
        raise errors.ConfigError(
            'Expected "task" in TF_CONFIG as {"type": "worker", "index": '
            "<number of this worker>}. Received: "
            + ("none" if task is None else reprlib.repr(task))
        )
    job, index = task["type"], task["index"]
    addresses = cluster.get(job, ()) if job in _JOBS else ()
    if not _is_number(str(index), len(addresses)):
        sizes = ", ".join(f"{len(cluster[name])} {name}" for name in cluster)
        raise errors.ConfigError(
            f'Expected "task" in TF_CONFIG as one of its cluster, which has '
            f"{sizes}; an evaluator has nothing to do here, as the workers "
            f"evaluate. Received: {reprlib.repr(task)}"
        )


def _is_number(text: str, end: int) -> bool:
    """Whether a text is a number from 0 on below another one."""
    return text.isascii() and text.isdecimal() and int(text) < end


def _warn_of_unread_cluster(strategy: str) -> None:
    """Says that workers which could be one cluster will train one by one."""
    try:
        cluster = json.loads(os.environ.get("TF_CONFIG", "{}"))["cluster"]
        jobs = [cluster.get(job) for job in _JOBS]
    except (ValueError, KeyError, TypeError, AttributeError):
        return  # Nobody asked for it to be read.
    number = sum(len(job) for job in jobs if isinstance(job, list))
    if number > 1:
        print(
            f"warning: TF_CONFIG names {number} workers, but RunConfig."
            f"distribution_strategy={strategy!r} trains on this one alone; "
            "'multi_worker_mirrored' joins them",
            file=sys.stderr,
            flush=True,
        )


def _require_environment(run: configs.RunConfig, name: str, hint: str) -> None:
    if not os.environ.get(name):
        raise errors.ConfigError(
            f"RunConfig.cluster_resolver={run.cluster_resolver!r} needs the "
            f"environment variable {name}: {hint}"
        )


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process is the one that writes files and messages."""
    return strategy.extended.should_checkpoint


def set_policy(run: configs.RunConfig) -> None:
    """Sets the dtype policy and the seed of the initial weights."""
    policy = run.dtype_policy
    if policy == configs.AUTO:
        policy, _ = fastest.dtype_policy(run)
    keras.config.set_dtype_policy(policy)
    keras.utils.set_random_seed(run.seed)


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
