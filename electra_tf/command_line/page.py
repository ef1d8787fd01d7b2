"""What a person sees in a browser: one file that needs no network, its parts.

Imports no TensorFlow.
"""

import html
import pathlib
import re
import shlex
import string
from collections.abc import Iterable, Mapping, Sequence


class Html(str):
    """Text that is HTML already; every other text is escaped."""


class _Escaping(string.Formatter):
    """`str.format`, but values are escaped; of a list each is put in a line."""

    def format_field(self, value, format_spec):
        if isinstance(value, list):
            parts = (self.format_field(part, format_spec) for part in value)
            return "\n".join(filter(None, parts))
        if isinstance(value, Html):
            return value
        return html.escape(format(value, format_spec))


def fill(template: str, *args: object, **values: object) -> Html:
    """A template with values in its braces, as `str.format` puts them there.

    Args:
      template: HTML.
      *args: `Html`, lists of such, or anything else, which is escaped.
      **values: Likewise.
    """
    return Html(_Escaping().vformat(template, args, values))


def blocks(python_file: str) -> dict[str, str]:
    """A module's templates: what is below each <!-- name --> in its .html."""
    text = pathlib.Path(python_file).with_suffix(".html").read_text("utf-8")
    _, *parts = re.split(r"<!-- (\w+) -->\n", text)
    return {
        name: template.strip()
        for name, template in zip(parts[::2], parts[1::2], strict=True)
    }


_BLOCKS = blocks(__file__)


def render(title: str, sections: Sequence[str]) -> str:
    """A whole page of sections, of which empty ones are left out."""
    style = pathlib.Path(__file__).with_suffix(".css").read_text("utf-8")
    return fill(
        _BLOCKS["page"] + "\n",
        title=title,
        style=Html(style.rstrip()),
        body=list(sections),
    )


def header(
    kicker: str, title: str, lead: str, tiles: Iterable[Sequence[str]]
) -> Html:
    """The head of a page.

    Args:
      kicker: A line above the title.
      title: Of the page.
      lead: What it is about.
      tiles: Figures for large type, each with what it is, and "strong" for
        those that matter most.
    """
    filled = [
        fill(_BLOCKS["tile"], value, label, *kind or [""])
        for value, label, *kind in tiles
    ]
    return fill(
        _BLOCKS["header"], kicker=kicker, title=title, lead=lead, tiles=filled
    )


def section(title: str, *parts: str) -> Html:
    """A part of a page under its title; "" without any parts."""
    if not any(parts):
        return Html()
    return fill(_BLOCKS["section"], title=title, parts=list(parts))


def legend(curves: Mapping[str, str]) -> Html:
    """Kinds of curves, as in `charts.Curve`, -> what they are."""
    line = '<li><i class="key {}"></i>{}</li>'
    lines = [fill(line, kind, name) for kind, name in curves.items()]
    return fill('<ul class="legend">{}</ul>', lines)


def table(
    kind: str,
    columns: str,
    head: Sequence[str],
    rows: Iterable[Sequence[str | float]],
) -> Html:
    """A table whose first column names its rows.

    Args:
      kind: CSS class.
      columns: A letter for each: "t" text, "c" code, "n" number, "b" bar.
      head: Text above each column.
      rows: Text of the cells; of a bar its share, from 0 to 1.
    """
    cells = [_BLOCKS[f"name_{columns[0]}"]]
    cells += [_BLOCKS[f"cell_{column}"] for column in columns[1:]]
    heads = [
        fill(_BLOCKS[f"head_{'n' if column == 'n' else 't'}"], text)
        for column, text in zip(columns, head, strict=True)
    ]
    lines = [fill("<tr>" + "".join(cells) + "</tr>", *row) for row in rows]
    return fill(_BLOCKS["table"], kind=kind, head=heads, rows=lines)


def confusion_matrix(
    labels: Sequence[str], counts: Sequence[Sequence[int]]
) -> Html:
    """How often each label was taken for each, as a table in shades.

    Args:
      labels: C names.
      counts: For each true label how often each one was predicted.
    """
    rows = []
    for index, (label, row) in enumerate(zip(labels, counts, strict=True)):
        total = sum(row)
        cells = [
            fill(
                '<td class="{}" style="--p:{:.2f}">{}</td>',
                "right" if column == index else "",
                count / max(total, 1),
                count or "·",
            )
            for column, count in enumerate(row)
        ]
        share = f"{100 * row[index] / total:.0f} %" if total else "–"
        rows.append(fill(_BLOCKS["confusion_row"], label, cells, share))
    head = [
        fill('<th scope="col"><span>{}</span></th>', label) for label in labels
    ]
    return fill(_BLOCKS["confusion_matrix"], head=head, rows=rows)


def run(record: Mapping) -> Html:
    """Command, time, commit and versions of a line of runs.jsonl."""
    program, *flags = map(shlex.quote, record["argv"])
    if verb := re.search(r"\brun_(pretrain|finetun)ing\.py$", program):
        program = f"electra-tf {verb[1].replace('tun', 'tune')}"
    versions = {"python": record["python"]} | record["versions"]
    return fill(
        _BLOCKS["run"],
        time=record["time"],
        commit=record["git_commit"] or "unknown",
        command=" \\\n    ".join([program, *flags]),
        versions=[
            fill(_BLOCKS["version"], name, version or "not installed")
            for name, version in versions.items()
        ],
    )
