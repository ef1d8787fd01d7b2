"""Callbacks, strategies and files of `fit`, with the TextClassifier."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import electra_tf
from electra_tf import configs
from electra_tf.keras_models import optimizers
from tests.keras_models import layer_checks, tasks
from tests.keras_models.tasks import LABELS, TARGETS, TEXTS, classifier


@pytest.mark.dear
def test_goes_on_where_it_was_stopped(pretrained, tmp_path):
    whole, first, second = (classifier(pretrained) for _ in range(3))
    arguments = dict(batch_size=8, epochs=4, verbose=0)
    whole.fit(TEXTS, TARGETS, **arguments)

    def backup():
        return keras.callbacks.BackupAndRestore(str(tmp_path / "backup"))

    with pytest.raises(KeyboardInterrupt):
        first.fit(
            TEXTS, TARGETS, callbacks=[backup(), tasks.Stop()], **arguments
        )
    second.fit(TEXTS, TARGETS, callbacks=[backup()], **arguments)
    tasks.assert_same_weights(second.network, whole.network)


def test_steps_behind_the_end_of_the_schedule_are_told(pretrained):
    model = classifier(pretrained)
    model.compile(num_train_steps=7)
    rows = dict(batch_size=4, verbose=0)  # Five steps an epoch.
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        model.fit(TEXTS, TARGETS, epochs=1, **rows)
        model.fit(TEXTS, TARGETS, epochs=0, **rows)
    with pytest.warns(UserWarning, match="3 of 5 steps to come learn nothing"):
        model.fit(TEXTS, TARGETS, epochs=1, **rows)
    data = tf.data.Dataset.from_tensor_slices((TEXTS, TARGETS)).batch(4)
    data = data.filter(lambda *_: True)
    ids = data.map(lambda texts, _: (model.preprocessor(texts), [0] * 4))
    with pytest.warns(UserWarning, match="^steps to come learn nothing"):
        model.fit(ids, epochs=1, verbose=0)


@pytest.mark.dear
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


@pytest.mark.dear
def test_long_texts_in_windows(pretrained):
    config = classifier(pretrained).get_config()
    windows = {"stride": 4, "max_windows": 3, "by_tokens": True}
    config["head"]["options"] = {"windows": windows}
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


def test_as_keras_checks_a_layer(pretrained):
    model = classifier(pretrained)
    layer_checks.check_config(model)
    rows = model.preprocessor(TEXTS)
    wrong = rows | {"input_ids": tf.cast(rows["input_ids"], tf.float32)}
    with pytest.raises(ValueError, match="Received: float32"):
        model(wrong)


@pytest.mark.dear
def test_gradients_of_several_batches_make_an_update(pretrained):
    models = []
    for steps, batch_size in ((None, 10), (2, 5)):
        sgd = keras.optimizers.SGD(0.1, gradient_accumulation_steps=steps)
        models.append(classifier(pretrained, dropout=0.0))
        models[-1].compile(sgd)
        models[-1].fit(
            TEXTS, TARGETS, batch_size=batch_size, shuffle=False, verbose=0
        )
    of_whole, of_parts = (m.predict(TEXTS, verbose=0) for m in models)
    np.testing.assert_allclose(of_parts, of_whole, atol=1e-5)


def test_a_file_keeps_what_is_frozen(pretrained, tmp_path):
    found = classifier(pretrained)
    found.network.electra.trainable = False
    found.save(tmp_path / "frozen.keras")
    again = keras.models.load_model(tmp_path / "frozen.keras")
    paths = [variable.path for variable in again.trainable_variables]
    assert paths == [v.path for v in found.trainable_variables]
    assert {path.split("/")[0] for path in paths} == {"task_specific"}


def test_what_the_papers_optimizer_refuses(pretrained):
    found = classifier(pretrained)
    rates = keras.callbacks.LearningRateScheduler(lambda epoch, rate: 0.5)
    with pytest.raises(ValueError, match="schedule.*Received: learning_rate="):
        found.fit(TEXTS, TARGETS, callbacks=[rates], verbose=0)


def test_arguments_of_from_checkpoint(pretrained, tmp_path):
    logits = classifier(
        pretrained, activation=None, dtype="mixed_bfloat16", name="mine"
    )
    assert (logits.activation, logits.name) == (None, "mine")
    assert logits.dtype_policy.name == "mixed_bfloat16"
    with pytest.raises(TypeError, match="sed"):
        classifier(pretrained, sed=3)
    with pytest.raises(ValueError, match="Received: max_seq_length=5 with"):
        classifier(pretrained, max_seq_length=5, preprocessor=None)
    from_checkpoint = electra_tf.TextRegressor.from_checkpoint
    regressor = from_checkpoint(pretrained, min_value=0, scale=5)
    regressor.save_checkpoint(tmp_path / "regressor")
    with pytest.warns(UserWarning, match="A new head for .*that of .*5.0"):
        found = from_checkpoint(tmp_path / "regressor", min_value=1, scale=2)
    assert found.unit == (1.0, 2.0)
    from_checkpoint = electra_tf.QuestionAnswerer.from_checkpoint
    answerer = from_checkpoint(pretrained)
    answerer.save_checkpoint(tmp_path / "answerer")
    found = from_checkpoint(tmp_path / "answerer", max_answer_length=3)
    assert found.options.max_answer_length == 3
    with pytest.warns(UserWarning, match="A new head for .*joint_prediction"):
        from_checkpoint(tmp_path / "answerer", joint_prediction=False)
    with pytest.warns(UserWarning, match="A new head for .*answerable"):
        from_checkpoint(tmp_path / "answerer", may_have_no_answer=True)


def test_a_frozen_encoder_stays_frozen(pretrained):
    encoder = electra_tf.Encoder.from_checkpoint(str(pretrained))
    encoder.trainable = False
    model = electra_tf.TextClassifier(
        encoder, LABELS, classifier(pretrained).preprocessor
    )
    learns = {v.path for v in model.trainable_variables}
    assert learns
    assert not learns & {v.path for v in model.network.electra.variables}
    # Or some of its layers.
    encoder.trainable = True
    first, *_ = encoder.electra._flatten_layers(include_self=False)
    first.trainable = False
    model = electra_tf.TextClassifier(encoder, LABELS, model.preprocessor)
    learns = [v.path for v in model.network.electra.trainable_variables]
    assert learns == [v.path for v in encoder.trainable_variables]
    assert 0 < len(learns) < len(model.network.electra.variables)


def test_what_learns_may_not_change_behind_the_optimizer(pretrained):
    model = classifier(pretrained)
    model.compile()
    model.optimizer.build(model.trainable_variables)
    for frozen in (model.network.electra, model):
        frozen.trainable = False
        with pytest.raises(ValueError, match="compile after a change of what"):
            model.fit(TEXTS, TARGETS, verbose=0)


def test_losses_of_regularizers_are_added(pretrained):
    model = classifier(pretrained, dropout=0.0)
    expected = model.evaluate(TEXTS, TARGETS, verbose=0)[0]
    kernel = model.network.task_specific.trainable_variables[0]
    kernel.regularizer = keras.regularizers.L2(1.0)
    expected += float(np.sum(np.square(kernel)))
    model.compile()
    found = model.evaluate(TEXTS, TARGETS, verbose=0)[0]
    assert found == pytest.approx(expected, rel=1e-5)


def test_what_compile_refuses(pretrained):
    model = classifier(pretrained)
    optimizer = optimizers.FinetuningOptimizer(
        configs.OptimizerConfig(1e-4), 2, 100
    )
    for rate in (0, -1e-3, float("nan"), "fast"):
        with pytest.raises(ValueError):
            model.compile(learning_rate=rate)
    for arguments in (
        {"optimizer": "sgd", "learning_rate": 0.0},
        {"optimizer": optimizer, "num_train_steps": 7},
    ):
        with pytest.raises(ValueError, match="num_train_steps"):
            model.compile(**arguments)


def test_steps_on_columns_are_those_of_the_first_rows(pretrained):
    weights = np.arange(len(TEXTS), dtype=np.float32)  # Tells the rows.
    model = classifier(pretrained)
    data, steps = model._validation_data((TEXTS, TARGETS, weights), 4, 2)
    assert steps is None
    rows = [of.numpy() for *_, of in data]
    assert sorted(np.concatenate(rows)) == list(range(8))


@pytest.mark.dear
def test_epochs_one_by_one_are_those_of_one_fit(pretrained):
    whole, parts = classifier(pretrained), classifier(pretrained)
    for model in (whole, parts):
        model.compile(num_train_steps=6)
    rows = dict(batch_size=8, verbose=0)
    whole.fit(TEXTS, TARGETS, epochs=2, **rows)
    for epoch in range(2):
        parts.fit(TEXTS, TARGETS, epochs=epoch + 1, initial_epoch=epoch, **rows)
    tasks.assert_equal_bits(
        parts.network.get_weights(), whole.network.get_weights()
    )


@pytest.mark.dear
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
