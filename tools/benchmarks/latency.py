"""The latency section of serving.py: one text, contestants side by side."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import typing

import benchmarking
import numpy as np

if typing.TYPE_CHECKING:
    import serving

# "ours" are SavedModels.
CONTESTANTS = (
    "onnxruntime",
    "litert_float32",
    "litert_int8",
    "ours_float32",
)
_ONNX_PACKAGES = ("torch", "transformers", "onnx", "onnxscript", "onnxruntime")
_ROOT = pathlib.Path(__file__).parents[2]
_WORKER = pathlib.Path(__file__).with_name("latency_worker.py")


class Answering:
    """A process that answers; looks like a `benchmarking.Contestant`.

    Args:
      python: Its interpreter.
      kind: See `latency_worker.KINDS`.
      path: Of the model.
      rows: File of the rows.

    Attributes:
      scores: What it says of each row.

    Raises:
      ValueError: If it does not start.
    """

    is_process = True

    def __init__(self, python: str, kind: str, path: str, rows: str):
        self.cpu_seconds: list[float] = []
        self.losses: list[float] = []
        command = [python, str(_WORKER), f"--kind={kind}"]
        self._process = subprocess.Popen(
            [*command, f"--path={path}", f"--rows={rows}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(_ROOT)},
        )
        self.scores = self._read(kind)

    def _read(self, kind: str):
        """The next line of JSON; other lines are libraries' own."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(("[", "{")):
                return json.loads(line)
        raise ValueError(f"The process with {kind} ended: see above")

    def __call__(self, num_steps: int) -> float:
        assert self._process.stdin is not None
        print(num_steps, file=self._process.stdin, flush=True)
        answer = self._read("the model")
        self.cpu_seconds.append(answer["cpu_seconds"] / num_steps)
        return answer["seconds"]

    def close(self) -> None:
        """Its input ends, and with it the process."""
        self._process.communicate()


def measure_latency(args, exported: "serving.Exported") -> benchmarking.Figures:
    """The latency section."""
    from electra_tf.serving import on_device

    theirs = [name for name in args.contestants if name == "onnxruntime"]
    names = benchmarking.startable(
        args.contestants, theirs, args.interop_python, _ONNX_PACKAGES
    )
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        lite = on_device.export(exported.checkpoint, f"{folder}/lite")
        rows = f"{folder}/rows.npz"
        columns = map(list, zip(*exported.rows, strict=True))
        packed = on_device.OnDeviceModel(lite[0]).pack(*columns)
        np.savez(rows, **packed)  # type: ignore[arg-type]
        if "onnxruntime" in names:
            from electra_tf.checkpoints import reading
            from electra_tf.checkpoints.formats import huggingface

            found = reading.read_checkpoint(exported.checkpoint)
            huggingface.write(found, f"{folder}/huggingface")
        paths = {
            "onnxruntime": ("onnxruntime", f"{folder}/huggingface"),
            "litert_float32": ("litert", lite[0]),
            "litert_int8": ("litert", lite[1]),
            "ours_float32": (
                "saved_model",
                os.path.join(exported.folder, "1"),
            ),
        }
        contestants = {}
        for name in names:
            python = args.interop_python if name in theirs else sys.executable
            contestants[name] = Answering(python, *paths[name], rows)
            stack.callback(contestants[name].close)
            contestants[name](args.num_warm_up_requests)
        figures = benchmarking.compare(
            contestants, 1, args.num_timed_requests, args.num_rounds
        )
    if "ours_float32" in contestants:
        exact = contestants["ours_float32"].scores
        for name, contestant in contestants.items():
            errors = np.subtract(contestant.scores, exact)
            figures[f"{name}_error"] = float(np.abs(errors).max())
    return figures
