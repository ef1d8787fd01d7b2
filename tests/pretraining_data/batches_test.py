"""Tests of pretraining_data/batches.py."""

import os
import shutil

import numpy as np
import pytest
import tensorflow as tf

from electra_tf import errors
from electra_tf.pretraining_data import batches as batches_lib
from electra_tf.pretraining_data import draws as draws_lib
from electra_tf.pretraining_data import manifest
from electra_tf.pretraining_data import records as records_lib
from electra_tf.training import replicas
from tests import helpers

NUM_ROWS = 10
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


def test_the_examples_of_these_tests_are_distinct():
    assert len(NUMBERS) == NUM_ROWS


def test_match_files(tmp_path):
    for name in ("b.tfrecord", "a.tfrecord", "c.txt"):
        (tmp_path / name).write_text("")
    assert records_lib.match_files(f"{tmp_path}/b*, {tmp_path}/a*") == [
        f"{tmp_path}/a.tfrecord",
        f"{tmp_path}/b.tfrecord",
    ]


@pytest.mark.parametrize("pattern", ["{0}", "{0}/", "{0}/*", "{0}/*tfrecord*"])
def test_a_builders_folder_is_its_records(tmp_path, pattern):
    shard = manifest.shard_name(0, 1)
    unfinished = f"{manifest.TEMPORARY_PREFIX}{shard}-0123456789abcdef"
    for name in (shard, unfinished, *manifest.BESIDE_RECORDS):
        (tmp_path / name).write_text("")
    (found,) = records_lib.match_files(pattern.format(tmp_path))
    assert os.path.samefile(found, tmp_path / shard)


def test_a_folder_may_have_signs_of_a_glob(tmp_path):
    folder = tmp_path / "run[1]"
    folder.mkdir()
    (folder / "a.tfrecord").write_text("")
    (folder / "vocab.txt").write_text("")
    assert records_lib.match_files(str(folder)) == [f"{folder}/a.tfrecord"]


def test_a_file_system_that_cannot_be_asked_is_named():
    with pytest.raises(errors.DataError, match="at none://a/b. Received: File"):
        records_lib.match_files("none://a/b")


@pytest.mark.parametrize("pattern", ["", ",", " , "])
def test_globs_that_are_none(pattern):
    message = f"files at {pattern!r}, found none. Build them with: electra-tf"
    with pytest.raises(errors.DataError, match=message):
        records_lib.match_files(pattern)


def test_a_builders_folder_without_records_is_named(tmp_path):
    (tmp_path / manifest.FILE_NAME).write_text("")
    with pytest.raises(errors.DataError, match="files at .*/[*]tfrecord[*]"):
        records_lib.match_files(str(tmp_path))


@pytest.mark.parametrize(
    ("globs", "message"),
    [
        ("{0}/a*,{0}/b*", "files at .*/b\\*, found none"),
        ("{0}/a*,{0}/*", "which match .*/a.tfrecord twice$"),
        ("{0}/a*,{0}/./a*", "which match .*/./a.tfrecord twice, as .*/a.tfr"),
    ],
)
def test_each_glob_matches_files_of_its_own(tmp_path, globs, message):
    (tmp_path / "a.tfrecord").write_text("")
    with pytest.raises(errors.DataError, match=message):
        records_lib.match_files(globs.format(tmp_path))
    assert records_lib.match_files(f"{tmp_path}/a*,")


def test_reads_the_records_as_they_are(folder):
    data = open_data(folder, shuffle=False)
    assert len(data) == NUM_ROWS
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
    for name in batches_lib.FEATURE_NAMES:
        assert spec[name].shape == (4, helpers.LENGTH), name
    assert all(noise.shape[0] == 4 for noise in spec["noise"])
    features = open_data(folder, in_graph=True).dataset(4).element_spec
    for name in batches_lib.FEATURE_NAMES:
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
    # 5 batches of 4 are 2 epochs of 10.
    batches = numbers(take(data.dataset(4), 5))
    assert sum(batches, []) == sum(numbers(take(data.dataset(10), 2)), [])


def test_the_order_follows_from_the_seed(folder):
    first, again, other = (
        numbers(take(open_data(folder, seed).dataset(NUM_ROWS), 1))
        for seed in (3, 3, 4)
    )
    assert first == again
    assert first != other


def test_orders_are_random(folder):
    orders = numbers(take(open_data(folder).dataset(NUM_ROWS), 300))
    # 10! orders: two of 300 agree once in 80 tries.
    assert len({tuple(order) for order in orders}) >= 299
    for place in (0, 4, 9):
        counts = np.bincount([order[place] for order in orders])
        # 30 of each expected, with a deviation of 5.2.
        assert 10 <= counts.min() <= counts.max() <= 50


def test_without_shuffling_the_order_is_that_of_the_files(folder):
    data = open_data(folder, shuffle=False)
    assert numbers(take(data.dataset(5), 3)) == [
        [0, 1, 2, 3, 4],
        [5, 6, 7, 8, 9],
        [0, 1, 2, 3, 4],
    ]


def test_one_example_may_be_all(tmp_path):
    helpers.write_tfrecords(tmp_path / "a.tfrecord", [helpers.row(7)])
    assert numbers(take(open_data(tmp_path).dataset(2), 1)) == [[7, 7]]


def test_batch_k_does_not_depend_on_the_first_step(folder):
    data = open_data(folder)
    from_the_start = take(data.dataset(4), 7)
    for first_step in (1, 2, 6):
        (batch,) = take(open_data(folder).dataset(4, first_step), 1)
        assert_equal(batch, from_the_start[first_step])


def test_shards_of_two_replicas_are_the_whole_batch(folder):
    data = open_data(folder)
    whole = take(data.dataset(4), 6)
    # Both on one worker, which yields the parts in turn; or one on each.
    both = take(data.dataset(2, 0, replicas.Shard(2, 0, 2)), 12)
    first = take(data.dataset(2, 0, replicas.Shard(2, 0, 1)), 6)
    second = take(data.dataset(2, 0, replicas.Shard(2, 1, 1)), 6)
    for step, batch in enumerate(whole):
        for parts in (
            (both[2 * step], both[2 * step + 1]),
            (first[step], second[step]),
        ):
            assert_equal(
                {k: np.concatenate([part[k] for part in parts]) for k in batch},
                batch,
            )


def test_shards_of_four_replicas_on_two_workers_resume(folder):
    data = open_data(folder)
    (whole,) = take(data.dataset(8, 5), 1)
    parts = []
    for first_part in (0, 2):
        shard = replicas.Shard(4, first_part, 2)
        parts += take(data.dataset(2, 5, shard), 2)
    assert_equal(
        {k: np.concatenate([part[k] for part in parts]) for k in whole}, whole
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


@pytest.mark.parametrize("seed", [0, 42, -3, 2**40 + 1])
def test_rows_of_draws_are_those_of_stateless_uniform(seed):
    numbers = [0, 1, 7, 2**31, 2**33 + 5, 10**12]
    rows = draws_lib.uniform_rows(seed, np.array(numbers), 11)
    for number, row in zip(numbers, rows, strict=True):
        expected = tf.random.stateless_uniform(
            [11], tf.constant([seed, number], tf.int64)
        )
        np.testing.assert_array_equal(row, expected)


def test_order_of_a_batch_in_many_epochs(folder):
    data = open_data(folder)
    # 25 examples are two epochs of 10 and a half.
    (batch,) = numbers(take(data.dataset(25), 1))
    singles = sum(numbers(take(data.dataset(5), 5)), [])
    assert batch == singles


def test_records_of_any_size(tmp_path):
    rng = np.random.default_rng(0)
    contents = [rng.bytes(size) for size in (0, 1, 4083, 4084, 5000, 20_000)]
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as writer:
        for content in contents:
            writer.write(content)
    records = records_lib.Records([str(tmp_path / "a.tfrecord")])
    order = np.array([5, 0, 3, 3, 1, 2, 4])
    assert records.read(order).tolist() == [contents[i] for i in order]


def test_noise_follows_from_the_seed(folder):
    first, other = (
        take(open_data(folder, seed).dataset(4), 1)[0] for seed in (3, 4)
    )
    (second_half,) = take(
        open_data(folder).dataset(2, 0, replicas.Shard(2, 1, 1)), 1
    )
    for name in ("positions", "mask", "sample"):
        np.testing.assert_array_equal(second_half[name], first[name][2:])
        assert (first[name] != other[name]).all()


@pytest.mark.parametrize("option", ["distinct_positions", "whole_word_masking"])
def test_a_draw_for_every_token(folder, option):
    config = helpers.electra_config(**{option: True})
    data = batches_lib.PretrainingData(f"{folder}/*.tfrecord", config, 3)
    (batch,) = take(data.dataset(2), 1)
    assert batch["positions"].shape == (2, helpers.LENGTH)
    assert batch["mask"].shape == batch["sample"].shape == (2, MASK_SLOTS)


def test_finds_a_record_in_its_file(folder):
    records = open_data(folder).records
    assert records.locate(0) == (f"{folder}/a.tfrecord", 0)
    assert records.locate(3) == (f"{folder}/a.tfrecord", 3)
    assert records.locate(4) == (f"{folder}/c.tfrecord", 0)
    assert records.locate(9) == (f"{folder}/c.tfrecord", 5)


def refusal(folder, config=None):
    with pytest.raises(errors.DataError) as caught:
        batches_lib.PretrainingData(
            f"{folder}/*.tfrecord", config or helpers.electra_config(), 3
        )
    return str(caught.value)


def test_a_data_error_is_a_value_error():
    assert issubclass(errors.DataError, ValueError)


def test_refuses_a_glob_that_matches_nothing(tmp_path):
    assert refusal(tmp_path) == (
        f"Expected TFRecord files at {tmp_path}/*.tfrecord, found none. Build "
        "them with: electra-tf build-data "
        "--corpus-dir=CORPUS --vocab-file=VOCAB --output-dir=DIR"
    )


def test_refuses_a_folder_in_place_of_its_files(folder):
    with pytest.raises(errors.DataError) as caught:
        records_lib.Records([str(folder)])
    assert str(caught.value) == (
        f"Expected a TFRecord file at {folder}, which cannot be read: Is a "
        "directory"
    )


def test_refuses_empty_files(tmp_path):
    for name in ("a", "b"):
        helpers.write_tfrecords(tmp_path / f"{name}.tfrecord", [])
    assert refusal(tmp_path) == (
        "Expected examples in 2 TFRecord files, found none. The first file is "
        f"{tmp_path}/a.tfrecord"
    )


@pytest.mark.parametrize("lost_bytes", [1, 30])
def test_refuses_a_file_that_is_cut_short(folder, lost_bytes):
    path = folder / "c.tfrecord"
    content = path.read_bytes()
    path.write_bytes(content[:-lost_bytes])
    start = len(content) // 6 * 5
    assert refusal(folder) == (
        f"Expected a whole TFRecord at byte {start} of {path} (record 5), "
        "found the end of the file: it is cut short, damaged or not a TFRecord "
        "file"
    )


@pytest.mark.parametrize("text", ["text", "a longer text of several words\n"])
def test_refuses_a_file_that_is_no_tfrecord(folder, text):
    path = folder / "b.tfrecord"
    path.write_text(text)
    assert refusal(folder) == (
        f"Expected a whole TFRecord at byte 0 of {path} (record 0), found the "
        "end of the file: it is cut short, damaged or not a TFRecord file"
    )


@pytest.mark.parametrize("token", [20, -1])
def test_refuses_ids_outside_the_vocabulary(folder, token):
    rows = [helpers.row(n) for n in range(3)]
    rows[2]["input_ids"][4] = token
    path = helpers.write_tfrecords(folder / "b.tfrecord", rows)
    assert refusal(folder) == (
        "Expected token ids from 0 to 19 (EncoderConfig.vocab_size - 1), "
        f"received {token} in record 2 of {path}: was it built with another "
        "vocabulary?"
    )


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (
            "input_mask",
            lambda x: 2 * x,
            "input_mask of zeros and ones, received [0, 2]",
        ),
        ("input_mask", lambda x: x + 2**32 * x, "received [0, 4294967297]"),
        ("segment_ids", lambda x: x + 2, "segment_ids from 0 to 1 (Encoder"),
        ("segment_ids", lambda x: x - 1, "type_vocab_size - 1), received [-1]"),
    ],
)
def test_refuses_masks_and_segments_that_are_none(
    folder, name, change, message
):
    rows = [helpers.row(n) for n in range(3)]
    rows[1][name] = change(np.array(rows[1][name])).tolist()
    path = helpers.write_tfrecords(folder / "b.tfrecord", rows)
    found = refusal(folder)
    assert message in found
    assert found.endswith(f"in record 1 of {path}")


def test_takes_masks_with_holes_as_the_original_does(folder):
    (folder / "holes").mkdir()
    row = helpers.row(0)
    row["input_mask"][4] = 0
    helpers.write_tfrecords(folder / "holes/a.tfrecord", [row])
    (batch,) = open_data(folder / "holes").dataset(1).take(1)
    assert batch["input_mask"][0].numpy().tolist() == row["input_mask"]


def test_says_what_metrics_of_held_out_examples_are_not_of(folder):
    data, others = open_data(folder), f"{folder}/a.tfrecord"
    heldout = batches_lib.PretrainingData(others, data.config, 3)
    assert heldout.remarks_on_heldout(None, 4, None) == []
    assert heldout.remarks_on_heldout(None, 3, 1) == []
    shared, left_out = heldout.remarks_on_heldout(data, 3, None)
    assert "1 of 1 held-out file(s) are trained on, too, such as" in shared
    copy = folder / "copy"
    shutil.copy(others, copy)
    heldout = batches_lib.PretrainingData(str(copy), data.config, 3)
    assert heldout.remarks_on_heldout(data, 2, None) == [
        f"1 of 1 held-out file(s) are trained on, too, such as {copy}: their "
        "metrics say nothing of other texts"
    ]
    assert left_out == (
        "the last 1 of 4 held-out examples are not scored, as batches of 3 are "
        "whole"
    )


def test_refuses_examples_of_another_length(folder):
    path = helpers.write_tfrecords(folder / "b.tfrecord", [helpers.row(1, 16)])
    assert refusal(folder) == (
        "Expected 12 values of input_ids (ElectraConfig.max_seq_length), "
        f"received 16 in record 0 of {path}"
    )


def test_refuses_features_of_different_lengths(folder):
    row = helpers.row(1)
    row["segment_ids"] = row["segment_ids"][:-1]
    path = helpers.write_tfrecords(folder / "b.tfrecord", [row])
    assert refusal(folder) == (
        "Expected 12 values of segment_ids (ElectraConfig.max_seq_length), "
        f"received 11 in record 0 of {path}"
    )


@pytest.mark.parametrize("missing", ["input_ids", "input_mask", "segment_ids"])
def test_refuses_examples_without_a_feature(folder, missing):
    row = helpers.row(1)
    del row[missing]
    path = helpers.write_tfrecords(folder / "b.tfrecord", [row])
    assert refusal(folder) == (
        f"Expected 12 values of {missing} (ElectraConfig.max_seq_length), "
        f"received 0 in record 0 of {path}"
    )


def write_raw(path, content):
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(content)


def test_refuses_features_of_another_type(tmp_path):
    example = tf.train.Example()
    for name in ("input_ids", "input_mask", "segment_ids"):
        example.features.feature[name].float_list.value.extend([1.0] * 12)
    write_raw(tmp_path / "a.tfrecord", example.SerializeToString())
    message = refusal(tmp_path)
    assert message.startswith(
        "Expected an example with the features input_ids, input_mask, "
        f"segment_ids in record 0 of {tmp_path}/a.tfrecord. Received: "
    )
    assert "\n" not in message


def test_refuses_records_that_are_no_examples(tmp_path):
    write_raw(tmp_path / "a.tfrecord", b"\xff" * 20)
    assert refusal(tmp_path) == (
        "Expected an example with the features input_ids, input_mask, "
        f"segment_ids in record 0 of {tmp_path}/a.tfrecord. Received: bytes "
        "that are no example"
    )


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
    assert errors.data_error_message(caught.value) == (
        "Expected token ids from 0 to 19 (EncoderConfig.vocab_size - 1), "
        f"received 20 in record 2 of {path}: was it built with another "
        "vocabulary?"
    )


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
    assert errors.data_error_message(caught.value) == (
        f"Expected record 1 of {path} as it was written, received bytes that "
        "do not fit their checksum: the file is damaged"
    )


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
    assert str(caught.value).startswith(
        "Expected an example with the features input_ids, input_mask, "
        f"segment_ids in record 4 of {folder}/c.tfrecord. Received: "
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


def test_another_host_refuses_a_bad_record(folder, monkeypatch):
    monkeypatch.setattr(records_lib, "NUM_CHECKED", 1)
    rows = [helpers.row(n) for n in range(3)]
    rows[2]["input_ids"][4] = 20
    helpers.write_tfrecords(folder / "b.tfrecord", rows)
    data = open_data(folder, shuffle=False, in_graph=True)
    with pytest.raises(tf.errors.OpError) as caught:
        take(data.dataset(2), 4)
    assert errors.data_error_message(caught.value) == (
        "Expected examples of 12 tokens with ids below 20, a mask of zeros "
        "and ones, and segments below 2, received others: electra-tf "
        "check-data shows them"
    )


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
