"""What a fine-tuned model said of each row, as files."""

import json
import os
import re
from collections.abc import Iterable, Sequence

import numpy as np

from electra_tf import tokenization
from electra_tf.command_line import write_atomically
from electra_tf.finetuning.question_answering import QuestionAnsweringTask
from electra_tf.finetuning.submission import SUBMISSION_DIR
from electra_tf.finetuning.task import Task


def write(
    directory: str,
    prefix: str,
    task: Task,
    split: str,
    examples: Sequence,
    outputs: dict[str, np.ndarray],
    tokenizer: tokenization.FullTokenizer,
    max_seq_length: int,
) -> None:
    """Writes <split>_predictions.tsv, and what benchmarks want.

    That is submission/<task>.tsv for GLUE, and for SQuAD's scripts
    <split>_predictions.json, <split>_null_odds.json and
    <split>_best_answers.json.

    Args:
      directory: Of the trial.
      prefix: Begins the files' names, where there are several tasks.
      task: The task.
      split: Which rows.
      examples: Of that split.
      outputs: The head's outputs for them.
      tokenizer: Of their texts.
      max_seq_length: Of their features.
    """
    header, rows = task.prediction_table(
        examples, outputs, tokenizer, max_seq_length
    )
    write_tsv(
        os.path.join(directory, f"{prefix}{split}_predictions.tsv"),
        header,
        rows,
    )
    submission = task.submission_rows(split, examples, outputs)
    if submission is not None:
        name, header, rows = submission
        folder = os.path.join(directory, SUBMISSION_DIR)
        os.makedirs(folder, exist_ok=True)
        write_tsv(os.path.join(folder, name), header, rows)
    if isinstance(task, QuestionAnsweringTask):
        files = task.submission_json(
            examples, outputs, tokenizer, max_seq_length
        )
        for name, content in files.items():
            write_atomically(
                os.path.join(directory, f"{prefix}{split}_{name}.json"),
                json.dumps(content, ensure_ascii=False, indent=1) + "\n",
            )


def write_tsv(
    path: str, header: Sequence[str], rows: Iterable[Sequence[str]]
) -> None:
    """Writes tab-separated values; quotes mean nothing, as in GLUE's files."""
    with open(path, "w", encoding="utf-8", newline="\n") as f:
        for row in (header, *rows):
            # A line is a row.
            cleaned = (re.sub(r"[\t\r\n]", " ", value) for value in row)
            f.write("\t".join(cleaned) + "\n")
