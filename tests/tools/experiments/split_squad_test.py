"""Tests of tools/experiments/split_squad.py."""

import json

import pytest

from tools.experiments import split_squad


def _write(path, num_articles):
    articles = [
        {
            "title": f"article {number}",
            "paragraphs": [
                {
                    "context": f"é {number}",
                    "qas": [{"id": f"{number}", "question": "Why?"}] * 2,
                }
            ],
        }
        for number in range(num_articles)
    ]
    path.write_text(json.dumps({"version": "1.1", "data": articles}))


def _run(tmp_path, *flags, name="all.json"):
    return split_squad.main(
        [f"--input={tmp_path / name}", f"--output-dir={tmp_path}", *flags]
    )


def test_articles_stay_whole(tmp_path, capsys):
    _write(tmp_path / "all.json", 10)
    assert _run(tmp_path) == 0
    parts = [
        json.loads((tmp_path / f"{part}.json").read_text())
        for part in ("train", "dev")
    ]
    titles = [[a["title"] for a in part["data"]] for part in parts]
    assert [len(part) for part in titles] == [8, 2]
    assert sorted(sum(titles, [])) == [f"article {i}" for i in range(10)]
    assert parts[0]["version"] == "1.1"
    assert "dev.json: 2 articles, 4 questions" in capsys.readouterr().out


def test_the_seed_decides():
    chosen = [split_squad.choose_dev(20, 0.25, seed) for seed in (0, 0, 1)]
    assert chosen[0] == chosen[1] != chosen[2]
    assert [len(c) for c in chosen] == [5, 5, 5]


@pytest.mark.parametrize(
    ("num_articles", "flags", "message"),
    [
        (1, [], "articles for both parts. Received: 1"),
        (4, ["--dev-fraction=1.5"], "between 0 and 1. Received: 1.5"),
        (0, ["--input=none.json"], "Cannot read 'none.json': No such file"),
    ],
)
def test_errors(tmp_path, capsys, num_articles, flags, message):
    _write(tmp_path / "all.json", num_articles)
    assert _run(tmp_path, *flags) == 1
    assert message in capsys.readouterr().err


def test_another_layout_and_a_file_that_is_there(tmp_path, capsys):
    (tmp_path / "other.json").write_text('{"data": [{"qas": []}]}')
    assert _run(tmp_path, name="other.json") == 1
    assert "KeyError: 'paragraphs'" in capsys.readouterr().err
    _write(tmp_path / "train.json", 3)
    assert _run(tmp_path, name="train.json") == 1
    assert "train.json', which is there" in capsys.readouterr().err


def test_a_passage_of_both_parts_is_one_line(tmp_path, capsys):
    _write(tmp_path / "all.json", 3)
    content = json.loads((tmp_path / "all.json").read_text())
    content["data"] *= 2  # Doubled, as by two downloads into one file.
    (tmp_path / "all.json").write_text(json.dumps(content))
    assert _run(tmp_path, "--dev-fraction=0.5") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "Expected every passage in one article" in line
    assert not (tmp_path / "train.json").exists()
