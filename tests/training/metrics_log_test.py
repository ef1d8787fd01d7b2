"""Tests of electra_tf/training/metrics_log.py."""

import math

from electra_tf.training import metrics_log


def test_nan_is_never_the_best(tmp_path):
    log = metrics_log.MetricsLog(str(tmp_path), 0)
    for step, loss in enumerate([math.nan, 0.5, math.nan, 0.7], 1):
        log.write(step, "heldout", {"loss": loss})
    records = metrics_log.read(log.path)
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
    log = metrics_log.MetricsLog(str(tmp_path), 4)
    log.write(6, "train", {"loss": 0.5})
    assert metrics_log.read(str(path)) == [
        {"step": 2, "split": "train"},
        {"step": 6, "split": "train", "loss": 0.5},
    ]
