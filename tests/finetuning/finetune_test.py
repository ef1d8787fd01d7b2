"""Tests of finetuning/finetune.py."""

import dataclasses
import os
import pathlib

import numpy as np
import pytest

from electra_tf import configs, run_record, training
from electra_tf.finetuning import finetune, text_tasks
from tests import helpers

# "wa" says it all.
TRAIN = [("wa wb", "yes"), ("wc wd we", "no"), ("wf wa", "yes")] * 4 + [
    ("wg wh", "no")
]
DEV = [("wa wc", "yes"), ("wc wb", "no"), ("wh wa wb", "yes")]


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """A folder with a pre-trained model, its vocabulary and a labelled set."""
    folder = tmp_path_factory.mktemp("pretrained")
    helpers.write_pretrained(folder / "model")
    helpers.write_vocab(folder)
    helpers.write_tsv(folder / "train.tsv", TRAIN)
    helpers.write_tsv(folder / "dev.tsv", DEV)
    helpers.write_tsv(folder / "test.tsv", DEV[:2])
    return folder


def make_config(pretrained, model_dir, data=None, **changes):
    config = configs.FinetuningConfig(
        init_checkpoint=str(pretrained / "model"),
        data=configs.FinetuningDataConfig(
            task_name="letters",
            train_file=str(pretrained / "train.tsv"),
            dev_file=str(pretrained / "dev.tsv"),
            test_file=str(pretrained / "test.tsv"),
            vocab_file=str(pretrained / "vocab.txt"),
            max_seq_length=8,
            train_batch_size=4,
            eval_batch_size=2,
            num_train_epochs=2.0,
        ),
        optimizer=configs.OptimizerConfig(1e-2, layerwise_lr_decay=0.8),
        run=helpers.run_config(model_dir),
    )
    return dataclasses.replace(
        config, data=dataclasses.replace(config.data, **(data or {})), **changes
    )


def run(config):
    def before_training():
        run_record.write(config, "", [])

    return finetune.finetune(config, before_training)


@pytest.fixture(scope="module")
def finished(pretrained, tmp_path_factory):
    """A run of two trials and its results."""
    model_dir = tmp_path_factory.mktemp("finished") / "model"
    config = make_config(pretrained, model_dir, num_trials=2)
    return config, run(config)


def test_results(finished):
    config, results = finished
    assert results == helpers.read_json(
        os.path.join(config.run.model_dir, "results.json")
    )
    assert results["task"] == "letters"
    assert results["labels"] == ["no", "yes"]
    assert results["from_scratch"] is False
    assert results["num_rows"] == {"train": 13, "dev": 3, "test": 2}
    assert results["majority"] == {
        "label": "yes",
        "dev": pytest.approx(200 / 3),
        "test": 50.0,
    }
    first, second = results["trials"]
    assert (first["trial"], first["seed"]) == (1, 3)
    assert (second["trial"], second["seed"]) == (2, 4)
    dev = [trial["dev"]["accuracy"] for trial in results["trials"]]
    assert results["best_on_dev"] == 1 + int(np.argmax(dev))
    assert results["dev"]["accuracy_mean"] == pytest.approx(np.mean(dev))
    assert results["dev"]["accuracy_stdev"] == pytest.approx(
        np.std(dev, ddof=1)
    )
    assert results["degenerate_trials"] == [
        trial["trial"]
        for trial in results["trials"]
        if trial["dev"]["predicted_labels"] == 1
    ]


def test_every_epoch_is_trained(finished):
    config, _ = finished
    log = training.read_metrics(
        os.path.join(config.run.model_dir, "trial_1", "metrics.jsonl")
    )
    # 13 rows are 4 batches of 4, the last one filled up.
    assert [record["step"] for record in log] == [2, 4, 6, 8]
    assert "letters_accuracy" in log[0]


def test_predictions_are_written(finished):
    config, results = finished
    path = os.path.join(config.run.model_dir, "trial_1", "dev_predictions.tsv")
    with open(path) as f:
        header, *rows = [line.rstrip("\n").split("\t") for line in f]
    assert header == ["label", "prediction", "no", "yes", "text"]
    assert [(row[4], row[0]) for row in rows] == DEV
    right = sum(row[0] == row[1] for row in rows)
    accuracy = results["trials"][0]["dev"]["accuracy"]
    assert accuracy == pytest.approx(100 * right / 3)
    for row in rows:
        scores = float(row[2]), float(row[3])
        assert sum(scores) == pytest.approx(1.0, abs=1e-5)
        assert row[1] == ("no", "yes")[int(np.argmax(scores))]


def test_finished_trials_are_not_run_again(finished, monkeypatch):
    config, results = finished

    def train(*args):
        raise AssertionError("trained again")

    monkeypatch.setattr(training, "train", train)
    assert run(config) == results


def test_a_finished_trial_keeps_its_scores(finished):
    config, results = finished
    trial = helpers.read_json(
        os.path.join(config.run.model_dir, "trial_2", "results.json")
    )
    assert trial == results["trials"][1]


class Began(Exception):
    pass


def weights_at_the_start(config, monkeypatch):
    """The model of a trial before its first step."""
    found = {}

    def train(engine, *args):
        found.update({v.path: v.numpy() for v in engine.model.variables})
        found["scales"] = engine.optimizer.scales
        raise Began

    monkeypatch.setattr(training, "train", train)
    with pytest.raises(Began):
        run(config)
    return found


def test_begins_with_the_pretrained_encoder(pretrained, tmp_path, monkeypatch):
    found = weights_at_the_start(
        make_config(pretrained, tmp_path / "model"), monkeypatch
    )
    model = helpers.write_pretrained(tmp_path / "again")
    for variable in model.electra.variables:
        np.testing.assert_array_equal(
            found[variable.path], variable.numpy(), variable.path
        )
    assert found["task_specific/letters/dense/kernel"].shape == (8, 2)


def test_begins_from_scratch_on_demand(pretrained, tmp_path, monkeypatch):
    found = weights_at_the_start(
        make_config(pretrained, tmp_path / "model", from_scratch=True),
        monkeypatch,
    )
    model = helpers.write_pretrained(tmp_path / "again")
    kernel = model.electra.embeddings_project.kernel
    assert (found[kernel.path] != kernel.numpy()).all()


def test_layers_learn_at_rates_of_their_own(pretrained, tmp_path, monkeypatch):
    scales = weights_at_the_start(
        make_config(pretrained, tmp_path / "model"), monkeypatch
    )["scales"]
    # Two layers, decay 0.8.
    assert scales["task_specific/letters/dense/kernel"] == 1.0
    assert scales["electra/encoder/layer_1/output/dense/bias"] == (
        pytest.approx(0.64)
    )
    assert scales["electra/embeddings/word_embeddings"] == (
        pytest.approx(0.4096)
    )


def test_predictions_are_in_the_order_of_the_rows(pretrained):
    task = text_tasks.ClassificationTask("letters", ["no", "yes"])
    model = finetune.build_model(
        helpers.encoder_config(initializer_range=0.5), task
    )
    rows = [helpers.inputs([n]) for n in (2, 0, 1, 2, 0)]
    features = {
        name: np.concatenate([row[name] for row in rows]) for name in rows[0]
    }
    features["letters_label_ids"] = np.array([0, 1, 0, 1, 0], np.int32)
    outputs = finetune.make_predictor(model, "letters", 2)(features)
    assert outputs["label_ids"].tolist() == [0, 1, 0, 1, 0]
    for i, row in enumerate(rows):
        alone = model(row)["task_outputs"]["letters"]["logits"]
        np.testing.assert_allclose(
            outputs["logits"][i : i + 1], alone, atol=1e-5
        )


def test_predictions_of_text_with_odd_characters(tmp_path):
    text = 'a "quoted" \\ one,\rand a carriage return'
    task = text_tasks.ClassificationTask("letters", ["no", "yes"])
    example = text_tasks.TextExample(0, text, None, "yes", ("dev.tsv", 2))
    outputs = {
        "logits": np.array([[0.0, np.log(3.0)]], np.float32),
        "predictions": np.array([1]),
    }
    finetune._write_predictions(str(tmp_path), "dev", task, [example], outputs)
    lines = (tmp_path / "dev_predictions.tsv").read_text().splitlines()
    assert lines[0] == "label\tprediction\tno\tyes\ttext"
    assert lines[1].startswith(
        'yes\tyes\t0.250000\t0.750000\ta "quoted" \\ one,'
    )


def test_format_results():
    results = {
        "trials": [
            {"trial": 1, "dev": {"accuracy": 80.0}, "test": {"accuracy": 70.0}},
            {"trial": 2, "dev": {"accuracy": 90.0}, "test": {"accuracy": 60.0}},
        ],
        "dev": {"accuracy_mean": 85.0, "accuracy_stdev": 7.07},
        "test": {"accuracy_mean": 65.0, "accuracy_stdev": None},
        "majority": {"label": "yes", "dev": 50.0, "test": 40.0},
        "degenerate_trials": [2],
    }
    assert finetune.format_results(results).splitlines() == [
        "  trial 1: accuracy dev 80.00 %  test 70.00 %",
        "  trial 2: accuracy dev 90.00 %  test 60.00 %",
        "  dev: mean 85.00 % +- 7.07, majority class 50.00 %",
        "  test: mean 65.00 %, majority class 40.00 %",
        "  trial 2 is degenerate: it gives every row of the dev set the same "
        "label. Try another seed or a lower learning rate.",
    ]


def refusal(config):
    with pytest.raises(ValueError) as caught:
        run(config)
    assert not os.path.exists(config.run.model_dir)
    return str(caught.value)


def test_refuses_another_vocabulary(pretrained, tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(helpers.VOCAB[:-1]))
    config = make_config(
        pretrained, tmp_path / "model", data={"vocab_file": str(path)}
    )
    assert refusal(config) == (
        f"Expected the vocabulary of {config.init_checkpoint} with 20 entries. "
        f"Received: {path} with 19"
    )


def test_text_settings_come_with_the_vocabulary(pretrained, tmp_path):
    path = helpers.write_vocab(tmp_path)
    checkpoint = finetune.read_encoder(str(pretrained / "model"))

    def settings(**data):
        config = make_config(
            pretrained, tmp_path / "model", data={"vocab_file": path} | data
        )
        tokenizer = finetune._make_tokenizer(config, checkpoint)
        return tokenizer.do_lower_case, tokenizer.strip_accents

    assert settings() == (True, True)
    assert settings(do_lower_case=False) == (False, True)
    made_for = pathlib.Path(f"{path}.json")
    made_for.write_text('{"do_lower_case": false, "strip_accents": false}')
    assert settings() == (False, False)
    # Without lower-casing, it does not matter.
    assert settings(strip_accents=True) == (False, True)
    with pytest.raises(configs.ConfigError) as caught:
        settings(do_lower_case=True)
    assert str(caught.value) == (
        f"FinetuningDataConfig.do_lower_case must be False, as for {path}. "
        "Received: do_lower_case=True"
    )
    made_for.write_text('{"do_lower_case": true, "strip_accents": false}')
    assert settings() == (True, False)
    with pytest.raises(configs.ConfigError) as caught:
        settings(strip_accents=True)
    assert "strip_accents must be False" in str(caught.value)


def test_refuses_texts_longer_than_the_positions(pretrained, tmp_path):
    config = make_config(
        pretrained, tmp_path / "model", data={"max_seq_length": 13}
    )
    assert refusal(config) == (
        "FinetuningDataConfig.max_seq_length must not exceed the 12 positions "
        f"of {config.init_checkpoint}. Received: max_seq_length=13"
    )


def test_refuses_a_model_that_was_not_trained(pretrained, tmp_path):
    folder = tmp_path / "empty"
    helpers.write_pretrained(folder)
    os.remove(folder / "checkpoint")
    config = make_config(
        pretrained, tmp_path / "model", init_checkpoint=str(folder)
    )
    assert refusal(config) == (
        f"Expected a checkpoint in {folder}, found none: has the model been "
        "trained?"
    )


@pytest.mark.parametrize("name", ["model/ckpt-7", "nothing"])
def test_refuses_a_checkpoint_that_does_not_exist(pretrained, tmp_path, name):
    path = str(pretrained / name)
    config = make_config(pretrained, tmp_path / "model", init_checkpoint=path)
    assert refusal(config).endswith(f"Received: {path}, does not exist")


def test_refuses_more_than_one_machine(pretrained, tmp_path):
    config = make_config(
        pretrained,
        tmp_path / "model",
        run=helpers.run_config(
            tmp_path / "model", distribution_strategy="multi_worker_mirrored"
        ),
    )
    assert refusal(config) == (
        "Fine-tuning runs on one machine: RunConfig.distribution_strategy must "
        "be one_device, mirrored or tpu. Received: "
        "distribution_strategy='multi_worker_mirrored'"
    )


def test_takes_a_checkpoint_by_its_prefix(pretrained):
    by_name, by_folder = (
        finetune.read_encoder(str(pretrained / path))
        for path in ("model/ckpt-1", "model")
    )
    assert by_name.discriminator == by_folder.discriminator
    assert set(by_name.tensors) == set(by_folder.tensors)
