"""transformers and PyTorch as a contestant: a process of their environment."""

import contextlib
import dataclasses
import json
import pathlib
import subprocess
from collections.abc import Sequence
from typing import Any

from electra_tf import configs

PACKAGES = ("torch", "transformers")
_SCRIPT = pathlib.Path(__file__).with_name("transformers_training.py")


def missing_packages(
    python: str, packages: Sequence[str] = PACKAGES
) -> list[str]:
    """Which of some packages an interpreter does not find.

    Args:
      python: Path of the interpreter.
      packages: Their names.
    """
    code = (
        "import importlib.util, sys\n"
        "for name in sys.argv[1:]:\n"
        "    if not importlib.util.find_spec(name): print(name)"
    )
    try:
        found = subprocess.run(
            [python, "-c", code, *packages], capture_output=True, text=True
        )
    except OSError:
        return list(packages)
    return list(packages) if found.returncode else found.stdout.split()


def sizes(config: configs.EncoderConfig) -> dict[str, Any]:
    """Settings of a transformers.ElectraConfig: it has the same names."""
    return dataclasses.asdict(config)


class Worker:
    """A training by transformers that looks like a `benchmarking.Contestant`.

    Args:
      python: Interpreter with `PACKAGES`.
      settings: See `make_step` there. Always `discriminator` (`sizes`), `rows`
        (an .npz file of input_ids, input_mask, segment_ids <int>[N, L]),
        `batch_size`, `learning_rate` and `is_bfloat16`. For pre-training
        `generator`, `special_ids` and `masked_alone`, for a classifier
        `num_labels`, and `label_ids` among the rows.
    """

    is_process = True

    def __init__(self, python: str, **settings: Any):
        self.cpu_seconds: list[float] = []
        self.losses: list[float] = []
        self._process = subprocess.Popen(
            [python, str(_SCRIPT), f"--settings={json.dumps(settings)}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, num_steps: int) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # `seconds` tells why.
            print(num_steps, file=self._process.stdin, flush=True)

    def seconds(self) -> float:
        """The answer to a number of steps."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ValueError(
                "The process with transformers ended: see its message above"
            )
        answer = json.loads(line)
        self.cpu_seconds.append(answer["cpu_seconds"] / answer["num_steps"])
        self.losses.append(answer["loss"])
        return answer["seconds"]

    def __call__(self, num_steps: int) -> float:
        self.ask(num_steps)
        return self.seconds()

    def close(self) -> None:
        """Its input ends, and with it the process."""
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate()
