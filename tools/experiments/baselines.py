"""What a user would take instead of a network, on the same labelled rows.

  python tools/experiments/baselines.py --train_file=train.tsv \\
      --dev_file=dev.tsv --test_file=test.tsv --output_dir=build/tfidf

Logistic regression on TF-IDF of words. Words alone or with pairs, all or those
of two rows and more, labels as they are or balanced, and the strength of
regularisation are chosen on dev; test rows are scored once, and nothing is
random.

results.json in the output folder has the accuracy in per cent, laid out like
that of run_finetuning, and what was chosen.
"""

import argparse
import itertools
import pathlib
import sys
import typing
from collections.abc import Sequence

from electra_tf import files, model_directory
from electra_tf.command_line import arguments

# scikit-learn's `C`, a larger one regularises less: a hundred texts want much
# of it, thousands of them little.
STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4)
_MAX_ITERATIONS = 1000


# Texts, and as many labels.
Rows = tuple[Sequence[str], Sequence[str]]


def read_rows(path: pathlib.Path) -> Rows:
    """The rows of a .tsv with the header text and label.

    Raises:
      ValueError: If there are none, or it is another file.
    """
    header, *lines = path.read_text("utf-8").splitlines() or [""]
    rows = [tuple(line.split("\t")) for line in lines]
    if header != "text\tlabel" or {len(row) for row in rows} != {2}:
        raise ValueError(
            "Expected rows of text and label, tab-separated under a header of "
            f"these names. Received: {path}"
        )
    texts, labels = zip(*rows, strict=True)
    return texts, labels


def fit_tfidf(train: Rows, dev: Rows) -> tuple[dict, typing.Any]:
    """The classifier that is best on dev, of all choices there are.

    Args:
      train: The words are those of these rows.
      dev: Decides; of choices that are as good the first, with the fewest words
        and the most regularisation.

    Returns:
      What was chosen, with "dev_accuracy" in per cent; a pipeline of
      scikit-learn.
    """
    # Takes seconds.
    from sklearn import feature_extraction, linear_model, pipeline

    # Much faster on many rows, and for two labels alone.
    solver = "liblinear" if len(set(train[1])) == 2 else "lbfgs"
    best: tuple[dict, typing.Any] = {"dev_accuracy": -1.0}, None
    for max_words, min_texts in itertools.product((1, 2), (1, 2)):
        vectorizer = feature_extraction.text.TfidfVectorizer(
            ngram_range=(1, max_words), min_df=min_texts, sublinear_tf=True
        )
        words = vectorizer.fit_transform(train[0])
        dev_words = vectorizer.transform(dev[0])
        for weights, strength in itertools.product(
            (None, "balanced"), STRENGTHS
        ):
            model = linear_model.LogisticRegression(
                C=strength,
                class_weight=weights,
                max_iter=_MAX_ITERATIONS,
                solver=solver,
                random_state=0,
            ).fit(words, train[1])
            accuracy = 100.0 * model.score(dev_words, dev[1])
            if accuracy > best[0]["dev_accuracy"]:
                chosen = {
                    "dev_accuracy": accuracy,
                    "max_words": max_words,
                    "min_texts": min_texts,
                    "class_weight": weights,
                    "strength": strength,
                }
                best = chosen, pipeline.make_pipeline(vectorizer, model)
    return best


def run(args: argparse.Namespace) -> None:
    """Fits the baseline and writes what it scores.

    Raises:
      ValueError: If a file is not of labelled rows.
    """
    train, dev, test = map(
        read_rows, (args.train_file, args.dev_file, args.test_file)
    )
    chosen, model = fit_tfidf(train, dev)
    trial = {
        "dev": {"accuracy": chosen["dev_accuracy"]},
        "test": {"accuracy": 100.0 * model.score(*test)},
    }
    args.output_dir.mkdir(parents=True, exist_ok=True)
    path = args.output_dir / model_directory.RESULTS_FILE
    files.write_json(str(path), {"trials": [trial], "chosen": chosen})


def main(argv: Sequence[str] | None = None) -> int:
    """Parses the flags and runs; returns the exit code."""
    parser = arguments.ArgumentParser("baselines", __doc__)
    for name in ("train-file", "dev-file", "test-file", "output-dir"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    return arguments.run(run, parser, argv)


if __name__ == "__main__":
    sys.exit(main())
