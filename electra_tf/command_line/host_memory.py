"""Memory that steps free and take again, on the host."""

import ctypes
import os

# Settings of glibc (malloc.h), and what they become here: nothing that is freed
# goes back to the system, and none of it is a mapping of its own.
_SETTINGS = {
    -1: -1,  # M_TRIM_THRESHOLD: never.
    -2: 64 << 20,  # M_TOP_PAD, in bytes.
    -4: 0,  # M_MMAP_MAX.
}
# Begin what a user says of them.
_GIVEN = ("MALLOC_", "GLIBC_TUNABLES")


def keep_freed() -> None:
    """Has this process keep what it frees, for its next step.

    By itself glibc gives tensors of more than 32 MB back to the system at once.
    The next step has to map them again, and the kernel to fill them with
    zeros, page by page: docs/explain/performance.md has what that costs.

    Nothing changes where the environment has settings of the user's, or the C
    library is another.
    """
    if any(name.startswith(_GIVEN) for name in os.environ):
        return
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):
        for name, value in _SETTINGS.items():
            mallopt(name, value)
