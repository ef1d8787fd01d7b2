"""Tests of pretraining_data/corpus.py: kinds of files, and damage."""

import builtins
import bz2
import gzip
import hashlib
import io
import json
import lzma
import os
import re
import tarfile

import pyarrow as pa
import pytest
from pyarrow import parquet

from electra_tf import errors
from electra_tf.pretraining_data import corpus

# Random enough that a lost piece of a compressed file cannot be guessed.
LONG = "".join(
    f"{hashlib.sha256(str(i).encode()).hexdigest()}\n" for i in range(9000)
)


def zstd(data):
    content = data.encode() if isinstance(data, str) else data
    return pa.compress(content, "zstd", asbytes=True)


COMPRESS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstd,
}


def tar_of(members, **kwargs) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", **kwargs) as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def parquet_of(rows, column="text") -> bytes:
    stream = io.BytesIO()
    parquet.write_table(pa.table({column: rows}), stream)
    return stream.getvalue()


def jsonl_of(*rows) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def lines_of(folder, name, content, **reading):
    path = folder / name
    path.write_bytes(content)
    digest = hashlib.sha256()
    batches = list(
        corpus.read_lines(str(path), digest, corpus.Reading(**reading))
    )
    # Whatever a file is, all of it is counted and digested.
    assert sum(batch.num_bytes for batch in batches) == len(content)
    assert digest.digest() == hashlib.sha256(content).digest()
    return [line for batch in batches for line in batch.lines]


TEXT = b"a b\n c \n\nd"
KINDS = {
    ".txt": (TEXT, ["a b", "c", "", "d", ""]),
    "": (TEXT, ["a b", "c", "", "d", ""]),
    # A blank line within a row ends nothing.
    ".jsonl": (
        jsonl_of({"text": "a b\n\n c", "id": 1})
        + b"\n"
        + jsonl_of({"text": "d"}),
        ["a b", "c", "", "d", ""],
    ),
    ".ndjson": (jsonl_of({"text": "a"}, {"text": "b"}), ["a", "", "b", ""]),
    # As TensorFlow's reader has it.
    ".cr": (b"one\rtwo\r\n\r\nthree\r", ["onetwo", "", "three", ""]),
}


@pytest.mark.parametrize("compression", ["", *COMPRESS])
@pytest.mark.parametrize("kind", KINDS)
def test_kinds(tmp_path, kind, compression):
    content, lines = KINDS[kind]
    compress = COMPRESS.get(compression, lambda data: data)
    name = f"file{kind}{compression}"
    assert lines_of(tmp_path, name, compress(content)) == lines


def test_parquet(tmp_path):
    content = parquet_of(["a b\n\nc", "d"])
    assert lines_of(tmp_path, "x.parquet", content) == ["a b", "c", "", "d", ""]
    columns = [pa.array(["a", "b"], pa.string_view())]
    for kind in (pa.large_binary(), pa.dictionary(pa.int32(), pa.string())):
        columns.append(pa.array(["a", "b"]).cast(kind))
    for column in columns:
        content = parquet_of(column)
        assert lines_of(tmp_path, "x.parquet", content) == ["a", "", "b", ""]
    content = parquet_of([{"text": "a"}, {"text": "b"}], "meta")
    lines = lines_of(tmp_path, "x.parquet", content, text_field="meta.text")
    assert lines == ["a", "", "b", ""]
    content = gzip.compress(parquet_of(["a"], "body"))
    lines = lines_of(tmp_path, "x.parquet.gz", content, text_field="body")
    assert lines == ["a", ""]


@pytest.mark.parametrize(
    ("name", "compress"),
    [
        ("x.tar", lambda data: data),
        ("x.tar.gz", gzip.compress),
        ("x.tgz", gzip.compress),
        # As OpenWebText has them.
        ("x.xz", lzma.compress),
        ("x.tar.zst", zstd),
    ],
)
def test_archives_hold_any_kind(tmp_path, name, compress):
    content = tar_of(
        {
            "./a.txt": b"a\n\nb",
            "deep/b.jsonl.gz": gzip.compress(jsonl_of({"text": "c"})),
            "c.parquet": parquet_of(["d"]),
            "d.tar": tar_of({"e.txt": b"e"}),
            ".hidden/f.txt": b"f",
            "g.txt": b"",
        }
    )
    lines = lines_of(tmp_path, name, compress(content))
    documents = "\n".join(lines).strip("\n").replace("\n\n\n", "\n\n")
    assert documents == "a\n\nb\n\nc\n\nd\n\ne"


MARK = "\ufeff".encode()


def tar_with_links():
    stream = io.BytesIO(tar_of({"a.txt": b"a"}))
    with tarfile.open(fileobj=stream, mode="a") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
            link = tarfile.TarInfo("link.txt")
            link.type, link.linkname = kind, "a.txt"
            archive.addfile(link)
    return stream.getvalue()


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
@pytest.mark.parametrize(
    ("kind", "content", "lines"),
    [
        # A byte order mark means nothing, at the head of a text.
        (".txt", MARK + b" a\nb\n", ["a", "b", ""]),
        # Elsewhere it is a character, which the tokenizer drops.
        (".txt", b"a\n" + MARK + b"b\n", ["a", "\ufeffb", ""]),
        (".txt", MARK + b"a\n\xff\nb\n", ["a", "b", ""]),
        (".jsonl", MARK + jsonl_of({"text": "a"}), ["a", ""]),
        (".jsonl", MARK + b"\n" + jsonl_of({"text": "\ufeffa"}), ["a", ""]),
        (".tar", tar_of({"x": b"a", "y": MARK + b"b"}), ["a", "", "b", ""]),
        # Links in archives are no damage.
        (".tar", tar_with_links(), ["a", ""]),
    ],
)
def test_byte_order_marks_and_links(tmp_path, kind, content, lines, compress):
    ending = ".gz" if compress is gzip.compress else ""
    assert lines == lines_of(
        tmp_path,
        f"x{kind}{ending}",
        compress(content),
        on_bad_input=lambda message: None,
    )


def test_what_flags_say_of_lines_and_fields(tmp_path):
    content = jsonl_of({"meta": {"text": "a"}}, {"meta.text": "b"})
    lines = lines_of(tmp_path, "x.jsonl", content, text_field="meta.text")
    assert lines == ["a", "", "b", ""]
    lines = lines_of(tmp_path, "x.txt", TEXT, blanks_separate_docs=False)
    assert lines == ["a b", "c", "d", ""]


def test_compressed_files_may_be_several_in_one_and_padded(tmp_path):
    for ending, compress in COMPRESS.items():
        padding = bytes(8) if ending in (".gz", ".bz2") else b""
        content = compress(b"a\n") + compress(b"b\n") + padding
        lines = lines_of(tmp_path, f"x.txt{ending}", content)
        assert lines == ["a", "b", ""]


OTHER_KINDS = ["x.json", "x.JSON.gz", "x.csv", "x.html", "x.Z"]
OTHER_KINDS += ["pretrain_data.tfrecord-0-of-2", "x.json-00000-of-00010"]


@pytest.mark.parametrize("name", OTHER_KINDS)
def test_other_kinds_are_refused_by_name(tmp_path, name):
    (tmp_path / "a.txt").write_text("a")
    # An empty file holds nothing to take for text.
    assert lines_of(tmp_path, name, b"") == [""]
    assert len(corpus.list_files(str(tmp_path))) == 2
    (tmp_path / name).write_bytes(b"text")
    message = rf"{name}', whose kind is not read"
    with pytest.raises(corpus.BadInput, match=message):
        corpus.list_files(str(tmp_path))
    with pytest.raises(corpus.BadInput, match=message):
        list(corpus.read_lines(str(tmp_path / name)))
    messages = []
    (file,) = corpus.list_files(str(tmp_path), messages.append)
    assert file.name == "a.txt"
    assert len(messages) == 1
    # In an archive that member alone is left out.
    content = tar_of({"a": b"a", name: b"text", "b": b"b"})
    lines = lines_of(tmp_path, "y.tar", content, on_bad_input=messages.append)
    assert lines == ["a", "", "b", ""]
    assert f"y.tar/{name}', whose kind" in messages[1]


def test_folders_behind_links_are_read_once_in_a_circle(tmp_path):
    (tmp_path / "corpus" / "inner").mkdir(parents=True)
    (tmp_path / "far").mkdir()
    (tmp_path / "corpus" / "inner" / "a.txt").write_text("a")
    (tmp_path / "far" / "b.txt").write_text("b")
    (tmp_path / "corpus" / "link").symlink_to(tmp_path / "far")
    (tmp_path / "corpus" / ".hidden").symlink_to(tmp_path / "far")
    (tmp_path / "far" / "up").symlink_to(tmp_path / "corpus")
    (tmp_path / "corpus" / "inner" / "here").symlink_to(".")
    files = corpus.list_files(str(tmp_path / "corpus"))
    assert [file.name for file in files] == ["inner/a.txt", "link/b.txt"]


def test_names_that_are_not_utf8_and_pipes(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    messages = []
    with open(os.fsencode(tmp_path) + b"/\xe9.txt", "wb") as file:
        file.write(b"b")
    with pytest.raises(
        corpus.BadInput, match=r"in UTF-8.*/\\xe9\.txt'; rename"
    ):
        corpus.list_files(str(tmp_path))
    # Opening it would wait for someone to write.
    os.mkfifo(tmp_path / "pipe")
    (file,) = corpus.list_files(str(tmp_path), messages.append)
    assert file.name == "a.txt"
    assert len(messages) == 2
    assert any("pipe', a pipe or a device" in line for line in messages)


def test_outputs_are_no_part_of_a_corpus(tmp_path):
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "a.txt").write_text("a")
    (tmp_path / "corpus" / "vocab.txt").write_text("[PAD]")
    (tmp_path / "vocab.txt").symlink_to(tmp_path / "corpus" / "vocab.txt")
    (tmp_path / "link").symlink_to(tmp_path / "corpus")

    def names(vocab_file="", output="out"):
        files = corpus.list_files(
            str(tmp_path / "corpus"),
            vocab_file=str(tmp_path / vocab_file),
            output_dir=str(tmp_path / output),
        )
        return [file.name for file in files]

    assert names("no.txt", "corpus_heldout") == ["a.txt", "vocab.txt"]
    # What a dot hides is not read.
    assert names(output="corpus/.out") == ["a.txt", "vocab.txt"]
    for output in ("corpus", "corpus/x/out", "link/out"):
        with pytest.raises(ValueError, match=f"corpus'. Received: .*{output}"):
            names(output=output)
    for vocab_file in ("vocab.txt", "corpus/vocab.txt"):
        with pytest.warns(errors.Notice, match="vocab.txt' is no text"):
            assert names(vocab_file) == ["a.txt"]


def cut(data):
    return data[: len(data) // 2]


def spoil(data):
    middle = len(data) // 2
    return data[:middle] + b"spoiled bytes" + data[middle + 13 :]


GZIP, XZ = gzip.compress(LONG.encode(), mtime=0), lzma.compress(LONG.encode())
LONG_TAR = tar_of({"a.txt": LONG.encode(), "b.txt": b"last"})
SECOND_HEADER = LONG_TAR.index(b"b.txt")
OTHER_HEADER = LONG_TAR[:SECOND_HEADER] + b"X" + LONG_TAR[SECOND_HEADER + 1 :]
MEMBERS = {"a.txt": b"kept\n", "b.txt": b"kept too\n\xff\n", "c.txt": b"end"}
JSON = jsonl_of({"text": "a"})

# File name, content, what the line says, and how many documents a skipping
# reader finds (None where damage is noticed late: gzip checks sums at its end).
DAMAGE = [
    ("x.txt", b"a\n\n\xe9t\xe9\n\nb\n", "x.txt', whose byte 3 is 0xe9", 2),
    ("x.tar", tar_of(MEMBERS), "x.tar/b.txt', whose byte 9 is 0xff", 3),
    ("x.txt.gz", cut(GZIP), "whole .gz file. .*ended before the end", 1),
    ("x.txt.gz", spoil(GZIP), "whole .gz file. .*damaged: ", None),
    ("x.txt.gz", b"plain text", ".gz file. .*Not a gzipped file", 0),
    ("x.txt.gz", bytes(100), "x.txt.gz', which is damaged: .+", 0),
    ("x.txt.xz", cut(XZ), "whole .xz file. .*ended before the end", 1),
    ("x.txt.xz", spoil(XZ), "whole .xz file. .*: Corrupt input data", 1),
    ("x.zst", cut(zstd(LONG)), "whole .zst file. .*Truncated", 1),
    ("x.zst", b"\0\1" + spoil(zstd(LONG)), ".zst .*damaged: ", 0),
    ("x.bz2", cut(bz2.compress(b"a" * 100)), ".bz2 .*ended before", 0),
    ("x.tar", cut(LONG_TAR), "x.tar/a.txt', is damaged: unexpected end", 1),
    ("x.tar", OTHER_HEADER, "after .*/a.txt', goes on behind its end", 1),
    ("x.tar", tar_of({"a.gz": spoil(GZIP)}), "x.tar/a.gz', which is dam", None),
    ("x.jsonl", JSON + b'{"text": \n' + JSON, "2 of .*Expecting value at", 2),
    ("x.jsonl", JSON + jsonl_of({"body": "b"}) + JSON, "no field 'text'", 2),
    ("x.jsonl", JSON + b'{"text": "b", "text": "c"}', "name 'text' twice", 1),
    ("x.jsonl", JSON + jsonl_of({"text": None}), "field 'text' is null", 1),
    ("x.jsonl", JSON + b'{"text": "\xff"}', "line 2 of .*0xff in posit", 1),
    ("x.jsonl", b'{"text": "a\\ud800"}\n', "line 1 of .*surrogates not", 0),
    ("x.parquet", parquet_of(["a"], "body"), "no column .*, but body", 0),
    ("x.parquet", parquet_of([1, 2]), "column 'text' holds int64", 0),
    ("x.parquet", parquet_of(["a", None, "b"]), "null in row 2 of", 2),
    ("x.parquet", b"plain text, long enough", "x.parquet': .+", 0),
    ("x.txt", "a\n\nb\n".encode("utf-16"), "x.txt', which is UTF-16", 0),
    *(
        ("x.txt", text.encode(utf_16), "or UTF-16: iconv", 0)
        for utf_16 in ("utf-16-le", "utf-16-be")
        for text in ("a\n\nb\n", "ไทยไทย\nไทย\n", "一上中文的一段话\n你好\n")
    ),
    ("x.txt", b"\n<!DOCTYPE HTML><p>a", "x.txt', which is HTML", 0),
    ("x.txt", gzip.compress(b"a", mtime=0), "which is gzip: name it .gz", 0),
]


@pytest.mark.parametrize(
    ("file_name", "content", "words", "num_documents"), DAMAGE
)
def test_damage_is_named_or_left_out(
    tmp_path, file_name, content, words, num_documents
):
    with pytest.raises(corpus.BadInput, match=f"Exp.*{words}.*=skip") as error:
        lines_of(tmp_path, file_name, content)
    assert "\n" not in str(error.value)

    messages = []
    lines = lines_of(tmp_path, file_name, content, on_bad_input=messages.append)
    assert len(messages) == 1
    assert re.search(words, messages[0])
    documents = [d for d in "\n".join(lines).split("\n\n") if d.strip()]
    if num_documents is not None:
        assert len(documents) == num_documents
    # What precedes the damage is there.
    is_packed = file_name.endswith((".gz", ".xz", ".zst"))
    if num_documents is None or (is_packed and num_documents):
        assert lines[:100] == LONG.split("\n")[:100]


def test_unreadable_files_are_named_or_left_out(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "gone.txt").symlink_to(tmp_path / "nowhere")
    message = r"Cannot read '.*gone\.txt': No such file or directory\."
    with pytest.raises(corpus.BadInput, match=message):
        corpus.list_files(str(tmp_path))
    messages = []
    files = corpus.list_files(str(tmp_path), messages.append)
    assert [file.name for file in files] == ["a.txt"]
    assert re.fullmatch(message, messages[0])
    # One that goes away after it was listed.
    os.remove(files[0].path)
    with pytest.raises(corpus.BadInput, match=r"Cannot read '.*a\.txt'"):
        list(corpus.read_lines(files[0].path))


@pytest.mark.parametrize("name", ["x.zst", "x.parquet"])
def test_a_missing_package_is_named(tmp_path, monkeypatch, name):
    real_import = builtins.__import__

    def fake_import(module, *args, **kwargs):
        if module.split(".")[0] == "pyarrow":
            raise ImportError(module)
        return real_import(module, *args, **kwargs)

    (tmp_path / name).write_bytes(b"something")
    monkeypatch.setattr(builtins, "__import__", fake_import)
    with pytest.raises(ValueError, match="pip install pyarrow") as error:
        list(corpus.read_lines(str(tmp_path / name)))
    # No damage of the file: it is not left out.
    assert not isinstance(error.value, corpus.BadInput)
