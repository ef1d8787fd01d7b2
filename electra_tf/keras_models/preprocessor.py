"""Strings -> token ids, mask and segments, as a Keras layer.

Shapes: B batch, L length.
"""

import dataclasses
import os
import typing
from collections.abc import Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from electra_tf import errors
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.keras_models import checkpoints
from electra_tf.serving import inputs
from electra_tf.text import tokenization
from electra_tf.text import vocabulary as vocabulary_lib

# Names of texts in a dictionary: those of an exported model's inputs.
TEXT, TEXT_PAIR = "text", "text_pair"

_EXPECTED = (
    "Expected texts: strings, as a list, an array, a column or a tensor; or "
    "pairs as a tuple (texts, other_texts)"
)


@keras.saving.register_keras_serializable(package="electra_tf")
class Preprocessor(keras.layers.Layer):
    """Texts, or pairs of texts, become what an ELECTRA reads.

    The tokenizer is in the graph, so the layer works on lists, arrays, columns
    of pandas and tensors, in `tf.data.Dataset.map`, and as the first layer of a
    functional model. All of it is in its config, so that a .keras file holds
    the vocabulary.

        preprocessor = electra_tf.Preprocessor.from_checkpoint(path)
        preprocessor(["A fine film.", "A dull one."])
        preprocessor((["Who wrote it?"], ["She wrote it."]))
        dataset.map(preprocessor)  # Of texts, or (texts, labels ...).

    Args:
      vocabulary: Tokens in the order of their ids, or the path of a vocab.txt.
      do_lower_case: Whether text is lower-cased; None to take it from the
        vocabulary, which has capitals or not.
      strip_accents: Whether accents go; None for what `do_lower_case` says.
      text_cleaning: What is done to text first, see `text.cleaning.clean`; None
        for what the vocabulary was made for.
      max_seq_length: Longer rows are cut, the longer text of a pair first.
      pad_to_max: Whether L is always `max_seq_length`. Else it is that of the
        longest row, which costs less; a text by itself, <string>[], is always
        padded, so that `map` may stand before `batch`.
      **kwargs: Of `keras.layers.Layer`.
    """

    def __init__(
        self,
        vocabulary: str | os.PathLike | Sequence[str],
        do_lower_case: bool | None = None,
        strip_accents: bool | None = None,
        text_cleaning: str | None = None,
        max_seq_length: int = 512,
        pad_to_max: bool = False,
        **kwargs,
    ):
        super().__init__(**(kwargs | {"autocast": False}))
        if not {do_lower_case, strip_accents} <= {True, False, None}:
            raise ValueError(
                "Expected do_lower_case and strip_accents as True, False or "
                f"None. Received: {do_lower_case!r} and {strip_accents!r}"
            )
        if isinstance(vocabulary, str | os.PathLike):
            known = vocabulary_lib.load(vocabulary)
        else:
            known = vocabulary_lib.Vocabulary(tuple(vocabulary))
        given: dict[str, typing.Any] = {
            "do_lower_case": do_lower_case,
            "strip_accents": strip_accents,
            "text_cleaning": text_cleaning,
        }
        given = {n: value for n, value in given.items() if value is not None}
        self.tokenizer = tokenization.FullTokenizer(
            dataclasses.replace(known, **given)
        )
        # Room for a token of each of two texts.
        if type(max_seq_length) is not int or max_seq_length < 5:
            raise ValueError(
                "Expected max_seq_length to be an integer of at least 5. "
                f"Received: max_seq_length={max_seq_length!r}"
            )
        self.max_seq_length = max_seq_length
        self.pad_to_max = bool(pad_to_max)
        self.built = True
        # Strings are no numbers: `call` converts them.
        self._convert_input_args = False
        self._allow_non_tensor_positional_args = True
        # XLA knows no strings: Keras compiles no model with this layer.
        self.supports_jit = False

    @classmethod
    def from_checkpoint(
        cls,
        path: checkpoints.Source,
        max_seq_length: int | None = None,
        do_lower_case: bool | None = None,
        *,
        source: str | None = None,
        **kwargs,
    ) -> typing.Self:
        """The preprocessor that a checkpoint was trained with.

        Args:
          path: Of a checkpoint of any format, "hf://owner/name", or what
            `checkpoints.read` returned.
          max_seq_length: None for that of the training, else for the positions
            that the model has.
          do_lower_case: None for what the checkpoint says.
          source: What messages call the checkpoint; `path` by default.
          **kwargs: Of the class.

        Raises:
          CheckpointError: If it cannot be read, or has no vocabulary.
        """
        checkpoint = checkpoints.read(path)
        source = source or checkpoints.name_of(path)
        known = checkpoint.vocabulary
        if known is None:
            raise errors.CheckpointError(
                f"Expected a vocabulary in {source}. Received: weights alone; "
                "make the preprocessor of a vocab.txt, by "
                "electra_tf.Preprocessor(vocab_file)"
            )
        if do_lower_case is None:
            do_lower_case = known.do_lower_case
            if do_lower_case is None:
                lower = known.lower_cases()
                errors.warn(
                    f"{source} does not say whether text is lower-cased: "
                    f"taken as do_lower_case={lower} from its vocabulary"
                )
        config = checkpoint.discriminator or checkpoint.generator
        if max_seq_length is None and config is not None:
            longest = config.max_position_embeddings
            max_seq_length = min(checkpoint.max_seq_length or longest, longest)
        settings: dict[str, typing.Any] = {
            "do_lower_case": do_lower_case,
            "strip_accents": known.strip_accents,
            "text_cleaning": known.text_cleaning,
        }
        if max_seq_length is not None:
            settings["max_seq_length"] = max_seq_length
        return cls(known.tokens, **(settings | kwargs))

    from_preset = from_checkpoint

    def warn_of_other_tokens(self, checkpoint: Checkpoint) -> None:
        """Warns where a model has learned other tokens than this one has."""
        vocabulary_lib.in_place_of(
            checkpoint.vocabulary, self.vocabulary, "the preprocessor"
        )

    @property
    def vocabulary(self) -> vocabulary_lib.Vocabulary:
        """The tokens, and how text is treated."""
        return self.tokenizer.vocabulary

    @property
    def vocabulary_size(self) -> int:
        return self.tokenizer.vocab_size

    def get_config(self):
        return super().get_config() | {
            "vocabulary": list(self.vocabulary.tokens),
            "do_lower_case": self.vocabulary.do_lower_case,
            "strip_accents": self.vocabulary.strip_accents,
            "text_cleaning": self.vocabulary.text_cleaning,
            "max_seq_length": self.max_seq_length,
            "pad_to_max": self.pad_to_max,
        }

    def call(self, x, y=None, sample_weight=None):
        """Packs texts.

        Args:
          x: Texts <string>[B] or one <string>[]; a tuple of two of these for
            pairs, or {"text": ..., "text_pair": ...}. A pair whose second text
            has no token is one text.
          y: Passed on.
          sample_weight: Passed on.

        Returns:
          {"input_ids", "input_mask", "segment_ids"}: <int32>[B, L], or [L] of
          one text; with `y` and `sample_weight` a tuple, as `fit` takes it.

        Raises:
          ValueError: If `x` is anything else.
        """
        texts = [as_texts(part) for part in parts_of(x)]
        shapes = [text.shape for text in texts]
        if not shapes[0].is_compatible_with(shapes[-1]):
            raise ValueError(
                "Expected as many texts as other texts in a pair. Received: "
                f"shapes {shapes[0]} and {shapes[-1]}"
            )
        is_batch = shapes[0].rank == 1
        if not is_batch:
            texts = [tf.expand_dims(text, 0) for text in texts]
        features, _ = inputs.pack_and_compare(
            self.tokenizer, self.max_seq_length, *texts
        )
        is_fixed = self.pad_to_max or not is_batch
        length = self.max_seq_length if is_fixed else 2
        shape = [texts[0].shape[0], length if is_fixed else None]
        features = {
            name: tf.ensure_shape(values, shape)
            for name, values in inputs.pad(features, length).items()
        }
        if not is_batch:
            features = {name: values[0] for name, values in features.items()}
        return keras.utils.pack_x_y_sample_weight(features, y, sample_weight)


def parts_of(x) -> list:
    """The one text, or the two, of what a preprocessor is given."""
    names = [TEXT, TEXT_PAIR]
    if isinstance(x, Mapping) and [*x] in (names[:1], names, names[::-1]):
        return [x[name] for name in names if name in x]
    # What a functional model is given, whose tuples come back from a file as
    # lists.
    if isinstance(x, list) and x and all(_is_tensor(part) for part in x):
        x = tuple(x)
    if isinstance(x, tuple) and len(x) > 2:
        raise ValueError(f"{_EXPECTED}. Received: a tuple of {len(x)}")
    if isinstance(x, tuple):
        return list(x)
    return [x]


def _is_tensor(value) -> bool:
    return tf.is_tensor(value) or isinstance(value, keras.KerasTensor)


def as_texts(value) -> tf.Tensor:
    """Texts in any form -> <string>[B], or <string>[] of a string."""
    if not tf.is_tensor(value):
        if hasattr(value, "to_pylist"):
            value = value.to_pylist()
        elif hasattr(value, "to_numpy"):
            value = value.to_numpy(dtype=object)
        if isinstance(value, np.ndarray):
            value = value.tolist()
        try:
            value = tf.constant(value, tf.string)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{_EXPECTED}. Received: {errors.first_line(error)}"
            ) from None
    if value.dtype != tf.string:
        raise ValueError(
            f"{_EXPECTED}. Received: a tensor of {value.dtype.name}"
        )
    if value.shape.rank == 2 and value.shape[1] == 1:
        value = tf.squeeze(value, 1)
    if value.shape.rank not in (0, 1):
        raise ValueError(
            f"{_EXPECTED}, which tuple(map(list, zip(*pairs))) makes of a list "
            f"of pairs. Received: strings of shape {value.shape}"
        )
    return value
