"""Runs numpy_functions_proof.py in a process of its own.

Threads of datasets that other tests have left in theirs may hold functions for
longer than anybody waits.
"""

import pytest

from tests import helpers


@pytest.mark.dear
def test_functions_live_as_long_as_it_takes_and_no_longer():
    done = helpers.execute(
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore"),
        "tests/training/numpy_functions_proof.py",
    )
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
