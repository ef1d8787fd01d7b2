"""Figures of several suites -> by how much their references are ahead."""

from collections.abc import Mapping

import experiment_runs
import experiments_table
import tables
from experiment_suites import SUITES

# The columns: what differs between them but for the compute, and where their
# figures are. Of figures with the same heading none has a row of another.
_FIGURES = {
    "objectives": "",
    "generator_size": "",
    "training_algorithms": "",
    "objectives_mean": ", mean",
    "objectives_reviews": ", reviews",
    "objectives_first": ", earlier",
    "weight_sharing": "",
}


def blocks(figures: Mapping[str, dict]) -> dict[str, str]:
    """The table "orderings", as Markdown.

    Args:
      figures: Those of each suite, as `experiments_table.collect` returns them,
        by their names in docs/figures; others are passed over.
    """
    cells: dict[tuple[str, str], dict[str, str]] = {}
    columns: dict[tuple[float, str], str] = {}
    for name, kind in _FIGURES.items():
        of_suite = figures[name]
        for row in of_suite["rows"]:
            # What was at no compute that the reference was at has none.
            minus_reference = row.get("minus_reference")
            if row["row"] == of_suite["reference"] or not minus_reference:
                continue
            budget = row["budget_flops"]
            heading = f"{experiment_runs.budget_name(budget)}{kind}"
            columns[budget or 0.0, kind] = heading
            of_pair = cells.setdefault((of_suite["suite"], row["row"]), {})
            of_pair[heading] = _cell(minus_reference)
    headings = [heading for _, heading in sorted(columns.items())]
    table = [["ahead", "of", "paper", *headings]]
    for suite_name, suite in SUITES.items():
        reference = next(r for r in suite.rows if r.name == suite.reference)
        for row in suite.rows:
            if (suite_name, row.name) not in cells:
                continue
            paper = ""
            if reference.paper is not None and row.paper is not None:
                paper = f"{reference.paper - row.paper:+.1f}"
            of_pair = cells[suite_name, row.name]
            table.append(
                [reference.title, row.title, paper]
                + [of_pair.get(heading, "") for heading in headings]
            )
    return {"orderings": tables.markdown(table)}


def _cell(minus_reference: dict) -> str:
    """'**+8.6 [+5.8, +11.4]**, 4 seeds': the reference minus the row."""
    low, high = minus_reference["low"], minus_reference["high"]
    turned = minus_reference | {
        "mean": -minus_reference["mean"],
        "low": None if high is None else -high,
        "high": None if low is None else -low,
    }
    number = minus_reference["num_seeds"]
    seeds = f"{number} seed{'s' * (number > 1)}"
    return f"{experiments_table.difference(turned)}, {seeds}"
