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

# From lines to the tokens of each: ids, or their varints.
LineTokenizer = Callable[[list[str]], list[list]]


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
      first: [(tokens)], ids or whatever stands for them.
      second: [(tokens)].
    """

    first: list
    second: list

    @property
    def num_tokens(self) -> int:
        """With [CLS] and [SEP]."""
        num_second = len(self.second)
        return len(self.first) + 2 + (num_second + 1 if num_second else 0)


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
        self._cls_varint = varint(self._cls)
        self._sep_varint = varint(self._sep)
        self._pad_varint = varint(self._pad)
        self._max_length = max_length
        self._rng = rng
        self._sentences: list[list] = []
        self._length = 0
        self._target_length = max_length

    def add_sentence(self, token_ids: list[int]) -> Example | None:
        """Adds the tokens of a line that is not blank.

        Returns:
          An example, if the line fills it.
        """
        segments = self.add(token_ids)
        return None if segments is None else self.pack(segments)

    def end_document(self) -> Example | None:
        """Ends a document: at a blank line, or at the end of a file.

        Returns:
          An example of what was gathered, if it has a token.
        """
        segments = self.end()
        return None if segments is None else self.pack(segments)

    def add(self, tokens: list) -> Segments | None:
        """As `add_sentence`, before packing; tokens may be varints."""
        self._sentences.append(tokens)
        self._length += len(tokens)
        if self._length >= self._target_length:
            return self._cut()
        return None

    def end(self) -> Segments | None:
        """As `end_document`, before packing."""
        return self._cut() if self._length else None

    def _cut(self) -> Segments:
        draw = self._rng.random
        if draw() < _ONE_SEGMENT_PROBABILITY:
            first_target_length = _NO_LENGTH_LIMIT
        else:
            # [CLS] and two [SEP] are still to come.
            first_target_length = (self._target_length - 3) // 2
        first: list = []
        second: list = []
        for sentence in self._sentences:
            # The order of the tests decides how many draws are made.
            if (
                not first
                or len(first) + len(sentence) < first_target_length
                or (
                    not second
                    and len(first) < first_target_length
                    and draw() < _OVERFILL_FIRST_SEGMENT_PROBABILITY
                )
            ):
                first += sentence
            else:
                second += sentence
        first = first[: self._max_length - 2]
        second = second[: max(0, self._max_length - len(first) - 3)]

        self._sentences = []
        self._length = 0
        if draw() < _RANDOM_LENGTH_PROBABILITY:
            self._target_length = self._rng.randint(
                MIN_SEQ_LENGTH, self._max_length
            )
        else:
            self._target_length = self._max_length
        return Segments(first, second)

    def pack(self, segments: Segments) -> Example:
        """Adds the special tokens and padding."""
        first, second = segments
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
        """`serialize_example(pack(segments))`, without the lists between.

        Args:
          segments: Of varints (see `varint`) instead of ids.
        """
        first, second = segments
        input_ids = [self._cls_varint, *first, self._sep_varint]
        num_first = num_tokens = len(input_ids)
        if second:
            input_ids += second
            input_ids.append(self._sep_varint)
            num_tokens = len(input_ids)
        num_padding = self._max_length - num_tokens
        input_ids += [self._pad_varint] * num_padding
        padding = b"\0" * num_padding
        return _serialize_features(
            b"".join(input_ids),
            b"\1" * num_tokens + padding,
            b"\0" * num_first + b"\1" * (num_tokens - num_first) + padding,
        )


class CachingLineTokenizer:
    """Tokenizes lines, and remembers what each word of theirs becomes.

    The tokenizer looks at nothing beyond a space, so the pieces of a line are
    those of what lies between its spaces. Most of that was seen before: only
    the rest goes through the tokenizer's graph.
    """

    # Of some 250 bytes each.
    MAX_ENTRIES = 1 << 19
    # Longer ones hardly come twice.
    MAX_CHARACTERS = 32

    def __init__(
        self, tokenizer: tokenization.FullTokenizer, as_varints: bool = False
    ):
        """Starts with nothing to remember.

        Args:
          tokenizer: What it is equal to.
          as_varints: Whether it gives varints (see `varint`) for ids.
        """
        self._as_varints = as_varints
        self._do_lower_case = tokenizer.do_lower_case
        self._tokenize = tf.function(
            tokenizer.tokenize,
            input_signature=[tf.TensorSpec([None], tf.string)],
        )
        self._pieces: dict[str, tuple] = {}
        # Those that were not needed for a while.
        self._older_pieces: dict[str, tuple] = {}

    def __call__(self, lines: list[str]) -> list[list]:
        """The tokens of each line."""
        look_up = self._pieces.__getitem__
        join = itertools.chain.from_iterable
        sentences: list[list] = []
        unfinished = []
        for number, line in enumerate(lines):
            try:
                sentences.append([*join(map(look_up, line.split(" ")))])
            except KeyError:
                sentences.append([])
                unfinished.append(number)
        if unfinished:
            found = self._look_up(
                {word for i in unfinished for word in lines[i].split(" ")}
            )
            for i in unfinished:
                words = lines[i].split(" ")
                sentences[i] = [*join(map(found.__getitem__, words))]
        return sentences

    def _look_up(self, words: set[str]) -> dict[str, tuple]:
        """The tokens of words, of which some may be new."""
        found = self._remembered(words)
        parts_of = {
            word: self._split(word) for word in words if word not in found
        }
        parts = {part for parts in parts_of.values() for part in parts}
        pieces_of = self._remembered(parts)
        pieces_of |= self._tokenize_new(parts - pieces_of.keys())
        for word, parts_of_word in parts_of.items():
            found[word] = tuple(
                itertools.chain.from_iterable(
                    map(pieces_of.__getitem__, parts_of_word)
                )
            )
        new = {
            word: pieces
            for word, pieces in (pieces_of | found).items()
            if word not in self._pieces and len(word) <= self.MAX_CHARACTERS
        }
        if len(self._pieces) + len(new) > self.MAX_ENTRIES // 2:
            # What is still needed comes back from there.
            self._older_pieces, self._pieces = self._pieces, {}
        self._pieces.update(new)
        return found

    def _remembered(self, words: set[str]) -> dict[str, tuple]:
        newer, older = self._pieces, self._older_pieces
        found = {word: newer[word] for word in words if word in newer}
        for word in words - found.keys():
            if word in older:
                found[word] = older[word]
        return found

    def _split(self, word: str) -> list[str]:
        """Splits ASCII at punctuation, as the tokenizer does, to ask less.

        Elsewhere one character may decide what becomes of the next.
        """
        if word.isascii() and word.isprintable():
            if self._do_lower_case:
                word = word.lower()
            return _ASCII_WORDS.findall(word)
        return [word]

    def _tokenize_new(self, words: set[str]) -> dict[str, tuple]:
        if not words:
            return {}
        in_order = list(words)
        tokens = self._tokenize(tf.constant(in_order, tf.string))
        ids = tokens.flat_values.numpy().tolist()
        if self._as_varints:
            ids = [*map(varint, ids)]
        ends = tokens.row_splits.numpy().tolist()
        return {
            word: tuple(ids[start:end])
            for word, start, end in zip(in_order, ends, ends[1:], strict=False)
        }


_ASCII_WORDS = re.compile("[A-Za-z0-9]+|[^A-Za-z0-9]")


def make_line_tokenizer(
    tokenizer: tokenization.FullTokenizer,
) -> LineTokenizer:
    """A function from a batch of lines to a list of ids for each."""
    return CachingLineTokenizer(tokenizer)


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


def serialize_example(example: Example) -> bytes:
    """A `tf.train.Example` with one int64 list for each of FEATURE_NAMES.

    Written by hand, in a fraction of the time, byte for byte as
    `SerializeToString(deterministic=True)` does: features in the order of
    their names.
    """
    return _serialize_features(
        *(b"".join(map(varint, values)) for values in example)
    )


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
        sentences: Iterable[list],
        num_bytes: int = 0,
    ) -> Progress:
        """Writes the examples that the lines complete.

        Args:
          lines: A line "" ends a document.
          sentences: Varints of each line.
          num_bytes: What was read to get the lines.
        """
        add_sentence, end_document = self._builder.add, self._builder.end
        serialize, write = self._builder.serialize, self._writer.write
        in_document = self._in_document
        num_documents = num_tokens = num_examples = num_example_tokens = 0
        for line, sentence in zip(lines, sentences, strict=True):
            if line:
                in_document = True
                num_tokens += len(sentence)
                segments = add_sentence(sentence)
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
    tokenize_lines: LineTokenizer,
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
      tokenize_lines: Gives varints, as `CachingLineTokenizer` can.
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
                done = share.add([""], [[]])
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
        i: bytearray()
        for i in (range(num_shards) if wanted is None else wanted)
    }

    def temporary(shard: int) -> str:
        return shard_paths[shard] + ".tmp"

    def flush() -> None:
        for shard, buffer in buffers.items():
            with open(temporary(shard), "ab") as writer:
                writer.write(buffer)
            buffer.clear()

    num_examples = num_buffered_bytes = 0
    try:
        for shard in buffers:
            with open(temporary(shard), "wb"):
                pass
        for part_path in part_paths:
            for record in _raw_records(part_path):
                buffer = buffers.get(num_examples % num_shards)
                num_examples += 1
                if buffer is None:
                    continue
                buffer += record
                num_buffered_bytes += len(record)
                if num_buffered_bytes > _MERGE_BUFFER_BYTES:
                    flush()
                    num_buffered_bytes = 0
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


def _raw_records(path: str) -> Iterator[memoryview]:
    """The records of a TFRecord file with their framing.

    A record is its length (8 bytes, little-endian), a checksum of that (4),
    the data, and a checksum of the data (4).
    """
    if not os.path.getsize(path):
        return
    with (
        open(path, "rb") as reader,
        mmap.mmap(reader.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
        memoryview(mapped) as content,
    ):
        start = 0
        while start < len(content):
            (num_bytes,) = struct.unpack_from("<Q", content, start)
            end = start + num_bytes + 16
            with content[start:end] as record:
                yield record
            start = end
