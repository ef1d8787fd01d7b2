import dataclasses

import keras
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import tensorflow as tf

import electra_tf
from electra_tf import configs
from electra_tf.tasks import text_tasks
from tests.checkpoints import models
from tests.keras_models import tasks
from tests.keras_models.tasks import LABELS, TARGETS, TEXTS, classifier

PAIRS = (TEXTS, TEXTS[::-1])


@pytest.fixture(scope="module")
def model(pretrained):
    """Not trained."""
    return classifier(pretrained)


@pytest.fixture(scope="module")
def trained(pretrained):
    """After two epochs of three steps."""
    found = classifier(pretrained)
    found.fit(TEXTS, TARGETS, batch_size=8, epochs=2, verbose=0)
    return found


def test_fifty_steps_are_those_of_the_engine(pretrained):
    found = classifier(pretrained)
    rows = found.features(found.read_inputs(TEXTS), TARGETS)
    network, expected = tasks.train_by_engine(found, rows, 50, 4)
    history = found.fit(TEXTS, TARGETS, batch_size=4, epochs=10, verbose=0)
    assert found.optimizer.iterations == 50
    tasks.assert_same_weights(found.network, network)
    np.testing.assert_allclose(
        np.mean(history.history["loss"]), expected["loss"], rtol=1e-5
    )
    np.testing.assert_allclose(
        np.mean(history.history["accuracy"]),
        expected["classification_accuracy"],
        rtol=1e-5,
    )


def test_texts_and_labels_in_every_form(model):
    ids = [LABELS.index(label) for label in TARGETS]
    expected = model.features(model.read_inputs(TEXTS), TARGETS)
    frame = pd.DataFrame({"text": TEXTS, "label": TARGETS, "id": ids})
    for x, y in (
        (np.array(TEXTS), np.array(ids)),
        (np.array(TEXTS, object), np.array(TARGETS)),
        (frame["text"], frame["label"]),
        (frame[["text"]], frame["id"]),
        (TEXTS, frame[["id"]]),
        (pa.chunked_array([TEXTS[:9], TEXTS[9:]]), pa.chunked_array([ids])),
        (TEXTS, np.array(ids, np.float32)[:, np.newaxis]),
        (TEXTS, tf.constant(ids)[:, tf.newaxis]),
        (TEXTS, [float(i) for i in ids]),
        (frame["text"].astype("category").astype(str), frame["id"]),
        (tf.constant(TEXTS), tf.constant(ids)),
        ({"text": TEXTS}, [label.encode() for label in TARGETS]),
    ):
        found = model.features(model.read_inputs(x), y)
        tasks.assert_equal_bits(found, expected)


@pytest.mark.dear
def test_losses_optimizers_and_metrics_of_keras(pretrained):
    found = classifier(pretrained, dropout=0.0)
    found.compile(
        keras.optimizers.Adam(3e-3),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    start = found.network.get_weights()
    theirs = found.evaluate(TEXTS, TARGETS, return_dict=True, verbose=0)
    history = found.fit(TEXTS, TARGETS, batch_size=8, epochs=5, verbose=0)
    assert history.history["loss"][-1] < history.history["loss"][0]
    other = classifier(pretrained)
    other.network.set_weights(start)
    ours = other.evaluate(TEXTS, TARGETS, return_dict=True, verbose=0)
    assert ours == pytest.approx(theirs, abs=1e-6)


@pytest.mark.dear
def test_each_fit_begins_anew_but_for_a_given_number_of_steps(pretrained):
    found = classifier(pretrained)
    found.compile()
    ids = np.array([LABELS.index(label) for label in TARGETS])
    batch = found.preprocessor(TEXTS), ids
    with pytest.raises(ValueError, match="Received: num_train_steps=None"):
        found.train_on_batch(*batch)
    for _ in range(2):
        found.fit(TEXTS, TARGETS, verbose=0)
        assert found.optimizer.iterations == 1
        assert found.optimizer.learning_rate == 0.0
    found.compile(num_train_steps=4)
    found.fit(TEXTS, TARGETS, verbose=0)
    found.train_on_batch(*batch)
    assert found.optimizer.iterations == 2
    assert float(found.optimizer.learning_rate) == pytest.approx(1e-3)


def test_saved_and_loaded(trained, tmp_path):
    path = str(tmp_path / "film.keras")
    trained.save(path)
    again = keras.models.load_model(path)
    expected = trained.predict(TEXTS, verbose=0)
    tasks.assert_equal_bits(again.predict(TEXTS, verbose=0), expected)
    assert again.labels == tuple(LABELS)
    assert again.optimizer.iterations == trained.optimizer.iterations
    tasks.assert_same_weights(again.optimizer, trained.optimizer)
    weights = str(tmp_path / "film.weights.h5")
    trained.save_weights(weights)
    fresh = electra_tf.TextClassifier.from_config(trained.get_config())
    fresh.load_weights(weights)
    tasks.assert_equal_bits(fresh.predict(TEXTS, verbose=0), expected)


@pytest.mark.dear
def test_the_mean_of_all_tokens(pretrained, trained, tmp_path):
    found = classifier(pretrained, pooling="mean")
    found.network.set_weights(trained.network.get_weights())
    features = found.preprocessor(TEXTS)
    outputs = trained.network.electra(
        *(features[k] for k in ("input_ids", "input_mask", "segment_ids"))
    )
    mask = np.array(features["input_mask"])[..., np.newaxis]
    means = (outputs["sequence_output"] * mask).numpy().sum(1) / mask.sum(1)
    dense = found.network.task_specific.heads[0].dense
    np.testing.assert_allclose(
        found.task_outputs(features)["logits"], dense(means), atol=1e-5
    )
    expected = found.predict(TEXTS, verbose=0)
    path = str(tmp_path / "model_dir")
    found.save_checkpoint(path)
    again = electra_tf.TextClassifier.from_checkpoint(path)
    assert again.head.options["pooling"] == "mean"
    tasks.assert_equal_bits(again.predict(TEXTS, verbose=0), expected)
    # Where nothing is said, a new head reads what the one before it read.
    with pytest.warns(UserWarning, match="A new head for labels="):
        other = electra_tf.TextClassifier.from_checkpoint(
            path, labels=["a", "b", "c"]
        )
    assert other.head.pooling == "mean"
    with pytest.raises(ValueError, match="cls, mean. Received: .*max"):
        classifier(pretrained, pooling="max")


@pytest.mark.dear
def test_an_encoder_gives_its_weights(pretrained):
    encoder = electra_tf.Encoder.from_checkpoint(pretrained)
    preprocessor = electra_tf.Preprocessor.from_checkpoint(pretrained)
    found = electra_tf.TextClassifier(encoder, LABELS, preprocessor)
    ids = preprocessor(TEXTS)
    np.testing.assert_array_equal(
        found.encoder()(ids)["sequence_output"], encoder(ids)["sequence_output"]
    )
    found.fit(TEXTS, TARGETS, epochs=1, verbose=0)
    # Copies: the one that was given has not learned.
    fresh = electra_tf.Encoder.from_checkpoint(pretrained)
    tasks.assert_same_weights(encoder.electra, fresh.electra)


def test_windows_need_a_preprocessor_for_their_length(tmp_path):
    raw = models.finetuned("classification", 2)
    options = {"windows": {"stride": 3, "max_windows": 4}}
    head = dataclasses.replace(raw.head, options=options)
    checkpoint = dataclasses.replace(raw, head=head, max_seq_length=12)
    found = electra_tf.TextClassifier.from_checkpoint(checkpoint)
    assert found.windows.max_seq_length == 12
    with pytest.raises(ValueError, match="that of windows too"):
        electra_tf.TextClassifier.from_checkpoint(checkpoint, preprocessor=None)
    pairs = tf.data.Dataset.from_tensor_slices((PAIRS, TARGETS)).batch(5)
    with pytest.raises(ValueError, match="Expected texts as x"):
        found.fit(pairs, verbose=0)


def test_texts_that_are_cut_are_counted(model):
    fits, long = "wa " * 10, "wa " * 11
    for use in (
        lambda: model.predict([fits, long, "wa"], verbose=0),
        lambda: model.evaluate([fits, long, "wa"], [0, 1, 0], verbose=0),
    ):
        with pytest.warns(UserWarning, match="^1 of 3 texts have more than 12"):
            use()
    with pytest.warns(UserWarning, match="^1 of 2 rows are .UNK."):
        model.predict(["wa", "zz " + "a" * 201], verbose=0)
    with pytest.warns(UserWarning, match="accents changes 50.*'\u304c' to"):
        model.predict(["wa \u304c"], verbose=0)
    with pytest.warns(UserWarning, match="^2 of 4 texts"):
        model.features(([fits, long, fits, "wa"], ["", "", "wa", "wb"]), None)


@pytest.mark.dear
def test_xla_compiles_the_steps_on_ids(pretrained, model):
    rows = {
        name: values.numpy()
        for name, values in model.preprocessor(TEXTS).items()
    }
    ids = np.array([LABELS.index(label) for label in TARGETS])
    losses = []
    for jit_compile in (False, True):
        found = classifier(pretrained, preprocessor=None, dropout=0.0)
        found.compile(num_train_steps=4, jit_compile=jit_compile)
        losses += found.fit(
            rows, ids, batch_size=10, shuffle=False, verbose=0
        ).history["loss"]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_other_optimizer_settings(pretrained):
    found = classifier(pretrained)
    found.compile(configs.OptimizerConfig(1e-3, layerwise_lr_decay=0.5))
    found._begin(3, 1)
    scales = set(np.round(list(found.optimizer.scales.values()), 4))
    assert scales == {0.0625, 0.125, 0.25, 1.0}


def test_a_checkpoint_without_what_is_asked_of_it(
    pretrained, trained, tmp_path
):
    from_checkpoint = electra_tf.TextClassifier.from_checkpoint
    with pytest.raises(ValueError, match="no fine-tuned head.*labels=None"):
        from_checkpoint(pretrained)
    with pytest.raises(ValueError, match="Received: labels=.'pos', 'pos'."):
        from_checkpoint(pretrained, labels=["pos", "pos"])
    with pytest.raises(ValueError, match="Expected 2 labels or more"):
        from_checkpoint(pretrained, labels=["pos"])
    with pytest.raises(ValueError, match="Received: 13 and 20"):
        from_checkpoint(pretrained, labels=LABELS, max_seq_length=13)
    path = tmp_path / "model_dir"
    trained.save_checkpoint(path)
    with pytest.warns(UserWarning, match="A new head for labels="):
        from_checkpoint(path, labels=["a", "b"])
    with pytest.warns(UserWarning, match="A new head for kind='multi"):
        from_checkpoint(path, labels=LABELS, multi_label=True)
    with pytest.warns(UserWarning, match="for regression: that of .*classif"):
        electra_tf.TextRegressor.from_checkpoint(path)


def test_numbers_as_labels(pretrained, tmp_path):
    stars = classifier(pretrained, labels=[1, 2, 5])
    assert stars.labels == ("1", "2", "5")
    assert stars.targets([5, 1, "2"], "y", 3).tolist() == [2, 0, 1]
    # They are answered as they were given.
    stars.save(tmp_path / "stars.keras")
    stars.save_checkpoint(tmp_path / "stars")
    read = electra_tf.TextClassifier.from_checkpoint(tmp_path / "stars")
    loaded = keras.models.load_model(tmp_path / "stars.keras")
    for model in (stars, loaded, read):
        assert model.decode_predictions([[0.1, 0.2, 0.7]]) == [5]
    # A truth value is no number where it is a name.
    truth = classifier(pretrained, labels=np.array([True, False]))
    assert truth.targets([True, np.False_], "y", 2).tolist() == [0, 1]
    counted = classifier(pretrained, labels=3)
    assert counted.targets([2, 0], "y", 2).tolist() == [2, 0]


@pytest.mark.dear
def test_a_dataset_is_read_into_columns(pretrained):
    ids = [LABELS.index(label) for label in TARGETS]
    weights = np.linspace(0.5, 2.0, len(TEXTS)).astype(np.float32)
    column = np.array(ids, np.float32)[:, np.newaxis]
    found = []
    for labels in (None, TARGETS, column):
        model = classifier(pretrained)
        data = (TEXTS, TARGETS)
        arguments = {"batch_size": 8, "sample_weight": weights}
        if labels is not None:
            rows = tf.data.Dataset.from_tensor_slices((TEXTS, labels, weights))
            data, arguments = (rows.batch(8),), {}
        history = model.fit(
            *data,
            validation_split=0.25,
            class_weight={"neg": 2.0},
            epochs=2,
            verbose=0,
            **arguments,
        )
        assert model.optimizer.schedule.num_train_steps == 4
        texts = data[0] if labels is not None else TEXTS
        found.append((history.history, model.predict(texts, 8, verbose=0)))
    for other in found[1:]:
        tasks.assert_equal_bits(other, found[0])
    assert set(found[0][0]) == {"accuracy", "loss", "val_accuracy", "val_loss"}


@pytest.mark.dear
def test_ids_that_a_preprocessor_made_stream(pretrained, model):
    ids = [LABELS.index(label) for label in TARGETS]
    dataset = tf.data.Dataset.from_tensor_slices((TEXTS, ids)).batch(5)
    stream = dataset.map(model.preprocessor)
    expected = model.evaluate(TEXTS, TARGETS, verbose=0)
    without = classifier(pretrained, preprocessor=None)
    without.set_weights(model.get_weights())
    for each in (model, without):
        found = each.evaluate(stream, verbose=0)
        assert found == pytest.approx(expected, abs=1e-5)
        np.testing.assert_allclose(
            each.predict(stream, verbose=0),
            model.predict(TEXTS, verbose=0),
            atol=1e-5,
        )
    rows = {n: x.numpy() for n, x in model.preprocessor(TEXTS).items()}
    # An endless one is told for how long; a validation is as in Keras.
    without.fit(
        stream.repeat(),
        steps_per_epoch=2,
        epochs=2,
        class_weight={0: 1.0, 1: 2.0},
        validation_data=(rows, np.array(ids)),
        verbose=0,
    )
    assert without.optimizer.schedule.num_train_steps == 4
    without.fit(
        rows, np.array(ids), batch_size=5, validation_split=0.5, verbose=0
    )
    assert without.optimizer.schedule.num_train_steps == 2

    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return 2

        def __getitem__(self, index):
            return rows, np.array(ids)

    without.fit(Batches(), verbose=0)
    unknown = stream.filter(lambda *_: True)
    with pytest.raises(ValueError, match="Expected steps_per_epoch"):
        without.fit(unknown, verbose=0)
    without.fit(unknown, steps_per_epoch=4, epochs=3, verbose=0)
    assert int(without.optimizer.iterations.numpy()) == 12


def test_weights_of_rows_and_classes(model):
    weights = np.linspace(0.5, 2.0, len(TEXTS)).astype(np.float32)
    is_pos = np.array(TARGETS) == "pos"
    ids = is_pos.astype(np.int32)
    of_rows = model.class_weights({"neg": 1.0, 1: 3}, ids)
    np.testing.assert_array_equal(of_rows, 1.0 + 2.0 * is_pos)
    of_rows = model.class_weights("balanced", ids)
    assert of_rows[is_pos].sum() == pytest.approx(of_rows[~is_pos].sum())
    # The loss of a row counts as often.
    losses = [
        model.evaluate([text], [label], verbose=0)[0]
        for text, label in zip(TEXTS[:3], TARGETS, strict=False)
    ]
    found = model.evaluate(
        TEXTS[:3], TARGETS[:3], sample_weight=[1, 0, 2], verbose=0
    )
    assert found[0] == pytest.approx((losses[0] + 2 * losses[2]) / 3, rel=1e-5)
    _, features, _ = model._columns(TEXTS, TARGETS, weights, None)
    np.testing.assert_array_equal(features[model._sample_weight], weights)


def test_rows_that_are_not_shuffled_keep_their_order(model):
    weights = np.arange(len(TEXTS), dtype=np.float32)  # Tells the rows.
    _, features, _ = model._columns(TEXTS, TARGETS, weights, None)
    data = model._train_dataset(features, 8, False, None)
    found = [numbers.numpy().tolist() for *_, numbers in data.take(4)]
    rows = list(range(20))
    assert found == [rows[:8], rows[8:16], rows[16:], rows[:8]]


@pytest.mark.dear
def test_pairs(pretrained):
    found = classifier(pretrained)
    found.fit(PAIRS, TARGETS, verbose=0)
    assert found.has_pairs
    expected = found.predict(PAIRS, verbose=0)
    named = dict(zip(("text_pair", "text"), PAIRS[::-1], strict=True))
    dataset = tf.data.Dataset.from_tensor_slices((PAIRS, TARGETS)).batch(5)
    for x in (named, dataset):
        np.testing.assert_allclose(
            found.predict(x, verbose=0), expected, atol=1e-6
        )
    single = tf.data.Dataset.from_tensor_slices((TEXTS, TARGETS)).batch(5)
    for use in (lambda: found.predict(TEXTS), lambda: found.fit(single)):
        with pytest.raises(ValueError, match="Expected pairs of texts as x"):
            use()
    task = text_tasks.ClassificationTask("own", LABELS)
    examples = [
        text_tasks.TextExample(row, *texts, label, ("a.txt", row + 1))
        for row, (*texts, label) in enumerate(zip(*PAIRS, TARGETS, strict=True))
    ]
    own = electra_tf.TextClassifier.from_checkpoint(pretrained, task=task)
    own.fit(examples, verbose=0)
    assert own.has_pairs and own.labels == tuple(LABELS)


@pytest.mark.dear
def test_several_labels_a_row(pretrained):
    found = classifier(pretrained, labels=["a", "b", "c"], multi_label=True)
    rows = [["a"], [], ["b", "c"], [0, 2]] * 5
    accuracy = found.evaluate(TEXTS, rows, verbose=0)[1]
    matrix = np.array([[1, 0, 0], [0, 0, 0], [0, 1, 1], [1, 0, 1]] * 5)
    by_name = pd.DataFrame(matrix, columns=["a", "b", "c"])[["c", "a", "b"]]
    for form in (
        rows,
        matrix,
        tf.constant(matrix),
        pd.DataFrame(matrix),
        by_name,
    ):
        tasks.assert_equal_bits(found.targets(form, "y", 20), matrix)
    for bad in ([[1, 0, 1]], np.array([[5, 0, 1]]), np.array([[1, 0]]), ["a"]):
        with pytest.raises(ValueError, match="0 .*1"):
            found.targets(bad, "y", 1)
    dataset = tf.data.Dataset.from_tensor_slices((TEXTS, matrix)).batch(6)
    assert found.evaluate(dataset, verbose=0)[1] == pytest.approx(accuracy)
    assert found.decode_predictions([[0.6, 0.4, 0.9]]) == [["a", "c"]]
    probabilities = found.predict(TEXTS, verbose=0)
    expected = np.mean(((probabilities > 0.5) == matrix).all(axis=-1))
    assert accuracy == pytest.approx(expected)


def test_a_subclass_is_not_passed_over(pretrained):
    class Smoothed(electra_tf.TextClassifier):
        def compute_loss(self, *args, **kwargs):
            return 0.0

    model = Smoothed.from_checkpoint(pretrained, labels=LABELS)
    for use in (model.fit, model.evaluate):
        with pytest.raises(
            ValueError, match="_step in Smoothed beside compute"
        ):
            use(TEXTS, TARGETS, verbose=0)


def rows_of(*columns):
    return tf.data.Dataset.from_tensor_slices(columns)


BAD = {
    "Expected x as texts": (
        lambda m: m.predict("A fine film."),
        lambda m: m.predict(tf.constant("wa")),
        lambda m: m.predict([]),
        lambda m: m.predict((["wa"], ["wb", "wc"])),
    ),
    "Expected texts: strings": (
        lambda m: m.fit(pd.DataFrame({"a": ["a"], "b": ["b"]}), ["b"]),
        lambda m: m.predict(["wa", "\ud800"]),
    ),
    "Expected (a list or a column|y)": (
        lambda m: m.fit(["wa"]),
        lambda m: m.fit(["wa", "wb"], [1]),
        lambda m: m.fit(["wa"], np.array([[0, 1]])),
    ),
    "Expected (y|validation_y) as labels.*in row": (
        lambda m: m.fit(["wa", "wb"], ["pos", "fine"]),
        lambda m: m.fit(["wa"], [2]),
        lambda m: m.fit(["wa"], np.array([0.5])),
        lambda m: m.fit(["wa"], [1], validation_data=(["wa"], ["fine"])),
        lambda m: m.evaluate(rows_of(["wa"], ["fine"]).batch(1)),
    ),
    "a dataset of batches": (
        lambda m: m.fit(rows_of(["wa"], [1])),
        lambda m: m.fit(rows_of(*[["wa"]] * 4).batch(1)),
        lambda m: m.predict(rows_of(["wa"]).batch(1).take(0)),
        lambda m: m.fit(rows_of(["wa"], [1]).batch(1).repeat()),
    ),
    "them beside it": (lambda m: m.fit(rows_of(["wa"], [1]).batch(1), [1]),),
    "validation_y=None": (
        lambda m: m.fit(["wa"], [1], validation_data=["wa"]),
    ),
    "class_weight": (
        lambda m: m.fit(["wa"], [1], class_weight={"fine": 2.0}),
        lambda m: m.fit(["wa"], [1], class_weight=[1.0, 2.0]),
    ),
    "Expected sample_weight as a finite": (
        lambda m: m.fit(["wa"], [1], sample_weight=[float("nan")]),
    ),
    "validation_split": (lambda m: m.fit(["wa"], [1], validation_split=0.5),),
    "brings its own": (lambda m: m.compile("adam", learning_rate=0.1),),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_use(model, message):
    for use in BAD[message]:
        with pytest.raises(ValueError, match=message):
            use(model)


def test_multiple_choice_is_refused_by_its_name():
    checkpoint = dataclasses.replace(
        models.pretrained(), other_head="ElectraForMultipleChoice"
    )
    with pytest.raises(ValueError, match="MultipleChoice.*electra_tf.Encoder"):
        electra_tf.TextClassifier.from_checkpoint(checkpoint, labels=LABELS)
    assert electra_tf.Encoder.from_checkpoint(checkpoint)
