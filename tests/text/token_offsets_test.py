"""Tests of tokenization.FullTokenizer.tokenize_with_offsets."""

import random

import pytest
import tensorflow as tf

from tests import helpers

VOCAB = (
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "una", "##ffa", "##ble"),
    *(",", "[", "]", "mask", "world", "\u4e2d", "e", "##e", "Una"),
)


@pytest.fixture(scope="module", params=[True, False], ids=["uncased", "cased"])
def tokenizer(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    path.write_text("".join(f"{t}\n" for t in VOCAB), encoding="utf-8")
    return helpers.make_tokenizer(path, request.param, request.param)


def spans(tokenizer, *texts):
    """(token, characters) of each text."""
    ids, starts, ends = tokenizer.tokenize_with_offsets(
        tf.constant(texts, tf.string)
    )
    return [
        [
            (tokenizer.vocab[i], (start, end))
            for i, start, end in zip(*row, strict=True)
        ]
        for row in zip(
            ids.to_list(), starts.to_list(), ends.to_list(), strict=True
        )
    ]


def test_offsets_by_hand(tokenizer):
    lower = tokenizer.do_lower_case
    assert spans(tokenizer, "", " Unaffable,  una", "\u4e2d\u00e9e") == [
        [],
        [
            ("una" if lower else "Una", (1, 4)),
            ("##ffa", (4, 7)),
            ("##ble", (7, 10)),
            (",", (10, 11)),
            ("una", (13, 16)),
        ],
        [("\u4e2d", (0, 1)), ("e", (1, 2)), ("##e", (2, 3))]
        if lower
        else [("\u4e2d", (0, 1)), ("[UNK]", (1, 3))],
    ]


def test_what_leaves_no_trace_is_counted(tokenizer):
    # A control character, a byte that is no UTF-8 (which does not count), a
    # long word, an emoji.
    text = b"un\x00a \xffe" + b" " + b"x" * 201 + "\U0001f600 e".encode()
    assert spans(tokenizer, text) == [
        [("una", (0, 4)), ("e", (5, 6)), ("[UNK]", (7, 209)), ("e", (210, 211))]
    ]


def test_dropped_marks_belong_to_the_character_before_them(tokenizer):
    texts = "e\u0301, e\u0301\u0302e \u0301", "\u0301e"
    if tokenizer.strip_accents:
        assert spans(tokenizer, *texts) == [
            [("e", (0, 2)), (",", (2, 3)), ("e", (4, 7)), ("##e", (7, 8))],
            [("e", (1, 2))],
        ]
    else:
        assert spans(tokenizer, *texts) == [
            [
                *(("[UNK]", (0, 2)), (",", (2, 3))),
                *(("[UNK]", (4, 8)), ("[UNK]", (9, 10))),
            ],
            [("[UNK]", (0, 2))],
        ]


def test_random_characters(tokenizer):
    draw = random.Random(3)
    ranges = [(0, 0x3000), (0xAC00, 0xAD00)]
    ranges += [(0xF900, 0xFA80), (0x1F600, 0x1F650)]
    texts = [draw.randbytes(draw.randrange(30)) for _ in range(300)]
    for _ in range(300):
        size = draw.randrange(30)
        chars = [chr(draw.randrange(*draw.choice(ranges))) for _ in range(size)]
        texts.append("".join(chars).encode())
    ids, starts, ends = tokenizer.tokenize_with_offsets(tf.constant(texts))
    assert ids.to_list() == tokenizer.tokenize(tf.constant(texts)).to_list()
    for text, row_starts, row_ends in zip(
        texts, starts.to_list(), ends.to_list(), strict=True
    ):
        length = len(text.decode("utf-8", "ignore"))
        assert row_starts == sorted(row_starts)
        for start, end in zip(row_starts, row_ends, strict=True):
            assert 0 <= start < end <= length
