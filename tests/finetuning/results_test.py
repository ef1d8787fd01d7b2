"""Tests of finetuning/results.py, and of the trials of a run."""

import numpy as np

from electra_tf.finetuning import preparation, results
from electra_tf.finetuning.task_data import TaskData
from electra_tf.tasks import reports, text_tasks
from tests.finetuning import runs

LABELS = ["no", "yes"]


def task_data(dev, name="letters"):
    """Three training rows, "yes" twice, and some dev labels."""

    def examples(labels):
        return [
            text_tasks.TextExample(i, "wa", None, label, ("a.tsv", i + 2))
            for i, label in enumerate(labels)
        ]

    return TaskData(
        text_tasks.ClassificationTask(name, LABELS),
        {"train": examples(["yes", "no", "yes"]), "dev": examples(dev)},
        {},
        frozenset(["train", "dev"]),
    )


def record(number, accuracy, name="letters", degenerate=False, **changes):
    """What a trial says, with the settings of `runs.bare_config`."""
    values = {
        "trial": number,
        "seed": 6 + number,
        "learning_rate": 1e-3,
        "num_train_epochs": 3.0,
        "degenerate": [name] if degenerate else [],
        "tasks": {name: {"dev": {"accuracy": accuracy, "loss": 0.5}}},
        "reports": {},
    }
    return values | changes


def summarize(records, parts=None):
    data = [task_data(["yes", "yes", "no", "no"])]
    return results.summarize(parts or [data], records, False)


# --- The plan ----------------------------------------------------------------


def test_every_setting_has_every_seed_and_fold():
    folds = {"folds": 2, "dev_file": ""}
    trials = preparation.make_trials(runs.bare_config(folds, num_trials=2))
    assert [(t.number, t.seed, t.fold) for t in trials] == [
        *((1, 7, 1), (2, 7, 2), (3, 8, 1), (4, 8, 2))
    ]


# --- The summary -------------------------------------------------------------


def test_statistics_of_trials():
    found = summarize([record(1, 80.0), record(2, 90.0), record(3, 70.0)])
    assert found["dev"] == {
        "accuracy_mean": 80.0,
        "accuracy_median": 80.0,
        "accuracy_stdev": 10.0,
        "accuracy_min": 70.0,
        "accuracy_max": 90.0,
        "loss_mean": 0.5,
        "loss_median": 0.5,
        "loss_stdev": 0.0,
        "loss_min": 0.5,
        "loss_max": 0.5,
    }
    assert found["best_on_dev"] == 2
    assert found["labels"] == LABELS
    assert found["num_rows"] == {"train": 3, "dev": 4}
    assert found["baseline"]["dev"]["accuracy"] == 50.0
    # A single task's scores are in the trial itself.
    assert found["trials"][1]["dev"]["accuracy"] == 90.0
    assert "tasks" not in found


def test_what_has_learned_nothing_is_said():
    remark = "no better on dev than the same answer to all: try "
    table = results.format_results(summarize([record(1, 50.1)]))
    assert remark not in table
    for settings, advice in (
        ((1e-4, 3.0), "--num_train_epochs=10 --learning_rate=0.0003"),
        ((1e-3, 3.0), "--num_train_epochs=10"),
        ((2e-3, 10.0), "other rows, as rate and epochs are high"),
    ):
        values = zip(
            ("learning_rate", "num_train_epochs"), settings, strict=True
        )
        trial = record(1, 50.0, **dict(values))
        lines = results.format_results(summarize([trial])).splitlines()
        assert f"letters: {remark}{advice}" in lines


def test_a_repeated_trial_does_not_count():
    found = summarize(
        [
            record(1, 50.0, degenerate=True),
            record(2, 90.0),
            record(3, 80.0, replaces=1),
        ]
    )
    assert found["dev"]["accuracy_mean"] == 85.0
    assert found["degenerate_trials"] == found["replaced_trials"] == [1]
    assert len(found["trials"]) == 3
    lines = results.format_results(found).splitlines()
    assert lines[-1].endswith("trial 3 repeats it, and counts in its place")
    found = summarize([record(1, 50.0, degenerate=True), record(2, 90.0)])
    assert found["dev"]["accuracy_mean"] == 70.0
    assert "try another seed" in results.format_results(found)


def test_settings_are_ranked_by_their_mean_on_dev():
    found = summarize(
        [
            record(1, 95.0, learning_rate=1e-3),
            record(2, 61.0, learning_rate=1e-3),
            record(3, 80.0, learning_rate=1e-4),
            record(4, 82.0, learning_rate=1e-4),
        ]
    )
    assert [
        (s["learning_rate"], s["trials"], s["dev"]["accuracy_mean"])
        for s in found["settings"]
    ] == [(1e-4, [3, 4], 81.0), (1e-3, [1, 2], 78.0)]
    assert found["dev"]["accuracy_mean"] == 81.0
    # The model that is taken is of the setting that is reported.
    assert found["best_on_dev"] == 4
    text = results.format_results(found)
    assert "best setting on dev: rate 0.0001, 3 epochs" in text
    assert "optimistic" in text


def test_several_tasks_are_ranked_by_the_mean_of_their_main_metrics():
    first, second = task_data(["yes", "no"]), task_data(["no"], "others")
    records = [
        record(
            number,
            0.0,
            tasks={
                "letters": {"dev": {"accuracy": a}},
                "others": {"dev": {"accuracy": b}},
            },
        )
        for number, a, b in ((1, 90.0, 10.0), (2, 60.0, 60.0), (3, 95.0, None))
    ]
    found = results.summarize([[first, second]], records, False)
    assert found["best_on_dev"] == 2
    assert found["tasks"]["others"]["dev"]["accuracy_mean"] == 35.0
    assert found["tasks"]["letters"]["baseline"]["dev"]["accuracy"] == 50.0
    lines = results.format_results(found).splitlines()
    assert lines[0] == "letters: 3 training rows"
    assert "others: 3 training rows" in lines
    assert any(line.split() == ["trial", "3", "9", "-"] for line in lines)


def test_the_baseline_of_folds_is_the_mean_over_them():
    parts = [[task_data(["yes", "yes"])], [task_data(["yes", "no"])]]
    found = summarize([record(1, 80.0, fold=1), record(2, 90.0, fold=2)], parts)
    assert found["baseline"]["dev"]["accuracy"] == 75.0
    assert found["num_folds"] == 2
    assert found["num_rows"]["dev"] == 4
    lines = results.format_results(found).splitlines()
    assert lines[0] == (
        "letters: 4 training rows in 2 folds, each of them scored once"
    )
    assert lines[-1].startswith("report the mean over the folds; trial 2")


def with_report(number, accuracy, true, predicted, **changes):
    found = reports.class_report(LABELS, np.array(true), np.array(predicted))
    of_splits = {"letters": {"dev": found, "test": found}}
    return record(number, accuracy, reports=of_splits, **changes)


def test_the_report_is_that_of_the_best_trial():
    found = summarize(
        [
            with_report(1, 50.0, [0, 1], [1, 1]),
            with_report(2, 90.0, [0, 0, 1], [0, 0, 0]),
        ]
    )
    assert found["report"]["dev"] == found["report"]["test"]
    report = found["report"]["dev"]
    assert report["trial"] == 2
    assert report["classes"]["no"]["support"] == 2
    assert report["confusion_matrix"] == {
        "labels": LABELS,
        "counts": [[2, 0], [1, 0]],
    }
    # Each trial's own is in its directory.
    assert "reports" not in found["trials"][0]
    assert results.confusions(**report["confusion_matrix"]) == [
        (1, "yes", "no")
    ]


def test_format_results():
    found = summarize([record(1, 80.0), record(2, 90.0)])
    found["from_scratch"] = True
    assert results.format_results(found).splitlines() == [
        "letters: 3 training rows, from random weights",
        "                        seed  dev accuracy",
        "  trial 1                  7         80.00",
        "  trial 2                  8         90.00",
        "  mean                               85.00",
        "  stdev                               7.07",
        "  median                             85.00",
        "  majority class 'yes'               50.00",
        "",
        "best on dev: trial 2, chosen on dev among 2, so its score there is "
        "optimistic",
    ]


def test_a_score_that_is_no_number_is_left_out():
    found = summarize([record(1, None), record(2, 90.0)])
    assert found["dev"]["accuracy_mean"] == 90.0
    assert found["dev"]["accuracy_stdev"] is None
    assert found["best_on_dev"] == 2
