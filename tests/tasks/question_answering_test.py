import json

import numpy as np
import pytest

from electra_tf.configs import QuestionAnsweringConfig
from electra_tf.finetuning import task_data
from electra_tf.tasks import answers, question_answering
from tests import notices

CONTEXT = "a (b-c) d e f g"
CONFIG = {"doc_stride": 2, "n_best_size": 3, "max_answer_length": 3}


@pytest.fixture
def squad(write, tmp_path):
    """Writes a question in SQuAD's layout; returns the task and examples."""

    def make(split="train", context=CONTEXT, v2=True, config=(), **qa):
        question = {
            "id": "q0",
            "question": "h",
            "is_impossible": False,
            "answers": [{"text": "b", "answer_start": 3}],
        } | qa
        paragraph = {"context": context, "qas": [question]}
        content = {"data": [{"paragraphs": [paragraph]}]}
        write(f"{split}.json", json.dumps(content))
        task = _task(tmp_path, v2, **dict(config))
        return task, task.read_examples(split)

    return make


def _task(tmp_path, v2=True, **config):
    return question_answering.QuestionAnsweringTask(
        "squad", tmp_path, QuestionAnsweringConfig(**(CONFIG | config)), v2
    )


def test_examples(squad):
    _, (example,) = squad()
    assert example.doc_tokens == ["a", "(b-c)", "d", "e", "f", "g"]
    assert (example.start_position, example.end_position) == (1, 1)
    assert example.answers == ("b",)
    # The place counts, whatever else there is, as in the original.
    answer = {"text": "a", "answer_start": 0, "char_spans": [[4, 4]]}
    _, (example,) = squad(context="a b a", answers=[answer])
    assert (example.start_position, example.end_position) == (0, 0)
    # An empty answer is none where there is none.
    answer = {"text": "", "answer_start": -1}
    _, (example,) = squad("dev", answers=[answer], is_impossible=True)
    assert example.answers == ()


_ROWS = [
    {
        "id": "q0",
        "title": "t",
        "context": CONTEXT,
        "question": "h",
        "answers": {"text": ["b"], "answer_start": [3]},
    },
    {
        "id": "q1",
        "title": "t",
        "context": "c d",
        "question": "g",
        "answers": {"text": [], "answer_start": []},
    },
]
_COLUMNS = {name: [row[name] for row in _ROWS] for name in _ROWS[0]}
_LISTS = [[{"text": "b", "answer_start": 3}], []]
_NESTED = {"text": [["b"], []], "answer_start": [[3], []]}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("train.jsonl", "".join(json.dumps(row) + "\n" for row in _ROWS)),
        ("train.json", "".join(json.dumps(row) + "\n" for row in _ROWS)),
        ("train.json", json.dumps(_ROWS, indent=1)),
        ("train.json", json.dumps(_COLUMNS)),
        ("train.json", json.dumps(_COLUMNS | {"answers": _NESTED})),
        ("train.json", json.dumps({"version": "1", "data": _ROWS})),
        ("train.json", json.dumps(_COLUMNS | {"answers": _LISTS})),
    ],
)
def test_rows_as_data_sets_write_them(write, tmp_path, squad, name, content):
    write(name, content)
    task = _task(tmp_path)
    assert task.splits() == ["train"]
    first, second = task.read_examples("train")
    _, (dev,) = squad("dev")  # The first one in SQuAD's layout.
    assert first == dev._replace(
        orig_answer_text="b", start_position=1, end_position=1
    )
    assert (second.qas_id, second.answers) == ("q1", ())
    assert second.is_impossible
    assert second.doc_tokens == ["c", "d"]


@pytest.mark.parametrize(
    ("context", "answer", "words", "tokens"),
    [
        # Python's lists, which the original asks, have a place -1.
        ("a b c", ("", 0), (0, 2), [3, 5]),
        ("a b c", ("c", -1), (2, 2), [5, 5]),
        ("a b c", ("a", -5), (0, 0), [3, 3]),
        # Before the first word.
        ("  a b", (" ", 0), (-1, -1), [4, 2]),
    ],
)
def test_odd_places_are_those_of_the_original(
    squad, tokenizer, context, answer, words, tokens
):
    answer = dict(zip(("text", "answer_start"), answer, strict=True))
    task, (example,) = squad(context=context, answers=[answer])
    assert (example.start_position, example.end_position) == words
    features = task.features([example], tokenizer, 12, is_training=True)
    names = ("squad_start_positions", "squad_end_positions")
    assert [features[name][0] for name in names] == tokens


def test_training_drops_what_is_not_in_the_passage(squad):
    with pytest.raises(ValueError, match="none in .*train.json"):
        squad(answers=[{"text": "h", "answer_start": 3}])
    with notices.heard() as lines:
        squad("dev", answers=[{"text": "h", "answer_start": 3}])
    assert not lines


def test_windows(squad, tokenizer):
    task, examples = squad()
    # Tokens a ( b - c ) d e f g; [CLS] h [SEP] leaves room for 6.
    windows = list(task.windows(examples, tokenizer, 10, is_training=True))
    assert [w.eid for w in windows] == [0, 1, 2]
    assert [w.input_ids for w in windows] == [
        [2, 12, 3, 5, 17, 6, 19, 7, 18, 3],
        [2, 12, 3, 6, 19, 7, 18, 8, 9, 3],
        [2, 12, 3, 7, 18, 8, 9, 10, 11, 3],
    ]
    assert windows[0].token_to_orig == [0, 1, 1, 1, 1, 1]
    # "b" alone, not "(b-c)"; not in the last window.
    answers = [(w.start_position, w.end_position) for w in windows]
    assert answers == [(5, 5), (3, 3), (0, 0)]
    # Contexts of c: 1, 2 and 0 tokens on its thinner side.
    c = [w.input_ids.index(7) - w.first_doc_token for w in windows]
    owners = [w.is_max_context[i] for w, i in zip(windows, c, strict=True)]
    assert owners == [False, True, False]
    with pytest.raises(ValueError, match="Received: max_seq_length=4"):
        list(task.windows(examples, tokenizer, 4))


def test_features(squad, tokenizer):
    task, examples = squad()
    features = task.features(examples, tokenizer, 16, is_training=True)
    assert features["squad_start_positions"].tolist() == [5]
    assert features["squad_is_impossible"].tolist() == [0]
    assert features["segment_ids"].tolist() == [[0] * 3 + [1] * 11 + [0] * 2]
    assert features["input_mask"].sum() == 14
    features = task.features(examples, tokenizer, 10)
    assert features["squad_eid"].tolist() == [0, 1, 2]
    assert features["squad_doc_span_index"].tolist() == [0, 1, 2]
    task, examples = squad("dev", context="", answers=[], is_impossible=True)
    with pytest.raises(ValueError, match="1 questions, all with an empty pass"):
        task.features(examples, tokenizer, 12)


def _outputs(length=16):
    """Start at "(" (position 4), end at ")" (position 8)."""
    start, end = np.zeros((2, 1, length), np.float32)
    start[0, [4, 0]] = 3.0, 9.0
    end[0, [8, 6]] = 4.0, 1.0
    return {
        "start_logits": start,
        "end_logits": end,
        "answerable_logit": np.array([-1.5], np.float32),
    }


@pytest.mark.parametrize(
    ("config", "text", "odds"),
    [
        # "(" to ")" has 5 tokens, too many; "(" to "b-" is "(b-": 3 + 1.
        ({}, "(b-", -1.5),
        (
            {"answerable_classifier": False, "max_answer_length": 5},
            "(b-c)",
            9.0 + 0.0 - 3.0 - 4.0,
        ),
        ({"n_best_size": 1}, "empty", -1.5),
    ],
)
def test_predictions_without_joint_prediction(
    squad, tokenizer, config, text, odds
):
    task, examples = squad("dev", config={"joint_prediction": False} | config)
    predictions = task.predict(_outputs(), examples, tokenizer, 16)
    assert predictions == ({"q0": text}, {"q0": odds})


def test_predictions_with_joint_prediction(squad, tokenizer):
    task, examples = squad("dev", config={"beam_size": 2})
    outputs = _outputs() | {
        "start_top_log_probs": np.array([[-1.0, -2.0]], np.float32),
        "start_top_index": np.array([[0, 9]]),
        "end_top_log_probs": np.full((1, 2, 2), -1.0, np.float32),
        "end_top_index": np.array([[[5, 6], [8, 10]]]),
    }
    # No answer starts at 0, and none ends before its start.
    predictions = task.predict(outputs, examples, tokenizer, 16)
    assert predictions.texts == {"q0": "d e"}
    scores = task.scores(outputs, examples, tokenizer, 16)
    assert scores["exact"] == 0.0
    assert scores["HasAns_total"] == 1


@pytest.mark.parametrize(
    ("token_text", "original", "expected"),
    [
        ("ab", "(Ab).", "Ab"),
        ("a b", "A b's", "A b"),
        ("cafe", "Café!", "Café"),
        ("jose", "Jose\u0301,", "Jose\u0301"),
        ("[unk]", "x☃", "x☃"),
        ("a", "a\u200bb a", "a\u200bb a"),  # Lengths differ.
    ],
)
def test_original_spans(tokenizer, token_text, original, expected):
    found = answers.original_spans([token_text], [original], tokenizer)
    assert found == [expected]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "Expected JSON. Received: .*dev.json', row 1"),
        ("{}", r"SQuAD's layout.*with \{\}"),
        ('{"data": [], "data": []}', "dev.json', row 1: the name 'data' twice"),
        ("[]", "a list of rows"),
        ('{"data": {}}', "Expected questions. Received: none"),
        (
            '{"data": [{"paragraphs": [{"qas": []}]}]}',
            r"article 1, paragraph 1, with KeyError\('context'\)",
        ),
        ('{"data": [{"paragraphs": null}]}', "data with paragraphs"),
        (json.dumps([_ROWS[0] | {"answers": {"text": ["b"]}}]), "answers with"),
        ("[" * 100_000, "Expected JSON. Received: .*dev.json', row 1"),
    ],
)
def test_bad_squad_files(write, tmp_path, content, message):
    write("dev.json", content)
    with pytest.raises(ValueError, match=message):
        _task(tmp_path).read_examples("dev")


@pytest.mark.parametrize(
    ("split", "qa"),
    [
        # As datasets of Hugging Face have them: each key was an answer.
        ("dev", {"answers": {"text": ["b"], "answer_start": [3]}}),
        ("dev", {"answers": "b"}),
        ("dev", {"answers": [{"answer_start": 3}]}),
        ("dev", {"id": None}),
        ("dev", {"question": None}),
        ("train", {"is_impossible": "false"}),
        ("train", {"answers": []}),
        ("train", {"answers": [{"text": "b"}]}),
        ("train", {"v2": False, "answers": []}),
    ],
)
def test_questions_that_mean_something_else(squad, split, qa):
    place = f"{split}.json', article 1, paragraph 1, question 1"
    with pytest.raises(ValueError, match=f"Expected a question.* in .*{place}"):
        squad(split, **qa)


MRQA = {
    "context": "b a",
    "qas": [
        {
            **{"question": "c", "qid": "1", "answers": ["a"]},
            "detected_answers": [{"text": "a", "char_spans": [[2, 2]]}],
        }
    ],
}


def read_mrqa(write, tmp_path, row):
    write("train.jsonl", f'{{"header": {{}}}}\n{row}\n')
    task = question_answering.QuestionAnsweringTask(
        "newsqa", tmp_path, is_mrqa=True
    )
    return task.read_examples("train")


@pytest.mark.parametrize("answer", ["a", "b"])
def test_mrqa_files(write, tmp_path, answer):
    # The original learns the detected answers alone.
    row = json.dumps(MRQA).replace('["a"]', f'["{answer}"]')
    (example,) = read_mrqa(write, tmp_path, row)
    assert example.qid == "1"
    assert (example.start_position, example.end_position) == (1, 1)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("5", "a JSON object in each row. Received: .*, row 2: '5'"),
        ('{"context": "b a", "qas": ["c"]}', "MRQA's layout.*row 2, with"),
        (r'{"context": "\ud800"}', r"row 2: half a character, '\\ud800'"),
        (
            json.dumps(MRQA).replace("detected_answers", "detected"),
            "char_spans.*row 2, question 1",
        ),
    ],
)
def test_rows_that_are_not_mrqas(write, tmp_path, row, message):
    with pytest.raises(ValueError, match=message):
        read_mrqa(write, tmp_path, row)


def test_questions_that_lose_their_answer_are_counted(squad, tokenizer):
    long = {"text": "a (b-c) d e", "answer_start": 0}
    task, train = squad(answers=[long])
    features = task.features(train, tokenizer, 10, is_training=True)
    assert notices.of(task.look_at, "train", train, features) == [
        "squad: train: 1 of 1 questions lost their answer: no window of 10 "
        "tokens holds all of it"
    ]


def test_what_a_run_asks_of_question_answering(squad, tmp_path, tokenizer):
    squad()
    squad("test", answers=[])
    config = {"joint_prediction": False}
    task, dev = squad("dev", config=config, answers=[], is_impossible=True)
    assert task.splits() == ["train", "dev", "test"]
    assert task.has_labels("dev")
    assert not task.has_labels("test")
    assert task.main_metric == "f1"
    baseline = task.baseline([], {"dev": dev})
    scores = baseline["dev"]
    assert (scores["exact"], scores["NoAns_total"]) == (100.0, 1)
    assert baseline["name"] == "no answer"
    none = _task(tmp_path, v2=False).baseline([], {"dev": dev})
    assert none == {"name": ""}
    outputs = _outputs()
    header, rows = task.prediction_table(dev, outputs, tokenizer, 16)
    assert header == ["label", "prediction", "null_odds", "id", "question"]
    ((label, prediction, odds, key, question),) = rows
    assert (label, key, question) == ("", "q0", "h")
    files = task.submission_json(dev, outputs, tokenizer, 16)
    assert files["predictions"] == {"q0": prediction}
    assert files["null_odds"]["q0"] == pytest.approx(float(odds), abs=1e-6)
    assert task.description()["options"]["doc_stride"] == 2
    data = task_data.read_rows(task, tokenizer, 16, ("train", "dev"))
    # Its windows are not those of long texts.
    assert data.windows is None
    assert data.about()["kind"] == "question_answering"
    # No window has an answer, or each has none.
    begins = np.zeros((2, 4))
    begins[:, 2] = 1.0
    sure = np.array([-5.0, -3.0])
    outputs = {"start_logits": begins, "answerable_logit": sure}
    assert not task.is_degenerate(outputs)
    assert task.is_degenerate(outputs | {"answerable_logit": sure + 5})
    assert task.is_degenerate(outputs | {"start_logits": begins * 0})
