"""Figures as text: aligned columns, and the report of a classifier."""

from collections.abc import Sequence

from electra_tf.command_line.text_lines import display_width

# Of more labels those with the lowest F1 are shown.
_MOST_LABELS = 30
# A matrix of more labels is a list of what is confused most often.
_MOST_IN_MATRIX = 12
_MOST_CONFUSIONS = 15


def number(value: float | None) -> str:
    """With two digits, "-" for none."""
    return "-" if value is None else f"{value:.2f}"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines: the first column to the left, the others to the right."""
    widths = [
        max(map(display_width, column)) for column in zip(*rows, strict=True)
    ]
    lines = []
    for row in rows:
        blanks = [
            " " * (width - display_width(text))
            for width, text in zip(widths, row, strict=True)
        ]
        line = row[0] + blanks[0]
        for blank, text in zip(blanks[1:], row[1:], strict=True):
            line += f"  {blank}{text}"
        lines.append(line.rstrip())
    return lines


def format_report(title: str, report: dict) -> list[str]:
    """A report as lines.

    Args:
      title: Whose answers these are.
      report: See `tasks.reports`.
    """
    classes = report["classes"]
    shown = list(classes)
    lines = [f"{title}, by label:"]
    if len(shown) > _MOST_LABELS:
        # By a stable sort: of equals the first ones.
        worst = sorted(shown, key=lambda label: classes[label]["f1"])
        shown = worst[:_MOST_LABELS]
        lines[0] = (
            f"{title}, the {_MOST_LABELS} of {len(classes)} labels with the "
            "lowest F1 (results.json has all):"
        )
    columns = ("precision", "recall", "f1")
    rows = [["", *columns, "support"]]
    for label in shown:
        scores = classes[label]
        rows.append(
            [
                label,
                *(number(scores[name]) for name in columns),
                str(scores["support"]),
            ]
        )
    total = str(sum(scores["support"] for scores in classes.values()))
    for name in ("macro", "weighted"):
        f1 = number(report[f"{name}_f1"])
        rows.append([f"{name} F1", "", "", f1, total])
    lines += ["  " + line for line in aligned(rows)]
    if "confusion_matrix" in report:
        lines += _format_confusions(**report["confusion_matrix"])
    return lines


def _format_confusions(
    labels: Sequence[str], counts: Sequence[Sequence[int]]
) -> list[str]:
    """The confusion matrix, or its greatest entries off the diagonal."""
    if len(labels) <= _MOST_IN_MATRIX:
        rows = [["", *labels]]
        for label, of_label in zip(labels, counts, strict=True):
            rows.append([label, *map(str, of_label)])
        return ["how often each label (row) was taken for which (column):"] + [
            "  " + line for line in aligned(rows)
        ]
    confused = confusions(labels, counts, _MOST_CONFUSIONS)
    if not confused:
        return []
    return ["taken for another label most often:"] + [
        f"  {count} x {true} for {predicted}"
        for count, true, predicted in confused
    ]


def confusions(
    labels: Sequence[str], counts: Sequence[Sequence[int]], most: int
) -> list[tuple[int, str, str]]:
    """What is mistaken most often: how often, the true label, the predicted.

    Args:
      labels: C names.
      counts: For each true label how often each one was predicted.
      most: Of mistakes.
    """
    wrong = (
        (count, true, predicted)
        for true, of_true in zip(labels, counts, strict=True)
        for predicted, count in zip(labels, of_true, strict=True)
        if count and true != predicted
    )
    return sorted(wrong, key=lambda found: -found[0])[:most]
