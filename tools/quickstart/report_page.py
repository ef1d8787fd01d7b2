"""A quickstart's figures, charts and sentences -> one page of HTML."""

import collections
import html
import pathlib
import statistics
import typing
from collections.abc import Sequence

import quickstart_figures
import shown_sentences
from quickstart_figures import Build

from electra_tf.command_line import page

if typing.TYPE_CHECKING:
    from heldout_sentences import Token

# Sentences that are shown of the judged examples.
_NUM_SENTENCES = 10


def render(
    build: Build,
    examples: Sequence[Sequence["Token"]],
    num_parameters: int,
    charts: dict[str, str],
) -> str:
    """The whole page.

    Args:
      build: The figures.
      examples: Judged held-out examples.
      num_parameters: Of the pre-trained model.
      charts: See `quickstart_charts.draw_charts`.

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
    style = pathlib.Path(__file__).with_suffix(".css").read_text("utf-8")
    return page.render("ELECTRA quickstart report", sections, style)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _header(build: Build, num_parameters: int) -> str:
    scores = quickstart_figures.summarize(build)["classifier"]
    percent = quickstart_figures.percent
    results = build.pretrained
    num_seeds = len(results["trials"])
    steps = build.pretraining["run"]["num_train_steps"]
    batch_size = build.pretraining["data"]["train_batch_size"]
    num_labels = len(results["labels"])
    total = sum(build.seconds.values())
    seeds = f"mean of {num_seeds} seeds" if num_seeds > 1 else "one seed"
    tiles = (
        page.tile(
            percent(scores["accuracy_pretrained"]),
            f"test accuracy, pre-trained ({seeds})",
            "strong",
        ),
        page.tile(
            percent(scores["accuracy_from_scratch"]),
            "the same network from random weights",
        ),
        page.tile(
            percent(scores["accuracy_majority"]),
            "always giving the commonest label",
        ),
        page.tile(
            f"{build.heldout['disc_auc']:.3f}",
            "discriminator’s held-out AUC (0.5 is chance)",
        ),
        page.tile(_duration(total), "for everything on this page"),
    )
    finding = html.escape(quickstart_figures.in_short(build))
    finding = finding.replace(" %", "&nbsp;%")
    return f"""<header>
<p class="kicker">electra_tf · quickstart</p>
<h1>ELECTRA, from docstrings to a classifier</h1>
<p class="lead">{finding}</p>
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
    sentences = shown_sentences.choose_sentences(examples, _NUM_SENTENCES)
    counts = collections.Counter(
        shown_sentences.verdict(token.is_replaced, token.probability)
        for sentence in sentences
        for token in sentence
    )
    by_label: dict[bool, list[float]] = {True: [], False: []}
    for tokens in examples:
        for token in tokens:
            if not shown_sentences.SPECIAL.fullmatch(token.original):
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
            f"<li>{shown_sentences.render_sentence(sentence)}</li>"
            for sentence in sentences
        )
        shown = f'<ol class="sentences">\n{shown}\n</ol>'
    else:
        shown = "<p>None of the held-out sentences reads well enough.</p>"
    mark = shown_sentences.mark
    return f"""<section>
<h2>Which words were replaced?</h2>
<p>Sentences that the model never trained on. The generator put its own words in
place of the <del>struck</del> ones; the stronger a word’s background, the surer
the discriminator is that it was replaced. The sentences were chosen for their
text, not for the verdict.</p>
<ul class="legend">
<li><span class="t hit" style="--p:.9">word</span>{mark("hit")}
replaced, and found</li>
<li><span class="t miss" style="--p:.2">word</span>{mark("miss")}
replaced, but missed</li>
<li><span class="t false-alarm" style="--p:.7">word</span>{mark("false-alarm")}
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


def _curves_section(build: Build, curves: str) -> str:
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
<div class="grid three">{curves}</div>
</section>"""


def _classifier_section(build: Build, bars: str) -> str:
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
    counts = [
        [build.confusion[label, prediction] for prediction in labels]
        for label in labels
    ]
    return f"""<section>
<h2>Which library does a docstring document?</h2>
<p>Bars are means over the seeds, whiskers the standard deviation, dots the
seeds. Both networks have the same size, labelled texts and number of steps;
only their first weights differ.</p>
<div class="grid two">{bars}</div>
{note}
<h3>What is taken for what</h3>
<p>Test set, pre-trained, trial {best}, the best on the dev set:
{trial["test"]["accuracy"]:.1f} % right. Its
<a href="finetune_pretrained/report.html">own page</a> has each class, the worst
texts and the calibration.</p>
{page.confusion_matrix(labels, counts)}
</section>"""


def _metrics_section(build: Build) -> str:
    replaced = build.heldout.get("replaced_rate")
    share = "most of that" if replaced is None else f"{1 - replaced:.3f}"
    rows = "\n".join(
        f'<tr><th scope="row"><code>{name}</code></th>'
        f'<td class="number">{build.heldout[name]:.4f}</td>'
        f"<td>{html.escape(meaning.format(share=share))}</td></tr>"
        for name, meaning in quickstart_figures.METRICS.items()
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
    meanings = quickstart_figures.STAGES | {"report": "write this page"}
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
    commands = "\n".join(
        f"<h3>{html.escape(name)}</h3>\n"
        f'<p class="when">{html.escape(run["time"])}</p>\n'
        f"<pre>{html.escape(page.command_of(run['argv']))}</pre>"
        for name, run in runs.items()
    )
    return f"""<section>
<h2>How to get the same again</h2>
<p>Commit <code>{html.escape(record["git_commit"] or "unknown")}</code></p>
<dl>{page.versions_of(record)}</dl>
{commands}
</section>"""
