"""Tests of suite_data.py: public archives, as they are published."""

import pathlib
import shutil
import tarfile

import pytest
import suite_data
from suites import SUITES

GLUE = ("CoLA", "MRPC", "RTE", "SST-2", "STS-B")


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Few reviews, and no command is run: its result is an empty file."""
    monkeypatch.setattr(suite_data, "NUM_LABELS", {1: 1.0, 3: 1.0})
    for name, number in (("COMPARISON", 2), ("DEV", 2), ("TEST", 3)):
        monkeypatch.setattr(suite_data, f"NUM_{name}_REVIEWS", number)
    suite_data.reviews.cache_clear()


@pytest.fixture
def commands(monkeypatch):
    found = []

    def command(result, *args):
        if not result.exists():
            found.append([str(arg) for arg in args])
            result.parent.mkdir(parents=True, exist_ok=True)
            result.touch()
            if result.parent.name == "docstrings":
                for split in ("train", "heldout"):
                    (result.parent / split).mkdir()
                    path = result.parent / split / "0.txt"
                    path.write_text(f"{split}.\n")

    monkeypatch.setattr(suite_data, "_command", command)
    return found


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


@pytest.fixture
def data(tmp_path):
    """The public sets with a line or two each."""
    folder = tmp_path / "data"
    for name in GLUE:
        for split in ("train", "dev"):
            write(folder / f"glue/{name}/{split}.tsv", f"{name} {split}\n")
    for split in ("train", "valid"):
        write(folder / f"conll2003/{split}.txt", f"{split} O\n")
    for split in ("valid", "test"):
        text = f" = A = \n It went . Then {split} @-@ it <unk> went .\n"
        write(folder / f"wikitext-2/wiki.{split}.tokens", text)
    for split in ("train", "test"):
        for label in ("pos", "neg"):
            for number in range(4):
                path = folder / f"aclImdb/{split}/{label}/{number}_7.txt"
                write(path, f"{split} {label}\t{number}.<br /><br />Really.")
    for number in range(9):
        path = folder / f"aclImdb/train/unsup/{number}_0.txt"
        write(path, f"First {number}. Second.")
    write(folder / "aclImdb/train/urls_pos.txt", "http")
    return folder


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_text("utf-8")
        for path in folder.rglob("*")
        if path.is_file()
    }


def build(suite, data, folder):
    getattr(suite_data, SUITES[suite].data)(data, folder)
    return contents(folder)


def test_comparisons(data, tmp_path, commands):
    found = build("objectives", data, tmp_path / "out")
    text = "It went .\nThen valid-it went .\n"
    assert found["corpus/texts/wikitext_valid.txt"] == text
    assert found["corpus/texts/docstrings/0.txt"] == "train.\n"
    assert found["finetuning_data/sst/dev.tsv"] == "SST-2 dev\n"
    assert found["finetuning_data/ner/dev.txt"] == "valid O\n"
    for split in ("train", "dev"):
        rows = found[f"finetuning_data/imdb/{split}.tsv"].splitlines()
        assert rows[0] == "text\tlabel" and len(rows) == 3
        assert all(row.startswith("train ") for row in rows[1:])
    verbs = [command[2] for command in commands[1:]]
    assert verbs == ["build-vocab", *["build-data"] * 3]
    assert f"--corpus-dir={tmp_path}/out/docstrings/heldout" in commands[-1]
    # What is there is not built again.
    shutil.rmtree(data / "aclImdb" / "train" / "pos")
    commands.clear()
    assert build("objectives", data, tmp_path / "out") == found
    assert not commands


@pytest.mark.parametrize("is_archive", [False, True])
def test_reviews_are_read_from_the_folder_or_the_archive(
    is_archive, data, tmp_path, commands
):
    if is_archive:
        with tarfile.open(data / "aclImdb_v1.tar.gz", "w:gz") as archive:
            archive.add(data / "aclImdb", "aclImdb")
        shutil.rmtree(data / "aclImdb")
    found = build("few_labels", data, tmp_path / "out")
    rows = found["labelled/train_3.tsv"].splitlines()
    # The order is by a hash of their names, the same everywhere.
    assert rows == [
        "text\tlabel",
        "train neg 1. Really.\tneg",
        "train pos 2. Really.\tpos",
        "train pos 1. Really.\tpos",
    ]
    assert found["labelled/train_1.tsv"].splitlines() == rows[:2]
    dev = found["labelled/dev.tsv"].splitlines()[1:]
    assert len(dev) == 2 and not set(dev) & set(rows)
    assert len(found["labelled/test.tsv"].splitlines()) == 4
    corpus = [v for k, v in found.items() if k.startswith("corpus/")]
    assert len(corpus) == 8
    assert sum(text.count("\nSecond.\n\n") for text in corpus) == 9
    assert commands[-1][-1] == "--heldout-fraction=0.01"


def test_a_text_to_adapt_to_has_the_vocabulary_of_the_other(
    data, tmp_path, commands
):
    found = build("adaptation", data, tmp_path / "out")
    assert "First 0." in "".join(
        text for name, text in found.items() if name.startswith("corpus/")
    )
    texts = {k for k in found if k.startswith("adaptation/texts/")}
    assert {pathlib.Path(k).name for k in texts} == {
        *("0.txt", "wikitext_valid.txt", "wikitext_test.txt")
    }
    folder = tmp_path / "out" / "adaptation"
    (vocabulary,) = (c for c in commands if "build-vocab" in c)
    assert f"--corpus_dir={folder / 'texts'}" in vocabulary
    records = [c for c in commands if "build-data" in c]
    assert [next(f for f in c if "corpus" in f) for c in records] == [
        f"--corpus-dir={folder / 'texts'}",
        f"--corpus-dir={tmp_path / 'out' / 'corpus'}",
    ]
    for command in records:
        assert f"--vocab-file={folder / 'vocab.txt'}" in command
