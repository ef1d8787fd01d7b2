"""Tests of tools/quickstart/write_summary.py on a literal run."""

import json

import pytest
import quickstart_steps
import write_summary

from tests import helpers


def results(*accuracies):
    """results.json of trials with the same per cent on dev and test."""
    return {
        "trials": [
            {split: {"accuracy": accuracy} for split in ("dev", "test")}
            for accuracy in accuracies
        ],
        "baseline": {split: {"accuracy": 50.0} for split in ("dev", "test")},
    }


@pytest.fixture
def folder(tmp_path):
    contents = {
        "pretrain/eval_results.json": {"step": 9, "disc_auc": 0.7},
        "finetune_pretrained/results.json": results(60.0, 62.0),
        "finetune_from_scratch/results.json": results(40.0),
    }
    for name, content in contents.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(json.dumps(content))
    (tmp_path / "seconds").mkdir()
    for step in quickstart_steps.STEPS[:-1]:
        (tmp_path / "seconds" / step.name).write_text("12\n")
    labelled = tmp_path / "corpus" / "labelled"
    labelled.mkdir(parents=True)
    rows = [("red apple", "fruit"), ("fast car", "vehicle")]
    helpers.write_tsv(labelled / "train.tsv", rows)
    helpers.write_tsv(labelled / "dev.tsv", [("an apple", "fruit"), *rows])
    helpers.write_tsv(labelled / "test.tsv", [("a car", "vehicle"), rows[0]])
    return tmp_path


def test_writes_accuracies_metrics_and_seconds(folder, capsys):
    assert write_summary.main([f"--build_dir={folder}"]) == 0
    summary = helpers.read_json(folder / "summary.json")
    test = summary["test_accuracy"]
    assert test["pretrained"] == {
        "mean": pytest.approx(0.61),
        "stdev": pytest.approx(0.02 / 2**0.5),
        "seeds": [0.6, 0.62],
    }
    assert test["random_weights"] == {"mean": 0.4, "stdev": 0, "seeds": [0.4]}
    assert test["tf_idf"] == {"mean": 1.0}
    assert test["majority"] == {"mean": 0.5}
    assert set(summary["dev_accuracy"]) == set(test)
    assert summary["pretraining"]["disc_auc"] == 0.7
    assert summary["seconds"]["pretrain"] == 12.0
    assert "test accuracy, pretrained: 61.0 %" in capsys.readouterr().out


@pytest.mark.parametrize(
    "name",
    ["seconds/vocab", "pretrain/eval_results.json", "corpus/labelled/dev.tsv"],
)
def test_what_is_missing_is_one_line(folder, capsys, name):
    (folder / name).unlink()
    assert write_summary.main([f"--build_dir={folder}"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{folder / name}: run electra-tf quickstart" in line
