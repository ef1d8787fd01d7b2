"""manifest.json: what TFRecords are made from; written, read, compared here."""

import collections
import contextlib
import hashlib
import json
import os
import re
import sys
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from electra_tf import errors, validation
from electra_tf import files as files_lib
from electra_tf.pretraining_data import corpus
from electra_tf.text import vocabulary as vocabulary_lib

FILE_NAME = "manifest.json"
# Of its content.
VERSION = 2
_ENTRIES = {"share", "flags", "inputs", "shards", "vocabulary"}
# The share of the documents that a data set holds, and what none does.
TRAINING = ""
HELDOUT = "heldout"
DROPPED = "dropped"
# Appended to the output folder's name, for the documents held out of it.
HELDOUT_SUFFIX = "_heldout"
_ONE_OF_SEVERAL = re.compile(r"(.*?)\d+-of-(\d+)(.*)")
DROPPED_DOCUMENTS = "dropped_documents.jsonl"
# What is in an output folder and is no TFRecord.
BESIDE_RECORDS = (FILE_NAME, DROPPED_DOCUMENTS)
# Everything unfinished lives in this folder inside the output folder; a build
# with Beam leaves a file of this name until it is finished.
UNFINISHED = "unfinished_build"
# Begins the names of files that a build with Beam has yet to finish.
TEMPORARY_PREFIX = "unfinished-"

# Below this the draw of a random length, from 5 to the maximum, is impossible.
MIN_SEQ_LENGTH = 5

_PACKAGES = ("electra_tf", "tensorflow", "tensorflow-text")

# What became of an input file: share -> the manifest's entry of the file.
FileRecord = dict[str, dict[str, Any]]


class Build(NamedTuple):
    """What decides the bytes of the output: `flags` of the manifest."""

    max_seq_length: int
    blanks_separate_docs: bool
    do_lower_case: bool
    strip_accents: bool
    seed: int
    num_out_files: int
    text_field: str = "text"
    dedup: str = ""
    dedup_threshold: float = 0.0
    heldout_fraction: float = 0.0

    def shard_names(self, share: str) -> list[str]:
        """The output files of a share, named as the original's are."""
        number = self.num_out_files
        if share == HELDOUT:
            number = max(1, round(number * self.heldout_fraction))
        stem = "pretrain_data.tfrecord"
        return [f"{stem}-{i}-of-{number}" for i in range(number)]

    @property
    def shares(self) -> list[str]:
        """The data sets that are written."""
        return [TRAINING, HELDOUT] if self.heldout_fraction else [TRAINING]


def folder_of(output_dir: str, share: str) -> str:
    """Where the files of a share go."""
    return output_dir + (HELDOUT_SUFFIX if share == HELDOUT else "")


def versions(*more_packages: str) -> dict[str, str]:
    """Of what the bytes could depend on."""
    installed = files_lib.versions([*_PACKAGES, *more_packages])
    return {"python": sys.version.split()[0]} | {
        name: version for name, version in installed.items() if version
    }


def vocabulary_entry(vocab_file: str, vocab: Sequence[str]) -> dict[str, Any]:
    """The manifest's entry of a vocabulary.

    Raises:
      ValueError: If its file cannot be read.
    """
    content = files_lib.read_bytes(vocab_file, "vocabulary file")
    return {
        "file": os.path.basename(vocab_file),
        "sha256": hashlib.sha256(content).hexdigest(),
        "tokens_sha256": vocabulary_lib.digest(vocab),
        "entries": len(vocab),
    }


def make(
    build: Build,
    share: str,
    records: Sequence[FileRecord],
    shards: Sequence[dict],
    vocabulary: dict,
    versions: dict,
) -> dict[str, Any]:
    """The manifest of one data set: TRAINING or HELDOUT of the files.

    Each shard has the `name`, `examples` and `bytes` of an output file.
    """
    inputs = [record[share] for record in records]
    return {
        "manifest_version": VERSION,
        "share": share or "training",
        "flags": build._asdict(),
        "inputs": inputs,
        "shards": list(shards),
        "totals": {
            key: sum(entry[key] for entry in inputs)
            for key in inputs[0]
            if key not in ("name", "sha256")
        },
        "vocabulary": vocabulary,
        "versions": versions,
    }


def refuse_empty(
    records: Sequence[FileRecord], build: Build, share: str
) -> None:
    """Raises a ValueError for a data set without an example."""
    if any(record[share]["examples"] for record in records):
        return
    flag = ""
    if build.heldout_fraction:
        flag = f" and --heldout-fraction={build.heldout_fraction}"
    raise ValueError(
        f"Expected text that makes examples{' to hold out' * bool(share)}. "
        f"Received: {len(records)} file(s) whose lines hold no token{flag}."
    )


def text_of(content: Mapping) -> str:
    """A manifest as it stands in its file."""
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def read(folder: str) -> dict | None:
    """The manifest in a folder of any file system, or None.

    Raises:
      ValueError: If there is one of another version, or a damaged one.
    """
    path = os.path.join(folder, FILE_NAME)
    # TensorFlow is imported where it is needed: a new build is checked sooner.
    exists = files_lib.exists if "://" in path else os.path.exists
    if not exists(path):
        return None
    with contextlib.suppress(ValueError, AttributeError, RecursionError):
        content = json.loads(files_lib.read_bytes(path, "manifest"))
        entries = content.keys() >= _ENTRIES
        if entries and content.get("manifest_version") == VERSION:
            return content
    raise ValueError(
        f"{path!r}: Expected a whole manifest of version {VERSION}. Received: "
        "another one; choose another --output-dir."
    )


def refuse_foreign(output_dir: str, names: Sequence[str]) -> None:
    """Raises a ValueError for files in an output folder of no builder's."""
    if names:
        raise ValueError(
            "Expected a new or empty --output-dir. Received: "
            f"{output_dir!r}, which holds {len(names)} file(s) that this "
            f"tool did not write, such as {names[0]!r}."
        )


def check_finished(
    output_dir: str,
    finished: dict,
    build: Build,
    vocabulary: dict,
    files: Sequence[corpus.CorpusFile],
    skips: bool,
) -> None:
    """Raises a ValueError unless a finished build is whole and the one asked
    for.
    """
    has_skipped = any(entry["bad_inputs"] for entry in finished["inputs"])
    now: dict[str, Any] = {
        "built_with": None,
        "flags": build._asdict(),
        # Of the tokens: lines may end otherwise.
        "vocabulary": vocabulary["tokens_sha256"],
        "on_bad_input": "skip" if skips else "fail",
        "corpus": {f.name: files_lib.sha256_of_file(f.path) for f in files},
    }
    for share in build.shares:
        folder = folder_of(output_dir, share)
        content = read(folder) or {"vocabulary": {}, "inputs": []}
        before = {
            "built_with": content.get("built_with"),
            "flags": content.get("flags"),
            "vocabulary": content["vocabulary"].get("tokens_sha256"),
            "on_bad_input": "skip" if skips or has_skipped else "fail",
            "corpus": {e["name"]: e["sha256"] for e in content["inputs"]},
        }
        where = f"{folder} holds another data set"
        way_out = "Choose another --output-dir"
        validation.require_same(now, before, where, way_out=way_out)
        for line in problems(folder, content):
            raise ValueError(f"{line}; {way_out.lower()}.")


def problems(
    folder: str,
    content: Mapping,
    counts: Mapping[str, int] = types.MappingProxyType({}),
) -> list[str]:
    """What is wrong with the files beside a manifest, a line each.

    Args:
      folder: Of them.
      content: The manifest.
      counts: Name of a file -> its examples, where they were counted.
    """
    import tensorflow as tf

    lines = []
    known = {shard["name"]: shard for shard in content["shards"]}
    there = set(tf.io.gfile.listdir(folder or "."))
    for name, shard in known.items():
        path = os.path.join(folder, name)
        if name not in there:
            lines.append(f"expected {path}, as {FILE_NAME} says: it is missing")
            continue
        expected = shard["examples"], shard["bytes"]
        size = tf.io.gfile.stat(path).length
        received = counts.get(name, shard["examples"]), size
        if received != expected:
            lines.append(
                "expected {:,} examples, {:,} bytes".format(*expected)
                + f" of {path}, as {FILE_NAME} says, found "
                + "{:,} and {:,}: it is of another build".format(*received)
            )
    names = {*counts} | {n for n in there if ".tfrecord-" in n}
    if foreign := sorted(names - known.keys()):
        lines.append(
            f"{len(foreign)} file(s) are not of the build that {FILE_NAME} "
            f"describes, such as {os.path.join(folder, foreign[0])}"
        )
    return lines


def differences(
    num_examples: Mapping[str, int], vocab_file: str | None = None
) -> list[str]:
    """Compares files with the manifests that builds left beside them.

    Args:
      num_examples: File -> how many examples it has.
      vocab_file: What they were built with, if that is known.

    Returns:
      A line on each difference; none for files without a manifest, of which it
      warns if one is empty, or if they are named <i>-of-n and some are missing.
    """
    lines = []
    for folder, content in _manifests(num_examples).items():
        if not content:
            _warn_of_missing(folder, num_examples)
            continue
        counts = {
            os.path.basename(path): number
            for path, number in num_examples.items()
            if (os.path.dirname(path) or ".") == folder
        }
        lines += problems(folder, content, counts)
        if vocab_file is not None:
            tokens = vocabulary_lib.load_vocab(vocab_file)
            built_with = content["vocabulary"]["tokens_sha256"]
            if vocabulary_lib.digest(tokens) != built_with:
                lines.append(
                    f"{vocab_file} is not the vocabulary that the data in "
                    f"{folder} were built with"
                )
    return lines


def _warn_of_missing(folder: str, num_examples: Mapping[str, int]) -> None:
    """Warns of files that are empty, and of those of <i>-of-n not there."""
    paths = [p for p in num_examples if (os.path.dirname(p) or ".") == folder]
    if empty := [path for path in paths if not num_examples[path]]:
        errors.warn(
            f"{len(empty)} of {len(paths)} files hold no example, such as "
            f"{empty[0]}: is one not whole?"
        )
    names = [_ONE_OF_SEVERAL.fullmatch(os.path.basename(p)) for p in paths]
    present = collections.Counter(name.group(1, 2, 3) for name in names if name)
    for (first, total, last), count in sorted(present.items()):
        if count < int(total):
            errors.warn(
                f"{count} of {int(total)} files named "
                f"{os.path.join(folder, first)}<i>-of-{total}{last} are among "
                "those to read: the others are missing, or left out"
            )


def refuse_unfinished(files: Iterable[str]) -> None:
    """Refuses to train on what a build has finished of its files so far.

    Args:
      files: TFRecord files.

    Raises:
      DataError: If a build is at work in a folder of theirs, or was ended.
    """
    for folder in sorted({os.path.dirname(path) for path in files}):
        left = os.path.join(folder, UNFINISHED)
        is_finished = files_lib.exists(os.path.join(folder, FILE_NAME))
        if files_lib.exists(left) and not is_finished:
            raise errors.DataError(
                f"Expected a finished build in {folder or '.'}, with a "
                f"{FILE_NAME}. Received: a part of one, at work or "
                "interrupted: give its command again, or remove "
                f"{left} to take the files that are there"
            )


def treatment_of_text(files: Iterable[str]) -> dict[str, bool]:
    """What was done to the text of records before it became ids.

    Warns where manifests say that their texts were treated in different ways,
    so that one word has different ids.

    Args:
      files: The records.

    Returns:
      "do_lower_case" and "strip_accents", as the manifests beside all of them
      have it; empty where one of them has none that says so, or they differ.
    """
    first = ""
    treatment: dict[str, bool] = {}
    for folder, content in _manifests(files).items():
        if not content:
            return {}
        other = {n: content["flags"][n] for n in vocabulary_lib.TREATMENT}
        if first and other != treatment:
            errors.warn(
                f"the text in {folder} was treated in another way than that in "
                f"{first}: {other} and {treatment}; build one of them anew"
            )
            return {}
        first, treatment = folder, other
    return treatment


def _manifests(files: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Folder of records -> its manifest, empty where it has none to be read."""
    contents: dict[str, dict[str, Any]] = {}
    for folder in sorted({os.path.dirname(path) for path in files}):
        try:
            contents[folder or "."] = read(folder) or {}
        except ValueError:  # Whoever compares files with manifests says so.
            contents[folder or "."] = {}
    return contents
