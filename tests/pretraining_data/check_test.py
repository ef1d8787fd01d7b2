"""Tests of pretraining_data/check.py."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from electra_tf import errors
from electra_tf.pretraining_data import check as check_lib
from electra_tf.pretraining_data import corpus, manifest
from tests import helpers, notices

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LATIN = SPECIAL + ["the", "cat", "sat", "a", "##s"]


def report_on(tmp_path, text, lower=True, strip=True):
    """The report on one file of text with a vocabulary of a few entries."""
    vocab_file = tmp_path / "vocab.txt"
    vocab_file.write_text("".join(f"{token}\n" for token in LATIN))
    folder = tmp_path / "corpus"
    folder.mkdir(exist_ok=True)
    (folder / "text.txt").write_text(text, encoding="utf-8")
    with notices.heard() as lines:
        report = check_lib.report_on_text(
            check_lib.take_sample(corpus.list_files(str(folder))),
            helpers.make_tokenizer(str(vocab_file), lower, strip),
        )
    report.warnings = lines
    return report


def warnings_with(report, words):
    return [line for line in report.warnings if words in line]


def test_good_text_gives_no_warning(tmp_path):
    report = report_on(tmp_path, "the cats\n\nsat\n" * 48)
    assert report.warnings == report.errors == []
    assert report.facts == {
        "sample": "1 file(s), 49 documents, 96 lines, 144 words",
        "[UNK]": "0.000% of the words",
    }


def test_unknown_words(tmp_path):
    report = report_on(tmp_path, "the c\u00e6t sat \u2603 \u2603\n")
    assert report.facts["[UNK]"] == (
        "60.000% of the words, most often '\u2603' (2), 'c\u00e6t' (1)"
    )
    assert warnings_with(report, "60.0% of the words are [UNK]")
    (error,) = report.errors
    assert "60% of the tokens would be [UNK]" in error


STRIPPED = "stripping accents changes 50.0% of the words, such as "
# Words lose marks in any script. Syllables are taken apart into letters.
LOST = [
    ("\u3067 \u6771\n", f"{STRIPPED}'\u3067' to '\u3066'"),
    ("\u0924\u0947 a\n", "'\u0924\u0947' to '\u0924'"),
    ("\ud55c\uad6d a\n", f"{STRIPPED}'\ud55c\uad6d' to"),
    ("caf\u00e9 the\n", "to 'cafe': where that is another word, use --no-str"),
    ("a " + "\u0e01" * 201 + "\n", "99.5% of the text is in 1 word(s) of more"),
]


@pytest.mark.parametrize(("text", "words"), LOST)
def test_text_that_is_lost(tmp_path, text, words):
    assert len(warnings_with(report_on(tmp_path, text), words)) == 1


def test_text_without_a_word(tmp_path):
    report = report_on(tmp_path, "\u200b\n\n")
    assert report.errors == ["the sample has no word"]


def test_the_sample_is_spread_over_the_files(tmp_path):
    for i in range(100):
        (tmp_path / f"{i:02}.txt").write_text(f"{i} one\ntwo\n" * 100)
    files = corpus.list_files(str(tmp_path))
    sample = check_lib.take_sample(files, max_bytes=3200)
    assert len(sample) == check_lib.SAMPLE_FILES
    numbers = [int(lines[0].split()[0]) for lines in sample]
    assert np.diff(numbers).max() <= 4
    # 100 bytes of each, or a line more.
    size = sum(len(line) + 1 for lines in sample for line in lines)
    assert 3200 <= size <= 3200 + 32 * 8
    total = sum(file.num_bytes for file in files)
    assert len(check_lib.take_sample(files, max_bytes=total)) == 100


def test_damaged_places_are_left_out(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"the cat\n\xff\nsat\n")
    with notices.heard() as lines:
        (sample,) = check_lib.take_sample(corpus.list_files(str(tmp_path)))
    assert "".join(sample) == "the catsat"
    assert re.search(
        "1 dam.*or are left out with --on-bad-input=skip: .*8 is 0xff", lines[0]
    )


# TFRecords.


def check(folder, config=None, pattern="*.tfrecord"):
    vocab_file = str(folder / "vocab.txt")
    with notices.heard() as lines:
        report = check_lib.report_on_records(
            f"{folder}/{pattern}", vocab_file, config
        )
    report.warnings = lines
    return report


@pytest.fixture
def rows():
    return [helpers.row(n) for n in range(10)]


@pytest.fixture
def folder(tmp_path):
    helpers.write_vocab(tmp_path)
    return tmp_path


def test_whole_data(folder, rows):
    helpers.write_tfrecords(folder / "a.tfrecord", rows[:4])
    helpers.write_tfrecords(folder / "b.tfrecord", rows[4:])
    run = SimpleNamespace(
        run=SimpleNamespace(num_train_steps=20),
        data=SimpleNamespace(train_batch_size=2),
        model=helpers.electra_config(),
    )
    report = check(folder, run)
    assert report.errors == report.warnings == []
    facts = report.facts
    assert facts["data"] == "2 file(s), 10 examples of 12 tokens"
    assert facts["tokens"] == "111; 7.5% of the positions are padding"
    assert facts["duplicates"] == "0.00% of the examples"
    assert facts["epochs"] == "4.00 in 20 steps of 2 examples"
    del facts["epochs"]
    assert check(folder).facts == facts


# A value of the rows 2 and 7 that is another one, and what is said of that.
DAMAGES = [
    ("input_mask", 4, 0, "have an input_mask that is not ones, then zeros"),
    ("input_ids", 0, 7, "do not begin with [CLS] and end with [SEP]"),
    ("input_ids", 4, helpers.MASK, "have [MASK] in them"),
]


@pytest.mark.parametrize(("name", "position", "value", "kind"), DAMAGES)
def test_odd_rows(folder, rows, name, position, value, kind):
    for row in (rows[2], rows[7]):
        row[name][position] = value
    path = helpers.write_tfrecords(folder / "a.tfrecord", rows)
    (line,) = (line for line in check(folder).errors if kind in line)
    assert line.startswith("2 record(s) ")
    assert line.endswith(f": record 2 of {path} is the first")


def test_records_that_are_no_examples(folder, rows):
    helpers.write_tfrecords(folder / "a.tfrecord", rows)
    with tf.io.TFRecordWriter(str(folder / "b.tfrecord")) as writer:
        writer.write(b"\xff" * 20)
    with pytest.raises(errors.DataError, match=r"in record 0 of .*b\.tfrecord"):
        check(folder)


def test_duplicates_and_unknown_tokens(folder, rows):
    rows[5]["input_ids"][1:8] = [helpers.UNK] * 7
    helpers.write_tfrecords(folder / "a.tfrecord", rows + rows[:3])
    report = check(folder)
    assert report.facts["duplicates"] == "23.08% of the examples"
    assert warnings_with(report, "23.1% of the examples repeat an earlier one")
    assert warnings_with(report, "of the text's tokens are [UNK]")
    ids = np.array([row["input_ids"] for row in rows])
    for row, all_unknown in zip(
        rows, np.where(ids > helpers.MASK, helpers.UNK, ids), strict=True
    ):
        row["input_ids"] = all_unknown.tolist()
    helpers.write_tfrecords(folder / "a.tfrecord", rows)
    (error,) = check(folder).errors
    assert "of the text's tokens are [UNK], from which nothing" in error
    for row in rows:
        known = (helpers.CLS, helpers.SEP)
        row["input_ids"] = [i * (i in known) for i in row["input_ids"]]
    helpers.write_tfrecords(folder / "a.tfrecord", rows)
    assert "nothing to learn" in check(folder).errors[0]


def test_a_run_of_another_vocabulary(folder, rows):
    helpers.write_tfrecords(folder / "a.tfrecord", rows)
    encoder = SimpleNamespace(vocab_size=30)
    model = SimpleNamespace(encoder=encoder)
    with pytest.raises(errors.ConfigError, match="vocab_size=30.*=20 "):
        check(folder, SimpleNamespace(model=model))


@pytest.fixture
def built(folder, rows):
    """Two files, their vocabulary, and the manifest of their build."""
    shards = {"a.tfrecord": rows[:4], "b.tfrecord": rows[4:]}
    for name, of_file in shards.items():
        helpers.write_tfrecords(folder / name, of_file)
    counts = {name: len(of_file) for name, of_file in shards.items()}
    helpers.write_manifest(folder, counts)
    assert check(folder).errors == []
    return folder


def rename(folder):
    (folder / "b.tfrecord").rename(folder / "c.tfrecord")


def exchange(folder):
    helpers.write_tfrecords(folder / "a.tfrecord", [helpers.row(1)] * 3)


def change_vocabulary(folder):
    path = folder / "vocab.txt"
    path.write_text(path.read_text().replace("wa", "wA"))


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (rename, r"expected .*/b\.tfrecord, as .* it is missing"),
        (rename, r"1 file\(s\) are not of the build .*/c\.tfrecord"),
        (exchange, r"expected 4 examples, .*a\.tfrecord.* of another build"),
        (change_vocabulary, "is not the vocabulary that the data in"),
    ],
)
def test_what_the_manifest_does_not_describe(built, change, error):
    change(built)
    assert [line for line in check(built).errors if re.search(error, line)]


def test_a_part_of_a_build_is_no_data_set(folder, rows):
    """Its other files, and the manifest after them, are yet to come."""
    files = [helpers.write_tfrecords(folder / "a.tfrecord", rows)]
    manifest.refuse_unfinished(files)
    (folder / manifest.UNFINISHED).mkdir()
    with pytest.raises(errors.DataError, match="Expected a finished build"):
        manifest.refuse_unfinished(files)
    with pytest.raises(errors.DataError, match="Expected a finished build"):
        check(folder)
    # What a finished build leaves there is its own affair.
    helpers.write_manifest(folder, {"a.tfrecord": len(rows)})
    manifest.refuse_unfinished(files)
    assert check(folder).errors == []


def test_missing_files_of_a_data_set_of_others(tmp_path, rows):
    names = [f"train-{i:05}-of-00002.tfrecord" for i in range(2)]
    files = [helpers.write_tfrecords(tmp_path / n, rows[:5]) for n in names]
    counts = dict.fromkeys(files, 5)
    assert notices.of(manifest.differences, counts) == []
    (line,) = notices.of(manifest.differences, {files[1]: 5})
    assert "1 of 2 files named" in line and "<i>-of-00002.tfrecord" in line
    (line,) = notices.of(manifest.differences, counts | {files[1]: 0})
    assert line.startswith("1 of 2 files hold no example") and files[1] in line
