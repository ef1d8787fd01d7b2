"""The training engine: strategy, step, loop, checkpoints, evaluation.

The only user of tf.distribute and of dtype policies. Orbit drives the outer
loop; pre-training and fine-tuning both run on it.
"""

import contextlib
import json
import math
import os
import signal
import sys
import time
import typing
from collections.abc import Callable, Sequence

import keras
import orbit
import tensorflow as tf

from electra_tf import (
    configs,
    losses,
    optimization,
    pretraining_data,
    progress,
)

# Exit code of a run that was told to stop, saved and left (EX_TEMPFAIL).
EXIT_STOPPED = 75

# Takes (features, dropout_seed, all_reduce_sum); returns this replica's share
# of the loss <float32>[] and the sums that become metrics.
LossFunction = Callable[..., tuple[tf.Tensor, dict[str, losses.Sums]]]


class TrainingError(RuntimeError):
    """A run that cannot go on; the message is for the user."""


class Stopped(RuntimeError):
    """The run was told to stop, and has saved its state."""


# Takes (batch size of a part, first step, Shard); returns a dataset of parts.
MakeDataset = Callable[[int, int, pretraining_data.Shard], tf.data.Dataset]


def make_strategy(run: configs.RunConfig) -> tf.distribute.Strategy:
    """The distribution strategy that a run asks for."""
    # Imported here: tf-models-official takes a while.
    from official.common import distribute_utils

    try:
        return distribute_utils.get_distribution_strategy(
            distribution_strategy=run.distribution_strategy,
            num_gpus=run.num_gpus,
            tpu_address=run.tpu,
        )
    except (ValueError, tf.errors.OpError) as error:
        raise configs.ConfigError(
            "Cannot set up RunConfig.distribution_strategy="
            f"{run.distribution_strategy!r} with num_gpus={run.num_gpus}: "
            f"{str(error).splitlines()[0]}"
        ) from None


def set_policy(run: configs.RunConfig) -> None:
    """Sets the dtype policy and the seed of the initial weights."""
    keras.config.set_dtype_policy(run.dtype_policy)
    keras.utils.set_random_seed(run.seed)


def checkpointed_variables(
    model: keras.Model,
    optimizer: optimization.AdamWeightDecay | None = None,
    global_step: tf.Variable | None = None,
) -> tf.train.Checkpoint:
    """A checkpoint with every variable under its path.

    `tf.train.Checkpoint(model=model)` drops layers that a Keras 3 model holds
    in lists, without an error; a flat map cannot.
    """
    parts: dict[str, typing.Any] = {
        "model": {v.path: v.value for v in model.variables}
    }
    if optimizer is not None:
        parts["optimizer"] = {
            name: slot.value for name, slot in optimizer.slots().items()
        }
        parts["iterations"] = optimizer.iterations.value
    if global_step is not None:
        parts["global_step"] = global_step
    return tf.train.Checkpoint(**parts)


def restore_variables(
    variables: Sequence[keras.Variable], checkpoint: str, what: str
) -> None:
    """Reads variables from a checkpoint of `checkpointed_variables`.

    Args:
      variables: Some or all of a model's.
      checkpoint: Prefix.
      what: Named in the error.

    Raises:
      ConfigError: If one is missing there or has another shape.
    """
    try:
        restored = tf.train.Checkpoint(
            model={v.path: v.value for v in variables}
        ).read(checkpoint)
        restored.assert_existing_objects_matched()
    except (AssertionError, ValueError) as error:
        raise configs.ConfigError(
            f"Expected all weights of {what} in {checkpoint}: "
            f"{str(error).splitlines()[0]}"
        ) from None
    restored.expect_partial()


def _make_all_reduce_sum(context: tf.distribute.ReplicaContext):
    """Sums tensors over the replicas; does nothing where there is one."""

    def all_reduce_sum(tensors):
        if context.num_replicas_in_sync == 1:
            return tensors
        return context.all_reduce(tf.distribute.ReduceOp.SUM, tensors)

    return all_reduce_sum


@contextlib.contextmanager
def _data_errors():
    """Turns TensorFlow's wrapping of a DataError back into one."""
    try:
        yield
    except tf.errors.OpError as error:
        if "DataError: " not in str(error):
            raise
        message = pretraining_data.data_error_message(error)
        raise pretraining_data.DataError(message) from None


class Engine(orbit.AbstractTrainer, orbit.AbstractEvaluator):
    """Trains and evaluates one model.

    Build it, and the model and optimizer before it, in the strategy's scope.

    Args:
      strategy: Where the replicas are.
      model: Its variables are trained.
      loss_function: See `LossFunction`.
      optimizer: Built with the model's trainable variables; None to evaluate
        only.
      run: Seeds, steps, directory.
      batch_size: Examples of a step, over all replicas.
      train_dataset: See `MakeDataset`.
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
    ):
        self.strategy = strategy
        self.model = model
        self.loss_function = loss_function
        self.optimizer = optimizer
        self.run = run
        self.batch_size = batch_size
        self.train_dataset = train_dataset
        self.global_step = orbit.utils.create_global_step()
        self._iterator = None
        self._dropout_seed = tf.constant([run.seed, 0], tf.int32)
        self._compiled_step = tf.function(
            self._replica_step, jit_compile=run.jit_compile or None
        )

    def distribute(
        self, make_dataset: MakeDataset, batch_size: int, first_step: int
    ):
        """One pipeline per worker, one part of the batch per replica.

        Raises:
          ConfigError: If the batch cannot be shared out evenly.
        """
        num_replicas = self.strategy.num_replicas_in_sync
        if batch_size % num_replicas:
            raise configs.ConfigError(
                "The batch size must be a multiple of the number of replicas. "
                f"Received: batch_size={batch_size}, replicas={num_replicas}"
            )

        def of_worker(context):
            local = num_replicas // context.num_input_pipelines
            shard = pretraining_data.Shard(
                num_replicas, context.input_pipeline_id * local, local
            )
            return make_dataset(batch_size // num_replicas, first_step, shard)

        return self.strategy.distribute_datasets_from_function(of_worker)

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
        sums = self._train_step(next(iterator))
        for _ in tf.range(num_steps - 1):
            sums = tf.nest.map_structure(
                tf.add, sums, self._train_step(next(iterator))
            )
        return sums

    @tf.function(reduce_retracing=True)
    def _train_step(self, features):
        per_replica = self.strategy.run(
            self._compiled_step, args=(features, self.global_step.read_value())
        )
        self.global_step.assign_add(1)
        return tf.nest.map_structure(self._sum_replicas, per_replica)

    def _sum_replicas(self, per_replica):
        return self.strategy.reduce(
            tf.distribute.ReduceOp.SUM, per_replica, axis=None
        )

    def _replica_step(self, features, step):
        """Forward, backward and update on one replica's part of the batch."""
        context = tf.distribute.get_replica_context()
        num_replicas = context.num_replicas_in_sync

        all_reduce_sum = _make_all_reduce_sum(context)
        seed = tf.random.experimental.stateless_fold_in(
            self._dropout_seed, tf.cast(step, tf.int32)
        )
        if num_replicas > 1:
            seed = tf.random.experimental.stateless_fold_in(
                seed, context.replica_id_in_sync_group
            )
        variables = self.model.trainable_variables
        with tf.GradientTape() as tape:
            loss, sums = self.loss_function(features, seed, all_reduce_sum)
        gradients = tape.gradient(loss, [v.value for v in variables])
        used = [
            v
            for v, g in zip(variables, gradients, strict=True)
            if g is not None
        ]
        summed = all_reduce_sum(
            [tf.convert_to_tensor(g) for g in gradients if g is not None]
        )
        learning_rate = self.optimizer.learning_rate
        norm = self.optimizer.apply_summed(summed, used)
        share = 1.0 / num_replicas
        return sums | {
            "total_loss": losses.Sums(loss, tf.constant(share)),
            "gradient_norm": losses.Sums(norm * share, tf.constant(share)),
            "learning_rate": losses.Sums(
                tf.cast(learning_rate, tf.float32) * share, tf.constant(share)
            ),
        }

    def evaluate(self, num_steps):
        """Not used: evaluations name their dataset, see `evaluate_on`."""
        raise NotImplementedError

    def evaluate_on(
        self, make_dataset: MakeDataset, batch_size: int, num_steps: int
    ) -> dict[str, float]:
        """Evaluates without dropout.

        Args:
          make_dataset: See `MakeDataset`.
          batch_size: Over all replicas.
          num_steps: Batches.

        Returns:
          Metrics, "total_loss" among them.
        """
        iterator = iter(self.distribute(make_dataset, batch_size, 0))
        total: typing.Any = None
        for _ in range(num_steps):
            with _data_errors():
                sums = self._eval_step(next(iterator))
            total = (
                sums
                if total is None
                else tf.nest.map_structure(tf.add, total, sums)
            )
        return losses.metrics_from_sums(total)

    @tf.function(reduce_retracing=True)
    def _eval_step(self, features):
        per_replica = self.strategy.run(self._replica_eval, args=(features,))
        return tf.nest.map_structure(self._sum_replicas, per_replica)

    def _replica_eval(self, features):
        context = tf.distribute.get_replica_context()
        num_replicas = context.num_replicas_in_sync

        all_reduce_sum = _make_all_reduce_sum(context)
        loss, sums = self.loss_function(features, None, all_reduce_sum)
        return sums | {
            "total_loss": losses.Sums(loss, tf.constant(1.0 / num_replicas))
        }


class MetricsLog:
    """metrics.jsonl: one line per look at the run.

    Args:
      model_dir: Where the file is.
      first_step: Lines of later steps are dropped: a run that was killed and
        resumed from an earlier checkpoint writes them again.
    """

    def __init__(self, model_dir: str, first_step: int):
        self.path = os.path.join(model_dir, "metrics.jsonl")
        kept = [r for r in read_metrics(self.path) if r["step"] <= first_step]
        with open(self.path, "w", encoding="utf-8") as f:
            f.writelines(json.dumps(record) + "\n" for record in kept)

    def write(self, step: int, split: str, metrics: dict[str, float]) -> None:
        record = {"step": step, "split": split} | metrics
        with open(self.path, "a", encoding="utf-8") as f:
            f.write(json.dumps(record) + "\n")


def read_metrics(path: str) -> list[dict]:
    """Lines of a metrics.jsonl; a last line that was cut short is left out."""
    records = []
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            for line in f:
                try:
                    records.append(json.loads(line))
                except json.JSONDecodeError:
                    break
    return records


class StopRequests:
    """Turns SIGTERM and SIGINT into a request that a loop can look at."""

    def __init__(self):
        self.signal_name = None

    def __enter__(self):
        self._previous = {}
        for number in (signal.SIGTERM, signal.SIGINT):
            try:
                self._previous[number] = signal.signal(number, self._note)
            except ValueError:  # Not in the main thread: nobody signals it.
                break
        return self

    def __exit__(self, *_):
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _note(self, number, frame):
        if self.signal_name is not None:
            raise KeyboardInterrupt  # Asked twice: at once.
        self.signal_name = signal.Signals(number).name
        print(
            f"\n{self.signal_name}: saving and leaving after this step "
            "(again to leave at once)",
            file=sys.stderr,
        )


def train(
    engine: Engine,
    num_train_steps: int,
    description: str,
    live_metrics: tuple[str, ...],
    evaluate: Callable[[], dict[str, float]] | None = None,
) -> None:
    """Trains to the last step, from the last checkpoint if there is one.

    Args:
      engine: Model, optimizer and data.
      num_train_steps: The last step.
      description: Opens the live line.
      live_metrics: Metrics on the live line.
      evaluate: Called every `run.eval_steps` steps.

    Raises:
      Stopped: After SIGTERM or SIGINT, once everything is saved.
      TrainingError: If the loss is not finite.
    """
    run = engine.run
    manager = tf.train.CheckpointManager(
        checkpointed_variables(
            engine.model, engine.optimizer, engine.global_step
        ),
        run.model_dir,
        max_to_keep=run.keep_checkpoint_max,
        checkpoint_name="model.ckpt",
        step_counter=engine.global_step,
        checkpoint_interval=run.save_checkpoints_steps,
    )
    loop = _Loop(engine, num_train_steps, description, live_metrics, evaluate)
    with StopRequests() as loop.stop_requests, _QuietOrbit():
        controller = orbit.Controller(
            global_step=engine.global_step,
            trainer=engine,
            strategy=engine.strategy,
            train_actions=[loop.look],
            steps_per_loop=loop.steps_to_next_look,
            checkpoint_manager=manager,
            summary_dir=os.path.join(run.model_dir, "train"),
        )
        loop.start()
        try:
            controller.train(num_train_steps)
        except Stopped:
            controller.save_checkpoint()
            raise
        finally:
            loop.progress.close()


class _QuietOrbit:
    """Keeps the lines that Orbit prints from the live line."""

    def __enter__(self):
        self._stdout = sys.stdout
        self._null = open(os.devnull, "w")  # noqa: SIM115
        sys.stdout = self._null

    def __exit__(self, *_):
        sys.stdout = self._stdout
        self._null.close()


class _Loop:
    """What happens between two inner loops of a run."""

    def __init__(
        self, engine, num_train_steps, description, live_metrics, evaluate
    ):
        self.engine = engine
        self.num_train_steps = num_train_steps
        self.live_metrics = live_metrics
        self.evaluate = evaluate
        self.stop_requests = StopRequests()
        self.progress = progress.Progress(description, num_train_steps, "step")

    def start(self):
        step = int(self.engine.global_step.numpy())
        self.log = MetricsLog(self.engine.run.model_dir, step)
        self.progress.start(step)
        self._last = (step, time.monotonic())

    def steps_to_next_look(self, step: int) -> int:
        """Steps until the next multiple of `steps_per_loop`.

        Also stops for evaluations, and early in a run, so that a mistake and
        the first figures show soon.
        """
        run = self.engine.run
        steps = run.steps_per_loop - step % run.steps_per_loop
        if run.eval_steps:
            steps = min(steps, run.eval_steps - step % run.eval_steps)
        if step == self._last[0] and step < run.steps_per_loop:
            steps = min(steps, 5)
        return steps

    def look(self, metrics: dict) -> None:
        """Logs, evaluates, and stops the run where it must."""
        engine, run = self.engine, self.engine.run
        step = int(engine.global_step.numpy())
        now = time.monotonic()
        steps, seconds = step - self._last[0], now - self._last[1]
        metrics["examples_per_second"] = engine.batch_size * steps / seconds
        if not math.isfinite(metrics["total_loss"]):
            raise TrainingError(
                f"The loss became {metrics['total_loss']} between steps "
                f"{self._last[0]} and {step}; nothing was saved after step "
                f"{self._last[0]}. Try a lower OptimizerConfig.learning_rate "
                "or a longer warm-up"
            )
        self.log.write(step, "train", metrics)
        shown = {name: metrics[name] for name in self.live_metrics}
        shown["examples/s"] = metrics["examples_per_second"]
        self.progress.update(step, shown)
        if run.eval_steps and self.evaluate and step % run.eval_steps == 0:
            evaluated = self.evaluate()
            self.log.write(step, "heldout", evaluated)
            write_summaries(run.model_dir, "eval", step, evaluated)
            self.progress.note(
                f"held-out at step {step}: "
                + progress.format_metrics(evaluated)
            )
        if self.stop_requests.signal_name and step < self.num_train_steps:
            raise Stopped(
                f"{self.stop_requests.signal_name} at step {step}: saved in "
                f"{run.model_dir}; run again to go on"
            )
        self._last = (step, time.monotonic())


def write_summaries(
    model_dir: str, name: str, step: int, metrics: dict[str, float]
) -> None:
    """Writes metrics for TensorBoard."""
    writer = tf.summary.create_file_writer(os.path.join(model_dir, name))
    with writer.as_default(step=step):
        for metric, value in metrics.items():
            tf.summary.scalar(metric, value)
    writer.close()
