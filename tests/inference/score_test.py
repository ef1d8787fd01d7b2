"""Tests of electra_tf/score.py and the scored text below it."""

import io
import json
import math
import sys

import pytest

from electra_tf import score
from electra_tf.inference import scored_text
from electra_tf.inference.scored_text import ScoredText, ScoredToken
from tests import helpers


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    """Of a masked language model, with its vocabulary."""
    folder = tmp_path_factory.mktemp("masked_lm")
    helpers.write_vocab(folder)
    helpers.write_pretrained(folder, electra_objective=False)
    return str(folder)


SCORED = ScoredText(
    "A\x00b", [ScoredToken("a", -1.5, 0, 1), ScoredToken("b", -0.5000004, 2, 3)]
)


def test_one_line_of_output():
    expected = {"text": "A\x00b", "score": -2.0, "num_tokens": 2}
    expected |= {"per_token": -1.0, "perplexity": 2.718282}
    assert json.loads(scored_text.as_json(SCORED)) == expected
    line = scored_text.as_json(SCORED, with_tokens=True, with_cut=True)
    found = json.loads(line)
    assert found["truncated"] is False
    assert found["tokens"] == [
        {"token": "a", "score": -1.5, "begin": 0, "end": 1},
        {"token": "b", "score": -0.5, "begin": 2, "end": 3},
    ]


def test_what_has_no_perplexity():
    empty = ScoredText("", [])
    assert empty.score == 0
    assert json.loads(scored_text.as_json(empty))["perplexity"] is None
    hopeless = ScoredText("a", [ScoredToken("a", -1000.0)])
    assert hopeless.per_token == -1000 and hopeless.perplexity is None
    # An energy may be below 0, as nothing forces probabilities up to 1.
    unlikely = ScoredText("a", [ScoredToken("a", 0.5)])
    assert unlikely.perplexity == pytest.approx(math.exp(-0.5))


def test_the_best_comes_first_and_no_text_last():
    texts = [
        ScoredText(name, [ScoredToken("a", value)])
        for name, value in (("b", -2.0), ("first", -1.0), ("b again", -2.0))
    ]
    found = scored_text.best_first([ScoredText("", []), *texts])
    assert [x.text for x in found] == ["first", "b", "b again", ""]


def test_lines_of_standard_input(model_dir, monkeypatch, capsys):
    lines = b"wa\twb\r\n\nw\xff c\n" + b"wd " * 30 + b"\nwe"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
    flags = [f"--checkpoint={model_dir}", "--tokens", "--truncate"]
    assert score.main(flags) == 0
    captured = capsys.readouterr()
    found = [json.loads(line) for line in captured.out.splitlines()]
    assert [(row["text"][:5], row["num_tokens"]) for row in found] == [
        ("wa\twb", 2),
        ("", 0),
        ("w\ufffd c", 2),
        ("wd wd", 10),
        ("we", 1),
    ]
    assert [row["truncated"] for row in found] == [False] * 3 + [True, False]
    assert [(t["token"], t["begin"], t["end"]) for t in found[0]["tokens"]] == [
        ("wa", 0, 2),
        ("wb", 3, 5),
    ]
    for row in found:
        scores = [token["score"] for token in row["tokens"]]
        assert row["score"] == pytest.approx(sum(scores), abs=1e-5)
        assert all(value < 0 for value in scores)
    assert "one pass for each token" in captured.err
    assert (
        "electra-tf score: cut 1 of 5 texts after 10 tokens\n" in captured.err
    )


def test_sorted_texts_of_a_file(model_dir, tmp_path, capsys):
    path = tmp_path / "texts.txt"
    path.write_text("wa wb wc\n\nwa\nwb wc wd we wf\n")
    flags = [f"--checkpoint={model_dir}", f"--file={path}", "--batch-size=2"]
    assert score.main([*flags, "--sort"]) == 0
    found = [json.loads(x) for x in capsys.readouterr().out.splitlines()]
    assert {row["text"] for row in found} == set(path.read_text().splitlines())
    assert found[-1]["text"] == ""
    scores = [row["score"] for row in found[:-1]]
    assert scores == sorted(scores, reverse=True)
    path.write_text("wa\n" + "wd " * 11)
    assert score.main(flags) == 1
    captured = capsys.readouterr()
    error = captured.err.splitlines()[-1]
    assert error.startswith(
        f"electra-tf score: error: {path}, line 2: expected at most"
    )
    # What stands before it is answered.
    assert json.loads(captured.out)["text"] == "wa"
