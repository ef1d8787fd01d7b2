"""The tasks by name.

A task reads its files into examples, turns examples into features, builds its
head and scores its head's outputs:

    task = tasks.get_task("mrpc", "glue/MRPC")
    examples = task.read_examples("train")
    features = task.features(examples, tokenizer, max_seq_length=128)
    head = task.make_head(encoder_config)
"""

import os
from collections.abc import Callable

from electra_tf.finetuning import question_answering, tagging, text_tasks
from electra_tf.finetuning.qa_config import QuestionAnsweringConfig
from electra_tf.finetuning.task import Task
from electra_tf.finetuning.text_tasks import LabelledTextTask

__all__ = ["TASK_NAMES", "LabelledTextTask", "Task", "get_task"]

_TEXT_TASKS: dict[str, Callable[..., Task]] = {
    "cola": text_tasks.Cola,
    "mnli": text_tasks.Mnli,
    "mrpc": text_tasks.Mrpc,
    "qnli": text_tasks.Qnli,
    "qqp": text_tasks.Qqp,
    "rte": text_tasks.Rte,
    "sst": text_tasks.Sst,
    "sts": text_tasks.Sts,
    "wnli": text_tasks.Wnli,
}
_TAGGING_TASKS = ("chunk",)
_SQUAD_TASKS = {"squad": True, "squadv1": False}  # Whether it is SQuAD 2.0.
_MRQA_TASKS = ("naturalqs", "newsqa", "searchqa", "triviaqa")

TASK_NAMES = tuple(
    sorted([*_TEXT_TASKS, *_TAGGING_TASKS, *_SQUAD_TASKS, *_MRQA_TASKS])
)


def get_task(
    name: str,
    data_dir: str | os.PathLike,
    double_unordered: bool = True,
    qa_config: QuestionAnsweringConfig | None = None,
) -> Task:
    """A task of the original.

    Args:
      name: One of `TASK_NAMES`.
      data_dir: Folder with the task's files, as the original expects them.
      double_unordered: Train on both orders of a pair where the order does not
        matter (mrpc, sts).
      qa_config: Options of question answering.

    Returns:
      The task.

    Raises:
      ValueError: If the name is unknown.
    """
    if name in _TEXT_TASKS:
        return _TEXT_TASKS[name](data_dir, double_unordered)
    if name in _TAGGING_TASKS:
        return tagging.TaggingTask.in_folder(name, data_dir)
    if name in _SQUAD_TASKS or name in _MRQA_TASKS:
        return question_answering.QuestionAnsweringTask(
            name,
            data_dir,
            qa_config,
            v2=_SQUAD_TASKS.get(name, False),
            is_mrqa=name in _MRQA_TASKS,
        )
    raise ValueError(
        f"Expected one of the tasks {', '.join(TASK_NAMES)}. "
        f"Received: {name!r}."
    )
