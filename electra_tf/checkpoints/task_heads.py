"""Fine-tuned heads: what their tensors say.

A head's tensors are named task_specific/<task>/..., as in the original. The
original does not say anywhere what kind of head it saved, so the kind is told
by names and shapes, and where these leave a choice, by the task's name.
"""

import dataclasses
import re
from collections.abc import Mapping

import numpy as np

from electra_tf.errors import CheckpointError
from electra_tf.model.heads import TaskHead

# The original's only task with a label for each word, and ours like it.
_TAGGING_TASKS = ("chunk", "ner", "pos", "ner_ko")

_LABELS = {
    "cola": ("0", "1"),
    "sst": ("0", "1"),
    "mrpc": ("0", "1"),
    "qqp": ("0", "1"),
    "mnli": ("contradiction", "entailment", "neutral"),
    "rte": ("entailment", "not_entailment"),
    "qnli": ("entailment", "not_entailment"),
}


def task_names(tensors: Mapping[str, np.ndarray]) -> list[str]:
    """The tasks that there are heads of, sorted."""
    parts = (name.split("/") for name in tensors)
    return sorted({p[1] for p in parts if p[0] == "task_specific" and p[1:]})


def head_tensors(
    tensors: Mapping[str, np.ndarray], task_name: str
) -> dict[str, np.ndarray]:
    """A head's tensors, by the rest of their names, such as dense/kernel."""
    prefix = f"task_specific/{task_name}/"
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


def recognise(
    tensors: Mapping[str, np.ndarray], task_name: str, source: str
) -> TaskHead:
    """What kind of head a task has.

    Args:
      tensors: Name -> weights.
      task_name: See `task_names`.
      source: Path, for error messages.

    Raises:
      CheckpointError: If the tensors are those of no head known here.
    """
    head = head_tensors(tensors, task_name)
    if set(head) == {"dense/kernel", "dense/bias"}:
        num_outputs = int(head["dense/bias"].shape[0])
        kind = "regression" if num_outputs == 1 else "classification"
        if task_name in _TAGGING_TASKS:
            kind = "tagging"
        labels = _LABELS.get(task_name, ())
        known = labels if len(labels) == num_outputs else None
        return TaskHead(kind, task_name, known, num_outputs)
    layers = {name.partition("/")[0] for name in head}
    if layers == {"dense", "hidden"}:
        num_outputs = int(head["dense/bias"].shape[0])
        kind = "regression" if num_outputs == 1 else "classification"
        return TaskHead(kind, task_name, None, num_outputs, "gelu")
    if {"dense/bias", "dense_1/bias"} <= set(head):
        return TaskHead(
            "question_answering",
            task_name,
            options={
                "joint_prediction": "qa_hidden" in layers,
                "answerable_classifier": "dense_2" in layers,
                "answerable_uses_start_logits": "dense_3" in layers,
            },
        )
    raise CheckpointError(
        f"Expected a head of the original in task_specific/{task_name} of "
        f"{source}. Received: {', '.join(sorted(head))}"
    )


def head_from_dict(record: dict, source: str) -> TaskHead:
    """A head from what JSON keeps of it.

    Args:
      record: `dataclasses.asdict` of the head.
      source: Path, for error messages.

    Raises:
      CheckpointError: If the record is of something else.
    """
    try:
        head = TaskHead(**record)
    except TypeError as error:
        raise CheckpointError(f"Cannot read {source}: {error}") from None
    if head.labels is not None:
        head = dataclasses.replace(head, labels=tuple(head.labels))
    return head


def task_name_of(text: object, kind: str) -> str:
    """A name that a head's scope can have: the given one, or the kind."""
    if isinstance(text, str) and re.fullmatch(r"[A-Za-z0-9_.\-]+", text):
        return text
    return kind
