"""Examples as lists of ids, which tests compare; the builder's are packed."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import tensorflow as tf

from electra_tf.pretraining_data import corpus, examples, records


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


def serialize(example: Sequence[Sequence[int]]) -> bytes:
    """The bytes that protocol buffers have for an example."""
    proto = tf.train.Example()
    for name, values in zip(records.FEATURE_NAMES, example, strict=True):
        proto.features.feature[name].int64_list.value.extend(values)
    return proto.SerializeToString(deterministic=True)


def parse(serialized: bytes) -> Example:
    """The reverse of `serialize`."""
    feature = tf.train.Example.FromString(serialized).features.feature
    return Example(
        *(
            list(feature[name].int64_list.value)
            for name in records.FEATURE_NAMES
        )
    )


def pack(ids: Iterable[int]) -> bytes:
    """Ids as the builder takes them."""
    return b"".join(map(records.varint, ids))


def unpack(packed: bytes) -> list[int]:
    """The reverse of `pack`."""
    field = tf.train.Int64List()
    # Its field 1, with a length of as many bytes.
    field.ParseFromString(b"\n" + records.varint(len(packed)) + packed)
    return list(field.value)


def add(builder: examples.ExampleBuilder, ids: list[int]) -> Example | None:
    """Adds the tokens of a line; the example that it fills, if it does."""
    segments = builder.add(pack(ids), len(ids))
    return segments and parse(builder.serialize(segments))


def end(builder: examples.ExampleBuilder) -> Example | None:
    """Ends a document; the example of what was gathered, if it has a token."""
    segments = builder.end()
    return segments and parse(builder.serialize(segments))


def examples_of_file(
    path: str,
    builder: examples.ExampleBuilder,
    tokenize_lines: examples.PackedLineTokenizer,
    blanks_separate_docs: bool = True,
) -> Iterator[bytes]:
    """The examples of one file, serialized; its end also ends a document.

    Args:
      path: A file of text.
      builder: Whose state may come from an earlier file.
      tokenize_lines: Gives packed ids, as `CachingLineTokenizer` does.
      blanks_separate_docs: Whether a blank line ends a document.
    """
    reading = corpus.Reading(blanks_separate_docs)
    for lines, _ in corpus.read_lines(path, reading=reading):
        for line, packed in zip(lines, tokenize_lines(lines), strict=True):
            segments = (
                builder.add(packed, records.count_ids(packed))
                if line
                else builder.end()
            )
            if segments is not None:
                yield builder.serialize(segments)
