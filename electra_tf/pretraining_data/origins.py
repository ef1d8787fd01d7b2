"""What the manifests beside records say of them, and of one another."""

import itertools
import os
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from electra_tf.pretraining_data import manifest, parts
from electra_tf.text import vocabulary

# What else decides where a document begins and ends.
_OF_DOCUMENTS = ("blanks_separate_docs", "text_field")


def treatment_of_text(files: Iterable[str]) -> dict[str, bool]:
    """What was done to the text of records before it became ids.

    Args:
      files: The records.

    Returns:
      "do_lower_case" and "strip_accents", as the manifests beside all of them
      have it; empty where one of them has none that says so, or they differ;
      see `different_treatments`.
    """
    found = [_treatment(content) for content in _manifests(files).values()]
    of_first = found[0] if found else {}
    return of_first if found.count(of_first) == len(found) else {}


def different_treatments(files: Iterable[str]) -> str | None:
    """A line where the manifests of records say that their texts were treated
    in different ways, so that one word has different ids; None otherwise.
    """
    return _different_treatments(_manifests(files))


def _different_treatments(manifests: dict[str, dict]) -> str | None:
    treatments = {
        folder: treatment
        for folder, content in manifests.items()
        if (treatment := _treatment(content))
    }
    for one, other in itertools.pairwise(treatments):
        if treatments[one] != treatments[other]:
            return (
                f"the text in {one} was treated in another way than that in "
                f"{other}: {_text_of(treatments[one])} there, "
                f"{_text_of(treatments[other])} here; build one of them anew"
            )
    return None


def remarks(train: Iterable[str], heldout: Iterable[str]) -> list[str]:
    """What is wrong with held-out records beside those that are trained on.

    Args:
      train: The records that are trained on.
      heldout: Those that are held out.

    Returns:
      Lines on what the manifests beside both prove: a file of text in common,
      of which documents are in both; texts treated in different ways.
    """
    of_train, of_heldout = _manifests(train), _manifests(heldout)
    lines = [_trained_on(of_train, of_heldout)]
    if not _different_treatments(of_train):  # Which is said without these.
        both = dict(sorted((of_train | of_heldout).items()))
        lines.append(_different_treatments(both))
    return [line for line in lines if line]


def _trained_on(of_train: dict, of_heldout: dict) -> str | None:
    for folder, ours in of_heldout.items():
        for other, theirs in of_train.items():
            shared = _texts(ours).keys() & _texts(theirs).keys()
            if folder != other and shared and _overlap(ours, theirs):
                name = _texts(ours)[min(shared)]
                return (
                    f"examples held out in {folder} are of documents that "
                    f"{other} has as well, such as of {name}: their metrics "
                    "say nothing of other texts; train on what the build that "
                    "held them out has left"
                )
    return None


def _manifests(files: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Folder of records -> its manifest, empty where it has none to be read."""
    found: dict[str, dict[str, Any]] = {}
    for folder in sorted({os.path.dirname(path) for path in files}):
        found[folder or "."] = {}
        path = os.path.join(folder, manifest.FILE_NAME)
        try:
            with tf.io.gfile.GFile(path) as reader:
                found[folder or "."] = manifest.parse(reader.read())
        except (tf.errors.OpError, ValueError):
            continue  # Whoever compares files with manifests says so.
    return found


def _treatment(content: dict) -> dict[str, bool]:
    """Empty where there is no manifest."""
    if not content:
        return {}
    return {name: content["flags"][name] for name in vocabulary.TREATMENT}


def _text_of(treatment: dict[str, bool]) -> str:
    return ", ".join(f"{name} {value}" for name, value in treatment.items())


def _texts(content: dict) -> dict[str, str]:
    """SHA-256 -> name of each file of text that has examples in a data set."""
    return {
        entry["sha256"]: entry["name"]
        for entry in content.get("inputs", ())
        if entry["examples"]
    }


def _overlap(one: dict, other: dict) -> bool:
    """Whether a document of a text may be in both data sets.

    Which documents are held out is decided by a number that each has, the
    same in every build: those below the fraction are (`deduplication.
    is_held_out`).
    """
    flags, others = one["flags"], other["flags"]
    if any(flags[name] != others[name] for name in _OF_DOCUMENTS):
        return True
    (start, end), (other_start, other_end) = map(_share, (one, other))
    return max(start, other_start) < min(end, other_end)


def _share(content: dict) -> tuple[float, float]:
    """The numbers of the documents that a data set has: from, below."""
    fraction = content["flags"]["heldout_fraction"]
    if content["share"] == parts.HELDOUT:
        return 0.0, fraction
    return fraction, 1.0
