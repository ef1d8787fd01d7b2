"""The figures of a suite as a picture: scores by task, and by compute."""

from suite_table import MEAN

# Told apart by shape, too.
_MARKERS = "osD^vP*X<>"
_WIDTH_OF_ROWS = 0.6


def draw(results: dict, path: str) -> None:
    """Writes the picture; bars are 95 % intervals over seeds.

    On the left the mean and each task. Of several budgets those of the largest,
    and on the right the mean against FLOPs, as in Figures 1 and 4 of
    arXiv:2003.10555.

    Args:
      results: Of `suite_table.collect`.
      path: A .png, or what else matplotlib writes.
    """
    # Takes a while, and may build a font cache.
    from matplotlib import figure as figures

    budgets = sorted({row["budget_flops"] or 0.0 for row in results["rows"]})
    names = [MEAN, *results["tasks"]]
    titles = dict.fromkeys(row["row"] for row in results["rows"])
    num_panels = min(2, len(budgets))
    width = 3 + 1.1 * len(names) + 5 * (num_panels - 1)
    picture = figures.Figure((width, 4.6), layout="constrained")
    panels = picture.subplots(1, num_panels, squeeze=False)[0]
    for number, title in enumerate(titles):
        rows = [row for row in results["rows"] if row["row"] == title]
        offset = _WIDTH_OF_ROWS * ((number + 0.5) / len(titles) - 0.5)
        style = {
            "label": title,
            "color": f"C{number % 10}",
            "marker": _MARKERS[number % len(_MARKERS)],
            "markersize": 5,
            "capsize": 3,
        }
        points = [
            (place + offset, row["statistics"][name])
            for row in rows
            if (row["budget_flops"] or 0.0) == budgets[-1]
            for place, name in enumerate(names)
            if name in row["statistics"]
        ]
        _add(panels[0], points, linestyle="none", **style)
        if num_panels > 1:
            points = [
                (row["budget_flops"], row["statistics"][MEAN])
                for row in rows
                if row["budget_flops"] and MEAN in row["statistics"]
            ]
            _add(panels[1], points, linewidth=1, **style)
    panels[0].set_xticks(range(len(names)), names)
    panels[0].set_ylabel("per cent")
    if num_panels > 1:
        panels[1].set_xscale("log")
        panels[1].set_xlabel("pre-training FLOPs")
        panels[1].set_title("mean", fontsize=10)
    for axes in panels:
        # Intervals of two seeds may be much longer than any score.
        low, high = axes.get_ylim()
        axes.set_ylim(max(low, -10.0), min(high, 101.0))
        axes.grid(color="0.9", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    handles, labels = panels[0].get_legend_handles_labels()
    picture.legend(
        handles, labels, loc="outside lower center", ncols=4, frameon=False
    )
    picture.suptitle(f"{results['suite']}: {results['source']}", fontsize=11)
    picture.savefig(path, dpi=110)


def _add(axes, points: list[tuple[float, dict]], **style) -> None:
    """Points with their intervals; a single seed has none."""
    if points:
        x, figures = zip(*points, strict=True)
        half = [
            0.0 if f["low"] is None else f["high"] - f["mean"] for f in figures
        ]
        axes.errorbar(x, [f["mean"] for f in figures], yerr=half, **style)
