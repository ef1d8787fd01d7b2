"""Contestants that take turns, and a table of what they did.

A contestant is a process (worker.py) that does steps when it is told to. In a
round each has its turn, A B C and then C B A, so that a machine whose speed
drifts changes all alike; ratios are taken within a round.
"""

import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from electra_tf import configs

ROOT = pathlib.Path(__file__).parents[2]
_WORKER = pathlib.Path(__file__).with_name("worker.py")
_START = time.perf_counter()
# What an answer always has; the rest becomes columns of its own.
_MEASURED = ("seconds", "cpu_seconds", "peak_mb", "amount")

# What a worker answers: see worker.py. `amount` is how much it did.
Answer = dict[str, float]
# What a worker's function returns: does steps, may return figures.
Run = Callable[[int], dict[str, float]]


class Contestant(NamedTuple):
    """Who is timed.

    Attributes:
      function: What worker.py calls, as "module.function".
      settings: What it takes beside the flags.
      packages: That --interop_python must have, which then runs it.
    """

    function: str
    settings: dict[str, Any] = {}
    packages: Sequence[str] = ()


class Benchmark(NamedTuple):
    """What `bench.py NAME` measures.

    Attributes:
      summary: What that is, for --help.
      unit: What steps are counted in, such as "examples".
      contestants: By their names.
      chosen: Those that take part by default.
      against: Those with which the others are compared.
      prepare: Takes the flags, and among them a `folder` and the `names` of
        those that take part. Writes files; returns settings for all of them.
      flags: Name -> default and help.
      per_step: Flag that has the units of a step; without one it is 1, or what
        workers answer as `amount`.
      is_varied: Whether rounds differ in their work, by chance: ratios are of
        the sums of all rounds rather than medians of the rounds'.
    """

    summary: str
    unit: str
    contestants: Mapping[str, Contestant]
    chosen: Sequence[str]
    against: Sequence[str]
    prepare: Callable[[Any], dict[str, Any]]
    flags: Mapping[str, tuple[Any, str]]
    per_step: str = ""
    is_varied: bool = False


class Process:
    """The process of a `Contestant`."""

    def __init__(
        self,
        function: str,
        settings: Mapping[str, Any],
        python: str = sys.executable,
    ):
        self._function = function
        self._process = subprocess.Popen(
            [python, str(_WORKER), function, json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )

    def ask(self, num_steps: int) -> None:
        """Has it do some steps."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # `answer` tells.
            print(num_steps, file=self._process.stdin, flush=True)

    def answer(self) -> Answer:
        """Waits for what it was asked for.

        Raises:
          ValueError: If the process has ended.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ValueError(
                f"The process of {self._function} ended: see its message above."
                " Without one it may have been killed for want of memory."
            )
        return json.loads(line)

    def __call__(self, num_steps: int) -> Answer:
        self.ask(num_steps)
        return self.answer()

    def close(self) -> None:
        """Ends its input, and with it the process."""
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate()


def encoder_config(is_tiny: bool) -> configs.EncoderConfig:
    """ELECTRA-Small's, or one for trying a benchmark out."""
    if is_tiny:
        return configs.EncoderConfig(300, 32, 2, 2, 64, 32)
    return configs.EncoderConfig(30522, 256, 12, 4, 1024, 128)


def say(what: str) -> None:
    """A line of progress, with the seconds since the start."""
    seconds = time.perf_counter() - _START
    print(f"[{seconds:5.0f} s] {what}", file=sys.stderr, flush=True)


def electra_tf(*command: str) -> None:
    """Runs a command of electra-tf, what it prints on stderr.

    Raises:
      ValueError: If it fails.
    """
    say(f"electra-tf {command[0]}")
    argv = [sys.executable, "-m", "electra_tf", *command]
    if subprocess.run(argv, cwd=ROOT, stdout=sys.stderr).returncode:
        raise ValueError(f"electra-tf {command[0]} failed: see above")


def missing_packages(python: str, packages: Sequence[str]) -> list[str]:
    """The packages that an interpreter does not find."""
    if not packages:
        return []
    code = (
        "import sys; from importlib.util import find_spec; "
        "print(*(name for name in sys.argv[1:] if not find_spec(name)))"
    )
    argv = [python, "-c", code, *packages]
    try:
        return subprocess.check_output(argv, text=True).split()
    except OSError:
        return list(packages)


def take_turns(
    contestants: Mapping[str, Callable[[int], Answer]],
    num_steps: int,
    num_rounds: int,
) -> dict[str, list[Answer]]:
    """What each contestant answered in each round, A B then B A."""
    rounds: dict[str, list[Answer]] = {name: [] for name in contestants}
    for number in range(num_rounds):
        say(f"round {number + 1} of {num_rounds}")
        order = list(contestants)
        for name in order if number % 2 == 0 else reversed(order):
            rounds[name].append(contestants[name](num_steps))
    return rounds


def table(
    rounds: Mapping[str, Sequence[Answer]],
    against: Iterable[str],
    unit: str,
    is_varied: bool = False,
) -> str:
    """What the rounds amount to, as a Markdown table.

    Of each contestant: units a second, the CPU time of a unit, the memory and
    the medians of other figures; and how many times as fast it is as each that
    it is compared with, by the clock and by CPU seconds. In brackets are
    quartiles of the rounds. For `is_varied` see `Benchmark`.
    """
    mean = statistics.fmean if is_varied else statistics.median

    def each(name: str, key: str) -> list[float]:
        return [answer[key] / answer["amount"] for answer in rounds[name]]

    others = [name for name in rounds if name in against]
    keys = dict.fromkeys(k for answers in rounds.values() for k in answers[0])
    more = [key for key in keys if key not in _MEASURED]
    lines = [["", f"{unit}/s", "CPU ms each", "peak MB", *more]]
    for other in others:
        lines[0] += [f"times {other}", "by CPU"]
    for name, answers in rounds.items():
        seconds, cpu = each(name, "seconds"), mean(each(name, "cpu_seconds"))
        line = [
            name,
            _spread(1 / mean(seconds), [1 / s for s in seconds], _number),
            _number(1e3 * cpu),
            _number(max(answer["peak_mb"] for answer in answers)),
            *(
                _number(statistics.median(answer[key] for answer in answers))
                if key in answers[0]
                else ""
                for key in more
            ),
        ]
        for other in others:
            theirs = each(other, "seconds")
            ratios = [b / a for a, b in zip(seconds, theirs, strict=True)]
            times = statistics.median(ratios)
            if is_varied:
                times = mean(theirs) / mean(seconds)
            cells = [
                _spread(times, ratios, "{:.2f}".format),
                f"{mean(each(other, 'cpu_seconds')) / cpu:.2f}",
            ]
            line += cells if other != name else ["", ""]
        lines.append(line)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        f"| {' | '.join(map(str.ljust, line, widths))} |" for line in lines
    )


def _spread(
    middle: float, values: list[float], shown: Callable[[float], str]
) -> str:
    """A middle of values, and in brackets their quartiles."""
    if len(values) < 2:
        values = values * 2
    lower, _, upper = statistics.quantiles(values, method="inclusive")
    return f"{shown(middle)} ({shown(lower)} to {shown(upper)})"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"
