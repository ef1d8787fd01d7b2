"""The figures of run_ner.py as a plot: F1 over labels, and over rates."""

import pictures
from ner_runs import PRETRAINED, RESCALED, SCRATCH

_TITLES = {
    SCRATCH: "from scratch",
    PRETRAINED: "pre-trained",
    RESCALED: "pre-trained, words rescaled",
}
_MARKERS = "osD"
# Of the right panel: what all starts were tried with.
_EPOCHS = 3


def draw(figures: dict, path: str) -> None:
    """Writes the plot.

    Left F1 on test over labelled sentences, bars for the deviation over seeds;
    right F1 on dev over rates.

    Args:
      figures: As `ner_figures.collect` makes them.
      path: A .png, or what else matplotlib writes.
    """
    picture, (labels, rates) = pictures.new(9.2, 4.4, 2)
    sizes = sorted({run["num_sentences"] for run in figures["scores"]})
    for number, (start, title) in enumerate(_TITLES.items()):
        style = {
            "color": f"C{number}",
            "marker": _MARKERS[number],
            "markersize": 5,
            "linewidth": 1.3,
            "label": title,
        }
        runs = [run for run in figures["scores"] if run["start"] == start]
        if runs:
            labels.errorbar(
                [
                    # Beside each other, where they would hide each other.
                    sizes.index(run["num_sentences"]) + 0.08 * (number - 1)
                    for run in runs
                ],
                [run["test"]["mean"] for run in runs],
                yerr=[run["test"]["stdev"] or 0.0 for run in runs],
                capsize=3,
                **style,
            )
        for run in figures["choices"]:
            if run["start"] == start:
                rates.plot(*_over_rates(run["settings"]), **style)
    labels.set_xticks(range(len(sizes)), [f"{size:,}" for size in sizes])
    labels.set_xlim(-0.5, len(sizes) - 0.5)
    labels.set_xlabel("labelled sentences")
    labels.set_ylabel("F1 on test, per cent")
    labels.set_title("With the recipe that was best on dev", fontsize=10)
    rates.set_xscale("log")
    tried = sorted(
        {
            setting["learning_rate"]
            for run in figures["choices"]
            for setting in run["settings"]
        }
    )
    rates.set_xticks(tried, [f"{rate:g}" for rate in tried])
    rates.minorticks_off()
    rates.set_xlabel("learning rate")
    rates.set_ylabel("F1 on dev, per cent")
    rates.set_title(
        f"{figures['num_choice_sentences']:,} sentences, {_EPOCHS:g} epochs, "
        "one seed",
        fontsize=10,
    )
    picture.legend(
        *rates.get_legend_handles_labels(),
        loc="outside lower center",
        ncols=3,
        fontsize=9,
        frameon=False,
    )
    picture.savefig(path, dpi=110)


def _over_rates(settings) -> tuple[list[float], list[float]]:
    """Rates and their F1."""
    found = sorted(
        (setting["learning_rate"], setting["f1"])
        for setting in settings
        if setting["num_train_epochs"] == _EPOCHS
    )
    return [rate for rate, _ in found], [score for _, score in found]
