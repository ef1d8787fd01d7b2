"""Writes the tables of docs/ that are made of figures: JSON -> Markdown.

  python3 tools/experiments/documented.py [--check]

Runs are measured once, and their figures kept in docs/figures/<name>.json. A
page has their tables between two comments,

  <!-- figures: NAME -->
  <!-- end -->

and this command writes them again, so that no number of a table is typed by
hand. Those in the prose around them are: `unknown_numbers` finds what no figure
rounds to.
"""

import argparse
import importlib
import json
import pathlib
import re
import sys
import typing
from collections.abc import Iterator

from electra_tf import files
from electra_tf.command_line import arguments

_DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
_FOLDERS = ("benchmarks", "experiments", "quickstart")  # Of tools/.
_BLOCK = re.compile(
    r"(?P<begin><!-- figures: (?P<name>[\w-]+) -->\n)"
    r"(?P<content>.*?)(?P<end><!-- end -->)",
    re.S,
)
# What is no prose: blocks, code, rows of tables, addresses of links.
_NO_PROSE = re.compile(
    r"<!-- figures:.*?<!-- end -->|```.*?```|`[^`]*`|^ {4}[^\n]*$|^\|[^\n]*$"
    r"|\]\([^)]*\)",
    re.S | re.M,
)
# A number with a point in it that belongs to no name, version or section.
_DECIMAL = re.compile(
    r"(?<![\w.,])(?<![Ss]ection )(\d+\.\d+)(?![\w.]*\d)(?!e-)"
)


class Source(typing.NamedTuple):
    """Figures, and the place that shows them.

    Attributes:
      figures: Their name in docs/figures, without .json.
      page: Its name in docs, or README.md.
      module: Of tools/; its `blocks` makes a dictionary of Markdown
        tables, by their names, from what the file of the figures holds.
      heading: Of the one section in which numbers are looked at, without its
        marks; None for the whole page.
    """

    figures: str
    page: str
    module: str
    heading: str | None = None


SOURCES: tuple[Source, ...] = (
    Source("imdb", "imdb.md", "imdb_table"),
    Source("records", "records.md", "records"),
    Source("ner", "ner.md", "ner_figures"),
    Source(
        "objectives_docstrings",
        "experiments.md",
        "experiments_table",
        "Objectives at a quarter of that, without reviews",
    ),
    Source(
        "weight_sharing",
        "experiments.md",
        "experiments_table",
        "Weight sharing (section 3.2)",
    ),
    Source(
        "schedule",
        "scaling.md",
        "run_schedule",
        "Three lengths from one trunk",
    ),
    Source(
        "speed",
        "performance.md",
        "speed_page",
        "One run of `make benchmarks`",
    ),
)


def main(argv=None) -> int:
    """Parses the flags and writes, or checks; returns the exit code."""
    parser = arguments.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; a table that is not up to date is an error",
    )
    return arguments.run(_document, parser, argv)


def _document(args: argparse.Namespace) -> None:
    for source in SOURCES:
        path = page_path(source)
        before = path.read_text("utf-8")
        after = with_blocks(before, blocks(source), str(path))
        if args.check and before != after:
            raise ValueError(
                f"Expected the tables of {source.figures}.json. Received: "
                f"{path} with others; run tools/experiments/documented.py."
            )
        if before != after:
            files.write_atomically(str(path), after)
            print(f"Wrote the tables of {source.figures}.json into {path}.")


def page_path(source: Source) -> pathlib.Path:
    folder = _DOCS.parent if source.page == "README.md" else _DOCS
    return folder / source.page


def read_figures(source: Source) -> dict:
    """What the file of the figures holds.

    Raises:
      ValueError: If it is not there, or no JSON.
    """
    path = _DOCS / "figures" / f"{source.figures}.json"
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as e:
        raise ValueError(
            f"Expected figures in JSON. Received: {path}: {e}"
        ) from e


def blocks(source: Source) -> dict[str, str]:
    """The tables of a source, as Markdown, by their names."""
    for folder in _FOLDERS:
        path = str(_DOCS.parent / "tools" / folder)
        if path not in sys.path:
            sys.path.append(path)
    module = importlib.import_module(source.module)
    return module.blocks(read_figures(source))


def with_blocks(text: str, tables: dict[str, str], path: str) -> str:
    """The text of a page with tables in their places.

    Args:
      text: Of the page.
      tables: Name -> Markdown.
      path: Of the page, for messages.

    Returns:
      The text; blocks of other names are as they were.

    Raises:
      ValueError: If the page has no place for a table, or two.
    """
    names = [match["name"] for match in _BLOCK.finditer(text)]
    for name in tables:
        if names.count(name) != 1:
            raise ValueError(
                f"Expected one place for {name!r} in {path}: <!-- figures: "
                f"{name} --> and <!-- end -->. Received: {names.count(name)}."
            )

    def filled(match: re.Match) -> str:
        if match["name"] not in tables:
            return match[0]
        table = tables[match["name"]].strip()
        return f"{match['begin']}\n{table}\n\n{match['end']}"

    return _BLOCK.sub(filled, text)


def section(text: str, heading: str | None) -> str:
    """The section below a heading, down to the next of its rank.

    Raises:
      ValueError: If there is no such heading.
    """
    if heading is None:
        return text
    begin = re.search(rf"^(#+) {re.escape(heading)}\n", text, re.M)
    if begin is None:
        raise ValueError(f"Expected the heading {heading!r}. Received: none.")
    rest = text[begin.end() :]
    end = re.search(rf"^#{{1,{len(begin[1])}}} ", rest, re.M)
    return rest[: end.start()] if end else rest


def unknown_numbers(text: str, figures: object) -> list[str]:
    """Numbers with a decimal point in prose that no figure rounds to.

    Args:
      text: Markdown; tables, code and blocks of figures are left out.
      figures: What a file of figures holds; a share may be told in per cent.
    """
    known = list(_numbers(figures))
    return [
        number
        for number in _DECIMAL.findall(_NO_PROSE.sub(" ", text))
        if not any(_rounds_to(value, number) for value in known)
    ]


def _numbers(figures: object) -> Iterator[float]:
    if isinstance(figures, dict):
        figures = list(figures.values())
    if isinstance(figures, list):
        for value in figures:
            yield from _numbers(value)
    elif isinstance(figures, int | float) and not isinstance(figures, bool):
        yield float(figures)


def _rounds_to(value: float, number: str) -> bool:
    decimals = len(number.split(".")[1])
    return any(
        f"{abs(x):.{decimals}f}" == number for x in (value, 100.0 * value)
    )


if __name__ == "__main__":
    sys.exit(main())
