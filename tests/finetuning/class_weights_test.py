"""Tests of class weights: what is configured, computed, and trained with."""

import math

import numpy as np
import pytest
from sklearn.utils import class_weight

from electra_tf import errors
from electra_tf.finetuning import batches
from electra_tf.finetuning.task_data import TaskData
from electra_tf.tasks import glue, tagging, text_tasks
from tests.finetuning import runs

LABELS = ["no", "yes"]


def example(number, label="", labels=()):
    return text_tasks.TextExample(
        number, "wa", None, label, ("a.tsv", number + 2), labels=labels
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, None),
        ("balanced", "balanced"),
        ("yes=19,no=1", {"yes": 19.0, "no": 1.0}),
        ("a=b=2.5", {"a=b": 2.5}),
        ({"yes": 19, 0: 1}, {"yes": 19.0, "0": 1.0}),
    ],
)
def test_what_may_be_given(given, expected):
    found = runs.bare_config(class_weights=given).weights_of_classes
    assert found == expected


@pytest.mark.parametrize(
    "given", ["", "balance", "yes=", "yes=0", "yes=inf", {"yes": -1}, {}]
)
def test_refuses_what_is_no_weight(given):
    with pytest.raises(errors.ConfigError, match="class_weights must be 'bala"):
        runs.bare_config(class_weights=given)


def test_several_tasks_have_no_labels_in_common():
    tasks = {"task_names": ("rte", "mrpc"), "data_dir": "glue"}
    tasks |= {"train_file": "", "dev_file": ""}
    with pytest.raises(errors.ConfigError, match="None for several tasks"):
        runs.bare_config(tasks, class_weights="yes=2")


@pytest.mark.parametrize("given", ["balanced", {"yes": 4.0}])
def test_weights_of_classes_are_scikit_learns(given):
    labels = ["no", "no", "yes", "no", "no"]
    task = text_tasks.ClassificationTask("t", [*LABELS, "never"])
    rows, weights = task.loss_weights(
        [example(i, label) for i, label in enumerate(labels)], given
    )
    if given != "balanced":
        given = {"no": 1.0, "yes": 4.0}
    expected = class_weight.compute_class_weight(
        given, classes=np.array(LABELS), y=np.array(labels)
    )
    assert list(weights.values()) == list(expected)
    assert rows.tolist() == [weights[label] for label in labels]
    assert rows.dtype == np.float32


def test_each_label_of_several_is_weighed_by_itself():
    task = text_tasks.MultiLabelTask("t", ["a", "b"])
    examples = [example(0, labels=("a", "b")), example(1, labels=("b",))]
    examples += [example(2, labels=("b",)), example(3, labels=("b",))]
    rows, weights = task.loss_weights(examples, "balanced")
    # 4 / (2 * 1) with a, 4 / (2 * 3) without; all have b.
    assert weights == {"a": 2.0, "b": 1.0}
    third = pytest.approx(2 / 3)
    assert rows.tolist() == [[2.0, 1.0]] + [[third, 1.0]] * 3
    rows, weights = task.loss_weights(examples, {"b": 3.0})
    assert weights == {"a": 1.0, "b": 3.0}
    assert rows.tolist() == [[1.0, 3.0]] * 4


def test_refuses_labels_that_are_not_there_and_tasks_without():
    task = text_tasks.ClassificationTask("t", LABELS)
    with pytest.raises(ValueError, match="labels 'no', 'yes'. .* 'maybe'"):
        task.loss_weights([example(0, "no")], {"maybe": 2.0, "yes": 2.0})
    for other, kind in (
        (glue.Sts(""), "sts, regression"),
        (tagging.TaggingTask("ner", {}, labels=["O"]), "ner, tagging"),
    ):
        with pytest.raises(ValueError, match=f"multi_label. Received: {kind}"):
            other.loss_weights([], "balanced")


def test_training_rows_have_weights_and_others_have_none(tokenizer):
    task = text_tasks.ClassificationTask("t", LABELS)
    labels = {"train": ["no", "no", "no", "yes"], "dev": ["no", "yes"]}
    examples = {
        split: [example(i, label) for i, label in enumerate(of_split)]
        for split, of_split in labels.items()
    }
    # As many tokens as rows have labels.
    features = {
        split: task.features(rows, tokenizer, 4)
        for split, rows in examples.items()
    }
    data = TaskData(task, examples, features, frozenset(labels), tokenizer, 4)
    weighted = data.with_class_weights("balanced")
    third = pytest.approx(2 / 3)
    assert weighted.features["train"]["t_loss_weights"].tolist() == [
        *[third] * 3,
        2.0,
    ]
    assert set(weighted.features["dev"]) == set(data.features["dev"])
    assert "t_loss_weights" not in data.features["train"]
    (batch,) = (
        batches.train_dataset(weighted.features["train"], 1, 4)
        .take(1)
        .as_numpy_iterator()
    )
    assert math.isclose(sum(batch["t_loss_weights"]), 4.0, rel_tol=1e-6)
