"""TFRecords -> batches, as a function of the step.

Which examples a step sees, in which order and with which random draws, follows
from the seed and the step alone. A run that is resumed at step n opens its data
at step n, without reading what it has consumed, and neither replicas nor
workers change what is drawn.

TFRecord files are read at record offsets, found once by hopping over the
records' headers; an epoch's order is a pseudo-random permutation that needs no
memory.

Shapes: B batch, L length, N slots for predictions.
"""

import functools
import os
import struct
import typing
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from electra_tf import configs, electra
from electra_tf.pretraining_examples import FEATURE_NAMES

# Of the TFRecord format: <uint64 length> <uint32 crc> <data> <uint32 crc>.
_HEADER_SIZE = 12
_FOOTER_SIZE = 4
# Records that are parsed before a run starts.
_NUM_CHECKED = 1000
_MAX_OPEN_FILES = 100


class DataError(ValueError):
    """The data do not fit the run; the message is for the user."""


def match_files(pattern: str) -> list[str]:
    """Files that a glob, or globs separated by commas, match, in order.

    Raises:
      DataError: If nothing matches.
    """
    files: list[str] = []
    for part in pattern.split(","):
        files.extend(tf.io.gfile.glob(part.strip()))
    if not files:
        raise DataError(
            f"Expected TFRecord files at {pattern}, found none. Build them "
            "with: python tools/build_pretraining_dataset.py "
            "--corpus-dir=CORPUS --vocab-file=VOCAB --output-dir=DIR"
        )
    return sorted(files)


class Shard(typing.NamedTuple):
    """Which parts of every global batch an input pipeline yields.

    Attributes:
      num_parts: Parts in a global batch: replicas of the whole cluster.
      first_part: The first part of this pipeline.
      local_parts: How many parts are this pipeline's: replicas of its worker.
    """

    num_parts: int
    first_part: int
    local_parts: int

    def part(self, index):
        """Number of the index-th part that the pipeline yields."""
        step, local = index // self.local_parts, index % self.local_parts
        return step * self.num_parts + self.first_part + local


WHOLE = Shard(num_parts=1, first_part=0, local_parts=1)


class Records:
    """Random access to the records of TFRecord files.

    Args:
      files: Paths.

    Raises:
      DataError: If a file is not a TFRecord file, is cut short or empty.
    """

    def __init__(self, files: Sequence[str]):
        self.files = list(files)
        offsets = [_record_offsets(path) for path in self.files]
        # Record r is in the last file whose first record is at most r.
        counts = [len(of_file) for of_file in offsets]
        self.first_records = np.cumsum([0] + counts)[:-1]
        self.offsets = np.concatenate(offsets)
        self._open = functools.lru_cache(_MAX_OPEN_FILES)(_RandomAccessFile)
        if not len(self.offsets):
            raise DataError(
                f"Expected examples in {len(self.files)} TFRecord files, found "
                f"none. The first file is {self.files[0]}"
            )

    def __len__(self) -> int:
        return len(self.offsets)

    def locate(self, record: int) -> tuple[str, int]:
        """File of a record and its number in there, from 0."""
        index = np.searchsorted(self.first_records, record, side="right") - 1
        return self.files[index], int(record - self.first_records[index])

    def read(self, records: np.ndarray) -> np.ndarray:
        """Reads serialized examples.

        Args:
          records: <int64>[B].

        Returns:
          <object>[B] of bytes.
        """
        result = np.empty(len(records), dtype=object)
        file_indices = (
            np.searchsorted(self.first_records, records, side="right") - 1
        )
        for file_index in np.unique(file_indices):
            file = self._open(self.files[file_index])
            for i in np.flatnonzero(file_indices == file_index):
                result[i] = file.read_record(int(self.offsets[records[i]]))
        return result


class _RandomAccessFile:
    """A TFRecord file that several threads may read; closed when forgotten."""

    # Larger than most records: one call reads all of one.
    GUESS = 4096

    def __init__(self, path: str):
        self._path = path
        self._is_local = "://" not in path
        if self._is_local:
            self._file = open(path, "rb", buffering=0)  # noqa: SIM115

    def read_record(self, offset: int) -> bytes:
        """The data of the record that starts at an offset."""
        if self._is_local:
            number = self._file.fileno()
            found = os.pread(number, self.GUESS, offset)
            (length,) = struct.unpack_from("<Q", found)
            end = _HEADER_SIZE + length
            if end > len(found):
                found = os.pread(number, end, offset)
            return found[_HEADER_SIZE:end]
        with tf.io.gfile.GFile(self._path, "rb") as file:
            file.seek(offset)
            (length,) = struct.unpack("<Q", file.read(_HEADER_SIZE)[:8])
            return file.read(length)


def _record_offsets(path: str) -> np.ndarray:
    """Offsets of a TFRecord file's records, <int64>[num_records]."""
    with tf.io.gfile.GFile(path, "rb") as f:
        size = f.size()
        offsets: list[int] = []
        offset = 0
        while offset < size:
            f.seek(offset)
            header = f.read(_HEADER_SIZE)
            if len(header) == _HEADER_SIZE:
                (length,) = struct.unpack("<Q", header[:8])
                end = offset + _HEADER_SIZE + length + _FOOTER_SIZE
            if len(header) < _HEADER_SIZE or end > size:
                raise DataError(
                    f"Expected a whole TFRecord at byte {offset} of {path} "
                    f"(record {len(offsets)}), found the end of the file: it "
                    "is cut short or not a TFRecord file"
                )
            offsets.append(offset)
            offset = end
    return np.asarray(offsets, np.int64)


class PretrainingData:
    """The examples of a run.

    Args:
      pattern: Glob of TFRecord files.
      config: Of the model: length, vocabulary, masking.
      seed: Of the order and of all draws.
      shuffle: Visit the records in a new random order every epoch.
      service: tf.data services that prepare the batches, see
        `PretrainingDataConfig.data_service_address`; '' for this process.

    Raises:
      DataError: If files are missing, damaged or do not fit the model.
    """

    def __init__(
        self,
        pattern: str,
        config: configs.ElectraConfig,
        seed: int,
        shuffle: bool = True,
        service: str = "",
    ):
        self.service = [part.strip() for part in service.split(",") if part]
        self.config = config
        self.seed = seed
        self.shuffle = shuffle
        self.records = Records(match_files(pattern))
        self._check()

    def __len__(self) -> int:
        return len(self.records)

    def dataset(
        self, batch_size: int, first_step: int = 0, shard: Shard = WHOLE
    ) -> tf.data.Dataset:
        """Batches from a position in the endless stream of examples.

        Args:
          batch_size: B. Batch k holds examples k * B to (k + 1) * B of the
            stream.
          first_step: The step of the first batch.
          shard: Which parts of each step's examples to yield, a batch a part.

        Returns:
          A dataset of {"input_ids", "input_mask", "segment_ids"}: <int32>[B, L]
          and "noise": electra.Noise.
        """

        start = first_step * shard.local_parts
        if self.service:
            return self._served(batch_size, start, shard)

        def load(index):
            positions = _positions(shard, index, batch_size)
            records = self._order(positions)
            serialized, uniform = tf.numpy_function(
                self._read_and_draw,
                [records, positions],
                [tf.string, tf.float32],
                stateful=False,
            )
            serialized.set_shape([batch_size])
            uniform.set_shape([batch_size, noise_width(self.config)])
            features = self._parse(serialized, records)
            features["noise"] = split_noise(self.config, uniform)
            return features

        return (
            tf.data.Dataset.counter(start)
            .map(load, num_parallel_calls=2, deterministic=True)
            .prefetch(tf.data.AUTOTUNE)
        )

    def _served(
        self, batch_size: int, start: int, shard: Shard
    ) -> tf.data.Dataset:
        """`dataset`, prepared by tf.data services.

        The services take turns, and each yields its batches in order, so the
        batches and their order are those of `dataset`. That is checked: a
        service that was started anew begins at the beginning.
        """
        number = len(self.service)
        turns = [
            self._batches_in_graph(batch_size, start + i, number, shard).apply(
                tf.data.experimental.service.distribute(
                    tf.data.experimental.service.ShardingPolicy.OFF, address
                )
            )
            for i, address in enumerate(self.service)
        ]

        def check(expected, batch):
            index, features = batch
            message = tf.strings.format(
                "DataError: Expected batch {} of the data services, received "
                "{}: was one of them started anew, or has it several workers? "
                "Start the run again",
                (expected, index),
            )
            in_order = tf.debugging.Assert(index == expected, [message])
            with tf.control_dependencies([in_order]):
                return tf.nest.map_structure(tf.identity, features)

        batches = tf.data.Dataset.choose_from_datasets(
            turns, tf.data.Dataset.range(number).repeat()
        )
        return (
            tf.data.Dataset.zip(tf.data.Dataset.counter(start), batches)
            .map(check)
            .prefetch(tf.data.AUTOTUNE)
        )

    def _batches_in_graph(
        self, batch_size: int, start: int, step: int, shard: Shard
    ) -> tf.data.Dataset:
        """Batches start, start + step ... of `dataset`, without Python code.

        Other processes can run it: what they need to know of the records is
        part of it. Yields pairs of a batch's index and its features.
        """
        files = tf.constant(self.records.files)
        first_records = tf.constant(self.records.first_records)
        offsets = tf.constant(self.records.offsets)

        def locate(index):
            positions = _positions(shard, index, batch_size)
            records = self._order(positions)
            of_file = tf.searchsorted(first_records, records, "right") - 1
            places = tf.gather(files, of_file), tf.gather(offsets, records)
            return index, positions, records, places

        def read_record(path, offset):
            from_offset = tf.raw_ops.TFRecordDatasetV2(
                filenames=[path],
                compression_type="",
                buffer_size=_RandomAccessFile.GUESS,
                byte_offsets=[offset],
            )
            return tf.data.experimental.from_variant(
                from_offset, tf.TensorSpec([], tf.string)
            ).take(1)

        def read(index, positions, records, places):
            return (
                tf.data.Dataset.from_tensor_slices(places)
                .flat_map(read_record)
                .batch(batch_size, drop_remainder=True)
                .map(lambda serialized: (index, positions, records, serialized))
            )

        def draw(position):
            return tf.random.stateless_uniform(
                [noise_width(self.config)],
                tf.stack([tf.constant(self.seed, tf.int64), position]),
            )

        def parse(index, positions, records, serialized):
            features = self._parse(serialized, records, in_graph=True)
            uniform = tf.map_fn(draw, positions, fn_output_signature=tf.float32)
            features["noise"] = split_noise(self.config, uniform)
            return index, features

        return (
            tf.data.Dataset.counter(start, step)
            .map(locate)
            .flat_map(read)
            .map(parse, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        )

    def token_frequencies(self, num_records: int = 10_000) -> np.ndarray:
        """Share of each token among those that may be masked, or nearly so.

        Args:
          num_records: How many records to count, spread over all.

        Returns:
          <float32>[V], at least one count each, summing to 1.
        """
        records = np.unique(
            np.linspace(0, len(self) - 1, num_records).astype(np.int64)
        )
        features = self._parse(
            tf.constant(list(self.records.read(records))),
            tf.constant(records),
        )
        tokens = tf.boolean_mask(
            features["input_ids"], features["input_mask"] > 0
        )
        counts = 1.0 + np.bincount(
            tokens.numpy(), minlength=self.config.encoder.vocab_size
        )
        return (counts / counts.sum()).astype(np.float32)

    def _read_and_draw(self, records, positions):
        """Serialized examples and their draws, <float32>[B, noise_width]."""
        width = noise_width(self.config)
        return (
            self.records.read(records),
            uniform_rows(self.seed, positions, width),
        )

    def _order(self, positions: tf.Tensor) -> tf.Tensor:
        """Positions in the stream -> record numbers, <int64>[B]."""
        size = len(self.records)
        epochs, within = positions // size, positions % size
        if not self.shuffle or size == 1:
            return within

        # A batch rarely lies in more than two epochs.
        distinct, place = tf.unique(epochs)
        keys = tf.map_fn(self._epoch_key, distinct)
        seeds = tf.gather(keys, place)
        # tf.random.experimental.index_shuffle pads a batch of seeds along the
        # wrong axis, so the op below it is called.
        return tf.raw_ops.RandomIndexShuffle(
            index=within,
            seed=seeds,
            max_index=tf.constant(size - 1, tf.int64),
            rounds=4,
        )

    def _epoch_key(self, epoch: tf.Tensor) -> tf.Tensor:
        """Key of an epoch's permutation, <int64>[3]."""
        # The op that shuffles keeps few bits of a key of small numbers.
        return tf.random.stateless_uniform(
            [3],
            tf.stack([tf.constant(self.seed, tf.int64), epoch]),
            0,
            2**31 - 1,
            tf.int64,
        )

    def _parse(
        self, serialized, records, in_graph: bool = False
    ) -> dict[str, tf.Tensor]:
        """Parses a batch and refuses records that do not fit.

        Args:
          serialized: <string>[B].
          records: <int64>[B], their numbers.
          in_graph: Refuse without Python code, thus in fewer words.
        """
        length = self.config.max_seq_length
        vocab_size = self.config.encoder.vocab_size
        parsed = tf.io.parse_example(
            serialized,
            {name: tf.io.RaggedFeature(tf.int64) for name in FEATURE_NAMES},
        )
        ids = parsed["input_ids"].flat_values
        splits = length * tf.range(tf.shape(serialized)[0] + 1)
        fits = tf.reduce_all((ids >= 0) & (ids < vocab_size))
        for name in FEATURE_NAMES:
            fits &= tf.reduce_all(parsed[name].row_splits == splits)
        if in_graph:
            message = (
                "DataError: Expected examples of "
                f"{length} tokens with ids below {vocab_size}, received others:"
                " tools/check_data.py shows them"
            )
            checked = tf.debugging.Assert(fits, [message])
        else:
            checked = tf.cond(
                fits,
                lambda: True,
                lambda: self._find_and_refuse(parsed, records),
            )
        # A static shape, which XLA needs to compile the whole step.
        shape = [serialized.shape[0] or -1, length]
        with tf.control_dependencies([checked]):
            return {
                name: tf.reshape(
                    tf.cast(parsed[name].flat_values, tf.int32), shape
                )
                for name in FEATURE_NAMES
            }

    def _find_and_refuse(self, parsed, records) -> tf.Tensor:
        """Raises for the first record of a batch that does not fit."""
        lengths = tf.stack(
            [parsed[name].row_lengths() for name in FEATURE_NAMES], axis=-1
        )
        ids = parsed["input_ids"].to_tensor()
        largest = tf.reduce_max(ids, axis=-1)
        smallest = tf.reduce_min(ids, axis=-1)
        bad = tf.reduce_any(lengths != self.config.max_seq_length, axis=-1)
        bad |= (largest >= self.config.encoder.vocab_size) | (smallest < 0)
        return tf.numpy_function(
            self._refuse,
            [
                tf.boolean_mask(records, bad)[0],
                tf.boolean_mask(lengths, bad)[0],
                tf.boolean_mask(largest, bad)[0],
                tf.boolean_mask(smallest, bad)[0],
            ],
            tf.bool,
        )

    def _refuse(self, record, lengths, largest, smallest):
        """Raises for one record that does not fit the model."""
        path, number = self.records.locate(int(record))
        for name, length in zip(FEATURE_NAMES, lengths, strict=True):
            if length != self.config.max_seq_length:
                raise DataError(
                    f"Expected {self.config.max_seq_length} values of {name} "
                    "(ElectraConfig.max_seq_length), received "
                    f"{length} in record {number} of {path}"
                )
        worst = largest if smallest >= 0 else smallest
        raise DataError(
            "Expected token ids from 0 to "
            f"{self.config.encoder.vocab_size - 1} "
            f"(EncoderConfig.vocab_size - 1), received {worst} in record "
            f"{number} of {path}: was it built with another vocabulary?"
        )

    def _check(self):
        """Parses a sample of the records, the first of every file included."""
        firsts = self.records.first_records
        firsts = firsts[firsts < len(self.records)]
        spread = np.linspace(0, len(self.records) - 1, _NUM_CHECKED)
        records = np.unique(np.concatenate([firsts, spread.astype(np.int64)]))
        for start in range(0, len(records), _NUM_CHECKED):
            some = records[start : start + _NUM_CHECKED]
            try:
                self._parse(
                    tf.constant(list(self.records.read(some))),
                    tf.constant(some, tf.int64),
                )
            except (tf.errors.InvalidArgumentError, UnicodeDecodeError) as e:
                raise DataError(self._explain(e, some)) from e
            except tf.errors.UnknownError as error:
                raise DataError(data_error_message(error)) from error

    def _explain(self, error, records) -> str:
        """What a record that does not parse should have looked like."""
        message = data_error_message(error)
        if "DataError" in str(error):
            return message
        path, _ = self.records.locate(int(records[0]))
        return (
            f"Expected examples with the features {', '.join(FEATURE_NAMES)} "
            f"in {path} and its siblings. Received: {message}"
        )


def data_error_message(error: Exception) -> str:
    """The line of a DataError that TensorFlow wrapped into its own error."""
    text = str(error)
    if "DataError: " in text:
        text = text.split("DataError: ")[1]
    # What a graph asserts is in brackets.
    return text.split("\n")[0].split("]")[0]


def _positions(shard: Shard, index: tf.Tensor, batch_size: int) -> tf.Tensor:
    """Places in the stream of the examples of a batch, <int64>[B]."""
    return shard.part(index) * batch_size + tf.range(batch_size, dtype=tf.int64)


def noise_width(config: configs.ElectraConfig) -> int:
    """Uniform draws that an example takes."""
    return config.num_position_draws + 2 * config.max_predictions_per_seq


def split_noise(
    config: configs.ElectraConfig, uniform: tf.Tensor
) -> electra.Noise:
    """The draws of some examples by their use.

    Args:
      config: Of the model.
      uniform: <float32>[B, noise_width] in [0, 1).
    """
    num_slots = config.max_predictions_per_seq
    return electra.Noise(
        *tf.split(
            uniform,
            [config.num_position_draws, num_slots, num_slots],
            axis=-1,
        )
    )


def _two_lanes(first: int, second: int) -> np.ndarray:
    return np.array([first, second], np.uint64)[:, np.newaxis, np.newaxis]


# Philox-4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2,
# 3": its multipliers and what its key grows by from round to round. A counter
# or a result of four words is two lanes of two: words 0 and 2, words 1 and 3.
_PHILOX_MULTIPLIERS = _two_lanes(0xD2511F53, 0xCD9E8D57)
_PHILOX_KEY_STEPS = _two_lanes(0x9E3779B9, 0xBB67AE85)
_PHILOX_ROUNDS = 10
# The key with which TensorFlow scrambles the seeds of its stateless ops.
_SCRAMBLE_KEY = _two_lanes(0x3EC8F720, 0x02461E29)
_WORD = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def uniform_rows(seed: int, numbers: np.ndarray, width: int) -> np.ndarray:
    """Rows of uniform draws, each from a seed of its own, in one go.

    Row i has the bits of `tf.random.stateless_uniform([width], [seed,
    numbers[i]])` on a CPU. That op takes one seed at a time, and many small ops
    cost more than the draws.

    Args:
      seed: The same for all rows.
      numbers: <int64>[B].
      width: Draws in a row.

    Returns:
      <float32>[B, width] in [0, 1).
    """
    seeds = np.array([np.full_like(numbers, seed), numbers]).view(np.uint64)
    seeds = seeds[:, :, np.newaxis]
    words_0_2, words_1_3 = _philox(_SCRAMBLE_KEY, seeds & _WORD, seeds >> _HALF)
    # Words 0 and 1 are the row's key, 2 and 3 the upper half of its counter.
    key = np.stack([words_0_2[0], words_1_3[0]])
    shape = (2, len(numbers), -(-width // 4))
    counters_0_2 = np.empty(shape, np.uint64)
    counters_0_2[0] = np.arange(shape[-1])
    counters_0_2[1] = words_0_2[1]
    counters_1_3 = np.zeros(shape, np.uint64)
    counters_1_3[1] = words_1_3[1]
    words_0_2, words_1_3 = _philox(key, counters_0_2, counters_1_3)
    words = np.stack(
        [words_0_2[0], words_1_3[0], words_0_2[1], words_1_3[1]], axis=-1
    )
    words = words.reshape(len(numbers), -1)[:, :width].astype(np.uint32)
    # The last 23 bits are the mantissa of a number from 1 to 2.
    words = words & np.uint32(0x7FFFFF) | np.uint32(0x3F800000)
    return words.view(np.float32) - np.float32(1.0)


def _philox(
    key: np.ndarray, words_0_2: np.ndarray, words_1_3: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Four random words for each counter.

    Args:
      key: <uint64>[2, B or 1, 1], as everything here below 2**32.
      words_0_2: <uint64>[2, B, M], these words of the counters.
      words_1_3: <uint64>[2, B, M].

    Returns:
      Both lanes of the results, <uint64>[2, B, M].
    """
    for _ in range(_PHILOX_ROUNDS):
        products = (words_0_2 * _PHILOX_MULTIPLIERS)[::-1]
        words_0_2 = products >> _HALF ^ words_1_3 ^ key
        words_1_3 = products & _WORD
        key = key + _PHILOX_KEY_STEPS & _WORD
    return words_0_2, words_1_3
