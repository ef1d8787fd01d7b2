"""Models that say one thing of a text, or of a pair of texts.

Shapes: N rows, B batch, C labels.
"""

import math
import typing
from collections.abc import Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from electra_tf import configs, errors
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.keras_models import columns
from electra_tf.keras_models import labels as labels_lib
from electra_tf.keras_models.labelled_model import LabelledModel
from electra_tf.keras_models.task_model import TaskModel
from electra_tf.model import task_head
from electra_tf.tasks import features as features_lib
from electra_tf.tasks import text_tasks

# Of heads: with one label a row, and with several.
_KINDS = ("classification", "multi_label_classification")
# Of a regressor's least label and scale, in files of weights.
_UNIT = "unit"
# Of a label between the least and the greatest, 0 and 1.
_ROUNDING = 1e-6


class _TextModel(TaskModel):
    """A model of one text, or of two."""

    def read_inputs(self, x, name="x"):
        # By the names that `fit` was given, not by place.
        x = columns.in_order(x, self.head.options.get("text_columns"))
        inputs = columns.texts(x, name)
        self.refuse_other_inputs(len(inputs) == 2, name)
        return inputs

    def refuse_other_inputs(self, has_pairs, name):
        if has_pairs and self.windows is not None:
            raise ValueError(
                f"Expected single texts as {name}, as the model reads long "
                "ones in windows. Received: pairs of texts"
            )
        super().refuse_other_inputs(has_pairs, name)

    def features(self, inputs, y, name="y"):
        first = inputs[0]
        tokenizer = self.preprocessor.tokenizer
        if self.windows is not None:
            features = features_lib.whole_texts(
                first, tokenizer, self.windows.most_tokens
            )
        else:
            second = inputs[1] if len(inputs) == 2 else [None] * len(first)
            features = features_lib.text_features(
                first, second, tokenizer, self.max_seq_length
            )
        if y is not None:
            targets = self.targets(y, name, len(first))
            features[f"{self.task_name}_{self.target_names[0]}"] = targets
        return features

    def targets(self, y, name: str, num_rows: int) -> np.ndarray:
        """The labels of a column as numbers, [N, ...]."""
        raise NotImplementedError

    def graph_inputs(self, x):
        windows = self.windows
        if windows is None:
            return self.preprocessor(x)
        tokens = self.preprocessor.tokenizer.tokenize(x)
        return self.preprocessor.tokenizer.pack_inputs(
            [tokens], windows.most_tokens
        )


@keras.saving.register_keras_serializable(package="electra_tf")
class TextClassifier(_TextModel, LabelledModel):
    """One label for each text or pair of texts, or any number of them.

        classifier = electra_tf.TextClassifier.from_checkpoint(
            path, labels=["neg", "pos"]
        )
        classifier.fit(texts, labels, epochs=3)
        classifier.decode_predictions(classifier.predict(["A fine film."]))

    `predict` gives the labels' probabilities <float32>[N, C] in the order of
    `labels`; `decode_predictions` their names.

    Args:
      encoder: See `TaskModel`.
      labels: Names or numbers, in the order of the outputs; or how many.
      preprocessor: See `TaskModel`.
      multi_label: Whether each label is a decision of its own, so that a row
        has any number of them.
      pooling: What the head reads of a text: "cls", the first token's vector,
        or "mean", the mean of all tokens' vectors.
      activation: "auto" for probabilities; None for logits.
      head: In place of `labels`, `multi_label` and `pooling`, all that is known
        of the head.
      **kwargs: See `TaskModel`.
    """

    target_names = ("label_ids",)
    head_arguments = ("labels", "multi_label", "pooling")
    class_arguments = ("activation", "name", "dtype")

    def __init__(
        self,
        encoder,
        labels: Sequence | int | None = None,
        preprocessor=None,
        *,
        multi_label: bool = False,
        pooling: str = configs.DEFAULT_POOLING,
        activation: str | None = "auto",
        head: task_head.TaskHead | Mapping | None = None,
        **kwargs,
    ):
        if head is None:
            head = self.new_head(labels, multi_label, pooling)
        if activation not in ("auto", None):
            raise ValueError(
                "Expected the activation 'auto', for probabilities, or None. "
                f"Received: activation={activation!r}"
            )
        super().__init__(encoder, head, preprocessor, **kwargs)
        self.activation = activation

    @property
    def multi_label(self) -> bool:
        return self.head.kind == _KINDS[True]

    @property
    def target_rank(self) -> int:
        return 2 if self.multi_label else 1

    @classmethod
    def new_head(cls, labels, multi_label=None, pooling=None):
        names = labels_lib.names(labels, least=1 if multi_label else 2)
        kind = _KINDS[bool(multi_label)]
        return task_head.TaskHead(
            kind, kind, names, len(names), options=_pooling_options(pooling)
        )

    @classmethod
    def kept(cls, checkpoint: Checkpoint, multi_label=None, pooling=None):
        del pooling  # A head of another one is replaced, not passed over.
        head = checkpoint.head
        kinds = _KINDS if multi_label is None else (_KINDS[multi_label],)
        return head if head is not None and head.kind in kinds else None

    @classmethod
    def check_order(cls, theirs, ours, source):
        if set(theirs) == set(ours):
            raise errors.ConfigError(
                f"Expected labels in the order of the head of {source}, "
                f"{list(theirs)}. Received: labels={list(ours)}"
            )

    @property
    def score_names(self):
        return ("accuracy",) if self.multi_label else ()

    def default_metrics(self):
        if self.multi_label:
            return None
        # Callbacks know of Keras's own that more is better.
        return [keras.metrics.SparseCategoricalAccuracy("accuracy")]

    def answer(self, outputs):
        logits = outputs["logits"]
        if self.activation is None:
            return logits
        return tf.sigmoid(logits) if self.multi_label else tf.nn.softmax(logits)

    def decode_predictions(self, predictions) -> list:
        """The names of the likeliest labels.

        Args:
          predictions: Of `predict`, <float>[N, C].

        Returns:
          A name for each row; with several labels a row a list of those that
          are likelier than not.
        """
        predictions = self.check_predictions(predictions, "N")
        if not self.multi_label:
            best = np.argmax(predictions, axis=-1)
            return [self.labels[i] for i in best]
        least = 0.0 if self.activation is None else 0.5
        return [
            [self.labels[i] for i in np.flatnonzero(row > least)]
            for row in predictions
        ]

    def targets(self, y, name, num_rows):
        if not self.multi_label:
            return self._labels.ids(columns.one_a_row(y), name, num_rows)
        shape = getattr(y, "shape", ())
        if len(shape) == 2:  # Which of them each row has.
            y = np.asarray(self._in_order(y, name))
        rows = y.tolist() if hasattr(y, "tolist") else y
        if not isinstance(rows, Sequence) or isinstance(rows, str | bytes):
            raise self._labels.refused(name, columns.short(y))
        columns.check_rows(rows, name, num_rows)
        if len(shape) == 2:
            matrix = y
            if shape[1] != len(self.labels) or set(np.unique(matrix)) - {0, 1}:
                raise self._labels.refused(
                    name, f"an array of the shape {tuple(shape)} of others"
                )
            return matrix.astype(np.int32)
        if len(self.labels) == 2 and num_rows and all(map(_is_decisions, rows)):
            # Of more labels, one of them would be there twice.
            raise self._labels.refused(
                name,
                f"{columns.short(rows[0])} in row 0; a 0 or 1 for every label "
                f"is an array [N, 2], and both labels are {list(self.labels)}",
            )
        wanted = np.zeros((num_rows, len(self.labels)), np.int32)
        for row, of_row in enumerate(rows):
            if not isinstance(of_row, list | tuple | set):
                raise self._labels.refused(
                    name,
                    f"{columns.short(of_row)} in row {row}, where a list of "
                    "labels belongs",
                )
            for value in of_row:
                wanted[row, self._labels.known(value, name, row)] += 1
            if wanted[row].max(initial=0) > 1:
                raise self._labels.refused(
                    name,
                    f"{columns.short(of_row)} in row {row}, with a label more "
                    "than once; a 0 or 1 for every label is an array [N, "
                    f"{len(self.labels)}]",
                )
        return wanted

    def _in_order(self, y, name: str):
        """The columns of a DataFrame in the order of the labels they name."""
        columns_of = getattr(y, "columns", None)
        if columns_of is None:
            return y
        by_name = {str(column): column for column in columns_of}
        is_once = len(by_name) == len(columns_of)
        if is_once and set(by_name) == set(self.labels):
            return y[[by_name[label] for label in self.labels]]
        if all(isinstance(column, int) for column in columns_of):
            return y  # Nobody named them.
        raise self._labels.refused(
            name, f"a DataFrame with the columns {list(columns_of)}"
        )

    def graph_targets(self, y):
        if self.multi_label:
            return self._graph_decisions(y)
        y = columns.one_a_row(y)
        if y.shape.rank != 1:
            raise self._labels.refused("y", f"a dataset of the shape {y.shape}")
        return self._labels.graph_ids(y)

    def _graph_decisions(self, y: tf.Tensor) -> tf.Tensor:
        num_labels = len(self.labels)
        expected = (
            "Expected a dataset with a 0 or 1 for each label, [batch, "
            f"{num_labels}]"
        )
        if y.dtype == tf.string or not y.shape.is_compatible_with(
            [None, num_labels]
        ):
            raise ValueError(
                f"{expected}. Received: labels of {y.dtype.name} and the shape "
                f"{y.shape}"
            )
        found = tf.cast(y, tf.int32)
        is_one = tf.equal(tf.cast(tf.cast(y, tf.bool), y.dtype), y)
        check = tf.debugging.Assert(
            tf.reduce_all(is_one),
            [f"{expected}. Received: ", tf.boolean_mask(y, ~is_one)],
        )
        with tf.control_dependencies([check]):
            return tf.ensure_shape(found, [None, num_labels])

    @property
    def num_label_values(self):
        return 2 if self.multi_label else len(self.labels)

    def features_of(self, x, y=None):
        if self.multi_label and y is not None:
            y = tf.nest.map_structure(self._graph_decisions, y)
        return super().features_of(x, y)

    def for_keras(self, x, y, y_pred, sample_weight):
        if self.multi_label:  # Some metrics ask for their number.
            y = tf.ensure_shape(y, [None, len(self.labels)])
        return super().for_keras(x, y, y_pred, sample_weight)

    def weights_of_classes(self, class_weight, ids):
        ids = np.asarray(ids)
        if self.multi_label:
            raise ValueError(
                "Expected sample_weight with several labels a row. Received: "
                f"class_weight={class_weight!r}"
            )
        if not isinstance(class_weight, str) or class_weight != "balanced":
            class_weight = self._known_weights(class_weight)
        task = text_tasks.ClassificationTask(self.task_name, self.labels)
        examples = [
            text_tasks.TextExample(i, "", None, self.labels[label], ("y", i))
            for i, label in enumerate(ids)
        ]
        return task.loss_weights(examples, class_weight)[0]

    def _known_weights(self, class_weight) -> dict[str, float]:
        """Label -> weight, as a user has them."""

        def refused(received):
            return ValueError(
                "Expected class_weight as label -> weight, a number of at "
                f"least 0, or 'balanced'. Received: {received}"
            )

        if not isinstance(class_weight, Mapping):
            raise refused(f"class_weight={columns.short(class_weight)}")
        found: dict[str, float] = {}
        for key, weight in class_weight.items():
            label = self._labels.id_of(key)
            if label is None:
                raise self._labels.refused("class_weight", columns.short(key))
            is_number = isinstance(weight, int | float | np.number)
            if not is_number or not 0.0 <= weight < np.inf:
                raise refused(f"{columns.short(weight)} for {key!r}")
            if self.labels[label] in found:
                raise refused(f"{self.labels[label]!r} twice")
            found[self.labels[label]] = float(weight)
        return found

    def graph_weights_of_classes(self, class_weight, ids):
        if isinstance(class_weight, str):
            raise ValueError(
                "Expected class_weight as label -> weight for a dataset, whose "
                f"labels nobody has counted. Received: {class_weight!r}"
            )
        all_ids = np.arange(len(self.labels))
        weights = self.weights_of_classes(class_weight, all_ids)
        return tf.gather(tf.constant(weights), ids)

    def get_config(self):
        return super().get_config() | {"activation": self.activation}


@keras.saving.register_keras_serializable(package="electra_tf")
class TextRegressor(_TextModel):
    """A number for each text or pair of texts.

        regressor = electra_tf.TextRegressor.from_checkpoint(path)
        regressor.fit((first, second), [0.5, 4.8, ...], epochs=3)
        regressor.predict((first, second))

    `predict` gives <float32>[N], in the unit of the labels. The network learns
    them as the gin runs do, from 0 for the least label to 1 for the greatest,
    and so the loss counts; the metric `mse` is in the unit of the labels.

    Args:
      encoder: See `TaskModel`.
      preprocessor: See `TaskModel`.
      min_value: The least label; None to take it, and the scale, from what the
        first `fit` is given.
      scale: The greatest label less the least one.
      pooling: See `TextClassifier`.
      head: All that is known of the head.
      **kwargs: See `TaskModel`.
    """

    kind = "regression"
    target_names = ("targets",)
    head_arguments = ("min_value", "scale", "pooling")

    def __init__(
        self,
        encoder,
        preprocessor=None,
        *,
        min_value: float | None = None,
        scale: float | None = None,
        pooling: str = configs.DEFAULT_POOLING,
        head: task_head.TaskHead | Mapping | None = None,
        **kwargs,
    ):
        if head is None:
            head = _regression_head(min_value, scale, pooling)
        super().__init__(encoder, head, preprocessor, **kwargs)

    @classmethod
    def head_for(
        cls, checkpoint, source, min_value=None, scale=None, pooling=None
    ):
        kept = cls.kept(checkpoint)
        if kept is None:
            return _regression_head(min_value, scale, pooling), False
        new = _regression_head(min_value, scale, pooling or kept.pooling)
        ours = new.options | {"pooling": new.pooling}
        theirs = {name: kept.options.get(name) for name in ours}
        theirs["pooling"] = kept.pooling
        if theirs == ours:
            return kept, True
        errors.warn(f"A new head for {ours}: that of {source} is for {theirs}")
        return new, False

    @property
    def unit(self) -> tuple[float, float]:
        """The least label and the scale; 0 and 1 where nothing says so."""
        return self.head.unit

    def default_metrics(self):
        return [keras.metrics.MeanSquaredError("mse")]

    def for_keras(self, x, y, y_pred, sample_weight):
        # Of one axis Keras would take one mean, however many rows it has.
        return y[:, tf.newaxis], y_pred[:, tf.newaxis], sample_weight

    def answer(self, outputs):
        least, scale = self.unit
        return outputs["predictions"] * scale + least

    def features_of(self, x, y=None):
        if y is not None:
            least, scale = self.unit
            y = (tf.cast(y, tf.float32) - least) / scale
        return super().features_of(x, y)

    def targets(self, y, name, num_rows):
        values = columns.one_a_row(y)
        return columns.numbers(values, name, num_rows, are_labels=True)

    def note_targets(self, features):
        if features is None:
            # Learned as they are.
            if "scale" not in self.head.options:
                self.note(min_value=0.0, scale=1.0)
            return
        values = features[f"{self.task_name}_targets"]
        least, greatest = float(values.min()), float(values.max())
        if "scale" in self.head.options:
            first, scale = self.unit
            shares = (least - first) / scale, (greatest - first) / scale
            if shares[0] < -_ROUNDING or shares[1] > 1.0 + _ROUNDING:
                errors.warn(
                    f"Labels from {least:g} to {greatest:g}, in the unit of "
                    f"those from {first:g} to {first + scale:g}: it is that of "
                    "the first fit, of a head that was kept, or of min_value "
                    "and scale"
                )
            return
        self._note_unit(least, greatest - least or 1.0)

    def _note_unit(self, least: float, scale: float) -> None:
        self.note(min_value=least, scale=scale)
        # It is in their graphs.
        self.train_function = self.test_function = None
        self.predict_function = None

    def save_own_variables(self, store):
        super().save_own_variables(store)
        if "scale" in self.head.options:
            store[_UNIT] = np.array(self.unit)

    def load_own_variables(self, store):
        variables = dict(store)
        theirs = variables.pop(_UNIT, None)
        super().load_own_variables(variables)
        if theirs is None:
            return
        least, scale = map(float, theirs)
        if "scale" not in self.head.options:
            self._note_unit(least, scale)
        elif self.unit != (least, scale):
            first, ours = self.unit
            errors.warn(
                f"Weights that learned labels from {least:g} to "
                f"{least + scale:g}, in a model that predicts from {first:g} "
                f"to {first + ours:g}"
            )

    def graph_targets(self, y):
        y = columns.one_a_row(y)
        if y.shape.rank != 1 or not (y.dtype.is_floating or y.dtype.is_integer):
            raise ValueError(
                "Expected a dataset with a number for each text. Received: "
                f"labels of {y.dtype.name} and the shape {y.shape}"
            )
        return tf.cast(y, tf.float32)


def _pooling_options(pooling: str | None) -> dict:
    """Of a new head; nothing for the original's.

    Raises:
      ValueError: If there is no such pooling.
    """
    if pooling in (None, configs.DEFAULT_POOLING):
        return {}
    if pooling not in configs.POOLINGS:
        raise ValueError(
            f"Expected a pooling of {', '.join(configs.POOLINGS)}. Received: "
            f"{pooling!r}."
        )
    return {"pooling": pooling}


def _is_decisions(row) -> bool:
    """Whether a row of labels reads as a 0 or 1 for each of two."""
    return (
        isinstance(row, list | tuple)
        and len(row) == 2
        and all(not isinstance(x, str) and x in (0, 1) for x in row)
    )


def _regression_head(min_value, scale, pooling=None) -> task_head.TaskHead:
    is_scale = scale is None or 0.0 < scale < math.inf
    if (min_value is None) != (scale is None) or not is_scale:
        raise ValueError(
            "Expected both min_value and a positive scale, or none of the two. "
            f"Received: min_value={min_value}, scale={scale}"
        )
    options: dict[str, typing.Any] = {}
    if scale is not None:
        options = {"min_value": float(min_value), "scale": float(scale)}
    options |= _pooling_options(pooling)
    return task_head.TaskHead(
        "regression", "regression", None, 1, options=options
    )
