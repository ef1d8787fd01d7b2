"""Examples <-> TFRecords, byte by byte, with random access to them."""

import contextlib
import functools
import mmap
import os
import struct
from collections.abc import Iterator, Sequence

import google_crc32c
import numpy as np
import tensorflow as tf

from electra_tf import errors
from electra_tf import files as files_lib
from electra_tf.pretraining_data import manifest

# Of the TFRecord format: <uint64 length> <uint32 crc> <data> <uint32 crc>.
_HEADER_SIZE = 12
_FOOTER_SIZE = 4
_LENGTH = struct.Struct("<Q")
# Records that are parsed before a run starts; digests of runs depend on it.
NUM_CHECKED = 1000
_MAX_OPEN_FILES = 100


def match_files(pattern: str) -> list[str]:
    """Files that a glob, or globs separated by commas, match, in order.

    Args:
      pattern: A folder is its files with "tfrecord" in their names. A builder's
        `manifest.BESIDE_RECORDS` are left out, and what is unfinished.

    Raises:
      DataError: If there is none, nothing matches one of them, or the file
        system cannot be asked.
    """
    places: dict[str, str] = {}
    unfinished = manifest.TEMPORARY_PREFIX, manifest.UNFINISHED
    parts = [*filter(None, map(str.strip, pattern.split(",")))]
    for part in parts or [repr(pattern)]:
        try:
            if tf.io.gfile.isdir(part):
                # The folder's own name may have signs of a glob.
                names = tf.io.gfile.listdir(part)
                paths = [
                    os.path.join(part, n) for n in names if "tfrecord" in n
                ]
                part = os.path.join(part, "*tfrecord*")
            else:
                paths = tf.io.gfile.glob(part)
        except tf.errors.OpError as error:
            raise errors.DataError(
                f"Expected TFRecord files at {part}. Received: {error.message}"
            ) from None
        paths = [
            path
            for path in paths
            if not (name := os.path.basename(path)).startswith(unfinished)
            and name not in manifest.BESIDE_RECORDS
        ]
        if not paths:
            raise errors.DataError(
                f"Expected TFRecord files at {part}, found none. Build them "
                "with: electra-tf build-data --corpus-dir=CORPUS "
                "--vocab-file=VOCAB --output-dir=DIR"
            )
        for path in sorted(paths):
            # Whatever links and dots lead there.
            place = path if "://" in path else os.path.realpath(path)
            places[place] = path
    return sorted(places.values())


class Records:
    """Random access to the records of TFRecord files.

    Args:
      files: Paths.

    Raises:
      DataError: If a file is not a TFRecord file, is cut short or empty.
    """

    def __init__(self, files: Sequence[str]):
        self.files = list(files)
        offsets = list(map(_record_offsets, self.files))
        # Record r is in the last file whose first record is at most r.
        counts = [len(places) for places in offsets]
        self.first_records = np.cumsum([0] + counts)[:-1]
        self.offsets = np.concatenate(offsets)
        self._open = functools.lru_cache(_MAX_OPEN_FILES)(RandomAccessFile)
        if not len(self.offsets):
            raise errors.DataError(
                f"Expected examples in {len(self.files)} TFRecord files, found "
                f"none. The first file is {self.files[0]}"
            )

    def __len__(self) -> int:
        return len(self.offsets)

    def num_examples(self) -> dict[str, int]:
        """File -> how many records it has."""
        counts = np.diff(self.first_records, append=len(self)).tolist()
        return dict(zip(self.files, counts, strict=True))

    def doubled(self, others: "Records | None" = None) -> list[tuple[str, str]]:
        """Files that begin and end as another one and are as long, and that.

        Args:
          others: Whose files the others are; None for these themselves.
        """
        known: dict[tuple[int, bytes, bytes], str] = {}
        if others is not None:
            known = {mark: path for path, mark in others._marks.items()}
        pairs = []
        for path, mark in self._marks.items():
            if mark in known:
                pairs.append((path, known[mark]))
            elif others is None:
                known[mark] = path
        return pairs

    @functools.cached_property
    def _marks(self) -> dict[str, tuple[int, bytes, bytes]]:
        """File -> its length and its ends, of those that are not empty."""
        marks = {}
        for (path, count), first in zip(
            self.num_examples().items(), self.first_records, strict=True
        ):
            if count:
                begins, ends = self.read(np.array([first, first + count - 1]))
                marks[path] = (count, begins, ends)
        return marks

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

        Raises:
          DataError: If one is not as it was written.
        """
        result = np.empty(len(records), dtype=object)
        file_indices = (
            np.searchsorted(self.first_records, records, side="right") - 1
        )
        for file_index in np.unique(file_indices):
            file = self._open(self.files[file_index])
            for i in np.flatnonzero(file_indices == file_index):
                result[i] = file.read_record(int(self.offsets[records[i]]))
                if result[i] is None:
                    path, number = self.locate(int(records[i]))
                    raise errors.DataError(
                        f"Expected record {number} of {path} as it was "
                        "written, received bytes that do not fit their "
                        "checksum: the file is damaged"
                    )
        return result


class RandomAccessFile:
    """A TFRecord file that several threads may read; closed when forgotten."""

    # Larger than most records: one call reads all of one.
    GUESS = 4096

    def __init__(self, path: str):
        self._path = path
        self._is_local = "://" not in path
        if self._is_local:
            self._file = open(path, "rb", buffering=0)  # noqa: SIM115

    def read_record(self, offset: int) -> bytes | None:
        """The data of the record that starts at an offset.

        Returns:
          None if it does not fit its checksum.
        """
        content = self._read(self.GUESS, offset)
        (length,) = _LENGTH.unpack(content[:8].ljust(8, b"\xff"))
        end = _HEADER_SIZE + length
        if end + _FOOTER_SIZE > len(content):
            # Before so much is asked for.
            if not _fits(content[:8], content[8:_HEADER_SIZE]):
                return None
            content = self._read(end + _FOOTER_SIZE, offset)
        data = content[_HEADER_SIZE:end]
        footer = content[end : end + _FOOTER_SIZE]
        return data if _fits(data, footer) else None

    def _read(self, num_bytes: int, offset: int) -> bytes:
        if self._is_local:
            return os.pread(self._file.fileno(), num_bytes, offset)
        with tf.io.gfile.GFile(self._path, "rb") as file:
            file.seek(offset)
            return file.read(num_bytes)


def _fits(data: bytes, checksum: bytes) -> bool:
    """Whether a checksum of 4 bytes, or fewer at an end, is that of data."""
    crc = google_crc32c.value(data)
    # Masked, so that it differs from a checksum of checksums.
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return struct.pack("<I", masked) == checksum


def _record_offsets(path: str) -> np.ndarray:
    """Offsets of a TFRecord file's records, <int64>[num_records]."""
    offsets: list[int] = []
    offset = 0
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            size = file.size()
            while offset < size:
                file.seek(offset)
                header = file.read(_HEADER_SIZE).ljust(_HEADER_SIZE, b"\xff")
                (length,) = _LENGTH.unpack(header[:8])
                end = offset + _HEADER_SIZE + length + _FOOTER_SIZE
                if end > size:
                    raise errors.DataError(
                        f"Expected a whole TFRecord at byte {offset} of {path} "
                        f"(record {len(offsets)}), found the end of the file: "
                        "it is cut short, damaged or not a TFRecord file"
                    )
                offsets.append(offset)
                offset = end
    except tf.errors.OpError as error:
        raise errors.DataError(
            f"Expected a TFRecord file at {path}, which cannot be read: "
            f"{error.message.rpartition('; ')[2]}"
        ) from None
    return np.asarray(offsets, np.int64)


# Bytes of a varint that are not its last.
_CONTINUED = bytes(range(0x80, 0x100))

FEATURE_NAMES = ("input_ids", "input_mask", "segment_ids")
# As `tf.io.parse_example` takes them: of any length.
FEATURES = {name: tf.io.RaggedFeature(tf.int64) for name in FEATURE_NAMES}


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


def count_ids(packed: bytes) -> int:
    """The number of packed ids: of bytes that end one."""
    return len(packed.translate(None, _CONTINUED))


def first_ids(packed: bytes, num_ids: int) -> bytes:
    """The first ids of packed ones, of which there are at least so many."""
    if not num_ids:
        return b""
    ends = np.flatnonzero(np.frombuffer(packed, np.uint8) < 0x80)
    return packed[: ends[num_ids - 1] + 1]


def serialize_features(
    input_ids: bytes, input_mask: bytes, segment_ids: bytes
) -> bytes:
    """A `tf.train.Example` with an int64 list for each of FEATURE_NAMES.

    Written by hand, in a fraction of the time, byte for byte as
    `SerializeToString(deterministic=True)` does: features in the order of
    their names.

    Args:
      input_ids: Varints, one after the other, as all three.
      input_mask: Numbers of one byte.
      segment_ids: Numbers of one byte.
    """
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


@contextlib.contextmanager
def record_writer(path: str) -> Iterator[tf.io.TFRecordWriter]:
    """Writes a TFRecord file that appears under its name once it is whole.

    Raises:
      ValueError: If it cannot be written.
    """
    with files_lib.whole_file(path) as temporary:
        try:
            with tf.io.TFRecordWriter(temporary) as writer:
                yield writer
        except tf.errors.OpError as error:
            reason = error.message.rpartition("; ")[2]
            raise ValueError(f"Cannot write {path!r}: {reason}.") from None


def record_starts(content: memoryview) -> list[int]:
    """Where the records of a TFRecord file begin, and where the last ends.

    A record is its length (8 bytes, little-endian), a checksum of that (4),
    the data, and a checksum of the data (4).
    """
    starts = [0]
    start = 0
    while start < len(content):
        start += _LENGTH.unpack_from(content, start)[0] + 16
        starts.append(start)
    return starts


@contextlib.contextmanager
def mapped(path: str) -> Iterator[memoryview]:
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
