import numpy as np
import pytest

from electra_tf.tasks import glue, text_tasks


def _rte(write, tmp_path):
    header = "index\tsentence1\tsentence2\tlabel\n"
    write(
        "train.tsv",
        f"{header}0\ta\tb\tentailment\n1\tb\tc\tnot_entailment\n"
        '2\tc "d\te\tnot_entailment\n',
    )
    write("dev.tsv", f"{header}0\ta\tb\tentailment\n".replace("\n", "\r\n"))
    return glue.Rte(tmp_path)


def test_classification_features(write, tmp_path, tokenizer):
    task = _rte(write, tmp_path)
    train = task.read_examples("train")
    rows = [(e.eid, e.text_a, e.text_b) for e in train]
    assert rows == [(0, "a", "b"), (1, "b", "c"), (2, 'c "d', "e")]
    features = task.features(train, tokenizer, max_seq_length=8)
    assert features["rte_label_ids"].tolist() == [0, 1, 1]
    assert features["rte_eid"].tolist() == [0, 1, 2]
    assert features["input_ids"][0].tolist() == [2, 5, 3, 6, 3, 0, 0, 0]
    (dev,) = task.read_examples("dev")  # Other line ends.
    assert dev.label == "entailment"


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(ValueError, match="train.tsv', which does not exist"):
        glue.Rte(tmp_path).read_examples("train")
    (tmp_path / "train.tsv").write_bytes(b"index\ta\tb\tlabel\na\xff\t0\n")
    with pytest.raises(ValueError, match="row 2 has the byte 0xff"):
        glue.Rte(tmp_path).read_examples("train")


def test_label_out_of_the_list(write, tmp_path, tokenizer):
    (example,) = _rte(write, tmp_path).read_examples("dev")
    message = "one of the labels 'entailment', .*: 'no' in .*dev.tsv', row 2"
    with pytest.raises(ValueError, match=message):
        glue.Rte("").features([example._replace(label="no")], tokenizer, 8)


def test_mrpc_trains_on_both_orders(write, tmp_path):
    row = "1\t10\t11\ta\tb\n"
    write("train.tsv", f"Quality\tID\tID\tString\tString\n{row}")
    write("dev.tsv", f"Quality\tID\tID\tString\tString\n{row}")
    task = glue.Mrpc(tmp_path)
    found = [(e.eid, e.text_a, e.text_b) for e in task.read_examples("train")]
    assert found == [(0, "a", "b"), (1, "b", "a")]
    assert len(task.read_examples("dev")) == 1
    once = glue.Mrpc(tmp_path, double_unordered=False)
    assert len(once.read_examples("train")) == 1


def test_cola_has_no_header_and_its_test_no_labels(write, tmp_path):
    write("train.tsv", "s\t1\t\ta b\n")
    write("test.tsv", "index\tsentence\n0\tc\n")
    task = glue.Cola(tmp_path)
    (train,) = task.read_examples("train")
    assert (train.eid, train.text_a, train.label) == (0, "a b", "1")
    (test,) = task.read_examples("test")
    assert (test.eid, test.text_a, test.has_label) == (0, "c", False)


def test_short_rows_of_glue_are_left_out_and_counted(write, tmp_path):
    write("train.tsv", "index\tq1\tq2\tlabel\n0\ta\n1\ta\tb\tentailment\n")
    with pytest.warns(UserWarning, match="4 or more columns.*2 in .*, row 2"):
        (example,) = glue.Rte(tmp_path).read_examples("train")
    assert example.eid == 1
    write("train.tsv", "index\tq1\tq2\tlabel\n0\ta\n")
    with pytest.raises(ValueError, match="row 2, and no row with enough"):
        glue.Rte(tmp_path).read_examples("train")


def test_sts_targets_are_divided_by_the_maximum(write, tmp_path, tokenizer):
    write("dev.tsv", "x\ts1\ts2\tscore\n0\ta\tb\t2.5\n1\ta\tb\t5.0\n")
    task = glue.Sts(tmp_path)
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
    with pytest.raises(ValueError, match="task with files. Received: 't'"):
        task.read_examples("dev")
    assert task.scores(outputs) == {
        "accuracy": 75.0,
        "macro_f1": pytest.approx((80 + 200 / 3) / 2),
        "weighted_f1": pytest.approx((2 * 80 + 2 * 200 / 3) / 4),
        "loss": 0.75,
    }
    # (1 * 2 - 1 * 0) / sqrt(3 * 2 * 2 * 1)
    mcc = glue.Cola("").scores(outputs)["mcc"]
    assert mcc == pytest.approx(100 * 2 / 12**0.5)
    assert glue.Mrpc("").scores(outputs)["f1"] == pytest.approx(80.0)


def test_scores_of_regression():
    scores = glue.Sts("").scores(
        {
            "targets": np.array([0.0, 0.5, 1.0]),
            "predictions": np.array([0.0, 1.0, 0.5]),
            "loss": np.array([0.0, 0.25, 0.25]),
        }
    )
    assert scores["pearson"] == pytest.approx(50.0)
    assert scores["spearman"] == pytest.approx(50.0)
    # The original's is that of the targets, points / 5.
    assert scores["mse"] == pytest.approx(0.5 / 3)
    assert scores["mse_in_points"] == pytest.approx(25 * 0.5 / 3)
    task = text_tasks.RegressionTask("stars", 1.0, 5.0, scale=4.0)
    outputs = {
        "targets": np.array([0.0, 0.25, 1.0]),
        "predictions": np.array([0.25, 0.25, 0.75]),
        "loss": np.array([0.0625, 0.0, 0.0625]),
    }
    # Of 1, 2 and 5 stars, 2, 2 and 4 were predicted.
    scores = task.scores(outputs)
    assert scores["mse"] == pytest.approx(2 / 3)
    assert scores["loss"] == pytest.approx(0.125 / 3)


def test_what_a_run_asks_of_a_classification_task(write, tmp_path):
    task = _rte(write, tmp_path)
    assert task.splits() == ["train", "dev"]
    assert task.has_labels("dev")
    assert task.main_metric == "accuracy"
    labels = ["entailment", "not_entailment"]
    assert task.description() == {"kind": "classification", "labels": labels}
    train, dev = task.read_examples("train"), task.read_examples("dev")
    # The only row of dev is of the other class.
    names = ("accuracy", "macro_f1", "weighted_f1")
    baseline = task.baseline(train, {"dev": dev})
    assert baseline["name"] == "majority class 'not_entailment'"
    assert baseline["dev"] == dict.fromkeys(names, 0)
    assert task.is_degenerate({"predictions": np.array([1, 1])})
    assert not task.is_degenerate({"predictions": np.array([1, 0])})
    outputs = {"predictions": np.array([1]), "logits": np.log([[0.25, 0.75]])}
    header, (row,) = task.prediction_table(dev, outputs)
    assert header == ["label", "prediction", *task.labels, "text_a", "text_b"]
    assert row[:2] == labels
    assert row[2:] == ["0.250000", "0.750000", "a", "b"]
    assert task.submission_rows("dev", dev, {}) is None


def test_what_a_run_asks_of_a_regression_task(write, tmp_path):
    rows = "0\ta\tb\t1.0\n1\ta\tb\t4.0\n"
    write("train.tsv", f"x\ts1\ts2\tscore\n{rows}")
    write("test.tsv", "x\ts1\ts2\n0\ta\tb\n1\tc\td\n")
    task = glue.Sts(tmp_path, double_unordered=False)
    assert task.splits() == ["train", "test"]
    assert not task.has_labels("test")
    assert task.main_metric == "spearman"
    train = task.read_examples("train")
    baseline = task.baseline(train, {"dev": train})
    assert baseline["name"] == "mean 2.500"
    assert baseline["dev"] == {
        "pearson": 0.0,
        "spearman": 0.0,
        "mse": pytest.approx(0.3**2),
        "mse_in_points": pytest.approx(1.5**2),
    }
    spread = np.array([0.0, 1.0])
    still = np.array([0.50, 0.51])
    assert task.is_degenerate({"targets": spread, "predictions": still})
    assert not task.is_degenerate({"targets": spread, "predictions": spread})
    test = task.read_examples("test")
    outputs = {"predictions": np.array([-0.1, 0.5])}
    name, header, rows = task.submission_rows("test", test, outputs)
    assert (name, header) == ("STS-B.tsv", ["index", "prediction"])
    assert list(rows) == [["0", "0.000"], ["1", "2.500"]]
    header, rows = task.prediction_table(test, outputs)
    assert header == ["label", "prediction", "text_a", "text_b"]
    assert list(rows)[1] == ["", "2.500000", "c", "d"]


def test_names_of_the_benchmark():
    files = [name for task in glue.TASKS for name in task.SUBMISSIONS.values()]
    assert sorted(files) == sorted(glue.SUBMISSIONS)
    for task in glue.TASKS:
        assert set(task.SUBMISSIONS) <= set(task.SPLITS)


def test_a_submission_has_the_index_of_its_rows(tmp_path, write):
    task = glue.Rte(tmp_path)
    write("test.tsv", "index\ts1\ts2\n0\ta\tb\n247\tc\td\n")
    outputs = {"predictions": np.array([0, 1])}
    examples = task.read_examples("test")
    _, _, rows = task.submission_rows("test", examples, outputs)
    assert [row[0] for row in rows] == ["0", "247"]


def test_mnli_has_matched_and_mismatched_sets(tmp_path, write):
    row = "\t".join(f"c{i}" for i in range(1, 10))
    for name in ("test_matched", "test_mismatched"):
        write(f"{name}.tsv", f"header\n0\t{row}\n1\t{row}\n")
    write("diagnostic.tsv", "index\ta\tb\n0\tc\td\n")
    write("dev_matched.tsv", f"h\n0\t{row}\tneutral\n")
    task = glue.Mnli(tmp_path)
    names = ["dev", "test", "test_mismatched", "diagnostic"]
    assert task.splits() == names
    (example,) = task.read_examples("dev")
    assert (example.text_a, example.text_b) == ("c8", "c9")
    assert example.label == "neutral"
    name, _, rows = task.submission_rows(
        "test", task.read_examples("test"), {"predictions": np.array([2, 0])}
    )
    assert name == "MNLI-m.tsv"
    assert list(rows) == [["0", "neutral"], ["1", "contradiction"]]
    assert not task.has_labels("diagnostic")


@pytest.mark.parametrize(
    ("task", "split", "row", "message"),
    [
        (glue.Sst, "train", "a film\t1", "'1' in its column 2 in .*train.tsv"),
        (glue.Rte, "dev", "0\ta\tb\tentailment", "'entailment' in its col"),
        (glue.Sts, "dev", "0\ta\tb\t2.5", "'2.5' in its column 4"),
        (glue.Sst, "test", "0\ta film", "'0' in its column 1 in .*test.tsv"),
    ],
)
def test_a_glue_file_without_its_header(
    write, tmp_path, task, split, row, message
):
    write(f"{split}.tsv", f"{row}\n{row}\n")
    with pytest.raises(ValueError, match=f"Expected .*{message}"):
        task(tmp_path).read_examples(split)
