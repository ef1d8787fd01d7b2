"""Errors that end a command in one line, and warnings that it goes on with."""

import difflib
import re
import sys
import types
import warnings
from collections.abc import Iterable

# What lines begin with that TensorFlow puts before the error of a graph.
_PLACES = (
    "Graph execution error:",
    "Detected at ",
    "  File ",
    "    ",
    "<stack traces unavailable>",
)


class CheckpointError(ValueError):
    """A checkpoint that cannot be read or written; the message is for users."""


class ConfigError(ValueError):
    """A value that a user chose does not fit; the message is for the user."""


class DataError(ValueError):
    """The data do not fit the run; the message is for the user."""


class TrainingError(RuntimeError):
    """A run that cannot go on; the message is for the user."""


class Stopped(RuntimeError):
    """The run was told to stop, and has saved its state."""


class Notice(UserWarning):
    """What a user may want to change; a command shows it as a line."""


# Packages between the user's line and a warning.
_PACKAGES = ("electra_tf", "keras", "contextlib")


def warn(message: str) -> None:
    """Warns at the line that called this package, however deep inside it is.

    Args:
      message: What there is to know, in a line.
    """
    level = 1
    frame: types.FrameType | None = sys._getframe()
    while (
        frame and frame.f_globals.get("__name__", "").split(".")[0] in _PACKAGES
    ):
        frame = frame.f_back
        level += 1
    warnings.warn(message, Notice, stacklevel=level)


def data_error_message(error: Exception) -> str:
    """The line of a DataError that TensorFlow wrapped into its own error."""
    before, mark, after = str(error).partition("DataError: ")
    if not mark:
        return first_line(error)
    line = after.split("\n")[0]
    # What a graph asserts is in brackets.
    return line.split("]")[0] if before.endswith("[") else line


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """ " Did you mean ...?" where a known name is like the one received."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" Did you mean {close[0]}?" if close else ""


def first_line(error: Exception) -> str:
    """Of what an error says, without TensorFlow's places in the graph."""
    message = str(getattr(error, "message", error))
    text = re.split(r"\s*\[\[{{|\s*\[Op:", message)[0]
    if cause := re.search(r"root error.*\n\s*\(0\) \w+: +(.+)", text):
        text = cause[1]
    for line in text.split("\n"):
        if line.strip() and not line.startswith(_PLACES):
            return re.sub("{{.*?}} ", "", line).strip()
    return message.split("\n")[0]
