"""The rows that a fine-tuned model has most wrong -> HTML with their texts."""

import html
import itertools
from collections.abc import Sequence

from electra_tf.finetuning import report_rows
from electra_tf.finetuning.report_rows import Row, WrongRow

# Of a text that is shown.
_MOST_CHARACTERS = 1000


def render(
    rows: Sequence[Row], kind: str, labels: Sequence[str], most: int
) -> str:
    """The worst rows of a split.

    Args:
      rows: Of the split.
      kind: Of the task, as `Task.description` has it.
      labels: Of the task.
      most: Rows that are shown.

    Returns:
      HTML; nothing for kinds of tasks that are not known here.
    """
    if not rows or kind not in _SAID:
        return ""
    said, show = _SAID[kind]
    wrong = report_rows.wrong_rows(rows, kind, labels)
    if not wrong:
        return "<h3>The worst rows</h3>\n<p>Every row is right.</p>"
    # Once, where several trials have it wrong.
    different: dict[tuple[str, ...], WrongRow] = {}
    for found in wrong:
        different.setdefault(found.row.texts, found)
    worst = itertools.islice(different.values(), most)
    shown = "\n".join(f"<li>{show(found, labels)}</li>" for found in worst)
    counted = f"{len(wrong):,} of {len(rows):,} answers are wrong. "
    if kind == "regression":
        counted = ""
    return f"""<h3>The worst rows</h3>
<p>{counted}{said} Look at these first: often it is the label that is wrong.</p>
<ol class="rows">
{shown}
</ol>"""


def in_bold(label: str) -> str:
    """A label in a sentence."""
    return f'<b dir="auto">{html.escape(label)}</b>'


def _texts(texts: Sequence[str]) -> str:
    return "".join(f'<p class="text" dir="auto">{_cut(t)}</p>' for t in texts)


def _cut(text: str) -> str:
    """A text for the page, without its end if it is long."""
    if len(text) > _MOST_CHARACTERS:
        text = text[:_MOST_CHARACTERS] + " …"
    return html.escape(text) or '<span class="note">(an empty text)</span>'


def _percent(probability: float) -> str:
    """Never 100 % of what is wrong, nor 0 of what is right."""
    return f"{min(max(100 * probability, 0.1), 99.9):.1f}&nbsp;%"


def _show_class(found: WrongRow, labels: Sequence[str]) -> str:
    row = found.row
    said = f"taken for {in_bold(row.prediction)} with {_percent(found.error)}"
    if row.label in labels:
        of_label = row.scores[labels.index(row.label)]
        said += f" · labelled {in_bold(row.label)}, {_percent(of_label)}"
    else:
        said += f" · labelled {in_bold(row.label)}, which it never saw"
    return f"{_texts(row.texts)}<p>{said}</p>"


def _show_decisions(found: WrongRow, labels: Sequence[str]) -> str:
    row = found.row
    said = [
        f"{'lacks' if has_label else 'has too much'} {in_bold(label)}: "
        f"{_percent(probability)}"
        for label, has_label, probability in report_rows.wrong_decisions(
            row, labels
        )
    ]
    return f"{_texts(row.texts)}<p>{' · '.join(said)}</p>"


def _show_number(found: WrongRow, labels: Sequence[str]) -> str:
    row = found.row
    return (
        f"{_texts(row.texts)}<p>taken for "
        f"{in_bold(f'{float(row.prediction):.3f}')} · labelled "
        f"{in_bold(row.label)} · off by {found.error:.3f}</p>"
    )


def _show_tags(found: WrongRow, labels: Sequence[str]) -> str:
    row = found.row
    (text,) = row.texts
    words, tags = text.split(" "), report_rows.tags_of_words(row)
    if len(words) != len(tags):  # A word with a space in it.
        return _texts([text, row.label, row.prediction])
    shown = []
    for word, (label, predicted) in zip(words, tags, strict=True):
        word = html.escape(word)
        if label != predicted:
            word = (
                f'<ruby class="wrong">{word}<rt><del>{html.escape(predicted)}'
                f"</del> {html.escape(label)}</rt></ruby>"
            )
        shown.append(word)
    sure = f"sure of each word with {_percent(row.scores[0])} or more"
    return f'<p class="text tags" dir="auto">{" ".join(shown)}</p><p>{sure}</p>'


def _show_answer(found: WrongRow, labels: Sequence[str]) -> str:
    row = found.row
    key, question, *_ = row.texts
    given = in_bold(row.prediction or "nothing")
    right = in_bold(row.label or "no answer")
    return (
        f"{_texts([question])}<p>answered {given} · right is {right} · "
        f"<code>{html.escape(key)}</code></p>"
    )


# Kind of task -> what the rows are, and how one is shown.
_SAID = {
    "classification": ("The surest of these mistakes come first.", _show_class),
    "multi_label_classification": (
        "Those with the surest wrong decision come first.",
        _show_decisions,
    ),
    "regression": ("Those that are off most come first.", _show_number),
    "tagging": (
        "The surest come first; below each wrong word the predicted tag, "
        "struck out, and the right one.",
        _show_tags,
    ),
    "question_answering": (
        "Those that share the fewest words with a right answer come first.",
        _show_answer,
    ),
}
