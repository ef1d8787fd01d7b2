"""Tests of finetuning/finetune.py."""

import dataclasses
import os
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from electra_tf import errors
from electra_tf.checkpoints import sizes
from electra_tf.checkpoints.formats import electra_tf_format, original
from electra_tf.finetuning import (
    evaluation,
    finetune,
    predictions,
    preparation,
    starting_point,
    task_data,
)
from electra_tf.model import task_head
from electra_tf.tasks import tagging, text_tasks
from electra_tf.training import loop
from tests import helpers, notices, pages
from tests.checkpoints import models
from tests.finetuning import runs

TRAIN = [*runs.TRAIN * 4, ("wg wh", "no")]
run = runs.run


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """A folder with a pre-trained model, its vocabulary and a labelled set."""
    return runs.write_data(tmp_path_factory.mktemp("pretrained"), TRAIN)


def make_config(pretrained, model_dir, data=None, **changes):
    test = {"test_file": str(pretrained / "test.tsv")}
    return runs.make_config(
        pretrained, model_dir, test | (data or {}), **changes
    )


@pytest.fixture(scope="module")
def finished(pretrained, tmp_path_factory):
    """A run of two trials and its results."""
    model_dir = tmp_path_factory.mktemp("finished") / "model"
    config = make_config(pretrained, model_dir, num_trials=2)
    return config, run(config)


def read_tsv(path):
    """The rows of a file with a header, as dicts."""
    with open(path, encoding="utf-8") as f:
        header, *rows = [line.rstrip("\n").split("\t") for line in f]
    return [dict(zip(header, row, strict=True)) for row in rows]


def test_results(finished):
    config, results = finished
    folder = pathlib.Path(config.run.model_dir)
    assert results == helpers.read_json(folder / "results.json")
    assert results["task"] == "letters"
    rate = {"value": 1e-2, "source": "given"}
    assert results["recipe"]["learning_rate"] == rate
    assert results["labels"] == ["no", "yes"]
    assert results["from_scratch"] is False
    assert results["num_rows"] == {"train": 13, "dev": 3, "test": 2}
    assert results["main_metric"] == "macro_f1"
    assert results["baseline"]["name"] == "majority class 'yes'"
    assert results["baseline"]["test"]["accuracy"] == 50.0
    assert [(t["trial"], t["seed"]) for t in results["trials"]] == [
        *((1, 3), (2, 4))
    ]
    f1 = [trial["dev"]["macro_f1"] for trial in results["trials"]]
    assert results["best_on_dev"] == 1 + int(np.argmax(f1))
    assert results["dev"]["macro_f1_mean"] == pytest.approx(np.mean(f1))
    for trial in results["trials"]:
        path = folder / f"trial_{trial['trial']}/dev_predictions.tsv"
        says_one_thing = len({row["prediction"] for row in read_tsv(path)}) == 1
        assert trial["degenerate"] == ["letters"] * says_one_thing
        is_degenerate = trial["trial"] in results["degenerate_trials"]
        assert is_degenerate == says_one_thing
    best = results["trials"][results["best_on_dev"] - 1]
    report = results["report"]["dev"]
    assert report["trial"] == best["trial"]
    assert report["macro_f1"] == best["dev"]["macro_f1"]
    assert report["classes"]["yes"]["support"] == 2
    page = (folder / "report.html").read_text(encoding="utf-8")
    pages.assert_whole(page)
    assert f"{results['dev']['macro_f1_mean']:.1f}</b>" in page


def test_predictions_are_written(finished):
    config, results = finished
    path = os.path.join(config.run.model_dir, "trial_1", "dev_predictions.tsv")
    with open(path) as f:
        header, *rows = [line.rstrip("\n").split("\t") for line in f]
    assert header == ["label", "prediction", "no", "yes", "text"]
    assert [(row[4], row[0]) for row in rows] == runs.DEV
    right = sum(row[0] == row[1] for row in rows)
    accuracy = results["trials"][0]["dev"]["accuracy"]
    assert accuracy == pytest.approx(100 * right / 3)
    for row in rows:
        scores = float(row[2]), float(row[3])
        assert sum(scores) == pytest.approx(1.0, abs=1e-5)
        assert row[1] == ("no", "yes")[int(np.argmax(scores))]


def test_finished_trials_are_not_run_again(finished, monkeypatch):
    config, results = finished

    def train(*args, **kwargs):
        raise AssertionError("trained again")

    monkeypatch.setattr(loop, "train", train)
    assert run(config) == results


class Began(Exception):
    pass


def weights_at_the_start(config, monkeypatch):
    """The model of a trial before its first step."""
    found = {}

    def train(engine, *args, **kwargs):
        found.update({v.path: v.numpy() for v in engine.model.variables})
        found["scales"] = engine.optimizer.scales
        raise Began

    monkeypatch.setattr(loop, "train", train)
    with pytest.raises(Began):
        run(config)
    return found


def test_begins_with_the_pretrained_encoder(pretrained, tmp_path, monkeypatch):
    config = make_config(pretrained, tmp_path / "model")
    weights = weights_at_the_start(config, monkeypatch)
    model = helpers.write_pretrained(tmp_path / "again")
    for variable in model.electra.variables:
        np.testing.assert_array_equal(
            weights[variable.path], variable.numpy(), variable.path
        )
    assert weights["task_specific/letters/dense/kernel"].shape == (8, 2)


def test_begins_from_scratch_on_demand(pretrained, tmp_path, monkeypatch):
    config = make_config(pretrained, tmp_path / "model", from_scratch=True)
    weights = weights_at_the_start(config, monkeypatch)
    model = helpers.write_pretrained(tmp_path / "again")
    kernel = model.electra.embeddings_project.kernel
    assert (weights[kernel.path] != kernel.numpy()).all()


def test_predictions_of_text_with_odd_characters(tmp_path):
    text = 'a "quoted" \\ one,\rand a carriage return'
    task = text_tasks.ClassificationTask("letters", ["no", "yes"])
    example = text_tasks.TextExample(0, text, None, "yes", ("dev.tsv", 2))
    outputs = {
        "logits": np.array([[0.0, np.log(3.0)]], np.float32),
        "predictions": np.array([1]),
    }
    data = task_data.TaskData(task, {"dev": [example]}, {}, frozenset())
    answers = evaluation.Evaluation({"letters": {"dev": outputs}}, {}, {}, [])
    predictions.write_all(str(tmp_path), [data], answers)
    lines = (tmp_path / "dev_predictions.tsv").read_text().splitlines()
    assert lines[0] == "label\tprediction\tno\tyes\ttext"
    assert lines[1].startswith(
        'yes\tyes\t0.250000\t0.750000\ta "quoted" \\ one,'
    )


@pytest.fixture(scope="module")
def crossed(pretrained, tmp_path_factory):
    """A run of two folds, and its results."""
    folder = tmp_path_factory.mktemp("folds")
    config = make_config(
        pretrained,
        folder / "model",
        data={"folds": 2, "dev_file": "", "num_train_epochs": 1.0},
        dropout=0.2,
    )
    return config, run(config)


@pytest.mark.dear
def test_every_row_is_scored_in_one_fold(crossed):
    config, results = crossed
    texts = []
    for trial in results["trials"]:
        folder = f"{config.run.model_dir}/trial_{trial['trial']}"
        rows = read_tsv(f"{folder}/dev_predictions.tsv")
        texts += [(row["text"], row["label"]) for row in rows]
        # 8 of 13 rows say "yes".
        assert sum(row["label"] == "yes" for row in rows) == 4
        assert set(trial["test"]) == set(trial["dev"])
    assert sorted(texts) == sorted(TRAIN)
    assert [trial["fold"] for trial in results["trials"]] == [1, 2]
    scores = [trial["dev"]["macro_f1"] for trial in results["trials"]]
    assert results["main_metric"] == "macro_f1"
    assert results["dev"]["macro_f1_mean"] == pytest.approx(np.mean(scores))


def fake_trials(monkeypatch, is_degenerate):
    """Trials that are not trained; returns those that would be."""
    asked = []

    def run_trial(plan, strategy, description):
        trial = plan.trial
        asked.append(trial)
        score = 50.0 if is_degenerate(trial) else 80.0
        return trial.as_dict() | {
            "degenerate": ["letters"] * is_degenerate(trial),
            "tasks": {"letters": {"dev": {"macro_f1": score}}},
            "reports": {},
        }

    monkeypatch.setattr(finetune, "run_trial", run_trial)
    return asked


def test_degenerate_trials_are_repeated_if_asked(
    pretrained, tmp_path, monkeypatch
):
    config = make_config(
        pretrained, tmp_path / "model", num_trials=2, reseed_degenerate=1
    )
    # Seeds are 3 and 4; then comes 5.
    asked = fake_trials(monkeypatch, lambda trial: trial.seed in (3, 5))
    results = run(config)
    assert [(t.number, t.seed, t.replaces) for t in asked] == [
        (1, 3, None),
        (2, 4, None),
        (3, 5, 1),
    ]
    assert results["degenerate_trials"] == [1, 3]
    assert results["replaced_trials"] == [1]
    assert results["dev"]["macro_f1_mean"] == 65.0


def test_a_grid_is_tried_and_written_as_a_table(
    pretrained, tmp_path, monkeypatch
):
    config = make_config(
        pretrained,
        tmp_path / "model",
        learning_rates=(1e-3, 1e-2),
        num_train_epochs_options=(1, 2),
    )
    asked = fake_trials(monkeypatch, lambda trial: trial.learning_rate == 1e-3)
    results = run(config)
    assert [(t.learning_rate, t.num_train_epochs) for t in asked] == [
        (1e-3, 1.0),
        (1e-3, 2.0),
        (1e-2, 1.0),
        (1e-2, 2.0),
    ]
    assert results["settings"][0]["learning_rate"] == 1e-2
    table = (tmp_path / "model" / "results.txt").read_text()
    assert "mean of rate 0.01, 1 epoch" in table
    assert "best setting on dev: rate 0.01" in table


def test_goes_on_with_a_head_that_has_the_labels(
    pretrained, finished, tmp_path, monkeypatch
):
    helpers.write_tsv(tmp_path / "no.tsv", [("wa", "no"), ("wb", "yes")])
    source = finished[0].run.model_dir
    best = finished[1]["best_on_dev"]
    config = make_config(
        pretrained,
        tmp_path / "model",
        data={"train_file": str(tmp_path / "no.tsv"), "task_name": "again"},
        init_checkpoint=source,
        keep_head=True,
    )
    found = weights_at_the_start(config, monkeypatch)
    reader = tf.train.load_checkpoint(
        tf.train.latest_checkpoint(f"{source}/trial_{best}")
    )
    for name in ("kernel", "bias"):
        key = f"model/task_specific.Sletters.Sdense.S{name}"
        np.testing.assert_array_equal(
            found[f"task_specific/again/dense/{name}"],
            reader.get_tensor(key + "/.ATTRIBUTES/VARIABLE_VALUE"),
        )


def test_the_order_of_a_head_without_names():
    task = text_tasks.ClassificationTask("own", [*map(str, range(11))])
    head = task_head.TaskHead("classification", "old", None, 11)
    (note,) = notices.of(starting_point._adopt_labels, task, head, "model")
    assert task.labels == [*map(str, range(11))]
    assert note.startswith("nothing says which labels the head of model has: ")
    task.labels.pop()
    with pytest.raises(errors.ConfigError, match="Expected the 11 labels"):
        starting_point._adopt_labels(task, head, "model")


def started_with_head(pretrained, tmp_path, **head):
    """From a fine-tuned model whose head is changed a little, and kept."""
    whole = models.finetuned(head.pop("kind"), 1)
    changed = dataclasses.replace(whole.head, **head)
    electra_tf_format.write(
        dataclasses.replace(whole, head=changed), str(tmp_path / "model")
    )
    return starting_point.read(
        make_config(
            pretrained,
            tmp_path / "finetuned",
            init_checkpoint=str(tmp_path / "model"),
            keep_head=True,
        )
    )


def test_a_tagger_that_is_kept_has_its_segment(tmp_path, pretrained):
    start = started_with_head(pretrained, tmp_path, kind="tagging", segment=0)
    task = tagging.TaggingTask("t", {}, as_original=False, labels=["label 0"])
    starting_point.with_head(start, task)
    example = tagging.TaggingExample(0, ("wa",), ("label 0",))
    features = task.features([example], start.tokenizer, 4)
    assert not features["segment_ids"].any()
    assert task.description()["segment"] == 0


def test_a_regression_that_is_kept_has_its_unit(tmp_path, pretrained):
    unit = {"min_value": 1.0, "max_value": 5.0, "scale": 4.0}
    start = started_with_head(
        pretrained,
        tmp_path,
        kind="regression",
        options=models.finetuned("regression", 1).head.options | unit,
    )
    task = text_tasks.RegressionTask("t", 4.0, 4.5, scale=0.5)
    starting_point.with_head(start, task)
    example = text_tasks.TextExample(0, "wa", None, "4.5", ("a.tsv", 1))
    (targets,) = task.label_features([example]).values()
    assert targets == pytest.approx([(4.5 - 1) / 4])
    assert task.in_units_of_labels([0.0, 1.0]) == pytest.approx([1, 5])


def test_a_length_beyond_the_positions_is_cut_and_said(pretrained, tmp_path):
    config = make_config(
        pretrained, tmp_path / "model", data={"max_seq_length": 13}
    )
    with notices.heard() as lines:
        plan = preparation.prepare(config)
    assert plan.config.data.max_seq_length == 12
    (data,) = plan.folds[0]
    assert data.max_seq_length == 12
    assert data.features["train"]["input_ids"].shape[1] == 12
    (line,) = (line for line in lines if line.startswith("max_seq_length "))
    assert line.startswith("max_seq_length 12 rather than 13: ")


def test_dropout_of_the_run_and_of_the_classifier_alone(pretrained, tmp_path):
    config = make_config(
        pretrained, tmp_path / "model", dropout=0.3, head_dropout=0.2
    )
    plan = preparation.prepare(config)
    assert plan.start.encoder_config.hidden_dropout_prob == 0.3
    assert plan.start.encoder_config.attention_probs_dropout_prob == 0.3
    engine = finetune.make_engine(
        plan.of_trial(plan.trials[0]), tf.distribute.get_strategy()
    )
    (head,) = engine.model.task_specific.heads
    assert head.dropout.rate == 0.2
    config = dataclasses.replace(config, head_dropout=None)
    assert preparation.prepare(config).start.head_dropout == 0.3
    config = dataclasses.replace(config, dropout=None, head_dropout=0.2)
    encoder = preparation.prepare(config).start.encoder_config
    assert encoder.hidden_dropout_prob == 0.1


# --- What is refused ---------------------------------------------------------


NO_FILES = dict.fromkeys(("train_file", "dev_file", "test_file"), "")
OTHER_LABEL, TAGS = "other_label.tsv", "tags.conll"


@pytest.mark.parametrize(
    ("data", "changes", "message"),
    [
        ({}, {"keep_head": True}, "a head for classification. .* no fine-tun"),
        ({}, {"init_checkpoint": "nothing"}, "nothing, does not exist"),
        (
            {},
            {"expected_encoder": {"hidden_size": 256, "vocab_size": 20}},
            "/pretrained has another encoder .*: hidden_size=256 .was 8",
        ),
        ({}, {"pooling": "mean", "init_checkpoint": "finished"}, "be 'cls', a"),
        (
            {"train_file": OTHER_LABEL},
            {"init_checkpoint": "finished"},
            "Received: 3 labels, with 'perhaps' among them",
        ),
        ({"train_file": TAGS}, {"head_dropout": 0.2}, "with a TaggingHead"),
        ({"train_file": TAGS}, {"pooling": "mean"}, "with a TaggingHead"),
        (
            NO_FILES | {"task_names": "rte", "data_dir": "nothing"},
            {},
            "'rte' in nothing/finetuning_data/rte, nothing/rte, nothing/RTE ",
        ),
        ({}, {"tpu": "pod"}, "RunConfig.tpu='local' on the TPU's own host"),
    ],
)
def test_what_does_not_fit_is_refused(
    pretrained, finished, tmp_path, data, changes, message
):
    rows = [*TRAIN[:2], ("wc", "perhaps")]
    helpers.write_tsv(tmp_path / OTHER_LABEL, rows)
    (tmp_path / TAGS).write_text("wa B-X\nwb O\n\n")
    if name := data.get("train_file"):
        path = str(tmp_path / name)
        data = {"train_file": path, "dev_file": path, "test_file": ""}
    model_dir = tmp_path / "model"
    if changes.get("init_checkpoint") == "finished":
        source = finished[0].run.model_dir
        changes = changes | {"init_checkpoint": source, "keep_head": True}
    if "tpu" in changes:
        run_config = helpers.finetuning_run_config(
            model_dir, distribution_strategy="tpu", **changes
        )
        changes = {"run": run_config}
    with pytest.raises(ValueError, match=message):
        run(make_config(pretrained, model_dir, data, **changes))
    assert not model_dir.exists()


def test_what_is_only_assumed_of_the_encoder_must_be_said(tmp_path, pretrained):
    folder = tmp_path / "model"
    encoder = helpers.encoder_config(hidden_size=64)
    tensors = models.random_tensors(sizes.encoder_shapes(encoder, "electra"))
    whole = models.pretrained(
        tensors=tensors, discriminator=encoder, generator=None
    )
    original.write(whole, str(folder))
    (folder / original.HPARAMS_FILE).unlink()
    config = make_config(
        pretrained,
        tmp_path / "finetuned",
        init_checkpoint=str(folder),
        expected_encoder={"num_attention_heads": 2},
    )
    with pytest.raises(ValueError, match="num_attention_heads=2 .was 1"):
        run(config)
    config = dataclasses.replace(config, expected_encoder={})
    (note,) = notices.of(starting_point.read, config)
    assert "so assumed: num_attention_heads=1, hidden_act=gelu" in note


# --- The vocabulary ----------------------------------------------------------


def test_text_settings_come_with_the_vocabulary(pretrained, tmp_path):
    path = helpers.write_vocab(tmp_path)

    def settings(**data):
        config = make_config(
            pretrained, tmp_path / "model", data={"vocab_file": path} | data
        )
        tokenizer = starting_point.read(config).tokenizer
        return tokenizer.do_lower_case, tokenizer.strip_accents

    assert settings() == (True, True)
    assert settings(do_lower_case=False) == (False, False)
    pathlib.Path(f"{path}.json").write_text(
        '{"do_lower_case": false, "strip_accents": false}'
    )
    assert settings() == (False, False)
    # Accents are kept without lower-casing, whatever is said of them.
    assert settings(strip_accents=True) == (False, False)
    assert settings(do_lower_case=True) == (True, True)


def test_a_vocabulary_of_another_model_is_said_or_refused(pretrained, tmp_path):
    path = tmp_path / "vocab.txt"
    config = make_config(
        pretrained, tmp_path / "run", {"vocab_file": str(path)}
    )
    shutil.copy(pretrained / "vocab.txt", pretrained / "pretrained")
    path.write_text("\n".join([*helpers.VOCAB[:5], *helpers.VOCAB[:4:-1]]))
    said = "".join(notices.of(starting_point.read, config))
    assert "others there, such as 'wo' for 'wa'" in said
    path.write_text("\n".join(helpers.VOCAB[:-1]))
    with pytest.raises(errors.CheckpointError, match="20 entries.* 19"):
        starting_point.read(config)
    (pretrained / "pretrained" / "vocab.txt").unlink()
