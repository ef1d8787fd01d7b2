"""`fit`, `evaluate` and `predict` on texts: they become the gin runs' batches.

Columns of texts are tokenized once, and their batches are those of
`finetuning.batches`: rows of similar length, as a function of the step. A
`tf.data.Dataset` keeps its own batches and is tokenized in the graph.

Shapes: N rows, B batch.
"""

import contextlib
import typing
from collections.abc import Iterator, Mapping

import keras
import numpy as np
import tensorflow as tf

from electra_tf import errors
from electra_tf.finetuning import batches
from electra_tf.keras_models import (
    columns,
    optimizers,
    token_ids,
)
from electra_tf.keras_models.optimizers import FinetuningOptimizer
from electra_tf.keras_models.resuming import Start, steps_taken
from electra_tf.keras_models.task_rows import TaskRows
from electra_tf.tasks.features import Features
from electra_tf.training import optimization, replicas

BATCH_SIZE = 32


class TextPipeline(TaskRows):
    """A model that reads what a user has: see the methods of Keras."""

    def _checked(self, x, name: str = "x"):
        """Token ids as given, or an error; see `token_ids.checked`."""
        is_batches = columns.is_dataset(x) or isinstance(
            x, keras.utils.PyDataset | Iterator
        )
        if not isinstance(x, Mapping) and not is_batches:
            raise ValueError(
                f"Expected {name} as a dictionary of token ids, without a "
                f"preprocessor. Received: {columns.short(x)}"
            )
        return token_ids.checked(
            x, self.encoder_config, name, self.num_label_values
        )

    def _check_labels(self, y, name: str = "y") -> None:
        """Refuses numbers that are no labels; see `token_ids`."""
        token_ids.check_labels(y, name, self.num_label_values, self.target_rank)

    def _note_labels(self, y, num_rows: int | None = None) -> None:
        """`note_targets` of those beside token ids, which are one array."""
        if y is not None and len(self.target_names) == 1:
            name = f"{self.task_name}_{self.target_names[0]}"
            self.note_targets({name: np.asarray(y)[:num_rows]})

    def _check_weights(
        self, sample_weight, class_weight=None, name: str = "sample_weight"
    ) -> None:
        """Refuses weights that Keras would pass over, or that are none."""
        token_ids.check_weights(sample_weight, name)
        if class_weight is None:
            return
        num_labels = self.num_label_values if self.target_rank == 1 else None
        if num_labels is None:
            self.weights_of_classes(class_weight, None)  # Refuses them.
            return
        unknown = [k for k in class_weight if k not in range(num_labels)]
        if unknown:
            raise ValueError(
                "Expected class_weight as number of a label -> weight, with "
                f"labels from 0 to {num_labels - 1}. Received: "
                f"{columns.short(unknown)} among them"
            )

    @property
    def _reads_texts(self) -> bool:
        return self.preprocessor is not None

    def _arrays(
        self,
        x,
        y,
        sample_weight,
        class_weight=None,
        prefix="",
        is_training=False,
    ) -> Features:
        """Features of columns, labels and `<task>_sample_weight` included."""
        inputs = self.read_inputs(x, f"{prefix}x")
        if y is None:
            raise ValueError(
                f"Expected {prefix}y, a label for each row of {prefix}x. "
                f"Received: {prefix}y=None"
            )
        columns.refuse_labels_in(x, y, f"{prefix}x")
        features = self.features(inputs, y, f"{prefix}y")
        if is_training:
            self.note_pairs(len(inputs) == 2, columns.pair_names(x))
            self.note_targets(features)
        rows = self.rows_of_features(features, inputs)
        weights = None
        if sample_weight is not None:
            weights = columns.numbers(
                sample_weight,
                f"{prefix}sample_weight",
                len(inputs[0] if isinstance(inputs, tuple) else inputs),
            )
        if class_weight is not None:
            targets = features[f"{self.task_name}_{self.target_names[0]}"]
            of_classes = self.weights_of_classes(class_weight, targets)
            weights = of_classes if weights is None else weights * of_classes
        if weights is not None:
            features[self._sample_weight] = weights[rows]
        return features

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
        self,
        features: Features,
        batch_size: int,
        shuffle: bool,
        start: Start,
    ) -> tf.data.Dataset:
        """Endless batches of the gin runs; in order where not shuffled."""
        if not shuffle:
            dataset = batches.eval_dataset(
                features, batch_size, keeps_order=True
            )
            return self._prepared(dataset.map(_without_rows)).repeat()

        return self._prepared(
            start.dataset(
                lambda first_step: batches.train_dataset(
                    features,
                    self.seed,
                    batch_size,
                    first_step,
                    bucketed=not self.preprocessor.pad_to_max,
                )
            )
        )

    def _start(self, steps_per_epoch: int) -> Start:
        """Goes on with the first epoch that no `fit` before has begun."""
        taken = int(steps_taken(self.optimizer).numpy())
        epochs_begun = -(-taken // steps_per_epoch)
        return Start(taken - epochs_begun * steps_per_epoch)

    def _eval_dataset(
        self,
        features: Features,
        batch_size: int,
        steps: int | None = None,
        name: str = "steps",
    ) -> tf.data.Dataset:
        """All rows once, by length; with `steps` the first rows alone."""
        if steps is not None:
            num_rows = columns.positive(steps, name) * batch_size
            features = {n: of[:num_rows] for n, of in features.items()}
        costs = np.ones_like if self.windows is None else self.windows.counts
        dataset = batches.eval_dataset(features, batch_size, costs)
        return self._prepared(dataset.map(_without_rows))

    def _prepared(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        return dataset.map(self._of_keras).with_options(replicas.UNTUNED)

    def _mapped(self, dataset, with_labels: bool, class_weight=None, name="x"):
        """A user's dataset of texts -> one of features."""
        columns.check_texts_of_dataset(dataset, with_labels, name)

        def prepare(*element):
            x, y, weights = (*element, None, None)[:3]
            features, targets = self.graph_example(
                x, y if with_labels else None
            )
            if not with_labels:
                return (features,)
            if tf.is_tensor(targets):
                targets = token_ids.finite(targets, f"labels in {name}")
            if weights is not None:
                weights = token_ids.not_negative(weights, f"weights in {name}")
            if class_weight is not None:
                of_classes = self.graph_weights_of_classes(
                    class_weight, targets
                )
                weights = (
                    of_classes
                    if weights is None
                    else tf.cast(weights, tf.float32) * of_classes
                )
            if weights is None:
                return features, targets
            return features, targets, weights

        return dataset.map(
            tf.autograph.experimental.do_not_convert(prepare),
            num_parallel_calls=tf.data.AUTOTUNE,
        ).prefetch(replicas.PREFETCHED_BATCHES)

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
            tuple of two of them; or a `tf.data.Dataset` of batches of (texts,
            labels) or (texts, labels, weights).
          y: A label for each.
          batch_size: Rows of a step; 32 by default. They are of similar length,
            and padded to the longest of them.
          epochs: Passes over the rows.
          verbose: See `keras.Model.fit`.
          callbacks: Keras's.
          validation_split: Share of the rows, the last ones, to validate on.
          validation_data: Instead (x, y), (x, y, sample_weight) or a dataset.
          shuffle: Whether the rows come in a new order in every epoch.
          class_weight: Label -> what its rows count in the loss; 'balanced'
            gives all labels the same sum.
          sample_weight: What each row counts.
          initial_epoch: See `keras.Model.fit`, as are the others.
          steps_per_epoch: Needed where a dataset does not tell its length.
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
        batch_size, given_size = _size(batch_size), batch_size
        columns.check_positive(steps_per_epoch=steps_per_epoch)
        if validation_data is not None:
            # As in Keras, which then keeps all rows.
            validation_split = 0.0
        elif validation_split and (self._reads_texts or columns.is_dataset(x)):
            (x, y, sample_weight), validation_data = columns.split(
                x, y, sample_weight, validation_split
            )
            validation_split = 0.0
        arguments: dict[str, typing.Any] = {"shuffle": False}
        features = None
        num_steps: int | None
        if not self._reads_texts:
            x, num_steps, arguments = self._of_ids(
                x,
                batch_size,
                steps_per_epoch,
                shuffle,
                y=y,
                sample_weight=sample_weight,
                class_weight=class_weight,
                validation_split=validation_split,
                validation_batch_size=validation_batch_size,
            )
        elif columns.is_dataset(x):
            columns.refuse_beside_dataset(y, sample_weight, given_size)
            self.refuse_other_inputs(columns.has_pairs(x), "x")
            self.note_pairs(columns.has_pairs(x))
            self.note_targets(None)
            rows, x = x, self._mapped(x, True, class_weight)
            num_steps = steps_per_epoch or self.num_batches(rows, x)
        else:
            features = self._arrays(
                x, y, sample_weight, class_weight, is_training=True
            )
            num_rows = len(features["input_ids"])
            num_steps = steps_per_epoch or -(-num_rows // batch_size)
            steps_per_epoch = num_steps
            columns.check_executions(self.steps_per_execution, num_steps)
        if steps_per_epoch and columns.may_end(x):
            # In every epoch, as without `steps_per_epoch` in Keras.
            x = x.repeat()
        if validation_data is not None:
            # Now: the rows to learn from say whether the texts are pairs.
            validation_data, validation_steps = self._validation_data(
                validation_data,
                _size(
                    validation_batch_size, "validation_batch_size", batch_size
                ),
                validation_steps,
            )
        num_epochs = epochs - initial_epoch
        self._begin(num_steps, num_epochs)
        optimizers.warn_of_the_end(
            self.optimizer, num_steps and num_steps * num_epochs, callbacks
        )
        if features is not None and num_steps:
            start = self._start(num_steps)
            x = self._train_dataset(features, batch_size, shuffle, start)
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

    def _of_ids(self, x, batch_size, steps_per_epoch, shuffle, **arguments):
        """What Keras makes batches of by itself.

        Args:
          x: Token ids; see `fit`, as for the others.
          batch_size: Rows of a step.
          steps_per_epoch: None for all of them.
          shuffle: Whether in a new order in every epoch.
          **arguments: Labels, weights, and what validation is given.

        Returns:
          `x`; the steps of an epoch, None where nobody knows; all arguments of
          `keras.Model.fit` for it.

        Raises:
          ValueError: If inputs, labels or weights are none.
        """
        x = self._checked(x)
        self._check_labels(arguments["y"])
        class_weight = arguments["class_weight"]
        if isinstance(class_weight, str):
            raise ValueError(
                "Expected class_weight as number of a label -> weight, "
                "without a preprocessor. Received: "
                f"class_weight={class_weight!r}"
            )
        self._check_weights(arguments["sample_weight"], class_weight)
        if isinstance(x, keras.utils.PyDataset | Iterator):
            num_steps = getattr(x, "num_batches", None)
            self.note_targets(None)
        elif columns.is_dataset(x):
            shuffle = False
            num_steps = steps_per_epoch or self.num_batches(x, x)
            self.note_targets(None)
        else:
            arguments["batch_size"] = batch_size
            num_rows = len(next(iter(x.values())))
            share = 1.0 - arguments["validation_split"]
            num_rows = int(np.floor(num_rows * share))
            num_steps = -(-num_rows // batch_size)
            self._note_labels(arguments["y"], num_rows)
        arguments["shuffle"] = shuffle
        return x, steps_per_epoch or num_steps, arguments

    @contextlib.contextmanager
    def _told_of_skipped_steps(self):
        """Warns where many float16 gradients were not finite."""
        scale = self._loss_scale.of_float16
        if scale is None:
            yield
            return

        def counts():
            taken = int(steps_taken(self.optimizer).numpy())
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
        optimizer = self.optimizer
        return (
            isinstance(optimizer, FinetuningOptimizer)
            and optimizer.num_train_steps is None
        )

    def _begin(self, steps_per_epoch: int | None, epochs: int) -> None:
        """Sets the schedule of an optimizer that follows `fit`."""
        optimizer = self.optimizer
        if not self._schedule_ends_with_fit:
            # Now: XLA makes no variables in a step.
            with self.distribute_strategy.scope():
                optimizer.build(self.trainable_variables)
            return
        if steps_per_epoch is None:
            raise ValueError(
                "Expected steps_per_epoch, as the learning rate decays over "
                "the steps that fit is about to take and the dataset does not "
                "tell how many batches it has. Received: steps_per_epoch=None"
            )
        num_steps = steps_per_epoch * epochs
        if num_steps < 1:
            return
        if num_steps != optimizer.schedule.num_train_steps:
            # The schedule is in its graph.
            self.train_function = None
        with self.distribute_strategy.scope():
            optimizer.build(self.trainable_variables)
            optimizer.begin(num_steps)

    def _validation_data(self, data, batch_size: int, steps: int | None):
        """What Keras validates on, and how many batches; None for all."""
        if not self._reads_texts:
            if isinstance(data, tuple) and len(data) > 1:
                self._checked(data[0], "validation_x")
                self._check_labels(data[1], "validation_y")
                for weights in data[2:]:
                    self._check_weights(
                        weights, name="validation_sample_weight"
                    )
                return data, steps
            return self._checked(data, "validation_data"), steps
        if columns.is_dataset(data):
            self.refuse_other_inputs(columns.has_pairs(data), "validation_data")
            return self._mapped(data, True, name="validation_data"), steps
        if not isinstance(data, tuple | list) or len(data) not in (2, 3):
            raise ValueError(
                "Expected validation_data as (x, y), (x, y, sample_weight) or "
                f"a dataset. Received: {columns.short(data)}"
            )
        x, y, sample_weight = (*data, None)[:3]
        features = self._arrays(x, y, sample_weight, prefix="validation_")
        dataset = self._eval_dataset(
            features, batch_size, steps, "validation_steps"
        )
        return dataset, None

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
        is_prepared = kwargs.get("_use_cached_eval_dataset", False)
        if not self._reads_texts or is_prepared:
            if not is_prepared:
                x = self._checked(x)
                self._check_labels(y)
                self._check_weights(sample_weight)
            return super().evaluate(
                x,
                y,
                batch_size,
                verbose,
                sample_weight,
                steps,
                **kwargs,
            )
        if columns.is_dataset(x):
            columns.refuse_beside_dataset(y, sample_weight, batch_size)
            self.refuse_other_inputs(columns.has_pairs(x), "x")
            x = self._mapped(x, True)
        else:
            features = self._arrays(x, y, sample_weight)
            x = self._eval_dataset(features, _size(batch_size), steps)
            steps = None
        return super().evaluate(x, verbose=verbose, steps=steps, **kwargs)

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
        if not self._reads_texts:
            x = self._checked(x)
            return super().predict(x, batch_size, verbose, **kwargs)
        if columns.is_dataset(x):
            self.refuse_other_inputs(columns.has_pairs(x), "x")
            dataset = self._mapped(x, False)
            return super().predict(dataset, verbose=verbose, **kwargs)
        inputs = self.read_inputs(x)
        if kwargs.get("steps") is not None:
            raise ValueError(
                "Expected steps beside a dataset; all rows of columns are "
                f"predicted. Received: steps={kwargs['steps']}"
            )
        features = self.features(inputs, None)
        # Rows of similar length together.
        order = np.argsort(features["input_mask"].sum(axis=-1), kind="stable")
        dataset = self._eval_dataset(
            {name: values[order] for name, values in features.items()},
            _size(batch_size),
        )
        found = super().predict(dataset, verbose=verbose, **kwargs)
        back = np.argsort(order)
        return keras.tree.map_structure(lambda of_rows: of_rows[back], found)

    def predict_on_batch(self, x):
        """Predictions for a batch of texts, without a dataset."""
        if not self._reads_texts:
            return super().predict_on_batch(self._checked(x))
        return self.predict(x, verbose=0)

    def train_on_batch(
        self, x, y=None, sample_weight=None, class_weight=None, **kwargs
    ):
        """One update, see `keras.Model.train_on_batch`.

        Args:
          x: Texts, as `fit` takes them in columns.
          y: Labels.
          sample_weight: What each row counts.
          class_weight: See `fit`.
          **kwargs: `return_dict`.

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
        if self._reads_texts:
            features = self._arrays(
                x, y, sample_weight, class_weight, is_training=True
            )
            x, y, sample_weight = (*self._of_keras(features), None)[:3]
            class_weight = None
        else:
            x = self._checked(x)
            self._check_labels(y)
            self._check_weights(sample_weight, class_weight)
            self._note_labels(y)
        return super().train_on_batch(
            x, y, sample_weight, class_weight, **kwargs
        )

    def test_on_batch(self, x, y=None, sample_weight=None, **kwargs):
        """Loss and scores of a batch, see `keras.Model.test_on_batch`."""
        if not self.compiled:
            self.compile()
        if self._reads_texts:
            features = self._arrays(x, y, sample_weight)
            x, y, sample_weight = (*self._of_keras(features), None)[:3]
        else:
            x = self._checked(x)
            self._check_labels(y)
            self._check_weights(sample_weight)
        return super().test_on_batch(x, y, sample_weight, **kwargs)


def _size(
    batch_size: int | None, name: str = "batch_size", default: int = BATCH_SIZE
) -> int:
    """Rows of a step."""
    return default if batch_size is None else columns.positive(batch_size, name)


def _without_rows(_, batch):
    """A batch without the numbers of its rows."""
    return batch
