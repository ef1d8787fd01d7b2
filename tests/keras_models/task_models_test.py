"""What holds for the models of all tasks."""

import pickle
import subprocess
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf

import electra_tf
from electra_tf.inference import predictor
from tests import helpers
from tests.keras_models import tasks
from tests.keras_models.tasks import TARGETS, TEXTS


def _made_by(name, **arguments):
    from_checkpoint = getattr(electra_tf, name).from_checkpoint
    return lambda path: from_checkpoint(path, seed=5, **arguments)


FORMS = {
    "classifier": (tasks.classifier, TEXTS, TARGETS),
    "regressor": (
        _made_by("TextRegressor"),
        TEXTS,
        [float(len(text.split())) for text in TEXTS],
    ),
    "tagger": (
        _made_by("TokenClassifier", labels=["O", "B-X", "I-X"]),
        TEXTS,
        [" ".join("BO"[w != "wa"] for w in t.split()) for t in TEXTS],
    ),
    "answerer": (
        _made_by("QuestionAnswerer", doc_stride=3, may_have_no_answer=True),
        (["wb"] * len(TEXTS), TEXTS),
        [text.split()[0] for text in TEXTS[:-1]] + [""],
    ),
}
FORMS["tagger"][2][:] = [y.replace("B", "B-X") for y in FORMS["tagger"][2]]


@pytest.fixture(scope="module", params=FORMS)
def trained(request, pretrained):
    """After two epochs of `fit`, and the same steps of the engine."""
    make, x, y = FORMS[request.param]
    keras.utils.set_random_seed(1)
    model = make(pretrained)
    rows = model.features(model.read_inputs(x), y)
    if request.param == "regressor":
        # The gin runs' targets, from 0 to 1.
        rows["regression_targets"] = (rows["regression_targets"] - 1.0) / 5.0
    num_steps = 2 * -(-len(rows["input_ids"]) // 8)
    network, expected = tasks.train_by_engine(model, rows, num_steps, 8)
    history = model.fit(
        x, y, batch_size=8, epochs=2, validation_data=(x, y), verbose=0
    )
    return model, x, network, history.history, expected


@pytest.mark.dear
def test_steps_are_those_of_the_engine(trained):
    model, _, network, history, expected = trained
    tasks.assert_same_weights(model.network, network, atol=1e-5)
    assert np.mean(history["loss"]) == pytest.approx(expected["loss"], rel=1e-5)
    assert {f"val_{name}" for name in history if "val_" not in name} == {
        name for name in history if "val_" in name
    }


@pytest.mark.dear
def test_files_bring_back_equal_bits(trained, tmp_path):
    model, x, *_ = trained
    model.save(tmp_path / "model.keras")
    model.save_checkpoint(tmp_path / "model_dir")
    of_file = keras.saving.load_model(tmp_path / "model.keras")
    of_folder = type(model).from_checkpoint(tmp_path / "model_dir")
    assert of_file.compiled
    expected = model.predict(x, verbose=0)
    for again in (of_file, of_folder):
        tasks.assert_equal_bits(again.predict(x, verbose=0), expected)


@pytest.mark.dear
def test_exports_answer_the_same(trained, tmp_path):
    model, x, *_ = trained
    predictions = model.predict(x, verbose=0)
    columns = x if isinstance(x, tuple) else (x,)
    rows = [[*map(str.encode, row)] for row in zip(*columns, strict=True)]
    exported = predictor.ExportedModel(model.export(tmp_path / "served"))
    answers = exported.predict(rows)
    name, names, numbers, expected = {
        "classification": lambda p: (
            "label",
            model.decode_predictions(p),
            [[*answer["scores"].values()] for answer in answers],
            p,
        ),
        "regression": lambda p: (None, [], [a["value"] for a in answers], p),
        "tagging": lambda p: (
            "labels",
            model.decode_predictions(p),
            [answer["scores"][0] for answer in answers],
            p[:, 0].max(axis=-1),
        ),
        "question_answering": lambda p: (
            "answer",
            [*p["answer"]],
            [answer["no_answer_score"] for answer in answers],
            p["no_answer_score"],
        ),
    }[model.head.kind](predictions)
    np.testing.assert_allclose(numbers, expected, atol=1e-5)
    assert name is None or [answer[name] for answer in answers] == names


_LOAD = """
import pickle

import electra_tf
import keras  # What comes last has to be waited for.

with open("inputs", "rb") as file:
    inputs = pickle.load(file)
found = {
    name: keras.models.load_model(f"{name}.keras").predict(x, verbose=0)
    for name, x in inputs.items()
}
with open("found", "wb") as file:
    pickle.dump(found, file)
"""


@pytest.mark.dear
@pytest.mark.usefixtures("graph_optimizer")
def test_a_new_process_predicts_the_same_bits(pretrained, tmp_path):
    models = {name: make(pretrained) for name, (make, *_) in FORMS.items()}
    inputs = {name: x for name, (_, x, _) in FORMS.items()}
    for name, model in models.items():
        model.save(tmp_path / f"{name}.keras")
    (tmp_path / "inputs").write_bytes(pickle.dumps(inputs))
    subprocess.run(
        helpers.command("-c", _LOAD),
        check=True,
        env=helpers.environment(),
        cwd=tmp_path,
    )
    found = pickle.loads((tmp_path / "found").read_bytes())
    for name, model in models.items():
        expected = model.predict(inputs[name], verbose=0)
        tasks.assert_equal_bits(found[name], expected)


@pytest.mark.parametrize(
    ("name", "is_dataset"),
    [("classifier", False), ("tagger", True), ("answerer", True)],
)
def test_a_model_is_gone_after_its_fit(name, is_dataset, pretrained):
    """People fit one after the other in a notebook."""
    make, x, y = FORMS[name]

    def use():
        model = make(pretrained)
        data = (x, y)
        if is_dataset:
            data = (tf.data.Dataset.from_tensor_slices(data).batch(5),)
        history = model.fit(*data, verbose=0).history
        assert history["loss"][0] > 0
        model.evaluate(*data, verbose=0)
        model.predict(x, verbose=0)
        return weakref.ref(model)

    assert helpers.is_gone(use())
