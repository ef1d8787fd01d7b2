"""A task model whose `fit` makes the engine's updates.

The loss is the head's, summed over the batch; the paper's optimizer clips the
sum of all replicas' gradients. With an optimizer or a loss of Keras the mean is
taken, as Keras takes it.

Columns of texts are tokenized once, and their batches are those of
`finetuning.batches`: rows of similar length, as a function of the step. Token
ids are batched, and streamed, as Keras does it.

Shapes: N rows, B batch.
"""

import functools
import types
import typing
from collections.abc import Mapping

import keras
import numpy as np
import tensorflow as tf

from electra_tf import configs
from electra_tf.finetuning import batches, recipe
from electra_tf.finetuning import configs as finetuning_configs
from electra_tf.keras_models import inputs, optimizers
from electra_tf.keras_models.optimizers import FinetuningOptimizer
from electra_tf.keras_models.task_model import TaskModel
from electra_tf.tasks.features import Features
from electra_tf.training import optimization, replicas


class EngineModel(TaskModel):
    """What `compile` chooses, the steps of `fit`, and the rows that it reads.

    Who inherits from it says what a `TaskModel` leaves open.
    """

    # Not for Keras to track.
    _hidden = types.SimpleNamespace(scores={}, loss_scale=None)

    # -- Compilation.

    def compile(
        self,
        optimizer: typing.Any = "auto",
        loss: typing.Any = "auto",
        *,
        metrics: typing.Any = "auto",
        learning_rate: float | None = None,
        num_train_steps: int | None = None,
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
          **kwargs: See `keras.Model.compile`.

        Raises:
          ValueError: If learning_rate or num_train_steps comes with an
            optimizer that has its own, or is no such number; or if the weights
            are not float32, for the paper's optimizer.
        """
        config = optimizers.asked_config(
            optimizer,
            learning_rate,
            num_train_steps,
            configs.OptimizerConfig(
                **typing.cast(dict, finetuning_configs.OPTIMIZER)
            ),
        )
        is_ours = config or isinstance(optimizer, FinetuningOptimizer)
        sizes = self.encoder_config
        with self.distribute_strategy.scope():
            if config is not None:
                config = recipe.complete(config, "paper", sizes.hidden_size)
                optimizer = FinetuningOptimizer(
                    config, sizes.num_hidden_layers, num_train_steps
                )
            scores = {
                name: optimizers.directed(keras.metrics.Mean(name=name))
                for name in (self.score_names if metrics == "auto" else ())
            }
            if is_ours:  # The sum of the rows' losses is scaled.
                kwargs["auto_scale_loss"] = False
            loss_scale = None
            if is_ours and self.dtype_policy.name == "mixed_float16":
                loss_scale = optimization.LossScale()
                optimizer.skips_non_finite_updates = True
            self._hidden = types.SimpleNamespace(
                scores=scores, loss_scale=loss_scale
            )
            # Others of an earlier call.
            self.loss = self._compile_loss = self._compile_metrics = None
            super().compile(
                optimizer=optimizer,
                loss=None if loss == "auto" else loss,
                metrics=self.default_metrics()
                if metrics == "auto"
                else metrics,
                **({"jit_compile": False} | kwargs),
            )
        # Made anew by `compile_from_config`.
        self._compile_config.config |= {"loss": loss, "metrics": metrics}

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
        optimizers.refuse_passed_over(self, EngineModel, "train_step")
        # Where a dataset ends without having said so, the step is not counted.
        tensors = [x for x in tf.nest.flatten(data) if x is not None]
        with tf.control_dependencies(tensors):
            return self._train_step(data)

    def _train_step(self, data):
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        context = tf.distribute.get_replica_context()
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
        all_reduce_sum = replicas.make_all_reduce_sum(context)
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
        optimizers.refuse_passed_over(self, EngineModel, "test_step")
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
            _, _, batches_of_epoch = next(iter(iterator))
            data_batch = keras.tree.map_structure(
                lambda x: local(x)[0], next(batches_of_epoch)
            )
            iterator = None
        super()._maybe_symbolic_build(iterator, data_batch)

    def _sums_of_losses(self, x, y, sample_weight, dropout_seed):
        """The sum of the rows' losses, the rows, and what metrics need.

        In x `task_id` <int32>[B] is 1 in rows that are padding. Without
        `dropout_seed` nothing drops out. Both sums <float32>[] are of this
        replica.
        """
        is_training = dropout_seed is not None
        outputs = self.network(
            self.features_of(x, y),
            dropout_seed=dropout_seed,
            teacher_forcing=is_training or self.teaches_in_evaluation,
        )
        is_row = tf.reduce_sum(outputs["task_weights"], axis=-1)
        num_rows = tf.reduce_sum(is_row)
        labelled = None
        if self.loss is not None or self._compile_metrics is not None:
            y_pred = self.answer(outputs["task_outputs"][self.task_name])
            labelled = self.for_keras(x, y, y_pred, sample_weight)
            if "task_id" in x:
                labelled = keras.tree.map_structure(
                    lambda v: (
                        v if v is None else tf.boolean_mask(v, is_row > 0.0)
                    ),
                    labelled,
                )
        if self.loss is not None:
            mean = self._compute_loss(x, *labelled, is_training)
            # Keras's share of this replica -> the sum over its rows.
            num_replicas = self.distribute_strategy.num_replicas_in_sync
            total = tf.cast(mean, tf.float32) * num_rows * num_replicas
            return total, num_rows, (outputs, x, labelled)
        row_losses = outputs["per_example_loss"]
        if sample_weight is not None:
            # Any other would count every row with the weights of all.
            weights = tf.ensure_shape(sample_weight, [None])
            row_losses *= tf.cast(weights, tf.float32)
        total = tf.reduce_sum(row_losses)
        if self.losses:  # Of add_loss and of regularizers, once for each row.
            total += num_rows * tf.cast(tf.add_n(self.losses), tf.float32)
        return total, num_rows, (outputs, x, labelled)

    def _update_metrics(self, total, num_rows, answer):
        outputs, x, labelled = answer
        self._loss_tracker.update_state(
            tf.math.divide_no_nan(total, num_rows), sample_weight=num_rows
        )
        sums = self.network.metric_sums(outputs)
        for name, tracker in self._hidden.scores.items():
            value, weight = sums[f"{self.task_name}_{name}"]
            tracker.update_state(
                tf.math.divide_no_nan(value, weight), sample_weight=weight
            )
        if labelled is not None:
            return self.compute_metrics(x, *labelled)
        return self.get_metrics_result()

    # -- Rows.

    def _takes_ids(self, x) -> bool:
        """Whether x is token ids, which Keras makes batches of."""
        is_of_keras = isinstance(x, keras.utils.PyDataset)
        if inputs.are_ids(x) or self.preprocessor is None and is_of_keras:
            return True
        if self.preprocessor is None:
            raise ValueError(
                "Expected x as a dictionary of token ids, without a "
                f"preprocessor. Received: {inputs.short(x)}"
            )
        return False

    def _checked(self, x, y=None):
        return inputs.checked(x, y, self.encoder_config, self.num_label_values)

    def _columns(self, x, y, sample_weight, batch_size, prefix=""):
        """x, features of labelled rows, weights too, and the rows of a step."""
        (x, y, sample_weight), size = inputs.columns(
            x, y, sample_weight, f"{prefix}x"
        )
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
            weights = inputs.numbers(sample_weight, name, num_rows)
            values = weights[self.rows_of_features(features)]
            features[self._sample_weight] = values.astype(np.float32)
        return x, features, batch_size or size

    @property
    def _targets_name(self) -> str:
        return f"{self.task_name}_{self.target_names[0]}"

    @property
    def _sample_weight(self) -> str:
        # By its end no feature of tokens, whatever its shape: see `batches`.
        return f"{self.task_name}_loss_weights"

    @tf.autograph.experimental.do_not_convert
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
        batches_from = functools.partial(
            batches.train_dataset,
            *(features, self.seed, batch_size),
            bucketed=not self.preprocessor.pad_to_max,
        )
        return self._prepared(start.dataset(batches_from))

    def _eval_dataset(
        self, features: Features, batch_size: int, steps: int | None = None
    ) -> tf.data.Dataset:
        """All rows once, by length; with `steps` the first rows alone."""
        if steps is not None:
            most = steps * batch_size
            features = {name: x[:most] for name, x in features.items()}
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
            labels) or (texts, labels, weights), which is read first; rows such
            as {"text": ..., "label": ...}; or a task's examples. Or token ids,
            which Keras makes batches of: a dictionary of arrays, or a dataset
            of what a preprocessor made.
          y: A label for each; None for those in the rows.
          batch_size: Rows of a step; 32, or those of a dataset's batches, by
            default. They are of similar length, and padded to the longest.
          epochs: Passes over the rows.
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

        Returns:
          Keras's history.

        Raises:
          ValueError: If texts or labels are none.
        """
        if not self.compiled:
            self.compile()
        if validation_data is not None:
            # As in Keras, which then keeps all rows.
            validation_split = 0.0
        features, size = None, batch_size or inputs.BATCH_SIZE
        num_steps: typing.Any
        arguments: dict[str, typing.Any] = {"shuffle": False}
        if self._takes_ids(x):
            x = self._checked(x, y)
            has_labels = y is not None and not isinstance(y, Mapping)
            self.note(None, np.asarray(y) if has_labels else None)
            arguments |= {"y": y, "sample_weight": sample_weight}
            if class_weight is not None:
                # By ids, and Keras would pass over what is no label.
                weights = self.class_weights(class_weight, None)
                arguments["class_weight"] = dict(enumerate(weights.tolist()))
            if isinstance(x, Mapping):
                arguments |= {
                    "batch_size": size,
                    "validation_split": validation_split,
                    "shuffle": shuffle,
                }
            elif steps_per_epoch and getattr(x, "cardinality", int)() < 0:
                # In every epoch, as without `steps_per_epoch` in Keras.
                x = x.repeat()
            num_steps = steps_per_epoch or inputs.num_batches(
                x, size, validation_split
            )
        else:
            columns, features, size = self._columns(
                x, y, sample_weight, batch_size
            )
            if validation_split:
                features, validation_data = self._split(
                    features, validation_split
                )
            targets = features[self._targets_name]
            if class_weight is not None:
                name = self._sample_weight
                weights = self.class_weights(class_weight, targets)
                features[name] = weights * features.get(name, np.float32(1.0))
            self.note(columns, targets)
            steps = -(-len(features["input_ids"]) // size)
            num_steps = steps_per_epoch = steps_per_epoch or steps
        if validation_data is not None:
            # Now: the rows to learn from say whether the texts are pairs.
            validation_data, validation_steps = self._validation_data(
                validation_data, validation_batch_size or size, validation_steps
            )
        self._begin(num_steps, epochs - initial_epoch, callbacks)
        if features is not None:
            # With the first epoch that no `fit` before has begun.
            taken = int(optimizers.steps_taken(self.optimizer).numpy())
            begun = -(-taken // num_steps) * num_steps
            start = optimizers.Start(taken - begun)
            x = self._train_dataset(features, size, shuffle, start)
            # Behind the user's: `BackupAndRestore` may go on from a later step.
            callbacks = [*keras.tree.flatten(callbacks or []), start]
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

    def _split(self, features: Features, share: float):
        """Features of the first rows, and of the last share of them."""
        rows = self.rows_of_features(features)
        num_kept = int((rows[-1] + 1) * (1.0 - share))
        if not 0 < num_kept <= rows[-1]:
            raise ValueError(
                "Expected validation_split between 0 and 1, which leaves rows "
                f"on both sides. Received: validation_split={share} of "
                f"{rows[-1] + 1} rows"
            )
        return [
            {name: values[chosen] for name, values in features.items()}
            for chosen in (rows < num_kept, rows >= num_kept)
        ]

    @property
    def _schedule_ends_with_fit(self) -> bool:
        """Whether the optimizer must be told how many steps there will be."""
        return (
            isinstance(self.optimizer, FinetuningOptimizer)
            and self.optimizer.num_train_steps is None
        )

    def _begin(self, steps_per_epoch: int | None, epochs: int, callbacks=None):
        """Sets the schedule of an optimizer that follows `fit`."""
        optimizer = self.optimizer
        num_steps: typing.Any = steps_per_epoch and steps_per_epoch * epochs
        with self.distribute_strategy.scope():
            # Now: XLA makes no variables in a step.
            optimizer.build(self.trainable_variables)
            if self._schedule_ends_with_fit and num_steps is None:
                raise ValueError(
                    "Expected steps_per_epoch, over which the learning rate "
                    "decays, as the dataset does not tell how many batches it "
                    "has. Received: steps_per_epoch=None"
                )
            if self._schedule_ends_with_fit and num_steps > 0:
                if num_steps != optimizer.schedule.num_train_steps:
                    # The schedule is in its graph.
                    self.train_function = None
                optimizer.begin(num_steps)
        optimizers.warn_of_the_end(optimizer, num_steps, callbacks)

    def _validation_data(self, data, batch_size: int, steps: int | None):
        """What Keras validates on, and how many batches; None for all."""
        is_tuple = isinstance(data, tuple) and len(data) in (2, 3)
        x, y, weights = (*(data if is_tuple else (data,)), None, None)[:3]
        if isinstance(x, dict) and self._targets_name in x:  # Of `_split`.
            return self._eval_dataset(x, batch_size, steps), None
        if self._takes_ids(x):
            x = self._checked(x, y)
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
          sample_weight: What each row counts in the loss.
          steps: Batches of the first rows; None for all.

        Raises:
          ValueError: If texts or labels are none, or come beside a dataset.
        """
        if not self.compiled:
            self.compile()
        if kwargs.get("_use_cached_eval_dataset", False) or self._takes_ids(x):
            x = self._checked(x, y)
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

        Returns:
          As the model's `call`, a row for each text.

        Raises:
          ValueError: If `x` is not what the model reads.
        """
        if self._takes_ids(x):
            x = self._checked(x)
            return super().predict(x, batch_size, verbose, **kwargs)
        (x, *_), size = inputs.columns(x)
        rows = self.read_inputs(x)
        features = self.features(rows, None)
        if not len(features["input_ids"]):  # Contexts without a word.
            return self.answers({}, rows, features)
        # Rows of similar length together.
        order = np.argsort(features["input_mask"].sum(axis=-1), kind="stable")
        dataset = self._eval_dataset(
            {name: values[order] for name, values in features.items()},
            batch_size or size,
        )
        outputs = super().predict(dataset, verbose=verbose, **kwargs)
        back = np.argsort(order)
        outputs = keras.tree.map_structure(lambda of: of[back], outputs)
        return self.answers(outputs, rows, features)

    def answers(self, outputs, rows, features: Features):
        """What `predict` says of rows, from the outputs for their features."""
        del rows, features
        return outputs

    def train_on_batch(self, x, *args, **kwargs):
        """One update on token ids, see `keras.Model.train_on_batch`.

        Raises:
          ValueError: If the optimizer does not know how many there will be.
        """
        if self._schedule_ends_with_fit:
            raise ValueError(
                "Expected compile(num_train_steps=...) before train_on_batch. "
                "Received: num_train_steps=None"
            )
        return super().train_on_batch(x, *args, **kwargs)
