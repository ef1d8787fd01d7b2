"""Results that are damaged, or of another run: one line, or left out."""

import dataclasses
import json
import os
import pathlib
import types

import experiment_runs
import experiments_table
import figure_files
import fixed_corruption
import imdb_runs
import ner_parts
import ner_runs
import numpy as np
import pytest
import records
import run_imdb
import run_ner
import run_records
import tf_idf

from electra_tf import files, model_directory
from electra_tf.command_line import arguments
from electra_tf.finetuning import configs as finetuning_configs


def write(path, text):
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def write_run(run, content="{}"):
    """A model directory that has learned something, with these results."""
    record = json.dumps(model_directory.as_dict(run.config))
    write(f"{run.model_dir}/config.json", record)
    write(f"{run.model_dir}/checkpoint", "")
    is_finetuning = isinstance(run.config, finetuning_configs.FinetuningConfig)
    name = "results.json" if is_finetuning else "eval_results.json"
    return write(f"{run.model_dir}/{name}", content)


def imdb_run(folder, **changes):
    return imdb_runs.finetuning("from_scratch", 100, str(folder), **changes)


def of_another_rate(run):
    optimizer = dataclasses.replace(run.config.optimizer, learning_rate=0.125)
    config = dataclasses.replace(run.config, optimizer=optimizer)
    return dataclasses.replace(run, config=config)


# --- One run ------------------------------------------------------------------


@pytest.mark.parametrize("content", ["", '{"step": 10', "[]", "\x00"])
def test_results_that_are_damaged_are_named(content, tmp_path):
    run = imdb_run(tmp_path)
    path = write_run(run, content)
    with pytest.raises(ValueError, match=f"Cannot read {path}: "):
        run.is_finished()


def test_held_out_results_without_a_step_are_none(tmp_path):
    run, _ = records.runs_of(records.RECORDS[0], 1, str(tmp_path))
    write_run(run, '{"disc_auc": 0.7}')
    assert not run.is_finished()


def test_a_run_with_more_seeds_than_before_is_not_finished(tmp_path):
    trials = [{"trial": 1}, {"trial": 2}, {"trial": 3, "replaces": 2}]
    content = json.dumps({"trials": trials, "replaced_trials": [2]})
    write_run(imdb_run(tmp_path), content)
    assert imdb_run(tmp_path, num_seeds=2).is_finished()
    assert not imdb_run(tmp_path, num_seeds=3).is_finished()


def test_settings_are_as_many_trials(tmp_path):
    options = ner_runs.Options(
        "out", str(tmp_path), (1,), num_train_steps=400, models=("uncased",)
    )
    run = ner_runs.choice_run("pretrained", options)
    settings = len(ner_runs.LEARNING_RATES) * len(ner_runs.NUM_TRAIN_EPOCHS)
    assert experiment_runs._num_trials(run.config) == settings == 8


def test_a_trial_that_is_there_twice_is_an_error(tmp_path):
    run = imdb_run(tmp_path)
    for number in (1, 2):
        path = f"{run.model_dir}/trial_{number}/results.json"
        write(path, '{"trial": 1, "tasks": {}}')
    with pytest.raises(ValueError, match=f"trial 2 in {path}. .* trial 1"):
        run.trials()


def test_a_cost_that_is_damaged_is_named(tmp_path):
    run = imdb_run(tmp_path)
    assert run.cost() == {}
    write(run.cost_file, '{"cpu_seconds": "many"}')
    with pytest.raises(ValueError, match="cpu_seconds must be a number"):
        run.cost()


def test_a_line_that_was_cut_short_is_no_start(tmp_path):
    run = imdb_run(tmp_path)
    assert run.git_commit() is None
    path = write(f"{run.model_dir}/runs.jsonl", '{"git_commit": "a"}\n{"git')
    assert run.git_commit() == "a"
    path.write_text("")
    assert experiment_runs.last_start(run.model_dir) == {}


def test_a_run_of_another_configuration_is_left_out(tmp_path, capsys):
    run = imdb_run(tmp_path)
    assert experiment_runs.is_of_table(run)  # There is nothing yet.
    write_run(of_another_rate(run))
    assert not experiment_runs.is_of_table(run)
    assert not experiment_runs.is_of_table(run)  # Said once.
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"not in the table: {run.model_dir} holds another")
    assert "learning_rate=0.0005 (was 0.125)" in line


# --- Tables -------------------------------------------------------------------


def test_reviews_of_another_configuration_are_left_out(tmp_path):
    run = of_another_rate(imdb_run(tmp_path))
    write_run(run)
    trial = {"num_train_steps": 1, "tasks": {"imdb": {}}}
    write(f"{run.model_dir}/trial_1/results.json", json.dumps(trial))
    first, *_ = imdb_runs.collect(str(tmp_path))["rows"]
    assert first == {"labels": 100}
    # With the bindings that it had, it is there: but for its scores.
    params = ("OptimizerConfig.learning_rate=0.125",)
    with pytest.raises(ValueError, match="Expected accuracy of each seed"):
        imdb_runs.collect(str(tmp_path), finetuning_params=params)


def test_scores_of_reviews_in_another_layout_are_named(tmp_path):
    path = write(tmp_path / "runs" / "tfidf_100.json", '{"strength": 1.0}')
    with pytest.raises(ValueError, match=f"scores of tfidf. Received: {path}"):
        imdb_runs.collect(str(tmp_path))


def test_a_table_of_several_trials_a_seed_is_an_error(tmp_path):
    path = write(tmp_path / "results.json", '{"trials": [{}, {}]}')
    with pytest.raises(ValueError, match=f"one trial .* {path}, with 2"):
        experiments_table._task_score(str(tmp_path), "rte")
    path.write_text('{"trials": [{"dev": {}}]}')
    with pytest.raises(ValueError, match="accuracy of one trial on dev"):
        experiments_table._task_score(str(tmp_path), "rte")


def test_folders_that_are_no_budgets(tmp_path):
    for name in ("nan", "inf", "-1", "1e+13", "1e13", "own_steps", "notes"):
        (tmp_path / "objectives" / "bert" / name).mkdir(parents=True)
    options = experiment_runs.Options("", str(tmp_path), (), ())
    found = experiment_runs.budgets_on_disk(options)
    assert sorted(found, key=str) == [1e13, None]


def test_a_record_without_its_cost_is_named(tmp_path):
    pretraining, finetuning = records.runs_of(
        records.RECORDS[0], 1, str(tmp_path)
    )
    metrics = {"step": 6000, "disc_auc": 0.7, "masked_lm_accuracy": 0.2}
    path = write_run(pretraining, json.dumps(metrics))
    write_run(finetuning, '{"trials": [{"dev": {}}]}')
    with pytest.raises(ValueError, match="the CPU seconds of first seed 1"):
        records._seed(pretraining, finetuning)
    for run in (pretraining, finetuning):
        run.add_cost(cpu_seconds=60.0)
    with pytest.raises(ValueError, match="Expected accuracy on dev and test"):
        records._seed(pretraining, finetuning)
    path.write_text('{"step": 6000}')
    with pytest.raises(ValueError, match="Expected metrics of pre-training"):
        records._seed(pretraining, finetuning)


def test_a_record_of_another_configuration_is_left_out(tmp_path):
    pretraining, finetuning = records.runs_of(
        records.RECORDS[0], 1, str(tmp_path)
    )
    write_run(of_another_rate(pretraining), '{"step": 6000}')
    write_run(finetuning, '{"trials": [{}]}')
    assert records._seed(pretraining, finetuning) is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"text\tlabel\n", "Expected labelled texts. Received: none in"),
        (b"text\tlabel\nSort it.\n", "at least 2 columns.*row 2, with 1"),
        (b"text\tlabel\n\xff\tpandas\n", "Cannot read .*train.tsv: 'utf-8'"),
    ],
)
def test_labelled_texts_that_are_damaged_are_named(content, message, tmp_path):
    path = tmp_path / "train.tsv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        tf_idf.read_rows(path)


def test_figures_of_another_layout_are_named(tmp_path):
    path = tmp_path / "new" / "a.json"
    figure_files.write(path, {"rows": [1]})
    figures = files.read_json(path)
    expected = f"Expected scores. Received: {path}, which .*KeyError\\('row'"
    with (
        pytest.raises(ValueError, match=expected),
        figure_files.expecting("scores", path),
    ):
        figures["row"]


# --- What is compared is of the same ------------------------------------------


def write_digests(model_dir, **digests):
    record = json.dumps({"trial": 1, "digests": digests})
    write(f"{model_dir}/trial_1/trial.json", record)


def test_runs_on_other_rows_are_not_compared(tmp_path):
    folders = [str(tmp_path / name) for name in ("a", "b", "c")]
    first, _, last = folders  # The second is of an earlier version.
    write_digests(first, rows={"rte": {"train": "1"}})
    write_digests(last, rows={"rte": {"train": "1"}})
    experiment_runs.refuse_unlike(folders, "rows")
    experiment_runs.refuse_unlike(folders, "initial weights")
    write_digests(last, rows={"rte": {"train": "2"}})
    with pytest.raises(
        ValueError, match=f"same rows .* {last} than of {first}"
    ):
        experiment_runs.refuse_unlike(folders, "rows")


def write_reviews(folder, start, size, **digests):
    run = imdb_runs.finetuning(start, size, str(folder))
    write_run(run)
    write_digests(run.model_dir, **digests)
    scores = {split: {"accuracy": 50.0} for split in ("dev", "test")}
    trial = {"num_train_steps": 1, "tasks": {"imdb": scores}}
    write(f"{run.model_dir}/trial_1/results.json", json.dumps(trial))


def test_reviews_are_compared_on_the_same_rows_and_weights(tmp_path):
    for size in (100, 400):
        for start in ("pretrained", "from_scratch"):
            # Other numbers of labels are other rows.
            digests = {"rows": {"imdb": size}, "tensors": start}
            write_reviews(tmp_path / "same", start, size, **digests)
            write_reviews(tmp_path / "rows", start, size, **digests)
            write_reviews(tmp_path / "weights", start, size, **digests)
    rows = imdb_runs.collect(str(tmp_path / "same"))["rows"]
    assert "from_scratch" in rows[1]
    for name, digests in (
        ("rows", {"rows": {"imdb": 0}, "tensors": "pretrained"}),
        ("weights", {"rows": {"imdb": 400}, "tensors": "others"}),
    ):
        run = imdb_runs.finetuning("pretrained", 400, str(tmp_path / name))
        write_digests(run.model_dir, **digests)
        with pytest.raises(ValueError, match=f"{name} of all that is compared"):
            imdb_runs.collect(str(tmp_path / name))


def test_a_suite_is_scored_on_the_same_rows(tmp_path):
    options = experiment_runs.Options(
        "gin/experiments/tiny.gin", str(tmp_path), ("rte",), (1, 2)
    )
    variants = experiment_runs.variants("objectives", (1e12,), options)
    for seed in (1, 2):
        folder = f"{variants[0].seed_dir(seed)}/rte"
        write_digests(folder, rows={"rte": {"dev": str(seed)}})
    with pytest.raises(ValueError, match="Expected the same rows"):
        experiments_table.collect("objectives", variants, options)


class Weights:
    """What `ner_parts` needs of a checkpoint."""

    def __init__(self, value):
        self.tensors = {"electra/embeddings/a": np.full((2, 2), value)}
        self.discriminator = types.SimpleNamespace(initializer_range=0.02)

    def encoder_only(self):
        return self


def test_a_part_of_other_weights_is_an_error(tmp_path, monkeypatch):
    folder = tmp_path / "part"
    folder.mkdir()
    written = []
    monkeypatch.setattr(
        ner_parts.electra_tf_format, "write", lambda *_: written.append(1)
    )
    monkeypatch.setattr(ner_parts.dataclasses, "replace", lambda c, **_: c)

    def write_part(value):
        monkeypatch.setattr(
            ner_parts.reading, "read_checkpoint", lambda _: Weights(value)
        )
        ner_parts.write("pretrained", "embeddings", str(folder))

    write_part(1.0)
    write_part(1.0)
    assert written == [1]
    with pytest.raises(ValueError, match=f"{folder}, of others; move it"):
        write_part(2.0)
    # As an earlier version wrote it.
    (folder / "part.txt").write_text("embeddings of pretrained\n")
    write_part(2.0)
    assert written == [1]


def test_what_was_trained_again_is_judged_again(tmp_path):
    folders = [tmp_path / row / "seed_1/pretraining" for row in ("first", "a")]
    for time, folder in enumerate(folders, 1):
        os.utime(write(folder / "eval_results.json", "{}"), (time, time))

    def waiting():
        return list(fixed_corruption._waiting(tmp_path, folders[0]))

    assert waiting() == folders[::-1]  # In the order of their names.
    for folder in folders:
        os.utime(write(folder / "fixed_corruption.json", "{}"), (3, 3))
    assert waiting() == []
    os.utime(folders[1] / "eval_results.json", (4, 4))
    assert waiting() == folders[1:]
    # The generator that all are asked by.
    os.utime(folders[0] / "eval_results.json", (5, 5))
    assert waiting() == folders[::-1]


# --- Commands -----------------------------------------------------------------


@pytest.mark.dear
def test_a_table_of_records_without_labelled_texts_is_one_line(
    tmp_path, capsys
):
    flags = [f"--output_dir={tmp_path}", f"--quickstart_dir={tmp_path}"]
    assert run_records.main([*flags, "--table_only"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "labelled/train.tsv" in line


SENTENCES = "EU NNP B-ORG\n\nIt PRP O\n\n"


def test_sentences_that_changed_since_are_one_line(
    tmp_path, capsys, monkeypatch
):
    for split in ("train", "dev", "test"):
        write(tmp_path / "ner" / f"{split}.txt", SENTENCES)
    monkeypatch.setattr(ner_runs, "NUM_CHOICE_SENTENCES", 2)
    monkeypatch.setattr(ner_runs, "NUM_CASE_SENTENCES", 2)
    options = ner_runs.Options(
        str(tmp_path / "out"),
        str(tmp_path / "ner"),
        seeds=(1,),
        num_sentences=(1,),
        num_train_steps=4,
        models=("uncased",),
    )
    ner_runs.write_data(options)
    ner_runs.write_data(options)  # The same: runs go on.
    write(tmp_path / "ner" / "dev.txt", SENTENCES.replace("It", "He"))
    flags = [f"--output_dir={tmp_path / 'out'}", "--num_sentences=1"]
    assert run_ner.main([*flags, f"--data_dir={tmp_path / 'ner'}"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "out/data/2/ner/dev.txt. Received: others" in line
    (tmp_path / "ner" / "test.txt").write_bytes(b"\xff O\n\n")
    assert run_ner.main([*flags, f"--data_dir={tmp_path / 'ner'}"]) == 1
    assert "Cannot read" in capsys.readouterr().err


def test_what_is_named_twice_counts_once():
    assert run_ner._models("cased,cased") == ("cased",)
    assert arguments.positive_ints("3000,1000,3000") == (3000, 1000)
    assert run_imdb._sizes("400,100,400") == (400, 100)
    assert arguments.names("sst, rte,sst") == ("sst", "rte")


def test_reviews_that_were_built_again_are_one_line(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    names = ("train_100.tsv", "dev.tsv", "test.tsv")
    for name in names:
        write(tmp_path / "build/imdb/labelled" / name, "text\tlabel\nA.\tpos\n")
    run_imdb._refuse_changed_data((100,))
    run_imdb._refuse_changed_data((100,))
    for name in ("vocab.txt", "tfrecords/manifest.json"):
        write(tmp_path / "build/imdb" / name, "")
    write(tmp_path / "build/imdb/labelled/dev.tsv", "text\tlabel\nB.\tneg\n")
    assert run_imdb.main(["--sizes=100"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "another dev.tsv; move build/imdb/runs away" in line


@pytest.mark.dear
def test_a_record_without_the_first_row_still_has_a_table(
    tmp_path, monkeypatch, capfd
):
    """What cannot be judged by its generator is a column less."""
    monkeypatch.setattr(run_records, "_require_data", lambda _: None)
    monkeypatch.setattr(run_records, "all_runs", lambda *_: [])
    for split in ("train", "dev", "test"):
        write(
            tmp_path / "corpus" / "labelled" / f"{split}.tsv",
            "text\tlabel\nSort it.\tpandas\nDraw it.\tmatplotlib\n",
        )
    flags = [f"--output_dir={tmp_path}", f"--quickstart_dir={tmp_path}"]
    figures = tmp_path / "records.json"
    assert run_records.main([*flags, f"--figures={figures}"]) == 1
    assert figures.is_file()
    output = capfd.readouterr()
    assert "Expected the generator of the first row" in output.err
    assert f"written: {figures}" in output.out
