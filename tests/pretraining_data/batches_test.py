"""Tests of pretraining_data/batches.py."""

import os
import re

import numpy as np
import pytest
import tensorflow as tf

from electra_tf import errors
from electra_tf.pretraining_data import batches as batches_lib
from electra_tf.pretraining_data import manifest
from electra_tf.pretraining_data import records as records_lib
from electra_tf.training import replicas
from tests import helpers, notices

NUM_ROWS = 10
FEATURES = batches_lib.FEATURE_NAMES
MASK_SLOTS = 3


@pytest.fixture
def folder(tmp_path):
    """Examples 0 to 9 in three files, the second of which is empty."""
    for name, numbers in (("a", range(4)), ("b", ()), ("c", range(4, 10))):
        helpers.write_tfrecords(
            tmp_path / f"{name}.tfrecord", [helpers.row(n) for n in numbers]
        )
    return tmp_path


def open_data(folder, seed=3, name="*.tfrecord", **kwargs):
    return batches_lib.PretrainingData(
        f"{folder}/{name}", helpers.electra_config(), seed, **kwargs
    )


def take(dataset, num_batches):
    """Batches as flat dictionaries of numpy arrays."""
    batches = []
    for batch in dataset.take(num_batches).as_numpy_iterator():
        noise = batch.pop("noise")
        batches.append(batch | noise._asdict())
    return batches


NUMBERS = {tuple(helpers.row(n)["input_ids"]): n for n in range(NUM_ROWS)}


def numbers(batches):
    """The examples of each batch."""
    return [
        [NUMBERS[tuple(row.tolist())] for row in batch["input_ids"]]
        for batch in batches
    ]


def assert_equal(ours, theirs):
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name], name)


assert len(NUMBERS) == NUM_ROWS  # All are distinct.


@pytest.mark.parametrize("pattern", ["{0}", "{0}/", "{0}/*", "{0}/*tfrecord*"])
def test_a_builders_folder_is_its_records(tmp_path, pattern):
    shard = "pretrain_data.tfrecord-0-of-1"
    unfinished = f"{manifest.TEMPORARY_PREFIX}{shard}-0123456789abcdef"
    for name in (shard, unfinished, *manifest.BESIDE_RECORDS):
        (tmp_path / name).write_text("")
    (path,) = records_lib.match_files(pattern.format(tmp_path))
    assert os.path.samefile(path, tmp_path / shard)


def test_globs_between_commas_and_a_folder_with_signs_of_one(tmp_path):
    folder = tmp_path / "run[1]"
    folder.mkdir()
    for path in (folder / "a.tfrecord", folder / "vocab.txt", tmp_path / "b"):
        path.write_text("")
    paths = [f"{tmp_path}/b", f"{folder}/a.tfrecord"]
    assert records_lib.match_files(f"{folder}, {tmp_path}/b*,") == paths


@pytest.mark.parametrize(
    ("globs", "message"),
    [
        ("", "files at '', found none. Build them with: electra-tf"),
        (" , ", "files at ' , ', found none"),
        ("none://a/b", "at none://a/b. Received: File"),
        ("{0}/empty", "files at .*/empty/[*]tfrecord[*]"),
        ("{0}/a*,{0}/b*", "files at .*/b\\*, found none"),
    ],
)
def test_each_glob_matches_files_of_its_own(tmp_path, globs, message):
    (tmp_path / "a.tfrecord").write_text("")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / manifest.FILE_NAME).write_text("")
    with pytest.raises(errors.DataError, match=message):
        records_lib.match_files(globs.format(tmp_path))
    # A file that two of them match is read once.
    doubled = f"{tmp_path}/a*,{tmp_path}/./a*"
    assert len(records_lib.match_files(doubled)) == 1


def test_reads_the_records_as_they_are(folder):
    data = open_data(folder, shuffle=False)
    assert len(data) == NUM_ROWS
    assert data.records.locate(3) == (f"{folder}/a.tfrecord", 3)
    assert data.records.locate(4) == (f"{folder}/c.tfrecord", 0)
    (batch,) = take(data.dataset(NUM_ROWS), 1)
    expected = helpers.inputs(range(NUM_ROWS))
    for name, values in expected.items():
        np.testing.assert_array_equal(batch[name], values)
        assert batch[name].dtype == np.int32
    for name in ("positions", "mask", "sample"):
        assert batch[name].shape == (NUM_ROWS, MASK_SLOTS)
        assert batch[name].dtype == np.float32


def test_shapes_are_static(folder):
    """XLA and TPUs compile a step for one shape."""
    spec = open_data(folder).dataset(4).element_spec
    for name in FEATURES:
        assert spec[name].shape == (4, helpers.LENGTH), name
    assert all(noise.shape[0] == 4 for noise in spec["noise"])
    features = open_data(folder, in_graph=True).dataset(4).element_spec
    for name in FEATURES:
        assert features[name].shape == (4, helpers.LENGTH), name


def test_the_digest_is_that_of_the_records_in_their_order(folder, tmp_path):
    digest = open_data(folder).digest
    moved = tmp_path / "moved"
    moved.mkdir()
    for path in folder.glob("*.tfrecord"):
        path.rename(moved / path.name)
    assert open_data(moved).digest == digest
    (moved / "a.tfrecord").rename(moved / "z.tfrecord")
    assert open_data(moved).digest != digest
    rows = [helpers.row(n) for n in (0, 1, 2, 6)]  # Of the same lengths.
    (moved / "z.tfrecord").unlink()
    helpers.write_tfrecords(moved / "a.tfrecord", rows)
    assert open_data(moved).digest != digest


def test_the_order_of_an_epoch_is_a_permutation(folder):
    batches = numbers(take(open_data(folder).dataset(NUM_ROWS), 4))
    for batch in batches:
        assert sorted(batch) == list(range(NUM_ROWS))
    assert len({tuple(batch) for batch in batches}) == 4


def test_an_epoch_may_end_within_a_batch(folder):
    data = open_data(folder)
    # 5 batches of 4 are 2 epochs of 10, and a batch of 25 is more than that.
    batches = numbers(take(data.dataset(4), 5))
    assert sum(batches, []) == sum(numbers(take(data.dataset(10), 2)), [])
    (batch,) = numbers(take(data.dataset(25), 1))
    assert batch == sum(numbers(take(data.dataset(5), 5)), [])


def test_order_and_noise_follow_from_the_seed(folder):
    (first,), (again,), (other,) = (
        take(open_data(folder, seed).dataset(NUM_ROWS), 1) for seed in (3, 3, 4)
    )
    assert_equal(first, again)
    assert numbers([first]) != numbers([other])
    for name in ("positions", "mask", "sample"):
        assert (first[name] != other[name]).all()


def test_without_shuffling_the_order_is_that_of_the_files(folder):
    data = open_data(folder, shuffle=False)
    batches = numbers(take(data.dataset(5), 3))
    assert batches == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [0, 1, 2, 3, 4]]
    helpers.write_tfrecords(folder / "one", [helpers.row(7)])
    assert numbers(take(open_data(folder, name="one").dataset(2), 1)) == [
        [7, 7]
    ]


def test_batch_k_does_not_depend_on_the_first_step(folder):
    data = open_data(folder)
    from_the_start = take(data.dataset(4), 7)
    for first_step in (1, 2, 6):
        (batch,) = take(open_data(folder).dataset(4, first_step), 1)
        assert_equal(batch, from_the_start[first_step])


# Parts of a batch of 8, and how many of them each worker has.
@pytest.mark.parametrize(("num_parts", "of_worker"), [(2, 2), (2, 1), (4, 2)])
@pytest.mark.parametrize("first_step", [0, 5])
def test_shards_are_the_whole_batch(folder, num_parts, of_worker, first_step):
    data = open_data(folder)
    parts = [[] for _ in range(3)]
    for first in range(0, num_parts, of_worker):
        # A worker yields its parts in turn.
        shard = replicas.Shard(num_parts, first, of_worker)
        batches = data.dataset(8 // num_parts, first_step, shard)
        for i, part in enumerate(take(batches, 3 * of_worker)):
            parts[i // of_worker].append(part)
    for batch, of_batch in zip(
        take(data.dataset(8, first_step), 3), parts, strict=True
    ):
        assert_equal(
            {k: np.concatenate([part[k] for part in of_batch]) for k in batch},
            batch,
        )


def test_noise_is_new_for_every_example_and_epoch(folder):
    data = open_data(folder, shuffle=False)
    first, second = take(data.dataset(NUM_ROWS), 2)
    draws = np.concatenate(
        [batch[k] for batch in (first, second) for k in ("positions", "mask")]
        + [first["sample"], second["sample"]]
    )
    assert len(np.unique(draws)) == draws.size
    assert 0 <= draws.min() < 0.1
    assert 0.9 < draws.max() < 1


def test_records_of_any_size(tmp_path):
    rng = np.random.default_rng(0)
    contents = [rng.bytes(size) for size in (0, 1, 4083, 4084, 5000, 20_000)]
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as writer:
        for content in contents:
            writer.write(content)
    records = records_lib.Records([str(tmp_path / "a.tfrecord")])
    order = np.array([5, 0, 3, 3, 1, 2, 4])
    assert records.read(order).tolist() == [contents[i] for i in order]


@pytest.mark.parametrize("option", ["distinct_positions", "whole_word_masking"])
def test_a_draw_for_every_token(folder, option):
    config = helpers.electra_config(**{option: True})
    data = batches_lib.PretrainingData(f"{folder}/*.tfrecord", config, 3)
    (batch,) = take(data.dataset(2), 1)
    assert batch["positions"].shape == (2, helpers.LENGTH)
    assert batch["mask"].shape == batch["sample"].shape == (2, MASK_SLOTS)


def refusal(folder):
    with pytest.raises(errors.DataError) as caught:
        open_data(folder)
    line = str(caught.value)
    assert "\n" not in line
    return line


def changed(name, position, value):
    row = helpers.row(1)
    row[name][position] = value
    return row


WITHOUT_FEATURE = {name: helpers.row(1)[name] for name in FEATURES[1:]}
# Rows that do not fit, and the words on the second of them.
ROWS = [
    (changed("input_ids", 4, 20), "ids from 0 to 19 .*, received 20 in"),
    (changed("input_ids", 4, -1), "ids from 0 to 19 .*, received -1 in"),
    (changed("input_mask", 4, 2), "of zeros and ones, received 2 in"),
    (changed("input_mask", 4, 2**32 + 1), "ones, received 4294967297 in"),
    (changed("segment_ids", 4, 2), "segment_ids from 0 to 1 .*, received 2 in"),
    (changed("segment_ids", 4, -1), "type_vocab_size - 1\\), received -1 in"),
    (helpers.row(1, 16), "12 values of input_ids .*, received 16 in"),
    (
        helpers.row(1) | {"segment_ids": [0] * 11},
        "12 values of segment_ids .*max_seq_length\\), received 11 in",
    ),
    (WITHOUT_FEATURE, "12 values of input_ids .*, received 0 in"),
]


@pytest.mark.parametrize(("row", "words"), ROWS)
def test_refuses_rows_that_do_not_fit(folder, row, words):
    rows = [helpers.row(0), row]
    path = helpers.write_tfrecords(folder / "b.tfrecord", rows)
    assert re.search(
        f"Expected .*{words}.* record 1 of {path}", refusal(folder)
    )


def test_takes_masks_with_holes_as_the_original_does(tmp_path):
    row = changed("input_mask", 4, 0)
    helpers.write_tfrecords(tmp_path / "a.tfrecord", [row])
    (batch,) = open_data(tmp_path).dataset(1).take(1)
    assert batch["input_mask"][0].numpy().tolist() == row["input_mask"]


def write_raw(path, content):
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(content)


def floats():
    example = tf.train.Example()
    for name in FEATURES:
        example.features.feature[name].float_list.value.extend([1.0] * 12)
    return example.SerializeToString()


@pytest.mark.parametrize("content", [b"\xff" * 20, floats()])
def test_refuses_records_that_are_no_examples(tmp_path, content):
    write_raw(tmp_path / "a.tfrecord", content)
    assert refusal(tmp_path).startswith(
        "Expected an example with the features input_ids, input_mask, "
        f"segment_ids in record 0 of {tmp_path}/a.tfrecord. Received: "
    )


def test_names_the_features_that_a_record_has_instead(tmp_path):
    example = tf.train.Example()
    for name in ("input_word_ids", "input_mask"):
        example.features.feature[name].int64_list.value.extend([1] * 12)
    write_raw(tmp_path / "a.tfrecord", example.SerializeToString())
    assert refusal(tmp_path).endswith(
        f"received 0 in record 0 of {tmp_path}/a.tfrecord, whose features are "
        "input_mask, input_word_ids"
    )


def cut_short(folder):
    path = folder / "c.tfrecord"
    path.write_bytes(path.read_bytes()[:-1])


def no_tfrecord(folder):
    (folder / "b.tfrecord").write_text("a longer text of several words\n")


def no_records(folder):
    for name in "abc":
        helpers.write_tfrecords(folder / f"{name}.tfrecord", [])


def no_files(folder):
    for name in "abc":
        (folder / f"{name}.tfrecord").unlink()


def a_folder(folder):
    (folder / "d.tfrecord").mkdir()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (cut_short, r"whole TFRecord at byte \d+ of .*c.tfrecord \(record 5\)"),
        (no_tfrecord, r"at byte 0 of .*b.tfrecord \(record 0\), found the end"),
        (no_records, "in 3 TFRecord files, found none. The first .*a.tfrecord"),
        (no_files, "found none. Build them with: electra-tf build-data --corp"),
        (a_folder, "d.tfrecord, which cannot be read: Is a directory"),
    ],
)
def test_refuses_files_that_are_not_whole(folder, change, words):
    change(folder)
    assert re.search(words, refusal(folder))


def test_says_what_metrics_of_held_out_examples_are_not_of(folder):
    data = open_data(folder)
    heldout = open_data(folder, name="a.tfrecord")
    with notices.heard() as lines:
        heldout.warn_as_heldout(None, 4, None)
        heldout.warn_as_heldout(None, 3, 1)
        assert lines == []
        heldout.warn_as_heldout(data, 3, None)
    shared, left_out = lines
    assert "1 of 1 held-out file(s) are trained on, too, such as" in shared
    assert left_out.startswith("the last 1 of 4 held-out examples are not")


def test_refuses_a_bad_record_when_its_step_comes(folder, monkeypatch):
    # The sample that is looked at before the run misses it.
    monkeypatch.setattr(records_lib, "NUM_CHECKED", 1)
    rows = [helpers.row(n) for n in range(3)]
    rows[2]["input_ids"][4] = 20
    path = helpers.write_tfrecords(folder / "b.tfrecord", rows)
    batches = open_data(folder, shuffle=False).dataset(2)
    assert len(take(batches, 3)) == 3
    with pytest.raises(tf.errors.OpError) as caught:
        take(batches, 4)
    line = errors.data_error_message(caught.value)
    assert f"received 20 in record 2 of {path}: was it built" in line


@pytest.mark.parametrize(
    "place", [5, 40, -2], ids=["length", "data", "checksum"]
)
def test_refuses_a_flipped_bit_when_its_step_comes(folder, place, monkeypatch):
    monkeypatch.setattr(records_lib, "NUM_CHECKED", 1)
    path = folder / "c.tfrecord"
    data = open_data(folder, shuffle=False)
    start = data.records.offsets[4 + 1]
    content = bytearray(path.read_bytes())
    content[(start if place > 0 else data.records.offsets[6]) + place] ^= 1
    path.write_bytes(content)
    batches = data.dataset(2)
    assert len(take(batches, 2)) == 2
    with pytest.raises(tf.errors.OpError) as caught:
        take(batches, 3)
    line = errors.data_error_message(caught.value)
    assert line.startswith(f"Expected record 1 of {path} as it was written")


def test_names_the_record_of_a_batch_that_does_not_parse(folder, monkeypatch):
    monkeypatch.setattr(records_lib, "NUM_CHECKED", 1)
    good = (folder / "a.tfrecord").read_bytes()
    write_raw(folder / "bad.tfrecord", b"\xff" * 20)
    bad = (folder / "bad.tfrecord").read_bytes()
    (folder / "bad.tfrecord").unlink()
    (folder / "c.tfrecord").write_bytes(good + bad + good)
    data = open_data(folder, shuffle=False)
    data.refuse_bad_batches(4, 0, 2)
    with pytest.raises(errors.DataError) as caught:
        data.refuse_bad_batches(4, 1, 2)
    assert f"in record 4 of {folder}/c.tfrecord. Received: " in str(
        caught.value
    )


def assert_needs_no_python(batches):
    graph = tf.raw_ops.DatasetToGraphV2(input_dataset=batches._variant_tensor)
    assert b"TFRecordDatasetV2" in graph.numpy()
    assert b"PyFunc" not in graph.numpy()


@pytest.mark.parametrize("shuffle", [True, False])
def test_another_host_makes_the_same_batches_without_python(folder, shuffle):
    shard = replicas.Shard(4, 2, 2)
    here = open_data(folder, shuffle=shuffle).dataset(2, 5, shard)
    data = open_data(folder, shuffle=shuffle, in_graph=True)
    there = data.dataset(2, 5, shard)
    assert_needs_no_python(there)
    assert there.element_spec == here.element_spec
    for ours, theirs in zip(take(here, 3), take(there, 3), strict=True):
        assert_equal(ours, theirs)


def test_counts_the_tokens_of_all_records(folder):
    frequencies = open_data(folder).token_frequencies()
    counts = np.ones(len(helpers.VOCAB))
    for number in range(NUM_ROWS):
        row = helpers.row(number)
        tokens = row["input_ids"][: sum(row["input_mask"])]
        counts += np.bincount(tokens, minlength=len(counts))
    assert frequencies.dtype == np.float32
    np.testing.assert_allclose(frequencies, counts / counts.sum(), rtol=1e-6)


def test_counts_the_padding(folder):
    padding = sum(helpers.row(n)["input_mask"].count(0) for n in range(10))
    expected = padding / (NUM_ROWS * helpers.LENGTH)
    assert open_data(folder).share_of_padding() == pytest.approx(expected)
