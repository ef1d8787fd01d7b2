"""What a user would pick instead: TF-IDF of words and logistic regression.

The baseline beside fine-tuned models: it reads the same labelled rows and no
other text. Its strength of regularisation is chosen on dev, its test rows are
scored once, and nothing of it is random.
"""

import pathlib
import typing
from collections.abc import Sequence

import build_results_data

# scikit-learn's `C`; a larger one regularises less.
STRENGTHS = (0.1, 1.0, 10.0, 100.0)
# Single words, and two that follow each other.
NGRAMS = (1, 2)
_MAX_ITERATIONS = 1000


class Rows(typing.NamedTuple):
    """Labelled texts.

    Attributes:
      texts: One or more.
      labels: As many.
    """

    texts: Sequence[str]
    labels: Sequence[str]


def read_rows(path: pathlib.Path) -> Rows:
    """The rows of a .tsv with a header, text and label.

    Raises:
      ValueError: If there are none, or it is damaged.
    """
    rows = list(build_results_data.rows(path, [0, 1], has_header=True))
    if not rows:
        raise ValueError(f"Expected labelled texts. Received: none in {path}.")
    return Rows([row[0] for row in rows], [row[1] for row in rows])


class Baseline(typing.NamedTuple):
    """What was chosen, and how often it is right, in per cent.

    Attributes:
      strength: One of `STRENGTHS`; of several that are as good the smallest.
      dev_accuracy: Of the choice.
      test_accuracy: Of the choice; None without test rows.
    """

    strength: float
    dev_accuracy: float
    test_accuracy: float | None


def fit(
    train: Rows,
    dev: Rows,
    test: Rows | None = None,
    strengths: Sequence[float] = STRENGTHS,
    solver: str = "lbfgs",
) -> tuple[Baseline, typing.Any]:
    """Fits one classifier for each strength and takes the best on dev.

    Args:
      train: The words are those of these rows, too.
      dev: Decides the strength.
      test: Scored with the choice.
      strengths: To choose from.
      solver: Of scikit-learn; "liblinear" is much faster on many rows with two
        labels.

    Returns:
      The scores, and the classifier, a pipeline of scikit-learn.
    """
    # Takes seconds.
    from sklearn import feature_extraction, linear_model, pipeline

    vectorizer = feature_extraction.text.TfidfVectorizer(
        ngram_range=NGRAMS, sublinear_tf=True
    )
    features = vectorizer.fit_transform(train.texts)
    dev_features = vectorizer.transform(dev.texts)
    best = None
    for strength in sorted(strengths):
        classifier = linear_model.LogisticRegression(
            C=strength, max_iter=_MAX_ITERATIONS, solver=solver, random_state=0
        )
        classifier.fit(features, train.labels)
        accuracy = 100.0 * classifier.score(dev_features, dev.labels)
        if best is None or accuracy > best[1]:
            model = pipeline.make_pipeline(vectorizer, classifier)
            best = strength, accuracy, model
    if best is None:
        raise ValueError("Expected a strength to choose. Received: none.")
    strength, accuracy, model = best
    on_test = None if test is None else 100.0 * model.score(*test)
    return Baseline(strength, accuracy, on_test), model
