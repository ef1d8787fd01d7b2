"""Tests of finetuning/predictions.py and tools/make_glue_submission.py."""

import json
import zipfile

import pytest

from electra_tf import errors
from electra_tf.finetuning import predictions as predictions_lib
from tools import make_glue_submission


def write_run(folder, files, best=2):
    """A finished run whose second trial has predictions."""
    predictions = folder / "trial_2" / "submission"
    predictions.mkdir(parents=True)
    for name, labels in files.items():
        rows = [f"{i}\t{label}\n" for i, label in enumerate(labels)]
        header = "index\tprediction\n"
        (predictions / name).write_text(header + "".join(rows))
    (folder / "results.json").write_text(json.dumps({"best_on_dev": best}))
    return str(folder)


@pytest.fixture
def runs(tmp_path):
    return [
        write_run(tmp_path / "cola", {"CoLA.tsv": ["1", "0"]}),
        write_run(
            tmp_path / "mnli",
            {"MNLI-m.tsv": ["neutral"], "AX.tsv": ["entailment"]},
        ),
    ]


def test_joins_runs_and_names_what_is_missing(runs, tmp_path, capsys):
    path = tmp_path / "out.zip"
    assert make_glue_submission.main([*runs, f"--output={path}"]) == 0
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == ["CoLA.tsv", "MNLI-m.tsv", "AX.tsv"]
        assert archive.read("CoLA.tsv") == b"index\tprediction\n0\t1\n1\t0\n"
    assert capsys.readouterr().out.splitlines() == [
        f"{path}: CoLA.tsv, MNLI-m.tsv, AX.tsv",
        "missing for a whole submission: SST-2.tsv, MRPC.tsv, STS-B.tsv, "
        "QQP.tsv, MNLI-mm.tsv, QNLI.tsv, RTE.tsv, WNLI.tsv",
    ]


def test_the_same_predictions_give_the_same_bytes(runs, tmp_path):
    paths = [tmp_path / name for name in ("a.zip", "b.zip")]
    for path in paths:
        predictions_lib.write_archive(str(path), runs)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_refuses_one_test_set_of_two_runs_and_none_at_all(runs, tmp_path):
    path = tmp_path / "x.zip"
    other = write_run(tmp_path / "other", {"CoLA.tsv": ["1", "1"]})
    with pytest.raises(errors.ConfigError, match="CoLA.tsv of one run"):
        predictions_lib.write_archive(str(path), [*runs, other])
    none = write_run(tmp_path / "own", {})
    with pytest.raises(errors.ConfigError, match="predictions of GLUE's test"):
        predictions_lib.write_archive(str(path), [none])
    assert not path.exists()
