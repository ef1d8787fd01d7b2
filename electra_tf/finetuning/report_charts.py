"""Charts of a fine-tuning report: learning curves, calibration, errors.

Shapes: N rows, C classes.
"""

import typing
from collections.abc import Sequence

import numpy as np

from electra_tf.command_line import charts
from electra_tf.finetuning.report_rows import Calibration

# (step, value) of one trial, in order.
Points = Sequence[tuple[int, float]]
# --shade of the page's style in its light theme; readable in both.
_SHADE = (11 / 255, 110 / 255, 153 / 255)
# More would make a large page.
_MOST_DOTS = 2000


class Curve(typing.NamedTuple):
    """A trial's course.

    Attributes:
      points: What was measured.
      is_train: On training rows, rather than on those of the dev set.
      is_best: Whether it is that of the trial that is shown.
      kept_step: The step whose weights the trial keeps, where that is not the
        last one's.
    """

    points: Points
    is_train: bool
    is_best: bool
    kept_step: int | None = None


def learning_curves(
    name: str,
    title: str,
    curves: Sequence[Curve],
    baseline: float | None = None,
) -> str:
    """Courses over the steps.

    Args:
      name: Of no other chart of the page.
      title: What is measured.
      curves: Of all trials; the best one's is drawn strong.
      baseline: What a model scores that reads no text.

    Returns:
      HTML.
    """
    from matplotlib import ticker

    figure, axes = charts.new_figure(4.6, 2.5)
    told = []
    if baseline is not None:
        axes.axhline(
            baseline,
            color=charts.NEUTRAL,
            linestyle=(0, (1.5, 1.5)),
            linewidth=1.4,
        )
    for curve in sorted(curves, key=lambda curve: curve.is_best):
        steps, values = zip(*curve.points, strict=True)
        axes.plot(
            steps,
            values,
            color=charts.SECOND if curve.is_train else charts.ACCENT,
            linestyle="-" if curve.is_train else "--",
            linewidth=1.8 if curve.is_best else 1.0,
            alpha=1.0 if curve.is_best else 0.45,
            marker=None if curve.is_train else "o",
            markersize=5 if curve.is_best else 4,
            markeredgecolor=charts.SURFACE,
        )
        if curve.kept_step in steps:
            axes.plot(
                curve.kept_step,
                values[steps.index(curve.kept_step)],
                color=charts.INK,
                alpha=1.0 if curve.is_best else 0.45,
                marker="o",
                markersize=9,
                fillstyle="none",
            )
        if curve.is_best:
            told.append(
                f"{'training' if curve.is_train else 'dev'} {values[0]:.3g} at "
                f"step {steps[0]}, {values[-1]:.3g} at step {steps[-1]}"
            )
    axes.set_xlabel("step")
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(ticker.MaxNLocator(5, integer=True))
    axes.yaxis.set_major_locator(ticker.MaxNLocator(5))
    axes.grid(axis="y", color=charts.LINE, linewidth=0.8)
    return charts.to_html(figure, name, title, told)


def reliability(name: str, title: str, found: Calibration) -> str:
    """A bar for each bin as high as its share of right ones, on a diagonal.

    Args:
      name: Of no other chart of the page.
      title: Whose calibration it is.
      found: What is drawn.

    Returns:
      HTML.
    """
    figure, axes = charts.new_figure(4.6, 3.4)
    sureness, shares = 100 * found.sureness, 100 * found.shares
    axes.plot(
        [0, 100],
        [0, 100],
        color=charts.NEUTRAL,
        linestyle=(0, (1.5, 1.5)),
        linewidth=1.4,
    )
    for mean, share, count in zip(sureness, shares, found.counts, strict=True):
        begin = min(9, int(np.ceil(mean / 10)) - 1) * 10
        axes.bar(
            max(begin, 0) + 5,
            share,
            width=9,
            color=charts.ACCENT,
            # The more rows, the more it can be trusted.
            alpha=0.25 + 0.75 * count / found.counts.max(),
        )
        axes.text(
            max(begin, 0) + 5,
            share + 1.5,
            f"{count:,}",
            ha="center",
            color=charts.MUTED,
            fontsize=8,
        )
    axes.plot(
        sureness,
        shares,
        color=charts.INK,
        linewidth=0,
        marker="o",
        markersize=4,
        markeredgecolor=charts.SURFACE,
    )
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 108)
    axes.set_xticks(range(0, 101, 20))
    axes.set_yticks(range(0, 101, 20))
    axes.set_xlabel("how sure it is, %")
    axes.set_ylabel("how often it is right, %", color=charts.MUTED)
    axes.grid(axis="y", color=charts.LINE, linewidth=0.8)
    told = [
        f"{sure:.0f} % sure, {share:.0f} % right, {count} times"
        for sure, share, count in zip(
            sureness, shares, found.counts, strict=True
        )
    ]
    return charts.to_html(figure, name, title, told)


def predicted_numbers(
    name: str, title: str, labels: np.ndarray, predictions: np.ndarray
) -> str:
    """A dot for each row, right on the diagonal.

    Args:
      name: Of no other chart of the page.
      title: What is drawn.
      labels: <float>[N].
      predictions: <float>[N].

    Returns:
      HTML.
    """
    figure, axes = charts.new_figure(4.6, 3.4)
    ends = [min(labels.min(), predictions.min())]
    ends.append(max(labels.max(), predictions.max()))
    axes.plot(
        ends,
        ends,
        color=charts.NEUTRAL,
        linestyle=(0, (1.5, 1.5)),
        linewidth=1.4,
    )
    every = -(-len(labels) // _MOST_DOTS)
    axes.scatter(
        labels[::every],
        predictions[::every],
        s=14,
        color=charts.ACCENT,
        alpha=0.45,
        linewidth=0,
    )
    axes.set_xlabel("label")
    axes.set_ylabel("prediction", color=charts.MUTED)
    axes.grid(axis="y", color=charts.LINE, linewidth=0.8)
    told = [
        f"{len(labels)} rows, labels from {labels.min():g} to "
        f"{labels.max():g}, predictions from {predictions.min():g} to "
        f"{predictions.max():g}"
    ]
    return charts.to_html(figure, name, title, told)


def confusion_picture(name: str, title: str, counts: np.ndarray) -> str:
    """The confusion matrix of many classes, which the table's numbers name.

    Args:
      name: Of no other chart of the page.
      title: What is drawn.
      counts: <int>[C, C], a row for each true label.

    Returns:
      HTML.
    """
    from matplotlib import ticker

    figure, axes = charts.new_figure(6.5, 6.1)
    totals = counts.sum(axis=1, keepdims=True)
    cells = np.empty((*counts.shape, 4))
    cells[..., :3] = _SHADE
    # What is clear takes the page's colour, light or dark.
    cells[..., 3] = np.sqrt(counts / np.maximum(totals, 1))
    size = len(counts)
    axes.imshow(
        cells,
        interpolation="nearest",
        extent=(0.5, size + 0.5, size + 0.5, 0.5),
    )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(ticker.MaxNLocator(10, integer=True))
    axes.set_xlabel("number of the predicted class")
    axes.set_ylabel("number of the true class", color=charts.MUTED)
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(True)
        axes.spines[side].set_color(charts.LINE)
    right = int(np.trace(counts))
    told = [f"{right} of {int(counts.sum())} rows are on the diagonal"]
    return charts.to_html(figure, name, title, told)
