"""Accuracy by the number of labelled reviews, as a plot."""

import typing
from collections.abc import Sequence

import pictures
from imdb_table import CONTESTANTS

_INCHES = (7.2, 5.0)
_STYLES: dict[str, dict[str, typing.Any]] = {
    "pretrained": {"color": "C0", "marker": "o"},
    "embeddings": {"color": "C3", "marker": "v"},
    "from_scratch": {"color": "C7", "marker": "s"},
    "frozen": {"color": "C2", "marker": "^", "linestyle": ":"},
    "latent": {"color": "C4", "marker": "P", "linestyle": "-."},
    "tfidf": {"color": "C1", "marker": "D", "linestyle": "--"},
}
_TITLES = {
    "pretrained": "ELECTRA, pre-trained",
    "embeddings": "ELECTRA, its embeddings alone pre-trained",
    "from_scratch": "ELECTRA, from random weights",
    "frozen": "averages of frozen vectors, logistic regression",
    "latent": "averages of LSA vectors, logistic regression",
    "tfidf": "TF-IDF, logistic regression",
}
assert _TITLES.keys() == CONTESTANTS.keys()


def draw(figures: dict, path: str) -> None:
    """Writes the plot.

    Args:
      figures: Of `imdb_runs.collect`.
      path: A .png, or what else matplotlib writes.
    """
    figure, (axes,) = pictures.new(*_INCHES)
    for name, title in _TITLES.items():
        points = list(_points(figures["rows"], name))
        if not points:
            continue
        x, y, spread = zip(*points, strict=True)
        axes.errorbar(
            x,
            y,
            yerr=spread if any(spread) else None,
            label=title,
            markersize=5,
            capsize=3,
            linewidth=1.4,
            **_STYLES[name],
        )
    labels = [row["labels"] for row in figures["rows"]]
    axes.set_xscale("log")
    axes.set_xticks(labels, [f"{n:,}" for n in labels])
    axes.minorticks_off()
    axes.set_xlabel("labelled reviews to learn from (logarithmic)")
    axes.set_ylabel("accuracy on test reviews, per cent")
    axes.axhline(50.0, color="0.6", linewidth=0.8, linestyle=":")
    axes.text(labels[-1], 50.4, "chance", color="0.4", ha="right", fontsize=8)
    figure.legend(
        loc="outside lower center", ncols=2, frameon=False, fontsize=9
    )
    axes.set_title(
        "IMDB reviews: bars are standard deviations over seeds", fontsize=10
    )
    figure.savefig(path, dpi=110)


def _points(rows: Sequence[dict], name: str):
    """Labels, mean and deviation of a contestant, where it has a score."""
    for row in rows:
        if name not in row:
            continue
        found = row[name]
        if "test_accuracy" in found:
            yield row["labels"], found["test_accuracy"], 0.0
        else:
            test = found["test"]
            yield row["labels"], test["mean"], test["stdev"] or 0.0
