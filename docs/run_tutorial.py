"""Executes docs/tutorial.ipynb, and writes it with its outputs.

    python docs/run_tutorial.py --output=build/tutorial.ipynb

Its files go into a temporary folder. A cell that fails ends it.
"""

import argparse
import os
import pathlib
import sys
import time

import nbclient
import nbformat

NOTEBOOK = pathlib.Path(__file__).with_name("tutorial.ipynb")


def main() -> int:
    """Parses the flags and executes; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--output", type=pathlib.Path, required=True)
    args = parser.parse_args()
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    # The commands of this very environment.
    os.environ["PATH"] = os.pathsep.join(
        (os.path.dirname(sys.executable), os.environ["PATH"])
    )
    started_at = time.monotonic()
    try:
        nbclient.NotebookClient(
            notebook, kernel_name="python3", timeout=900, record_timing=False
        ).execute()
    except nbclient.exceptions.CellExecutionError as error:
        print(error, file=sys.stderr)
        return 1
    for cell in notebook.cells:
        # Logs of TensorFlow.
        cell["outputs"] = [
            output
            for output in cell.get("outputs", ())
            if output.get("name") != "stderr"
        ]
        if cell.cell_type != "code":
            del cell["outputs"]
    args.output.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, args.output)
    seconds = time.monotonic() - started_at
    print(f"run_tutorial: wrote {args.output} in {seconds:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
