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
            with tf.io.gfile.GFile(self.files[file_index], "rb") as f:
                for i in np.flatnonzero(file_indices == file_index):
                    f.seek(int(self.offsets[records[i]]))
                    (length,) = struct.unpack("<Q", f.read(_HEADER_SIZE)[:8])
                    result[i] = f.read(length)
        return result


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

    Raises:
      DataError: If files are missing, damaged or do not fit the model.
    """

    def __init__(
        self,
        pattern: str,
        config: configs.ElectraConfig,
        seed: int,
        shuffle: bool = True,
    ):
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

        def load(index):
            positions = shard.part(index) * batch_size + tf.range(
                batch_size, dtype=tf.int64
            )
            records = self._order(positions)
            serialized = tf.numpy_function(
                self.records.read, [records], tf.string, stateful=False
            )
            serialized.set_shape([batch_size])
            features = self._parse(serialized, records)
            features["noise"] = draw_noise(self.config, self.seed, positions)
            return features

        return (
            tf.data.Dataset.counter(first_step * shard.local_parts)
            .map(load, num_parallel_calls=2, deterministic=True)
            .prefetch(tf.data.AUTOTUNE)
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

    def _order(self, positions: tf.Tensor) -> tf.Tensor:
        """Positions in the stream -> record numbers, <int64>[B]."""
        size = len(self.records)
        epochs, within = positions // size, positions % size
        if not self.shuffle or size == 1:
            return within

        def epoch_key(epoch):
            # The op below keeps few bits of a key of small numbers.
            return tf.random.stateless_uniform(
                [3],
                tf.stack([tf.constant(self.seed, tf.int64), epoch]),
                0,
                2**31 - 1,
                tf.int64,
            )

        seeds = tf.map_fn(epoch_key, epochs)
        # tf.random.experimental.index_shuffle pads a batch of seeds along the
        # wrong axis, so the op below it is called.
        return tf.raw_ops.RandomIndexShuffle(
            index=within,
            seed=seeds,
            max_index=tf.constant(size - 1, tf.int64),
            rounds=4,
        )

    def _parse(self, serialized, records) -> dict[str, tf.Tensor]:
        """Parses a batch and refuses records that do not fit."""
        length = self.config.max_seq_length
        vocab_size = self.config.encoder.vocab_size
        parsed = tf.io.parse_example(
            serialized,
            {name: tf.io.RaggedFeature(tf.int64) for name in FEATURE_NAMES},
        )
        lengths = tf.stack(
            [parsed[name].row_lengths() for name in FEATURE_NAMES], axis=-1
        )
        largest = tf.reduce_max(parsed["input_ids"].to_tensor(), axis=-1)
        smallest = tf.reduce_min(parsed["input_ids"].to_tensor(), axis=-1)
        bad = tf.reduce_any(lengths != length, axis=-1)
        bad |= (largest >= vocab_size) | (smallest < 0)

        def refuse():
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

        checked = tf.cond(tf.reduce_any(bad), refuse, lambda: True)
        with tf.control_dependencies([checked]):
            return {
                name: tf.cast(
                    parsed[name].to_tensor(shape=[None, length]), tf.int32
                )
                for name in FEATURE_NAMES
            }

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
    return text.split("\n")[0]


def draw_noise(
    config: configs.ElectraConfig, seed: int, positions: tf.Tensor
) -> electra.Noise:
    """The uniform draws of some examples, from their place in the stream.

    Args:
      config: Of the model.
      seed: Of the run.
      positions: <int64>[B], the examples' places in the stream.

    Returns:
      electra.Noise, each row a function of the seed and its example only.
    """
    num_slots = config.max_predictions_per_seq
    num_positions = (
        config.max_seq_length if config.distinct_positions else num_slots
    )

    def draw(position):
        return tf.random.stateless_uniform(
            [num_positions + 2 * num_slots],
            seed=tf.stack([tf.constant(seed, tf.int64), position]),
        )

    uniform = tf.map_fn(draw, positions, fn_output_signature=tf.float32)
    uniform = tf.ensure_shape(uniform, [None, num_positions + 2 * num_slots])
    return electra.Noise(
        *tf.split(uniform, [num_positions, num_slots, num_slots], axis=-1)
    )
