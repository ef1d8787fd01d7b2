"""Model, loss and batches -> training steps and evaluations, on all replicas.

A step cuts each replica's share of the batch into micro-batches and parallel
parts, adds up their gradients, and sums these over the replicas. `loop.train`
drives it, for pre-training and for fine-tuning.
"""

import contextlib
import math
from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from electra_tf import configs, errors
from electra_tf.model import costs, losses
from electra_tf.training import optimization, replicas, workers

# Takes (features, dropout_seed, all_reduce_sum); returns this replica's share
# of the loss <float32>[] and the sums that become metrics. What the loss is
# divided by goes through `all_reduce_sum`, <float32>[] in each call, and the
# features' share of it is the sum over their examples.
LossFunction = Callable[..., tuple[tf.Tensor, dict[str, losses.Sums]]]
# Takes (batch size of a part, first step, Shard); returns a dataset of parts.
MakeDataset = Callable[[int, int, replicas.Shard], tf.data.Dataset]


class Engine:
    """Trains and evaluates one model.

    Make it, and the model and optimizer before it, in the strategy's scope.

    Args:
      strategy: Where the replicas are.
      model: Its variables are trained.
      loss_function: See `LossFunction`.
      optimizer: Built here, if it is not, for the model's trainable variables.
      run: Seeds, steps, directory.
      batch_size: Examples of a step, over all replicas.
      train_dataset: See `MakeDataset`.
      networks: What an example goes through in a step, to tell how busy the
        devices are; none where nobody asks.

    Raises:
      ConfigError: If the batch cannot be cut evenly.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: keras.Model,
        loss_function: LossFunction,
        optimizer: optimization.AdamWeightDecay,
        run: configs.RunConfig,
        batch_size: int,
        train_dataset: MakeDataset,
        networks: Sequence[costs.Network] = (),
    ):
        optimizer.build(model.trainable_variables)
        self.strategy = strategy
        self.model = model
        self.loss_function = loss_function
        self.optimizer = optimizer
        self.run = run
        self.batch_size = batch_size
        self.train_dataset = train_dataset
        self.networks = networks
        share = self.share_of_batch(batch_size, "train_batch_size")
        self.num_parallel_parts = run.num_parallel_parts or 1
        self.micro_batch_size = self._micro_batch_size(share)
        self.num_micro_batches = share // self.micro_batch_size
        self.global_step = replicas.shared_variable(0, tf.int64, "global_step")
        self.loss_scale: optimization.LossScale | None = None
        if run.dtype_policy == "mixed_float16":
            self.loss_scale = optimization.LossScale()
            optimizer.skips_non_finite_updates = True
        # Not of the graph, so that another run may have its steps.
        self._seed = replicas.shared_variable(run.seed, tf.int64, "seed")
        self._iterator = None
        # By XLA where the run asks for it, which gets what lies between two
        # collectives: on CPUs it cannot hold one. A TPU compiles all of it by
        # itself.
        self.compiled_step: Callable = self.replica_step
        self._compiled_eval: Callable = self.replica_eval
        self._compiled_gradients: Callable = self._gradients
        # Not put in its calls' places, where each would be a graph by itself.
        self._one_part = tf.function(
            self._gradients_of_part,
            autograph=False,
            experimental_attributes={"_noinline": True},
        )
        if run.jit_compile and run.distribution_strategy != "tpu":
            xla = tf.function(jit_compile=True, autograph=False)
            if strategy.num_replicas_in_sync == 1:
                self.compiled_step = xla(self.replica_step)
                self._compiled_eval = xla(self.replica_eval)
            else:
                self._compiled_gradients = xla(self._gradients)

    def begin_again(
        self,
        run: configs.RunConfig,
        model: keras.Model,
        train_dataset: MakeDataset,
    ) -> None:
        """Begins another run, whose steps are traced and compiled already.

        Args:
          run: As this engine's but for seed and directory.
          model: Whose weights the engine's model takes.
          train_dataset: See `MakeDataset`.
        """
        self.run = run
        self.train_dataset = train_dataset
        self._iterator = None
        self._seed.assign(run.seed)
        pairs = zip(self.model.variables, model.variables, strict=True)
        for variable, value in pairs:
            variable.assign(value)
        for variable in (*self.optimizer.variables, self.global_step):
            variable.assign(tf.zeros(variable.shape, variable.dtype))
        if self.loss_scale:
            self.loss_scale.begin_again()

    def distribute(
        self, make_dataset: MakeDataset, batch_size: int, first_step: int
    ):
        """One pipeline per worker, one part of the batch per replica.

        Raises:
          ConfigError: If the batch cannot be shared out evenly.
        """
        num_replicas = self.strategy.num_replicas_in_sync
        share = self.share_of_batch(batch_size)

        def worker_dataset(context):
            local = num_replicas // context.num_input_pipelines
            shard = replicas.Shard(
                num_replicas, context.input_pipeline_id * local, local
            )
            dataset = make_dataset(share, first_step, shard)
            return dataset.with_options(replicas.UNTUNED)

        strategy = self.strategy
        is_one = isinstance(strategy, tf.distribute.OneDeviceStrategy)
        if is_one and "CPU" in strategy.extended.worker_devices[0]:
            # What hands batches to devices has a tuner of its own, which cannot
            # be turned off, and here there is nothing to hand over.
            return worker_dataset(tf.distribute.InputContext())
        return strategy.distribute_datasets_from_function(worker_dataset)

    def share_of_batch(self, batch_size: int, setting="batch_size") -> int:
        """Examples that each replica has of a batch.

        Args:
          batch_size: Over all replicas.
          setting: What the user calls it.

        Raises:
          ConfigError: If it cannot be shared out evenly.
        """
        num_replicas = self.strategy.num_replicas_in_sync
        if batch_size % num_replicas:
            raise errors.ConfigError(
                f"{setting} must be a multiple of the number of replicas. "
                f"Received: {setting}={batch_size}, replicas={num_replicas}"
            )
        return batch_size // num_replicas

    def train(self, num_steps: tf.Tensor) -> dict[str, float]:
        """Runs some steps from the global step on.

        Args:
          num_steps: <int32>[].

        Returns:
          Metrics over these steps.
        """
        if self._iterator is None:
            self._iterator = iter(
                self.distribute(
                    self.train_dataset,
                    self.batch_size,
                    int(self.global_step.numpy()),
                )
            )
        with _data_errors():
            sums = self._train_loop(self._iterator, num_steps)
        return losses.metrics_from_sums(sums)

    @tf.function(reduce_retracing=True)
    def _train_loop(self, iterator, num_steps):
        zeros = _zeros_for(self._train_step, iterator)
        return _add_steps(zeros, self._train_step, iterator, num_steps)

    @tf.function(reduce_retracing=True)
    def _train_step(self, features):
        scale = self.loss_scale.scale.read_value() if self.loss_scale else 1.0
        per_replica = self.strategy.run(
            # Nothing there is left to AutoGraph, whose work would be a sixth
            # of the time to the first step.
            tf.autograph.experimental.do_not_convert(self.compiled_step),
            args=(
                *(features, self._seed.read_value()),
                *(self.global_step.read_value(), scale),
            ),
        )
        self.global_step.assign_add(1)
        sums = self._of_any_replica(per_replica)
        if self.loss_scale:
            # The norm of a step that was not taken has no weight.
            self.loss_scale.update(sums["gradient_norm"].weight > 0)
        return sums

    def _of_any_replica(self, per_replica):
        """The value of one replica, where all have the same."""
        return tf.nest.map_structure(
            lambda x: self.strategy.experimental_local_results(x)[0],
            per_replica,
        )

    def replica_step(self, features, run_seed, step, scale):
        """Forward, backward and update on one replica's part of the batch.

        Args:
          features: Of that part.
          run_seed: <int>[], decides with the step what drops out.
          step: <int>[].
          scale: <float32>[], of the loss; 1 where there is no `loss_scale`.

        Returns:
          Name -> losses.Sums, of all replicas.
        """
        context = tf.distribute.get_replica_context()
        num_replicas = context.num_replicas_in_sync
        all_reduce_sum = replicas.make_all_reduce_sum(context)
        seed = replicas.seed_of_replica(
            tf.random.experimental.stateless_fold_in(
                tf.stack([tf.cast(run_seed, tf.int32), 0]),
                tf.cast(step, tf.int32),
            )
        )
        totals, zeros = None, None
        if num_replicas * self.num_micro_batches * self.num_parallel_parts > 1:
            weights, zeros = self._sums_of_weights(features, seed)
            totals = all_reduce_sum(weights) if weights else []
        gradients, loss, sums = self._compiled_gradients(
            features, seed, totals, zeros, scale
        )
        loss_sums = losses.Sums(loss, tf.constant(1.0 / num_replicas))
        variables = self.model.trainable_variables
        pairs = zip(gradients, variables, strict=True)
        used = [(g, v) for g, v in pairs if g is not None]
        # In one call, as every call is a message to all others.
        sums = all_reduce_sum(sums | {"total_loss": loss_sums})
        summed = self._reduce([g for g, _ in used], all_reduce_sum)
        learning_rate = tf.cast(self.optimizer.learning_rate, tf.float32)
        if self.loss_scale:
            summed = [g / scale for g in summed]
        norm = self.optimizer.apply_summed(summed, [v for _, v in used])
        one = tf.constant(1.0)
        norm_sums = losses.Sums(norm, one)
        if self.loss_scale:
            sums["loss_scale"] = losses.Sums(scale, one)
            norm_sums = tf.nest.map_structure(
                lambda x: tf.where(tf.math.is_finite(norm), x, 0.0), norm_sums
            )
        return sums | {
            "gradient_norm": norm_sums,
            "learning_rate": losses.Sums(learning_rate, one),
        }

    def _reduce(self, gradients, all_reduce_sum):
        """Gradients <float32> of one replica -> those of the whole batch."""
        if self.strategy.num_replicas_in_sync == 1:
            return gradients
        dtype = self.run.gradient_reduction_dtype
        summed = all_reduce_sum(
            [tf.cast(g, dtype) for g in gradients],
            # Packs were measured between CPUs only.
            0 if self.run.num_gpus else replicas.PACK_BYTES,
        )
        return [tf.cast(g, tf.float32) for g in summed]

    def _sums_of_weights(self, features, seed):
        """What the losses of a replica's part of the batch are divided by.

        A loss function sums its weights by `all_reduce_sum`: these sums in the
        order of the calls, and what it returns beside the loss, all zero.
        TensorFlow leaves out of this pass whatever the sums do not follow
        from: all but the masking.
        """
        weights: list[tf.Tensor] = []

        def note(tensor):
            weights.append(tensor)
            return tensor

        _, sums = self.loss_function(features, seed, note)
        return weights, tf.nest.map_structure(
            lambda x: tf.zeros(x.shape, x.dtype), sums
        )

    def _gradients(self, features, seed, totals, zeros, scale):
        """Gradients of a replica's part of the batch, cut into micro-batches.

        `totals` and `zeros` are `_sums_of_weights`, the former of all replicas;
        None on one replica whose batch is in one piece. Returns a <float32>
        gradient, times `scale`, for each trainable variable, None where it
        takes no part; the replica's share of the loss <float32>[]; and the sums
        of the loss function.
        """
        size, num_parts = self.micro_batch_size, self.num_micro_batches
        if num_parts == 1:
            return self._gradients_in_parallel(features, seed, totals, scale)
        parts = tf.nest.map_structure(
            lambda x: tf.reshape(
                x, tf.concat([[num_parts, size], tf.shape(x)[1:]], axis=0)
            ),
            features,
        )
        variables = self.model.trainable_variables
        is_used = [False] * len(variables)

        def add_part(index, gradients, loss, sums):
            part_gradients, part_loss, part_sums = self._gradients_in_parallel(
                tf.nest.map_structure(lambda x: x[index], parts),
                tf.random.experimental.stateless_fold_in(seed, index),
                totals,
                scale,
            )
            is_used[:] = [g is not None for g in part_gradients]
            gradients = [
                total if g is None else _add_to_loop_variable(total, g)
                for total, g in zip(gradients, part_gradients, strict=True)
            ]
            loss = _add_to_loop_variable(loss, part_loss)
            sums = tf.nest.map_structure(_add_to_loop_variable, sums, part_sums)
            return index + 1, gradients, loss, sums

        _, gradients, loss, sums = tf.while_loop(
            lambda index, *_: index < num_parts,
            add_part,
            [0, [tf.zeros(v.shape) for v in variables], 0.0, zeros],
            parallel_iterations=1,
            maximum_iterations=num_parts,
        )
        gradients = [
            g if used else None
            for g, used in zip(gradients, is_used, strict=True)
        ]
        return gradients, loss, sums

    def _gradients_in_parallel(self, features, seed, totals, scale):
        """Gradients of one micro-batch, see `_gradients`.

        Nothing of one part waits for another, so TensorFlow runs them side by
        side: calls of one function, which is traced and compiled once.
        """
        num_parts = self.num_parallel_parts
        if num_parts == 1:
            return self._gradients_of_part(features, seed, totals, scale)
        gradients, part_losses, sums = zip(
            *[
                self._one_part(
                    part,
                    tf.random.experimental.stateless_fold_in(seed, start),
                    totals,
                    scale,
                )
                for start, part in _parts(
                    features, self.micro_batch_size, num_parts
                )
            ],
            strict=True,
        )
        return (
            [
                None if parts[0] is None else tf.add_n(parts)
                for parts in zip(*gradients, strict=True)
            ],
            tf.add_n(part_losses),
            _added(sums),
        )

    def _gradients_of_part(self, features, seed, totals, scale):
        """Gradients of what is not cut any further, see `_gradients`."""
        variables = self.model.trainable_variables
        total_of = losses.identity if totals is None else _one_by_one(totals)
        with tf.GradientTape() as tape:
            loss, sums = self.loss_function(features, seed, total_of)
            scaled = loss * scale if self.loss_scale else loss
        gradients = tape.gradient(scaled, [v.value for v in variables])
        gradients = [
            None if g is None else tf.cast(tf.convert_to_tensor(g), tf.float32)
            for g in gradients
        ]
        return gradients, loss, sums

    def any_worker(self, request: bool) -> bool:
        """Whether any worker asks for something; all ask at the same step."""
        if not replicas.are_several_workers(self.strategy):
            return request
        sum_of_all = workers.make_sum(self.strategy)
        return float(sum_of_all(tf.constant(float(request)))) > 0

    def evaluate_on(
        self,
        make_dataset: MakeDataset,
        batch_size: int,
        num_steps: int,
        between_loops: Callable[[], None] = lambda: None,
    ) -> dict[str, float]:
        """Evaluates without dropout.

        Args:
          make_dataset: See `MakeDataset`.
          batch_size: Over all replicas.
          num_steps: Batches.
          between_loops: Called before each `RunConfig.steps_per_loop` batches;
            it may end all by an exception.

        Returns:
          Metrics, "total_loss" among them.
        """
        iterator = iter(self.distribute(make_dataset, batch_size, 0))
        total: dict = {}
        size = self.run.steps_per_loop
        for start in range(0, num_steps, size):
            between_loops()
            count = tf.constant(min(size, num_steps - start), tf.int32)
            total = total or _zeros_for(self._eval_step, iterator)
            with _data_errors():
                total = self._eval_loop(total, iterator, count)
        return losses.metrics_from_sums(total)

    @tf.function(reduce_retracing=True)
    def _eval_loop(self, total, iterator, num_steps):
        return _add_steps(total, self._eval_step, iterator, num_steps)

    @tf.function(reduce_retracing=True)
    def _eval_step(self, features):
        return self._of_any_replica(
            self.strategy.run(
                tf.autograph.experimental.do_not_convert(self._compiled_eval),
                args=(features,),
            )
        )

    def replica_eval(self, features):
        """The metrics of a batch without dropout, see `replica_step`."""
        context = tf.distribute.get_replica_context()
        num_replicas = context.num_replicas_in_sync
        all_reduce_sum = replicas.make_all_reduce_sum(context)
        loss, sums = self._losses_in_parallel(features, all_reduce_sum)
        loss_sums = losses.Sums(loss, tf.constant(1.0 / num_replicas))
        return all_reduce_sum(sums | {"total_loss": loss_sums})

    def _losses_in_parallel(self, features, all_reduce_sum):
        """The loss function without dropout, of parts side by side."""
        size = tf.nest.flatten(features)[0].shape[0] or 1
        num_parts = math.gcd(size, self.num_parallel_parts)
        # Replicas may have other parts: all of them sum the weights at once.
        if num_parts == 1 and self.strategy.num_replicas_in_sync == 1:
            return self.loss_function(features, None, all_reduce_sum)
        weights, _ = self._sums_of_weights(features, None)
        totals = all_reduce_sum(weights) if weights else []
        part_losses, sums = zip(
            *[
                self.loss_function(part, None, _one_by_one(totals))
                for _, part in _parts(features, size, num_parts)
            ],
            strict=True,
        )
        return tf.add_n(part_losses), _added(sums)

    def _micro_batch_size(self, share: int) -> int:
        """Examples that a replica works on at once, of its share of a batch."""
        size = min(self.run.micro_batch_size or share, share)
        parts = self.num_parallel_parts
        for name, number, whole, what in (
            ("micro_batch_size", size, share, "has of a batch"),
            ("num_parallel_parts", parts, size, "works on at once"),
        ):
            if whole % number:
                raise errors.ConfigError(
                    f"RunConfig.{name} must divide the examples that a replica "
                    f"{what}. Received: {name}={number}, examples={whole}"
                )
        return size


def _zeros_for(step, iterator):
    """What the sums that a step returns for a batch are added to."""
    # A first step outside the loop would do as well, but the graph would hold
    # it twice.
    traced = step.get_concrete_function(iterator.element_spec)
    return tf.nest.map_structure(
        lambda x: tf.zeros(x.shape, x.dtype), traced.structured_outputs
    )


def _add_steps(sums, step, iterator, num_steps):
    """Adds the sums of `num_steps` <int32>[] batches, in the graph."""
    for _ in tf.range(num_steps):
        sums = tf.nest.map_structure(
            _add_to_loop_variable, sums, step(next(iterator))
        )
    return sums


def _parts(features, size: int, num_parts: int):
    """First row and features of each of the equal parts of `size` rows."""
    step = size // num_parts
    return [
        (
            start,
            tf.nest.map_structure(
                lambda x, start=start: x[start : start + step], features
            ),
        )
        for start in range(0, size, step)
    ]


def _added(sums):
    """Structures of tensors -> one, of their sums."""
    return tf.nest.map_structure(lambda *parts: tf.add_n(parts), *sums)


def _one_by_one(totals: Sequence[tf.Tensor]):
    """In place of `all_reduce_sum`, where the sums of all are known."""
    remaining = iter(totals)
    return lambda _: next(remaining)


def _add_to_loop_variable(total: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    """total + x in the body of a loop.

    Where memory is short (on CPUs, from 205 MB on) TensorFlow's optimizer makes
    a large sum a temporary variable that waits for the first term. If that is
    the loop's own variable, one is also made after the last round, never taken
    away, and the next run of the same graph fails with AlreadyExistsError
    (github.com/tensorflow/tensorflow/issues/23780). An operation between the
    two, which hands the buffer on, avoids it.
    """
    return tf.raw_ops.Snapshot(input=total) + x


@contextlib.contextmanager
def _data_errors():
    """Turns TensorFlow's wrapping of a DataError back into one."""
    try:
        yield
    except tf.errors.OpError as error:
        if "DataError: " not in str(error):
            raise
        message = errors.data_error_message(error)
        raise errors.DataError(message) from None
