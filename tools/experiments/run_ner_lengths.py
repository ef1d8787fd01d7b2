"""How long must pre-training be to help CoNLL-2003? From runs that are there.

  python tools/experiments/run_ner_lengths.py --conll_dir=DATA/conll2003

A start is a row and a budget of run_experiments.py (`objectives`, seed 1); its
weights, and random ones of the same network, are fine-tuned on named entities:

  1. rates are tried on some of the labelled sentences, one seed each, without
     the test part; the best on dev is the recipe of that start;
  2. with it several seeds are trained on more and more labelled sentences, and
     scored on dev and test.

Runs, their logs and their CPU seconds are below --output_dir, the figures in
ner_lengths.json there. What is finished is not run again, and what was
interrupted goes on. docs/experiments_results.md has what came out.
"""

import argparse
import dataclasses
import json
import os
import sys
import typing

import experiment_queue
import experiment_runs
import experiments_table
import figure_files
import ner_figures
import ner_runs
from experiment_runs import Run
from experiment_suites import SUITES
from ner_runs import SCRATCH

from electra_tf import files, model_directory
from electra_tf.command_line import arguments

_SUITE = SUITES["objectives"]
_TITLES = {row.name: row.title for row in _SUITE.rows}
_STARTS = ("electra/2.4e13", "electra/9.6e13", "bert/9.6e13")
_LEARNING_RATES = (2e-4, 5e-4, 1e-3, 2e-3)
_NUM_SENTENCES = (3000, 14041)
FIGURES = "ner_lengths.json"


class Start(typing.NamedTuple):
    """What fine-tuning begins with.

    Attributes:
      name: Of its folders: "electra_9.6e13".
      title: For people.
      model_dir: Of its pre-training.
    """

    name: str
    title: str
    model_dir: str


def starts(names: tuple[str, ...], runs_dir: str) -> list[Start]:
    """Random weights, then what is asked for, in its order.

    Args:
      names: Such as "electra/9.6e13".
      runs_dir: --output_dir of run_experiments.py.

    Raises:
      ValueError: If there is no such run, or nothing is asked for.
    """
    found = []
    for name in names:
        row, _, budget = name.partition("/")
        model_dir = os.path.join(
            runs_dir, "objectives", row, budget, "seed_1", "pretraining"
        )
        path = os.path.join(model_dir, model_directory.EVAL_RESULTS_FILE)
        if row not in _TITLES or not budget or not os.path.isfile(path):
            raise ValueError(
                "Expected starts such as electra/9.6e13, whose pre-training "
                f"by run_experiments.py is finished. Received: {name!r}, and "
                f"no {path}"
            )
        title = f"{_TITLES[row]}, {budget} FLOPs"
        found.append(Start(f"{row}_{budget}", title, model_dir))
    if not found:
        raise ValueError("Expected --starts. Received: none")
    # Its sizes and vocabulary are those of the first.
    return [Start(SCRATCH, "nothing", found[0].model_dir), *found]


def choice_run(start: Start, options: ner_runs.FinetuningOptions) -> Run:
    """Several rates of a start, one seed each."""
    return _run(
        start,
        os.path.join("choices", start.name),
        options,
        options.data_of(ner_runs.NUM_CHOICE_SENTENCES, False),
        (
            f"FinetuningConfig.learning_rates={_LEARNING_RATES}",
            "FinetuningConfig.num_trials=1",
        ),
        ner_runs.NUM_CHOICE_SENTENCES * len(_LEARNING_RATES),
    )


def score_run(
    start: Start,
    number: int,
    rate: float,
    options: ner_runs.FinetuningOptions,
) -> Run:
    """A start with its rate on so many sentences, all seeds."""
    return _run(
        start,
        os.path.join(str(number), start.name),
        options,
        options.data_of(number, True),
        (
            f"OptimizerConfig.learning_rate={rate}",
            f"FinetuningConfig.num_trials={len(options.seeds)}",
        ),
        number * len(options.seeds),
    )


def _run(start, name, options, data_dir, params, weight) -> Run:
    run = ner_runs.finetuning_run(
        f"ner lengths {name}",
        os.path.join(options.output_dir, name),
        start.model_dir,
        (
            *params,
            f"FinetuningDataConfig.num_train_epochs={ner_runs.COMPARED_EPOCHS}",
            f"FinetuningConfig.from_scratch={start.name == SCRATCH}",
            f"FinetuningDataConfig.data_dir={json.dumps(data_dir)}",
        ),
        min(options.seeds),
        weight,
    )
    # Pre-training is another command's.
    return dataclasses.replace(run, needs=())


def score_runs(
    found: list[Start], options: ner_runs.FinetuningOptions
) -> dict[tuple[str, int], Run]:
    """By start and number of sentences; none before the choice of rates."""
    return {
        (start.name, number): score_run(
            start, number, best.learning_rate, options
        )
        for number in options.num_sentences
        for start in found
        if (best := ner_runs.best_of(_settings(start, options)))
    }


def _settings(
    start: Start, options: ner_runs.FinetuningOptions
) -> list[ner_runs.Setting]:
    return ner_runs.settings_of(choice_run(start, options))


def collect(found: list[Start], options: ner_runs.FinetuningOptions) -> dict:
    """The figures of what is finished.

    Returns:
      "titles" of the starts; "pretraining", held-out metrics and steps of each;
      "choices", what was tried; "scores" and "differences" as in
      `ner_figures.collect`.

    Raises:
      ValueError: If results are damaged, or not of the same data.
    """
    pretraining = {}
    for start in found[1:]:
        path = os.path.join(start.model_dir, model_directory.EVAL_RESULTS_FILE)
        with figure_files.expecting("held-out metrics", path):
            metrics = files.read_json(path, step=int)
        pretraining[start.name] = {
            name: metrics[name]
            for name in ("step", *experiments_table.HELDOUT)
            if name in metrics
        }
    scored = {
        key: run
        for key, run in score_runs(found, options).items()
        if experiment_runs.is_of_table(run) and run.trials()
    }
    for number in options.num_sentences:
        experiment_runs.refuse_unlike(
            [run.model_dir for key, run in scored.items() if key[1] == number],
            "rows",
        )
    scores = [
        {"model": "", "start": name, "num_sentences": number}
        | ner_figures.scores_of(run)
        for (name, number), run in scored.items()
    ]
    return {
        "titles": {start.name: start.title for start in found},
        "pretraining": pretraining,
        "choices": {
            start.name: [s._asdict() for s in settings]
            for start in found
            if (settings := _settings(start, options))
        },
        "scores": scores,
        "differences": ner_figures.differences(scores),
    }


def blocks(figures: dict) -> dict[str, str]:
    """The table of docs/experiments_results.md, by its name."""
    return {"ner-lengths": ner_figures.scores_table(figures, figures["titles"])}


def run(args: argparse.Namespace) -> int:
    """Runs what is left and writes the figures; returns the exit code.

    Raises:
      ValueError: On a mistake in the flags, or if the data are missing.
    """
    found = starts(args.starts, args.runs_dir)
    options = ner_runs.FinetuningOptions(
        output_dir=args.output_dir,
        data_dir=args.conll_dir,
        seeds=tuple(range(1, args.seeds + 1)),
        num_sentences=args.num_sentences,
    )
    choices = [choice_run(start, options) for start in found]
    if args.dry_run:  # What follows needs what these learn.
        experiment_queue.print_commands(choices)
        return 0
    code = 0
    if not args.table_only:
        ner_runs.write_data(options)
        code = experiment_queue.execute(choices, args.parallel)
        code = code or experiment_queue.execute(
            list(score_runs(found, options).values()), args.parallel
        )
    path = os.path.join(args.output_dir, FIGURES)
    with figure_files.expecting("figures of finished runs", args.output_dir):
        figures = collect(found, options)
        (table,) = blocks(figures).values()
    figure_files.write(path, figures)
    print(f"{table}\n\nwritten: {path}")
    return code


def main(argv=None) -> int:
    """Runs the command; returns its exit code."""
    parser = arguments.ArgumentParser(
        prog="run_ner_lengths", description=__doc__
    )
    add = parser.add_argument
    add(
        "--starts",
        type=arguments.names,
        default=_STARTS,
        help="Rows and budgets of run_experiments.py (default: "
        f"{','.join(_STARTS)}).",
    )
    add(
        "--runs-dir",
        default="build/experiments/texts_runs",
        help="Its --output_dir (default: %(default)s).",
    )
    add(
        "--seeds",
        type=arguments.positive_int,
        default=3,
        help="Seeds 1, 2, ... of fine-tuning (default: %(default)s).",
    )
    add(
        "--num-sentences",
        type=arguments.positive_ints,
        default=_NUM_SENTENCES,
        help="Labelled ones of what is compared (default: "
        f"{','.join(map(str, _NUM_SENTENCES))}).",
    )
    add(
        "--conll-dir",
        required=True,
        help="Folder of train.txt, test.txt, and dev.txt or valid.txt.",
    )
    add(
        "--output-dir",
        default="build/ner_lengths",
        help="Where runs and figures go (default: %(default)s).",
    )
    experiment_queue.add_flags(parser)
    return arguments.run(run, parser, argv)


if __name__ == "__main__":
    sys.exit(main())
