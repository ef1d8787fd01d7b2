import warnings

import numpy as np
import pytest
import tensorflow as tf

import electra_tf
from electra_tf.checkpoints.formats import huggingface
from tests.checkpoints import models
from tests.keras_models.tasks import TEXTS

VALUES = [1.0 + len(text.split()) / 2 for text in TEXTS]


def regressor(pretrained, **kwargs):
    return electra_tf.TextRegressor.from_checkpoint(
        pretrained, **({"seed": 5} | kwargs)
    )


@pytest.fixture(scope="module")
def trained(pretrained):
    found = regressor(pretrained)
    found.fit(TEXTS, VALUES, batch_size=8, epochs=2, verbose=0)
    assert found.unit == (1.5, 2.5)
    return found


def test_in_the_unit_of_the_labels(trained):
    found = trained
    predictions = found.predict(TEXTS, verbose=0)
    assert predictions.shape == (20,)
    loss, mse = found.evaluate(TEXTS, VALUES, verbose=0)
    expected = np.mean(np.square(predictions - VALUES))
    assert mse == pytest.approx(expected, rel=1e-5)
    assert loss == pytest.approx(expected / 2.5**2, rel=1e-5)
    column = np.array(VALUES, np.float32)[:, np.newaxis]
    dataset = tf.data.Dataset.from_tensor_slices((TEXTS, column)).batch(7)
    for data in ((TEXTS, column), (dataset,)):
        assert found.evaluate(*data, verbose=0) == pytest.approx(
            [loss, mse], rel=1e-5
        )


def test_the_unit_is_that_of_the_first_labels(pretrained, tmp_path):
    huggingface.write(models.finetuned("regression", 1), str(tmp_path / "hf"))
    # What others trained is in their labels' unit.
    kept = regressor(tmp_path / "hf")
    kept.note(None, np.array([0.0, 5.0]))
    assert kept.unit == (0.0, 1.0)
    found = regressor(pretrained)
    found.note(None, np.array([0.0, 5.0]))
    found.note(None, np.array([0.0, 10.0]))
    assert found.unit == (0.0, 5.0)
    # Of a dataset of ids, which nobody has read, they are as they are.
    streamed = regressor(pretrained)
    streamed.note(None, None)
    assert streamed.unit == (0.0, 1.0)


def test_labels_of_another_use_tell_no_unit(pretrained):
    found = regressor(pretrained)
    found.evaluate(["wa", "wb"], [1.0, 5.0], verbose=0)
    assert found.unit == (0.0, 1.0)


def test_weights_in_a_file_have_their_unit(pretrained, tmp_path):
    path, without = (tmp_path / f"{n}.weights.h5" for n in ("with", "without"))
    found = regressor(pretrained, min_value=1.5, scale=2.5)
    found.save_weights(path)
    again = regressor(pretrained)
    again.save_weights(without)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        again.load_weights(path)
        found.load_weights(without)
    assert again.unit == found.unit == (1.5, 2.5)


def test_bad_use(pretrained):
    for labels, message in (
        (["good"], "y: could not convert .* 'good'"),
        ([float("nan")], "y as a finite number"),
        ([1.7e9, 1.7e9 + 3], "float32 has few"),
        ([0.0, 1e39], "float32 has few"),
    ):
        found = regressor(pretrained)
        with pytest.raises(ValueError, match=message):
            found.fit(["wa", "wb"][: len(labels)], labels)
    with pytest.raises(ValueError, match="Received: class_weight"):
        found.fit(["wa"], [1.0], class_weight={1: 2.0})
    for unit in ({"min_value": 1}, {"min_value": 0, "scale": float("nan")}):
        with pytest.raises(ValueError, match="a positive scale"):
            regressor(pretrained, **unit)
