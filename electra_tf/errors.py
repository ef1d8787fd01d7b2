"""Errors that end a command in one line."""

import difflib
import re
from collections.abc import Iterable


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


def data_error_message(error: Exception) -> str:
    """The line of a DataError that TensorFlow wrapped into its own error."""
    before, found, after = str(error).partition("DataError: ")
    if not found:
        return first_line(error)
    line = after.split("\n")[0]
    # What a graph asserts is in brackets.
    return line.split("]")[0] if before.endswith("[") else line


def graph_error_message(error: Exception) -> str:
    """What TensorFlow says of an error in a graph, without the places."""
    text = str(error)
    of_several = re.search(r"\(0\) \w+: +(.+)", text)
    message = of_several[1] if of_several else text.rpartition("\n\n")[2]
    return first_line(ValueError(message)).strip()


def cause_in_graph(message: str) -> str:
    """What an operation says of an error, without where in the graph it is.

    Args:
      message: Of TensorFlow's error.
    """
    text = message.rpartition("<stack traces unavailable>")[2]
    text = re.split(r"\s*\[\[{{|\s*\[Op:", text)[0]
    return re.sub("{{.*?}} ", "", text).strip() or message


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """ " Did you mean ...?" where a known name is like the one received."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" Did you mean {close[0]}?" if close else ""


def first_line(error: Exception) -> str:
    """Of TensorFlow's message, without names of nodes and operations."""
    return re.sub(r"{{.*?}} | \[Op:.*", "", str(error)).split("\n")[0]
