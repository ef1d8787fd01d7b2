"""What the parity modules found, as lines at the end of a test run."""

import collections
import dataclasses
from collections.abc import Iterable, Iterator

from tests.parity.cases import Outcome
from tests.parity.check import Check


@dataclasses.dataclass
class Results:
    """What was found so far.

    Attributes:
      golden_dir: What was compared with.
      outcomes: Module -> what its cases said.
      not_compared: Pattern -> why what it matches is not compared, and how
        much that is.
    """

    golden_dir: str = ""
    outcomes: dict[str, Outcome] = dataclasses.field(default_factory=dict)
    not_compared: dict[str, tuple[str, int]] = dataclasses.field(
        default_factory=dict
    )


RESULTS = Results()


def failures(outcome: Outcome) -> list[str]:
    """One line for each case that stopped, and each check that differs."""
    return [
        f"{stop.module}: {stop.case} stopped: {stop.error} ({stop.where})"
        for stop in outcome.stops
    ] + differing(outcome.checks)


def differing(checks: Iterable[Check]) -> list[str]:
    """One line for each check that counts and did not pass."""
    return [
        _line(check)
        for check in checks
        if not check.passed and not check.information_only
    ]


def _line(check: Check) -> str:
    return (
        f"{check.case}: {check.compared}: error {check.error:.3g}, "
        f"tolerance {check.tolerance:.3g}"
    )


def _badness(check: Check) -> tuple:
    """Sorts failures last, then by the share of the tolerance used up."""
    return not check.passed, check.error / (check.tolerance or 1.0)


def lines(results: Results) -> Iterator[str]:
    """Of each case its worst check; what nobody compares; the sum."""
    outcomes = results.outcomes.values()
    checks = [check for outcome in outcomes for check in outcome.checks]
    stops = [stop for outcome in outcomes for stop in outcome.stops]
    if not checks and not stops:
        return
    yield f"golden numbers: {results.golden_dir}; the worst check of each case:"
    by_case = collections.defaultdict(list)
    for check in checks:
        by_case[check.case, check.information_only].append(check)
    for (_, information_only), group in by_case.items():
        remark = ", for information only" if information_only else ""
        worst = max(group, key=_badness)
        yield f"{_line(worst)} (worst of {len(group)}{remark})"
    for pattern, (reason, count) in results.not_compared.items():
        yield f"not compared: {pattern} ({count}): {reason}"
    num_counting = sum(not check.information_only for check in checks)
    yield (
        f"{num_counting} checks, {len(differing(checks))} differ; "
        f"{len(stops)} cases stopped"
    )
