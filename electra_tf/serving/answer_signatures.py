"""Signatures of question answering.

What `tasks.question_answering` does for evaluation, in the graph: a
long context is cut into windows that overlap, and what the model says about the
windows of a question becomes one answer.

Shapes: Q questions, W windows of all questions, L length, K beams, N answers.
"""

import typing

import tensorflow as tf

from electra_tf.serving import inputs
from electra_tf.serving import signatures as signatures_lib
from electra_tf.serving.exportable import Source
from electra_tf.serving.inputs import Tensors

# Windows of one context that are read; what is behind them is not.
MAX_WINDOWS = 32

# Of an answer that is not there, and minus that of having none. The latter is
# the original's score before it has seen a window.
_NO_ANSWER_SCORE = -1000000.0

# The head compares every token with every start: fewer tokens at once.
_TOKENS_AT_ONCE = 2**12


class _Windows(typing.NamedTuple):
    """Windows of all questions, those of the first question first."""

    counts: tf.Tensor  # <int32>[Q], windows of each question.
    most: tf.Tensor  # <int32>[], the greatest of these, at least 1.
    question: tf.Tensor  # <int32>[W], whose window it is.
    number: tf.Tensor  # <int32>[W], which of the question's it is, from 0.
    start: tf.Tensor  # <int32>[W], the context's token that it begins with.
    end: tf.Tensor  # <int32>[W], the one behind its last.
    first_position: tf.Tensor  # <int32>[W], where the context begins in it.
    step: tf.Tensor  # <int32>[W], tokens between the starts of two windows.
    room: tf.Tensor  # <int32>[W], tokens of the context that fit into it.
    num_tokens: tf.Tensor  # <int32>[W], tokens of the context.
    truncated: tf.Tensor  # <bool>[Q], whether tokens are behind the last one.


class QuestionAnswerer(signatures_lib.ServedModel):
    """The span of a context that answers a question.

    `serving_default` takes `question` and `context` <string>[Q] and returns
    the best span as `answer` <string>[Q], its `score` <float32>[Q], the sum of
    the logarithms of the probabilities of start and end (without joint
    prediction, of their logits), and `start` and `end` <int32>[Q], offsets of
    characters, so that answer == context[start:end] in Python;
    `no_answer_score` <float32>[Q], which is high where the context has no
    answer, and `answerable` <bool>[Q], whether it does not exceed the threshold
    of the evaluation; and `answers`, `scores`, `starts` and `ends` [Q, N], the
    best spans, best first; and `truncated`, whether the context was not read to
    its end. A span that is not there is "", -1000000, -1 and -1.
    Where the model cleans its texts, `cleaned_text` <string>[Q] is the context
    that the offsets refer to.

    `tokens` returns what the head says of a packed question and context.
    """

    TOKENS_AT_ONCE = _TOKENS_AT_ONCE

    def __init__(self, source: Source):
        config = source.head.question_answering
        self.config = config
        num_best = (
            config.beam_size if config.joint_prediction else config.n_best_size
        )
        self.num_answers = min(config.n_best_size, num_best**2)
        # Every question leaves room for a token of the context.
        self.max_query_length = min(
            config.max_query_length, source.max_seq_length - 4
        )
        super().__init__(source)
        self.input_names = ("question", "context")

    def example_inputs(self):
        contexts = super().example_inputs()["context"]
        questions = ["Who cooked the meal?"] * len(contexts)
        return {"question": questions, "context": contexts}

    def answer_texts(self, question, context):
        check = inputs.check_same_size(question, context)
        with tf.control_dependencies([check]):
            context = tf.strings.unicode_transcode(
                context, "UTF-8", "UTF-8", errors="ignore"
            )
        context, cleaned = self.clean(context)
        question, _ = self.clean(question)
        both = tf.concat([question, context], axis=0)
        num_questions = tf.shape(question)[0]
        ids, *offsets = self.plain_tokenizer.tokenize_with_offsets(both)
        query = ids[:num_questions, : self.max_query_length]
        passage = ids[num_questions:]
        windows = self._windows(query, passage)
        # [CLS] question [SEP] part [SEP] for each window.
        first = tf.gather(
            tf.cast(passage.row_starts(), tf.int32), windows.question
        )
        part = inputs.ranges(
            passage.flat_values, first + windows.start, first + windows.end
        )
        outputs = self._run(
            self.tokenizer.pack_inputs(
                [tf.gather(query, windows.question), part],
                self._source.max_seq_length,
            )
        )
        offsets = [x[num_questions:] for x in offsets]
        return self._answers(windows, outputs, context, offsets) | cleaned

    def _windows(self, query, passage) -> _Windows:
        """Where to cut the contexts; as `QuestionAnsweringTask.windows`."""
        query_length = tf.cast(query.row_lengths(), tf.int32)
        num_tokens = tf.cast(passage.row_lengths(), tf.int32)
        room = self._source.max_seq_length - 3 - query_length
        step = tf.minimum(room, self.config.doc_stride)
        more = tf.maximum(0, num_tokens - room)
        counts = tf.where(num_tokens > 0, 1 - (-more // step), 0)
        truncated = counts > MAX_WINDOWS
        counts = tf.minimum(counts, MAX_WINDOWS)
        question = tf.repeat(tf.range(tf.shape(counts)[0]), counts)
        number = tf.ragged.range(counts).flat_values
        query_length, step, room, num_tokens = (
            tf.gather(values, question)
            for values in (query_length, step, room, num_tokens)
        )
        start = number * step
        return _Windows(
            counts=counts,
            most=tf.reduce_max(tf.concat([counts, [1]], axis=0)),
            question=question,
            number=number,
            start=start,
            end=tf.minimum(start + room, num_tokens),
            first_position=2 + query_length,
            step=step,
            room=room,
            num_tokens=num_tokens,
            truncated=truncated,
        )

    def _candidates(self, windows: _Windows, outputs: Tensors):
        """Scores, -inf where not allowed, first and last tokens; [W, K, K]."""
        config = self.config
        if config.joint_prediction:
            starts = outputs["start_top_index"][:, :, tf.newaxis]
            ends = outputs["end_top_index"]
            start_scores = outputs["start_top_log_probs"][:, :, tf.newaxis]
            end_scores = outputs["end_top_log_probs"]
        else:
            # Padding ranks below every position that may hold an answer.
            least = [[0, 0], [0, config.n_best_size]]
            best_starts, best_ends = (
                tf.nn.top_k(
                    tf.pad(outputs[name], least, constant_values=-1e9),
                    config.n_best_size,
                )
                for name in ("start_logits", "end_logits")
            )
            starts = best_starts.indices[:, :, tf.newaxis]
            start_scores = best_starts.values[:, :, tf.newaxis]
            ends = best_ends.indices[:, tf.newaxis]
            end_scores = best_ends.values[:, tf.newaxis]

        def column(values):
            return values[:, tf.newaxis, tf.newaxis]

        offset = column(windows.start - windows.first_position)
        first, last = starts + offset, ends + offset
        is_allowed = (
            (first >= column(windows.start))
            & (last < column(windows.end))
            & (last >= first)
            & (last - first < config.max_answer_length)
            & self._has_most_context(windows, first)
        )
        scores = tf.where(is_allowed, start_scores + end_scores, -float("inf"))
        tokens = (tf.broadcast_to(x, tf.shape(scores)) for x in (first, last))
        return scores, *tokens

    def _has_most_context(self, windows: _Windows, token: tf.Tensor):
        """Whether no window shows more around tokens <int32>[W, K, 1]."""
        # The context is the smaller one of those on both sides, plus 1/100 of
        # the window's length; of equals the first window counts. From BERT.
        count, step, room, num_tokens = (
            values[:, tf.newaxis, tf.newaxis]
            for values in (
                tf.gather(windows.counts, windows.question),
                windows.step,
                windows.room,
                windows.num_tokens,
            )
        )
        # Every window of the same question, <int32>[W, 1, most].
        number = tf.range(windows.most)
        start = number * step
        end = tf.minimum(start + room, num_tokens)
        inside = (number < count) & (token >= start) & (token < end)
        # In float64, as numpy has it, so that ties are the same.
        context = tf.cast(
            tf.minimum(token - start, end - 1 - token), tf.float64
        ) + 0.01 * tf.cast(end - start, tf.float64)
        context = tf.where(inside, context, -float("inf"))
        owner = tf.argmax(context, axis=-1, output_type=tf.int32)
        mine = windows.number[:, tf.newaxis]
        return tf.equal(owner, mine)[:, :, tf.newaxis]

    def _answers(self, windows, outputs, context, offsets):
        """The best candidates of each question, as text."""

        def by_question(values, padding=0):
            """[W, K, K] -> [Q, at least N], windows one behind another."""
            size = values.shape[1] * values.shape[2]
            return tf.RaggedTensor.from_row_lengths(
                tf.reshape(values, [-1]), windows.counts * size, validate=False
            ).to_tensor(padding, shape=tf.stack([-1, windows.most * size]))

        scores, *tokens = self._candidates(windows, outputs)
        scores = by_question(scores, -float("inf"))
        # Of equals the first window's, then the likelier start's: its order.
        best = tf.nn.top_k(scores, self.num_answers)
        exists = best.values > -float("inf")
        start, end = (
            self._characters(
                values,
                tf.gather(by_question(pairs), best.indices, batch_dims=1),
                exists,
            )
            for values, pairs in zip(offsets, tokens, strict=True)
        )
        scores = tf.where(exists, best.values, _NO_ANSWER_SCORE)
        copies = tf.repeat(context[:, tf.newaxis], self.num_answers, axis=1)
        answers = tf.strings.substr(
            copies,
            tf.where(exists, start, 0),
            tf.where(exists, end - start, 0),
            unit="UTF8_CHAR",
        )
        no_answer_score = self._no_answer_score(
            windows, outputs, tf.where(exists[:, 0], best.values[:, 0], 0.0)
        )
        return {
            "answer": answers[:, 0],
            "score": scores[:, 0],
            "start": start[:, 0],
            "end": end[:, 0],
            "no_answer_score": no_answer_score,
            "answerable": exists[:, 0]
            & (no_answer_score <= self.config.qa_na_threshold),
            "answers": answers,
            "scores": scores,
            "starts": start,
            "ends": end,
            signatures_lib.TRUNCATED: windows.truncated,
        }

    def _characters(self, offsets, tokens, exists):
        """Offsets of the characters of <int32>[Q, N] tokens, or -1."""
        rows = tf.cast(offsets.row_starts(), tf.int32)[:, tf.newaxis]
        index = tf.where(exists, rows + tokens, 0)
        # Something to look up where no context has a token.
        values = tf.concat([offsets.flat_values, [0]], axis=0)
        return tf.where(exists, tf.gather(values, index), -1)

    def _no_answer_score(self, windows, outputs, best_score):
        """The least score of the windows, <float32>[Q]; from the original."""
        if self.config.answerable_classifier:
            scores, best_score = outputs["answerable_logit"], 0.0
        else:
            scores = outputs["start_logits"][:, 0] + outputs["end_logits"][:, 0]
        least = tf.math.unsorted_segment_min(
            scores, windows.question, tf.shape(windows.counts)[0]
        )
        return tf.minimum(least, -_NO_ANSWER_SCORE) - best_score
