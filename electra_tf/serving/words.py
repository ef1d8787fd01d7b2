"""Raw text -> words with character offsets, for taggers; in the graph.

A tagger was trained on words that somebody had split. Here a word is what
stands between white space, without the punctuation marks before and behind it,
which are a word of their own: "U.N.-led" is one word, "Paris." is two.

Shapes: B batch.
"""

import typing

import tensorflow as tf

from electra_tf import tokenization


class Words(typing.NamedTuple):
    """The words of some texts.

    Attributes:
      words: <string>[B, (words)].
      starts: <int32>[B, (words)], each word's first character.
      ends: <int32>[B, (words)], the character behind its last one.
    """

    words: tf.RaggedTensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor


def split(text: tf.Tensor) -> Words:
    """Splits texts.

    Args:
      text: <string>[B], UTF-8; invalid bytes are skipped, and do not count as
        characters.

    Returns:
      The words.
    """
    characters = tf.strings.unicode_decode(text, "UTF-8", errors="ignore")
    codes, row_lengths = characters.flat_values, characters.row_lengths()
    unique, index = tf.unique(codes)
    strings = tf.strings.unicode_encode(unique[:, tf.newaxis], "UTF-8")
    # White space is what separates two letters without being a word itself.
    num_words = tokenization.split_into_words(
        tf.strings.join(["a", strings, "a"])
    ).row_lengths()
    is_space = tf.gather(tf.equal(num_words, 2), index)
    is_punctuation = tf.gather(
        tf.strings.regex_full_match(strings, tokenization.PUNCTUATION), index
    )
    is_core = ~is_space & ~is_punctuation

    position = tf.ragged.range(row_lengths).flat_values
    first_in_row = tf.equal(position, 0)

    def before(values, at_start):
        """Each character's value of the one before it; of all rows in turn."""
        return tf.concat([[at_start], values], axis=0)[:-1]

    def behind(values, at_end):
        return tf.concat([values, [at_end]], axis=0)[1:]

    # Chunks are what stands between white space.
    starts_chunk = ~is_space & (first_in_row | before(is_space, True))
    chunk = tf.cumsum(tf.cast(starts_chunk, tf.int32))
    core = tf.cast(is_core, tf.int32)
    num_chunks = tf.reduce_max(tf.concat([chunk, [0]], axis=0)) + 1
    num_core = tf.math.unsorted_segment_sum(core, chunk, num_chunks)
    core_of_others = tf.gather(tf.cumsum(num_core, exclusive=True), chunk)
    core_before = tf.cumsum(core, exclusive=True) - core_of_others
    # 0 for punctuation before a chunk's core, 1 inside, 2 behind it.
    zone = tf.where(
        is_core,
        1,
        tf.where(
            tf.equal(core_before, 0),
            0,
            tf.where(tf.equal(core_before, tf.gather(num_core, chunk)), 2, 1),
        ),
    )
    starts_word = ~is_space & (starts_chunk | (zone != before(zone, -1)))
    ends_word = ~is_space & behind(is_space | starts_word | first_in_row, True)

    def at(mask):
        return tf.ragged.boolean_mask(
            characters.with_flat_values(tf.cast(position, tf.int32)),
            characters.with_flat_values(mask),
        )

    starts, ends = at(starts_word), at(ends_word)
    ends = ends.with_flat_values(ends.flat_values + 1)
    in_words = tf.RaggedTensor.from_row_lengths(
        tf.boolean_mask(codes, ~is_space),
        ends.flat_values - starts.flat_values,
        validate=False,
    )
    words = starts.with_flat_values(
        tf.strings.unicode_encode(in_words, "UTF-8")
    )
    return Words(words, starts, ends)
