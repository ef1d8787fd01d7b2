import math

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.configs import QuestionAnsweringConfig
from electra_tf.model import heads, losses, task_head


def _built(head, **kernels):
    head.build()
    for name, kernel in kernels.items():
        getattr(head, name).kernel.assign(kernel)
    return head


def test_classification():
    head = _built(heads.ClassificationHead("t", 2, 2), dense=np.eye(2))
    outputs = head(
        {"pooled_output": tf.constant([[0.0, math.log(3.0)], [1.0, 1.0]])},
        {"t_label_ids": tf.constant([0, 1])},
    )
    np.testing.assert_allclose(
        outputs["loss"], [math.log(4.0), math.log(2.0)], rtol=1e-6
    )
    assert outputs["predictions"].numpy().tolist() == [1, 0]
    sums = head.metric_sums(outputs, tf.constant([1.0, 1.0]))
    assert losses.metrics_from_sums(sums) == {"accuracy": 0.0}


def test_dropout_on_the_pooled_vector():
    head = _built(heads.RegressionHead("t", 1000), dense=np.ones((1000, 1)))
    pooled = {"pooled_output": tf.ones([1, 1000])}

    def prediction(seed):
        return float(head(pooled, {}, dropout_seed=seed)["predictions"][0])

    assert prediction(None) == pytest.approx(1000.0)
    seed = tf.constant([1, 2])
    dropped = prediction(seed)
    assert dropped == prediction(seed)
    # 1000 draws of 1 / 0.9 with probability 0.9: deviation 10.5.
    assert dropped != pytest.approx(1000.0, abs=0.1)
    assert dropped == pytest.approx(1000.0, abs=53)
    head.set_dropout(0.0)
    assert prediction(seed) == pytest.approx(1000.0)


def test_the_mean_of_all_tokens():
    rng = np.random.default_rng(1)
    sequence = rng.normal(size=(3, 4, 2)).astype(np.float32)
    # What stands behind the tokens does not count, even in a row without any.
    mask = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]], np.int32)
    encoded = {
        "sequence_output": tf.constant(sequence),
        "pooled_output": tf.constant(sequence[:, 0]),
    }
    kernel = rng.normal(size=(2, 3)).astype(np.float32)
    expected = np.stack(
        [sequence[0].mean(0), sequence[1, :2].mean(0), np.zeros(2)]
    )

    def logits(**kwargs):
        head = heads.ClassificationHead("t", 2, 3, **kwargs)
        _built(head, dense=kernel)
        return head(encoded, {"input_mask": tf.constant(mask)})["logits"]

    np.testing.assert_allclose(
        logits(pooling="mean"), expected @ kernel, atol=1e-6
    )
    np.testing.assert_allclose(
        logits(pooling="cls"), sequence[:, 0] @ kernel, atol=1e-6
    )
    with pytest.raises(ValueError, match="cls, mean. Received: 'max'"):
        heads.RegressionHead("t", 2, pooling="max")
    head = heads.ClassificationHead("t", 2, 3, pooling="mean")
    with pytest.raises(ValueError, match="features with input_mask for pool"):
        head.project(encoded)


def test_a_mean_in_float16_does_not_overflow():
    sequence = tf.fill([1, 4096, 1], tf.constant(100.0, tf.float16))
    found = heads.mean_of_tokens(sequence, tf.ones([1, 4096], tf.int32))
    assert found.dtype == tf.float16
    assert found.numpy().tolist() == [[100.0]]


def test_multi_label():
    head = _built(heads.MultiLabelHead("t", 2, 2), dense=np.eye(2))
    outputs = head(
        {"pooled_output": tf.constant([[0.0, math.log(3.0)], [1.0, -1.0]])},
        {"t_label_ids": tf.constant([[1, 1], [1, 1]])},
    )
    # Probabilities 1/2, 3/4 and s(1), s(-1) of labels that are all wanted.
    expected = [
        (math.log(2.0) + math.log(4.0 / 3.0)) / 2,
        (math.log1p(math.exp(-1.0)) + math.log1p(math.exp(1.0))) / 2,
    ]
    np.testing.assert_allclose(outputs["loss"], expected, rtol=1e-6)
    # 1/2 is not more than 0.5.
    assert outputs["predictions"].numpy().tolist() == [[0, 1], [1, 0]]
    sums = head.metric_sums(outputs, tf.constant([1.0, 1.0]))
    assert losses.metrics_from_sums(sums) == {"accuracy": 0.0}


def test_rows_of_some_labels_count_for_more():
    pooled = {"pooled_output": tf.constant([[0.0, math.log(3.0)], [1.0, 1.0]])}

    def loss(head, labels, weights):
        features = {"t_label_ids": labels, "t_loss_weights": weights}
        features = {name: tf.constant(x) for name, x in features.items()}
        return _built(head("t", 2, 2), dense=np.eye(2))(pooled, features)[
            "loss"
        ]

    found = loss(heads.ClassificationHead, [0, 1], [3.0, 0.5])
    expected = [3.0 * math.log(4.0), 0.5 * math.log(2.0)]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    weights = [[1.0, 2.0], [0.0, 1.0]]
    found = loss(heads.MultiLabelHead, [[1, 1], [1, 1]], weights)
    expected = [
        (math.log(2.0) + 2.0 * math.log(4.0 / 3.0)) / 2,
        math.log1p(math.exp(-1.0)) / 2,
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_regression():
    head = _built(heads.RegressionHead("t", 1), dense=[[2.0]])
    outputs = head(
        {"pooled_output": tf.constant([[1.5]])},
        {"t_targets": tf.constant([1.0])},
    )
    assert outputs["predictions"].numpy().tolist() == [3.0]
    assert outputs["loss"].numpy().tolist() == [4.0]


def test_tagging_sums_over_words():
    head = _built(heads.TaggingHead("t", 2, 2), dense=np.eye(2))
    sequence = [[[9.0, 9.0], [0.0, math.log(3.0)], [5.0, 0.0]]]
    outputs = head(
        {"sequence_output": tf.constant(sequence)},
        {
            "t_labeled_positions": tf.constant([[1, 2, 0]]),
            "t_labels": tf.constant([[0, 0, 0]]),
            "t_labels_mask": tf.constant([[1.0, 1.0, 0.0]]),
        },
    )
    expected = math.log(4.0) + math.log1p(math.exp(-5.0))
    np.testing.assert_allclose(outputs["loss"], [expected], rtol=1e-6)
    assert outputs["predictions"].numpy().tolist() == [[1, 0, 0]]
    sums = head.metric_sums(outputs, tf.constant([1.0]))
    assert losses.metrics_from_sums(sums) == {"accuracy": 0.5}


# [CLS] question [SEP] a b [SEP] [PAD], one number for each.
HIDDEN = tf.constant([[[0.0], [9.0], [9.0], [1.0], [2.0], [0.5], [9.0]]])
QA_FEATURES = {
    "input_mask": tf.constant([[1, 1, 1, 1, 1, 1, 0]]),
    "segment_ids": tf.constant([[0, 0, 0, 1, 1, 1, 0]]),
    "t_start_positions": tf.constant([3]),
    "t_end_positions": tf.constant([4]),
    "t_is_impossible": tf.constant([0]),
}


def _log_softmax(logits, index):
    return logits[index] - math.log(sum(math.exp(x) for x in logits))


def test_question_answering_without_joint_prediction():
    config = QuestionAnsweringConfig(
        joint_prediction=False, answerable_classifier=False
    )
    head = _built(
        heads.QuestionAnsweringHead("t", 1, config), start=[[1.0]], end=[[2.0]]
    )
    outputs = head({"sequence_output": HIDDEN}, QA_FEATURES)
    np.testing.assert_allclose(
        outputs["start_logits"][0], [0, -991, -991, 1, 2, 0.5, -991]
    )
    # Allowed are [CLS], a, b and the last [SEP].
    start = _log_softmax([0.0, 1.0, 2.0, 0.5], 1)
    end = _log_softmax([0.0, 2.0, 4.0, 1.0], 2)
    np.testing.assert_allclose(outputs["loss"], [-(start + end) / 2], rtol=1e-5)
    assert outputs["answerable_logit"].numpy().tolist() == [0.0]


def test_question_answering_beams_and_teaching():
    config = QuestionAnsweringConfig(
        beam_size=2, answerable_uses_start_logits=False
    )
    head = heads.QuestionAnsweringHead("t", 1, config)
    qa_hidden = np.zeros((2, heads.QA_HIDDEN_SIZE))
    qa_hidden[:, 0] = [10.0, 100.0]  # GELU leaves such sums as they are.
    end = np.zeros((heads.QA_HIDDEN_SIZE, 1))
    end[0] = 0.01
    _built(
        head, start=[[1.0]], qa_hidden=qa_hidden, end=end, answerable=[[3.0]]
    )
    taught = head(
        {"sequence_output": HIDDEN}, QA_FEATURES, teacher_forcing=True
    )
    # 0.01 * (10 * start + 100 * end), from the true start 1.0.
    np.testing.assert_allclose(
        taught["end_logits"].numpy()[0, [0, 3, 4, 5]],
        [0.1, 1.1, 2.1, 0.6],
        rtol=1e-5,
    )
    start_loss = -_log_softmax([0.0, 1.0, 2.0, 0.5], 1)
    end_loss = -_log_softmax([0.1, 1.1, 2.1, 0.6], 2)
    # The answerable logit is 0: half of ln 2 comes on top.
    expected = (start_loss + end_loss) / 2 + 0.5 * math.log(2.0)
    np.testing.assert_allclose(taught["loss"], [expected], rtol=1e-5)
    free = head({"sequence_output": HIDDEN}, QA_FEATURES)
    assert free["start_top_index"].numpy().tolist() == [[4, 3]]
    assert free["end_top_index"].numpy().tolist() == [[[4, 3], [4, 3]]]
    assert not free["end_logits"].numpy().any()


def test_a_passage_may_be_shorter_than_the_beam():
    config = QuestionAnsweringConfig(beam_size=9)
    head = heads.QuestionAnsweringHead("t", 1, config)
    head.build()
    outputs = head({"sequence_output": HIDDEN}, QA_FEATURES)
    # 7 positions, then the last one twice, never to be chosen.
    index = outputs["start_top_index"].numpy()[0]
    assert sorted(index[:7]) == list(range(7))
    assert index[7:].tolist() == [6, 6]
    assert outputs["start_top_log_probs"].numpy()[0, 7:].tolist() == [-1e9] * 2
    assert outputs["end_top_index"].shape == (1, 9, 9)
    assert (outputs["end_top_log_probs"].numpy()[0, :, 7:] == -1e9).all()


@pytest.mark.parametrize(
    ("least", "greatest", "expected"),
    [
        (0.0, 5.0, True),
        (3.0, 3.0, True),
        (-1e6, 1e6, True),
        # float32 counts there by 128, and by 2.
        (1.7e9, 1.7e9 + 30, False),
        (2.0**24, 2.0**24 + 2.75, False),
        (0.0, 1e39, False),
    ],
)
def test_what_float32_tells_apart(least, greatest, expected):
    assert task_head.float32_tells_apart(least, greatest) is expected
