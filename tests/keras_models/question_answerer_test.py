import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import electra_tf
from electra_tf.tasks import question_answering
from tests.keras_models import tasks

# The word behind the first "wa" of a context answers "wb".
CONTEXTS = [
    f"wc {'wd we ' * (row % 5)}wa w{'fghijk'[row % 6]} wl wm"
    for row in range(18)
]
QUESTIONS = ["wb"] * len(CONTEXTS)
ANSWERS = [text.split("wa ")[1].split()[0] for text in CONTEXTS]
X = (QUESTIONS, CONTEXTS)


def answerer(pretrained, **kwargs):
    return electra_tf.QuestionAnswerer.from_checkpoint(
        pretrained, **({"seed": 5, "beam_size": 3, "doc_stride": 3} | kwargs)
    )


@pytest.fixture(scope="module")
def trained(pretrained):
    found = answerer(pretrained, may_have_no_answer=True)
    answers = [*ANSWERS[:-1], None]
    rows = found.features(found.read_inputs(X), answers)
    num_steps = -(-len(rows["input_ids"]) // 8)
    network, expected = tasks.train_by_engine(found, rows, num_steps, 8)
    history = found.fit(
        X, answers, batch_size=8, validation_data=(X, answers), verbose=0
    )
    return found, network, history.history, expected


@pytest.mark.dear
def test_steps_are_those_of_the_engine(trained):
    found, network, history, expected = trained
    for ours, theirs in zip(
        found.network.variables, network.variables, strict=True
    ):
        np.testing.assert_allclose(ours, theirs, atol=1e-6, err_msg=ours.path)
    assert history["loss"] == pytest.approx([expected["loss"]], rel=1e-5)
    assert set(history) == {
        *("loss", "start_accuracy", "val_loss", "val_start_accuracy")
    }


def test_answers_in_every_form(trained):
    found, *_ = trained
    starts = [c.find(a) for a, c in zip(ANSWERS, CONTEXTS, strict=True)]
    inputs = found.read_inputs({"question": QUESTIONS, "context": CONTEXTS})
    expected = found.features(inputs, ANSWERS)
    windows = found.rows_of_features(expected, inputs)
    assert len(windows) > len(CONTEXTS)
    pairs = list(zip(ANSWERS, starts, strict=True))
    squad = [{"text": [a, "w"], "answer_start": [s, 0]} for a, s in pairs]
    of_one = [{"text": a, "answer_start": s} for a, s in pairs]
    for answers in (pairs, squad, of_one, np.array(ANSWERS)):
        tasks.assert_equal_bits(found.features(inputs, answers), expected)


def test_no_answer_in_every_form(trained):
    found, *_ = trained
    inputs = found.read_inputs((["wb"], ["wa wc"]))
    expected = found.features(inputs, [None])
    for none in ("", ("", 0), {"text": [], "answer_start": []}, b""):
        tasks.assert_equal_bits(found.features(inputs, [none]), expected)


def test_no_answer_that_is_never_said_is_told(trained, pretrained):
    model = answerer(pretrained)
    inputs = model.read_inputs(X)
    with pytest.warns(
        UserWarning, match="2 of 18 rows have no answer in y, wh"
    ):
        model.features(inputs, ["", *ANSWERS[1:-1], None])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.features(inputs, ANSWERS)
        trained[0].features(inputs, ["", *ANSWERS[1:]])


@pytest.mark.dear
def test_answers_what_the_export_answers(trained, tmp_path):
    found, *_ = trained
    predictions = found.predict(X, verbose=0)
    answers = found.decode_predictions(predictions)
    assert len(answers) == len(CONTEXTS)
    assert all(a in c for a, c in zip(answers, CONTEXTS, strict=True))
    found.save(tmp_path / "answerer.keras")
    again = keras.models.load_model(tmp_path / "answerer.keras")
    tasks.assert_equal_bits(again.predict(X, verbose=0), predictions)
    served = tf.saved_model.load(found.export(tmp_path / "served")).signatures[
        "serving_default"
    ](question=tf.constant(QUESTIONS), context=tf.constant(CONTEXTS))
    np.testing.assert_allclose(
        served["no_answer_score"], predictions["no_answer_score"], atol=1e-5
    )
    assert [a.decode() for a in served["answer"].numpy()] == list(
        predictions["answer"]
    )


def dataset(*columns):
    return tf.data.Dataset.from_tensor_slices(columns).batch(4)


STARTS = [c.find(a) for a, c in zip(ANSWERS, CONTEXTS, strict=True)]
AS_DICTIONARY = {"question": QUESTIONS, "context": CONTEXTS}


@pytest.mark.parametrize("x", [X, AS_DICTIONARY], ids=["tuple", "dictionary"])
@pytest.mark.parametrize("y", [ANSWERS, (ANSWERS, STARTS)], ids=["", "starts"])
def test_a_dataset_has_the_windows_of_columns(pretrained, x, y):
    found = answerer(pretrained)
    inputs = found.read_inputs(X)
    features = found.features(inputs, ANSWERS)
    rows = found.rows_of_features(features, inputs)
    weights = np.arange(len(CONTEXTS), dtype=np.float32)
    expected = found._of_keras(features | {found._sample_weight: weights[rows]})
    batches = list(found._mapped(dataset(x, y, weights), True))
    assert [len(batch[2]) for batch in batches[:-1]] == [4] * (len(rows) // 4)
    longest = max(batch[0]["input_ids"].shape[1] for batch in batches)
    for part in ("input_ids", "input_mask", "segment_ids"):
        ours = [np.asarray(batch[0][part]) for batch in batches]
        padded = [np.pad(a, [(0, 0), (0, longest - a.shape[1])]) for a in ours]
        np.testing.assert_array_equal(
            np.concatenate(padded), expected[0][part][:, :longest]
        )
    joined = tf.nest.map_structure(
        lambda *parts: np.concatenate(parts), *[batch[1:] for batch in batches]
    )
    tasks.assert_equal_bits(joined, expected[1:])


def test_evaluates_and_predicts_a_dataset(trained):
    found, *_ = trained
    answers = ["", *ANSWERS[1:]]
    scores = [
        found.evaluate(*of, verbose=0)
        for of in ((X, answers), (dataset(X, answers),))
    ]
    assert scores[0] == pytest.approx(scores[1], abs=1e-5)
    for rows in (dataset(X), dataset(AS_DICTIONARY, ANSWERS)):
        tasks.assert_equal_bits(
            found.predict(rows, verbose=0)["answer"],
            found.predict(X, verbose=0)["answer"],
        )
    first = found.predict(dataset(X).repeat(), steps=2, verbose=0)
    assert len(first["answer"]) == 8


def test_a_last_row_without_windows_has_a_weight(trained):
    found, *_ = trained
    x = (["wb", "wb"], [CONTEXTS[0], ""])
    for answers in ([ANSWERS[0], ""], [ANSWERS[0], None]):
        features = found._arrays(x, answers, [2.0, 1.0])
        assert set(features[found._sample_weight]) == {2.0}
    batches = found._mapped(dataset(x, [ANSWERS[0], ""], [2.0, 1.0]), True)
    assert {w for _, _, weights in batches for w in weights.numpy()} == {2.0}


@pytest.mark.dear
def test_learns_from_a_dataset(pretrained):
    found = answerer(pretrained)
    rows = dataset(X, ANSWERS)
    history = found.fit(rows, epochs=2, validation_data=rows, verbose=0)
    windows = found.features(found.read_inputs(X), ANSWERS)["input_ids"]
    num_steps = 2 * -(-len(windows) // 4)
    assert found.optimizer.schedule.num_train_steps == num_steps
    assert int(found.optimizer.iterations.numpy()) == num_steps
    assert set(history.history) == {
        *("loss", "start_accuracy", "val_loss", "val_start_accuracy")
    }


def test_contexts_without_a_word_have_no_answer(trained):
    found = trained[0].predict((["wb", "wb"], ["", " "]), verbose=0)
    assert found["answer"].tolist() == ["", ""]
    assert found["no_answer_score"].tolist() == [1e6, 1e6]
    mixed = trained[0].predict((["wb", "wb"], ["", "wa wc"]), verbose=0)
    assert mixed["no_answer_score"][0] == 1e6


def test_where_no_span_is_allowed_the_answer_is_empty(trained, monkeypatch):
    monkeypatch.setattr(
        question_answering.QuestionAnsweringTask, "_best_span", lambda *_: None
    )
    found, *_ = trained
    predictions = found.predict(X, verbose=0)
    assert list(predictions["answer"]) == [""] * len(CONTEXTS)


BAD = {
    "one column": (lambda m: m.predict(CONTEXTS), "Received: one column"),
    "an answer elsewhere": (
        lambda m: m.fit((["wb"], ["wa wc"]), ["wd"]),
        "Received: 'wd' in row 0, which does not occur",
    ),
    "a start elsewhere": (
        lambda m: m.fit((["wb"], ["wa wc"]), [("wc", 0)]),
        "Expected every answer in its context.*'wc', 0",
    ),
    "a number": (
        lambda m: m.fit((["wb"], ["wa wc"]), [3]),
        "Received: 3 in row 0",
    ),
    "texts without starts": (
        lambda m: m.fit(
            (["wb"], ["wa wc"]), [{"text": ["wc"], "answer_start": []}]
        ),
        "Expected y as an answer .*Received: .*answer_start.* in row 0",
    ),
    "an answer of no characters": (
        lambda m: m.fit((["wb"], ["wa wc"]), [" "]),
        "Received: ' ' in row 0, which has no characters",
    ),
    "a loss": (lambda m: m.compile(loss="mse"), "Received: loss='mse'"),
    "a dataset of one text": (
        lambda m: m.predict(dataset(QUESTIONS, CONTEXTS)),
        "Expected x as a dataset of batches.*Received: one of .TensorSpec",
    ),
    "a dataset of rows alone": (
        lambda m: m.fit(dataset(X)),
        "Expected x as a dataset of batches of .rows, answers. or",
    ),
    "a dataset with names for weights": (
        lambda m: m.fit(dataset(X, ANSWERS, ANSWERS)),
        "Expected x as a dataset of batches of .rows, answers. or",
    ),
    "a dataset without batches": (
        lambda m: m.evaluate(dataset(X, ANSWERS).unbatch()),
        "Expected x as a dataset of batches of .rows, answers. or",
    ),
    "a dataset without rows": (
        lambda m: m.evaluate(dataset(X, ANSWERS).take(0)),
        "Expected x as a dataset with rows",
    ),
    "a dataset without an end": (
        lambda m: m.predict(dataset(X).repeat()),
        "Received: steps=None",
    ),
    "a dataset that does not tell its length": (
        lambda m: m.fit(dataset(X, ANSWERS).repeat()),
        "Received: steps_per_epoch=None",
    ),
    "a dataset with class_weight": (
        lambda m: m.fit(dataset(X, ANSWERS), class_weight={0: 2.0}),
        "Expected class_weight with a TextClassifier",
    ),
}


def test_without_metrics(pretrained):
    found = answerer(pretrained)
    found.compile(metrics=None)
    assert [metric.name for metric in found.metrics] == ["loss"]


def test_spaces_that_part_no_words_may_be_in_an_answer(trained):
    context = "wa wb\u3000wc wd\u00a0we"
    inputs = trained[0].read_inputs((["wa", "wb"], [context, context]))
    answers = [("wb\u3000wc", 3), ("wd\u00a0we", 9)]
    found = trained[0].features(inputs, answers)
    assert not found[f"{trained[0].task_name}_is_impossible"].any()


def test_a_batch_of_a_dataset_may_be_blank(trained):
    whole = dataset(X, ANSWERS)
    blank = dataset((["wa"] * 4, [" "] * 4), [""] * 4)
    assert trained[0].evaluate(
        blank.concatenate(whole), verbose=0
    ) == pytest.approx(trained[0].evaluate(whole, verbose=0))


def test_an_answer_elsewhere_in_a_dataset(trained):
    rows = dataset((["wb"], ["wa wc"]), ["wd"])
    with pytest.raises(tf.errors.OpError, match="'wd' in row 0"):
        trained[0].evaluate(rows, verbose=0)


@pytest.mark.parametrize("name", BAD)
def test_bad_use(trained, name):
    use, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        use(trained[0])


@pytest.mark.parametrize(
    ("context", "answer", "start"),
    [
        ("in 1943 there were 4 ships", "4", 19),
        ("concatenate the cat", "cat", 16),
        ("in 1943", "4", 5),  # Nowhere as a word.
        ("x (a) y", "(a)", 2),
    ],
)
def test_an_answer_is_looked_for_as_words_first(
    trained, context, answer, start
):
    found, *_ = trained
    inputs = found.read_inputs((["wa"], [context]))
    tasks.assert_equal_bits(
        found.features(inputs, [answer]),
        found.features(inputs, [(answer, start)]),
    )
