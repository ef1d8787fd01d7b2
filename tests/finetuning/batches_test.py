"""Tests of finetuning/batches.py."""

import numpy as np
import pytest

from electra_tf.finetuning import batches
from electra_tf.model import losses
from electra_tf.model.finetuning_model import FinetuningModel
from electra_tf.tasks import text_tasks
from electra_tf.training import replicas
from tests import helpers

MAX_LENGTH = 40


def features(lengths):
    """Row r has `lengths[r]` tokens, all of id r + 1."""
    mask = np.arange(MAX_LENGTH) < np.array(lengths)[:, np.newaxis]
    rows = np.arange(len(lengths), dtype=np.int32)
    return {
        "input_ids": (mask * (rows[:, np.newaxis] + 1)).astype(np.int32),
        "input_mask": mask.astype(np.int32),
        "segment_ids": np.zeros(mask.shape, np.int32),
        "task_eid": rows,
        "task_weights": mask.astype(np.float32),
        "task_words": np.zeros((len(lengths), 3), np.int32),
    }


TEN = features([5, 9, 13, 16, 17, 20, 30, 33, 38, 40])


def take(dataset, num_batches):
    return list(dataset.take(num_batches).as_numpy_iterator())


def rows(taken):
    return [batch["task_eid"].tolist() for batch in taken]


def assert_equal(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name], name)


def test_every_row_comes_once_an_epoch():
    found = rows(take(batches.train_dataset(TEN, 3, 5), 6))
    for epoch in (found[0:2], found[2:4], found[4:6]):
        assert sorted(epoch[0] + epoch[1]) == list(range(10))
    assert len({str(epoch) for epoch in (found[:2], found[2:4])}) == 2


def assert_padded(batch, num_padding):
    """Padding rows are as the original's: all zero, and of no task."""
    is_padding = batch["task_id"] == 1
    assert is_padding.sum() == num_padding
    assert set(batch["task_id"][~is_padding]) == {0}
    for name, values in batch.items():
        if name != "task_id":
            assert not values[is_padding].any(), name


@pytest.mark.parametrize("bucketed", [True, False])
def test_the_batch_that_is_not_full_has_padding_rows(bucketed):
    dataset = batches.train_dataset(TEN, 3, 4, bucketed=bucketed)
    where = set()
    for epoch in np.split(np.array(take(dataset, 30)), 10):
        counts = [(batch["task_id"] == 1).sum() for batch in epoch]
        assert sorted(counts) == [0, 0, 2]
        where.add(counts.index(2))
        for batch, count in zip(epoch, counts, strict=True):
            assert_padded(batch, count)
        found = [batch["task_eid"][batch["task_id"] == 0] for batch in epoch]
        assert sorted(np.concatenate(found).tolist()) == list(range(10))
        # Padding rows make no batch longer than its rows.
        for batch in epoch:
            assert batch["input_mask"].sum() > 0
    assert where == ({0, 1, 2} if bucketed else {2})


def test_padding_rows_of_several_tasks_are_of_none():
    two = TEN | {"task_id": np.array([0] * 6 + [1] * 4, np.int32)}
    # A batch may be larger than the set.
    (batch,) = take(batches.train_dataset(two, 3, 12), 1)
    assert sorted(batch["task_id"]) == [0] * 6 + [1] * 4 + [2] * 2


def test_padding_rows_have_no_weight(tokenizer):
    task = text_tasks.ClassificationTask("task", ["no", "yes"])
    encoder = helpers.encoder_config()
    model = FinetuningModel(encoder, [task.make_head(encoder)])
    rows = {
        name: np.concatenate([helpers.inputs([n])[name] for n in (2, 0, 1)])
        for name in helpers.inputs([0])
    } | {"task_label_ids": np.array([1, 0, 1], np.int32)}

    def loss(batch_size):
        (batch,) = take(batches.train_dataset(rows, 3, batch_size), 1)
        total, sums = model.training_loss(batch, None, None)
        return float(total), losses.metrics_from_sums(sums)

    (alone, metrics), (padded, padded_metrics) = loss(3), loss(8)
    assert padded == pytest.approx(alone, rel=1e-5)
    assert padded_metrics == pytest.approx(metrics, rel=1e-5)


@pytest.mark.parametrize(
    ("given", "few", "step"), [(16, 50, 16), (None, 5, 8), (None, 4, 4)]
)
def test_batches_are_rows_padded_to_a_multiple_of_a_step(
    monkeypatch, given, few, step
):
    """With none given by the batches of an epoch, which are 5."""
    monkeypatch.setattr(batches, "_FEW_BATCHES", few)
    for batch in take(batches.train_dataset(TEN, 3, 2, length_step=given), 10):
        longest = batch["input_mask"].sum(axis=-1).max()
        # Of 16 up to 32; 48 is beyond the maximum of 40.
        length = min(-(-longest // step) * step, MAX_LENGTH)
        for name, values in TEN.items():
            expected = values[batch["task_eid"]]
            if expected.shape == (2, MAX_LENGTH):
                expected = expected[:, :length]
            np.testing.assert_array_equal(batch[name], expected, name)


# As many rows as RTE, in number and length: every eighth is cut.
LIKE_RTE = np.clip(
    np.random.default_rng(0).lognormal(4.05, 0.55, 2490).astype(int), 13, 128
)
BATCH_SIZE = 32


def rows_like_rtes():
    mask = np.arange(128) < LIKE_RTE[:, np.newaxis]
    names = ("input_ids", "input_mask")
    return {name: mask.astype(np.int32) for name in names} | {
        "task_eid": np.arange(len(mask), dtype=np.int32)
    }


def epochs_like_rtes(num_epochs):
    """For each epoch the number of every row's batch, and the batches' L."""
    dataset = batches.train_dataset(rows_like_rtes(), 3, BATCH_SIZE)
    num_batches = -(-len(LIKE_RTE) // BATCH_SIZE)
    for epoch in np.split(
        np.array(take(dataset, num_epochs * num_batches)), num_epochs
    ):
        batch_of = np.zeros(len(LIKE_RTE), int)
        for number, batch in enumerate(epoch):
            batch_of[batch["task_eid"][batch["task_id"] == 0]] = number
        yield batch_of, [batch["input_ids"].shape[1] for batch in epoch]


def share_that_meets_again(before, after):
    """Of pairs in one batch, how many are in one batch later."""
    pairs = again = 0
    for batch in range(before.max() + 1):
        counts = np.bincount(after[before == batch])
        again += (counts * (counts - 1)).sum()
        pairs += counts.sum() * (counts.sum() - 1)
    return again / pairs


def test_rows_of_a_batch_seldom_meet_again():
    # In batches of any rows.
    by_chance = (BATCH_SIZE - 1) / (len(LIKE_RTE) - 1)
    found = [batch_of for batch_of, _ in epochs_like_rtes(4)]
    for before, after in zip(found, found[1:], strict=False):
        assert share_that_meets_again(before, after) <= 3 * by_chance
    for before, after in zip(found, found[2:], strict=False):
        assert share_that_meets_again(before, after) <= 8 * by_chance


def test_rows_of_a_batch_are_of_similar_length():
    ((_, lengths),) = epochs_like_rtes(1)
    # All rows sorted by length would be 67, any rows together 128.
    least = np.sort(LIKE_RTE)[::-BATCH_SIZE].mean()
    assert np.mean(lengths) < 1.12 * least
    assert lengths != sorted(lengths)


def test_the_order_follows_from_seed_and_step():
    many = features(np.random.default_rng(0).integers(1, 40, 90))
    whole = take(batches.train_dataset(many, 3, 4), 50)
    again = take(batches.train_dataset(many, 3, 4), 50)
    assert rows(whole) == rows(again)
    for first_step in (1, 22, 23, 49):
        (batch,) = take(batches.train_dataset(many, 3, 4, first_step), 1)
        assert_equal(batch, whole[first_step])
    assert rows(take(batches.train_dataset(many, 4, 4), 50)) != rows(whole)


def test_without_buckets_a_batch_is_any_rows_at_full_length():
    dataset = batches.train_dataset(TEN, 3, 2, bucketed=False)
    spec = dataset.element_spec
    assert spec["input_ids"].shape.as_list() == [2, MAX_LENGTH]
    assert spec["task_words"].shape.as_list() == [2, 3]
    taken = take(dataset, 5)
    assert sorted(sum(rows(taken), [])) == list(range(10))
    assert any(abs(first - second) > 1 for first, second in rows(taken))
    for batch in taken:
        assert batch.pop("task_id").tolist() == [0, 0]
        assert_equal(
            batch, {name: TEN[name][batch["task_eid"]] for name in TEN}
        )


def test_shards_are_parts_of_the_whole_batch():
    whole = take(batches.train_dataset(TEN, 3, 4), 4)
    both = take(batches.train_dataset(TEN, 3, 2, 0, replicas.Shard(2, 0, 2)), 8)
    second = take(
        batches.train_dataset(TEN, 3, 2, 1, replicas.Shard(2, 1, 1)), 3
    )
    for step, batch in enumerate(whole):
        halves = both[2 * step], both[2 * step + 1]
        assert_equal(
            {k: np.concatenate([half[k] for half in halves]) for k in batch},
            batch,
        )
        if step:
            assert_equal(second[step - 1], halves[1])


def test_evaluation_has_every_row_once_by_length():
    shuffled = features([40, 5, 17, 16, 33])
    dataset = batches.eval_dataset(shuffled, 2)
    # Or each evaluation would wait for the tuner at its end.
    assert dataset.options().autotune.enabled is False
    found = list(dataset.as_numpy_iterator())
    assert [numbers.tolist() for numbers, _ in found] == [[1, 3], [2, 4], [0]]
    assert [batch["input_ids"].shape for _, batch in found] == [
        (2, 16),
        (2, 36),
        (1, 40),
    ]
    for numbers, batch in found:
        assert batch["task_eid"].tolist() == numbers.tolist()


def evaluated(rows):
    ((_, batch),) = batches.eval_dataset(rows, 2).as_numpy_iterator()
    return batch


def test_as_many_labels_as_tokens_are_not_cut():
    labels = np.ones((2, MAX_LENGTH), np.int32)
    names = ("task_label_ids", "task_loss_weights")
    batch = evaluated(features([3, 5]) | dict.fromkeys(names, labels))
    assert batch["input_ids"].shape == (2, 8)
    for name in names:
        assert batch[name].shape == (2, MAX_LENGTH)


def test_more_words_than_tokens_are_not_cut():
    words = (np.arange(MAX_LENGTH) < [[10], [2]]).astype(np.int32)
    names = ("task_labels", "task_labels_mask", "task_labeled_positions")
    tagged = features([5, 6]) | dict.fromkeys(names, words)
    batch = evaluated(tagged)
    assert batch["input_ids"].shape == (2, 8)
    for name in names:
        np.testing.assert_array_equal(batch[name], words[:, :10])
    # Where there are fewer, all are cut to one length.
    batch = evaluated({name: values[1:] for name, values in tagged.items()})
    assert batch["task_labels"].shape == batch["input_ids"].shape == (1, 8)
