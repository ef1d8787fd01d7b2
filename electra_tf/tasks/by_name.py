"""Tasks by name: those of the original, a few more, and your own.

A task reads its files into examples, turns examples into features, builds its
head and scores its head's outputs:

    task = by_name.get_task("mrpc", "glue")
    examples = task.read_examples("train")
    features = task.features(examples, tokenizer, max_seq_length=128)
    head = task.make_head(encoder_config)
"""

import os
from collections.abc import Callable

import tensorflow as tf

from electra_tf import errors
from electra_tf.configs import QuestionAnsweringConfig
from electra_tf.tasks import glue, question_answering, tagging
from electra_tf.tasks.names import MRQA_TASKS, SQUAD_TASKS
from electra_tf.tasks.task import Task

_GLUE = {task.NAME: task for task in glue.TASKS}
# The options of tagging tasks; those but "chunk" are not in the original. The
# column of parts of speech is that of CoNLL-2000 and CoNLL-2003.
_TAGGING_TASKS: dict[str, dict] = {
    "chunk": {},
    "ner": {"as_original": False},
    "pos": {"as_original": False, "is_token_level": True, "tag_column": 1},
}

# What data sets call their folders; GLUE's archive as it calls submissions.
_FOLDERS = {
    name: task.SUBMISSIONS["test"].removesuffix(".tsv").removesuffix("-m")
    for name, task in _GLUE.items()
} | {"ner": "conll2003", "pos": "conll2003", "korquad": "KorQuAD"}

TASK_NAMES = tuple(sorted([*_GLUE, *_TAGGING_TASKS, *SQUAD_TASKS, *MRQA_TASKS]))
_registered: dict[str, Callable[[str], Task]] = {}


def register(name: str, make: Callable[[str], Task]) -> None:
    """Makes a task of your own known by name, as `task_names` takes it.

    Args:
      name: Of the task; replaces what was registered under it before.
      make: Takes the folder of its files; returns the task.

    Raises:
      ValueError: If a task of this package has the name.
    """
    if name in TASK_NAMES:
        raise ValueError(
            f"Expected a new name. Received: {name!r}, which is one of "
            f"{', '.join(TASK_NAMES)}."
        )
    _registered[name] = make


def get_task(
    name: str,
    data_dir: str | os.PathLike,
    double_unordered: bool = True,
    qa_config: QuestionAnsweringConfig | None = None,
) -> Task:
    """A task by name: those of the original, and a few more.

    Args:
      name: One of `TASK_NAMES`, or of `register`.
      data_dir: What the original calls by this name, the folder of all tasks,
        or the task's own. The files, with the original's names, are below it
        in finetuning_data/<name>, as in the original, in <name>, in a folder
        of the data set's own name, such as SST-2 or conll2003, or in itself:
        the first of these that exists.
      double_unordered: Train on both orders of a pair where the order does not
        matter (mrpc, sts).
      qa_config: Options of question answering.

    Raises:
      ValueError: If the name is unknown.
    """
    known = [*TASK_NAMES, *_registered]
    if name not in known:
        raise ValueError(
            f"Expected one of the tasks {', '.join(known)}. "
            f"Received: {name!r}."
            + errors.did_you_mean(repr(name), map(repr, known))
        )
    names = (f"finetuning_data/{name}", name, _FOLDERS.get(name, name))
    folders = [os.path.join(data_dir, n) for n in dict.fromkeys(names)]
    folder = next(filter(tf.io.gfile.isdir, folders), os.fspath(data_dir))
    task: Task
    if name in _registered:
        task = _registered[name](folder)
    elif name in _GLUE:
        task = _GLUE[name](folder, double_unordered)
    elif name in _TAGGING_TASKS:
        files = {
            # CoNLL-2003 calls its dev file valid.txt.
            stem.replace("valid", "dev"): f"{folder}/{stem}.txt"
            for stem in ("train", "valid", "dev", "test")
            if stem == "train" or tf.io.gfile.exists(f"{folder}/{stem}.txt")
        }
        task = tagging.TaggingTask(name, files, **_TAGGING_TASKS[name])
    else:
        task = question_answering.QuestionAnsweringTask(
            name,
            folder,
            qa_config,
            v2=SQUAD_TASKS.get(name, False),
            is_mrqa=name in MRQA_TASKS,
            is_korean=name == "korquad",
        )
    task.looked_in = f"{', '.join(folders)} or {data_dir}"
    return task
