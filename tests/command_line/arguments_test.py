"""Tests of arguments.py: types of flags, and what is said."""

import io
import sys

import pytest
import tensorflow as tf

from electra_tf import errors
from electra_tf.command_line import arguments, progress


@pytest.mark.parametrize(
    ("argv", "value"),
    [
        ([], None),
        (["--has_header"], True),
        (["--has-header=False"], False),
        (["--has_header", "false"], False),
        (["--no-has-header"], False),
        (["--nohas_header"], False),
    ],
)
def test_a_switch_takes_a_value_or_none(argv, value):
    parser = arguments.ArgumentParser(prog="build")
    parser.add_values(bool, has_header="Of a file.")
    assert parser.parse_args(argv).has_header is value


def test_a_home_is_found_behind_an_equals_sign(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    parser = arguments.ArgumentParser(prog="build")
    parser.add_values(str, model_dir="Of a run.")
    assert parser.parse_args(["--model_dir=~/m"]).model_dir == "/home/me/m"


@pytest.mark.parametrize(
    ("flag", "line"),
    [
        ("--parts=0", "argument --parts: expected a whole number of at least"),
        ("--has_header=no", "argument --has-header: expected true or false"),
        ("--kind=c", "argument --kind: invalid choice: 'c' (choose from"),
        ("--part=2", "unrecognized arguments: --part=2. Did you mean --parts?"),
        ("more", "unrecognized arguments: more (see --help)"),
    ],
)
def test_a_wrong_flag_is_one_line(capsys, flag, line):
    parser = arguments.ArgumentParser(prog="build")
    parser.add_argument("--parts", type=arguments.positive_int)
    parser.add_values(bool, has_header="Of a file.")
    parser.add_values(("a", "b"), kind="Of both.")
    with pytest.raises(SystemExit) as left:
        parser.parse_args([flag])
    said = capsys.readouterr().err
    assert left.value.code == 2 and said.count("\n") == 1
    assert said.startswith(f"build: error: {line}")


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


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (errors.ConfigError("this\nand that"), "this and that"),
        (OSError("no room"), "no room"),
        (MemoryError(), "Expected work that there is the memory for"),
        (
            tf.errors.ResourceExhaustedError(None, None, "OOM of [9,9]"),
            "Expected work that there is the memory for",
        ),
        (
            ModuleNotFoundError(name="waitress"),
            "waitress is not installed: pip install 'electra_tf[serving]'",
        ),
    ],
)
def test_a_command_ends_in_a_line_where_its_user_can_mend_it(
    capsys, error, line
):
    def command(_):
        raise error

    parser = arguments.ArgumentParser(prog="build")
    assert arguments.run(command, parser, []) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"build: error: {line}") and said.count("\n") == 1


def test_a_mistake_of_the_code_is_a_traceback():
    parser = arguments.ArgumentParser(prog="build")
    with pytest.raises(ZeroDivisionError):
        arguments.run(lambda _: 1 // 0, parser, [])


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


def test_warnings_and_errors_name_flags(capsys):
    def work():
        errors.warn("RunConfig.seed is 1")
        raise ValueError("RunConfig.seed is 2")

    def in_flags(line):
        return line.replace("RunConfig.seed", "--seed")

    assert arguments.ended("tune", work, in_flags=in_flags) == 1
    assert capsys.readouterr().err.splitlines() == [
        "tune: note: --seed is 1",
        "tune: error: --seed is 2",
    ]
