import keras
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import electra_tf
from electra_tf.tasks import features as features_lib
from tests import helpers
from tests.checkpoints import models
from tests.keras_models import layer_checks

TEXTS = ["wa wb", "wc"]
IDS = [[2, 5, 6, 3], [2, 7, 3, 0]]


@pytest.fixture(scope="module")
def preprocessor():
    return electra_tf.Preprocessor(helpers.VOCAB, max_seq_length=12)


@pytest.mark.parametrize(
    "as_given",
    [list, np.array, lambda x: np.array(x, object), tf.constant, pd.Series]
    + [lambda x: {"text": x}, lambda x: tf.constant(x)[:, tf.newaxis]],
)
def test_texts_in_any_form(preprocessor, as_given):
    features = preprocessor(as_given(TEXTS))
    assert features["input_ids"].numpy().tolist() == IDS
    assert features["input_mask"].numpy().tolist() == [[1] * 4, [1, 1, 1, 0]]
    assert features["segment_ids"].numpy().tolist() == [[0] * 4] * 2
    assert {x.dtype for x in features.values()} == {tf.int32}


@pytest.mark.parametrize("as_dictionary", [False, True])
def test_pairs(preprocessor, as_dictionary):
    x = (["wa wb", "wc"], ["wd", ""])
    if as_dictionary:
        x = {"text": x[0], "text_pair": x[1]}
    features = preprocessor(x)
    assert features["input_ids"].numpy().tolist() == [
        [2, 5, 6, 3, 8, 3],
        [2, 7, 3, 0, 0, 0],
    ]
    assert features["segment_ids"].numpy().tolist()[0] == [0, 0, 0, 0, 1, 1]


def test_the_features_are_those_of_fine_tuning(preprocessor):
    first, second = ["wa " * 9, "wb", ""], ["wc " * 5, "", "wd"]
    whole = electra_tf.Preprocessor(
        helpers.VOCAB, max_seq_length=12, pad_to_max=True
    )
    found = whole((first, second))
    expected = features_lib.text_features(first, second, whole.tokenizer, 12)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, name)


def test_in_a_dataset_before_and_behind_batch(preprocessor):
    dataset = tf.data.Dataset.from_tensor_slices((TEXTS, [0, 1]))
    for batches in (
        dataset.batch(2).map(preprocessor),
        dataset.map(preprocessor).batch(2),
    ):
        ((features, labels),) = batches
        assert features["input_ids"].numpy()[:, :4].tolist() == IDS
        assert labels.numpy().tolist() == [0, 1]
    # Each text by itself was padded to the most.
    assert features["input_ids"].shape == (2, 12)


@pytest.mark.parametrize("has_pairs", [False, True])
def test_in_a_functional_model_and_its_file(preprocessor, has_pairs, tmp_path):
    text = keras.Input((), dtype="string")
    other = keras.Input((), dtype="string")
    given = (text, other) if has_pairs else text
    model = keras.Model(given, preprocessor(given))
    path = tmp_path / "model.keras"
    model.save(path)
    again = keras.models.load_model(path)
    values = tf.constant(TEXTS)
    values = (values, values[::-1]) if has_pairs else values
    expected = preprocessor(values)
    for network in (model, again, keras.models.clone_model(model)):
        found = network(values)
        for name, of_name in expected.items():
            np.testing.assert_array_equal(found[name], of_name, name)


def test_the_config_is_all_there_is():
    preprocessor = electra_tf.Preprocessor(
        ["Wa", *helpers.VOCAB],
        do_lower_case=False,
        text_cleaning="kcelectra",
        max_seq_length=9,
        pad_to_max=True,
        name="p",
    )
    config = preprocessor.get_config()
    again = electra_tf.Preprocessor.from_config(config)
    assert again.get_config() == config
    layer_checks.check_config(preprocessor)
    assert again("Wa wb")["input_ids"].numpy().tolist() == [
        # Padding is 0, whatever the id of [PAD] is.
        *(3, 0, 7, 4, 0, 0, 0, 0, 0)
    ]


def test_a_vocabulary_file_with_its_settings(tmp_path):
    vocab_file = helpers.write_vocab(tmp_path)
    (tmp_path / "vocab.txt.json").write_text(
        '{"do_lower_case": false, "strip_accents": false}'
    )
    by_file = electra_tf.Preprocessor(vocab_file)
    assert by_file.vocabulary.do_lower_case is False
    by_hand = electra_tf.Preprocessor(vocab_file, do_lower_case=True)
    assert by_hand.vocabulary.do_lower_case is True


def test_from_checkpoint():
    preprocessor = electra_tf.Preprocessor.from_checkpoint(models.pretrained())
    assert preprocessor.vocabulary == models.VOCABULARY
    # The model has no more positions.
    assert preprocessor.max_seq_length == helpers.LENGTH
    shorter = models.pretrained(max_seq_length=8)
    from_preset = electra_tf.Preprocessor.from_preset
    assert from_preset(shorter).max_seq_length == 8
    assert from_preset(shorter, max_seq_length=7).max_seq_length == 7


@pytest.mark.parametrize(
    "x, message",
    [
        ([1, 2], "Expected texts"),
        (["wa", None], "Expected texts"),
        (np.zeros(3), "Expected texts"),
        (tf.constant([["a", "b"]]), r"strings of shape \(1, 2\)"),
        ([("wa", "wb")], r"tuple\(map\(list, zip\(\*pairs\)\)\)"),
        (
            (["wa"], ["wb", "wc"]),
            r"in a pair. Received: shapes \(1,\) and \(2,\)",
        ),
        ((["wa"],) * 3, "Received: a tuple of 3"),
        ({"sentence": ["wa"]}, "Expected texts"),
        (keras.Input((4,)), "Expected texts"),
    ],
)
def test_what_it_refuses(preprocessor, x, message):
    with pytest.raises(ValueError, match=message):
        preprocessor(x)


@pytest.mark.parametrize(
    "arguments",
    [
        *({"max_seq_length": x} for x in (4, "128", True)),
        {"do_lower_case": "False"},
        {"strip_accents": "False"},
    ],
)
def test_settings_it_refuses(arguments):
    with pytest.raises(ValueError, match="|".join(arguments)):
        electra_tf.Preprocessor(helpers.VOCAB, **arguments)
