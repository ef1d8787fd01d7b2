"""Tests of files.py: what no other test of its callers holds."""

import os

from electra_tf import files
from tests import helpers

LOCK = (
    "import sys; from electra_tf import files; print(files.lock(sys.argv[1]))"
)


def test_a_folder_is_one_process_own_until_it_ends(tmp_path):
    held = files.lock(tmp_path)
    assert held is not None
    assert not os.listdir(tmp_path)
    assert helpers.execute("-c", LOCK, tmp_path).stdout == "None\n"
    os.close(held)  # As the end of the process does.
    assert helpers.execute("-c", LOCK, tmp_path).stdout != "None\n"
    assert files.lock(tmp_path) is not None


def test_a_file_system_without_locks_refuses_nobody(tmp_path, monkeypatch):
    def unsupported(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(files.fcntl, "flock", unsupported)
    assert files.lock(tmp_path) is not None
