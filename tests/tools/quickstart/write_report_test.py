"""Tests of tools/quickstart/write_report.py on a literal run."""

import json

import pytest
import quickstart_steps
import write_report

from electra_tf import model_directory
from tests import helpers, pages

METRICS = {"step": 20, "masked_lm_accuracy": 0.31, "masked_lm_loss": 4.2}
METRICS |= {"sampled_masked_lm_accuracy": 0.23, "disc_loss": 0.28}
METRICS |= {"disc_auc": 0.89, "disc_accuracy": 0.9, "disc_precision": 0.7}
METRICS |= {"disc_recall": 0.4, "replaced_rate": 0.125}


def results(*accuracies):
    return {
        "trials": [{"test": {"accuracy": x}} for x in accuracies],
        "baseline": {"test": {"accuracy": 50.0}},
    }


@pytest.fixture
def folder(tmp_path):
    contents = {
        "pretrain/eval_results.json": METRICS,
        "finetune_pretrained/results.json": results(60.0, 62.0),
        "finetune_from_scratch/results.json": results(40.0),
    }
    argv = ["/x/electra_tf/run_pretraining.py", "--gin_param=A.b='c d'"]
    for name, content in contents.items():
        path = tmp_path / name
        path.parent.mkdir()
        path.write_text(json.dumps(content))
        run = json.dumps(pages.RUN | {"argv": argv})
        (path.parent / "runs.jsonl").write_text(run + "\n")
    log = [
        METRICS | {"step": step, "split": split}
        for step, split in ((5, "train"), (10, "train"), (10, "heldout"))
    ]
    config = helpers.pretraining_config(tmp_path / "pretrain")
    model_directory.write(config, "", [])
    path = tmp_path / "pretrain" / "metrics.jsonl"
    path.write_text("\n".join(map(json.dumps, log)))
    (tmp_path / "seconds").mkdir()
    for step in quickstart_steps.STEPS[:-1]:
        (tmp_path / "seconds" / step.name).write_text("120\n")
    labelled = tmp_path / "corpus" / "labelled"
    labelled.mkdir(parents=True)
    rows = [("red apple", "fruit"), ("fast car", "vehicle")]
    for split in ("train", "dev", "test"):
        helpers.write_tsv(labelled / f"{split}.tsv", rows)
    return tmp_path


def test_the_figures_of_a_run(folder):
    summary = write_report.summarize(folder)
    assert summary["test_accuracy"] == {
        "pretrained": {
            "mean": pytest.approx(0.61),
            "stdev": pytest.approx(0.02 / 2**0.5),
            "seeds": [0.6, 0.62],
        },
        "random_weights": {"mean": 0.4, "stdev": 0, "seeds": [0.4]},
        "tf_idf": {"mean": 1.0},
        "majority": {"mean": 0.5},
    }
    assert summary["pretraining"] == METRICS
    assert summary["seconds"]["pretrain"] == 120.0


@pytest.mark.parametrize(
    "name",
    ["seconds/vocab", "pretrain/eval_results.json", "corpus/labelled/dev.tsv"],
)
def test_what_is_missing_is_one_line(folder, capsys, name):
    (folder / name).unlink()
    assert write_report.main([f"--build_dir={folder}"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{folder / name}: run electra-tf quickstart" in line


def test_page_is_whole_and_says_it_all(folder):
    assert write_report.main([f"--build_dir={folder}"]) == 0
    page = (folder / "report.html").read_text()
    pages.assert_whole(page, ("finetune_pretrained/report.html",))
    # Six curves and the bars.
    assert page.count("<svg") == 7
    for part in (
        "ELECTRA (0.0 million parameters)",
        "Pre-training raises the test accuracy",
        "40.0\xa0% without it, 61.0\xa0% with it",
        "<b>50.0\xa0%</b>",
        "TF-IDF 100.0 %; random weights 40.0 %; pre-trained 61.0 % ± 1.4",
        "<b>12 min</b>",
        "0123abc",
        *(f"{value:.4f}</td>" for value in list(METRICS.values())[1:-1]),
        "would give\n0.875",
    ):
        assert part in page, part
    summary = helpers.read_json(folder / "summary.json")
    summary["test_accuracy"]["pretrained"]["mean"] = 0.3
    page = write_report.render(folder, summary, 1)
    assert "Pre-training does not raise the test accuracy" in page
