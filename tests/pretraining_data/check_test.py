"""Tests of pretraining_data/check.py."""

import gzip
import io
import json
import re
import tarfile
from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from electra_tf import errors
from electra_tf.pretraining_data import check as check_lib
from electra_tf.pretraining_data import corpus, manifest
from tests import helpers

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LATIN = ["the", "cat", "sat", "a", "##s"]


def report_on(
    tmp_path,
    text,
    vocab,
    lower=True,
    strip=True,
    max_seq_length=8,
    config=None,
    blanks_separate_docs=True,
):
    """The report on one file of text with a vocabulary of a few entries."""
    vocab_file = tmp_path / "vocab.txt"
    vocab_file.write_text("".join(f"{token}\n" for token in vocab))
    folder = tmp_path / "corpus"
    folder.mkdir(exist_ok=True)
    (folder / "text.txt").write_text(text, encoding="utf-8")
    sample = check_lib.take_sample(
        corpus.list_files(str(folder)), corpus.Reading(blanks_separate_docs)
    )
    return check_lib.report_on_text(
        sample,
        helpers.make_tokenizer(str(vocab_file), lower, strip),
        max_seq_length,
        config=config,
    )


def run_of(num_steps, batch_size, vocab_size, max_seq_length):
    """The configuration of a run, as far as data are compared with it."""
    return SimpleNamespace(
        run=SimpleNamespace(num_train_steps=num_steps),
        data=SimpleNamespace(train_batch_size=batch_size),
        model=SimpleNamespace(
            encoder=SimpleNamespace(vocab_size=vocab_size),
            max_seq_length=max_seq_length,
        ),
    )


def warnings_with(report, words):
    return [line for line in report.warnings if words in line]


def test_good_text_gives_no_warning(tmp_path):
    report = report_on(
        tmp_path, "the cats\nsat\n" * 48, SPECIAL + LATIN, max_seq_length=32
    )
    assert report.warnings == report.errors == []
    facts = report.facts
    assert facts["text"] == "1 documents, 96 lines, 144 words, 192 tokens"
    assert facts["tokens"] == "1.33 a word, 2.0 a line, 192.0 a document"
    assert facts["[UNK]"] == "0.000% of the words"
    # "the", "cat", "sat" and "##s" of ten entries.
    assert facts["vocabulary"] == "10 entries, 4 of them in the sample"
    assert facts["special tokens"] == (
        "[PAD] 0, [UNK] 1, [CLS] 2, [SEP] 3, [MASK] 4"
    )


def test_unknown_words_and_missing_characters(tmp_path):
    report = report_on(
        tmp_path, "the c\u00e6t sat \u2603 \u2603\n", SPECIAL + LATIN
    )
    facts = report.facts
    assert facts["[UNK]"] == (
        "60.000% of the words, most often '\u2603' (2), 'c\u00e6t' (1)"
    )
    assert facts["missing characters"] == (
        "2 kind(s), 27.273% of the text: '\u2603' U+2603 (2), "
        "'\u00e6' U+00E6 (1)"
    )
    assert warnings_with(report, "60.0% of the words are [UNK]")
    assert warnings_with(report, "first of all '\u2603' U+2603 (2)")


CASED = [*SPECIAL, "The", "Cat", "cat", "sat"]
ACCENTS = [*SPECIAL, "caf\u00e9", "cafe", "##s"]
LETTERS = SPECIAL + list("catsh") + [f"##{letter}" for letter in "catshe"]
MISPLACED = ["the", "", *SPECIAL, "cat", "sat"]
LATIN_VOCAB = SPECIAL + LATIN
KEPT = {"lower": False}
NOT_STRIPPED = {"strip": False}
JOINED = {"blanks_separate_docs": False}
STRIPPED = "stripping accents changes 50.0% of the words, such as "
SEPARATED = "the cat [SEP] sat [SEP]\n"
# Text, vocabulary, flags, and a warning; or "no", and a word that none has.
WARNINGS = [
    ("The Cat sat\n", CASED, {}, "capitals, but 2 of the 4 entries"),
    ("The Cat sat\n", CASED, {}, "use --no-lower-case"),
    ("The Cat sat\n", CASED, KEPT, ("no", "case")),
    ("The cat sat\n", LATIN_VOCAB, KEPT, "33.3% of the words have capitals"),
    ("The cat sat\n", LATIN_VOCAB, KEPT, "use --lower-case"),
    ("caf\u00e9\n", ACCENTS, {}, "its accents, but 1 of the 3 entries"),
    ("caf\u00e9\n", ACCENTS, NOT_STRIPPED, ("no", "accents")),
    ("the c\u00e1t\n", LATIN_VOCAB, KEPT, "50.0% of the words have accents"),
    ("c\u00e1t\n", LATIN_VOCAB, KEPT, "use --lower-case --strip-accents"),
    # Words lose marks in any script.
    ("\u3067 \u6771\n", LATIN_VOCAB, {}, f"{STRIPPED}'\u3067' to '\u3066'"),
    ("\u0924\u0947 a\n", LATIN_VOCAB, {}, "'\u0924\u0947' to '\u0924'"),
    # Syllables are taken apart into letters.
    ("\ud55c\uad6d a\n", LATIN_VOCAB, {}, f"{STRIPPED}'\ud55c\uad6d' to"),
    ("caf\u00e9 the\n", LATIN_VOCAB, {}, "to 'cafe': where that is another"),
    ("\u3067 a\n", LATIN_VOCAB, NOT_STRIPPED, ("no", "stripping")),
    (SEPARATED, MISPLACED, {}, "[PAD] is 2 in the vocabulary"),
    (SEPARATED, MISPLACED, {}, "1 blank line(s), the first on line 2"),
    (SEPARATED, MISPLACED, {}, "no entry of the vocabulary starts with ##"),
    (SEPARATED, MISPLACED, {}, "2 special token(s) stand in the text, such"),
    # [CLS] the cat [SEP] of 8 positions.
    ("the cat\n\n" * 4, LATIN_VOCAB, {}, "50% of the examples is padding"),
    ("the cat\n\n" * 4, LATIN_VOCAB, JOINED, ("no", "padding")),
    # 6 of 60 tokens fit between [CLS] and [SEP].
    ("the cat sat " * 20, LATIN_VOCAB, {}, "90% of the tokens are in no exam"),
    ("the cat sat " * 20, LATIN_VOCAB, {}, "longest line has 60 tokens for 8"),
    ("chest tasteheat\n", LETTERS, {}, "a word takes 7.0 tokens on average"),
]


@pytest.mark.parametrize(("text", "vocab", "flags", "words"), WARNINGS)
def test_what_the_preflight_warns_of(tmp_path, text, vocab, flags, words):
    report = report_on(tmp_path, text, vocab, **flags)
    if isinstance(words, tuple):
        assert not warnings_with(report, words[1])
    else:
        assert len(warnings_with(report, words)) == 1


def test_combining_marks_are_named(tmp_path):
    report = report_on(tmp_path, "cafe\u0301\n", LATIN_VOCAB, strip=False)
    assert "'\u25cc\u0301' U+0301 (1)" in report.facts["missing characters"]


def test_epochs_and_sizes_of_a_run(tmp_path):
    config = run_of(1000, 2, vocab_size=11, max_seq_length=8)
    report = report_on(
        tmp_path,
        "the cat sat the cat sat\n\n" * 4,
        LATIN_VOCAB,
        config=config,
    )
    assert report.facts["epochs"] == ("500.00 in 1,000 steps of 2 examples")
    assert warnings_with(report, "sees every example 500 times")
    assert report.errors == [
        "expected vocab_size=10 in the run's configuration, received 11"
    ]


def test_text_without_a_token(tmp_path):
    report = report_on(tmp_path, "\u200b\n\n", SPECIAL + LATIN)
    assert report.errors == ["the sample makes no examples: it has no tokens"]


def test_the_sample_is_spread_over_the_files(tmp_path):
    for i in range(100):
        (tmp_path / f"{i:02}.txt").write_text(f"{i} one\ntwo\n" * 100)
    files = corpus.list_files(str(tmp_path))
    sample = check_lib.take_sample(files, max_bytes=3200)
    assert len(sample.files) == check_lib.SAMPLE_PIECES
    numbers = [int(lines[0].split()[0]) for lines in sample.files]
    assert np.diff(numbers).max() <= 4
    # 100 bytes of each, or a line more.
    size = sum(len(line) + 1 for lines in sample.files for line in lines)
    assert 3200 <= size <= 3200 + 32 * 8
    total = sum(file.num_bytes for file in files)
    assert sample.share == pytest.approx(size / total, rel=0.01)
    whole = check_lib.take_sample(files, max_bytes=total)
    assert whole.share == 1
    assert len(whole.files) == 100


@pytest.mark.parametrize("ending", ["txt", "jsonl.gz", "tar", "parquet"])
def test_the_share_is_told_of_every_kind_of_file(tmp_path, ending):
    documents = [
        "".join(f"{i * j} the cat\n" for j in range(400)) for i in range(1500)
    ]
    num_text = sum(map(len, documents))
    assert num_text > 6 << 20
    path = tmp_path / f"a.{ending}"
    if ending == "parquet":
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as pq

        pq.write_table(pa.table({"text": documents}), path)
    elif ending == "tar":
        with tarfile.open(path, "w") as archive:
            for i, document in enumerate(documents):
                info = tarfile.TarInfo(f"{i}.txt")
                info.size = len(document)
                archive.addfile(info, io.BytesIO(document.encode()))
    elif ending == "txt":
        path.write_text("".join(documents))
    else:
        rows = (json.dumps({"text": document}) for document in documents)
        path.write_bytes(gzip.compress("\n".join(rows).encode(), 1))
    sample = check_lib.take_sample(
        corpus.list_files(str(tmp_path)), max_bytes=1 << 16
    )
    num_kept = sum(len(line) + 1 for line in sample.files[0])
    assert 1 << 16 <= num_kept < 1 << 17
    # What is packed is read ahead.
    assert sample.share == pytest.approx(num_kept / num_text, rel=0.4)


def test_damaged_places_are_left_out(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"the cat\n\xff\nsat\n")
    sample = check_lib.take_sample(corpus.list_files(str(tmp_path)))
    assert "".join(sample.files[0]) == "the catsat"
    (line,) = sample.bad_input
    assert "whose byte 8 is 0xff" in line


def test_estimates_are_of_the_whole_corpus(tmp_path):
    (tmp_path / "corpus").mkdir()
    for i in range(9):
        (tmp_path / "corpus" / f"{i}.txt").write_text("the cat sat a\n" * 50)
    vocab_file = tmp_path / "vocab.txt"
    vocab_file.write_text("".join(f"{token}\n" for token in SPECIAL + LATIN))
    sample = check_lib.take_sample(
        corpus.list_files(str(tmp_path / "corpus")), max_bytes=700
    )
    report = check_lib.report_on_text(
        sample, helpers.make_tokenizer(str(vocab_file)), 8
    )
    found = int(report.facts["examples"].split()[1])
    # Two lines an example, but for those with a random length.
    assert 200 <= found <= 280


# TFRecords.


def check(folder, config=None, **kwargs):
    files = sorted(str(path) for path in folder.glob("*.tfrecord"))
    return check_lib.report_on_records(files, helpers.VOCAB, config, **kwargs)


@pytest.fixture
def rows():
    return [helpers.row(n) for n in range(10)]


def test_whole_data(tmp_path, rows):
    helpers.write_tfrecords(tmp_path / "a.tfrecord", rows[:4])
    helpers.write_tfrecords(tmp_path / "b.tfrecord", rows[4:])
    run = run_of(20, 2, len(helpers.VOCAB), helpers.LENGTH)
    report = check(tmp_path, run)
    assert report.errors == report.warnings == []
    facts = report.facts
    assert facts["data"] == "2 file(s), 10 examples of 12 tokens"
    assert facts["tokens"] == "111; 7.5% of the positions are padding"
    assert facts["duplicates"] == "0.00% of the examples"
    assert facts["epochs"] == "4.00 in 20 steps of 2 examples"
    assert facts["example 1"] == "[CLS] wa wb wc wd we wf wg wh wi wj [SEP]"
    assert facts["example 2"] == "[CLS] we wb wc wd we wf wg wh wi [SEP]"


# A value of the rows 2 and 7 that is another one, and what is said of that.
DAMAGES = [
    ("input_ids", 4, 20, "have ids outside of 0 to 19"),
    ("input_mask", 4, 0, "have an input_mask that is not ones, then zeros"),
    ("segment_ids", 4, 2, "have segment_ids other than 0 and 1"),
    ("input_ids", 0, 7, "do not start with [CLS] (2)"),
    ("input_ids", 4, helpers.CLS, "or have it elsewhere"),
    ("input_ids", 4, helpers.SEP, "do not have [SEP] (3) at the end"),
    ("segment_ids", 4, 1, "at the end of each segment"),
    ("input_ids", 4, helpers.MASK, "have [MASK] in them"),
    ("input_ids", -1, 7, "have another id than 0 or [PAD] (0)"),
]


@pytest.mark.parametrize(("name", "position", "value", "kind"), DAMAGES)
def test_damaged_rows(tmp_path, rows, name, position, value, kind):
    for row in (rows[2], rows[7]):
        row[name][position] = value
    path = helpers.write_tfrecords(tmp_path / "a.tfrecord", rows)
    report = check(tmp_path)
    # What is on padding trains no worse model.
    lines = report.warnings if position == -1 else report.errors
    (line,) = (line for line in lines if kind in line)
    assert line.startswith("2 record(s) ")
    assert line.endswith(f": record 2 of {path} is the first")


def test_nothing_to_mask(tmp_path, rows):
    rows[3] = {
        "input_ids": [helpers.CLS, helpers.SEP] + [0] * 10,
        "input_mask": [1, 1] + [0] * 10,
        "segment_ids": [0] * 12,
    }
    helpers.write_tfrecords(tmp_path / "a.tfrecord", rows)
    assert warnings_with(check(tmp_path), "have no token to mask")


def test_two_segments_are_as_they_should_be(tmp_path, rows):
    row = helpers.row(0)
    row["input_ids"][5] = helpers.SEP
    row["segment_ids"][6:] = [1] * 6
    helpers.write_tfrecords(tmp_path / "a.tfrecord", [row, *rows[1:]])
    report = check(tmp_path)
    assert report.errors == []
    assert report.facts["segments"] == "two in 10.0% of the examples"


def test_duplicates_and_unknown_tokens(tmp_path, rows):
    rows[5]["input_ids"][1:8] = [helpers.UNK] * 7
    helpers.write_tfrecords(tmp_path / "a.tfrecord", rows + rows[:3])
    report = check(tmp_path)
    assert report.facts["duplicates"] == "23.08% of the examples"
    assert warnings_with(report, "23.1% of the examples repeat an earlier one")
    assert warnings_with(report, "of the tokens are [UNK]")
    ids = np.array([row["input_ids"] for row in rows])
    for row, all_unknown in zip(
        rows, np.where(ids > helpers.MASK, helpers.UNK, ids), strict=True
    ):
        row["input_ids"] = all_unknown.tolist()
    helpers.write_tfrecords(tmp_path / "a.tfrecord", rows)
    (error,) = check(tmp_path).errors
    assert "of the text's tokens are [UNK], from which nothing" in error


def test_rows_of_another_length(tmp_path, rows):
    rows[4]["segment_ids"].pop()
    rows[6] = helpers.row(6, 16)
    path = helpers.write_tfrecords(tmp_path / "a.tfrecord", rows)
    report = check(tmp_path)
    assert report.errors == [
        f"1 record(s) have {number} values of {name} instead of 12: record "
        f"{record} of {path}"
        for number, name, record in (
            (11, "segment_ids", 4),
            (16, "input_ids", 6),
        )
    ]


def test_a_run_of_another_size(tmp_path, rows):
    helpers.write_tfrecords(tmp_path / "a.tfrecord", rows)
    report = check(tmp_path, run_of(20, 20, 30, helpers.LENGTH))
    assert report.errors == [
        "expected vocab_size=20 in the run's configuration, received 30"
    ]
    assert warnings_with(report, "10 examples are fewer than the batch of 20")
    (line, nothing) = check(tmp_path, run_of(20, 20, 20, 16)).errors
    assert line.startswith(
        "10 record(s) have 12 values of input_ids instead of 16"
    )
    assert nothing.startswith("the 1 file(s) hold no example")


def test_records_that_are_no_examples(tmp_path, rows):
    helpers.write_tfrecords(tmp_path / "b.tfrecord", rows)
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as writer:
        writer.write(b"\xff" * 20)
    report = check(tmp_path)
    (line,) = report.errors
    assert line.startswith("1 record(s) are no examples with int64 input_ids")
    assert line.endswith(f": record 0 of {tmp_path}/a.tfrecord")
    assert report.facts["data"].startswith("2 file(s), 10 examples")


def test_a_file_that_is_damaged_or_cut_short(tmp_path, rows):
    helpers.write_tfrecords(tmp_path / "a.tfrecord", rows)
    helpers.write_tfrecords(tmp_path / "b.tfrecord", rows)
    content = bytearray((tmp_path / "a.tfrecord").read_bytes())
    record = len(content) // 10
    content[4 * record + 20] ^= 1
    (tmp_path / "a.tfrecord").write_bytes(content)
    (tmp_path / "b.tfrecord").write_bytes(content[: 3 * record - 5])
    report = check(tmp_path)
    (line,) = report.errors
    assert line.startswith("2 record(s) cannot be read (damaged, cut short")
    assert line.endswith(f": record 4 of {tmp_path}/a.tfrecord is the first")
    # Four whole records, then two.
    assert report.facts["data"].startswith("2 file(s), 6 examples")


def test_counts_of_the_manifest(tmp_path, rows):
    path = helpers.write_tfrecords(tmp_path / "a.tfrecord", rows)
    helpers.write_manifest(tmp_path, {"a.tfrecord": 11})
    assert check(tmp_path).errors == [
        f"expected 11 examples of {path}, as manifest.json says, found 10"
    ]


@pytest.fixture
def built(tmp_path, rows):
    """Two files, their vocabulary, and the manifest of their build."""
    vocab_file = helpers.write_vocab(tmp_path)
    shards = {"a.tfrecord": rows[:4], "b.tfrecord": rows[4:]}
    for name, of_file in shards.items():
        helpers.write_tfrecords(tmp_path / name, of_file)
    counts = {name: len(of_file) for name, of_file in shards.items()}
    helpers.write_manifest(tmp_path, counts)
    report = check(tmp_path, vocab_file=vocab_file)
    assert report.errors == report.warnings == []
    assert report.facts["manifest"] == f"{tmp_path}/manifest.json"
    return tmp_path


def rename(folder):
    (folder / "b.tfrecord").rename(folder / "c.tfrecord")


def exchange(folder):
    helpers.write_tfrecords(folder / "a.tfrecord", [helpers.row(1, 8)] * 4)


def change_vocabulary(folder):
    path = folder / "vocab.txt"
    path.write_text(path.read_text().replace("wa", "wA"))


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (rename, r"expected .*/b\.tfrecord, as .* it is missing"),
        (rename, r"1 file\(s\) are not of the build .*/c\.tfrecord"),
        (exchange, r"bytes of .*/a\.tfrecord, .* of another build"),
        (change_vocabulary, "is not the vocabulary that the data were built"),
    ],
)
def test_what_the_manifest_does_not_describe(built, change, error):
    change(built)
    report = check(built, vocab_file=str(built / "vocab.txt"))
    assert [line for line in report.errors if re.search(error, line)]


def test_what_a_manifest_is_not_compared_with(built):
    files = [str(built / "a.tfrecord")]
    report = check_lib.report_on_records(files, helpers.VOCAB)
    assert report.errors == []
    (line,) = report.warnings
    assert line.startswith("1 of 2 file(s) of the build are not among those")
    path = built / "manifest.json"
    path.write_text("{}")
    report = check(built)
    assert report.errors == []
    assert warnings_with(report, f"nothing is compared: '{path}'")


@pytest.mark.parametrize("left", ["unfinished-build-0ab", "unfinished_build"])
def test_a_part_of_a_build_is_no_data_set(tmp_path, rows, left):
    """Its other files, and the manifest after them, are yet to come."""
    names = [f"pretrain_data.tfrecord-{i}-of-10" for i in (0, 3)]
    files = [helpers.write_tfrecords(tmp_path / n, rows) for n in names]
    manifest.refuse_unfinished(files)
    report = check_lib.report_on_records(files, helpers.VOCAB)
    assert report.errors == []
    missing = (
        f"2 of 10 files named {tmp_path}/pretrain_data.tfrecord-<i>-of-10 are "
        "among those to read: the others are missing, or left out"
    )
    assert missing in report.warnings
    (tmp_path / left).mkdir()
    report = check_lib.report_on_records(files, helpers.VOCAB)
    (line,) = report.errors
    assert line.startswith(f"Expected a finished build in {tmp_path}, with a")
    assert f"interrupted, as {left} says" in line
    with pytest.raises(errors.DataError, match="Expected a finished build"):
        manifest.refuse_unfinished(files)
    # What a finished build leaves there is its own affair.
    helpers.write_manifest(tmp_path, dict.fromkeys(names, len(rows)))
    manifest.refuse_unfinished(files)
    report = check_lib.report_on_records(files, helpers.VOCAB)
    assert report.errors == [] and missing not in report.warnings


def test_all_files_of_a_data_set_of_others(tmp_path, rows):
    names = [f"train-{i:05}-of-00002.tfrecord" for i in range(2)]
    files = [helpers.write_tfrecords(tmp_path / n, rows[:5]) for n in names]
    report = check_lib.report_on_records(files, helpers.VOCAB)
    assert not warnings_with(report, "are missing")
    report = check_lib.report_on_records(files[1:], helpers.VOCAB)
    assert warnings_with(report, "/train-<i>-of-00002.tfrecord are among those")


def test_decode():
    vocab = ["[PAD]", "[CLS]", "play", "##ing", "[SEP]"]
    assert (
        check_lib.decode(np.array([1, 2, 3, 4, 9, 0, 0]), vocab)
        == "[CLS] playing [SEP] <9>"
    )
