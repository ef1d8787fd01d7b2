"""Who trains in the benchmarks: the product, and the original's way."""

import math
import os

import benchmarking
import numpy as np
import reference_graph
import tensorflow as tf

from electra_tf import configs
from electra_tf.model import ablations, masking
from electra_tf.pretraining_data import batches as batches_lib
from electra_tf.pretraining_data import records
from electra_tf.training import engine as engine_lib
from electra_tf.training import optimization, replicas

# Of the public vocabulary of the released uncased models.
_SPECIAL_IDS = (101, 102, 103)
_NUM_EXAMPLES = 2000
ROWS = "rows.npz"
# ELECTRA-Small's.
OPTIMIZER = configs.OptimizerConfig(learning_rate=5e-4, num_warmup_steps=10_000)


def make_config(is_tiny: bool, max_seq_length: int) -> configs.ElectraConfig:
    """ELECTRA-Small, or a small model for the memory section and for tests."""
    tiny = configs.EncoderConfig(200, 16, 2, 2, 32, 8)
    encoder = tiny if is_tiny else benchmarking.SMALL
    return configs.ElectraConfig(encoder, max_seq_length)


def special_ids(config: configs.ElectraConfig) -> masking.SpecialIds:
    """Ids that the vocabulary has."""
    small = config.encoder.vocab_size <= max(_SPECIAL_IDS)
    return masking.SpecialIds(*((2, 3, 4) if small else _SPECIAL_IDS))


def write_examples(folder: str, config: configs.ElectraConfig) -> str:
    """TFRecords of random words; one in twenty is short, as in real data.

    The same rows are in rows.npz, for those who read no TFRecords.

    Returns:
      Their glob.
    """
    rng = np.random.default_rng(0)
    ids = special_ids(config)
    length, vocab_size = config.max_seq_length, config.encoder.vocab_size
    rows = np.zeros([_NUM_EXAMPLES, length], np.int32)
    lengths = np.full(_NUM_EXAMPLES, length)
    for number, row in enumerate(rows):
        if rng.random() < 0.05:
            lengths[number] = rng.integers(4, length)
        words = rng.integers(max(ids) + 1, vocab_size, lengths[number] - 2)
        row[: lengths[number]] = [ids.cls, *words.tolist(), ids.sep]
    masks = (np.arange(length) < lengths[:, None]).astype(np.int32)
    for file in range(4):
        path = os.path.join(folder, f"{file}.tfrecord")
        with tf.io.TFRecordWriter(path) as writer:
            for row, mask in zip(rows[file::4], masks[file::4], strict=True):
                writer.write(
                    records.serialize_features(
                        b"".join(map(records.varint, row.tolist())),
                        bytes(mask.tolist()),
                        bytes(length),
                    )
                )
    np.savez(
        os.path.join(folder, ROWS),
        input_ids=rows,
        input_mask=masks,
        segment_ids=np.zeros_like(rows),
    )
    return os.path.join(folder, "*.tfrecord")


class Training(benchmarking.Contestant):
    """A training.

    Args:
      strategy: Of the replicas.
      model: What is trained, made in the strategy's scope.
      loss_function: See `engine.LossFunction`.
      optimizer: Rates.
      run: Seed and how a step is cut.
      batch_size: Examples of a step.
      dataset: See `engine.MakeDataset`.

    Attributes:
      engine: An engine.Engine.
      num_traces: How often Python has run the step's code.
    """

    def __init__(
        self,
        strategy,
        model,
        loss_function,
        optimizer,
        run,
        batch_size,
        dataset,
    ):
        super().__init__(lambda n: self.engine.train(tf.constant(n)))
        self.num_traces = 0

        def counting(*args):
            self.num_traces += 1
            return loss_function(*args)

        with strategy.scope():
            adam = optimization.AdamWeightDecay(optimizer, run.num_train_steps)
            self.engine = engine_lib.Engine(
                strategy, model, counting, adam, run, batch_size, dataset
            )


class Product(Training):
    """The product's pre-training.

    Args:
      config: The model.
      pattern: Of the TFRecords.
      batch_size: Examples of a step.
      micro_batch_size: As RunConfig has it.
      strategy: Of the replicas; None for one device.
      cached: Trains on one batch again and again.
      is_parallel: Whether each core has a part of the batch.
      dtype_policy: As RunConfig has it.

    Attributes:
      data: The examples.
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
        dtype_policy="float32",
    ):
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
            dtype_policy=dtype_policy,
        )
        replicas.set_policy(run)
        self.data = batches_lib.PretrainingData(pattern, config, run.seed)

        def dataset(*shape):
            batches = self.data.dataset(*shape)
            return batches.take(1).cache().repeat() if cached else batches

        with strategy.scope():
            model = ablations.make_model(config, special_ids(config))
        super().__init__(
            strategy,
            model,
            model.training_loss,
            OPTIMIZER,
            run,
            batch_size,
            dataset,
        )


class Reference(benchmarking.Contestant):
    """The reference graph on the same records, from the same weights."""

    def __init__(self, product: Product, config, batch_size: int):
        model, run = product.engine.model, product.engine.run
        graph = reference_graph.ReferenceGraph(
            config,
            OPTIMIZER,
            run.num_train_steps,
            special_ids(config),
            {v.path: v.numpy() for v in model.trainable_variables},
        )

        def without_noise(features):
            return {k: v for k, v in features.items() if k != "noise"}

        data = product.data.dataset(batch_size).map(without_noise)
        batches = iter(data)

        def train(num_steps: int) -> dict[str, float]:
            loss = graph.train(batches, tf.constant(num_steps)).numpy()
            return {"total_loss": loss}

        super().__init__(train)
