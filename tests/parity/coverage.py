"""What a golden folder holds, and what of it no check has read."""

import fnmatch
import json
import pathlib
import re
from collections.abc import Iterable, Iterator

import numpy as np
import tensorflow as tf


def entries(golden_dir: pathlib.Path) -> Iterator[str]:
    """Everything in a golden folder that some check must compare or read.

    Args:
      golden_dir: The folder.

    Yields:
      "a/b.npz:array" for each array, "a/b.json:key/key" for each figure (a
      list without objects in it is one figure), "a/model.ckpt-1:variable" for
      each variable of a checkpoint, and the path of every .jsonl and TFRecord
      file.
    """
    for path in sorted(golden_dir.rglob("*")):
        name = path.relative_to(golden_dir).as_posix()
        if path.suffix == ".npz":
            with np.load(path) as arrays:
                yield from (f"{name}:{key}" for key in arrays.files)
        elif path.suffix == ".json":
            value = json.loads(path.read_text(encoding="utf-8"))
            yield from (f"{name}:{key}" for key in _leaves(value))
        elif path.suffix == ".index":
            prefix = name.removesuffix(".index")
            for variable, _ in tf.train.list_variables(
                str(path.with_suffix(""))
            ):
                yield f"{prefix}:{variable}"
        elif path.suffix == ".jsonl" or "tfrecord-" in path.name:
            yield name


def _leaves(value, prefix: str = "") -> Iterator[str]:
    if isinstance(value, list) and any(isinstance(x, dict) for x in value):
        value = {str(index): item for index, item in enumerate(value)}
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{prefix}/{key}" if prefix else key)
    else:
        yield prefix


def not_consumed(
    found: Iterable[str],
    consumed: Iterable[str],
    not_compared: dict[str, str],
) -> tuple[list[str], dict[str, int]]:
    """Which entries no check has read.

    An entry counts as read when a check names it or anything that it is a part
    of: a file, a checkpoint, or a JSON object further up.

    Args:
      found: Of `entries`.
      consumed: What the checks name.
      not_compared: Pattern -> reason, for what nobody can compare.

    Returns:
      The entries that are left, and for each pattern that was needed the
      number of entries that it explains.
    """
    read = {
        re.sub(r"\.(index|data-\d+-of-\d+)(?=:|$)", "", entry)
        for entry in consumed
    }
    left, explained = [], dict.fromkeys(not_compared, 0)
    for entry in found:
        if read.isdisjoint(_wholes(entry)):
            for pattern in not_compared:
                if fnmatch.fnmatchcase(entry, pattern):
                    explained[pattern] += 1
                    break
            else:
                left.append(entry)
    return left, {k: n for k, n in explained.items() if n}


def _wholes(entry: str) -> Iterator[str]:
    """The entry and everything that it is a part of."""
    yield entry
    for separator in re.finditer("[:/]", entry):
        yield entry[: separator.start()]
