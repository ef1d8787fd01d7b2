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

import hashlib

import numpy as np
import tensorflow as tf

from electra_tf import configs, errors
from electra_tf.pretraining_data import draws
from electra_tf.pretraining_data import records as records_lib
from electra_tf.pretraining_data.records import FEATURE_NAMES
from electra_tf.training import replicas
from electra_tf.training.numpy_functions import numpy_function

# Batches that are read at once. An example of 128 tokens takes some 40
# microseconds of a core, of which a tenth is Python.
_PARALLEL_CALLS = 4
# Records whose tokens are counted, spread over all.
_NUM_COUNTED = 10_000


class PretrainingData:
    """The examples of a run.

    Args:
      pattern: Glob of TFRecord files.
      config: Of the model: length, vocabulary, masking.
      seed: Of the order and of all draws.
      shuffle: Visit the records in a new random order every epoch.
      in_graph: Yield the same batches without Python code, as another machine
        makes them.

    Attributes:
      digest: SHA-256 of where the records begin and of those that are looked
        at before a run: the same for the same files in another folder.
      sampled_ids: The token ids in these.

    Raises:
      DataError: If files are missing, damaged or do not fit the model.
    """

    def __init__(
        self,
        pattern: str,
        config: configs.ElectraConfig,
        seed: int,
        shuffle: bool = True,
        in_graph: bool = False,
    ):
        self.config = config
        vocab_size = config.encoder.vocab_size
        num_segments = config.encoder.type_vocab_size
        # Feature -> what its values are below, and the same in words. Other
        # orders of ones and zeros mean what they mean in the original.
        self._ranges = {
            "input_ids": (
                vocab_size,
                f"token ids from 0 to {vocab_size - 1} "
                "(EncoderConfig.vocab_size - 1)",
            ),
            "input_mask": (2, "an input_mask of zeros and ones"),
            "segment_ids": (
                num_segments,
                f"segment_ids from 0 to {num_segments - 1} "
                "(EncoderConfig.type_vocab_size - 1)",
            ),
        }
        self.seed = seed
        self.shuffle = shuffle
        self.in_graph = in_graph
        self.records = records_lib.Records(records_lib.match_files(pattern))
        self._check()

    def __len__(self) -> int:
        return len(self.records)

    def warn_as_heldout(
        self,
        train: "PretrainingData | None",
        batch_size: int,
        num_steps: int | None,
    ) -> None:
        """Warns of what metrics of these held-out examples do not say.

        Args:
          train: What is trained on, if that is known.
          batch_size: Of an evaluation.
          num_steps: Of it at most; None for all.
        """
        # Of copies and links as well, wherever they are.
        if shared := self.records.doubled(train.records) if train else ():
            errors.warn(
                f"{len(shared)} of {len(self.records.files)} held-out file(s) "
                f"are trained on, too, such as {shared[0][0]}: their metrics "
                "say nothing of other texts"
            )
        steps, rest = divmod(len(self), batch_size)
        if rest and (num_steps is None or num_steps > steps):
            errors.warn(
                f"the last {rest} of {len(self)} held-out examples are not "
                f"scored, as batches of {batch_size} are whole"
            )

    def dataset(
        self,
        batch_size: int,
        first_step: int = 0,
        shard: replicas.Shard = replicas.WHOLE,
    ) -> tf.data.Dataset:
        """Batches from a position in the endless stream of examples.

        Args:
          batch_size: B. Batch k holds examples k * B to (k + 1) * B of the
            stream.
          first_step: The step of the first batch.
          shard: Which parts of each step's examples to yield, a batch a part.

        Returns:
          A dataset of {"input_ids", "input_mask", "segment_ids"}: <int32>[B, L]
          and "noise": masking.Noise.
        """
        start = first_step * shard.local_parts

        def load(index):
            positions = draws.positions_of(shard, index, batch_size)
            records = self._order(positions)
            serialized = numpy_function(
                self.records.read, [records], tf.string, stateful=False
            )
            serialized.set_shape([batch_size])
            return self._with_noise(serialized, positions, records)

        if self.in_graph:
            batches = self._batches_in_graph(batch_size, start, shard)
        else:
            batches = tf.data.Dataset.counter(start).map(
                load, num_parallel_calls=_PARALLEL_CALLS, deterministic=True
            )
        ahead = batches.prefetch(replicas.PREFETCHED_BATCHES)
        return ahead.with_options(replicas.UNTUNED)

    def _batches_in_graph(
        self, batch_size: int, start: int, shard: replicas.Shard
    ) -> tf.data.Dataset:
        """Batches from `start` on of `dataset`, for any process to make."""
        files = tf.constant(self.records.files)
        first_records = tf.constant(self.records.first_records)
        offsets = tf.constant(self.records.offsets)

        def locate(index):
            positions = draws.positions_of(shard, index, batch_size)
            records = self._order(positions)
            numbers = tf.searchsorted(first_records, records, "right") - 1
            places = tf.gather(files, numbers), tf.gather(offsets, records)
            return positions, records, places

        def read_record(path, offset):
            from_offset = tf.raw_ops.TFRecordDatasetV2(
                filenames=[path],
                compression_type="",
                buffer_size=records_lib.RandomAccessFile.GUESS,
                byte_offsets=[offset],
            )
            return tf.data.experimental.from_variant(
                from_offset, tf.TensorSpec([], tf.string)
            ).take(1)

        def read(positions, records, places):
            return (
                tf.data.Dataset.from_tensor_slices(places)
                .flat_map(read_record)
                .batch(batch_size, drop_remainder=True)
                .map(lambda serialized: (positions, records, serialized))
            )

        def parse(positions, records, serialized):
            return self._with_noise(serialized, positions, records)

        return (
            tf.data.Dataset.counter(start)
            .map(locate)
            .flat_map(read)
            .map(parse, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        )

    def token_frequencies(self) -> np.ndarray:
        """Share of each token, of all but padding, in some of the records.

        Returns:
          <float32>[V], at least one count each, summing to 1. [CLS] and [SEP]
          are counted, though nothing masks them.
        """
        spread = np.linspace(0, len(self) - 1, _NUM_COUNTED)
        records = np.unique(spread.astype(np.int64))
        features = self.read_features(records)
        counts = 1.0 + np.bincount(
            features["input_ids"][features["input_mask"] == 1],
            minlength=self.config.encoder.vocab_size,
        )
        return np.asarray(counts / counts.sum(), np.float32)

    def share_of_padding(self) -> float:
        """Of all tokens, in the records that `digest` is of."""
        return 1.0 - self._num_real_tokens / self._num_tokens

    def refuse_without_text(self, vocab) -> None:
        """Raises a DataError where these hold special tokens alone."""
        if self.sampled_ids <= {0, vocab.cls_token_id, vocab.sep_token_id}:
            raise errors.DataError(
                "Expected tokens to learn from. Received: padding, [CLS] and "
                f"[SEP] alone in {self.records.files[0]} and all of "
                f"{len(self.records.files)} file(s)"
            )

    def _with_noise(self, serialized, positions, records) -> dict:
        """What `dataset` yields of serialized examples <string>[B]."""
        width = draws.noise_width(self.config)
        uniform = draws.uniform_rows(self.seed, positions, width)
        return self._parse(serialized, records) | {
            "noise": draws.split_noise(self.config, uniform)
        }

    def _order(self, positions: tf.Tensor) -> tf.Tensor:
        """Positions in the stream -> record numbers, <int64>[B]."""
        size = len(self.records)
        epochs, within = positions // size, positions % size
        if not self.shuffle or size == 1:
            return within

        # A batch rarely lies in more than two epochs.
        distinct, place = tf.unique(epochs)
        keys = tf.map_fn(
            # The op that shuffles keeps few bits of a key of small numbers.
            lambda epoch: tf.random.stateless_uniform(
                [3],
                tf.stack([tf.constant(self.seed, tf.int64), epoch]),
                0,
                2**31 - 1,
                tf.int64,
            ),
            distinct,
        )
        seeds = tf.gather(keys, place)
        # tf.random.experimental.index_shuffle pads a batch of seeds along the
        # wrong axis, so the op below it is called.
        return tf.raw_ops.RandomIndexShuffle(
            index=within,
            seed=seeds,
            max_index=tf.constant(size - 1, tf.int64),
            rounds=4,
        )

    def _parse(self, serialized, records) -> dict[str, tf.Tensor]:
        """Parses <string>[B] and refuses records that do not fit, by their
        numbers <int64>[B], or without Python code, in fewer words.
        """
        length = self.config.max_seq_length
        parsed = tf.io.parse_example(serialized, records_lib.FEATURES)
        splits = length * tf.range(tf.shape(serialized)[0] + 1)
        fits = tf.constant(True)
        for name, (limit, _) in self._ranges.items():
            values = parsed[name].flat_values
            fits &= tf.reduce_all((values >= 0) & (values < limit))
            fits &= tf.reduce_all(parsed[name].row_splits == splits)
        if self.in_graph and not tf.executing_eagerly():
            message = (
                f"DataError: Expected examples of {length} tokens with "
                + ", ".join(words for _, words in self._ranges.values())
                + ", received others: electra-tf check-data shows them"
            )
            checked = tf.debugging.Assert(fits, [message])
        else:
            checked = tf.cond(
                fits,
                lambda: True,
                lambda: numpy_function(
                    self._refuse,
                    [
                        records,
                        tf.stack([x.row_lengths() for x in parsed.values()]),
                        *(rows.to_tensor() for rows in parsed.values()),
                    ],
                    tf.bool,
                ),
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

    def _refuse(self, records, lengths, *features):
        """Raises for a record of a batch that does not fit."""
        length = self.config.max_seq_length
        for (name, (limit, expected)), received, values in zip(
            self._ranges.items(), lengths, features, strict=True
        ):
            wrong = (values < 0) | (values >= limit)
            is_wrong = (received != length) | wrong.any(axis=1)
            if not is_wrong.any():
                continue
            row = int(np.argmax(is_wrong))
            path, number = self.records.locate(int(records[row]))
            what, hint = received[row], ""
            if what == length:
                what = values[row][wrong[row]][0]
                if name == "input_ids":
                    hint = ": was it built with another vocabulary?"
            else:
                expected = (
                    f"{length} values of {name} (ElectraConfig.max_seq_length)"
                )
                if not what:
                    (data,) = self.records.read(records[row : row + 1])
                    example = tf.train.Example.FromString(data)
                    names = ", ".join(sorted(example.features.feature))
                    hint = f", whose features are {names or 'none'}"
            raise errors.DataError(
                f"Expected {expected}, received {what} in record {number} of "
                f"{path}{hint}"
            )

    def _check(self):
        """Parses a sample of the records, the first of every file included."""
        firsts = self.records.first_records
        firsts = firsts[firsts < len(self.records)]
        spread = np.linspace(0, len(self.records) - 1, records_lib.NUM_CHECKED)
        records = np.unique(np.concatenate([firsts, spread.astype(np.int64)]))
        digest = hashlib.sha256(self.records.first_records.tobytes())
        digest.update(self.records.offsets.tobytes())
        self._num_tokens = self._num_real_tokens = 0
        self.sampled_ids: set[int] = set()
        for start in range(0, len(records), records_lib.NUM_CHECKED):
            some = records[start : start + records_lib.NUM_CHECKED]
            serialized, features = self._read_and_parse(some)
            digest.update(b"".join(serialized))
            mask = features["input_mask"]
            self._num_tokens += mask.size
            self._num_real_tokens += int(mask.sum())
            self.sampled_ids.update(features["input_ids"][mask == 1].tolist())
        self.digest = digest.hexdigest()

    def refuse_bad_batches(
        self, batch_size: int, first_step: int, num_steps: int
    ) -> None:
        """Looks for what has ended a run, to name it.

        Args:
          batch_size: Over all replicas.
          first_step: Where to begin.
          num_steps: Batches to look at.

        Raises:
          DataError: If a record of theirs cannot be read or parsed, or does
            not fit.
        """
        for step in range(first_step, first_step + num_steps):
            positions = draws.positions_of(
                replicas.WHOLE, tf.constant(step, tf.int64), batch_size
            )
            self._read_and_parse(self._order(positions).numpy())

    def read_features(self, records: np.ndarray) -> dict[str, np.ndarray]:
        """Features by their names, each <int32>[B, L], of some records.

        Args:
          records: <int64>[B], their numbers.

        Raises:
          DataError: If one cannot be read or parsed, or does not fit.
        """
        return self._read_and_parse(records)[1]

    def _read_and_parse(self, records: np.ndarray) -> tuple[list, dict]:
        """Serialized examples, and what `read_features` says of them."""
        serialized = list(self.records.read(records))
        try:
            features = self._parse(
                tf.constant(serialized), tf.constant(records, tf.int64)
            )
        except (
            tf.errors.InvalidArgumentError,
            tf.errors.UnknownError,
            UnicodeDecodeError,  # Of a message that quotes the record.
        ) as error:
            message = errors.data_error_message(error)
            if isinstance(error, UnicodeDecodeError):
                message = "bytes that are no example"
            # Else one does not even parse.
            if "DataError" not in str(error):
                if len(records) > 1:
                    for record in records:
                        self._read_and_parse(record[np.newaxis])
                path, number = self.records.locate(int(records[0]))
                message = (
                    "Expected an example with the features "
                    f"{', '.join(FEATURE_NAMES)} in record {number} of {path}. "
                    f"Received: {message}"
                )
            raise errors.DataError(message) from error
        return serialized, {name: x.numpy() for name, x in features.items()}
