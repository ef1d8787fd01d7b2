"""Figures in JSON: refused with the reason, and written whole."""

import contextlib
import os
import pathlib
from collections.abc import Iterator

from electra_tf import files

# What reading a field that is not there, or of another type, ends in.
_OF_LAYOUT: tuple[type[Exception], ...] = (
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
)


def write(path: str | os.PathLike, figures: dict) -> None:
    """Writes figures, and makes the folder that they are in.

    Raises:
      ValueError: If they cannot be written.
    """
    folder = pathlib.Path(path).parent
    with files.writing(str(folder)):
        folder.mkdir(parents=True, exist_ok=True)
    files.write_json(str(path), figures)


@contextlib.contextmanager
def expecting(
    what: str, path: str | os.PathLike, *more: type[Exception]
) -> Iterator[None]:
    """Names the file whose fields are read here, if one of them is not there.

    Args:
      what: It should hold, for the error message.
      path: Of the file.
      *more: Errors that mean the same here, as of a text that is no number.

    Raises:
      ValueError: If it has another layout.
    """
    of_layout = _OF_LAYOUT + more
    try:
        yield
    except of_layout as error:
        raise ValueError(
            f"Expected {what}. Received: {path}, which has another layout "
            f"({error!r})."
        ) from error
