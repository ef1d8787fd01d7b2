"""Fine-tuned heads of transformers: theirs -> ours, and back.

An ElectraFor...Classification or ...QuestionAnswering. The head for
classification has one layer more than the original's; see `_with_made_layer`.

Shapes: C labels, D hidden.
"""

import dataclasses
import hashlib
import typing
from collections.abc import Iterable, Mapping

import numpy as np
import tensorflow as tf

from electra_tf import configs
from electra_tf.checkpoints import task_heads
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.checkpoints.formats.huggingface_files import architecture
from electra_tf.checkpoints.formats.huggingface_names import transposed
from electra_tf.errors import CheckpointError
from electra_tf.files import check_fields
from electra_tf.model.task_head import TaskHead

# Kind of a head -> what it is called there.
PROBLEM_TYPES = {
    "classification": "single_label_classification",
    "regression": "regression",
    "multi_label_classification": "multi_label_classification",
}
CLASSES = {
    **dict.fromkeys(PROBLEM_TYPES, "ElectraForSequenceClassification"),
    "tagging": "ElectraForTokenClassification",
    "question_answering": "ElectraForQuestionAnswering",
}
# Kind -> layers here and there. Question answering has one with two outputs.
_LAYERS = {
    **dict.fromkeys(
        PROBLEM_TYPES,
        {"hidden": "classifier.dense", "dense": "classifier.out_proj"},
    ),
    "tagging": {"dense": "classifier"},
    "question_answering": {"dense": "qa_outputs"},
}

# The head there: a start and an end, each from its own token alone; no answer
# where that of [CLS] is likelier than any.
_QA_OPTIONS: dict[str, typing.Any] = {
    "joint_prediction": False,
    "answerable_classifier": False,
    "answerable_uses_start_logits": False,
    "qa_na_threshold": 0.0,
}
# Of a regression: outputs are the labels.
_UNIT = {"min_value": 0.0, "scale": 1.0}
# What a training there goes without.
_UNHEEDED = (*_UNIT, "as_original")
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
        problem = config.get("problem_type")
        kinds = [kind for kind, p in PROBLEM_TYPES.items() if p == problem]
        kind = kinds[0] if kinds else "classification"
        if problem is None and len(theirs["classifier.out_proj.weight"]) == 1:
            kind = "regression"
    elif "qa_outputs.weight" in theirs:
        kind = "question_answering"
    elif "classifier.weight" in theirs and _may_be_tagger(theirs, config):
        kind = "tagging"
    else:
        return None, {}, set()
    names = _names(kind)
    used = set(names.values())
    missing = used - set(theirs)
    if missing:
        raise CheckpointError(f"{folder} lacks the tensor {min(missing)}")
    found = {n: transposed(n, theirs[there]) for n, there in names.items()}
    name = task_heads.task_name_of(config.get("finetuning_task"), kind)
    kernel, bias = found["dense/kernel"], found["dense/bias"]
    if kind == "question_answering":
        if kernel.shape[1] != 2:
            raise CheckpointError(
                f"{folder}: qa_outputs.weight must have 2 rows, for start and "
                f"end. Received: {kernel.shape[1]}"
            )
        for i, layer in enumerate(("dense", "dense_1")):
            found[f"{layer}/kernel"] = kernel[:, i : i + 1]
            found[f"{layer}/bias"] = bias[i : i + 1]
        head = TaskHead(kind, name, options=dict(_QA_OPTIONS))
    else:
        if kind != "tagging":
            found = _without_made_layer(found)
        num_outputs = len(found["dense/bias"])
        activation = "gelu" if "hidden/kernel" in found else None
        if kind == "regression" and num_outputs != 1:
            raise CheckpointError(
                f"{folder}: regression must have one output. Received: "
                f"{num_outputs}"
            )
        # Their labels are no shares of anything.
        options = dict(_UNIT) if kind == "regression" else {}
        head = TaskHead(kind, name, None, num_outputs, activation, options)
        labels = _read_labels(config, head, folder)
        head = dataclasses.replace(head, labels=labels)
    scope = f"task_specific/{name}"
    return head, {f"{scope}/{k}": v for k, v in found.items()}, used


def kept(head: TaskHead) -> dict:
    """What transformers has no setting for, for `with_kept`."""
    options = dict(head.options)
    if head.kind == "question_answering":
        of_theirs = configs.QuestionAnsweringConfig(**_QA_OPTIONS)
        options = {
            name: value
            for name, value in vars(head.question_answering).items()
            if value != getattr(of_theirs, name)
        }
    elif _UNIT.items() <= options.items():
        options = {n: v for n, v in options.items() if n not in _UNIT}
    found: dict = {"options": options} if options else {}
    if head.kind == "tagging":
        found["segment"] = head.segment
    return found and {"kind": head.kind} | found


def digests(theirs: Mapping[str, np.ndarray]) -> list[str]:
    """SHA-256 of a head's tensors, and of what half precision leaves of them.

    Args:
      theirs: Name there -> weights.
    """
    types = (np.float32, np.float16, tf.bfloat16.as_numpy_dtype)
    return [
        _digest({name: value.astype(kind) for name, value in theirs.items()})
        for kind in types
    ]


def _digest(theirs: Mapping[str, np.ndarray]) -> str:
    found = hashlib.sha256()
    for name in sorted(theirs):
        found.update(name.encode() + theirs[name].astype("<f4").tobytes())
    return found.hexdigest()


def with_kept(
    head: TaskHead,
    record: dict,
    theirs: Mapping[str, np.ndarray],
    source: str,
) -> tuple[TaskHead, list[str]]:
    """A head with what `kept` has put beside it, if anything.

    A tagger without it has the segment that their tokenizer gives.

    Args:
      head: Of `read_head`.
      record: Of `kept`, with the `digests` of the head that it is for; passed
        over where it is of another kind of head, as after a training there.
      theirs: The head's tensors, as they are there.
      source: Path, for error messages.

    Returns:
      The head, and a line where a training there has undone some of it.
    """
    if record.get("kind") != head.kind:
        segment = 0 if head.kind == "tagging" else None
        return dataclasses.replace(head, segment=segment), []
    check_fields(record, source, ("sha256",), options=dict, sha256=list[str])
    options, segment = dict(record.get("options") or {}), record.get("segment")
    undone: list[str] = []
    if _digest(theirs) not in record["sha256"]:
        undone += [n for n in _UNHEEDED if options.pop(n, None) is not None]
        if head.kind == "tagging" and segment != 0:
            undone.append("segment")
            segment = 0
    found = task_heads.head_from_dict(
        dataclasses.asdict(head)
        | {
            "labels": head.labels and list(head.labels),
            "options": head.options | options,
            "segment": segment,
        },
        source,
    )
    if not undone:
        return found, []
    return found, [
        f"{source} keeps {', '.join(undone)} for another head: this one was "
        "trained since without, as transformers does not heed them"
    ]


def _may_be_tagger(theirs: Iterable[str], config: dict) -> bool:
    """Whether `classifier` labels tokens, by the class if one is named."""
    name = architecture(config)
    if name:
        return "Token" in name
    return not any(n.startswith("sequence_summary.") for n in theirs)


def _names(kind: str) -> dict[str, str]:
    """Names of a head's tensors -> their names there."""
    return {
        f"{layer}/{weight}": f"{there}.{their_weight}"
        for layer, there in _LAYERS[kind].items()
        for weight, their_weight in (("kernel", "weight"), ("bias", "bias"))
    }


def _read_labels(
    config: dict, head: TaskHead, folder: str
) -> tuple[str, ...] | None:
    """The names of the classes, unless they are numbers only."""
    names = config.get("id2label")
    if not names:
        return None
    if set(names) != {str(i) for i in range(head.num_outputs or 0)}:
        raise CheckpointError(
            f"{folder}: id2label of config.json must name the classes 0 to "
            f"{(head.num_outputs or 0) - 1}, as many as the head has. "
            f"Received: {', '.join(sorted(names)[:8])}"
        )
    labels = tuple(str(names[str(i)]) for i in range(len(names)))
    return None if labels == _default_labels(head) else labels


def _default_labels(head: TaskHead) -> tuple[str, ...]:
    usual = 1 if head.kind == "regression" else 2
    return tuple(f"LABEL_{i}" for i in range(head.num_outputs or usual))


def write_head(
    checkpoint: Checkpoint, head: TaskHead
) -> tuple[dict, dict[str, np.ndarray]]:
    """What a fine-tuned head adds to config.json, and its tensors there.

    Args:
      checkpoint: Has a discriminator, and the tensors of the head.
      head: To be written.

    Raises:
      CheckpointError: If transformers has no such head.
    """
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
        ours = {
            f"dense/{weight}": np.concatenate(
                [ours[f"dense/{weight}"], ours[f"dense_1/{weight}"]], axis=-1
            )
            for weight in ("kernel", "bias")
        }
    else:
        labels = head.labels or _default_labels(head)
        config["num_labels"] = len(labels)
        config["id2label"] = {str(i): label for i, label in enumerate(labels)}
        config["label2id"] = {label: i for i, label in enumerate(labels)}
    if head.kind in PROBLEM_TYPES:
        if head.pooling != configs.DEFAULT_POOLING:
            raise CheckpointError(
                "ElectraForSequenceClassification reads the first token's "
                f"vector, the head {head.task_name!r} the {head.pooling} of "
                "all tokens': leave the head behind with --encoder-only"
            )
        config["problem_type"] = PROBLEM_TYPES[head.kind]
        if "hidden/kernel" not in ours:
            ours = _with_made_layer(ours, checkpoint)
    return config, {
        there: transposed(name, ours[name])
        for name, there in _names(head.kind).items()
    }


def _with_made_layer(
    ours: Mapping[str, np.ndarray], checkpoint: Checkpoint
) -> dict[str, np.ndarray]:
    """The head for classification: out_proj(gelu(dense(x))).

    The original's head is one dense layer, y = x W + b, without the hidden
    layer. As gelu(y) - gelu(-y) = y Phi(y) + y Phi(-y) = y, a hidden layer that
    computes every y and every -y, and an output layer that subtracts the one
    from the other, is the same function. That takes two hidden channels for
    each label. With more labels than that, the hidden layer is x + c with c so
    large that gelu does not change it (see `_with_shifted_identity`), and the
    output layer subtracts c W.

    Args:
      ours: "dense/kernel" [D, C] and "dense/bias" [C].
      checkpoint: For the encoder's last LayerNorm.

    Returns:
      The same names, and "hidden/kernel" [D, D] and "hidden/bias" [D].
    """
    kernel, bias = ours["dense/kernel"], ours["dense/bias"]
    width, num_labels = kernel.shape
    if 2 * num_labels > width:
        return _with_shifted_identity(kernel, bias, checkpoint)
    hidden = np.zeros((width, width), np.float32)
    hidden_bias = np.zeros(width, np.float32)
    plus, minus = _channels(num_labels)
    hidden[:, plus], hidden[:, minus] = kernel, -kernel
    hidden_bias[plus], hidden_bias[minus] = bias, -bias
    return {
        "hidden/kernel": hidden,
        "hidden/bias": hidden_bias,
        "dense/kernel": _subtraction(num_labels, width),
        "dense/bias": np.zeros(num_labels, np.float32),
    }


def _channels(num_labels: int) -> tuple[slice, slice]:
    """The hidden channels of every y, and of every -y."""
    return slice(0, 2 * num_labels, 2), slice(1, 2 * num_labels, 2)


def _subtraction(num_labels: int, width: int) -> np.ndarray:
    """[D, C]: channel 2 i minus channel 2 i + 1, for each label i."""
    matrix = np.zeros((width, num_labels), np.float32)
    plus, minus = _channels(num_labels)
    matrix[plus] += np.eye(num_labels)
    matrix[minus] -= np.eye(num_labels)
    return matrix


def _with_shifted_identity(
    kernel: np.ndarray, bias: np.ndarray, checkpoint: Checkpoint
) -> dict[str, np.ndarray]:
    """A hidden layer that gelu leaves alone: x + c.

    x comes from a LayerNorm, so no channel of it is below
    beta - |gamma| sqrt(D - 1); c lifts that to 6, from where on gelu is the
    identity in float32.
    """
    config = checkpoint.encoders["electra"]
    width = config.hidden_size
    last = f"electra/encoder/layer_{config.num_hidden_layers - 1}/output"
    gamma = checkpoint.tensors[f"{last}/LayerNorm/gamma"].astype(np.float64)
    beta = checkpoint.tensors[f"{last}/LayerNorm/beta"].astype(np.float64)
    lowest = beta - np.abs(gamma) * np.sqrt(width - 1)
    shift = (6.0 - np.minimum(lowest, 6.0)).astype(np.float32)
    product = shift.astype(np.float64) @ kernel.astype(np.float64)
    return {
        "hidden/kernel": np.eye(width, dtype=np.float32),
        "hidden/bias": shift,
        "dense/kernel": kernel,
        "dense/bias": (bias - product).astype(np.float32),
    }


def _without_made_layer(
    found: dict[str, np.ndarray],
) -> dict[str, np.ndarray]:
    """Undoes `_with_made_layer`, unless it left channels for something else."""
    hidden, hidden_bias, kernel, bias = found.values()
    width, num_labels = kernel.shape
    plus, minus = _channels(num_labels)
    if (
        2 * num_labels <= width
        and not bias.any()
        and np.array_equal(kernel, _subtraction(num_labels, width))
        and not hidden[:, 2 * num_labels :].any()
        and np.array_equal(hidden[:, plus], -hidden[:, minus])
        and np.array_equal(hidden_bias[plus], -hidden_bias[minus])
    ):
        return {
            "dense/kernel": hidden[:, plus],
            "dense/bias": hidden_bias[plus],
        }
    return found
