"""Charts of a page: matplotlib's drawings in the page's colours.

Imports no TensorFlow, and matplotlib only when a figure is made.
"""

import html
import io
import re
import typing
from collections.abc import Mapping, Sequence

from electra_tf.command_line import page

# Colours that matplotlib writes, and the page's variables that replace them, so
# that the charts follow the reader's light or dark theme.
_COLOURS = {
    "#010101": "var(--ink)",
    "#020202": "var(--muted)",
    "#030303": "var(--line)",
    "#040404": "var(--accent)",
    "#050505": "var(--second)",
    "#060606": "var(--neutral)",
    "#070707": "var(--surface)",
}
INK, MUTED, LINE, ACCENT, SECOND, NEUTRAL, SURFACE = _COLOURS


def new_figure(width: float, height: float):
    """A figure in the page's colours, sizes in inches."""
    # Takes a while, and may build a font cache.
    from matplotlib import figure as figures

    figure = figures.Figure((width, height), layout="constrained")
    figure.patch.set_visible(False)
    axes = figure.add_subplot()
    axes.patch.set_visible(False)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(LINE)
    axes.tick_params(color=LINE, labelcolor=MUTED, length=0, labelsize=10)
    axes.xaxis.label.set_color(MUTED)
    return figure, axes


def to_html(figure, name: str, title: str, told: Sequence[str]) -> page.Html:
    """The drawing below its title, in the page's colours and width.

    Args:
      figure: Of `new_figure`.
      name: Keeps the ids of several drawings apart.
      title: Of the drawing.
      told: What a screen reader says.
    """
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context(
        {"svg.fonttype": "none", "svg.hashsalt": name, "font.size": 10}
    ):
        metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(buffer, format="svg", metadata=metadata)
    svg = buffer.getvalue()
    label = html.escape(f"{title}: {'; '.join(told)}")
    svg = f'<svg role="img" aria-label="{label}"' + svg[svg.index("<svg") + 4 :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' width="[^"]*" height="[^"]*"', "", svg, count=1)
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", svg)
    for colour, variable in _COLOURS.items():
        svg = svg.replace(colour, variable)
    return page.fill(
        "<figure><figcaption>{title}</figcaption>{svg}</figure>",
        title=title,
        svg=page.Html(svg),
    )


class Curve(typing.NamedTuple):
    """A line over the steps.

    Attributes:
      points: (step, value) of what was measured, in order.
      kind: "train", "heldout" or "baseline".
      name: What a screen reader calls it; "" to leave it out.
      is_strong: Whether it is drawn in front of the others.
      kept_step: The step whose weights are kept, where that is marked.
    """

    points: Sequence[tuple[int, float]]
    kind: str
    name: str = ""
    is_strong: bool = True
    kept_step: int | None = None


STYLES: dict[str, dict] = {
    "train": {"color": SECOND, "linestyle": "-"},
    "heldout": {"color": ACCENT, "linestyle": "--", "marker": "o"},
    "baseline": {"color": NEUTRAL, "linestyle": (0, (1.5, 1.5))},
}


def points(log: Sequence[Mapping], split: str, metric: str) -> list:
    """The course of a metric, from the lines of `metrics_log`."""
    return [
        (line["step"], line[metric])
        for line in log
        if line["split"] == split and metric in line
    ]


def learning_curves(
    name: str, title: str, curves: Sequence[Curve], width: float = 4.6
) -> page.Html:
    """Courses over the steps.

    Args:
      name: Of no other chart of the page.
      title: What is measured.
      curves: Lines.
      width: In inches.

    Returns:
      HTML.
    """
    from matplotlib import ticker

    figure, axes = new_figure(width, 2.5 if width > 4 else 2.1)
    told = []
    for curve in sorted(curves, key=lambda curve: curve.is_strong):
        if not curve.points:
            continue
        steps, values = zip(*curve.points, strict=True)
        style = dict(STYLES[curve.kind], markeredgecolor=SURFACE, markersize=5)
        style |= {"linewidth": 1.8, "alpha": 1.0 if curve.is_strong else 0.45}
        axes.plot(steps, values, **style)
        if curve.kept_step in steps:
            value = values[steps.index(curve.kept_step)]
            style |= {"color": INK, "marker": "o", "markersize": 9}
            style |= {"markeredgecolor": INK, "fillstyle": "none"}
            axes.plot(curve.kept_step, value, **style)
        if curve.is_strong and curve.name:
            told.append(
                f"{curve.name} {values[0]:.3g} at step {steps[0]}, "
                f"{values[-1]:.3g} at step {steps[-1]}"
            )
    axes.set_xlabel("step")
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(ticker.MaxNLocator(5, integer=True))
    axes.yaxis.set_major_locator(ticker.MaxNLocator(5))
    axes.grid(axis="y", color=LINE, linewidth=0.8)
    return to_html(figure, name, title, told)
