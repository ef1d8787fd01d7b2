"""What benchmarks share: flags, fair turns, a look at the machine, a report."""

import argparse
import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from electra_tf import configs, files
from electra_tf.command_line import arguments

# ELECTRA-Small's, with the vocabulary of the released uncased models.
SMALL = configs.EncoderConfig(30522, 256, 12, 4, 1024, 128)
# Beyond these a machine is noisy.
_NOISE_LIMITS = {
    "others": (0.05, "other processes took {:.0%} of the machine"),
    "steal": (0.02, "the host took {:.0%} of the machine"),
    "spread": (0.10, "half of the ratios are spread over {:.0%}"),
}

_EPILOG = """
JSON goes to --output or stdout, a table to stderr. What is compared takes turns
(A B B A ...), so that a machine whose speed drifts changes both alike, and
ratios are taken within a round.
"""

# Section and figure -> whether it must be at least or at most, and what.
Targets = Mapping[tuple[str, str], tuple[str, float]]
# What a section measures; "noise" among it is shares of the machine that others
# took, and the relative spread of the ratios.
Figures = dict[str, Any]


class Machine:
    """What else the machine did while something was measured."""

    def __init__(self):
        self._start = self._read()

    @staticmethod
    def _read():
        own = [
            resource.getrusage(who)
            for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        ]
        seconds = sum(u.ru_utime + u.ru_stime for u in own)
        try:
            with open("/proc/stat", encoding="ascii") as f:
                jiffies = [int(x) for x in f.readline().split()[1:]]
        except OSError:  # Not Linux.
            jiffies = [0] * 8
        per_second = os.sysconf("SC_CLK_TCK")
        total = sum(jiffies[:8]) / per_second
        idle = (jiffies[3] + jiffies[4]) / per_second
        return seconds, total, total - idle, jiffies[7] / per_second

    def shares(self) -> dict[str, float]:
        """Shares of all cores' time: other processes', and stolen."""
        own, total, busy, stolen = (
            b - a for a, b in zip(self._start, self._read(), strict=True)
        )
        total = max(total, 1e-9)
        others = max(0.0, busy - stolen - own) / total
        return {"others": others, "steal": stolen / total}

    def noise(self, *ratios: Sequence[float]) -> dict[str, float]:
        """The shares, and the widest relative spread of some ratios."""
        quartiles = map(_quartiles, ratios)
        return self.shares() | {
            "spread": max((c - a) / b for a, b, c in quartiles)
        }


class Contestant:
    """Something that is timed.

    Args:
      run: Takes a number of steps and does them.

    Attributes:
      cpu_seconds: Of a step, one figure for each call.
    """

    def __init__(self, run: Callable[[int], object]):
        self._run = run
        self.cpu_seconds: list[float] = []

    def __call__(self, num_steps: int) -> float:
        """Does some steps; returns their seconds by the clock."""
        start, cpu_start = time.perf_counter(), time.process_time()
        self._run(num_steps)
        cpu_seconds = time.process_time() - cpu_start
        self.cpu_seconds.append(cpu_seconds / num_steps)
        return time.perf_counter() - start


def interleave(
    contestants: Sequence[Callable[[int], float]],
    num_steps: int,
    num_rounds: int,
    between: Callable[[], None] = lambda: None,
) -> list[list[float]]:
    """Seconds per step of each contestant in each round, A B then B A.

    Args:
      contestants: Take a number of steps, return their seconds.
      num_steps: Of each in each round.
      num_rounds: How many rounds.
      between: Called before each round and after the last.

    Returns:
      For each contestant, one figure a round.
    """
    found: list[list[float]] = [[] for _ in contestants]
    for number in range(num_rounds):
        between()
        order = range(len(contestants))
        for index in order if number % 2 == 0 else reversed(order):
            found[index].append(contestants[index](num_steps) / num_steps)
    between()
    return found


def ratios(seconds: Sequence[float], of: Sequence[float]) -> list[float]:
    """How many times those of another contestant, round by round."""
    return [a / b for a, b in zip(seconds, of, strict=True)]


def _quartiles(values: Sequence[float]) -> list[float]:
    if len(values) < 2:
        return [values[0]] * 3
    return statistics.quantiles(values, method="inclusive")


def spread(name: str, values: Sequence[float]) -> Figures:
    """The median of a figure's values, and their quartiles beside it."""
    lower, median, upper = _quartiles(values)
    return {name: median, f"{name}_quartiles": [lower, upper]}


def warnings(noise: dict[str, float]) -> list[str]:
    """What makes the figures less than reliable."""
    return [
        text.format(noise[name])
        for name, (limit, text) in _NOISE_LIMITS.items()
        if noise.get(name, 0.0) > limit
    ]


def judge(result: dict, targets: Targets) -> dict[str, bool]:
    """Which targets are met, of the sections that were measured."""
    return {
        f"{section}.{name}": (
            result[section][name] >= bound
            if relation == ">="
            else result[section][name] <= bound
        )
        for (section, name), (relation, bound) in targets.items()
        if section in result
    }


def table(result: dict, sections: Iterable[str], targets: Targets) -> str:
    """The figures for people."""
    lines = []
    for section in sections:
        for name, value in result.get(section, {}).items():
            if isinstance(value, dict):
                continue
            values = value if isinstance(value, list) else [value]
            text = ", ".join(f"{v:.4g}" for v in values)
            mark = ""
            if (section, name) in targets:
                relation, bound = targets[section, name]
                met = result["targets"][f"{section}.{name}"]
                mark = f"  {relation} {bound:g} {'met' if met else 'MISSED'}"
            lines.append(f"{section:14}{name:36}{text:>20}{mark}")
    return "\n".join(lines)


def make_parser(
    prog: str,
    description: str | None,
    numbers: Mapping[str, tuple[float, str]],
    sections: Iterable[str] = (),
) -> arguments.ArgumentParser:
    """A parser with the flags of all benchmarks.

    Args:
      prog: Name of the benchmark.
      description: What it measures.
      numbers: Flag -> default and what it is; of a whole number, at least 1.
      sections: All there are; empty where no flag chooses among them.
    """
    parser = arguments.ArgumentParser(
        prog=prog, description=description, epilog=_EPILOG
    )
    add = parser.add_argument
    add("--output", default="", help="JSON file")
    if sections:
        add(
            "--sections",
            default=",".join(sections),
            help="what to measure, separated by commas (default: %(default)s)",
        )
    for name, (default, text) in numbers.items():
        add(
            name,
            type=float
            if isinstance(default, float)
            else arguments.positive_int,
            default=default,
            help=f"{text} (default: %(default)s)",
        )
    add("--tiny", action="store_true", help="a model for trying this out")
    return parser


def chosen_sections(text: str, known: Iterable[str]) -> list[str]:
    """The sections that a flag names, separated by commas.

    Raises:
      ValueError: If there is no such section.
    """
    known = list(known)
    chosen = text.split(",")
    if unknown := set(chosen) - set(known):
        raise ValueError(
            f"--sections must be among {', '.join(known)}. "
            f"Received: {', '.join(sorted(unknown))}"
        )
    return chosen


def measure(
    args: argparse.Namespace,
    sections: Mapping[str, Callable[..., Figures]],
    targets: Targets,
    *more: Any,
) -> None:
    """Measures sections, one after another, and reports what they found.

    Args:
      args: The flags, which every section takes.
      sections: Name -> what measures it.
      targets: What the figures should be.
      *more: What every section takes besides.
    """
    result = {name: section(args, *more) for name, section in sections.items()}
    noise: dict[str, float] = {}
    for figures in result.values():
        for kind, share in figures.get("noise", {}).items():
            noise[kind] = max(noise.get(kind, 0.0), share)
    report(args, result, noise, sections, targets)


def report(
    args: argparse.Namespace,
    result: dict[str, Any],
    noise: dict[str, float],
    sections: Iterable[str],
    targets: Targets,
) -> None:
    """Judges figures and writes them: JSON, and a table to stderr.

    Args:
      args: Flags; the JSON goes to `output`, if empty to stdout.
      result: Section -> figures.
      noise: See `warnings`.
      sections: Those of the table, in order.
      targets: What the figures should be.
    """
    result = {"flags": vars(args), "cpus": os.cpu_count()} | result
    result["warnings"] = warnings(noise)
    result["targets"] = judge(result, targets)
    text = json.dumps(result, indent=1) + "\n"
    if args.output:
        files.write_atomically(args.output, text)
    else:
        print(text, end="")
    print(table(result, sections, targets), file=sys.stderr)
    for warning in result["warnings"]:
        print(f"warning: noisy machine: {warning}", file=sys.stderr)
