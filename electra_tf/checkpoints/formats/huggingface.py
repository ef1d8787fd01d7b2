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
import os
import re
from collections.abc import Mapping

import numpy as np

from electra_tf import configs
from electra_tf.checkpoints import sizes
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.checkpoints.formats import huggingface_card
from electra_tf.checkpoints.formats import huggingface_files as files
from electra_tf.checkpoints.formats import huggingface_heads as heads
from electra_tf.checkpoints.formats import huggingface_names as names
from electra_tf.checkpoints.formats.huggingface_files import CONFIG_FILE
from electra_tf.checkpoints.run_scores import Scores
from electra_tf.errors import CheckpointError
from electra_tf.files import check_fields, read_json
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

# Keys of ours in config.json: whose encoder it is, where the class does not
# say (a masked language model has the names of a discriminator in the
# original); and all that transformers has no setting for.
_SCOPE_KEY = "electra_scope"
_OUR_KEY = "electra_tf"

# What transformers takes for a setting that config.json does not have.
_DEFAULTS = {
    "num_attention_heads": 4,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "initializer_range": 0.02,
    "hidden_act": "gelu",
}


# What is read of the latter, ...
_KEPT = {"head": dict, "max_seq_length": int, "assumed": list[str]}
# ... and of config.json, and checked nowhere else.
_FIELDS = {
    "model_type": str,
    "architectures": list[str],
    "problem_type": str,
    "tokenizer_class": str,
    "id2label": dict,
    _SCOPE_KEY: str,
    _OUR_KEY: dict,
}


def recognise(path: str) -> bool:
    """Whether a path is a model of transformers, or a pair of them."""
    return files.directory(path) is not None


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
    folder = files.directory(path)
    if folder is None:
        raise CheckpointError(
            f"Expected a Hugging Face directory with {CONFIG_FILE} at {path}, "
            "found none"
        )
    models = [_read_model(part) for part in files.parts(folder)]
    return models[0] if len(models) == 1 else _join(folder, *models)


def write(checkpoint: Checkpoint, path: str) -> None:
    """Writes one directory, or `generator` and `discriminator` in one.

    Raises:
      CheckpointError: If transformers has no such model.
    """
    for name, (config, tensors) in _models(checkpoint).items():
        folder = os.path.join(path, name)
        os.makedirs(folder, exist_ok=True)
        files.write_weights(tensors, folder)
        files.write_json(config, folder, CONFIG_FILE)
        if checkpoint.vocabulary is not None:
            files.write_tokenizer(
                checkpoint.vocabulary,
                config["max_position_embeddings"],
                folder,
            )


def write_card(
    checkpoint: Checkpoint,
    folder: str,
    path: str,
    source: str,
    scores: Scores | None = None,
) -> None:
    """Writes what `write` has written as a page; see `huggingface_card`."""
    huggingface_card.write(
        checkpoint, folder, path, source, notes(checkpoint), scores
    )


def notes(checkpoint: Checkpoint) -> tuple[str, ...]:
    """What transformers cannot hold, or holds otherwise, a line each."""
    found, head = [], checkpoint.head
    if head and head.kind in heads.PROBLEM_TYPES and not head.hidden_activation:
        found.append(
            "the head for classification has a hidden layer there; it is "
            "written so that it computes what the one layer here does"
        )
    scope = sizes.masked_lm_encoder(checkpoint.tensors)
    if head is None and scope in checkpoint.encoders:
        found += _head_notes(checkpoint.encoders[scope].hidden_act)
    if sizes.has_towers(checkpoint.tensors):
        found.append("transformers has no two-tower generator")
    if checkpoint.vocabulary is None:
        found.append(
            "no tokenizer is written, for want of a vocabulary (--vocab-file)"
        )
    else:
        found += checkpoint.vocabulary.case_notes()
        found.append(files.SPECIAL_TOKENS_NOTE)
        if checkpoint.vocabulary.text_cleaning != "none":
            found.append(
                f"{files.TOKENIZER_CONFIG_FILE} keeps text_cleaning="
                f"{checkpoint.vocabulary.text_cleaning!r} for this package: "
                "for transformers, texts must be cleaned first"
            )
    kept = _kept(checkpoint)
    names = [*kept.get("head", {}).get("options", {}), *kept]
    names = [name for name in names if name not in ("head", "segment")]
    if names:
        found.append(
            f"{CONFIG_FILE} keeps for this package what transformers does not "
            f"heed: {', '.join(names)}"
        )
    if head and head.kind == "tagging" and head.segment_of_words():
        found.append(
            f"the tagger reads its words in segment {head.segment_of_words()}, "
            "the tokenizer of transformers gives 0: pass token_type_ids of "
            f"{head.segment_of_words()} there"
        )
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
    folder = files.directory(path)
    assert folder is not None
    features = {
        name: torch.tensor(np.asarray(inputs[ours], np.int64))
        for name, ours in (
            ("input_ids", "input_ids"),
            ("attention_mask", "input_mask"),
            ("token_type_ids", "segment_ids"),
        )
    }
    outputs: dict[str, np.ndarray] = {}
    for part in files.parts(folder):
        config = read_json(os.path.join(part, CONFIG_FILE))
        architecture = files.architecture(config) or "ElectraModel"
        its_class = getattr(transformers, architecture, None)
        if not architecture.startswith("Electra") or its_class is None:
            its_class = transformers.ElectraModel  # Of somebody's own.
        model = its_class.from_pretrained(part, local_files_only=True)
        is_generator = architecture == "ElectraForMaskedLM"
        if is_generator and _head_notes(model.config.hidden_act):
            model.generator_predictions.activation = (
                transformers.activations.ACT2FN[model.config.hidden_act]
            )
        with torch.no_grad():
            found = model.float().eval()(**features, output_hidden_states=True)
        prefix = "generator_" if is_generator else ""
        outputs[f"{prefix}sequence_output"] = found["hidden_states"][-1].numpy()
        if architecture == "ElectraForPreTraining":
            prefix = "discriminator_"
        for name in ("logits", "start_logits", "end_logits"):
            if name in found:
                outputs[f"{prefix}{name}"] = found[name].numpy()
    return outputs


# --- Reading -----------------------------------------------------------------


def _read_model(folder: str) -> Checkpoint:
    """Reads one directory."""
    path = os.path.join(folder, CONFIG_FILE)
    config = _read_config(folder)
    theirs = files.read_weights(folder)
    if any(name.startswith("embeddings.") for name in theirs):
        # An ElectraModel, without a head.
        theirs = {f"electra.{name}": value for name, value in theirs.items()}
    sizes.refuse_other_architecture(theirs, folder)
    theirs.pop(names.BUFFER, None)
    is_generator = any(name.startswith("generator_") for name in theirs)
    scope = config.get(_SCOPE_KEY) or (
        "generator" if is_generator else "electra"
    )
    our_names = {n: names.our_name(n, scope) for n in sorted(theirs)}
    _refuse_two_names(our_names, theirs, folder)
    tensors = {
        ours: names.transposed(ours, theirs.pop(name))
        for name, ours in our_names.items()
        if ours is not None
    }
    table = tensors.get(f"{scope}/embeddings/word_embeddings")
    tied = theirs.pop(names.TIED, None)
    if not (tied is None or table is None or np.array_equal(tied, table)):
        raise CheckpointError(
            f"{folder}: the output layer {names.TIED} must be "
            "the table of word embeddings. Received: another matrix, which "
            "ELECTRA does not have"
        )
    head, head_tensors, used = heads.read_head(theirs, config, folder)
    kept = config.get(_OUR_KEY) or {}
    check_fields(kept, f"{path}, {_OUR_KEY}", **_KEPT)
    tokenizer, remarks = files.read_tokenizer(
        folder, config.get("tokenizer_class")
    )
    if head is not None:
        of_head = kept.get("head") or {}
        of_theirs = {name: theirs[name] for name in used}
        head, lines = heads.with_kept(head, of_head, of_theirs, path)
        remarks += tuple(lines)
        if head.kind == "tagging" and not of_head:
            remarks += (
                f"the tagger reads its words in segment {head.segment}, as the "
                "tokenizer of transformers gives it",
            )
    settings = {n: config[n] for n in sizes.NOT_IN_TENSORS}
    found = sizes.read_sizes(tensors | head_tensors, folder, {scope: settings})
    (encoder,) = found.encoders.values()
    for name, ours in dataclasses.asdict(encoder).items():
        if name not in settings and config.get(name, ours) != ours:
            raise CheckpointError(
                f"{path} says {name}={config[name]!r}, but the tensors beside "
                f"it have {name}={ours}"
            )
    if is_generator:
        sizes.check_shapes(
            tensors, sizes.masked_lm_head_shapes(encoder), folder
        )
        remarks += tuple(_head_notes(encoder.hidden_act))
    return dataclasses.replace(
        found,
        head=head,
        vocabulary=tokenizer,
        unused=tuple(sorted(theirs.keys() - used)),
        max_seq_length=kept.get("max_seq_length"),
        assumed=sizes.assumed_in(kept),
        notes=remarks,
    )


def _refuse_two_names(
    our_names: Mapping[str, str | None],
    theirs: Mapping[str, np.ndarray],
    folder: str,
) -> None:
    """Refuses a tensor that is there under two names, unless they agree."""
    first: dict[str, str] = {}
    for name, ours in our_names.items():
        if ours is None:
            continue
        other = first.setdefault(ours, name)
        if other != name and not np.array_equal(theirs[other], theirs[name]):
            raise CheckpointError(
                f"{folder}: expected one tensor for {other} and {name}, or "
                "equal ones. Received: two that differ"
            )


def _read_config(folder: str) -> dict:
    path = os.path.join(folder, CONFIG_FILE)
    if not os.path.isfile(path):
        raise CheckpointError(
            f"Expected {CONFIG_FILE} beside the weights in {folder}, found none"
        )
    config = _DEFAULTS | read_json(path, **_FIELDS)
    model_type = config.get("model_type") or (
        re.sub("(For|Model).*", "", files.architecture(config)).lower()
    )
    if model_type != "electra":
        raise CheckpointError(
            f"Expected an ELECTRA in {folder}. Received: a model of the type "
            f"{model_type or 'not said'}"
        )
    if config.get(_SCOPE_KEY) not in (None, "electra", "generator"):
        raise CheckpointError(
            f"{path}: {_SCOPE_KEY} must be electra or generator. Received: "
            f"{config[_SCOPE_KEY]!r}"
        )
    received = config["hidden_act"]
    if received not in tuple(_HIDDEN_ACTS):
        raise CheckpointError(
            f"{path}: hidden_act must be one of {', '.join(_HIDDEN_ACTS)}. "
            f"Received: {received!r}"
        )
    config["hidden_act"] = _HIDDEN_ACTS[received]
    for name, expected in (
        ("layer_norm_eps", _LAYER_NORM_EPS),
        ("position_embedding_type", "absolute"),
        ("is_decoder", False),
    ):
        received = config.get(name, expected)
        if received != expected:
            raise CheckpointError(
                f"{path}: {name} must be {expected!r}, as in the original. "
                f"Received: {received!r}"
            )
    return config


def _join(
    folder: str, generator: Checkpoint, discriminator: Checkpoint
) -> Checkpoint:
    """One checkpoint of two models."""
    if generator.generator is None or discriminator.discriminator is None:
        raise CheckpointError(
            f"Expected an ElectraForMaskedLM in {folder}/generator and another "
            f"ELECTRA in {folder}/discriminator. Received: two models of a kind"
        )
    theirs, ours = generator.tensors, discriminator.tensors

    def is_shared(prefix: str) -> bool:
        return all(
            (other := re.sub("^generator/", "electra/", name)) in ours
            and np.array_equal(tensor, ours[other])
            for name, tensor in theirs.items()
            if name.startswith(f"generator/{prefix}")
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
    tokenizers = (discriminator.vocabulary, generator.vocabulary)
    remarks = generator.notes + discriminator.notes
    if None not in tokenizers and tokenizers[0] != tokenizers[1]:
        remarks += (
            f"{folder}: the generator's tokenizer is another than the "
            "discriminator's, which is what is read here",
        )
    return dataclasses.replace(
        discriminator,
        tensors=ours | theirs,
        generator=kept,
        vocabulary=discriminator.vocabulary or generator.vocabulary,
        unused=generator.unused + discriminator.unused,
        assumed=tuple(dict.fromkeys(generator.assumed + discriminator.assumed)),
        notes=tuple(dict.fromkeys(remarks)),
    )


# --- Writing -----------------------------------------------------------------


def _models(
    checkpoint: Checkpoint,
) -> dict[str, tuple[dict, dict[str, np.ndarray]]]:
    """Subdirectory ("" for none) -> config.json and the tensors."""
    tensors, head = checkpoint.tensors, checkpoint.head
    found = {}
    has_discriminator_head = "discriminator_predictions/dense/kernel" in tensors
    scope = sizes.masked_lm_encoder(tensors)
    if head is None and scope is not None:
        is_of_discriminator = scope == "electra" and not has_discriminator_head
        found["generator"] = _model(
            checkpoint,
            scope,
            "ElectraForMaskedLM",
            {_SCOPE_KEY: "electra"} if is_of_discriminator else {},
            names.pretraining_head(tensors, "generator_predictions/"),
        )
    if checkpoint.discriminator is not None and head is not None:
        found["discriminator"] = _model(
            checkpoint,
            "electra",
            heads.CLASSES[head.kind],
            *heads.write_head(checkpoint, head),
        )
    elif checkpoint.discriminator is not None and (
        scope != "electra" or has_discriminator_head
    ):
        found["discriminator"] = _model(
            checkpoint,
            "electra",
            "ElectraForPreTraining"
            if has_discriminator_head
            else "ElectraModel",
            {},
            names.pretraining_head(tensors, "discriminator_predictions/"),
        )
    if not found:
        raise CheckpointError(
            "Expected a discriminator, or a generator with its head. Received: "
            "a checkpoint with neither"
        )
    return found if len(found) > 1 else {"": next(iter(found.values()))}


def _kept(checkpoint: Checkpoint) -> dict:
    """What transformers has no setting for, for `_read_model`."""
    kept: dict = {}
    if checkpoint.max_seq_length is not None:
        kept["max_seq_length"] = checkpoint.max_seq_length
    if checkpoint.assumed:
        kept["assumed"] = list(checkpoint.assumed)
    if checkpoint.head is not None and (of_head := heads.kept(checkpoint.head)):
        kept["head"] = of_head
    return kept


def _model(
    checkpoint: Checkpoint,
    scope: str,
    architecture: str,
    settings: dict,
    head_tensors: dict[str, np.ndarray],
) -> tuple[dict, dict[str, np.ndarray]]:
    """config.json of a model, with settings of its head, and its tensors."""
    encoder = checkpoint.encoders[scope]
    tokens = checkpoint.vocabulary.tokens if checkpoint.vocabulary else ()
    pad = vocabulary.PAD_TOKEN
    config = {
        "architectures": [architecture],
        "model_type": "electra",
        **dataclasses.asdict(encoder),
        "layer_norm_eps": _LAYER_NORM_EPS,
        "position_embedding_type": "absolute",
        "classifier_dropout": 0.1,
        "summary_type": "first",
        "summary_use_proj": True,
        "summary_activation": "gelu",
        "summary_last_dropout": 0.1,
        "tie_word_embeddings": True,
        "pad_token_id": tokens.index(pad) if pad in tokens else 0,
        "torch_dtype": "float32",
    }
    if kept := _kept(checkpoint):
        if "head" in kept:
            kept["head"]["sha256"] = heads.digests(head_tensors)
        config[_OUR_KEY] = kept
    tensors = names.encoder(checkpoint.tensors, scope, encoder)
    return config | settings, tensors | head_tensors
