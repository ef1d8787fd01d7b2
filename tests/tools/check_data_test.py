"""Tests of tools/check_data.py."""

import pytest

from tests import helpers
from tools import check_data


@pytest.fixture
def folder(tmp_path):
    """Ten examples in a folder, with their vocabulary and a run's file."""
    helpers.write_tfrecords(
        tmp_path / "a.tfrecord", [helpers.row(n) for n in range(10)]
    )
    helpers.write_vocab(tmp_path)
    (tmp_path / "run.gin").write_text(
        "EncoderConfig.vocab_size = 20\n"
        "ElectraConfig.max_seq_length = 12\n"
        "RunConfig.num_train_steps = 5\n"
        "PretrainingDataConfig.train_batch_size = 4\n"
        f"PretrainingDataConfig.train_files = '{tmp_path}/*.tfrecord'\n"
        f"PretrainingDataConfig.vocab_file = '{tmp_path}/vocab.txt'\n"
    )
    return tmp_path


def test_a_folder(folder, capsys):
    flags = [f"--data={folder}", f"--vocab_file={folder}/vocab.txt"]
    assert check_data.main(flags) == 0
    out, err = capsys.readouterr()
    assert "1 file(s), 10 examples of 12 tokens" in out
    assert "epochs" not in out
    assert err == ""
    helpers.write_tfrecords(folder / "b.tfrec", [helpers.row(10)])
    assert check_data.main([*flags, f"--data={folder}/b.tfrec"]) == 0
    assert "2 file(s), 11 examples" in capsys.readouterr().out


def flags_of_run(folder):
    quickstart = f"{helpers.ROOT}/gin/quickstart.gin"
    return [f"--gin_file={quickstart}", f"--gin_file={folder}/run.gin"]


def test_a_run(folder, capsys):
    assert check_data.main(flags_of_run(folder)) == 0
    assert "2.00 in 5 steps of 4 examples" in capsys.readouterr().out


def test_what_breaks_a_run(folder, capsys):
    flags = flags_of_run(folder)
    param = "--gin-param=EncoderConfig.vocab_size=19"
    assert check_data.main([*flags, param]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(
        "electra-tf check-data: error: EncoderConfig.vocab_size must"
    )
