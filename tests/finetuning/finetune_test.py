"""Tests of finetuning/finetune.py."""

import dataclasses
import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from electra_tf import errors
from electra_tf.checkpoints import reading
from electra_tf.finetuning import (
    evaluation,
    finetune,
    predictions,
    preparation,
    task_data,
)
from electra_tf.tasks import text_tasks
from electra_tf.training import loop
from tests import helpers, notices, pages
from tests.finetuning import runs

TRAIN, run, make_config = runs.MANY, runs.run, runs.make_config
read_tsv = runs.read_tsv


@pytest.fixture(scope="module")
def finished(pretrained):
    """A run of two trials and its results."""
    config = make_config(pretrained, pretrained / "model", num_trials=2)
    return config, run(config)


@pytest.fixture
def folder(finished, pretrained, monkeypatch):
    """The folder of that run, which is put back after changes; none trains."""
    kept = pretrained.parent / "kept"
    shutil.copytree(pretrained, kept)
    monkeypatch.setattr(
        finetune, "make_engine", lambda *args: pytest.fail("trains")
    )
    yield pretrained
    shutil.rmtree(pretrained)
    kept.rename(pretrained)


def contents(folder):
    return {
        path.relative_to(folder): path.read_bytes()
        for path in pathlib.Path(folder).rglob("*")
        if path.is_file()
    }


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


def test_a_trial_after_another_is_as_one_by_itself(finished):
    config, results = finished
    trial = pathlib.Path(config.run.model_dir) / "trial_2"
    before = reading.read_checkpoint(trial).tensors
    shutil.rmtree(trial)
    assert run(config) == results
    for name, value in reading.read_checkpoint(trial).tensors.items():
        np.testing.assert_array_equal(before[name], value, name)


@pytest.mark.dear
def test_steps_and_answers_that_xla_compiles_are_the_same(pretrained, tmp_path):
    losses = []
    for is_compiled in (False, True):
        config = make_config(
            pretrained,
            tmp_path / str(is_compiled),
            # Lengths, of which XLA wants fewer, decide which rows meet.
            data={"bucketed": False},
            dropout=0.0,
        )
        settings = dataclasses.replace(config.run, jit_compile=is_compiled)
        results = run(dataclasses.replace(config, run=settings))
        losses.append(results["trials"][0]["dev"]["loss"])
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)


def test_predictions_are_written(finished):
    config, results = finished
    rows = read_tsv(f"{config.run.model_dir}/trial_1/dev_predictions.tsv")
    assert list(rows[0]) == ["label", "prediction", "no", "yes", "text"]
    assert [(row["text"], row["label"]) for row in rows] == runs.DEV
    right = sum(row["label"] == row["prediction"] for row in rows)
    accuracy = results["trials"][0]["dev"]["accuracy"]
    assert accuracy == pytest.approx(100 * right / 3)
    for row in rows:
        scores = float(row["no"]), float(row["yes"])
        assert sum(scores) == pytest.approx(1.0, abs=1e-5)
        assert row["prediction"] == ("no", "yes")[int(np.argmax(scores))]


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
        plan.trial_plan(plan.trials[0]), tf.distribute.get_strategy()
    )
    (head,) = engine.model.task_specific.heads
    assert head.dropout.rate == 0.2
    config = dataclasses.replace(config, head_dropout=None)
    assert preparation.prepare(config).start.head_dropout == 0.3
    config = dataclasses.replace(config, dropout=None, head_dropout=0.2)
    encoder = preparation.prepare(config).start.encoder_config
    assert encoder.hidden_dropout_prob == 0.1


# --- The same directory again ------------------------------------------------


def again(folder, data=None, **changes):
    return make_config(folder, folder / "model", data, num_trials=2, **changes)


def test_finished_trials_are_not_run_again(finished, folder):
    before = contents(folder / "model" / "trial_1")
    assert run(finished[0]) == finished[1]
    assert contents(folder / "model" / "trial_1") == before


def rename_a_label(folder):
    for path in folder.glob("*.tsv"):
        path.write_text(path.read_text().replace("\tno", "\tzero"))


def swap_the_labels_of_dev(folder):
    other = {"yes": "no", "no": "yes"}
    rows = [(text, other[label]) for text, label in runs.DEV]
    helpers.write_tsv(folder / "dev.tsv", rows)


def exchange_two_tokens(folder):
    path = folder / "vocab.txt"
    path.write_text(path.read_text().replace("wa\nwb\n", "wb\nwa\n"))


def pretrain_anew(folder):
    shutil.rmtree(folder / "pretrained")
    encoder = helpers.encoder_config(initializer_range=0.4)
    helpers.write_pretrained(folder / "pretrained", encoder)


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (
            rename_a_label,
            "labels.letters, rows.letters.dev, rows.letters.test, "
            "rows.letters.train",
        ),
        (swap_the_labels_of_dev, "rows.letters.dev"),
        (exchange_two_tokens, "vocabulary"),
        (pretrain_anew, "initial weights"),
    ],
)
def test_what_has_changed_is_refused_and_nothing_written(folder, change, names):
    change(folder)
    before = contents(folder / "model")
    with pytest.raises(errors.ConfigError) as caught:
        run(again(folder))
    assert str(caught.value) == (
        f"{folder}/model/trial_1 holds a model of other data. This run "
        f"differs in: {names}. Choose another --model_dir, or bring back what "
        "was there to go on with that run; --eval_only scores other rows"
    )
    assert contents(folder / "model") == before


def test_settings_of_a_trial_are_refused_before_anything_is_written(folder):
    before = contents(folder / "model")
    with pytest.raises(errors.ConfigError, match="learning_rate=0.005"):
        run(again(folder, learning_rates=(5e-3,)))
    assert contents(folder / "model") == before


def forget_digests(folder):
    for path in folder.glob("model/trial_*/trial.json"):
        claim = helpers.read_json(path)
        del claim["digests"]
        path.write_text(json.dumps(claim))


def test_a_directory_of_another_version_is_refused(folder):
    forget_digests(folder)
    before = contents(folder / "model")
    with pytest.raises(errors.ConfigError, match="is of another version"):
        run(again(folder))
    assert contents(folder / "model") == before


def test_a_run_goes_on_where_all_its_files_have_moved(finished, folder):
    before = contents(folder / "model" / "trial_1")
    shutil.copytree(folder, folder / "moved")
    shutil.rmtree(folder / "model")
    (folder / "train.tsv").unlink()
    results = run(again(folder / "moved"))
    assert results == finished[1]
    assert contents(folder / "moved" / "model" / "trial_1") == before


# --- Evaluation alone --------------------------------------------------------


def scoring(folder, dev=False, **data):
    dev_file = f"{folder}/dev.tsv" if dev else ""
    none = {"train_file": "", "dev_file": dev_file, "eval_only": True}
    return again(folder, none | data)


def test_evaluation_alone_gives_the_numbers_of_the_training(folder):
    before = contents(folder / "model")
    trained = helpers.read_json(folder / "model" / "results.json")
    # The models' own labels count.
    (folder / "train.tsv").unlink()
    results = run(scoring(folder, dev=True))
    for split in ("dev", "test"):
        assert results[split] == trained[split]
        assert results["trials"][0][split] == trained["trials"][0][split]
    after = contents(folder / "model")
    assert {path: after[path] for path in before} == before
    written = folder / "model" / "evaluation" / "dev_test"
    assert results["directory"] == str(written)
    assert results == helpers.read_json(written / "results.json")
    for split in ("dev", "test"):
        name = f"trial_1/{split}_predictions.tsv"
        expected = (folder / "model" / name).read_bytes()
        assert (written / name).read_bytes() == expected
    table = (written / "results.txt").read_text()
    assert table.startswith("letters: 3 rows of dev, 2 rows of test\n")
    page = (written / "report.html").read_text(encoding="utf-8")
    assert "The test set" in page and "How it learned" not in page


def test_all_models_that_count_are_asked(folder):
    """Two folds, of which the second one is exported."""
    model = folder / "model"
    results = helpers.read_json(model / "results.json") | {"best_on_dev": 2}
    (model / "results.json").write_text(json.dumps(results))
    for number in (1, 2):
        for name in ("trial", "results"):
            path = model / f"trial_{number}" / f"{name}.json"
            fold = {"fold": number}
            path.write_text(json.dumps(helpers.read_json(path) | fold))
    scored = run(scoring(folder, dev=True, test_file=""))
    assert scored["best_on_dev"] == 2
    assert [trial["trial"] for trial in scored["trials"]] == [1, 2]
    assert scored["dev"] == results["dev"]
    assert scored["report"]["dev"]["trial"] == 2
    assert "test" not in scored


def test_rows_without_labels_are_predicted_with_a_word(folder):
    path = folder / "other_name.tsv"
    rows = (folder / "test.tsv").read_text()
    path.write_text(rows.replace("label", "answer", 1))
    with notices.heard() as lines:
        found = run(scoring(folder, test_file=str(path)))
    assert "test" not in found
    told = f"letters: test: {path} has no column 'label' with labels: its rows "
    assert told in "\n".join(lines)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("trial_1/results.json", {"tasks": [1]}, "tasks must be an object"),
        ("trial_1/trial.json", {"digests": "x"}, "digests must be an object"),
        ("model.json", {"kind": None}, "model.json lacks kind"),
    ],
)
def test_a_damaged_record_is_named(folder, name, change, message):
    path = folder / "model" / name
    path.write_text(json.dumps(helpers.read_json(path) | change))
    config = again(folder)
    if name == "model.json":
        config = scoring(folder)
    with pytest.raises(errors.CheckpointError, match=message):
        run(config)


@pytest.mark.parametrize("labels", [["yes", "no"], ["bad", "good"], None])
def test_labels_that_were_changed_are_refused(finished, folder, labels):
    path = folder / "model" / "model.json"
    best = finished[1]["best_on_dev"]
    model = helpers.read_json(path)
    assert model["labels"] == ["no", "yes"]
    path.write_text(json.dumps(model | {"labels": labels}))
    for read in (
        lambda: reading.read_checkpoint(folder / "model"),
        lambda: reading.read_checkpoint(folder / f"model/trial_{best}"),
        lambda: run(scoring(folder)),
    ):
        with pytest.raises(errors.ConfigError, match="bring the old ones"):
            read()
    forget_digests(folder)
    assert reading.read_checkpoint(folder / "model").head.labels == (
        labels and tuple(labels)
    )


def test_evaluation_alone_may_leave_rows_without_a_text_out(folder):
    (folder / "gaps.tsv").write_text("text\tlabel\n\tno\nwa\tyes\n")
    data = {"test_file": f"{folder}/gaps.tsv"}
    with pytest.raises(ValueError, match="skip_empty_texts leaves such rows"):
        run(scoring(folder, **data))
    config = scoring(folder, skip_empty_texts=True, **data)
    # What only a training reads may differ, too.
    config = dataclasses.replace(
        config, class_weights="balanced", head_dropout=0.3
    )
    assert run(config)["num_rows"]["test"] == 1


def test_evaluation_alone_needs_a_finished_run_and_texts_as_in_training(
    folder,
):
    config = scoring(folder)
    shorter = dataclasses.replace(config.data, max_seq_length=6)
    with pytest.raises(errors.ConfigError, match="data.max_seq_length=6"):
        run(dataclasses.replace(config, data=shorter))
    (folder / "model" / "results.json").unlink()
    with pytest.raises(errors.ConfigError, match="without eval_only"):
        run(config)


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
