"""When does pre-training help CoNLL-2003? Rates, epochs, case, and labels.

  python tools/experiments/run_ner.py

Two small models are pre-trained on the same text, one lower-cased. Then, from
the weights of each and from random ones:

  1. rates and epochs are tried on some of the labelled sentences, with the
     first model and one seed; the best on dev is the recipe of that start;
  2. so are parts of its weights (embeddings alone, layers alone), and all of
     them with word embeddings multiplied down to their first deviation;
  3. with the recipes, several seeds are trained on more and more labelled
     sentences, and scored on dev and test;
  4. both models are compared after half of the steps.

Runs, their logs and their CPU seconds are below --output_dir, the figures in
ner.json there, with tables in ner.md and a plot in ner.png. What is finished is
not run again, and what was interrupted goes on. `make ner DATA=...` builds the
data first.
"""

import argparse
import os
import pathlib
import sys

import experiment_queue
import figure_files
import ner_figures
import ner_plot
import ner_runs

from electra_tf import files
from electra_tf.command_line import arguments


def run(args: argparse.Namespace) -> int:
    """Runs what is left and writes figures, tables and plot.

    Returns:
      The exit code.

    Raises:
      ValueError: On a mistake in the flags, or if the data are missing.
    """
    options = ner_runs.Options(
        output_dir=args.output_dir,
        data_dir=args.data_dir,
        num_train_steps=args.num_train_steps,
        seeds=tuple(range(1, args.seeds + 1)),
        models=args.models,
        num_sentences=args.num_sentences,
    )
    if args.dry_run:  # What follows needs what these learn.
        experiment_queue.print_commands(ner_runs.pretraining_runs(options))
        return 0
    code = 0
    if not args.table_only:
        ner_runs.write_data(options)
        for stage in (
            ner_runs.pretraining_runs,
            ner_runs.choice_runs,
            ner_runs.chosen_runs,
        ):
            code = experiment_queue.execute(stage(options), args.parallel)
            if code:
                break
    folder = pathlib.Path(args.output_dir)
    with figure_files.expecting("figures of finished runs", folder):
        figures = ner_figures.collect(options)
        text = "\n\n".join(ner_figures.blocks(figures).values()) + "\n"
        figure_files.write(folder / "ner.json", figures)
        files.write_atomically(str(folder / "ner.md"), text)
        if figures["scores"]:
            ner_plot.draw(figures, str(folder / "ner.png"))
    print(text)
    print(f"written: {os.path.join(args.output_dir, 'ner.{json,md,png}')}")
    return code


def _models(text: str) -> tuple[str, ...]:
    names = arguments.names(text)
    unknown = sorted(set(names) - set(ner_runs.MODELS))
    if unknown or not names:
        raise argparse.ArgumentTypeError(
            f"expected some of {', '.join(ner_runs.MODELS)}, received {text!r}"
        )
    return names


def main(argv=None) -> int:
    """Runs the command; returns its exit code."""
    parser = arguments.ArgumentParser(prog="run_ner", description=__doc__)
    add = parser.add_argument
    add(
        "--models",
        type=_models,
        default=tuple(ner_runs.MODELS),
        help="Of "
        f"{','.join(ner_runs.MODELS)} (default: all, the first of them first).",
    )
    add(
        "--num-train-steps",
        type=arguments.positive_int,
        default=4000,
        help="Of pre-training (default: %(default)s).",
    )
    add(
        "--seeds",
        type=arguments.positive_int,
        default=3,
        help="Seeds 1, 2, ... of what is compared (default: %(default)s).",
    )
    add(
        "--num-sentences",
        type=arguments.positive_ints,
        default=ner_runs.NUM_SENTENCES,
        help="Labelled ones of what is compared (default: "
        f"{','.join(map(str, ner_runs.NUM_SENTENCES))}).",
    )
    add(
        "--data-dir",
        default="build/results/finetuning_data/ner",
        help="Folder of train.txt, dev.txt and test.txt "
        "(default: %(default)s).",
    )
    add(
        "--output-dir",
        default="build/ner",
        help="Where runs and figures go (default: %(default)s).",
    )
    experiment_queue.add_flags(parser)
    return arguments.run(run, parser, argv)


if __name__ == "__main__":
    sys.exit(main())
