"""What the steps of `PretrainingModel` are made of: the gin runs' engine."""

import dataclasses

import tensorflow as tf

from electra_tf import configs
from electra_tf.keras_models import pretraining_batches, pretraining_settings
from electra_tf.model import electra
from electra_tf.training import engine as engine_lib
from electra_tf.training import optimization


@dataclasses.dataclass
class Training:
    """What `fit` needs beside the model; in none of the model's files."""

    engine: engine_lib.Engine
    ratios: dict[str, pretraining_batches.Ratio]


def make(
    network: electra.PretrainingModel,
    optimizer: optimization.AdamWeightDecay | None,
    run: configs.RunConfig,
    batch_size: int,
    strategy: tf.distribute.Strategy,
) -> Training:
    """The engine of a network, and metrics for what it tells.

    Args:
      network: To train.
      optimizer: None where there is nothing to do but to evaluate.
      run: With seed, micro batches and precision.
      batch_size: Examples of a step.
      strategy: Of the network.
    """
    optimizer = optimizer or optimization.AdamWeightDecay(
        pretraining_settings.DEFAULT_OPTIMIZER, 1
    )

    def no_dataset(*_):
        raise AssertionError("Keras gives the batches")

    with strategy.scope():
        engine = engine_lib.Engine(
            strategy,
            network,
            network.training_loss,
            optimizer,
            run,
            batch_size,
            no_dataset,
        )
        ratios = pretraining_batches.ratios(
            network.config, network.training_loss
        )
    return Training(engine, ratios)
