"""The picture of the README, docs/summary.png, of several figures.

Left how fast a step of training is (docs/performance.md), in the middle three
lengths from one trunk (docs/scaling.md), right what minutes of pre-training on
reviews without labels are worth (docs/imdb.md).
"""

from collections.abc import Mapping

import pictures

# Those that it shows, by their names in docs/figures.
FIGURES = ("imdb", "schedule", "speed")
_INCHES = (11.0, 3.9)
_PRETRAINED, _FROM_SCRATCH, _OTHER = "C0", "0.55", "C1"
_SPEED = {
    "transformers": "PyTorch",
    "transformers_bfloat16": "PyTorch, bfloat16",
    "reference": "the original's way",
    "ours": "electra_tf",
    "ours_bfloat16": "electra_tf, bfloat16",
}


def draw(figures: Mapping[str, dict], path: str) -> None:
    """Writes the picture.

    Args:
      figures: Each of `FIGURES` -> what its file holds.
      path: A .png, or what else matplotlib writes.
    """
    picture, (speed, lengths, reviews) = pictures.new(*_INCHES, 3)
    speed.grid(False)
    _draw_speed(speed, figures["speed"]["training"]["contestants"])
    _draw_lengths(lengths, figures["schedule"]["runs"])
    _draw_reviews(reviews, figures["imdb"]["rows"])
    for axes, place in ((lengths, "upper right"), (reviews, "lower right")):
        axes.legend(frameon=False, fontsize=8, loc=place)
    picture.savefig(path, dpi=100)


def _draw_reviews(axes, rows) -> None:
    for name, label, color in (
        ("pretrained", "pre-trained ELECTRA", _PRETRAINED),
        ("tfidf", "TF-IDF", _OTHER),
        ("from_scratch", "random weights", _FROM_SCRATCH),
    ):
        found = [(row["labels"], row[name]) for row in rows if name in row]
        axes.plot(
            [labels for labels, _ in found],
            [
                of_row.get("test_accuracy") or of_row["test"]["mean"]
                for _, of_row in found
            ],
            color=color,
            marker="o",
            markersize=4,
            label=label,
        )
    sizes = [row["labels"] for row in rows]
    axes.set_xscale("log")
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes], fontsize=8)
    axes.minorticks_off()
    axes.set_xlabel("labelled reviews")
    axes.set_ylabel("accuracy on test, per cent")
    axes.set_title("Film reviews (IMDB)", fontsize=10)


def _draw_lengths(axes, runs) -> None:
    seed = min(run["seed"] for run in runs)
    for way, label, color in (
        ("straight", "a run of each length", _FROM_SCRATCH),
        ("trunk", "one trunk, three decays", _PRETRAINED),
    ):
        found = [
            run for run in runs if (run["way"], run["seed"]) == (way, seed)
        ]
        for number, run in enumerate(found):
            axes.plot(
                *zip(*run["curve"], strict=True),
                color=color,
                marker="o",
                markersize=4,
                linewidth=1.2,
                label=None if number else label,
            )
    axes.set_xlabel("steps")
    axes.set_ylabel("held-out loss, nats")
    axes.set_title("Warm-up, stable, decay", fontsize=10)


def _draw_speed(axes, contestants) -> None:
    names = [name for name in _SPEED if name in contestants]
    rates = [contestants[name]["examples_per_second"] for name in names]
    colors = [
        _PRETRAINED if name.startswith("ours") else _FROM_SCRATCH
        for name in names
    ]
    bars = axes.barh([_SPEED[name] for name in names], rates, color=colors)
    axes.bar_label(bars, fmt="%.1f", padding=3, fontsize=8)
    axes.set_xlim(0, 1.18 * max(rates))
    axes.tick_params(axis="y", labelsize=8)
    axes.set_xlabel("examples a second on two CPU cores")
    axes.set_title("Pre-training ELECTRA-Small", fontsize=10)
