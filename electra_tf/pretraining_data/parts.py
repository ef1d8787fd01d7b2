"""Some files of a corpus -> a part, which is built by itself.

Parts are built side by side, and again after a kill only those that were not
finished. Randomness is seeded for each input file, so the examples depend
neither on the files around it nor on the number of processes; `merge` deals
the parts' examples to the output files.

TensorFlow is imported by what is called, not here: mistakes are told sooner.
"""

import collections
import contextlib
import functools
import hashlib
import json
import os
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from electra_tf import files as files_lib
from electra_tf.pretraining_data import corpus, deduplication, manifest
from electra_tf.pretraining_data.manifest import (
    DROPPED,
    HELDOUT,
    TRAINING,
    FileRecord,
)

if TYPE_CHECKING:
    from electra_tf.pretraining_data import examples
    from electra_tf.text import tokenization

# Small files are built together, so that a corpus of a million files does not
# become a million parts.
PART_BYTES = 4 << 20

# Shards are written through memory, so that a thousand of them need no
# thousand open files.
_MERGE_BUFFER_BYTES = 64 << 20

# Is told what was done since the last call: "bytes", and what a share counts.
Report = Callable[[dict[str, int]], object]


class Part(NamedTuple):
    """Files that are built together.

    Attributes:
      path: What its files in the unfinished folder are called, before their
        endings. Names a digest of what decides their bytes.
      files: What is read.
      first_file: Number of the first of them in the corpus.
      is_dropped: <bool>[(documents)], if some are dropped.
    """

    path: str
    files: list[corpus.CorpusFile]
    first_file: int
    is_dropped: np.ndarray | None = None

    @property
    def num_bytes(self) -> int:
        return sum(file.num_bytes for file in self.files)

    def path_of(self, share: str) -> str:
        """Where the examples of a share go."""
        return f"{self.path}.{share}" if share else self.path

    def at(self, folder: str, decisions: Any) -> "Part":
        """With a path that names what decides the bytes of its files."""
        names = [
            (file.name, file.num_bytes, file.mtime_ns) for file in self.files
        ]
        key = json.dumps([decisions, names])
        digest = hashlib.sha256(key.encode())
        if self.is_dropped is not None:
            digest.update(self.is_dropped.tobytes())
        path = os.path.join(folder, f"part-{digest.hexdigest()[:24]}")
        return self._replace(path=path)


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


def read_record(part: Part, skips: bool) -> list[FileRecord] | None:
    """What became of a part's input files, if it is finished and whole, and
    damaged places are left out of it only where one `skips` them.
    """
    try:
        with open(part.path + ".json", encoding="utf-8") as reader:
            size, records = json.load(reader)
        if os.path.getsize(part.path) != size:
            return None
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    has_bad_inputs = any(record[TRAINING]["bad_inputs"] for record in records)
    return records if skips or not has_bad_inputs else None


class _Share:
    """The examples of a file's documents that are in one share."""

    def __init__(self, builder: "examples.ExampleBuilder", write):
        names = ("documents", "tokens", "examples", "example_tokens")
        self.counts = collections.Counter(dict.fromkeys(names, 0))
        self._builder, self._write = builder, write
        self._in_document = False

    def add(self, lines: list[str], sentences: list[bytes]) -> dict[str, int]:
        """Writes the examples that lines with their packed ids complete."""
        from electra_tf.pretraining_data import records

        builder, in_document = self._builder, self._in_document
        num_documents = num_tokens = num_examples = num_example_tokens = 0
        for line, sentence in zip(lines, sentences, strict=True):
            if line:
                in_document = True
                num_ids = records.count_ids(sentence)
                num_tokens += num_ids
                segments = builder.add(sentence, num_ids)
            else:
                num_documents += in_document
                in_document = False
                segments = builder.end()
            if segments is not None:
                num_examples += 1
                num_example_tokens += segments.num_tokens
                self._write(builder.serialize(segments))
        self._in_document = in_document
        done = {
            "documents": num_documents,
            "tokens": num_tokens,
            "examples": num_examples,
            "example_tokens": num_example_tokens,
        }
        self.counts.update(done)
        return done


class PartBuilder:
    """Writes the examples of parts.

    Args:
      build: The choices.
      tokenizer: Supplies the special tokens.
      on_bad_input: See `corpus.Reading`.
      tokenize_lines: Gives packed ids; by default those of `tokenizer`.
    """

    def __init__(
        self,
        build: manifest.Build,
        tokenizer: "tokenization.FullTokenizer",
        on_bad_input: Callable[[str], object] | None = None,
        tokenize_lines: "examples.PackedLineTokenizer | None" = None,
    ):
        from electra_tf.pretraining_data import examples

        self.reading = corpus.Reading(
            build.blanks_separate_docs, build.text_field, on_bad_input
        )
        self._build = build
        self._tokenizer = tokenizer
        self._tokenize_lines = tokenize_lines or examples.CachingLineTokenizer(
            tokenizer
        )

    def preflight(
        self, files: Sequence[corpus.CorpusFile], report: object
    ) -> None:
        """Prints the report on a sample of files."""
        from electra_tf.pretraining_data import check

        check.report_on_text(
            check.take_sample(files, self.reading),
            self._tokenizer,
        ).show(
            sys.stderr,
            "would break a run over this corpus; --no-preflight builds it "
            "nevertheless",
        )

    def fingerprint(self, part: Part, report: Report) -> None:
        """Writes the fingerprints of a part's documents."""
        reading = self.reading
        if reading.on_bad_input is not None:
            # Named when the examples are built.
            reading = reading._replace(on_bad_input=lambda message: None)

        def documents():
            for number, file in enumerate(part.files, part.first_file):
                for some, num_bytes in corpus.documents_of(
                    corpus.read_lines(file.path, reading=reading)
                ):
                    for document in some:
                        yield number, document
                    report({"bytes": num_bytes, "documents": len(some)})

        fingerprinter = deduplication.Fingerprinter(self._build.dedup == "near")
        with (
            files_lib.whole_file(part.path) as temporary,
            open(temporary, "wb") as writer,
        ):
            for fingerprints in fingerprinter(documents()):
                writer.write(fingerprints.tobytes())

    def build(self, part: Part, report: Report) -> None:
        """Writes the examples of a part, and last what became of its files."""
        records = self.write(part, report)
        content = json.dumps([os.path.getsize(part.path), records])
        files_lib.write_atomically(part.path + ".json", content)

    def write(
        self, part: Part, report: Report = lambda done: None
    ) -> list[FileRecord]:
        """Writes a TFRecord file a share, which appears once it is whole.

        Args:
          part: What to read, and where to write.
          report: Called with what was done since the last call.

        Returns:
          One record for each input file.

        Raises:
          ValueError: If a file cannot be read or is damaged, or an output
            cannot be written.
        """
        from electra_tf.pretraining_data import records

        build = self._build
        choose = None
        if build.dedup or build.heldout_fraction:
            choose = functools.partial(self._share_of, part)
        self._num_documents = 0
        with contextlib.ExitStack() as stack:
            writers = {
                share: stack.enter_context(
                    records.record_writer(part.path_of(share))
                ).write
                for share in build.shares
            }
            made = [
                self._write_file(file, writers, choose, report)
                for file in part.files
            ]
        dropped = part.is_dropped
        if dropped is not None and self._num_documents != len(dropped):
            raise ValueError(
                "Expected the corpus to stay as it is while it is read. "
                f"Received: other documents than before in "
                f"{part.files[0].name!r} or a file after it; run again."
            )
        return made

    def _share_of(self, part: Part, lines: list[str]) -> str:
        """Which share gets the next document of a part."""
        number, fraction = self._num_documents, self._build.heldout_fraction
        self._num_documents += 1
        if part.is_dropped is not None and part.is_dropped[number:][:1].any():
            return DROPPED
        digest = deduplication.digest_of(lines) if fraction else b""
        is_held_out = deduplication.is_held_out(digest, fraction)
        return HELDOUT if is_held_out else TRAINING

    def _write_file(
        self,
        file: corpus.CorpusFile,
        writers: dict[str, Callable[[bytes], object]],
        choose: Callable[[list[str]], str] | None,
        report: Report,
    ) -> FileRecord:
        """Writes the examples of one file, and says what became of it."""
        from electra_tf.pretraining_data import examples

        build = self._build
        shares = {}
        for share, write in writers.items():
            # Strings seed by their SHA-512: the same on every machine.
            key = "/".join(filter(None, (str(build.seed), share, file.name)))
            builder = examples.ExampleBuilder(
                self._tokenizer, build.max_seq_length, random.Random(key)
            )
            shares[share] = _Share(builder, write)
        digest = hashlib.sha256()
        bad_inputs: list[str] = []

        def on_bad_input(message: str) -> None:
            bad_inputs.append(message)
            # Raises where damaged places are not left out.
            self.reading.refuse(message)

        reading = self.reading._replace(on_bad_input=on_bad_input)
        batches = corpus.read_lines(file.path, digest, reading)
        num_dropped = 0
        for share, lines, num_bytes in _shared_out(batches, choose):
            report({"bytes": num_bytes})
            if share == DROPPED:
                num_dropped += 1
            elif lines:
                ids = self._tokenize_lines(lines)
                report(shares[share].add(lines, ids))
        for end in shares.values():
            report(end.add([""], [b""]))
        return {
            share: {
                "name": file.name,
                "sha256": digest.hexdigest(),
                "bytes": file.num_bytes,
                **made.counts,
                # Of the whole file.
                "dropped_documents": num_dropped,
                "bad_inputs": len(bad_inputs),
            }
            for share, made in shares.items()
        }


def _shared_out(
    batches: Iterable[corpus.LineBatch],
    choose: Callable[[list[str]], str] | None,
) -> Iterator[tuple[str, list[str], int]]:
    """Lines of one share, and what was read of a file to get them."""
    if choose is None:
        for lines, num_bytes in batches:
            yield TRAINING, lines, num_bytes
        return
    for documents, num_bytes in corpus.documents_of(batches):
        lines_of: dict[str, list[str]] = {TRAINING: [], HELDOUT: []}
        for document in documents:
            share = choose(document)
            if share == DROPPED:
                yield DROPPED, [], 0
            else:
                lines_of[share] += [*document, ""]
        yield TRAINING, [], num_bytes
        for share, lines in lines_of.items():
            # A document may be as large as its file.
            for some in corpus.batched([line] for line in lines):
                yield share, some, 0


def merge(
    part_paths: Sequence[str], shard_paths: Sequence[str], seed: int
) -> None:
    """Deals the examples of all parts, the parts shuffled, to shards in turn.

    Neighbours of a document thus land in different shards, as they do in the
    original. Records are copied as they are, checksums included.

    Args:
      part_paths: TFRecord files, in an order that depends on the corpus only.
      shard_paths: The files to deal to.
      seed: Of the whole data set.

    Raises:
      ValueError: If a shard cannot be written.
    """
    from electra_tf.pretraining_data import records as records_lib

    part_paths = list(part_paths)
    random.Random(seed).shuffle(part_paths)
    num_shards = len(shard_paths)
    buffers: list[list[bytes]] = [[] for _ in shard_paths]
    num_examples = num_buffered_bytes = 0

    def flush() -> None:
        for path, buffer in zip(shard_paths, buffers, strict=True):
            with files_lib.writing(path), open(path, "ab") as writer:
                writer.writelines(buffer)
            buffer.clear()

    for part_path in part_paths:
        with records_lib.mapped(part_path) as content:
            starts = records_lib.record_starts(content)
            for shard, buffer in enumerate(buffers):
                first = (shard - num_examples) % num_shards
                ends = starts[first + 1 :: num_shards]
                places = zip(starts[first:-1:num_shards], ends, strict=True)
                dealt = b"".join([content[a:b] for a, b in places])
                buffer.append(dealt)
                num_buffered_bytes += len(dealt)
            num_examples += len(starts) - 1
        if num_buffered_bytes > _MERGE_BUFFER_BYTES:
            flush()
            num_buffered_bytes = 0
    flush()
