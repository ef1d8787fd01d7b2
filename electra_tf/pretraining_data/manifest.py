"""manifest.json: what TFRecords are made from; written, read, checked here."""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from electra_tf import files as files_lib
from electra_tf.pretraining_data import corpus, parts
from electra_tf.text import vocabulary as vocabulary_lib

FILE_NAME = "manifest.json"
# Of its content.
VERSION = 2
# Appended to the output folder's name, for the documents held out of it.
HELDOUT_SUFFIX = "_heldout"
DROPPED_DOCUMENTS = "dropped_documents.jsonl"
# What is in an output folder and is no TFRecord.
BESIDE_RECORDS = (FILE_NAME, DROPPED_DOCUMENTS)
# Begins the names of files that a build with Beam has yet to finish.
TEMPORARY_PREFIX = "unfinished-"
# Begins that of an empty file, which says which build is at work in a folder.
CLAIM_PREFIX = f"{TEMPORARY_PREFIX}build-"

# Below this the draw of a random length, from 5 to the maximum, is impossible.
MIN_SEQ_LENGTH = 5

# What others read of each entry.
_ENTRIES = {
    "inputs": {
        **dict.fromkeys(("name", "sha256"), str),
        **dict.fromkeys(("bytes", "examples", "bad_inputs"), int),
    },
    "shards": {"name": str, "bytes": int, "examples": int},
}

_PACKAGES = ("electra_tf", "tensorflow", "tensorflow-text")


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

    def num_files(self, share: str) -> int:
        """The number of output files of one of the shares."""
        if share == parts.TRAINING:
            return self.num_out_files
        return max(1, round(self.num_out_files * self.heldout_fraction))

    @property
    def shares(self) -> list[str]:
        """The data sets that are written."""
        if self.heldout_fraction:
            return [parts.TRAINING, parts.HELDOUT]
        return [parts.TRAINING]

    def reading(
        self, on_bad_input: Callable[[str], object] | None = None
    ) -> corpus.Reading:
        """How the corpus is read."""
        return corpus.Reading(
            self.blanks_separate_docs, self.text_field, on_bad_input
        )


def suffix_of(share: str) -> str:
    """What a share's folder has after the name of the output folder."""
    return HELDOUT_SUFFIX if share == parts.HELDOUT else ""


def shard_name(index: int, num_shards: int) -> str:
    """The name of an output file, as the original gives it."""
    return f"pretrain_data.tfrecord-{index}-of-{num_shards}"


def versions(*more_packages: str) -> dict[str, str]:
    """Of what the bytes could depend on."""
    found = files_lib.versions([*_PACKAGES, *more_packages])
    installed = {name: version for name, version in found.items() if version}
    return {"python": sys.version.split()[0]} | installed


def of_vocabulary(vocab_file: str, vocab: Sequence[str]) -> dict[str, Any]:
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
    files: Sequence[corpus.CorpusFile],
    records: Sequence[parts.FileRecord],
    shards: Sequence[dict],
    vocabulary: dict,
    versions: dict,
) -> dict[str, Any]:
    """The manifest of one data set.

    Args:
      build: What was asked for.
      share: TRAINING or HELDOUT.
      files: The corpus.
      records: What became of each file.
      shards: `name`, `examples` and `bytes` of each output file.
      vocabulary: See `of_vocabulary`.
      versions: See `versions`.
    """
    inputs = []
    for file, record in zip(files, records, strict=True):
        counts = record.counts_of(share)
        inputs.append(
            {
                "name": file.name,
                "bytes": file.num_bytes,
                "sha256": record.sha256,
                "documents": counts.num_documents,
                "tokens": counts.num_tokens,
                "examples": counts.num_examples,
                "example_tokens": counts.num_example_tokens,
                "dropped_documents": record.num_dropped,
                "bad_inputs": record.num_bad_inputs,
            }
        )
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


def nothing_made(
    records: Sequence[parts.FileRecord],
    build: Build,
    share: str,
) -> str:
    """Why a share of the corpus has no example, for the error message."""
    num_kept = sum(r.counts.num_documents for r in records)
    num_held_out = sum(r.heldout.num_documents for r in records)
    if not (share or num_held_out):
        return (
            "Expected text that makes examples. Received: a corpus of "
            f"{len(records)} file(s) whose lines hold no token."
        )
    return (
        "Expected a --heldout-fraction that "
        f"{'holds something out' if share else 'leaves something'}. "
        f"Received: {build.heldout_fraction} of {num_kept + num_held_out} "
        "document(s)."
    )


def text_of(manifest: dict) -> str:
    """A manifest as it stands in its file."""
    return json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"


def parse(text: str) -> dict:
    """A manifest from the text of its file.

    Raises:
      ValueError: If it is of another version, or damaged.
    """
    version = None
    is_whole = False
    try:
        content = json.loads(text)
        version = content["manifest_version"]
        is_whole = (
            isinstance(content["share"], str)
            and content["flags"].keys() == set(Build._fields)
            and isinstance(content["vocabulary"]["tokens_sha256"], str)
            and all(
                isinstance(entry[key], kind)
                for name, kinds in _ENTRIES.items()
                for entry in content[name]
                for key, kind in kinds.items()
            )
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass
    if version != VERSION or not is_whole:
        raise ValueError(
            f"Expected a manifest of version {VERSION}. Received: one of "
            f"version {version}{', damaged' * (version == VERSION)}"
        )
    return content


def read(output_dir: str) -> dict | None:
    """The manifest of a finished build, or None.

    Raises:
      ValueError: If there is one of another version, or a damaged one.
    """
    path = os.path.join(output_dir, FILE_NAME)
    if not os.path.exists(path):
        return None
    try:
        with open(path, encoding="utf-8") as reader:
            return parse(reader.read())
    except ValueError as error:
        raise ValueError(
            f"{path!r}: {error}; choose another --output-dir."
        ) from None


def refuse_foreign(output_dir: str, names: Sequence[str]) -> None:
    """Refuses an output folder for files in it that no builder wrote.

    Raises:
      ValueError: If there are any.
    """
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
    """Checks that a finished build is the one asked for, and whole.

    Raises:
      ValueError: If it is not.
    """

    def refuse(difference: str) -> NoReturn:
        raise ValueError(
            f"Expected a new or empty --output-dir. Received: {output_dir!r}, "
            f"which holds another data set: {difference}."
        )

    if "built_with" in finished:
        refuse(f"{finished['built_with']} built it, in another order")
    for name, value in build._asdict().items():
        if (known := finished["flags"][name]) != value:
            refuse(f"{name} {known!r}, now {value!r}")
    num_bad = sum(entry["bad_inputs"] for entry in finished["inputs"])
    if num_bad and not skips:
        refuse(
            f"on_bad_input 'skip', which left out {num_bad} damaged place(s), "
            "now 'fail'"
        )
    # Of the tokens: lines may end otherwise.
    tokens = finished["vocabulary"]["tokens_sha256"]
    if tokens != vocabulary["tokens_sha256"]:
        refuse("its vocabulary is not the one given now")
    recorded = {entry["name"]: entry for entry in finished["inputs"]}
    if changed := sorted(recorded.keys() ^ {file.name for file in files}):
        refuse(f"{changed[0]!r} is new or gone in the corpus")
    for file in files:
        if (
            recorded[file.name]["bytes"] != file.num_bytes
            or files_lib.sha256_of_file(file.path)
            != recorded[file.name]["sha256"]
        ):
            refuse(f"{file.name!r} of the corpus has changed")
    check_shards(output_dir, finished)
    if build.heldout_fraction:
        heldout_dir = output_dir + HELDOUT_SUFFIX
        heldout = read(heldout_dir)
        if heldout is None:
            refuse(f"what it held out is not in {heldout_dir!r}")
        entries = ("flags", "vocabulary")
        if any(heldout[name] != finished[name] for name in entries):
            refuse(f"what is in {heldout_dir!r} another build held out")
        check_shards(heldout_dir, heldout)


def check_shards(output_dir: str, finished: dict) -> None:
    """Refuses a finished data set whose files are not as its manifest says.

    Raises:
      ValueError: If one is missing, of another size or unknown to it.
    """
    names = {shard["name"] for shard in finished["shards"]}
    for name in sorted(os.listdir(output_dir)):
        if ".tfrecord-" in name and name not in names:
            raise ValueError(
                f"Expected the files that {FILE_NAME} names in {output_dir!r}. "
                f"Received: {name!r}, which another build has left there."
            )
    for shard in finished["shards"]:
        path = os.path.join(output_dir, shard["name"])
        if not os.path.exists(path) or os.path.getsize(path) != shard["bytes"]:
            raise ValueError(
                f"Expected {shard['bytes']} bytes in {path!r}, as {FILE_NAME} "
                "says. Received: a file that is missing or of another size; "
                "choose another --output-dir."
            )
