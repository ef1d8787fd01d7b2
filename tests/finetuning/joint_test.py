"""Tests of finetuning/finetune.py: tasks by name, several in one model."""

import dataclasses
import os
import pathlib
import zipfile

import pytest

from electra_tf import configs
from electra_tf.finetuning import finished_run
from electra_tf.training import metrics_log
from tests import helpers
from tests.finetuning import runs


def make_config(pretrained, model_dir, task_names, data_dir, **changes):
    """A run of tasks by name."""
    files = dict.fromkeys(("train_file", "dev_file", "test_file"), "")
    return runs.make_config(
        pretrained,
        model_dir,
        files | {"task_names": task_names, "data_dir": str(data_dir)},
        **changes,
    )


def scored_again(config):
    """What --eval_only says of a finished run."""
    data = dataclasses.replace(config.data, eval_only=True)
    return finished_run.score(dataclasses.replace(config, data=data))


def write_glue(folder):
    """RTE and STS-B as their archive has them, five rows each."""
    for name, header, labels in (
        (
            "RTE",
            "index\tsentence1\tsentence2",
            ["entailment", "not_entailment"],
        ),
        ("STS-B", "index\tsentence1\tsentence2", ["0.5", "4.25"]),
    ):
        (folder / name).mkdir(parents=True)
        for split in ("train", "dev", "test"):
            lines = [header if split == "test" else header + "\tlabel"]
            for row in range(5):
                fields = [str(row), f"wa w{'abcde'[row]}", "wc wd"]
                if split != "test":
                    fields.append(labels[row % 2])
                lines.append("\t".join(fields))
            (folder / name / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def joint(pretrained, tmp_path_factory):
    """A run of two tasks in one model, and its results."""
    folder = tmp_path_factory.mktemp("joint")
    config = make_config(
        pretrained,
        folder / "model",
        "rte,sts",
        write_glue(folder / "glue"),
        optimizer=configs.OptimizerConfig(None, layerwise_lr_decay=None),
        run=helpers.finetuning_run_config(
            folder / "model", eval_steps=4, keep_best_metric="rte_accuracy"
        ),
    )
    return config, runs.run(config)


@pytest.mark.dear
def test_several_tasks_train_in_one_model(joint):
    config, results = joint
    assert set(results["tasks"]) == {"rte", "sts"}
    (trial,) = results["trials"]
    assert set(trial["tasks"]["sts"]["dev"]) >= {"spearman", "pearson"}
    # 5 rows of RTE, 10 of STS-B in both orders: 4 batches of 4, two epochs.
    assert trial["num_train_steps"] == 8
    log = metrics_log.read(f"{config.run.model_dir}/trial_1/metrics.jsonl")
    assert {"rte_loss", "sts_loss"} <= set(log[-1])
    # The encoder is narrower than ELECTRA-Small.
    assert trial["learning_rate"] == 2e-3
    about = helpers.read_json(f"{config.run.model_dir}/model.json")
    assert [t["task_name"] for t in about["tasks"]] == ["rte", "sts"]
    folder = f"{config.run.model_dir}/trial_1"
    for task in ("rte", "sts"):
        rows = runs.read_tsv(f"{folder}/{task}_dev_predictions.tsv")
        assert [row["text_a"] for row in rows][:2] == ["wa wa", "wa wb"]
        assert len(rows) == 5


@pytest.mark.dear
def test_several_tasks_are_scored_again_without_training(joint):
    config, results = joint
    folder = f"{config.run.model_dir}/evaluation/rte_sts"
    # Of an earlier command.
    pathlib.Path(folder, "trial_9").mkdir(parents=True)
    pathlib.Path(folder, "notes.txt").write_text("mine")
    found = scored_again(config)
    for name, of_task in results["tasks"].items():
        assert found["tasks"][name]["dev"] == of_task["dev"]
    assert found["directory"] == folder
    assert sorted(os.listdir(folder)) == [
        *("notes.txt", "report.html", "results.json", "results.txt", "trial_1")
    ]
    assert os.listdir(os.path.dirname(folder)) == ["rte_sts"]
    assert len(runs.read_tsv(f"{folder}/trial_1/sts_test_predictions.tsv")) == 5


@pytest.mark.dear
def test_test_sets_become_a_submission(joint):
    config, _ = joint
    path = f"{config.run.model_dir}/glue_submission.zip"
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == ["STS-B.tsv", "RTE.tsv"]
        header, *rows = archive.read("RTE.tsv").decode().splitlines()
    assert header == "index\tprediction"
    assert [row.split("\t")[0] for row in rows] == list("01234")
    assert {row.split("\t")[1] for row in rows} <= {
        "entailment",
        "not_entailment",
    }


def write_chunks(folder):
    """Chunks as CoNLL-2000 has them, three sentences each."""
    (folder / "chunk").mkdir()
    sentences = ["wa DT B-NP\nwb NN I-NP\n", "wc VB B-VP\n", "wd . O\n"]
    for split in ("train", "dev"):
        (folder / "chunk" / f"{split}.txt").write_text(
            "".join(sentence + "\n" for sentence in sentences)
        )
    return folder


@pytest.fixture(scope="module", params=["chunk,rte", "rte,chunk"])
def with_tagger(pretrained, tmp_path_factory, request):
    """A run of a tagger and a task of texts, and its results."""
    folder = tmp_path_factory.mktemp("with_tagger")
    config = make_config(
        pretrained,
        folder / "model",
        request.param,
        write_chunks(write_glue(folder / "glue")),
        run=helpers.finetuning_run_config(
            folder / "model", eval_steps=2, steps_per_loop=1
        ),
    )
    return config, runs.run(config)


@pytest.mark.dear
def test_a_tagger_and_texts_train_in_one_model(with_tagger):
    config, results = with_tagger
    log = metrics_log.read(f"{config.run.model_dir}/trial_1/metrics.jsonl")
    # 5 rows of RTE, 3 sentences: 2 batches of 4, two epochs.
    scored = [r["step"] for r in log if "chunk_f1" in r and "rte_accuracy" in r]
    assert scored == [2, 4]
    # The sentences are shorter: of two batches one has texts alone.
    trained = [r for r in log if r["split"] == "train"]
    assert len(trained) == 4 and all("rte_loss" in r for r in trained)
    assert sum("chunk_loss" in r for r in trained) == 2
    found = scored_again(config)
    assert set(found["tasks"]) == {"chunk", "rte"}
    for name, of_task in found["tasks"].items():
        assert of_task["dev"] == results["tasks"][name]["dev"]
