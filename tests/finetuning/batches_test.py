"""Tests of finetuning/batches.py."""

import numpy as np
import pytest

from electra_tf.finetuning import batches
from electra_tf.training import replicas

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


def test_the_last_batch_is_filled_up():
    found = rows(take(batches.train_dataset(TEN, 3, 4), 3))
    counts = np.bincount(sum(found, []), minlength=10)
    # 3 batches of 4 for 10 rows: two rows come twice.
    assert sorted(counts.tolist()) == [1] * 8 + [2] * 2


def test_a_batch_may_be_larger_than_the_set():
    (batch,) = rows(take(batches.train_dataset(TEN, 3, 25), 1))
    assert sorted(np.bincount(batch).tolist()) == [2] * 5 + [3] * 5


def test_rows_keep_their_features():
    for batch in take(batches.train_dataset(TEN, 3, 2), 5):
        length = batch["input_ids"].shape[1]
        for place, row in enumerate(batch["task_eid"]):
            for name, values in TEN.items():
                expected = values[row]
                if expected.shape == (MAX_LENGTH,):
                    expected = expected[:length]
                np.testing.assert_array_equal(batch[name][place], expected)


def test_dtypes_and_shapes_are_known():
    spec = batches.train_dataset(TEN, 3, 2).element_spec
    assert spec["input_ids"].shape.as_list() == [2, None]
    assert spec["task_eid"].shape.as_list() == [2]
    assert spec["input_ids"].dtype == np.int32
    assert spec["task_weights"].dtype == np.float32


def test_batches_are_padded_to_a_multiple_of_a_step():
    for batch in take(batches.train_dataset(TEN, 3, 2, length_step=16), 10):
        longest = batch["input_mask"].sum(axis=-1).max()
        length = batch["input_ids"].shape[1]
        # 16 and 32; 48 is beyond the maximum of 40.
        assert length == min(-(-longest // 16) * 16, MAX_LENGTH)
        assert batch["input_mask"].shape == (2, length)
        assert batch["task_weights"].shape == (2, length)
        assert batch["task_words"].shape == (2, 3)


@pytest.mark.parametrize(
    ("longest", "length"),
    [(1, 4), (4, 4), (5, 8), (33, 36), (39, 40), (40, 40)],
)
def test_the_length_of_a_batch(longest, length):
    few = features([1, longest])
    (batch,) = take(batches.train_dataset(few, 3, 2), 1)
    assert batch["input_ids"].shape == (2, length)


def test_rows_of_a_batch_are_of_similar_length():
    found = rows(take(batches.train_dataset(TEN, 3, 2), 5))
    # Sorted by length and cut in twos, in any order.
    assert sorted(sorted(batch) for batch in found) == [
        [0, 1],
        [2, 3],
        [4, 5],
        [6, 7],
        [8, 9],
    ]
    assert sorted(found) != found


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


def test_as_many_labels_as_tokens_are_not_cut():
    labels = np.ones((2, MAX_LENGTH), np.int32)
    rows_with_labels = features([3, 5]) | {"task_label_ids": labels}
    dataset = batches.eval_dataset(rows_with_labels, 2)
    ((_, batch),) = dataset.as_numpy_iterator()
    assert batch["input_ids"].shape == (2, 8)
    assert batch["task_label_ids"].shape == (2, MAX_LENGTH)
