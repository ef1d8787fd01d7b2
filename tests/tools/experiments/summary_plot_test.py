"""Tests of tools/experiments/summary_plot.py."""

import json

import summary_plot

FIGURES = {
    "imdb": {
        "rows": [
            {
                "labels": labels,
                "pretrained": {"test": {"mean": 80.0}},
                "tfidf": {"test_accuracy": 70.0},
            }
            for labels in (100, 400)
        ]
    },
    "schedule": {
        "runs": [
            {"way": way, "seed": 1, "curve": [[100, 30.0], [length, loss]]}
            for way, loss in (("straight", 28.0), ("trunk", 27.0))
            for length in (200, 400)
        ]
    },
    "speed": {
        "training": {
            "contestants": {
                "transformers": {"examples_per_second": 10.0},
                "ours": {"examples_per_second": 30.0},
            }
        }
    },
}


def test_draws_three_panels(tmp_path):
    for name, figures in FIGURES.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(figures))
    output = tmp_path / "summary.png"
    flags = [f"--figures={tmp_path}", f"--output={output}"]
    assert summary_plot.main(flags) == 0
    assert output.read_bytes().startswith(b"\x89PNG")


def test_missing_figures_are_one_line(tmp_path, capsys):
    assert summary_plot.main([f"--figures={tmp_path}"]) == 1
    error = capsys.readouterr().err
    assert f"Received: no {tmp_path / 'imdb.json'}" in error
