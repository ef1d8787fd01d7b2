import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import electra_tf
from electra_tf.tasks import tagging
from tests import notices
from tests.keras_models import tasks
from tests.keras_models.tasks import TEXTS

LABELS = ["O", "B-X", "I-X"]
# The first word of "wa" or "wb" on begins a span.
TAGS = [
    [LABELS[1] if w == "wa" else LABELS[0] for w in text.split()]
    for text in TEXTS
]
WORDS = [text.split() for text in TEXTS]


def tagger(pretrained, **kwargs):
    return electra_tf.TokenClassifier.from_checkpoint(
        pretrained, **({"labels": LABELS, "seed": 5} | kwargs)
    )


def ids_of_words(pretrained):
    """What a model without a preprocessor takes: ids, and labels as numbers."""
    found = tagger(pretrained)
    return found._of_keras(found.features(WORDS, TAGS))


@pytest.fixture(scope="module")
def trained(pretrained):
    found = tagger(pretrained)
    found.fit(WORDS, TAGS, batch_size=8, epochs=2, verbose=0)
    return found


def test_words_and_labels_in_every_form(pretrained, trained):
    found = trained
    expected = found.features(WORDS, TAGS)
    ids = [[LABELS.index(tag) for tag in tags] for tags in TAGS]
    texts = [" ".join(tags) for tags in TAGS]
    for x, y in (
        *((TEXTS, texts), (np.array(TEXTS), ids), (WORDS, texts)),
        (tuple(WORDS), tuple(TAGS)),
    ):
        tasks.assert_equal_bits(
            found.features(found.read_inputs(x), y), expected
        )
    expected = found.evaluate(WORDS, TAGS, return_dict=True, verbose=0)
    ragged = tf.ragged.constant(WORDS), tf.ragged.constant(TAGS)
    for rows in ((TEXTS, texts), ragged):
        dataset = tf.data.Dataset.from_tensor_slices(rows).batch(6)
        scores = found.evaluate(dataset, return_dict=True, verbose=0)
        assert scores == pytest.approx(expected, rel=1e-5)


def test_predictions_are_of_the_words_given(trained):
    found = trained
    # "\u200b" has no token, and the last words do not fit.
    rows = [["wa", "\u200b", "wb"], ["wc"], ["wd"] * 20]
    probabilities = found.predict(rows, verbose=0)
    assert probabilities.shape == (3, 20, 3)
    sums = probabilities.sum(axis=-1)
    np.testing.assert_allclose(sums[0, :4], [1, 0, 1, 0], atol=1e-6)
    np.testing.assert_allclose(sums[2], [1] * 10 + [0] * 10, atol=1e-6)
    names = found.decode_predictions(probabilities)
    assert [len(row) for row in names] == [3, 1, 10]
    assert names[0][1] is None
    np.testing.assert_allclose(
        found.predict(["wa wb"], verbose=0)[0],
        probabilities[0, [0, 2]],
        atol=1e-6,
    )
    texts = tf.data.Dataset.from_tensor_slices([" ".join(row) for row in rows])
    np.testing.assert_allclose(
        found.predict(texts.batch(2), verbose=0), probabilities, atol=1e-6
    )


def test_what_is_not_read_is_told(trained):
    said = notices.of(trained.predict, [["wa"] * 20, ["zz"]], verbose=0)
    assert "1 of 2 rows are [UNK] for the most part" in said[0]
    assert "x: 10 of 21 words got no tag: they are behind 12" in said[1]
    said = notices.of(trained.evaluate, WORDS, TAGS, verbose=0)
    assert not said


def test_metrics_that_count_padding_are_told(pretrained):
    found = tagger(pretrained)
    with pytest.warns(UserWarning, match="weighted_metrics= leaves it out"):
        found.compile(metrics=["accuracy"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found.compile(weighted_metrics=["accuracy"])
        found.compile(metrics=[])


@pytest.mark.dear
def test_weighted_metrics_leave_padding_out(pretrained):
    found = tagger(pretrained)
    found.compile(
        weighted_metrics=[
            keras.metrics.SparseCategoricalAccuracy(name="of_words")
        ]
    )
    of_keras = found.evaluate(WORDS, TAGS, return_dict=True, verbose=0)
    found.compile()
    ours = found.evaluate(WORDS, TAGS, return_dict=True, verbose=0)
    assert of_keras["of_words"] == pytest.approx(ours["accuracy"], abs=1e-6)


@pytest.mark.parametrize("is_of_tokens", [False, True])
def test_weights_of_rows_and_of_tokens(pretrained, is_of_tokens):
    x, y = ids_of_words(pretrained)
    found = tagger(pretrained, preprocessor=None)
    found.compile(
        "sgd",
        "sparse_categorical_crossentropy",
        metrics=None,
        run_eagerly=True,
    )
    weights = np.linspace(0.0, 2.0, y.size, dtype=np.float32).reshape(y.shape)
    if not is_of_tokens:
        weights = weights[:, :1]
    of_true = np.take_along_axis(found(x).numpy(), y[..., None], -1)
    losses = -np.log(of_true[..., 0]) * x["labels_mask"] * weights
    given = weights if is_of_tokens else weights[:, 0]
    assert found.test_on_batch(x, y, given) == pytest.approx(
        losses.mean(), rel=1e-5
    )


def test_answers_in_the_scheme_of_the_file(pretrained):
    task = tagging.TaggingTask(
        "ner", {}, is_token_level=False, labels=["O", "S-X", "B-X", "E-X"]
    )
    task.scheme = "BIO"
    found = electra_tf.TokenClassifier.from_checkpoint(pretrained, task=task)
    assert found.labels == ("O", "B-X", "B-X", "I-X")
    # A word without a label is not learned.
    for tags in (["B-X", -100, "I-X", "B-X"], [2, -100, 3, 1]):
        features = found.features([["wa", "wb", "wc", "wa"]], [tags])
        assert features["ner_labels"][0, :3].tolist() == [2, 3, 1]
        assert features["ner_labeled_positions"][0, :3].tolist() == [1, 3, 4]
    assert found.decode_predictions(np.eye(4)[np.newaxis]) == [
        ["O", "B-X", "B-X", "I-X"]
    ]
    task.scheme = "IOB1"  # In which B- is for a span right behind another.
    iob1 = electra_tf.TokenClassifier.from_checkpoint(pretrained, task=task)
    answer = iob1.decode_predictions([np.eye(4)[[2, 3, 1, 0, 1]]])
    assert answer == [["I-X", "I-X", "B-X", "O", "I-X"]]
    unseen = np.diag([1, 0, 1, 1])[[2, 1, 3]]
    assert iob1.decode_predictions([unseen]) == [["I-X", None, "I-X"]]
    with pytest.raises(ValueError, match="Expected a task of regression"):
        electra_tf.TextRegressor.from_checkpoint(pretrained, task=task)
    example = tagging.TaggingExample(0, ("wa", "wb"), ("S-X", "O"))
    assert found.fit([example] * 2, verbose=0).history["loss"][0] > 0


BAD = {
    "Expected .*list": (
        lambda m: m.predict("wa wb"),
        lambda m: m.predict([3.5]),
    ),
    "words as strings": (lambda m: m.predict([["wa", 3]]),),
    "1 labels for the 2 words of row 0": (
        lambda m: m.fit([["wa", "wb"]], [["O"]]),
    ),
    "'O', 'B-X', 'I-X'. Received: 'B-Y'": (
        lambda m: m.fit([["wa"]], [["B-Y"]]),
    ),
    "class_weight": (lambda m: m.fit(WORDS, TAGS, class_weight={"O": 2.0}),),
    "labels=None": (
        lambda m: electra_tf.TokenClassifier.from_checkpoint(
            m.to_checkpoint().encoder_only()
        ),
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_use(trained, message):
    for use in BAD[message]:
        with pytest.raises(ValueError, match=message):
            use(trained)
