"""Runs golden cases, each by itself: one that stops takes no other with it."""

import dataclasses
import importlib
import pathlib
import traceback
from collections.abc import Callable, Iterable

from tests.parity.check import Check

_ROOT = pathlib.Path(__file__).parents[2]


@dataclasses.dataclass(frozen=True)
class Case:
    """What is compared by itself.

    Attributes:
      name: The golden case, e.g. "pretrain/a_electra".
      compare: Yields its checks, and cases where it has parts that are
        compared by themselves.
    """

    name: str
    compare: "Callable[[], Iterable[Check | Case]]"


@dataclasses.dataclass(frozen=True)
class Stop:
    """An exception that ended a case.

    Attributes:
      module: The parity module, e.g. "pretraining_parity".
      case: The name of the case.
      error: The exception's type and message, in one line.
      where: File, line and function of this project that it came from.
      traceback: The whole of it, for a reader who has to find the cause.
    """

    module: str
    case: str
    error: str
    where: str
    traceback: str


@dataclasses.dataclass
class Outcome:
    """What the cases of a module said.

    Attributes:
      checks: All checks made; of a case that stopped, those made before.
      stops: One for each case that an exception ended.
    """

    checks: list[Check] = dataclasses.field(default_factory=list)
    stops: list[Stop] = dataclasses.field(default_factory=list)


def run(module: str, golden_dir: pathlib.Path) -> Outcome:
    """Runs the cases that a module finds in a golden folder.

    Args:
      module: Name of a module of this folder with a function `cases`.
      golden_dir: Handed to it.
    """

    def found() -> Iterable[Case]:
        return importlib.import_module(f"tests.parity.{module}").cases(
            golden_dir
        )

    return run_case(module, Case("its list of cases", found))


def run_case(module: str, case: Case) -> Outcome:
    """Runs a case and its parts.

    Args:
      module: Named where a case stops.
      case: What to run.
    """
    outcome = Outcome()
    _run(module, case, outcome)
    return outcome


def _run(module: str, case: Case, outcome: Outcome) -> None:
    try:
        for found in case.compare():
            if isinstance(found, Case):
                _run(module, found, outcome)
            else:
                outcome.checks.append(found)
    except Exception as error:  # noqa: BLE001  (whatever it is, go on)
        outcome.stops.append(
            Stop(
                module,
                case.name,
                " ".join(f"{type(error).__name__}: {error}".split()),
                _where(error),
                "".join(traceback.format_exception(error)),
            )
        )


def _where(error: Exception) -> str:
    """The innermost line of this project, not of a library below it."""
    *_, frame = (
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if pathlib.Path(frame.filename).is_relative_to(_ROOT)
        and "site-packages" not in frame.filename
    )
    file = pathlib.Path(frame.filename).relative_to(_ROOT).as_posix()
    return f"{file}:{frame.lineno} in {frame.name}"
