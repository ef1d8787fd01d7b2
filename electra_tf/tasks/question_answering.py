"""Question answering: a span of a passage, or no answer.

A long passage is cut into overlapping windows, each a row for the model. What
the model says about the windows of a question becomes one text.

Shapes: N windows, L length, K beams.
"""

import bisect
import collections
import dataclasses
import os
import pathlib
import reprlib
import typing
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from electra_tf.configs import QuestionAnsweringConfig
from electra_tf.model import heads
from electra_tf.tasks import answers as answers_lib
from electra_tf.tasks import features as features_lib
from electra_tf.tasks import passages
from electra_tf.tasks.task import Task
from electra_tf.text import tokenization

# The original's score of no answer before it has seen a window.
_NO_WINDOW_SCORE = 1000000.0
# The answer where no window holds one that is allowed; as in the original.
NO_SPAN = "empty"


class Predictions(typing.NamedTuple):
    """Answers by the id of the question.

    Attributes:
      texts: The best answer, even where there is more likely none.
      null_odds: How much speaks for no answer; empty if all have one.
    """

    texts: dict[str, str]
    null_odds: dict[str, float]


class QuestionAnsweringTask(Task):
    """A task with answers in passages.

    Args:
      name: See `Task`.
      data_dir: Folder with a file for each split: <split>.json in SQuAD's
        layout or of rows, or <split>.jsonl, see `passages.read`.
      config: The options.
      v2: Whether questions may have no answer (SQuAD 2.0).
      is_mrqa: Whether the files are MRQA's.
      is_korean: Whether answers are scored as in KorQuAD.

    Attributes:
      may_be_empty: Whether examples without a word of a passage are features
        without rows, and no error.
    """

    may_be_empty = False
    main_metric = "f1"

    def __init__(
        self,
        name: str,
        data_dir: str | os.PathLike,
        config: QuestionAnsweringConfig | None = None,
        v2: bool = False,
        is_mrqa: bool = False,
        is_korean: bool = False,
    ):
        super().__init__(name)
        if not is_korean:
            answers_lib.require_scripts()
        self.data_dir = pathlib.Path(data_dir)
        self.config = config or QuestionAnsweringConfig()
        self.v2 = v2
        self.is_mrqa = is_mrqa
        self.is_korean = is_korean
        # What was predicted last of each list of examples, and from what.
        self._last: dict[int, tuple[dict, Predictions]] = {}

    def splits(self):
        names = ("train", "dev", "test")
        return [s for s in names if tf.io.gfile.exists(self._path(s))]

    def has_labels(self, split):
        if not split.startswith("test"):
            return True
        return any(example.answers for example in self.read_examples(split))

    def _path(self, split: str) -> str:
        path = os.fspath(self.data_dir / f"{split}.json")
        has_lines = self.is_mrqa or (
            not tf.io.gfile.exists(path) and tf.io.gfile.exists(f"{path}l")
        )
        return f"{path}l" if has_lines else path

    def texts_of(self, example):
        return example.question_text, " ".join(example.doc_tokens)

    def read_examples(self, split):
        """See `Task.read_examples`.

        For training, questions are left out whose answer is not in the passage
        at the place given, as in the original.
        """
        path = self._path(split)
        is_training = split == "train"
        id_name = "qid" if self.is_mrqa else "id"
        examples: list[passages.QuestionAnsweringExample] = []
        num_questions = 0
        for place, paragraph in passages.read(path, self.is_mrqa):
            where = f"{path!r}, {place}"
            try:
                passages.check(paragraph, where, id_name, self.v2, is_training)
                self._add_examples(examples, paragraph, is_training)
                num_questions += len(paragraph["qas"])
            except (AttributeError, LookupError, TypeError) as error:
                raise ValueError(
                    f"Expected {'MRQA' if self.is_mrqa else 'SQuAD'}'s layout. "
                    f"Received: {where}, with {error!r}."
                ) from None
        if not examples:
            raise ValueError(
                f"Expected questions. Received: none in {path!r} that can be "
                "used."
            )
        if num_lost := num_questions - len(examples):
            self.warn(
                f"{split}: {num_lost} of {num_questions} questions are left "
                "out: their answer is not where the file says"
            )
        return examples

    def _add_examples(self, examples, paragraph, is_training) -> None:
        context = paragraph["context"]
        words = list(passages.WORD.finditer(context))
        word_starts = [word.start() for word in words]
        doc_tokens = [word.group() for word in words]

        def word_at(offset: int) -> int:
            # As in the original, which asks a list by it: from its end.
            offset += len(context) if offset < 0 else 0
            return bisect.bisect_right(word_starts, offset) - 1

        for qa in paragraph["qas"]:
            known: dict = {}
            if is_training and self.v2 and qa["is_impossible"]:
                text, start, end = "", -1, -1
                known["is_impossible"] = True
            elif is_training:
                offset, text = passages.learned_answer(qa)
                last = offset + len(text) - 1
                places = range(-len(context), len(context))
                if offset not in places or last not in places:
                    continue
                start, end = word_at(offset), word_at(last)
                if not self.is_in(text, doc_tokens[start : end + 1]):
                    continue
            if is_training:
                known["orig_answer_text"] = text
                known |= {"start_position": start, "end_position": end}
            # One of no characters stands for none where there is none.
            texts = (
                text
                for text in passages.texts_of(qa)
                if text or not qa.get("is_impossible")
            )
            ids = {"qas_id": qa.get("id"), "qid": qa.get("qid")}
            ids = {k: None if v is None else str(v) for k, v in ids.items()}
            examples.append(
                passages.QuestionAnsweringExample(
                    eid=len(examples),
                    question_text=qa["question"],
                    doc_tokens=doc_tokens,
                    answers=tuple(texts),
                    **ids,
                    **known,
                )
            )

    def is_in(self, answer: str, words: Sequence[str]) -> bool:
        """Whether an answer is in the words from its first to its last.

        As in the original, one with a space that parts no words, such as
        U+3000, is not.
        """
        return " ".join(answer.split()).lower() in " ".join(words).lower()

    # --- Features -------------------------------------------------------------

    def windows(
        self,
        examples: Sequence[passages.QuestionAnsweringExample],
        tokenizer: tokenization.FullTokenizer,
        max_seq_length: int,
        is_training: bool = False,
    ) -> Iterator[passages.Window]:
        """The windows of all questions, in order; takes what `features` takes.

        Raises:
          ValueError: If a question leaves no room for the passage, or gets too
            many windows.
        """
        config = self.config
        questions = features_lib.tokenize_all(
            [example.question_text for example in examples], tokenizer
        )
        answers = features_lib.tokenize_all(
            [example.orig_answer_text or "" for example in examples],
            tokenizer,
        )
        words = list(dict.fromkeys(w for e in examples for w in e.doc_tokens))
        ids = features_lib.tokenize_all(words, tokenizer)
        ids_of = dict(zip(words, ids, strict=True))
        cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
        for example, question, answer in zip(
            examples, questions, answers, strict=True
        ):
            question = question[: config.max_query_length]
            prefix = [cls, *question, sep]
            room = max_seq_length - len(prefix) - 1
            word_pieces = [ids_of[word] for word in example.doc_tokens]
            tokens = [token for pieces in word_pieces for token in pieces]
            token_to_orig = [
                index
                for index, pieces in enumerate(word_pieces)
                for _ in pieces
            ]
            span = None
            if is_training and not example.is_impossible:
                span = _answer_span(example, tokens, token_to_orig, answer)
            parts = []
            if room > 0:
                parts = passages.parts(len(tokens), room, config.doc_stride)
            if room < 1 or len(parts) > passages.MAX_WINDOWS:
                raise ValueError(
                    "Expected max_seq_length and doc_stride that read a "
                    f"passage in at most {passages.MAX_WINDOWS} windows behind "
                    f"its question of {len(question)} tokens. Received: "
                    f"max_seq_length={max_seq_length} and doc_stride="
                    f"{config.doc_stride}, for the question "
                    f"{reprlib.repr(example.question_text)} (id "
                    f"{example.qas_id or example.qid})."
                )
            owners = passages.window_with_most_context(parts, len(tokens))
            for index, (start, end) in enumerate(parts):
                answer_start = answer_end = 0
                if span and span[0] >= start and span[1] < end:
                    answer_start = span[0] - start + len(prefix)
                    answer_end = span[1] - start + len(prefix)
                yield passages.Window(
                    eid=passages.MAX_WINDOWS * example.eid + index,
                    doc_span_index=index,
                    input_ids=[*prefix, *tokens[start:end], sep],
                    first_doc_token=len(prefix),
                    token_to_orig=token_to_orig[start:end],
                    is_max_context=(owners[start:end] == index).tolist(),
                    start_position=answer_start,
                    end_position=answer_end,
                )

    def features(self, examples, tokenizer, max_seq_length, is_training=False):
        """See `Task.features`; one row for each window.

        Adds `<task>_eid` and, in training, `<task>_start_positions`,
        `<task>_end_positions` and `<task>_is_impossible`, else
        `<task>_doc_span_index`, all <int32>[N].
        """
        windows = list(
            self.windows(examples, tokenizer, max_seq_length, is_training)
        )
        if not windows and not self.may_be_empty:
            raise ValueError(
                f"Expected passages of words for {self.name!r}. Received: "
                f"{len(examples)} questions, all with an empty passage."
            )
        own = {"eid": [w.eid for w in windows]}
        if is_training:
            is_impossible = {e.eid: e.is_impossible for e in examples}
            eids = (w.eid // passages.MAX_WINDOWS for w in windows)
            own["start_positions"] = [w.start_position for w in windows]
            own["end_positions"] = [w.end_position for w in windows]
            own["is_impossible"] = [is_impossible[eid] for eid in eids]
        else:
            own["doc_span_index"] = [w.doc_span_index for w in windows]
        rows = {
            "input_ids": [w.input_ids for w in windows],
            "input_mask": [[1] * len(w.input_ids) for w in windows],
            "segment_ids": [
                [0] * w.first_doc_token + [1] * (len(w.token_to_orig) + 1)
                for w in windows
            ],
        }
        return {
            name: features_lib.pad_rows(values, max_seq_length)
            for name, values in rows.items()
        } | {
            f"{self.name}_{name}": np.array(values, np.int32)
            for name, values in own.items()
        }

    def make_head(self, config):
        return heads.QuestionAnsweringHead(
            self.name, config.hidden_size, self.config
        )

    # --- Answers --------------------------------------------------------------

    def example_id(self, example: passages.QuestionAnsweringExample) -> str:
        """The id under which a question is scored."""
        key = example.qid if self.is_mrqa else example.qas_id
        return typing.cast(str, key)  # `passages.check` has seen it.

    def predict(
        self,
        outputs: dict[str, np.ndarray],
        examples: Sequence[passages.QuestionAnsweringExample],
        tokenizer: tokenization.FullTokenizer,
        max_seq_length: int,
    ) -> Predictions:
        """The answers that the model's outputs mean; takes what `scores` takes.

        The text is "empty" where no window holds an answer that is allowed, as
        in the original.
        """
        last = self._last.get(id(examples))
        if last is None or last[0] is not outputs:
            predictions = self._predict(
                outputs, examples, tokenizer, max_seq_length
            )
            last = self._last[id(examples)] = (outputs, predictions)
        return last[1]

    def _predict(
        self, outputs, examples, tokenizer, max_seq_length
    ) -> Predictions:
        config = self.config
        windows_of: dict[int, list] = collections.defaultdict(list)
        windows = self.windows(examples, tokenizer, max_seq_length)
        for row, window in enumerate(windows):
            windows_of[window.eid // passages.MAX_WINDOWS].append((row, window))
        # All sums in float32, as in the original.
        null_scores = outputs.get("answerable_logit")
        if not config.answerable_classifier:
            null_scores = (
                outputs["start_logits"][:, 0] + outputs["end_logits"][:, 0]
            )
        null_odds = {}
        token_texts, original_texts = [], []
        for example in examples:
            best = None
            null_score = np.float32(_NO_WINDOW_SCORE)
            for row, window in windows_of[example.eid]:
                span = self._best_span(outputs, row, window)
                if span and (best is None or span[0] > best[0]):
                    best = (*span, window)
                null_score = min(null_score, null_scores[row])
            token_text = original_text = NO_SPAN
            scores: Sequence = (np.float32(0.0), np.float32(0.0))
            if best is not None:
                _, start, end, *scores, window = best
                tokens = tokenizer.convert_ids_to_tokens(
                    window.input_ids[start : end + 1]
                )
                token_text = answers_lib.join_word_pieces(tokens)
                first, last = (
                    window.token_to_orig[position - window.first_doc_token]
                    for position in (start, end)
                )
                original_text = " ".join(example.doc_tokens[first : last + 1])
            token_texts.append(token_text)
            original_texts.append(original_text)
            if self.v2:
                if not config.answerable_classifier:
                    null_score = null_score - scores[0] - scores[1]
                null_odds[self.example_id(example)] = float(null_score)
        texts = answers_lib.original_spans(
            token_texts, original_texts, tokenizer
        )
        ids = [self.example_id(example) for example in examples]
        return Predictions(dict(zip(ids, texts, strict=True)), null_odds)

    def _best_span(self, outputs, row, window):
        """Score, start, end and both logits of a window's best answer."""
        config = self.config
        if config.joint_prediction:
            starts = outputs["start_top_index"][row][:, np.newaxis]
            ends = outputs["end_top_index"][row]
            start_scores = outputs["start_top_log_probs"][row][:, np.newaxis]
            end_scores = outputs["end_top_log_probs"][row]
        else:
            start_logits = outputs["start_logits"][row]
            end_logits = outputs["end_logits"][row]
            starts = _best_indices(start_logits, config.n_best_size)
            ends = _best_indices(end_logits, config.n_best_size)
            start_scores = start_logits[starts][:, np.newaxis]
            end_scores = end_logits[ends][np.newaxis]
            starts, ends = starts[:, np.newaxis], ends[np.newaxis]
        starts, ends, start_scores, end_scores = np.broadcast_arrays(
            starts, ends, start_scores, end_scores
        )
        first = window.first_doc_token
        behind = first + len(window.token_to_orig)
        allowed = (
            (starts >= first)
            & (ends < behind)
            & (ends >= starts)
            & (ends - starts < config.max_answer_length)
        )
        in_part = np.clip(starts - first, 0, behind - first - 1)
        allowed &= np.array(window.is_max_context)[in_part]
        if not allowed.any():
            return None
        scores = np.where(allowed, start_scores + end_scores, -np.inf)
        # The first of equals, as in the original's stable sort.
        best = np.unravel_index(np.argmax(scores), scores.shape)
        return (
            scores[best],
            int(starts[best]),
            int(ends[best]),
            start_scores[best],
            end_scores[best],
        )

    def scores(self, outputs, examples=(), tokenizer=None, max_seq_length=0):
        """The official metrics of SQuAD 2.0, SQuAD 1.1 or MRQA."""
        predictions = self.predict(outputs, examples, tokenizer, max_seq_length)
        answers = [(self.example_id(e), e.answers) for e in examples]
        if self.v2:
            return answers_lib.squad_v2_scores(
                dict(answers),
                predictions.texts,
                predictions.null_odds,
                self.config.qa_na_threshold,
            )
        if self.is_mrqa:  # Counts a question by its id.
            answers = list(dict(answers).items())
        if self.is_korean:
            return answers_lib.korquad_scores(answers, predictions.texts)
        return answers_lib.squad_v1_scores(answers, predictions.texts)

    def baseline(self, train_examples, splits):
        if not self.v2:
            return {"name": ""}
        baseline: dict = {"name": "no answer"}
        for split, examples in splits.items():
            answers = {self.example_id(e): e.answers for e in examples}
            scores = answers_lib.squad_v2_scores(
                answers,
                dict.fromkeys(answers, ""),
                dict.fromkeys(answers, 0.0),
                self.config.qa_na_threshold,
            )
            # Without odds to compare, there is no threshold to look for.
            baseline[split] = {
                k: v for k, v in scores.items() if not k.startswith("best_")
            }
        return baseline

    def is_degenerate(self, outputs):
        """Whether no window has an answer: all begin at [CLS], or, in SQuAD
        2.0, every window counts as one without an answer."""
        if not np.argmax(outputs["start_logits"], axis=-1).any():
            return True
        if not self.v2 or not self.config.answerable_classifier:
            return False
        most = self.config.qa_na_threshold
        return bool((outputs["answerable_logit"] > most).all())

    def prediction_table(
        self, examples, outputs, tokenizer=None, max_seq_length=0
    ):
        """See `Task.prediction_table`; answers are separated by " | "."""
        predictions = self.predict(outputs, examples, tokenizer, max_seq_length)
        header = ["label", "prediction", "null_odds", "id", "question"]

        def rows():
            for example in examples:
                key = self.example_id(example)
                odds = predictions.null_odds.get(key)
                yield [
                    " | ".join(dict.fromkeys(example.answers)),
                    self._submitted(predictions, key),
                    "" if odds is None else f"{odds:.6f}",
                    key,
                    example.question_text,
                ]

        return header, rows()

    def _submitted(self, predictions: Predictions, key: str) -> str:
        odds = predictions.null_odds.get(key)
        if odds is not None and odds > self.config.qa_na_threshold:
            return ""
        return predictions.texts[key]

    def submission_json(
        self, examples, outputs, tokenizer=None, max_seq_length=0
    ):
        """See `Task.submission_json`.

        "predictions": question -> answer, "" for none; for SQuAD 2.0 also
        "null_odds": question -> how much speaks for no answer, and
        "best_answers": question -> answer, had it one, which together allow to
        look for the best threshold.
        """
        predictions = self.predict(outputs, examples, tokenizer, max_seq_length)
        texts = {
            key: self._submitted(predictions, key) for key in predictions.texts
        }
        content = {"predictions": texts}
        if self.v2:
            content["null_odds"] = predictions.null_odds
            content["best_answers"] = predictions.texts
        return content

    def look_at(self, split, examples, features):
        length = features["input_ids"].shape[-1]
        starts = features.get(f"{self.name}_start_positions")
        if starts is not None:
            impossible = features[f"{self.name}_is_impossible"] > 0
            eids = features[f"{self.name}_eid"] // passages.MAX_WINDOWS
            answerable = np.unique(eids[~impossible])
            if num := len(np.setdiff1d(answerable, eids[starts > 0])):
                self.warn(
                    f"{split}: {num} of {len(answerable)} questions lost their "
                    f"answer: no window of {length} tokens holds all of it"
                )

    def description(self):
        return {
            "kind": "question_answering",
            "v2": self.v2,
            "options": dataclasses.asdict(self.config),
        }


def _answer_span(
    example: passages.QuestionAnsweringExample,
    tokens: Sequence[int],
    token_to_orig: Sequence[int],
    answer: Sequence[int],
) -> tuple[int, int]:
    """First and last token of an example's answer in its whole passage."""
    first, last = example.start_position, example.end_position
    assert first is not None and last is not None  # Of "train".
    # Before the first word there is -1, by which the original comes to the
    # last one.
    first += len(example.doc_tokens) if first < 0 else 0
    return passages.tighten(
        tokens,
        bisect.bisect_left(token_to_orig, first),
        bisect.bisect_right(token_to_orig, last) - 1,
        answer,
    )


def _best_indices(scores: np.ndarray, num_best: int) -> np.ndarray:
    """Indices of the highest scores, the first of equals first."""
    return np.argsort(-scores, kind="stable")[:num_best]
