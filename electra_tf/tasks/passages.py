"""Files of SQuAD and MRQA -> questions -> windows over their passages."""

import re
import reprlib
import typing
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from electra_tf.tasks import tables

# The original's white space; narrower than Python's.
WORD = re.compile("[^ \t\r\n\u202f]+")

# Windows of one question, at most: eid = 1000 * question + window.
MAX_WINDOWS = 1000


class QuestionAnsweringExample(typing.NamedTuple):
    """A question about a passage.

    Attributes:
      eid: Number of the question in its split.
      qas_id: The id in SQuAD's files, or None.
      qid: The id in MRQA's files, or None.
      question_text: The question.
      doc_tokens: The passage's words, separated by white space.
      orig_answer_text: The answer to train on; "" where there is none.
      start_position: Its first word, -1 where there is none.
      end_position: Its last word.
      is_impossible: Whether there is no answer. This and the three before are
        known in training only.
      answers: All true answers.
    """

    eid: int
    qas_id: str | None
    qid: str | None
    question_text: str
    doc_tokens: Sequence[str]
    orig_answer_text: str | None = None
    start_position: int | None = None
    end_position: int | None = None
    is_impossible: bool = False
    answers: tuple[str, ...] = ()


class Window(typing.NamedTuple):
    """Part of a passage behind its question: `[CLS] question [SEP] part [SEP]`.

    Attributes:
      eid: 1000 * the question's eid + the number of the window.
      doc_span_index: Number of the window.
      input_ids: Tokens.
      first_doc_token: Where the part begins.
      token_to_orig: Word of the passage for each token of the part.
      is_max_context: For each token of the part, whether no other window shows
        more of what is around it.
      start_position: First token of the answer in training; 0 where the window
        does not hold it.
      end_position: Last token of the answer.
    """

    eid: int
    doc_span_index: int
    input_ids: list[int]
    first_doc_token: int
    token_to_orig: list[int]
    is_max_context: list[bool]
    start_position: int = 0
    end_position: int = 0


def read(path: str, is_mrqa: bool = False) -> Iterator[tuple[str, dict]]:
    """The paragraphs of a file of questions, and where they are.

    Args:
      path: A .json in SQuAD's layout, or rows as Hugging Face's data sets write
        them, .jsonl or .json: id, question, context and answers, {"text":
        [...], "answer_start": [...]}, where one without answers is impossible.
      is_mrqa: Whether it is in MRQA's layout, a paragraph in each row.

    Raises:
      ValueError: If the file is something else.
    """
    content = tables.read_json(path)
    if not isinstance(content, dict):
        for row, record in content:
            if not is_mrqa:
                answers = record.get("answers")
                # Of what fails here `check` says what is wrong.
                if isinstance(answers, dict) and "answer_start" in answers:
                    answers = tables.rows_of(answers)
                qa = {"is_impossible": not answers} | record
                record["qas"] = [qa | {"answers": answers or []}]
            if not is_mrqa or "header" not in record:
                yield f"row {row}", record
        return
    try:
        articles = [article["paragraphs"] for article in content["data"]]
        for i, paragraphs in enumerate(articles, start=1):
            for j, paragraph in enumerate(paragraphs, start=1):
                yield f"article {i}, paragraph {j}", paragraph
    except (KeyError, TypeError):
        raise ValueError(
            "Expected SQuAD's layout, data with paragraphs, or rows with "
            f"context, question and answers. Received: {path!r}, with "
            f"{reprlib.repr(content)}."
        ) from None


def check(
    paragraph: dict, where: str, id_name: str, v2: bool, is_training: bool
) -> None:
    """Refuses questions whose values mean nothing, or something else.

    `id_name` is that of their ids; with `v2` they may have no answer; with
    `is_training` they must have what is learned.
    """
    for number, qa in enumerate(paragraph["qas"], start=1):
        answers = qa.get("answers", [])
        is_impossible = qa.get("is_impossible", False)
        types: tuple = (int, str)
        if is_training and not (v2 and is_impossible):
            try:
                types = tuple(map(type, learned_answer(qa)))
            except (KeyError, IndexError, TypeError):
                types = ()
        if not (
            isinstance(qa["question"], str)
            and (is_training or type(qa.get(id_name)) in (str, int))
            and isinstance(answers, list)
            and len(texts_of(qa)) == len(answers)
            and isinstance(is_impossible, bool)
            and types == (int, str)
        ):
            place = "answer_start" if id_name == "id" else "char_spans"
            raise ValueError(
                f"Expected a question with {id_name}, text, and answers with "
                f"text and {place} (only squad has questions without an answer "
                f"and is_impossible). Received: {reprlib.repr(qa)} in {where}, "
                f"question {number}."
            )


def learned_answer(qa: Mapping) -> tuple[int, str]:
    """The place of an answer's first character, and its text, as the original
    picks them: in MRQA's layout by `detected_answers`, else in SQuAD's."""
    if "detected_answers" in qa:
        answer = qa["detected_answers"][0]
        return answer["char_spans"][0][0], answer["text"]
    answer = qa["answers"][0]
    return answer["answer_start"], answer["text"]


def texts_of(qa: dict) -> list[str]:
    """The answers of a question, as far as they have a text.

    In MRQA's files they are texts by themselves.
    """
    answers = qa.get("answers", [])
    texts = (a.get("text") if isinstance(a, dict) else a for a in answers)
    return [text for text in texts if isinstance(text, str)]


def tighten(
    tokens: Sequence[int], start: int, end: int, answer: Sequence[int]
) -> tuple[int, int]:
    """The first place of the answer's own tokens within its words' tokens.

    The words of an answer 1895 may be (1895-1943). If the tokens do not occur,
    all those of the words are the answer.
    """
    length = len(answer)
    for first in range(start, end + 2 - length):
        if length and list(tokens[first : first + length]) == list(answer):
            return first, first + length - 1
    return start, end


def parts(num_tokens: int, room: int, stride: int) -> list[tuple[int, int]]:
    """Start and end of each window over so many tokens."""
    step = min(room, stride)
    num_left = max(0, num_tokens - room)  # Behind the first window.
    starts = range(0, num_left + step, step) if num_tokens else ()
    return [(start, min(start + room, num_tokens)) for start in starts]


def window_with_most_context(
    parts: Sequence[tuple[int, int]], num_tokens: int
) -> np.ndarray:
    """For each token the window with most context around it; <int>[tokens].

    The context is the smaller one of those on both sides, plus 1/100 of the
    window's length; of equals the first window counts. From BERT.
    """
    positions = np.arange(num_tokens)
    best = np.full(num_tokens, -1)
    best_scores = np.full(num_tokens, -np.inf)
    for index, (start, end) in enumerate(parts):
        inside = positions[start:end]
        scores = np.minimum(inside - start, end - 1 - inside)
        scores = scores + 0.01 * (end - start)
        better = inside[scores > best_scores[start:end]]
        best[better] = index
        best_scores[better] = scores[better - start]
    return best
