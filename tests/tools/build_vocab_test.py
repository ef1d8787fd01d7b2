"""Tests of tools/build_vocab.py."""

import collections
import json

import pytest

from electra_tf.pretraining_data import learned_vocabulary
from electra_tf.text import vocabulary
from tests import helpers
from tools import build_vocab

TEXT = "Low lower lowest, low lower.\nLow: naïve Naïve!\n"


@pytest.fixture
def text_file(tmp_path):
    path = tmp_path / "corpus" / "text.txt"
    path.parent.mkdir()
    path.write_text(TEXT * 3, encoding="utf-8")
    return path


def run(text_file, *flags):
    folders = ["--corpus_dir", str(text_file.parent)]
    folders += ["--vocab_file", str(text_file.parents[1] / "vocab.txt")]
    return build_vocab.main([*folders, "--character-coverage=1", *flags])


def vocab_of(text_file):
    path = text_file.parents[1] / "vocab.txt"
    return path.read_text(encoding="utf-8").splitlines()


def settings_of(text_file):
    path = text_file.parents[1] / "vocab.txt.json"
    return json.loads(path.read_text(encoding="utf-8"))


def test_small_layout(text_file, capsys):
    assert run(text_file, "--vocab_size", "40") == 0
    vocab = vocab_of(text_file)
    assert vocab[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert vocab[5:20] == list("!,.:aeilnorstvw")
    assert vocab[20:29] == [f"##{char}" for char in "aeiorstvw"]
    assert {"low", "lower", "naive"} <= set(vocab)
    assert len(vocab) == len(set(vocab)) <= 40
    assert settings_of(text_file)["do_lower_case"] is True
    assert settings_of(text_file)["special_token_ids"]["[MASK]"] == 4


def test_case_and_accents_may_be_kept(text_file):
    assert run(text_file, "--vocab-size=50", "--no-lower-case") == 0
    assert {"Low", "low", "naïve"} <= set(vocab_of(text_file))
    assert settings_of(text_file)["do_lower_case"] is False


def test_bert_layout(text_file, capsys):
    assert run(text_file, "--vocab-size", "20000") == 0
    vocab = vocab_of(text_file)
    assert vocab[0] == "[PAD]"
    assert vocab[1:100] == [f"[unused{i}]" for i in range(99)]
    assert vocab[100:104] == ["[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert f"the text gave {len(vocab)} of 20000" in capsys.readouterr().err


def test_hangul(text_file, capsys):
    text_file.write_text("\ud55c\uad6d\uc5b4 \ud55c\uad6d\n" * 3, "utf-8")
    assert run(text_file, "--vocab-size=30", "--no-strip-accents") == 0
    assert "\ud55c\uad6d" in vocab_of(text_file)
    assert "stripping" not in capsys.readouterr().err
    assert run(text_file, f"--vocab-file={text_file.parents[1] / 'v'}") == 0
    error = capsys.readouterr().err
    assert "stripping accents changes 100.0% of the words" in error


def test_rare_characters_are_left_out():
    counts = collections.Counter({"aaa": 30, "ab": 9, "c": 1})
    assert learned_vocabulary.frequent_characters(counts, 0.98) == ["a", "b"]
    vocab = learned_vocabulary.learn_vocab(counts, 8, ["[UNK]"], 2, 0.98)
    assert "c" not in vocab
    assert vocab[:5] == ["[UNK]", "a", "b", "##a", "##b"]


def test_no_token_is_longer_than_lookups_take():
    phrase = "\u0e01\u0e02" * 60  # Words of Thai have no spaces between them.
    counts = collections.Counter({phrase: 500, "ab": 500})
    vocab = learned_vocabulary.learn_vocab(counts, 300, ["[UNK]"], 2, 1.0)
    assert {"ab", "\u0e01", "##\u0e02"} <= set(vocab)
    assert max(len(token.encode()) for token in vocab) <= vocabulary.MAX_BYTES


@pytest.mark.dear
def test_another_process_writes_the_same_bytes(text_file, tmp_path):
    assert run(text_file, "--vocab-size", "40") == 0
    other = tmp_path / "other.txt"
    result = helpers.execute(
        *(
            build_vocab.__file__,
            f"--corpus-dir={text_file.parent}",
            "--vocab-size=40",
        ),
        *(f"--vocab-file={other}", "--character-coverage=1"),
        env=helpers.environment(PYTHONHASHSEED="7"),
    )
    assert result.returncode == 0, result.stderr
    assert other.read_bytes() == (tmp_path / "vocab.txt").read_bytes()
    # Once more over the same file is no mistake.
    assert run(text_file, "--vocab-size", "40") == 0


def error_of(capsys):
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("electra-tf build-vocab: error: ")
    return line


def test_refuses_to_overwrite_another_vocabulary(text_file, capsys):
    (text_file.parents[1] / "vocab.txt").write_text("mine\n")
    assert run(text_file, "--vocab-size", "40") == 1
    assert "holds another vocabulary" in error_of(capsys)
    assert vocab_of(text_file) == ["mine"]


@pytest.mark.parametrize("has_vocabulary", [True, False])
def test_settings_of_other_flags_stay(text_file, capsys, has_vocabulary):
    flags = ["--vocab-size=40", "--no-strip-accents"]
    assert run(text_file, *flags) == 0
    before = settings_of(text_file)
    if not has_vocabulary:
        (text_file.parents[1] / "vocab.txt").unlink()
    assert run(text_file, "--vocab-size=40") == 1
    assert "strip_accents=True (was False)." in error_of(capsys)
    assert settings_of(text_file) == before
    # The same ones go on where a run was killed.
    assert run(text_file, *flags) == 0
    assert settings_of(text_file) == before


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"do_lower_case": true, "strip_accents": true}']
)
def test_settings_of_another_origin_stay(text_file, capsys, content):
    path = text_file.parents[1] / "vocab.txt.json"
    path.write_text(content)
    assert run(text_file, "--vocab-size=40") == 1
    assert "vocab.txt.json" in error_of(capsys)
    assert path.read_text() == content
    assert not path.with_suffix("").exists()


@pytest.mark.parametrize(
    ("text", "size", "message"),
    [
        (TEXT.encode(), "10", "Expected --vocab-size of at least"),
        (" \n\u200b\n".encode(), "40", "without a word"),
        (b"abc\xff", "40", "whose byte 3 is 0xff"),
    ],
)
def test_refuses_text_that_gives_no_vocabulary(
    text_file, text, size, message, capsys
):
    text_file.write_bytes(text)
    assert run(text_file, "--vocab-size", size) == 1
    assert message in error_of(capsys)


def test_bad_input_may_be_left_out(text_file, capsys):
    bad = text_file.with_name("bad.txt")
    bad.write_bytes(b"abc\xff\n" * 2 + text_file.read_bytes())
    gone = text_file.with_name("gone.txt")
    gone.symlink_to("nowhere")
    assert run(text_file, "--vocab-size=40", "--on-bad-input=skip") == 0
    log = capsys.readouterr().err
    assert "left out: Cannot read" in log
    assert "whose byte 3 is 0xff" in log
    assert "note: left out 3 damaged place(s)" in log
    assert "low" in vocab_of(text_file)


def test_no_vocabulary_is_left_without_its_settings(tmp_path):
    (tmp_path / "vocab.txt.json").mkdir()
    with pytest.raises(ValueError, match="Cannot write"):
        learned_vocabulary.write_vocab(str(tmp_path / "vocab.txt"), ["a"], {})
    assert not (tmp_path / "vocab.txt").exists()
