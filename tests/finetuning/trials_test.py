"""What a model directory of fine-tuning goes on with, and --eval_only."""

import dataclasses
import json
import pathlib
import shutil

import pytest

from electra_tf import errors
from electra_tf.checkpoints import reading
from electra_tf.finetuning import finetune
from tests import helpers, notices
from tests.finetuning import runs

TRAIN = runs.TRAIN * 2
run = runs.run


def make_config(folder, data=None, **changes):
    return runs.make_config(folder, folder / "model", data, **changes)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder with data, a pre-trained model, and a run with a test set."""
    folder = runs.write_data(tmp_path_factory.mktemp("whole"), TRAIN)
    run(with_test(folder))
    return folder


@pytest.fixture
def no_training(monkeypatch):
    """Whatever is trained here is a mistake."""
    monkeypatch.setattr(
        finetune, "make_engine", lambda *args: pytest.fail("trains")
    )


@pytest.fixture
def finished(whole, no_training):
    """The folder, whose files may be changed; they are put back."""
    kept = whole.parent / "kept"
    shutil.copytree(whole, kept)
    yield whole
    shutil.rmtree(whole)
    kept.rename(whole)


def with_test(folder):
    return make_config(folder, {"test_file": f"{folder}/test.tsv"})


def contents(folder):
    return {
        path.relative_to(folder): path.read_bytes()
        for path in pathlib.Path(folder).rglob("*")
        if path.is_file()
    }


def test_the_same_again_is_read(finished):
    before = contents(finished / "model" / "trial_1")
    results = run(with_test(finished))
    assert results["num_rows"] == {"train": 6, "dev": 3, "test": 2}
    assert contents(finished / "model" / "trial_1") == before


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
def test_what_has_changed_is_refused_and_nothing_written(
    finished, change, names
):
    change(finished)
    before = contents(finished / "model")
    with pytest.raises(errors.ConfigError) as caught:
        run(with_test(finished))
    assert str(caught.value) == (
        f"{finished}/model/trial_1 holds a model of other data. This run "
        f"differs in: {names}. Choose another --model_dir, or bring back what "
        "was there to go on with that run; --eval_only scores other rows"
    )
    assert contents(finished / "model") == before


def test_settings_of_a_trial_are_refused_before_anything_is_written(finished):
    before = contents(finished / "model")
    config = dataclasses.replace(with_test(finished), learning_rates=(5e-3,))
    with pytest.raises(errors.ConfigError, match="learning_rate=0.005"):
        run(config)
    assert contents(finished / "model") == before


def forget_digests(folder):
    path = folder / "model" / "trial_1" / "trial.json"
    claim = helpers.read_json(path)
    del claim["digests"]
    path.write_text(json.dumps(claim))


def test_a_directory_of_another_version_is_refused(finished):
    forget_digests(finished)
    before = contents(finished / "model")
    with pytest.raises(errors.ConfigError, match="is of another version"):
        run(with_test(finished))
    assert contents(finished / "model") == before


def test_a_run_goes_on_where_all_its_files_have_moved(finished):
    before = contents(finished / "model" / "trial_1")
    names = ("pretrained", "vocab.txt", "train.tsv", "dev.tsv", "test.tsv")
    (finished / "moved").mkdir()
    for name in names:
        (finished / name).rename(finished / "moved" / name)
    (finished / "model").rename(finished / "moved" / "model")
    results = run(with_test(finished / "moved"))
    assert results["num_rows"] == {"train": 6, "dev": 3, "test": 2}
    assert contents(finished / "moved" / "model" / "trial_1") == before


# --- Evaluation alone --------------------------------------------------------


def evaluation(folder, **data):
    none = {"train_file": "", "dev_file": "", "eval_only": True}
    return make_config(folder, none | data)


def test_evaluation_alone_gives_the_numbers_of_the_training(finished):
    before = contents(finished / "model")
    config = with_test(finished)
    config = dataclasses.replace(
        config, data=dataclasses.replace(config.data, eval_only=True)
    )
    trained = helpers.read_json(finished / "model" / "results.json")
    # The models' own labels count.
    (finished / "train.tsv").unlink()
    found = run(config)
    for split in ("dev", "test"):
        assert found[split] == trained[split]
        assert found["trials"][0][split] == trained["trials"][0][split]
    after = contents(finished / "model")
    assert {path: after[path] for path in before} == before
    folder = finished / "model" / "evaluation" / "dev_test"
    assert found["directory"] == str(folder)
    assert found == helpers.read_json(folder / "results.json")
    for split in ("dev", "test"):
        name = f"trial_1/{split}_predictions.tsv"
        assert (folder / name).read_bytes() == (
            finished / "model" / name
        ).read_bytes()
    table = (folder / "results.txt").read_text()
    assert table.startswith("letters: 3 rows of dev, 2 rows of test\n")
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "The test set" in page and "How it learned" not in page


def test_all_models_that_count_are_asked(finished):
    """Two folds, of which the second one is exported."""
    model = finished / "model"
    shutil.copytree(model / "trial_1", model / "trial_2")
    results = helpers.read_json(model / "results.json")
    (first,) = results["trials"]
    results["trials"] = [first | {"fold": 1}, first | {"fold": 2, "trial": 2}]
    results["best_on_dev"] = 2
    (model / "results.json").write_text(json.dumps(results))
    for number, record in ((1, {"fold": 1}), (2, {"fold": 2, "trial": 2})):
        for name in ("trial", "results"):
            path = model / f"trial_{number}" / f"{name}.json"
            path.write_text(json.dumps(helpers.read_json(path) | record))
    found = run(
        evaluation(
            finished,
            train_file=f"{finished}/train.tsv",
            dev_file=f"{finished}/dev.tsv",
        )
    )
    assert found["best_on_dev"] == 2
    assert [trial["trial"] for trial in found["trials"]] == [1, 2]
    assert found["dev"]["accuracy_mean"] == first["dev"]["accuracy"]
    assert found["report"]["dev"]["trial"] == 2
    assert "test" not in found


def test_rows_without_labels_are_predicted_with_a_word(finished):
    path = finished / "other_name.tsv"
    rows = (finished / "test.tsv").read_text()
    path.write_text(rows.replace("label", "answer", 1))
    with notices.heard() as lines:
        found = run(evaluation(finished, test_file=str(path)))
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
def test_a_damaged_record_is_named(finished, name, change, message):
    path = finished / "model" / name
    path.write_text(json.dumps(helpers.read_json(path) | change))
    of_model = name in ("results.json", "model.json")
    data = {"test_file": f"{finished}/test.tsv", "eval_only": of_model}
    with pytest.raises(errors.CheckpointError, match=message):
        run(make_config(finished, data))


@pytest.mark.parametrize("labels", [["yes", "no"], ["bad", "good"], None])
def test_labels_that_were_changed_are_refused(finished, labels):
    path, trial = finished / "model" / "model.json", finished / "model/trial_1"
    about = helpers.read_json(path)
    assert about["labels"] == ["no", "yes"]
    path.write_text(json.dumps(about | {"labels": labels}))
    for read in (
        lambda: reading.read_checkpoint(finished / "model"),
        lambda: reading.read_checkpoint(trial),
        lambda: run(evaluation(finished, test_file=f"{finished}/test.tsv")),
    ):
        with pytest.raises(errors.ConfigError, match="bring the old ones"):
            read()
    forget_digests(finished)
    assert reading.read_checkpoint(finished / "model").head.labels == (
        labels and tuple(labels)
    )


def test_evaluation_alone_may_leave_rows_without_a_text_out(finished):
    (finished / "gaps.tsv").write_text("text\tlabel\n\tno\nwa\tyes\n")
    data = {"test_file": f"{finished}/gaps.tsv"}
    with pytest.raises(ValueError, match="skip_empty_texts leaves such rows"):
        run(evaluation(finished, **data))
    config = evaluation(finished, skip_empty_texts=True, **data)
    # What only a training reads may differ, too.
    config = dataclasses.replace(
        config, class_weights="balanced", head_dropout=0.3
    )
    assert run(config)["num_rows"]["test"] == 1


def test_evaluation_alone_needs_a_finished_run_and_texts_as_in_training(
    finished,
):
    config = evaluation(finished, test_file=f"{finished}/test.tsv")
    shorter = dataclasses.replace(config.data, max_seq_length=6)
    with pytest.raises(errors.ConfigError, match="data.max_seq_length=6"):
        run(dataclasses.replace(config, data=shorter))
    (finished / "model" / "results.json").unlink()
    with pytest.raises(errors.ConfigError, match="without eval_only"):
        run(config)
