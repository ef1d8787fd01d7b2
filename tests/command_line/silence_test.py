"""Tests of command_line/silence.py."""

import os

import pytest

from electra_tf.command_line import silence


def test_nobody_hears_what_is_written_in_between(capfd):
    os.write(2, b"before ")
    with pytest.raises(KeyError), silence.stderr():
        os.write(2, b"between ")
        raise KeyError
    os.write(2, b"after")
    assert capfd.readouterr().err == "before after"
