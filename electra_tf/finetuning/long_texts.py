"""Texts longer than the model: cut and counted, or read in windows.

Texts without a token are counted, too.
"""

from collections.abc import Sequence

import numpy as np

from electra_tf import errors
from electra_tf.finetuning.configs import FinetuningDataConfig
from electra_tf.finetuning.task_data import TaskData
from electra_tf.model.windows import Windows
from electra_tf.tasks import features as features_lib
from electra_tf.tasks.task import Task
from electra_tf.tasks.text_tasks import TextTask

# [CLS] and [SEP].
_NUM_BARE = 2


def choose(
    tasks: Sequence[Task], data: FinetuningDataConfig, keeps_empty: bool
) -> Windows | None:
    """How the texts of a run are cut into windows, which its task is told.

    Args:
      tasks: Of the run.
      data: Says whether there are windows.
      keeps_empty: See `Windows`.

    Returns:
      None without windows.

    Raises:
      ConfigError: If the tasks cannot be read so.
    """
    if data.long_texts != "windows":
        return None
    task = tasks[0]
    if len(tasks) > 1 or not isinstance(task, TextTask):
        kinds = (
            f"{task.name}, {task.description().get('kind', 'another kind')}"
            if len(tasks) == 1
            else ", ".join(task.name for task in tasks)
        )
        raise errors.ConfigError(
            "FinetuningDataConfig.long_texts='windows' needs one task of "
            f"classification, multi_label or regression. Received: {kinds}"
        )
    length = data.max_seq_length
    stride = data.window_stride or min(max(1, length // 2), length - 2)
    task.windows = Windows(
        length, stride, data.max_windows, keeps_empty, data.weigh_windows
    )
    return task.windows


def refuse_pairs(data: TaskData) -> None:
    """Refuses windows over pairs of texts.

    Raises:
      ConfigError: If there are both.
    """
    if data.windows and data.has_pairs:
        raise errors.ConfigError(
            "FinetuningDataConfig.long_texts='windows' needs one text in each "
            f"row. Received: {data.task.name}, whose rows have two: name one "
            "with text_columns, or leave long_texts='cut'"
        )


def about(data: TaskData) -> dict:
    """What is done with long texts, and to how many; fit for JSON.

    Args:
      data: Of any task; only those of texts are told of.

    Returns:
      "long_texts", and of windows "window_stride", "max_windows" and
      "weigh_windows"; by split
      "num_cut", the texts that lose their end, and "longest", the tokens of the
      longest text, where any is cut, and "num_without_tokens", where there are
      rows of which nothing is left but [CLS] and [SEP]; of windows also
      "num_windows", of all the split's texts, and "most_windows", of one.
    """
    if not isinstance(data.task, TextTask) or data.tokenizer is None:
        return {}
    windows = data.windows
    found: dict = {"long_texts": "windows" if windows else "cut"}
    if windows:
        found["window_stride"] = windows.stride
        found["max_windows"] = windows.max_windows
        found["weigh_windows"] = windows.by_tokens
    for split, features in data.features.items():
        num_cut, longest = _cut(data, split)
        num_tokens = features["input_mask"].sum(axis=-1)
        of_split = {"num_cut": num_cut, "longest": longest}
        if num_bare := int((num_tokens <= _NUM_BARE).sum()):
            of_split["num_without_tokens"] = num_bare
        if windows:
            counts = windows.counts(num_tokens)
            of_split["num_windows"] = int(counts.sum())
            of_split["most_windows"] = int(counts.max())
        found[split] = of_split
    return found


def _cut(data: TaskData, split: str) -> tuple[int, int]:
    """How many texts of a split lose their end, and the longest's tokens."""
    mask = data.features[split]["input_mask"]
    windows = data.windows
    most = windows.most_tokens if windows else data.max_seq_length
    full = np.flatnonzero(mask.sum(axis=-1) >= most).tolist()
    # Only these may have been longer.
    examples = [data.examples[split][row] for row in full]
    # [CLS] and [SEP]; a second text brings another one if it has a token.
    lengths = 2 + _num_tokens(data, [e.text_a for e in examples])
    second = _num_tokens(data, [e.text_b or "" for e in examples])
    lengths += second + (second > 0)
    is_cut = lengths > most
    return int(is_cut.sum()), int(lengths.max(initial=0))


def _num_tokens(data: TaskData, texts: Sequence[str]) -> np.ndarray:
    assert data.tokenizer is not None
    ids = features_lib.tokenize_all(texts, data.tokenizer)
    return np.array([len(of_text) for of_text in ids], np.int64)


def remarks(told: dict, data: TaskData) -> list[str]:
    """What the user should know of long texts, a line for each split.

    Args:
      told: Of `about`.
      data: The task with its rows.
    """
    lines = []
    windows = data.windows
    for split, of_split in told.items():
        if not isinstance(of_split, dict):
            continue
        num_rows = data.num_rows[split]
        if "num_without_tokens" in of_split:
            lines.append(
                f"{split}: {of_split['num_without_tokens']} of {num_rows} "
                "texts have no token, such as one of control characters "
                "alone: to the model they are [CLS] [SEP]"
            )
        if windows and of_split["most_windows"] > 1:
            lines.append(
                f"{split}: {of_split['num_windows']} windows of at most "
                f"{windows.max_seq_length} tokens over {num_rows} texts, at "
                f"most {of_split['most_windows']} a text; the next one begins "
                f"{windows.stride} tokens later"
            )
        if of_split["num_cut"]:
            most = windows.most_tokens if windows else data.max_seq_length
            way_on = (
                "FinetuningDataConfig.max_windows reads more"
                if windows
                else "--long_texts=windows reads all of a single text"
            )
            lines.append(
                f"{split}: {of_split['num_cut']} of {num_rows} texts have more "
                f"than {most} tokens (up to {of_split['longest']}) and are "
                f"cut; {way_on}"
            )
    return lines
