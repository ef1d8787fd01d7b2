"""Tests of arguments.py: types of flags, and what is said."""

import argparse
import io
import os
import sys

import pytest
import tensorflow as tf

from electra_tf import errors
from electra_tf.command_line import arguments, progress


@pytest.mark.parametrize(
    "text", ["1_0", " 1", "+1", "-1", "1.0", "", "٣", "99"]
)
def test_digits_are_digits_alone(text):
    parse = arguments.number(arguments.digits, lambda n: n < 99, "a number")
    assert parse("098") == 98
    with pytest.raises(argparse.ArgumentTypeError, match="expected a number"):
        parse(text)


@pytest.mark.parametrize("is_terminal", [True, False])
def test_what_is_said_is_a_line_of_its_own(monkeypatch, is_terminal):
    """On a terminal whatever live line is there makes way."""
    err = io.StringIO()
    err.isatty = lambda: is_terminal
    monkeypatch.setattr(sys, "stderr", err)
    line = progress.Progress("building", 10)
    line.update(5)
    arguments.say("build", "error: no room")
    shown = err.getvalue().rstrip("\n").split("\n")[-1]
    if is_terminal:
        before, cleared, shown = shown.rpartition(arguments.CLEAR)
        assert "building 50%" in before
        assert cleared
    assert shown == "build: error: no room"


def test_texts_are_utf_8_whatever_the_locale_says(monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(
        sys, "stdout", io.TextIOWrapper(raw, "ascii", "surrogateescape")
    )
    parser = arguments.ArgumentParser(prog="say")
    assert arguments.run(lambda args: print("é", "\udcff"), parser, []) == 0
    assert raw.getvalue() == "é ".encode() + b"\xff\n"


def test_what_is_the_users_to_mend():
    error = tf.errors.ResourceExhaustedError(
        None, None, "Graph execution error:\n\nOOM when allocating [9,9]"
    )
    for found, says in (
        (error, "OOM when allocating [9,9]"),
        (MemoryError("Unable to allocate 9 GiB"), "Unable to allocate 9 GiB"),
        (MemoryError(), "a MemoryError"),
    ):
        line = arguments.mendable(found, "take less")
        assert line.startswith("Expected work that there is the memory for: ta")
        assert line.endswith(f"Received: {says}")
    assert arguments.mendable(errors.ConfigError("this"), "") == "this"
    assert arguments.mendable(ZeroDivisionError("that"), "") is None


def test_a_command_ends_in_a_line_where_its_user_can_mend_it(capsys):
    def command(_):
        raise error

    parser = arguments.ArgumentParser(prog="build")
    error = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        arguments.run(command, parser, [])
    error = MemoryError("all")
    assert arguments.run(command, parser, []) == 1
    said = capsys.readouterr().err
    assert said.startswith("build: error: Expected work that there is the mem")
    assert said.endswith("Received: all\n") and said.count("\n") == 1


def test_a_warning_is_a_line_that_is_shown_once(capsys):
    def command(args):
        for message in ("row 2 is left out", "row 2 is left out", "row 3, too"):
            errors.warn(message)

    parser = arguments.ArgumentParser(prog="read")
    assert arguments.run(command, parser, []) == 0
    assert capsys.readouterr().err.splitlines() == [
        "read: note: row 2 is left out",
        "read: note: row 3, too",
    ]


def test_keras_computes_by_tensorflow(monkeypatch):
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    arguments.use_tensorflow()
    assert os.environ["KERAS_BACKEND"] == "tensorflow"
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    with pytest.raises(ValueError, match="Received: .* KERAS_BACKEND=jax"):
        arguments.use_tensorflow()
