"""Tests of tools/build_pretraining_dataset.py."""

import hashlib
import io
import json
import os
import subprocess
import sys

import pytest
import tensorflow as tf

from electra_tf import corpus
from tools import build_pretraining_dataset as tool

SPECIAL = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"


@pytest.fixture
def folder(tmp_path):
    """A vocabulary and a corpus of three documents in two files."""
    (tmp_path / "vocab.txt").write_text(SPECIAL + "a\nb\nA\n")
    (tmp_path / "corpus" / "inner").mkdir(parents=True)
    (tmp_path / "corpus" / "one.txt").write_text("a b\nb A\n\na\n")
    (tmp_path / "corpus" / "inner" / "two.txt").write_text("b b b\n")
    (tmp_path / "corpus" / ".hidden").write_bytes(b"\xff")
    return tmp_path


def flags_for(folder):
    return [
        f"--corpus-dir={folder / 'corpus'}",
        f"--vocab_file={folder / 'vocab.txt'}",
        f"--output-dir={folder / 'out'}",
        "--max_seq_length=8",
        "--num-out-files=2",
    ]


def run(folder, *flags):
    return tool.main([*flags_for(folder), *flags])


def manifest_of(folder):
    return json.loads((folder / "out" / "manifest.json").read_text())


def rows_of(folder, num_shards=2):
    spec = {"input_ids": tf.io.FixedLenFeature([8], tf.int64)}
    shards = [
        str(folder / "out" / f"pretrain_data.tfrecord-{i}-of-{num_shards}")
        for i in range(num_shards)
    ]
    return [
        tf.io.parse_single_example(record, spec)["input_ids"].numpy().tolist()
        for record in tf.data.TFRecordDataset(shards)
    ]


def tokens_of(rows):
    """Tokens without the special ones, example by example."""
    return sorted([i for i in row if i > 4] for row in rows)


def error_of(capsys):
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("build_pretraining_dataset: error: ")
    assert "Traceback" not in line
    return line


def test_builds_every_document(folder, capsys):
    assert run(folder) == 0
    assert tokens_of(rows_of(folder)) == [[5], [5, 6, 6, 5], [6, 6, 6]]
    assert sorted(os.listdir(folder / "out")) == [
        "manifest.json",
        "pretrain_data.tfrecord-0-of-2",
        "pretrain_data.tfrecord-1-of-2",
    ]
    log = capsys.readouterr().err
    assert "100%  3 documents  3 examples  8 tokens" in log
    assert "wrote 3 examples of 3 documents, 8 tokens, to 2 file(s)" in log


def test_manifest(folder):
    assert run(folder) == 0
    manifest = manifest_of(folder)
    assert manifest["flags"] == {
        "max_seq_length": 8,
        "blanks_separate_docs": True,
        "do_lower_case": True,
        "strip_accents": True,
        "seed": 0,
        "num_out_files": 2,
    }
    assert manifest["vocabulary"]["entries"] == 8
    assert [entry["name"] for entry in manifest["inputs"]] == [
        "inner/two.txt",
        "one.txt",
    ]
    assert (
        manifest["inputs"][0]["sha256"]
        == hashlib.sha256(b"b b b\n").hexdigest()
    )
    assert [shard["examples"] for shard in manifest["shards"]] == [2, 1]
    assert manifest["totals"]["tokens"] == 8
    assert manifest["versions"]["tensorflow"] == tf.__version__


def test_case_is_kept_on_demand(folder):
    assert run(folder, "--no_lower_case") == 0
    assert [5, 6, 6, 7] in tokens_of(rows_of(folder))


def test_case_follows_the_vocabulary(folder, capsys):
    (folder / "vocab.txt.json").write_text(
        '{"do_lower_case": false, "strip_accents": true}'
    )
    assert run(folder) == 0
    assert manifest_of(folder)["flags"]["do_lower_case"] is False
    assert "warning" not in capsys.readouterr().err


def test_warns_of_case_that_the_vocabulary_was_not_made_for(folder, capsys):
    (folder / "vocab.txt.json").write_text(
        '{"do_lower_case": false, "strip_accents": true}'
    )
    assert run(folder, "--lower-case") == 0
    assert manifest_of(folder)["flags"]["do_lower_case"] is True
    assert "vocabulary was made for do_lower_case=False" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize("flag", ["--blanks-separate-docs", None])
def test_blank_lines_separate_by_default(folder, flag, capsys):
    assert run(folder, *([flag] if flag else [])) == 0
    assert manifest_of(folder)["flags"]["blanks_separate_docs"] is True
    assert "warning" not in capsys.readouterr().err


def test_blanks_separate_docs_false_means_yes_with_a_warning(folder, capsys):
    assert run(folder, "--blanks-separate-docs", "False") == 0
    assert manifest_of(folder)["flags"]["blanks_separate_docs"] is True
    assert "False means yes, as in the original" in capsys.readouterr().err


@pytest.mark.parametrize(
    "flag", ["--no-blanks-separate-docs", "--blanks_separate_docs="]
)
def test_blank_lines_may_be_skipped(folder, flag):
    assert run(folder, flag) == 0
    assert tokens_of(rows_of(folder)) == [[5, 6, 6, 5, 5], [6, 6, 6]]


def test_two_processes_write_the_same_bytes(folder, monkeypatch):
    for i in range(6):
        (folder / "corpus" / f"{i}.txt").write_text("a b a b\nb b\n" * 200)
    flags = ["--max-seq-length=16", "--num-out-files=3"]
    assert run(folder, *flags) == 0
    repository = os.path.dirname(os.path.dirname(tool.__file__))
    # One part for each file, so that there is work for two.
    program = (
        "import sys; from tools import build_pretraining_dataset as tool; "
        "tool.PART_BYTES = 1; sys.exit(tool.main(sys.argv[1:]))"
    )
    other = folder / "other"
    subprocess.run(
        [
            sys.executable,
            "-c",
            program,
            *flags_for(folder),
            *flags,
            f"--output-dir={other}",
            "--num-processes=2",
        ],
        env=os.environ | {"PYTHONPATH": repository},
        check=True,
    )
    theirs = json.loads((other / "manifest.json").read_text())
    assert theirs["inputs"] == manifest_of(folder)["inputs"]
    assert theirs["totals"]["examples"] > 100
    # The order of parts differs with PART_BYTES; the examples do not.
    monkeypatch.setattr(tool, "PART_BYTES", 1)
    assert run(folder, *flags, f"--output-dir={folder / 'same'}") == 0
    for shard in theirs["shards"]:
        ours = (folder / "same" / shard["name"]).read_bytes()
        assert (other / shard["name"]).read_bytes() == ours


def test_the_seed_decides_the_bytes(folder):
    (folder / "corpus" / "one.txt").write_text("a b a b\nb b\n" * 100)

    def digest(name, seed):
        out = folder / name
        assert run(folder, f"--seed={seed}", f"--output-dir={out}") == 0
        shard = out / "pretrain_data.tfrecord-0-of-2"
        return hashlib.sha256(shard.read_bytes()).hexdigest()

    first = digest("first", 1)
    assert digest("again", 1) == first
    assert digest("other", 2) != first


def test_a_finished_output_is_left_alone(folder, capsys):
    assert run(folder) == 0
    shard = folder / "out" / "pretrain_data.tfrecord-0-of-2"
    before = shard.stat().st_mtime_ns
    assert run(folder) == 0
    assert shard.stat().st_mtime_ns == before
    assert "already holds this data set" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--max-seq-length=9", "max_seq_length 8, now 9"),
        ("--seed=1", "seed 0, now 1"),
        ("--no-blanks-separate-docs", "blanks_separate_docs True, now False"),
    ],
)
def test_refuses_an_output_of_other_flags(folder, flag, message, capsys):
    assert run(folder) == 0
    assert run(folder, flag) == 1
    assert message in error_of(capsys)


def test_refuses_an_output_of_another_corpus(folder, capsys):
    assert run(folder) == 0
    (folder / "corpus" / "one.txt").write_text("a b\nb A\n\nb\n")
    assert run(folder) == 1
    assert "'one.txt' of the corpus has changed" in error_of(capsys)
    (folder / "corpus" / "one.txt").unlink()
    assert run(folder) == 1
    assert "'one.txt' is new or gone" in error_of(capsys)


def test_refuses_an_output_of_another_vocabulary(folder, capsys):
    assert run(folder) == 0
    (folder / "vocab.txt").write_text(SPECIAL + "a\nb\n")
    assert run(folder) == 1
    assert "vocabulary is not the one given" in error_of(capsys)


def test_refuses_a_damaged_output(folder, capsys):
    assert run(folder) == 0
    (folder / "out" / "pretrain_data.tfrecord-1-of-2").unlink()
    assert run(folder) == 1
    assert "1-of-2', as manifest.json says" in error_of(capsys)


def test_never_wipes_a_folder(folder, capsys):
    (folder / "out").mkdir()
    (folder / "out" / "thesis.txt").write_text("mine")
    assert run(folder) == 1
    assert "did not write, such as 'thesis.txt'" in error_of(capsys)
    assert os.listdir(folder / "out") == ["thesis.txt"]


def test_refuses_a_foreign_manifest(folder, capsys):
    (folder / "out").mkdir()
    (folder / "out" / "manifest.json").write_text("[]")
    assert run(folder) == 1
    assert "Expected a manifest of version 1" in error_of(capsys)


def test_begins_an_interrupted_run_anew(folder):
    unfinished = folder / "out" / "unfinished_build"
    unfinished.mkdir(parents=True)
    (unfinished / "part-0.tmp").write_text("half")
    (unfinished / "plan.json").write_text('["pretrain_data.tfrecord-0-of-9"]')
    (folder / "out" / "pretrain_data.tfrecord-0-of-9").write_text("old")
    assert run(folder) == 0
    assert sorted(os.listdir(folder / "out")) == [
        "manifest.json",
        "pretrain_data.tfrecord-0-of-2",
        "pretrain_data.tfrecord-1-of-2",
    ]


def test_refuses_two_runs_at_once(folder, capsys):
    with tool.unfinished_folder(str(folder / "out")):
        assert run(folder) == 1
    assert "Another run is building" in error_of(capsys)


def test_refuses_a_file_as_output(folder, capsys):
    (folder / "out").write_text("")
    assert run(folder) == 1
    assert "which is a file" in error_of(capsys)


@pytest.mark.parametrize("name", ["none", "vocab.txt"])
def test_refuses_a_missing_corpus(folder, name, capsys):
    assert run(folder, f"--corpus-dir={folder / name}") == 1
    assert "Expected a folder of text files" in error_of(capsys)


def test_refuses_an_empty_corpus(folder, capsys):
    (folder / "empty").mkdir()
    assert run(folder, f"--corpus-dir={folder / 'empty'}") == 1
    assert "holds 0 file(s), none with text" in error_of(capsys)


def test_refuses_an_unreadable_file(folder, capsys):
    (folder / "corpus" / "gone.txt").symlink_to(folder / "nowhere")
    assert run(folder) == 1
    assert "Cannot read" in error_of(capsys)


def test_refuses_text_without_tokens(folder, capsys):
    (folder / "corpus" / "one.txt").write_text("\n")
    (folder / "corpus" / "inner" / "two.txt").write_text("\u200b\n")
    assert run(folder) == 1
    assert "whose lines hold no token" in error_of(capsys)
    assert not (folder / "out").exists()


def test_refuses_bad_utf8(folder, capsys):
    (folder / "corpus" / "one.txt").write_bytes(b"a b\n\xffa\n")
    assert run(folder) == 1
    error = error_of(capsys)
    assert "one.txt" in error
    assert "byte 4 is 0xff" in error
    assert not (folder / "out").exists()


def test_refuses_a_vocabulary_without_mask(folder, capsys):
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n")
    assert run(folder) == 1
    assert "with 5 entries and without [MASK]" in error_of(capsys)


def test_refuses_short_examples(folder, capsys):
    assert run(folder, "--max-seq-length=4") == 1
    assert "--max-seq-length of at least 5" in error_of(capsys)


def test_warns_of_empty_output_files(folder, capsys):
    assert run(folder, "--num-out-files=4") == 0
    assert "leave some of the 4 output files empty" in capsys.readouterr().err
    assert len(rows_of(folder, 4)) == 3


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "required: --corpus-dir, --vocab-file, --output-dir"),
        (["--num-processes=x"], "at least 1, received 'x'"),
        (["--lowercase"], "required"),
    ],
)
def test_refuses_flags(flags, message, capsys):
    with pytest.raises(SystemExit) as error:
        tool.main(flags)
    assert error.value.code == 2
    assert message in error_of(capsys)


@pytest.mark.parametrize(
    ("num_bytes", "num_shards"),
    [
        (1, 1),
        (100 << 10, 2),
        (1 << 20, 8),
        (128 << 20, 8),
        (160 << 20, 10),
        (1 << 40, 1000),
    ],
)
def test_default_number_of_output_files(num_bytes, num_shards):
    files = [corpus.CorpusFile("a", "a", num_bytes)]
    assert tool.default_num_shards(files) == num_shards


def test_progress_on_a_terminal_is_one_line(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    monkeypatch.setattr(tool.ProgressLine, "TERMINAL_SECONDS", 0)
    progress = tool.ProgressLine(200, stream)
    progress.add((50, 1, 20, 3, 24))
    progress.add((50, 1, 20, 3, 24))
    progress.finish()
    drawn = stream.getvalue()
    assert drawn.count("\n") == 1
    assert " 25%  1 documents  3 examples  20 tokens" in drawn
    assert " 50%  2 documents  6 examples  40 tokens" in drawn
