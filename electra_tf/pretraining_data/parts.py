"""Some files of a corpus -> a part, which is built by itself; no TensorFlow.

Parts are built side by side, and again after a kill only those that were not
finished. `part_files` builds them.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from electra_tf.pretraining_data import corpus

# The share of the documents that a file of examples holds.
TRAINING = ""
HELDOUT = "heldout"
DROPPED = "dropped"

# Small files are built together, so that a corpus of a million files does not
# become a million parts.
PART_BYTES = 4 << 20


class Part(NamedTuple):
    """Files that are built together.

    Attributes:
      path: What its files in the unfinished folder are called, before their
        endings. Names a digest of what decides their bytes.
      files: What is read.
      first_file: Number of the first of them in the corpus.
      first_document: Number of the first document in the corpus, if that
        matters.
      num_documents: How many there are, if that matters.
      decided: A digest of which of them are dropped.
    """

    path: str
    files: list[corpus.CorpusFile]
    first_file: int
    first_document: int = 0
    num_documents: int = 0
    decided: str = ""

    @property
    def documents(self) -> slice:
        """Their numbers in the corpus."""
        return slice(
            self.first_document, self.first_document + self.num_documents
        )

    @property
    def num_bytes(self) -> int:
        return sum(file.num_bytes for file in self.files)

    def path_of(self, share: str) -> str:
        """Where the examples of a share go."""
        return f"{self.path}.{share}" if share else self.path


def make_parts(files: Sequence[corpus.CorpusFile]) -> list[Part]:
    """Groups neighbouring files into parts of about PART_BYTES.

    Returns:
      Parts without a path. They depend on the corpus only.
    """
    parts: list[Part] = []
    num_bytes = 0
    for number, file in enumerate(files):
        if not parts or num_bytes + file.num_bytes > PART_BYTES:
            parts.append(Part("", [], number))
            num_bytes = 0
        parts[-1].files.append(file)
        num_bytes += file.num_bytes
    return parts


def part_path(
    folder: str, part: Part, decisions: Any, kind: str = "part"
) -> str:
    """The name of a part's files: what decides their bytes is in it."""
    key = [
        decisions,
        [(file.name, file.num_bytes, file.mtime_ns) for file in part.files],
        part.decided,
    ]
    digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:24]
    return os.path.join(folder, f"{kind}-{digest}")


class Counts(NamedTuple):
    """What was done since the last report.

    Attributes:
      num_bytes: Bytes of text read.
      num_documents: Documents ended.
      num_tokens: Tokens read, without [CLS] and [SEP].
      num_examples: Examples made.
      num_example_tokens: Tokens in them, with [CLS] and [SEP].
    """

    num_bytes: int = 0
    num_documents: int = 0
    num_tokens: int = 0
    num_examples: int = 0
    num_example_tokens: int = 0


def add_up(*counts: Sequence[int]) -> Counts:
    """The sums of some counts."""
    return Counts(*map(sum, zip(*counts, strict=True)))


class FileRecord(NamedTuple):
    """What became of one input file.

    Attributes:
      name: The file's name in its corpus.
      sha256: Of its bytes, in hexadecimal.
      counts: Of the training share; bytes are the whole file's.
      heldout: Of what is held out.
      num_dropped: Documents that were dropped.
      num_bad_inputs: Damaged places that were left out.
    """

    name: str
    sha256: str
    counts: Counts
    heldout: Counts = Counts()
    num_dropped: int = 0
    num_bad_inputs: int = 0

    def counts_of(self, share: str) -> Counts:
        """Of the share that is TRAINING or HELDOUT."""
        return self.heldout if share == HELDOUT else self.counts


def read_part_record(path: str, skips: bool) -> list[FileRecord] | None:
    """What became of a part's input files, if it is finished and whole.

    A finished part says so in JSON: the sizes of its files by their ending,
    then its `FileRecord`s.

    Args:
      path: See `Part`.
      skips: Whether damaged places may have been left out.
    """
    try:
        with open(path + ".json", encoding="utf-8") as reader:
            num_bytes, rows = json.load(reader)
        if any(
            os.path.getsize(path + ending) != size
            for ending, size in num_bytes.items()
        ):
            return None
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    records = [
        FileRecord(name, sha256, Counts(*counts), Counts(*heldout), *rest)
        for name, sha256, counts, heldout, *rest in rows
    ]
    if any(record.num_bad_inputs for record in records) and not skips:
        return None
    return records


def remove_others(parts: Sequence[Part]) -> None:
    """Removes what a killed run left half-written, and fingerprints that come
    from other flags or from files as they were.

    Finished parts stay: they are hours of work, and whoever has mistyped a
    flag gives the command again.
    """
    folder = os.path.dirname(parts[0].path)
    names = {os.path.basename(part.path) for part in parts}
    kind = os.path.basename(parts[0].path).partition("-")[0] + "-"
    for name in os.listdir(folder):
        is_other = kind != "part-" and name.partition(".")[0] not in names
        if name.startswith(kind) and (".tmp" in name or is_other):
            os.remove(os.path.join(folder, name))
