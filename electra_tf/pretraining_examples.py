"""Documents to pre-training examples to TFRecords.

Consecutive lines of a document are gathered until they fill an example, which
is then cut into one or two segments:

  lines -> [sentence ids, ...] -> [CLS] first [SEP] second [SEP] padding

For a given `random.Random` the examples, and the number of draws, are those
of the original's builder. Two jobs write them:

  * `write_examples`, as the original: one job a process, which shuffles its
    share of the files and fills its share of the output files in turn.
  * `write_part` and `merge_parts`: randomness is seeded for each input file,
    so that the output does not depend on the number of processes.

Token ids are kept *packed*, as protocol buffers write them: a varint for each,
one after the other in `bytes`. That is what ends up in the file, a word's ids
are one object however many they are, and no loop runs over ids.

Shapes: L length of an example.
"""

import contextlib
import functools
import hashlib
import itertools
import mmap
import os
import random
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf import corpus, tokenization

FEATURE_NAMES = ("input_ids", "input_mask", "segment_ids")

# Below this the draw of a random length, from 5 to the maximum, is impossible.
MIN_SEQ_LENGTH = 5

# Chances and lengths of the original's builder.
_ONE_SEGMENT_PROBABILITY = 0.1
_OVERFILL_FIRST_SEGMENT_PROBABILITY = 0.5
_RANDOM_LENGTH_PROBABILITY = 0.05
_NO_LENGTH_LIMIT = 100_000

# Shards are written through memory, so that a thousand of them need no
# thousand open files.
_MERGE_BUFFER_BYTES = 64 << 20

# Lines of several small files are tokenized together up to about this much.
_GROUP_BYTES = 1 << 20
_GROUP_LINES = 16384

# Bytes of a varint that are not its last.
_CONTINUED = bytes(range(0x80, 0x100))

# From lines to the token ids of each.
LineTokenizer = Callable[[list[str]], list[list[int]]]
PackedLineTokenizer = Callable[[list[str]], list[bytes]]


class Example(NamedTuple):
    """One packed sequence.

    Attributes:
      input_ids: <int>[L], `[CLS] first [SEP] second [SEP]` and padding.
      input_mask: <int>[L], 1 on tokens, 0 on padding.
      segment_ids: <int>[L], 1 on the second segment and its [SEP].
    """

    input_ids: list[int]
    input_mask: list[int]
    segment_ids: list[int]


class Segments(NamedTuple):
    """What an example is packed from; the second may be empty.

    Attributes:
      first: Packed ids.
      second: Packed ids.
      num_first: Number of the first ones.
      num_second: Number of the second ones.
    """

    first: bytes
    second: bytes
    num_first: int
    num_second: int

    @property
    def num_tokens(self) -> int:
        """With [CLS] and [SEP]."""
        num_second = self.num_second
        return self.num_first + 2 + (num_second + 1 if num_second else 0)


class ExampleBuilder:
    """Gathers sentences into examples of at most `max_length` tokens."""

    def __init__(
        self,
        tokenizer: tokenization.FullTokenizer,
        max_length: int,
        rng: random.Random,
    ):
        """Starts without a sentence.

        Args:
          tokenizer: Supplies the ids of [CLS], [SEP] and [PAD].
          max_length: L.
          rng: All randomness; drawn from in the original's order.

        Raises:
          ValueError: If `max_length` is too small.
        """
        if max_length < MIN_SEQ_LENGTH:
            raise ValueError(
                f"Expected max_seq_length of at least {MIN_SEQ_LENGTH}. "
                f"Received: max_seq_length={max_length}."
            )
        self._cls = tokenizer.cls_token_id
        self._sep = tokenizer.sep_token_id
        self._pad = tokenizer.pad_token_id
        self._packed_cls = varint(self._cls)
        self._packed_sep = varint(self._sep)
        self._packed_pad = varint(self._pad)
        self._max_length = max_length
        self._rng = rng
        self._sentences: list[tuple[bytes, int]] = []
        self._length = 0
        self._target_length = max_length

    def add_sentence(self, token_ids: list[int]) -> Example | None:
        """Adds the tokens of a line that is not blank.

        Returns:
          An example, if the line fills it.
        """
        segments = self.add(pack_ids(token_ids), len(token_ids))
        return None if segments is None else self.make_example(segments)

    def end_document(self) -> Example | None:
        """Ends a document: at a blank line, or at the end of a file.

        Returns:
          An example of what was gathered, if it has a token.
        """
        segments = self.end()
        return None if segments is None else self.make_example(segments)

    def add(self, packed: bytes, num_ids: int) -> Segments | None:
        """As `add_sentence`, from packed ids to the segments of an example."""
        self._sentences.append((packed, num_ids))
        self._length += num_ids
        if self._length >= self._target_length:
            return self._cut()
        return None

    def end(self) -> Segments | None:
        """As `end_document`, to the segments of an example."""
        return self._cut() if self._length else None

    def _cut(self) -> Segments:
        draw = self._rng.random
        if draw() < _ONE_SEGMENT_PROBABILITY:
            first_target_length = _NO_LENGTH_LIMIT
        else:
            # [CLS] and two [SEP] are still to come.
            first_target_length = (self._target_length - 3) // 2
        first: list[bytes] = []
        second: list[bytes] = []
        num_first = num_second = 0
        for sentence, length in self._sentences:
            # The order of the tests decides how many draws are made.
            if (
                not num_first
                or num_first + length < first_target_length
                or (
                    not num_second
                    and num_first < first_target_length
                    and draw() < _OVERFILL_FIRST_SEGMENT_PROBABILITY
                )
            ):
                first.append(sentence)
                num_first += length
            else:
                second.append(sentence)
                num_second += length
        packed_first, packed_second = b"".join(first), b"".join(second)
        if num_first > (room := self._max_length - 2):
            packed_first = first_ids(packed_first, room)
            num_first = room
        if num_second > (room := max(0, self._max_length - num_first - 3)):
            packed_second = first_ids(packed_second, room)
            num_second = room

        self._sentences = []
        self._length = 0
        if draw() < _RANDOM_LENGTH_PROBABILITY:
            self._target_length = self._rng.randint(
                MIN_SEQ_LENGTH, self._max_length
            )
        else:
            self._target_length = self._max_length
        return Segments(packed_first, packed_second, num_first, num_second)

    def make_example(self, segments: Segments) -> Example:
        """Adds the special tokens and padding."""
        first = unpack_ids(segments.first)
        second = unpack_ids(segments.second)
        input_ids = [self._cls, *first, self._sep]
        segment_ids = [0] * len(input_ids)
        if second:
            input_ids += [*second, self._sep]
            segment_ids += [1] * (len(second) + 1)
        num_tokens = len(input_ids)
        num_padding = self._max_length - num_tokens
        return Example(
            input_ids + [self._pad] * num_padding,
            [1] * num_tokens + [0] * num_padding,
            segment_ids + [0] * num_padding,
        )

    def serialize(self, segments: Segments) -> bytes:
        """`serialize_example(make_example(segments))`, without its lists."""
        first, second, num_first, num_second = segments
        parts = [self._packed_cls, first, self._packed_sep]
        num_first += 2
        if num_second:
            num_second += 1
            parts += [second, self._packed_sep]
        num_padding = self._max_length - num_first - num_second
        parts.append(self._packed_pad * num_padding)
        padding = b"\0" * num_padding
        return _serialize_features(
            b"".join(parts),
            b"\1" * (num_first + num_second) + padding,
            b"\0" * num_first + b"\1" * num_second + padding,
        )


class _WordMemory(dict[str, bytes]):
    """From what lies between spaces to packed ids, found when first needed.

    Words of printable ASCII are split here, the tokenizer's way: most new
    words are such, and a call of its ops costs as much as a thousand of them.
    """

    # Of some 200 bytes each.
    MAX_ENTRIES = 1 << 18
    # Longer ones hardly come twice.
    MAX_CHARACTERS = 32

    def __init__(
        self,
        tokenizer: tokenization.FullTokenizer,
        older: dict[str, bytes],
    ):
        """Starts empty.

        Args:
          tokenizer: What it is equal to.
          older: What was needed earlier, and may be again.
        """
        super().__init__()
        self._older = older
        self._do_lower_case = tokenizer.do_lower_case
        self._packed_ids = {
            token: varint(i) for i, token in enumerate(tokenizer.vocab)
        }
        self._unknown = varint(tokenizer.unk_token_id)

    def __missing__(self, word: str) -> bytes:
        packed = self._older.get(word)
        if packed is None:
            # Elsewhere one character may decide what becomes of the next.
            if not (word.isascii() and word.isprintable()):
                raise KeyError(word)
            packed = self._split(word)
        if len(word) <= self.MAX_CHARACTERS:
            self[word] = packed
        return packed

    def _split(self, word: str) -> bytes:
        parts = _ASCII_WORDS.findall(
            word.lower() if self._do_lower_case else word
        )
        if parts == [word]:
            return self._longest_pieces(word)
        return b"".join(map(self.__getitem__, parts))

    def _longest_pieces(self, word: str) -> bytes:
        if len(word) > tokenization.MAX_CHARS_PER_WORD:
            return self._unknown
        found = b""
        prefix = ""
        while word:
            for end in range(len(word), 0, -1):
                if packed := self._packed_ids.get(prefix + word[:end]):
                    break
            else:
                return self._unknown
            found += packed
            word = word[end:]
            prefix = tokenization.SUFFIX_INDICATOR
        return found


class CachingLineTokenizer:
    """Tokenizes lines, and remembers what each word of theirs becomes.

    The tokenizer looks at nothing beyond a space, so the ids of a line are
    those of what lies between its spaces. Most of that was seen before.
    """

    def __init__(self, tokenizer: tokenization.FullTokenizer):
        """Starts with nothing to remember.

        Args:
          tokenizer: What it is equal to.
        """
        self._tokenizer = tokenizer
        self._memory = _WordMemory(tokenizer, {})

    def __call__(self, lines: list[str]) -> list[bytes]:
        """The packed token ids of each line."""
        if len(self._memory) > _WordMemory.MAX_ENTRIES:
            # What is still needed comes back from the older one.
            older = dict(self._memory)
            self._memory = _WordMemory(self._tokenizer, older)
        look_up = self._memory.__getitem__
        sentences: list[bytes] = []
        unfinished = []
        for number, line in enumerate(lines):
            try:
                sentences.append(b"".join(map(look_up, line.split(" "))))
            except KeyError:
                sentences.append(b"")
                unfinished.append(number)
        if unfinished:
            found = self._look_up(
                {word for i in unfinished for word in lines[i].split(" ")}
            )
            for i in unfinished:
                words = lines[i].split(" ")
                sentences[i] = b"".join(map(found.__getitem__, words))
        return sentences

    def _look_up(self, words: set[str]) -> dict[str, bytes]:
        """The packed ids of words, of which some are new."""
        found = {}
        new = []
        for word in words:
            try:
                found[word] = self._memory[word]
            except KeyError:
                new.append(word)
        tokens = self._tokenizer.tokenize(tf.constant(new, tf.string))
        ids = [*map(varint, tokens.flat_values.numpy().tolist())]
        ends = tokens.row_splits.numpy().tolist()
        for word, start, end in zip(new, ends, ends[1:], strict=False):
            found[word] = b"".join(ids[start:end])
            if len(word) <= _WordMemory.MAX_CHARACTERS:
                self._memory[word] = found[word]
        return found


_ASCII_WORDS = re.compile("[A-Za-z0-9]+|[^A-Za-z0-9]")


def make_line_tokenizer(
    tokenizer: tokenization.FullTokenizer,
) -> LineTokenizer:
    """A function from a batch of lines to a list of ids for each."""
    tokenize_lines = CachingLineTokenizer(tokenizer)
    return lambda lines: [*map(unpack_ids, tokenize_lines(lines))]


def examples_of_lines(
    lines: list[str], builder: ExampleBuilder, tokenize_lines: LineTokenizer
) -> Iterator[Example]:
    """Makes the examples that some lines complete.

    What is left in the builder goes on with the next lines; a line "" ends a
    document, and so should the last of a file.

    Args:
      lines: Without white space around them.
      builder: Whose state may come from earlier lines.
      tokenize_lines: See `make_line_tokenizer`.
    """
    for line, sentence in zip(lines, tokenize_lines(lines), strict=True):
        example = (
            builder.add_sentence(sentence) if line else builder.end_document()
        )
        if example is not None:
            yield example


class Progress(NamedTuple):
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


def make_builder(
    tokenizer: tokenization.FullTokenizer,
    max_seq_length: int,
    seed: int,
    file_name: str,
    share: str = "",
) -> ExampleBuilder:
    """The builder of one input file, whatever is built beside it.

    Args:
      tokenizer: Supplies the ids of [CLS], [SEP] and [PAD].
      max_seq_length: L.
      seed: Of the whole data set.
      file_name: The file's name in its corpus.
      share: "" for training, HELDOUT for what is held out.
    """
    # Strings seed by their SHA-512: the same on every machine.
    key = f"{seed}/{share}/{file_name}" if share else f"{seed}/{file_name}"
    return ExampleBuilder(tokenizer, max_seq_length, random.Random(key))


def examples_of_file(
    path: str,
    builder: ExampleBuilder,
    tokenize_lines: LineTokenizer,
    blanks_separate_docs: bool = True,
    reading: corpus.Reading | None = None,
) -> Iterator[Example]:
    """Makes the examples of one file; its end also ends a document.

    Args:
      path: A file of any kind that `corpus.read_lines` reads.
      builder: Whose state may come from an earlier file.
      tokenize_lines: See `make_line_tokenizer`.
      blanks_separate_docs: Whether a blank line ends a document; otherwise
        blank lines are skipped. `reading`, where given, says it instead.
      reading: How to read the file.

    Raises:
      ValueError: If the file cannot be read or is damaged.
    """
    reading = reading or corpus.Reading(blanks_separate_docs)
    for lines, _ in corpus.read_lines(path, reading=reading):
        yield from examples_of_lines(lines, builder, tokenize_lines)
    # Nothing, unless a damaged place was skipped.
    if (example := builder.end_document()) is not None:
        yield example


@functools.cache
def varint(value: int) -> bytes:
    """A number as protocol buffers write it; remembered."""
    rest = value & 0xFFFF_FFFF_FFFF_FFFF
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def pack_ids(ids: Iterable[int]) -> bytes:
    """The varints of some ids, one after the other."""
    return b"".join(map(varint, ids))


def unpack_ids(packed: bytes) -> list[int]:
    """The ids of `pack_ids`, which must not be negative."""
    ids = []
    value = shift = 0
    for byte in packed:
        value |= (byte & 0x7F) << shift
        if byte > 0x7F:
            shift += 7
        else:
            ids.append(value)
            value = shift = 0
    return ids


def count_ids(packed: bytes) -> int:
    """The number of packed ids: of bytes that end one."""
    return len(packed.translate(None, _CONTINUED))


def first_ids(packed: bytes, num_ids: int) -> bytes:
    """The first ids of packed ones, of which there are at least so many."""
    if not num_ids:
        return b""
    ends = np.flatnonzero(np.frombuffer(packed, np.uint8) < 0x80)
    return packed[: ends[num_ids - 1] + 1]


def serialize_example(example: Example) -> bytes:
    """A `tf.train.Example` with one int64 list for each of FEATURE_NAMES.

    Written by hand, in a fraction of the time, byte for byte as
    `SerializeToString(deterministic=True)` does: features in the order of
    their names.
    """
    return _serialize_features(*map(pack_ids, example))


def _serialize_features(
    input_ids: bytes, input_mask: bytes, segment_ids: bytes
) -> bytes:
    """A `tf.train.Example` of lists that are varints already."""
    num_ids, length = len(input_ids), len(input_mask)
    return b"".join(
        [
            _head_of_example(num_ids, length),
            input_ids,
            _head_of_feature("input_mask", length),
            input_mask,
            _head_of_feature("segment_ids", length),
            segment_ids,
        ]
    )


def _head_of_field(number: int, num_bytes: int) -> bytes:
    """What a field with that many bytes begins with."""
    return bytes([number << 3 | 2]) + varint(num_bytes)


@functools.lru_cache(maxsize=1 << 14)
def _head_of_feature(name: str, num_bytes: int) -> bytes:
    """What a feature with that many bytes of packed values begins with.

    Features.feature (1) is a map from key (1) to value (2), a Feature with
    int64_list (3), an Int64List with value (1), which is left out if empty.
    """
    head = _head_of_field(1, num_bytes) if num_bytes else b""
    for number in (3, 2):
        head = _head_of_field(number, len(head) + num_bytes) + head
    encoded = name.encode()
    head = _head_of_field(1, len(encoded)) + encoded + head
    return _head_of_field(1, len(head) + num_bytes) + head


@functools.lru_cache(maxsize=1 << 14)
def _head_of_example(num_ids: int, length: int) -> bytes:
    """The head of Example.features (1), and that of its first feature."""
    first = _head_of_feature("input_ids", num_ids)
    num_bytes = len(first) + num_ids
    for name in ("input_mask", "segment_ids"):
        num_bytes += len(_head_of_feature(name, length)) + length
    return _head_of_field(1, num_bytes) + first


def shard_name(index: int, num_shards: int) -> str:
    """The name of an output file, as the original gives it."""
    return f"pretrain_data.tfrecord-{index}-of-{num_shards}"


# The original's job.


class JobResult(NamedTuple):
    """What `write_examples` did.

    Attributes:
      output_files: Paths; example k of the job is in file k % number of files.
      examples_written_after_each_file: Name of each input file, in the order
        in which they were read, and the number of examples after it.
      rng: The source of randomness after the last draw.
    """

    output_files: list[str]
    examples_written_after_each_file: list[tuple[str, int]]
    rng: random.Random


def write_examples(
    corpus_dir: str,
    output_dir: str,
    tokenizer: tokenization.FullTokenizer,
    max_seq_length: int,
    seed: int,
    job_id: int = 0,
    num_processes: int = 1,
    num_out_files: int = 1000,
    blanks_separate_docs: bool = True,
) -> JobResult:
    """Writes one job's examples exactly as the original's job does.

    Job j takes the sorted files i with i % num_processes == j, shuffles them,
    and fills in turn the output files k with k % num_processes == j.

    Args:
      corpus_dir: A folder of text files.
      output_dir: An existing folder.
      tokenizer: Makes the ids.
      max_seq_length: L.
      seed: Seeds the job's randomness; the original leaves it unseeded.
      job_id: Number of the job, from 0.
      num_processes: Number of jobs.
      num_out_files: Number of output files of all jobs together.
      blanks_separate_docs: Whether a blank line ends a document.
    """
    rng = random.Random(seed)
    files = corpus.list_files(corpus_dir)[job_id::num_processes]
    rng.shuffle(files)
    builder = ExampleBuilder(tokenizer, max_seq_length, rng)
    tokenize_lines = make_line_tokenizer(tokenizer)
    output_files = [
        os.path.join(output_dir, shard_name(i, num_out_files))
        for i in range(job_id, num_out_files, num_processes)
    ]
    num_examples = 0
    counts = []
    with contextlib.ExitStack() as stack:
        writers = [
            stack.enter_context(tf.io.TFRecordWriter(path))
            for path in output_files
        ]
        for file in files:
            for example in examples_of_file(
                file.path, builder, tokenize_lines, blanks_separate_docs
            ):
                writer = writers[num_examples % len(writers)]
                writer.write(serialize_example(example))
                num_examples += 1
            counts.append((file.name, num_examples))
    return JobResult(output_files, counts, rng)


# The job whose output does not depend on the number of processes.

TRAINING = ""
HELDOUT = "heldout"
DROPPED = "dropped"

# Called with the number of a file of the part, the number of a document in it,
# and the document's lines; says which share gets it.
Chooser = Callable[[int, int, list[str]], str]


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
    counts: Progress
    heldout: Progress = Progress()
    num_dropped: int = 0
    num_bad_inputs: int = 0


class _ShareOfFile:
    """Builds one share of one file."""

    def __init__(self, builder: ExampleBuilder, writer):
        self.total = Progress()
        self._builder = builder
        self._writer = writer
        self._in_document = False

    def add(
        self,
        lines: list[str],
        sentences: Iterable[bytes],
        num_bytes: int = 0,
    ) -> Progress:
        """Writes the examples that the lines complete.

        Args:
          lines: A line "" ends a document.
          sentences: Packed ids of each line.
          num_bytes: What was read to get the lines.
        """
        add_sentence, end_document = self._builder.add, self._builder.end
        serialize, write = self._builder.serialize, self._writer.write
        in_document = self._in_document
        num_documents = num_tokens = num_examples = num_example_tokens = 0
        for line, sentence in zip(lines, sentences, strict=True):
            if line:
                in_document = True
                num_ids = count_ids(sentence)
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
        done = Progress(
            num_bytes,
            num_documents,
            num_tokens,
            num_examples,
            num_example_tokens,
        )
        self.total = add_up(self.total, done)
        return done


def add_up(*counts: Progress) -> Progress:
    """The sums of some counts."""
    return Progress(*map(sum, zip(*counts, strict=True)))


class _Piece(NamedTuple):
    """Lines of one share of a file, with what was read to get them."""

    file_number: int
    share: str
    lines: list[str]
    num_bytes: int


def _grouped(pieces: Iterator[_Piece]) -> Iterator[list[_Piece]]:
    """Small pieces together, since every call of a graph takes its time."""
    group = []
    num_bytes = num_lines = 0
    for piece in pieces:
        group.append(piece)
        num_bytes += piece.num_bytes
        num_lines += len(piece.lines)
        if num_bytes >= _GROUP_BYTES or num_lines >= _GROUP_LINES:
            yield group
            group = []
            num_bytes = num_lines = 0
    if group:
        yield group


def documents_of(
    batches: Iterable[corpus.LineBatch],
) -> Iterator[tuple[list[list[str]], int]]:
    """The documents that each batch of lines completes, and its bytes."""
    document: list[str] = []
    for lines, num_bytes in batches:
        documents = []
        for line in lines:
            if line:
                document.append(line)
            elif document:
                documents.append(document)
                document = []
        yield documents, num_bytes
    if document:
        yield [document], 0


def write_part(
    files: Sequence[corpus.CorpusFile],
    part_path: str,
    tokenizer: tokenization.FullTokenizer,
    tokenize_lines: PackedLineTokenizer,
    max_seq_length: int,
    seed: int,
    reading: corpus.Reading | None = None,
    report: Callable[[Progress], object] | None = None,
    heldout_path: str | None = None,
    choose: Chooser | None = None,
) -> list[FileRecord]:
    """Writes the examples of some files, in order, to one TFRecord file.

    Each file has a builder of its own, seeded with `seed` and the file's
    name: its examples do not depend on the files around it.

    Args:
      files: The input files.
      part_path: The output; appears under this name once it is whole.
      tokenizer: Supplies the special tokens.
      tokenize_lines: Gives packed ids, as `CachingLineTokenizer` does.
      max_seq_length: L.
      seed: Of the whole data set.
      reading: How to read the files.
      report: Called with what was done since the last call.
      heldout_path: The output of what is held out, if anything can be.
      choose: Says which share gets a document; without it, all are for
        training.

    Returns:
      One record for each input file.

    Raises:
      ValueError: If a file cannot be read or is damaged, or an output cannot
        be written.
    """
    reading = reading or corpus.Reading()
    digests = [hashlib.sha256() for _ in files]
    num_dropped = [0] * len(files)
    num_bad_inputs = [0] * len(files)

    def pieces() -> Iterator[_Piece]:
        for number, file in enumerate(files):

            def on_bad_input(message: str, number: int = number) -> None:
                num_bad_inputs[number] += 1
                # Raises where damaged places are not left out.
                reading.refuse(message)

            batches = corpus.read_lines(
                file.path,
                digests[number],
                reading._replace(on_bad_input=on_bad_input),
            )
            if choose is None:
                for lines, num_bytes in batches:
                    yield _Piece(number, TRAINING, lines, num_bytes)
                continue
            num_documents = 0
            for documents, num_bytes in documents_of(batches):
                lines_of: dict[str, list[str]] = {TRAINING: [], HELDOUT: []}
                for document in documents:
                    share = choose(number, num_documents, document)
                    num_documents += 1
                    if share == DROPPED:
                        num_dropped[number] += 1
                    else:
                        lines_of[share] += [*document, ""]
                yield _Piece(number, TRAINING, lines_of[TRAINING], num_bytes)
                if lines_of[HELDOUT]:
                    yield _Piece(number, HELDOUT, lines_of[HELDOUT], 0)

    paths = {TRAINING: part_path}
    if heldout_path is not None:
        paths[HELDOUT] = heldout_path
    records: list[FileRecord] = []
    with contextlib.ExitStack() as stack:
        writers = {
            share: stack.enter_context(_record_writer(path))
            for share, path in paths.items()
        }
        shares: dict[str, _ShareOfFile] = {}

        def finish_file() -> None:
            for share in shares.values():
                done = share.add([""], [b""])
                if report is not None and any(done):
                    report(done)
            number = len(records)
            records.append(
                FileRecord(
                    files[number].name,
                    digests[number].hexdigest(),
                    shares[TRAINING].total,
                    shares[HELDOUT].total if HELDOUT in shares else Progress(),
                    num_dropped[number],
                    num_bad_inputs[number],
                )
            )

        def start_file() -> None:
            for share, writer in writers.items():
                builder = make_builder(
                    tokenizer,
                    max_seq_length,
                    seed,
                    files[len(records)].name,
                    share,
                )
                shares[share] = _ShareOfFile(builder, writer)

        start_file()
        for group in _grouped(pieces()):
            sentences = iter(
                tokenize_lines(
                    [line for piece in group for line in piece.lines]
                )
            )
            for piece in group:
                while len(records) < piece.file_number:
                    finish_file()
                    start_file()
                done = shares[piece.share].add(
                    piece.lines,
                    itertools.islice(sentences, len(piece.lines)),
                    piece.num_bytes,
                )
                if report is not None:
                    report(done)
        while len(records) < len(files):
            finish_file()
            if len(records) < len(files):
                start_file()
    return records


@contextlib.contextmanager
def _record_writer(path: str) -> Iterator[tf.io.TFRecordWriter]:
    """Writes a TFRecord file that appears under its name once it is whole.

    Raises:
      ValueError: If it cannot be written.
    """
    temporary = path + ".tmp"
    try:
        with tf.io.TFRecordWriter(temporary) as writer:
            yield writer
    except tf.errors.OpError as error:
        reason = error.message.rpartition("; ")[2]
        raise ValueError(f"Cannot write {temporary!r}: {reason}.") from None
    os.replace(temporary, path)


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

    def temporary(shard: int) -> str:
        return shard_paths[shard] + ".tmp"

    def flush() -> None:
        for shard, buffer in buffers.items():
            with open(temporary(shard), "ab") as writer:
                writer.writelines(buffer)
            buffer.clear()

    num_examples = num_buffered_bytes = 0
    try:
        for shard in buffers:
            with open(temporary(shard), "wb"):
                pass
        for part_path in part_paths:
            with _mapped(part_path) as content:
                starts = _record_starts(content)
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
        for shard in buffers:
            os.replace(temporary(shard), shard_paths[shard])
    except OSError as error:
        raise ValueError(
            f"Cannot write {error.filename or shard_paths[0]!r}: "
            f"{error.strerror}."
        ) from None
    shares, rest = divmod(num_examples, num_shards)
    return [shares + (i < rest) for i in range(num_shards)]


def _record_starts(content: memoryview) -> list[int]:
    """Where the records of a TFRecord file begin, and where the last ends.

    A record is its length (8 bytes, little-endian), a checksum of that (4),
    the data, and a checksum of the data (4).
    """
    starts = [0]
    start = 0
    length_at = struct.Struct("<Q").unpack_from
    while start < len(content):
        start += length_at(content, start)[0] + 16
        starts.append(start)
    return starts


@contextlib.contextmanager
def _mapped(path: str) -> Iterator[memoryview]:
    """The bytes of a file."""
    if not os.path.getsize(path):
        yield memoryview(b"")
        return
    with (
        open(path, "rb") as reader,
        mmap.mmap(reader.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
        memoryview(mapped) as content,
    ):
        yield content
