"""Who hears a signal, for a while."""

import contextlib
import signal
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def handled(handler, *numbers: int) -> Iterator[None]:
    """Has signals handled; in the main thread alone, where they come.

    Args:
      handler: As `signal.signal` takes it.
      *numbers: Of the signals.
    """
    is_main = threading.current_thread() is threading.main_thread()
    before = {n: signal.signal(n, handler) for n in numbers if is_main}
    try:
        yield
    finally:
        for number, kept in before.items():
            signal.signal(number, kept)
