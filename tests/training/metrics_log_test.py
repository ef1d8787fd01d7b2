"""Tests of electra_tf/training/metrics_log.py."""

import math

from electra_tf.training import metrics_log


def test_nan_is_never_the_best():
    records = [
        {"step": step, "split": "heldout", "loss": loss}
        for step, loss in enumerate([math.nan, 0.5, math.nan, 0.7], 1)
    ]
    best, num_since = metrics_log.best_evaluation(records, "loss")
    assert (best["step"], num_since) == (2, 2)
    assert metrics_log.best_evaluation(records[:1], "loss")[0] is None


def test_lines_that_are_cut_short_or_damaged_are_dropped(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(
        b'{"step": 1, "spl\xff\nnull\n{"step": 2}\n'
        b'{"step": "a", "split": "heldout"}\n'
        b'{"step": 2, "split": "train"}\n{"step": 4, "sp'
    )
    for first_step, steps in ((2, [2]), (1, [])):
        metrics_log.begin(str(path), first_step)
        assert [r["step"] for r in metrics_log.read(str(path))] == steps


def test_a_run_that_begins_anew_evaluates_first_again(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(
        b'{"step": 0, "split": "heldout"}\n{"step": 1, "split": "train"}\n'
    )
    metrics_log.begin(str(path), 1)
    assert [r["step"] for r in metrics_log.read(str(path))] == [0, 1]
    metrics_log.begin(str(path), 0)
    assert not metrics_log.read(str(path))
