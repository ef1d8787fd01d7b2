"""Tests of tools/build_pretraining_dataset_beam.py; they need Apache Beam.

pip install 'electra_tf[beam]'
python -m pytest tests/build_pretraining_dataset_beam_test.py
"""

import json
import random

import pytest

from tools import build_pretraining_dataset, build_pretraining_dataset_beam

try:
    import apache_beam  # noqa: F401

    HAS_BEAM = True
except ImportError:
    HAS_BEAM = False

needs_beam = pytest.mark.skipif(
    not HAS_BEAM,
    reason="needs Apache Beam: pip install 'electra_tf[beam]'",
)

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


def shards_of(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*tfrecord*")}


def examples_of(folder):
    import tensorflow as tf

    paths = [str(path) for path in folder.glob("*tfrecord*")]
    return sorted(
        record for record in tf.data.TFRecordDataset(paths).as_numpy_iterator()
    )


@needs_beam
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
    for key in ("documents", "tokens", "examples", "example_tokens"):
        assert len({m["totals"][key] for m in manifests}) == 1
    assert sum(s["examples"] for s in manifests[0]["shards"]) == len(examples)
    assert [s["name"] for s in manifests[0]["shards"]] == [
        f"pretrain_data.tfrecord-{i}-of-3" for i in range(3)
    ]


@needs_beam
def test_what_is_held_out_is_that_of_the_local_tool(folder):
    flags = ["--heldout-fraction=0.4"]
    assert run(folder, "beam", *flags) == 0
    local = flags_for(folder, "local", *flags)
    assert build_pretraining_dataset.main(local) == 0
    for suffix in ("", "_heldout"):
        examples = examples_of(folder / f"beam{suffix}")
        assert examples
        assert examples == examples_of(folder / f"local{suffix}")


@needs_beam
def test_the_bytes_do_not_depend_on_the_workers(folder):
    assert run(folder, "one") == 0
    several = [
        "--direct_num_workers=3",
        "--direct_running_mode=multi_threading",
    ]
    assert run(folder, "three", beam_args=several) == 0
    assert shards_of(folder / "one") == shards_of(folder / "three")
    assert len(shards_of(folder / "one")) == 3
    assert run(folder, "seeded", "--seed=1") == 0
    assert shards_of(folder / "one") != shards_of(folder / "seeded")


def error_of(capsys):
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("build_pretraining_dataset_beam: error: ")
    return line


@needs_beam
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


@needs_beam
def test_refuses_folders_with_other_files(folder, capsys):
    (folder / "out").mkdir()
    (folder / "out" / "mine.txt").write_text("precious")
    assert run(folder, "out") == 1
    assert "such as 'mine.txt'" in error_of(capsys)
    (folder / "out" / "mine.txt").rename(folder / "out" / "manifest.json")
    assert run(folder, "out") == 1
    assert "which holds a finished data set" in error_of(capsys)
    assert (folder / "out" / "manifest.json").read_text() == "precious"


@pytest.mark.skipif(HAS_BEAM, reason="Apache Beam is installed")
def test_says_what_to_install(folder, capsys):
    assert run(folder, "out") == 1
    assert "pip install 'electra_tf[beam]'" in error_of(capsys)


def test_reason_of():
    error = RuntimeError(
        "Traceback (most recent call last):\n"
        '  File "x.py", line 3, in f\n'
        "electra_tf.corpus.BadInput: Expected a. Received: b.\n"
        "\nDuring handling of the above ...\n"
        "RuntimeError: electra_tf.corpus.BadInput: Expected a. Received: b. "
        "[while running 'build']\n"
    )
    assert build_pretraining_dataset_beam.reason_of(error) == (
        "Expected a. Received: b."
    )
