"""What a person sees in a browser: one file that needs no network, its parts.

Imports no TensorFlow.
"""

import html
import os
import pathlib
import re
import shlex
from collections.abc import Mapping, Sequence


def render(title: str, sections: Sequence[str], style: str = "") -> str:
    """A whole page.

    Args:
      title: Of the browser's window.
      sections: HTML.
      style: CSS, besides that of all pages.

    Returns:
      HTML.
    """
    # Its policy lets a browser load nothing: the page is whole by itself.
    frame, common = (
        pathlib.Path(__file__).with_suffix(suffix).read_text("utf-8")
        for suffix in (".html", ".css")
    )
    parts = {
        "title": html.escape(title),
        "style": f"{common}{style}".rstrip(),
        "body": "\n".join(sections),
    }
    # At once, so that no part is looked for in another.
    return re.sub(r"\{(title|style|body)\}", lambda m: parts[m[1]], frame)


def tile(value: str, label: str, kind: str = "") -> str:
    """A figure in large type above what it is."""
    return (
        f'<div class="tile {kind}"><b>{html.escape(value)}</b>'
        f"<span>{html.escape(label)}</span></div>"
    )


def confusion_matrix(
    labels: Sequence[str], counts: Sequence[Sequence[int]]
) -> str:
    """How often each label was taken for each, as a table in shades.

    Args:
      labels: C names.
      counts: For each true label how often each one was predicted.
    """
    head = "".join(
        f'<th scope="col"><span>{html.escape(label)}</span></th>'
        for label in labels
    )
    rows = "\n".join(
        _confusion_row(index, label, counts[index])
        for index, label in enumerate(labels)
    )
    return f"""<div class="scroll"><table class="confusion">
<caption class="unseen">Confusion matrix: a row per true label, a column per
predicted label</caption>
<thead><tr><th class="corner">true ↓ · predicted →</th>{head}
<th scope="col"><span>found</span></th></tr></thead>
<tbody>
{rows}
</tbody></table></div>"""


def _confusion_row(index: int, label: str, counts: Sequence[int]) -> str:
    total = sum(counts)
    cells = "".join(
        f"<td{' class=right' if column == index else ''} "
        f'style="--p:{count / total if total else 0:.2f}">{count or "·"}</td>'
        for column, count in enumerate(counts)
    )
    found = f"{100 * counts[index] / total:.0f} %" if total else "–"
    return (
        f'<tr><th scope="row">{html.escape(label)}</th>{cells}'
        f'<td class="found">{found}</td></tr>'
    )


def versions_of(record: Mapping) -> str:
    """Python and packages of a line of runs.jsonl, for a <dl>."""
    versions = {"python": record["python"]} | record["versions"]
    return "".join(
        f"<div><dt>{html.escape(name)}</dt>"
        f"<dd>{html.escape(version or 'not installed')}</dd></div>"
        for name, version in versions.items()
    )


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
