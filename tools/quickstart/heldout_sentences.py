"""A pre-trained model's verdict on every token of held-out examples.

The generator's replacements and the discriminator's probabilities, as words:
what the losses and the AUC of a pre-training run are made of.

Shapes: B batch, L length.
"""

import functools
import typing

import numpy as np
import tensorflow as tf

from electra_tf import errors, model_directory, pretraining
from electra_tf.pretraining_data import batches

_BATCH_SIZE = 64


class Token(typing.NamedTuple):
    """One token as the discriminator saw it.

    Attributes:
      original: The word piece of the text.
      shown: The word piece that the discriminator saw.
      is_replaced: The label: whether the generator put another token there.
      probability: The discriminator's probability of that.
    """

    original: str
    shown: str
    is_replaced: bool
    probability: float


def detect_heldout(
    model_dir: str, num_examples: int
) -> tuple[list[list[Token]], int]:
    """Corrupts the first held-out examples and judges them.

    Masks and samples follow from the run's seed, so the result is the same
    every time.

    Args:
      model_dir: Of a pre-training run.
      num_examples: Examples to judge; fewer where the held-out files end.

    Returns:
      One list of tokens per example, padding left out, and the number of
      parameters of the generator and the discriminator together.

    Raises:
      ValueError: If the run is unfinished, has no discriminator or no held-out
        data, or its data are gone.
    """
    config = model_directory.read_pretraining_config(model_dir)
    if not config.model.has_binary_discriminator:
        raise errors.ConfigError(
            "Expected a model with a discriminator. Received: the model in "
            f"{model_dir}, which predicts tokens alone"
        )
    if not config.data.heldout_files:
        raise errors.ConfigError(
            "Expected a run with PretrainingDataConfig.heldout_files. "
            f"Received: {model_dir}, which has none"
        )
    vocab, model = pretraining.load_trained(model_dir)
    data = batches.PretrainingData(
        config.data.heldout_files, config.model, config.run.seed, shuffle=False
    )
    num_examples = min(num_examples, len(data))

    @tf.function
    def judge(features):
        features = dict(features)
        outputs = model(features, noise=features.pop("noise"))
        return (
            features["input_ids"],
            outputs["fake_data"].inputs.input_ids,
            outputs["fake_data"].is_fake_tokens,
            outputs["disc_output"].probs,
            features["input_mask"],
        )

    examples: list[list[Token]] = []
    for features in data.dataset(min(_BATCH_SIZE, num_examples)):
        judged = (x.numpy() for x in judge(features))
        examples += map(functools.partial(_tokens, vocab.tokens), *judged)
        if len(examples) >= num_examples:
            break
    return examples[:num_examples], sum(
        int(tf.size(v.value)) for v in model.trainable_variables
    )


def _tokens(
    vocab, input_ids, shown_ids, is_fake_tokens, probs, input_mask
) -> list[Token]:
    return [
        Token(
            vocab[input_ids[i]],
            vocab[shown_ids[i]],
            bool(is_fake_tokens[i]),
            float(probs[i]),
        )
        for i in np.flatnonzero(input_mask)
    ]
