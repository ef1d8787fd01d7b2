"""Writes the page of a quickstart run, which needs no network: report.html.

python tools/quickstart/write_report.py --build_dir=build/quickstart

reads summary.json, the model directories pretrain and finetune_pretrained, and
asks the pre-trained model about held-out sentences.
"""

import argparse
import json
import pathlib
import sys
import typing
from collections.abc import Mapping, Sequence

from electra_tf import errors, files, model_directory
from electra_tf.command_line import arguments, charts, page
from electra_tf.command_line.page import Html, fill
from electra_tf.training import metrics_log

if typing.TYPE_CHECKING:
    from heldout_sentences import Token

_BLOCKS = page.blocks(__file__)
# Held-out examples that are judged, and sentences of them that are shown.
_NUM_EXAMPLES = 256
_NUM_SENTENCES = 10
_CLASSIFIERS = {
    "tf_idf": ("TF-IDF", charts.NEUTRAL),
    "random_weights": ("random weights", charts.SECOND),
    "pretrained": ("pre-trained", charts.ACCENT),
}
_CURVES = {
    "masked_lm_loss": "Generator loss",
    "masked_lm_accuracy": "Generator accuracy",
    "disc_loss": "Discriminator loss",
    "disc_accuracy": "Discriminator accuracy",
    "disc_auc": "Discriminator AUC",
    "disc_recall": "Discriminator recall",
}
# Pieces that are written without a space before, and behind them.
_CLOSING, _OPENING = frozenset(".,;:!?)]}%-/_'"), frozenset("([{-/_'")


def main(argv=None) -> int:
    """Parses the flags and writes the page; returns the exit code."""
    parser = arguments.ArgumentParser(prog="write_report", description=__doc__)
    parser.add_argument(
        "--build-dir", required=True, help="directory of a quickstart run"
    )
    return arguments.run(_write_report, parser, argv)


def _write_report(args: argparse.Namespace) -> None:
    folder = pathlib.Path(args.build_dir)
    summary_path = folder / "summary.json"
    if not summary_path.exists():
        raise errors.ConfigError(
            f"Expected {summary_path}, found none: run electra-tf quickstart"
        )
    summary = files.read_json(
        summary_path, ("test_accuracy", "pretraining", "seconds")
    )
    # Imports TensorFlow: late, so that what is missing shows at once.
    import heldout_sentences

    examples, num_parameters = heldout_sentences.detect_heldout(
        str(folder / "pretrain"), _NUM_EXAMPLES
    )
    report = str(folder / model_directory.REPORT_FILE)
    files.write_atomically(
        report, render(folder, summary, examples, num_parameters)
    )
    print(f"report: {report}")


def render(
    folder: pathlib.Path,
    summary: dict,
    examples: Sequence[Sequence["Token"]],
    num_parameters: int,
) -> str:
    """The whole page.

    Args:
      folder: Of the quickstart run.
      summary: What `write_summary` wrote there.
      examples: Judged held-out examples.
      num_parameters: Of the pre-trained model.

    Returns:
      HTML.
    """
    log = metrics_log.read(
        str(folder / "pretrain" / model_directory.METRICS_FILE)
    )
    sections = [
        _header(summary, num_parameters),
        page.section(
            "Which library does a docstring document?",
            fill(_BLOCKS["bars"], chart=_bars(summary["test_accuracy"])),
        ),
        _sentences_section(examples),
        _curves_section(log, summary["pretraining"]),
        _seconds_section(summary["seconds"]),
        _runs_section(folder),
    ]
    return page.render("ELECTRA quickstart report", sections)


def _header(summary: dict, num_parameters: int) -> Html:
    scores = summary["test_accuracy"]
    means = {
        name: f"{100 * of['mean']:.1f}\N{NO-BREAK SPACE}%"
        for name, of in scores.items()
    }
    gain = scores["pretrained"]["mean"] - scores["random_weights"]["mean"]
    verb = "raises" if gain > 0 else "does not raise"
    num_seeds = len(scores["pretrained"]["seeds"])
    minutes = sum(summary["seconds"].values()) / 60
    auc = summary["pretraining"]["disc_auc"]
    tiles = [
        (
            means["pretrained"],
            f"test accuracy, pre-trained, mean of {num_seeds} seeds, "
            f"± {100 * scores['pretrained']['stdev']:.1f}",
            "strong",
        ),
        (means["random_weights"], "the same network from random weights"),
        (means["tf_idf"], "logistic regression on TF-IDF"),
        (means["majority"], "always giving the commonest label"),
        (f"{auc:.3f}", "discriminator’s held-out AUC (0.5 is chance)"),
        (f"{minutes:.0f} min", "for everything on this page"),
    ]
    lead = (
        f"A small ELECTRA ({num_parameters / 1e6:.1f} million parameters) read "
        "the docstrings of Python libraries, and was then fine-tuned to tell "
        f"which library a docstring documents. Pre-training {verb} the test "
        f"accuracy of the same network: {means['random_weights']} without it, "
        f"{means['pretrained']} with it. Logistic regression on TF-IDF has "
        f"{means['tf_idf']}."
    )
    title = "ELECTRA, from docstrings to a classifier"
    return page.header("electra_tf · quickstart", title, lead, tiles)


def _bars(scores: Mapping[str, dict]) -> Html:
    figure, axes = charts.new_figure(4.6, 1.9)
    told = []
    for row, (name, (label, colour)) in enumerate(_CLASSIFIERS.items()):
        mean, spread = 100 * scores[name]["mean"], scores[name].get("stdev")
        axes.barh(row, mean, height=0.62, color=colour)
        text, seeds = f"{mean:.1f} %", scores[name].get("seeds", ())
        if spread:
            text += f" ± {100 * spread:.1f}"
            style = {"color": charts.INK, "capsize": 4, "linewidth": 1.3}
            axes.errorbar(mean, row, xerr=100 * spread, **style)
        # Side by side, so that equal seeds do not hide each other.
        for number, seed in enumerate(seeds):
            y = row + 0.17 * (2 * number / max(len(seeds) - 1, 1) - 1)
            style = {"s": 22, "color": charts.SURFACE, "zorder": 3}
            axes.scatter(100 * seed, y, edgecolor=charts.INK, **style)
        end = max([mean, *(100 * seed for seed in seeds)]) + 4
        axes.text(end, row, text, va="center", color=charts.INK)
        told.append(f"{label} {text}")
    line = {"linewidth": 1.4, **charts.STYLES["baseline"]}
    axes.axvline(100 * scores["majority"]["mean"], **line)
    axes.set_yticks(range(3), [label for label, _ in _CLASSIFIERS.values()])
    # Room for the figures beside the bars.
    axes.set(xlim=(0, 128), xticks=range(0, 101, 25), xlabel="accuracy, %")
    axes.grid(axis="x", color=charts.LINE, linewidth=0.8)
    return charts.to_html(figure, "bars", "Accuracy on the test set", told)


def _curves_section(log: Sequence[Mapping], metrics: Mapping) -> Html:
    drawn = []
    for name, title in _CURVES.items():
        points = [
            (line["step"], line[name])
            for line in log
            if line["split"] == "heldout" and name in line
        ]
        step = metrics.get("step")
        if step and step not in dict(points):
            points.append((step, metrics[name]))
        train = charts.training_points(log, name)
        curves = [
            charts.Curve(train, "train", "training"),
            charts.Curve(points, "heldout", "held-out"),
        ]
        if name == "disc_accuracy":
            replaced = charts.training_points(log, "replaced_rate")
            share = [(step, 1 - rate) for step, rate in replaced]
            curves.append(charts.Curve(share, "baseline"))
        drawn.append(charts.learning_curves(name, title, curves, 3.3))
    legend = {
        "train": "training",
        "heldout": "held-out",
        "baseline": "calling every token original",
    }
    return page.section(
        "Pre-training",
        fill(
            _BLOCKS["curves"],
            legend=page.legend(legend),
            charts=drawn,
            share=1 - metrics["replaced_rate"],
            **metrics,
        ),
    )


def _seconds_section(seconds: Mapping[str, float]) -> Html:
    longest, total = max(*seconds.values(), 1e-9), sum(seconds.values())
    rows = [
        (step, f"{value:,.1f}", value / longest)
        for step, value in seconds.items()
    ]
    rows.append(("total", f"{total:,.1f}", 0.0))
    table = page.table("seconds", "tnb", ["Step", "Seconds", ""], rows)
    return page.section("Where the time went", table)


def _runs_section(folder: pathlib.Path) -> Html:
    runs = []
    for name in ("pretrain", "finetune_pretrained", "finetune_from_scratch"):
        path = folder / name / model_directory.RUNS_FILE
        record = json.loads(path.read_text("utf-8").splitlines()[-1])
        runs += [fill("<h3>{}</h3>", name), page.run(record)]
    return page.section("How to get the same again", *runs)


# --- Sentences ---------------------------------------------------------------


def _sentences_section(examples: Sequence[Sequence["Token"]]) -> Html:
    threshold, alarms = find_half(
        [token for tokens in examples for token in tokens]
    )
    shown = choose_sentences(examples)
    if not shown:
        return Html()
    return page.section(
        "Which words were replaced?",
        fill(
            _BLOCKS["sentences"],
            sentences=[
                fill("<li>{}</li>", render_sentence(sentence, threshold))
                for sentence in shown
            ],
            threshold=threshold,
            num_examples=len(examples),
            alarms=alarms,
        ),
    )


def find_half(tokens: Sequence["Token"]) -> tuple[float, float]:
    """The probability from which on half of the replaced tokens are called so.

    Args:
      tokens: Of held-out examples.

    Returns:
      The threshold, and the share of the original tokens above it.
    """
    tokens = [token for token in tokens if not token.original.startswith("[")]
    replaced = sorted(t.probability for t in tokens if t.is_replaced)
    others = [t.probability for t in tokens if not t.is_replaced]
    threshold = replaced[len(replaced) // 2] if replaced else 0.5
    alarms = sum(p >= threshold for p in others) / max(len(others), 1)
    return threshold, alarms


def choose_sentences(
    examples: Sequence[Sequence["Token"]],
) -> list[list["Token"]]:
    """Sentences that read well: one of an example, spread evenly over them.

    The discriminator's verdict plays no part.
    """
    chosen: dict[str, list[Token]] = {}
    for tokens in examples:
        # What comes before the first full stop is the end of a sentence.
        sentences: list[list[Token]] = [[]]
        for token in tokens:
            sentences[-1].append(token)
            if token.original == ".":
                sentences.append([])
        for sentence in sentences[1:-1]:
            if reads_well(sentence):
                text = " ".join(token.original for token in sentence)
                chosen.setdefault(text, sentence)
                break
    found = list(chosen.values())
    number = min(len(found), _NUM_SENTENCES)
    return [found[i * len(found) // number] for i in range(number)]


def reads_well(sentence: Sequence["Token"]) -> bool:
    """Whether a sentence is mostly words, and lightly corrupted."""
    words = [token.original for token in sentence[:-1]]
    num_replaced = sum(token.is_replaced for token in sentence)
    num_words = sum(w.removeprefix("##").isalpha() for w in words)
    return (
        9 <= len(words) <= 26
        and words[0].isalpha()
        and len(words[-1]) > 2  # Not "vs."
        and num_words >= 0.9 * len(words)
        and not any(word.startswith("[") for word in words)
        and 1 <= num_replaced <= 0.3 * len(words)
    )


def render_sentence(sentence: Sequence["Token"], threshold: float) -> Html:
    """A sentence as the discriminator saw it, with its verdicts.

    What the generator drew stands alone, so that it is not overlooked, unless
    it goes on with a word where the original did.

    Args:
      sentence: With the probabilities.
      threshold: From which on a token is called replaced.
    """
    words: list[list[Html]] = []
    joins = False
    for token in sentence:
        goes_on = token.shown.startswith("##")
        joins |= goes_on or token.shown in _CLOSING
        if token.is_replaced:
            joins = goes_on and token.original.startswith("##")
        if not joins or not words:
            words.append([])
        is_called = token.probability >= threshold
        kinds = ("clear", "false-alarm", "miss", "hit")
        block = _BLOCKS["replaced" if token.is_replaced else "token"]
        shown = token.shown.removeprefix("##") if joins else token.shown
        words[-1].append(
            fill(
                block,
                kind=kinds[2 * token.is_replaced + is_called],
                sure=token.probability,
                shown=shown.replace("##", "…"),
                original=token.original.replace("##", "…"),
            )
        )
        joins = token.shown in _OPENING and not token.is_replaced
    return Html(
        " ".join(fill(_BLOCKS["word"], Html("".join(word))) for word in words)
    )


if __name__ == "__main__":
    sys.exit(main())
