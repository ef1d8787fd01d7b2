import json

import numpy as np
import pytest

from electra_tf.errors import ConfigError
from electra_tf.finetuning import task_data
from electra_tf.model import heads, task_head
from electra_tf.tasks import own_files
from tests import helpers, notices


def test_classification_of_a_csv(write, tokenizer):
    files = {
        "train": write("a.csv", 'id,Text,label,\n1,"a, b",no,\n2,c,yes,\n'),
        "dev": write("b.csv", "label,text,id\nyes,a,7\n"),
        "test": write("c.csv", "id,Text\n1,a\n"),
    }
    task = own_files.make_task("moods", files)
    assert task.labels == ["no", "yes"]
    assert task.main_metric == "macro_f1"
    assert task.splits() == ["train", "dev", "test"]
    assert [task.has_labels(split) for split in task.splits()] == [1, 1, 0]
    train = task.read_examples("train")
    rows = [(e.text_a, e.text_b, e.label) for e in train]
    assert rows == [("a, b", None, "no"), ("c", None, "yes")]
    assert train[1].source == (files["train"], 3)
    (dev,) = task.read_examples("dev")
    assert (dev.text_a, dev.label) == ("a", "yes")
    (test,) = task.read_examples("test")
    assert not test.has_label
    features = task.features(train, tokenizer, 8)
    assert features["moods_label_ids"].tolist() == [0, 1]
    assert task.origin == (
        f"{files['train']}: text in column 'Text', labels in 'label': "
        "classification with 2 labels ('no', 'yes'); not read: 'id', ''"
    )


def test_pairs_with_numbers(write, tokenizer):
    rows = "sentence1\tsentence2\tscore\na\tb\t1.5\nc\td\t4\n"
    dev = "sentence1\tsentence2\tscore\na\tb\t6.5\n"
    files = {"train": write("a.tsv", rows), "dev": write("b.tsv", dev)}
    task = own_files.make_task("own", files)
    assert (task.min_value, task.max_value) == (1.5, 4.0)
    assert isinstance(
        task.make_head(helpers.encoder_config()), heads.RegressionHead
    )
    train, dev = task.read_examples("train"), task.read_examples("dev")
    features = task.features(train, tokenizer, 8)
    assert features["own_targets"].tolist() == [0.0, 1.0]
    assert features["segment_ids"][0].tolist() == [0, 0, 0, 1, 1, 0, 0, 0]
    # Other sets may go beyond the range.
    assert task.features(dev, tokenizer, 8)["own_targets"].tolist() == [2.0]
    _, rows = task.prediction_table(dev, {"predictions": np.array([1.0])})
    assert list(rows) == [["6.5", "4.000000", "a", "b"]]


def test_multi_label(write, tokenizer):
    rows = [
        json.dumps({"text": text, "labels": labels})
        for text, labels in (("a", ["x", "y"]), ("b", []), ("c", ["x", "y"]))
    ]
    files = {"train": write("a.jsonl", "\n".join(rows))}
    task = own_files.make_task("own", files)
    kind = task.description()["kind"]
    assert (kind, task.labels) == ("multi_label_classification", ["x", "y"])
    examples = task.read_examples("train")
    features = task.features(examples, tokenizer, 8)
    assert features["own_label_ids"].tolist() == [[1, 1], [0, 0], [1, 1]]
    baseline = task.baseline(examples, {"dev": examples})
    assert baseline["name"] == "commonest labels 'x, y'"
    assert baseline["dev"] == {
        "micro_f1": pytest.approx(80.0),  # Precision 4/6, recall 1.
        "macro_f1": pytest.approx(80.0),
        "exact_match": pytest.approx(200 / 3),
    }
    outputs = {
        "logits": np.array([[0.0, np.log(3)]] * 3),
        "predictions": np.array([[0, 1]] * 3),
    }
    assert task.is_degenerate(outputs)
    header, rows = task.prediction_table(examples, outputs)
    assert header == ["label", "prediction", "x", "y", "text"]
    assert next(rows) == ["x|y", "y", "0.500000", "0.750000", "a"]


def test_tags_of_spans(write, tokenizer):
    files = {
        "train": write("a.tsv", "a d b\tPER-B -100 PER-I\nc\t-\n"),
        "dev": write("b.tsv", "b\tLOC-B\n"),
    }
    task = own_files.make_task("own", files, "tagging", has_header=False)
    assert task.labels == ["B-PER", "I-PER", "E-PER", "S-PER", "O"]
    train = task.read_examples("train")
    assert [e.labels for e in train] == [("B-PER", "-100", "E-PER"), ("O",)]
    features = task.features(train, tokenizer, 8)
    assert features["own_labels"][0, :2].tolist() == [0, 2]
    message = "labels 'B-PER', .*: 'S-LOC' in .*b.tsv', .*row 1"
    with pytest.raises(ValueError, match=message):
        task.read_examples("dev")


def test_rows_without_a_text_may_be_left_out(write):
    train = "text\tlabel\na\tx\n\tx\nb\ty\n"
    path = write("a.tsv", train)
    files = {"train": path}
    with notices.heard() as lines:
        task = own_files.make_task("own", files, skip_empty_texts=True)
        examples = task.read_examples("train")
    assert [(e.eid, e.source[1]) for e in examples] == [(0, 2), (1, 4)]
    assert lines == [f"{path}: 1 rows without a text are left out"]


def test_conll(write):
    train = write("a.txt", "a I-LOC\nb I-PER\n\nc O")
    task = own_files.make_task("own", {"train": train})
    # Names of different kinds may touch; the last sentence counts.
    labels = [e.labels for e in task.read_examples("train")]
    assert labels == [("S-LOC", "S-PER"), ("O",)]


def test_words_without_a_label_are_neither_learned_nor_scored(write, tokenizer):
    words, tags = [["a", "b", "c"], ["d"]], [[1, -100, 10], [2]]
    rows = json.dumps({"tokens": words, "tags": tags})
    files = {"train": write("a.json", rows)}
    with notices.heard() as (lines):
        task = own_files.make_task("own", files)
    assert task.labels == ["1", "2", "10"]
    (line,) = lines
    assert "numbers" in line and "--label_names" in line
    examples = task.read_examples("train")
    features = task.features(examples, tokenizer, 8)
    assert features["own_labels"][0, :2].tolist() == [0, 2]
    assert features["own_labeled_positions"][0, :2].tolist() == [1, 3]
    mask = features["own_labels_mask"]
    assert mask.sum(-1).tolist() == [2.0, 1.0]
    outputs = {
        "predictions": np.array([[0, 1, 0], [1, 0, 0]]),
        "labels_mask": mask[:, :3],
        "logits": np.zeros([2, 3, 3], np.float32),
        "loss": np.zeros(2, np.float32),
    }
    scores = task.scores(outputs, examples, tokenizer)
    assert scores["accuracy"] == pytest.approx(200 / 3)
    tags = task.predicted_tags(outputs, examples, tokenizer)
    assert tags == [["1", None, "2"], ["2"]]
    _, table = task.prediction_table(examples, outputs, tokenizer)
    assert next(table)[:2] == ["1 -100 10", "1 - 2"]


def test_a_tagger_answers_in_the_scheme_of_its_file(write):
    train = write("a.conll", "a B-X\nb I-X\nc B-X\n\nd O\n")
    task = own_files.make_task("own", {"train": train})
    assert task.labels == ["B-X", "I-X", "E-X", "S-X", "O"]
    assert task.description()["scheme"] == "BIO"
    outputs = {
        "predictions": np.array([[3, 0, 2], [4, 0, 0]]),
        "labels_mask": np.array([[1, 1, 1], [1, 0, 0]]),
        "logits": np.zeros([2, 3, 5], np.float32),
    }
    _, rows = task.prediction_table(task.read_examples("train"), outputs)
    assert next(rows)[:2] == ["B-X I-X B-X", "B-X B-X I-X"]
    head = task_head.TaskHead(
        "tagging", "own", tuple(task.labels), 5, options={"scheme": "BIO"}
    )
    assert head.tags == ("B-X", "I-X", "I-X", "B-X", "O")
    mixed = write("b.conll", "a B-X\nb I-X\n\nc I-X\nd O\n")
    (line,) = notices.of(own_files.make_task, "own", {"train": mixed})
    assert "in BIO, but some spans begin or end in another scheme" in line


def test_a_part_of_training_is_held_out(write, tokenizer):
    # Two rows each have the same text.
    rows = "".join(f"{'ab'[i % 2]} {i // 4}\t{i % 2}\n" for i in range(80))
    path = write("a.tsv", f"text\tlabel\n{rows}")
    task = own_files.make_task("own", {"train": path})
    data = task_data.read_rows(task, tokenizer, 8, ["train"])
    (part,) = task_data.parts(data, 0, 0.25, seed=1)
    train, dev = part.examples["train"], part.examples["dev"]
    assert [e.label for e in dev].count("1") == len(dev) / 2 == 10
    assert len(train) == 60
    assert not {e.text_a for e in train} & {e.text_a for e in dev}
    assert part.labelled == {"train", "dev"}
    assert len(part.features["dev"]["own_label_ids"]) == 20
    (again,) = task_data.parts(data, 0, 0.25, seed=1)
    assert again.examples["dev"] == dev
    (other,) = task_data.parts(data, 0, 0.25, seed=2)
    assert other.examples["dev"] != dev
    with pytest.raises(ConfigError, match="dev_fraction.*Received"):
        task_data.parts(data, 0, 0.01, seed=1)
