"""The figures of a suite as a plot: scores, and held-out metrics, by FLOPs."""

from collections.abc import Sequence

import pictures
from experiment_suites import TASKS

from electra_tf import configs

_PANEL_INCHES = (4.6, 4.2)
_POINTS = {"markersize": 5, "capsize": 3, "linewidth": 1}
# Told apart by shape, too.
_MARKERS = "osD^vP*X<>"
_METRIC_TITLES = {
    "masked_lm_accuracy": "Held-out accuracy on masked tokens (generator)",
    "disc_auc": "Held-out AUC of the discriminator",
    "disc_masked_lm_accuracy": (
        "Held-out accuracy on masked tokens (second network)"
    ),
}


def draw(results: dict, path: str) -> None:
    """Writes the plot.

    Of several budgets, scores against FLOPs as in Figures 1 and 4 of
    arXiv:2003.10555, the points of a row joined; of one budget, a line for
    each row. Bars are 95 % intervals over seeds. Further panels have held-out
    metrics in the course of the training, as far as it was evaluated.

    Args:
      results: Of `experiments_table.collect`.
      path: A .png, or what else matplotlib writes.
    """
    rows = results["rows"]
    metrics = [
        name
        for name in _METRIC_TITLES
        if any(name in point for row in rows for point in row["curve"])
    ]
    width, height = _PANEL_INCHES
    num_panels = 1 + len(metrics)
    figure, (scores, *panels) = pictures.new(
        width * num_panels, height, num_panels
    )
    styles = {
        name: {"color": f"C{i % 10}", "marker": _MARKERS[i % len(_MARKERS)]}
        for i, name in enumerate(dict.fromkeys(row["row"] for row in rows))
    }
    if len({row["budget_flops"] for row in rows}) > 1:
        _draw_by_flops(scores, rows, styles)
    else:
        _draw_by_row(scores, rows, styles)
    scores.set_title(
        "Mean of " + ", ".join(TASKS[t].title for t in results["tasks"]),
        fontsize=10,
    )
    for panel, metric in zip(panels, metrics, strict=True):
        _draw_curves(panel, rows, metric, styles)
        panel.set_title(_METRIC_TITLES[metric], fontsize=10)
        panel.set_xlabel("pre-training FLOPs")
    _add_legend(figure, rows, styles)
    title = f"{results['title']}: {results['source']}"
    pooling = results.get("pooling", configs.DEFAULT_POOLING)
    if pooling != configs.DEFAULT_POOLING:
        title += f"; heads read the {pooling} of all tokens"
    figure.suptitle(title, fontsize=11)
    figure.savefig(path, dpi=110)


def _half_width(score: dict) -> float:
    """Of the interval; 0 of a single seed, which has none."""
    return 0.0 if score["low"] is None else score["high"] - score["mean"]


def _draw_by_flops(axes, rows: Sequence[dict], styles: dict) -> None:
    """One line for each row, over its budgets; of random weights a level."""
    for row in rows:
        if not row["flops"] and row["score"]:
            axes.axhline(
                row["score"]["mean"],
                linewidth=1,
                color=styles[row["row"]]["color"],
            )
    for name, style in styles.items():
        points = sorted(
            (row["flops"], row["score"]["mean"], _half_width(row["score"]))
            for row in rows
            if row["row"] == name and row["score"] and row["flops"]
        )
        if points:
            x, y, half = zip(*points, strict=True)
            axes.errorbar(x, y, yerr=half, **_POINTS, **style)
    axes.set_xscale("log")
    axes.set_xlabel("pre-training FLOPs")
    axes.set_ylabel("dev score, per cent")
    # Intervals of two seeds may be ten times as long: these are cut.
    means = [row["score"]["mean"] for row in rows if row["score"]]
    spread = max(means, default=0.0) - min(means, default=0.0)
    if spread:
        low, high = axes.get_ylim()
        axes.set_ylim(
            max(low, min(means) - spread), min(high, max(means) + spread)
        )


def _draw_by_row(axes, rows: Sequence[dict], styles: dict) -> None:
    """One point for each row, the first at the top."""
    for y, row in enumerate(rows):
        if row["score"]:
            axes.errorbar(
                row["score"]["mean"],
                y,
                xerr=_half_width(row["score"]),
                **_POINTS,
                **styles[row["row"]],
            )
    axes.set_yticks(range(len(rows)), [row["title"] for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlabel("dev score, per cent")


def _draw_curves(axes, rows: Sequence[dict], metric: str, styles: dict) -> None:
    for row in rows:
        points = [p for p in row["curve"] if metric in p]
        axes.plot(
            [p["flops"] for p in points],
            [p[metric] for p in points],
            markersize=3,
            linewidth=1,
            **styles[row["row"]],
        )


def _add_legend(figure, rows: Sequence[dict], styles: dict) -> None:
    """All rows, below the panels."""
    from matplotlib import lines

    titles = {row["row"]: row["title"] for row in rows}
    figure.legend(
        [lines.Line2D([], [], markersize=5, **s) for s in styles.values()],
        [titles[name] for name in styles],
        loc="outside lower center",
        ncols=min(len(styles), 7),
        fontsize=8,
        frameon=False,
    )
