"""Tables and numbers of the documents are those of the figures."""

import importlib
import json
import re

import documented
import orderings_table
import pytest
import run_schedule
import summary_plot

from tests import helpers

PAGE = """# A page

## Scores

On dev it is 81.3 %, 0.5 above the other ({x}`9.9` and [this](a-1.5.md)).

<!-- figures: scores -->
| a | 7.7 |
<!-- end -->

## Cost

It took 12.5 minutes of version 2.20.0.
"""
FIGURES = {"dev": [0.8127, 0.808], "difference": 0.5, "runs": {"a": True}}


@pytest.mark.parametrize(
    "source", documented.SOURCES, ids=lambda source: source.figures
)
def test_a_page_has_its_figures(source):
    path = documented.page_path(source)
    text = path.read_text("utf-8")
    figures = documented.read_figures(source)
    tables = documented.blocks(source, figures)
    assert documented.with_blocks(text, tables, str(path)) == text, (
        "run tools/experiments/documented.py"
    )
    prose = documented.section(text, source.heading)
    assert not documented.unknown_numbers(prose, figures)


def test_orderings_are_those_of_the_figures():
    figures = {
        s.figures: documented.read_figures(s) for s in documented.SOURCES
    }
    tables = orderings_table.blocks(figures)
    path = documented._DOCS / "experiments_results.md"
    text = path.read_text("utf-8")
    assert documented.with_blocks(text, tables, str(path)) == text
    (line,) = (
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in tables["orderings"].splitlines()
        if "two stages" in line
    )
    of_suite = figures["training_algorithms"]["rows"]
    (row,) = (row for row in of_suite if row["row"] == "two_stage")
    less = row["minus_reference"]
    assert line[:3] == ["joint", "two stages", ""]
    assert [cell for cell in line[3:] if cell] == [
        f"**{-less['mean']:+.1f} [{-less['high']:+.1f}, {-less['low']:+.1f}]**"
        f", {less['num_seeds']} seeds"
    ]


def test_rows_without_a_reference_are_in_no_order():
    figures = {
        s.figures: documented.read_figures(s) for s in documented.SOURCES
    }
    before = orderings_table.blocks(figures)
    rows = figures["objectives"]["rows"]
    alone = {k: v for k, v in rows[1].items() if k != "minus_reference"}
    alone["budget_flops"] = None
    more = [*rows, alone, alone | {"minus_reference": None}]
    objectives = figures["objectives"] | {"rows": more}
    found = orderings_table.blocks(figures | {"objectives": objectives})
    assert found == before


def test_a_table_is_put_in_its_place():
    after = documented.with_blocks(PAGE, {"scores": "| b | 8.8 |\n"}, "a.md")
    assert "7.7" not in after
    assert "-->\n\n| b | 8.8 |\n\n<!-- end -->\n\n## Cost" in after
    assert documented.with_blocks(PAGE, {}, "a.md") == PAGE


@pytest.mark.parametrize("page", ["", PAGE + PAGE])
def test_a_table_without_one_place_is_an_error(page):
    with pytest.raises(ValueError, match="Expected one place for 'scores'"):
        documented.with_blocks(page, {"scores": ""}, "a.md")


def test_numbers_that_no_figure_rounds_to_are_found():
    page = PAGE.replace("{x}", "")
    scores = documented.section(page, "Scores")
    assert documented.unknown_numbers(scores, FIGURES) == []
    assert documented.unknown_numbers(page, FIGURES) == ["12.5"]
    assert documented.unknown_numbers("a rise of 0.6", FIGURES) == ["0.6"]
    # A flag is no number.
    assert documented.unknown_numbers("1.0", {"a": True}) == ["1.0"]


def test_a_section_that_is_not_there_is_an_error():
    with pytest.raises(ValueError, match="Expected the heading 'Gone'"):
        documented.section(PAGE, "Gone")


def test_figures_that_are_not_there_are_an_error():
    source = documented.Source("gone", "gone.md", "documented")
    with pytest.raises(ValueError, match="Cannot read .*gone.json"):
        documented.read_figures(source)


def test_a_table_without_an_end_is_an_error():
    page = (
        PAGE.replace("<!-- end -->", "") + "<!-- figures: b -->\n<!-- end -->"
    )
    with pytest.raises(ValueError, match="<!-- end --> behind 'scores'"):
        documented.with_blocks(page, {"b": ""}, "a.md")


# --- The command --------------------------------------------------------------

RUNS = [
    {
        "way": way,
        "length": length,
        "seed": 1,
        "num_steps": length,
        "cpu_seconds": 1.0,
        "heldout": dict.fromkeys(run_schedule.METRICS, 0.5),
        "curve": [[100, 1.0], [length, 0.5]],
    }
    for way in ("straight", "trunk")
    for length in run_schedule.LENGTHS
]
NEW = {
    "lengths": list(run_schedule.LENGTHS),
    "runs": RUNS,
    "summary": run_schedule.summarize(RUNS),
}


@pytest.fixture
def docs(tmp_path, monkeypatch):
    """The folder of a page, its figures and its picture."""
    folder = tmp_path / "docs"
    (folder / "figures").mkdir(parents=True)
    (folder / "scaling.md").write_text(
        "### Three lengths from one trunk\n"
        + "".join(
            f"<!-- figures: {name} -->\n<!-- end -->\n"
            for name in ("schedule", "schedule-cost")
        )
    )
    (source,) = (s for s in documented.SOURCES if s.figures == "schedule")
    monkeypatch.setattr(documented, "_DOCS", folder)
    monkeypatch.setattr(documented, "SOURCES", (source,))
    # Of others, which are not here.
    monkeypatch.setattr(summary_plot, "FIGURES", ())
    monkeypatch.setattr(
        documented, "_module", lambda name: importlib.import_module(name)
    )
    return folder


def write_figures(path, figures):
    path.write_text(
        figures if isinstance(figures, str) else json.dumps(figures)
    )
    return f"schedule={path}"


@pytest.mark.dear
def test_new_figures_are_taken_into_their_page(docs, tmp_path, capsys):
    flag = write_figures(tmp_path / "new.json", NEW)
    assert documented.main([flag]) == 0
    page = (docs / "scaling.md").read_text()
    assert "| 2,000 |" in page and "| steps       | 12,000" in page
    assert helpers.read_json(docs / "figures" / "schedule.json") == NEW
    assert (docs / "schedule.png").read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out.count("written: ") == 3
    assert documented.main([]) == documented.main(["--check"]) == 0
    (docs / "scaling.md").write_text(f"{page}From 28.7 on it is half.\n")
    for flags in ([], ["--check"]):
        assert documented.main(flags) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert "scaling.md. Received: 28.7; no figure rounds" in line
        assert line.endswith("mend the text.")
    (docs / "scaling.md").write_text(page.replace("2,000", "2,001"))
    assert documented.main(["--check"]) == 1
    assert "Expected the tables of docs/figures" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("figures", "message"),
    [
        ("", "Cannot read .*new.json"),
        ("[]", "Cannot read .*new.json: it holds no JSON object"),
        ({"rows": []}, "Expected the figures of scaling.md.*new.json"),
        (NEW | {"summary": {}}, "Expected the figures of scaling.md.*new.json"),
        (
            NEW | {"summary": NEW["summary"] | {"lengths": []}},
            "Expected figures of finished runs.*nothing for the table schedule",
        ),
    ],
)
def test_figures_that_are_none_change_nothing(
    figures, message, docs, tmp_path, capsys
):
    flag = write_figures(tmp_path / "new.json", figures)
    write_figures(docs / "figures" / "schedule.json", NEW)
    before = {path: path.read_bytes() for path in docs.rglob("*.*")}
    assert documented.main([flag]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(f"documented: error: {message}", line), line
    assert before == {path: path.read_bytes() for path in docs.rglob("*.*")}


def test_a_table_that_no_figures_make_is_an_error(docs, capsys):
    write_figures(docs / "figures" / "schedule.json", NEW)
    with open(docs / "scaling.md", "a") as page:
        page.write("<!-- figures: other -->\n<!-- end -->\n")
    assert documented.main([]) == 1
    assert "Received: 'other', which no figures" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (["other=a.json"], 2, "expected NAME=FILE with a name of schedule"),
        (["schedule="], 2, "expected NAME=FILE"),
        (["schedule=a.json", "schedule=b.json"], 1, "one file for each name"),
        (["--check", "schedule=a.json"], 1, "none with --check"),
    ],
)
def test_mistakes_of_the_flags(flags, code, message, docs, capsys):
    try:
        found = documented.main(flags)
    except SystemExit as error:
        found = error.code
    assert found == code
    assert message in capsys.readouterr().err


def test_what_is_kept_by_hand_outlives_new_figures(tmp_path, monkeypatch):
    source, tried = (s for s in documented.SOURCES if s.figures == "imdb")
    before = documented.read_figures(source)
    path = tmp_path / "new.json"
    path.write_text(
        json.dumps({k: v for k, v in before.items() if k != "choices"})
    )
    assert documented._take(source, path) == before
    choices = [*before["choices"], before["choices"][0]]
    path.write_text(json.dumps(before | {"choices": choices}))
    assert documented._take(source, path)["choices"] == choices
    # One pilot does not take the place of all others.
    path.write_text(json.dumps(before | {"choices": choices[:1]}))
    with pytest.raises(ValueError, match="rows of the table choices .* with 1"):
        documented._take(tried, path)


@pytest.fixture
def objectives(tmp_path):
    """The source, its figures, and a file for new ones."""
    (source,) = (s for s in documented.SOURCES if s.figures == "objectives")
    return source, documented.read_figures(source), tmp_path / "new.json"


def test_compute_that_a_page_does_not_show_is_left_out(objectives):
    source, before, path = objectives
    more = {**before["rows"][0], "budget_flops": 1.5e12}
    path.write_text(json.dumps(before | {"rows": [more, *before["rows"]]}))
    assert documented._take(source, path) == before


def test_figures_of_other_tasks_are_refused(objectives):
    source, before, path = objectives
    path.write_text(json.dumps(before | {"tasks": ["ner"]}))
    with pytest.raises(
        ValueError, match="tasks cola, .*Received: ner; run_exp"
    ):
        documented._take(source, path)


def test_a_table_that_loses_rows_is_refused(objectives):
    source, before, path = objectives
    path.write_text(json.dumps(before | {"rows": before["rows"][1:]}))
    with pytest.raises(ValueError, match="rows of the table objectives-"):
        documented._take(source, path)
