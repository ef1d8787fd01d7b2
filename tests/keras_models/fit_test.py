"""Callbacks, strategies and files of `fit`, with the TextClassifier."""

import subprocess

import keras
import numpy as np
import pytest
import tensorflow as tf

import electra_tf
from tests import helpers
from tests.keras_models import tasks
from tests.keras_models.tasks import LABELS, TARGETS, TEXTS


def classifier(pretrained, **kwargs):
    keras.utils.set_random_seed(1)  # Of the head's weights.
    return electra_tf.TextClassifier.from_checkpoint(
        pretrained, **({"labels": LABELS, "seed": 5} | kwargs)
    )


class _Stop(keras.callbacks.Callback):
    """Interrupts a training after some epochs."""

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 2:
            raise KeyboardInterrupt


def test_goes_on_where_it_was_stopped(pretrained, tmp_path):
    whole, first, second = (classifier(pretrained) for _ in range(3))
    arguments = dict(batch_size=8, epochs=4, verbose=0)
    whole.fit(TEXTS, TARGETS, **arguments)

    def backup():
        return keras.callbacks.BackupAndRestore(str(tmp_path / "backup"))

    with pytest.raises(KeyboardInterrupt):
        first.fit(TEXTS, TARGETS, callbacks=[backup(), _Stop()], **arguments)
    second.fit(TEXTS, TARGETS, callbacks=[backup()], **arguments)
    for ours, expected in zip(
        second.network.variables, whole.network.variables, strict=True
    ):
        np.testing.assert_array_equal(ours, expected, ours.path)


def test_callbacks(pretrained, tmp_path):
    found = classifier(pretrained)
    best = str(tmp_path / "best.keras")
    history = found.fit(
        TEXTS,
        TARGETS,
        epochs=3,
        validation_split=0.2,
        callbacks=[
            keras.callbacks.EarlyStopping(
                "val_accuracy", patience=1, restore_best_weights=True
            ),
            keras.callbacks.ModelCheckpoint(best, save_best_only=True),
            keras.callbacks.TensorBoard(str(tmp_path / "logs")),
        ],
        verbose=0,
    )
    assert {"val_loss", "val_accuracy"} < set(history.history)
    assert list((tmp_path / "logs").glob("*/events*"))
    assert keras.models.load_model(best).labels == tuple(LABELS)


_LOAD = """
import sys
import keras, numpy as np
import electra_tf
model = keras.models.load_model(sys.argv[1])
texts = open(sys.argv[2]).read().splitlines()
np.save(sys.argv[3], model.predict(texts, verbose=0))
"""


@pytest.mark.usefixtures("graph_optimizer")
def test_a_new_process_predicts_the_same_bits(pretrained, tmp_path):
    model = classifier(pretrained)
    model.save(tmp_path / "film.keras")
    (tmp_path / "texts").write_text("\n".join(TEXTS))
    paths = [str(tmp_path / n) for n in ("film.keras", "texts", "found.npy")]
    subprocess.run(
        helpers.command("-c", _LOAD, *paths),
        check=True,
        env=helpers.environment(),
        cwd=tmp_path,
    )
    found = np.load(paths[-1])
    tasks.assert_equal_bits(found, model.predict(TEXTS, verbose=0))


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
        validation_data=None if optimizer else (TEXTS, TARGETS),
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


def test_long_texts_in_windows(pretrained):
    config = classifier(pretrained).get_config()
    config["head"]["options"] = {"windows": {"stride": 4, "max_windows": 3}}
    model = electra_tf.TextClassifier.from_config(config)
    texts = [" ".join([text] * 3) for text in TEXTS]
    dataset = tf.data.Dataset.from_tensor_slices((texts, TARGETS)).batch(8)
    model.fit(texts, TARGETS, validation_data=dataset, verbose=0)
    found = model.predict(texts, verbose=0)
    rows = model.features(model.read_inputs(texts), None)
    assert rows["input_ids"].shape[1] == 20  # Of 12 + 2 * 4.
    np.testing.assert_allclose(found, model(rows), atol=1e-5)
    np.testing.assert_allclose(
        found, model.predict(dataset, verbose=0), atol=1e-5
    )
    with pytest.raises(ValueError, match="Received: pairs of texts"):
        model.predict((texts, texts))


def test_in_a_functional_model(pretrained):
    model = classifier(pretrained)
    inputs = {
        name: keras.Input([None], dtype="int32", name=name)
        for name in ("input_ids", "input_mask", "segment_ids")
    }
    outputs = model(inputs)
    assert outputs.shape == (None, 2)
    both = keras.Model(inputs, outputs[:, 1])
    rows = model.preprocessor(tf.constant(TEXTS))
    expected = model.predict(TEXTS, verbose=0)[:, 1]
    np.testing.assert_allclose(both(rows), expected, atol=1e-6)
