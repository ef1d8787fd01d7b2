"""A Keras model whose `fit` makes the engine's updates.

The loss is the head's, summed over the batch; the paper's optimizer clips the
sum of all replicas' gradients. With an optimizer or a loss of Keras the mean is
taken, as Keras takes it.

Shapes: B batch.
"""

import dataclasses
import types
import typing

import keras
import tensorflow as tf

from electra_tf import configs
from electra_tf.finetuning import configs as finetuning_configs
from electra_tf.finetuning import recipe
from electra_tf.keras_models import (
    columns,
    directions,
    optimizers,
    resuming,
)
from electra_tf.keras_models.optimizers import FinetuningOptimizer
from electra_tf.model.finetuning_model import FinetuningModel
from electra_tf.training import optimization, replicas


class EngineModel(keras.Model):
    """What `compile` chooses, and the steps of training and evaluation.

    Who inherits from it sets `network`, `encoder_config` and `seed`.
    """

    network: FinetuningModel
    encoder_config: configs.EncoderConfig
    seed: int
    # Whether a loss without dropout needs the labels to predict, too.
    teaches_in_evaluation = False

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        # Not for Keras to track.
        self._trackers = types.SimpleNamespace(of_scores={})
        self._loss_scale = types.SimpleNamespace(of_float16=None)

    @property
    def task_name(self) -> str:
        """Scope of the head's variables in checkpoints."""
        raise NotImplementedError

    def features_of(self, x, y=None) -> dict[str, tf.Tensor]:
        """The network's names for inputs and labels."""
        raise NotImplementedError

    @property
    def score_names(self) -> tuple[str, ...]:
        """Of the head's `metric_sums`: what `evaluate` tells."""
        return ()

    def default_metrics(self) -> list[keras.metrics.Metric] | None:
        """Those of labels and predictions, beside `score_names`."""
        return None

    def answer(self, outputs: dict[str, tf.Tensor]):
        """From the head's outputs to predictions."""
        raise NotImplementedError

    def compile(
        self,
        optimizer: typing.Any = "auto",
        loss: typing.Any = "auto",
        *,
        metrics: typing.Any = "auto",
        learning_rate: float | None = None,
        num_train_steps: int | None = None,
        jit_compile: bool = False,
        auto_scale_loss: bool = True,
        **kwargs,
    ):
        """Chooses how to train; `fit` calls it where nobody did.

        Args:
          optimizer: "auto" for the paper's: Adam with decoupled weight decay,
            layer-wise rates, a warm-up over a tenth of the steps and linear
            decay, its rates by the size of the encoder (`finetuning.recipe`).
            A `configs.OptimizerConfig` stands for all of that, what it leaves
            out for its own defaults; any other is Keras's business.
          loss: "auto" for the head's own; any other compares labels and
            predictions.
          metrics: "auto" for those of the gin runs; or Keras's.
          learning_rate: The peak of the paper's optimizer.
          num_train_steps: Where its rate reaches 0; None for the end of each
            `fit`, which then begins anew.
          jit_compile: Whether XLA compiles the step.
          auto_scale_loss: See `keras.Model.compile`; of Keras's optimizers.
          **kwargs: Likewise.

        Raises:
          ValueError: If learning_rate or num_train_steps comes with an
            optimizer that has its own, or is no such number; if loss_weights
            come without a loss of Keras; or if the weights are not float32, for
            the paper's optimizer.
        """
        is_of_head = loss is None or isinstance(loss, str) and loss == "auto"
        if is_of_head and kwargs.get("loss_weights") is not None:
            raise ValueError(
                "Expected loss_weights beside a loss of Keras. Received: "
                f"loss_weights={kwargs['loss_weights']!r}, loss={loss!r}"
            )
        is_to_be_made = isinstance(optimizer, configs.OptimizerConfig) or (
            isinstance(optimizer, str) and optimizer == "auto"
        )
        if not is_to_be_made:
            optimizers.refuse_schedule(
                optimizer, learning_rate, num_train_steps
            )
        is_ours = is_to_be_made or isinstance(optimizer, FinetuningOptimizer)
        if num_train_steps is not None:
            columns.positive(num_train_steps, "num_train_steps")
        if is_ours and self.variable_dtype != "float32":
            raise ValueError(
                "Expected float32 weights, of the policies float32, "
                "mixed_bfloat16 or mixed_float16, for the paper's optimizer. "
                f"Received: dtype={self.dtype_policy.name!r}"
            )
        with self.distribute_strategy.scope():
            if is_to_be_made:
                optimizer = self._make_optimizer(
                    optimizer, learning_rate, num_train_steps
                )
            auto_metrics = isinstance(metrics, str) and metrics == "auto"
            self._trackers.of_scores = {
                name: directions.directed(keras.metrics.Mean(name=name))
                for name in (self.score_names if auto_metrics else ())
            }
            is_float16 = self.dtype_policy.name == "mixed_float16"
            self._loss_scale.of_float16 = None
            if is_ours and is_float16:
                self._loss_scale.of_float16 = optimization.LossScale()
                optimizer.skips_non_finite_updates = True
            # Others of an earlier call.
            self.loss = self._compile_loss = self._compile_metrics = None
            super().compile(
                optimizer=optimizer,
                loss=None if is_of_head else loss,
                metrics=self.default_metrics() if auto_metrics else metrics,
                jit_compile=jit_compile,
                auto_scale_loss=auto_scale_loss and not is_ours,
                **kwargs,
            )
        # Made anew by `compile_from_config`.
        self._compile_config.config["loss"] = loss
        self._compile_config.config["metrics"] = (
            "auto" if auto_metrics else metrics
        )

    def _make_optimizer(self, optimizer, learning_rate, num_train_steps):
        config = (
            configs.OptimizerConfig(**finetuning_configs.OPTIMIZER)
            if isinstance(optimizer, str)
            else optimizer
        )
        if learning_rate is not None:
            config = dataclasses.replace(
                config, learning_rate=optimizers.peak_rate(learning_rate)
            )
        config, _ = recipe.complete(
            config, "paper", self.encoder_config.hidden_size
        )
        return FinetuningOptimizer(
            config, self.encoder_config.num_hidden_layers, num_train_steps
        )

    def compile_from_config(self, config):
        """See `keras.Model`; called by `load_model`."""
        self.compile(**keras.saving.deserialize_keras_object(config))
        with self.distribute_strategy.scope():
            self.optimizer.build(self.trainable_variables)

    @property
    def metrics(self):
        return [*super().metrics, *self._trackers.of_scores.values()]

    def train_step(self, data):
        """One update, as the engine makes it."""
        # Where a dataset ends without having said so, the step is not counted.
        tensors = [x for x in tf.nest.flatten(data) if x is not None]
        with tf.control_dependencies(tensors):
            return self._train_step(data)

    def _train_step(self, data):
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        context = tf.distribute.get_replica_context()
        all_reduce_sum = replicas.make_all_reduce_sum(context)
        loss_scale = self._loss_scale.of_float16
        scale = loss_scale.scale.read_value() if loss_scale else 1.0
        is_ours = isinstance(self.optimizer, FinetuningOptimizer)
        variables = self.trainable_variables
        with tf.GradientTape() as tape:
            total, num_rows, answer = self._sums_of_losses(
                x, y, sample_weight, self._dropout_seed()
            )
            if is_ours:
                # The sum over the batch, as in the original: it is clipped.
                target = total * scale
            else:
                # The mean over each replica's rows, as Keras's `fit` has it.
                shares = num_rows * context.num_replicas_in_sync
                target = self.optimizer.scale_loss(
                    tf.math.divide_no_nan(total, shares)
                )
        gradients = tape.gradient(target, [v.value for v in variables])
        pairs = [
            (tf.cast(tf.convert_to_tensor(g), tf.float32), v)
            for g, v in zip(gradients, variables, strict=True)
            if g is not None
        ]
        if is_ours:
            summed = all_reduce_sum([g for g, _ in pairs])
            norm = self.optimizer.apply_summed(
                [g / scale for g in summed] if loss_scale else summed,
                [v for _, v in pairs],
            )
            if loss_scale:
                loss_scale.update(tf.math.is_finite(norm))
        else:
            self.optimizer.apply_gradients(pairs)
        return self._update_metrics(total, num_rows, answer)

    def test_step(self, data):
        """The loss and the scores of a batch, without dropout."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        return self._update_metrics(
            *self._sums_of_losses(x, y, sample_weight, None)
        )

    def for_keras(self, x, y, y_pred, sample_weight):
        """Labels, predictions and weights for Keras's losses and metrics."""
        del x
        return y, y_pred, sample_weight

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        """Keras's way to make its metrics; of a strategy's replicas it would
        take the mean, which makes fractions of ids, and fails where one has
        fewer rows."""
        if self._distribute_strategy is not None and iterator is not None:
            for _, _, of_epoch in iterator:
                data_batch = keras.tree.map_structure(
                    lambda x: (
                        self.distribute_strategy.experimental_local_results(x)[
                            0
                        ]
                    ),
                    next(of_epoch),
                )
                break
            iterator = None
        super()._maybe_symbolic_build(iterator, data_batch)

    def _sums_of_losses(self, x, y, sample_weight, dropout_seed):
        """The sum of the rows' losses, the rows, and what metrics need.

        Args:
          x: Inputs; `task_id` <int32>[B] is 1 in rows that are padding.
          y: Labels.
          sample_weight: <float>[B], or None.
          dropout_seed: <int32>[2], or None for no dropout.

        Returns:
          <float32>[] and <float32>[], of this replica, and the network's
          outputs with x, y, predictions and weights for Keras's own metrics.

        Raises:
          ValueError: If losses were added without one of Keras to add them to,
            or the weights are not one for each row.
        """
        is_training = dropout_seed is not None
        outputs = self.network(
            self.features_of(x, y),
            dropout_seed=dropout_seed,
            teacher_forcing=is_training or self.teaches_in_evaluation,
        )
        is_row = tf.reduce_sum(outputs["task_weights"], axis=-1)
        num_rows = tf.reduce_sum(is_row)
        of_keras = None
        if self.loss is not None or self._compile_metrics is not None:
            y_pred = self.answer(outputs["task_outputs"][self.task_name])
            of_keras = self.for_keras(x, y, y_pred, sample_weight)
            if "task_id" in x:
                of_keras = keras.tree.map_structure(
                    lambda v: (
                        v if v is None else tf.boolean_mask(v, is_row > 0.0)
                    ),
                    of_keras,
                )
        if self.loss is None:
            if self.losses:
                raise ValueError(
                    "Expected compile(loss=...) with a loss of Keras, which "
                    "those of add_loss and of regularizers are added to. "
                    f"Received: loss='auto' and {len(self.losses)} of them"
                )
            of_rows = outputs["per_example_loss"]
            if sample_weight is not None:
                # Any other would count every row with the weights of all.
                if sample_weight.shape.rank not in (None, 1):
                    raise ValueError(
                        "Expected sample_weight as a number for each row. "
                        "Received: weights of the shape "
                        f"{sample_weight.shape}"
                    )
                weights = tf.ensure_shape(sample_weight, [None])
                of_rows *= tf.cast(weights, tf.float32)
            total = tf.reduce_sum(of_rows)
        else:
            y, y_pred, weights = of_keras
            mean = self._compute_loss(x, y, y_pred, weights, is_training)
            # Keras's share of this replica -> the sum over its rows.
            num_replicas = self.distribute_strategy.num_replicas_in_sync
            total = tf.cast(mean, tf.float32) * num_rows * num_replicas
        return total, num_rows, (outputs, x, of_keras)

    def _update_metrics(self, total, num_rows, answer):
        outputs, x, of_keras = answer
        self._loss_tracker.update_state(
            tf.math.divide_no_nan(total, num_rows), sample_weight=num_rows
        )
        sums = self.network.metric_sums(outputs)
        for name, tracker in self._trackers.of_scores.items():
            value, weight = sums[f"{self.task_name}_{name}"]
            tracker.update_state(
                tf.math.divide_no_nan(value, weight), sample_weight=weight
            )
        if of_keras is not None:
            return self.compute_metrics(x, *of_keras)
        return self.get_metrics_result()

    def _dropout_seed(self) -> tf.Tensor:
        """The engine's, of the step that is about to be taken."""
        steps = resuming.steps_taken(self.optimizer)
        step = tf.cast(steps.value, tf.int32)
        return replicas.seed_of_replica(
            tf.random.experimental.stateless_fold_in(
                tf.constant([self.seed, 0], tf.int32), step
            )
        )
