"""Tests of training/outer_loop.py, and of runs without tf-models-official."""

import math
import sys

import pytest
import tensorflow as tf

from electra_tf import errors
from electra_tf.tasks import question_answering
from electra_tf.training import loop, outer_loop, replicas
from tests import helpers
from tests.training import engine_test

# What tf-models-official has.
_OF_OTHERS = ("orbit", "official", "official.common")


def without_model_garden(monkeypatch):
    for name in [n for n in sys.modules if n.split(".")[0] in _OF_OTHERS]:
        monkeypatch.delitem(sys.modules, name)
    for name in _OF_OTHERS:
        monkeypatch.setitem(sys.modules, name, None)


class Counting:
    """A loop that counts, and what it was asked."""

    def __init__(self, summary_dir=None, stop_at=None):
        self.asked = []
        self.looks = []
        self.stop_at = stop_at
        self.global_step = outer_loop.make_global_step()
        self.loop = outer_loop.OuterLoop(
            strategy=tf.distribute.get_strategy(),
            global_step=self.global_step,
            train=self.train,
            look=self.look,
            steps_to_next_look=lambda step: 4 - int(step) % 4,
            summary_dir=summary_dir,
        )

    def train(self, num_steps):
        assert num_steps.dtype == tf.int32
        self.asked.append(int(num_steps))
        self.global_step.assign_add(tf.cast(num_steps, tf.int64))
        return {"loss": 1.0 / int(self.global_step)}

    def look(self, metrics):
        self.looks.append(dict(metrics))
        metrics["seen"] = float(len(self.looks))
        if int(self.global_step) == self.stop_at:
            raise KeyError("enough")


def written(folder):
    """(step, name) -> value, of the summaries in a folder."""
    found = {}
    for path in folder.glob("events.*"):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                found[event.step, value.tag] = tf.make_ndarray(value.tensor)
    return found


@pytest.mark.parametrize("is_alone", [False, True], ids=["orbit", "alone"])
def test_takes_the_steps(tmp_path, monkeypatch, is_alone, capsys):
    if is_alone:
        without_model_garden(monkeypatch)
    counting = Counting(str(tmp_path))
    counting.global_step.assign(1)
    counting.loop.run(10)
    assert counting.asked == [3, 4, 2]
    assert counting.looks == [{"loss": 1 / 4}, {"loss": 1 / 8}, {"loss": 0.1}]
    found = written(tmp_path)
    assert sorted(found) == [
        (step, name)
        for step in (4, 8, 10)
        for name in ("loss", "seen", "steps_per_second")
    ]
    assert found[8, "loss"] == 1 / 8
    assert found[8, "seen"] == 2
    assert math.isfinite(found[10, "steps_per_second"])
    counting.loop.run(10)
    assert len(counting.asked) == 3
    assert bool(capsys.readouterr().out) != is_alone  # Orbit's lines.


@pytest.mark.parametrize("is_alone", [False, True], ids=["orbit", "alone"])
def test_a_look_can_end_it(monkeypatch, is_alone):
    if is_alone:
        without_model_garden(monkeypatch)
    counting = Counting(stop_at=4)
    with pytest.raises(KeyError, match="enough"):
        counting.loop.run(10)
    assert counting.asked == [4]


def test_a_run_is_the_same_without_orbit(tmp_path, monkeypatch):
    found = []
    for name in ("orbit", "alone"):
        (tmp_path / name).mkdir()
        run = helpers.run_config(tmp_path / name, steps_per_loop=3)
        engine = engine_test.one_weight_engine(run)
        loop.train(engine, 8, "training", ("total_loss",))
        log = [
            {n: v for n, v in line.items() if n not in loop.SPEED_METRICS}
            for line in engine_test.read_log(run)
        ]
        for line in log:
            line.pop("time", None)
        found.append((float(engine.model.w.value), log))
        without_model_garden(monkeypatch)
    assert found[0] == found[1]
    assert [line["step"] for line in found[0][1]] == [3, 6, 8]


def test_another_package_called_orbit_is_not_taken(monkeypatch):
    monkeypatch.setitem(sys.modules, "orbit", type(sys)("orbit"))
    counting = Counting()
    counting.loop.run(4)
    assert counting.asked == [4]


def test_a_strategy_without_model_garden(tmp_path, monkeypatch):
    with_it = replicas.make_strategy(helpers.run_config(tmp_path))
    without_model_garden(monkeypatch)
    found = replicas.make_strategy(helpers.run_config(tmp_path))
    assert type(found) is type(with_it) is tf.distribute.OneDeviceStrategy
    assert found.extended.worker_devices == with_it.extended.worker_devices


def test_answers_without_model_garden(tmp_path, monkeypatch):
    without_model_garden(monkeypatch)
    message = "pip install --no-deps tf-models-official"
    with pytest.raises(errors.ConfigError, match=message):
        question_answering.QuestionAnsweringTask("squad", tmp_path, v2=True)
    # KorQuAD's scores are computed here.
    question_answering.QuestionAnsweringTask("k", tmp_path, is_korean=True)
