"""Fine-tuned heads of transformers, read and written.

An ElectraFor...Classification or ...QuestionAnswering. The head for
classification has one layer more than the original's; see `_both_signs`.

Shapes: C labels, D hidden.
"""

import dataclasses
import re
import typing
from collections.abc import Mapping

import numpy as np

from electra_tf import configs, errors
from electra_tf.checkpoints import task_heads
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.checkpoints.formats.huggingface_files import architecture
from electra_tf.checkpoints.formats.names import transposed
from electra_tf.errors import CheckpointError
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
# Key of this package in config.json: a tagger's labels, and what its answers,
# which id2label has, are made of.
TAGGING_KEY = "electra_tagging"
# The head there: a start and an end, each from its own token alone; no answer
# where that of [CLS] is likelier than any.
_QA_OPTIONS: dict[str, typing.Any] = {
    "joint_prediction": False,
    "answerable_classifier": False,
    "answerable_uses_start_logits": False,
    "qa_na_threshold": 0.0,
}


def read_head(
    rest: dict[str, np.ndarray], config: dict, folder: str
) -> tuple[TaskHead | None, dict[str, np.ndarray], set[str]]:
    """A fine-tuned head, its tensors, and their names there; None for none.

    `rest` is all that is left of a model without its encoder.
    """
    kind = _kind(rest, config)
    if kind is None:
        return None, {}, set()
    names = _names(kind)
    if missing := set(names.values()) - set(rest):
        raise CheckpointError(f"{folder} lacks the tensor {min(missing)}")
    tensors = {n: transposed(n, rest[there]) for n, there in names.items()}
    name = str(config.get("finetuning_task"))
    if name == "None" or not re.fullmatch(r"[A-Za-z0-9_.\-]+", name):
        name = kind
    num_outputs = len(tensors["dense/bias"])
    expected = {"question_answering": 2, "regression": 1}.get(kind, num_outputs)
    if num_outputs != expected:
        raise CheckpointError(
            f"{folder}: {kind} must have {expected} output(s). Received: "
            f"{num_outputs}"
        )
    if kind == "question_answering":
        for weight in ("kernel", "bias"):
            start, end = np.split(tensors[f"dense/{weight}"], 2, axis=-1)
            tensors |= {f"dense/{weight}": start, f"dense_1/{weight}": end}
        head = TaskHead(kind, name, options=dict(_QA_OPTIONS))
    else:
        if kind != "tagging":
            tensors = _without_made_layer(tensors)
        # The outputs of a regression are its labels.
        unit = {"min_value": 0.0, "scale": 1.0} if kind == "regression" else {}
        head = TaskHead(
            kind,
            name,
            _read_labels(config, num_outputs, folder),
            num_outputs,
            "gelu" if "hidden/kernel" in tensors else None,
            unit,
            # Their tokenizer gives a tagger's words the segment 0.
            0 if kind == "tagging" else None,
        )
        if kind == "tagging" and config.get(TAGGING_KEY):
            head = _with_own_labels(head, dict(config[TAGGING_KEY]))
    named = {f"task_specific/{name}/{k}": v for k, v in tensors.items()}
    return head, named, set(names.values())


def _with_own_labels(head: TaskHead, own: dict) -> TaskHead:
    """A tagger with the labels that its tags are made of, if they still are."""
    tagger = dataclasses.replace(head, labels=own.pop("labels"), options=own)
    # Kinds may have other names in config.json.
    is_last = (own["form"] or "").startswith("PER")
    kind = slice(-2) if is_last else slice(2, None)
    rows = (tagger.labels or (), tagger.tags or (), head.labels or ())
    labels = (
        label if tag == name else label[:2] + name[kind]
        for label, tag, name in zip(*rows, strict=False)
    )
    tagger = dataclasses.replace(tagger, labels=tuple(labels))
    return tagger if tagger.tags == head.labels else head


def _kind(rest: Mapping[str, np.ndarray], config: dict) -> str | None:
    """What kind of head there is, if it is one that there is here, too."""
    if {"classifier.dense.weight", "classifier.out_proj.weight"} <= set(rest):
        problem = config.get("problem_type") or ""
        one = len(rest["classifier.out_proj.weight"]) == 1
        usual = "regression" if one and not problem else "classification"
        kinds = {there: kind for kind, there in PROBLEM_TYPES.items()}
        return kinds.get(problem, usual)
    if "qa_outputs.weight" in rest:
        return "question_answering"
    its_class = architecture(config)
    is_tagger = (
        "Token" in its_class
        if its_class
        else not any(n.startswith("sequence_summary.") for n in rest)
    )
    return "tagging" if "classifier.weight" in rest and is_tagger else None


def _names(kind: str) -> dict[str, str]:
    """Names of a head's tensors -> their names there."""
    return {
        f"{layer}/{weight}": f"{there}.{their_weight}"
        for layer, there in _LAYERS[kind].items()
        for weight, their_weight in (("kernel", "weight"), ("bias", "bias"))
    }


def _numbered(num_outputs: int) -> tuple[str, ...]:
    return tuple(f"LABEL_{i}" for i in range(num_outputs))


def _read_labels(
    config: dict, num_outputs: int, folder: str
) -> tuple[str, ...] | None:
    """The names of the classes, unless they are numbers only."""
    names = config.get("id2label")
    if not names:
        return None
    if set(names) != {str(i) for i in range(num_outputs)}:
        raise CheckpointError(
            f"{folder}: id2label of config.json must name the classes 0 to "
            f"{num_outputs - 1}, as many as the head has. Received: "
            f"{', '.join(sorted(names)[:8])}"
        )
    labels = tuple(str(names[str(i)]) for i in range(num_outputs))
    return None if labels == _numbered(num_outputs) else labels


def write_head(
    checkpoint: Checkpoint, head: TaskHead
) -> tuple[dict, dict[str, np.ndarray]]:
    """What a fine-tuned head adds to config.json, and its tensors there.

    Raises:
      CheckpointError: If transformers has no such head.
    """
    config: dict = {"finetuning_task": head.task_name}
    tensors = task_heads.head_tensors(checkpoint.tensors, head.task_name)
    _refuse_lacking(head, checkpoint.encoders["electra"].hidden_size)
    if head.kind == "question_answering":
        for weight in ("kernel", "bias"):
            both = [
                tensors[f"{layer}/{weight}"] for layer in ("dense", "dense_1")
            ]
            tensors[f"dense/{weight}"] = np.concatenate(both, axis=-1)
    else:
        labels = head.labels or _numbered(len(tensors["dense/bias"]))
        # The same for two labels where a scheme says less than BIOES.
        tags = head.tags or labels
        config["num_labels"] = len(labels)
        config["id2label"] = {str(i): tag for i, tag in enumerate(tags)}
        config["label2id"] = {tag: tags.index(tag) for tag in tags}
        if tags != labels:
            kept = {k: head.options.get(k) for k in ("scheme", "form")}
            config[TAGGING_KEY] = {"labels": labels} | kept
    if head.kind in PROBLEM_TYPES:
        config["problem_type"] = PROBLEM_TYPES[head.kind]
        if "hidden/kernel" not in tensors:
            tensors = _both_signs(
                tensors["dense/kernel"], tensors["dense/bias"]
            )
    segment = head.segment_of_words() if head.kind == "tagging" else 0
    if segment:
        errors.warn(
            f"the tagger reads its words in segment {segment}, the tokenizer "
            f"of transformers gives 0: pass token_type_ids of {segment} there"
        )
    names = _names(head.kind).items()
    return config, {there: transposed(n, tensors[n]) for n, there in names}


def _refuse_lacking(head: TaskHead, width: int) -> None:
    """Refuses what transformers' class has no place for."""
    lacking, options = "", head.options
    if head.kind == "question_answering":
        if options.get("joint_prediction", True):
            lacking = "an end that depends on the start"
        elif options.get("answerable_classifier", True):
            lacking = "a classifier of having no answer"
    elif head.pooling != configs.DEFAULT_POOLING:
        lacking = f"the {head.pooling} of all tokens' vectors"
    elif (
        head.kind in PROBLEM_TYPES
        and not head.hidden_activation
        and 2 * (head.num_outputs or 0) > width
    ):
        lacking = (
            f"room for {head.num_outputs} labels in {width} hidden channels, "
            "two for each"
        )
    if lacking:
        raise CheckpointError(
            f"{CLASSES[head.kind]} lacks {lacking}, which the head "
            f"{head.task_name!r} has: leave the head behind with --encoder-only"
        )


def _both_signs(kernel: np.ndarray, bias: np.ndarray) -> dict[str, np.ndarray]:
    """The head for classification there: out_proj(gelu(dense(x))).

    The original's head is one dense layer, y = x W + b, without the hidden
    layer. As gelu(y) - gelu(-y) = y Phi(y) + y Phi(-y) = y, a hidden layer that
    computes every y and every -y, and an output layer that subtracts the one
    from the other, is the same function. Channels 2 i and 2 i + 1 are y and -y
    of label i; the rest is 0.
    """
    width, num_labels = kernel.shape
    channels = np.arange(2 * num_labels)
    signs = np.where(channels % 2, -1, 1).astype(np.float32)
    made = {
        "hidden/kernel": np.zeros((width, width), np.float32),
        "hidden/bias": np.zeros(width, np.float32),
        "dense/kernel": np.zeros((width, num_labels), np.float32),
        "dense/bias": np.zeros(num_labels, np.float32),
    }
    made["hidden/kernel"][:, channels] = signs * np.repeat(kernel, 2, axis=1)
    made["hidden/bias"][channels] = signs * np.repeat(bias, 2)
    made["dense/kernel"][channels, channels // 2] = signs
    return made


def _without_made_layer(
    tensors: dict[str, np.ndarray],
) -> dict[str, np.ndarray]:
    """Undoes `_both_signs`, unless a channel was left for something else."""
    width, num_labels = tensors["dense/kernel"].shape
    if 2 * num_labels > width:
        return tensors
    plus = slice(0, 2 * num_labels, 2)
    kernel = tensors["hidden/kernel"][:, plus]
    bias = tensors["hidden/bias"][plus]
    made = _both_signs(kernel, bias)
    if all(np.array_equal(made[name], t) for name, t in tensors.items()):
        return {"dense/kernel": kernel, "dense/bias": bias}
    return tensors
