import dataclasses
import functools
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf

import electra_tf
from electra_tf import configs, errors
from electra_tf.checkpoints import reading
from electra_tf.model import ablations, masking
from electra_tf.pretraining_data import batches
from electra_tf.training import engine as engine_lib
from electra_tf.training import optimization
from tests import helpers
from tests.checkpoints import models
from tests.keras_models import layer_checks, tasks

CONFIG = helpers.electra_config(
    helpers.encoder_config(num_hidden_layers=1, initializer_range=0.5)
)
INPUTS = helpers.inputs(range(3))
OPTIMIZER = configs.OptimizerConfig(learning_rate=1e-2, num_warmup_steps=5)


def _preprocessor(**kwargs):
    return electra_tf.Preprocessor(
        helpers.VOCAB, max_seq_length=helpers.LENGTH, **kwargs
    )


def _model(seed=3, **changes):
    keras.utils.set_random_seed(1)
    settings = dataclasses.asdict(CONFIG)
    return electra_tf.PretrainingModel(
        _preprocessor(),
        seed=seed,
        **(settings.pop("encoder") | settings | changes),
    )


@pytest.fixture(scope="module")
def model():
    return _model()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Globs of training and held-out examples."""
    folder = tmp_path_factory.mktemp("records")
    return [
        helpers.write_tfrecords(
            folder / f"{name}.tfrecord", map(helpers.row, numbers)
        )
        for name, numbers in (("train", range(40)), ("heldout", range(40, 60)))
    ]


@pytest.fixture(scope="module")
def trained(files, tmp_path_factory):
    """50 steps of `fit`: the model, its start, history and file."""
    model = _model()
    start = [np.copy(w) for w in model.network.get_weights()]
    model.compile(OPTIMIZER)
    path = tmp_path_factory.mktemp("saved") / "best.keras"
    history = model.fit(
        files[0],
        batch_size=8,
        epochs=2,
        steps_per_epoch=25,
        validation_data=files[1],
        callbacks=[
            keras.callbacks.EarlyStopping(patience=2),
            keras.callbacks.ModelCheckpoint(path, save_best_only=True),
        ],
        verbose=0,
    )
    return model, start, history.history, path


# Dropout too: its masks follow from the seed and the step in both.
@pytest.mark.dear
def test_fit_is_the_engine_of_the_gin_runs(trained, files, tmp_path):
    fitted, start, history, _ = trained
    network = ablations.make_model(
        CONFIG, masking.SpecialIds(helpers.CLS, helpers.SEP, helpers.MASK)
    )
    network.set_weights(start)
    optimizer = optimization.AdamWeightDecay(OPTIMIZER, 50)
    engine = engine_lib.Engine(
        tf.distribute.OneDeviceStrategy("CPU:0"),
        network,
        network.training_loss,
        optimizer,
        helpers.run_config(tmp_path, seed=3, num_train_steps=50),
        8,
        batches.PretrainingData(files[0], CONFIG, seed=3).dataset,
    )

    for epoch in range(2):
        metrics = engine.train(tf.constant(25))
        assert history["loss"][epoch] == pytest.approx(
            metrics.pop("total_loss"), abs=1e-5
        )
        for name in metrics.keys() - {"learning_rate"}:
            assert history[name][epoch] == pytest.approx(
                metrics[name], abs=1e-5
            ), name
    tasks.assert_same_weights(fitted.network, network, atol=1e-5)
    np.testing.assert_allclose(
        fitted.optimizer.variables[-1], optimizer.variables[-1], atol=1e-5
    )


@pytest.mark.dear
def test_goes_on_where_it_was_stopped(files, tmp_path):
    whole, first, second = (_model() for _ in range(3))
    for other in (first, second):
        other.network.set_weights(whole.network.get_weights())
    backup = functools.partial(
        keras.callbacks.BackupAndRestore, str(tmp_path / "backup")
    )
    arguments = dict(batch_size=8, epochs=4, steps_per_epoch=3, verbose=0)
    whole.fit(files[0], **arguments)
    with pytest.raises(KeyboardInterrupt):
        first.fit(files[0], callbacks=[backup(), tasks.Stop()], **arguments)
    history = second.fit(files[0], callbacks=backup(), **arguments)
    assert history.epoch == [2, 3]
    assert int(second.optimizer.iterations.numpy()) == 12
    tasks.assert_same_weights(second.network, whole.network)


def test_a_file_goes_on_where_it_was_saved(trained, files):
    model, _, _, path = trained
    again = keras.models.load_model(path)
    layer_checks.assert_same_bits(again(INPUTS), model(INPUTS))
    assert int(again.optimizer.iterations.numpy()) == 50
    tasks.assert_same_weights(again.optimizer, model.optimizer)
    assert again.get_config() == model.get_config()
    assert again.optimizer.get_config() == model.optimizer.get_config()


def test_a_checkpoint_of_it_is_fine_tuned_and_pretrained_on(trained, tmp_path):
    model, *_ = trained
    model.save_checkpoint(tmp_path / "to")

    found = reading.read_checkpoint(tmp_path / "to")
    assert found.global_step == 50
    assert len(found.optimizer) == 2 * len(model.network.trainable_variables)
    assert found.vocabulary.tokens == tuple(helpers.VOCAB)
    again = electra_tf.PretrainingModel.from_checkpoint(
        tmp_path / "to", mask_prob=CONFIG.mask_prob
    )
    assert again.config == CONFIG
    tasks.assert_same_weights(again.network, model.network)
    layer_checks.assert_same_bits(
        model.encoder()(INPUTS)["sequence_output"],
        model(INPUTS)["sequence_output"],
    )


@pytest.mark.dear
def test_ids_without_draws_are_masked(files):
    model = _model(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model.compile(learning_rate=0.01, jit_compile=True)
    # Before anybody said for how long it will be trained.
    before = model.evaluate(files[1], 8, return_dict=True, verbose=0)
    texts = tf.data.Dataset.from_tensor_slices([f"wa wb w{c}" for c in "cdef"])
    # Each text by itself is padded to the length of the model.
    dataset = texts.map(_preprocessor()).batch(4)
    batches_alone = tf.data.Dataset.zip((dataset.repeat(3),))
    history = model.fit(batches_alone, verbose=0).history
    assert history["loss"][0] > 0
    assert int(model.optimizer.iterations.numpy()) == 3
    assert model.optimizer.schedule.num_train_steps == 3
    after = model.evaluate(files[1], 8, return_dict=True, verbose=0)
    assert after.keys() == before.keys()
    assert after["loss"] != before["loss"]


@pytest.mark.dear
def test_micro_batches_follow_the_batches(files):
    """An evaluation has none; a second `fit` may have other batches."""
    # Each micro-batch would draw a dropout of its own.
    none = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    model, whole = _model(**none), _model(**none)
    model.compile(OPTIMIZER, num_train_steps=2, micro_batch_size=4)
    whole.compile(OPTIMIZER, num_train_steps=2)
    model.evaluate(files[1], 10, steps=1, verbose=0)
    for one in (model, whole):
        for batch_size in (8, 16):
            one.fit(files[0], batch_size, steps_per_epoch=1, verbose=0)
    tasks.assert_same_weights(model.network, whole.network, atol=1e-5)
    with pytest.raises(ValueError, match="drop_remainder=True"):
        model.fit(_ids(12).unbatch().batch(2), verbose=0)


def test_predict(model):
    found = model.predict(INPUTS, verbose=0)
    np.testing.assert_allclose(
        found["disc_logits"], model(INPUTS)["disc_logits"], atol=1e-5
    )


# --- From checkpoints ---------------------------------------------------------


def test_from_the_directory_of_a_run(tmp_path):
    helpers.write_vocab(tmp_path)
    network = helpers.write_pretrained(
        tmp_path, generator_layers=0.5, distinct_positions=True
    )
    model = electra_tf.PretrainingModel.from_preset(tmp_path)
    assert model.config == network.config
    tasks.assert_same_weights(model.network, network)


def test_disentangled_embeddings_go_with_their_network(files, tmp_path):
    model = _model(disentangled_embeddings=True)
    model.compile(OPTIMIZER)
    model.fit(files[0], batch_size=8, steps_per_epoch=2, verbose=0)
    tables = model.network.electra.embeddings
    words = tables.word_embeddings.numpy()
    whole = words + tables.word_embeddings_delta.numpy()
    assert not np.array_equal(words, whole)
    encoder = model.encoder()
    np.testing.assert_array_equal(
        encoder(INPUTS)["sequence_output"], model(INPUTS)["sequence_output"]
    )
    model.save_checkpoint(tmp_path / "saved")
    found = reading.read_checkpoint(tmp_path / "saved")
    assert not found.optimizer
    for scope, table in (("electra", whole), ("generator", words)):
        name = f"{scope}/embeddings/word_embeddings"
        np.testing.assert_array_equal(found.tensors[name], table)
    again = electra_tf.PretrainingModel.from_checkpoint(
        tmp_path / "saved",
        disentangled_embeddings=True,
        generator_layers=model.config.generator_layers,
    )
    tasks.assert_same_weights(again.network, model.network, atol=1e-6)


def test_a_unigram_generator_is_told_frequencies(files):
    model = _model(unigram_generator=True, untied_generator=True)
    model.compile(OPTIMIZER)
    data = model.data(files[0])
    for use in (model.fit, model.evaluate):
        with pytest.raises(ValueError, match="glob of TFRecords first"):
            use(data.dataset(8).take(1))
    model.fit(files[0], batch_size=8, steps_per_epoch=1, verbose=0)
    np.testing.assert_allclose(
        model.network.unigram_log_probs[5:],
        np.log(data.token_frequencies()[5:]),
        atol=1e-5,
    )
    model.fit(data.dataset(8).take(1), verbose=0)


@pytest.mark.parametrize("untied", [False, True])
def test_from_a_pair_of_hugging_face(untied, tmp_path):
    checkpoint = models.pretrained(untied)
    path = str(tmp_path / "pair")
    reading.format_module("huggingface").write(checkpoint, path)
    model = electra_tf.PretrainingModel.from_checkpoint(path)
    assert model.config.untied_generator_embeddings == untied
    for variable in model.network.variables:
        np.testing.assert_array_equal(
            variable, checkpoint.tensors[variable.path], variable.path
        )


def test_a_generator_that_no_shape_tells_from_another():
    checkpoint = models.pretrained()
    other = dataclasses.replace(checkpoint.generator, num_attention_heads=2)
    with pytest.raises(errors.ConfigError, match="num_attention_heads"):
        electra_tf.PretrainingModel.from_checkpoint(
            dataclasses.replace(checkpoint, generator=other)
        )


def test_a_preprocessor_of_other_tokens_is_told():
    tokens = [*helpers.VOCAB[:-2], helpers.VOCAB[-1], helpers.VOCAB[-2]]
    other = electra_tf.Preprocessor(tokens, max_seq_length=12)
    for model in (electra_tf.PretrainingModel, electra_tf.TextClassifier):
        kwargs = {"labels": ["a", "b"]} if hasattr(model, "head_for") else {}
        with pytest.warns(
            UserWarning, match="2 tokens of the preprocessor are"
        ):
            model.from_checkpoint(
                models.pretrained(max_seq_length=12),
                preprocessor=other,
                **kwargs,
            )


# --- Keras's checks -----------------------------------------------------------


def test_config():
    layer_checks.check_config(_model(dtype="mixed_bfloat16"))


def test_files(tmp_path):
    layer_checks.check_saving(_model(), INPUTS, tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"electric_objective": True, "electra_objective": False},
        {"electra_objective": False},
        {"two_tower_generator": True},
        {"discriminator_objective": "all_tokens_mlm"},
    ],
    ids=str,
)
def test_other_objectives(changes):
    other = _model(**changes)
    has_logits = "disc_logits" in other(INPUTS)
    assert has_logits == other.config.has_binary_discriminator
    is_electric = other.config.electric_objective
    assert other.to_checkpoint().is_electric == is_electric


# --- What it refuses ----------------------------------------------------------


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"vocab_size": 5}, "'s 20 tokens. Received: vocab_size=5"),
        ({"max_seq_length": 99}, "must not exceed"),
    ],
)
def test_settings_it_refuses(settings, message):
    with pytest.raises(ValueError, match=message):
        _model(**settings)


def test_what_is_not_scored_is_told(model, files):
    with pytest.warns(UserWarning, match="the last 2 of 20 held-out examples"):
        model.evaluate(files[1], batch_size=9, verbose=0)


def _ids(length):
    return tf.data.Dataset.from_tensors(
        {name: np.zeros([2, length], np.int32) for name in INPUTS}
    )


@pytest.mark.dear
def test_the_schedule_ends_with_fit(files):
    model = _model()
    arguments = dict(steps_per_epoch=1, initial_epoch=1, verbose=0)
    model.fit(files[0], batch_size=8, epochs=3, **arguments)
    assert int(model.optimizer.iterations.numpy()) == 2
    assert model.optimizer.schedule.num_train_steps == 2


def test_what_compile_refuses(model):
    adam = optimization.AdamWeightDecay(OPTIMIZER, 5)
    by_layer = configs.OptimizerConfig(1e-3, layerwise_lr_decay=0.8)
    for arguments, message in (
        ({"optimizer": "adam"}, "optimizer='adam'"),
        ({"optimizer": 5e-4}, "optimizer=0.0005"),
        ({"optimizer": adam, "num_train_steps": 9}, "brings its own"),
        ({"optimizer": by_layer}, "layerwise_lr_decay=0.8"),
    ):
        with pytest.raises(ValueError, match=message):
            model.compile(**arguments)


def test_what_fit_refuses(model, files, tmp_path):
    row = helpers.row(1)
    row["input_ids"] = [0] * len(row["input_ids"])
    empty = helpers.write_tfrecords(tmp_path / "a.tfrecord", [row] * 4)
    with pytest.raises(errors.DataError, match="alone"):
        model.fit(empty)
    for x in (["a text"], _ids(7), tf.data.Dataset.range(3)):
        with pytest.raises(ValueError, match="x as a glob of TFRecords or"):
            model.fit(x)
    with pytest.raises(ValueError, match="Expected steps_per_epoch"):
        model.fit(_ids(12).repeat())
    with pytest.raises(ValueError, match="validation_data"):
        model.fit(_ids(12), validation_data=3)
    outside = _ids(12).map(lambda x: x | {"input_ids": x["input_ids"] + 20})
    with pytest.raises(tf.errors.OpError, match="input_ids from 0 to 19"):
        model.evaluate(outside, verbose=0)

    class Doubled(electra_tf.PretrainingModel):
        def compute_loss(self, *args, **kwargs):
            return 0.0

    other = Doubled.from_config(model.get_config())
    with pytest.raises(ValueError, match="train_step in Doubled"):
        other.fit(files[0], batch_size=8, steps_per_epoch=1, verbose=0)


def test_a_model_is_gone_after_its_fit(files):
    def use():
        model = _model()
        model.fit(files[0], 8, steps_per_epoch=2, verbose=0)
        return weakref.ref(model)

    assert helpers.is_gone(use())
