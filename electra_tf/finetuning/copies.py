"""Rows with the same texts: in training and in what is scored, or twice.

A row of dev that training has seen scores better than a new one, and so does a
row of a fold whose copy is in the others. Both are found by their texts alone,
as the model reads them: white space, and case where it is lowered, do not
count.
"""

import hashlib
import os
import typing
from collections.abc import Hashable, Mapping, Sequence

from electra_tf.tasks.task import Task


def keys(
    task: Task, examples: Sequence, do_lower_case: bool
) -> list[Hashable] | None:
    """For each row what its copies have, too.

    Args:
      task: Of the rows.
      examples: The rows.
      do_lower_case: Whether the model reads lower case only.

    Returns:
      A key for each; None if the task does not say what a row's texts are.
    """
    found: list[Hashable] = []
    for example in examples:
        texts = task.texts_of(example)
        if texts is None:
            return None
        digest = hashlib.blake2b(digest_size=16)
        for text in texts:
            text = " ".join(text.split())
            if do_lower_case:
                text = text.lower()
            # No text has a line end any more.
            digest.update(f"{text}\n".encode("utf-8", "surrogatepass"))
        found.append(digest.digest())
    return found


def about(
    task: Task, examples: Mapping[str, Sequence], do_lower_case: bool
) -> dict:
    """How many rows are copies; fit for JSON.

    Args:
      task: Of the rows.
      examples: Split -> its rows.
      do_lower_case: See `keys`.

    Returns:
      Of "train" the rows that are copies of rows before them, and of every
      other split those that are in "train", too: "num_rows", of these
      "num_with_other_label", and "example", where such a row is and where the
      row of "train" is. Nothing for a task that does not say what its texts
      are.
    """
    of_splits = {
        split: keys(task, rows, do_lower_case)
        for split, rows in examples.items()
    }
    train = of_splits.get("train")
    if train is None or None in of_splits.values():
        return {}
    first: dict[Hashable, int] = {}
    for row, key in enumerate(train):
        first.setdefault(key, row)
    found: dict[str, dict] = {}
    for split, of_split in of_splits.items():
        pairs = [
            (row, first[key])
            for row, key in enumerate(typing.cast(list, of_split))
            if key in first and not (split == "train" and first[key] == row)
        ]
        rows, train_rows = examples[split], examples["train"]
        others = [
            (row, seen)
            for row, seen in pairs
            if _has_other_label(rows[row], train_rows[seen])
        ]
        found[split] = {
            "num_rows": len(pairs),
            "num_with_other_label": len(others),
        }
        if pairs:
            row, seen = (others or pairs)[0]
            found[split]["example"] = [
                _place(rows[row], split),
                _place(train_rows[seen], "train"),
            ]
    return found


def remarks(
    told: Mapping[str, dict],
    num_rows: Mapping[str, int],
    has_folds: bool = False,
) -> list[str]:
    """What the user should know of copies, a line for each split.

    Args:
      told: Of `about`.
      num_rows: Split -> number of its rows.
      has_folds: Whether "train" is cut into folds.
    """
    lines = []
    for split, found in told.items():
        if not found["num_rows"]:
            continue
        place, in_train = found["example"]
        if split != "train":
            what, advice = "are in train, too", "scores of these mean little"
        elif has_folds:
            what, advice = "are copies of others", "copies are in one fold"
        else:
            what, advice = "are copies of others", "they count as often"
        others = found["num_with_other_label"]
        if others:
            what += f", {others} of them with another label"
        lines.append(
            f"{split}: {found['num_rows']} of {num_rows[split]} rows {what}: "
            f"{place} is {in_train}; {advice}"
        )
    return lines


def _has_other_label(example: object, other: object) -> bool:
    labels = [_label(example), _label(other)]
    return None not in labels and labels[0] != labels[1]


def _label(example: object) -> object:
    """The label, or labels, of a row; None where they are not known."""
    is_known = getattr(example, "has_label", True)
    is_known &= getattr(example, "has_labels", True)
    label = getattr(example, "labels", ()) or getattr(example, "label", None)
    return label if is_known else None


def _place(example: object, split: str) -> str:
    """Where a row is, in words."""
    source = getattr(example, "source", None)
    if source:
        path, row = source
        return f"row {row} of {os.path.basename(os.fspath(path))}"
    return f"example {getattr(example, 'eid', 0) + 1} of {split}"
