"""A process that does steps when it is told to, for bench.py to time.

    python tools/benchmarks/worker.py MODULE.FUNCTION SETTINGS

calls a function with a namespace of settings, given in JSON. What it returns
takes a number of steps, does them, and may return figures. Numbers of steps
come from stdin, a line each; each is answered by a line of JSON: `seconds`,
`cpu_seconds` (of all threads and of children that have ended), `peak_mb`, and
the figures, which take the place of these.

Imports the standard library alone: some contestants have an environment without
electra_tf.
"""

import argparse
import importlib
import json
import os
import resource
import sys
import time

_WHO = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
# Linux counts memory in kibibytes, macOS in bytes.
_RSS_UNIT = 1 if sys.platform == "darwin" else 1024


def _cpu_seconds() -> float:
    usages = map(resource.getrusage, _WHO)
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def main() -> None:
    """Answers each number of steps."""
    # What libraries and children print goes to stderr.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    module, _, function = sys.argv[1].rpartition(".")
    settings = argparse.Namespace(**json.loads(sys.argv[2]))
    run = getattr(importlib.import_module(module), function)(settings)
    for line in sys.stdin:
        start, cpu_start = time.perf_counter(), _cpu_seconds()
        figures = run(int(line)) or {}
        usages = map(resource.getrusage, _WHO)
        measured = {
            "seconds": time.perf_counter() - start,
            "cpu_seconds": _cpu_seconds() - cpu_start,
            "peak_mb": max(u.ru_maxrss for u in usages) * _RSS_UNIT / 1e6,
        }
        print(json.dumps(measured | figures), file=answers, flush=True)


if __name__ == "__main__":
    main()
