"""Features of a labelled set -> batches, as a function of the step.

Batches hold rows of similar length and are padded to the longest of them, not
to the maximum. They are loaded while the one before them is worked on. Which
rows meet in a batch changes from epoch to epoch: see `_Plan`.

Shapes: N rows, B batch, L length.
"""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from electra_tf.tasks.features import Features
from electra_tf.training import replicas
from electra_tf.training.numpy_functions import numpy_function

# Lengths are rounded up to a multiple of this. A step is traced once for all of
# them, but its elementwise parts (kernels) are compiled for each of up to 32
# lengths: 0.06 s each, with dropout 0.5 s, once in a process. Rounding to 16
# costs a tenth of the speed on MRPC and a third on SST-2.
LENGTH_STEP = 4
# What training rounds to where an epoch has few batches: it ends before less
# padding makes up for lengths to compile for.
_FEW_BATCHES, _LENGTH_STEP_OF_FEW = 50, 8
# Where XLA compiles whole steps, many seconds for each length.
COMPILED_LENGTH_STEP = 32
# Rows of similar length are one group, and meet at random. Fewer groups: more
# random batches; more: less padding. By these, two rows of a batch meet in the
# next epoch at most three times as often as in batches of any rows; RTE in
# batches of 32 has 7 groups.
_FEWEST_GROUPS, _MOST_GROUPS = 5, 12
_GROUPS_FOR_EACH_BATCH = 0.8
# Shifted by this share of a group in each epoch, the borders between groups
# come closest to where they were as late as they can.
_GOLDEN_SECTION = (math.sqrt(5) - 1) / 2
# Number of a row that is none.
PADDING = -1
# Features [N, C]: C may be L by chance.
_OF_LABELS = ("_label_ids", "_loss_weights")
# Features [N, L] in the order of words, of which a row of the original's tagger
# may have more than tokens; the last one is 1 on words that have a label.
_OF_WORDS = ("_labels", "_labeled_positions", "_labels_mask")
# What a batch of evaluation has besides features; no task's name begins so.
_ROWS = "/rows"


def train_dataset(
    features: Features,
    seed: int,
    batch_size: int,
    first_step: int = 0,
    shard: replicas.Shard = replicas.WHOLE,
    bucketed: bool = True,
    length_step: int | None = None,
) -> tf.data.Dataset:
    """Endless training batches in a new random order every epoch.

    An epoch has every row once. A batch that is not full is filled up with
    padding rows as in the original: all zero, and of no task, so that their
    weight in the loss is 0.

    Args:
      features: Of the whole set; of several tasks with `task_id`.
      seed: Of the order.
      batch_size: Rows of a part of a batch.
      first_step: The step of the first batch.
      shard: Which parts of each batch to yield.
      bucketed: False takes rows of any length together and pads them to L: one
        shape for all batches, as a TPU needs it.
      length_step: Lengths are rounded up to a multiple of this; None for one
        that goes by the size of the set.

    Returns:
      A dataset of the features, [B, ...] with L cut to the batch's longest
      row, and `task_id` <int32>[B], the number of tasks in a padding row.
    """
    plan = _Plan(
        features["input_mask"].sum(axis=-1),
        features["input_mask"].shape[-1],
        seed,
        batch_size * shard.num_parts,
        bucketed,
        length_step,
    )
    if "task_id" not in features:
        of_one_task = np.zeros(plan.num_rows, np.int32)
        features = features | {"task_id": of_one_task}
    num_tasks = features["task_id"].max() + 1

    def load(index):
        batch, part = divmod(int(shard.part(index)), shard.num_parts)
        rows = plan.rows(batch)
        mine = rows[part * batch_size : (part + 1) * batch_size]
        selected = _cut(features, mine, plan.length(rows))
        for name, values in selected.items():
            values[mine == PADDING] = num_tasks if name == "task_id" else 0
        return selected

    counter = tf.data.Dataset.counter(first_step * shard.local_parts)
    return _loaded(counter, load, features, batch_size, not bucketed)


def eval_dataset(
    features: Features,
    batch_size: int,
    costs: Callable[[np.ndarray], np.ndarray] = np.ones_like,
    keeps_order: bool = False,
    length_step: int = LENGTH_STEP,
) -> tf.data.Dataset:
    """All rows once, by length.

    Args:
      features: Of the whole set.
      batch_size: Rows of a batch; the last one may hold fewer.
      costs: From tokens of rows <int>[N] to the rows that each counts for, such
        as its windows; a row that counts for more than a batch is one alone.
      keeps_order: Whether rows stay as they are rather than by length.
      length_step: Lengths are rounded up to a multiple of this.

    Returns:
      A dataset of row numbers <int64>[B] and their features.
    """
    lengths = features["input_mask"].sum(axis=-1)
    order = np.arange(len(lengths))
    if not keeps_order:
        order = np.argsort(lengths, kind="stable")
    groups = _groups(order, costs(lengths[order]), batch_size)
    numbered = features | {_ROWS: np.arange(len(lengths))}

    def load(index):
        rows = groups[index]
        return _cut(numbered, rows, _round_up(lengths[rows].max(), length_step))

    @tf.autograph.experimental.do_not_convert
    def apart(batch):
        rows = batch.pop(_ROWS)
        return rows, batch

    loaded = _loaded(tf.data.Dataset.range(len(groups)), load, numbered)
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
    load: Callable[[int], Features],
    like: Features,
    batch_size: int | None = None,
    is_static: bool = False,
) -> tf.data.Dataset:
    """Batches by their number, some ahead of the step that needs them."""
    names = sorted(like)

    def arrays(index):
        batch = load(int(index))
        return [batch[name] for name in names]

    @tf.autograph.experimental.do_not_convert
    def as_tensors(index):
        dtypes = [like[name].dtype for name in names]
        tensors = numpy_function(arrays, [index], dtypes)
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


def in_batches(rows: np.ndarray, batch_size: int) -> np.ndarray:
    """Row numbers <int64>[N] -> [batches, B], the last one with `PADDING`."""
    missing = np.full(-len(rows) % batch_size, PADDING)
    return np.append(rows, missing).reshape(-1, batch_size)


@dataclasses.dataclass
class _Plan:
    """Which rows make up which batch.

    For an epoch the rows are cut into groups of similar length. Within a group
    those that shared a batch in the epoch before are dealt out to different
    batches, as far as there are so many, and otherwise at random. The borders
    between groups lie elsewhere in every epoch.

    So the rows of an epoch follow from the one before, and all of them from the
    seed. `lengths` is <int>[N], `batch_size` that of all parts.
    """

    lengths: np.ndarray
    max_length: int
    seed: int
    batch_size: int
    bucketed: bool
    length_step: int | None

    def __post_init__(self):
        self.num_rows = len(self.lengths)
        self.batches_per_epoch = -(-self.num_rows // self.batch_size)
        step = self.length_step or LENGTH_STEP
        # What a batch of such rows alone is cut to, or nearly.
        self._padded_lengths = _round_up(self.lengths, step)
        self._step = step
        if not self.length_step and self.batches_per_epoch <= _FEW_BATCHES:
            self._step = _LENGTH_STEP_OF_FEW
        self._start = np.random.default_rng(self.seed).random()
        self._epoch = -1
        self._batches = np.zeros([0, self.batch_size], np.int64)

    def rows(self, batch: int) -> np.ndarray:
        """Row numbers <int64>[B] of the batch of a step, some `PADDING`."""
        epoch, within = divmod(batch, self.batches_per_epoch)
        if epoch < self._epoch:
            self._epoch = -1
        while self._epoch < epoch:
            self._epoch += 1
            self._batches = self._plan_epoch(self._epoch, self._batches)
        return self._batches[within]

    def length(self, rows: np.ndarray) -> int:
        """L of a batch with these rows."""
        if not self.bucketed:
            return self.max_length
        longest = self._padded_lengths[rows[rows != PADDING]].max()
        return int(_round_up(longest, self._step))

    def _plan_epoch(self, epoch: int, before: np.ndarray) -> np.ndarray:
        """Row numbers <int64>[batches, B], after those of the epoch before."""
        random = np.random.default_rng([self.seed, epoch])
        rows = random.permutation(self.num_rows)
        if not self.bucketed:
            return in_batches(rows, self.batch_size)
        if epoch:
            in_order = np.argsort(before, axis=None)[-self.num_rows :]
            met_in = in_order // self.batch_size
            rows = rows[np.argsort(met_in[rows], kind="stable")]
        groups = self._groups(epoch)
        rows = rows[np.argsort(groups[rows], kind="stable")]
        batches = np.full(
            [self.batches_per_epoch, self.batch_size], PADDING, np.int64
        )
        # Any one batch, not always that of the longest rows, is not full.
        places = np.arange(self.num_rows)
        is_behind = places >= (
            random.integers(self.batches_per_epoch) * self.batch_size
        )
        places[is_behind] += batches.size - self.num_rows
        # Neighbours in a group go to one batch of it after the other.
        batch, place = np.divmod(places, self.batch_size)
        dealt = np.lexsort((batch, place, groups[rows]))
        batches.flat[places[dealt]] = rows
        return random.permutation(batches)

    def _groups(self, epoch: int) -> np.ndarray:
        """For each row the number of its group <int>[N], the shortest first.

        A group adds up to its width times its rows in padding. The sum over
        the groups is least where their width goes with 1 / sqrt(density), so a
        group has as much as any other of the sum of sqrt(rows of a length).
        """
        _, of_row, counts = np.unique(
            self._padded_lengths, return_inverse=True, return_counts=True
        )
        shares = np.sqrt(counts)
        middles = (np.cumsum(shares) - shares / 2) / shares.sum()
        wanted = (
            _FEWEST_GROUPS
            + _GROUPS_FOR_EACH_BATCH * self.batches_per_epoch / self.batch_size
        )
        offset = (self._start + epoch * _GOLDEN_SECTION) % 1
        groups = np.floor(middles * min(wanted, _MOST_GROUPS) + offset)
        return groups.astype(int)[of_row]


def _round_up(lengths, step: int):
    return -(-lengths // step) * step


def _cut(features: Features, rows: np.ndarray, length: int) -> Features:
    """Rows of the features, those [N, L] cut to a length.

    Labels of rows are none of those, even if there are L of them; what a tagger
    has of words is cut behind the last one with a label.
    """
    max_length = features["input_ids"].shape[-1]
    num_words = [
        int(values[rows].sum(axis=-1).max())
        for name, values in features.items()
        if name.endswith(_OF_WORDS[-1])
    ]
    cut = {}
    for name, values in features.items():
        cut[name] = values[rows]
        is_of_tokens = values.shape[1:] == (max_length,)
        if is_of_tokens and not name.endswith(_OF_LABELS):
            is_of_words = name.endswith(_OF_WORDS)
            most = max(length, *num_words) if is_of_words else length
            cut[name] = cut[name][:, :most]
    return cut
