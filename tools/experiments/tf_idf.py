"""What a user would pick instead: TF-IDF of words and logistic regression.

The baseline beside fine-tuned models: it reads the same labelled rows and no
other text. What words count, how labels weigh and the strength of
regularisation are chosen on dev, test rows are scored once, and nothing of it
is random.
"""

import itertools
import pathlib
import typing
from collections.abc import Sequence

import build_results_data

# scikit-learn's `C`; a larger one regularises less.
STRENGTHS = (0.1, 1.0, 10.0, 100.0)
# Single words, or two that follow each other as well; all of them, or those
# that are in two rows.
_MAX_WORDS = (1, 2)
_MIN_TEXTS = (1, 2)
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
      strength: One of `STRENGTHS`.
      is_balanced: Whether rare labels weigh more, so that all of them count
        alike.
      dev_accuracy: Of the choice.
      test_accuracy: Of the choice; None without test rows.
      max_words: 1 for single words, 2 for pairs of them as well; None where
        no words are read.
      min_texts: In how many training rows a word must be to count; likewise.
    """

    strength: float
    is_balanced: bool
    dev_accuracy: float
    test_accuracy: float | None
    max_words: int | None = None
    min_texts: int | None = None


class _Choice(typing.NamedTuple):
    """What was tried: a score and what had it."""

    dev_accuracy: float
    strength: float
    is_balanced: bool
    model: typing.Any


def fit(
    train: Rows,
    dev: Rows,
    test: Rows | None = None,
    strengths: Sequence[float] = STRENGTHS,
    solver: str = "lbfgs",
) -> tuple[Baseline, typing.Any]:
    """Fits a classifier for each choice there is and takes the best on dev.

    Words alone or with pairs of them, all or those of two rows and more, labels
    as they are or balanced, and each strength: what one would try.

    Args:
      train: The words are those of these rows, too.
      dev: Decides; of choices that are as good the first, with the fewest words
        and the smallest strength.
      test: Scored with the choice.
      strengths: To choose from.
      solver: Of scikit-learn; "liblinear" is much faster on many rows with two
        labels.

    Returns:
      The scores, and the classifier, a pipeline of scikit-learn.
    """
    # Takes seconds.
    from sklearn import feature_extraction, pipeline

    best: tuple | None = None
    for max_words, min_texts in itertools.product(_MAX_WORDS, _MIN_TEXTS):
        vectorizer = feature_extraction.text.TfidfVectorizer(
            ngram_range=(1, max_words), min_df=min_texts, sublinear_tf=True
        )
        try:
            words = vectorizer.fit_transform(train.texts)
        except ValueError:
            if min_texts == 1:
                raise
            continue  # No word is in so many of them.
        found = choose(
            (words, train.labels),
            (vectorizer.transform(dev.texts), dev.labels),
            strengths,
            solver,
        )
        if best is None or found.dev_accuracy > best[0].dev_accuracy:
            best = found, vectorizer, max_words, min_texts
    assert best is not None
    found, vectorizer, max_words, min_texts = best
    model = pipeline.make_pipeline(vectorizer, found.model)
    baseline = Baseline(
        found.strength,
        found.is_balanced,
        found.dev_accuracy,
        None if test is None else 100.0 * model.score(*test),
        max_words,
        min_texts,
    )
    return baseline, model


def choose(
    train: tuple[typing.Any, Sequence[str]],
    dev: tuple[typing.Any, Sequence[str]],
    strengths: Sequence[float],
    solver: str = "lbfgs",
) -> _Choice:
    """The classifier that is best on dev, of all strengths, balanced or not.

    Args:
      train: A matrix [N, features], and labels.
      dev: Likewise.
      strengths: To choose from.
      solver: See `fit`.

    Raises:
      ValueError: If there is nothing to choose from.
    """
    from sklearn import linear_model

    best: _Choice | None = None
    for is_balanced, strength in itertools.product(
        (False, True), sorted(strengths)
    ):
        model = linear_model.LogisticRegression(
            C=strength,
            class_weight="balanced" if is_balanced else None,
            max_iter=_MAX_ITERATIONS,
            solver=solver,
            random_state=0,
        )
        model.fit(*train)
        accuracy = 100.0 * model.score(*dev)
        if best is None or accuracy > best.dev_accuracy:
            best = _Choice(accuracy, strength, is_balanced, model)
    if best is None:
        raise ValueError("Expected a strength to choose. Received: none.")
    return best
