"""`fit` of two replicas, and in float16: see `make test-dear`."""

import numpy as np

import electra_tf
from tests import helpers
from tests.keras_models.tasks import TARGETS, TEXTS, classifier

# Logical devices must be there before TensorFlow begins.
_TWO_CPUS = """
import sys
import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(
    cpu, [tf.config.LogicalDeviceConfiguration()] * 2
)
import keras
import electra_tf
from tests.keras_models.tasks import LABELS, TARGETS, TEXTS


def train(strategy, optimizer):
    with strategy.scope():
        keras.utils.set_random_seed(1)
        model = electra_tf.TextClassifier.from_checkpoint(
            sys.argv[1], labels=LABELS, seed=5, dropout=0.0
        )
        if optimizer:
            model.compile(keras.optimizers.SGD(0.1))
    # In the last batch of 19 rows a replica has none.
    num_rows = 18 if optimizer else 19
    history = model.fit(
        TEXTS[:num_rows], TARGETS[:num_rows], batch_size=6, verbose=0,
        # Three of one replica, and two of the other.
        validation_data=None if optimizer else (TEXTS[:5], TARGETS[:5]),
    )
    return history.history, model.predict(TEXTS, verbose=0)


for optimizer in (None, "sgd"):
    one, expected = train(tf.distribute.get_strategy(), optimizer)
    strategy = tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"])
    assert strategy.num_replicas_in_sync == 2
    two, found = train(strategy, optimizer)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    for name, values in one.items():
        np.testing.assert_allclose(two[name], values, atol=1e-5, err_msg=name)
"""


def test_two_replicas_learn_what_one_learns(pretrained):
    result = helpers.execute("-c", _TWO_CPUS, pretrained)
    assert result.returncode == 0, result.stderr[-3000:]


def test_mixed_precision(pretrained):
    # The paper's optimizer scales the loss, as the engine does.
    config = classifier(pretrained).get_config() | {"dtype": "mixed_float16"}
    model = electra_tf.TextClassifier.from_config(config)
    model.fit(TEXTS, TARGETS, verbose=0)
    probabilities = model.predict(TEXTS, verbose=0)
    assert probabilities.dtype == np.float32
    assert np.isfinite(probabilities).all()
    kernel = model.network.task_specific.heads[0].dense.kernel
    assert kernel.dtype == "float32"
