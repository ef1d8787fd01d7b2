"""Draws the pictures of docs/results.md and docs/explain/performance.md.

    python docs/make_pictures.py

The numbers are those of the pages, which name the commands that measure them.
"""

import pathlib

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot  # noqa: E402

_FOLDER = pathlib.Path(__file__).resolve().parent / "img"
_OURS, _OTHER, _GREY = "#3f51b5", "#e07b39", "#9e9e9e"
_STYLE = {
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 10,
    "svg.fonttype": "none",
    "svg.hashsalt": "electra_tf",  # The same file each time.
}


def _save(figure, name: str) -> None:
    figure.savefig(
        _FOLDER / f"{name}.svg",
        bbox_inches="tight",
        facecolor="white",
        metadata={"Date": None},
    )
    pyplot.close(figure)


def speed() -> None:
    """Examples a second of ELECTRA-Small on two CPU cores."""
    rows = [
        ("transformers, all positions", 10.3, 19.4),
        ("transformers, masked positions only", 12.7, 16.1),
        ("Google's way, TensorFlow 2 graph", 26.1, None),
        ("electra_tf", 36.8, 53.8),
    ]
    figure, axes = pyplot.subplots(figsize=(7, 2.6))
    for place, (name, single, half) in enumerate(rows):
        color = _OURS if name == "electra_tf" else _GREY
        axes.barh(place - 0.2, single, 0.36, color=color, alpha=0.6)
        axes.text(single + 0.5, place - 0.2, f"{single} float32", va="center")
        if half:
            axes.barh(place + 0.2, half, 0.36, color=color)
            axes.text(half + 0.5, place + 0.2, f"{half} bfloat16", va="center")
    axes.set_yticks(range(len(rows)), [row[0] for row in rows])
    axes.set_xlabel("examples a second, more is faster")
    axes.set_xlim(0, 68)
    _save(figure, "speed")


def few_labels() -> None:
    """Accuracy on film reviews by the number of labels."""
    labels = [100, 400, 1600, 6400, 23000]
    rows = {
        "TF-IDF": ([71.8, 78.3, 85.4, 88.4, 90.8], None, _OTHER),
        "pre-trained": ([60.1, 77.2, 82.2, 85.9, 89.6], None, _OURS),
        "random weights": (
            [57.9, 73.3, 79.6, 82.5, 87.6],
            [5.6, 1.1, 0.3, 1.6, 0.2],
            _GREY,
        ),
    }
    figure, axes = pyplot.subplots(figsize=(7, 3.4))
    for name, (values, spread, color) in rows.items():
        axes.errorbar(
            *(labels, values, spread),
            marker="o",
            capsize=3,
            color=color,
            label=name,
        )
    axes.set_xscale("log")
    axes.set_xticks(labels, [f"{x:,}" for x in labels])
    axes.minorticks_off()
    axes.set_xlabel("labelled reviews")
    axes.set_ylabel("test accuracy, %")
    axes.legend(frameon=False)
    _save(figure, "few_labels")


def adaptation() -> None:
    """How well a general model knows film reviews, and what it is good for."""
    minutes = [0, 5, 15, 45]
    rows = {
        "generator: masked tokens right, %": ([24.4, 33.3, 36.1, 39.3], _OTHER),
        "discriminator: AUC, %": ([73.2, 77.7, 78.9, 80.6], _OURS),
    }
    labels = [100, 400, 1600]
    accuracies = {
        "TF-IDF": [73.6, 80.2, 85.4],
        "random weights": [65.8, 75.3, 79.4],
        "general": [64.2, 72.7, 78.9],
        "adapted, 45": [61.8, 73.8, 80.3],
    }
    figure, (*panels, last) = pyplot.subplots(1, 3, figsize=(10, 2.6))
    for name, values in accuracies.items():
        last.plot(labels, values, marker="o", label=name)
    last.set_xscale("log")
    last.set_xticks(labels, labels)
    last.minorticks_off()
    last.set_xlabel("labelled reviews")
    last.set_title("test accuracy, %", fontsize=10)
    last.legend(fontsize=7)
    for axes, (name, (values, color)) in zip(panels, rows.items(), strict=True):
        axes.plot(minutes, values, marker="o", color=color)
        axes.set_xticks(minutes)
        axes.set_xlabel("minutes of two cores")
        axes.set_title(name, fontsize=10)
    figure.tight_layout()
    _save(figure, "adaptation")


def objectives() -> None:
    """Mean score of seven tasks at three budgets."""
    budgets = ["6e12", "2.4e13", "9.6e13"]
    rows = {
        "ELECTRA": ([53.2, 55.4, 47.6], [1.2, 0.6, 0.2]),
        "All-Tokens MLM": ([46.7, 54.3, 50.0], [0.6, 1.8, 5.5]),
        "Replace MLM": ([47.4, 47.5, 46.8], [0.7, 0.7, 0.5]),
        "ELECTRA 15 %": ([45.5, 46.0, 47.6], [1.3, 1.5, 3.7]),
        "BERT": ([47.3, 44.4, 42.8], [0.6, 1.3, 3.0]),
        "random weights": ([49.5, 49.2, 49.2], [0.7, 0.5, 0.5]),
    }
    colors = [_OURS, "#26a69a", "#8d6e63", "#7986cb", _OTHER, _GREY]
    figure, axes = pyplot.subplots(figsize=(7, 3.4))
    for place, (name, (values, spread)) in enumerate(rows.items()):
        axes.errorbar(
            [x + 0.11 * (place - 2.5) for x in range(3)],
            values,
            spread,
            fmt="o",
            capsize=3,
            color=colors[place],
            label=name,
        )
    axes.set_xticks(range(3), [f"{x} FLOPs" for x in budgets])
    axes.set_ylim(38, 62)
    axes.set_ylabel("mean of seven tasks, dev, %")
    axes.legend(frameon=False, ncols=3, loc="upper right", fontsize=8.5)
    _save(figure, "objectives")


def schedule() -> None:
    """Held-out loss of runs of three lengths, by schedule."""
    steps = [2000, 4000, 6000]
    figure, axes = pyplot.subplots(figsize=(7, 2.8))
    axes.plot(
        *(steps, [28.61, 27.14, 25.52]),
        marker="o",
        color=_OTHER,
        label="three runs, the paper's schedule",
    )
    axes.plot(
        *(steps, [28.31, 25.71, 24.48]),
        marker="o",
        color=_OURS,
        label="one run, a decay for each length",
    )
    axes.set_xticks(steps, [f"{x:,}" for x in steps])
    axes.set_xlabel("steps")
    axes.set_ylabel("held-out loss, nats")
    axes.legend(frameon=False)
    _save(figure, "schedule")


def main() -> None:
    """Writes docs/img/."""
    _FOLDER.mkdir(exist_ok=True)
    with pyplot.rc_context(_STYLE):
        for draw in (speed, few_labels, adaptation, objectives, schedule):
            draw()


if __name__ == "__main__":
    main()
