"""Fine-tuned heads: what their tensors say.

A head's tensors are named task_specific/<task>/..., as in the original. The
original does not say anywhere what kind of head it saved, so the kind is told
by names and shapes, and where these leave a choice, by the task's name.
"""

import dataclasses
from collections.abc import Mapping

import numpy as np

from electra_tf import configs, errors, files
from electra_tf.errors import CheckpointError
from electra_tf.model import task_head
from electra_tf.model.task_head import TaskHead

# The original's only task with a label for each word, and one like it here.
_TAGGING_TASKS = ("chunk", "ner", "pos", "ner_ko")

# What a head is in JSON, ...
_FIELDS: dict = {
    **dict.fromkeys(("kind", "task_name", "hidden_activation"), str),
    **dict.fromkeys(("num_outputs", "segment"), int),
    **{"labels": list[str], "options": dict},
}
# ... and its options that are not those of `configs.QuestionAnsweringConfig`.
OPTIONS = (
    *("has_pairs", "text_columns", "min_value", "scale", "as_original"),
    *("max_value", "scheme", "form", "windows", "pooling"),
    "given_labels",
)

_LABELS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("cola", "sst", "mrpc", "qqp"), ("0", "1")),
    **dict.fromkeys(("rte", "qnli"), ("entailment", "not_entailment")),
    "mnli": ("contradiction", "entailment", "neutral"),
}
# What the original knows of its tasks and saves nowhere: whether they compare
# two texts, and the least label and the scale of its only regression.
_OPTIONS_OF_TASKS: dict[str, dict] = {
    **dict.fromkeys(("cola", "sst"), {"has_pairs": False}),
    **dict.fromkeys(
        ("mnli", "mrpc", "qnli", "qqp", "rte", "wnli"), {"has_pairs": True}
    ),
    "sts": {"has_pairs": True, "min_value": 0.0, "scale": 5.0},
}
_UNIT = ("min_value", "scale")


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
    """What kind of head a task has, by its tensors.

    Raises:
      CheckpointError: If they are those of no head known here.
    """
    head = head_tensors(tensors, task_name)
    layers = {name.partition("/")[0] for name in head}
    if {"dense/bias", "dense_1/bias"} <= set(head):
        options = {
            "joint_prediction": "qa_hidden" in layers,
            "answerable_classifier": "dense_2" in layers,
            "answerable_uses_start_logits": "dense_3" in layers,
        }
        return TaskHead("question_answering", task_name, options=options)
    if layers not in ({"dense"}, {"dense", "hidden"}):
        raise CheckpointError(
            f"Expected a head of the original in task_specific/{task_name} of "
            f"{source}. Received: {', '.join(sorted(head))}"
        )
    num_outputs = int(head["dense/bias"].shape[0])
    kind = "regression" if num_outputs == 1 else "classification"
    if "hidden" in layers:
        return TaskHead(kind, task_name, None, num_outputs, "gelu")
    segment = None
    if task_name in _TAGGING_TASKS:
        kind, segment = "tagging", task_head.TAGGING_SEGMENT
    labels = _LABELS.get(task_name, ())
    known = labels if len(labels) == num_outputs else None
    return TaskHead(kind, task_name, known, num_outputs, segment=segment)


def with_options_of_task(head: TaskHead) -> TaskHead:
    """A head with what the original's task of its name is known to be.

    Whatever it says of itself is kept.
    """
    if head.kind not in ("classification", "regression"):
        return head
    known = _OPTIONS_OF_TASKS.get(head.task_name, {})
    if head.kind == "classification" or head.options.keys() & _UNIT:
        known = {name: known[name] for name in known if name not in _UNIT}
    return dataclasses.replace(head, options=known | head.options)


def head_from_dict(record: dict, source: str) -> TaskHead:
    """A head from `dataclasses.asdict` of it, as JSON keeps that.

    Raises:
      CheckpointError: If the record is of something else.
    """
    files.check_fields(record, source, **_FIELDS)
    try:
        head = TaskHead(**record | {"options": record.get("options") or {}})
    except TypeError as error:
        raise CheckpointError(f"Cannot read {source}: {error}") from None
    labels = head.labels
    if head.kind not in task_head.KINDS:
        raise CheckpointError(
            f"{source}: kind must be {' or '.join(task_head.KINDS)}. Received: "
            f"{head.kind!r}"
        )
    if labels is not None and head.num_outputs != len(labels):
        raise CheckpointError(
            f"{source}: num_outputs must be as many as there are labels, "
            f"{len(labels)}. Received: {head.num_outputs}"
        )
    check_options(head.kind, head.options, source)
    return dataclasses.replace(head, labels=labels and tuple(labels))


def check_options(kind: str, options: dict, source: str) -> None:
    """Raises a CheckpointError for options that there are not of a kind."""
    try:
        if kind == "question_answering":
            configs.QuestionAnsweringConfig(**options)
        elif unknown := set(options) - set(OPTIONS):
            raise TypeError(f"there is no option {min(unknown)}")
    except (TypeError, errors.ConfigError) as error:
        line = errors.first_line(error)
        raise CheckpointError(f"Cannot read {source}: {line}") from None
