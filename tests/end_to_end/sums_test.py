"""The sums of `sums.py`, and that they notice a change."""

import json

import numpy as np
import pytest

from tests import warm
from tests.end_to_end import sums


@pytest.mark.dear
def test_sums_are_equal_both_ways(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        sums, "_start", lambda folder, *args: warm.start(*args, cwd=folder)
    )
    path = tmp_path / "sums.json"
    assert sums.main([f"--output={path}"]) == 0
    for entry in json.loads(path.read_text())["sums"].values():
        assert entry["num_values"] > 0
    assert capsys.readouterr().out.count(": equal\n") == 4


def test_every_bit_and_name_counts():
    entries = sums.Entries(a=np.float32([1, 2]), b=np.array(["x"], object))
    before = entries.sums()
    assert sums.Entries(reversed(entries.items())).sums() == before
    for name, value in (
        ("a", np.nextafter(entries["a"], np.float32(9))),
        ("a", entries["a"].reshape(2, 1)),
        ("a", entries["a"].view(np.int32)),
        ("b", np.array(["y"], object)),
    ):
        changed = sums.Entries(entries | {name: value}).sums()
        assert changed["sum_without_names"] != before["sum_without_names"]
    renamed = sums.Entries(c=entries["a"], b=entries["b"]).sums()
    assert renamed["sum"] != before["sum"]
    assert renamed["sum_without_names"] == before["sum_without_names"]


def test_refuses_sums_of_another_machine(tmp_path, capsys):
    path = tmp_path / "sums.json"
    machine = {"processor": "an abacus", "tensorflow": "0.1"}
    path.write_text(json.dumps({"machine": machine, "sums": {}}))
    assert sums.main([f"--compare={path}"]) == 1
    assert "abacus" in capsys.readouterr().out
