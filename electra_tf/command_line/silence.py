"""What C++ says to people who have not asked."""

import contextlib
import os
import sys
from collections.abc import Iterator

_STDERR = 2


@contextlib.contextmanager
def stderr() -> Iterator[None]:
    """Has nobody hear what the process writes to its standard error.

    Of all threads, below Python, too.
    """
    sys.stderr.flush()
    kept = os.dup(_STDERR)
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), _STDERR)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, _STDERR)
        os.close(kept)
