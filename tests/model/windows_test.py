"""Tests of model/windows.py."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.model import heads, windows
from electra_tf.model.finetuning_model import FinetuningModel
from electra_tf.tasks import passages
from tests import helpers

CLS, SEP = helpers.CLS, helpers.SEP


def texts(*lengths, longest=None):
    """Rows [CLS] 11, 12, ... [SEP] of as many words as asked."""
    longest = longest or max(lengths) + 2
    ids = np.zeros((len(lengths), longest), np.int32)
    for row, length in zip(ids, lengths, strict=True):
        row[: length + 2] = [CLS, *range(11, 11 + length), SEP]
    return {
        "input_ids": tf.constant(ids),
        "input_mask": tf.constant((ids > 0).astype(np.int32)),
        "segment_ids": tf.zeros(ids.shape, tf.int32),
    }


def as_lists(cut):
    """The windows without padding, which must be where the mask is 0."""
    ids, mask = (cut.features[n].numpy() for n in ("input_ids", "input_mask"))
    assert (ids[mask == 0] == 0).all()
    return [row[used > 0].tolist() for row, used in zip(ids, mask, strict=True)]


def test_windows_overlap():
    # Room for 4 words, a window every 3.
    cut = windows.cut(texts(9, 4, 0), windows.Windows(6, 3, 8))
    assert as_lists(cut) == [
        [CLS, 11, 12, 13, 14, SEP],
        [CLS, 14, 15, 16, 17, SEP],
        [CLS, 17, 18, 19, SEP],
        [CLS, 11, 12, 13, 14, SEP],
        [CLS, SEP],
    ]
    assert cut.text.numpy().tolist() == [0, 0, 0, 1, 2]
    assert not cut.features["segment_ids"].numpy().any()


@pytest.mark.parametrize("stride", [1, 3, 5])
@pytest.mark.parametrize("longest", [32, 40])
def test_windows_are_those_of_passages(stride, longest):
    """As question answering cuts; padding behind a text changes nothing."""
    setting = windows.Windows(7, stride, 99)
    lengths = range(1, 31)
    cut = windows.cut(texts(*lengths, longest=longest), setting)
    expected = [
        (text, [CLS, *range(11 + start, 11 + end), SEP])
        for text, length in enumerate(lengths)
        for start, end in passages.parts(length, 5, stride)
    ]
    found = zip(cut.text.numpy().tolist(), as_lists(cut), strict=True)
    assert list(found) == expected
    np.testing.assert_array_equal(
        setting.counts(np.array(lengths) + 2), np.bincount(cut.text.numpy())
    )


def test_texts_that_fit_are_left_alone():
    features = texts(3, 2)
    cut = windows.cut(features, windows.Windows(6, 3, 8))
    for name, values in features.items():
        np.testing.assert_array_equal(cut.features[name], values, name)
    # The longest text that is read whole.
    setting = windows.Windows(6, 3, 4)
    assert setting.most_tokens == 15
    assert setting.counts(np.array([15, 16])).tolist() == [4, 5]


def test_the_mean_is_that_of_each_text():
    for keeps_empty in (False, True):
        setting = windows.Windows(6, 3, 8, keeps_empty)
        cut = windows.cut(texts(9, 4), setting)
        values = tf.range(len(cut.text), dtype=tf.float32)[:, tf.newaxis]
        # Of text 0 the windows 0, 1 and 2; of text 1 the next one.
        assert windows.average(values, cut).numpy().tolist() == [[1.0], [3.0]]
    assert cut.features["input_ids"].shape == (6, 6)


def test_windows_can_count_by_their_tokens():
    padding_row = {
        name: tf.pad(values, [[0, 1], [0, 0]])
        for name, values in texts(9, 4).items()
    }
    for keeps_empty in (False, True):
        setting = windows.Windows(6, 4, 8, keeps_empty, by_tokens=True)
        cut = windows.cut(padding_row, setting)
        lengths = [len(window) for window in as_lists(cut) if window]
        assert lengths == [6, 6, 3, 6]
        # With keeps_empty, three windows of each text.
        expected = [(6 * 1.0 + 6 * 2.0 + 3 * 3.0) / 15, 4.0, 0.0]
        for more in ((), (1,), (1, 1)):
            values = tf.reshape(tf.range(1.0, 1 + len(cut.text)), [-1, *more])
            found = windows.average(values, cut).numpy()
            assert found.shape == (3, *more)
            np.testing.assert_allclose(found.ravel(), expected)


def test_the_mean_of_tokens_by_tokens_is_that_of_the_whole_text():
    """Heads that read the mean: however the text is cut."""
    cut = windows.cut(texts(9), windows.Windows(6, 4, 8, by_tokens=True))
    vectors = tf.random.stateless_normal([60, 5], [1, 2])
    means = heads.mean_of_tokens(
        tf.gather(vectors, cut.features["input_ids"]),
        cut.features["input_mask"],
    )
    tokens = [token for window in as_lists(cut) for token in window]
    np.testing.assert_allclose(
        windows.average(means, cut)[0],
        tf.reduce_mean(tf.gather(vectors, tokens), axis=0),
        rtol=1e-5,
        atol=1e-6,
    )


@pytest.mark.parametrize(("stride", "most"), [(0, 1), (5, 1), (4, 0)])
def test_refuses_what_leaves_words_out(stride, most):
    with pytest.raises(ValueError, match="from 1 to the 4 tokens"):
        windows.Windows(6, stride, most)


def test_what_models_keep_makes_the_same_windows():
    setting = windows.Windows(6, 3, 8)
    assert setting.about() == {"stride": 3, "max_windows": 8}
    for kept in (setting, windows.Windows(6, 3, 8, by_tokens=True)):
        assert windows.Windows(6, **kept.about()) == kept


@pytest.mark.parametrize("keeps_empty", [False, True])
def test_a_model_answers_with_the_mean_over_windows(keeps_empty):
    config = helpers.encoder_config(initializer_range=0.5, vocab_size=60)
    model, plain = (
        FinetuningModel(
            config,
            [heads.ClassificationHead("task", config.hidden_size, 3)],
            setting,
        )
        for setting in (windows.Windows(6, 3, 8, keeps_empty), None)
    )
    plain.set_weights(model.get_weights())
    features = texts(9, 4)

    def logits(model, features):
        return model(features)["task_outputs"]["task"]["logits"].numpy()

    alone = logits(plain, windows.cut(features, model.windows).features)
    count = 3
    np.testing.assert_allclose(
        logits(model, features),
        [alone[:count].mean(axis=0), alone[count]],
        atol=1e-6,
    )


def test_windows_can_be_compiled_and_trained():
    config = helpers.encoder_config(initializer_range=0.5, vocab_size=60)
    head = heads.ClassificationHead("task", config.hidden_size, 2)
    setting = windows.Windows(6, 3, 8, keeps_empty=True)
    model = FinetuningModel(config, [head], setting)
    labels = {"task_label_ids": tf.constant([0, 1])}

    def loss(features):
        with tf.GradientTape() as tape:
            total = model(features | labels)["total_loss"]
        return total, tape.gradient(total, head.dense.kernel.value)

    expected = loss(texts(9, 4))
    # As the engine, which traces a step once for all lengths.
    names = tuple(texts(1))
    compiled = tf.function(
        lambda *values: loss(dict(zip(names, values, strict=True))),
        input_signature=[tf.TensorSpec([None, None], tf.int32)] * 3,
        jit_compile=True,
    )
    found = compiled(*texts(9, 4).values())
    for value, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(value, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("by_tokens", [False, True])
@pytest.mark.parametrize("num_windows", [1, 16, 17, 18, 33, 255, 257, 4097])
def test_few_numbers_of_windows(num_windows, by_tokens):
    longest = 2 * num_windows
    setting = windows.Windows(6, 4, 10**6, by_tokens=by_tokens)
    cut = windows.cut(texts(1, longest), setting)
    filled = windows.fill_up(cut)
    before, after = len(cut.text), len(filled.text)
    assert before <= after <= before * 1.125
    # Eight numbers for a power of two: four significant bits.
    assert after // (after & -after) < 16
    assert windows.fill_up(filled).text.shape == filled.text.shape
    assert as_lists(filled)[before:] == [[]] * (after - before)
    values = tf.random.stateless_normal([after, 3], [1, 2])
    np.testing.assert_array_equal(
        windows.average(values, filled), windows.average(values[:before], cut)
    )


def test_what_fills_up_teaches_nothing(monkeypatch):
    """Loss and gradients, with dropout, are those of the windows alone."""
    model = FinetuningModel(
        helpers.encoder_config(max_position_embeddings=8),
        [heads.ClassificationHead("a", 8, 2)],
        windows.Windows(6, 4, 99),
    )
    features = texts(30, 17, 21) | {"a_label_ids": tf.constant([0, 1, 0])}
    features["input_ids"] = features["input_ids"] % 8

    def learned(num_windows):
        with tf.GradientTape() as tape:
            outputs = model(features, dropout_seed=tf.constant([3, 4]))
        cut = outputs["encoder_outputs"]["windows"]
        assert cut.text.shape[0] == num_windows
        weights = model.trainable_variables
        gradients = tape.gradient(outputs["total_loss"], weights)
        return map(tf.convert_to_tensor, gradients)

    found = learned(20)
    monkeypatch.setattr(windows, "fill_up", lambda cut: cut)
    for one, other in zip(found, learned(19), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
