"""Tests of `own_files.task_of_model`: other files, not that of training."""

import json

import pytest

from electra_tf.tasks import own_files

# Name -> training file, its content, another file, its content, settings.
FILES = {
    "classification": (
        "train.tsv",
        "text\tlabel\na b\tyes\nc\tno\nd\tno\n",
        "dev.tsv",
        "label\ttext\nyes\tc d\n",
    ),
    "classification without a header": (
        "train.csv",
        "a b and c.,yes\nc was d.,no\nd it is.,no\ne and a.,yes\n",
        "dev.csv",
        "it is c.,yes\n",
        {"has_header": False},
    ),
    "pairs": (
        "train.jsonl",
        '{"text_a": "a", "text_b": "b", "label": "x"}\n'
        '{"text_a": "c", "text_b": "d", "label": "y"}\n',
        "dev.tsv",
        "text_a\ttext_b\tlabel\na\tb\ty\n",
    ),
    "regression": (
        "train.csv",
        "text;score\na;0.5\nb;1.25\nc;3.75\n",
        "dev.csv",
        "text;score\na b;2.5\n",
    ),
    "multi_label": (
        "train.tsv",
        "text\tlabels\na\tx;y\nb\ty\nc\tx\n",
        "dev.tsv",
        "text\tlabels\na b\ty;x\n",
        {"label_separator": ";"},
    ),
    "tagging": (
        "train.tsv",
        "text\ttags\na b\tB-PER O\nc d e\tO B-LOC I-LOC\n",
        "dev.tsv",
        "text\ttags\nd e\tB-LOC I-LOC\n",
        {"task_type": "tagging"},
    ),
    "names of numbers": (
        "train.jsonl",
        '{"text": "a", "label": 0}\n{"text": "b", "label": 1}\n',
        "dev.jsonl",
        '{"text": "c", "label": 1}\n',
        {"label_names": ["no", "yes"]},
    ),
    "CoNLL": (
        "train.txt",
        "a PER-B\nb -\n\nc -\nd LOC-B\ne LOC-I\n",
        "dev.txt",
        "d LOC-B\ne LOC-I\n",
    ),
    "words": (
        "train.txt",
        "a N\nb V\n\nc N\n",
        "dev.txt",
        "d N\ne V\n",
    ),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("split", ["dev", "test"])
def test_rows_are_read_as_in_training(write, name, split):
    train_name, train, other_name, other, *settings = FILES[name]
    paths = {"train": write(train_name, train), split: write(other_name, other)}
    trained = own_files.make_task("mine", paths, **dict(*settings))
    about = trained.description() | {"reading": trained.reading()}
    about = json.loads(json.dumps(about))
    write(train_name, "")  # Nobody looks at it.
    task = own_files.task_of_model("mine", {split: paths[split]}, about)
    assert task.splits() == [split]
    assert task.has_labels(split)
    assert task.read_examples(split) == trained.read_examples(split)
    assert task.description() == trained.description()
    assert task.reading() == trained.reading()
    assert task.main_metric == trained.main_metric


def test_labels_are_those_of_the_model(write):
    train = write("train.tsv", "text\tlabel\na\tyes\nb\tno\n")
    trained = own_files.make_task("mine", {"train": train})
    model = trained.description() | {"reading": trained.reading()}
    test = write("test.tsv", "text\tlabel\nb\tno\na\tno\n")
    task = own_files.task_of_model("mine", {"test": test}, model)
    assert [row.label for row in task.read_examples("test")] == ["no", "no"]
    write("test.tsv", "text\tlabel\nb\tno\na\tperhaps\n")
    task = own_files.task_of_model("mine", {"test": test}, model)
    with pytest.raises(ValueError, match="labels 'no', 'yes'. .*: 'perhaps' "):
        task.read_examples("test")
