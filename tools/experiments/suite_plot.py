"""The figures of a suite as a picture: the mean, and scores by task."""

from suite_table import MEAN

# Told apart by shape, too.
_MARKERS = "osD^vP*X<>"
_WIDTH_OF_ROWS = 0.6


def draw(results: dict, path: str) -> None:
    """Writes the picture; bars are 95 % intervals over seeds.

    Args:
      results: Of `suite_table.collect`.
      path: A .png, or what else matplotlib writes.
    """
    # Takes a while, and may build a font cache.
    from matplotlib import figure as figures

    names = [MEAN, *results["tasks"]]
    picture = figures.Figure((3 + 1.1 * len(names), 4.6), layout="constrained")
    axes = picture.add_subplot()
    num_rows = len(results["rows"])
    for number, row in enumerate(results["rows"]):
        offset = _WIDTH_OF_ROWS * ((number + 0.5) / num_rows - 0.5)
        points = [
            (place + offset, row["statistics"][name])
            for place, name in enumerate(names)
            if name in row["statistics"]
        ]
        x, of_points = zip(*points, strict=True)
        axes.errorbar(
            x,
            [f["mean"] for f in of_points],
            # A single seed has no interval.
            yerr=[
                0.0 if f["high"] is None else f["high"] - f["mean"]
                for f in of_points
            ],
            label=row["row"],
            color=f"C{number % 10}",
            marker=_MARKERS[number % len(_MARKERS)],
            markersize=5,
            capsize=3,
            linestyle="none",
        )
    axes.set_xticks(range(len(names)), names)
    axes.set_ylabel("per cent")
    # Intervals of two seeds may be much longer than any score.
    low, high = axes.get_ylim()
    axes.set_ylim(max(low, -10.0), min(high, 101.0))
    axes.grid(color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    picture.legend(loc="outside lower center", ncols=4, frameon=False)
    picture.suptitle(f"{results['suite']}: {results['source']}", fontsize=11)
    picture.savefig(path, dpi=110)
