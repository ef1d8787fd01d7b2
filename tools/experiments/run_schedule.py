"""Three lengths of pre-training: three runs, or one trunk with three decays.

  python tools/experiments/run_schedule.py

For each seed, a run of every length with the paper's schedule, whose rate falls
from its first step to its last; and a trunk, whose rate stays at its peak, from
which each length branches off for its last steps: docs/scaling.md, "A length
that is not known". The longest length is the trunk itself, to its end. All are
evaluated on the same held-out examples.

Runs, their logs and their CPU seconds are below --output_dir, the figures in
schedule.json there, a table in schedule.md and a plot in schedule.png. What is
finished is not run again, and what was interrupted goes on. `make schedule`
builds the data first.
"""

import argparse
import dataclasses
import json
import os
import statistics
import sys
from collections.abc import Mapping, Sequence

import experiment_queue
import experiment_runs
import experiments_table
import figure_files
import schedule_plot
import tables

from electra_tf import configs, files, model_directory
from electra_tf.command_line import arguments
from electra_tf.command_line import gin_files as gin_files_lib

LENGTHS = (2000, 4000, 6000)
# Of each length, at its end.
DECAY_PROPORTION = 0.15
# Of every run, however long: the trunk is all of them, and nothing but the
# decay is to differ.
NUM_WARMUP_STEPS = 500

_GIN_FILE = "results/schedule.gin"
METRICS = ("total_loss", "disc_auc", "masked_lm_accuracy")
# What no binding of a user can change.
_DECIDED = (
    "RunConfig.num_train_steps",
    "OptimizerConfig.schedule",
    "OptimizerConfig.decay_proportion",
    "OptimizerConfig.num_warmup_steps",
    "OptimizerConfig.warmup_proportion",
)
# What is made of a length.
STRAIGHT, TRUNK = "straight", "trunk"


@dataclasses.dataclass(frozen=True)
class Part:
    """One run, and what it is of the comparison.

    Attributes:
      way: `STRAIGHT` or `TRUNK`.
      length: The step at which it ends.
      seed: Of the run.
      num_steps: Steps of its own; less than the length for a branch.
      run: The command.
    """

    way: str
    length: int
    seed: int
    num_steps: int
    run: experiment_runs.Run


def first_step(length: int) -> int:
    """Where the decay to a length begins."""
    return length - round(DECAY_PROPORTION * length)


def parts(
    output_dir: str, seeds: Sequence[int], gin_params: Sequence[str] = ()
) -> list[Part]:
    """All runs, the first seed's before the second's.

    Args:
      output_dir: Where their folders are.
      seeds: Of the runs.
      gin_params: Bindings for all of them.

    Raises:
      ValueError: If a binding does not load, or is of what is compared.
    """
    experiment_runs.refuse_decided(gin_params, _DECIDED)
    found = []
    for seed in seeds:
        folder = os.path.join(output_dir, f"seed_{seed}")
        for length in LENGTHS:
            found.append(_straight(folder, length, seed, gin_params))
        trunk = _of_trunk(folder, max(LENGTHS), seed, gin_params)
        found.append(trunk)
        for length in sorted(set(LENGTHS) - {trunk.length}):
            found.append(
                _of_trunk(folder, length, seed, gin_params, trunk.run.model_dir)
            )
    return found


def _straight(folder, length, seed, gin_params) -> Part:
    return _part(STRAIGHT, folder, length, seed, gin_params)


def _of_trunk(folder, length, seed, gin_params, trunk: str = "") -> Part:
    """The trunk itself, or a branch from it."""
    params = [
        *gin_params,
        f"OptimizerConfig.schedule='{configs.WARMUP_STABLE_DECAY}'",
        f"OptimizerConfig.decay_proportion={DECAY_PROPORTION}",
    ]
    if trunk:
        checkpoint = os.path.join(
            trunk, f"{model_directory.CHECKPOINT_NAME}-{first_step(length)}"
        )
        # In double quotes, which a shell command needs less.
        checkpoint = json.dumps(checkpoint)
        params += [
            f"PretrainingConfig.init_checkpoint={checkpoint}",
            "PretrainingConfig.keep_global_step=True",
        ]
    return _part(TRUNK, folder, length, seed, params, trunk)


def _part(way, folder, length, seed, params, trunk: str = "") -> Part:
    params = [
        *params,
        f"OptimizerConfig.num_warmup_steps={NUM_WARMUP_STEPS}",
        f"RunConfig.num_train_steps={length}",
    ]
    paths = (experiment_runs.gin_path(_GIN_FILE),)
    config = gin_files_lib.load(configs.PretrainingConfig, paths, params)
    num_steps = length - (first_step(length) if trunk else 0)
    run = experiment_runs.make_run(
        f"{way} {length} seed {seed}",
        (paths, tuple(params), config),
        seed,
        os.path.join(folder, f"{way}_{length}"),
        {},
        "pretraining",
        float(num_steps),
    )
    run = dataclasses.replace(run, needs=(trunk,) if trunk else ())
    return Part(way, length, seed, num_steps, run)


def collect(found: Sequence[Part]) -> dict:
    """The figures of what is finished.

    Returns:
      What schedule.json holds: "lengths", "decay_proportion",
      "num_warmup_steps"; "runs", each with its command, commit, CPU seconds,
      held-out metrics at the end and in the course of it; "summary", see
      `summarize`.
    """
    runs = [
        _record(part)
        for part in found
        if experiment_runs.is_of_table(part.run) and part.run.is_finished()
    ]
    return {
        "lengths": list(LENGTHS),
        "decay_proportion": DECAY_PROPORTION,
        "num_warmup_steps": NUM_WARMUP_STEPS,
        "learning_rate": found[0].run.config.optimizer.learning_rate,
        "summary": summarize(runs),
        "runs": runs,
    }


def _record(part: Part) -> dict:
    model_dir = part.run.model_dir
    heldout = experiments_table.read_heldout(model_dir)
    with figure_files.expecting("held-out metrics of a run", model_dir):
        metrics = {name: heldout[part.length][name] for name in METRICS}
        curve = [
            [step, round(of_step["total_loss"], 4)]
            for step, of_step in sorted(heldout.items())
        ]
    return {
        "way": part.way,
        "length": part.length,
        "seed": part.seed,
        "num_steps": part.num_steps,
        **part.run.origin(),
        "heldout": metrics,
        "curve": curve,
    }


def summarize(runs: Sequence[dict]) -> dict:
    """What the seeds say together.

    Args:
      runs: As `_record` makes them. Seeds count that have all of them.

    Returns:
      "seeds"; "lengths", for each one metric -> way -> statistics over seeds,
      and "difference", those of trunk minus straight, seed by seed; "steps" and
      "cpu_minutes", each of a way, and the "share" of the trunk; {} where no
      seed is complete.
    """
    of_seeds: dict[int, list[dict]] = {}
    for run in runs:
        of_seeds.setdefault(run["seed"], []).append(run)
    complete = {
        seed: {(run["way"], run["length"]): run for run in of_seed}
        for seed, of_seed in of_seeds.items()
        if len(of_seed) == 2 * len(LENGTHS)
    }
    if not complete:
        return {}
    lengths = []
    for length in LENGTHS:
        entry: dict = {"length": length}
        for metric in METRICS:
            values = {
                way: [
                    of_seed[way, length]["heldout"][metric]
                    for of_seed in complete.values()
                ]
                for way in (STRAIGHT, TRUNK)
            }
            pairs = zip(values[TRUNK], values[STRAIGHT], strict=True)
            values["difference"] = [after - before for after, before in pairs]
            entry[metric] = {
                name: experiments_table.statistics_of(scores)
                for name, scores in values.items()
            }
        lengths.append(entry)
    return {
        "seeds": sorted(complete),
        "lengths": lengths,
        "steps": _amounts(complete, "num_steps", 1.0),
        "cpu_minutes": _amounts(complete, "cpu_seconds", 60.0),
    }


def _amounts(
    of_seeds: Mapping[int, dict[tuple[str, int], dict]], field: str, unit: float
) -> dict:
    """What all lengths of a seed take, on average over the seeds.

    Args:
      of_seeds: Seed -> way and length -> run.
      field: Of a run; None where it is not known.
      unit: What one of the result is of the field.

    Returns:
      Way -> amount, "share" of the trunk, and "seeds", those of which all is
      known; {} without any.
    """
    known = {
        seed: runs
        for seed, runs in of_seeds.items()
        if all(run[field] is not None for run in runs.values())
    }
    if not known:
        return {}
    found: dict = {
        way: statistics.fmean(
            sum(runs[way, length][field] for length in LENGTHS) / unit
            for runs in known.values()
        )
        for way in (STRAIGHT, TRUNK)
    }
    share = found[TRUNK] / found[STRAIGHT]
    return found | {"share": share, "seeds": sorted(known)}


def blocks(figures: dict) -> dict[str, str]:
    """The tables of docs/scaling.md: name -> Markdown."""
    summary = figures["summary"]
    table = [
        [
            "steps",
            "own steps of the branch",
            "total_loss, straight",
            "from the trunk",
            "difference",
            "disc_auc, straight",
            "from the trunk",
        ]
    ]
    for entry in summary["lengths"]:
        length, loss, auc = (
            entry[name] for name in ("length", "total_loss", "disc_auc")
        )
        branch = length - first_step(length)
        table.append(
            [
                f"{length:,}",
                f"{branch:,}",
                experiments_table.spread(loss[STRAIGHT], 2),
                experiments_table.spread(loss[TRUNK], 2),
                experiments_table.difference(loss["difference"], 2),
                experiments_table.spread(auc[STRAIGHT], 3),
                experiments_table.spread(auc[TRUNK], 3),
            ]
        )
    cost = [["", "straight", "trunk and decays", "share"]]
    for name, title, form in (
        ("steps", "steps", "{:,.0f}"),
        ("cpu_minutes", "CPU minutes", "{:.1f}"),
    ):
        amounts = summary[name]
        if not amounts:
            continue
        cost.append(
            [
                title,
                *(form.format(amounts[way]) for way in (STRAIGHT, TRUNK)),
                f"{100 * amounts['share']:.1f} %",
            ]
        )
    return {
        "schedule": tables.markdown(table),
        "schedule-cost": tables.markdown(cost),
    }


def run(args: argparse.Namespace) -> int:
    """Runs what is left and writes figures, table and plot.

    Returns:
      The exit code.

    Raises:
      ValueError: On a mistake in the flags, or if the data are missing.
    """
    found = parts(
        args.output_dir, range(1, args.seeds + 1), tuple(args.gin_param)
    )
    runs = [part.run for part in found]
    if args.dry_run:
        experiment_queue.print_commands(runs)
        return 0
    queue = experiment_queue.Queue(
        [] if args.table_only else runs, args.parallel
    )
    queue.execute()
    path = os.path.join(args.output_dir, "schedule.{}")
    with figure_files.expecting("figures of finished runs", args.output_dir):
        figures = collect(found)
        figure_files.write(path.format("json"), figures)
        if figures["summary"]:
            text = "\n\n".join(blocks(figures).values()) + "\n"
            files.write_atomically(path.format("md"), text)
            schedule_plot.draw(figures, path.format("png"))
            print(text)
            print(f"written: {path.format('{json,md,png}')}")
        else:
            print("no seed is complete, so there is no table")
    return queue.exit_code()


def main(argv=None) -> int:
    """Runs the command; returns its exit code."""
    parser = arguments.ArgumentParser(prog="run_schedule", description=__doc__)
    add = parser.add_argument
    add(
        "--seeds",
        type=arguments.positive_int,
        default=3,
        help="Seeds 1, 2, ... (default: %(default)s).",
    )
    add(
        "--output-dir",
        default="build/schedule/runs",
        help="Where runs and figures go (default: %(default)s).",
    )
    add(
        "--gin-param",
        action="append",
        default=[],
        help="gin binding for all runs; may be repeated.",
    )
    experiment_queue.add_flags(parser)
    return arguments.run(run, parser, argv)


if __name__ == "__main__":
    sys.exit(main())
