"""manifest.json: what TFRecords are made from; written, read, checked here."""

import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from electra_tf import files as files_lib
from electra_tf.pretraining_data import corpus, parts

FILE_NAME = "manifest.json"
# Of its content.
VERSION = 2
# Appended to the output folder's name, for the documents held out of it.
HELDOUT_SUFFIX = "_heldout"
DROPPED_DOCUMENTS = "dropped_documents.jsonl"

# Below this the draw of a random length, from 5 to the maximum, is impossible.
MIN_SEQ_LENGTH = 5

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
    """The manifest's entry of a vocabulary."""
    return {
        "file": os.path.basename(vocab_file),
        "sha256": files_lib.sha256_of_file(vocab_file),
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


def text_of(manifest: dict) -> str:
    """A manifest as it stands in its file."""
    return json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"


def read(output_dir: str) -> dict | None:
    """The manifest of a finished build, or None.

    Raises:
      ValueError: If there is a manifest that is not ours.
    """
    path = os.path.join(output_dir, FILE_NAME)
    if not os.path.exists(path):
        return None
    try:
        with open(path, encoding="utf-8") as reader:
            manifest = json.load(reader)
        version = manifest["manifest_version"]
    except (ValueError, TypeError, KeyError):
        version = None
    if version != VERSION:
        raise ValueError(
            f"Expected a manifest of version {VERSION}. Received: "
            f"{path!r} of version {version}; choose another --output-dir."
        )
    return manifest


def num_examples_of(text: str) -> dict[str, int]:
    """The examples of each output file, as a manifest's text says.

    Raises:
      ValueError: If it is no manifest.
    """
    try:
        shards = json.loads(text)["shards"]
        return {shard["name"]: shard["examples"] for shard in shards}
    except (KeyError, TypeError) as error:
        raise ValueError(f"Expected a manifest. Received: {error}.") from None


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
        if finished["flags"][name] != value:
            refuse(f"{name} {finished['flags'][name]!r}, now {value!r}")
    if finished["vocabulary"]["sha256"] != vocabulary["sha256"]:
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
        check_shards(heldout_dir, heldout)


def check_shards(output_dir: str, finished: dict) -> None:
    """Refuses a finished data set whose files are not as its manifest says."""
    for shard in finished["shards"]:
        path = os.path.join(output_dir, shard["name"])
        if not os.path.exists(path) or os.path.getsize(path) != shard["bytes"]:
            raise ValueError(
                f"Expected {shard['bytes']} bytes in {path!r}, as {FILE_NAME} "
                "says. Received: a file that is missing or of another size; "
                "choose another --output-dir."
            )
