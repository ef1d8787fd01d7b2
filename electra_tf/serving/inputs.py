"""Texts -> what the model reads, and the model on many rows; in the graph.

A tagger was trained on words that somebody had split. Here a word is what
stands between white space, without the punctuation marks before and behind it,
which are a word of their own: "U.N.-led" is one word, "Paris." is two.

Shapes: B batch, L length.
"""

from collections.abc import Callable, Mapping

import tensorflow as tf

from electra_tf.text import tokenization
from electra_tf.text.tokenization import ENCODER_FEATURES

Tensors = dict[str, tf.Tensor]

# What goes through the model at once, padding included. It bounds the memory
# that a request of many long texts takes: 400 MB of attention for 12 heads.
TOKENS_AT_ONCE = 2**14


def concrete_function(function, *specs):
    """The concrete function of inputs of these specs."""
    return tf.function(
        function, input_signature=specs, autograph=False
    ).get_concrete_function()


def token_function(call: Callable[[Tensors], Tensors], *shape: int | None):
    """The concrete function of `ENCODER_FEATURES` of a shape <int32>[B, L]."""
    return concrete_function(
        lambda *values: call(dict(zip(ENCODER_FEATURES, values, strict=True))),
        *(tf.TensorSpec(shape, tf.int32, name) for name in ENCODER_FEATURES),
    )


def check_same_size(first: tf.Tensor, second: tf.Tensor):
    """Refuses two inputs [B] of different B, whatever the ops would do."""
    return tf.debugging.assert_equal(
        tf.shape(first),
        tf.shape(second),
        message="Expected as many values of one input as of the other.",
    )


def pack_and_compare(
    tokenizer: tokenization.FullTokenizer,
    max_seq_length: int,
    text: tf.Tensor,
    text_pair: tf.Tensor | None = None,
) -> tuple[Tensors, tf.Tensor]:
    """Packs texts as training does (`tasks.features.text_features`).

    A second text without a token leaves the first one alone in its row.

    Args:
      tokenizer: Splits them.
      max_seq_length: Longer rows are cut.
      text: <string>[B].
      text_pair: <string>[B], or None.

    Returns:
      `input_ids`, `input_mask` and `segment_ids` <int32>[B, L], L being that of
      the longest row; and whether a row was cut, <bool>[B].
    """
    if text_pair is None:
        tokens = tokenizer.tokenize(text)
        packed = tokenizer.pack_inputs([tokens], max_seq_length)
        return packed, tokens.row_lengths() > max_seq_length - 2
    with tf.control_dependencies([check_same_size(text, text_pair)]):
        tokens = tokenizer.tokenize(text)
        more = tokenizer.tokenize(text_pair)
    single = tokenizer.pack_inputs([tokens], max_seq_length)
    both = tokenizer.pack_inputs([tokens, more], max_seq_length)
    length = tf.maximum(
        tf.shape(single["input_ids"])[1], tf.shape(both["input_ids"])[1]
    )
    single, both = pad(single, length), pad(both, length)
    is_pair = tf.expand_dims(more.row_lengths() > 0, 1)
    packed = {
        name: tf.where(is_pair, both[name], single[name]) for name in single
    }
    num_used = tf.reduce_sum(tf.reduce_max(packed["input_mask"], axis=0))
    num_tokens = tokens.row_lengths() + more.row_lengths()
    num_special = tf.where(is_pair[:, 0], tf.constant(3, tf.int64), 2)
    return (
        {name: values[:, :num_used] for name, values in packed.items()},
        num_tokens + num_special > max_seq_length,
    )


def ranges(values: tf.Tensor, begins, ends) -> tf.RaggedTensor:
    """values[begin:end] for each begin and end <int32>[B]; [B, (values)]."""
    index = tf.ragged.range(begins, ends)
    return index.with_flat_values(tf.gather(values, index.flat_values))


def pad(features: Mapping[str, tf.Tensor], length: tf.Tensor | int) -> Tensors:
    """Zeros behind each row of <int32>[B, L], up to a least length."""
    padded = {}
    for name, values in features.items():
        missing = tf.maximum(0, length - tf.shape(values)[1])
        padded[name] = tf.pad(values, [[0, 0], [0, missing]])
    return padded


def in_parts(
    call: Callable[[Tensors], Tensors], tokens_at_once: int = TOKENS_AT_ONCE
) -> Callable[[Tensors], Tensors]:
    """A model that takes any number of rows, some of them at a time.

    Args:
      call: From `input_ids`, `input_mask` and `segment_ids` <int32>[B, L] to
        tensors [B, ...].
      tokens_at_once: What it may be given.

    Returns:
      The same function, of any B, also 0. L is at least 2.
    """
    function = token_function(call, None, None)
    specs = function.structured_outputs

    def call_in_parts(features: Tensors) -> Tensors:
        # The first token is read even where there is no row.
        features = pad(features, 2)
        num_rows, length = tf.unstack(tf.shape(features["input_ids"]))
        rows_at_once = tf.maximum(1, tokens_at_once // length)
        num_parts = tf.maximum(1, -(-num_rows // rows_at_once))

        def run_part(part, arrays):
            first = part * rows_at_once
            rows = [
                features[name][first : first + rows_at_once]
                for name in ENCODER_FEATURES
            ]
            outputs = function(*rows)
            return part + 1, {
                name: array.write(part, outputs[name])
                for name, array in arrays.items()
            }

        _, arrays = tf.while_loop(
            lambda part, _: part < num_parts,
            run_part,
            (
                tf.constant(0),
                {
                    name: tf.TensorArray(
                        spec.dtype,
                        size=num_parts,
                        infer_shape=False,
                        element_shape=spec.shape,
                    )
                    for name, spec in specs.items()
                },
            ),
            parallel_iterations=1,
        )
        return {name: array.concat() for name, array in arrays.items()}

    return call_in_parts


def words_of(
    text: tf.Tensor,
) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
    """Splits texts into words, as a tagger reads them.

    Args:
      text: <string>[B], UTF-8; invalid bytes are skipped, and do not count as
        characters.

    Returns:
      The words <string>[B, (words)], the offset of each word's first character
      and that behind its last one, both <int32>[B, (words)].
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
    has_begun = core_before + core > 0
    has_ended = tf.equal(core_before, tf.gather(num_core, chunk))
    # 0 before a chunk's core, 1 inside, 2 behind it.
    zone = tf.cast(has_begun, tf.int32) + tf.cast(has_ended, tf.int32)
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
    return words, starts, ends
