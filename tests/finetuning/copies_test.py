"""Tests of finetuning/task_data.py: digests, copies and folds of rows."""

import types

import numpy as np
import pytest
from sklearn import model_selection

from electra_tf import errors
from electra_tf.finetuning import task_data
from electra_tf.tasks import own_files, tagging, text_tasks

TRAIN = [
    ("a b", "no"),
    ("c", "yes"),
    ("A  b", "no"),
    ("d", "no"),
    ("a b", "yes"),
]
DEV = [("e", "no"), ("c", "yes"), ("a b ", "yes"), ("b a", "no")]


def write_rows(write, name, rows):
    lines = "".join(f"{text}\t{label}\n" for text, label in rows)
    return write(name, f"text\tlabel\n{lines}")


@pytest.fixture
def read(write):
    """A function from rows to a task and its examples, by split."""

    def read_task(**rows_of):
        files = {
            split: write_rows(write, f"{split}.tsv", rows)
            for split, rows in rows_of.items()
        }
        return data_of_task(own_files.make_task("own", files))

    return read_task


def data_of_task(task, do_lower_case=True):
    splits = task.splits()
    return task_data.TaskData(
        task,
        {split: task.read_examples(split) for split in splits},
        {},
        frozenset(splits),
        types.SimpleNamespace(do_lower_case=do_lower_case),
    )


def test_rows_that_training_has_seen_are_counted(read):
    data = read(train=TRAIN, dev=DEV, test=[("x", ""), ("D", "")])
    assert task_data.copies(data) == {
        "train": {
            "num_rows": 2,
            "line": "train: 2 of 5 rows are copies of others, such as row 4 of "
            "train.tsv; they count as often",
        },
        "dev": {
            "num_rows": 2,
            "line": "dev: 2 of 4 rows are in train, too, such as row 3 of "
            "dev.tsv; scores of these mean little",
        },
        "test": {
            "num_rows": 1,
            "line": "test: 1 of 2 rows are in train, too, such as row 3 of "
            "test.tsv; scores of these mean little",
        },
    }
    cased = task_data.copies(data_of_task(data.task, do_lower_case=False))
    assert [cased[split]["num_rows"] for split in cased] == [1, 2, 0]
    data.task.texts_of = lambda example: None
    assert task_data.copies(data) == {}


@pytest.mark.parametrize(
    ("ending", "train", "dev"),
    [
        (
            "tsv",
            "text_a\ttext_b\tlabel\na\tb\tno\nb\tc\tyes\n",
            "text_a\ttext_b\tlabel\na\tc\tno\nb\ta\tno\na\tb\tno\n",
        ),
        ("txt", "a O\nb B-X\n\nc O\n\n", "d O\n\na O\nb O\n\n"),
    ],
)
def test_pairs_and_sentences_have_copies(write, ending, train, dev):
    files = {
        "train": write(f"train.{ending}", train),
        "dev": write(f"dev.{ending}", dev),
    }
    data = data_of_task(own_files.make_task("own", files))
    assert task_data.copies(data)["dev"]["num_rows"] == 1


# --- Folds -------------------------------------------------------------------


def data_of(texts_and_labels):
    examples = [
        text_tasks.TextExample(i, text, None, label, ("a.tsv", i + 2))
        for i, (text, label) in enumerate(texts_and_labels)
    ]
    return task_data.TaskData(
        text_tasks.ClassificationTask("own", ["no", "yes"]),
        {"train": examples},
        {"train": {"input_ids": np.arange(len(examples))[:, np.newaxis]}},
        frozenset(["train"]),
    )


def dev_rows(folds):
    return [fold.features["dev"]["input_ids"][:, 0].tolist() for fold in folds]


def test_folds_of_rows_without_copies_are_as_ever():
    labels = ["yes", "no", "no"] * 10
    data = data_of([(f"text {i}", label) for i, label in enumerate(labels)])
    expected = model_selection.StratifiedKFold(
        5, shuffle=True, random_state=7
    ).split(np.zeros(30), labels)
    folds = task_data.parts(data, 5, 0.0, 7)
    for fold, (train, dev) in zip(folds, expected, strict=True):
        for split, rows in (("train", train), ("dev", dev)):
            found = fold.features[split]["input_ids"][:, 0]
            np.testing.assert_array_equal(found, rows)
    assert dev_rows(folds)[0] == [1, 4, 6, 12, 13, 20]


def test_copies_are_in_one_fold():
    rows = [(f"text {i % 20}", ("yes", "no")[i % 2]) for i in range(60)]
    folds = task_data.parts(data_of(rows), 5, 0.0, 7)
    for fold in folds:
        seen = {example.text_a for example in fold.examples["train"]}
        scored = {example.text_a for example in fold.examples["dev"]}
        assert not seen & scored
        # Three copies of two texts of each label.
        labels = [example.label for example in fold.examples["dev"]]
        assert labels.count("yes") == labels.count("no") == 6
    assert sorted(sum(dev_rows(folds), [])) == list(range(60))
    again = task_data.parts(data_of(rows), 5, 0.0, 7)
    assert dev_rows(again) == dev_rows(folds)


def test_folds_need_different_rows():
    rows = [("a", "yes"), ("a", "yes"), ("b", "no"), ("c", "no")]
    with pytest.raises(errors.ConfigError) as caught:
        task_data.parts(data_of(rows), 2, 0.0, 7)
    assert str(caught.value).endswith(
        "Received: folds=2, but only 1 different rows of the label 'yes'"
    )


# --- Digests -----------------------------------------------------------------


def digest(*rows):
    task = text_tasks.ClassificationTask("own", ["no", "yes"])
    data = task_data.TaskData(task, {"dev": rows}, {}, frozenset())
    return data.digests["dev"]


def test_rows_count_by_what_they_say():
    first = text_tasks.TextExample(0, "wa wb", None, "yes", ("a.tsv", 2))
    second = text_tasks.TextExample(1, "wc", None, "no", ("a.tsv", 3))
    tagged = tagging.TaggingExample(0, ("wa", "wb"), ("O", "O"))
    elsewhere = first._replace(eid=7, source=("b.csv", 9))
    assert digest(elsewhere, second) == digest(first, second)
    sets = [
        [first, second],
        [second, first],
        [first],
        [first._replace(label="no"), second._replace(label="yes")],
        [first._replace(text_a="wa wb "), second],
        [first._replace(text_b="wa"), second],
        [first._replace(text_a="wa", text_b="wb"), second],
        [first._replace(has_label=False), second],
        [first._replace(labels=("yes",)), second],
        [first._replace(text_a="\ud800"), second],
        [tagged],
        [tagged._replace(words=("wa wb",))],
        [tagged._replace(labels=("O", "S-X"))],
    ]
    assert len({digest(*rows) for rows in sets}) == len(sets)


class Plain:
    def __init__(self, text):
        self.text = text


def test_examples_may_be_objects():
    first, second = digest(Plain("wa")), digest(Plain("wb"))
    assert digest(Plain("wa")) == first != second
