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

from electra_tf import configs
from electra_tf.checkpoints import sizes as sizes_lib
from electra_tf.checkpoints import task_heads
from electra_tf.checkpoints.checkpoint import (
    Checkpoint,
    TaskHead,
)
from electra_tf.checkpoints.formats import huggingface_model
from electra_tf.errors import CheckpointError
from electra_tf.files import read_json, refuse_lfs_pointer, write_atomically
from electra_tf.text import vocabulary
from electra_tf.text.vocabulary import Vocabulary

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
    for name, model in huggingface_model._models(checkpoint).items():
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
        found += checkpoint.vocabulary.case_notes()
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


# --- Reading -----------------------------------------------------------------


def forward(
    path: str, inputs: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """What transformers itself computes: see `huggingface_model.forward`."""
    return huggingface_model.forward(path, inputs)


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
        found = huggingface_model._read_classifier(theirs)
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
    lower = vocab.lower_cases()
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
        "strip_accents": vocab.strips_accents(),
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
