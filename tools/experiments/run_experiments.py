"""Trains the rows of a suite, scores them, and writes a table and a plot.

  python tools/experiments/run_experiments.py --suite=objectives \\
      --budget_flops=6e12 --seeds=3 --data_dir=<folder of public sets>

Every row (suites.py) is pre-trained for as many steps as the budget allows,
counted as `costs.of_pretraining_step` counts, then fine-tuned on the tasks, all
by run_pretraining and run_finetuning as subprocesses. A run is a folder and a
command, and finished when its results exist: the same command goes on where it
was. <output_dir>/<suite>.{md,json,png} are the table, its figures and a plot.

--data_dir gets corpus, vocabulary, TFRecords and rows that it lacks: see
suite_data.py and docs/guides/reproduce-paper.md.
"""

import argparse
import dataclasses
import math
import os
import pathlib
import shlex
import sys
from collections.abc import Sequence

import run_queue
import suite_data
import suite_runs
import suite_table
from suite_runs import Run, Variant
from suites import SUITES, Suite

from electra_tf import errors, files
from electra_tf.command_line import arguments

# What the suite decides for each run.
_DECIDED = (
    "RunConfig.seed",
    "RunConfig.model_dir",
    "FinetuningConfig.init_checkpoint",
    "FinetuningConfig.num_trials",
)
_budget = arguments.number(
    lambda text: math.inf if text == suite_runs.OWN_STEPS else float(text),
    # A folder is called by it.
    lambda flops: flops > 0 and flops == float(f"{flops:g}"),
    "a positive number of at most six digits, such as 1e13, or own_steps",
)


def _suite(args: argparse.Namespace) -> Suite:
    """A suite as the flags have it."""
    suite, size = SUITES[args.suite], args.size_gin_file
    budget = args.budget_flops or suite.budget_flops
    budget = None if budget == math.inf else budget
    rows = [row.name for row in suite.rows]
    for flag, known in (("rows", rows), ("tasks", suite.tasks)):
        for name in getattr(args, flag):
            if name not in known:
                raise errors.ConfigError(
                    f"Expected {flag} among {', '.join(known)}. Received: "
                    f"{name}"
                )
    decided = _DECIDED + ("RunConfig.num_train_steps",) * bool(budget)
    for param in (*args.gin_param, *args.finetuning_gin_param):
        if param.partition("=")[0].strip() in decided:
            raise errors.ConfigError(
                "Expected bindings of what the comparison leaves open. "
                f"Received: {param}"
            )
    return dataclasses.replace(
        suite,
        name=args.suite,
        tasks={name: suite.tasks[name] for name in args.tasks or suite.tasks},
        num_seeds=args.seeds or suite.num_seeds,
        budget_flops=budget,
        size_gin_file=suite.size_gin_file if size is None else size,
        output_dir=args.output_dir or os.path.join(suite.build_dir, "runs"),
        gin_params=tuple(args.gin_param),
        finetuning_gin_params=tuple(args.finetuning_gin_param),
    )


def run(args: argparse.Namespace) -> int:
    """Runs a suite and writes its table.

    Returns:
      The exit code.

    Raises:
      ValueError: On a mistake in the flags, a gin file or the public sets.
    """
    suite = _suite(args)
    variants = suite_runs.variants(suite, args.rows)
    runs: dict[str, Run] = {}  # Each once, the first seed of all rows first.
    for seed in suite_runs.seeds_of(suite):
        for variant in variants:
            for one in suite_runs.runs_of(variant, seed, suite):
                runs.setdefault(one.model_dir, one)
    if args.dry_run:
        for one in runs.values():
            state = "finished" if one.is_finished() else "to run"
            command = shlex.join(one.command)
            print(f"# {one.title}: {state}\npython {command}\n")
        return 0
    code = 0
    if not args.table_only:
        if args.data_dir:
            build = getattr(suite_data, suite.data)
            build(args.data_dir, pathlib.Path(suite.build_dir))
        for stage in (stage for v in variants for stage in v.stages):
            path = stage.config.data.vocab_file
            if "://" not in path and not os.path.isfile(path):
                raise errors.ConfigError(
                    "Expected the data of the suite, which --data_dir=<folder "
                    f"of the public sets> builds. Received: no {path}"
                )
        code = run_queue.RunQueue([*runs.values()], args.parallel).execute()
    _write_results(suite_runs.variants(suite), suite)
    return code


def _write_results(variants: Sequence[Variant], suite: Suite) -> None:
    """Writes what is known of all rows of the suite."""
    results = suite_table.collect(variants, suite)
    if not results["rows"]:
        print(f"{suite.name}: nothing is scored, so there is no table")
        return
    text = suite_table.markdown(results)
    path = os.path.join(suite.output_dir, f"{suite.name}.{{}}")
    files.write_json(path.format("json"), results)
    files.write_atomically(path.format("md"), text)
    suite_table.draw(results, path.format("png"))
    print(f"{text}\nwritten: {path.format('{md,json,png}')}")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    parser = arguments.ArgumentParser("run_experiments", __doc__)
    add = parser.add_argument
    add("--suite", required=True, choices=list(SUITES), help="What to run.")
    add("--rows", type=arguments.names, default=(), help="Some rows of it.")
    add("--tasks", type=arguments.names, default=(), help="Some of its tasks.")
    line = "FLOPs of each row, such as 1e13, or own_steps for the steps of the "
    line += "gin files (default: the suite's)."
    add("--budget-flops", type=_budget, help=line)
    line = "Seeds 1, 2, ... (default: the suite's)."
    add("--seeds", type=arguments.positive_int, help=line)
    line = "Folder of the public sets, to build what is not there."
    add("--data-dir", type=pathlib.Path, help=line)
    line = "Given after the row's file; empty for the row's own size (default: "
    add("--size-gin-file", help=f"{line}the suite's).")
    for name, what in (("", "pre-training"), ("finetuning-", "fine-tuning")):
        line = f"gin binding for all {what}; may be repeated."
        add(f"--{name}gin-param", action="append", default=[], help=line)
    add("--output-dir", help="Where runs and table go (default: the suite's).")
    line = "Runs at a time, of one thread each (default: %(default)s)."
    add("--parallel", type=arguments.positive_int, default=1, help=line)
    add("--dry-run", action="store_true", help="Only print the commands.")
    add("--table-only", action="store_true", help="Only write the table.")
    return arguments.run(run, parser, argv)


if __name__ == "__main__":
    sys.exit(main())
