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
import hashlib
import os
import random
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

LineTokenizer = Callable[[list[str]], list[list[int]]]


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
        self._max_length = max_length
        self._rng = rng
        self._sentences: list[list[int]] = []
        self._length = 0
        self._target_length = max_length

    def add_sentence(self, token_ids: list[int]) -> Example | None:
        """Adds the tokens of a line that is not blank.

        Returns:
          An example, if the line fills it.
        """
        self._sentences.append(token_ids)
        self._length += len(token_ids)
        if self._length >= self._target_length:
            return self._create_example()
        return None

    def end_document(self) -> Example | None:
        """Ends a document: at a blank line, or at the end of a file.

        Returns:
          An example of what was gathered, if it has a token.
        """
        return self._create_example() if self._length else None

    def _create_example(self) -> Example:
        rng = self._rng
        if rng.random() < _ONE_SEGMENT_PROBABILITY:
            first_target_length = _NO_LENGTH_LIMIT
        else:
            # [CLS] and two [SEP] are still to come.
            first_target_length = (self._target_length - 3) // 2
        first: list[int] = []
        second: list[int] = []
        for sentence in self._sentences:
            # The order of the tests decides how many draws are made.
            if (
                not first
                or len(first) + len(sentence) < first_target_length
                or (
                    not second
                    and len(first) < first_target_length
                    and rng.random() < _OVERFILL_FIRST_SEGMENT_PROBABILITY
                )
            ):
                first += sentence
            else:
                second += sentence
        first = first[: self._max_length - 2]
        second = second[: max(0, self._max_length - len(first) - 3)]

        self._sentences = []
        self._length = 0
        if rng.random() < _RANDOM_LENGTH_PROBABILITY:
            self._target_length = rng.randint(MIN_SEQ_LENGTH, self._max_length)
        else:
            self._target_length = self._max_length
        return self._pack(first, second)

    def _pack(self, first: list[int], second: list[int]) -> Example:
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


def make_line_tokenizer(
    tokenizer: tokenization.FullTokenizer,
) -> LineTokenizer:
    """A function from a batch of lines to a list of ids for each."""
    tokenize = tf.function(
        tokenizer.tokenize,
        input_signature=[tf.TensorSpec([None], tf.string)],
    )

    def tokenize_lines(lines: list[str]) -> list[list[int]]:
        if not lines:
            return []
        tokens = tokenize(tf.constant(lines, tf.string))
        ids = tokens.flat_values.numpy().tolist()
        ends = tokens.row_splits.numpy().tolist()
        return [
            ids[start:end] for start, end in zip(ends, ends[1:], strict=False)
        ]

    return tokenize_lines


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


class _Tally:
    """Adds reports up and passes them on."""

    def __init__(self, report: Callable[[Progress], object] | None):
        self.total = Progress()
        self._report = report

    def add(self, done: Progress) -> None:
        self.total = Progress(*map(sum, zip(self.total, done, strict=True)))
        if self._report is not None:
            self._report(done)


def examples_of_file(
    path: str,
    builder: ExampleBuilder,
    tokenize_lines: LineTokenizer,
    blanks_separate_docs: bool = True,
    report: Callable[[Progress], object] | None = None,
    digest=None,
) -> Iterator[Example]:
    """Makes the examples of one file; its end also ends a document.

    Args:
      path: A UTF-8 text file.
      builder: Whose state may come from an earlier file.
      tokenize_lines: See `make_line_tokenizer`.
      blanks_separate_docs: Whether a blank line ends a document; otherwise
        blank lines are skipped.
      report: Called after every batch of lines.
      digest: A `hashlib` object that is fed the file's bytes.

    Raises:
      ValueError: If the file cannot be read or is not UTF-8.
    """
    in_document = False
    for lines, num_bytes in corpus.read_lines(path, digest):
        sentences = iter(tokenize_lines([line for line in lines if line]))
        num_documents = num_tokens = num_examples = num_example_tokens = 0
        for line in lines:
            if line:
                in_document = True
                sentence = next(sentences)
                num_tokens += len(sentence)
                example = builder.add_sentence(sentence)
            elif blanks_separate_docs:
                num_documents += in_document
                in_document = False
                example = builder.end_document()
            else:
                continue
            if example is not None:
                num_examples += 1
                num_example_tokens += sum(example.input_mask)
                yield example
        if report is not None:
            report(
                Progress(
                    num_bytes,
                    num_documents,
                    num_tokens,
                    num_examples,
                    num_example_tokens,
                )
            )
    example = builder.end_document()
    if report is not None:
        report(
            Progress(
                num_documents=int(in_document),
                num_examples=int(example is not None),
                num_example_tokens=sum(example.input_mask) if example else 0,
            )
        )
    if example is not None:
        yield example


def serialize_example(example: Example) -> bytes:
    """A `tf.train.Example` with one int64 list for each of FEATURE_NAMES."""
    proto = tf.train.Example()
    features = proto.features.feature
    for name, values in zip(FEATURE_NAMES, example, strict=True):
        features[name].int64_list.value.extend(values)
    # Otherwise the order of the features, thus the bytes, may vary.
    return proto.SerializeToString(deterministic=True)


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


class FileRecord(NamedTuple):
    """What became of one input file: its hash and its counts."""

    name: str
    sha256: str
    counts: Progress


def write_part(
    files: Iterable[corpus.CorpusFile],
    part_path: str,
    tokenizer: tokenization.FullTokenizer,
    tokenize_lines: LineTokenizer,
    max_seq_length: int,
    seed: int,
    blanks_separate_docs: bool = True,
    report: Callable[[Progress], object] | None = None,
) -> list[FileRecord]:
    """Writes the examples of some files, in order, to one TFRecord file.

    Each file has a builder of its own, seeded with `seed` and the file's
    name: its examples do not depend on the files around it.

    Args:
      files: The input files.
      part_path: The output; appears under this name once it is whole.
      tokenizer: Supplies the special tokens.
      tokenize_lines: See `make_line_tokenizer`.
      max_seq_length: L.
      seed: Of the whole data set.
      blanks_separate_docs: Whether a blank line ends a document.
      report: Called with what was done since the last call.

    Returns:
      One record for each input file.

    Raises:
      ValueError: If a file cannot be read or is not UTF-8.
    """
    temporary = part_path + ".tmp"
    records = []
    try:
        with tf.io.TFRecordWriter(temporary) as writer:
            for file in files:
                # Strings seed by their SHA-512: the same on every machine.
                rng = random.Random(f"{seed}/{file.name}")
                digest = hashlib.sha256()
                done = _Tally(report)
                for example in examples_of_file(
                    file.path,
                    ExampleBuilder(tokenizer, max_seq_length, rng),
                    tokenize_lines,
                    blanks_separate_docs,
                    done.add,
                    digest,
                ):
                    writer.write(serialize_example(example))
                records.append(
                    FileRecord(file.name, digest.hexdigest(), done.total)
                )
    except tf.errors.OpError as error:
        raise ValueError(
            f"Cannot write {temporary!r}: {error.message}"
        ) from None
    os.replace(temporary, part_path)
    return records


def merge_parts(
    part_paths: Sequence[str], shard_paths: Sequence[str], seed: int
) -> list[int]:
    """Deals the examples of all parts, the parts shuffled, to shards in turn.

    Neighbours of a document thus land in different shards, as they do in the
    original. Records are copied as they are, checksums included.

    Args:
      part_paths: TFRecord files, in an order that depends on the corpus only.
      shard_paths: The files to write.
      seed: Of the whole data set.

    Returns:
      The number of examples in each shard.
    """
    part_paths = list(part_paths)
    random.Random(seed).shuffle(part_paths)
    buffers = [bytearray() for _ in shard_paths]
    for path in shard_paths:
        with open(path, "wb"):
            pass

    def flush() -> None:
        for path, buffer in zip(shard_paths, buffers, strict=True):
            with open(path, "ab") as writer:
                writer.write(buffer)
            buffer.clear()

    num_examples = num_buffered_bytes = 0
    for part_path in part_paths:
        for record in _raw_records(part_path):
            buffers[num_examples % len(buffers)] += record
            num_examples += 1
            num_buffered_bytes += len(record)
            if num_buffered_bytes > _MERGE_BUFFER_BYTES:
                flush()
                num_buffered_bytes = 0
    flush()
    shares, rest = divmod(num_examples, len(buffers))
    return [shares + (i < rest) for i in range(len(buffers))]


def _raw_records(path: str) -> Iterator[bytes]:
    """The records of a TFRecord file with their framing.

    A record is its length (8 bytes, little-endian), a checksum of that (4),
    the data, and a checksum of the data (4).
    """
    with open(path, "rb", buffering=1 << 20) as reader:
        while header := reader.read(12):
            (num_bytes,) = struct.unpack("<Q", header[:8])
            yield header + reader.read(num_bytes + 4)
