"""Tests of tools/build_openwebtext_pretraining_dataset.py."""

import io
import json
import tarfile

from tools import build_openwebtext_pretraining_dataset as tool


def test_an_archive_of_texts_is_a_document_a_file(tmp_path):
    (tmp_path / "vocab.txt").write_text(
        "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n"
    )
    (tmp_path / "openwebtext").mkdir()
    # As the archives are named: nothing says that there is a tar inside.
    path = tmp_path / "openwebtext" / "urlsf_subset00-1_data.xz"
    with tarfile.open(path, "w:xz") as archive:
        for name, text in (("0.txt", "a b\n\nb\n"), ("1.txt", "a\n\n\na\n")):
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    flags = [f"--data-dir={tmp_path}", "--max-seq-length=8", "--do-lower-case"]
    assert tool.main([*flags, "--num_processes=1"]) == 0
    manifest = json.loads(
        (tmp_path / "pretrain_tfrecords" / "manifest.json").read_text()
    )
    assert manifest["totals"]["documents"] == 2
    assert manifest["totals"]["tokens"] == 5
    assert manifest["flags"]["blanks_separate_docs"] is False


def test_a_folder_without_archives_is_named(tmp_path, capsys):
    assert tool.main([f"--data-dir={tmp_path}"]) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("build_openwebtext_pretraining_dataset: error: ")
    assert "openwebtext', which does not exist" in error
