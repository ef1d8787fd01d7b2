"""Directories of Hugging Face's transformers: config.json and weights.

There, the two networks are models of their own: the generator an
ElectraForMaskedLM with a copy of the embedding tables, the discriminator an
ElectraForPreTraining. A pair is a directory with the subdirectories
`generator` and `discriminator`, as which Google's releases are on the hub. A
fine-tuned model is an ElectraFor...Classification or ...QuestionAnswering.

Kernels are transposed there. The head for classification has one layer more
than the original's; see `_write_classifier`.

Shapes: C labels, D hidden.
"""

import dataclasses
import importlib
import json
import os
import re
from collections.abc import Callable, Mapping

import numpy as np

from electra_tf import configs, tokenization
from electra_tf.checkpoint_conversion import sizes as sizes_lib
from electra_tf.checkpoint_conversion import task_heads, vocabulary
from electra_tf.checkpoint_conversion.checkpoint import (
    Checkpoint,
    CheckpointError,
    TaskHead,
    Vocabulary,
    read_json,
    refuse_lfs_pointer,
)
from electra_tf.command_line import write_atomically

CONFIG_FILE = "config.json"
TOKENIZER_CONFIG_FILE = "tokenizer_config.json"
SAFETENSORS_FILE = "model.safetensors"
PICKLED_FILE = "pytorch_model.bin"
_WEIGHTS_FILES = (
    SAFETENSORS_FILE,
    f"{SAFETENSORS_FILE}.index.json",
    PICKLED_FILE,
    f"{PICKLED_FILE}.index.json",
)
SUBDIRECTORIES = ("generator", "discriminator")

# Their hidden_act -> ours.
_HIDDEN_ACTS = {
    "gelu": "gelu",
    "gelu_new": "gelu_new",
    "gelu_pytorch_tanh": "gelu_new",
    "relu": "relu",
    "tanh": "tanh",
    "linear": "linear",
}

# The original's LayerNorm has this and no other.
_LAYER_NORM_EPS = 1e-12
_HEAD_DROPOUT_PROB = 0.1

# Of an encoder, without its scope: name in the original -> name there. "{}" is
# the layer. A kernel is the transpose of a weight.
_TABLES = {
    "embeddings/word_embeddings": "embeddings.word_embeddings.weight",
    "embeddings/token_type_embeddings": (
        "embeddings.token_type_embeddings.weight"
    ),
    "embeddings/position_embeddings": "embeddings.position_embeddings.weight",
}
_LAYER_NORMS = {
    "embeddings": "embeddings",
    "encoder/layer_{}/attention/output": "encoder.layer.{}.attention.output",
    "encoder/layer_{}/output": "encoder.layer.{}.output",
}
_DENSE = {
    "embeddings_project": "embeddings_project",
    "encoder/layer_{}/attention/self/query": (
        "encoder.layer.{}.attention.self.query"
    ),
    "encoder/layer_{}/attention/self/key": (
        "encoder.layer.{}.attention.self.key"
    ),
    "encoder/layer_{}/attention/self/value": (
        "encoder.layer.{}.attention.self.value"
    ),
    "encoder/layer_{}/attention/output/dense": (
        "encoder.layer.{}.attention.output.dense"
    ),
    "encoder/layer_{}/intermediate/dense": (
        "encoder.layer.{}.intermediate.dense"
    ),
    "encoder/layer_{}/output/dense": "encoder.layer.{}.output.dense",
}
# Of the heads of pre-training.
_HEAD_NAMES = {
    "discriminator_predictions/dense/kernel": (
        "discriminator_predictions.dense.weight"
    ),
    "discriminator_predictions/dense/bias": (
        "discriminator_predictions.dense.bias"
    ),
    "discriminator_predictions/dense_1/kernel": (
        "discriminator_predictions.dense_prediction.weight"
    ),
    "discriminator_predictions/dense_1/bias": (
        "discriminator_predictions.dense_prediction.bias"
    ),
    "generator_predictions/dense/kernel": "generator_predictions.dense.weight",
    "generator_predictions/dense/bias": "generator_predictions.dense.bias",
    "generator_predictions/LayerNorm/gamma": (
        "generator_predictions.LayerNorm.weight"
    ),
    "generator_predictions/LayerNorm/beta": (
        "generator_predictions.LayerNorm.bias"
    ),
    "generator_predictions/output_bias": "generator_lm_head.bias",
}
# The output layer's kernel, which is the table of word embeddings.
_TIED = "generator_lm_head.weight"
# Part of the model, but no weights.
_BUFFERS = ("electra.embeddings.position_ids",)

# A key of ours in config.json: whose encoder it is, where the class does not
# say. A masked language model has the names of a discriminator in the original.
_SCOPE_KEY = "electra_scope"

# Kind of a head -> its class there.
_CLASSES = {
    "classification": "ElectraForSequenceClassification",
    "regression": "ElectraForSequenceClassification",
    "multi_label_classification": "ElectraForSequenceClassification",
    "tagging": "ElectraForTokenClassification",
    "question_answering": "ElectraForQuestionAnswering",
}
_PROBLEM_TYPES = {
    "classification": "single_label_classification",
    "regression": "regression",
    "multi_label_classification": "multi_label_classification",
}


def recognise(path: str) -> bool:
    """Whether a path is a model of transformers, or a pair of them."""
    return _directory(path) is not None


def read(path: str) -> Checkpoint:
    """Reads a model, or a generator and its discriminator.

    Nothing that a file holds is executed.

    Args:
      path: Directory of a model or of a pair, or a file of weights in one.

    Returns:
      The checkpoint. A generator whose embeddings are those of its
      discriminator shares them, as in the original; one that equals its
      discriminator is left out, as the original then has one network.

    Raises:
      CheckpointError: If it cannot be read, is no ELECTRA or has settings
        that an ELECTRA here cannot have.
    """
    folder = _directory(path)
    if folder is None:
        raise CheckpointError(
            f"Expected a Hugging Face directory with {CONFIG_FILE} at {path}, "
            "found none"
        )
    parts = {
        name: os.path.join(folder, name)
        for name in SUBDIRECTORIES
        if os.path.isfile(os.path.join(folder, name, CONFIG_FILE))
    }
    if os.path.isfile(os.path.join(folder, CONFIG_FILE)) or not parts:
        return _read_model(folder)
    models = {name: _read_model(part) for name, part in parts.items()}
    if len(models) == 1:
        return next(iter(models.values()))
    return _join(models["generator"], models["discriminator"], folder)


def write(checkpoint: Checkpoint, path: str) -> None:
    """Writes one directory, or `generator` and `discriminator` in one.

    Args:
      checkpoint: What to write.
      path: The directory.

    Raises:
      CheckpointError: If transformers has no such model.
    """
    for name, model in _models(checkpoint).items():
        folder = os.path.join(path, name)
        os.makedirs(folder, exist_ok=True)
        config, make_tensors = model
        _save_safetensors(
            make_tensors(), os.path.join(folder, SAFETENSORS_FILE)
        )
        write_atomically(
            os.path.join(folder, CONFIG_FILE),
            json.dumps(config, indent=2, ensure_ascii=False) + "\n",
        )
        if checkpoint.vocabulary is not None:
            _write_tokenizer(
                checkpoint.vocabulary,
                config["max_position_embeddings"],
                folder,
            )


def notes(checkpoint: Checkpoint) -> tuple[str, ...]:
    """What transformers cannot hold of a checkpoint, or holds otherwise.

    Args:
      checkpoint: To be written.

    Returns:
      One line for the user each.
    """
    found = []
    head = checkpoint.head
    if (
        head is not None
        and head.kind in _PROBLEM_TYPES
        and head.hidden_activation is None
    ):
        found.append(
            "the head for classification has a hidden layer there; it is "
            "written so that it computes what the one layer here does"
        )
    scope = sizes_lib.masked_lm_encoder(checkpoint.tensors)
    config = (
        checkpoint.generator
        if scope == "generator"
        else checkpoint.discriminator
    )
    if head is None and scope is not None and config is not None:
        found += _head_notes(config.hidden_act)
    if any(name.startswith("generator_ltr/") for name in checkpoint.tensors):
        found.append("transformers has no two-tower generator")
    if checkpoint.vocabulary is None:
        found.append(
            "no tokenizer is written, for want of a vocabulary (--vocab-file)"
        )
    else:
        found += vocabulary.case_notes(checkpoint.vocabulary)
    return tuple(found)


def _head_notes(hidden_act: str) -> list[str]:
    """What a masked language model's head computes otherwise."""
    if hidden_act in ("gelu", "gelu_new"):
        return []
    return [
        "in a masked language model's head transformers computes GELU, whatever"
        f" hidden_act is, and this package {hidden_act}, as the original does: "
        "their logits differ, unless model.generator_predictions.activation = "
        f"transformers.activations.ACT2FN[{hidden_act!r}]"
    ]


def forward(
    path: str, inputs: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """What transformers itself computes.

    With one change, where `notes` advises it: a masked language model's head
    has the activation of its encoder.

    Args:
      path: As for `read`.
      inputs: `input_ids`, `input_mask` and `segment_ids` <int32>[B, L].

    Returns:
      Outputs under the names of `verify.forward`.

    Raises:
      ImportError: If transformers or torch is not installed.
    """
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    folder = _directory(path)
    assert folder is not None
    parts = [folder]
    if not os.path.isfile(os.path.join(folder, CONFIG_FILE)):
        parts = [os.path.join(folder, name) for name in SUBDIRECTORIES]
    features = {
        name: torch.tensor(np.asarray(inputs[ours], np.int64))
        for name, ours in (
            ("input_ids", "input_ids"),
            ("attention_mask", "input_mask"),
            ("token_type_ids", "segment_ids"),
        )
    }
    outputs: dict[str, np.ndarray] = {}
    for part in (p for p in parts if os.path.isdir(p)):
        config = read_json(os.path.join(part, CONFIG_FILE))
        architecture = (config.get("architectures") or ["ElectraModel"])[0]
        model = getattr(transformers, architecture).from_pretrained(
            part, local_files_only=True
        )
        is_generator = architecture == "ElectraForMaskedLM"
        if is_generator and _head_notes(model.config.hidden_act):
            model.generator_predictions.activation = (
                transformers.activations.ACT2FN[model.config.hidden_act]
            )
        with torch.no_grad():
            found = model.float().eval()(**features, output_hidden_states=True)
        prefix = "generator_" if is_generator else ""
        outputs[f"{prefix}sequence_output"] = found["hidden_states"][-1].numpy()
        name = {
            "ElectraForMaskedLM": "generator_logits",
            "ElectraForPreTraining": "discriminator_logits",
        }.get(architecture, "logits")
        for theirs, ours in (
            ("logits", name),
            ("start_logits", "start_logits"),
            ("end_logits", "end_logits"),
        ):
            if theirs in found:
                outputs[ours] = found[theirs].numpy()
    return outputs


# --- Reading -----------------------------------------------------------------


def _directory(path: str | os.PathLike) -> str | None:
    """The directory of a model or a pair."""
    path = os.fspath(path)
    if os.path.isfile(path) and os.path.basename(path) in _WEIGHTS_FILES:
        path = os.path.dirname(path) or "."
    if not os.path.isdir(path):
        return None
    for folder in (path, *(os.path.join(path, s) for s in SUBDIRECTORIES)):
        config = os.path.join(folder, CONFIG_FILE)
        if os.path.isfile(config):
            content = read_json(config)
            if "model_type" in content or "architectures" in content:
                return path
    has_weights = any(
        os.path.isfile(os.path.join(path, name)) for name in _WEIGHTS_FILES
    )
    has_config = os.path.isfile(os.path.join(path, CONFIG_FILE))
    return path if has_weights and not has_config else None


def _read_model(folder: str) -> Checkpoint:
    """Reads one directory."""
    config = _read_config(folder)
    theirs = _read_weights(folder)
    sizes_lib.refuse_other_architecture(
        {name: None for name in theirs} if _has_prefix(theirs) else ["electra"],
        folder,
    )
    if not _has_prefix(theirs):  # An ElectraModel, without a head.
        theirs = {f"electra.{name}": value for name, value in theirs.items()}
    for name in _BUFFERS:
        theirs.pop(name, None)
    is_generator = any(name.startswith("generator_") for name in theirs)
    scope = config.get(_SCOPE_KEY, "generator" if is_generator else "electra")
    tied = theirs.pop(_TIED, None)
    tensors: dict[str, np.ndarray] = {}
    unused = []
    for name in sorted(theirs):
        ours = _our_name(name, scope)
        if ours is None:
            unused.append(name)
        else:
            value = theirs.pop(name)
            tensors[ours] = value.T if ours.endswith("/kernel") else value
    table = tensors.get(f"{scope}/embeddings/word_embeddings")
    if tied is not None and table is not None and not _equal(tied, table):
        raise CheckpointError(
            f"{folder}: the output layer {_TIED} must be the table of word "
            "embeddings. Received: another matrix, which ELECTRA does not have"
        )
    head, head_tensors, used = _read_head(theirs, config, folder)
    tensors |= head_tensors
    settings = _known_settings(config, folder)
    sizes = sizes_lib.read_sizes(
        tensors, folder, {"electra": settings, "generator": settings}
    )
    encoder = sizes.discriminator or sizes.generator
    assert encoder is not None
    _refuse_other_sizes(config, encoder, folder)
    if is_generator:
        sizes_lib.check_shapes(
            tensors, sizes_lib.masked_lm_head_shapes(encoder), folder
        )
    tokenizer, remarks = _read_tokenizer(folder)
    if is_generator:
        remarks += tuple(_head_notes(encoder.hidden_act))
    return Checkpoint(
        tensors=tensors,
        discriminator=sizes.discriminator,
        generator=sizes.generator,
        head=head,
        vocabulary=tokenizer,
        unused=tuple(name for name in unused if name not in used),
        assumed=sizes.assumed,
        notes=remarks,
    )


def _has_prefix(theirs: Mapping) -> bool:
    """Whether the encoder is in a scope, as it is below a head."""
    return not any(name.startswith("embeddings.") for name in theirs)


def _read_config(folder: str) -> dict:
    path = os.path.join(folder, CONFIG_FILE)
    if not os.path.isfile(path):
        raise CheckpointError(
            f"Expected {CONFIG_FILE} beside the weights in {folder}, found none"
        )
    config = read_json(path)
    model_type = config.get("model_type") or (
        re.sub("(For|Model).*", "", config["architectures"][0]).lower()
    )
    if model_type != "electra":
        raise CheckpointError(
            f"Expected an ELECTRA in {folder}. Received: a model of the type "
            f"{model_type}"
        )
    received = config.setdefault("hidden_act", "gelu")
    if received not in tuple(_HIDDEN_ACTS):
        raise CheckpointError(
            f"{path}: hidden_act must be one of {', '.join(_HIDDEN_ACTS)}. "
            f"Received: {received!r}"
        )
    config["hidden_act"] = _HIDDEN_ACTS[received]
    for name, expected, default in (
        ("layer_norm_eps", _LAYER_NORM_EPS, _LAYER_NORM_EPS),
        ("position_embedding_type", "absolute", "absolute"),
        ("is_decoder", False, False),
    ):
        received = config.get(name, default)
        if received != expected:
            raise CheckpointError(
                f"{path}: {name} must be {expected!r}, as in the original. "
                f"Received: {received!r}"
            )
    return config


def _known_settings(config: dict, folder: str) -> dict:
    """What no shape tells, as far as config.json has it."""
    return {
        name: config[name]
        for name in sizes_lib.NOT_IN_TENSORS
        if name in config
    }


def _refuse_other_sizes(config, encoder, folder) -> None:
    """Compares config.json with what the tensors say."""
    for name in sizes_lib.size_names():
        ours = getattr(encoder, name)
        if name in config and config[name] != ours:
            raise CheckpointError(
                f"{os.path.join(folder, CONFIG_FILE)} says "
                f"{name}={config[name]!r}, but the tensors beside it have "
                f"{name}={ours}"
            )


def _our_name(name: str, scope: str) -> str | None:
    """The original's name of a tensor; None for those of fine-tuned heads."""
    # Conversions of old have TensorFlow's names of LayerNorm.
    name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", name)
    name = re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name)
    if name in _OUR_HEAD_NAMES:
        return _OUR_HEAD_NAMES[name]
    prefix, _, rest = name.partition(".")
    if prefix != "electra":
        return None
    number = re.search(r"\.layer\.(\d+)\.", rest)
    if number is None:
        ours = _OUR_NAMES.get(rest)
    else:
        ours = _OUR_NAMES.get(rest.replace(number[0], ".layer.{}."))
        ours = ours and ours.format(number[1])
    return ours and f"{scope}/{ours}"


def _their_names() -> dict[str, str]:
    """Every pattern of an encoder's names: the original's -> theirs."""
    names = dict(_TABLES)
    for ours, theirs in _LAYER_NORMS.items():
        names[f"{ours}/LayerNorm/gamma"] = f"{theirs}.LayerNorm.weight"
        names[f"{ours}/LayerNorm/beta"] = f"{theirs}.LayerNorm.bias"
    for ours, theirs in _DENSE.items():
        names[f"{ours}/kernel"] = f"{theirs}.weight"
        names[f"{ours}/bias"] = f"{theirs}.bias"
    return names


_THEIR_NAMES = _their_names()
_OUR_NAMES = {theirs: ours for ours, theirs in _THEIR_NAMES.items()}
_OUR_HEAD_NAMES = {theirs: ours for ours, theirs in _HEAD_NAMES.items()}


def _read_head(
    theirs: dict[str, np.ndarray], config: dict, folder: str
) -> tuple[TaskHead | None, dict[str, np.ndarray], set[str]]:
    """A fine-tuned head, its tensors, and their names there."""
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


def _join(
    generator: Checkpoint, discriminator: Checkpoint, folder: str
) -> Checkpoint:
    """One checkpoint of two models."""
    if generator.generator is None or discriminator.discriminator is None:
        raise CheckpointError(
            f"Expected an ElectraForMaskedLM in {folder}/generator and another "
            f"ELECTRA in {folder}/discriminator. Received: two models of a kind"
        )
    theirs = dict(generator.tensors)
    ours = discriminator.tensors

    def is_shared(prefix: str) -> bool:
        names = [n for n in theirs if n.startswith(f"generator/{prefix}")]
        return all(
            (other := ours.get("electra/" + n.removeprefix("generator/")))
            is not None
            and _equal(theirs[n], other)
            for n in names
        )

    config = generator.generator
    kept: configs.EncoderConfig | None = config
    if config == discriminator.discriminator and is_shared(""):
        kept, shared = None, "generator/"
    elif is_shared("embeddings/"):
        shared = "generator/embeddings/"
    elif config.embedding_size == config.hidden_size:
        shared = ""  # Untied embeddings, which the original can have.
    else:
        raise CheckpointError(
            f"{folder}: the generator's embeddings must be the discriminator's,"
            " or as wide as its hidden vectors. Received: others, "
            f"{config.embedding_size} wide with hidden_size="
            f"{config.hidden_size}. Convert the two directories one by one"
        )
    if shared:
        theirs = {n: t for n, t in theirs.items() if not n.startswith(shared)}
    return dataclasses.replace(
        discriminator,
        tensors=ours | theirs,
        generator=kept,
        vocabulary=discriminator.vocabulary or generator.vocabulary,
        unused=generator.unused + discriminator.unused,
        assumed=tuple(dict.fromkeys(generator.assumed + discriminator.assumed)),
        notes=tuple(dict.fromkeys(generator.notes + discriminator.notes)),
    )


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and np.array_equal(a, b)


# --- Files of weights --------------------------------------------------------


def _read_weights(folder: str) -> dict[str, np.ndarray]:
    """All tensors of a directory, in float32."""
    for name, read_file in (
        (SAFETENSORS_FILE, _read_safetensors),
        (PICKLED_FILE, _read_pickled),
    ):
        path = os.path.join(folder, name)
        index = f"{path}.index.json"
        if os.path.isfile(path):
            return read_file(path)
        if os.path.isfile(index):
            return _read_shards(index, folder, read_file)
    raise CheckpointError(
        f"Expected {SAFETENSORS_FILE} or {PICKLED_FILE} in {folder}, found "
        "neither"
    )


def _read_shards(
    index: str, folder: str, read_file: Callable
) -> dict[str, np.ndarray]:
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise CheckpointError(f"Cannot read {index}: it has no weight_map")
    tensors: dict[str, np.ndarray] = {}
    for name in sorted(set(weight_map.values())):
        path = os.path.join(folder, os.path.basename(name))
        if not os.path.isfile(path):
            raise CheckpointError(f"{index} names the shard {path}, not found")
        tensors |= read_file(path)
    missing = sorted(set(weight_map) - set(tensors))
    if missing:
        raise CheckpointError(
            f"{index} names {missing[0]}, which no shard holds"
        )
    return tensors


def _read_safetensors(path: str) -> dict[str, np.ndarray]:
    safetensors = _import("safetensors", path)
    refuse_lfs_pointer(path)
    tensors = {}
    try:
        with safetensors.safe_open(path, framework="np") as file:
            for name in file.keys():  # noqa: SIM118  (it is no dictionary)
                tensors[name] = _as_float32(file.get_tensor(name), name, path)
    except (safetensors.SafetensorError, OSError) as error:
        raise CheckpointError(
            f"Cannot read {path}, which may be cut short: {error}"
        ) from None
    return tensors


def _read_pickled(path: str) -> dict[str, np.ndarray]:
    refuse_lfs_pointer(path)
    torch = _import("torch", path)
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
        return {
            name: _as_float32(
                (value.float() if value.is_floating_point() else value).numpy(),
                name,
                path,
            )
            for name, value in found.items()
        }
    except Exception as error:  # noqa: BLE001  (unpickling raises anything)
        reason = str(error).split("\n")[0].split(". ")[0]
        raise CheckpointError(
            f"Cannot read {path}; code in it is never run: {reason}"
        ) from None


def _as_float32(tensor: np.ndarray, name: str, path: str) -> np.ndarray:
    if name.endswith("position_ids"):
        return tensor
    if tensor.dtype.name not in ("float32", "float16", "bfloat16", "float64"):
        raise CheckpointError(
            f"{path}: {name} must hold floating-point numbers. Received: "
            f"{tensor.dtype.name}"
        )
    return tensor.astype(np.float32, copy=False)


def _import(package: str, path: str):
    try:
        return importlib.import_module(package)
    except ImportError:
        raise CheckpointError(
            f"{path} takes the package {package}: pip install "
            "'electra_tf[interop]', or pip install " + package
        ) from None


def _save_safetensors(tensors: Mapping[str, np.ndarray], path: str) -> None:
    _import("safetensors", path)
    from safetensors.numpy import save_file

    save_file(
        {name: np.ascontiguousarray(t) for name, t in tensors.items()},
        path,
        # transformers refuses files that do not say so.
        metadata={"format": "pt"},
    )


# --- Writing -----------------------------------------------------------------


def _models(
    checkpoint: Checkpoint,
) -> dict[str, tuple[dict, Callable[[], dict[str, np.ndarray]]]]:
    """Subdirectory ("" for none) -> config.json and what makes the tensors."""
    tensors = checkpoint.tensors
    if checkpoint.head is not None:
        _require_discriminator(checkpoint)
        return {"": _finetuned_model(checkpoint)}
    found: dict = {}
    scope = sizes_lib.masked_lm_encoder(tensors)
    has_discriminator_head = "discriminator_predictions/dense/kernel" in tensors
    if scope is not None:
        config = (
            checkpoint.generator
            if scope == "generator"
            else checkpoint.discriminator
        )
        assert config is not None
        settings = _config(checkpoint, config, "ElectraForMaskedLM")
        if scope == "electra" and not has_discriminator_head:
            settings[_SCOPE_KEY] = "electra"
        found["generator"] = (
            settings,
            lambda: (
                _encoder(tensors, scope, config)
                | _head(tensors, "generator_predictions/")
            ),
        )
    if checkpoint.discriminator is not None and (
        scope != "electra" or has_discriminator_head
    ):
        found["discriminator"] = (
            _config(
                checkpoint,
                checkpoint.discriminator,
                "ElectraForPreTraining"
                if has_discriminator_head
                else "ElectraModel",
            ),
            lambda: (
                _encoder(tensors, "electra", checkpoint.discriminator)
                | _head(tensors, "discriminator_predictions/")
            ),
        )
    if not found:
        _require_discriminator(checkpoint)
    if len(found) == 1:
        return {"": next(iter(found.values()))}
    return found


def _require_discriminator(checkpoint: Checkpoint) -> None:
    if checkpoint.discriminator is None:
        raise CheckpointError(
            "Expected a discriminator, or a generator with its head. Received: "
            "a checkpoint with neither"
        )


def _config(
    checkpoint: Checkpoint, config: configs.EncoderConfig, architecture: str
) -> dict:
    """config.json of a model."""
    tokens = checkpoint.vocabulary.tokens if checkpoint.vocabulary else ()
    pad = tokenization.PAD_TOKEN
    return {
        "architectures": [architecture],
        "model_type": "electra",
        **dataclasses.asdict(config),
        "layer_norm_eps": _LAYER_NORM_EPS,
        "position_embedding_type": "absolute",
        "classifier_dropout": _HEAD_DROPOUT_PROB,
        "summary_type": "first",
        "summary_use_proj": True,
        "summary_activation": "gelu",
        "summary_last_dropout": 0.1,
        "tie_word_embeddings": True,
        "pad_token_id": tokens.index(pad) if pad in tokens else 0,
        "torch_dtype": "float32",
    }


def _encoder(
    tensors: Mapping[str, np.ndarray],
    scope: str,
    config: configs.EncoderConfig | None,
) -> dict[str, np.ndarray]:
    """An encoder's tensors under their names there."""
    assert config is not None
    found: dict[str, np.ndarray] = {}
    for ours in sizes_lib.encoder_shapes(config, scope):
        rest = ours.removeprefix(f"{scope}/")
        number = re.search(r"/layer_(\d+)/", rest)
        if number is not None:
            theirs = _THEIR_NAMES[rest.replace(number[0], "/layer_{}/")]
            theirs = theirs.format(number[1])
        else:
            theirs = _THEIR_NAMES[rest]
        # A generator without tables has a copy of the discriminator's there.
        value = tensors[ours if ours in tensors else f"electra/{rest}"]
        found[f"electra.{theirs}"] = _theirs(ours, value)
    return found


def _theirs(ours: str, value: np.ndarray) -> np.ndarray:
    return value.T if ours.endswith("/kernel") else value


def _head(
    tensors: Mapping[str, np.ndarray], scope: str
) -> dict[str, np.ndarray]:
    """Tensors of a head of pre-training under their names there."""
    return {
        theirs: _theirs(ours, tensors[ours])
        for ours, theirs in _HEAD_NAMES.items()
        if ours.startswith(scope) and ours in tensors
    }


def _finetuned_model(checkpoint: Checkpoint):
    """config.json of a fine-tuned model and what makes its tensors."""
    head, encoder = checkpoint.head, checkpoint.discriminator
    assert head is not None and encoder is not None
    config = _config(checkpoint, encoder, _CLASSES[head.kind])
    config["finetuning_task"] = head.task_name
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
        theirs = {
            "qa_outputs.weight": np.concatenate(
                [ours["dense/kernel"].T, ours["dense_1/kernel"].T]
            ),
            "qa_outputs.bias": np.concatenate(
                [ours["dense/bias"], ours["dense_1/bias"]]
            ),
        }
    else:
        labels = head.labels or _default_labels(head)
        if head.kind == "regression":
            labels = head.labels or ("LABEL_0",)
        config["num_labels"] = len(labels)
        config["id2label"] = {str(i): label for i, label in enumerate(labels)}
        config["label2id"] = {label: i for i, label in enumerate(labels)}
        if head.kind == "tagging":
            theirs = {
                "classifier.weight": ours["dense/kernel"].T,
                "classifier.bias": ours["dense/bias"],
            }
        else:
            config["problem_type"] = _PROBLEM_TYPES[head.kind]
            theirs = _write_classifier(ours, checkpoint)
    return (
        config,
        lambda: _encoder(checkpoint.tensors, "electra", encoder) | theirs,
    )


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


# --- Tokenizer ---------------------------------------------------------------


def _read_tokenizer(
    folder: str,
) -> tuple[Vocabulary | None, tuple[str, ...]]:
    """The vocabulary and its settings, and remarks on them."""
    settings: dict = {}
    path = os.path.join(folder, TOKENIZER_CONFIG_FILE)
    if os.path.isfile(path):
        settings = read_json(path)
    fast_path = os.path.join(folder, "tokenizer.json")
    fast = read_json(fast_path) if os.path.isfile(fast_path) else {}
    normalizer = fast.get("normalizer") or {}
    lower = settings.get("do_lower_case", normalizer.get("lowercase"))
    if lower is None and settings:
        lower = True  # The default of their tokenizer.
    strip = settings.get("strip_accents", normalizer.get("strip_accents"))
    if lower is not None and strip is None:
        strip = lower
    found = vocabulary.read(
        os.path.join(folder, vocabulary.VOCAB_FILE), lower, strip
    )
    if found is None:
        ids = (fast.get("model") or {}).get("vocab")
        if isinstance(ids, dict) and ids:
            tokens = tuple(sorted(ids, key=lambda token: ids[token]))
            found = Vocabulary(tokens, lower, strip)
    notes = []
    if settings.get("tokenize_chinese_chars", True) is False:
        notes.append(
            f"{path}: tokenize_chinese_chars=False does not travel; here every "
            "ideograph is a word"
        )
    return found, tuple(notes)


def _write_tokenizer(
    vocab: Vocabulary, max_position_embeddings: int, folder: str
) -> None:
    """vocab.txt and what makes AutoTokenizer agree with ours."""
    lower = vocabulary.lower_cases(vocab)
    vocab = dataclasses.replace(vocab, do_lower_case=lower)
    write_atomically(
        os.path.join(folder, vocabulary.VOCAB_FILE),
        "".join(f"{token}\n" for token in vocab.tokens),
    )
    special = {
        f"{name}_token": f"[{name.upper()}]"
        for name in ("unk", "sep", "pad", "cls", "mask")
    }
    settings = {
        "tokenizer_class": "ElectraTokenizer",
        "do_lower_case": lower,
        "strip_accents": vocabulary.strips_accents(vocab),
        "tokenize_chinese_chars": True,
        "model_max_length": max_position_embeddings,
    }
    for name, content in (
        (TOKENIZER_CONFIG_FILE, settings | special),
        ("special_tokens_map.json", special),
    ):
        write_atomically(
            os.path.join(folder, name), json.dumps(content, indent=2) + "\n"
        )
