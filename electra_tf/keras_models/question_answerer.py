"""A model that finds the answer to a question in a context.

Shapes: N rows, B batch of windows, L length.
"""

import dataclasses
import re
import typing
import warnings
from collections.abc import Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from electra_tf import configs, errors
from electra_tf.keras_models import columns
from electra_tf.keras_models.task_model import TaskModel
from electra_tf.model import heads, task_head
from electra_tf.tasks import passages, question_answering
from electra_tf.text.tokenization import ENCODER_FEATURES
from electra_tf.training import replicas
from electra_tf.training.numpy_functions import numpy_function

# The inputs of an exported model.
INPUT_NAMES = ("question", "context")

# Of any dataset whose length is not known.
_KERAS_AT_THE_END = "Your input ran out of data"

# Types of the columns of a dataset.
_WHOLE, _REAL = (tf.int32, tf.int64), (tf.float32, tf.float64)

# Options that decide which layers a head has.
_OF_LAYERS = (
    *("joint_prediction", "answerable_classifier"),
    "answerable_uses_start_logits",
)

_EXPECTED = (
    "an answer for each context: its text, (text, start), SQuAD's {'text': "
    "[...], 'answer_start': [...]}, or '' for none"
)


@keras.saving.register_keras_serializable(package="electra_tf")
class QuestionAnswerer(TaskModel):
    """The span of a context that answers a question, or none.

        answerer = electra_tf.QuestionAnswerer.from_checkpoint(path)
        answerer.fit((questions, contexts), answers, epochs=2)
        answerer.decode_predictions(answerer.predict((questions, contexts)))

    Rows are a tuple of two columns, a DataFrame of two, or a dictionary of
    "question" and "context"; longer contexts are read in windows that overlap,
    each a row of a batch. An answer is a text, (text, start), where start
    counts the characters before it, or what SQuAD's files have. Without a start
    it is the first place where the text occurs, of whole words if it does so
    as such.

    A `tf.data.Dataset` has batches of (rows, answers) or (rows, answers,
    weights): rows (questions, contexts) or {"question": ..., "context": ...},
    answers texts, "" for none, or (texts, starts). Its windows are batched
    again, in their order, as many as it has rows in a batch. To count them,
    `fit` reads it once before, unless it is given `steps_per_epoch`.

    `predict` gives {"answer": <str>[N], "no_answer_score": <float32>[N]}, the
    latter high where the context has no answer. `evaluate` tells the loss and
    how often the likeliest start is the true one, of all windows; the official
    scores are those of the gin runs.

    Args:
      encoder: See `TaskModel`.
      preprocessor: See `TaskModel`.
      may_have_no_answer: Whether the model learns to tell that there is none.
      head: In place of that, all that is known of the head.
      **kwargs: See `TaskModel`.
    """

    kind = "question_answering"
    head_arguments = (
        "may_have_no_answer",
        *(f.name for f in dataclasses.fields(configs.QuestionAnsweringConfig)),
    )
    target_names = ("start_positions", "end_positions", "is_impossible")
    bookkeeping = ("eid", "doc_span_index")
    # The end is predicted from the start.
    teaches_in_evaluation = True

    def __init__(
        self,
        encoder,
        preprocessor=None,
        *,
        may_have_no_answer: bool = False,
        head: task_head.TaskHead | Mapping | None = None,
        **kwargs,
    ):
        super().__init__(
            encoder,
            _new_head(may_have_no_answer) if head is None else head,
            preprocessor,
            **kwargs,
        )

    @property
    def score_names(self):
        return ("start_accuracy",)

    @property
    def options(self) -> configs.QuestionAnsweringConfig:
        """How contexts are cut, and spans are chosen."""
        return self.head.question_answering

    @classmethod
    def head_for(cls, checkpoint, source, may_have_no_answer=None, **options):
        kept = cls.kept(checkpoint)
        if kept is None:
            return _new_head(bool(may_have_no_answer), **options), False
        has_it = kept.question_answering.answerable_classifier
        if may_have_no_answer not in (None, has_it):
            errors.warn(
                f"A new head with may_have_no_answer={may_have_no_answer}: "
                f"that of {source} has may_have_no_answer={has_it}"
            )
            return _new_head(may_have_no_answer, **options), False
        head = dataclasses.replace(kept, options=kept.options | options)
        configs.QuestionAnsweringConfig(**options)  # Refuses bad ones.
        layers = {name: kept.options.get(name) for name in _OF_LAYERS}
        if any(head.options.get(name) != layers[name] for name in _OF_LAYERS):
            errors.warn(
                f"A new head for {options}: that of {source} is for {layers}"
            )
            return _new_head(has_it, **options), False
        return head, True

    def compile(self, optimizer="auto", loss="auto", **kwargs):
        """See `TaskModel.compile`; the loss is the head's own."""
        metrics = kwargs.get("metrics", "auto")
        if loss not in ("auto", None) or metrics not in ("auto", None):
            raise ValueError(
                "Expected the loss and the metrics of question answering, "
                "'auto', whose predictions are no tensor. Received: loss="
                f"{loss!r}, metrics={metrics!r}"
            )
        super().compile(optimizer, loss, **kwargs)

    def answer(self, outputs):
        return dict(outputs)

    def task(self, has_no_answers: bool = True) -> "_RowsOfColumns":
        """The gin runs' task, which makes windows of rows."""
        return _RowsOfColumns(
            self.task_name, "", self.options, v2=has_no_answers
        )

    def read_inputs(self, x, name="x"):
        names = getattr(x, "columns", x if isinstance(x, Mapping) else ())
        if set(INPUT_NAMES) <= set(names):
            x = tuple(x[part] for part in INPUT_NAMES)
        elif isinstance(x, Mapping):
            raise ValueError(
                f"Expected {name} as a dictionary of question and context. "
                f"Received: one of {', '.join(map(str, x)) or 'nothing'}"
            )
        found = columns.texts(x, name)
        if len(found) != 2:
            raise ValueError(
                f"Expected {name} as questions and contexts, a tuple of two "
                "columns. Received: one column"
            )
        return tuple(
            [text.decode("utf-8", "replace") for text in texts]
            for texts in found
        )

    def features(self, inputs, y, name="y"):
        features = self._of_windows(inputs, y, name)
        if not len(features["input_ids"]):
            raise ValueError(
                "Expected contexts with words. Received: none with any"
            )
        if y is not None and not self.options.answerable_classifier:
            impossible = features[f"{self.task_name}_is_impossible"] > 0
            rows = self.rows_of_features(features, inputs)
            if num := len(np.unique(rows[impossible])):
                errors.warn(
                    f"{num} of {len(inputs[1])} rows have no answer in {name}, "
                    "which decode_predictions never says but with "
                    "may_have_no_answer=True"
                )
        return features

    def _of_windows(self, inputs, y, name):
        """`features`, which may be none."""
        answers = None if y is None else _answers(y, name, inputs)
        return self.task().features(
            self.task().examples(*inputs, answers),
            self.preprocessor.tokenizer,
            self.max_seq_length,
            is_training=y is not None,
        )

    def rows_of_features(self, features, inputs):
        return features[f"{self.task_name}_eid"] // passages.MAX_WINDOWS

    def _mapped(self, dataset, with_labels, class_weight=None, name="x"):
        """A dataset of batches of rows -> one of batches of windows.

        A batch has as many windows as one of the dataset has rows.
        """
        assert with_labels  # See `predict`.
        _check_dataset(dataset, name, with_labels)
        if class_weight is not None:
            self.weights_of_classes(class_weight, None)
        num_rows = _rows_of_a_batch(dataset, name)
        like = self._of_windows((["a"], ["a"]), [""], "y")
        if len(dataset.element_spec) > 2:
            like[self._sample_weight] = np.ones(1, np.float32)

        def windows(questions, contexts, texts, starts, weights):
            inputs = self.read_inputs((questions, contexts), name)
            answers = [text.decode("utf-8", "replace") for text in texts]
            if len(starts):
                answers = [
                    text and (text, start)
                    for text, start in zip(answers, starts, strict=True)
                ]
            found = self._of_windows(inputs, answers, "y")
            if len(weights):
                rows = self.rows_of_features(found, inputs)
                found[self._sample_weight] = weights[rows]
            return [
                found[n].astype(x.dtype).reshape(-1, *x.shape[1:])
                for n, x in like.items()
            ]

        def of_windows(x, y, weights=()):
            texts, starts = y if isinstance(y, tuple) else (y, ())
            found = numpy_function(
                windows,
                [
                    *_two_columns(x),
                    texts,
                    tf.cast(starts, tf.int64),
                    tf.cast(weights, tf.float32),
                ],
                [x.dtype for x in like.values()],
            )
            for values, expected in zip(found, like.values(), strict=True):
                values.set_shape([None, *expected.shape[1:]])
            return dict(zip(like, found, strict=True))

        def cut(batch):
            longest = tf.reduce_max(tf.reduce_sum(batch["input_mask"], -1))
            for of_tokens in ENCODER_FEATURES:
                batch[of_tokens] = batch[of_tokens][:, :longest]
            return self._of_keras(batch)

        def in_graph(function):
            return tf.autograph.experimental.do_not_convert(function)

        return (
            dataset.map(in_graph(of_windows), tf.data.AUTOTUNE)
            .unbatch()
            .batch(num_rows)
            .map(in_graph(cut))
            .prefetch(replicas.PREFETCHED_BATCHES)
        )

    def fit(self, x=None, y=None, *args, **kwargs):
        """See `TaskModel.fit`."""
        says_steps = columns.is_dataset(x) and kwargs.get("steps_per_epoch")
        with warnings.catch_warnings():
            if not says_steps:
                warnings.filterwarnings("ignore", _KERAS_AT_THE_END)
            return super().fit(x, y, *args, **kwargs)

    def evaluate(self, x=None, y=None, *args, **kwargs):
        """See `TaskModel.evaluate`."""
        with warnings.catch_warnings():
            if not kwargs.get("steps"):
                warnings.filterwarnings("ignore", _KERAS_AT_THE_END)
            return super().evaluate(x, y, *args, **kwargs)

    def num_batches(self, rows, dataset):
        if rows is dataset:  # Of ids.
            return super().num_batches(rows, dataset)
        # Who counts them must make them.
        if rows.cardinality() < 0 or not self._schedule_ends_with_fit:
            return None
        return int(dataset.reduce(np.int64(0), lambda count, *_: count + 1))

    def predict_step(self, data):
        outputs = super().predict_step(data)
        # One length for all batches.
        for of_tokens in ("start_logits", "end_logits"):
            missing = self.max_seq_length - tf.shape(outputs[of_tokens])[1]
            outputs[of_tokens] = tf.pad(
                outputs[of_tokens],
                [[0, 0], [0, missing]],
                constant_values=heads.DISALLOWED_LOGIT,
            )
        return outputs

    def predict(self, x, batch_size=None, verbose="auto", **kwargs):
        if self._reads_texts and columns.is_dataset(x):
            # Answers are cut out of the contexts, which somebody must keep.
            x, num_rows = _columns_of(x, kwargs.pop("steps", None))
            batch_size = num_rows if batch_size is None else batch_size
        if not self._reads_texts:
            return super().predict(x, batch_size, verbose, **kwargs)
        task, inputs = self.task(), self.read_inputs(x)
        examples = task.examples(*inputs)
        outputs = {}  # Without a word there is nothing to ask the model.
        if any(example.doc_tokens for example in examples):
            outputs = super().predict(x, batch_size, verbose, **kwargs)
        found = task.predict(
            outputs,
            examples,
            self.preprocessor.tokenizer,
            self.max_seq_length,
        )
        no_span = question_answering.NO_SPAN
        answers = [
            # As exported models have it.
            "" if text == no_span and no_span not in context else text
            for text, context in zip(
                found.texts.values(), inputs[1], strict=True
            )
        ]
        return {
            "answer": np.array(answers, object),
            "no_answer_score": np.array(
                list(found.null_odds.values()), np.float32
            ),
        }

    def decode_predictions(self, predictions) -> list[str]:
        """The answers; "" where the model tells that there is none.

        Args:
          predictions: Of `predict`.
        """
        if not isinstance(predictions, Mapping) or "answer" not in predictions:
            raise ValueError(
                "Expected what predict returns. Received: "
                f"{columns.short(predictions)}"
            )
        options = self.options
        most = options.qa_na_threshold
        return [
            "" if options.answerable_classifier and score > most else text
            for text, score in zip(
                predictions["answer"],
                predictions["no_answer_score"],
                strict=True,
            )
        ]


class _RowsOfColumns(question_answering.QuestionAnsweringTask):
    """The task, with questions and contexts in place of files."""

    may_be_empty = True

    def is_in(self, answer, words):
        # All spaces alike, where the original tells those that part words.
        return super().is_in(answer, " ".join(words).split())

    def examples(
        self,
        questions: Sequence[str],
        contexts: Sequence[str],
        answers: Sequence[tuple[str, int] | None] | None = None,
    ) -> list[passages.QuestionAnsweringExample]:
        """Examples of rows.

        Args:
          questions: N of them.
          contexts: As many.
          answers: Text and first character, None for none; to train on.

        Raises:
          ValueError: If an answer is not at its place.
        """
        found: list[passages.QuestionAnsweringExample] = []
        for row, (question, context) in enumerate(
            zip(questions, contexts, strict=True)
        ):
            qa: dict[str, typing.Any] = {"id": str(row), "question": question}
            if answers is not None:
                answer = answers[row]
                qa["is_impossible"] = answer is None
                if answer is not None:
                    qa["answers"] = [
                        {"text": answer[0], "answer_start": answer[1]}
                    ]
            paragraph = {"context": context, "qas": [qa]}
            self._add_examples(found, paragraph, answers is not None)
            if len(found) == row:
                assert answers is not None
                raise ValueError(
                    "Expected every answer in its context, at its start. "
                    f"Received: {answers[row]} in row {row}, whose context is "
                    f"{columns.short(context, 80)}"
                )
        return found


def _new_head(may_have_no_answer: bool, **options) -> task_head.TaskHead:
    config = configs.QuestionAnsweringConfig(
        **{
            "answerable_classifier": may_have_no_answer,
            "answerable_uses_start_logits": may_have_no_answer,
        }
        | options
    )
    kind = "question_answering"
    return task_head.TaskHead(kind, kind, options=dataclasses.asdict(config))


def _check_dataset(dataset, name: str, with_labels: bool) -> None:
    """Refuses a dataset of other rows than `QuestionAnswerer` reads."""
    spec = getattr(dataset, "element_spec", None)
    parts = spec if isinstance(spec, tuple) else (spec,)
    x, answers, weights = (*parts, None, None)[:3]

    def is_column(of, *dtypes):
        return (
            isinstance(of, tf.TensorSpec)
            and of.shape.rank == 1
            and of.dtype in dtypes
        )

    is_known = isinstance(dataset, tf.data.Dataset) and (
        isinstance(x, tuple)
        and len(x) == 2
        or isinstance(x, Mapping)
        and set(x) == set(INPUT_NAMES)
    )
    is_known = is_known and all(
        is_column(of, tf.string) for of in _two_columns(x)
    )
    if is_known and with_labels:
        texts, starts = answers, None
        if isinstance(answers, tuple) and len(answers) == 2:
            texts, starts = answers
        is_known = (
            len(parts) in (2, 3)
            and is_column(texts, tf.string)
            and (starts is None or is_column(starts, *_WHOLE))
            and (len(parts) == 2 or is_column(weights, *_WHOLE, *_REAL))
        )
    if not is_known:
        elements = "(rows,) or (rows, answers)"
        if with_labels:
            elements = "(rows, answers) or (rows, answers, weights)"
        raise ValueError(
            f"Expected {name} as a dataset of batches of {elements}: rows are "
            "(questions, contexts) or {'question': ..., 'context': ...}, "
            "answers texts or (texts, starts); such as "
            "tf.data.Dataset.from_tensor_slices(((questions, contexts), "
            "answers)).batch(32). Received: one of "
            f"{columns.short(spec, 200)}"
        )


def _two_columns(x) -> tuple:
    """Questions and contexts of an element of a dataset."""
    return tuple(x[n] for n in INPUT_NAMES) if isinstance(x, Mapping) else x


def _rows_of_a_batch(dataset: tf.data.Dataset, name: str) -> int:
    """How many rows a dataset's batches have; its first one is read."""
    column = tf.nest.flatten(dataset.element_spec)[0]
    for element in dataset.take(1) if column.shape[0] is None else ():
        column = tf.nest.flatten(element)[0]
    if not column.shape[0]:
        raise ValueError(
            f"Expected {name} as a dataset with rows. Received: one without"
        )
    return column.shape[0]


def _columns_of(dataset: tf.data.Dataset, steps: int | None):
    """Questions and contexts of a dataset, and the rows of its batches."""
    _check_dataset(dataset, "x", with_labels=False)
    if steps is None and dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
        raise ValueError(
            "Expected steps, as the dataset does not end. Received: steps=None"
        )
    parts = [
        _two_columns(element[0] if isinstance(element, tuple) else element)
        for element in dataset.take(-1 if steps is None else steps)
    ]
    if not parts:
        raise ValueError(
            "Expected x as a dataset with rows. Received: one without"
        )
    questions, contexts = (
        tf.concat(column, 0) for column in zip(*parts, strict=True)
    )
    return (questions, contexts), max(1, len(parts[0][0]))


def _answers(y, name: str, inputs) -> list[tuple[str, int] | None]:
    """Text and first character of each row's answer."""

    def refused(name, received):
        return ValueError(
            f"Expected {name} as {_EXPECTED}. Received: {received}."
        )

    values = columns.listed(y, name, refused)
    contexts = inputs[1]
    columns.check_rows(values, name, len(contexts))
    found: list[tuple[str, int] | None] = []
    for row, (value, context) in enumerate(zip(values, contexts, strict=True)):
        if isinstance(value, Mapping) and {"text", "answer_start"} <= set(
            value
        ):
            value = _first_of_squad(value)
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        if value is None or value == "":
            found.append(None)
            continue
        if isinstance(value, str):
            value = (value, _place(value, context))
        if (
            not isinstance(value, tuple | list)
            or len(value) != 2
            or not isinstance(value[0], str)
            or not isinstance(value[1], int | np.integer)
        ):
            raise refused(name, f"{columns.short(value)} in row {row}")
        if not value[0]:
            # As in a dataset, where each row has a start.
            found.append(None)
            continue
        if not value[0].strip():
            raise refused(
                name,
                f"{value[0]!r} in row {row}, which has no characters: '' is "
                "for none",
            )
        if value[1] < 0:
            raise refused(
                name,
                f"{value[0]!r} in row {row}, which does not occur in "
                f"{columns.short(context, 80)}",
            )
        found.append((value[0], int(value[1])))
    return found


def _first_of_squad(answers: Mapping):
    """The first of SQuAD's answers, as the gin runs learn; "" for none.

    Args:
      answers: "text" and "answer_start", of several answers or of one.

    Returns:
      A text and its first character; `answers` where they are neither.
    """
    texts, starts = answers["text"], answers["answer_start"]
    if isinstance(texts, str | bytes):
        texts, starts = [texts], [starts]
    if not all(
        isinstance(of_all, Sequence | np.ndarray) for of_all in (texts, starts)
    ) or len(texts) != len(starts):
        return answers
    return (texts[0], starts[0]) if len(texts) else ""


def _place(answer: str, context: str) -> int:
    """The first character of an answer's first occurrence; -1 if there is none.

    Of those that are no part of a longer word or number, if there are such.
    """
    whole = re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", context)
    return whole.start() if whole else context.find(answer)
