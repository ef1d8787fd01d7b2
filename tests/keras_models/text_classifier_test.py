import dataclasses

import keras
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import tensorflow as tf

import electra_tf
from electra_tf import configs
from electra_tf.checkpoints import reading
from electra_tf.finetuning import evaluation
from electra_tf.keras_models import columns
from electra_tf.model import heads
from electra_tf.model.finetuning_model import FinetuningModel
from electra_tf.tasks import features
from tests import helpers
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


def test_logits_are_those_of_the_gin_runs(model, pretrained):
    network = FinetuningModel(
        helpers.encoder_config(initializer_range=0.5),
        [heads.ClassificationHead("classification", 8, 2)],
    )
    reading.assign_all(
        reading.read_checkpoint(pretrained),
        network.electra.variables,
        pretrained,
        "the encoder",
    )
    for ours, theirs in zip(
        network.task_specific.variables,
        model.network.task_specific.variables,
        strict=True,
    ):
        ours.assign(theirs)
    rows = features.text_features(
        TEXTS, [None] * len(TEXTS), model.preprocessor.tokenizer, helpers.LENGTH
    )
    expected = evaluation.make_predictor(network, "classification", 8)(rows)
    for inputs in (rows, model.preprocessor(TEXTS)):
        np.testing.assert_allclose(
            model.task_outputs(inputs)["logits"], expected["logits"], atol=1e-5
        )
    np.testing.assert_allclose(
        model.predict(TEXTS, verbose=0),
        tf.nn.softmax(expected["logits"]),
        atol=1e-5,
    )


def test_fifty_steps_are_those_of_the_engine(pretrained):
    found = classifier(pretrained, dropout=0.0)
    rows = found.features(found.read_inputs(TEXTS), TARGETS)
    network, expected = tasks.train_by_engine(found, rows, 50, 4)
    history = found.fit(TEXTS, TARGETS, batch_size=4, epochs=10, verbose=0)
    assert found.optimizer.iterations == 50
    for ours, theirs in zip(
        found.network.variables, network.variables, strict=True
    ):
        np.testing.assert_allclose(ours, theirs, atol=1e-5, err_msg=ours.path)
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


def test_pairs_of_a_frame_go_by_name():
    first, second = PAIRS
    swapped = pd.DataFrame({"text_pair": second, "text": first})
    assert columns.texts(swapped) == columns.texts(PAIRS)
    by_place = pd.DataFrame({"b": first, "a": second})
    assert columns.texts(by_place) == columns.texts(PAIRS)


def test_pairs_of_a_frame_go_by_the_names_of_fit(pretrained, tmp_path):
    frame = pd.DataFrame(dict(zip(("second", "first"), PAIRS, strict=True)))
    swapped = frame[["first", "second"]]
    model = classifier(pretrained)
    assert model.read_inputs(swapped) != model.read_inputs(frame)
    model.fit(frame, TARGETS, verbose=0)
    model.save(tmp_path / "model.keras")
    model.save_checkpoint(tmp_path / "checkpoint")
    for found in (
        model,
        keras.saving.load_model(tmp_path / "model.keras"),
        electra_tf.TextClassifier.from_checkpoint(tmp_path / "checkpoint"),
    ):
        assert found.read_inputs(swapped) == columns.texts(PAIRS)
        others = swapped.rename(columns={"second": "last"})
        assert found.read_inputs(others) == columns.texts(PAIRS[::-1])
    # A second fit reads them in the order of the first.
    model.fit(swapped, TARGETS, verbose=0)
    assert model.read_inputs(frame) == columns.texts(PAIRS)


def test_a_training_that_learns_nothing_is_said(pretrained):
    found = classifier(pretrained)
    before = [v.numpy() for v in found.network.variables]
    with pytest.warns(UserWarning, match="one step learns nothing"):
        found.fit(TEXTS, TARGETS, batch_size=20, epochs=1, verbose=0)
    for old, new in zip(before, found.network.variables, strict=True):
        tasks.assert_equal_bits(old, new.numpy())


def test_a_column_of_labels_is_no_second_text(model):
    frame = pd.DataFrame({"text": TEXTS, "label": TARGETS})
    for y in (frame["label"], TARGETS, tf.constant(TARGETS)):
        with pytest.raises(ValueError, match="whose column 'label' is that of"):
            model.evaluate(frame, y)
    # Whatever they have become.
    with pytest.raises(ValueError, match="whose column 'label' is that of"):
        model.evaluate(frame, frame["label"].map({"neg": 0, "pos": 1}))
    missing = pd.Series([*TARGETS[:-1], pd.NA], dtype="string")
    with pytest.raises(ValueError, match="Received: .* in row 19"):
        model.evaluate(frame[["text"]], missing)


def test_rows_that_are_not_shuffled_keep_their_order(model):
    weights = np.arange(len(TEXTS), dtype=np.float32)  # Tells the rows.
    features = model._arrays(TEXTS, TARGETS, weights)
    lengths = features["input_mask"].sum(axis=-1)
    assert (np.diff(lengths) < 0).any()
    found = []
    for x, _, numbers in model._train_dataset(features, 8, False, None).take(4):
        found.append(numbers.numpy().tolist())
        np.testing.assert_array_equal(
            x["input_mask"].numpy().sum(axis=-1),
            lengths[numbers.numpy().astype(int)],
        )
    rows = list(range(20))
    assert found == [rows[:8], rows[8:16], rows[16:], rows[:8]]


def test_numbers_as_labels(pretrained):
    stars = classifier(pretrained, labels=[1, 2, 5])
    assert stars.labels == ("1", "2", "5")
    found = stars.targets([5, 1, "2"], "y", 3)
    assert found.tolist() == [2, 0, 1]
    assert stars.decode_predictions([[0.1, 0.2, 0.7]]) == ["5"]
    # A truth value is no number where it is a name.
    truth = classifier(pretrained, labels=np.array([True, False]))
    assert truth.targets([True, np.False_], "y", 2).tolist() == [0, 1]
    counted = classifier(pretrained, labels=3)
    assert counted.targets([2, 0], "y", 2).tolist() == [2, 0]


@pytest.mark.dear
def test_a_dataset_is_as_good_as_a_list(model):
    expected = model.evaluate(TEXTS, TARGETS, return_dict=True, verbose=0)
    ids = [LABELS.index(label) for label in TARGETS]
    column = np.array(ids, np.float32)[:, np.newaxis]
    for labels in (TARGETS, ids, column):
        dataset = tf.data.Dataset.from_tensor_slices((TEXTS, labels)).batch(6)
        found = model.evaluate(dataset, return_dict=True, verbose=0)
        assert found == pytest.approx(expected, abs=1e-5)
    np.testing.assert_allclose(
        model.predict(dataset, verbose=0),
        model.predict(TEXTS, verbose=0),
        atol=1e-6,
    )


@pytest.mark.dear
def test_fit_on_a_dataset(pretrained):
    dataset = tf.data.Dataset.from_tensor_slices((TEXTS, TARGETS)).batch(8)
    found = classifier(pretrained)
    history = found.fit(
        dataset,
        epochs=2,
        validation_data=dataset,
        class_weight={"neg": 2.0},
        verbose=0,
    )
    assert found.optimizer.schedule.num_train_steps == 6
    assert set(history.history) == {
        *("accuracy", "loss", "val_accuracy", "val_loss")
    }
    endless = dataset.repeat()
    with pytest.raises(ValueError, match="Expected steps_per_epoch"):
        found.fit(endless)


@pytest.mark.dear
def test_negative_weights_are_refused_in_datasets_and_with_ids(pretrained):
    model = classifier(pretrained)
    rows = (TEXTS, TARGETS, -np.ones(20, np.float32))
    dataset = tf.data.Dataset.from_tensor_slices(rows).batch(4)
    message = "weights in x of 0 or more"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        model.fit(dataset, epochs=1, verbose=0)
    features = model.preprocessor(TEXTS)
    ids = model._labels.ids(TARGETS, "y", 20)
    without = classifier(pretrained, preprocessor=None)
    with pytest.raises(ValueError, match="sample_weight of 0 or more. .*-1"):
        without.fit(features, ids, sample_weight=rows[2], verbose=0)
    dataset = tf.data.Dataset.from_tensor_slices((features, ids, rows[2]))
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        without.fit(dataset.batch(4), verbose=0)


def test_predictions_that_are_no_numbers_have_no_names(model):
    predictions = np.zeros((3, len(LABELS)))
    predictions[1, 0] = np.nan
    with pytest.raises(ValueError, match=r"that are finite. .*nan.* in row 1"):
        model.decode_predictions(predictions)
    assert model.decode_predictions(predictions[:0]) == []


def test_weights_of_rows_and_classes(model):
    weights = np.linspace(0.5, 2.0, len(TEXTS)).astype(np.float32)
    rows = model._arrays(TEXTS, TARGETS, weights, {"pos": 3})
    expected = [
        weight * (3.0 if label == "pos" else 1.0)
        for weight, label in zip(weights, TARGETS, strict=True)
    ]
    np.testing.assert_allclose(
        rows["classification_loss_weights"], expected, rtol=1e-6
    )
    of_one_batch = []
    for arguments in (
        {"class_weight": {"neg": 1.0, 1: 3}},
        {"sample_weight": [1.0 + 2.0 * (y == "pos") for y in TARGETS]},
    ):
        again = keras.models.clone_model(model)
        again.set_weights(model.get_weights())
        again.compile("sgd")
        of_one_batch.append(again.train_on_batch(TEXTS, TARGETS, **arguments))
        again.train_on_batch(TEXTS, TARGETS)
    assert of_one_batch[0] == of_one_batch[1]
    balanced = model._arrays(TEXTS, TARGETS, None, "balanced")
    of_rows = balanced["classification_loss_weights"]
    is_pos = np.array(TARGETS) == "pos"
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


@pytest.mark.dear
def test_losses_optimizers_and_metrics_of_keras(pretrained):
    found = classifier(pretrained, dropout=0.0)
    found.compile(
        keras.optimizers.Adam(3e-3),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    start = [v.numpy() for v in found.network.variables]
    theirs = found.evaluate(TEXTS, TARGETS, return_dict=True, verbose=0)
    history = found.fit(TEXTS, TARGETS, batch_size=8, epochs=5, verbose=0)
    assert history.history["loss"][-1] < history.history["loss"][0]
    other = classifier(pretrained)
    for ours, of in zip(other.network.variables, start, strict=True):
        ours.assign(of)
    ours = other.evaluate(TEXTS, TARGETS, return_dict=True, verbose=0)
    assert ours == pytest.approx(theirs, abs=1e-6)


@pytest.mark.dear
def test_each_fit_begins_anew_but_for_a_given_number_of_steps(pretrained):
    found = classifier(pretrained)
    with pytest.raises(ValueError, match="Received: num_train_steps=None"):
        found.train_on_batch(TEXTS, TARGETS)
    for _ in range(2):
        found.fit(TEXTS, TARGETS, verbose=0)
        assert found.optimizer.iterations == 1
        assert found.optimizer.learning_rate == 0.0
    found.compile(num_train_steps=4)
    found.fit(TEXTS, TARGETS, verbose=0)
    found.train_on_batch(TEXTS, TARGETS)
    assert found.optimizer.iterations == 2
    assert float(found.optimizer.learning_rate) == pytest.approx(1.5e-4)


def test_saved_and_loaded(trained, tmp_path):
    path = str(tmp_path / "film.keras")
    trained.save(path)
    again = keras.models.load_model(path)
    expected = trained.predict(TEXTS, verbose=0)
    tasks.assert_equal_bits(again.predict(TEXTS, verbose=0), expected)
    assert again.labels == tuple(LABELS)
    assert again.optimizer.iterations == trained.optimizer.iterations
    for ours, theirs in zip(
        again.optimizer.variables, trained.optimizer.variables, strict=True
    ):
        tasks.assert_equal_bits(ours.numpy(), theirs.numpy())
    weights = str(tmp_path / "film.weights.h5")
    trained.save_weights(weights)
    fresh = electra_tf.TextClassifier.from_config(trained.get_config())
    fresh.load_weights(weights)
    tasks.assert_equal_bits(fresh.predict(TEXTS, verbose=0), expected)


def test_from_a_model_directory_and_back(trained, tmp_path):
    path = str(tmp_path / "model_dir")
    trained.save_checkpoint(path)
    again = electra_tf.TextClassifier.from_checkpoint(path)
    expected = trained.predict(TEXTS, verbose=0)
    tasks.assert_equal_bits(again.predict(TEXTS, verbose=0), expected)
    assert again.has_pairs is False
    with pytest.raises(ValueError, match="must be a new or empty folder"):
        trained.save_checkpoint(path)
    # As a gin run takes it.
    read = reading.read_checkpoint(path)
    assert read.head.labels == tuple(LABELS)
    assert read.max_seq_length == helpers.LENGTH


def test_exports_what_the_tool_exports(trained, tmp_path):
    path = trained.export(tmp_path / "film")
    assert path == str(tmp_path / "film" / "1")
    found = tf.saved_model.load(path).signatures["serving_default"](
        text=tf.constant(TEXTS)
    )
    expected = trained.predict(TEXTS, verbose=0)
    np.testing.assert_allclose(found["scores"], expected, atol=1e-5)
    names = [name.decode() for name in found["label"].numpy()]
    assert names == trained.decode_predictions(expected)


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
    found.save(tmp_path / "mean.keras")
    again = keras.models.load_model(tmp_path / "mean.keras")
    tasks.assert_equal_bits(again.predict(TEXTS, verbose=0), expected)
    path = str(tmp_path / "model_dir")
    found.save_checkpoint(path)
    again = electra_tf.TextClassifier.from_checkpoint(path)
    assert again.head.options["pooling"] == "mean"
    tasks.assert_equal_bits(again.predict(TEXTS, verbose=0), expected)
    served = tf.saved_model.load(found.export(tmp_path / "served"))
    scores = served.signatures["serving_default"](text=tf.constant(TEXTS))
    np.testing.assert_allclose(scores["scores"], expected, atol=1e-5)
    with pytest.warns(UserWarning, match="new head with pooling='cls': that"):
        other = electra_tf.TextClassifier.from_checkpoint(
            path, labels=LABELS, pooling="cls"
        )
    assert "pooling" not in other.head.options
    with pytest.raises(
        ValueError, match="Expected labels=.* and pooling='cls'"
    ):
        electra_tf.TextClassifier.from_checkpoint(path, pooling="cls")
    # Where nothing is said, a new head reads what the one before it read.
    with pytest.warns(UserWarning, match="A new head for the labels") as told:
        other = electra_tf.TextClassifier.from_checkpoint(
            path, labels=["a", "b", "c"]
        )
    assert other.head.pooling == "mean"
    assert [warning.filename for warning in told] == [__file__]
    with pytest.raises(ValueError, match="cls, mean. Received: 'max'"):
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
    for ours, theirs in zip(encoder.weights, fresh.weights, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_an_encoder_of_a_model_of_ids(pretrained):
    found = classifier(pretrained, preprocessor=None)
    tasks.assert_equal_bits(
        found.encoder().electra.get_weights(),
        found.network.electra.get_weights(),
    )


def test_what_is_no_encoder_is_refused():
    with pytest.raises(
        ValueError, match="^Expected an electra_tf.Encoder .*'x'"
    ):
        electra_tf.TextClassifier("x", LABELS)


@pytest.mark.dear
def test_pairs(pretrained):
    found = classifier(pretrained)
    found._arrays(PAIRS, TARGETS, None, is_training=True)
    assert found.has_pairs
    expected = found.predict(PAIRS, verbose=0)
    frame = pd.DataFrame(dict(zip("ab", PAIRS, strict=True)))
    tasks.assert_equal_bits(found.predict(frame, verbose=0), expected)
    dataset = tf.data.Dataset.from_tensor_slices((PAIRS, TARGETS)).batch(5)
    np.testing.assert_allclose(
        found.predict(dataset, verbose=0), expected, atol=1e-6
    )
    single = tf.data.Dataset.from_tensor_slices((TEXTS, TARGETS)).batch(5)
    for use in (
        lambda: found.predict(TEXTS),
        lambda: found.fit(single, verbose=0),
    ):
        with pytest.raises(ValueError, match="Expected pairs of texts as x"):
            use()
    assert found.has_pairs


def test_a_length_beside_a_preprocessor_is_refused(model, pretrained):
    given = model.preprocessor
    for preprocessor, cut in (
        (None, "token ids, which nothing cuts"),
        (given, "preprocessor=.*Preprocessor"),
    ):
        with pytest.raises(ValueError, match=f"max_seq_length=5 with {cut}"):
            classifier(pretrained, max_seq_length=5, preprocessor=preprocessor)
    length = given.max_seq_length
    assert length != 5
    classifier(pretrained, max_seq_length=length, preprocessor=given)


def test_windows_need_a_preprocessor_for_their_length(tmp_path):
    raw = models.finetuned("classification", 2)
    options = {"windows": {"stride": 3, "max_windows": 4}}
    head = dataclasses.replace(raw.head, options=options)
    checkpoint = dataclasses.replace(raw, head=head, max_seq_length=12)
    found = electra_tf.TextClassifier.from_checkpoint(checkpoint)
    assert found.windows.max_seq_length == 12
    with pytest.raises(ValueError, match="in windows, and nothing else says"):
        electra_tf.TextClassifier.from_checkpoint(checkpoint, preprocessor=None)
    pairs = tf.data.Dataset.from_tensor_slices((PAIRS, TARGETS)).batch(5)
    with pytest.raises(ValueError, match="Expected single texts as x"):
        found.fit(pairs, verbose=0)


@pytest.mark.dear
def test_several_labels_a_row(pretrained):
    found = classifier(pretrained, labels=["a", "b", "c"], multi_label=True)
    rows = [["a"], [], ["b", "c"], [0, 2]] * 5
    accuracy = found.evaluate(TEXTS, rows, verbose=0)[1]
    matrix = np.array([[1, 0, 0], [0, 0, 0], [0, 1, 1], [1, 0, 1]] * 5)
    tasks.assert_equal_bits(found.targets(rows, "y", 20), matrix)
    for form in (matrix, tf.constant(matrix), pd.DataFrame(matrix)):
        tasks.assert_equal_bits(found.targets(form, "y", 20), matrix)
    by_name = pd.DataFrame(matrix, columns=["a", "b", "c"])[["c", "a", "b"]]
    tasks.assert_equal_bits(found.targets(by_name, "y", 20), matrix)
    numbered = classifier(pretrained, labels=[0, 1, 2], multi_label=True)
    by_number = pd.DataFrame(matrix)[[2, 0, 1]]
    tasks.assert_equal_bits(numbered.targets(by_number, "y", 20), matrix)
    other = by_name.rename(columns={"c": "d"})
    with pytest.raises(ValueError, match=r"with the columns \['d', 'a', 'b'\]"):
        found.targets(other, "y", 20)
    with pytest.raises(ValueError, match="a 0 or 1 for every label is an arr"):
        found.targets([[1, 0, 1]], "y", 1)
    dataset = tf.data.Dataset.from_tensor_slices((["wa"], [[5, 0, 1]])).batch(1)
    with pytest.raises(tf.errors.InvalidArgumentError, match="a 0 or 1 for"):
        found.evaluate(dataset, verbose=0)
    dataset = tf.data.Dataset.from_tensor_slices((["wa"], [["a"]])).batch(1)
    with pytest.raises(ValueError, match="Received: labels of string"):
        found.evaluate(dataset, verbose=0)
    assert found.decode_predictions([[0.6, 0.4, 0.9]]) == [["a", "c"]]
    probabilities = found.predict(TEXTS, verbose=0)
    expected = np.mean(((probabilities > 0.5) == matrix).all(axis=-1))
    assert accuracy == pytest.approx(expected)


def test_two_decisions_a_row_are_no_labels(pretrained):
    found = classifier(pretrained, labels=["a", "b"], multi_label=True)
    rows = [[1, 0], [0, 1]]
    with pytest.raises(ValueError, match=r"Received: \[1, 0\] in row 0; a 0 "):
        found.targets(rows, "y", 2)
    matrix = np.array(rows)
    tasks.assert_equal_bits(found.targets(matrix, "y", 2), matrix)
    # Both labels, beside a row with one.
    expected = np.array([[1, 1], [0, 1]])
    tasks.assert_equal_bits(found.targets([[1, 0], [1]], "y", 2), expected)


def test_several_labels_a_row_are_0_or_1_without_a_preprocessor(
    pretrained, model
):
    found = classifier(
        pretrained, labels=["a", "b"], multi_label=True, preprocessor=None
    )
    rows = dict(model.preprocessor(TEXTS[:2]))
    with pytest.raises(ValueError, match="labels from 0 to 1 as y. Received"):
        found.test_on_batch(rows, tf.constant([[0, 1], [2, 0]]))
    found.test_on_batch(rows, tf.constant([[0.0, 1.0], [1.0, 1.0]]))
    found.compile(num_train_steps=1)
    with pytest.raises(ValueError, match="sample_weight with several labels"):
        found.train_on_batch(
            rows, np.array([[0, 1], [1, 1]]), class_weight={0: 1.0, 1: 2.0}
        )


def test_validation_reads_what_training_reads(pretrained):
    pairs = (TEXTS, TEXTS)
    with pytest.raises(ValueError, match="Expected texts as validation_x, as"):
        classifier(pretrained).fit(
            TEXTS, TARGETS, validation_data=(pairs, TARGETS)
        )
    dataset = tf.data.Dataset.from_tensor_slices((TEXTS, TARGETS)).batch(5)
    with pytest.raises(ValueError, match="Expected pairs of texts as valida"):
        classifier(pretrained).fit(pairs, TARGETS, validation_data=dataset)


@pytest.mark.dear
def test_without_a_preprocessor(pretrained, model):
    found = classifier(pretrained, preprocessor=None)
    rows = {
        name: values.numpy()
        for name, values in model.preprocessor(TEXTS).items()
    }
    ids = np.array([LABELS.index(label) for label in TARGETS])
    found.fit(rows, ids, batch_size=8, validation_data=(rows, ids), verbose=0)
    assert found.predict(rows, verbose=0).shape == (20, 2)
    dataset = tf.data.Dataset.from_tensor_slices((rows, ids)).batch(8)
    found.fit(dataset, verbose=0)
    # Keras takes no share of the rows where there are others to validate on.
    found.fit(
        rows,
        ids,
        batch_size=8,
        validation_data=(rows, ids),
        validation_split=0.5,
        verbose=0,
    )
    assert found.optimizer.schedule.num_train_steps == 3

    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return 2

        def __getitem__(self, index):
            return rows, ids

    found.fit(Batches(), verbose=0)
    with pytest.raises(ValueError, match="Expected x as a dictionary of token"):
        found.fit(TEXTS, ids)
    with pytest.raises(ValueError, match="Received: class_weight='balanced'"):
        found.fit(rows, ids, class_weight="balanced")


def test_texts_without_a_preprocessor_are_refused(pretrained):
    found = classifier(pretrained, preprocessor=None)
    for use in (
        lambda: found.predict(TEXTS, verbose=0),
        lambda: found.evaluate(TEXTS, TARGETS, verbose=0),
        lambda: found.fit(TEXTS, TARGETS, verbose=0),
    ):
        with pytest.raises(ValueError, match="Expected x as a dictionary of"):
            use()


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


def test_ids_with_labels_and_weights_of_another_shape(pretrained, model):
    rows = {
        name: values.numpy()
        for name, values in model.preprocessor(TEXTS).items()
    }
    ids = np.array([LABELS.index(label) for label in TARGETS])
    weights = np.ones(len(ids), np.float32)
    found = classifier(pretrained, preprocessor=None)
    # Keras's metrics would stop at them first.
    found.compile(metrics=None)
    with pytest.raises(ValueError, match=r"1 axis as y. .*shape \(20, 1\)"):
        found.test_on_batch(rows, ids[:, np.newaxis], weights)
    with pytest.raises(ValueError, match=r"label_ids of the shape \(20, 1\)"):
        found.features_of(rows, ids[:, np.newaxis])
    with pytest.raises(ValueError, match=r"weights of the shape \(20, 1\)"):
        found.test_on_batch(rows, ids, weights[:, np.newaxis])


@pytest.mark.dear
def test_a_weight_of_a_dataset_that_is_no_number(model):
    weights = np.ones(len(TEXTS), np.float32)
    weights[3] = np.nan
    dataset = tf.data.Dataset.from_tensor_slices((TEXTS, TARGETS, weights))
    for ask in (model.fit, model.evaluate):
        with pytest.raises(
            tf.errors.InvalidArgumentError,
            match="Expected finite weights in x. Received",
        ):
            ask(dataset.batch(4), verbose=0)


def test_dropout_where_keras_has_it(model):
    rows = model.preprocessor(TEXTS)
    plain = model(rows)
    tasks.assert_equal_bits(model(rows, training=False).numpy(), plain.numpy())
    once, twice = model(rows, training=True), model(rows, training=True)
    assert np.abs(once - plain).max() > 1e-3
    assert np.abs(once - twice).max() > 1e-3


def test_other_optimizer_settings(pretrained):
    found = classifier(pretrained)
    found.compile(configs.OptimizerConfig(1e-3, layerwise_lr_decay=0.5))
    found._begin(3, 1)
    scales = set(np.round(list(found.optimizer.scales.values()), 4))
    assert scales == {0.0625, 0.125, 0.25, 1.0}


def test_a_decay_at_the_end_of_fit(pretrained):
    found = classifier(pretrained)
    found.compile(
        configs.OptimizerConfig(
            1.0,
            schedule=configs.WARMUP_STABLE_DECAY,
            num_decay_steps=2,
            layerwise_lr_decay=1.0,
        )
    )
    found._begin(3, 2)
    rates = [float(found.optimizer.schedule(step)) for step in range(7)]
    assert rates == [1, 1, 1, 1, 1, 0.5, 0]
    with pytest.raises(ValueError, match="the training steps, 1. Received"):
        found._begin(1, 1)


BAD = {
    "a text by itself": (
        lambda m: m.predict("A fine film."),
        "x.* Received: the text 'A fine film.' by itself",
    ),
    "no text": (lambda m: m.predict([]), "Received: no text"),
    "a missing text": (
        lambda m: m.predict(["wa", None]),
        "Received: None, of type NoneType, at 1",
    ),
    "numbers as texts": (
        lambda m: m.fit(np.zeros(3), [0, 1, 0]),
        "x: Expected texts.*Received: an array of float64",
    ),
    "token ids": (
        lambda m: m.predict(np.zeros((3, 4), np.int32)),
        "Received: an array of int32",
    ),
    "a list of pairs": (
        lambda m: m.fit([("wa", "wb")], [1]),
        "Received: .*if these are pairs",
    ),
    "a text alone, as an array": (
        lambda m: m.predict(np.array("wa")),
        "Received: the text array",
    ),
    "a text alone, as a tensor": (
        lambda m: m.predict(tf.constant("wa")),
        "Received: the text <tf.Tensor",
    ),
    "a negative weight of a row": (
        lambda m: m.fit(["wa", "wb"], [1, 0], sample_weight=[1, -2]),
        "Expected sample_weight of 0 or more. Received: -2 in row 1",
    ),
    "a share that is none": (
        lambda m: m.fit(["wa"], [1], validation_split=float("nan")),
        "Received: validation_split=nan",
    ),
    "three columns": (
        lambda m: m.predict((["wa"], ["wb"], ["wc"])),
        "Received: 3 columns",
    ),
    "uneven pairs": (
        lambda m: m.predict((["wa"], ["wb", "wc"])),
        "Received: 1 and 2",
    ),
    "no labels": (lambda m: m.fit(["wa"]), "Expected y.*Received: y=None"),
    "too few labels": (
        lambda m: m.fit(["wa", "wb"], [1]),
        "Expected as many values in y as in x, 2. Received: 1",
    ),
    "an unknown name": (
        lambda m: m.fit(["wa", "wb"], ["pos", "fine"]),
        "'neg', 'pos'. Received: 'fine', of type str, in row 1",
    ),
    "an unknown number": (
        lambda m: m.fit(["wa"], [2]),
        "Received: 2, of type int, in row 0",
    ),
    "shares": (
        lambda m: m.fit(["wa"], np.array([0.5])),
        "Received: 0.5, of type float, in row 0",
    ),
    "one-hot": (
        lambda m: m.fit(["wa"], np.array([[0, 1]])),
        r"Received: an array of the shape \(1, 2\)",
    ),
    "labels of validation": (
        lambda m: m.fit(["wa"], [1], validation_data=(["wa"], ["fine"])),
        "Expected validation_y .*Received: 'fine'",
    ),
    "texts of validation": (
        lambda m: m.fit(["wa"], [1], validation_data=["wa"]),
        "Expected validation_data as .*Received",
    ),
    "a dataset of rows": (
        lambda m: m.fit(tf.data.Dataset.from_tensor_slices((["wa"], [1]))),
        "Expected x as a dataset of batches",
    ),
    "a dataset without labels": (
        lambda m: m.fit(tf.data.Dataset.from_tensor_slices(["wa"]).batch(1)),
        "Expected a dataset of .texts, labels.",
    ),
    "labels beside a dataset": (
        lambda m: m.fit(
            tf.data.Dataset.from_tensor_slices((["wa"], [1])).batch(1), [1]
        ),
        "Expected labels and weights in the dataset",
    ),
    "labels beside a dataset to score": (
        lambda m: m.evaluate(
            tf.data.Dataset.from_tensor_slices((["wa"], [1])).batch(1), [1]
        ),
        "Expected labels and weights in the dataset",
    ),
    "weights of unknown classes": (
        lambda m: m.fit(["wa"], [1], class_weight={"fine": 2.0}),
        "Expected class_weight .*Received: 'fine'",
    ),
    "weights that are none": (
        lambda m: m.fit(["wa"], [1], sample_weight=[float("nan")]),
        "Expected sample_weight .*Received: nan in row 0",
    ),
    "predictions of others": (
        lambda m: m.decode_predictions(np.zeros((2, 3))),
        r"Received: shape \(2, 3\)",
    ),
    "a size of batches": (
        lambda m: m.fit(["wa"], [1], batch_size=-1),
        "Expected batch_size .*Received: batch_size=-1",
    ),
    "no steps": (
        lambda m: m.fit(["wa"], [1], steps_per_epoch=0),
        "Received: steps_per_epoch=0",
    ),
    "steps of columns": (
        lambda m: m.predict(["wa", "wb"], steps=1),
        "Expected steps beside a dataset.*Received: steps=1",
    ),
    "half a character": (
        lambda m: m.predict(["wa", "\ud800"]),
        "Received: half of a character, a surrogate, at 1",
    ),
    "a generator": (
        lambda m: m.fit(row for row in [("wa", 1)]),
        "Expected x as columns or a tf.data.Dataset.*Received: a generator",
    ),
    "four columns of a dataset": (
        lambda m: m.fit(
            tf.data.Dataset.from_tensor_slices((["wa"],) * 4).batch(1)
        ),
        "Expected a dataset of .*Received",
    ),
    "weights of a dataset": (
        lambda m: m.fit(
            tf.data.Dataset.from_tensor_slices((["wa"], [1], ["a"])).batch(1)
        ),
        "Received: weights of string",
    ),
    "a column of weights in a dataset": (
        lambda m: m.evaluate(
            tf.data.Dataset.from_tensor_slices(
                (["wa", "wb"], [1, 0], [[1.0], [2.0]])
            ).batch(2)
        ),
        r"a number for each row. Received: .*the shape \(None, 1\)",
    ),
    "an empty dataset": (
        lambda m: m.predict(
            tf.data.Dataset.from_tensor_slices(["wa"]).batch(1).take(0)
        ),
        "Expected x as a dataset with rows. Received: one without",
    ),
    "a mistyped second text": (
        lambda m: m.predict({"text": ["wa"], "text_b": ["wb"]}),
        "and for pairs 'text_pair'. Received: .'text', 'text_b'.",
    ),
    "a list of weights": (
        lambda m: m.fit(["wa"], [1], class_weight=[1.0, 2.0]),
        r"Expected class_weight .*Received: class_weight=\[1.0, 2.0\]",
    ),
    "a negative weight": (
        lambda m: m.fit(["wa"], [1], class_weight={"pos": -1.0}),
        "Received: -1.0 for 'pos'",
    ),
    "two weights of a class": (
        lambda m: m.fit(["wa"], [1], class_weight={"pos": 1.0, 1: 2.0}),
        "Received: 'pos' twice",
    ),
    "a rate for Keras's": (
        lambda m: m.compile("adam", learning_rate=0.1),
        "Received: optimizer='adam', learning_rate=0.1",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_use(model, name):
    use, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        use(model)


def test_an_unknown_label_in_a_dataset(model):
    dataset = tf.data.Dataset.from_tensor_slices((["wa"], ["fine"])).batch(1)
    with pytest.raises(tf.errors.InvalidArgumentError, match="fine"):
        model.evaluate(dataset, verbose=0)


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
    with pytest.raises(ValueError, match="Received: max_seq_length=13"):
        from_checkpoint(pretrained, labels=LABELS, max_seq_length=13)
    path = tmp_path / "model_dir"
    trained.save_checkpoint(path)
    with pytest.raises(ValueError, match="Expected labels in the order"):
        from_checkpoint(path, labels=LABELS[::-1])
    with pytest.warns(UserWarning, match="A new head for the labels 'a', 'b'"):
        from_checkpoint(path, labels=["a", "b"])
    with pytest.warns(UserWarning, match="A new head for multi_label_class"):
        from_checkpoint(path, labels=LABELS, multi_label=True)
    with pytest.warns(UserWarning, match="for regression: that of .*classif"):
        electra_tf.TextRegressor.from_checkpoint(path)


@pytest.mark.dear
def test_a_dataset_of_unknown_length_has_no_step_beyond_it(pretrained):
    rows = tf.data.Dataset.from_tensor_slices((TEXTS, TARGETS)).batch(8)
    found = classifier(pretrained)
    found.compile(num_train_steps=6)
    with pytest.warns(UserWarning, match="ran out of data"):
        found.fit(rows.filter(lambda *_: True), epochs=2, verbose=0)
    assert int(found.optimizer.iterations.numpy()) == 6


@pytest.mark.dear
def test_a_dataset_of_unknown_length_has_all_its_epochs(pretrained):
    model = tasks.classifier(pretrained)
    rows = list(zip(tasks.TEXTS[:6], tasks.TARGETS[:6], strict=True))
    dataset = tf.data.Dataset.from_generator(
        lambda: rows, output_signature=(tf.TensorSpec([], tf.string),) * 2
    ).batch(3)
    history = model.fit(dataset, epochs=3, steps_per_epoch=2, verbose=0)
    assert int(model.optimizer.iterations.numpy()) == 6
    assert min(history.history["loss"]) > 0


@pytest.mark.dear
def test_labels_may_be_a_tuple(pretrained):
    model = tasks.classifier(pretrained)
    numbers = tuple(tasks.LABELS.index(label) for label in tasks.TARGETS[:6])
    for labels in (tuple(tasks.TARGETS[:6]), numbers):
        history = model.fit(
            tasks.TEXTS[:6], labels, validation_split=0.5, verbose=0
        )
        assert "val_loss" in history.history
