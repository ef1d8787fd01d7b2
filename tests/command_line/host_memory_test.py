import pytest

from electra_tf.command_line import host_memory
from tests import helpers

# Page faults of ten arrays of 64 MB, one after another.
FAULTS = """
import resource, sys
import numpy as np
from electra_tf.command_line import host_memory

if sys.argv[1] == "kept":
    host_memory.keep_freed()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    np.ones(64 << 20, np.uint8)
after = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
print(after - before)
"""


def faults(how):
    # Pages of 2 MB are few, and where they begin is chance.
    env = helpers.environment(NUMPY_MADVISE_HUGEPAGE="0")
    return int(helpers.execute("-c", FAULTS, how, env=env).stdout)


def test_what_is_freed_is_taken_again():
    assert faults("kept") < faults("plain") / 4


@pytest.mark.parametrize("name", ["MALLOC_ARENA_MAX", "GLIBC_TUNABLES"])
def test_settings_of_the_user_stay(monkeypatch, name):
    monkeypatch.setattr(host_memory.ctypes, "CDLL", lambda _: pytest.fail())
    monkeypatch.setenv(name, "")
    host_memory.keep_freed()


def test_other_c_libraries_have_no_such_settings(monkeypatch):
    for name in [n for n in host_memory.os.environ if n.startswith("MALLOC_")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)
    monkeypatch.setattr(host_memory.ctypes, "CDLL", lambda _: object())
    host_memory.keep_freed()
