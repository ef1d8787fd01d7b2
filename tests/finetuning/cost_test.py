"""Tests of finetuning/cost.py."""

import dataclasses
import types

import pytest

from electra_tf.finetuning import cost, fitting, results, task_data
from electra_tf.finetuning.tasks import tagging, text_tasks
from electra_tf.model import windows
from electra_tf.model.finetuning_model import FinetuningModel
from tests import helpers
from tests.finetuning import results_test

# Before the tests of other modules do without it.
of_run = cost.of_run

COST = {
    "task": "letters",
    "ms_per_text": 12.3456,
    "texts_per_second": 3456.78,
    "batch_size": 32,
    "unit": "text",
    "from_text": True,
    "processor": "Any Processor @ 2 GHz",
    "threads": 2,
}


def text_data(tokenizer, second=None, **attributes):
    task = text_tasks.ClassificationTask("letters", ["no", "yes"])
    vars(task).update(attributes)
    examples = [
        text_tasks.TextExample(i, "a b c " * i, second, "no", ("a.tsv", i))
        for i in range(1, 6)
    ]
    features = task.features(examples, tokenizer, 8)
    return task_data.TaskData(
        task,
        {"train": examples, "dev": examples},
        {"train": features, "dev": features},
        frozenset(["train", "dev"]),
        tokenizer,
        8,
    )


def tagging_data(tokenizer):
    task = tagging.TaggingTask("tags", {}, as_original=False)
    task._labels = ["B-X", "I-X", "O"]
    examples = [
        tagging.TaggingExample(i, ("a", "b"), ("B-X", "O")) for i in range(3)
    ]
    features = task.features(examples, tokenizer, 8)
    return task_data.TaskData(
        task, {"dev": examples}, {"dev": features}, frozenset(), tokenizer, 8
    )


def model_of(data):
    encoder = helpers.encoder_config(vocab_size=25)
    return FinetuningModel(
        encoder, [data.task.make_head(encoder)], data.windows
    )


@pytest.mark.parametrize(
    ("make", "options", "from_text"),
    [
        (text_data, {}, True),
        pytest.param(
            *(text_data, {"second": "d e"}, True), marks=pytest.mark.dear
        ),
        (text_data, {"windows": windows.Windows(8, 4, 9)}, True),
        (tagging_data, {}, False),
    ],
)
def test_every_kind_of_model_is_measured(tokenizer, make, options, from_text):
    data = make(tokenizer, **options)
    found = cost.measure(model_of(data), [data], 2)
    assert found["ms_per_text"] > 0 and found["texts_per_second"] > 0
    assert (found["batch_size"], found["from_text"]) == (2, from_text)
    assert (found["task"], found["unit"]) == (data.task.name, "text")


def test_of_several_tasks_the_first_one_is_measured(tokenizer):
    data = [text_data(tokenizer), tagging_data(tokenizer)]
    encoder = helpers.encoder_config(vocab_size=25)
    model = FinetuningModel(
        encoder, [of_task.task.make_head(encoder) for of_task in data]
    )
    found = cost.measure(model, data, 2)
    assert (found["task"], found["from_text"]) == ("letters", False)


class Clock:
    """Goes on by what a call of so many rows takes."""

    def __init__(self, monkeypatch, seconds):
        self.now = 0.0
        self.asked = []
        monkeypatch.setattr(cost.time, "perf_counter", lambda: self.now)

        def from_texts(model, data):
            def ask(rows):
                self.asked.append(len(rows))
                self.now += seconds * len(rows)

            return lambda rows: rows, ask

        monkeypatch.setattr(cost, "_from_texts", from_texts)


def test_what_is_measured(monkeypatch, tokenizer):
    clock = Clock(monkeypatch, 0.01)
    data = text_data(tokenizer)
    found = cost.measure(None, [data], 4)
    assert found["ms_per_text"] == pytest.approx(10.0)
    assert found["texts_per_second"] == pytest.approx(100.0)
    # Each call twice, the first of which does not count.
    assert clock.asked == [1] * 10 + [4] * 2


@pytest.mark.parametrize(("seconds", "size"), [(0.3, 2), (5.0, 1)])
def test_a_slow_model_is_asked_little(monkeypatch, tokenizer, seconds, size):
    clock = Clock(monkeypatch, seconds)
    found = cost.measure(None, [text_data(tokenizer)], 32)
    assert found["batch_size"] == size
    assert found["ms_per_text"] == pytest.approx(1e3 * seconds)
    assert clock.now <= max(4 * seconds, 5.0)


def test_a_run_measures_its_best_model_once(monkeypatch, tmp_path, tokenizer):
    data = text_data(tokenizer)
    asked = []

    def trained_model(directory, encoder, tasks):
        asked.append(directory)
        return model_of(tasks[0])

    monkeypatch.setattr(fitting, "trained_model", trained_model)
    plan = types.SimpleNamespace(
        run=helpers.run_config(tmp_path, num_intra_op_threads=3),
        folds=[[None], [data]],
        start=types.SimpleNamespace(encoder_config=None),
        data=types.SimpleNamespace(eval_batch_size=2),
    )
    first = of_run(plan, {"trial": 4, "fold": 2})
    assert asked == [f"{tmp_path}/trial_4"]
    assert first["threads"] == 3
    assert first["processor"] == cost.processor() != ""
    assert of_run(plan, {"trial": 1, "fold": 1}) == first
    assert len(asked) == 1
    plan.run = dataclasses.replace(
        plan.run, model_dir=str(tmp_path / "tpu"), distribution_strategy="tpu"
    )
    assert of_run(plan, {"trial": 1}) == {}


def test_the_table_says_what_an_answer_costs():
    found = results_test.summarize([results_test.record(1, 80.0)])
    assert "cost" not in results.format_results(found)
    lines = results.format_results(found | {"cost": COST}).splitlines()
    assert lines[-1] == (
        "cost of an answer: 12.3 ms for a text alone, 3,457 texts a second 32 "
        "at a time (Any Processor @ 2 GHz, 2 threads)"
    )
    words = cost.in_words(COST | {"from_text": False, "unit": "window"})
    assert "12.3 ms for a window alone, 3,457 windows a second" in words
    assert "32 at a time, without tokenization (" in words
