"""Texts -> TF-IDF of words and pairs of words -> logistic regression.

What scikit-learn's users take for texts with labels, to compare with. Its one
choice, how much it is regularized, is made on the dev rows.
"""

import csv
import pathlib
import time
import typing
from collections.abc import Sequence

# Inverse strength of the regularization.
STRENGTHS = (0.1, 1.0, 10.0, 100.0, 1000.0)
_WORDS = (1, 2)


class Rows(typing.NamedTuple):
    """Texts and their labels, in one order."""

    texts: list[str]
    labels: list[str]


def read_rows(path: pathlib.Path) -> Rows:
    """The rows of a .tsv with the columns text and label; quotes mean nothing.

    Raises:
      ValueError: If it has other columns.
    """
    with open(path, encoding="utf-8", newline="") as f:
        header, *rows = csv.reader(
            (line.rstrip("\r\n") for line in f if line.strip()),
            delimiter="\t",
            quoting=csv.QUOTE_NONE,
        )
    if header != ["text", "label"]:
        raise ValueError(
            f"Expected the columns text and label. Received: {path}, {header}."
        )
    return Rows([row[0] for row in rows], [row[1] for row in rows])


def score(
    train: Rows,
    dev: Rows,
    test: Rows,
    strengths: Sequence[float] = STRENGTHS,
) -> dict[str, float]:
    """Trains for each strength, chooses on dev, scores test with that one.

    Returns:
      "strength" (C), "dev" and "test" (accuracy, per cent), "num_features" and
      "cpu_seconds" of all of it.
    """
    # Takes a while.
    from sklearn import linear_model
    from sklearn.feature_extraction import text

    started = time.process_time()
    vectorizer = text.TfidfVectorizer(ngram_range=_WORDS, sublinear_tf=True)
    features = vectorizer.fit_transform(train.texts)
    dev_features = vectorizer.transform(dev.texts)
    best: tuple[float, float, typing.Any] = (-1.0, 0.0, None)
    for strength in strengths:
        model = linear_model.LogisticRegression(
            C=strength, solver="liblinear", random_state=0
        )
        model.fit(features, train.labels)
        on_dev = 100.0 * model.score(dev_features, dev.labels)
        if on_dev > best[0]:
            best = on_dev, strength, model
    on_dev, strength, model = best
    on_test = 100.0 * model.score(vectorizer.transform(test.texts), test.labels)
    return {
        "strength": strength,
        "dev": on_dev,
        "test": on_test,
        "num_features": len(vectorizer.vocabulary_),
        "cpu_seconds": time.process_time() - started,
    }
