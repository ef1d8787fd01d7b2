"""Tests of serving/answer_signatures.py: the graph against the evaluation."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.checkpoints import sizes
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.configs import QuestionAnsweringConfig
from electra_tf.model.task_head import TaskHead
from electra_tf.serving import answer_signatures, saved_model
from electra_tf.tasks import passages, question_answering
from tests import helpers
from tests.checkpoints import models
from tests.serving import signatures_test

LENGTH = 16
JOINT = QuestionAnsweringConfig(
    max_query_length=3,
    doc_stride=4,
    max_answer_length=4,
    n_best_size=4,
    beam_size=5,
    qa_na_threshold=0.2,
)
SEPARATE = dataclasses.replace(
    JOINT,
    joint_prediction=False,
    answerable_classifier=False,
    answerable_uses_start_logits=False,
)
QUESTIONS = [
    ("wa wb", "wc wd we wf"),
    ("wa", " ".join(f"w{c}" for c in "abcdefghijklmno" * 3)),
    ("wo wn wm wl wk", "wa wb wc   wd\nwe wf " * 4),
    ("", "wa"),
    ("wb wc", "wd we wf wg wh wi wj wk wl wm wn wo wa wb wc wd we wf"),
]


def checkpoint(config) -> Checkpoint:
    """Random weights of an encoder with a head of these options."""
    encoder = helpers.encoder_config(max_position_embeddings=LENGTH)
    scope, width = "task_specific/squad", encoder.hidden_size
    hidden = 512
    layers = {"dense": (width, 1), "dense_1": (width, 1)}
    if config.joint_prediction:
        layers |= {
            "qa_hidden": (2 * width, hidden),
            "dense_1": (hidden, 1),
            "dense_2": (2 * width, hidden),
            "dense_3": (hidden, 1),
        }
    shapes = sizes.encoder_shapes(encoder, "electra")
    for layer, (rows, columns) in layers.items():
        shapes[f"{scope}/{layer}/kernel"] = (rows, columns)
        shapes[f"{scope}/{layer}/bias"] = (columns,)
    return Checkpoint(
        models.random_tensors(shapes),
        encoder,
        head=TaskHead(
            "question_answering", "squad", options=dataclasses.asdict(config)
        ),
        vocabulary=models.VOCABULARY,
    )


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(JOINT, id="joint"),
        pytest.param(SEPARATE, id="not", marks=pytest.mark.dear),
    ],
)
def loaded(request, tmp_path_factory):
    """The source, and its default signature."""
    return load(request.param, tmp_path_factory.mktemp("answers"))


def load(config, folder):
    found = signatures_test.load_from(folder, checkpoint(config))
    model = saved_model.make_served_model(found)
    return found, model.signatures()["serving_default"]


def ask(signature, rows):
    questions, contexts = zip(*rows, strict=True) if rows else ((), ())
    found = signature(
        question=tf.constant(questions, tf.string),
        context=tf.constant(contexts, tf.string),
    )
    return {name: values.numpy() for name, values in found.items()}


def evaluate(found, rows):
    """What fine-tuning's evaluation says."""
    task = question_answering.QuestionAnsweringTask(
        "squad", "", found.head.question_answering, v2=True
    )
    examples = [
        passages.QuestionAnsweringExample(
            eid=i,
            qas_id=str(i),
            qid=None,
            question_text=question,
            doc_tokens=passages.WORD.findall(context),
        )
        for i, (question, context) in enumerate(rows)
    ]
    features = task.features(examples, found.tokenizer, LENGTH)
    outputs = found.model({k: tf.constant(v) for k, v in features.items()})
    outputs = {
        name: values.numpy()
        for name, values in outputs["task_outputs"]["squad"].items()
    }
    return task.predict(outputs, examples, found.tokenizer, LENGTH)


def texts_of(answer):
    return [" ".join(text.decode().split()) for text in answer["answer"]]


def test_answers_as_the_evaluation(loaded):
    found, signature = loaded
    answer = ask(signature, QUESTIONS)
    expected = evaluate(found, QUESTIONS)
    assert texts_of(answer) == list(expected.texts.values())
    odds = np.array(list(expected.null_odds.values()))
    np.testing.assert_allclose(answer["no_answer_score"], odds, atol=1e-5)
    threshold = found.head.question_answering.qa_na_threshold
    assert answer["answerable"].tolist() == (odds <= threshold).tolist()
    # The questions tell something: not all answers are the same place.
    assert len(set(answer["start"])) > 2


@pytest.mark.dear
@pytest.mark.parametrize("config", [JOINT, SEPARATE], ids=["joint", "not"])
def test_fewer_positions_than_beams(config, tmp_path):
    many = {"beam_size": LENGTH + 4, "n_best_size": LENGTH + 4}
    found, signature = load(dataclasses.replace(config, **many), tmp_path)
    answer = ask(signature, QUESTIONS)
    assert texts_of(answer) == list(evaluate(found, QUESTIONS).texts.values())
    # What is no answer is not there.
    assert (answer["scores"][answer["starts"] < 0] == -1e6).all()
    assert (answer["scores"][answer["starts"] >= 0] > -1e4).all()


def test_offsets_are_those_of_characters(loaded):
    _, signature = loaded
    context = "\u4e2d \U0001f600 W\u00c1 wb\u0301 \ud55c wc"
    answer = ask(signature, [("wa", context)])
    rows = (answer[name][0] for name in ("answers", "starts", "ends"))
    for text, start, end in zip(*rows, strict=True):
        if start >= 0:
            assert context[start:end] == text.decode()
            assert context[end : end + 1] != "\u0301"
    assert (np.diff(answer["scores"][0]) <= 0).all()
    assert answer["answers"][0][0] == answer["answer"][0] != b""


def test_a_context_without_a_token_has_no_answer(loaded):
    _, signature = loaded
    answer = ask(signature, [("wa", ""), ("", " \x00 "), QUESTIONS[0]])
    for name, value in {"answer": b"", "start": -1, "end": -1}.items():
        assert answer[name].tolist()[:2] == [value, value]
    assert answer["answerable"].tolist()[:2] == [False, False]
    alone = ask(signature, QUESTIONS[:1])
    np.testing.assert_allclose(
        answer["scores"][2], alone["scores"][0], atol=1e-5
    )
    assert ask(signature, [])["answers"].shape == (0, 4)


def test_reads_a_bounded_part_of_a_long_context(loaded):
    found, signature = loaded
    many = "wa " * 200_000
    answer = ask(signature, [("wb", many), QUESTIONS[1]])
    assert answer["truncated"].tolist() == [True, False]
    # Every window ends within the first ones.
    room = LENGTH - 4
    last = (answer_signatures.MAX_WINDOWS - 1) * JOINT.doc_stride + room
    assert 0 <= answer["end"][0] <= 3 * last
    alone = ask(signature, QUESTIONS[1:2])
    assert answer["answer"][1] == alone["answer"][0]


def test_refuses_inputs_of_different_sizes(loaded):
    _, signature = loaded
    with pytest.raises(tf.errors.InvalidArgumentError, match="as many values"):
        signature(question=tf.constant(["wa"]), context=tf.constant(["a", "b"]))
