"""Tables and numbers of the documents are those of the figures."""

import documented
import pytest

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
    assert (
        documented.with_blocks(text, documented.blocks(source), str(path))
        == text
    ), "run tools/experiments/documented.py"
    prose = documented.section(text, source.heading)
    assert not documented.unknown_numbers(
        prose, documented.read_figures(source)
    )


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
    with pytest.raises(ValueError, match="Expected figures in JSON.*gone.json"):
        documented.read_figures(source)
