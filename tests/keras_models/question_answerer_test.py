import warnings

import keras
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import electra_tf
from tests import notices
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
    found.fit(X, [*ANSWERS[:-1], None], batch_size=8, verbose=0)
    return found


def test_answers_in_every_form(trained):
    found = trained
    starts = [c.find(a) for a, c in zip(ANSWERS, CONTEXTS, strict=True)]
    inputs = found.read_inputs(X)
    expected = found.features(inputs, ANSWERS)
    windows = found.rows_of_features(expected)
    assert len(windows) > len(CONTEXTS)
    pairs = list(zip(ANSWERS, starts, strict=True))
    squad = [{"text": [a, "w"], "answer_start": [s, 0]} for a, s in pairs]
    of_one = [{"text": a, "answer_start": s} for a, s in pairs]
    for answers in (pairs, squad, of_one, np.array(ANSWERS)):
        tasks.assert_equal_bits(found.features(inputs, answers), expected)


def test_rows_as_data_sets_have_them(trained):
    expected = trained._columns(X, ANSWERS, None, None)[1]
    squad = [
        {"text": [a], "answer_start": [s]}
        for a, s in zip(ANSWERS, STARTS, strict=True)
    ]
    lists = [
        [{"text": a, "answer_start": s}]
        for a, s in zip(ANSWERS, STARTS, strict=True)
    ]
    nested = {name: [row[name] for row in squad] for name in squad[0]}
    rows = [
        {"id": "0", "question": q, "context": c, "answers": a}
        for q, c, a in zip(QUESTIONS, CONTEXTS, squad, strict=True)
    ]
    frame = pd.DataFrame(rows)
    columns = [frame] + [
        AS_DICTIONARY | {"answers": a} for a in (squad, lists, nested)
    ]
    for x in (rows, *columns):
        found = trained._columns(x, None, None, None)[1]
        tasks.assert_equal_bits(found, expected)
    # Labels count for nothing.
    assert len(trained.predict(rows[:2], verbose=0)["answer"]) == 2


def test_no_answer_in_every_form(trained):
    found = trained
    inputs = found.read_inputs((["wb"], ["wa wc"]))
    expected = found.features(inputs, [None])
    for none in ("", ("", 0), {"text": [], "answer_start": []}, b"", []):
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
        trained.features(inputs, ["", *ANSWERS[1:]])


def test_unknown_words_are_told(trained):
    (line,) = notices.of(trained.predict, (["zz"], ["zz zz"]), verbose=0)
    assert "1 of 1 rows are [UNK] for the most part" in line


def dataset(*columns):
    return tf.data.Dataset.from_tensor_slices(columns).batch(4)


@pytest.mark.dear
def test_a_dataset_is_read_into_columns(pretrained):
    expected = None
    for x, y in ((X, ANSWERS), (AS_DICTIONARY, (ANSWERS, STARTS))):
        found = answerer(pretrained)
        keras.utils.set_random_seed(1)
        found.set_weights([np.ones_like(w) for w in found.get_weights()])
        rows = dataset(x, y)
        history = found.fit(rows, epochs=2, validation_split=0.2, verbose=0)
        windows = found.features(X, ANSWERS)
        is_kept = found.rows_of_features(windows) < int(18 * 0.8)
        num_steps = 2 * -(-int(is_kept.sum()) // 4)
        assert found.optimizer.schedule.num_train_steps == num_steps
        answers = found.predict(rows, verbose=0)
        expected = expected or (history.history, answers)
        tasks.assert_equal_bits((history.history, answers), expected)
    assert set(expected[0]) == {
        *("loss", "start_accuracy", "val_loss", "val_start_accuracy")
    }


STARTS = [c.find(a) for a, c in zip(ANSWERS, CONTEXTS, strict=True)]
AS_DICTIONARY = {"question": QUESTIONS, "context": CONTEXTS}


def test_contexts_without_a_word_have_no_answer(trained):
    found = trained.predict((["wb", "wb"], ["", " "]), verbose=0)
    assert found["answer"].tolist() == ["", ""]
    assert found["no_answer_score"].tolist() == [1e6, 1e6]
    mixed = trained.predict((["wb", "wb"], ["", "wa wc"]), verbose=0)
    assert mixed["no_answer_score"][0] == 1e6


def test_spaces_that_part_no_words_may_be_in_an_answer(trained):
    context = "wa wb\u3000wc wd\u00a0we"
    inputs = trained.read_inputs((["wa", "wb"], [context, context]))
    answers = [("wb\u3000wc", 3), ("wd\u00a0we", 9)]
    found = trained.features(inputs, answers)
    assert not found[f"{trained.task_name}_is_impossible"].any()


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
    found = trained
    inputs = found.read_inputs((["wa"], [context]))
    tasks.assert_equal_bits(
        found.features(inputs, [answer]),
        found.features(inputs, [(answer, start)]),
    )


def test_every_window_has_the_weight_of_its_row(trained):
    found = trained
    rows = (["wb", "wb"], [CONTEXTS[0], CONTEXTS[4]])
    _, features, _ = found._columns(rows, [ANSWERS[0], None], [2.0, 1.0], None)
    np.testing.assert_array_equal(
        features[found._sample_weight],
        2.0 - found.rows_of_features(features),
    )


ONE = (["wb"], ["wa wc"])
BAD = {
    "one column": (lambda m: m.predict(CONTEXTS),),
    "Expected every answer in its context.*'wc', 0": (
        lambda m: m.fit(ONE, [("wc", 0)]),
    ),
    "as an answer in each context.* in row 0": (
        lambda m: m.fit(ONE, ["wd"]),
        lambda m: m.fit(ONE, [3]),
        lambda m: m.fit(ONE, [" "]),
        lambda m: m.fit(ONE, [{"text": ["wc"], "answer_start": []}]),
        lambda m: m.evaluate(dataset(ONE, ["wd"])),
    ),
    "a dataset of batches": (
        lambda m: m.evaluate(dataset(X, ANSWERS).unbatch()),
        lambda m: m.evaluate(dataset(X, ANSWERS).take(0)),
        lambda m: m.predict(dataset(X).repeat()),
    ),
    "class_weight": (lambda m: m.fit(X, ANSWERS, class_weight={0: 2.0}),),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_use(trained, message):
    for use in BAD[message]:
        with pytest.raises(ValueError, match=message):
            use(trained)
