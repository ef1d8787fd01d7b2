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
    text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="ignore")
    space = rf"[\t\n\r]|{tokenization.NON_ASCII_WHITESPACE}"
    text = tf.strings.regex_replace(text, space, " ")
    mark = tokenization.PUNCTUATION
    other = f"[^{mark[1:-1]} ]"
    apart = tf.strings.regex_replace(
        text, f"(^| )({mark}+)({other})", r"\1\2 \3"
    )
    apart = tf.strings.regex_replace(
        apart, f"({other})({mark}+)( |$)", r"\1 \2\3"
    )
    words = tf.strings.split(apart, " ")
    words = tf.ragged.boolean_mask(words, tf.not_equal(words, ""))
    # The characters of the words, one after another, are those of the text
    # without the white space.
    codes = tf.strings.unicode_decode(text, "UTF-8")
    places = tf.cast(tf.ragged.range(codes.row_lengths()), tf.int32)
    places = tf.boolean_mask(places.flat_values, codes.flat_values != ord(" "))
    lengths = tf.strings.length(words.flat_values, unit="UTF8_CHAR")
    ends = tf.cumsum(lengths)
    return (
        words,
        words.with_flat_values(tf.gather(places, ends - lengths)),
        words.with_flat_values(tf.gather(places, ends - 1) + 1),
    )
