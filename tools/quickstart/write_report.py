"""Writes the figures of a quickstart run and its page, which needs no network.

python tools/quickstart/write_report.py --build_dir=build/quickstart

reads the model directories pretrain, finetune_pretrained and
finetune_from_scratch, the labelled rows, on which it fits a logistic regression
on TF-IDF to compare with, and the files seconds/<step>, and writes

  summary.json   test_accuracy of pretrained, random_weights, tf_idf and
                 majority, as fractions; pretraining, the held-out metrics; and
                 the seconds of each step
  report.html    the same for a person
"""

import argparse
import json
import pathlib
import statistics
import sys
from collections.abc import Mapping, Sequence

import quickstart_steps

from electra_tf import errors, files, model_directory
from electra_tf.command_line import arguments, charts, page
from electra_tf.command_line.page import Html, fill
from electra_tf.training import metrics_log

_BLOCKS = page.blocks(__file__)
_RUNS = {
    "pretrained": "finetune_pretrained",
    "random_weights": "finetune_from_scratch",
}
# scikit-learn's `C`; a larger one regularises less.
_STRENGTHS = (0.1, 1.0, 10.0, 100.0)
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


def main(argv=None) -> int:
    """Parses the flags and writes; returns the exit code."""
    parser = arguments.ArgumentParser("write_report", __doc__)
    line = "directory of a quickstart run"
    parser.add_argument("--build-dir", required=True, help=line)
    return arguments.run(_write, parser, argv)


def _write(args: argparse.Namespace) -> None:
    folder = pathlib.Path(args.build_dir)
    summary = summarize(folder)
    files.write_json(str(folder / "summary.json"), summary)
    for name, scores in summary["test_accuracy"].items():
        print(f"test accuracy, {name}: {100 * scores['mean']:.1f} %")
    # Imports TensorFlow: late, so that what is missing shows at once.
    from electra_tf.model import ablations, costs

    config = model_directory.read_pretraining_config(str(folder / "pretrain"))
    num_parameters = costs.num_parameters(ablations.networks(config.model))
    report = str(folder / model_directory.REPORT_FILE)
    files.write_atomically(report, render(folder, summary, num_parameters))
    print(f"report: {report}")


def summarize(build_dir: pathlib.Path) -> dict:
    """What summary.json holds.

    Raises:
      ConfigError: If a step has not been run.
    """
    results = {
        name: _read_json(build_dir, folder, model_directory.RESULTS_FILE)
        for name, folder in _RUNS.items()
    }
    scores: dict[str, dict] = {}
    for name, run in results.items():
        seeds = [trial["test"]["accuracy"] / 100 for trial in run["trials"]]
        stdev = statistics.stdev(seeds) if len(seeds) > 1 else 0.0
        mean = statistics.fmean(seeds)
        scores[name] = {"mean": mean, "stdev": stdev, "seeds": seeds}
    majority = results["pretrained"]["baseline"]["test"]["accuracy"] / 100
    tf_idf = _tf_idf_accuracy(build_dir / "corpus" / "labelled")
    # The seconds of the last step are not known yet.
    return {
        "test_accuracy": scores
        | {"tf_idf": {"mean": tf_idf}, "majority": {"mean": majority}},
        "pretraining": _read_json(
            build_dir, "pretrain", model_directory.EVAL_RESULTS_FILE
        ),
        "seconds": {
            step.name: _read_json(build_dir, "seconds", step.name)
            for step in quickstart_steps.STEPS[:-1]
        },
    }


def _tf_idf_accuracy(folder: pathlib.Path) -> float:
    """Logistic regression on the words of the same rows; dev chooses its C."""
    # Takes seconds.
    from sklearn import feature_extraction, linear_model

    texts: dict[str, tuple] = {}
    labels: dict[str, tuple] = {}
    for split in ("train", "dev", "test"):
        lines = _read_text(folder, f"{split}.tsv").split("\n")[1:-1]
        rows = (line.split("\t") for line in lines)
        texts[split], labels[split] = zip(*rows, strict=True)
    vectorizer = feature_extraction.text.TfidfVectorizer(
        ngram_range=(1, 2), sublinear_tf=True
    ).fit(texts["train"])
    vectors = {name: vectorizer.transform(part) for name, part in texts.items()}

    def accuracies(strength: float) -> list[float]:
        model = linear_model.LogisticRegression(C=strength, max_iter=1000)
        model.fit(vectors["train"], labels["train"])
        return [model.score(vectors[x], labels[x]) for x in ("dev", "test")]

    return max(map(accuracies, _STRENGTHS), key=lambda scores: scores[0])[1]


def _read_json(folder: pathlib.Path, *parts: str):
    return json.loads(_read_text(folder, *parts))


def _read_text(folder: pathlib.Path, *parts: str) -> str:
    path = folder.joinpath(*parts)
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise errors.ConfigError(
            f"Expected {path}: run electra-tf quickstart ({error.strerror})"
        ) from None


def render(folder: pathlib.Path, summary: dict, num_parameters: int) -> str:
    """The page of a run, from `summarize` and the size of both networks."""
    log = metrics_log.read(
        str(folder / "pretrain" / model_directory.METRICS_FILE)
    )
    bars = fill(_BLOCKS["bars"], chart=_bars(summary["test_accuracy"]))
    runs = []
    for name in ("pretrain", *_RUNS.values()):
        lines = _read_text(folder, name, model_directory.RUNS_FILE).splitlines()
        runs += [fill("<h3>{}</h3>", name), page.run(json.loads(lines[-1]))]
    sections = [
        _header(summary, num_parameters),
        page.section("Which library does a docstring document?", bars),
        page.section("Pre-training", _curves(log, summary["pretraining"])),
        page.section("How to get the same again", *runs),
    ]
    return page.render("ELECTRA quickstart report", sections)


def _header(summary: dict, num_parameters: int) -> Html:
    scores = summary["test_accuracy"]
    means = {
        name: f"{100 * score['mean']:.1f}\N{NO-BREAK SPACE}%"
        for name, score in scores.items()
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
        text = f"{mean:.1f} %"
        if spread:
            text += f" ± {100 * spread:.1f}"
            style = {"color": charts.INK, "capsize": 4, "linewidth": 1.3}
            axes.errorbar(mean, row, xerr=100 * spread, **style)
        end = mean + 100 * (spread or 0) + 4
        axes.text(end, row, text, va="center", color=charts.INK)
        told.append(f"{label} {text}")
    line = {"linewidth": 1.4, **charts.STYLES["baseline"]}
    axes.axvline(100 * scores["majority"]["mean"], **line)
    axes.set_yticks(range(3), [label for label, _ in _CLASSIFIERS.values()])
    # Room for the figures beside the bars.
    axes.set(xlim=(0, 128), xticks=range(0, 101, 25), xlabel="accuracy, %")
    axes.grid(axis="x", color=charts.LINE, linewidth=0.8)
    return charts.to_html(figure, "bars", "Accuracy on the test set", told)


def _curves(log: Sequence[Mapping], metrics: Mapping) -> Html:
    kinds = {"train": "training", "heldout": "held-out"}
    drawn = [
        charts.learning_curves(
            name,
            title,
            [
                charts.Curve(charts.points(log, kind, name), kind, what)
                for kind, what in kinds.items()
            ],
            3.3,
        )
        for name, title in _CURVES.items()
    ]
    return fill(
        _BLOCKS["curves"],
        legend=page.legend(kinds),
        charts=drawn,
        share=1 - metrics["replaced_rate"],
        **metrics,
    )


if __name__ == "__main__":
    sys.exit(main())
