"""What the pictures of docs/ share: panels side by side, a pale grid."""

import typing


def new(width: float, height: float, num_panels: int = 1) -> tuple:
    """A picture, sizes in inches, and the axes of its panels."""
    # Takes a while, and may build a font cache.
    from matplotlib import figure as figures

    picture = figures.Figure((width, height), layout="constrained")
    panels: typing.Any = picture.subplots(1, num_panels, squeeze=False)[0]
    for axes in panels:
        axes.grid(color="0.9", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    return picture, panels
