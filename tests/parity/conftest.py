"""Prints what the parity tests compared, whether they pass or not."""

import pathlib
import sys

# The modules import each other as tests.parity.<name>, and tools.<name>.
_ROOT = str(pathlib.Path(__file__).parents[2])
if _ROOT not in sys.path:
    sys.path.insert(0, _ROOT)

from tests.parity import report  # noqa: E402


def pytest_terminal_summary(terminalreporter):
    found = list(report.lines(report.RESULTS))
    if found:
        terminalreporter.section("parity with the original")
        for line in found:
            terminalreporter.write_line(line)
