"""Tests of tools/build_pretraining_dataset.py."""

import gzip
import hashlib
import itertools
import json
import os
import random
import re
import shutil
import signal

import pytest
import tensorflow as tf

from electra_tf.pretraining_data import (
    building,
    corpus,
    parts,
)
from tests import helpers
from tools import build_pretraining_dataset

# Moments at which a build is killed; more of them where it is tried hard.
NUM_KILLS = int(os.environ.get("ELECTRA_TF_NUM_KILLS", "4"))
# So many that no run between two kills finishes all of them.
NUM_PARTS = 6 * NUM_KILLS

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
        "--no-preflight",
    ]


def run(folder, *flags):
    return build_pretraining_dataset.main([*flags_for(folder), *flags])


def manifest_of(folder):
    return json.loads((folder / "out" / "manifest.json").read_text())


def rows_of(folder, num_shards=2, out="out"):
    spec = {"input_ids": tf.io.FixedLenFeature([8], tf.int64)}
    shards = [
        str(folder / out / f"pretrain_data.tfrecord-{i}-of-{num_shards}")
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
    assert line.startswith("electra-tf build-data: error: ")
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
    assert "100% | 3 documents  3 examples  8 tokens" in log
    assert "wrote 3 examples of 3 documents, 8 tokens, to 2 file(s)" in log
    manifest = manifest_of(folder)
    assert manifest["flags"] == {
        "max_seq_length": 8,
        "blanks_separate_docs": True,
        "do_lower_case": True,
        "strip_accents": True,
        "seed": 0,
        "num_out_files": 2,
        "text_field": "text",
        "dedup": "",
        "dedup_threshold": 0.0,
        "heldout_fraction": 0.0,
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


def test_warns_of_case_that_the_vocabulary_was_not_made_for(folder, capsys):
    (folder / "vocab.txt.json").write_text(
        '{"do_lower_case": false, "strip_accents": true, '
        '"text_cleaning": "kcelectra"}'
    )
    assert run(folder, "--lower-case") == 0
    assert manifest_of(folder)["flags"]["do_lower_case"] is True
    log = capsys.readouterr().err
    assert "vocabulary was made for do_lower_case=False" in log
    assert "vocabulary was made for text_cleaning='kcelectra'" in log


def test_blank_lines_may_be_skipped(folder):
    assert run(folder, "--no-blanks-separate-docs") == 0
    assert tokens_of(rows_of(folder)) == [[5, 6, 6, 5, 5], [6, 6, 6]]


# TensorFlow is imported once, and every run forks from that.
RUNS = """
import os, random, resource, select, signal, sys, time
import tensorflow, tensorflow_text
from electra_tf.pretraining_data import parts
from tools import build_pretraining_dataset as tool

parts.PART_BYTES = 1
common, num_kills, root = sys.argv[1:-2], int(sys.argv[-2]), sys.argv[-1]


def start(out, *flags, limit=None, pause=0.0):
    pid = os.fork()
    if pid:
        # A group with its workers, as a container is.
        os.setpgid(pid, pid)
        return pid
    if limit:
        # What exceeds the limit fails as writing to a full disk does.
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, -1))
        sys.stderr = open(f"{root}/{out}.log", "w")

    def build(builder, part, report, build=parts.PartBuilder.build):
        build(builder, part, report)
        time.sleep(pause)

    parts.PartBuilder.build = build
    code = tool.main([*common, *flags, f"--output-dir={root}/{out}"])
    sys.stderr.flush()
    os._exit(code)


def finished(out):
    folder = f"{root}/{out}/unfinished_build"
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return sum(n.startswith("part-") and n.endswith(".json") for n in names)


shares = ("--dedup", "--heldout-fraction=0.2")
for n in (1, 2):
    pid = start(f"processes-{n}", f"--num-processes={n}", *shares)
    assert os.waitpid(pid, 0)[1] == 0

rng = random.Random(0)
for kill in range(num_kills):
    before = finished("killed")
    # Open for as long as a process of the run is left.
    left, theirs = os.pipe()
    pid = start("killed", "--num-processes=3", *shares, pause=0.3)
    os.close(theirs)
    # At a random moment, of the first new part or of all.
    while kill % 4 in (0, 3) and finished("killed") <= before:
        assert not os.waitpid(pid, os.WNOHANG)[0]
        time.sleep(0.005)
    time.sleep(rng.random() * 0.3)
    # All processes, or the parent alone.
    number = (signal.SIGKILL, signal.SIGTERM)[kill // 2 % 2]
    (os.kill if kill % 2 else os.killpg)(pid, number)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -number
    if not select.select([left], [], [], 10)[0]:
        os.killpg(pid, signal.SIGKILL)
        sys.exit("its workers have stayed")
    os.close(left)
    print(before, finished("killed"))
assert os.waitpid(start("killed", "--num-processes=4", *shares), 0)[1] == 0

pid = start("full", "--num-out-files=1", limit=200_000)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The same data set built in several ways; the program's two outputs."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "vocab.txt").write_text(SPECIAL + "a\nb\nA\n")
    (folder / "corpus").mkdir()
    rng = random.Random(0)
    for i in range(NUM_PARTS):
        lines = [
            " ".join(rng.choices("ab", k=rng.randrange(12))) for _ in range(500)
        ]
        if i % 3:
            (folder / "corpus" / f"{i}.txt").write_text("\n".join(lines))
        else:
            (folder / "corpus" / f"{i}.txt.gz").write_bytes(
                gzip.compress("\n".join(lines).encode())
            )
    result = helpers.execute(
        "-c",
        RUNS,
        f"--corpus-dir={folder / 'corpus'}",
        f"--vocab-file={folder / 'vocab.txt'}",
        "--max-seq-length=16",
        "--num-out-files=3",
        str(NUM_KILLS),
        str(folder),
    )
    assert result.returncode == 0, result.stderr
    return folder, result


def bytes_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_blanks_separate_docs_false_means_yes_with_a_note(folder, capsys):
    assert run(folder, "--blanks-separate-docs", "False") == 0
    assert manifest_of(folder)["flags"]["blanks_separate_docs"] is True
    assert "False means yes, as in the original" in capsys.readouterr().err


@pytest.mark.parametrize("other", ["processes-2", "killed"])
def test_the_same_bytes(runs, other):
    folder, _ = runs
    for suffix in ("", "_heldout"):
        expected = bytes_of(folder / f"processes-1{suffix}")
        assert len(expected) == (5 if not suffix else 2)
        assert bytes_of(folder / f"{other}{suffix}") == expected


def test_killed_runs_go_on_where_they_were(runs):
    _, result = runs
    kills = [line.split() for line in result.stdout.splitlines()]
    num_finished = [(int(before), int(after)) for before, after in kills]
    assert len(num_finished) == NUM_KILLS
    # What a run finished, the next one found.
    for (_, after), (before, _) in itertools.pairwise(num_finished):
        assert before == after
    found = num_finished[-1][1]
    assert 0 < found < NUM_PARTS
    assert f"{found} of {NUM_PARTS} parts are finished" in result.stderr


def test_a_full_disk_is_named_and_finished_parts_stay(runs):
    folder, _ = runs
    lines = (folder / "full.log").read_text().splitlines()
    assert re.fullmatch(
        "electra-tf build-data: error: Cannot write '.*': File too large.",
        lines[-1],
    )
    assert f"{NUM_PARTS} finished part(s) stay in" in lines[-2]
    left = list((folder / "full").glob("unfinished_build/part-*.json"))
    assert len(left) == NUM_PARTS


def test_a_finished_output_is_left_alone(folder, capsys):
    assert run(folder) == 0
    shard = folder / "out" / "pretrain_data.tfrecord-0-of-2"
    before = shard.stat().st_mtime_ns
    # Other ends of lines make no other vocabulary.
    tokens = (folder / "vocab.txt").read_bytes()
    (folder / "vocab.txt").write_bytes(tokens.replace(b"\n", b"\r\n"))
    assert run(folder) == 0
    assert shard.stat().st_mtime_ns == before
    assert "already holds this data set" in capsys.readouterr().err


def test_refuses_two_runs_at_once(folder, capsys):
    (folder / "out").mkdir()
    with building.unfinished_folder(str(folder / "out")):
        assert run(folder) == 1
    assert "Another run is building" in error_of(capsys)


def rows_in(out, num_shards=1):
    return [
        [i for i in row if i > 4]
        for row in rows_of(out.parent, num_shards, out.name)
    ]


def test_repeated_documents_are_dropped_and_listed(folder):
    for path in (folder / "corpus").rglob("*.txt"):
        path.unlink()
    rng = random.Random(0)
    words = [chr(97 + i) + chr(97 + j) for i in range(20) for j in range(20)]
    document = [*rng.choices(words, k=100), "a"]
    near = [*document[:50], "b", *document[51:]]
    for name, lines in {
        "1.txt": ["b b b", "", " ".join(document), "", "B  b b"],
        "2.txt": ["b", "b b", "", " ".join(near), "", "b b"],
    }.items():
        (folder / "corpus" / name).write_text("\n".join(lines))
    out = folder / "out"
    assert run(folder, "--dedup", "--num-out-files=1") == 0
    listed = (out / "dropped_documents.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in listed]
    assert 0.8 <= found[2].pop("similarity") < 1
    names = ("file", "document", "reason", "kept_file", "kept_document")
    assert [tuple(row[name] for name in names) for row in found] == [
        ("1.txt", 3, "exact", "1.txt", 1),
        ("2.txt", 1, "exact", "1.txt", 1),
        ("2.txt", 2, "near", "1.txt", 2),
    ]
    assert found[0]["similarity"] == 1
    manifest = manifest_of(folder)
    assert manifest["totals"]["documents"] == 3
    assert manifest["totals"]["dropped_documents"] == 3
    dropped = [entry["dropped_documents"] for entry in manifest["inputs"]]
    assert dropped == [1, 2]
    # Only exact ones.
    other = folder / "exact"
    flags = ("--dedup=exact", "--num-out-files=1", f"--output-dir={other}")
    assert run(folder, *flags) == 0
    listed = (other / "dropped_documents.jsonl").read_text().splitlines()
    assert [json.loads(line)["document"] for line in listed] == [3, 1]


def test_held_out_documents_are_in_the_other_set_only(folder, capsys):
    for path in (folder / "corpus").rglob("*.txt"):
        path.unlink()
    # Documents of their own number of words, each in two files.
    texts = ["a " * n for n in range(1, 7)] + ["b " * n for n in range(1, 7)]
    for name in ("1", "2"):
        (folder / "corpus" / name).write_text("\n\n".join(texts))
    flags = ("--heldout-fraction=0.4", "--num-out-files=2")
    assert run(folder, *flags) == 0
    training = rows_in(folder / "out", 2)
    heldout = rows_in(folder / "out_heldout", 1)
    documents = [[5 if "a" in t else 6] * len(t.split()) for t in texts]
    assert sorted(training + heldout) == sorted(documents * 2)
    assert 0 < len(heldout) < len(training)
    assert not [row for row in heldout if row in training]
    manifest = json.loads(
        (folder / "out_heldout" / "manifest.json").read_text()
    )
    assert manifest["share"] == "heldout"
    assert manifest["totals"]["examples"] == len(heldout)
    # Whatever the seed.
    other = f"--output-dir={folder / 'other'}"
    assert run(folder, *flags, other, "--seed=1") == 0
    assert sorted(rows_in(folder / "other_heldout", 1)) == sorted(heldout)
    # A finished build knows both.
    assert run(folder, *flags) == 0
    shutil.rmtree(folder / "out_heldout")
    shutil.copytree(folder / "other_heldout", folder / "out_heldout")
    assert run(folder, *flags) == 1
    assert "out_heldout holds another data set" in error_of(capsys)
    (folder / "out_heldout" / "manifest.json").unlink()
    assert run(folder, *flags) == 1


def test_finished_parts_stay_when_an_input_is_damaged(
    folder, monkeypatch, capsys
):
    monkeypatch.setattr(parts, "PART_BYTES", 1)
    (folder / "corpus" / "z.jsonl").write_text('{"text": "a"}\n{"text": \n')
    assert run(folder) == 1
    lines = capsys.readouterr().err.splitlines()
    assert "line 2 of" in lines[-1]
    assert "2 finished part(s) stay in" in lines[-2]
    (folder / "corpus" / "z.jsonl").write_text('{"text": "a"}\n')
    # Damaged since.
    next((folder / "out").glob("unfinished_build/part-*.json")).write_text("[")
    assert run(folder) == 0
    assert "1 of 3 parts are finished" in capsys.readouterr().err
    assert manifest_of(folder)["totals"]["documents"] == 4
    # As if there had never been damage.
    assert run(folder, f"--output-dir={folder / 'same'}") == 0
    assert bytes_of(folder / "same") == bytes_of(folder / "out")


def test_damaged_places_are_left_out_on_demand(folder, monkeypatch, capsys):
    monkeypatch.setattr(corpus.BadInputs, "MAX_NAMED", 2)
    (folder / "corpus" / "gone.txt").symlink_to(folder / "nowhere")
    (folder / "corpus" / "x.txt").write_bytes(b"a\n\xff\n\xff\n\xff\nb\n")
    assert run(folder, "--on-bad-input=skip") == 0
    lines = capsys.readouterr().err.splitlines()
    named = [line for line in lines if "left out: " in line]
    assert len(named) == 3
    assert "gone.txt': No such file" in named[0]
    assert "x.txt', whose byte 2 is 0xff" in named[1]
    assert "left out 4 damaged place(s)" in lines[-1]
    assert [5, 6] in tokens_of(rows_of(folder))
    inputs = {entry["name"]: entry for entry in manifest_of(folder)["inputs"]}
    assert inputs["x.txt"]["bad_inputs"] == 3
    assert inputs["one.txt"]["bad_inputs"] == 0
    (folder / "corpus" / "gone.txt").unlink()
    assert run(folder, "--on-bad-input=skip") == 0
    assert "already holds this data set" in capsys.readouterr().err
    assert run(folder) == 1
    assert error_of(capsys).endswith(
        "on_bad_input='fail' (was 'skip'). Choose another --output-dir"
    )


def test_finished_parts_stay_after_ctrl_c(folder, monkeypatch, capsys):
    monkeypatch.setattr(parts, "PART_BYTES", 1)

    def interrupted_work(*args):
        raise KeyboardInterrupt

    flags = ["--heldout-fraction=0.6", "--dedup=near"]
    with monkeypatch.context() as patch:
        patch.setattr(parts, "merge", interrupted_work)
        assert run(folder, *flags, "--num-out-files=4") == 130
    assert "2 finished part(s) stay" in capsys.readouterr().err
    # Flags that are other than before, but decide no byte of the parts.
    flags += ["--dedup-threshold=0.7"]
    assert run(folder, *flags) == 0
    said = capsys.readouterr().err
    assert "2 of 2 parts are finished" in said
    assert run(folder, *flags, f"--output-dir={folder / 'other'}") == 0
    assert bytes_of(folder / "other") == bytes_of(folder / "out")


def test_refuses_mistakes_before_importing_tensorflow(folder):
    mistakes = {
        "--corpus-dir=none": "Expected a folder of text files",
        f"--output-dir={folder}/corpus": "did not write",
        f"--output-dir={folder}/corpus/out": "outside of the corpus",
        "--output-dir=\udcff": r"in UTF-8. Received: b'\xff'",
    }
    finished = helpers.execute(
        "-c",
        "import sys\n"
        "from tools import build_pretraining_dataset\n"
        f"flags, mistakes = sys.argv[1:-{len(mistakes)}], "
        f"sys.argv[-{len(mistakes)}:]\n"
        "for mistake in mistakes:\n"
        "    code = build_pretraining_dataset.main([*flags, mistake])\n"
        "    print(code, 'tensorflow' in sys.modules)",
        *flags_for(folder),
        *mistakes,
    )
    assert finished.stdout == "1 False\n" * len(mistakes)
    for line, message in zip(
        finished.stderr.splitlines(), mistakes.values(), strict=True
    ):
        assert message in line


@pytest.mark.parametrize(
    ("num_bytes", "num_shards"),
    [(1, 1), (100 << 10, 2), (1 << 20, 8), (160 << 20, 10), (1 << 40, 1000)],
)
def test_default_number_of_output_files(num_bytes, num_shards):
    files = [corpus.CorpusFile("a", "a", num_bytes)]
    assert building.default_num_shards(files) == num_shards


@pytest.mark.dear
def test_preflight(folder):
    # In a process of its own, as TensorFlow must not have run before a fork.
    (folder / "corpus" / "one.txt").write_text("a \u2603\n\na \u2603 a\n")
    finished = helpers.execute(
        helpers.ROOT / "tools/build_pretraining_dataset.py",
        *flags_for(folder)[:-1],
        "--preflight-only",
    )
    assert finished.returncode == 0
    assert "most often '\u2603' (2)" in finished.stderr
    assert "note: 25.0% of the words are [UNK]" in finished.stderr
    assert not (folder / "out").exists()


def test_a_preflight_that_is_killed_is_told_in_a_line(
    folder, monkeypatch, capsys
):
    monkeypatch.setattr(parts, "PART_BYTES", 1)
    monkeypatch.setattr(
        parts.PartBuilder,
        "preflight",
        lambda *args: os.kill(os.getpid(), signal.SIGKILL),
    )
    assert run(folder, "--preflight", "--num-processes=2") == 1
    assert error_of(capsys).endswith(
        "A building process was killed, perhaps for want of memory; try fewer "
        "--num-processes."
    )
    assert not (folder / "out").exists()


def test_an_empty_file_and_a_copy_with_a_byte_order_mark(folder, capsys):
    text = (folder / "corpus" / "one.txt").read_text()
    (folder / "corpus" / "a.txt").write_text("")
    (folder / "corpus" / "two.txt").write_text("\ufeff" + text)
    assert run(folder, "--dedup=exact", "--num-out-files=4") == 0
    entry = manifest_of(folder)["inputs"][0]
    assert (entry["name"], entry["bytes"]) == ("a.txt", 0)
    said = capsys.readouterr().err
    assert "dropped 2 document(s)" in said
    assert "leave some of the 4 output files empty" in said
    assert len(rows_of(folder, 4)) == 3


def write(path, content):
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(
        content if isinstance(content, bytes) else content.encode()
    )


NO_TEXT = {"corpus/one.txt": "\n", "corpus/inner/two.txt": "\u200b\n"}
SETTINGS = '{"do_lower_case": true, "strip_accents": true, "sha256": "0"}'
# Files that are written, flags, what the one line says.
MISTAKES = [
    ({}, ["--corpus-dir={}/vocab.txt"], "which is a file"),
    ({"empty/.a": ""}, ["--corpus-dir={}/empty"], "holds 0 file(s), none"),
    ({"out/thesis.txt": "mine"}, [], "did not write, such as 'thesis.txt'"),
    ({"out/manifest.json": "[]"}, [], "a whole manifest of version 2"),
    ({"out": ""}, [], "which is a file"),
    ({}, ["--output-dir=gs://bucket/out"], "Received: 'gs://bucket/out'"),
    ({}, ["--output-dir="], "Received: ''."),
    (NO_TEXT, [], "whose lines hold no token"),
    ({"corpus/one.txt": b"a b\n\xffa\n"}, [], "one.txt', whose byte 4 is 0xff"),
    ({"vocab.txt": SPECIAL.replace("[MASK]", "a")}, [], "without [MASK]"),
    ({"vocab.txt.json": SETTINGS}, [], "vocab.txt', which was changed since"),
    ({}, ["--heldout-fraction=0.0001"], "to hold out. Received"),
    ({}, ["--heldout-fraction=0.99999"], "no token and --heldout-fr"),
    ({"corpus/one.txt": "x y z\n" * 9}, ["--preflight"], "1 problem(s) would"),
]


@pytest.mark.parametrize(("files", "flags", "message"), MISTAKES)
def test_a_mistake_ends_in_one_line(folder, files, flags, message, capsys):
    for name, content in files.items():
        write(folder / name, content)
    before = sorted(folder.rglob("*"))
    assert run(folder, *(flag.format(folder) for flag in flags)) == 1
    assert message in error_of(capsys)
    # Nothing is wiped, and nothing half-made is left.
    assert sorted(folder.rglob("*")) == before


OTHER_BUILDS = [
    ({}, ["--max-seq-length=9"], "flags.max_seq_length=9 (was 8)"),
    (
        {},
        ["--no-blanks-separate-docs"],
        "blanks_separate_docs=False (was True)",
    ),
    ({"corpus/one.txt": "a b\nb A\n\nb\n"}, [], "corpus.one.txt."),
    ({"corpus/new.txt": "a\n"}, [], "corpus.new.txt."),
    ({"vocab.txt": SPECIAL + "a\nb\n"}, [], "vocabulary. Choose another"),
    ({"out/pretrain_data.tfrecord-1-of-2": ""}, [], "1-of-2, as manifest"),
    ({"out/pretrain_data.tfrecord-0-of-9": ""}, [], "0-of-9; choose"),
    ({"out/manifest.json": '{"manifest_version": 1}'}, [], "another one;"),
]


@pytest.mark.parametrize(("files", "flags", "message"), OTHER_BUILDS)
def test_refuses_the_output_of_another_build(
    folder, files, flags, message, capsys
):
    assert run(folder) == 0
    for name, content in files.items():
        write(folder / name, content)
    before = bytes_of(folder / "out")
    assert run(folder, *flags) == 1
    assert message in error_of(capsys)
    assert bytes_of(folder / "out") == before


@pytest.mark.parametrize("num_moved", [1, 2])
def test_a_run_killed_while_publishing_is_finished(
    folder, num_moved, monkeypatch
):
    flags = ["--heldout-fraction=0.6"]
    assert run(folder, *flags) == 0
    moves = []

    def move(source, target, rename=os.rename):
        if "merged-" in source:
            moves.append(target)
            if len(moves) > num_moved:
                raise KeyboardInterrupt
        rename(source, target)

    other = f"--output-dir={folder / 'other'}"
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", move)
        assert run(folder, *flags, other) == 130
    assert all(map(os.path.exists, moves[:num_moved]))
    assert not (folder / "other" / "manifest.json").exists()
    # Another number of files leaves none of those.
    flags.append("--num-out-files=3")
    assert run(folder, *flags, other) == 0
    assert run(folder, *flags, f"--output-dir={folder / 'same'}") == 0
    for suffix in ("", "_heldout"):
        expected = bytes_of(folder / f"same{suffix}")
        assert bytes_of(folder / f"other{suffix}") == expected


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "required: --corpus-dir, --vocab-file, --output-dir"),
        (["--num-processes=x"], "at least 1, received 'x'"),
        (["--max-seq-length=4"], "a whole number of at least 5, received '4'"),
        (["--heldout-fraction=1"], "from 0 to below 1, received '1'"),
        (["--lowercase"], "required"),
    ],
)
def test_refuses_flags(flags, message, capsys):
    with pytest.raises(SystemExit) as error:
        build_pretraining_dataset.main(flags)
    assert error.value.code == 2
    assert message in error_of(capsys)


def test_no_more_processes_than_parts(folder, monkeypatch):
    sizes = []

    class Crew(building.Crew):
        def __init__(self, num_processes, *choices):
            sizes.append(num_processes)
            super().__init__(num_processes, *choices)

    monkeypatch.setattr(building, "Crew", Crew)
    assert run(folder, "--num-processes=5") == 0
    assert sizes == [1]
