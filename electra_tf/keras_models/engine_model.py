"""A Keras model whose `fit` makes the engine's updates.

The loss is the head's, summed over the batch; the paper's optimizer clips the
sum of all replicas' gradients. With an optimizer or a loss of Keras the mean is
taken, as Keras takes it.

Columns of texts are tokenized once, and their batches are those of
`finetuning.batches`: rows of similar length, as a function of the step. Token
ids are batched, and streamed, as Keras does it.

Shapes: N rows, B batch.
"""

import contextlib
import types
import typing
from collections.abc import Callable, Mapping

import keras
import numpy as np
import tensorflow as tf

from electra_tf import configs, errors
from electra_tf.finetuning import batches, recipe
from electra_tf.finetuning import configs as finetuning_configs
from electra_tf.keras_models import inputs, optimizers
from electra_tf.keras_models.optimizers import FinetuningOptimizer
from electra_tf.model.finetuning_model import FinetuningModel
from electra_tf.tasks.features import Features
from electra_tf.training import optimization, replicas

BATCH_SIZE = 32


def refuse_passed_over(model: keras.Model, base: type, step: str) -> None:
    """Refuses what a subclass says of its loss and its step would pass over.

    Args:
      model: Of the subclass.
      base: The class whose step takes the loss of the network.
      step: "train_step" or "test_step".

    Raises:
      ValueError: If it has another `call` or `compute_loss`.
    """
    for name in ("call", "compute_loss"):
        if getattr(type(model), name) is not getattr(base, name):
            raise ValueError(
                f"Expected {step} in {type(model).__name__} beside {name}: "
                f"that of {base.__name__} takes the loss of the network. "
                f"Received: {name} alone"
            )


def check_executions(model: keras.Model, num_steps: int) -> None:
    """Refuses to cut steps of an epoch that Keras takes several of at once.

    Of data without an end it would take more than it was told.
    """
    if num_steps % model.steps_per_execution:
        raise ValueError(
            "Expected steps_per_execution to divide the steps of an epoch. "
            f"Received: steps_per_execution={model.steps_per_execution}, "
            f"{num_steps} steps"
        )


class EngineModel(keras.Model):
    """What `compile` chooses, the steps of `fit`, and the rows that it reads.

    Who inherits from it sets these, and says how rows become features.

    Attributes:
      network: What computes.
      encoder_config: Its sizes.
      preprocessor: From texts to ids, or None for a model of ids.
      seed: Of dropout and of the order of the rows.
      target_names: The head's features that `fit` learns from.
      bookkeeping: And those that are of no use to a network.
      score_names: Of the head's `metric_sums`: what `evaluate` tells.
      target_rank: Axes of the labels; with several for a row they are two.
      num_label_values: Of labels that are ids or decisions; None for others.
    """

    network: FinetuningModel
    encoder_config: configs.EncoderConfig
    preprocessor: typing.Any
    seed: int
    target_names: tuple[str, ...]
    bookkeeping: tuple[str, ...] = ()
    score_names: typing.Any = ()
    target_rank: typing.Any = 1
    num_label_values: typing.Any = None
    # Whether a loss without dropout needs the labels to predict, too.
    teaches_in_evaluation = False
    # What a task says: see `TaskModel`.
    task_name: typing.Any
    windows: typing.Any
    features_of: Callable
    answer: Callable
    default_metrics: Callable
    read_inputs: Callable
    features: Callable
    rows_of_features: Callable
    class_weights: Callable
    note: Callable

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        # Not for Keras to track.
        self._hidden = types.SimpleNamespace(scores={}, loss_scale=None)

    # -- Compilation.

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
            optimizer that has its own, or is no such number; or if the weights
            are not float32, for the paper's optimizer.
        """
        is_of_head = loss is None or isinstance(loss, str) and loss == "auto"
        config = optimizers.asked_config(
            optimizer,
            learning_rate,
            num_train_steps,
            configs.OptimizerConfig(
                **typing.cast(dict, finetuning_configs.OPTIMIZER)
            ),
        )
        is_ours = config or isinstance(optimizer, FinetuningOptimizer)
        if is_ours and self.variable_dtype != "float32":
            raise ValueError(
                "Expected float32 weights, of the policies float32, "
                "mixed_bfloat16 or mixed_float16, for the paper's optimizer. "
                f"Received: dtype={self.dtype_policy.name!r}"
            )
        sizes = self.encoder_config
        auto_metrics = isinstance(metrics, str) and metrics == "auto"
        with self.distribute_strategy.scope():
            if config is not None:
                config = recipe.complete(config, "paper", sizes.hidden_size)
                optimizer = FinetuningOptimizer(
                    config, sizes.num_hidden_layers, num_train_steps
                )
            self._hidden.scores = {
                name: optimizers.directed(keras.metrics.Mean(name=name))
                for name in (self.score_names if auto_metrics else ())
            }
            self._hidden.loss_scale = None
            if is_ours and self.dtype_policy.name == "mixed_float16":
                self._hidden.loss_scale = optimization.LossScale()
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
        self._compile_config.config |= {
            "loss": loss,
            "metrics": "auto" if auto_metrics else metrics,
        }

    def compile_from_config(self, config):
        """See `keras.Model`; called by `load_model`."""
        self.compile(**keras.saving.deserialize_keras_object(config))
        with self.distribute_strategy.scope():
            self.optimizer.build(self.trainable_variables)

    @property
    def metrics(self):
        return [*super().metrics, *self._hidden.scores.values()]

    # -- Steps.

    def train_step(self, data):
        """One update, as the engine makes it."""
        refuse_passed_over(self, self._base(), "train_step")
        # Where a dataset ends without having said so, the step is not counted.
        tensors = [x for x in tf.nest.flatten(data) if x is not None]
        with tf.control_dependencies(tensors):
            return self._train_step(data)

    @classmethod
    def _base(cls) -> type:
        """The class of this package that a user's class inherits from."""
        package = __name__.split(".")[0]
        return next(
            c for c in cls.__mro__ if c.__module__.split(".")[0] == package
        )

    def _train_step(self, data):
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        context = tf.distribute.get_replica_context()
        all_reduce_sum = replicas.make_all_reduce_sum(context)
        loss_scale = self._hidden.loss_scale
        scale = loss_scale.scale.read_value() if loss_scale else 1.0
        is_ours = isinstance(self.optimizer, FinetuningOptimizer)
        variables = self.trainable_variables
        step = tf.cast(optimizers.steps_taken(self.optimizer).value, tf.int32)
        # The engine's, of the step that is about to be taken.
        dropout_seed = replicas.seed_of_replica(
            tf.random.experimental.stateless_fold_in(
                tf.constant([self.seed, 0], tf.int32), step
            )
        )
        with tf.GradientTape() as tape:
            total, num_rows, answer = self._sums_of_losses(
                x, y, sample_weight, dropout_seed
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
        if not is_ours:
            self.optimizer.apply_gradients(pairs)
            return self._update_metrics(total, num_rows, answer)
        summed = all_reduce_sum([g for g, _ in pairs])
        norm = self.optimizer.apply_summed(
            [g / scale for g in summed] if loss_scale else summed,
            [v for _, v in pairs],
        )
        if loss_scale:
            loss_scale.update(tf.math.is_finite(norm))
        return self._update_metrics(total, num_rows, answer)

    def test_step(self, data):
        """The loss and the scores of a batch, without dropout."""
        refuse_passed_over(self, self._base(), "test_step")
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
            local = self.distribute_strategy.experimental_local_results
            for _, _, of_epoch in iterator:
                data_batch = keras.tree.map_structure(
                    lambda x: local(x)[0], next(of_epoch)
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
          Both <float32>[], of this replica, and the network's outputs with x,
          y, predictions and weights for Keras's own metrics.

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
        if self.loss is not None:
            y, y_pred, weights = of_keras
            mean = self._compute_loss(x, y, y_pred, weights, is_training)
            # Keras's share of this replica -> the sum over its rows.
            num_replicas = self.distribute_strategy.num_replicas_in_sync
            total = tf.cast(mean, tf.float32) * num_rows * num_replicas
            return total, num_rows, (outputs, x, of_keras)
        if self.losses:
            raise ValueError(
                "Expected compile(loss=...) with a loss of Keras, which those "
                "of add_loss and of regularizers are added to. Received: "
                f"loss='auto' and {len(self.losses)} of them"
            )
        of_rows = outputs["per_example_loss"]
        if sample_weight is not None:
            # Any other would count every row with the weights of all.
            if sample_weight.shape.rank not in (None, 1):
                raise ValueError(
                    "Expected sample_weight as a number for each row. "
                    f"Received: weights of the shape {sample_weight.shape}"
                )
            weights = tf.ensure_shape(sample_weight, [None])
            of_rows *= tf.cast(weights, tf.float32)
        return tf.reduce_sum(of_rows), num_rows, (outputs, x, of_keras)

    def _update_metrics(self, total, num_rows, answer):
        outputs, x, of_keras = answer
        self._loss_tracker.update_state(
            tf.math.divide_no_nan(total, num_rows), sample_weight=num_rows
        )
        sums = self.network.metric_sums(outputs)
        for name, tracker in self._hidden.scores.items():
            value, weight = sums[f"{self.task_name}_{name}"]
            tracker.update_state(
                tf.math.divide_no_nan(value, weight), sample_weight=weight
            )
        if of_keras is not None:
            return self.compute_metrics(x, *of_keras)
        return self.get_metrics_result()

    # -- Rows.

    def _takes_ids(self, x, name: str = "x") -> bool:
        """Whether x is token ids, which Keras makes batches of.

        Raises:
          ValueError: If it is not, and nothing makes ids of it.
        """
        is_columns = (
            isinstance(
                x, str | list | tuple | Mapping | np.ndarray | tf.data.Dataset
            )
            or tf.is_tensor(x)
            or hasattr(x, "to_numpy")
        )
        if inputs.are_ids(x) or self.preprocessor is None and not is_columns:
            return True
        if self.preprocessor is None:
            raise ValueError(
                f"Expected {name} as a dictionary of token ids, without a "
                f"preprocessor. Received: {inputs.short(x)}"
            )
        return False

    def _checked(self, x, y=None, sample_weight=None, prefix: str = ""):
        """Token ids, labels and weights as given, or an error."""
        check = inputs.Checked(
            self.encoder_config, self.num_label_values, self.target_rank
        )
        return check(x, y, sample_weight, prefix)

    def _columns(self, x, y, sample_weight, batch_size, prefix=""):
        """Features of labelled rows, weights included; and the rows of a step.

        Raises:
          ValueError: If texts, labels or weights are none.
        """
        size = None
        if isinstance(x, tf.data.Dataset):
            if y is not None or sample_weight is not None:
                raise ValueError(
                    "Expected labels and weights in the dataset. Received: "
                    "them beside it"
                )
            (x, y, sample_weight), size = inputs.of_dataset(x, f"{prefix}x")
        elif y is None and (columns := inputs.of_examples(x)):
            x, y = columns
        rows = self.read_inputs(x, f"{prefix}x")
        if y is None:
            raise ValueError(
                f"Expected {prefix}y, a label for each row of {prefix}x. "
                f"Received: {prefix}y=None"
            )
        features = self.features(rows, y, f"{prefix}y")
        if sample_weight is not None:
            num_rows = len(rows[0] if isinstance(rows, tuple) else rows)
            name = f"{prefix}sample_weight"
            weights = inputs.numbers(sample_weight, name, num_rows, least=0.0)
            weights = weights.astype(np.float32)
            of_features = weights[self.rows_of_features(features)]
            features[self._sample_weight] = of_features
        inputs.positive(batch_size=batch_size)
        return x, features, batch_size or size or BATCH_SIZE

    def _targets(self, features: Features) -> np.ndarray:
        return features[self._targets_name]

    @property
    def _targets_name(self) -> str:
        return f"{self.task_name}_{self.target_names[0]}"

    @property
    def _ids(self) -> np.ndarray:
        return np.arange(self.num_label_values or 0)

    @property
    def _sample_weight(self) -> str:
        # By its end no feature of tokens, whatever its shape: see `batches`.
        return f"{self.task_name}_loss_weights"

    def _of_keras(self, batch):
        """Features of a batch -> (x, y, sample_weight)."""
        x, y, weights = {}, {}, None
        for name, values in batch.items():
            own = name.removeprefix(f"{self.task_name}_")
            if name == self._sample_weight:
                weights = values
            elif own in self.target_names:
                y[own] = values
            elif own not in self.bookkeeping:
                x[own] = values
        if not y:
            return (x,)
        targets = y if len(self.target_names) > 1 else y[self.target_names[0]]
        return (x, targets) if weights is None else (x, targets, weights)

    def _train_dataset(
        self, features: Features, batch_size: int, shuffle: bool, start
    ) -> tf.data.Dataset:
        """Endless batches of the gin runs; in order where not shuffled."""
        if not shuffle:
            dataset = batches.eval_dataset(
                features, batch_size, keeps_order=True
            )
            return self._prepared(dataset.map(lambda _, batch: batch)).repeat()
        is_bucketed = not self.preprocessor.pad_to_max

        def batches_from(first_step):
            return batches.train_dataset(
                features,
                self.seed,
                batch_size,
                first_step,
                bucketed=is_bucketed,
            )

        return self._prepared(start.dataset(batches_from))

    def _eval_dataset(
        self, features: Features, batch_size: int, steps: int | None = None
    ) -> tf.data.Dataset:
        """All rows once, by length; with `steps` the first rows alone."""
        if steps is not None:
            inputs.positive(steps=steps)
            most = steps * batch_size
            features = {name: of[:most] for name, of in features.items()}
        costs = np.ones_like if self.windows is None else self.windows.counts
        dataset = batches.eval_dataset(features, batch_size, costs)
        return self._prepared(dataset.map(lambda _, batch: batch))

    def _prepared(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        return dataset.map(self._of_keras).with_options(replicas.UNTUNED)

    # -- Keras's methods.

    def fit(
        self,
        x=None,
        y=None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: typing.Any = "auto",
        callbacks=None,
        validation_split: float = 0.0,
        validation_data=None,
        shuffle: bool = True,
        class_weight=None,
        sample_weight=None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_batch_size: int | None = None,
        **kwargs,
    ):
        """Fine-tunes, see `keras.Model.fit`.

        Args:
          x: Texts: a list, an array or a pandas column of strings; for pairs a
            tuple of two of them; a `tf.data.Dataset` of batches of (texts,
            labels) or (texts, labels, weights), which is read first; or a
            task's examples. Or token ids, which Keras makes batches of: a
            dictionary of arrays, or a dataset of what a preprocessor made.
          y: A label for each.
          batch_size: Rows of a step; 32, or those of a dataset's batches, by
            default. They are of similar length, and padded to the longest.
          epochs: Passes over the rows.
          verbose: See `keras.Model.fit`.
          callbacks: Keras's.
          validation_split: Share of the rows, the last ones, to validate on.
          validation_data: Instead (x, y), (x, y, sample_weight), a dataset or
            examples.
          shuffle: Whether the rows come in a new order in every epoch.
          class_weight: Label -> what its rows count in the loss; 'balanced'
            gives all labels the same sum.
          sample_weight: What each row counts.
          initial_epoch: See `keras.Model.fit`, as are the others.
          steps_per_epoch: Needed where a dataset of ids does not tell its
            length.
          validation_steps: Batches of the first rows; None for all.
          validation_batch_size: Rows of a step of validation.
          **kwargs: See `keras.Model.fit`.

        Returns:
          Keras's history.

        Raises:
          ValueError: If texts or labels are none.
        """
        if not self.compiled:
            self.compile()
        inputs.positive(
            steps_per_epoch=steps_per_epoch, validation_steps=validation_steps
        )
        if validation_data is not None:
            # As in Keras, which then keeps all rows.
            validation_split = 0.0
        features, size = None, batch_size or BATCH_SIZE
        arguments: dict[str, typing.Any] = {"shuffle": False}
        if self._takes_ids(x):
            x, num_steps, arguments = self._of_ids(
                x, y, sample_weight, class_weight, size, validation_split
            )
            num_steps = steps_per_epoch or num_steps
            arguments["shuffle"] = shuffle and isinstance(x, Mapping)
            if steps_per_epoch and isinstance(x, tf.data.Dataset):
                # In every epoch, as without `steps_per_epoch` in Keras.
                x = x.repeat() if x.cardinality() < 0 else x
        else:
            columns, features, size = self._columns(
                x, y, sample_weight, batch_size
            )
            if validation_split:
                features, validation_data = self._split(
                    features, validation_split
                )
            if class_weight is not None:
                name, targets = self._sample_weight, self._targets(features)
                weights = self.class_weights(class_weight, targets)
                features[name] = weights * features.get(name, np.float32(1.0))
            self.note(columns, self._targets(features))
            steps = -(-len(features["input_ids"]) // size)
            num_steps = steps_per_epoch = steps_per_epoch or steps
            check_executions(self, num_steps)
        if validation_data is not None:
            # Now: the rows to learn from say whether the texts are pairs.
            validation_data, validation_steps = self._validation_data(
                validation_data, validation_batch_size or size, validation_steps
            )
        num_epochs = epochs - initial_epoch
        self._begin(num_steps, num_epochs)
        optimizers.warn_of_the_end(
            self.optimizer, num_steps and num_steps * num_epochs, callbacks
        )
        if features is not None:
            # With the first epoch that no `fit` before has begun.
            taken = int(optimizers.steps_taken(self.optimizer).numpy())
            begun = -(-taken // num_steps) * num_steps
            start = optimizers.Start(taken - begun)
            x = self._train_dataset(features, size, shuffle, start)
            # Behind the user's: `BackupAndRestore` may go on from a later step.
            callbacks = [*keras.tree.flatten(callbacks or []), start]
        with self._told_of_skipped_steps():
            return super().fit(
                x,
                epochs=epochs,
                verbose=verbose,
                validation_data=validation_data,
                initial_epoch=initial_epoch,
                steps_per_epoch=steps_per_epoch,
                validation_steps=validation_steps,
                callbacks=callbacks,
                **arguments,
                **kwargs,
            )

    def _of_ids(self, x, y, sample_weight, class_weight, size, share):
        """x, the steps of an epoch if known, and what Keras's `fit` takes."""
        self._checked(x, y, sample_weight)
        arguments = {"y": y, "sample_weight": sample_weight}
        if class_weight is not None:
            # By ids, and Keras would pass over what is no label.
            ids = None if isinstance(class_weight, str) else self._ids
            weights = self.class_weights(class_weight, ids)
            arguments["class_weight"] = dict(enumerate(weights.tolist()))
        if not isinstance(x, Mapping):
            self.note(None, None)
            cardinality = getattr(x, "cardinality", lambda: -2)()
            num_steps = int(cardinality) if cardinality >= 0 else None
            num_steps = getattr(x, "num_batches", num_steps)
            return self._checked(x), num_steps, arguments
        num_rows = int(len(next(iter(x.values()))) * (1.0 - share))
        is_column = y is not None and not isinstance(y, Mapping)
        self.note(None, np.asarray(y)[:num_rows] if is_column else None)
        arguments |= {"batch_size": size, "validation_split": share}
        return x, -(-num_rows // size), arguments

    def _split(self, features: Features, share: float):
        """Features of the first rows, and of the last share of them."""
        rows = self.rows_of_features(features)
        num_rows = rows[-1] + 1
        kept = num_rows * (1.0 - share)
        if not 0 < int(kept) < num_rows:
            raise ValueError(
                "Expected validation_split between 0 and 1, which leaves rows "
                f"on both sides. Received: validation_split={share} of "
                f"{num_rows} rows"
            )
        return [
            {name: values[chosen] for name, values in features.items()}
            for chosen in (rows < int(kept), rows >= int(kept))
        ]

    @contextlib.contextmanager
    def _told_of_skipped_steps(self):
        """Warns where many float16 gradients were not finite."""
        scale = self._hidden.loss_scale
        if scale is None:
            yield
            return

        def counts():
            taken = int(optimizers.steps_taken(self.optimizer).numpy())
            return taken, int(scale.skipped.numpy())

        before = counts()
        yield
        taken, skipped = np.subtract(counts(), before)
        if line := optimization.skipped_remark(skipped, taken + skipped):
            errors.warn(
                f"{line}: train for longer, or with dtype='mixed_bfloat16'"
            )

    @property
    def _schedule_ends_with_fit(self) -> bool:
        """Whether the optimizer must be told how many steps there will be."""
        return (
            isinstance(self.optimizer, FinetuningOptimizer)
            and self.optimizer.num_train_steps is None
        )

    def _begin(self, steps_per_epoch: int | None, epochs: int) -> None:
        """Sets the schedule of an optimizer that follows `fit`."""
        optimizer = self.optimizer
        with self.distribute_strategy.scope():
            # Now: XLA makes no variables in a step.
            optimizer.build(self.trainable_variables)
            if not self._schedule_ends_with_fit:
                return
            if steps_per_epoch is None:
                raise ValueError(
                    "Expected steps_per_epoch, as the learning rate decays "
                    "over the steps that fit is about to take and the dataset "
                    "does not tell how many batches it has. Received: "
                    "steps_per_epoch=None"
                )
            num_steps = steps_per_epoch * epochs
            if num_steps < 1:
                return
            if num_steps != optimizer.schedule.num_train_steps:
                # The schedule is in its graph.
                self.train_function = None
            optimizer.begin(num_steps)

    def _validation_data(self, data, batch_size: int, steps: int | None):
        """What Keras validates on, and how many batches; None for all."""
        is_tuple = isinstance(data, tuple) and len(data) in (2, 3)
        x, y, weights = (*(data if is_tuple else (data,)), None, None)[:3]
        if isinstance(x, dict) and self._targets_name in x:  # Of `_split`.
            return self._eval_dataset(x, batch_size, steps), None
        if self._takes_ids(x, "validation_data"):
            x = self._checked(x, y, weights, prefix="validation_")
            return (x, *data[1:]) if is_tuple else x, steps
        _, features, batch_size = self._columns(
            x, y, weights, batch_size, "validation_"
        )
        return self._eval_dataset(features, batch_size, steps), None

    def evaluate(
        self,
        x=None,
        y=None,
        batch_size=None,
        verbose: typing.Any = "auto",
        sample_weight=None,
        steps: int | None = None,
        **kwargs,
    ):
        """Loss and scores of labelled rows, see `keras.Model.evaluate`.

        Args:
          x: See `fit`, as are the others.
          y: Labels.
          batch_size: Rows of a step.
          verbose: See `keras.Model.evaluate`.
          sample_weight: What each row counts in the loss.
          steps: Batches of the first rows; None for all.
          **kwargs: See `keras.Model.evaluate`.

        Raises:
          ValueError: If texts or labels are none, or come beside a dataset.
        """
        if not self.compiled:
            self.compile()
        if kwargs.get("_use_cached_eval_dataset", False) or self._takes_ids(x):
            x = self._checked(x, y, sample_weight)
        else:
            _, features, size = self._columns(x, y, sample_weight, batch_size)
            x = self._eval_dataset(features, size, steps)
            y = batch_size = sample_weight = steps = None
        return super().evaluate(
            x, y, batch_size, verbose, sample_weight, steps, **kwargs
        )

    def predict(self, x, batch_size=None, verbose="auto", **kwargs):
        """Predictions for texts, see `keras.Model.predict`.

        Args:
          x: Texts as `fit` takes them, or a dataset of batches of texts.
          batch_size: Rows of a step; 32 by default.
          verbose: See `keras.Model.predict`.
          **kwargs: Likewise.

        Returns:
          As the model's `call`, a row for each text.

        Raises:
          ValueError: If `x` is not what the model reads, or `steps` is given
            with columns.
        """
        if self._takes_ids(x):
            x = self._checked(x)
            return super().predict(x, batch_size, verbose, **kwargs)
        if kwargs.pop("steps", None) is not None:
            raise ValueError(
                "Expected steps beside a dataset of token ids; all rows of "
                "texts are predicted. Received: steps"
            )
        x, size = self._texts(x, batch_size)
        features = self.features(self.read_inputs(x), None)
        # Rows of similar length together.
        order = np.argsort(features["input_mask"].sum(axis=-1), kind="stable")
        dataset = self._eval_dataset(
            {name: values[order] for name, values in features.items()}, size
        )
        outputs = super().predict(dataset, verbose=verbose, **kwargs)
        back = np.argsort(order)
        return keras.tree.map_structure(lambda rows: rows[back], outputs)

    def _texts(self, x, batch_size: int | None):
        """The columns to predict, and the rows of a step."""
        inputs.positive(batch_size=batch_size)
        size = BATCH_SIZE
        if isinstance(x, tf.data.Dataset):
            (x, *_), size = inputs.of_dataset(x)
        elif columns := inputs.of_examples(x):
            x, _ = columns
        return x, batch_size or size

    def predict_on_batch(self, x):
        """Predictions for a batch of texts, without a dataset."""
        if self._takes_ids(x):
            return super().predict_on_batch(self._checked(x))
        return self.predict(x, verbose=0)

    def train_on_batch(
        self, x, y=None, sample_weight=None, class_weight=None, **kwargs
    ):
        """One update, see `keras.Model.train_on_batch`; takes what `fit` takes.

        Raises:
          ValueError: If the optimizer does not know how many there will be.
        """
        if not self.compiled:
            self.compile()
        if self._schedule_ends_with_fit:
            raise ValueError(
                "Expected compile(num_train_steps=...) before train_on_batch, "
                "as the learning rate decays over all steps. Received: "
                "num_train_steps=None"
            )
        optimizers.warn_of_the_end(self.optimizer, 1)
        x, y, sample_weight = self._batch(x, y, sample_weight, class_weight)
        return super().train_on_batch(x, y, sample_weight, **kwargs)

    def test_on_batch(self, x, y=None, sample_weight=None, **kwargs):
        """Loss and scores of a batch, see `keras.Model.test_on_batch`."""
        if not self.compiled:
            self.compile()
        batch = self._batch(x, y, sample_weight)
        return super().test_on_batch(*batch, **kwargs)

    def _batch(self, x, y, sample_weight, class_weight=None):
        """One batch of ids, labels and weights."""
        if not self._takes_ids(x):
            _, features, _ = self._columns(x, y, sample_weight, None)
            x, y, sample_weight = (*self._of_keras(features), None)[:3]
        else:
            x = self._checked(x, y, sample_weight)
        if class_weight is not None:
            weights = self.class_weights(class_weight, np.asarray(y))
            given = 1.0 if sample_weight is None else np.asarray(sample_weight)
            sample_weight = weights * given
        return x, y, sample_weight
