"""Tests of tools/build_pretraining_dataset_beam.py that need no Apache Beam.

Those that do are in beam_engines.py.
"""

import sys

from tools import build_pretraining_dataset_beam


def test_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    flags = ["--corpus-dir=c", "--vocab-file=v", "--output-dir=o"]
    assert build_pretraining_dataset_beam.main(flags) == 1
    assert "pip install 'electra_tf[beam]'" in capsys.readouterr().err
