"""Runs the quickstart: text -> a pre-trained, fine-tuned, exported model.

    electra-tf quickstart

takes a quarter of an hour on two CPU cores and needs no data: the text is the
docstrings of the packages that are installed. It writes below build/quickstart
in the current directory and ends with a page there, report.html.

A step whose results exist, and are no older than those of the step before, is
not run again; pre-training and fine-tuning go on from their last checkpoint.
The commands are in tools/quickstart/quickstart_steps.py; --dry-run prints those
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
from quickstart_steps import STEPS, Step

from electra_tf import files, packaged
from electra_tf.command_line import arguments
from electra_tf.training import signals


def main(argv=None) -> int:
    """Parses the flags and runs what is left; returns the exit code."""
    parser = arguments.ArgumentParser("electra-tf quickstart", __doc__)
    line = "print the commands that are left, and run nothing"
    parser.add_argument("--dry-run", action="store_true", help=line)
    return arguments.run(_run_quickstart, parser, argv)


def _run_quickstart(args: argparse.Namespace) -> None:
    for step in steps_left(STEPS):
        if args.dry_run:
            print(*map(_as_shown, step.commands), sep="\n")
        else:
            run(step)
    if not args.dry_run:
        print(f"The quickstart is complete: open {quickstart_steps.REPORT}")


def steps_left(steps: Sequence[Step]) -> Iterator[Step]:
    """The steps from the first one on whose results are missing or too old."""
    newest = 0.0
    is_done = True
    for step in steps:
        written = [_written(pattern) for pattern in step.results]
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
        print(f"$ {_as_shown(command)}", flush=True)
        if code := _run_command(command):
            raise ValueError(
                f"The step {step.name!r} ended with exit code {code}: run the "
                "same again, and it goes on from there; without "
                f"{quickstart_steps.BUILD} it begins anew"
            )
    seconds = f"{time.monotonic() - started_at:.0f}\n"
    folder = os.path.join(quickstart_steps.BUILD, "seconds")
    os.makedirs(folder, exist_ok=True)
    files.write_atomically(os.path.join(folder, step.name), seconds)


def _as_shown(command: str) -> str:
    """A command that can be typed in this directory."""
    first, script, rest = command.split(" ", 2)
    if first != "python" or os.path.exists(script):
        return command
    return f"{first} {packaged.door(script)} {rest}"


def _run_command(command: str) -> int:
    """Runs a command by this Python to its end; returns its exit code."""
    first, *rest = shlex.split(command)
    if first == "electra-tf":
        rest = ["-m", "electra_tf", *rest]
    else:
        rest[0] = str(packaged.door(rest[0]))
    process = subprocess.Popen([sys.executable, *rest])
    with signals.handled(lambda *_: process.terminate(), signal.SIGTERM):
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:  # The terminal sent it to both.
                continue


if __name__ == "__main__":
    sys.exit(main())
