"""Tests of electra_tf/detect.py, the page and the judged text below it."""

import json

import pytest

from electra_tf import detect
from electra_tf.inference import judged_text
from electra_tf.inference.judged_text import JudgedText, JudgedToken
from tests import helpers


@pytest.fixture
def model_dir(tmp_path):
    """Of a pre-training run, with its vocabulary."""
    helpers.write_vocab(tmp_path)
    helpers.write_pretrained(tmp_path)
    return str(tmp_path)


def test_json_and_page_of_the_command(model_dir, tmp_path, capsys):
    page = tmp_path / "page.html"
    texts = tmp_path / "texts.txt"
    texts.write_bytes(b"wa  <b>\r\n\nw\xff b")
    flags = [f"--checkpoint={model_dir}", f"--html={page}"]
    assert detect.main([*flags, "--json", f"--file={texts}"]) == 0
    captured = capsys.readouterr()
    found = [json.loads(line) for line in captured.out.splitlines()]
    assert [row["text"] for row in found] == ["wa  <b>", "", "w\ufffd b"]
    assert [(t["token"], t["begin"], t["end"]) for t in found[0]["tokens"]] == [
        ("wa", 0, 2),
        ("[UNK]", 4, 5),
        ("[UNK]", 5, 6),
        ("[UNK]", 6, 7),
    ]
    assert all(0 < t["probability"] < 1 for t in found[0]["tokens"])
    assert "taken as True, since the vocabulary has no capitals" in captured.err
    content = page.read_text()
    assert content.count("<article>") == 3
    assert "&lt;<rt>" in content and "<b>" not in content


JUDGED = JudgedText(
    "The\x1b[2J  ate \u4e2d",
    [
        JudgedToken("the", 0, 3, 0.02),
        JudgedToken("ate", 9, 12, 0.97),
        JudgedToken("\u4e2d", 13, 14, 0.3),
    ],
)


def test_lines_for_a_pipe():
    text, *lines = judged_text.as_lines(JUDGED, 80)
    assert text == "The\ufffd[2J  ate \u4e2d"
    assert lines == ["the ate \u4e2d", "2   97  30"]
    wrapped = judged_text.as_lines(JUDGED, 7)
    assert wrapped[1:] == ["the ate", "2   97", "\u4e2d", "30"]


def test_one_character_of_several_tokens_is_shown_once():
    tokens = [("a", 0, 1, 0.1), ("c", 1, 2, 0.2)]
    tokens += [("##o", 1, 2, 0.6), ("b", 2, 3, 0.3)]
    judged = JudgedText("a\u2105b", [JudgedToken(*token) for token in tokens])
    shown = [(True, 0, 1, 0.1), (True, 1, 2, 0.6), (True, 2, 3, 0.3)]
    assert list(judged_text.pieces(judged)) == shown
