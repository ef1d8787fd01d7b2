"""Tests of model/losses.py."""

import math

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.model import losses

LOG_2 = math.log(2)


def floats(values):
    return tf.constant(values, tf.float32)


def ints(values):
    return tf.constant(values, tf.int32)


@pytest.mark.parametrize(
    ("values", "weights", "mean"),
    [
        ([1.0, 5.0, 9.0], [1, 3, 0], 4.0),
        # A floor is added to the weights.
        ([1.0], [1e-6], 0.5),
        ([1.0], [0.0], 0.0),
    ],
)
def test_weighted_mean(values, weights, mean):
    found = losses.weighted_mean(floats(values), floats(weights))
    assert float(found) == pytest.approx(mean, rel=1e-6)


def test_shares_of_replicas_add_up_to_the_mean():
    # Weights 4 and 1 on two replicas, 5 in all.
    def all_reduce_sum(tensor):
        del tensor
        return tf.constant(5.0)

    shares = [
        losses.weighted_mean(
            floats([1.0, 5.0]), floats([1, 3]), all_reduce_sum
        ),
        losses.weighted_mean(floats([14.0]), floats([1]), all_reduce_sum),
    ]
    # (1 + 15 + 14) / 5.
    assert float(shares[0]) == pytest.approx(3.2)
    assert float(shares[1]) == pytest.approx(2.8)


def test_masked_lm_output():
    output = losses.masked_lm_output(
        # Probabilities 1/4 and 3/4; 1/2 each; 1/10 and 9/10.
        floats([[[0, math.log(3)], [7, 7], [0, math.log(9)]]]),
        ints([[1, 0, 0]]),
        floats([[1, 1, 0]]),
    )
    assert output.preds.numpy().tolist() == [[1, 0, 1]]
    np.testing.assert_allclose(
        output.per_example_loss, [[-math.log(0.75), LOG_2, math.log(10)]], 1e-5
    )
    assert float(output.loss) == pytest.approx(
        (-math.log(0.75) + LOG_2) / 2, rel=1e-5
    )


def discriminator_output():
    """Losses of log 2, log 4/3 and log 4 in a long and a short row."""
    return losses.discriminator_output(
        floats([[0.0, math.log(3), math.log(3)], [-math.log(3), 9.0, -9.0]]),
        ints([[0, 1, 0], [1, 0, 0]]),
        ints([[1, 1, 1], [1, 0, 0]]),
    )


def test_discriminator_output():
    output = discriminator_output()
    np.testing.assert_allclose(output.probs[0], [0.5, 0.75, 0.75], 1e-6)
    # A logit of 0 counts as "original".
    assert output.preds.numpy().tolist() == [[0, 1, 1], [0, 1, 0]]
    log_4 = math.log(4)
    first = LOG_2 + math.log(4 / 3) + log_4
    np.testing.assert_allclose(
        output.per_example_loss, [first / 3, log_4], 1e-5
    )
    # Every token weighs the same, not every row.
    assert float(output.loss) == pytest.approx((first + log_4) / 4, rel=1e-5)


def test_discriminator_metrics():
    sums = losses.discriminator_sums(
        discriminator_output(), ints([[1, 1, 1], [1, 0, 0]])
    )
    metrics = losses.metrics_from_sums(sums)
    log_4 = math.log(4)
    first = (LOG_2 + math.log(4 / 3) + log_4) / 3
    assert metrics == pytest.approx(
        {
            # The mean over rows, unlike the loss.
            "disc_loss": (first + log_4) / 2,
            # Right are 1st and 2nd of row 1; wrong 3rd and the 1st of row 2.
            "disc_accuracy": 2 / 4,
            # Called replaced: 2nd and 3rd of row 1.
            "disc_precision": 1 / 2,
            # Replaced are the 2nd of row 1 and the 1st of row 2.
            "disc_recall": 1 / 2,
            "replaced_rate": 2 / 4,
            # Replaced 0.75, 0.25; original 0.5, 0.75 and padding 0, 0. Of 8
            # pairs: 0.75 wins 3 and ties 1, 0.25 wins 2.
            "disc_auc": 5.5 / 8,
        },
        rel=1e-5,
    )


def auc(labels, probs):
    """disc_auc of one row of tokens."""
    probs = np.asarray([probs], np.float64)
    with np.errstate(divide="ignore"):
        logits = np.log(probs) - np.log1p(-probs)
    mask = np.ones_like(probs, np.int32)
    output = losses.discriminator_output(floats(logits), ints([labels]), mask)
    sums = losses.discriminator_sums(output, mask)
    return losses.metrics_from_sums(sums)["disc_auc"]


@pytest.mark.parametrize("labels", [[0] * 5, [1] * 5, [0, 1, 1, 0, 0]], ids=str)
def test_auc_is_that_of_tf1(labels):
    """Also where nothing was replaced, or everything."""
    probs = [0.1, 0.6, 0.3, 0.9, 0.3]
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        value, update = v1.metrics.auc(
            tf.constant(labels), tf.constant(probs, tf.float32)
        )
        session.run(v1.local_variables_initializer())
        session.run(update)
        expected = session.run(value)
    assert auc(labels, probs) == pytest.approx(float(expected), abs=1e-6)
