"""Writes what a quickstart run found: a page to look at and a summary.

python tools/quickstart/write_report.py --build_dir=build/quickstart

reads the model directories pretrain, finetune_pretrained and
finetune_from_scratch and the files seconds/<stage> below --build_dir, and
writes there

  report.html    one page that needs no network: curves, scores, a confusion
                 matrix, held-out sentences with the discriminator's verdicts
  summary.json   the figures: heldout, classifier, seconds
"""

import collections
import html
import io
import json
import math
import os
import re
import shlex
import statistics
import sys
import time
import typing
from collections.abc import Iterable, Sequence

from electra_tf import errors, files
from electra_tf.command_line import arguments

if typing.TYPE_CHECKING:
    from tools.quickstart.heldout_sentences import Token

REPORT_FILE = "report.html"
SUMMARY_FILE = "summary.json"

# What they say, in the order of the table. {share} is the share of tokens that
# were not replaced.
METRICS = {
    "masked_lm_accuracy": (
        "How often the generator’s likeliest word for a masked position is "
        "the true one."
    ),
    "masked_lm_loss": (
        "How surprised the generator is by the true word: nats per masked "
        "position, lower is better."
    ),
    "sampled_masked_lm_accuracy": (
        "How often the word that the generator draws is the true one. Such a "
        "token counts as original."
    ),
    "disc_loss": "The discriminator’s loss: nats per token, lower is better.",
    "disc_auc": (
        "How well the probabilities rank replaced above original tokens: 0.5 "
        "is chance, 1 is perfect. As in the original code, padding counts as "
        "tokens that are rightly called original, which lifts the figure."
    ),
    "disc_accuracy": (
        "How often a token is judged rightly. Calling every token original "
        "would give {share}."
    ),
    "disc_precision": (
        "Accuracy over predicted replacements: how many of the tokens that "
        "were called replaced were. 0 if none was."
    ),
    "disc_recall": (
        "Accuracy over true replacements: how many of the replaced tokens "
        "were called replaced."
    ),
}
STAGES = {
    "corpus": "collect the docstrings",
    "vocab": "build the vocabulary",
    "tfrecords": "build the examples",
    "pretrain": "pre-train",
    "finetune": "fine-tune, all seeds, with and without pre-training",
    "export": "export a SavedModel",
    "query": "query it",
}
# Model directory -> the command that fills it, but for its --model_dir.
_RUNS = {
    "pretrain": "python -m electra_tf.run_pretraining "
    "--gin_file=gin/quickstart.gin",
    "finetune_pretrained": "python -m electra_tf.run_finetuning "
    "--gin_file=gin/quickstart_finetuning.gin",
    "finetune_from_scratch": "python -m electra_tf.run_finetuning "
    "--gin_file=gin/quickstart_finetuning.gin "
    "--gin_param=FinetuningConfig.from_scratch=True",
}
# Held-out examples that are judged, and sentences that are shown of them.
_NUM_EXAMPLES = 256
_NUM_SENTENCES = 10
# As the objective has it: a positive logit says "replaced".
_THRESHOLD = 0.5
# A shorter "sentence" is rather a name with a full stop in it.
_MIN_LENGTH = 6


def main(argv=None) -> int:
    """Parses the flags and writes the report; returns the exit code."""
    parser = arguments.ArgumentParser(prog="write_report", description=__doc__)
    parser.add_argument(
        "--build-dir", required=True, help="directory of a quickstart run"
    )
    # Without a GPU, which is not used here, TensorFlow prints a CUDA error.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    return arguments.run(_write_report, parser, argv)


def _write_report(args) -> None:
    started_at = time.monotonic()
    build = read_build(args.build_dir)
    from absl import logging

    logging.set_verbosity(logging.WARNING)
    # Imports TensorFlow: late, so that what is missing shows at once.
    from tools.quickstart import heldout_sentences

    detected = heldout_sentences.detect_heldout(
        os.path.join(args.build_dir, "pretrain"), _NUM_EXAMPLES
    )
    charts = draw_charts(build)
    build.seconds["report"] = round(time.monotonic() - started_at, 2)
    page = render(build, detected.examples, detected.num_parameters, charts)
    summary_path = os.path.join(args.build_dir, SUMMARY_FILE)
    files.write_atomically(
        summary_path, json.dumps(summarize(build), indent=1) + "\n"
    )
    report_path = os.path.join(args.build_dir, REPORT_FILE)
    files.write_atomically(report_path, page)
    print(in_short(build))
    print(f"report: {report_path}\nsummary: {summary_path}")


# --- Reading -----------------------------------------------------------------


class Build(typing.NamedTuple):
    """What a quickstart run left behind.

    Attributes:
      heldout: Held-out metrics of pre-training, by name.
      log: Lines of pre-training's metrics.jsonl.
      pretraining: Configuration of pre-training.
      pretrained: results.json of fine-tuning the pre-trained model.
      from_scratch: results.json of the same from random weights.
      confusion: How often (true label, predicted label) came, on test.
      seconds: Stage -> seconds.
      runs: Name of a run -> its last line in runs.jsonl.
    """

    heldout: dict[str, float]
    log: list[dict]
    pretraining: dict
    pretrained: dict
    from_scratch: dict
    confusion: collections.Counter
    seconds: dict[str, float]
    runs: dict[str, dict]


def read_build(build_dir: str) -> Build:
    """Reads everything but the models.

    Raises:
      ConfigError: If something is missing or damaged.
    """

    def text(*parts):
        return _read_text(build_dir, *parts)

    def as_json(*parts):
        return _parse_json(text(*parts), os.path.join(build_dir, *parts))

    def json_lines(*parts):
        path = os.path.join(build_dir, *parts)
        lines = [_parse_json(line, path) for line in text(*parts).splitlines()]
        if not lines:
            raise errors.ConfigError(f"Expected lines in {path}, found none")
        return lines

    heldout = as_json("pretrain", "eval_results.json")
    missing = [name for name in METRICS if name not in heldout]
    if missing:
        raise errors.ConfigError(
            f"Expected the metric {missing[0]} in "
            f"{os.path.join(build_dir, 'pretrain', 'eval_results.json')}: the "
            "report is about a model with a generator and a discriminator"
        )
    results = {}
    for name, is_from_scratch in (
        ("finetune_pretrained", False),
        ("finetune_from_scratch", True),
    ):
        results[name] = as_json(name, "results.json")
        _check_results(
            results[name],
            is_from_scratch,
            os.path.join(build_dir, name, "results.json"),
        )
    predictions = (
        "finetune_pretrained",
        f"trial_{results['finetune_pretrained']['best_on_dev']}",
        "test_predictions.tsv",
    )
    return Build(
        heldout=heldout,
        log=json_lines("pretrain", "metrics.jsonl"),
        pretraining=as_json("pretrain", "config.json"),
        pretrained=results["finetune_pretrained"],
        from_scratch=results["finetune_from_scratch"],
        confusion=count_predictions(
            text(*predictions), os.path.join(build_dir, *predictions)
        ),
        seconds={stage: _read_seconds(build_dir, stage) for stage in STAGES},
        runs={name: json_lines(name, "runs.jsonl")[-1] for name in _RUNS},
    )


def _read_text(build_dir: str, *parts: str) -> str:
    path = os.path.join(build_dir, *parts)
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        step = f"the stage {parts[-1]!r}"
        if parts[0] in _RUNS:
            model_dir = os.path.join(build_dir, parts[0])
            step = f"{_RUNS[parts[0]]} --model_dir={model_dir}"
        raise errors.ConfigError(
            f"Expected {path}, found none: run make quickstart, or the step "
            f"of it that writes this file: {step}"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise errors.ConfigError(f"Cannot read {path}: {error}") from None


def _parse_json(text: str, path: str) -> dict:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise errors.ConfigError(f"Cannot read {path}: {error}") from None


def _read_seconds(build_dir: str, stage: str) -> float:
    text = _read_text(build_dir, "seconds", stage).strip()
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not (math.isfinite(seconds) and seconds >= 0):
        raise errors.ConfigError(
            "Expected a number of seconds in "
            f"{os.path.join(build_dir, 'seconds', stage)}. Received: {text!r}"
        )
    return seconds


def _check_results(results: dict, is_from_scratch: bool, path: str) -> None:
    if "test" not in results:
        raise errors.ConfigError(
            f"Expected scores on a test set in {path}, found none: fine-tune "
            "with FinetuningDataConfig.test_file"
        )
    if results["from_scratch"] != is_from_scratch:
        raise errors.ConfigError(
            f"Expected FinetuningConfig.from_scratch={is_from_scratch} of the "
            f"run with {path}. Received: {results['from_scratch']}"
        )


def count_predictions(text: str, path: str) -> collections.Counter:
    """Counts (true label, predicted label) in a predictions file.

    Args:
      text: What is in the file: rows of tab-separated columns, of which the
        first two are "label" and "prediction".
      path: Where it comes from, for the error message.

    Raises:
      ConfigError: If the columns are others.
    """
    rows = [line.split("\t") for line in text.split("\n") if line]
    if not rows or rows[0][:2] != ["label", "prediction"]:
        raise errors.ConfigError(
            f"Expected the columns label and prediction in {path}. Received: "
            f"{' '.join(rows[0][:2]) if rows else 'an empty file'}"
        )
    return collections.Counter((row[0], row[1]) for row in rows[1:])


# --- The figures -------------------------------------------------------------


def _accuracies(results: dict, split: str) -> list[float]:
    """Accuracy of each seed, as a fraction; results.json has per cent."""
    return [trial[split]["accuracy"] / 100.0 for trial in results["trials"]]


def summarize(build: Build) -> dict:
    """What summary.json holds; accuracies are fractions."""
    pretrained = _accuracies(build.pretrained, "test")
    from_scratch = _accuracies(build.from_scratch, "test")
    return {
        "heldout": {name: build.heldout[name] for name in METRICS},
        "classifier": {
            "accuracy_pretrained": statistics.fmean(pretrained),
            "accuracy_from_scratch": statistics.fmean(from_scratch),
            "accuracy_majority": (
                build.pretrained["baseline"]["test"]["accuracy"] / 100.0
            ),
            "accuracy_pretrained_per_seed": pretrained,
            "accuracy_from_scratch_per_seed": from_scratch,
            "dev_accuracy_pretrained_per_seed": _accuracies(
                build.pretrained, "dev"
            ),
            "dev_accuracy_from_scratch_per_seed": _accuracies(
                build.from_scratch, "dev"
            ),
        },
        "seconds": dict(build.seconds),
    }


def in_short(build: Build) -> str:
    """The finding, in a sentence."""
    scores = summarize(build)["classifier"]
    pretrained = scores["accuracy_pretrained"]
    from_scratch = scores["accuracy_from_scratch"]
    if pretrained > from_scratch:
        finding = "Pre-training raises"
    elif pretrained < from_scratch:
        finding = "Pre-training did not help: it lowers"
    else:
        return (
            f"Pre-training leaves the test accuracy at {_percent(pretrained)}."
        )
    num_seeds = len(scores["accuracy_pretrained_per_seed"])
    mean = f" (mean of {num_seeds} seeds)" if num_seeds > 1 else ""
    return (
        f"{finding} the test accuracy from {_percent(from_scratch)} to "
        f"{_percent(pretrained)}{mean}; always giving the commonest label "
        f"scores {_percent(scores['accuracy_majority'])}."
    )


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.1f} %"


# --- Sentences ---------------------------------------------------------------

_SPECIAL = re.compile(r"\[[A-Z]+[0-9]*\]")
_SENTENCE_ENDS = (".", "!", "?")
_CLOSING = frozenset(".,;:!?)]}%")
_OPENING = frozenset("([{")
_BINDING = frozenset("-/_")
_QUOTES = frozenset("\"'`")
_AFTER_APOSTROPHE = frozenset(("s", "t", "d", "m", "re", "ve", "ll"))


def join_word_pieces(sentence: Sequence["Token"]) -> list[list[int]]:
    """Which word pieces are written without a space between them.

    A piece that goes on with a word starts with "##". What the generator drew
    stands alone, so that it is not overlooked, unless it goes on with a word
    where the original did.

    Args:
      sentence: Joined as the discriminator saw it.

    Returns:
      Groups of indices; spaces go between the groups.
    """
    groups: list[list[int]] = []
    is_open = dict.fromkeys(_QUOTES, False)
    joins_next = False
    for i, token in enumerate(sentence):
        piece = token.shown
        joins = joins_next
        joins_next = False
        if token.is_replaced:
            joins = _goes_on(piece) and _goes_on(token.original)
        elif _goes_on(piece) or piece in _CLOSING:
            joins = True
        elif piece in _OPENING:
            joins_next = True
        elif piece in _BINDING or _is_apostrophe(sentence, i):
            joins = joins_next = True
        elif piece in _QUOTES:
            joins = joins or is_open[piece]
            joins_next = not is_open[piece]
            is_open[piece] = not is_open[piece]
        if joins and groups:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


def _goes_on(piece: str) -> bool:
    return piece.startswith("##") and len(piece) > 2


def _is_apostrophe(sentence: Sequence["Token"], i: int) -> bool:
    return (
        sentence[i].shown == "'"
        and 0 < i < len(sentence) - 1
        and sentence[i - 1].shown[-1].isalpha()
        and sentence[i + 1].shown in _AFTER_APOSTROPHE
    )


def verdict(is_replaced: bool, probability: float) -> str:
    """What the discriminator's verdict on a token amounts to.

    Returns:
      "hit" (replaced, and called so), "miss" (replaced, called original),
      "false-alarm" (original, called replaced) or "clear".
    """
    if is_replaced:
        return "hit" if probability >= _THRESHOLD else "miss"
    return "false-alarm" if probability >= _THRESHOLD else "clear"


def split_sentences(tokens: Iterable["Token"]) -> list[list["Token"]]:
    """Splits an example after full stops and at its special tokens."""
    sentences: list[list[Token]] = [[]]
    for token in tokens:
        if _SPECIAL.fullmatch(token.original) and token.original != "[UNK]":
            sentences.append([])
            continue
        sentences[-1].append(token)
        if token.original in _SENTENCE_ENDS:
            sentences.append([])
    return [sentence for sentence in sentences if sentence]


def reads_well(sentence: Sequence["Token"]) -> bool:
    """Whether a sentence is whole, mostly words, and lightly corrupted.

    The discriminator's verdict plays no part.
    """
    words = [token.original for token in sentence[:-1]]
    num_replaced = sum(token.is_replaced for token in sentence)
    num_words = sum(
        word == "a" or (word.isalpha() and len(word) > 1) or _goes_on(word)
        for word in words
    )
    return (
        sentence[-1].original == "."
        and 9 <= len(words) <= 26
        and words[0].isalpha()
        and len(words[-1]) > 2  # Not "vs."
        and num_words >= 0.9 * len(words)
        and not any(_SPECIAL.fullmatch(word) for word in words)
        and 1 <= num_replaced <= 0.3 * len(words)
    )


def choose_sentences(
    examples: Iterable[Sequence["Token"]], num_sentences: int
) -> list[list["Token"]]:
    """Sentences that read well, spread evenly over the examples.

    At most one of each example, and none twice.
    """
    found: dict[tuple[str, ...], list[Token]] = {}
    for tokens in examples:
        last_length = _MIN_LENGTH
        for sentence in split_sentences(tokens):
            # "avoid pytest." is the start of "avoid pytest.raises here."
            is_whole = last_length >= _MIN_LENGTH
            last_length = len(sentence)
            key = tuple(token.original for token in sentence)
            if is_whole and reads_well(sentence) and key not in found:
                found[key] = sentence
                break
    sentences = list(found.values())
    if len(sentences) <= num_sentences:
        return sentences
    return [
        sentences[i * len(sentences) // num_sentences]
        for i in range(num_sentences)
    ]


# --- Charts ------------------------------------------------------------------

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
_INK, _MUTED, _LINE, _ACCENT, _SECOND, _NEUTRAL, _SURFACE = _COLOURS


class Chart(typing.NamedTuple):
    """A chart and what it is.

    Attributes:
      title: Goes above it.
      svg: The drawing.
    """

    title: str
    svg: str


def draw_charts(build: Build) -> dict[str, list[Chart]]:
    """Draws "curves" of pre-training and "bars" of the classifiers' scores."""
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
    return {
        "curves": [
            _draw_curve(name, title, train, heldout)
            for name, title in titles.items()
        ],
        "bars": [_draw_bars(build, split) for split in ("test", "dev")],
    }


def _draw_curve(name, title, train, heldout) -> Chart:
    figure, axes = _new_figure(3.3, 2.1)
    train = [r for r in train if name in r]
    heldout = [r for r in heldout if name in r]
    if name == "disc_accuracy":
        share = [r for r in train if "replaced_rate" in r]
        axes.plot(
            [r["step"] for r in share],
            [1 - r["replaced_rate"] for r in share],
            color=_NEUTRAL,
            linestyle=(0, (1.5, 1.5)),
            linewidth=1.4,
        )
    axes.plot(
        [r["step"] for r in train],
        [r[name] for r in train],
        color=_SECOND,
        linewidth=1.6,
    )
    axes.plot(
        [r["step"] for r in heldout],
        [r[name] for r in heldout],
        color=_ACCENT,
        linewidth=1.8,
        linestyle="--",
        marker="o",
        markersize=5,
        markeredgecolor=_SURFACE,
    )
    axes.set_xlabel("step")
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(_locator(5, integer=True))
    axes.yaxis.set_major_locator(_locator(5))
    axes.grid(axis="y", color=_LINE, linewidth=0.8)
    told = []
    for split, records in (("training", train), ("held-out", heldout)):
        if records:
            first, last = records[0], records[-1]
            told.append(
                f"{split} {first[name]:.3f} at step {first['step']}, "
                f"{last[name]:.3f} at step {last['step']}"
            )
    return Chart(title, _to_svg(figure, name, f"{title}: {'; '.join(told)}"))


def _draw_bars(build: Build, split: str) -> Chart:
    majority = build.pretrained["baseline"][split]["accuracy"]
    rows = (
        ("majority", [majority / 100], _NEUTRAL),
        ("from scratch", _accuracies(build.from_scratch, split), _SECOND),
        ("pre-trained", _accuracies(build.pretrained, split), _ACCENT),
    )
    figure, axes = _new_figure(4.4, 1.9)
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
                mean, row, xerr=spread, color=_INK, capsize=4, linewidth=1.3
            )
            # Side by side, so that equal seeds do not hide each other.
            step = 0.34 / (len(values) - 1)
            axes.scatter(
                values,
                [row - 0.17 + i * step for i in range(len(values))],
                s=22,
                color=_SURFACE,
                edgecolor=_INK,
                linewidth=1,
                zorder=3,
            )
        axes.text(end + 4, row, text, va="center", color=_INK)
        told.append(f"{label} {text}")
    axes.set_yticks(range(len(rows)), [label for label, _, _ in rows])
    # Room for the figures beside the bars.
    axes.set_xlim(0, 128)
    axes.set_xticks(range(0, 101, 25))
    axes.set_xlabel("accuracy, %", x=50 / 128)
    axes.spines["bottom"].set_visible(False)
    axes.grid(axis="x", color=_LINE, linewidth=0.8)
    num_rows = build.pretrained["num_rows"][split]
    title = f"Accuracy on the {split} set, {num_rows:,} texts"
    return Chart(title, _to_svg(figure, split, f"{title}: {'; '.join(told)}"))


def _locator(num_bins: int, **kwargs):
    from matplotlib import ticker

    return ticker.MaxNLocator(num_bins, **kwargs)


def _new_figure(width: float, height: float):
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
    axes.spines["bottom"].set_color(_LINE)
    axes.tick_params(color=_LINE, labelcolor=_MUTED, length=0, labelsize=10)
    axes.xaxis.label.set_color(_MUTED)
    return figure, axes


def _to_svg(figure, name: str, description: str) -> str:
    """The drawing, to be put into a page."""
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
    return adapt_svg(buffer.getvalue(), name, description)


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


# --- The page ----------------------------------------------------------------


def render(
    build: Build,
    examples: Sequence[Sequence["Token"]],
    num_parameters: int,
    charts: dict[str, list[Chart]],
) -> str:
    """The whole page.

    Args:
      build: The figures.
      examples: Judged held-out examples.
      num_parameters: Of the pre-trained model.
      charts: See `draw_charts`.

    Returns:
      HTML.
    """
    sections = (
        _header(build, num_parameters),
        _sentences_section(examples),
        _curves_section(build, charts["curves"]),
        _classifier_section(build, charts["bars"]),
        _metrics_section(build),
        _seconds_section(build.seconds),
        _runs_section(build.runs),
    )
    return _PAGE.replace("{style}", _STYLE).replace(
        "{body}", "\n".join(sections)
    )


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _tile(value: str, label: str, kind: str = "") -> str:
    return (
        f'<div class="tile {kind}"><b>{html.escape(value)}</b>'
        f"<span>{html.escape(label)}</span></div>"
    )


def _header(build: Build, num_parameters: int) -> str:
    scores = summarize(build)["classifier"]
    results = build.pretrained
    num_seeds = len(results["trials"])
    steps = build.pretraining["run"]["num_train_steps"]
    batch_size = build.pretraining["data"]["train_batch_size"]
    num_labels = len(results["labels"])
    total = sum(build.seconds.values())
    seeds = f"mean of {num_seeds} seeds" if num_seeds > 1 else "one seed"
    tiles = (
        _tile(
            _percent(scores["accuracy_pretrained"]),
            f"test accuracy, pre-trained ({seeds})",
            "strong",
        ),
        _tile(
            _percent(scores["accuracy_from_scratch"]),
            "the same network from random weights",
        ),
        _tile(
            _percent(scores["accuracy_majority"]),
            "always giving the commonest label",
        ),
        _tile(
            f"{build.heldout['disc_auc']:.3f}",
            "discriminator’s held-out AUC (0.5 is chance)",
        ),
        _tile(_duration(total), "for everything on this page"),
    )
    return f"""<header>
<p class="kicker">electra_tf · quickstart</p>
<h1>ELECTRA, from docstrings to a classifier</h1>
<p class="lead">{html.escape(in_short(build)).replace(" %", "&nbsp;%")}</p>
<p>A small ELECTRA ({num_parameters / 1e6:.1f} million parameters) read the
docstrings of Python libraries for {steps:,} steps of {batch_size} examples.
Some words of each text are masked; a <em>generator</em> fills the gaps with
words that it finds plausible, and a <em>discriminator</em> says of every word
whether it is the original. The discriminator was then fine-tuned to tell which
of {num_labels} libraries a docstring documents, from
{results["num_rows"]["train"]:,} labelled texts.</p>
<div class="tiles">{"".join(tiles)}</div>
</header>"""


def _sentences_section(examples) -> str:
    sentences = choose_sentences(examples, _NUM_SENTENCES)
    counts = collections.Counter(
        verdict(token.is_replaced, token.probability)
        for sentence in sentences
        for token in sentence
    )
    by_label: dict[bool, list[float]] = {True: [], False: []}
    for tokens in examples:
        for token in tokens:
            if not _SPECIAL.fullmatch(token.original):
                by_label[token.is_replaced].append(token.probability)
    on_average = " and ".join(
        f"{100 * statistics.fmean(values):.0f} % to {name} tokens"
        for values, name in (
            (by_label[True], "replaced"),
            (by_label[False], "original"),
        )
        if values
    )
    if sentences:
        shown = "\n".join(
            f"<li>{render_sentence(sentence)}</li>" for sentence in sentences
        )
        shown = f'<ol class="sentences">\n{shown}\n</ol>'
    else:
        shown = "<p>None of the held-out sentences reads well enough.</p>"
    return f"""<section>
<h2>Which words were replaced?</h2>
<p>Sentences that the model never trained on. The generator put its own words in
place of the <del>struck</del> ones; the stronger a word’s background, the surer
the discriminator is that it was replaced. The sentences were chosen for their
text, not for the verdict.</p>
<ul class="legend">
<li><span class="t hit" style="--p:.9">word</span>{_mark("hit")}
replaced, and found</li>
<li><span class="t miss" style="--p:.2">word</span>{_mark("miss")}
replaced, but missed</li>
<li><span class="t false-alarm" style="--p:.7">word</span>{_mark("false-alarm")}
original, called replaced</li>
<li class="scale">0 %<i></i>100 % sure that it was replaced</li>
</ul>
{shown}
<p class="note">In these {len(sentences)} sentences the discriminator, saying
“replaced” from 50 % on, found {counts["hit"]} of
{counts["hit"] + counts["miss"]} replacements, with {counts["false-alarm"]}
false alarms. Over {len(examples)} held-out examples it gives
{on_average or "no verdict"} on average. “…” opens a piece from within a word.
</p>
</section>"""


_MARKS = {
    "hit": ("✓", "found"),
    "miss": ("✗", "missed"),
    "false-alarm": ("!", "false alarm"),
}


def _mark(kind: str) -> str:
    if kind not in _MARKS:
        return ""
    sign, meaning = _MARKS[kind]
    return f'<sup class="{kind}" role="img" aria-label="{meaning}">{sign}</sup>'


def render_sentence(sentence: Sequence["Token"]) -> str:
    """A sentence as the discriminator saw it, with its verdicts, as HTML."""
    return " ".join(
        '<span class="word">'
        + "".join(
            _render_token(sentence[i], position > 0)
            for position, i in enumerate(group)
        )
        + "</span>"
        for group in join_word_pieces(sentence)
    )


def _render_token(token: "Token", is_joined: bool) -> str:
    kind = verdict(token.is_replaced, token.probability)
    shown = token.shown.removeprefix("##") if is_joined else token.shown
    shown = _with_ellipsis(shown)
    attributes = (
        f'class="t {kind}" style="--p:{token.probability:.2f}" '
        f'title="replaced with {100 * token.probability:.0f} %"'
    )
    if not token.is_replaced:
        return f"<span {attributes}>{html.escape(shown)}</span>{_mark(kind)}"
    original = html.escape(_with_ellipsis(token.original))
    return (
        f"<ruby {attributes}>{html.escape(shown)}"
        f"<rt><del>{original}</del></rt></ruby>{_mark(kind)}"
    )


def _with_ellipsis(piece: str) -> str:
    """'##ing' -> '…ing'."""
    return f"…{piece[2:]}" if _goes_on(piece) else piece


def _figures(charts: Iterable[Chart]) -> str:
    return "\n".join(
        f"<figure><figcaption>{html.escape(chart.title)}</figcaption>"
        f"{chart.svg}</figure>"
        for chart in charts
    )


def _curves_section(build: Build, curves: Sequence[Chart]) -> str:
    heldout = build.pretraining["data"]
    num_examples = heldout["num_eval_steps"] * heldout["eval_batch_size"]
    return f"""<section>
<h2>Pre-training</h2>
<p>Losses are in nats. The held-out figures come from up to {num_examples:,}
examples of docstrings that the model never trained on, without dropout.</p>
<ul class="legend">
<li><i class="key train"></i>training</li>
<li><i class="key heldout"></i>held-out</li>
<li><i class="key baseline"></i>calling every token original</li>
</ul>
<div class="grid three">{_figures(curves)}</div>
</section>"""


def _classifier_section(build: Build, bars: Sequence[Chart]) -> str:
    results = build.pretrained
    best = results["best_on_dev"]
    trial = next(t for t in results["trials"] if t["trial"] == best)
    degenerate = [
        f"{name}, trial {number}"
        for name, run in (
            ("pre-trained", build.pretrained),
            ("from scratch", build.from_scratch),
        )
        for number in run.get("degenerate_trials", [])
    ]
    note = ""
    if degenerate:
        note = (
            '<p class="note">Degenerate (every dev text gets one label): '
            f"{html.escape('; '.join(degenerate))}.</p>"
        )
    labels = results["labels"]
    head = "".join(
        f'<th scope="col"><span>{html.escape(label)}</span></th>'
        for label in labels
    )
    rows = "\n".join(
        _confusion_row(label, labels, build.confusion) for label in labels
    )
    return f"""<section>
<h2>Which library does a docstring document?</h2>
<p>Bars are means over the seeds, whiskers the standard deviation, dots the
seeds. Both networks have the same size, labelled texts and number of steps;
only their first weights differ.</p>
<div class="grid two">{_figures(bars)}</div>
{note}
<h3>What is taken for what</h3>
<p>Test set, pre-trained, trial {best}, the best on the dev set:
{trial["test"]["accuracy"]:.1f} % right.</p>
<div class="scroll"><table class="confusion">
<caption class="unseen">Confusion matrix: a row per true label, a column per
predicted label</caption>
<thead><tr><th class="corner">true ↓ · predicted →</th>{head}
<th scope="col"><span>found</span></th></tr></thead>
<tbody>
{rows}
</tbody></table></div>
</section>"""


def _confusion_row(label, labels, confusion) -> str:
    counts = [confusion[label, prediction] for prediction in labels]
    total = sum(counts)
    cells = "".join(
        f"<td{' class=right' if prediction == label else ''} "
        f'style="--p:{count / total if total else 0:.2f}">{count or "·"}</td>'
        for prediction, count in zip(labels, counts, strict=True)
    )
    found = f"{100 * confusion[label, label] / total:.0f} %" if total else "–"
    return (
        f'<tr><th scope="row">{html.escape(label)}</th>{cells}'
        f'<td class="found">{found}</td></tr>'
    )


def _metrics_section(build: Build) -> str:
    replaced = build.heldout.get("replaced_rate")
    share = "most of that" if replaced is None else f"{1 - replaced:.3f}"
    rows = "\n".join(
        f'<tr><th scope="row"><code>{name}</code></th>'
        f'<td class="number">{build.heldout[name]:.4f}</td>'
        f"<td>{html.escape(meaning.format(share=share))}</td></tr>"
        for name, meaning in METRICS.items()
    )
    return f"""<section>
<h2>The held-out metrics</h2>
<p>After step {build.pretraining["run"]["num_train_steps"]:,}, under the names
of the original code and computed its way.</p>
<table class="metrics"><thead><tr><th scope="col">Metric</th>
<th scope="col" class="number">Value</th><th scope="col">What it says</th></tr>
</thead><tbody>
{rows}
</tbody></table>
</section>"""


def _seconds_section(seconds: dict[str, float]) -> str:
    longest = max(max(seconds.values()), 1e-9)
    meanings = STAGES | {"report": "write this page"}
    rows = "\n".join(
        f'<tr><th scope="row">{html.escape(stage)}</th>'
        f"<td>{html.escape(meanings.get(stage, ''))}</td>"
        f'<td class="number">{value:,.1f}</td><td class="bar">'
        f'<i style="width:{100 * value / longest:.1f}%"></i></td></tr>'
        for stage, value in seconds.items()
    )
    total = sum(seconds.values())
    return f"""<section>
<h2>Where the time went</h2>
<table class="seconds"><thead><tr><th scope="col">Stage</th>
<th scope="col"></th><th scope="col" class="number">Seconds</th>
<th scope="col" class="bar"></th></tr></thead><tbody>
{rows}
</tbody><tfoot><tr><th scope="row">total</th><td></td>
<td class="number">{total:,.1f}</td><td class="bar"></td></tr></tfoot></table>
</section>"""


def _runs_section(runs: dict[str, dict]) -> str:
    record = runs["pretrain"]
    versions = {"python": record["python"]} | record["versions"]
    listed = "".join(
        f"<div><dt>{html.escape(name)}</dt>"
        f"<dd>{html.escape(version or 'not installed')}</dd></div>"
        for name, version in versions.items()
    )
    commands = "\n".join(
        f"<h3>{html.escape(name)}</h3>\n"
        f'<p class="when">{html.escape(run["time"])}</p>\n'
        f"<pre>{html.escape(command_of(run['argv']))}</pre>"
        for name, run in runs.items()
    )
    return f"""<section>
<h2>How to get the same again</h2>
<p>Commit <code>{html.escape(record["git_commit"] or "unknown")}</code></p>
<dl>{listed}</dl>
{commands}
</section>"""


def command_of(argv: Sequence[str]) -> str:
    """The command line of a run, from its sys.argv."""
    module, extension = os.path.splitext(os.path.basename(argv[0]))
    if extension == ".py" and module.startswith("run_"):
        start = f"python -m electra_tf.{module}"
    else:
        start = _quote(argv[0])
    return " \\\n    ".join([start, *map(_quote, argv[1:])])


def _quote(arg: str) -> str:
    """shlex.quote, but readable where a gin string holds single quotes."""
    if "'" in arg and not set(arg) & set('"$`\\!'):
        return f'"{arg}"'
    return shlex.quote(arg)


# The policy lets a browser load nothing at all: the page is whole by itself.
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>ELECTRA quickstart report</title>
<link rel="icon" href="data:,">
<style>
{style}
</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""

_STYLE = """:root {
  color-scheme: light dark;
  --page: #f6f6f3; --surface: #ffffff; --ink: #1c1e21; --muted: #5b6068;
  --line: #e1e2de; --accent: #0b6e99; --second: #8a63c9; --neutral: #8b9098;
  --glow: 232 110 30; --shade: 11 110 153; --bad: #b3261e; --good: #1a6b37;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #131518; --surface: #1b1e22; --ink: #e9eaec; --muted: #a3a9b2;
    --line: #33383f; --accent: #58b6dd; --second: #b596ec; --neutral: #8b9098;
    --glow: 214 84 12; --shade: 30 128 170; --bad: #ff9a90; --good: #7fd69a;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 17px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans",
    "Liberation Sans", "DejaVu Sans", sans-serif;
}
main { max-width: 68rem; margin: 0 auto; padding: 3rem 1.25rem 4rem; }
header, section { margin-bottom: 3.5rem; }
h1 { font-size: clamp(1.9rem, 5vw, 2.8rem); line-height: 1.15; margin: 0 0 1rem;
  letter-spacing: -.02em; }
h2 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .6rem;
  letter-spacing: -.01em; }
h3 { font-size: 1.05rem; margin: 2rem 0 .3rem; }
p { max-width: 44rem; margin: 0 0 1rem; }
.kicker { color: var(--muted); font-size: .85rem; margin-bottom: .4rem;
  letter-spacing: .04em; }
.lead { font-size: 1.2rem; line-height: 1.5; }
.note, .when { color: var(--muted); font-size: .9rem; }
.note { margin-top: 1rem; }
.when { margin: 0; }
code, pre { font-family: ui-monospace, "SF Mono", Menlo, Consolas,
  "Liberation Mono", "DejaVu Sans Mono", monospace; font-size: .85em; }
p code { overflow-wrap: anywhere; }
.metrics code { white-space: nowrap; }
pre { background: var(--surface); border: 1px solid var(--line);
  border-radius: 8px; padding: .9rem 1rem; margin: .4rem 0 1rem;
  white-space: pre-wrap; overflow-wrap: anywhere; line-height: 1.5; }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden;
  clip-path: inset(50%); }

.tiles { display: grid; gap: .75rem; margin-top: 1.75rem;
  grid-template-columns: repeat(auto-fit, minmax(10.5rem, 1fr)); }
.tile { background: var(--surface); border: 1px solid var(--line);
  border-radius: 10px; padding: .9rem 1rem; }
.tile b { display: block; font-size: 1.6rem; line-height: 1.25;
  font-variant-numeric: tabular-nums; }
.tile span { display: block; color: var(--muted); font-size: .85rem;
  line-height: 1.4; }
.tile.strong { border-color: var(--accent); }
.tile.strong b { color: var(--accent); }

.legend { list-style: none; display: flex; flex-wrap: wrap; margin: 0 0 1rem;
  padding: 0; gap: .3rem 1.6rem; color: var(--muted); font-size: .9rem; }
.legend .t { color: var(--ink); }
.scale i { display: inline-block; width: 6rem; height: .9em; margin: 0 .5em;
  border-radius: 3px; vertical-align: -.1em; border: 1px solid var(--line);
  background: linear-gradient(90deg, transparent, rgb(var(--glow) / .85)); }
.key { display: inline-block; width: 1.9em; margin-right: .5em;
  vertical-align: .25em; border-top: 3px solid; }
.key.train { border-color: var(--second); }
.key.heldout { border-color: var(--accent); border-top-style: dashed; }
.key.baseline { border-color: var(--neutral); border-top-style: dotted; }

.sentences { margin: 0; padding: .4rem 1.25rem; background: var(--surface);
  border: 1px solid var(--line); border-radius: 10px; list-style: none; }
.sentences li { padding: .55rem 0 .35rem; line-height: 2.35; }
.sentences li + li { border-top: 1px solid var(--line); }
.word { white-space: nowrap; }
.t { background: rgb(var(--glow) / calc(var(--p) * .85)); padding: .1em 0;
  border-radius: 3px; }
.t.hit, .t.miss, .t.false-alarm { border-bottom: 2px solid var(--ink);
  padding: .1em .15em; }
.t.hit { font-weight: 600; }
.t.miss { border-bottom-style: dashed; }
.t.false-alarm { border-bottom-style: dotted; }
ruby { ruby-align: center; }
rt { font-size: .72em; font-weight: 400; color: var(--ink);
  text-align: center; user-select: none; }
rt del { display: inline-block; padding: 0 .15em; }
del { text-decoration-color: var(--bad); text-decoration-thickness: 1px; }
sup { font-size: .72em; font-weight: 700; line-height: 0; margin-left: .1em; }
sup.hit { color: var(--good); }
sup.miss, sup.false-alarm { color: var(--bad); }

.grid { display: grid; gap: 1rem; }
.grid.two { grid-template-columns: repeat(auto-fit, minmax(19rem, 1fr)); }
.grid.three { grid-template-columns: repeat(auto-fit, minmax(18.5rem, 1fr)); }
figure { margin: 0; display: flex; flex-direction: column;
  justify-content: space-between; padding: .9rem 1rem .6rem;
  background: var(--surface); border: 1px solid var(--line);
  border-radius: 10px; }
figcaption { font-size: .92rem; font-weight: 600; margin-bottom: .4rem; }
svg { display: block; width: 100%; height: auto; }
svg text { font-family: inherit !important; }

table { border-collapse: collapse; width: 100%; font-size: .93rem; }
th, td { text-align: left; vertical-align: top; padding: .5rem .75rem .5rem 0;
  border-bottom: 1px solid var(--line); }
thead th { color: var(--muted); font-size: .85rem; font-weight: 600; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
.metrics .number, .seconds .number { padding-right: 1.5rem; }
.metrics th, .seconds th { font-weight: 600; }
.bar { width: 34%; vertical-align: middle; padding-right: 0; }
.bar i { display: block; height: .6rem; border-radius: 3px; min-width: 2px;
  background: var(--accent); }
tfoot th, tfoot td { border-bottom: 0; font-weight: 700; }

.scroll { overflow-x: auto; }
.confusion { width: auto; font-size: .88rem; border-collapse: separate;
  border-spacing: 2px; }
.confusion th, .confusion td { border: 0; padding: .35rem .5rem; }
.confusion td { text-align: center; min-width: 3.1rem; border-radius: 4px;
  font-variant-numeric: tabular-nums;
  background: rgb(var(--shade) / calc(var(--p) * .6)); }
.confusion td.right { font-weight: 700; outline: 1px solid var(--muted);
  outline-offset: -1px; }
.confusion td.found { background: none; color: var(--muted);
  white-space: nowrap; }
.confusion thead th { vertical-align: bottom; text-align: center; }
.confusion thead th.corner { font-weight: 400; text-align: left; }
.confusion tbody th { font-weight: 600; text-align: right; }

dl { display: grid; gap: .1rem 2rem; margin: 0 0 1rem; font-size: .92rem;
  grid-template-columns: repeat(auto-fill, minmax(15rem, 1fr)); }
dl div { display: flex; justify-content: space-between; gap: 1rem;
  border-bottom: 1px solid var(--line); padding: .25rem 0; }
dt { color: var(--muted); }
dd { margin: 0; font-variant-numeric: tabular-nums; }

@media (max-width: 40rem) {
  body { font-size: 16px; }
  main { padding-top: 1.75rem; }
  .confusion { font-size: .76rem; }
  .confusion th, .confusion td { padding: .3rem .15rem; min-width: 1.65rem; }
  .confusion thead th:not(.corner) span { writing-mode: vertical-rl;
    transform: rotate(180deg); }
  .seconds td:nth-child(2), .seconds th:nth-child(2) { display: none; }
  .metrics thead { display: none; }
  .metrics tr { display: grid; grid-template-columns: 1fr auto;
    border-bottom: 1px solid var(--line); padding: .5rem 0; }
  .metrics th, .metrics td { border: 0; padding: 0; }
  .metrics .number { padding: 0; }
  .metrics td:last-child { grid-column: 1 / -1; color: var(--muted); }
}
@media print { body { background: none; } section { break-inside: avoid; } }"""


if __name__ == "__main__":
    sys.exit(main())
