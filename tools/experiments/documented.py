"""Writes the tables of docs/ that are made of figures: JSON -> Markdown.

  python3 tools/experiments/documented.py [--check] [NAME=FILE ...]

Runs are measured once, and their figures kept in docs/figures/<name>.json. A
page has their tables between two comments,

  <!-- figures: NAME -->
  <!-- end -->

and this command writes them again, so that no number of a table is typed by
hand. Those in the prose around them are: what no figure rounds to is an error,
and the text to be mended.

NAME=FILE takes new figures of a name first, and draws the page's picture of
them:

  documented.py imdb=build/imdb/results.json ner=build/ner/ner.json
  documented.py ner_lengths=build/ner_lengths/ner_lengths.json
  documented.py schedule=build/schedule/runs/schedule.json
  documented.py records=build/records/records.json
  documented.py results=build/results/results.json
  documented.py objectives=build/experiments/texts_runs/objectives/results.json
  documented.py speed=build/benchmarks
"""

import argparse
import importlib
import pathlib
import re
import sys
import types
import typing
from collections.abc import Collection, Iterator, Mapping

import figure_files

from electra_tf import files
from electra_tf.command_line import arguments

_DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
_FOLDERS = ("benchmarks", "experiments", "quickstart")  # Of tools/.
_BLOCK = re.compile(
    r"(?P<begin><!-- figures: (?P<name>[\w.-]+) -->\n)"
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
      page: Its name in docs.
      module: Of tools/; its `blocks` makes a dictionary of Markdown
        tables, by their names, from what the file of the figures holds. Its
        `read`, if it has one, makes that of what NAME=FILE names.
      heading: Of the one section in which numbers are looked at, without its
        marks; None for the whole page.
      picture: Its name in docs; "" for none.
      drawn_by: The module of tools/ whose `draw` writes it.
      by_hand: What a run may know nothing of: new figures without it have
        that of the old ones.
    """

    figures: str
    page: str
    module: str
    heading: str | None = None
    picture: str = ""
    drawn_by: str = ""
    by_hand: tuple[str, ...] = ()


_OF_IMDB_BY_HAND = ("choices", "others", "scored_before")
# Some figures have two pages, of whose tables each is looked at.
SOURCES: tuple[Source, ...] = (
    Source(
        "imdb",
        "imdb.md",
        "imdb_table",
        picture="imdb.png",
        drawn_by="imdb_plot",
        by_hand=_OF_IMDB_BY_HAND,
    ),
    Source(
        "imdb", "imdb_tried.md", "imdb_tried_table", by_hand=_OF_IMDB_BY_HAND
    ),
    Source("records", "records.md", "records", by_hand=("recipes_of_longer",)),
    Source(
        "ner",
        "ner.md",
        "ner_figures",
        picture="ner.png",
        drawn_by="ner_plot",
    ),
    Source(
        "results",
        "results.md",
        "results_figures",
        picture="results_pretraining.png",
        drawn_by="results_figures",
    ),
    Source(
        "schedule",
        "scaling.md",
        "run_schedule",
        "Three lengths from one trunk",
        picture="schedule.png",
        drawn_by="schedule_plot",
    ),
    Source(
        "objectives",
        "experiments_results.md",
        "experiments_table",
        "Past the plateau (Table 5)",
        picture="experiments_objectives.png",
        drawn_by="experiments_plot",
        by_hand=("repeated_words", "more_fine_tuning"),
    ),
    Source(
        "frozen",
        "experiments_results.md",
        "frozen_figures",
        "What fine-tuning does not see",
        picture="experiments_frozen.png",
        drawn_by="frozen_figures",
    ),
    Source(
        "objectives_mean",
        "experiments_results.md",
        "experiments_table",
        "Heads that read the mean",
        picture="experiments_objectives_mean.png",
        drawn_by="experiments_plot",
    ),
    Source(
        "ner_lengths",
        "experiments_results.md",
        "run_ner_lengths",
        "CoNLL-2003 after longer pre-training",
    ),
    Source(
        "objectives_reviews",
        "experiments_results.md",
        "experiments_table",
        "With reviews",
        by_hand=("name",),
    ),
    Source(
        "objectives_first",
        "experiments_results.md",
        "experiments_table",
        "All of Table 5, earlier runs",
        by_hand=("name", "without_sts", "paper_lead", "plateau_disc_auc"),
    ),
    Source(
        "weight_sharing",
        "experiments_results.md",
        "experiments_table",
        "Weight sharing (section 3.2)",
        picture="experiments_weight_sharing.png",
        drawn_by="experiments_plot",
    ),
    Source(
        "generator_size",
        "experiments_results.md",
        "experiments_table",
        "Size of the generator (Figure 3, left)",
        picture="experiments_generator_size.png",
        drawn_by="experiments_plot",
    ),
    Source(
        "training_algorithms",
        "experiments_results.md",
        "experiments_table",
        "Training algorithms (Figure 3, right)",
        picture="experiments_training_algorithms.png",
        drawn_by="experiments_plot",
    ),
    Source(
        "speed",
        "performance.md",
        "speed_page",
        "One run of `make benchmarks`",
    ),
)
# Of several figures together: a picture, and tables of a page.
_SUMMARY, _DRAWN_BY = "summary.png", "summary_plot"
_ORDERINGS_PAGE, _ORDERINGS = "experiments_results.md", "orderings_table"


def main(argv=None) -> int:
    """Parses the flags and writes, or checks; returns the exit code."""
    parser = arguments.ArgumentParser(prog="documented", description=__doc__)
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; what is not up to date is an error",
    )
    parser.add_argument(
        "taken",
        nargs="*",
        type=_named_path,
        metavar="NAME=FILE",
        help="figures to take, of " + ", ".join(_names()),
    )
    return arguments.run(_document, parser, argv)


def _names() -> list[str]:
    """Those of the figures, each once."""
    return list(dict.fromkeys(source.figures for source in SOURCES))


def _named_path(text: str) -> tuple[str, pathlib.Path]:
    name, equals, path = text.partition("=")
    known = _names()
    if name not in known or not (equals and path):
        raise argparse.ArgumentTypeError(
            f"expected NAME=FILE with a name of {', '.join(known)}, received "
            f"{text!r}"
        )
    return name, pathlib.Path(path)


def _document(args: argparse.Namespace) -> None:
    taken = dict(args.taken)
    if len(taken) < len(args.taken) or (taken and args.check):
        raise ValueError(
            "Expected one file for each name, and none with --check. "
            f"Received: {', '.join(name for name, _ in args.taken)}."
        )
    figures = {
        source.figures: _take(source, taken[source.figures])
        if source.figures in taken
        else read_figures(source)
        for source in SOURCES
    }
    pages = _pages(figures)
    for path, (before, after) in pages.items():
        if args.check and before != after:
            raise ValueError(
                f"Expected the tables of docs/figures. Received: {path} with "
                "others; run tools/experiments/documented.py."
            )
    # Whatever is wrong with any of them is said before a page is changed.
    _draw(figures, taken)
    for name in taken:
        figure_files.write(figures_path(name), figures[name])
        print(f"written: {figures_path(name)}")
    for path, (before, after) in pages.items():
        if before != after:
            files.write_atomically(str(path), after)
            print(f"written: the tables of {path}")
    for source in SOURCES:
        _, text = pages[page_path(source)]
        prose = section(text, source.heading)
        if wrong := unknown_numbers(prose, figures[source.figures]):
            raise ValueError(
                f"Expected numbers of {source.figures}.json in the text of "
                f"{page_path(source)}. Received: {', '.join(wrong)}; no figure "
                "rounds to them. Tables are up to date: mend the text."
            )


def _take(source: Source, path: pathlib.Path) -> dict:
    """New figures.

    Raises:
      ValueError: If they are missing or damaged, or a table of them is empty,
        or has fewer rows than the page.
    """
    module = _module(source.module)
    figures = getattr(module, "read", files.read_json)(path)
    before_tables: dict[str, str] = {}
    if figures_path(source.figures).is_file():
        before = read_figures(source)
        kept = {name: before[name] for name in source.by_hand if name in before}
        figures = kept | figures
        if hasattr(module, "as_before"):
            with figure_files.expecting(
                f"the figures of {source.page}", str(path), ValueError
            ):
                figures = module.as_before(figures, before)
        before_tables = blocks(source, before)
    tables = blocks(source, figures, str(path))
    for name, table in tables.items():
        if table.startswith("|") and _num_rows(table) < 1:
            raise ValueError(
                f"Expected figures of finished runs. Received: {path}, with "
                f"nothing for the table {name} of {source.page}."
            )
    for name, table in before_tables.items():
        ours = _num_rows(tables.get(name, ""))
        if ours < _num_rows(table):
            raise ValueError(
                f"Expected the {_num_rows(table)} rows of the table {name} of "
                f"{source.page}, or more. Received: {path}, with {ours}."
            )
    return figures


def _num_rows(table: str) -> int:
    lines = [line for line in table.splitlines() if line.startswith("|")]
    return max(0, len(lines) - 2)


def _pages(
    figures: Mapping[str, dict],
) -> dict[pathlib.Path, tuple[str, str]]:
    """The text of each page as it is, and with its tables.

    Raises:
      ValueError: If a page has no place for a table, or one for no table.
    """
    tables: dict[pathlib.Path, dict[str, str]] = {}
    for source in SOURCES:
        of_page = tables.setdefault(page_path(source), {})
        of_page |= blocks(source, figures[source.figures])
    if (path := _DOCS / _ORDERINGS_PAGE) in tables:
        with figure_files.expecting(
            f"the figures of {_ORDERINGS_PAGE}", str(path), ValueError
        ):
            tables[path] |= _module(_ORDERINGS).blocks(figures)
    found = {}
    for path, of_page in tables.items():
        text = path.read_text("utf-8")
        for match in _BLOCK.finditer(text):
            if match["name"] not in of_page:
                raise ValueError(
                    f"Expected tables of docs/figures in {path}. Received: "
                    f"{match['name']!r}, which no figures make."
                )
        found[path] = text, with_blocks(text, of_page, str(path))
    return found


def _draw(figures: Mapping[str, dict], taken: Collection[str]) -> None:
    """Draws the pictures of figures that were taken."""
    for source in SOURCES:
        if source.picture and source.figures in taken:
            path = str(_DOCS / source.picture)
            of_source = figures[source.figures]
            with figure_files.expecting(
                "figures to draw", source.figures, ValueError
            ):
                _module(source.drawn_by).draw(of_source, path)
            print(f"written: {path}")
    summary = _module(_DRAWN_BY)
    if not set(summary.FIGURES).isdisjoint(taken):
        with figure_files.expecting(
            "figures to draw", ", ".join(taken), ValueError
        ):
            summary.draw(figures, str(_DOCS / _SUMMARY))
        print(f"written: {_DOCS / _SUMMARY}")


def page_path(source: Source) -> pathlib.Path:
    return _DOCS / source.page


def figures_path(name: str) -> pathlib.Path:
    return _DOCS / "figures" / f"{name}.json"


def read_figures(source: Source) -> dict:
    """What the file of the figures holds.

    Raises:
      ValueError: If it is not there, or no JSON.
    """
    return files.read_json(figures_path(source.figures))


def blocks(source: Source, figures: dict, path: str = "") -> dict[str, str]:
    """The tables of a source, as Markdown, by their names.

    Args:
      source: One of `SOURCES`.
      figures: Of it.
      path: Where they are from, for messages; docs/figures by default.

    Raises:
      ValueError: If they are not of its layout.
    """
    module = _module(source.module)
    path = path or str(figures_path(source.figures))
    what = f"the figures of {source.page}"
    with figure_files.expecting(what, path, ValueError):
        return module.blocks(figures)


def _module(name: str) -> types.ModuleType:
    for folder in _FOLDERS:
        path = str(_DOCS.parent / "tools" / folder)
        if path not in sys.path:
            sys.path.append(path)
    return importlib.import_module(name)


def with_blocks(text: str, tables: dict[str, str], path: str) -> str:
    """The text of a page with tables in their places.

    Args:
      text: Of the page.
      tables: Name -> Markdown.
      path: Of the page, for messages.

    Returns:
      The text; blocks of other names are as they were.

    Raises:
      ValueError: If the page has no place for a table, or two, or one without
        an end.
    """
    found = list(_BLOCK.finditer(text))
    for match in found:
        if "<!-- figures:" in match["content"]:
            raise ValueError(
                f"Expected <!-- end --> behind {match['name']!r} in {path}. "
                "Received: another table before it."
            )
    names = [match["name"] for match in found]
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
