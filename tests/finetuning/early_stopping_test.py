"""Tests of FinetuningConfig.early_stopping_patience."""

import os
import signal

import numpy as np
import pytest
import tensorflow as tf

from electra_tf import errors
from electra_tf.checkpoints import reading
from electra_tf.finetuning import evaluation, finetune, predictions, results
from electra_tf.training import metrics_log
from tests import helpers
from tests.finetuning import runs

# 3 steps an epoch. What is as good as before is not better.
DEV_SCORES = {3: 50.0, 6: 60.0, 9: 60.0, 12: 55.0, 15: 99.0}


def make_config(folder, model_dir, patience=2, epochs=6.0, **run):
    run = {"save_checkpoints_steps": 4} | run
    return runs.make_config(
        folder,
        folder / model_dir,
        {"num_train_epochs": epochs, "eval_batch_size": 32},
        run=helpers.finetuning_run_config(folder / model_dir, **run),
        early_stopping_patience=patience,
    )


class Watched:
    """A training whose dev scores are `DEV_SCORES`.

    Attributes:
      at: Step -> called when that step is evaluated.
      weights: Step -> name -> value, of the last training.
      steps: That were evaluated.
    """

    def __init__(self, trainer, monkeypatch):
        self.at = {}
        self.weights = {}
        self.steps = []
        ask_dev = evaluation.Evaluator.ask_dev

        def asking(evaluator):
            step = int(trainer.engine.global_step)
            self.steps.append(step)
            self.weights[step] = {
                v.path: v.numpy() for v in trainer.engine.model.variables
            }
            self.at.get(step, lambda: None)()
            return ask_dev(evaluator) | {evaluation.DEV_SCORE: DEV_SCORES[step]}

        # Trainings of the same sizes begin anew with what is traced.
        monkeypatch.setattr(finetune, "Trainer", lambda strategy: trainer)
        monkeypatch.setattr(finetune, "_as_last", lambda *plans: True)
        monkeypatch.setattr(evaluation.Evaluator, "ask_dev", asking)


@pytest.fixture(scope="module")
def trainer():
    return finetune.Trainer(tf.distribute.get_strategy())


@pytest.fixture
def watched(trainer, monkeypatch):
    return Watched(trainer, monkeypatch)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("early_stopping")
    return runs.write_data(folder, runs.TRAIN * 4)


def log_of(config):
    log = metrics_log.read(f"{config.run.model_dir}/trial_1/metrics.jsonl")
    return [
        {name: of for name, of in record.items() if "per_second" not in name}
        for record in log
    ]


def exported(config):
    """The model that exporting reads."""
    return reading.read_checkpoint(config.run.model_dir)


def assert_has_weights(checkpoint, weights):
    assert checkpoint.tensors.keys() >= weights.keys()
    for name, value in weights.items():
        np.testing.assert_array_equal(checkpoint.tensors[name], value, name)


@pytest.fixture(scope="module")
def whole(folder, trainer):
    """A run that was not interrupted, what came out, and its weights."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        watched = Watched(trainer, monkeypatch)
        config = make_config(folder, "whole")
        return config, runs.run(config), watched.weights


def test_training_ends_and_the_best_weights_are_the_model(whole):
    config, found, weights = whole
    assert list(weights) == [3, 6, 9, 12]
    (trial,) = found["trials"]
    assert trial["num_train_steps"] == 18
    assert trial["best_step"] == 6
    assert trial["last_step"] == 12
    assert trial["evaluations_since_best"] == 2
    # What is reported, and what is exported, is of the best weights.
    of_best = log_of(config)[[r["step"] for r in log_of(config)].index(6) + 1]
    assert of_best["split"] == "heldout"
    assert trial["dev"]["loss"] == pytest.approx(of_best["letters_loss"])
    checkpoint = exported(config)
    assert checkpoint.global_step == 6
    assert_has_weights(checkpoint, weights[6])
    assert_has_weights(
        reading.read_checkpoint(f"{config.run.model_dir}/trial_1"),
        weights[6],
    )
    assert any(
        (checkpoint.tensors[name] != value).any()
        for name, value in weights[12].items()
    )
    table = results.format_results(found)
    assert "the weights of step 6, the best on dev, of 12; its scores" in table


class Killed(Exception):
    pass


def kill():
    raise Killed


def terminate():
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.dear
@pytest.mark.parametrize(
    ("step", "end", "error"),
    [
        # Before the best, between two checkpoints, and after the last one; the
        # best that was kept then is that of a later step, or of none.
        pytest.param(3, kill, Killed, marks=pytest.mark.dear),
        (6, terminate, errors.Stopped),
        pytest.param(9, kill, Killed, marks=pytest.mark.dear),
        pytest.param(12, kill, Killed, marks=pytest.mark.dear),
    ],
)
def test_a_killed_run_ends_as_one_that_was_not(
    folder, whole, watched, step, end, error
):
    config, expected, weights = whole
    killed = make_config(folder, f"killed_{step}_{end.__name__}")
    watched.at = {step: end}
    with pytest.raises(error):
        runs.run(killed)
    watched.at = {}
    found = runs.run(killed)
    assert found == expected
    assert_has_weights(exported(killed), weights[6])
    # Those of steps that were taken twice are those of the second time.
    for of_step, values in watched.weights.items():
        for name, value in values.items():
            np.testing.assert_array_equal(value, weights[of_step][name], name)
    assert log_of(killed) == log_of(config)


@pytest.mark.dear
def test_what_has_ended_is_not_trained_again(
    folder, whole, watched, monkeypatch
):
    """It was killed after training and before its scores were written."""
    _, expected, weights = whole
    killed = make_config(folder, "killed_at_the_end")
    with monkeypatch.context() as patch:
        patch.setattr(predictions, "write_all", lambda *args: kill())
        with pytest.raises(Killed):
            runs.run(killed)
    watched.steps.clear()
    best = f"{killed.run.model_dir}/trial_1/best/model.ckpt-6"
    os.rename(f"{best}.index", f"{best}.lost")
    with pytest.raises(errors.TrainingError) as caught:
        runs.run(killed)
    assert str(caught.value) == (
        f"Expected the best weights of {killed.run.model_dir}/trial_1, of step "
        f"6, at {best}, found none: delete {killed.run.model_dir}/trial_1 and "
        "run again"
    )
    os.rename(f"{best}.lost", f"{best}.index")
    assert runs.run(killed) == expected
    assert not watched.steps
    assert_has_weights(exported(killed), weights[6])


@pytest.mark.dear
def test_without_a_score_that_is_a_number_the_last_weights_count(
    folder, watched, monkeypatch
):
    monkeypatch.setattr(
        evaluation.Evaluator, "ask_dev", lambda self: {"letters_loss": 1.0}
    )
    config = make_config(folder, "no_number")
    found = runs.run(config)
    (trial,) = found["trials"]
    assert (trial["best_step"], trial["last_step"]) == (None, 6)
    assert "trial 1 has the last weights" in results.format_results(found)
    assert exported(config).global_step == 6


def test_the_dev_score_is_the_mean_of_the_main_metrics(folder, monkeypatch):
    found = evaluation.Evaluation(
        {},
        {
            "a": {"dev": {"accuracy": 50.0, "loss": 2.0}},
            "b": {"dev": {"spearman": 20.0}},
        },
        {},
        [],
    )
    asked = evaluation.Evaluator.__new__(evaluation.Evaluator)
    monkeypatch.setattr(evaluation.Evaluator, "ask", lambda *args: found)

    class Data:
        def __init__(self, name, main_metric):
            self.task = self
            self.name, self.main_metric = name, main_metric

    asked._predictors = [
        (Data("a", "accuracy"), None),
        (Data("b", "spearman"), None),
    ]
    assert asked.ask_dev()["dev_score"] == 35.0
    found.scores["b"]["dev"]["spearman"] = None
    assert "dev_score" not in asked.ask_dev()


def test_evaluations_are_every_epoch_or_as_often_as_asked(folder):
    from electra_tf.finetuning import preparation

    def eval_steps(**changes):
        plan = preparation.prepare(make_config(folder, "model", **changes))
        return plan.trial_plan(plan.trials[0]).run.eval_steps

    assert eval_steps() == 3
    assert eval_steps(eval_steps=2) == 2
    assert eval_steps(patience=0) == 0
