"""Files of questions and passages, in the layouts of SQuAD and MRQA."""

import json
from collections.abc import Iterator

from electra_tf.finetuning.task import read_lines


def read_squad(path: str) -> Iterator[tuple[str, dict]]:
    """The paragraphs of a file in SQuAD's layout, and where they are."""
    try:
        content = json.loads("\n".join(read_lines(path)))
    except json.JSONDecodeError as error:
        raise ValueError(
            f"Expected JSON. Received: {path!r}, row {error.lineno}: "
            f"{error.msg}."
        ) from None
    try:
        articles = [article["paragraphs"] for article in content["data"]]
    except (KeyError, TypeError) as error:
        raise ValueError(
            "Expected SQuAD's layout, data with paragraphs. Received: "
            f"{path!r}, without {error}."
        ) from None
    for number, paragraphs in enumerate(articles, start=1):
        for paragraph_number, paragraph in enumerate(paragraphs, start=1):
            yield f"article {number}, paragraph {paragraph_number}", paragraph


def read_mrqa(path: str) -> Iterator[tuple[str, dict]]:
    """The paragraphs of a file in MRQA's layout, and where they are."""
    for row, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        try:
            paragraph = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(
                f"Expected a JSON object in each row. Received: {path!r}, row "
                f"{row}: {error.msg}."
            ) from None
        if "header" not in paragraph:
            yield f"row {row}", paragraph
