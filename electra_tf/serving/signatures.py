"""What all exported models have in common."""

import abc
import dataclasses

import tensorflow as tf

from electra_tf.serving import inputs
from electra_tf.serving.exportable import Source
from electra_tf.serving.inputs import Tensors
from electra_tf.text import cleaning as cleaning_lib
from electra_tf.text import tokenization

# The names of the signatures.
DEFAULT = "serving_default"
TOKENS = "tokens"
BYTES = "serving_bytes"
WORDS = "words"

TEXT = "text"
TEXT_PAIR = "text_pair"


class ServedModel(tf.Module, abc.ABC):
    """What a SavedModel holds.

    Args:
      source: The model.

    Attributes:
      method_names: Signature -> what TF Serving calls its interface, where it
        is another one than Predict.
    """

    TOKENS_AT_ONCE = inputs.TOKENS_AT_ONCE

    def __init__(self, source: Source):
        super().__init__(name=source.kind)
        self._source = source
        self.tokenizer = source.tokenizer
        # Offsets are those of cleaned text, where text is cleaned.
        self._plain_tokenizer = self.tokenizer
        if self.tokenizer.text_cleaning != "none":
            self._plain_tokenizer = tokenization.FullTokenizer(
                dataclasses.replace(
                    self.tokenizer.vocabulary, text_cleaning="none"
                )
            )
        self.vocab_asset = tf.saved_model.Asset(source.vocab_file)
        # A Keras 3 model loses layers that it holds in lists when it is saved;
        # its variables in a list of their own do not.
        self.model_variables = [v.value for v in source.keras_variables]
        self.packed_stack = source.packed_stack
        self.method_names: dict[str, str] = {}
        self._run = inputs.in_parts(self.compute, self.TOKENS_AT_ONCE)

    @abc.abstractmethod
    def compute(self, features: Tensors) -> Tensors:
        """The model's outputs [B, ...] for `inputs.ENCODER_FEATURES`."""

    @abc.abstractmethod
    def signatures(self) -> dict:
        """Signature name -> concrete function."""

    @abc.abstractmethod
    def example_inputs(self) -> dict[str, list[str]]:
        """Inputs of the default signature to try the model with.

        Returns:
          Name -> as many texts for each input, short ones and long ones.
        """

    def clean(self, text: tf.Tensor) -> tuple[tf.Tensor, Tensors]:
        """Cleans texts of which offsets are to be given.

        Args:
          text: <string>[B].

        Returns:
          The text that offsets refer to, and what the signature's answer says
          of it: `cleaned_text` <string>[B] where it is not the text given.
        """
        cleaning = self.tokenizer.text_cleaning
        if cleaning == "none":
            return text, {}
        text = cleaning_lib.clean(text, cleaning)
        return text, {"cleaned_text": text}

    def tokenize_with_offsets(self, text: tf.Tensor):
        """`FullTokenizer.tokenize_with_offsets` of texts after `clean`."""
        return self._plain_tokenizer.tokenize_with_offsets(text)

    def token_signature(self, answer):
        """The signature on token ids, for whoever tokenizes by himself.

        Args:
          answer: From the outputs of `compute` to those of the signature.
        """

        def tokens(input_ids, input_mask, segment_ids):
            values = (input_ids, input_mask, segment_ids)
            with tf.control_dependencies(self._check_tokens(*values)):
                features = {
                    name: tf.identity(value)
                    for name, value in zip(
                        inputs.ENCODER_FEATURES, values, strict=True
                    )
                }
            return answer(self._run(features))

        return tf.function(
            tokens, input_signature=inputs.TOKEN_SPECS, autograph=False
        ).get_concrete_function()

    def _check_tokens(self, input_ids, input_mask, segment_ids) -> list:
        """Refuses what ops would refuse in riddles, or broadcast."""
        longest = self._source.max_positions
        last_id = self.tokenizer.vocab_size - 1
        shape = tf.shape(input_ids)
        return [
            check_same_size(input_ids, input_mask),
            check_same_size(input_ids, segment_ids),
            tf.debugging.assert_less_equal(
                shape[1],
                longest,
                message=f"Expected at most {longest} tokens a row.",
            ),
            *(
                tf.debugging.Assert(
                    tf.reduce_all((values >= 0) & (values <= greatest)),
                    [f"Expected {name} from 0 to {greatest}."],
                )
                for name, values, greatest in (
                    ("input_ids", input_ids, last_id),
                    ("input_mask", input_mask, 1),
                    ("segment_ids", segment_ids, 1),
                )
            ),
        ]


def string_function(function, *names: str):
    """The concrete function of some <string>[B] of these names."""
    return tf.function(
        function,
        input_signature=[tf.TensorSpec([None], tf.string, n) for n in names],
        autograph=False,
    ).get_concrete_function()


def check_same_size(first: tf.Tensor, second: tf.Tensor):
    """Refuses two inputs [B] of different B, whatever the ops would do."""
    return tf.debugging.assert_equal(
        tf.shape(first),
        tf.shape(second),
        message="Expected as many values of one input as of the other.",
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
