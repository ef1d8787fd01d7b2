"""Tests of serving/saved_model.py."""

import dataclasses
import json
import os

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf import configs, run_record, training
from electra_tf.finetuning import finetune, text_tasks
from electra_tf.serving import saved_model
from tests import helpers

LABELS = ["no", "perhaps", "yes"]
TEXTS = ["wa wb", "", "wc, wd? " * 20, "unknown words", "\u00c9"]


def write_finetuned(folder, **changes):
    """A model directory as a fine-tuning run of two trials leaves it."""
    model_dir = folder / "finetuned"
    config = configs.FinetuningConfig(
        init_checkpoint="pretrained",
        data=configs.FinetuningDataConfig(
            task_name="letters",
            train_file="train.tsv",
            dev_file="dev.tsv",
            vocab_file=helpers.write_vocab(folder),
            do_lower_case=True,
            strip_accents=True,
            max_seq_length=8,
        ),
        optimizer=configs.OptimizerConfig(1e-3),
        run=helpers.run_config(model_dir),
        num_trials=2,
    )
    run_record.write(config, "", [])
    encoder = helpers.encoder_config(initializer_range=0.5)
    task = text_tasks.ClassificationTask("letters", LABELS)
    for trial in (1, 2):
        keras.utils.set_random_seed(trial)
        model = finetune.build_model(encoder, task)
        tf.train.CheckpointManager(
            training.checkpointed_variables(model),
            str(model_dir / f"trial_{trial}"),
            1,
        ).save()
    about = {
        "encoder": dataclasses.asdict(encoder),
        "task_name": "letters",
        "labels": LABELS,
    }
    (model_dir / "model.json").write_text(json.dumps(about))
    results = {
        "best_on_dev": 2,
        "trials": [{"trial": 1}, {"trial": 2, "dev": {"accuracy": 90.0}}],
    }
    (model_dir / "results.json").write_text(json.dumps(results))
    return model_dir, model


@pytest.fixture(scope="module")
def finetuned(tmp_path_factory):
    """A model directory, its best model, and what was exported from it."""
    folder = tmp_path_factory.mktemp("serving")
    model_dir, model = write_finetuned(folder)
    path = saved_model.export(str(model_dir), str(folder / "exported"))
    return model_dir, model, path


# A program that knows nothing of electra_tf.
_CLIENT = """
import json, sys
import tensorflow as tf
import tensorflow_text
assert not [name for name in sys.modules if name.startswith("electra_tf")]
loaded = tf.saved_model.load(sys.argv[1])
call = loaded.signatures["serving_default"]
def ask(texts):
    answer = call(text=tf.constant(texts, tf.string))
    return {
        "dtypes": [answer["label"].dtype.name, answer["scores"].dtype.name],
        "shapes": [answer["label"].shape, answer["scores"].shape],
        "labels": [label.decode() for label in answer["label"].numpy()],
        "scores": answer["scores"].numpy().tolist(),
    }
def ask_nothing():
    try:
        return ask([])
    except tf.errors.OpError as error:
        return {"error": str(error)}
texts = json.loads(sys.argv[2])
print(json.dumps({
    "inputs": list(call.structured_input_signature[1]),
    "outputs": sorted(call.structured_outputs),
    "all": ask(texts),
    "none": ask_nothing(),
    "each": [ask([text]) for text in texts],
}, default=list))
"""


@pytest.fixture(scope="module")
def answers(finetuned, tmp_path_factory):
    _, _, path = finetuned
    # Neither the package nor the files that it was made from are at hand.
    environment = helpers.environment()
    del environment["PYTHONPATH"]
    result = helpers.execute(
        "-c",
        _CLIENT,
        path,
        json.dumps(TEXTS),
        cwd=tmp_path_factory.mktemp("elsewhere"),
        env=environment,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


def test_signature(answers):
    assert answers["inputs"] == ["text"]
    assert answers["outputs"] == ["label", "scores"]


def test_answers_raw_text(answers):
    answer = answers["all"]
    assert answer["dtypes"] == ["string", "float32"]
    assert answer["shapes"] == [[5], [5, 3]]
    np.testing.assert_allclose(np.sum(answer["scores"], -1), 1.0, rtol=1e-5)
    assert answer["labels"] == [
        LABELS[i] for i in np.argmax(answer["scores"], -1)
    ]


def test_answers_an_empty_batch(answers):
    assert "error" not in answers["none"]
    assert answers["none"]["shapes"] == [[0], [0, 3]]
    assert answers["none"]["dtypes"] == ["string", "float32"]


def test_an_answer_does_not_depend_on_the_batch(answers):
    for text, one, scores in zip(
        TEXTS, answers["each"], answers["all"]["scores"], strict=True
    ):
        np.testing.assert_allclose(
            one["scores"], [scores], atol=1e-5, err_msg=repr(text)
        )


def test_answers_as_the_best_model(finetuned, answers):
    _, model, _ = finetuned
    # [CLS] wa wb [SEP]; [CLS] [SEP]; [UNK] for "unknown" and "words".
    rows = {0: [2, 5, 6, 3], 1: [2, 3], 3: [2, 1, 1, 3], 4: [2, 1, 3]}
    # "wc", ",", "wd", "?" again and again, cut to 8 tokens.
    rows[2] = [2, 7, 1, 8, 1, 7, 1, 3]
    for number, ids in rows.items():
        ids = tf.constant([ids])
        logits = model(
            {
                "input_ids": ids,
                "input_mask": tf.ones_like(ids),
                "segment_ids": tf.zeros_like(ids),
            }
        )["task_outputs"]["letters"]["logits"]
        np.testing.assert_allclose(
            answers["all"]["scores"][number],
            tf.nn.softmax(logits)[0],
            atol=1e-5,
            err_msg=TEXTS[number],
        )


def test_metadata(finetuned):
    _, _, path = finetuned
    assert helpers.read_json(
        os.path.join(path, "assets.extra", "metadata.json")
    ) == {
        "task": "letters",
        "labels": LABELS,
        "max_seq_length": 8,
        "do_lower_case": True,
        "strip_accents": True,
        "scores": {"trial": 2, "dev": {"accuracy": 90.0}},
    }
    with open(os.path.join(path, "assets", "vocab.txt")) as f:
        assert f.read().split() == helpers.VOCAB


def test_versions(finetuned, tmp_path, monkeypatch):
    model_dir, _, first = finetuned
    assert os.path.basename(first) == "1"

    def save(module, path, signatures):
        os.makedirs(path)

    monkeypatch.setattr(tf.saved_model, "save", save)
    output = tmp_path / "exported"
    for name in ("1", "7", "notes"):
        (output / name).mkdir(parents=True)
    path = saved_model.export(str(model_dir), str(output))
    assert path == str(output / "8")
    assert sorted(os.listdir(output)) == ["1", "7", "8", "notes"]


def test_nothing_is_left_of_an_export_that_fails(
    finetuned, tmp_path, monkeypatch
):
    model_dir, _, _ = finetuned

    def save(module, path, signatures):
        os.makedirs(path)
        raise OSError("disk full")

    monkeypatch.setattr(tf.saved_model, "save", save)
    with pytest.raises(OSError, match="disk full"):
        saved_model.export(str(model_dir), str(tmp_path / "exported"))
    assert os.listdir(tmp_path / "exported") == []


def refusal(model_dir, output):
    with pytest.raises(ValueError) as caught:
        saved_model.export(str(model_dir), str(output))
    assert not os.path.exists(output)
    return str(caught.value)


def test_refuses_a_pretrained_model(tmp_path):
    helpers.write_pretrained(tmp_path / "model")
    assert refusal(tmp_path / "model", tmp_path / "exported") == (
        "Expected a model that was fine-tuned to classify texts. Received: "
        f"{tmp_path / 'model'}, with no fine-tuned head"
    )


@pytest.mark.parametrize("name", ["results.json", "model.json"])
def test_refuses_an_unfinished_run(tmp_path, name):
    model_dir, _ = write_finetuned(tmp_path)
    os.remove(model_dir / name)
    assert refusal(model_dir, tmp_path / "exported") == (
        f"Expected a finished fine-tuning run with {name} in {model_dir}: run "
        "python -m electra_tf.run_finetuning first"
    )


def test_refuses_a_directory_that_is_no_model(tmp_path):
    message = refusal(tmp_path / "model", tmp_path / "exported")
    assert message.startswith("Expected a checkpoint: ")
    assert message.endswith("does not exist")
