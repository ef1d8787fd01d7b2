"""Who trains in the benchmarks: the product, and the original's way."""

import math
import os
import time

import keras
import numpy as np
import reference_graph
import tensorflow as tf

from electra_tf import configs, pretraining
from electra_tf.model import ablations, masking
from electra_tf.pretraining_data import batches as batches_lib
from electra_tf.training import engine as engine_lib
from electra_tf.training import optimization

# Of the public vocabulary of the released uncased models.
_SPECIAL_IDS = (101, 102, 103)
_NUM_EXAMPLES = 2000


def make_config(is_tiny: bool, max_seq_length: int) -> configs.ElectraConfig:
    """ELECTRA-Small, or a small model for the memory section and for tests."""
    if is_tiny:
        encoder = configs.EncoderConfig(200, 16, 2, 2, 32, 8)
    else:
        encoder = configs.EncoderConfig(30522, 256, 12, 4, 1024, 128)
    return configs.ElectraConfig(encoder, max_seq_length)


def special_ids(config: configs.ElectraConfig) -> masking.SpecialIds:
    """Ids that the vocabulary has."""
    small = config.encoder.vocab_size <= max(_SPECIAL_IDS)
    return masking.SpecialIds(*((2, 3, 4) if small else _SPECIAL_IDS))


def write_examples(folder: str, config: configs.ElectraConfig) -> str:
    """TFRecords of random words; one in twenty is short, as in real data.

    Returns:
      Their glob.
    """
    rng = np.random.default_rng(0)
    ids = special_ids(config)
    length, vocab_size = config.max_seq_length, config.encoder.vocab_size
    for file in range(4):
        path = os.path.join(folder, f"{file}.tfrecord")
        with tf.io.TFRecordWriter(path) as writer:
            for _ in range(_NUM_EXAMPLES // 4):
                is_short = rng.random() < 0.05
                tokens = rng.integers(4, length) if is_short else length
                words = rng.integers(
                    max(ids) + 1, vocab_size, tokens - 2
                ).tolist()
                padding = [0] * (length - tokens)
                values = {
                    "input_ids": [ids.cls, *words, ids.sep, *padding],
                    "input_mask": [1] * tokens + padding,
                    "segment_ids": [0] * length,
                }
                example = tf.train.Example()
                for name, numbers in values.items():
                    feature = example.features.feature[name]
                    feature.int64_list.value.extend(numbers)
                writer.write(example.SerializeToString())
    return os.path.join(folder, "*.tfrecord")


class Product:
    """The product's training, ready to be timed.

    Args:
      config: The model.
      pattern: Of the TFRecords.
      batch_size: Examples of a step.
      micro_batch_size: As RunConfig has it.
      strategy: Of the replicas; None for one device.
      cached: Trains on one batch again and again.
      is_parallel: Whether each core has a part of the batch.

    Attributes:
      engine: An engine.Engine.
      num_traces: How often Python has run the step's code.
    """

    def __init__(
        self,
        config,
        pattern,
        batch_size,
        micro_batch_size=0,
        strategy=None,
        cached=False,
        is_parallel=False,
    ):
        self.num_traces = 0
        strategy = strategy or tf.distribute.get_strategy()
        of_a_replica = batch_size // strategy.num_replicas_in_sync
        at_once = min(micro_batch_size or of_a_replica, of_a_replica)
        run = configs.RunConfig(
            model_dir=os.path.dirname(pattern),
            num_train_steps=1_000_000,
            micro_batch_size=micro_batch_size,
            num_parallel_parts=(
                math.gcd(at_once, os.cpu_count() or 1) if is_parallel else 1
            ),
        )
        keras.utils.set_random_seed(run.seed)
        data = batches_lib.PretrainingData(pattern, config, run.seed)

        def dataset(*shape):
            batches = data.dataset(*shape)
            return batches.take(1).cache().repeat() if cached else batches

        with strategy.scope():
            model = ablations.make_model(config, special_ids(config))
            optimizer = optimization.AdamWeightDecay(
                make_optimizer_config(), run.num_train_steps
            )
            optimizer.build(model.trainable_variables)
            loss_function = pretraining.make_loss_function(model)

            def counting(*args):
                self.num_traces += 1
                return loss_function(*args)

            self.engine = engine_lib.Engine(
                strategy, model, counting, optimizer, run, batch_size, dataset
            )
        self.data = data

    def __call__(self, num_steps: int) -> float:
        """Runs some steps; returns their seconds."""
        start = time.perf_counter()
        self.engine.train(tf.constant(num_steps))
        return time.perf_counter() - start


def make_optimizer_config() -> configs.OptimizerConfig:
    """ELECTRA-Small's."""
    return configs.OptimizerConfig(learning_rate=5e-4)


class Reference:
    """The reference graph on the same records, from the same weights."""

    def __init__(self, product: Product, config, batch_size: int):
        weights = {
            v.path: v.numpy() for v in product.engine.model.trainable_variables
        }
        self._graph = reference_graph.ReferenceGraph(
            config,
            make_optimizer_config(),
            product.engine.run.num_train_steps,
            special_ids(config),
            weights,
        )

        def without_noise(features):
            return {k: v for k, v in features.items() if k != "noise"}

        self._iterator = iter(
            product.data.dataset(batch_size).map(without_noise)
        )

    def __call__(self, num_steps: int) -> float:
        """Runs some steps; returns their seconds."""
        start = time.perf_counter()
        self._graph.train(self._iterator, tf.constant(num_steps)).numpy()
        return time.perf_counter() - start
