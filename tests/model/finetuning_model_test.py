import numpy as np
import pytest
import tensorflow as tf

from electra_tf.model import finetuning_model, heads, losses
from tests import helpers

CONFIG = helpers.encoder_config(vocab_size=24, num_hidden_layers=1)
FEATURES = {
    "input_ids": tf.constant([[2, 5, 3], [2, 6, 3], [0, 0, 0]]),
    "input_mask": tf.constant([[1, 1, 1], [1, 1, 1], [0, 0, 0]]),
    "segment_ids": tf.zeros([3, 3], tf.int32),
    "task_id": tf.constant([0, 1, 2]),
    "x_label_ids": tf.constant([1, 0, 0]),
    "y_targets": tf.constant([0.0, 0.5, 0.0]),
}


@pytest.fixture(scope="module")
def two_tasks():
    return finetuning_model.FinetuningModel(
        CONFIG,
        [heads.ClassificationHead("x", 8, 2), heads.RegressionHead("y", 8)],
    )


def test_variables_have_the_original_names(two_tasks):
    paths = [variable.path for variable in two_tasks.trainable_variables]
    assert paths[0] == "electra/embeddings/word_embeddings"
    assert paths[-4:] == [
        "task_specific/x/dense/kernel",
        "task_specific/x/dense/bias",
        "task_specific/y/dense/kernel",
        "task_specific/y/dense/bias",
    ]


def test_the_loss_is_the_sum_of_each_rows_own_task(two_tasks):
    outputs = two_tasks(FEATURES)
    x = outputs["task_outputs"]["x"]["loss"].numpy()
    y = outputs["task_outputs"]["y"]["loss"].numpy()
    np.testing.assert_allclose(
        outputs["per_example_loss"], [x[0], y[1], 0.0], rtol=1e-6
    )
    np.testing.assert_allclose(outputs["total_loss"], x[0] + y[1], rtol=1e-6)
    metrics = losses.metrics_from_sums(two_tasks.metric_sums(outputs))
    correct = outputs["task_outputs"]["x"]["predictions"][0] == 1
    assert metrics == {
        "loss": pytest.approx((x[0] + y[1]) / 2),
        "x_loss": pytest.approx(x[0]),
        "x_accuracy": float(correct),
        "y_loss": pytest.approx(y[1]),
    }


def test_no_loss_without_labels(two_tasks):
    names = ("input_ids", "input_mask", "segment_ids")
    outputs = two_tasks({name: FEATURES[name] for name in names})
    assert "total_loss" not in outputs
    assert two_tasks.metric_sums(outputs) == {}
    assert outputs["task_outputs"]["x"]["logits"].shape == (3, 2)


def test_several_tasks_need_task_ids(two_tasks):
    features = {k: v for k, v in FEATURES.items() if k != "task_id"}
    with pytest.raises(ValueError, match="Expected the feature 'task_id'"):
        two_tasks(features)


def test_one_head_alone_needs_no_features_of_others():
    model = finetuning_model.FinetuningModel(
        CONFIG,
        [heads.TaggingHead("tags", 8, 2), heads.ClassificationHead("x", 8, 2)],
    )
    others = ("task_id", "y_targets")
    features = {k: v for k, v in FEATURES.items() if k not in others}
    outputs = model(features, only="x")
    assert set(outputs["task_outputs"]) == {"x"}
    assert outputs["task_outputs"]["x"]["loss"].shape == (3,)
    assert model.metric_sums(outputs) == {}


@pytest.mark.parametrize("names", [[], ["x", "x"]])
def test_names_of_tasks_differ(names):
    task_heads = [heads.RegressionHead(name, 8) for name in names]
    with pytest.raises(ValueError, match="tasks of different names"):
        finetuning_model.FinetuningModel(CONFIG, task_heads)
