"""Directories of Hugging Face's transformers: config.json and weights.

There, the two networks are models of their own: the generator an
ElectraForMaskedLM with a copy of the embedding tables, the discriminator an
ElectraForPreTraining. A pair is a directory with the subdirectories
`generator` and `discriminator`, as which Google's releases are on the hub. A
fine-tuned model is an ElectraFor...Classification or ...QuestionAnswering.

Names are in `huggingface_names`, fine-tuned heads in `huggingface_heads`, and
what a directory holds in `huggingface_files`.

Shapes: B batch, L length.
"""

import dataclasses
import json
import os
import re
from collections.abc import Callable, Mapping

import numpy as np

from electra_tf import configs
from electra_tf.checkpoints import sizes as sizes_lib
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.checkpoints.formats import (
    huggingface_files,
    huggingface_heads,
    huggingface_names,
)
from electra_tf.checkpoints.formats.huggingface_files import CONFIG_FILE
from electra_tf.errors import CheckpointError
from electra_tf.files import read_json, write_atomically
from electra_tf.text import vocabulary

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

# A key of ours in config.json: whose encoder it is, where the class does not
# say. A masked language model has the names of a discriminator in the original.
_SCOPE_KEY = "electra_scope"


def recognise(path: str) -> bool:
    """Whether a path is a model of transformers, or a pair of them."""
    return huggingface_files.directory(path) is not None


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
    folder = huggingface_files.directory(path)
    if folder is None:
        raise CheckpointError(
            f"Expected a Hugging Face directory with {CONFIG_FILE} at {path}, "
            "found none"
        )
    parts = {
        name: os.path.join(folder, name)
        for name in huggingface_files.SUBDIRECTORIES
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
        huggingface_files.save_safetensors(
            make_tensors(),
            os.path.join(folder, huggingface_files.SAFETENSORS_FILE),
        )
        write_atomically(
            os.path.join(folder, CONFIG_FILE),
            json.dumps(config, indent=2, ensure_ascii=False) + "\n",
        )
        if checkpoint.vocabulary is not None:
            huggingface_files.write_tokenizer(
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
        and head.kind in huggingface_heads.PROBLEM_TYPES
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
    folder = huggingface_files.directory(path)
    assert folder is not None
    parts = [folder]
    if not os.path.isfile(os.path.join(folder, CONFIG_FILE)):
        parts = [
            os.path.join(folder, name)
            for name in huggingface_files.SUBDIRECTORIES
        ]
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


def _read_model(folder: str) -> Checkpoint:
    """Reads one directory."""
    config = _read_config(folder)
    theirs = huggingface_files.read_weights(folder)
    sizes_lib.refuse_other_architecture(
        {name: None for name in theirs} if _has_prefix(theirs) else ["electra"],
        folder,
    )
    if not _has_prefix(theirs):  # An ElectraModel, without a head.
        theirs = {f"electra.{name}": value for name, value in theirs.items()}
    for name in huggingface_names.BUFFERS:
        theirs.pop(name, None)
    is_generator = any(name.startswith("generator_") for name in theirs)
    scope = config.get(_SCOPE_KEY, "generator" if is_generator else "electra")
    tied = theirs.pop(huggingface_names.TIED, None)
    tensors: dict[str, np.ndarray] = {}
    unused = []
    for name in sorted(theirs):
        ours = huggingface_names.our_name(name, scope)
        if ours is None:
            unused.append(name)
        else:
            value = theirs.pop(name)
            tensors[ours] = value.T if ours.endswith("/kernel") else value
    table = tensors.get(f"{scope}/embeddings/word_embeddings")
    if tied is not None and table is not None and not _equal(tied, table):
        raise CheckpointError(
            f"{folder}: the output layer {huggingface_names.TIED} must be "
            "the table of word embeddings. Received: another matrix, which "
            "ELECTRA does not have"
        )
    head, head_tensors, used = huggingface_heads.read_head(
        theirs, config, folder
    )
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
    tokenizer, remarks = huggingface_files.read_tokenizer(folder)
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


# --- Writing -----------------------------------------------------------------


def _models(
    checkpoint: Checkpoint,
) -> dict[str, tuple[dict, Callable[[], dict[str, np.ndarray]]]]:
    """Subdirectory ("" for none) -> config.json and what makes the tensors."""
    tensors = checkpoint.tensors
    if checkpoint.head is not None:
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
                huggingface_names.encoder(tensors, scope, config)
                | huggingface_names.pretraining_head(
                    tensors, "generator_predictions/"
                )
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
                huggingface_names.encoder(
                    tensors, "electra", checkpoint.discriminator
                )
                | huggingface_names.pretraining_head(
                    tensors, "discriminator_predictions/"
                )
            ),
        )
    if not found:
        _require_discriminator(checkpoint)
    if len(found) == 1:
        return {"": next(iter(found.values()))}
    return found


def _finetuned_model(
    checkpoint: Checkpoint,
) -> tuple[dict, Callable[[], dict[str, np.ndarray]]]:
    """config.json of a fine-tuned model and what makes its tensors."""
    _require_discriminator(checkpoint)
    head, encoder = checkpoint.head, checkpoint.discriminator
    assert head is not None and encoder is not None
    settings, theirs = huggingface_heads.write_head(checkpoint)
    return (
        _config(checkpoint, encoder, huggingface_heads.CLASSES[head.kind])
        | settings,
        lambda: (
            huggingface_names.encoder(checkpoint.tensors, "electra", encoder)
            | theirs
        ),
    )


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
    pad = vocabulary.PAD_TOKEN
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
