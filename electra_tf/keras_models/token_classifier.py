"""A model that says something of every word.

Shapes: N rows, B batch, L length, W words of the longest row, C labels.
"""

import itertools

import keras
import numpy as np
import tensorflow as tf

from electra_tf import errors
from electra_tf.keras_models import inputs
from electra_tf.keras_models.engine_model import EngineModel
from electra_tf.model import task_head
from electra_tf.tasks import conll, tag_schemes, tagging

Words = list[list[str]]


@keras.saving.register_keras_serializable(package="electra_tf")
class TokenClassifier(EngineModel):
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
    that no token has. Other arguments are those of `TaskModel`.

    Args:
      labels: Names or numbers, in the order of the outputs; or how many.
    """

    kinds = ("tagging",)
    head_arguments = ("labels",)
    target_names = ("labels",)
    target_rank = 2
    score_names = ("accuracy",)

    @property
    def labels(self):
        """Names of the outputs' labels, a command's in the scheme of its file,
        in which several outputs may have the same."""
        return self.head.tags or super().labels

    @classmethod
    def new_head(cls, kept, labels=None):
        if labels is None:
            return kept
        names, segment = inputs.label_names(labels), task_head.TAGGING_SEGMENT
        return task_head.TaskHead(
            "tagging", "tagging", names, len(names), segment=segment
        )

    def answer(self, outputs):
        return tf.nn.softmax(outputs["logits"])

    def compile(self, optimizer="auto", loss="auto", **kwargs):
        """See `EngineModel.compile`; `weighted_metrics` leave padding out."""
        metrics = kwargs.get("metrics", "auto")
        if metrics and metrics != "auto":
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
            is_token_level=self.head.tags == self.head.labels,
            as_original=self.head.as_original,
            labels=self._labels.names,
        )
        task.form = self.head.options.get("form") or task.form
        task.segment = self.head.segment_of_words()
        return task

    def read_inputs(self, x, name="x") -> Words:
        rows = _split_rows(list(x) if isinstance(x, tuple) else x, name)
        for row, words in enumerate(rows):
            if not all(isinstance(word, str) for word in words):
                raise ValueError(
                    f"Expected words as strings in {name}. Received: "
                    f"{inputs.short(words)} in row {row}"
                )
        return rows

    def features(self, rows, y, name="y"):
        task = self.task()
        labels = [[self._labels.names[-1]] * len(words) for words in rows]
        if y is not None:
            labels = _split_rows(y, name)
            inputs.rows(labels, name, len(rows))
        examples = []
        for row, (words, tags) in enumerate(zip(rows, labels, strict=True)):
            if len(words) != len(tags):
                raise ValueError(
                    f"Expected a label for each word in {name}. Received: "
                    f"{len(tags)} labels for the {len(words)} words of row "
                    f"{row}"
                )
            names = self._names(tags, task, name, row)
            examples.append(tagging.TaggingExample(row, tuple(words), names))
        features = task.features(
            examples, self.preprocessor.tokenizer, self.max_seq_length
        )
        self.remark(features, others=itertools.chain(*rows))
        task.look_at("x" if y is None else name, examples, features)
        if y is None:
            del features[f"{self.task_name}_labels"]
        return features

    def _names(self, tags: list, task, name: str, row: int) -> tuple[str, ...]:
        """A row's labels as the head has them; spans are in any scheme."""
        none = tagging.NO_LABEL
        tags = [none if tag == int(none) else tag for tag in tags]
        if not task.is_token_level and all(isinstance(t, str) for t in tags):
            sentence = conll.Sentence((), tuple(tags), row)
            tags = task.labels_of_tags(sentence, name)
        return tuple(
            none
            if tag == none and not task.as_original
            else self._labels.names[self._labels.known(tag, name, row)]
            for tag in tags
        )

    def predict_step(self, data):
        answer = super().predict_step(data)
        # One length for all batches.
        missing = self.max_seq_length - tf.shape(answer)[1]
        return tf.pad(answer, [[0, 0], [0, missing], [0, 0]])

    def answers(self, outputs, rows, features):
        # What is said of tokens belongs to words, which are in the texts.
        seen = features[f"{self.task_name}_labels_mask"]
        num_seen = seen.sum(axis=-1).astype(int)
        task = self.task()
        # Words without a token were not seen; the original's have one each.
        all_words = [word for words in rows for word in words]
        tokens = task.word_tokens(all_words, self.preprocessor.tokenizer)
        is_read = np.array([bool(t) or task.as_original for t in tokens])
        lengths = [len(words) for words in rows]
        shape = len(rows), max(lengths), outputs.shape[-1]
        answer = np.zeros(shape, outputs.dtype)
        tokens_of_rows = np.split(is_read, np.cumsum(lengths)[:-1])
        for row, (is_token, number) in enumerate(
            zip(tokens_of_rows, num_seen, strict=True)
        ):
            places = np.flatnonzero(is_token)[:number]
            answer[row, places] = outputs[row, : len(places)]
        return answer

    def decode_predictions(self, predictions) -> list[list]:
        """The likeliest labels of all words, as they were given.

        Args:
          predictions: Of `predict`, <float>[N, W, C].

        Returns:
          A list of labels for each row, as long as its last word that the model
          saw; None for a word before it that it did not see.
        """
        answers, labels = [], self.given_labels
        names, form = self.head.labels or (), self.head.options.get("form")
        for row in np.asarray(predictions):
            is_seen = row.any(axis=-1)
            last = max(np.flatnonzero(is_seen), default=-1) + 1
            best = list(zip(row[:last].argmax(axis=-1), is_seen, strict=False))
            answer = [labels[i] if seen else None for i, seen in best]
            if self.head.scheme == "IOB1":
                tags = [names[i] if seen else "" for i, seen in best]
                tags = tag_schemes.in_scheme(tags, "IOB1", form or "B-PER")
                answer = [tag or None for tag in tags]
            answers.append(answer)
        return answers


def _split_rows(x, name: str) -> list[list]:
    """Lists of words, or of labels, from lists and from texts."""
    rows = []
    for row, value in enumerate(inputs.rows(x, name)):
        if hasattr(value, "tolist"):
            value = value.tolist()
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        if isinstance(value, str):
            value = value.split()
        if not isinstance(value, list | tuple):
            raise ValueError(
                f"Expected {name} as a list of rows, each a list of a value "
                "for every word, or a text with white space between them. "
                f"Received: {inputs.short(value)} in row {row}"
            )
        rows.append([v.decode() if isinstance(v, bytes) else v for v in value])
    return rows
