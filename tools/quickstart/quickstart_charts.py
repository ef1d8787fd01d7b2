"""A quickstart's figures -> charts in the page's colours."""

import statistics

from quickstart_figures import Build, accuracies

from electra_tf.command_line import charts


def draw_charts(build: Build) -> dict[str, str]:
    """Draws "curves" of pre-training and "bars" of the classifiers' scores.

    Returns:
      Of each kind the charts below their titles, as HTML.
    """
    titles = {
        "masked_lm_loss": "Generator loss",
        "masked_lm_accuracy": "Generator accuracy",
        "disc_loss": "Discriminator loss",
        "disc_accuracy": "Discriminator accuracy",
        "disc_auc": "Discriminator AUC",
        "disc_recall": "Discriminator recall",
    }
    train = [r for r in build.log if r["split"] == "train"]
    heldout = [r for r in build.log if r["split"] == "heldout"]
    last = build.heldout | {"split": "heldout"}
    if "step" in last and last["step"] not in [r["step"] for r in heldout]:
        heldout.append(last)
    curves = (
        _draw_curve(name, title, train, heldout)
        for name, title in titles.items()
    )
    bars = (_draw_bars(build, split) for split in ("test", "dev"))
    return {"curves": "\n".join(curves), "bars": "\n".join(bars)}


def _draw_curve(name, title, train, heldout) -> str:
    from matplotlib import ticker

    figure, axes = charts.new_figure(3.3, 2.1)

    def line(records, values, **style):
        axes.plot([r["step"] for r in records], values, **style)

    train = [r for r in train if name in r]
    heldout = [r for r in heldout if name in r]
    if name == "disc_accuracy":
        share = [r for r in train if "replaced_rate" in r]
        line(
            share,
            [1 - r["replaced_rate"] for r in share],
            color=charts.NEUTRAL,
            linestyle=(0, (1.5, 1.5)),
            linewidth=1.4,
        )
    line(train, [r[name] for r in train], color=charts.SECOND, linewidth=1.6)
    line(
        heldout,
        [r[name] for r in heldout],
        color=charts.ACCENT,
        linewidth=1.8,
        linestyle="--",
        marker="o",
        markersize=5,
        markeredgecolor=charts.SURFACE,
    )
    axes.set_xlabel("step")
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(ticker.MaxNLocator(5, integer=True))
    axes.yaxis.set_major_locator(ticker.MaxNLocator(5))
    axes.grid(axis="y", color=charts.LINE, linewidth=0.8)
    told = []
    for split, records in (("training", train), ("held-out", heldout)):
        if records:
            first, last = records[0], records[-1]
            told.append(
                f"{split} {first[name]:.3f} at step {first['step']}, "
                f"{last[name]:.3f} at step {last['step']}"
            )
    return charts.to_html(figure, name, title, told)


def _draw_bars(build: Build, split: str) -> str:
    majority = build.pretrained["baseline"][split]["accuracy"]
    rows = (
        ("majority", [majority / 100], charts.NEUTRAL),
        ("from scratch", accuracies(build.from_scratch, split), charts.SECOND),
        ("pre-trained", accuracies(build.pretrained, split), charts.ACCENT),
    )
    figure, axes = charts.new_figure(4.4, 1.9)
    told = []
    for row, (label, fractions, colour) in enumerate(rows):
        values = [100 * fraction for fraction in fractions]
        mean = statistics.fmean(values)
        axes.barh(row, mean, height=0.62, color=colour)
        text, end = f"{mean:.1f} %", mean
        if len(values) > 1:
            spread = statistics.stdev(values)
            text, end = f"{text} ± {spread:.1f}", max(*values, mean + spread)
            axes.errorbar(
                mean,
                row,
                xerr=spread,
                color=charts.INK,
                capsize=4,
                linewidth=1.3,
            )
            # Side by side, so that equal seeds do not hide each other.
            step = 0.34 / (len(values) - 1)
            axes.scatter(
                values,
                [row - 0.17 + i * step for i in range(len(values))],
                s=22,
                color=charts.SURFACE,
                edgecolor=charts.INK,
                linewidth=1,
                zorder=3,
            )
        axes.text(end + 4, row, text, va="center", color=charts.INK)
        told.append(f"{label} {text}")
    axes.set_yticks(range(len(rows)), [label for label, _, _ in rows])
    # Room for the figures beside the bars.
    axes.set_xlim(0, 128)
    axes.set_xticks(range(0, 101, 25))
    axes.set_xlabel("accuracy, %", x=50 / 128)
    axes.spines["bottom"].set_visible(False)
    axes.grid(axis="x", color=charts.LINE, linewidth=0.8)
    num_rows = build.pretrained["num_rows"][split]
    title = f"Accuracy on the {split} set, {num_rows:,} texts"
    return charts.to_html(figure, split, title, told)
