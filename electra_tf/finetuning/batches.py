"""Features of a labelled set -> batches, as a function of the step.

Batches hold rows of similar length and are padded to the longest of them, not
to the maximum. They are loaded while the one before them is worked on.

Shapes: N rows, B batch, L length.
"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from electra_tf.finetuning.features import Features
from electra_tf.training import replicas

# Lengths are rounded up to a multiple of this. A step is traced once for all of
# them, but its elementwise parts (kernels) are compiled for each of up to 32
# lengths: 0.06 s each, with dropout 0.5 s, once in a process. Rounding to 16
# costs a tenth of the speed on MRPC and a third on SST-2.
LENGTH_STEP = 4
# For steps that XLA compiles as a whole, which takes many seconds each.
COMPILED_LENGTH_STEP = 16
# Rows of this many batches are sorted by length together. Fewer: more random
# batches; more: less padding.
_BATCHES_SORTED_TOGETHER = 50
# What a batch of evaluation has besides features; no task's name begins so.
_ROWS = "/rows"


def train_dataset(
    features: Features,
    seed: int,
    batch_size: int,
    first_step: int = 0,
    shard: replicas.Shard = replicas.WHOLE,
    bucketed: bool = True,
    length_step: int = LENGTH_STEP,
) -> tf.data.Dataset:
    """Endless training batches in a new random order every epoch.

    Args:
      features: Of the whole set.
      seed: Of the order.
      batch_size: Rows of a part of a batch.
      first_step: The step of the first batch.
      shard: Which parts of each batch to yield.
      bucketed: False takes rows of any length together and pads them to L: one
        shape for all batches, as a TPU needs it.
      length_step: Lengths are rounded up to a multiple of this.

    Returns:
      A dataset of the features, [B, ...] with L cut to the batch's longest row.
    """
    plan = _Plan(
        features, seed, batch_size * shard.num_parts, bucketed, length_step
    )
    names = sorted(features)

    def load(index):
        batch, part = divmod(int(shard.part(int(index))), shard.num_parts)
        rows = plan.rows(batch)
        length = plan.length(rows)
        selected = _cut(features, rows, length)
        mine = slice(part * batch_size, (part + 1) * batch_size)
        return [selected[name][mine] for name in names]

    counter = tf.data.Dataset.counter(first_step * shard.local_parts)
    return _loaded(counter, load, features, names, batch_size, not bucketed)


def eval_dataset(
    features: Features,
    batch_size: int,
    costs: Callable[[np.ndarray], np.ndarray] = np.ones_like,
) -> tf.data.Dataset:
    """All rows once, by length.

    Args:
      features: Of the whole set.
      batch_size: Rows of a batch; the last one may hold fewer.
      costs: From tokens of rows <int>[N] to the rows that each counts for, such
        as its windows; a row that counts for more than a batch is one alone.

    Returns:
      A dataset of row numbers <int64>[B] and their features.
    """
    lengths = features["input_mask"].sum(axis=-1)
    order = np.argsort(lengths, kind="stable")
    max_length = features["input_mask"].shape[-1]
    names = sorted(features)

    groups = _groups(order, costs(lengths[order]), batch_size)

    def load(index):
        rows = groups[int(index)]
        length = _round_up(lengths[rows].max(), LENGTH_STEP)
        length = min(length, max_length)
        selected = _cut(features, rows, length)
        return [rows] + [selected[name] for name in names]

    def apart(batch):
        rows = batch.pop(_ROWS)
        return rows, batch

    with_rows = {_ROWS: order} | features
    counter = tf.data.Dataset.range(len(groups))
    loaded = _loaded(counter, load, with_rows, [_ROWS, *names], None)
    return loaded.map(apart).with_options(replicas.UNTUNED)


def _groups(rows: np.ndarray, costs: np.ndarray, most: int) -> list[np.ndarray]:
    """Rows in their order, cut where more would cost more than `most`."""
    starts = [0]
    total = 0
    for place, cost in enumerate(costs):
        if place > starts[-1] and total + cost > most:
            starts.append(place)
            total = 0
        total += cost
    return np.split(rows, starts[1:])


def _loaded(
    counter: tf.data.Dataset,
    load: Callable[[int], Sequence[np.ndarray]],
    like: Features,
    names: Sequence[str],
    batch_size: int | None,
    is_static: bool = False,
) -> tf.data.Dataset:
    """Batches by their number, some of them ahead of the step that needs them.

    Args:
      counter: Numbers of batches.
      load: Takes such a number and returns the features in order.
      like: Features of these types and ranks.
      names: Of the features that `load` returns.
      batch_size: B where all batches have it.
      is_static: Whether the other dimensions are those of `like`, too.
    """

    def as_tensors(index):
        tensors = tf.numpy_function(
            load, [index], [like[name].dtype for name in names]
        )
        batch = dict(zip(names, tensors, strict=True))
        for name in names:
            inner = like[name].shape[1:]
            if not is_static:
                inner = (None,) * len(inner)
            batch[name].set_shape([batch_size, *inner])
        return batch

    return counter.map(
        as_tensors, num_parallel_calls=1, deterministic=True
    ).prefetch(replicas.PREFETCHED_BATCHES)


@dataclasses.dataclass
class _Plan:
    """Which rows make up which batch; `train_dataset` has the words."""

    features: Features
    seed: int
    batch_size: int
    bucketed: bool
    length_step: int

    def __post_init__(self):
        self.num_rows, self.max_length = self.features["input_mask"].shape
        self.lengths = self.features["input_mask"].sum(axis=-1)
        self.batches_per_epoch = -(-self.num_rows // self.batch_size)
        self._epoch = -1
        self._rows = np.zeros(0, np.int64)

    def rows(self, batch: int) -> np.ndarray:
        """Row numbers <int64>[B] of the batch of a step."""
        epoch, within = divmod(batch, self.batches_per_epoch)
        if epoch != self._epoch:
            self._rows = self._plan_epoch(epoch)
            self._epoch = epoch
        return self._rows[within]

    def length(self, rows: np.ndarray) -> int:
        """L of a batch with these rows."""
        if not self.bucketed:
            return self.max_length
        length = _round_up(self.lengths[rows].max(), self.length_step)
        return min(length, self.max_length)

    def _plan_epoch(self, epoch: int) -> np.ndarray:
        random = np.random.default_rng([self.seed, epoch])
        # The last batch is filled up with rows from the start of the order.
        order = np.resize(
            random.permutation(self.num_rows),
            self.batches_per_epoch * self.batch_size,
        )
        if not self.bucketed:
            return order.reshape(-1, self.batch_size)
        together = _BATCHES_SORTED_TOGETHER * self.batch_size
        sorted_parts = [
            part[np.argsort(self.lengths[part], kind="stable")]
            for part in np.split(order, range(together, len(order), together))
        ]
        batches = np.concatenate(sorted_parts).reshape(-1, self.batch_size)
        return random.permutation(batches)


def _round_up(length: int, step: int) -> int:
    return int(-(-length // step) * step)


def _cut(features: Features, rows: np.ndarray, length: int) -> Features:
    """Rows of the features, those [N, L] cut to a length.

    Labels of rows are none of those, even if there are L of them.
    """
    max_length = features["input_ids"].shape[-1]
    cut = {}
    for name, values in features.items():
        cut[name] = values[rows]
        is_of_tokens = values.shape[1:] == (max_length,)
        if is_of_tokens and not name.endswith("_label_ids"):
            cut[name] = cut[name][:, :length]
    return cut
