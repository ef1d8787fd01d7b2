"""A part of a corpus -> its file of examples; all of these -> TFRecords.

`PartBuilder` seeds randomness for each input file, so the output does not
depend on the number of processes; `merge_parts` deals the parts' examples to
the output files.
"""

import contextlib
import hashlib
import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from electra_tf import files as files_lib
from electra_tf.pretraining_data import (
    corpus,
    deduplication,
    examples,
    manifest,
    parts,
)
from electra_tf.pretraining_data import records as records_lib
from electra_tf.text import tokenization

# Shards are written through memory, so that a thousand of them need no
# thousand open files.
_MERGE_BUFFER_BYTES = 64 << 20

# Lines of several small files are tokenized together up to about this much.
_GROUP_BYTES = 1 << 20
_GROUP_LINES = 16384


class _ShareOfFile:
    """Builds one share of one file."""

    def __init__(self, builder: examples.ExampleBuilder, writer):
        self._builder = builder
        self._writer = writer
        self._in_document = False

    def add(
        self, lines: list[str], sentences: Iterable[bytes], num_bytes: int
    ) -> parts.Counts:
        """Writes the examples that the lines complete.

        Args:
          lines: A line "" ends a document.
          sentences: Packed ids of each line.
          num_bytes: What was read to get the lines.

        Returns:
          What was done.
        """
        add_sentence, end_document = self._builder.add, self._builder.end
        serialize, write = self._builder.serialize, self._writer.write
        in_document = self._in_document
        num_documents = num_tokens = num_examples = num_example_tokens = 0
        for line, sentence in zip(lines, sentences, strict=True):
            if line:
                in_document = True
                num_ids = records_lib.count_ids(sentence)
                num_tokens += num_ids
                segments = add_sentence(sentence, num_ids)
            else:
                num_documents += in_document
                in_document = False
                segments = end_document()
            if segments is not None:
                num_examples += 1
                num_example_tokens += segments.num_tokens
                write(serialize(segments))
        self._in_document = in_document
        return parts.Counts(
            num_bytes,
            num_documents,
            num_tokens,
            num_examples,
            num_example_tokens,
        )


class _FileOfPart:
    """A file, and what becomes of it while it is read and written.

    Attributes:
      name: Its name in the corpus.
      totals: What was made of it, by share.
    """

    def __init__(self, file: corpus.CorpusFile):
        self.name = file.name
        self.totals: dict[str, parts.Counts] = {}
        self._file = file
        self._digest = hashlib.sha256()
        self._num_dropped = self._num_bad_inputs = 0

    def pieces(
        self,
        number: int,
        shares: Iterable[str],
        reading: corpus.Reading,
        choose: deduplication.Chooser | None,
    ) -> Iterator["_Piece"]:
        """Reads the file; the last piece of each share ends its document."""

        def on_bad_input(message: str) -> None:
            self._num_bad_inputs += 1
            # Raises where damaged places are not left out.
            reading.refuse(message)

        batches = corpus.read_lines(
            self._file.path,
            self._digest,
            reading._replace(on_bad_input=on_bad_input),
        )
        if choose is None:
            for lines, num_bytes in batches:
                yield _Piece(self, parts.TRAINING, lines, num_bytes)
        else:
            num_documents = 0
            for documents, num_bytes in corpus.documents_of(batches):
                lines_of = {share: list[str]() for share in shares}
                for document in documents:
                    share = choose(number, num_documents, document)
                    num_documents += 1
                    if share == parts.DROPPED:
                        self._num_dropped += 1
                    else:
                        lines_of[share] += [*document, ""]
                for share, lines in lines_of.items():
                    # A document may be as large as its file.
                    for some in corpus.batched([line] for line in lines):
                        yield _Piece(self, share, some, num_bytes)
                        num_bytes = 0
                if num_bytes:
                    yield _Piece(self, parts.TRAINING, [], num_bytes)
        corpus.refuse_changed(self._file)
        for share in shares:
            yield _Piece(self, share, [""], 0)

    def record(self) -> parts.FileRecord:
        """What has become of it."""
        return parts.FileRecord(
            self.name,
            self._digest.hexdigest(),
            self.totals[parts.TRAINING],
            self.totals.get(parts.HELDOUT, parts.Counts()),
            self._num_dropped,
            self._num_bad_inputs,
        )


class _Piece(NamedTuple):
    """Lines of one share of a file, with what was read to get them."""

    file: _FileOfPart
    share: str
    lines: list[str]
    num_bytes: int


def _grouped(pieces: Iterator[_Piece]) -> Iterator[list[_Piece]]:
    """Small pieces together, since every call of a graph takes its time."""
    group = []
    size = num_lines = 0
    for piece in pieces:
        group.append(piece)
        size += max(piece.num_bytes, sum(map(len, piece.lines)))
        num_lines += len(piece.lines)
        if size >= _GROUP_BYTES or num_lines >= _GROUP_LINES:
            yield group
            group, size, num_lines = [], 0, 0
    if group:
        yield group


class PartBuilder:
    """Writes the examples of parts.

    Each input file has a builder of its own, seeded with the build's seed and
    the file's name: its examples do not depend on the files around it.

    Args:
      build: The choices.
      tokenizer: Supplies the special tokens.
      on_bad_input: See `corpus.Reading`.
      tokenize_lines: Gives packed ids; by default those of `tokenizer`.
    """

    def __init__(
        self,
        build: manifest.Build,
        tokenizer: tokenization.FullTokenizer,
        on_bad_input: Callable[[str], object] | None = None,
        tokenize_lines: examples.PackedLineTokenizer | None = None,
    ):
        self.reading = build.reading(on_bad_input)
        self._build = build
        self._tokenizer = tokenizer
        self._tokenize_lines = tokenize_lines or examples.CachingLineTokenizer(
            tokenizer
        )

    def write(
        self,
        part: parts.Part,
        report: Callable[[parts.Counts], object] | None = None,
    ) -> list[parts.FileRecord]:
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
        build = self._build
        files = [_FileOfPart(file) for file in part.files]
        choose = dropped = None
        with contextlib.ExitStack() as stack:
            if build.dedup:
                path = stack.enter_context(
                    files_lib.whole_file(part.path_of(parts.DROPPED))
                )
                dropped = stack.enter_context(open(path, "w", encoding="utf-8"))
            if build.dedup or build.heldout_fraction:
                choose = deduplication.Chooser(
                    part, build.heldout_fraction, dropped
                )
            writers = {
                share: stack.enter_context(
                    records_lib.record_writer(part.path_of(share))
                )
                for share in build.shares
            }
            pieces = itertools.chain.from_iterable(
                file.pieces(number, build.shares, self.reading, choose)
                for number, file in enumerate(files)
            )
            self._write_pieces(pieces, writers, report)
        if choose is not None:
            choose.check_all_seen()
        return [file.record() for file in files]

    def _write_pieces(self, pieces: Iterator[_Piece], writers, report) -> None:
        current = None
        shares: dict[str, _ShareOfFile] = {}
        for group in _grouped(pieces):
            lines = [line for piece in group for line in piece.lines]
            sentences = iter(self._tokenize_lines(lines))
            for file, name, lines, num_bytes in group:
                if file is not current:
                    current = file
                    for share, writer in writers.items():
                        builder = self._builder_of(file.name, share)
                        shares[share] = _ShareOfFile(builder, writer)
                done = shares[name].add(
                    lines, itertools.islice(sentences, len(lines)), num_bytes
                )
                file.totals[name] = parts.add_up(
                    file.totals.get(name, parts.Counts()), done
                )
                if report is not None and any(done):
                    report(done)

    def _builder_of(self, name: str, share: str) -> examples.ExampleBuilder:
        # Strings seed by their SHA-512: the same on every machine.
        key = filter(None, (str(self._build.seed), share, name))
        return examples.ExampleBuilder(
            self._tokenizer,
            self._build.max_seq_length,
            random.Random("/".join(key)),
        )


def merge_parts(
    part_paths: Sequence[str],
    shard_paths: Sequence[str],
    seed: int,
    wanted: Iterable[int] | None = None,
) -> list[int]:
    """Deals the examples of all parts, the parts shuffled, to shards in turn.

    Neighbours of a document thus land in different shards, as they do in the
    original. Records are copied as they are, checksums included.

    Args:
      part_paths: TFRecord files, in an order that depends on the corpus only.
      shard_paths: The files to deal to. They appear under their names once
        they are whole.
      seed: Of the whole data set.
      wanted: Numbers of the shards to write; by default all.

    Returns:
      The number of examples in each shard, those not wanted included.

    Raises:
      ValueError: If a shard cannot be written.
    """
    part_paths = list(part_paths)
    random.Random(seed).shuffle(part_paths)
    num_shards = len(shard_paths)
    buffers = {
        i: list[bytes]()
        for i in (range(num_shards) if wanted is None else wanted)
    }
    num_examples = num_buffered_bytes = 0
    with contextlib.ExitStack() as stack:
        temporary = {
            shard: stack.enter_context(files_lib.whole_file(shard_paths[shard]))
            for shard in buffers
        }
        for path in temporary.values():
            with open(path, "wb"):
                pass

        def flush() -> None:
            for shard, buffer in buffers.items():
                with (
                    files_lib.writing(shard_paths[shard]),
                    open(temporary[shard], "ab") as writer,
                ):
                    writer.writelines(buffer)
                buffer.clear()

        for part_path in part_paths:
            with records_lib.mapped(part_path) as content:
                starts = records_lib.record_starts(content)
                for shard, buffer in buffers.items():
                    first = (shard - num_examples) % num_shards
                    records = zip(
                        starts[first:-1:num_shards],
                        starts[first + 1 :: num_shards],
                        strict=True,
                    )
                    dealt = b"".join([content[a:b] for a, b in records])
                    buffer.append(dealt)
                    num_buffered_bytes += len(dealt)
                    if num_buffered_bytes > _MERGE_BUFFER_BYTES:
                        flush()
                        num_buffered_bytes = 0
                num_examples += len(starts) - 1
        flush()
    shares, rest = divmod(num_examples, num_shards)
    return [shares + (i < rest) for i in range(num_shards)]
