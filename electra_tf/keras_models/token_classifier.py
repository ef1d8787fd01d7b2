"""A model that says something of every word.

Shapes: N rows, B batch, L length, W words of the longest row, C labels.
"""

from collections.abc import Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from electra_tf import errors
from electra_tf.keras_models import columns
from electra_tf.keras_models import labels as labels_lib
from electra_tf.keras_models.labelled_model import LabelledModel
from electra_tf.model import task_head
from electra_tf.tasks import tagging
from electra_tf.text.tokenization import ENCODER_FEATURES
from electra_tf.training.numpy_functions import numpy_function

Words = list[list[str]]


@keras.saving.register_keras_serializable(package="electra_tf")
class TokenClassifier(LabelledModel):
    """A label for each word, read at the word's first token.

        tagger = electra_tf.TokenClassifier.from_checkpoint(
            path, labels=["O", "B-PER", "I-PER"]
        )
        tagger.fit([["Ada", "wrote", "it"]], [["B-PER", "O", "O"]])
        tagger.decode_predictions(tagger.predict(["Ada wrote it"]))

    A row is a list of words, or a text whose words stand between white space;
    its labels are a list, or a text likewise. `predict` gives the labels'
    probabilities <float32>[N, W, C], 0 behind a row's last word and for words
    that the model did not see: those behind the cut, and those of characters
    that no token has.

    Args:
      encoder: See `TaskModel`.
      labels: Names or numbers, in the order of the outputs; or how many.
      preprocessor: See `TaskModel`.
      head: In place of `labels`, all that is known of the head.
      **kwargs: See `TaskModel`.
    """

    kind = "tagging"
    target_names = ("labels",)

    def __init__(
        self,
        encoder,
        labels: Sequence | int | None = None,
        preprocessor=None,
        *,
        head: task_head.TaskHead | Mapping | None = None,
        **kwargs,
    ):
        super().__init__(
            encoder,
            self.new_head(labels) if head is None else head,
            preprocessor,
            **kwargs,
        )

    @property
    def target_rank(self) -> int:
        return 2

    @property
    def score_names(self):
        return ("accuracy",)

    @classmethod
    def new_head(cls, labels):
        names = labels_lib.names(labels)
        return task_head.TaskHead(
            cls.kind,
            cls.kind,
            names,
            len(names),
            segment=task_head.TAGGING_SEGMENT,
        )

    def answer(self, outputs):
        return tf.nn.softmax(outputs["logits"])

    def compile(self, optimizer="auto", loss="auto", **kwargs):
        """See `TaskModel.compile`.

        Args:
          optimizer: Likewise.
          loss: Likewise.
          **kwargs: Likewise. `weighted_metrics` leave padding out.
        """
        metrics = kwargs.get("metrics", "auto")
        if metrics and not (isinstance(metrics, str) and metrics == "auto"):
            errors.warn(
                "metrics= counts padding as words, here and in evaluate: "
                "weighted_metrics= leaves it out"
            )
        super().compile(optimizer, loss, **kwargs)

    def for_keras(self, x, y, y_pred, sample_weight):
        weights = x["labels_mask"]
        if sample_weight is not None:
            given = tf.cast(sample_weight, tf.float32)
            is_of_rows = given.shape.rank == 1
            weights *= given[:, tf.newaxis] if is_of_rows else given
        return y, y_pred, weights

    def task(self) -> tagging.TaggingTask:
        """The gin runs' task, which makes features of examples."""
        task = tagging.TaggingTask(
            self.task_name,
            {},
            is_token_level=True,
            as_original=self.head.as_original,
            labels=self.labels,
        )
        task.segment = self.head.segment_of_words()
        return task

    def read_inputs(self, x, name="x") -> Words:
        rows = _split_rows(x, name)
        for row, words in enumerate(rows):
            for word in words:
                if not isinstance(word, str):
                    raise ValueError(
                        f"Expected words as strings in {name}. Received: "
                        f"{columns.short(word)}, of type "
                        f"{type(word).__name__}, in row {row}"
                    )
        return rows

    def features(self, inputs, y, name="y"):
        labels = [[self.labels[0]] * len(words) for words in inputs]
        if y is not None:
            rows = _split_rows(y, name)
            columns.check_rows(rows, name, len(inputs))
            for row, (words, of_words) in enumerate(
                zip(inputs, rows, strict=True)
            ):
                if len(words) != len(of_words):
                    raise ValueError(
                        f"Expected a label for each word in {name}. Received: "
                        f"{len(of_words)} labels for the {len(words)} words "
                        f"of row {row}"
                    )
                labels[row] = [
                    self.labels[self._labels.known(value, name, row)]
                    for value in of_words
                ]
        features = self.task().features(
            [
                tagging.TaggingExample(row, tuple(words), tuple(of_words))
                for row, (words, of_words) in enumerate(
                    zip(inputs, labels, strict=True)
                )
            ],
            self.preprocessor.tokenizer,
            self.max_seq_length,
        )
        if y is None:
            del features[f"{self.task_name}_labels"]
        return features

    def fit(self, x=None, y=None, *args, **kwargs):
        """See `TaskModel.fit`; a tuple is one of rows, not of columns."""
        x = list(x) if isinstance(x, tuple) else x
        return super().fit(x, y, *args, **kwargs)

    def graph_example(self, x, y):
        """Of texts <string>[B] and labels <string>[B], both with white space.

        Not by operations of the graph, as `labels` are checked word by word.
        """
        names = [*ENCODER_FEATURES, "labeled_positions", "labels_mask"]
        names += [] if y is None else ["labels"]

        for of_rows in (x, y):
            if isinstance(of_rows, tf.RaggedTensor):
                raise ValueError(
                    "Expected a dataset of texts, and labels, with white space "
                    "between words: tf.strings.reduce_join(words, axis=-1, "
                    f"separator=' '). Received: {of_rows}"
                )

        def batch(texts, labels=None):
            texts = [text.decode("utf-8", "replace") for text in texts]
            if labels is not None:
                labels = [label.decode("utf-8", "replace") for label in labels]
            found = self.features(self.read_inputs(texts), labels)
            prefix = f"{self.task_name}_"
            own = {n.removeprefix(prefix): v for n, v in found.items()}
            return [own[name] for name in names]

        found = numpy_function(
            batch,
            [x] if y is None else [x, y],
            [tf.float32 if n == "labels_mask" else tf.int32 for n in names],
        )
        for values in found:
            values.set_shape([x.shape[0], self.max_seq_length])
        features = dict(zip(names, found, strict=True))
        return features, features.pop("labels", None)

    def predict_step(self, data):
        answer = super().predict_step(data)
        # One length for all batches.
        missing = self.max_seq_length - tf.shape(answer)[1]
        return tf.pad(answer, [[0, 0], [0, missing], [0, 0]])

    def predict(self, x, batch_size=None, verbose="auto", **kwargs):
        if self._reads_texts and columns.is_dataset(x):
            # What is said of tokens belongs to words, which are in the texts.
            x, num_rows = self._texts_of(x, kwargs.pop("steps", None))
            batch_size = num_rows if batch_size is None else batch_size
        found = super().predict(x, batch_size, verbose, **kwargs)
        if not self._reads_texts:
            return found
        rows = self.read_inputs(x)
        task, tokenizer = self.task(), self.preprocessor.tokenizer
        seen = self.features(rows, None)[f"{self.task_name}_labels_mask"]
        num_seen = seen.sum(axis=-1).astype(int)
        has_tokens = iter(
            map(
                bool,
                task.word_tokens(
                    [word for words in rows for word in words], tokenizer
                ),
            )
        )
        longest = max(map(len, rows))
        answer = np.zeros((len(rows), longest, found.shape[-1]), found.dtype)
        for row, words in enumerate(rows):
            places = [
                place
                for place, counts in zip(
                    range(len(words)), has_tokens, strict=False
                )
                if counts or task.as_original
            ][: num_seen[row]]
            answer[row, places] = found[row, : len(places)]
        return answer

    def _texts_of(
        self, dataset: tf.data.Dataset, steps: int | None
    ) -> tuple[list[bytes], int]:
        """The texts of a dataset, and the rows of its batches."""
        self._mapped(dataset, with_labels=False)  # Refuses what has no texts.
        is_endless = dataset.cardinality() == tf.data.INFINITE_CARDINALITY
        if steps is None and is_endless:
            raise ValueError(
                "Expected steps, as the dataset does not end. Received: "
                "steps=None"
            )
        found = [
            (of[0] if isinstance(of, tuple) else of).numpy()
            for of in dataset.take(-1 if steps is None else steps)
        ]
        if not found:
            raise ValueError(
                "Expected x as a dataset with rows. Received: one without"
            )
        return np.concatenate(found).tolist(), len(found[0])

    def decode_predictions(self, predictions) -> list[list[str | None]]:
        """The names of the likeliest labels of all words.

        Args:
          predictions: Of `predict`, <float>[N, W, C].

        Returns:
          A list of names for each row, as long as its last word that the model
          saw; None for a word before it that it did not see.
        """
        predictions = self.check_predictions(predictions, "N", "W")
        found = []
        for row in predictions:
            is_seen = row.any(axis=-1)
            last = np.flatnonzero(is_seen)[-1] + 1 if is_seen.any() else 0
            found.append(
                [
                    self.labels[i] if seen else None
                    for i, seen in zip(
                        row[:last].argmax(axis=-1), is_seen, strict=False
                    )
                ]
            )
        return found


def _split_rows(x, name: str) -> list[list]:
    """Lists of words, or of labels, from lists and from texts."""

    def refused(name, received):
        return ValueError(
            f"Expected {name} as a list of rows, each a list of a value for "
            "every word, or a text with white space between them. Received: "
            f"{received}."
        )

    rows = []
    for row, value in enumerate(columns.listed(x, name, refused)):
        if hasattr(value, "tolist"):
            value = value.tolist()
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        if isinstance(value, str):
            value = value.split()
        if not isinstance(value, list | tuple):
            raise refused(name, f"{columns.short(value)} in row {row}")
        for part in value:
            if not isinstance(part, str | int | np.integer) or part == "":
                raise refused(name, f"{columns.short(part)} in row {row}")
        rows.append(list(value))
    return rows
