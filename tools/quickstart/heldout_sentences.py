"""A pre-trained model's verdict on every token of held-out examples.

The generator's replacements and the discriminator's probabilities, as words:
what the losses and the AUC of a pre-training run are made of.
"""

import typing

import numpy as np
import tensorflow as tf

from electra_tf import model_directory, pretraining
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
      model_dir: Of a pre-training run with held-out files.
      num_examples: Examples to judge; fewer where the held-out files end.

    Returns:
      One list of tokens per example, padding left out, and the number of
      parameters of the generator and the discriminator together.

    Raises:
      ValueError: If the run is unfinished, or its data are gone.
    """
    config = model_directory.read_pretraining_config(model_dir)
    vocab, model = pretraining.load_trained(model_dir)
    data = batches.PretrainingData(
        config.data.heldout_files, config.model, config.run.seed, shuffle=False
    )

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
    for features in data.dataset(min(_BATCH_SIZE, num_examples, len(data))):
        rows = zip(*(x.numpy() for x in judge(features)), strict=True)
        for input_ids, shown_ids, is_fake, probs, mask in rows:
            examples.append(
                [
                    Token(
                        vocab.tokens[input_ids[i]],
                        vocab.tokens[shown_ids[i]],
                        bool(is_fake[i]),
                        float(probs[i]),
                    )
                    for i in np.flatnonzero(mask)
                ]
            )
        if len(examples) >= min(num_examples, len(data)):
            break
    return examples[:num_examples], sum(
        int(tf.size(v.value)) for v in model.trainable_variables
    )
