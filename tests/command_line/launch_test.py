"""Tests of command_line/launch.py; whole commands are in end_to_end/."""

import os

import pytest
import tensorflow as tf

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


def test_a_device_without_the_memory_is_the_users_to_mend():
    error = tf.errors.ResourceExhaustedError(
        None, None, "Graph execution error:\n\nOOM when allocating [9,9]"
    )
    line = launch._mendable(error)
    assert line.startswith("Expected a step that the device has memory for")
    assert line.endswith("Received: OOM when allocating [9,9]")
    assert launch._mendable(errors.ConfigError("this")) == "this"
    assert launch._mendable(ZeroDivisionError("that")) is None


def test_what_cannot_be_made_is_said_by_who_writes_there(tmp_path):
    (tmp_path / "file").write_text("")
    launch._lock(str(tmp_path / "file" / "models"))
    assert os.listdir(tmp_path) == ["file"]
    assert files.lock(tmp_path) is not None
