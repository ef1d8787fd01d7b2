"""The Beam builder on three engines; run by `make test-beam`.

On Beam's local runner, in one process and in two, and on a Dask cluster of two
processes. Not collected by `make test`, as it needs requirements-beam.lock.
"""

import argparse
import json
import os
import random
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from electra_tf import errors
from electra_tf.pretraining_data import beam, manifest
from tools import build_pretraining_dataset, build_pretraining_dataset_beam

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["one", "two", "three", "four", "five", "six", "##s"]


@pytest.fixture
def folder(tmp_path):
    """A vocabulary, and a corpus of six files of some documents each."""
    (tmp_path / "vocab.txt").write_text("\n".join(SPECIAL + WORDS) + "\n")
    rng = random.Random(0)
    (tmp_path / "corpus" / "inner").mkdir(parents=True)
    for number in range(6):
        documents = [
            "\n".join(
                " ".join(rng.choices(WORDS[:-1], k=rng.randint(1, 9)))
                for _ in range(rng.randint(1, 6))
            )
            for _ in range(number)
        ]
        inner = "inner" if number % 2 else ""
        path = tmp_path / "corpus" / inner / f"{number}.txt"
        path.write_text("\n\n".join(documents) + "\n")
    row = json.dumps({"text": "one two three\nfour fives"})
    (tmp_path / "corpus" / "rows.jsonl").write_text(f"{row}\n" * 3)
    return tmp_path


def flags_for(folder, output, *flags):
    return [
        f"--corpus-dir={folder / 'corpus'}",
        f"--vocab-file={folder / 'vocab.txt'}",
        f"--output-dir={folder / output}",
        "--max_seq_length=16",
        "--num-out-files=3",
        *flags,
    ]


def run(folder, output, *flags, beam_args=()):
    return build_pretraining_dataset_beam.main(
        [*flags_for(folder, output, *flags), "--", *beam_args]
    )


def bytes_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def examples_of(folder):
    import tensorflow as tf

    paths = [str(path) for path in folder.glob("*tfrecord*")]
    return sorted(
        record for record in tf.data.TFRecordDataset(paths).as_numpy_iterator()
    )


@pytest.mark.parametrize("flags", [["--seed=7"], ["--no-blanks-separate-docs"]])
def test_the_examples_are_those_of_the_local_tool(folder, flags):
    assert run(folder, "beam", *flags) == 0
    local = flags_for(folder, "local", *flags)
    assert build_pretraining_dataset.main(local) == 0
    examples = examples_of(folder / "beam")
    assert examples == examples_of(folder / "local")
    assert len(set(examples)) > 5
    manifests = [
        json.loads((folder / name / "manifest.json").read_text())
        for name in ("beam", "local")
    ]
    ours, theirs = manifests
    assert ours.keys() - theirs.keys() == {"built_with"}
    for key in ("share", "flags", "inputs", "totals", "vocabulary"):
        assert ours[key] == theirs[key]
    assert sum(s["examples"] for s in ours["shards"]) == len(examples)
    assert [s["name"] for s in ours["shards"]] == [
        f"pretrain_data.tfrecord-{i}-of-3" for i in range(3)
    ]


def test_the_local_tool_leaves_a_folder_of_beams_alone(folder, capsys):
    assert run(folder, "out") == 0
    before = bytes_of(folder / "out")
    assert build_pretraining_dataset.main(flags_for(folder, "out")) == 1
    line = capsys.readouterr().err.splitlines()[-1]
    assert "built_with=None (was 'apache-beam" in line
    assert bytes_of(folder / "out") == before


def test_what_is_held_out_is_that_of_the_local_tool(folder):
    flags = ["--heldout-fraction=0.4"]
    assert run(folder, "beam", *flags) == 0
    local = flags_for(folder, "local", *flags)
    assert build_pretraining_dataset.main(local) == 0
    for suffix in ("", "_heldout"):
        examples = examples_of(folder / f"beam{suffix}")
        assert examples
        assert examples == examples_of(folder / f"local{suffix}")


TWO_PROCESSES = [
    "--runner=DirectRunner",
    "--direct_num_workers=2",
    "--direct_running_mode=multi_processing",
]


@pytest.fixture(scope="module")
def dask():
    """Beam's flags for a cluster of two processes."""
    import distributed

    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        yield [
            "--runner=apache_beam.runners.dask.dask_runner.DaskRunner",
            f"--dask_client_address={cluster.scheduler_address}",
            "--dask_partition_size=1",
        ]
        # Beam leaves its client open.
        distributed.default_client().close()


def test_the_bytes_are_the_same_on_every_engine(folder, dask):
    flags = ["--heldout-fraction=0.4"]
    assert run(folder, "one", *flags) == 0
    assert run(folder, "two", *flags, beam_args=TWO_PROCESSES) == 0
    assert run(folder, "dask", *flags, beam_args=dask) == 0
    for suffix, num_files in (("", 4), ("_heldout", 2)):
        expected = bytes_of(folder / f"one{suffix}")
        assert len(expected) == num_files
        assert bytes_of(folder / f"two{suffix}") == expected
        assert bytes_of(folder / f"dask{suffix}") == expected


def error_of(capsys):
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("build_pretraining_dataset_beam: error: ")
    return line


def test_bad_input(folder, capsys):
    (folder / "corpus" / "bad.txt").write_bytes(b"one\n\xff\n")
    assert run(folder, "out") == 1
    line = error_of(capsys)
    assert "Expected text in UTF-8. Received:" in line
    assert "bad.txt', whose byte 4 is 0xff" in line
    assert "Traceback" not in line
    # The folder of the failed run is no obstacle.
    assert run(folder, "out", "--on-bad-input=skip") == 0
    manifest = json.loads((folder / "out" / "manifest.json").read_text())
    assert manifest["totals"]["bad_inputs"] == 1


def test_refuses_a_held_out_set_of_nothing(folder, capsys):
    assert run(folder, "out", "--heldout-fraction=1e-9") == 1
    line = error_of(capsys)
    assert "Expected text that makes examples to hold out" in line
    assert not (folder / "out" / "manifest.json").exists()


def test_refuses_folders_with_other_files(folder, capsys):
    (folder / "out").mkdir()
    (folder / "out" / "mine.txt").write_text("precious")
    assert run(folder, "out") == 1
    assert "such as 'mine.txt'" in error_of(capsys)
    (folder / "out" / "mine.txt").rename(folder / "out" / "manifest.json")
    assert run(folder, "out") == 1
    assert "which holds a finished data set" in error_of(capsys)
    assert (folder / "out" / "manifest.json").read_text() == "precious"


def test_refuses_what_another_build_has_begun(folder, capsys):
    (folder / "out").mkdir()
    shard = folder / "out" / "pretrain_data.tfrecord-0-of-3"
    shard.write_text("")
    assert run(folder, "out") == 1
    assert "did not write" in error_of(capsys)
    (folder / "out" / manifest.UNFINISHED).write_text("other flags")
    assert run(folder, "out") == 1
    assert "where a run with other flags is at work" in error_of(capsys)
    assert len(os.listdir(folder / "out")) == 2


def test_of_two_builds_in_a_folder_one_ends(folder, monkeypatch, capsys):
    def add_steps(*args, add_steps=beam.add_steps):
        monkeypatch.undo()
        assert run(folder, "out", "--seed=1") == 1
        assert "with other flags is at work" in error_of(capsys)
        add_steps(*args)

    monkeypatch.setattr(beam, "add_steps", add_steps)
    assert run(folder, "out") == 0
    assert run(folder, "other") == 0
    assert bytes_of(folder / "out") == bytes_of(folder / "other")


def test_goes_on_from_a_kill_between_the_two_manifests(
    folder, monkeypatch, capsys
):
    flags = ["--heldout-fraction=0.4"]
    assert run(folder, "other", *flags) == 0
    with monkeypatch.context() as patch:
        # Nothing is tidied by a process that is killed.
        patch.setattr(beam.FileSystems, "delete", lambda paths: None)
        assert run(folder, "out", *flags) == 0
    (folder / "out" / "manifest.json").unlink()
    assert (folder / "out_heldout" / "manifest.json").exists()
    assert run(folder, "out", "--heldout-fraction=0.5") == 1
    assert "run with other flags" in error_of(capsys)
    assert run(folder, "out", *flags) == 0
    for suffix in ("", "_heldout"):
        assert bytes_of(folder / f"out{suffix}") == bytes_of(
            folder / f"other{suffix}"
        )
    assert run(folder, "out", *flags) == 1
    assert "which holds a finished data set" in error_of(capsys)


def test_what_a_failed_build_has_published_is_not_taken_for_all(
    folder, monkeypatch, capsys
):
    def write_manifests(*_):
        raise ValueError("Expected room. Received: a full disk.")

    with monkeypatch.context() as patch:
        patch.setattr(beam, "_write_manifests", write_manifests)
        assert run(folder, "out") == 1
    assert "a full disk" in error_of(capsys)
    files = [str(path) for path in (folder / "out").glob("*tfrecord*")]
    assert len(files) == 3
    with pytest.raises(errors.DataError, match="Expected a finished build"):
        manifest.refuse_unfinished(files)
    assert run(folder, "out") == 0
    manifest.refuse_unfinished(files)


class Found(NamedTuple):
    """What a file system matches."""

    path: str
    size_in_bytes: int


def test_what_is_no_text_of_a_corpus_elsewhere(tmp_path, monkeypatch):
    root = f"gs://{tmp_path}/corpus"
    names = ["a.txt", "vocab.txt", "vocab.txt.json", "x.csv", ".hidden/b.txt"]
    found = [Found(f"{root}/{name}", 3) for name in names]
    # What stands for a folder in a bucket.
    found += [Found(f"{root}/", 0), Found(f"{root}/inner/", 0)]
    match = SimpleNamespace(metadata_list=found)
    monkeypatch.setattr(beam.FileSystems, "match", lambda patterns: [match])

    def listed(**changes):
        args = {
            "corpus_dir": root,
            "vocab_file": f"{root}/vocab.txt",
            "output_dir": f"gs://{tmp_path}/out",
            "on_bad_input": "skip",
            "heldout_fraction": 0.0,
        }
        files = beam.list_files(argparse.Namespace(**args | changes))
        return [file.name for file in files]

    with pytest.warns(errors.Notice) as notes:
        assert listed() == ["a.txt"]
    log = "\n".join(str(note.message) for note in notes)
    assert log.count("is no text: left out of the corpus") == 2
    assert "x.csv', whose kind is not read" in log
    assert listed(output_dir=f"{root}/.out") == ["a.txt"]
    assert listed(output_dir="gs://elsewhere/out") == ["a.txt"]
    for changes, message in (
        ({"output_dir": f"{root}/inner/out"}, "outside of the corpus"),
        ({"output_dir": root}, "outside of the corpus"),
        ({"on_bad_input": "fail"}, "whose kind is not read"),
    ):
        with pytest.raises(ValueError, match=message):
            listed(**changes)
