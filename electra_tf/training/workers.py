"""The workers of a cluster: whether they do the same, and are all there."""

import contextlib
import dataclasses
import functools
import hashlib
import os
import pathlib
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
import tensorflow as tf

from electra_tf import errors

# What each worker may have for itself: where files are, whose contents are
# compared; its devices; and what decides how fast a step is, not what it does.
_MAY_DIFFER = (
    "init_checkpoint",
    "init_generator_checkpoint",
    "data.train_files",
    "data.heldout_files",
    "data.vocab_file",
    "data.data_dir",
    "data.train_file",
    "data.dev_file",
    "data.test_file",
    "run.model_dir",
    "run.cluster_resolver",
    "run.micro_batch_size",
    "run.num_parallel_parts",
    "run.num_intra_op_threads",
    "run.jit_compile",
    "run.keep_checkpoint_max",
    "run.async_checkpoints",
)


def refuse_differences(
    strategy: tf.distribute.Strategy, config, contents: Mapping[str, object]
) -> None:
    """Refuses to train where the workers would not do the same.

    Each of them computes its part of every batch by what it was told and what
    it has read, so that with another seed they would take other rows than those
    that are left to them, and with another rate have other weights.

    Args:
      strategy: Of the run.
      config: Of the run, a dataclass.
      contents: Name -> digest of what this worker has read, None for nothing;
        the same names on all workers.

    Raises:
      ConfigError: If another worker was told, or has read, something else.
    """
    facts = {
        name: value
        for name, value in _flat(config).items()
        if name not in _MAY_DIFFER
    } | dict(contents)
    found = [
        name if name in contents else f"{name} (here {facts[name]!r})"
        for name in different(strategy, facts)
    ]
    if found:
        raise errors.ConfigError(
            "Expected the same of all workers, but they differ in: "
            f"{', '.join(found)}. Start all of them with the same flags, gin "
            "files and data"
        )


def refuse_other_code(strategy: tf.distribute.Strategy) -> None:
    """Refuses to train where the workers run other programs.

    To be called before any other comparison: these may not be the same.

    Raises:
      ConfigError: If another one has other code of this package, or another
        TensorFlow.
    """
    if not are_several(strategy):
        return
    facts = {
        "the code of electra_tf": _digest_of_code(),
        f"TensorFlow (here {tf.__version__})": tf.__version__,
    }
    # They are compared by their order, whatever each worker calls them.
    if found := different(strategy, facts):
        raise errors.ConfigError(
            "Expected the same program on all workers, but they differ in: "
            f"{', '.join(found)}. Install the same on all of them"
        )


def refuse_other_folder(
    strategy: tf.distribute.Strategy, model_dir: str, newest: str | None
) -> None:
    """Refuses to train where the workers do not go on from one checkpoint.

    Args:
      strategy: Of the run.
      model_dir: Of the run.
      newest: The newest checkpoint there, None without one.

    Raises:
      ConfigError: If another worker finds another one.
    """
    newest = newest and os.path.basename(newest)
    if different(strategy, {"newest": newest}):
        raise errors.ConfigError(
            "Expected the same checkpoints for all workers, but this one finds "
            f"{newest or 'none'} and another one another: RunConfig.model_dir="
            f"{model_dir} must be on a file system that all workers share"
        )


def are_several(strategy: tf.distribute.Strategy) -> bool:
    """Whether other processes take part, each with a copy of the model."""
    return strategy.extended._in_multi_worker_mode()


def different(
    strategy: tf.distribute.Strategy, facts: Mapping[str, object]
) -> list[str]:
    """The names of what is not the same on all workers; all get the same.

    Args:
      strategy: Of the run.
      facts: Name -> value; the same names on all workers.
    """
    if not are_several(strategy):
        return []
    # Of 32 bits, whose sums over the workers are exact in float64.
    ours = np.array(
        [float(zlib.crc32(repr(value).encode())) for value in facts.values()]
    )
    mean = _sum(strategy, ours) / strategy.num_replicas_in_sync
    # A worker that has the mean by chance must not go on by itself.
    differ = _sum(strategy, (ours != mean).astype(float)) > 0
    found = [
        name for name, differs in zip(facts, differ, strict=True) if differs
    ]
    if found:
        # Who ends takes the cluster with it: not before all know why. This may
        # fail on the last of them, which know by then.
        with contextlib.suppress(tf.errors.OpError):
            _sum(strategy, np.zeros(1))
    return found


def digest_of_variables(
    strategy: tf.distribute.Strategy, variables: Iterable
) -> str | None:
    """SHA-256 of the values of variables; None where nobody compares them."""
    if not are_several(strategy):
        return None
    digest = hashlib.sha256()
    for variable in variables:
        digest.update(np.ascontiguousarray(variable.numpy()).data)
    return digest.hexdigest()


def _flat(config, prefix: str = "") -> dict[str, object]:
    """The fields of nested dataclasses; the names do not depend on values."""
    found: dict[str, object] = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        # What may be missing is one value.
        if dataclasses.is_dataclass(value) and field.default is not None:
            found |= _flat(value, f"{prefix}{field.name}.")
        else:
            found[prefix + field.name] = value
    return found


def _digest_of_code() -> str:
    """SHA-256 of this package's modules."""
    digest = hashlib.sha256()
    package = pathlib.Path(__file__).parents[1]
    for path in sorted(package.rglob("*.py")):
        digest.update(f"{path.relative_to(package)}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


@functools.lru_cache(maxsize=1)  # Traced once, not for each comparison.
def make_sum(
    strategy: tf.distribute.Strategy,
) -> Callable[[tf.Tensor], tf.Tensor]:
    """What sums a tensor of each worker over the replicas of all workers."""

    @tf.function(reduce_retracing=True)
    def sum_of_all(x):
        return strategy.reduce(
            tf.distribute.ReduceOp.SUM,
            strategy.run(tf.identity, args=(x,)),
            axis=None,
        )

    return sum_of_all


def _sum(strategy: tf.distribute.Strategy, values: np.ndarray) -> np.ndarray:
    return make_sum(strategy)(tf.constant(values, tf.float64)).numpy()


@contextlib.contextmanager
def lost(model_dir: str) -> Iterator[None]:
    """Says in one line that another worker of the cluster has gone.

    Args:
      model_dir: Of the run.

    Raises:
      TrainingError: If it has, or does something else than this one.
    """
    try:
        yield
    except tf.errors.OpError as error:
        found = re.search(r"Collective ops is aborted by: ([^\n]*)", str(error))
        if not found:
            raise
        reason = found[1].split(". ")[0]
        said = (
            "Another worker has gone, and a cluster cannot train without it. "
            "Start all workers again"
        )
        if "mismatch" in reason.lower():
            said = (
                "The workers have come to do different things. Start all of "
                "them again with the same flags, gin files and data"
            )
        raise errors.TrainingError(
            f"{said} to go on from the last checkpoint in {model_dir} "
            f"(TensorFlow: {reason})"
        ) from None
