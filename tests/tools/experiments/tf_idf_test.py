"""Tests of tf_idf.py: the words decide, and dev chooses."""

import pytest
import tf_idf

TRAIN = tf_idf.Rows(
    ["sort the rows", "join the rows", "draw a line", "draw an axis"] * 3,
    ["pandas", "pandas", "matplotlib", "matplotlib"] * 3,
)
DEV = tf_idf.Rows(["sort rows", "draw it"], ["pandas", "matplotlib"])
TEST = tf_idf.Rows(
    ["join rows", "a line", "draw rows"], ["pandas", "matplotlib", "numpy"]
)


def test_words_decide():
    baseline, model = tf_idf.fit(TRAIN, DEV, TEST)
    # Of strengths that are as good the one that regularises most.
    assert baseline.strength == min(tf_idf.STRENGTHS)
    assert baseline.dev_accuracy == 100.0
    assert baseline.test_accuracy == pytest.approx(200 / 3)
    assert list(model.predict(["the axis"])) == ["matplotlib"]


def test_without_test_rows():
    baseline, _ = tf_idf.fit(TRAIN, DEV, strengths=(1.0,))
    assert baseline == tf_idf.Baseline(1.0, False, 100.0, None, 1, 1)


def test_labels_are_balanced_where_that_is_better():
    rare = tf_idf.Rows(["good", "bad"] + ["bad"] * 8, ["pos"] + ["neg"] * 9)
    dev = tf_idf.Rows(["good", "bad"], ["pos", "neg"])
    baseline, _ = tf_idf.fit(rare, dev, strengths=(0.01,))
    assert (baseline.is_balanced, baseline.dev_accuracy) == (True, 100.0)


def test_pairs_of_words_and_words_of_two_texts_are_tried():
    texts = ["not good", "good", "not bad", "bad"]
    train = tf_idf.Rows(texts, ["neg", "pos", "pos", "neg"])
    baseline, _ = tf_idf.fit(train, train)
    assert (baseline.max_words, baseline.min_texts) == (2, 1)
    # Words of one text alone tell which row it is.
    noisy = [f"{x} row{i}" for i, x in enumerate(["good", "bad"] * 3)]
    labels = ["pos", "neg", "pos", "neg", "neg", "pos"]
    dev = tf_idf.Rows(["good row4", "bad row5"], ["pos", "neg"])
    baseline, _ = tf_idf.fit(tf_idf.Rows(noisy, labels), dev, strengths=(1e4,))
    assert baseline.min_texts == 2


def test_texts_that_have_no_word_in_common():
    rows = tf_idf.Rows(["sort", "draw"], ["pandas", "matplotlib"])
    baseline, _ = tf_idf.fit(rows, rows)
    assert (baseline.dev_accuracy, baseline.min_texts) == (100.0, 1)


def test_nothing_to_choose_is_an_error():
    with pytest.raises(ValueError, match="Expected a strength"):
        tf_idf.fit(TRAIN, DEV, strengths=())
