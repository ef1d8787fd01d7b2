"""Tests of tools/experiments/summary_plot.py."""

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
    assert FIGURES.keys() == set(summary_plot.FIGURES)
    output = tmp_path / "summary.png"
    summary_plot.draw(FIGURES, str(output))
    assert output.read_bytes().startswith(b"\x89PNG")
