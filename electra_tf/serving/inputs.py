"""Texts -> what the model reads, and the model on many rows; in the graph.

Shapes: B batch, L length.
"""

from collections.abc import Callable, Mapping

import tensorflow as tf

from electra_tf import tokenization

Tensors = dict[str, tf.Tensor]

# The names and order of the model's inputs.
ENCODER_FEATURES = ("input_ids", "input_mask", "segment_ids")

TOKEN_SPECS = tuple(
    tf.TensorSpec([None, None], tf.int32, name) for name in ENCODER_FEATURES
)

# What goes through the model at once, padding included. It bounds the memory
# that a request of many long texts takes: 400 MB of attention for 12 heads.
TOKENS_AT_ONCE = 2**14


def pack_texts(
    tokenizer: tokenization.FullTokenizer,
    max_seq_length: int,
    text: tf.Tensor,
    text_pair: tf.Tensor | None = None,
) -> Tensors:
    """Packs texts as training does (`finetuning.features.text_features`).

    A second text without a token leaves the first one alone in its row.

    Args:
      tokenizer: Splits them.
      max_seq_length: Longer rows are cut.
      text: <string>[B].
      text_pair: <string>[B], or None.

    Returns:
      `input_ids`, `input_mask` and `segment_ids` <int32>[B, L], L being that of
      the longest row.
    """
    tokens = tokenizer.tokenize(text)
    single = tokenizer.pack_inputs([tokens], max_seq_length)
    if text_pair is None:
        return single
    more = tokenizer.tokenize(text_pair)
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
    return {name: values[:, :num_used] for name, values in packed.items()}


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
    function = tf.function(
        lambda *values: call(dict(zip(ENCODER_FEATURES, values, strict=True))),
        input_signature=TOKEN_SPECS,
        autograph=False,
    ).get_concrete_function()
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
