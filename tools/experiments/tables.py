"""Tables of docs/, in Markdown."""

from collections.abc import Sequence


def markdown(table: Sequence[Sequence[str]]) -> str:
    """The rows as a Markdown table, columns aligned."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    header, *rows = [
        [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        for row in table
    ]
    rule = ["-" * width for width in widths]
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, rule, *rows))
