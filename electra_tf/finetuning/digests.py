"""What a model learned from and is scored on -> digests, to find a change.

A trial keeps those of its rows, split by split, of its labels, of the
vocabulary and of the initial weights. They are of contents, not of files: rows
that move to another line, or to another file, are the same.
"""

import dataclasses
import hashlib
import typing
from collections.abc import Iterable, Mapping

import numpy as np

from electra_tf import files

# Splits that a trial cannot do without.
_NEEDED = ("train", "dev")
# Where an example comes from, and which one it is: not what it says.
_NO_CONTENT = ("source", "eid")


def of_values(values: Iterable) -> str:
    """The digest of values in order: texts, numbers, and what is made of them.

    Of named tuples, dataclasses and other objects the fields count that differ
    from their defaults, but for those that say where an example is from.
    """
    return files.sha256_of_values(map(_plain, values))


def of_tensors(tensors: Mapping[str, np.ndarray]) -> str:
    """The digest of named tensors, whatever their order."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = np.ascontiguousarray(tensors[name])
        digest.update(f"{name} {tensor.dtype} {tensor.shape}\n".encode())
        digest.update(tensor.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def check(record: Mapping, path: str) -> None:
    """Refuses digests of this format that are not whole.

    Args:
      record: As a file has them.
      path: Of that file.

    Raises:
      CheckpointError: If a part is missing, or is none.
    """
    files.check_fields(
        record,
        path,
        ("rows", "of_texts", "labels", "vocabulary", "initial weights"),
        rows=dict[str, dict],
        of_texts=dict[str, dict],
        labels=dict,
    )


def changes(ours: Mapping, theirs: Mapping) -> list[str]:
    """What two trials have both, but not the same.

    Args:
      ours: As `plan.TrialPlan.digests`.
      theirs: Likewise, of an earlier run.

    Returns:
      Such as "train rows", "pooling" and "initial weights"; of several tasks,
      "train rows of rte". A split that only `ours` has is none, but for train
      and dev.
    """
    several = len(ours["rows"]) > 1
    found = []
    for task, rows in ours["rows"].items():
        of_task = f" of {task}" if several else ""
        were = theirs["rows"].get(task, {})
        for split in dict.fromkeys([*rows, *were]):
            is_new = split not in were and split not in _NEEDED
            if rows.get(split) != were.get(split) and not is_new:
                gone = "" if split in rows else " (no longer there)"
                found.append(f"{split} rows{of_task}{gone}")
        if ours["labels"][task] != theirs["labels"].get(task):
            found.append(f"labels{of_task}")
        read, was_read = ours["of_texts"][task], theirs["of_texts"][task]
        found += [
            f"{name}{of_task}"
            for name in sorted({*read, *was_read})
            if read.get(name) != was_read.get(name)
        ]
    found += [
        name
        for name in ("vocabulary", "initial weights")
        if ours[name] != theirs[name]
    ]
    return found


def new_splits(ours: Mapping, theirs: Mapping) -> list[str]:
    """The splits that only `ours` has, of any task; see `changes`."""
    return list(
        dict.fromkeys(
            split
            for task, rows in ours["rows"].items()
            for split in rows
            if split not in theirs["rows"].get(task, {})
        )
    )


def _plain(value: typing.Any) -> object:
    """A value whose `repr` says its content, and nothing else."""
    if value is None or isinstance(value, str | bytes | bool | int | float):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        values = {field.name: getattr(value, field.name) for field in fields}
        return _fields(values, {field.name: field.default for field in fields})
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        defaults = getattr(value, "_field_defaults", {})
        return _fields(value._asdict(), defaults)
    if isinstance(value, Mapping):
        return _fields(value, {})
    if isinstance(value, set | frozenset):
        return sorted(map(repr, map(_plain, value)))
    if isinstance(value, Iterable):
        if isinstance(value, list | tuple) and set(map(type, value)) <= {str}:
            return list(value)  # Words: many, and soon done.
        return [_plain(item) for item in value]
    return _fields(getattr(value, "__dict__", {}), {})


def _fields(values: Mapping, defaults: Mapping) -> dict:
    return {
        name: _plain(value)
        for name, value in sorted(values.items(), key=repr)
        if name not in _NO_CONTENT
        and not (name in defaults and _plain(defaults[name]) == _plain(value))
    }
