"""Tests of keras_models/directions.py."""

import keras
import pytest

from electra_tf.keras_models import directions


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("accuracy", "up"),
        ("disc_auc", "up"),
        ("pearson", "up"),
        ("disc_loss", "down"),
        ("mse_in_points", "down"),
        ("replaced_rate", None),
        ("gradient_norm", None),
    ],
)
def test_the_name_tells(name, expected):
    metric = directions.directed(keras.metrics.Mean(name=name))
    assert getattr(metric, "_direction", None) == expected
