"""Charts of a page: matplotlib's drawings in the page's colours.

Imports no TensorFlow, and matplotlib only when a figure is made.
"""

import html
import io
import re
from collections.abc import Sequence

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


def to_html(figure, name: str, title: str, told: Sequence[str]) -> str:
    """The drawing below its title; `told` is what a screen reader says."""
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context(
        {"svg.fonttype": "none", "svg.hashsalt": name, "font.size": 10}
    ):
        figure.savefig(
            buffer,
            format="svg",
            metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")),
        )
    svg = adapt_svg(buffer.getvalue(), name, f"{title}: {'; '.join(told)}")
    return (
        f"<figure><figcaption>{html.escape(title)}</figcaption>{svg}</figure>"
    )


def adapt_svg(svg: str, name: str, description: str) -> str:
    """Makes matplotlib's drawing part of a page.

    Args:
      svg: The drawing.
      name: Prefix that keeps the ids of several drawings apart.
      description: What a screen reader says.

    Returns:
      An <svg> element in the page's colours and as wide as there is room.
    """
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", svg)
    for colour, variable in _COLOURS.items():
        svg = svg.replace(colour, variable)
    label = html.escape(description)
    return svg.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)
