"""Signatures of models that say something of every token or word.

Character offsets count code points, as Python's strings do; bytes that are no
UTF-8 do not count. Where a model cleans its texts, offsets are those in
`cleaned_text` <string>[B], which is an output then; a tagger's are always those
of the text given. In rows shorter than the longest, padding is "", 0 or the
offset -1.

Shapes: B batch, L length in tokens, T tokens of the longest text, W words of
the longest text, D hidden, C labels.
"""

import tensorflow as tf

from electra_tf.serving import inputs
from electra_tf.serving import signatures as signatures_lib
from electra_tf.serving.inputs import Tensors
from electra_tf.text.tokenization import ENCODER_FEATURES

NO_OFFSET = -1
# Words of padding in a tagger's answer; of 60 bytes each, so about 1 GB.
MOST_PADDING = 2**24


class Encoder(signatures_lib.ServedModel):
    """The encoder's vectors.

    `serving_default` takes `text` <string>[B] (and `text_pair` <string>[B] for
    pairs) and returns `pooled_output` <float32>[B, D], the first token's
    vector, `sequence_output` <float32>[B, L, D], `input_mask` <int32>[B, L], 0
    on padding, `truncated`, and for single texts `starts` and `ends`
    <int32>[B, L], offsets of the tokens' characters (none for [CLS] and [SEP]).
    `tokens` returns the first two.
    """

    def compute(self, features):
        outputs = self._source.model(
            *(features[name] for name in ENCODER_FEATURES)
        )
        return {
            name: tf.cast(outputs[name], tf.float32)
            for name in ("pooled_output", "sequence_output")
        }

    def answer_texts(self, *texts):
        length = self._source.max_seq_length
        if self._source.has_pairs:
            packed, truncated = inputs.pack_and_compare(
                self.tokenizer, length, *texts
            )
            said = {signatures_lib.TRUNCATED: truncated}
        else:
            (_, *offsets), packed, said = self.pack_with_offsets(*texts)
            # Beside those of [CLS] and [SEP].
            beside = [[0, 0], [1, 1]]
            said["starts"], said["ends"] = (
                tf.pad(x.to_tensor(NO_OFFSET), beside, "CONSTANT", NO_OFFSET)
                for x in offsets
            )
        features = inputs.pad(packed, 2)
        said["input_mask"] = features["input_mask"]
        return self._run(features) | said


class Detector(signatures_lib.ServedModel):
    """Each token's probability of having been replaced.

    `serving_default` takes `text` <string>[B] and returns `tokens`
    <string>[B, T], the word pieces without [CLS] and [SEP], `probabilities`
    <float32>[B, T], `starts` and `ends` <int32>[B, T], offsets of their
    characters, and `truncated`. What is behind `max_seq_length` is left out,
    where `inference.detector` takes windows. `tokens` returns `probabilities`
    <float32>[B, L] for token ids.
    """

    def compute(self, features):
        values = (features[name] for name in ENCODER_FEATURES)
        # Not its `probabilities`, which keep the layers of their first call.
        logits = self._source.model.logits(*values)
        return {"probabilities": tf.sigmoid(logits)}

    def answer_texts(self, text):
        (ids, starts, ends), features, said = self.pack_with_offsets(text)
        probabilities = self._run(features)["probabilities"]
        vocab = tf.constant(self.tokenizer.vocab)
        dense_starts = starts.to_tensor(NO_OFFSET)
        num_tokens = tf.shape(dense_starts)[1]
        return {
            "tokens": ids.with_flat_values(
                tf.gather(vocab, ids.flat_values)
            ).to_tensor(""),
            "probabilities": tf.where(
                dense_starts != NO_OFFSET,
                probabilities[:, 1 : 1 + num_tokens],
                0.0,
            ),
            "starts": dense_starts,
            "ends": ends.to_tensor(NO_OFFSET),
            **said,
        }


class Tagger(signatures_lib.ServedModel):
    """A label for each word.

    `serving_default` takes `text` <string>[B], splits it into words (see
    `inputs.words_of`) and returns `words` and `labels` <string>[B, W], `scores`
    <float32>[B, W], the labels' probabilities, `starts` and `ends`
    <int32>[B, W], offsets of the words' characters, and `truncated`. `words`
    takes `words` <string>[B, W], filled up with "", and returns `labels`,
    `scores` and `truncated`. Words
    behind the last one that fits, and those without a token, have the label "".
    `tokens` returns `labels` <string>[B, L] and `scores` <float32>[B, L, C] of
    every token.
    """

    def compute(self, features):
        shape = tf.shape(features["input_ids"])
        positions = tf.broadcast_to(tf.range(shape[1]), shape)
        name = f"{self._source.task_name}_labeled_positions"
        return {
            "logits": super().compute(features | {name: positions})["logits"]
        }

    def answer(self, outputs):
        answer = signatures_lib.numbers(self._source, outputs)
        best = tf.argmax(answer["scores"], axis=-1)
        labels = tf.constant(self._source.labels)
        return answer | {"labels": tf.gather(labels, best)}

    def signatures(self):
        tag_words = inputs.concrete_function(
            self._tag_words, tf.RaggedTensorSpec([None, None], tf.string, 1)
        )

        def serving_default(text):
            words, starts, ends = inputs.words_of(text)
            with tf.control_dependencies([_check_padding(words)]):
                words = words.with_flat_values(tf.identity(words.flat_values))
            return tag_words(words) | {
                "words": words.to_tensor(""),
                "starts": starts.to_tensor(NO_OFFSET),
                "ends": ends.to_tensor(NO_OFFSET),
            }

        def words(words):
            return tag_words(tf.RaggedTensor.from_tensor(words))

        return {
            signatures_lib.DEFAULT: signatures_lib.string_function(
                serving_default, *self.input_names
            ),
            signatures_lib.WORDS: inputs.concrete_function(
                words, tf.TensorSpec([None, None], tf.string, "words")
            ),
            signatures_lib.TOKENS: self.token_signature(),
        }

    def _tag_words(self, words: tf.RaggedTensor) -> Tensors:
        """The outputs of the signature `words`."""
        room = self._source.max_seq_length - 2
        tokenize = (
            self.tokenizer.tokenize_uncased
            if self._source.head.as_original
            else self.tokenizer.tokenize
        )
        tokens = tokenize(words.flat_values)
        num_tokens = words.with_flat_values(
            tf.cast(tokens.row_lengths(), tf.int32)
        ).to_tensor()
        ends = tf.cumsum(num_tokens, axis=1)
        fits = ends <= room
        # As training cuts: behind the last word of which every token fits.
        num_kept = tf.reduce_sum(tf.where(fits, num_tokens, 0), axis=1)
        first = tf.cast(
            tf.gather(tokens.row_splits, words.row_starts()), tf.int32
        )
        kept = inputs.ranges(tokens.values, first, first + num_kept)
        features: Tensors = self.tokenizer.pack_inputs([kept], room + 2)
        # As in training, where it is unlike a text's.
        head = self._source.head
        features["segment_ids"] = (
            features["input_mask"] * head.segment_of_words()
        )
        probabilities = tf.nn.softmax(self._run(features)["logits"])
        has_label = fits & (num_tokens > 0)
        first_token = tf.where(has_label, 1 + ends - num_tokens, 0)
        # Of L tokens, not of W words, which may be many more.
        best = (
            tf.argmax(probabilities, axis=-1, output_type=tf.int32),
            tf.reduce_max(probabilities, axis=-1),
        )
        numbers, scores = (
            tf.gather(values, first_token, batch_dims=1) for values in best
        )
        if head.scheme == "IOB1" and head.labels:
            # B- is right behind one of its kind, others are I-.
            numbered = {label: i for i, label in enumerate(head.labels)}
            i_labels = [numbered.get(f"I{x[1:]}", -1) for x in head.labels]
            inside = tf.gather(i_labels, numbers)
            inside = tf.where(has_label, inside, -1)
            before = tf.pad(inside, [[0, 0], [1, 0]], constant_values=-1)
            is_first = (inside >= 0) & (inside != before[:, :-1])
            numbers = tf.where(is_first, inside, numbers)
        labels = tf.gather(tf.constant(self._source.labels), numbers)
        return {
            "labels": tf.where(has_label, labels, ""),
            "scores": tf.where(has_label, scores, 0.0),
            signatures_lib.TRUNCATED: tf.reduce_any(~fits, axis=1),
        }


def _check_padding(words: tf.RaggedTensor) -> tf.Operation:
    """Refuses one long text beside so many that padding takes all memory."""
    padding = tf.reduce_prod(words.bounding_shape()) - tf.size(
        words.flat_values, tf.int64
    )
    return tf.debugging.assert_less_equal(
        padding,
        tf.constant(MOST_PADDING, tf.int64),
        message=f"Expected at most {MOST_PADDING} words of padding behind the "
        "shorter texts: ask about the longest text alone.",
    )
