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
    assert baseline == tf_idf.Baseline(1.0, 100.0, None)


def test_nothing_to_choose_is_an_error():
    with pytest.raises(ValueError, match="Expected a strength"):
        tf_idf.fit(TRAIN, DEV, strengths=())
