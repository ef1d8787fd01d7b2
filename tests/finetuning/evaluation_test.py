"""Tests of finetuning/evaluation.py."""

import numpy as np
import tensorflow as tf

from electra_tf.finetuning import evaluation
from tests.finetuning.batches_test import features


class Model:
    """Answers each row with its tokens, cut as the batch is."""

    def __init__(self):
        self.num_traces = 0

    def __call__(self, features, only):
        self.num_traces += 1
        ids = features["input_ids"]
        outputs = {
            "start_logits": tf.cast(ids, tf.float32),
            "predictions": ids,
            "sums": tf.reduce_sum(ids, axis=-1),
        }
        return {"task_outputs": {only: outputs}}


def test_rows_of_any_length_come_back_in_order_from_one_trace():
    model = Model()
    rows = features([30, 5, 17, 20, 9])
    predict = evaluation.make_predictor(model, "task", 2)
    # Batches of 12, 20 and 32 tokens, the last with one row.
    outputs = predict(rows)
    ids = rows["input_ids"][:, :32]
    np.testing.assert_array_equal(outputs["predictions"], ids)
    assert outputs["sums"].tolist() == [30, 10, 51, 80, 45]
    # Where a batch was cut, no answer begins.
    logits = outputs["start_logits"]
    np.testing.assert_array_equal(logits[0], ids[0])
    for cut, of_batch in ((12, [1, 4]), (20, [2, 3])):
        np.testing.assert_array_equal(
            logits[of_batch, :cut], ids[of_batch, :cut]
        )
        assert set(logits[of_batch, cut:].ravel()) == {-1000.0}
    assert model.num_traces == 1

    np.testing.assert_array_equal(predict(features([40, 3]))["sums"], [40, 6])
    assert model.num_traces == 1


def test_xla_answers_the_same():
    predict = evaluation.make_predictor(Model(), "task", 2, jit_compile=True)
    assert predict(features([30, 5, 17]))["sums"].tolist() == [30, 10, 51]
