"""The yardstick of tools/benchmarks/bench.py does what the product does."""

import random

import pytest
import tensorflow as tf

from electra_tf.pretraining_data import (
    corpus,
    manifest,
    parts,
    records,
)
from tests import helpers
from tests.pretraining_data import reference_builder

VOCAB = "[PAD] [UNK] [CLS] [SEP] [MASK] a b c ##a ##b the . , ' - é e 中 [ ]"
LINES = [
    "The abba, the BAB.",
    "",
    "Café a'b  \t-- the\u00a0[MASK] 中文",
    "c\u0000a\x01b unknownword a" + "b" * 250,
    "aba aba aba aba aba aba aba aba aba aba aba aba aba aba aba aba aba aba",
    "\u200b",
    "cc ÉÀ e\u0301 ab\x7fa x.y",
]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(VOCAB.split()))
    rng = random.Random(0)
    lines = LINES + [rng.choice(LINES) for _ in range(400)]
    (tmp_path / "corpus").mkdir()
    # The original takes the mark for a character, which its tokenizer drops.
    text = "\ufeff" + "\n".join(lines)
    (tmp_path / "corpus" / "a.txt").write_text(text)
    return tmp_path


@pytest.mark.parametrize("lower", [True, False])
def test_both_write_the_same_records(folder, lower):
    vocab_file = str(folder / "vocab.txt")
    tokenizer = helpers.make_tokenizer(vocab_file, lower, lower)
    build = manifest.Build(32, True, lower, lower, seed=5, num_out_files=1)
    files = corpus.list_files(str(folder / "corpus"))
    part = parts.Part(str(folder / "ours"), files, 0)
    (record,) = parts.PartBuilder(build, tokenizer).write(part)
    num_tokens = reference_builder.build(
        str(folder / "corpus" / "a.txt"),
        str(folder / "theirs"),
        reference_builder.ReferenceTokenizer(vocab_file, lower, lower),
        32,
        "5/a.txt",
    )
    assert num_tokens == record[""]["tokens"] > 3000

    def parsed(name):
        spec = {
            key: tf.io.FixedLenFeature([32], tf.int64)
            for key in records.FEATURE_NAMES
        }
        return [
            {
                key: values.numpy().tolist()
                for key, values in tf.io.parse_single_example(r, spec).items()
            }
            for r in tf.data.TFRecordDataset(str(folder / name))
        ]

    ours = parsed("ours")
    assert ours == parsed("theirs")
    assert len(ours) > 100
