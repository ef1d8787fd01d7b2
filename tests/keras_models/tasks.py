"""What the tests of the task models share."""

import functools
import pathlib

import keras
import numpy as np
import tensorflow as tf

import electra_tf
from electra_tf import configs
from electra_tf.finetuning import batches, recipe
from electra_tf.finetuning import configs as finetuning_configs
from electra_tf.model import task_head
from electra_tf.model.finetuning_model import FinetuningModel
from electra_tf.text import vocabulary
from electra_tf.training import engine, optimization
from tests import helpers

LABELS = ["neg", "pos"]


def texts(num_rows: int) -> list[str]:
    """Texts of one to six words, unlike each other."""
    words = helpers.VOCAB[5:]
    return [
        " ".join(words[(row * 7 + i * (row % 4 + 1)) % 15] for i in range(n))
        for row in range(num_rows)
        for n in [1 + row % 6]
    ]


TEXTS = texts(20)
TARGETS = [LABELS[text.count("wa") > 0] for text in TEXTS]


def write_pretrained(folder, **changes) -> str:
    """A model directory as pre-training leaves it, with its vocabulary."""
    path = str(pathlib.Path(folder) / "pretrained")
    helpers.write_pretrained(
        path, helpers.encoder_config(initializer_range=0.5, **changes)
    )
    tokens = vocabulary.Vocabulary(tuple(helpers.VOCAB), True, True)
    vocabulary.write(tokens, path)
    return path


def classifier(pretrained, **kwargs):
    """A TextClassifier that is not trained; the same in every call."""
    keras.utils.set_random_seed(1)  # Of the head's weights.
    arguments = {"labels": LABELS, "seed": 5}
    return electra_tf.TextClassifier.from_checkpoint(
        pretrained, **(arguments | kwargs)
    )


class Stop(keras.callbacks.Callback):
    """Interrupts a training at the beginning of its third epoch."""

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 2:
            raise KeyboardInterrupt


def assert_same_weights(found, expected, atol=0.0):
    for a, b in zip(found.variables, expected.variables, strict=True):
        assert a.path == b.path
        np.testing.assert_allclose(a, b, rtol=0, atol=atol, err_msg=a.path)


def assert_equal_bits(found, expected):
    keras.tree.map_structure(np.testing.assert_array_equal, found, expected)


def train_by_engine(model, features, num_steps: int, batch_size: int):
    """Trains a network with the weights of a Keras model as a gin run does.

    Args:
      model: A task model that was not trained yet.
      features: Rows with labels.
      num_steps: How many.
      batch_size: Rows of each.

    Returns:
      The network, and the metrics of these steps.
    """
    config = model.encoder_config
    strategy = tf.distribute.OneDeviceStrategy("cpu:0")
    with strategy.scope():
        head = task_head.make_head(model.head, config)
        if model.head_dropout is not None:
            head.set_dropout(model.head_dropout)
        network = FinetuningModel(config, [head])
        for ours, theirs in zip(
            network.variables, model.network.variables, strict=True
        ):
            assert ours.path == theirs.path
            ours.assign(theirs)
        chosen = recipe.complete(
            configs.OptimizerConfig(**finetuning_configs.OPTIMIZER),
            "paper",
            config.hidden_size,
        )
        optimizer = optimization.AdamWeightDecay(
            chosen,
            num_steps,
            {
                v.path: optimization.layerwise_scale(
                    v.path, config.num_hidden_layers, chosen.layerwise_lr_decay
                )
                for v in network.trainable_variables
            },
        )
        trainer = engine.Engine(
            strategy,
            network,
            network.training_loss,
            optimizer,
            configs.RunConfig(
                "unused", num_train_steps=num_steps, seed=model.seed
            ),
            batch_size,
            functools.partial(batches.train_dataset, features, model.seed),
        )
        return network, trainer.train(tf.constant(num_steps))
