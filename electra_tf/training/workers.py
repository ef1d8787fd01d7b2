"""The workers of a cluster: whether they do the same, and are all there."""

import contextlib
import dataclasses
import functools
import hashlib
import pathlib
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
import tensorflow as tf

from electra_tf import errors, validation
from electra_tf.training import replicas

# What each worker may have for itself: where files are, whose contents are
# compared; its devices; and what decides how fast a step is, not what it does.
_MAY_DIFFER = (
    *("init_checkpoint", "init_generator_checkpoint"),
    *("data.train_files", "data.heldout_files", "data.vocab_file"),
    *("data.data_dir", "data.train_file", "data.dev_file", "data.test_file"),
    *("run.model_dir", "run.cluster_resolver", "run.micro_batch_size"),
    *("run.num_parallel_parts", "run.num_intra_op_threads"),
    *("run.jit_compile", "run.keep_checkpoint_max", "run.async_checkpoints"),
)


def refuse_differences(
    strategy: tf.distribute.Strategy, config, contents: Mapping[str, object]
) -> None:
    """Refuses to train where the workers would not do the same.

    With another seed a worker would take other rows than those that are left
    to it. This is compared once, before the first step.

    Args:
      strategy: Of the run.
      config: Of the run, a dataclass.
      contents: Name -> digest of what this worker has read, None for nothing;
        the same names on all workers.

    Raises:
      ConfigError: If another worker has something else.
    """
    if not replicas.are_several_workers(strategy):
        return
    parts = dataclasses.asdict(config)
    none: dict[str, dict] = {
        name: {} for name, part in parts.items() if isinstance(part, dict)
    }
    settings = [
        (name, value)
        for name, value, _ in validation.differences(parts, none)
        if name not in _MAY_DIFFER
    ]
    facts = {
        "the code of electra_tf": _digest_of_code(),
        "the version of TensorFlow": tf.__version__,
        "the settings, by flags or gin files": settings,
        "the checkpoints in RunConfig.model_dir, which all must share": (
            _digest_of_files(pathlib.Path(config.run.model_dir), "*.index")
        ),
        **contents,
    }
    # Of 32 bits, whose sums over the workers are exact in float64.
    own = np.array(
        [float(zlib.crc32(repr(value).encode())) for value in facts.values()]
    )
    mean = _sum(strategy, own) / strategy.num_replicas_in_sync
    # A worker that has the mean by chance must not go on by itself.
    is_other = _sum(strategy, (own != mean).astype(float)) > 0
    if not is_other.any():
        return
    # Who ends takes the cluster with it: not before all know why. This may fail
    # on the last of them, which know by then.
    with contextlib.suppress(tf.errors.OpError):
        _sum(strategy, np.zeros(1))
    names = [n for n, differs in zip(facts, is_other, strict=True) if differs]
    raise errors.ConfigError(
        "Expected the same of all workers, but they differ in: "
        f"{', '.join(names)}. Start all of them with the same electra_tf, "
        "flags, gin files and data"
    )


def digest_of_variables(variables: Iterable) -> str:
    """SHA-256 of the values of variables."""
    digest = hashlib.sha256()
    for variable in variables:
        digest.update(np.ascontiguousarray(variable.numpy()).data)
    return digest.hexdigest()


def _digest_of_code() -> str:
    return _digest_of_files(pathlib.Path(__file__).parents[1], "*.py")


def _digest_of_files(folder: pathlib.Path, pattern: str) -> str:
    """Of names and contents; an index has the checksums of its tensors."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob(pattern)):
        digest.update(f"{path.relative_to(folder)}\n".encode())
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
        match = re.search(r"Collective ops is aborted by: ([^\n]*)", str(error))
        if not match:
            raise
        raise errors.TrainingError(
            "Another worker has gone, or does something else, and a cluster "
            "cannot train without it. Start all workers again to go on from "
            f"the last checkpoint in {model_dir} (TensorFlow: "
            f"{match[1].split('. ')[0]})"
        ) from None
