"""Tests of tools/experiments/summary_plot.py."""

import json

import summary_plot


def run(model, start, size, score):
    score = {"mean": score}
    return {
        "model": model,
        "start": start,
        "num_sentences": size,
        "dev": score,
        "test": score,
    }


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
    "ner": {
        "scores": [
            run(model, start, size, score)
            for model, score in (("cased", 60.0), ("uncased", 50.0))
            for start in ("pretrained", "from_scratch")
            for size in (100, 1000)
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
