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

import transformers_worker

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
JSON goes to --output, with a page of Markdown beside it, or to stdout; that
page and progress to stderr. What is compared takes turns (A B B A ...), so that
a machine whose speed drifts changes both alike, and ratios are taken within a
round.
"""

_START = time.perf_counter()

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

    def shares(self, workers: float = 0.0) -> dict[str, float]:
        """Shares of all cores' time: other processes', and stolen.

        Args:
          workers: CPU seconds of the benchmark's processes that still run.
        """
        own, total, busy, stolen = (
            b - a for a, b in zip(self._start, self._read(), strict=True)
        )
        total = max(total, 1e-9)
        others = max(0.0, busy - stolen - own - workers) / total
        return {"others": others, "steal": stolen / total}

    def noise(
        self, *ratios: Sequence[float], workers: float = 0.0
    ) -> dict[str, float]:
        """The shares, and the widest relative spread of some ratios."""
        quartiles = map(_quartiles, ratios)
        return self.shares(workers) | {
            "spread": max((c - a) / b for a, b, c in quartiles)
        }


class Contestant:
    """Something that is timed.

    Args:
      run: Takes a number of steps and does them.

    Attributes:
      cpu_seconds: Of a step, one figure for each call.
      losses: Of the last step of each call, where `run` returns one.
    """

    is_process = False

    def __init__(self, run: Callable[[int], object]):
        self._run = run
        self.cpu_seconds: list[float] = []
        self.losses: list[float] = []

    def __call__(self, num_steps: int) -> float:
        """Does some steps; returns their seconds by the clock."""
        start, cpu_start = time.perf_counter(), time.process_time()
        found = self._run(num_steps)
        cpu_seconds = time.process_time() - cpu_start
        seconds = time.perf_counter() - start
        self.cpu_seconds.append(cpu_seconds / num_steps)
        if isinstance(found, Mapping):
            # In fine-tuning the mean over rows; the total is their sum.
            loss = found.get("loss", found["total_loss"])
            self.losses.append(float(loss))
        return seconds


def say(what: str) -> None:
    """A line of progress, with the seconds since the start."""
    seconds = time.perf_counter() - _START
    print(f"[{seconds:5.0f} s] {what}", file=sys.stderr, flush=True)


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
        say(f"round {number + 1} of {num_rounds}")
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


def compare(
    contestants: Mapping[str, Any],
    per_step: int,
    num_steps: int,
    num_rounds: int,
    between: Callable[[], None] = lambda: None,
    mean: Callable[[Sequence[float]], float] = statistics.median,
) -> Figures:
    """Contestants in turns, and how many times as fast ours are.

    Args:
      contestants: By their names; those of ours begin with "ours". Each is a
        `Contestant` or looks like one.
      per_step: Examples of a step.
      num_steps: See `interleave`.
      num_rounds: See `interleave`.
      between: See `interleave`.
      mean: Of the seconds of all rounds; `statistics.fmean` where rounds differ
        in their work.

    Returns:
      "contestants", name -> its figures, and of each of ours against each other
      `ours_times_other`: of the clock, with the quartiles of the rounds, and of
      CPU seconds (`..._cpu`), which other work on the machine hardly changes.
    """
    machine = Machine()
    found = interleave(
        list(contestants.values()), num_steps, num_rounds, between
    )
    seconds = dict(zip(contestants, found, strict=True))
    cpu = {
        name: contestant.cpu_seconds[-num_rounds:]
        for name, contestant in contestants.items()
    }
    by_name: dict[str, Figures] = {}
    for name, contestant in contestants.items():
        rates = [per_step / s for s in seconds[name]]
        by_name[name] = spread("examples_per_second", rates) | {
            "examples_per_second": per_step / mean(seconds[name]),
            "cpu_seconds_per_step": mean(cpu[name]),
        }
        if losses := contestant.losses:
            by_name[name] |= {"first_loss": losses[0], "last_loss": losses[-1]}
    figures: Figures = {"contestants": by_name}
    all_ratios = []
    for ours, other in _pairs(contestants):
        by_round = ratios(seconds[other], seconds[ours])
        all_ratios.append(by_round)
        name = f"{ours}_times_{other}"
        figures |= spread(name, by_round)
        if mean is not statistics.median:
            figures[name] = mean(seconds[other]) / mean(seconds[ours])
        figures[f"{name}_cpu"] = mean(cpu[other]) / mean(cpu[ours])
    workers = num_steps * sum(
        sum(cpu[name])
        for name, contestant in contestants.items()
        if contestant.is_process
    )
    return figures | {
        "noise": machine.noise(*all_ratios, workers=workers)
        if all_ratios
        else machine.shares(workers)
    }


def _pairs(names: Iterable[str]) -> list[tuple[str, str]]:
    """Each of ours with each that is not, and with those of ours before it."""
    names = list(names)
    return [
        (ours, other)
        for place, ours in enumerate(names)
        if ours.startswith("ours")
        for number, other in enumerate(names)
        if number < place or not other.startswith("ours")
    ]


def comparison_table(figures: Figures) -> str:
    """What `compare` found, as a Markdown table: a line for each contestant."""
    by_name = figures["contestants"]
    ours = [name for name in by_name if name.startswith("ours")]
    head = ["", "examples/s", "quartiles", "CPU s a step", "loss, first, last"]
    for name in ours:
        head += [f"{name}: times", "quartiles", "by CPU"]
    lines = [head, ["---"] * len(head)]
    for other, found in by_name.items():
        cells = [
            other,
            f"{found['examples_per_second']:.1f}",
            _range(found["examples_per_second_quartiles"], ".1f"),
            f"{found['cpu_seconds_per_step']:.3g}",
            ", ".join(
                f"{found[key]:.4g}"
                for key in ("first_loss", "last_loss")
                if key in found
            ),
        ]
        for name in ours:
            ratio = f"{name}_times_{other}"
            cells += (
                [
                    f"{figures[ratio]:.2f}",
                    _range(figures[f"{ratio}_quartiles"], ".2f"),
                    f"{figures[f'{ratio}_cpu']:.2f}",
                ]
                if ratio in figures
                else [""] * 3
            )
        lines.append(cells)
    return _markdown(lines)


def _range(values: Sequence[float], form: str) -> str:
    return " to ".join(format(value, form) for value in values)


def _markdown(lines: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def report_page(result: dict, sections: Iterable[str], targets: Targets) -> str:
    """The figures as a page of Markdown, a table for each section."""
    flags = result["flags"]
    parts = [
        f"{result['cpus']} cores; "
        + ", ".join(f"{key}={flags[key]}" for key in sorted(flags))
    ]
    parts += [
        f"**Noisy machine**: {warning}; believe ratios and CPU seconds, not "
        "rates."
        for warning in result["warnings"]
    ]
    for section in sections:
        if section not in result:
            continue
        figures = result[section]
        parts.append(f"## {section}")
        compared: set[str] = set()
        if "contestants" in figures:
            parts.append(comparison_table(figures))
            compared = {
                f"{ours}_times_{other}{end}"
                for ours, other in _pairs(figures["contestants"])
                for end in ("", "_quartiles", "_cpu")
            } - {name for of, name in targets if of == section}
        lines = [["", "measured", "target"], ["---"] * 3]
        for name, value in figures.items():
            if isinstance(value, dict) or name in compared:
                continue
            values = value if isinstance(value, list) else [value]
            target = ""
            if (section, name) in targets:
                relation, bound = targets[section, name]
                met = result["targets"][f"{section}.{name}"]
                target = f"{relation} {bound:g}, {'met' if met else 'missed'}"
            text = ", ".join(_shown(v) for v in values)
            lines.append([name.replace("_", " "), text, target])
        parts.append(_markdown(lines))
    return "\n\n".join(parts) + "\n"


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float | int) else str(value)


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
        if name in result.get(section, {})
    }


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


def add_contestants(parser: arguments.ArgumentParser, default: str) -> None:
    """Adds the flags that `chosen_contestants` reads."""
    parser.add_argument(
        "--contestants",
        default=default,
        help="who is compared, separated by commas (default: %(default)s)",
    )
    parser.add_argument(
        "--interop-python",
        default=sys.executable,
        help="interpreter of the contestants with transformers: make interop "
        "(default: this one)",
    )


def chosen_contestants(
    text: str, known: Iterable[str], interop_python: str
) -> list[str]:
    """The contestants that a flag names; who cannot start is said, left out.

    Args:
      text: The flag's value.
      known: All there are.
      interop_python: Interpreter of those with transformers.

    Raises:
      ValueError: If there is no such contestant.
    """
    names = chosen(text, known, "contestants")
    theirs = [name for name in names if name.startswith("transformers")]
    return startable(names, theirs, interop_python)


def startable(
    names: Sequence[str],
    theirs: Sequence[str],
    python: str,
    packages: Sequence[str] = transformers_worker.PACKAGES,
) -> list[str]:
    """The contestants without those that lack a package, which is said.

    Args:
      names: Of all.
      theirs: Names of those that another interpreter runs, if any.
      python: That interpreter.
      packages: That they need.
    """
    if theirs and (
        missing := transformers_worker.missing_packages(python, packages)
    ):
        say(
            f"left out: {', '.join(theirs)}: {python} does not have "
            f"{', '.join(missing)} (make interop)"
        )
        return [name for name in names if name not in theirs]
    return list(names)


def chosen(text: str, known: Iterable[str], what: str) -> list[str]:
    """What a flag names, separated by commas.

    Args:
      text: The flag's value.
      known: All there is.
      what: The flag, without dashes.

    Raises:
      ValueError: If there is no such thing.
    """
    known = list(known)
    names = text.split(",")
    if unknown := set(names) - set(known):
        raise ValueError(
            f"--{what} must be among {', '.join(known)}. "
            f"Received: {', '.join(sorted(unknown))}"
        )
    return names


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
    result: dict[str, Figures] = {}
    for name, section in sections.items():
        say(name)
        result[name] = section(args, *more)
        # What is there is kept, should a later section fail.
        whole = write(args, result, _noise(result), sections, targets)
    report(args, whole, sections, targets)


def _noise(result: Mapping[str, Figures]) -> dict[str, float]:
    """The worst of all sections."""
    noise: dict[str, float] = {}
    for figures in result.values():
        for kind, share in figures.get("noise", {}).items():
            noise[kind] = max(noise.get(kind, 0.0), share)
    return noise


def write(
    args: argparse.Namespace,
    result: Mapping[str, Any],
    noise: dict[str, float],
    sections: Iterable[str],
    targets: Targets,
) -> dict[str, Any]:
    """Judges figures and writes JSON, and a page of Markdown beside it.

    Args:
      args: Flags; `output` is the JSON, if empty nothing is written.
      result: Section -> figures.
      noise: See `warnings`.
      sections: Those of the page, in order.
      targets: What the figures should be.

    Returns:
      The JSON.
    """
    whole = {"flags": vars(args), "cpus": os.cpu_count(), **result}
    whole["warnings"] = warnings(noise)
    whole["targets"] = judge(whole, targets)
    if args.output:
        files.write_json(args.output, whole)
        files.write_atomically(
            os.path.splitext(args.output)[0] + ".md",
            report_page(whole, sections, targets),
        )
    return whole


def report(
    args: argparse.Namespace,
    whole: dict[str, Any],
    sections: Iterable[str],
    targets: Targets,
) -> None:
    """Prints what `write` returned: its page, without an output the JSON."""
    if not args.output:
        print(json.dumps(whole, indent=1))
    print(report_page(whole, sections, targets), file=sys.stderr)
