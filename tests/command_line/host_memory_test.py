import pytest

from electra_tf.command_line import host_memory
from tests import helpers

# Page faults of ten arrays of 64 MB, one after another.
FAULTS = """
import resource, sys
import numpy as np
from electra_tf.command_line import host_memory

is_kept = sys.argv[1] == "kept" and host_memory.keep_freed()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    np.ones(64 << 20, np.uint8)
after = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
print(is_kept, after - before)
"""


def faults(how):
    is_kept, number = helpers.execute("-c", FAULTS, how).stdout.split()
    return is_kept == "True", int(number)


def test_what_is_freed_is_taken_again():
    _, plain = faults("plain")
    is_kept, found = faults("kept")
    assert is_kept
    assert found < plain / 4


@pytest.mark.parametrize("name", ["MALLOC_ARENA_MAX", "GLIBC_TUNABLES"])
def test_settings_of_the_user_stay(monkeypatch, name):
    monkeypatch.setattr(host_memory.ctypes, "CDLL", lambda _: pytest.fail())
    monkeypatch.setenv(name, "")
    assert not host_memory.keep_freed()


def test_other_c_libraries_have_no_such_settings(monkeypatch):
    for name in [n for n in host_memory.os.environ if n.startswith("MALLOC_")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    monkeypatch.setattr(host_memory.ctypes, "CDLL", lambda _: object())
    assert not host_memory.keep_freed()
