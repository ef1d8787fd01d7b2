"""Pre-trains on reviews of films, and compares what few labels make of it.

  python tools/experiments/run_imdb.py --parallel=2

The data are those of tools/experiments/build_imdb_data.py, built into TFRecords
(`make imdb` does it). Pre-trains gin/results/imdb.gin; then fine-tunes it and
random weights on the first 100, 400, ... labelled reviews with several seeds
each, and trains logistic regression on the same, on TF-IDF,
on vectors of the pre-trained weights as they are, and on those of a latent
semantic analysis, with which their embeddings start. Below build/imdb
it writes results.json and results.png, which docs/imdb.md shows. What is
finished is not run again, and what was interrupted goes on.
"""

import argparse
import functools
import os
import pathlib
import sys
import time
from collections.abc import Callable, Sequence

import experiment_queue
import figure_files
import frozen_features
import imdb_plot
import imdb_runs
import imdb_table
import latent_features
import ner_parts
import numpy as np
import tf_idf
from experiment_runs import Run

from electra_tf import configs, files
from electra_tf.command_line import arguments, progress

_BUILD = "build/imdb"
# A hundred reviews want much regularization, thousands of them little.
_STRENGTHS = (0.01, *tf_idf.STRENGTHS, 1e3, 1e4)


def run(args: argparse.Namespace) -> int:
    """Runs what is left, and writes the results.

    Returns:
      The exit code.

    Raises:
      ValueError: If data are missing, or on a mistake in a binding.
    """
    sizes = args.sizes or tuple(imdb_runs.NUM_EPOCHS)
    params = tuple(args.finetuning_gin_param)
    again = args.pretraining
    pretraining = imdb_runs.pretraining(tuple(args.gin_param), again, _BUILD)
    contestants: tuple[str, ...] = (*imdb_runs.STARTS, *imdb_runs.LINEAR)
    if not args.embeddings_alone:
        contestants = tuple(c for c in contestants if c != "embeddings")
    if again > 1:
        contestants = imdb_runs.OF_PRETRAINING
    finetuning = [
        imdb_runs.finetuning(start, size, _BUILD, args.seeds, params, again)
        for size in sizes
        for start in imdb_runs.STARTS
        if start in contestants
    ]
    if args.dry_run:
        experiment_queue.print_commands([pretraining, *finetuning])
        return 0
    code = 0
    if not args.table_only:
        _refuse_missing_data(sizes)
        _refuse_changed_data(sizes)
        if "tfidf" in contestants:
            for size in sizes:
                _score_tfidf(size)
        made = [
            finetuned.model_dir
            for finetuned in finetuning
            if pretraining.model_dir in finetuned.needs
        ] + [
            str(imdb_runs.linear_path(_BUILD, features, size, again))
            for size in sizes
            for features in ("frozen", "latent")
        ]
        if reason := experiment_queue.left_behind(pretraining, made):
            raise ValueError(
                f"Expected nothing of another run. Received: {reason}"
            )
        code = experiment_queue.execute([pretraining], 1)
    if not args.table_only and code == 0:
        if "embeddings" in contestants:
            ner_parts.write(
                pretraining.model_dir,
                "embeddings",
                imdb_runs.init_checkpoint("embeddings", _BUILD),
            )
        for features in ("frozen", "latent"):
            if features in contestants:
                _score_vectors(features, pretraining, sizes, again)
        code = experiment_queue.execute(finetuning, args.parallel)
    _write_results(tuple(args.gin_param), params, args.earlier)
    return code


def _refuse_missing_data(sizes: tuple[int, ...]) -> None:
    names = ["vocab.txt", "tfrecords/manifest.json"]
    names += ["labelled/dev.tsv", "labelled/test.tsv"]
    names += [f"labelled/train_{size}.tsv" for size in sizes]
    for name in names:
        path = os.path.join(_BUILD, name)
        if not os.path.isfile(path):
            raise ValueError(
                "Expected the data that make imdb DATA=<folder> builds. "
                f"Received: no {path}."
            )


def _refuse_changed_data(sizes: tuple[int, ...]) -> None:
    """Refuses labelled reviews that are not those of the runs that are there.

    Raises:
      ValueError: If they were built again, of others.
    """
    path = pathlib.Path(_BUILD, "runs", "labelled.json")
    known = files.read_json(path) if path.is_file() else {}
    for name in (
        *(f"train_{size}.tsv" for size in sizes),
        "dev.tsv",
        "test.tsv",
    ):
        digest = files.sha256_of_file(os.path.join(_BUILD, "labelled", name))
        if known.setdefault(name, digest) != digest:
            raise ValueError(
                f"Expected the labelled reviews of the runs that are there. "
                f"Received: another {name}; move {path.parent} away."
            )
    figure_files.write(path, known)


def _score_tfidf(size: int) -> None:
    """TF-IDF on some labelled reviews, unless that is done."""
    path = imdb_runs.linear_path(_BUILD, "tfidf", size)
    if path.is_file():
        return
    print(f"TF-IDF {size:,}", file=sys.stderr)
    started = time.process_time()
    train, dev, test = map(_read_rows, (f"train_{size}", "dev", "test"))
    found, _ = tf_idf.fit(train, dev, test, _STRENGTHS, "liblinear")
    _write_linear(path, found, time.process_time() - started)


def _score_vectors(
    features: str, pretraining: Run, sizes: Sequence[int], again: int
) -> None:
    """What means of vectors know, unless that is done.

    Args:
      features: "frozen", of the pre-trained weights, or "latent", of what they
        start with.
      pretraining: The run.
      sizes: Numbers of labels.
      again: Which pre-training it is.
    """
    paths = {
        size: imdb_runs.linear_path(_BUILD, features, size, again)
        for size in sizes
    }
    left = {size: path for size, path in paths.items() if not path.is_file()}
    if not left:
        return
    read: Callable[..., np.ndarray]
    if features == "frozen":
        read = functools.partial(frozen_features.read, pretraining.model_dir)
    else:
        assert isinstance(pretraining.config, configs.PretrainingConfig)
        read = latent_features.Reader(pretraining.config).read
    found = {}
    for name in (f"train_{max(left)}", "dev", "test"):
        rows = _read_rows(name)
        bar = progress.Progress(f"vectors of {name}", len(rows.texts))
        vectors = read(rows.texts, report=bar.update)
        bar.close()
        found[name] = vectors, rows.labels
    (vectors, labels), dev, test = found.values()
    for size, path in left.items():
        started = time.process_time()
        train = vectors[:size], labels[:size]
        scores = frozen_features.fit(train, dev, test)
        _write_linear(path, scores, time.process_time() - started)


def _write_linear(
    path: pathlib.Path, found: tf_idf.Baseline, seconds: float
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    record = found._asdict() | {"cpu_seconds": seconds}
    files.write_json(str(path), record, indent=None)


def _read_rows(name: str) -> tf_idf.Rows:
    path = pathlib.Path(_BUILD, "labelled", f"{name}.tsv")
    return tf_idf.read_rows(path)


def _write_results(
    pretraining_params: tuple[str, ...],
    finetuning_params: tuple[str, ...],
    earlier: str,
) -> None:
    """Writes what is known of all runs that are there, and of earlier ones."""
    path = os.path.join(_BUILD, "results.{}")
    with figure_files.expecting("figures of finished runs", _BUILD):
        figures = imdb_runs.collect(
            _BUILD, pretraining_params, finetuning_params
        )
        if earlier:
            figures = imdb_runs.with_earlier(figures, files.read_json(earlier))
        tables = imdb_table.blocks(figures)
        figure_files.write(path.format("json"), figures)
        imdb_plot.draw(figures, path.format("png"))
    print(tables["accuracy"])
    print(f"written: {path.format('{json,png}')}")


def _sizes(text: str) -> tuple[int, ...]:
    known = {str(size): size for size in imdb_runs.NUM_EPOCHS}
    try:
        sizes = [known[part.strip()] for part in text.split(",")]
    except KeyError:
        raise argparse.ArgumentTypeError(
            f"expected some of {','.join(known)}, received {text!r}"
        ) from None
    return tuple(dict.fromkeys(sizes))


def main(argv=None) -> int:
    """Runs the command; returns its exit code."""
    parser = arguments.ArgumentParser(prog="run_imdb", description=__doc__)
    add = parser.add_argument
    add(
        "--sizes",
        type=_sizes,
        default=(),
        help="Numbers of labelled reviews, separated by commas (default: all).",
    )
    add(
        "--seeds",
        type=arguments.positive_int,
        default=5,
        help="Models of each kind (default: %(default)s).",
    )
    add(
        "--pretraining",
        type=arguments.positive_int,
        default=1,
        help="Which pre-training to run and to fine-tune: 2, 3, ... have other "
        "seeds, and only what depends on it is run again (default: "
        "%(default)s).",
    )
    add(
        "--embeddings-alone",
        action="store_true",
        help="Fine-tune, too, the pre-trained embeddings with layers from "
        "random weights.",
    )
    add(
        "--earlier",
        default="",
        help="Figures of runs that are gone, such as docs/figures/imdb.json: "
        "other pre-trainings and choices, which come into the tables as well.",
    )
    for name, what in (("", "pre-training"), ("finetuning-", "fine-tuning")):
        add(
            f"--{name}gin-param",
            action="append",
            default=[],
            help=f"gin binding for all {what}; may be repeated.",
        )
    experiment_queue.add_flags(parser)
    return arguments.run(run, parser, argv)


if __name__ == "__main__":
    sys.exit(main())
