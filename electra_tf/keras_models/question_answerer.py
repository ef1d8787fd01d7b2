"""A model that finds the answer to a question in a context.

Shapes: N rows, B batch of windows, L length.
"""

import dataclasses
import itertools
import re
import typing
from collections.abc import Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from electra_tf import configs, errors
from electra_tf.keras_models import inputs
from electra_tf.keras_models.engine_model import EngineModel
from electra_tf.model import heads, task_head
from electra_tf.tasks import passages, question_answering, tables

# Options that decide which layers a head has.
_OF_ANSWERABLE = ("answerable_classifier", "answerable_uses_start_logits")
_OF_LAYERS = ("joint_prediction", *_OF_ANSWERABLE)


@keras.saving.register_keras_serializable(package="electra_tf")
class QuestionAnswerer(EngineModel):
    """The span of a context that answers a question, or none.

        answerer = electra_tf.QuestionAnswerer.from_checkpoint(path)
        answerer.fit((questions, contexts), answers, epochs=2)
        answerer.decode_predictions(answerer.predict((questions, contexts)))

    Rows are a tuple of two columns, a DataFrame of two, a dictionary of
    "question" and "context", or a list of such rows, with "answers"; longer
    contexts are read in windows that overlap, each a row of a batch. An answer
    is a text, (text, start), where start counts the characters before it, or
    what SQuAD's files have. Without a start it is the first place where the
    text occurs, of whole words if it does so as such.

    A `tf.data.Dataset` has batches of (rows, answers) or (rows, answers,
    weights), answers also as (texts, starts).

    `predict` gives {"answer": <str>[N], "no_answer_score": <float32>[N]}, the
    latter high where the context has no answer. `evaluate` tells the loss and
    how often the likeliest start is the true one, of all windows; the official
    scores are those of the gin runs. Other arguments are those of `TaskModel`.

    Args:
      may_have_no_answer: Whether the model learns to tell that there is none.
    """

    kinds = ("question_answering",)
    head_arguments = (
        "may_have_no_answer",
        *(f.name for f in dataclasses.fields(configs.QuestionAnsweringConfig)),
    )
    target_names = ("start_positions", "end_positions", "is_impossible")
    bookkeeping = ("eid", "doc_span_index")
    score_names = ("start_accuracy",)
    # The end is predicted from the start.
    teaches_in_evaluation = True

    def __init__(
        self,
        encoder,
        preprocessor=None,
        *,
        may_have_no_answer: bool | None = None,
        **kwargs,
    ):
        kwargs |= {"may_have_no_answer": may_have_no_answer}
        super().__init__(encoder, None, preprocessor, **kwargs)

    @property
    def options(self) -> configs.QuestionAnsweringConfig:
        """How contexts are cut, and spans are chosen."""
        return self.head.question_answering

    @classmethod
    def new_head(cls, kept, may_have_no_answer=None, **options):
        answerable = dict.fromkeys(_OF_ANSWERABLE, bool(may_have_no_answer))
        if kept is None:
            config = configs.QuestionAnsweringConfig(**(answerable | options))
            options, kind = dataclasses.asdict(config), cls.kinds[0]
            return task_head.TaskHead(kind, kind, options=options)
        if may_have_no_answer is not None:
            options = answerable | options
        return dataclasses.replace(kept, options=kept.options | options)

    @classmethod
    def layers_of(cls, head):
        return {name: head.options.get(name) for name in _OF_LAYERS}

    def answer(self, outputs):
        return dict(outputs)

    def task(self) -> "_RowsOfColumns":
        """The gin runs' task, which makes windows of rows."""
        return _RowsOfColumns(self.task_name, "", self.options, v2=True)

    def read_inputs(self, x, name="x"):
        columns = inputs.texts(x, name)
        if len(columns) != 2:
            raise ValueError(
                f"Expected {name} as questions and contexts, a tuple of two "
                "columns or a dictionary. Received: one column"
            )
        return tuple(
            [text.decode("utf-8", "replace") for text in texts]
            for texts in columns
        )

    def features(self, rows, y, name="y"):
        answers = None if y is None else _answers(y, name, rows)
        features = self.task().features(
            self.task().examples(*rows, answers),
            self.preprocessor.tokenizer,
            self.max_seq_length,
            is_training=y is not None,
        )
        self.remark(features, others=itertools.chain(*rows))
        if y is not None and not len(features["input_ids"]):
            raise ValueError(
                "Expected contexts with words. Received: none with any"
            )
        if y is not None and not self.options.answerable_classifier:
            impossible = features[f"{self.task_name}_is_impossible"] > 0
            without = self.rows_of_features(features)[impossible]
            if num := len(np.unique(without)):
                errors.warn(
                    f"{num} of {len(rows[1])} rows have no answer in {name}, "
                    "which decode_predictions never says but with "
                    "may_have_no_answer=True"
                )
        return features

    def rows_of_features(self, features):
        return features[f"{self.task_name}_eid"] // passages.MAX_WINDOWS

    def predict_step(self, data):
        outputs = super().predict_step(data)
        # One length for all batches.
        for name in ("start_logits", "end_logits"):
            missing = self.max_seq_length - tf.shape(outputs[name])[1]
            outputs[name] = tf.pad(
                outputs[name],
                [[0, 0], [0, missing]],
                constant_values=heads.DISALLOWED_LOGIT,
            )
        return outputs

    def answers(self, outputs, rows, features):
        # Answers are cut out of the contexts.
        task = self.task()
        spans = task.predict(
            outputs,
            task.examples(*rows),
            self.preprocessor.tokenizer,
            self.max_seq_length,
        )
        no_span = question_answering.NO_SPAN
        answers = [
            # As exported models have it.
            "" if text == no_span and no_span not in context else text
            for text, context in zip(spans.texts.values(), rows[1], strict=True)
        ]
        return {
            "answer": np.array(answers, object),
            "no_answer_score": np.array(
                list(spans.null_odds.values()), np.float32
            ),
        }

    def decode_predictions(self, predictions) -> list[str]:
        """The answers; "" where the model tells that there is none.

        Args:
          predictions: Of `predict`.
        """
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
        """Examples of rows."""
        examples: list[passages.QuestionAnsweringExample] = []
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
            self._add_examples(examples, paragraph, answers is not None)
            if len(examples) == row:
                assert answers is not None
                raise ValueError(
                    "Expected every answer in its context, at its start. "
                    f"Received: {answers[row]} in row {row}, whose context is "
                    f"{inputs.short(context, 80)}"
                )
        return examples


def _answers(y, name: str, rows) -> list[tuple[str, int] | None]:
    """Text and first character of each row's answer."""
    answers = []
    values = inputs.rows(tables.rows_of(y), name, len(rows[1]))
    for row, (value, context) in enumerate(zip(values, rows[1], strict=True)):
        try:
            answers.append(_answer(value, context))
        except (TypeError, ValueError, KeyError):
            raise ValueError(
                f"Expected {name} as an answer in each context: its text, "
                "(text, start), SQuAD's {'text': [...], 'answer_start': [...]},"
                f" or '' for none. Received: {inputs.short(value)} in row {row}"
                f", whose context is {inputs.short(context, 80)}"
            ) from None
    return answers


def _answer(value, context: str) -> tuple[str, int] | None:
    """The first answer of any form; without a start it is looked for."""
    if isinstance(value, list) and all(isinstance(v, Mapping) for v in value):
        value = value[0] if value else ""
    if isinstance(value, Mapping):
        columns = (np.atleast_1d(value[n]) for n in ("text", "answer_start"))
        value = next(zip(*columns, strict=True), "")
    text, start = value if isinstance(value, tuple | list) else (value, None)
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    if text is None or text == "":
        return None  # In a dataset each row has a start.
    if start is None:
        # Of whole words, if it occurs as such.
        whole = re.search(rf"(?<!\w){re.escape(text)}(?!\w)", context)
        start = whole.start() if whole else context.index(text)
    if not text.strip() or start < 0:
        raise ValueError
    return str(text), int(start)
