"""What a gin run fine-tuned, as a Keras model, and the way back."""

import numpy as np
import pytest
import tensorflow as tf

import electra_tf
from electra_tf.finetuning import starting_point
from electra_tf.serving import saved_model
from electra_tf.tasks import text_tasks
from tests.finetuning import runs
from tests.keras_models.tasks import TEXTS
from tests.serving.conftest import LABELS, write_finetuned


@pytest.mark.dear
def test_there_and_back(tmp_path):
    model_dir, network = write_finetuned(tmp_path)
    model = electra_tf.TextClassifier.from_checkpoint(model_dir)
    assert model.labels == tuple(LABELS)
    assert (model.task_name, model.max_seq_length) == ("letters", 8)
    ids = model.preprocessor(TEXTS)
    logits = network(ids)["task_outputs"]["letters"]["logits"]
    np.testing.assert_allclose(
        model.task_outputs(ids)["logits"], logits, atol=1e-5
    )
    # The tool's SavedModel of the run.
    path = saved_model.export(str(model_dir), str(tmp_path / "tool"))
    served = tf.saved_model.load(path).signatures["serving_default"]
    np.testing.assert_allclose(
        served(text=tf.constant(TEXTS))["scores"],
        tf.nn.softmax(logits),
        atol=1e-5,
    )
    # A gin run that begins with the model, its head included.
    model.save_checkpoint(tmp_path / "back")
    start = starting_point.read(
        runs.bare_config(
            {"max_seq_length": 8},
            init_checkpoint=str(tmp_path / "back"),
            keep_head=True,
        )
    )
    task = text_tasks.ClassificationTask("other", LABELS[:2])
    found = starting_point.with_head(start, task).checkpoint.tensors
    assert task.labels == LABELS
    np.testing.assert_array_equal(
        found["task_specific/other/dense/kernel"],
        network.task_specific.heads[0].dense.kernel,
    )
