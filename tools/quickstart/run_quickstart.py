"""Runs the quickstart: text -> a pre-trained, fine-tuned, exported model.

    electra-tf quickstart

takes a quarter of an hour on two CPU cores and needs no data: the text is the
docstrings of the packages that are installed. It writes below build/quickstart
in the current directory and ends with a page there, report.html.

A step whose result exists, and is no older than that of the step before, is not
run again; pre-training and fine-tuning go on from their last checkpoint. The
commands are in tools/quickstart/quickstart_steps.py; --dry-run prints those
that are left.
"""

import argparse
import glob
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

import quickstart_steps
from quickstart_steps import Step

from electra_tf import files
from electra_tf.command_line import arguments, packaged

# Exit codes of a command that was told to stop.
_INTERRUPTED = (arguments.EXIT_STOPPED, 130)


def main(argv=None) -> int:
    """Parses the flags and runs what is left; returns the exit code."""
    parser = arguments.ArgumentParser(prog="quickstart", description=__doc__)
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print the commands that are left, and run nothing",
    )
    parser.add_argument(
        "--until",
        choices=[step.name for step in quickstart_steps.STEPS],
        help="the last step to run (default: the last of all)",
    )
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    return arguments.run(_run_quickstart, parser, argv)


def _run_quickstart(args: argparse.Namespace) -> None:
    steps = steps_until(args.until)
    for step in steps_left(steps):
        if args.dry_run:
            print(*map(_as_shown, step.commands), sep="\n")
        else:
            run(step)
    if not args.dry_run and steps == quickstart_steps.STEPS:
        build = quickstart_steps.BUILD
        print(
            f"The quickstart is complete: open {quickstart_steps.REPORT} "
            f"(figures: {build}/summary.json; the classifier's own page: "
            f"{build}/finetune_pretrained/report.html)."
        )


def steps_until(name: str | None) -> tuple[Step, ...]:
    """The steps up to one of them, or all."""
    names = [step.name for step in quickstart_steps.STEPS]
    end = names.index(name) + 1 if name else len(names)
    return quickstart_steps.STEPS[:end]


def steps_left(steps: Sequence[Step]) -> Iterator[Step]:
    """The steps from the first one on whose result is missing or too old."""
    newest = 0.0
    is_done = True
    for step in steps:
        written = [_written(of) for of in (*step.also, step.result)]
        is_done = is_done and min(written) >= newest
        newest = max(written)
        if not is_done:
            yield step


def _written(pattern: str) -> float:
    """When the newest file of a pattern was written; -1 without any."""
    return max(map(os.path.getmtime, glob.glob(pattern)), default=-1.0)


def run(step: Step) -> None:
    """Runs a step and keeps its seconds.

    Raises:
      ValueError: If one of its commands fails.
    """
    started_at = time.monotonic()
    for command in step.commands:
        shown = _as_shown(command)
        print(f"$ {shown}", flush=True)
        code, printed = _run_command(_as_run(command), step.is_printed)
        if code:
            # A mistake comes again, and files of another version stay refused.
            way_on = (
                "run the same again, and it goes on from there"
                if code < 0 or code in _INTERRUPTED
                else "once that is mended, the same goes on; without "
                f"{quickstart_steps.BUILD} it begins anew"
            )
            raise ValueError(
                f"The step {step.name!r} ended with exit code {code}: {way_on}"
            )
        if step.is_printed:
            files.write_atomically(step.result, printed)
            print(printed, end="", flush=True)
    seconds = os.path.join(quickstart_steps.BUILD, "seconds")
    os.makedirs(seconds, exist_ok=True)
    files.write_atomically(
        os.path.join(seconds, step.name),
        f"{time.monotonic() - started_at:.0f}\n",
    )


def _as_run(command: str) -> list[str]:
    """What is started for a command: by this Python, of this package."""
    first, *rest = shlex.split(command)
    if first == "electra-tf":
        return [sys.executable, "-m", "electra_tf", *rest]
    return [sys.executable, str(packaged.door(rest[0])), *rest[1:]]


def _as_shown(command: str) -> str:
    """A command that can be typed in this directory."""
    first, script, rest = command.split(" ", 2)
    if first != "python" or os.path.exists(script):
        return command
    return f"{first} {packaged.door(script)} {rest}"


def _run_command(command: list[str], is_printed: bool) -> tuple[int, str]:
    """Runs a command to its end; returns its exit code and what it prints.

    It may save before it leaves: a signal is for it, and is waited for.
    """
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE if is_printed else None,
        encoding="utf-8",
    )
    before = signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    try:
        while True:
            try:
                printed, _ = process.communicate()
                return process.returncode, printed or ""
            except KeyboardInterrupt:  # The terminal sent it to both.
                continue
    finally:
        signal.signal(signal.SIGTERM, before)


if __name__ == "__main__":
    sys.exit(main())
