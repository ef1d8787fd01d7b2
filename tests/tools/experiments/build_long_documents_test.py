"""Tests of tools/experiments/build_long_documents.py."""

from tools.experiments import build_long_documents as tool


def run(tmp_path, text="one two , Good three"):
    (tmp_path / "text.txt").write_text(text)
    return tool.main(
        [
            f"--text={tmp_path / 'text.txt'}",
            f"--output-dir={tmp_path / 'long'}",
            "--train-size=4",
            "--dev-size=2",
        ]
    )


def test_the_label_is_behind_the_longest_input(tmp_path):
    assert run(tmp_path) == 0
    for split, size in (("train", 4), ("dev", 2)):
        path = tmp_path / "long" / f"{split}.tsv"
        header, *rows = path.read_text().splitlines()
        assert (header, len(rows)) == ("text\tlabel", size)
        labels = []
        for text, label in (row.split("\t") for row in rows):
            words = text.split(" ")
            assert 700 <= len(words) <= 1400
            assert set(words[:512]) == {"one", "two", "three"}
            assert set(words[512::20]) == {label}
            assert set(words) == {"one", "two", "three", label}
            labels.append(label)
        assert labels == ["bad", "good"] * (size // 2)
    before = (tmp_path / "long" / "dev.tsv").read_bytes()
    assert run(tmp_path) == 0
    assert (tmp_path / "long" / "dev.tsv").read_bytes() == before


def test_needs_words(tmp_path, capsys):
    assert run(tmp_path, "Good, 1 2 3") == 1
    assert "Expected words. Received: none in" in capsys.readouterr().err
