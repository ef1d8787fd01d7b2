"""Fine-tuned heads of transformers: theirs -> ours, and back.

An ElectraFor...Classification or ...QuestionAnswering. The head for
classification has one layer more than the original's; see `_write_classifier`.

Shapes: C labels, D hidden.
"""

import dataclasses
from collections.abc import Mapping

import numpy as np

from electra_tf.checkpoints import task_heads
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.errors import CheckpointError
from electra_tf.model.heads import TaskHead

# Kind of a head -> its class there.
CLASSES = {
    "classification": "ElectraForSequenceClassification",
    "regression": "ElectraForSequenceClassification",
    "multi_label_classification": "ElectraForSequenceClassification",
    "tagging": "ElectraForTokenClassification",
    "question_answering": "ElectraForQuestionAnswering",
}
PROBLEM_TYPES = {
    "classification": "single_label_classification",
    "regression": "regression",
    "multi_label_classification": "multi_label_classification",
}

# The head there: a start and an end, each from its own token alone.
_QA_OPTIONS = {
    "joint_prediction": False,
    "answerable_classifier": False,
    "answerable_uses_start_logits": False,
}
# Options of question answering that it lacks -> what they do.
_LACKING_OPTIONS = {
    "joint_prediction": "an end that depends on the start",
    "answerable_classifier": "a classifier of having no answer",
}


def read_head(
    theirs: dict[str, np.ndarray], config: dict, folder: str
) -> tuple[TaskHead | None, dict[str, np.ndarray], set[str]]:
    """A fine-tuned head, its tensors, and their names there.

    Args:
      theirs: All that is left of a model without its encoder.
      config: Of config.json.
      folder: Of the model, for error messages.

    Returns:
      None and nothing for a model without such a head.

    Raises:
      CheckpointError: If the head is not whole or cannot be had here.
    """
    if {"classifier.dense.weight", "classifier.out_proj.weight"} <= set(theirs):
        kind, used = "classification", _layers("classifier.dense")
        used |= _layers("classifier.out_proj")
        if config.get("problem_type") == "regression" or (
            config.get("problem_type") is None
            and theirs["classifier.out_proj.weight"].shape[0] == 1
        ):
            kind = "regression"
        elif config.get("problem_type") == "multi_label_classification":
            kind = "multi_label_classification"
    elif "qa_outputs.weight" in theirs:
        kind, used = "question_answering", _layers("qa_outputs")
    elif "classifier.weight" in theirs and not any(
        name.startswith("sequence_summary.") for name in theirs
    ):
        kind, used = "tagging", _layers("classifier")
    else:
        return None, {}, set()
    missing = used - set(theirs)
    if missing:
        raise CheckpointError(f"{folder} lacks the tensor {min(missing)}")
    name = task_heads.task_name_of(config.get("finetuning_task"), kind)
    if kind == "question_answering":
        weight, bias = theirs["qa_outputs.weight"], theirs["qa_outputs.bias"]
        if weight.shape[0] != 2:
            raise CheckpointError(
                f"{folder}: qa_outputs.weight must have 2 rows, for start and "
                f"end. Received: {weight.shape[0]}"
            )
        found = {}
        for row, layer in enumerate(("dense", "dense_1")):
            found[f"{layer}/kernel"] = weight[row : row + 1].T
            found[f"{layer}/bias"] = bias[row : row + 1]
        head = TaskHead(kind, name, options=dict(_QA_OPTIONS))
    elif kind == "tagging":
        found = {
            "dense/kernel": theirs["classifier.weight"].T,
            "dense/bias": theirs["classifier.bias"],
        }
        head = TaskHead(kind, name, None, len(found["dense/bias"]))
    else:
        found = _read_classifier(theirs)
        head = TaskHead(
            kind,
            name,
            None,
            len(found["dense/bias"]),
            "gelu" if "hidden/kernel" in found else None,
        )
        if kind == "regression" and head.num_outputs != 1:
            raise CheckpointError(
                f"{folder}: regression must have one output. Received: "
                f"{head.num_outputs}"
            )
    head = dataclasses.replace(head, labels=_read_labels(config, head))
    scope = f"task_specific/{name}"
    return head, {f"{scope}/{k}": v for k, v in found.items()}, used


def _layers(name: str) -> set[str]:
    return {f"{name}.weight", f"{name}.bias"}


def _read_labels(config: dict, head: TaskHead) -> tuple[str, ...] | None:
    """The names of the classes, unless they are numbers only."""
    names = config.get("id2label")
    if head.num_outputs is None or not isinstance(names, dict):
        return None
    try:
        labels = tuple(
            str(names.get(str(i), names.get(i)))
            for i in range(head.num_outputs)
        )
    except (TypeError, AttributeError):
        return None
    if len(names) != head.num_outputs or labels == _default_labels(head):
        return None
    return labels


def _default_labels(head: TaskHead) -> tuple[str, ...]:
    return tuple(f"LABEL_{i}" for i in range(head.num_outputs or 2))


def write_head(checkpoint: Checkpoint) -> tuple[dict, dict[str, np.ndarray]]:
    """What a fine-tuned head adds to config.json, and its tensors there.

    Args:
      checkpoint: Has a discriminator and a head.

    Raises:
      CheckpointError: If transformers has no such head.
    """
    head = checkpoint.head
    assert head is not None
    config: dict = {"finetuning_task": head.task_name}
    ours = task_heads.head_tensors(checkpoint.tensors, head.task_name)
    if head.kind == "question_answering":
        lacking = [
            what
            for option, what in _LACKING_OPTIONS.items()
            if head.options.get(option, True)
        ]
        if lacking:
            raise CheckpointError(
                "ElectraForQuestionAnswering lacks "
                + " and ".join(lacking)
                + f", which the head {head.task_name!r} has: leave the head "
                "behind with --encoder-only"
            )
        return config, {
            "qa_outputs.weight": np.concatenate(
                [ours["dense/kernel"].T, ours["dense_1/kernel"].T]
            ),
            "qa_outputs.bias": np.concatenate(
                [ours["dense/bias"], ours["dense_1/bias"]]
            ),
        }
    labels = head.labels or _default_labels(head)
    if head.kind == "regression":
        labels = head.labels or ("LABEL_0",)
    config["num_labels"] = len(labels)
    config["id2label"] = {str(i): label for i, label in enumerate(labels)}
    config["label2id"] = {label: i for i, label in enumerate(labels)}
    if head.kind == "tagging":
        return config, {
            "classifier.weight": ours["dense/kernel"].T,
            "classifier.bias": ours["dense/bias"],
        }
    config["problem_type"] = PROBLEM_TYPES[head.kind]
    return config, _write_classifier(ours, checkpoint)


def _write_classifier(
    ours: Mapping[str, np.ndarray], checkpoint: Checkpoint
) -> dict[str, np.ndarray]:
    """The head for classification: out_proj(gelu(dense(x))).

    The original's head is one dense layer, y = x W + b, without the hidden
    layer. As gelu(y) - gelu(-y) = y Phi(y) + y Phi(-y) = y, a hidden layer that
    computes every y and every -y, and an output layer that subtracts the one
    from the other, is the same function. That takes two hidden channels for
    each label. With more labels than that, the hidden layer is x + c with c so
    large that gelu does not change it (see `_shifted_identity`), and the output
    layer subtracts c W.

    Args:
      ours: "dense/kernel" [D, C] and "dense/bias" [C], perhaps also
        "hidden/kernel" [D, D] and "hidden/bias" [D].
      checkpoint: For the encoder's last LayerNorm.

    Returns:
      The tensors under their names there.
    """
    kernel, bias = ours["dense/kernel"], ours["dense/bias"]
    if "hidden/kernel" in ours:
        return {
            "classifier.dense.weight": ours["hidden/kernel"].T,
            "classifier.dense.bias": ours["hidden/bias"],
            "classifier.out_proj.weight": kernel.T,
            "classifier.out_proj.bias": bias,
        }
    width, num_labels = kernel.shape
    if 2 * num_labels > width:
        return _shifted_identity(kernel, bias, checkpoint)
    weight = np.zeros((width, width), np.float32)
    hidden_bias = np.zeros(width, np.float32)
    for sign, start in ((1, 0), (-1, 1)):
        weight[start : 2 * num_labels : 2] = sign * kernel.T
        hidden_bias[start : 2 * num_labels : 2] = sign * bias
    return {
        "classifier.dense.weight": weight,
        "classifier.dense.bias": hidden_bias,
        "classifier.out_proj.weight": _subtraction(num_labels, width),
        "classifier.out_proj.bias": np.zeros(num_labels, np.float32),
    }


def _subtraction(num_labels: int, width: int) -> np.ndarray:
    """[C, D]: channel 2 i minus channel 2 i + 1, for each label i."""
    matrix = np.zeros((num_labels, width), np.float32)
    rows = np.arange(num_labels)
    matrix[rows, 2 * rows] = 1.0
    matrix[rows, 2 * rows + 1] = -1.0
    return matrix


def _shifted_identity(
    kernel: np.ndarray, bias: np.ndarray, checkpoint: Checkpoint
) -> dict[str, np.ndarray]:
    """A hidden layer that gelu leaves alone: x + c.

    x comes from a LayerNorm, so no channel of it is below
    beta - |gamma| sqrt(D - 1); c lifts that to 6, from where on gelu is the
    identity in float32.
    """
    config = checkpoint.discriminator
    assert config is not None
    width = config.hidden_size
    last = f"electra/encoder/layer_{config.num_hidden_layers - 1}/output"
    gamma = checkpoint.tensors[f"{last}/LayerNorm/gamma"].astype(np.float64)
    beta = checkpoint.tensors[f"{last}/LayerNorm/beta"].astype(np.float64)
    lowest = beta - np.abs(gamma) * np.sqrt(width - 1)
    shift = (6.0 - np.minimum(lowest, 6.0)).astype(np.float32)
    product = shift.astype(np.float64) @ kernel.astype(np.float64)
    return {
        "classifier.dense.weight": np.eye(width, dtype=np.float32),
        "classifier.dense.bias": shift,
        "classifier.out_proj.weight": kernel.T,
        "classifier.out_proj.bias": (bias - product).astype(np.float32),
    }


def _read_classifier(
    theirs: Mapping[str, np.ndarray],
) -> dict[str, np.ndarray]:
    """The head for classification; what `_write_classifier` made is undone."""
    weight, hidden_bias, out, bias = (
        theirs[f"classifier.{name}"]
        for name in (
            "dense.weight",
            "dense.bias",
            "out_proj.weight",
            "out_proj.bias",
        )
    )
    num_labels, width = out.shape
    if (
        2 * num_labels <= width
        and not bias.any()
        and np.array_equal(out, _subtraction(num_labels, width))
        and not weight[2 * num_labels :].any()
        and np.array_equal(
            weight[: 2 * num_labels : 2], -weight[1 : 2 * num_labels : 2]
        )
        and np.array_equal(
            hidden_bias[: 2 * num_labels : 2],
            -hidden_bias[1 : 2 * num_labels : 2],
        )
    ):
        return {
            "dense/kernel": weight[: 2 * num_labels : 2].T,
            "dense/bias": hidden_bias[: 2 * num_labels : 2],
        }
    return {
        "hidden/kernel": weight.T,
        "hidden/bias": hidden_bias,
        "dense/kernel": out.T,
        "dense/bias": bias,
    }
