"""Tests of `own_files.task_of_model`: other files, not that of training."""

import json

import pytest

from electra_tf.tasks import own_files

# Name -> ending of the files, training file, another file, settings.
FILES = {
    "classification": (
        ".tsv", "text\tlabel\na b\tyes\nc\tno\nd\tno\n",
        "label\ttext\nyes\tc d\n"),
    "classification without a header": (
        ".csv", "a b and c.,yes\nc was d.,no\nd it is.,no\n",
        "it is c.,yes\n", {"has_header": False}),
    "pairs": (
        ".jsonl", '{"text_a": "a", "text_b": "b", "label": "x"}\n'
        '{"text_a": "c", "text_b": "d", "label": "y"}\n',
        '{"text_b": "a", "text_a": "b", "label": "y"}\n'),
    "regression": (
        ".csv", "text;score\na;0.5\nb;1.25\nc;3.75\n", "text;score\na b;2.5\n"),
    "multi_label": (
        ".tsv", "text\tlabels\na\tx;y\nb\ty\nc\tx\n",
        "text\tlabels\na b\ty;x\n",
        {"label_separator": ";"}),
    "tagging": (
        ".tsv", "text\ttags\na b\tB-PER O\nc d e\tO B-LOC I-LOC\n",
        "text\ttags\nd e\tB-LOC I-LOC\n", {"task_type": "tagging"}),
    "names of numbers": (
        ".tsv", "text\tlabel\na\t0\nb\t1\n", "text\tlabel\nc\t1\n",
        {"label_names": ["no", "yes"]}),
    "CoNLL": (
        ".txt", "a PER-B\nb -\n\nc -\nd LOC-B\ne LOC-I\n",
        "d LOC-B\ne LOC-I\n"),
    "words": (".txt", "a N\nb V\n\nc N\n", "d N\ne V\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("split", ["dev", "test"])
def test_rows_are_read_as_in_training(write, name, split):
    ending, train, other, *settings = FILES[name]
    path = write(f"train{ending}", train)
    paths = {split: write(f"other{ending}", other)}
    trained = own_files.make_task(
        "mine", {"train": path} | paths, **dict(*settings)
    )
    model = trained.description() | {"reading": trained.reading()}
    model = json.loads(json.dumps(model))
    write(f"train{ending}", "")  # Nobody looks at it.
    task = own_files.task_of_model("mine", paths, model)
    assert task.splits() == [split]
    assert task.has_labels(split)
    assert task.read_examples(split) == trained.read_examples(split)
    assert task.description() == trained.description()
    assert task.reading() == trained.reading()
    assert task.main_metric == trained.main_metric
