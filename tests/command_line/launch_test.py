"""Tests of command_line/launch.py; whole commands are in end_to_end/."""

import os

import pytest

from electra_tf import errors, files
from electra_tf.command_line import launch


def test_two_runs_at_once_in_one_model_directory_are_refused(tmp_path):
    """Their checkpoints would take turns, and their logs be mixed."""
    folder = str(tmp_path / "models" / "mine")
    launch._lock(folder)  # Makes it.
    with pytest.raises(
        errors.ConfigError,
        match="no other run is using. Received: .*/models/mine, to which anoth",
    ):
        launch._lock(folder)
    launch._lock(str(tmp_path / "models"))


def test_what_cannot_be_made_is_said_by_who_writes_there(tmp_path):
    (tmp_path / "file").write_text("")
    launch._lock(str(tmp_path / "file" / "models"))
    assert os.listdir(tmp_path) == ["file"]
    assert files.lock(tmp_path) is not None
