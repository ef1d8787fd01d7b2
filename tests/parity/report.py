"""What the parity modules found, as a table at the end of a test run."""

import collections
import dataclasses
import textwrap
from collections.abc import Iterable, Iterator

from tests.parity.cases import Outcome, Stop
from tests.parity.check import Check

# What fits into a table of a message.
_MESSAGE_WIDTH = 200


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
        f"{check.case}: {check.compared}: error {check.error:.3g}, "
        f"tolerance {check.tolerance:.3g}"
        for check in checks
        if not check.passed and not check.information_only
    ]


def _badness(check: Check) -> tuple:
    """Sorts failures last, then by the share of the tolerance used up."""
    if check.error != check.error:
        return True, float("inf"), check.error
    share = check.error / check.tolerance if check.tolerance else check.error
    return not check.passed, share, check.error


def _rows(checks: Iterable[Check]) -> Iterator[tuple[str, ...]]:
    """A row for each case and kind of comparison, with its worst check."""
    groups = collections.defaultdict(list)
    for check in checks:
        kind, _, _ = check.compared.partition(": ")
        groups[check.case, kind].append(check)
    for (case, kind), group in groups.items():
        worst = max(group, key=_badness)
        _, _, name = worst.compared.partition(": ")
        ok = all(check.passed for check in group)
        yield (
            case,
            kind,
            str(len(group)),
            f"{worst.error:.2g}",
            f"{worst.tolerance:.2g}",
            "ok" if ok else "DIFFERS",
            # Among checks without any error, no one is the worst.
            name if worst.error or len(group) == 1 else "",
        )


def _stop_row(stop: Stop) -> tuple[str, ...]:
    message = textwrap.shorten(stop.error, _MESSAGE_WIDTH)
    where = f"{message} ({stop.where})"
    return stop.case, stop.module, "", "", "", "STOPPED", where


def table(checks: Iterable[Check], stops: Iterable[Stop] = ()) -> list[str]:
    """The rows as aligned lines, the header first and stopped cases last."""
    header = (
        "case",
        "compared",
        "checks",
        "error",
        "tolerance",
        "ok",
        "largest error in",
    )
    rows = [header, *_rows(checks), *map(_stop_row, stops)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def lines(results: Results) -> Iterator[str]:
    """The whole report."""
    outcomes = results.outcomes.values()
    checks = [check for outcome in outcomes for check in outcome.checks]
    stops = [stop for outcome in outcomes for stop in outcome.stops]
    counting = [check for check in checks if not check.information_only]
    if not checks and not stops:
        return
    yield f"golden numbers: {results.golden_dir}"
    yield "errors and tolerances of the row's worst check; see tests/parity"
    yield from table(counting, stops)
    informative = [check for check in checks if check.information_only]
    if informative:
        yield ""
        yield "depends on the Unicode version, for information only:"
        yield from table(informative)
    if results.not_compared:
        yield ""
        yield "not compared:"
        for pattern, (reason, count) in results.not_compared.items():
            yield f"{pattern} ({count}): {reason}"
    yield ""
    yield (
        f"{len(counting)} checks, {len(differing(checks))} differ; "
        f"{len(stops)} cases stopped"
    )
