"""Tasks with a label, several labels or a number for each text or pair.

Shapes: N rows, L length.
"""

import abc
import collections
import typing
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
import scipy.special
import tensorflow as tf

from electra_tf.model import heads, task_head
from electra_tf.model.windows import Windows
from electra_tf.tasks import features as features_lib
from electra_tf.tasks import metrics, reports
from electra_tf.tasks.features import Features
from electra_tf.tasks.task import Task

# A regression model is degenerate if its predictions spread less than this
# share of the labels' spread: they follow the seed then, not the text.
_CONSTANT_SHARE = 0.02
_FLOAT32 = float(np.finfo(np.float32).min), float(np.finfo(np.float32).max)


class TextExample(typing.NamedTuple):
    """One text, or a pair of texts, with its label.

    Attributes:
      eid: Number of the example in its split.
      text_a: The text.
      text_b: The second text of a pair, or None.
      label: As in the file.
      source: File and row, for error messages.
      has_label: False where the label is not known.
      labels: Where a row may have several: all of them.
      glue_index: What GLUE's file calls a row without a label, such as "0";
        None for other rows.
    """

    eid: int
    text_a: str
    text_b: str | None
    label: str
    source: tuple[str, int]
    has_label: bool = True
    labels: tuple[str, ...] = ()
    glue_index: str | None = None


class TextTask(Task):
    """A task with texts, or pairs of texts, and something to say of each.

    Attributes:
      windows: How texts longer than the model are read; None for the cut.
    """

    windows: Windows | None = None
    # Whether a row may have any number of labels.
    may_be_many = False

    def read_examples(self, split):
        if self.source is None:
            return super().read_examples(split)
        examples = self.source.examples(split, self.may_be_many)
        self.label_features(examples)  # A label unknown in training raises.
        return examples

    def features(self, examples, tokenizer, max_seq_length, is_training=False):
        first = [example.text_a for example in examples]
        if self.windows is not None:
            features = features_lib.whole_texts(
                first, tokenizer, self.windows.most_tokens
            )
        else:
            second = [example.text_b for example in examples]
            features = features_lib.text_features(
                first, second, tokenizer, max_seq_length
            )
        eids = [example.eid for example in examples]
        features[f"{self.name}_eid"] = np.array(eids, np.int32)
        return features | self.label_features(examples)

    def texts_of(self, example):
        return example.text_a, example.text_b or ""

    @abc.abstractmethod
    def label_features(self, examples: Sequence[TextExample]) -> Features:
        """What the labels become; 0 of those that are not known."""

    @abc.abstractmethod
    def scores_of_rows(
        self, outputs: dict[str, np.ndarray]
    ) -> Iterator[tuple[str, Sequence[float]]]:
        """The prediction of each row, as in a file, and its scores, as many as
        `score_names`."""

    # The header of what `scores_of_rows` gives.
    score_names: Sequence[str] = ()

    @abc.abstractmethod
    def constant_answer(self, train_examples: Sequence[TextExample]) -> tuple:
        """What a head that reads no text says of every row: name and value."""

    def baseline(self, train_examples, splits):
        name, always = self.constant_answer(train_examples)
        baseline = {"name": name}
        for split, examples in splits.items():
            ((feature, values),) = self.label_features(examples).items()
            outputs = {
                feature.removeprefix(f"{self.name}_"): values,
                "predictions": np.full_like(values, always),
                "loss": np.zeros(0),
            }
            baseline[split] = self.scores(outputs)
            del baseline[split]["loss"]
        return baseline

    def prediction_table(
        self, examples, outputs, tokenizer=None, max_seq_length=0
    ):
        has_pairs = any(example.text_b is not None for example in examples)
        texts = ["text_a", "text_b"] if has_pairs else ["text"]

        def rows():
            for example, (prediction, scores) in zip(
                examples, self.scores_of_rows(outputs), strict=True
            ):
                label = example.label if example.has_label else ""
                texts = [example.text_a, example.text_b or ""][: 1 + has_pairs]
                written = (f"{score:.6f}" for score in scores)
                yield [label, prediction, *written, *texts]

        return ["label", "prediction", *self.score_names, *texts], rows()


class _LabelsTask(TextTask):
    """A task whose labels come from a list; a label's id is its index."""

    kind: str
    head: type[heads.PooledHead]

    def __init__(self, name: str, labels: Sequence[str]):
        super().__init__(name)
        self.labels = list(labels)

    def _id(self, label: str, example: TextExample, expected: str) -> int:
        if label in self.labels:
            return self.labels.index(label)
        path, row = example.source
        raise ValueError(
            f"Expected {expected} {listing(self.labels)}. Received: {label!r} "
            f"in {path!r}, row {row}."
        )

    def _given(self, class_weights: str | Mapping) -> Mapping | None:
        """The weights that are given; None for 'balanced'."""
        if isinstance(class_weights, str):
            return None
        unknown = [label for label in class_weights if label not in self.labels]
        if unknown:
            raise ValueError(
                "FinetuningConfig.class_weights must be of the labels "
                f"{listing(self.labels)}. Received: {listing(unknown)}"
            )
        return class_weights

    def make_head(self, config):
        return self.head(
            self.name,
            config.hidden_size,
            len(self.labels),
            self.hidden_activation,
        )

    def is_degenerate(self, outputs):
        return len(np.unique(outputs["predictions"], axis=0)) == 1

    def description(self):
        return {"kind": self.kind, "labels": self.labels}

    @property
    def score_names(self):
        return self.labels


class ClassificationTask(_LabelsTask):
    """A task with one label for each row; `labels` are all that there are."""

    kind = "classification"
    head = heads.ClassificationHead

    def label_features(self, examples):
        ids = [
            self._id(e.label, e, "one of the labels") if e.has_label else 0
            for e in examples
        ]
        return {f"{self.name}_label_ids": np.array(ids, np.int32)}

    def loss_weights(self, examples, class_weights):
        """As in scikit-learn: 'balanced' gives all labels the same sum."""
        labels = [example.label for example in examples]
        weights = dict.fromkeys(sorted(labels), 1.0)
        given = self._given(class_weights)
        weights |= _balanced(labels) if given is None else given
        row_weights = np.array([weights[label] for label in labels], np.float32)
        return row_weights, weights

    def constant_answer(self, train_examples):
        label = metrics.commonest(example.label for example in train_examples)
        return f"majority class {label!r}", self.labels.index(label)

    def scores(self, outputs, examples=(), tokenizer=None, max_seq_length=0):
        labels, predictions = outputs["label_ids"], outputs["predictions"]
        report = self.report(outputs)
        return {
            "accuracy": metrics.accuracy(labels, predictions),
            "macro_f1": report["macro_f1"],
            "weighted_f1": report["weighted_f1"],
            "loss": metrics.mean(outputs["loss"]),
        }

    def report(self, outputs, examples=(), tokenizer=None, max_seq_length=0):
        return reports.class_report(
            self.labels, outputs["label_ids"], outputs["predictions"]
        )

    def scores_of_rows(self, outputs):
        scores = tf.nn.softmax(outputs["logits"]).numpy()
        for prediction, row in zip(outputs["predictions"], scores, strict=True):
            yield self.labels[prediction], row


class RegressionTask(TextTask):
    """A task whose labels are numbers.

    Args:
      name: See `Task`.
      min_value: The least label.
      max_value: The greatest label.
      scale: What a label's distance from the least one is divided by. None
        for the greatest label, as in the original, which also refuses labels
        that are out of the range.
    """

    main_metric = "spearman"

    def __init__(
        self,
        name: str,
        min_value: float,
        max_value: float,
        scale: float | None = None,
    ):
        super().__init__(name)
        self.min_value = min_value
        self.max_value = max_value
        self.refuses_others = scale is None
        self.scale = max_value if scale is None else scale

    def label_features(self, examples):
        limits = _FLOAT32
        if self.refuses_others:
            limits = self.min_value, self.max_value
        values = (
            number_in(e.label, e.source, limits)
            if e.has_label
            else self.min_value
            for e in examples
        )
        targets = [(value - self.min_value) / self.scale for value in values]
        return {f"{self.name}_targets": np.array(targets, np.float32)}

    def make_head(self, config):
        return heads.RegressionHead(
            self.name,
            config.hidden_size,
            hidden_activation=self.hidden_activation,
        )

    def scores(self, outputs, examples=(), tokenizer=None, max_seq_length=0):
        """Correlations, and the squared error in the labels' unit.

        The loss is that of training, whose targets are from 0 to about 1.
        """
        targets, predictions = outputs["targets"], outputs["predictions"]
        errors = self.in_units_of_labels(targets) - self.in_units_of_labels(
            predictions
        )
        return {
            "pearson": metrics.pearson(targets, predictions),
            "spearman": metrics.spearman(targets, predictions),
            "mse": metrics.mean(np.square(errors)),
            "loss": metrics.mean(outputs["loss"]),
        }

    def constant_answer(self, train_examples):
        (targets,) = self.label_features(train_examples).values()
        mean = metrics.mean(targets)
        return f"mean {self.in_units_of_labels(mean):.3f}", mean

    def is_degenerate(self, outputs):
        spread = float(np.std(outputs["predictions"]))
        targets = outputs.get("targets", np.zeros(1))
        return spread <= _CONSTANT_SHARE * float(np.std(targets))

    def description(self):
        return {
            "kind": "regression",
            "min_value": self.min_value,
            "max_value": self.max_value,
            "scale": self.scale,
        }

    def in_units_of_labels(self, predictions: np.ndarray) -> np.ndarray:
        """What the head's outputs <float>[N] are as labels."""
        values = np.asarray(predictions, np.float64)
        return values * self.scale + self.min_value

    def scores_of_rows(self, outputs):
        for value in self.in_units_of_labels(outputs["predictions"]):
            yield f"{value:.6f}", ()


class MultiLabelTask(_LabelsTask):
    """A task whose rows have any of the `labels`, or none."""

    kind = "multi_label_classification"
    head = heads.MultiLabelHead
    may_be_many = True
    main_metric = "micro_f1"

    def label_features(self, examples):
        """`<task>_label_ids` <int32>[N, C], 1 where a row has the label."""
        wanted = np.zeros((len(examples), len(self.labels)), np.int32)
        for row, example in zip(wanted, examples, strict=True):
            for label in example.labels:
                row[self._id(label, example, "labels among")] = 1
        return {f"{self.name}_label_ids": wanted}

    def loss_weights(self, examples, class_weights):
        """Of each decision: 'balanced' gives the rows with a label, and those
        without it, the same sum; a given weight is that of rows with it."""
        given = self._given(class_weights)
        (wanted,) = self.label_features(examples).values()
        row_weights = np.ones(wanted.shape, np.float32)
        weights: dict[str, float] = {}
        for i, label in enumerate(self.labels):
            has_it = wanted[:, i].tolist()
            by_value = _balanced(has_it)
            if given is not None:
                by_value = {1: given.get(label, 1.0)}
            row_weights[:, i] = [by_value.get(value, 1.0) for value in has_it]
            weights[label] = by_value.get(1, 1.0)
        return row_weights, weights

    def scores(self, outputs, examples=(), tokenizer=None, max_seq_length=0):
        """F1 of all decisions and of each label, and whole rows that are right.

        A label is predicted where its probability exceeds 0.5.
        """
        labels, predictions = outputs["label_ids"], outputs["predictions"]
        exact = (labels == predictions).all(axis=-1)
        return {
            "micro_f1": metrics.f1(labels, predictions),
            "macro_f1": self.report(outputs)["macro_f1"],
            "exact_match": 100.0 * metrics.mean(exact),
            "loss": metrics.mean(outputs["loss"]),
        }

    def report(self, outputs, examples=(), tokenizer=None, max_seq_length=0):
        return reports.decision_report(
            self.labels, outputs["label_ids"], outputs["predictions"]
        )

    def constant_answer(self, train_examples):
        commonest = metrics.commonest(
            tuple(sorted(e.labels)) for e in train_examples
        )
        names = ", ".join(commonest)
        name = f"commonest labels {names!r}" if names else "no label"
        return name, [int(label in commonest) for label in self.labels]

    def scores_of_rows(self, outputs):
        probabilities = scipy.special.expit(outputs["logits"])
        for predictions, row in zip(
            outputs["predictions"], probabilities, strict=True
        ):
            names = [self.labels[i] for i in np.flatnonzero(predictions)]
            yield task_head.LABEL_SEPARATOR.join(names), row


def _balanced(labels: Sequence) -> dict:
    """Label -> its weight, with which all labels have the same sum."""
    counts = collections.Counter(labels)
    return {x: len(labels) / (len(counts) * num) for x, num in counts.items()}


def listing(labels: Sequence[str], most: int = 10) -> str:
    """The labels for a message, and how many are left out of it."""
    shown = ", ".join(repr(label) for label in labels[:most])
    left_out = len(labels) - most
    return shown if left_out <= 0 else f"{shown} and {left_out} more"


def number(text: str) -> float:
    """The number that a text holds; NaN if it holds none.

    Python's own 1_000 is none.
    """
    try:
        return float(text if "_" not in text else "nan")
    except ValueError:
        return float("nan")


def number_in(label: str, source: tuple[str, int], limits=_FLOAT32) -> float:
    """The number that the label of a row of a file is; refuses others."""
    value = number(label)
    if not limits[0] <= value <= limits[1]:
        where = "" if limits == _FLOAT32 else " from {} to {}".format(*limits)
        raise ValueError(
            f"Expected a number{where}. Received: {label!r} in {source[0]!r}, "
            f"row {source[1]}."
        )
    return value


def in_order(labels: Collection[str]) -> list[str]:
    """Labels in the order of their ids: as numbers if all are, else as text."""
    numbers = {label: number(label) for label in labels}
    if not np.isfinite([*numbers.values()]).all():
        return sorted(labels)
    return sorted(labels, key=lambda label: (numbers[label], label))
