"""Models that say one thing of a text, or of a pair of texts.

Shapes: N rows, B batch, C labels.
"""

import math
from collections.abc import Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from electra_tf import configs
from electra_tf.keras_models import inputs
from electra_tf.keras_models.engine_model import EngineModel
from electra_tf.model import task_head

# Of a regressor's least label and scale, in files of weights.
_UNIT = "unit"


@keras.saving.register_keras_serializable(package="electra_tf")
class TextClassifier(EngineModel):
    """One label for each text or pair of texts, or any number of them.

        classifier = electra_tf.TextClassifier.from_checkpoint(
            path, labels=["neg", "pos"]
        )
        classifier.fit(texts, labels, epochs=3)
        classifier.decode_predictions(classifier.predict(["A fine film."]))

    `predict` gives the labels' probabilities <float32>[N, C] in the order of
    `labels`; `decode_predictions` the labels as they were given.
    Other arguments are those of `TaskModel`.

    Args:
      labels: Names or numbers, in the order of the outputs; or how many.
      multi_label: Whether each label is a decision of its own, so that a row
        has any number of them.
      pooling: What the head reads of a text: "cls", the first token's vector,
        or "mean", the mean of all tokens' vectors.
      activation: "auto" for probabilities; None for logits.
    """

    kinds = ("classification", "multi_label_classification")
    target_names = ("label_ids",)
    head_arguments = ("labels", "multi_label", "pooling")
    class_arguments = ("activation", "name", "dtype")

    def __init__(
        self,
        encoder,
        labels: Sequence | int | None = None,
        preprocessor=None,
        *,
        multi_label: bool | None = None,
        pooling: str | None = None,
        activation: str | None = "auto",
        **kwargs,
    ):
        if activation not in ("auto", None):
            raise ValueError(
                "Expected activation='auto', for probabilities, or None. "
                f"Received: activation={activation!r}"
            )
        kwargs |= {"multi_label": multi_label, "pooling": pooling}
        super().__init__(encoder, labels, preprocessor, **kwargs)
        self.activation = activation

    @property
    def multi_label(self) -> bool:
        return self.head.kind == self.kinds[True]

    @property
    def target_rank(self) -> int:
        return 2 if self.multi_label else 1

    @property
    def num_label_values(self) -> int:
        return 2 if self.multi_label else len(self.labels)

    @property
    def score_names(self):
        return ("accuracy",) if self.multi_label else ()

    def default_metrics(self):
        if self.multi_label:
            return None
        # Callbacks know of Keras's own that more is better.
        return [keras.metrics.SparseCategoricalAccuracy("accuracy")]

    @classmethod
    def new_head(cls, kept, labels=None, multi_label=None, pooling=None):
        kind = kept.kind if kept else cls.kinds[0]
        if multi_label is not None:
            kind = cls.kinds[multi_label]
        if kept:
            pooling = pooling or kept.pooling
            if labels is None and (kind, pooling) == (kept.kind, kept.pooling):
                return kept
        if labels is None:
            return None
        names = inputs.label_names(labels, 1 if kind == cls.kinds[1] else 2)
        options = _pooling_options(pooling)
        return task_head.TaskHead(
            kind, kind, names, len(names), options=options
        )

    def answer(self, outputs):
        logits = outputs["logits"]
        if self.activation is None:
            return logits
        return tf.sigmoid(logits) if self.multi_label else tf.nn.softmax(logits)

    def decode_predictions(self, predictions) -> list:
        """The likeliest labels, as they were given: names or numbers.

        Args:
          predictions: Of `predict`, <float>[N, C].

        Returns:
          A label for each row; with several labels a row a list of those that
          are likelier than not.
        """
        predictions, labels = np.asarray(predictions), self.given_labels
        if not self.multi_label:
            return [labels[i] for i in np.argmax(predictions, axis=-1)]
        least = 0.0 if self.activation is None else 0.5
        return [
            [labels[i] for i in np.flatnonzero(row > least)]
            for row in predictions
        ]

    def targets(self, y, name, num_rows):
        read = self._labels.decisions if self.multi_label else self._labels.ids
        return read(y, name, num_rows)

    def for_keras(self, x, y, y_pred, sample_weight):
        if self.multi_label:  # Some metrics ask for their number.
            y = tf.ensure_shape(y, [None, len(self.labels)])
        return super().for_keras(x, y, y_pred, sample_weight)

    def class_weights(self, class_weight, targets):
        is_balanced = isinstance(class_weight, str) and targets is not None
        is_mapping = isinstance(class_weight, Mapping)
        if self.multi_label or not (is_balanced or is_mapping):
            return super().class_weights(class_weight, targets)
        if is_mapping:
            class_weight = {
                self._labels.known(label, "class_weight", place): weight
                for place, (label, weight) in enumerate(class_weight.items())
            }
        if targets is None:
            targets = np.arange(len(self.labels))
        # Late: it takes its time to import.
        from sklearn.utils import class_weight as sklearn_weights

        weights = sklearn_weights.compute_sample_weight(class_weight, targets)
        return weights.astype(np.float32)

    def get_config(self):
        return super().get_config() | {"activation": self.activation}


@keras.saving.register_keras_serializable(package="electra_tf")
class TextRegressor(EngineModel):
    """A number for each text or pair of texts.

        regressor = electra_tf.TextRegressor.from_checkpoint(path)
        regressor.fit((first, second), [0.5, 4.8, ...], epochs=3)
        regressor.predict((first, second))

    `predict` gives <float32>[N], in the unit of the labels. The network learns
    them as the gin runs do, from 0 for the least label to 1 for the greatest,
    and so the loss counts; the metric `mse` is in the unit of the labels.
    Other arguments are those of `TaskModel` and `TextClassifier`.

    Args:
      min_value: The least label; None to take it, and the scale, from what the
        first `fit` is given.
      scale: The greatest label less the least one.
    """

    kinds = ("regression",)
    target_names = ("targets",)
    head_arguments = ("min_value", "scale", "pooling")

    def __init__(
        self,
        encoder,
        preprocessor=None,
        *,
        min_value: float | None = None,
        scale: float | None = None,
        pooling: str | None = None,
        **kwargs,
    ):
        kwargs |= {"min_value": min_value, "scale": scale, "pooling": pooling}
        super().__init__(encoder, None, preprocessor, **kwargs)

    @classmethod
    def new_head(cls, kept, min_value=None, scale=None, pooling=None):
        if kept and min_value is scale is None:
            min_value, scale = map(kept.options.get, ("min_value", "scale"))
        is_scale = scale is None or 0.0 < scale < math.inf
        if (min_value is None) != (scale is None) or not is_scale:
            raise ValueError(
                "Expected both min_value and a positive scale, or none of the "
                f"two. Received: min_value={min_value}, scale={scale}"
            )
        options = _pooling_options(pooling or (kept and kept.pooling))
        if scale is not None:
            unit = {"min_value": float(min_value), "scale": float(scale)}
            options = unit | options
        kind = cls.kinds[0]
        return task_head.TaskHead(kind, kind, None, 1, options=options)

    @classmethod
    def layers_of(cls, head):
        least, scale = map(head.options.get, ("min_value", "scale"))
        return {"min_value": least, "scale": scale, "pooling": head.pooling}

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
        values = inputs.numbers(y, name, num_rows)
        least, greatest = float(values.min()), float(values.max())
        if not task_head.float32_tells_apart(least, greatest):
            raise ValueError(
                f"Expected {name} in other units, such as differences from one "
                f"of them. Received: {least:.15g} to {greatest:.15g}, between "
                "which float32 has few numbers or none"
            )
        return values.astype(np.float32)

    def note(self, x, targets):
        super().note(x, targets)
        has_unit = "scale" in self.head.options
        if targets is None:
            if not has_unit:  # Learned as they are.
                self.set_options(min_value=0.0, scale=1.0)
            return
        if not has_unit:
            least, greatest = float(targets.min()), float(targets.max())
            self._set_unit(least, greatest - least or 1.0)

    def _set_unit(self, least: float, scale: float) -> None:
        self.set_options(min_value=least, scale=scale)
        # It is in their graphs.
        self.train_function = self.test_function = None
        self.predict_function = None

    def save_own_variables(self, store):
        super().save_own_variables(store)
        if "scale" in self.head.options:
            store[_UNIT] = np.array(self.unit)

    def load_own_variables(self, store):
        variables = dict(store)
        unit = variables.pop(_UNIT, None)
        super().load_own_variables(variables)
        if unit is not None:
            self._set_unit(*map(float, unit))


def _pooling_options(pooling: str | None) -> dict:
    """Of a new head; nothing for the original's."""
    is_usual = pooling in (None, configs.DEFAULT_POOLING)
    return {} if is_usual else {"pooling": pooling}
