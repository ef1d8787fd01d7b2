import numpy as np

from electra_tf.tasks import features


def test_text_features_of_one_and_two_texts(tokenizer):
    made = features.text_features(
        ["a b", "a b c d", "a", "c"],
        [None, "e f g", "h", ""],
        tokenizer,
        max_seq_length=7,
    )
    assert made["input_ids"].tolist() == [
        [2, 5, 6, 3, 0, 0, 0],
        # 7 tokens into 4 places: the end of the longer text goes first.
        [2, 5, 6, 3, 9, 10, 3],
        [2, 5, 3, 12, 3, 0, 0],
        # A second text without tokens is none.
        [2, 7, 3, 0, 0, 0, 0],
    ]
    assert made["segment_ids"].tolist() == [
        [0, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 1, 1, 1],
        [0, 0, 0, 1, 1, 0, 0],
        [0, 0, 0, 0, 0, 0, 0],
    ]
    assert made["input_mask"].sum(axis=1).tolist() == [4, 7, 5, 3]
    assert made["input_ids"].dtype == np.int32


def test_tokenize_all_keeps_order_and_duplicates(tokenizer):
    assert features.tokenize_all(["b", "a", "b"], tokenizer) == [[6], [5], [6]]
    assert features.tokenize_all([], tokenizer) == []


def _rows(task, eids):
    return {
        "input_ids": np.array([[eid] for eid in eids], np.int32),
        f"{task}_eid": np.array(eids, np.int32),
    }


def test_combine_fills_the_features_of_other_tasks():
    combined = features.combine([_rows("x", [7, 8]), _rows("y", [9])])
    assert {name: v.tolist() for name, v in combined.items()} == {
        "task_id": [0, 0, 1],
        "input_ids": [[7], [8], [9]],
        "x_eid": [7, 8, 0],
        "y_eid": [0, 0, 9],
    }
