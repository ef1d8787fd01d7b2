import warnings

import numpy as np
import pytest

from electra_tf.finetuning import text_tasks


@pytest.fixture
def files(write):
    return {
        "train": write("train.tsv", 'text\tlabel\na "b\tyes\nb\tno\nc\tyes\n'),
        "dev": write("dev.tsv", "label\ttext\r\nno\ta\r\n"),
    }


def test_labelled_texts(files, tokenizer):
    task = text_tasks.LabelledTextTask("mood", files)
    assert task.labels == ["no", "yes"]
    train = task.read_examples("train")
    assert [(e.eid, e.text_a, e.label) for e in train] == [
        (0, 'a "b', "yes"),
        (1, "b", "no"),
        (2, "c", "yes"),
    ]
    features = task.features(train, tokenizer, max_seq_length=6)
    assert features["mood_label_ids"].tolist() == [1, 0, 1]
    assert features["mood_eid"].tolist() == [0, 1, 2]
    assert features["input_ids"].tolist() == [
        [2, 5, 1, 6, 3, 0],
        [2, 6, 3, 0, 0, 0],
        [2, 7, 3, 0, 0, 0],
    ]
    (dev,) = task.read_examples("dev")  # Other columns, other line ends.
    assert (dev.text_a, dev.label) == ("a", "no")


TRAIN = "text\tlabel\na\t0\nb\t1\n"


@pytest.mark.parametrize(
    ("train", "message"),
    [
        ("", "Expected a file of examples. Received: .* which is empty"),
        ("a\tb\n", r"columns 'text' and 'label'.*\['a', 'b'\] in .*, row 1"),
        ("text\tlabel\n", "Expected examples after the first row"),
        ("text\tlabel\na\t0\nb\n", "Expected 2 columns.*: 1 in .*, row 3"),
        ("text\tlabel\na\t0\tc\n", "Expected 2 columns.*: 3 in .*, row 2"),
        ("text\tlabel\na\t0\nb\t \n", "Expected a label.*row 3"),
        ("text\tlabel\na\t0\nb\t0\n", "two or more different labels.*'0' only"),
    ],
)
def test_bad_training_file(write, train, message):
    path = write("train.tsv", train)
    with pytest.raises(ValueError, match=message):
        text_tasks.LabelledTextTask("t", {"train": path})


def test_missing_file(tmp_path):
    path = str(tmp_path / "none.tsv")
    with pytest.raises(ValueError, match="none.tsv', which does not exist"):
        text_tasks.LabelledTextTask("t", {"train": path})


def test_no_training_file():
    with pytest.raises(ValueError, match=r"Expected a training file.*\[\]"):
        text_tasks.LabelledTextTask("t", {"train": ""})


def test_not_utf_8(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_bytes(b"text\tlabel\na\xff\t0\n")
    with pytest.raises(ValueError, match="row 2, with the byte 0xff"):
        text_tasks.LabelledTextTask("t", {"train": str(path)})


def test_label_unknown_in_training(write):
    files = {
        "train": write("train.tsv", TRAIN),
        "dev": write("dev.tsv", "text\tlabel\na\t0\nb\t2\n"),
    }
    task = text_tasks.LabelledTextTask("t", files)
    message = "one of the labels '0', '1'. Received: '2' in .*dev.tsv', row 3"
    with pytest.raises(ValueError, match=message):
        task.read_examples("dev")


def test_unknown_split(write):
    task = text_tasks.LabelledTextTask("t", {"train": write("t.tsv", TRAIN)})
    with pytest.raises(ValueError, match="splits train. Received: 'test'"):
        task.read_examples("test")


def test_mrpc_trains_on_both_orders(write, tmp_path):
    row = "1\t10\t11\ta\tb\n"
    write("train.tsv", f"Quality\tID\tID\tString\tString\n{row}")
    write("dev.tsv", f"Quality\tID\tID\tString\tString\n{row}")
    task = text_tasks.Mrpc(tmp_path)
    found = [(e.eid, e.text_a, e.text_b) for e in task.read_examples("train")]
    assert found == [(0, "a", "b"), (1, "b", "a")]
    assert len(task.read_examples("dev")) == 1
    once = text_tasks.Mrpc(tmp_path, double_unordered=False)
    assert len(once.read_examples("train")) == 1


def test_cola_has_no_header_and_its_test_no_labels(write, tmp_path):
    write("train.tsv", "s\t1\t\ta b\n")
    write("test.tsv", "index\tsentence\n0\tc\n")
    task = text_tasks.Cola(tmp_path)
    (train,) = task.read_examples("train")
    assert (train.eid, train.text_a, train.label) == (0, "a b", "1")
    (test,) = task.read_examples("test")
    assert (test.eid, test.text_a, test.label) == (0, "c", "0")


def test_short_rows_of_glue_are_left_out_and_counted(write, tmp_path):
    write("train.tsv", "index\tq1\tq2\tlabel\n0\ta\n1\ta\tb\tentailment\n")
    with pytest.warns(UserWarning, match="4 or more columns.*2 in .*, row 2"):
        (example,) = text_tasks.Rte(tmp_path).read_examples("train")
    assert example.eid == 1


def test_glue_file_without_usable_rows(write, tmp_path):
    write("train.tsv", "index\tq1\tq2\tlabel\n0\ta\n")
    with (
        warnings.catch_warnings(),
        pytest.raises(ValueError, match="row 2, and no row with enough"),
    ):
        text_tasks.Rte(tmp_path).read_examples("train")


def test_mnli_dev_is_the_matched_set(write, tmp_path):
    cells = [str(i) for i in range(10)]
    write("dev_matched.tsv", "h\n" + "\t".join([*cells, "neutral"]) + "\n")
    (example,) = text_tasks.Mnli(tmp_path).read_examples("dev")
    assert (example.text_a, example.text_b) == ("8", "9")
    assert example.label == "neutral"


def test_sts_targets_are_divided_by_the_maximum(write, tmp_path, tokenizer):
    write("dev.tsv", "x\ts1\ts2\tscore\n0\ta\tb\t2.5\n1\ta\tb\t5.0\n")
    task = text_tasks.Sts(tmp_path)
    examples = task.read_examples("dev")
    features = task.features(examples, tokenizer, 8)
    assert features["sts_targets"].tolist() == [0.5, 1.0]
    bad = [examples[0]._replace(label="6")]
    message = "number from 0.0 to 5.0. Received: '6' in .*dev.tsv', row 2"
    with pytest.raises(ValueError, match=message):
        task.features(bad, tokenizer, 8)


def test_scores_of_classification_and_cola():
    outputs = {
        "label_ids": np.array([0, 0, 1, 1]),
        "predictions": np.array([0, 1, 1, 1]),
        "loss": np.array([1.0, 2.0, 0.0, 0.0]),
    }
    task = text_tasks.ClassificationTask("t", ["0", "1"])
    assert task.scores(outputs) == {"accuracy": 75.0, "loss": 0.75}
    # (1 * 2 - 1 * 0) / sqrt(3 * 2 * 2 * 1)
    assert text_tasks.Cola("").scores(outputs)["mcc"] == pytest.approx(
        100 * 2 / 12**0.5
    )


def test_scores_of_regression():
    scores = text_tasks.Sts("").scores(
        {
            "targets": np.array([0.0, 0.5, 1.0]),
            "predictions": np.array([0.0, 1.0, 0.5]),
            "loss": np.array([0.0, 0.25, 0.25]),
        }
    )
    assert scores["pearson"] == pytest.approx(50.0)
    assert scores["spearman"] == pytest.approx(50.0)
    assert scores["mse"] == pytest.approx(0.5 / 3)


def test_a_task_without_files():
    task = text_tasks.ClassificationTask("t", ["0", "1"])
    with pytest.raises(ValueError, match="task with files. Received: 't'"):
        task.read_examples("dev")
