"""Trains the rows of the paper's comparisons at equal compute and scores them.

  python tools/experiments/run_experiments.py --suite=objectives \\
      --budget_flops=1e13

Every row of a suite (gin/experiments) is pre-trained for as many steps as the
budget allows, counted as `costs.of_pretraining_step` counts, then
fine-tuned on the tasks with the same seed, all by run_pretraining and
run_finetuning as subprocesses. Below --output_dir, <suite>/ gets results.json,
results.md, a table with the paper's numbers beside ours, and results.png, with
--pooling=mean results_mean.json and so on; `experiment_runs` says where the
runs are. What is finished is not run again, and what was interrupted goes on.

The default size and data are those of gin/experiments/tiny.gin, for two cores;
docs/experiments.md says how to build them, and how to run other sizes.
"""

import argparse
import dataclasses
import os
import sys
from collections.abc import Collection, Sequence

import experiment_queue
import experiment_runs
import experiments_plot
import experiments_table
import figure_files
import tables
from experiment_runs import Options, Variant
from experiment_suites import SUITES, TASKS

from electra_tf import configs, files
from electra_tf.command_line import arguments

_ALL = "all"


_budget = arguments.number(
    float,
    # A folder is called by it, and read back.
    lambda flops: 0 < flops < float("inf") and flops == float(f"{flops:g}"),
    "positive numbers of at most six digits, such as 1e13,3e13",
)


def _budgets(text: str) -> tuple[float, ...]:
    return tuple(map(_budget, arguments.names(text)))


def _options(args: argparse.Namespace) -> Options:
    for task in args.tasks:
        if task not in TASKS:
            raise ValueError(
                f"Expected tasks among {', '.join(TASKS)}. Received: {task}"
            )
    finetuning_gin_file = args.finetuning_gin_file
    if finetuning_gin_file is None:
        finetuning_gin_file = (
            experiment_runs.gin_path("experiments/finetuning.gin")
            if args.size_gin_file
            else ""
        )
    for param in args.gin_param:
        if args.budget_flops and param.startswith("RunConfig.num_train_steps"):
            raise ValueError(
                "Expected either --budget_flops, which decides the steps, or "
                f"RunConfig.num_train_steps. Received: {param} and a budget"
            )
    return Options(
        args.size_gin_file,
        args.output_dir,
        args.tasks,
        tuple(range(1, args.seeds + 1)),
        tuple(args.gin_param),
        finetuning_gin_file,
        tuple(args.finetuning_gin_param),
        args.pooling,
    )


def run(args: argparse.Namespace) -> int:
    """Runs suites and writes their tables.

    Returns:
      The exit code.

    Raises:
      ValueError: On a mistake in the flags or in a gin file.
    """
    options = _options(args)
    suites = list(SUITES) if args.suite == _ALL else [args.suite]
    for name in ("rows", "earlier"):
        if getattr(args, name) and args.suite == _ALL:
            raise ValueError(
                f"Expected one --suite with --{name}. Received: all"
            )
    variants = {
        name: experiment_runs.variants(
            name, args.budget_flops, options, args.rows
        )
        for name in suites
    }
    earlier = None
    if args.earlier:
        earlier = experiments_table.read_earlier(
            args.earlier, args.suite, options
        )
    runs = _runs(
        [v for vs in variants.values() for v in vs],
        options,
        experiments_table.measured_seeds(earlier) if earlier else set(),
    )
    if args.dry_run:
        _print_plan(variants, runs)
        return 0
    queue = experiment_queue.Queue(
        [] if args.table_only else runs, args.parallel
    )
    queue.execute()
    for name in suites:
        _write_results(name, args, options, earlier)
    return queue.exit_code()


def _runs(
    variants: Sequence[Variant],
    options: Options,
    measured: Collection[tuple[str, float | None, int]],
) -> list[experiment_runs.Run]:
    """All runs, each once: the first seed of all rows comes first.

    Args:
      variants: Rows.
      options: Of the runs.
      measured: Row, budget and seed of what is not run again, but for what
        others start from.
    """
    found: dict[str, experiment_runs.Run] = {}
    needed: set[str] = set()
    for seed in options.seeds:
        for variant in variants:
            own = experiment_runs.runs_of(variant, seed, options)
            pretrained = experiment_runs.pretrained_of(variant, options)
            theirs = []
            if pretrained is not variant:
                theirs = experiment_runs.runs_of(pretrained, seed, options)
            for one in [*theirs, *own]:
                found.setdefault(one.model_dir, one)
            if (variant.row.name, variant.budget, seed) not in measured:
                needed.update(one.model_dir for one in own)
    # What is needed is before what needs it.
    for one in reversed(found.values()):
        if one.model_dir in needed:
            needed.update(one.needs)
    return [one for one in found.values() if one.model_dir in needed]


def _write_results(
    suite: str,
    args: argparse.Namespace,
    options: Options,
    earlier: dict | None,
) -> None:
    """Writes what is known of all rows, budgets and seeds that are there."""
    budgets = args.budget_flops
    options = dataclasses.replace(
        options, seeds=experiment_runs.seeds_on_disk(options) or options.seeds
    )
    found = experiment_runs.budgets_on_disk(options)
    variants = [
        variant
        for budget in sorted(
            {*found, *(budgets or (None,))}, key=lambda b: b or 0.0
        )
        for variant in experiment_runs.variants(
            suite, () if budget is None else (budget,), options
        )
    ]
    folder = os.path.join(options.output_dir, suite)
    name = "results"
    if options.pooling != configs.DEFAULT_POOLING:
        name += f"_{options.pooling}"
    path = os.path.join(folder, f"{name}.{{}}")
    with figure_files.expecting("figures of finished runs", folder):
        results = experiments_table.collect(suite, variants, options)
        if earlier is not None:
            results = experiments_table.merged(earlier, results, args.earlier)
        if not results["rows"]:
            print(f"{suite}: no run is finished, so there is no table")
            return
        text = experiments_table.markdown(results)
        figure_files.write(path.format("json"), results)
        files.write_atomically(path.format("md"), text)
        experiments_plot.draw(results, path.format("png"))
    print(text)
    print(f"written: {path.format('{json,md,png}')}")


def _print_plan(
    variants: dict[str, list[Variant]], runs: Sequence[experiment_runs.Run]
) -> None:
    rows = [["suite", "row", "steps", "FLOPs a step", "FLOPs", "folder"]]
    for name, of_suite in variants.items():
        for variant in of_suite:
            per_step = " + ".join(
                f"{stage.flops_per_step:.4g}" for stage in variant.stages
            )
            rows.append(
                [
                    name,
                    variant.row.name,
                    str(variant.num_train_steps),
                    per_step,
                    f"{variant.flops:.4g}",
                    variant.folder,
                ]
            )
    print(tables.markdown(rows))
    print()
    experiment_queue.print_commands(runs)


def main(argv=None) -> int:
    """Runs the command; returns its exit code."""
    parser = arguments.ArgumentParser(
        prog="run_experiments", description=__doc__
    )
    add = parser.add_argument
    add("--suite", required=True, choices=[*SUITES, _ALL], help="The rows.")
    add(
        "--rows",
        type=arguments.names,
        default=(),
        help="Some rows of the suite, separated by commas (default: all).",
    )
    add(
        "--budget-flops",
        type=_budgets,
        default=(),
        help="FLOPs of each row, such as 1e13; several, separated by commas. "
        "Without, every row has the steps of its gin files.",
    )
    add(
        "--seeds",
        type=arguments.positive_int,
        default=3,
        help="Seeds 1, 2, ... of pre-training and of fine-tuning after it "
        "(default: %(default)s).",
    )
    add(
        "--tasks",
        type=arguments.names,
        default=tuple(TASKS),
        help=f"Tasks to fine-tune on (default: {','.join(TASKS)}).",
    )
    add(
        "--size-gin-file",
        default="gin/experiments/tiny.gin",
        help="Given after the row's file; empty for the paper's size "
        "(default: %(default)s).",
    )
    add(
        "--finetuning-gin-file",
        default=None,
        help="Given after the task's files (default: "
        "gin/experiments/finetuning.gin; none with an empty --size_gin_file).",
    )
    for name, what in (("", "pre-training"), ("finetuning-", "fine-tuning")):
        add(
            f"--{name}gin-param",
            action="append",
            default=[],
            help=f"gin binding for all {what}; may be repeated.",
        )
    add(
        "--pooling",
        choices=configs.POOLINGS,
        default=configs.DEFAULT_POOLING,
        help="What heads on a whole text read: the first token's vector, or "
        "the mean of all tokens'. Pre-training is the same; what is fine-tuned "
        "has folders and results of its own (default: %(default)s).",
    )
    add(
        "--output-dir",
        default="build/experiments/runs",
        help="Where runs and results go (default: %(default)s).",
    )
    add(
        "--earlier",
        help="Figures of the same suite, such as docs/figures/objectives.json: "
        "seeds that they have are not run again.",
    )
    experiment_queue.add_flags(parser)
    return arguments.run(run, parser, argv)


if __name__ == "__main__":
    sys.exit(main())
