"""What `errors.warn` says in a test."""

import contextlib
import warnings

from electra_tf import errors


@contextlib.contextmanager
def heard():
    """Lists the lines that are said inside, in order, each of them once."""
    lines: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", errors.Notice)
        yield lines
    said = [str(w.message) for w in caught if w.category is errors.Notice]
    lines += dict.fromkeys(said)


def of(call, *args, **kwargs):
    """The lines that a call says."""
    with heard() as lines:
        call(*args, **kwargs)
    return lines
