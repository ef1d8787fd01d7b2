"""Measures how fast electra_tf is beside other ways to do the same.

    python tools/benchmarks/bench.py training --output=build/training.md

Contestants are processes that take turns, round by round. The table has their
rates and CPU seconds, and how many times as fast as others they are: medians of
the rounds, between the quartiles. Where other programs use the machine, believe
ratios and CPU seconds rather than rates. Contestants whose packages are missing
are named and left out: those with transformers or ONNX Runtime run in the
environment of --interop_python (make interop).

A benchmark is a `contest.Benchmark`, a line of the table below.
"""

import argparse
import os
import sys
import tempfile

import building
import contest
import latency
import training
import whole

from electra_tf import errors, files
from electra_tf.command_line import arguments

BENCHMARKS = {
    "training": training.TRAINING,
    "replicas": training.REPLICAS,
    "finetuning": training.FINETUNING,
    "fine_tuning_whole": whole.WHOLE,
    "data": building.BUILDING,
    "latency": latency.LATENCY,
}


def _make_parser() -> arguments.ArgumentParser:
    parser = arguments.ArgumentParser("bench", __doc__)
    names = parser.add_subparsers(
        dest="benchmark", required=True, metavar="NAME"
    )
    for name, benchmark in BENCHMARKS.items():
        summary, everybody = benchmark.summary, ", ".join(benchmark.contestants)
        of_name = names.add_parser(name, help=summary, description=summary)
        chosen = ",".join(benchmark.chosen), f"who takes part, of {everybody}"
        flags = {
            "output": ("", "Markdown file that the table is written to, too"),
            "contestants": chosen,
            "interop_python": (sys.executable, "has requirements-interop.lock"),
            "num_steps": (1, "steps of a contestant in a round"),
            "num_rounds": (5, "rounds"),
            "num_warm_up_steps": (1, "steps after the first, not timed"),
            **benchmark.flags,
        }
        for flag, (default, text) in flags.items():
            is_whole = isinstance(default, int)
            of_name.add_argument(
                "--" + flag.replace("_", "-"),
                type=arguments.positive_int if is_whole else type(default),
                default=default,
                help=f"{text} (default: %(default)s)",
            )
        of_name.add_argument(
            "--tiny", action="store_true", help="a model for trying this out"
        )
    return parser


def _able(args: argparse.Namespace) -> list[str]:
    """The contestants that have their packages; the others are named."""
    able, known = [], BENCHMARKS[args.benchmark].contestants
    for name in arguments.names(args.contestants):
        if name not in known:
            raise ValueError(
                f"--contestants must be among {', '.join(known)}. Received: "
                f"{name}{errors.did_you_mean(name, known)}"
            )
        packages = known[name].packages
        if missing := contest.missing_packages(args.interop_python, packages):
            contest.say(f"left out: {name}, which needs {', '.join(missing)}")
        else:
            able.append(name)
    if not able:
        raise ValueError("No contestant has its packages: see --interop_python")
    return able


def _check(name: str, answer: contest.Answer, first_loss: float) -> None:
    """Refuses a training that starts from another loss than the others."""
    loss = answer.get("loss", first_loss)
    if first_loss and not abs(loss / first_loss - 1) < 0.2:
        raise ValueError(
            f"{name}: expected a first loss near {first_loss:.2f}. Received: "
            f"{loss:.2f}"
        )


def _measure(args: argparse.Namespace) -> dict[str, list[contest.Answer]]:
    """Has the contestants take their turns."""
    benchmark = BENCHMARKS[args.benchmark]
    known = benchmark.contestants
    args.names = names = _able(args)
    processes: dict[str, contest.Process] = {}
    with tempfile.TemporaryDirectory() as args.folder:
        try:
            settings = vars(args) | benchmark.prepare(args)
            contest.say(f"first steps of {', '.join(names)}")
            for name in names:
                function, more, packages = known[name]
                python = args.interop_python if packages else sys.executable
                processes[name] = contest.Process(
                    function, settings | more, python
                )
            for process in processes.values():
                process.ask(1)
            for name, process in processes.items():
                _check(name, process.answer(), settings.get("first_loss", 0))
            for process in processes.values():
                process(args.num_warm_up_steps)
            rounds = contest.take_turns(
                processes, args.num_steps, args.num_rounds
            )
        finally:
            for process in processes.values():
                process.close()
    of_step = getattr(args, benchmark.per_step) if benchmark.per_step else 1
    for answers in rounds.values():
        for answer in answers:
            answer.setdefault("amount", args.num_steps * of_step)
    return rounds


def _bench(args: argparse.Namespace) -> None:
    benchmark = BENCHMARKS[args.benchmark]
    load, *_ = os.getloadavg()
    rounds = _measure(args)
    table = contest.table(
        rounds, benchmark.against, benchmark.unit, benchmark.is_varied
    )
    flags = {"num_steps", "num_rounds", "tiny", *benchmark.flags}
    settings = [f"{flag}={getattr(args, flag)}" for flag in sorted(flags)]
    page = (
        f"bench.py {args.benchmark}: {', '.join(settings)}; {os.cpu_count()} "
        f"cores, load {load:.1f} before it\n\n{table}\n"
    )
    print(page)
    if args.output:
        os.makedirs(os.path.dirname(args.output) or ".", exist_ok=True)
        files.write_atomically(args.output, page)


def main(argv=None) -> int:
    """Measures; returns the exit code."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # The processor's speed, unless the user has other wishes.
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    return arguments.run(_bench, _make_parser(), argv)


if __name__ == "__main__":
    sys.exit(main())
