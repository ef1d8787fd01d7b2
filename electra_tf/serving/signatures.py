"""What all exported models have in common."""

import keras
import tensorflow as tf

from electra_tf.serving import inputs
from electra_tf.serving.exportable import Source
from electra_tf.serving.inputs import Tensors
from electra_tf.text import cleaning as cleaning_lib

# The names of the signatures.
DEFAULT = "serving_default"
TOKENS = "tokens"
WORDS = "words"
# <bool>[B], an output of those that take texts: whether a row was not read to
# its end.
TRUNCATED = "truncated"
# Of weights that a graph holds as constants, which oneDNN lays out for its
# products once. It lays out a variable in each call, but takes less memory.
MOST_BYTES = 2**28


class ServedModel(tf.Module):
    """What a SavedModel holds.

    Args:
      source: The model.

    Attributes:
      input_names: Of the texts that the default signature takes.
    """

    TOKENS_AT_ONCE = inputs.TOKENS_AT_ONCE

    def __init__(self, source: Source):
        super().__init__(name=source.kind)
        self._source = source
        self.tokenizer = source.tokenizer
        # Offsets are those of cleaned text, where text is cleaned.
        self.plain_tokenizer = self.tokenizer.without_cleaning()
        self.vocab_asset = tf.saved_model.Asset(source.vocab_file)
        self.input_names = ("text", "text_pair")[: 1 + source.has_pairs]
        variables = source.keras_variables
        values = [(v, v.numpy()) for v in variables]
        if sum(value.nbytes for _, value in values) > MOST_BYTES:
            values = []
            # A Keras 3 model loses layers that it holds in lists when it is
            # saved; its variables in a list of their own do not.
            self.model_variables = [v.value for v in variables]

        def compute(features: Tensors) -> Tensors:
            constants = [(v, tf.constant(value)) for v, value in values]
            with keras.StatelessScope(state_mapping=constants):
                return self.compute(features)

        self._run = inputs.in_parts(compute, self.TOKENS_AT_ONCE)

    def compute(self, features: Tensors) -> Tensors:
        """The outputs [B, ...] for `ENCODER_FEATURES`: those of the head."""
        source = self._source
        return dict(source.model(features)["task_outputs"][source.task_name])

    def answer_texts(self, *texts: tf.Tensor) -> Tensors:
        """The default signature's outputs for each of `input_names`."""
        raise NotImplementedError

    def answer(self, outputs: Tensors) -> Tensors:
        """From the outputs of `compute` to those of the signature `tokens`."""
        return outputs

    def signatures(self) -> dict:
        """Signature name -> concrete function."""
        return {
            DEFAULT: string_function(self.answer_texts, *self.input_names),
            TOKENS: self.token_signature(),
        }

    def example_inputs(self) -> dict[str, list[str]]:
        """Input -> as many short and long texts to try the model with."""
        return {name: list(SENTENCES) for name in self.input_names}

    def clean(self, text: tf.Tensor) -> tuple[tf.Tensor, Tensors]:
        """Texts <string>[B] that offsets refer to, and what the answer says.

        That is `cleaned_text` <string>[B] where it is not the text given.
        """
        cleaning = self.tokenizer.text_cleaning
        if cleaning == "none":
            return text, {}
        text = cleaning_lib.clean(text, cleaning)
        return text, {"cleaned_text": text}

    def pack_with_offsets(self, text: tf.Tensor) -> tuple:
        """Reads texts <string>[B] with the places of their tokens.

        Returns:
          Ids, starts and ends <int32>[B, (tokens)] of the tokens that are read;
          these packed; and what the answer says of the texts.
        """
        length = self._source.max_seq_length
        text, said = self.clean(text)
        whole = self.plain_tokenizer.tokenize_with_offsets(text)
        tokens = [x[:, : length - 2] for x in whole]
        said[TRUNCATED] = whole[0].row_lengths() > length - 2
        return tokens, self.tokenizer.pack_inputs(tokens[:1], length), said

    def token_signature(self):
        """The signature on token ids, for whoever tokenizes by himself."""

        def tokens(features):
            with tf.control_dependencies(self._check_tokens(features)):
                features = {k: tf.identity(v) for k, v in features.items()}
            return self.answer(self._run(features))

        return inputs.token_function(tokens, None, None)

    def _check_tokens(self, features: Tensors) -> list:
        """Refuses what ops would refuse in riddles, or broadcast."""
        input_ids, *others = features.values()
        has_token = tf.reduce_any(features["input_mask"] > 0, axis=1)
        longest = self._source.encoder.config.max_position_embeddings
        num_segments = self._source.encoder.config.type_vocab_size
        greatest = (self.tokenizer.vocab_size - 1, 1, num_segments - 1)
        return [
            *(inputs.check_same_size(input_ids, values) for values in others),
            tf.debugging.assert_less_equal(
                tf.shape(input_ids)[1],
                longest,
                message=f"Expected at most {longest} tokens a row.",
            ),
            tf.debugging.Assert(
                tf.reduce_all(has_token),
                ["Expected input_mask to have a 1 in each row."],
            ),
            *(
                tf.debugging.Assert(
                    tf.reduce_all((values >= 0) & (values <= most)),
                    [f"Expected {name} from 0 to {most}."],
                )
                for (name, values), most in zip(
                    features.items(), greatest, strict=True
                )
            ),
        ]


def numbers(source: Source, outputs: Tensors) -> Tensors:
    """From the outputs of `ServedModel.compute` to those that are numbers.

    Probabilities, values in the unit of the labels, or what the head says.
    """
    if source.kind in ("classification", "tagging"):
        return {"scores": tf.nn.softmax(outputs["logits"])}
    if source.kind == "multi_label_classification":
        return {"scores": tf.sigmoid(outputs["logits"])}
    if source.kind == "regression":
        # In the unit of the labels, which training scales.
        least, scale = source.head.unit
        return {"value": outputs["predictions"] * scale + least}
    return outputs


def string_function(function, *names: str):
    """The concrete function of some <string>[B] of these names."""
    return inputs.concrete_function(
        function, *(tf.TensorSpec([None], tf.string, name) for name in names)
    )


# Short and long: a warm-up of both kinds.
SENTENCES = (
    "ELECTRA reads a text and says of every word whether it belongs there.",
    "The chef cooked the meal.",
    "Short.",
    "A longer text has several sentences. It goes through the same model, but "
    "takes more time, since attention compares every token with every other. "
    "What is longer than the model has positions for is cut.",
)
