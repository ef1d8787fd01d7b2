"""What the benchmarks share: fair turns, a look at the machine, a report."""

import json
import os
import resource
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence

from electra_tf import files

# Beyond these a machine is noisy: time of other processes, stolen time,
# relative spread of the ratios.
_NOISE_LIMITS = {"others": 0.05, "steal": 0.02, "spread": 0.10}

# Section and figure -> whether it must be at least or at most, and what.
Targets = Mapping[tuple[str, str], tuple[str, float]]


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


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median and quartiles."""
    if len(values) < 2:
        return dict.fromkeys(("median", "lower", "upper"), values[0])
    lower, median, upper = statistics.quantiles(values, method="inclusive")
    return {"median": median, "lower": lower, "upper": upper}


def warnings(noise: dict[str, float]) -> list[str]:
    """What makes the figures less than reliable."""
    texts = {
        "others": "other processes took {:.0%} of the machine",
        "steal": "the host took {:.0%} of the machine",
        "spread": "half of the ratios are spread over {:.0%}",
    }
    return [
        texts[name].format(noise[name])
        for name, limit in _NOISE_LIMITS.items()
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


def table(result: dict, sections: Sequence[str], targets: Targets) -> str:
    """The figures for people."""
    lines = []
    for section in sections:
        for name, value in result.get(section, {}).items():
            if isinstance(value, dict):
                continue
            values = value if isinstance(value, list) else [value]
            text = ", ".join(f"{v:.4g}" for v in values)
            target = targets.get((section, name))
            mark = ""
            if target:
                met = result["targets"][f"{section}.{name}"]
                mark = f"  {target[0]} {target[1]:g} " + (
                    "met" if met else "MISSED"
                )
            lines.append(f"{section:14}{name:36}{text:>20}{mark}")
    return "\n".join(lines)


def chosen_sections(text: str, known: Iterable[str]) -> list[str]:
    """The sections that a flag names, separated by commas.

    Raises:
      ValueError: If there is no such section.
    """
    known = list(known)
    chosen = text.split(",")
    unknown = set(chosen) - set(known)
    if unknown:
        raise ValueError(
            f"--sections must be among {', '.join(known)}. "
            f"Received: {', '.join(sorted(unknown))}"
        )
    return chosen


def report(
    result: dict,
    noise: dict[str, float],
    sections: Sequence[str],
    targets: Targets,
    output: str,
) -> None:
    """Judges figures and writes them: JSON, and a table to stderr.

    Args:
      result: Section -> figures, and what else goes into the JSON.
      noise: See `warnings`.
      sections: Those of the table, in order.
      targets: What the figures should be.
      output: The JSON file; empty for stdout.
    """
    result["warnings"] = warnings(noise)
    result["targets"] = judge(result, targets)
    text = json.dumps(result, indent=1) + "\n"
    if output:
        files.write_atomically(output, text)
    else:
        print(text, end="")
    print(table(result, sections, targets), file=sys.stderr)
    for warning in result["warnings"]:
        print(f"warning: noisy machine: {warning}", file=sys.stderr)
