"""Tests of electra_tf/pretraining_data/examples.py."""

import hashlib
import random
import types

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.pretraining_data import (
    corpus,
    examples,
    manifest,
    parts,
)
from electra_tf.pretraining_data import records as records_lib
from electra_tf.text import vocabulary
from tests import helpers
from tests.pretraining_data import readable
from tests.pretraining_data.readable import Example

# Padding is 0.
TOKENIZER = types.SimpleNamespace(
    cls_token_id=1, sep_token_id=2, do_lower_case=True
)


class Draws(random.Random):
    """Draws what a test says, in its order, and nothing more."""

    def __init__(self, *draws):
        super().__init__()
        self.draws = list(draws)

    def random(self):
        return self.draws.pop(0)

    def randint(self, a, b):
        assert a <= self.draws[0] <= b
        return self.draws.pop(0)


def builder(max_length, *draws):
    rng = Draws(*draws)
    return examples.ExampleBuilder(TOKENIZER, max_length, rng), rng


def words_to_packed_ids(lines):
    """Stands for a tokenizer: a number is its own id."""
    return [readable.pack(map(int, line.split())) for line in lines]


TWO = [0.5, 0.9]  # Two segments, and no random length.
# Sentences of token ids, the draws, the tokens of each segment.
EXAMPLES = [
    # The first segment aims at (9 - 3) // 2 = 3 tokens: the second sentence
    # does not fit, and whether it goes there anyway is drawn.
    (
        [[11, 12], [13, 14, 15], [16, 17, 18, 19]],
        [0.5, 0.7, 0.9],
        [[1, 11, 12, 2], [13, 14, 15, 16, 2]],
    ),
    (
        [[11, 12], [13, 14, 15], [16, 17, 18, 19]],
        [0.5, 0.4, 0.9],
        [[1, 11, 12, 13, 14, 15, 2], [16, 2]],
    ),
    # One in ten examples has one segment.
    (
        [[11, 12], [*range(20, 30)]],
        [0.09, 0.9],
        [[1, 11, 12, 20, 21, 22, 23, 24, 2], []],
    ),
    # A first segment that fills the example leaves no second.
    (
        [[11, 12, 13], [21, 22, 23, 24, 25, 26]],
        TWO,
        [[1, 11, 12, 13, 2], [21, 22, 23, 2]],
    ),
    ([[*range(11, 21)]], TWO, [[1, 11, 12, 13, 14, 15, 16, 17, 2], []]),
    # The end of a document, at which there is padding.
    ([[11], None], TWO, [[1, 11, 2], []]),
    # A sentence without tokens does not end it.
    ([[11], [], None], TWO, [[1, 11, 2], []]),
]


@pytest.mark.parametrize(("sentences", "draws", "segments"), EXAMPLES)
def test_sentences_become_an_example(sentences, draws, segments):
    build, rng = builder(9, *draws)
    *made, example = (
        readable.end(build) if ids is None else readable.add(build, ids)
        for ids in sentences
    )
    first, second = segments
    padding = [0] * (9 - len(first) - len(second))
    assert not any(made)
    assert example == Example(
        input_ids=first + second + padding,
        input_mask=[1] * len(first + second) + padding,
        segment_ids=[0] * len(first) + [1] * len(second) + padding,
    )
    assert rng.draws == []
    assert readable.end(build) is None


def test_the_next_length_may_be_random():
    build, rng = builder(9, 0.5, 0.04, 5, 0.5, 0.9)
    assert readable.add(build, list(range(11, 20))) is not None
    assert rng.draws == [0.5, 0.9]
    # Now 5 tokens are enough.
    assert readable.add(build, [11, 12, 13, 14]) is None
    assert readable.add(build, [15]) is not None
    assert rng.draws == []


def examples_of(tmp_path, text, **kwargs):
    path = tmp_path / "text.txt"
    path.write_text(text, encoding="utf-8")
    build = examples.ExampleBuilder(TOKENIZER, 16, random.Random(0))
    made = readable.examples_of_file(
        str(path), build, words_to_packed_ids, **kwargs
    )
    return [
        [i for i, m in zip(e.input_ids, e.input_mask, strict=True) if m]
        for e in map(readable.parse, made)
    ]


def test_blank_lines_and_the_end_of_a_file_end_documents(tmp_path):
    made = examples_of(tmp_path, "\n11 12\n \t\n\n21\n22")
    assert [[i for i in row if i > 2] for row in made] == [[11, 12], [21, 22]]
    made = examples_of(tmp_path, "11 12\n\n21\n", blanks_separate_docs=False)
    assert [[i for i in row if i > 2] for row in made] == [[11, 12, 21]]


def write_part(files, path, seed, report=lambda done: None):
    build = manifest.Build(16, True, True, True, seed, num_out_files=1)
    builder = parts.PartBuilder(
        build, TOKENIZER, tokenize_lines=words_to_packed_ids
    )
    return builder.write(parts.Part(str(path), files, 0), report)


def test_a_part_is_counted(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("\n11 12\n \t\n\n21\n22", encoding="utf-8")
    reports = []
    (record,) = write_part(
        corpus.list_files(str(tmp_path)), tmp_path / "part", 0, reports.append
    )
    entry = record[manifest.TRAINING]
    # One or two segments, which is drawn.
    assert 4 + 2 * 2 <= entry["example_tokens"] <= 4 + 2 * 3
    assert entry == {
        "name": "text.txt",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "bytes": 16,
        "documents": 2,
        "tokens": 4,
        "examples": 2,
        "example_tokens": entry["example_tokens"],
        "dropped_documents": 0,
        "bad_inputs": 0,
    }
    for name in ("bytes", "documents", "tokens", "examples", "example_tokens"):
        assert sum(done.get(name, 0) for done in reports) == entry[name]


@pytest.mark.parametrize("num_documents", [1, 3])
def test_a_corpus_stays_between_two_readings(tmp_path, num_documents):
    (tmp_path / "text.txt").write_text("7\n\n8\n")
    build = manifest.Build(16, True, True, True, 0, 1, dedup="exact")
    builder = parts.PartBuilder(
        build, TOKENIZER, tokenize_lines=words_to_packed_ids
    )
    part = parts.Part(
        str(tmp_path / "part"),
        corpus.list_files(str(tmp_path)),
        0,
        np.zeros(num_documents, bool),
    )
    with pytest.raises(ValueError, match="other documents than before"):
        builder.write(part)


def test_a_large_document_is_tokenized_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "_BLOCK_BYTES", 100)
    monkeypatch.setattr(corpus, "_READ_BYTES", 100)
    (tmp_path / "text.txt").write_text("7 8\n" * 1000, encoding="utf-8")
    files = corpus.list_files(str(tmp_path))
    sizes = []

    def tokenize_lines(lines):
        sizes.append(len(lines))
        return words_to_packed_ids(lines)

    made = []
    for fraction in (0.0, 1e-9):
        build = manifest.Build(
            16, True, True, True, 0, 1, heldout_fraction=fraction
        )
        builder = parts.PartBuilder(
            build, TOKENIZER, tokenize_lines=tokenize_lines
        )
        part = tmp_path / f"part{fraction}"
        (record,) = builder.write(parts.Part(str(part), files, 0))
        made.append((part.read_bytes(), record[manifest.TRAINING]))
    assert made[0] == made[1]
    assert max(sizes) <= 100


def test_a_long_file_is_read_in_whole_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "_BLOCK_BYTES", 4)
    monkeypatch.setattr(corpus, "_READ_BYTES", 4)
    path = tmp_path / "text.txt"
    path.write_text("ab\ncdefgh\n\ni\nj", encoding="utf-8")
    batches = list(corpus.read_lines(str(path)))
    assert [batch.lines for batch in batches] == [
        ["ab", "cdefgh"],
        ["", "i"],
        ["j"],
        [""],
    ]
    assert sum(batch.num_bytes for batch in batches) == path.stat().st_size
    path.write_bytes(b"abc\ndef\xff\n")
    with pytest.raises(ValueError, match=r"text\.txt', whose byte 7 is 0xff"):
        list(corpus.read_lines(str(path)))


@pytest.mark.parametrize("lower", [True, False])
def test_remembering_words_changes_no_line(tmp_path, monkeypatch, lower):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join([*vocabulary.SPECIAL_TOKENS, *VOCAB]))
    tokenizer = helpers.make_tokenizer(path, lower, lower)
    whole = tokenizer.tokenize(tf.constant(NASTY_LINES)).to_list()
    tokenize_lines = examples.CachingLineTokenizer(tokenizer)
    for _ in range(2):
        assert [*map(readable.unpack, tokenize_lines(NASTY_LINES))] == whole
    # Forgets after every call.
    monkeypatch.setattr(examples.CachingLineTokenizer, "MAX_WORDS", 0)
    forgetful = examples.CachingLineTokenizer(tokenizer)
    for line, ids in zip(NASTY_LINES * 2, whole * 2, strict=True):
        assert forgetful([line, "a b"])[0] == readable.pack(ids)
    assert forgetful([]) == []


VOCAB = ["a", "b", "A", "##a", "##b", "σ", "ς", "##σ", "##ς", "é", "e", "中"]
VOCAB += [".", ",", "'", "-", "_", "[", "]", "MASK", "mask", "1", "##1", "한"]
NASTY_LINES = [
    "",
    "a",
    "ab  ba   AB",
    "a.b,'a-_b' [MASK] 1.1",
    "ΑΣ Σ. aΣ'b aΣ. bΣ\u00ad ΣΑΣ",
    "e\u0301é É \u0301a a \u0301",
    "中a中b 中",
    "a\tb\x0bc a\x1fb\x7f \x00 a\u200bb \ufeffa",
    "a\u00a0b\u3000a\u2028b a\u0085b",
    "a" * 201 + " " + "b" * 200 + "." + "a" * 33,
    "한국어 \u1112\u1161\u11ab ﬁ ß İ",
]


@pytest.mark.parametrize("length", [5, 128, 512])
def test_examples_are_serialized_as_protocol_buffers_are(length):
    rng = random.Random(0)
    for num_ids in {1, 3, length}:
        example = Example(
            [
                rng.choice([0, 1, 127, 128, 16383, 16384, 2**21])
                for _ in range(num_ids)
            ],
            [1] * length,
            [0] * length,
        )
        made = records_lib.serialize_features(*map(readable.pack, example))
        assert made == readable.serialize(example)
    empty = tf.train.Example.FromString(
        records_lib.serialize_features(b"", b"", b"")
    )
    assert set(empty.features.feature) == set(records_lib.FEATURE_NAMES)


def test_packed_ids():
    proto = tf.train.Int64List(value=[-1, -300])
    packed = records_lib.varint(-1) + records_lib.varint(-300)
    assert proto.SerializeToString().endswith(packed)
    ids = [0, 127, 128, 300, 16383, 16384, 5]
    packed = readable.pack(ids)
    assert packed == bytes.fromhex("00 7f 8001 ac02 ff7f 808001 05")
    assert readable.unpack(packed) == ids
    assert records_lib.count_ids(packed) == 7
    for num_ids in range(8):
        first = records_lib.first_ids(packed, num_ids)
        assert first == readable.pack(ids[:num_ids])


def test_merge_deals_examples_in_turn(tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "_MERGE_BUFFER_BYTES", 10)
    part = str(tmp_path / "part")
    with tf.io.TFRecordWriter(part) as writer:
        for record in (b"a", b"bb", b"ccc", b"d", b"e"):
            writer.write(record)
    shards = [str(tmp_path / name) for name in "xyz"]
    parts.merge([part], shards, seed=0)
    assert [
        list(tf.data.TFRecordDataset(shard).as_numpy_iterator())
        for shard in shards
    ] == [[b"a", b"d"], [b"bb", b"e"], [b"ccc"]]


def test_a_file_has_the_same_examples_whatever_is_built_with_it(tmp_path):
    rng = random.Random(1)
    for name in "ab":
        lines = [" ".join(["7"] * rng.randrange(1, 9)) for _ in range(500)]
        (tmp_path / name).write_text("\n".join(lines), encoding="utf-8")
    files = corpus.list_files(str(tmp_path))

    def part_of(*files):
        part = tmp_path / "part"
        records = write_part(files, part, seed=3)
        return part.read_bytes(), records

    (alone_a, records_a), (alone_b, records_b) = map(part_of, files)
    together, records = part_of(*files)
    assert together == alone_a + alone_b
    assert records == records_a + records_b
    assert records[0][manifest.TRAINING]["bytes"] == files[0].num_bytes
