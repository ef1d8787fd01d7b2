"""Tests of tools/experiments/build_experiment_data.py."""

import lzma
import shutil

import build_experiment_data
import pytest

from tests import helpers


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """The public sets with a line each, and a corpus of docstrings."""
    data, docstrings = tmp_path / "data", tmp_path / "docstrings"
    for task in ("CoLA", "MRPC", "RTE", "SST-2", "STS-B"):
        for split in ("train", "dev"):
            path = data / "glue" / task / f"{split}.tsv"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{task} {split}\r\n")
    for split in ("valid", "test"):
        path = data / "wikitext-2" / f"{split}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f" = A = \n It went . Then {split} @-@ it went .\n")
    for split in ("train", "valid"):
        path = data / "conll2003" / f"{split}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{split} O\n")
    (data / "imdb").mkdir()
    reviews = [f"review {n}\t{('neg', 'pos')[n % 2]}\t7" for n in range(5)]
    for name, lines in (
        ("train.tsv", ["text\tlabel\trating", *reviews]),
        ("unsup.txt", ["It went.", "Well.", "", "No."]),
    ):
        with lzma.open(data / "imdb" / f"{name}.xz", "wt") as file:
            file.write("\n".join(lines) + "\n")
    monkeypatch.setattr(build_experiment_data, "_NUM_REVIEWS", 2)
    monkeypatch.setattr(build_experiment_data, "_NUM_DEV_REVIEWS", 3)
    for split in ("train", "heldout"):
        (docstrings / split).mkdir(parents=True)
        (docstrings / split / "0.txt").write_text(f"{split}.\n")
    return data, docstrings, tmp_path / "out"


def test_the_corpus_and_the_tasks(folders):
    data, docstrings, output = folders
    # Of an earlier build, with other packages.
    before = output / "corpus" / "docstrings"
    before.mkdir(parents=True)
    (before / "9.txt").write_text("Gone.\n")
    build_experiment_data.build(data, docstrings, output)
    files = {
        str(path.relative_to(output)): path.read_bytes()
        for path in output.rglob("*")
        if path.is_file()
    }
    assert files.pop("corpus/texts/docstrings/0.txt") == b"train.\n"
    assert files.pop("corpus/texts/wikitext_valid.txt") == (
        b"It went .\nThen valid-it went .\n"
    )
    assert files.pop("corpus/texts/wikitext_test.txt") == (
        b"It went .\nThen test-it went .\n"
    )
    assert files.pop("corpus/reviews/reviews_0.txt") == b"It went.\nWell.\n"
    assert files.pop("corpus/reviews/reviews_1.txt") == b"No.\n"
    assert [
        files.pop(f"corpus/reviews/reviews_{n}.txt") for n in range(2, 8)
    ] == ([b"\n"] * 6)
    assert files.pop("finetuning_data/sst/dev.tsv") == b"SST-2 dev\r\n"
    assert files.pop("finetuning_data/ner/train.txt") == b"train O\n"
    assert files.pop("finetuning_data/ner/dev.txt") == b"valid O\n"
    assert files.pop("finetuning_data/imdb/train.tsv") == (
        b"text\tlabel\nreview 0\tneg\nreview 1\tpos\n"
    )
    assert files.pop("finetuning_data/imdb/dev.tsv") == (
        b"text\tlabel\nreview 2\tneg\nreview 3\tpos\nreview 4\tneg\n"
    )
    assert sorted(files) == [
        f"finetuning_data/{name}.tsv"
        for name in (
            "cola/dev",
            "cola/train",
            "mrpc/dev",
            "mrpc/train",
            "rte/dev",
            "rte/train",
            "sst/train",
            "sts/dev",
            "sts/train",
        )
    ]


def test_what_is_missing_is_one_line(folders):
    data, docstrings, output = folders
    shutil.rmtree(docstrings / "train")
    result = helpers.execute(
        "tools/experiments/build_experiment_data.py",
        f"--data_dir={data}",
        f"--docstrings_dir={docstrings}",
        f"--output_dir={output}",
    )
    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith(
        "build_experiment_data: error: Expected the corpus of "
        "tools/quickstart/build_docstring_corpus.py. Received: "
    )
    with pytest.raises(OSError, match=r"RTE/train\.tsv"):
        (docstrings / "train").mkdir()
        (docstrings / "train" / "0.txt").touch()
        (data / "glue" / "RTE" / "train.tsv").unlink()
        build_experiment_data.build(data, docstrings, output)
    assert not (output / "corpus").exists()
