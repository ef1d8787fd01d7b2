"""Tests of electra_tf/text/tokenization.py."""

import dataclasses
import json
import pathlib

import pytest
import tensorflow as tf

from electra_tf.text import tokenization, vocabulary
from tests import helpers, notices

VOCAB = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *("un", "##aff", "##able"),  # 5
    *("cafe", "café", "Café"),  # 8
    *("[", "mask", "]"),  # 11
    *("，", "中", "国"),  # 14
    *("σας", "가다"),  # 17
    *("x", "##x", "$"),  # 19
]


def write_vocab(tmp_path, tokens=VOCAB):
    path = tmp_path / "vocab.txt"
    path.write_text("".join(f"{t}\n" for t in tokens), encoding="utf-8")
    return str(path)


@pytest.fixture
def tokenizer(tmp_path):
    return helpers.make_tokenizer(write_vocab(tmp_path))


def ids_of(tokenizer, *lines):
    return tokenizer.tokenize(tf.constant(lines)).to_list()


def test_padding_is_0_wherever_pad_is(tmp_path):
    tokens = ("[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "[PAD]")
    tokenizer = tokenization.FullTokenizer(vocabulary.Vocabulary(tokens))
    packed = tokenizer.pack_inputs(
        [tokenizer.tokenize(tf.constant(["a b"]))], 7, pad_to_max=True
    )
    assert packed["input_ids"].numpy().tolist() == [[1, 4, 5, 2, 0, 0, 0]]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", []),
        (" \t\r\n\u3000\u2028", []),
        ("unaffable", ["un", "##aff", "##able"]),
        ("UNAFFABLE un", ["un", "##aff", "##able", "un"]),
        ("unknown", ["[UNK]"]),
        ("Café", ["cafe"]),
        ("Cafe\u0301", ["cafe"]),
        ("[MASK]", ["[", "mask", "]"]),
        ("un，x", ["un", "，", "x"]),
        ("x$x", ["x", "$", "x"]),
        ("x中国x", ["x", "中", "国", "x"]),
        # Characters of the categories C* vanish without a space.
        ("un\u200baf\u00adf\x0b\x00\ufffd", ["un", "##aff"]),
        # The final sigma is another letter than the one inside a word.
        ("ΣΑΣ", ["σας"]),
        # With accents stripped Hangul is decomposed, and not in this
        # vocabulary.
        ("가다", ["[UNK]"]),
        ("x" * 200, ["x"] + ["##x"] * 199),
        ("x" * 201, ["[UNK]"]),
        ("x" * 201 + "$", ["[UNK]", "$"]),
    ],
)
def test_tokenize(tokenizer, text, tokens):
    (ids,) = ids_of(tokenizer, text)
    assert tokenizer.convert_ids_to_tokens(ids) == tokens


@pytest.mark.parametrize(
    ("do_lower_case", "strip_accents", "ids"),
    [
        (True, False, [[9], [18]]),
        # Without lower-casing accents are kept anyway.
        (False, True, [[10], [18]]),
        (False, False, [[10], [18]]),
    ],
)
def test_tokenize_keeps_accents(tmp_path, do_lower_case, strip_accents, ids):
    tokenizer = helpers.make_tokenizer(
        write_vocab(tmp_path), do_lower_case, strip_accents
    )
    assert ids_of(tokenizer, "Café", "가다") == ids


def test_tokenize_gives_int32_rows(tokenizer):
    # What is no UTF-8 is passed over.
    ids = tokenizer.tokenize(tf.constant(["", b"un\xff\xe2\x82 x", ""]))
    assert ids.dtype == tf.int32
    assert ids.to_list() == [[], [5, 19], []]
    assert tokenizer.tokenize(tf.constant([], tf.string)).to_list() == []


def test_entries_that_cannot_match_keep_their_ids(tmp_path):
    vocab = ["", "##", "a\0b", "\0", "=" * 300, "##" + "b" * 201, *VOCAB]
    tokenizer = helpers.make_tokenizer(write_vocab(tmp_path, vocab))
    assert ids_of(tokenizer, "un # x") == [[11, 7, 25]]
    assert ids_of(tokenizer, "=" * 300) == [[7] * 300]


def test_exported_tokenizer_gives_the_same_ids(tokenizer, tmp_path):
    exported = tf.Module()
    exported.tokenizer = tokenizer

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def pack(text):
        return tokenizer.pack_inputs([tokenizer.tokenize(text)], 8)

    exported.pack = pack
    folder = str(tmp_path / "exported")
    tf.saved_model.save(exported, folder)
    packed = tf.saved_model.load(folder).pack(tf.constant(["unaffable", "x"]))
    expected = [[2, 5, 6, 7, 3], [2, 19, 3, 0, 0]]
    assert packed["input_ids"].numpy().tolist() == expected


def pack(tokenizer, rows, max_seq_length, pad_to_max=False):
    segments = [
        tf.ragged.constant(list(column), tf.int32, ragged_rank=1)
        for column in zip(*rows, strict=True)
    ]
    packed = tokenizer.pack_inputs(segments, max_seq_length, pad_to_max)
    return {name: array.numpy().tolist() for name, array in packed.items()}


def test_pack_two_segments(tokenizer):
    assert pack(tokenizer, [([5], [6, 7]), ([8], [9])], 10) == {
        "input_ids": [[2, 5, 3, 6, 7, 3], [2, 8, 3, 9, 3, 0]],
        "input_mask": [[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0]],
        "segment_ids": [[0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 0]],
    }


def test_pack_truncates_as_by_popping_from_the_longer_segment(tokenizer):
    lengths = [(i, j) for i in range(9) for j in range(9)]
    first, second = list(range(10, 18)), list(range(20, 28))
    for room in (2, 5, 6):
        packed = pack(
            tokenizer, [(first[:i], second[:j]) for i, j in lengths], room + 3
        )
        for row, (i, j) in zip(packed["input_ids"], lengths, strict=True):
            while i + j > room:
                if i > j:
                    i -= 1
                else:
                    j -= 1
            expected = [2, *first[:i], 3, *second[:j], 3]
            assert row == expected + [0] * (room + 3 - len(expected))


def test_pack_refuses_what_has_no_room(tokenizer):
    with pytest.raises(ValueError, match="at least 5 for 2 segment"):
        pack(tokenizer, [([5], [6])], 4)


def test_load_vocab_strips_and_ignores_blank_lines_at_the_end(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes("\r\n".join([*VOCAB[:-1], " $", "", ""]).encode())
    assert vocabulary.load_vocab(path) == VOCAB
    # A byte order mark means nothing.
    path.write_text("\n".join(VOCAB), encoding="utf-8-sig")
    assert vocabulary.load_vocab(path) == VOCAB


def test_blank_lines_are_ids_that_text_never_gets(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join([*VOCAB[:5], "", "", *VOCAB[5:]]))
    found = vocabulary.load(path)
    assert found.tokens[5:8] == ("", "", "un")
    tokenizer = tokenization.FullTokenizer(found)
    assert tokenizer.tokenize(tf.constant(["un  un"])).to_list() == [[7, 7]]
    vocabulary.write(found, str(tmp_path))
    assert vocabulary.load(path).tokens == found.tokens


SPECIAL = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\n\n", "which is empty"),
        (b"[PAD]\nx\xff\n", "whose byte 7 is 0xff"),
        (SPECIAL + b"a\nb\na\n", "'a' on lines 6 and 8"),
        (SPECIAL[:-7] + b"x\n", r"with 5 entries and without \[MASK\]"),
        (
            b"[PAD]\n##" + b"\xe0\xb8\x81" * 90 + b"\n",
            "at most 256 bytes. Received: .* with one of 270 on line 2",
        ),
        (b"x\n", r"without \[PAD\], \[UNK\], \[CLS\], \[SEP\], \[MASK\]"),
    ],
)
def test_load_vocab_refuses(tmp_path, content, message):
    path = tmp_path / "vocab.txt"
    with pytest.raises(ValueError, match="does not exist"):
        vocabulary.load_vocab(path)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as error:
        vocabulary.load_vocab(path)
    assert "vocab.txt" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.fixture
def settings_file(tmp_path):
    """The file beside a vocabulary, which is not there."""
    return pathlib.Path(vocabulary.settings_file(write_vocab(tmp_path)))


def test_load_settings(settings_file):
    vocab_file = settings_file.with_suffix("")
    assert vocabulary.load(vocab_file).do_lower_case is None
    assert vocabulary.load(vocab_file).text_cleaning == "none"
    settings = {"do_lower_case": False, "strip_accents": True}
    settings_file.write_text(json.dumps(settings | {"vocab_size": 22}))
    found = vocabulary.load(vocab_file)
    assert (found.do_lower_case, found.strip_accents) == (False, True)
    assert vocabulary.load(vocab_file).text_cleaning == "none"
    settings["text_cleaning"] = "kcelectra"
    settings_file.write_text(json.dumps(settings))
    assert vocabulary.load(vocab_file).text_cleaning == "kcelectra"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "true or false for do_lower_case"),
        ("[]", "true or false for do_lower_case"),
        (
            '{"do_lower_case": 1, "strip_accents": true}',
            "true or false for do_lower_case",
        ),
        (
            '{"do_lower_case": false, "strip_accents": false, '
            '"text_cleaning": "soap"}',
            "vocab.txt.json: Expected.*'soap'",
        ),
        (None, "vocabulary's settings .*json"),
    ],
)
def test_load_settings_refuses(settings_file, content, message):
    if content is None:
        settings_file.mkdir()
    else:
        settings_file.write_text(content)
    with pytest.raises(ValueError, match=message):
        vocabulary.load(settings_file.with_suffix(""))


# What a locale of ICU lowers in its own way, and Greek's final sigma.
OF_LOCALES = (
    "TITLE I J\u0301 I\u0300 \u0130 \u0130I \u00cc\u00cd \u0128 \u012e "
    "\u03a3\u0391\u03a3"
)


@pytest.mark.dear
@pytest.mark.parametrize("locale", ["tr_TR.UTF-8", "az_AZ", "lt_LT.UTF-8"])
def test_lower_case_is_the_same_in_every_locale(locale):
    program = (
        "import sys\n"
        "from electra_tf.text import tokenization\n"
        "words = tokenization.split_into_words([sys.argv[1]], True, False)\n"
        "print(ascii(b' '.join(words[0].numpy().tolist()).decode()))\n"
    )
    env = helpers.environment(LC_ALL=locale, PYTHONUTF8="1")
    result = helpers.execute("-c", program, OF_LOCALES, env=env)
    assert result.stdout.strip() == ascii(OF_LOCALES.lower()), result.stderr


def test_text_is_cleaned_first(tmp_path):
    vocab_file = write_vocab(tmp_path)
    tokenizer = helpers.make_tokenizer(
        vocab_file, do_lower_case=False, text_cleaning="kcelectra"
    )
    text = "中 가다 http://x.xx/x xxxxx"
    assert ids_of(tokenizer, text) == [[18, 19, 20]]
    with pytest.raises(ValueError, match="without text cleaning.*'kcelectra'"):
        tokenizer.tokenize_with_offsets([text])
    with pytest.raises(ValueError, match="cleanings none, .*: 'koelectra'"):
        helpers.make_tokenizer(vocab_file, text_cleaning="koelectra")


def test_a_vocabulary_that_was_changed_behind_a_model_is_refused(tmp_path):
    tokens = (*vocabulary.SPECIAL_TOKENS, "a", "b")
    vocabulary.write(vocabulary.Vocabulary(tokens, True), tmp_path)
    path = tmp_path / "vocab.txt"
    assert vocabulary.load(path).tokens == tokens
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert vocabulary.load(path).tokens == tokens
    path.write_text("\n".join([*vocabulary.SPECIAL_TOKENS, "b", "a"]))
    with pytest.raises(ValueError, match="tokens that .*json' was written wi"):
        vocabulary.load(path)
    settings = pathlib.Path(vocabulary.settings_file(path))
    settings.write_text('{"do_lower_case": true, "strip_accents": true}')
    assert vocabulary.load(path).tokens[-1] == "a"


def test_a_vocabulary_in_place_of_a_models():
    cased = vocabulary.Vocabulary(("a", "b"), False, False, "kcelectra")
    given = vocabulary.Vocabulary(("a", "c"))
    with notices.heard() as lines:
        received = vocabulary.in_place_of(cased, given, "v.txt")
    expected = vocabulary.Vocabulary(("a", "c"), False, False, "kcelectra")
    assert received == expected
    assert lines == [
        "1 tokens of v.txt are others there, such as 'c' for 'b' with the id 1"
    ]
    uncased = vocabulary.Vocabulary(("a", "b"), True)
    with notices.heard() as lines:
        received = vocabulary.in_place_of(cased, uncased, "v.txt")
    assert received == dataclasses.replace(uncased, text_cleaning="kcelectra")
    assert lines == [
        "v.txt is for do_lower_case=True, the model has learned with False",
        "v.txt is for strip_accents=True, the model has learned with False",
    ]
    cleaned = dataclasses.replace(uncased, text_cleaning="kcelectra")
    with notices.heard() as lines:
        assert vocabulary.in_place_of(uncased, cleaned, "v.txt") == cleaned
    assert lines == [
        "v.txt is for text_cleaning=kcelectra, the model has learned with none"
    ]
    with notices.heard() as lines:
        assert vocabulary.in_place_of(None, given, "v.txt") == given
    assert lines == []


def test_uncased_whatever_the_vocabulary(tmp_path):
    tokenizer = helpers.make_tokenizer(
        write_vocab(tmp_path), do_lower_case=False
    )
    found = tokenizer.tokenize_uncased(["Café $x", "x中", "X\u200b X"])
    # Ideographs are parts of words.
    assert found.to_list() == [[8, 21, 19], [1], [19, 19]]


def test_a_line_of_thai_without_spaces_is_said():
    thai = "\u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22" * 5
    (line,) = tokenization.lost_text(["w" * 100, thai], False)
    assert line.startswith("25.9% of the text is in 1 word(s)")
    assert not [*tokenization.lost_text(["w" * 100, thai[:20]], False)]
