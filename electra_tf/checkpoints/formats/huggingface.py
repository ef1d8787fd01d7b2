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
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping

import numpy as np

from electra_tf.checkpoints import sizes
from electra_tf.checkpoints.checkpoint import Checkpoint, summarize
from electra_tf.checkpoints.formats import huggingface_card
from electra_tf.checkpoints.formats import huggingface_files as files
from electra_tf.checkpoints.formats import huggingface_heads as heads
from electra_tf.checkpoints.formats import huggingface_names as names
from electra_tf.checkpoints.formats.huggingface_files import CONFIG_FILE
from electra_tf.checkpoints.run_scores import Scores
from electra_tf.errors import CheckpointError
from electra_tf.files import check_fields, read_json, write_json
from electra_tf.text import vocabulary

# Their hidden_act -> ours, where it is another.
_HIDDEN_ACTS = {"gelu_pytorch_tanh": "gelu_new"}

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
# Settings of which the original has one value.
_FIXED = {
    "layer_norm_eps": (1e-12,),
    "position_embedding_type": ("absolute",),
    "is_decoder": (False,),
    _SCOPE_KEY: (None, "electra", "generator"),
    "hidden_act": (
        *("gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "tanh", "linear"),
    ),
}
# What is read of the latter key, ...
_KEPT = {"head": dict, "max_seq_length": int, "assumed": list[str]}
# ... and of config.json, and checked nowhere else.
_FIELDS = {
    **dict.fromkeys(("model_type", "problem_type", "tokenizer_class"), str),
    "architectures": list[str],
    "id2label": dict,
    _SCOPE_KEY: str,
    _OUR_KEY: dict,
}
_DISCRIMINATOR_HEAD = "discriminator_predictions/dense/kernel"


def recognise(path: str) -> bool:
    """Whether a path is a model of transformers, or a pair of them."""
    return files.directory(path) is not None


def read(path: str) -> Checkpoint:
    """Reads a model, or a generator and its discriminator.

    Nothing that a file holds is executed. A generator whose embeddings are
    those of its discriminator shares them, as in the original; one that equals
    its discriminator is left out, as the original then has one network.

    Args:
      path: Directory of a model or of a pair, or a file of weights in one.

    Raises:
      CheckpointError: If it cannot be read, is no ELECTRA or has settings
        that an ELECTRA here cannot have.
    """
    folder = files.directory(path)
    if folder is None:
        raise CheckpointError(f"{path} must be a Hugging Face directory")
    models = [_read_model(part) for part in files.parts(folder)]
    return models[0] if len(models) == 1 else _join(folder, *models)


def write(checkpoint: Checkpoint, path: str) -> None:
    """Writes one directory, or `generator` and `discriminator` in one.

    Raises:
      CheckpointError: If transformers has no such model.
    """
    for part, (config, tensors) in _models(checkpoint).items():
        folder = os.path.join(path, part)
        os.makedirs(folder, exist_ok=True)
        files.write_weights(tensors, folder)
        config_file = os.path.join(folder, CONFIG_FILE)
        write_json(config_file, config, **files.AS_THEY_DO)
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
    lines, head = [], checkpoint.head
    if head and head.kind in heads.PROBLEM_TYPES and not head.hidden_activation:
        lines.append(
            "the head for classification has a hidden layer there; it is "
            "written so that it computes what the one layer here does"
        )
    scope = sizes.masked_lm_encoder(checkpoint.tensors)
    if head is None and scope in checkpoint.encoders:
        lines += _head_notes(checkpoint.encoders[scope].hidden_act)
    if sizes.has_towers(checkpoint.tensors):
        lines.append("transformers has no two-tower generator")
    vocab = checkpoint.vocabulary
    if vocab is None:
        lines.append(
            "no tokenizer is written, for want of a vocabulary (--vocab-file)"
        )
    else:
        lines += [*vocab.case_notes(), files.SPECIAL_TOKENS_NOTE]
    kept = _kept(checkpoint)
    settings = [*kept.get("head", {}).get("options", {}), *kept]
    settings = [name for name in settings if name not in ("head", "segment")]
    if vocab and vocab.text_cleaning != "none":
        settings.append(f"text_cleaning={vocab.text_cleaning!r}")
    if settings:
        lines.append(
            "the files keep for this package what transformers does not heed: "
            f"{', '.join(settings)}"
        )
    if head and head.kind == "tagging" and head.segment_of_words():
        lines.append(
            f"the tagger reads its words in segment {head.segment_of_words()}, "
            "the tokenizer of transformers gives 0: pass token_type_ids of "
            f"{head.segment_of_words()} there"
        )
    return tuple(lines)


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
    """What transformers computes, in a process; see `reading.format_module`.

    With one change, where `notes` advises it: a masked language model's head
    has the activation of its encoder. Of a head that is not known here, the
    encoder's outputs.
    """
    for package in ("torch", "transformers"):
        if importlib.util.find_spec(package) is None:
            raise ImportError(name=package)
    folder = files.directory(path)
    assert folder is not None
    script = os.path.join(os.path.dirname(__file__), "transformers_forward.py")
    with tempfile.TemporaryDirectory() as temporary:
        there, back = (f"{temporary}/{n}.npz" for n in ("inputs", "outputs"))
        np.savez(there, **inputs)  # type: ignore[arg-type]
        # -P: the modules beside the script are not those of its imports.
        done = subprocess.run(
            [sys.executable, "-P", script, there, back, *files.parts(folder)],
            capture_output=True,
            text=True,
        )
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [""]
            raise CheckpointError(
                f"transformers cannot run {path}: {lines[-1]} (exit code "
                f"{done.returncode}). Of torch the wheel for the CPU will do: "
                "pip install torch --index-url https://download.pytorch.org/"
                "whl/cpu; --no-verify goes without"
            )
        with np.load(back) as outputs:
            return dict(outputs)


# --- Reading -----------------------------------------------------------------


def _read_model(folder: str) -> Checkpoint:
    """Reads one directory."""
    path = os.path.join(folder, CONFIG_FILE)
    config = _read_config(path)
    # An ElectraModel has no prefix, and a head beside it none either.
    bare = re.compile(r"^(?=(embeddings|embeddings_project|encoder)\.)")
    weights = files.read_weights(folder)
    theirs = {bare.sub("electra.", name): t for name, t in weights.items()}
    sizes.refuse_other_architecture(theirs, folder)
    is_generator = any(name.startswith("generator_") for name in theirs)
    scope = config[_SCOPE_KEY] or ("generator" if is_generator else "electra")
    tensors: dict[str, np.ndarray] = {}
    for name in sorted(theirs):
        ours = names.our_name(name, scope)
        if ours is None:
            continue
        tensor = names.transposed(ours, theirs.pop(name))
        if not np.array_equal(tensors.setdefault(ours, tensor), tensor):
            raise CheckpointError(
                f"{folder}: expected one tensor for {name}, or equal ones. "
                "Received: two that differ, one under an old name"
            )
    table = tensors.get(f"{scope}/embeddings/word_embeddings")
    tied = theirs.pop(names.TIED, None)
    if not (tied is None or table is None or np.array_equal(tied, table)):
        raise CheckpointError(
            f"{folder}: the output layer {names.TIED} must be the table of "
            "word embeddings. Received: another matrix, which ELECTRA does not "
            "have"
        )
    head, head_tensors, used = heads.read_head(theirs, config, folder)
    kept = config.get(_OUR_KEY) or {}
    check_fields(kept, f"{path}, {_OUR_KEY}", **_KEPT)
    notes_of_head: list[str] = []
    if head is not None:
        record = kept.get("head") or {}
        of_head = {name: theirs[name] for name in used}
        head, notes_of_head = heads.with_kept(head, record, of_head, path)
    vocab, remarks = files.read_tokenizer(folder, config.get("tokenizer_class"))
    remarks += notes_of_head
    settings = {n: config[n] for n in sizes.NOT_IN_TENSORS}
    checkpoint = sizes.read_sizes(
        tensors | head_tensors, folder, {scope: settings}
    )
    (encoder,) = checkpoint.encoders.values()
    for name, ours in dataclasses.asdict(encoder).items():
        if name not in settings and config.get(name, ours) != ours:
            raise CheckpointError(
                f"{path} says {name}={config[name]!r}, but the tensors beside "
                f"it have {name}={ours}"
            )
    if is_generator:
        shapes = sizes.masked_lm_head_shapes(encoder)
        sizes.check_shapes(tensors, shapes, folder)
        remarks += _head_notes(encoder.hidden_act)
    unused = sorted(theirs.keys() - used)
    other_head = ""
    if unused:
        remarks.append(f"nothing reads {summarize(unused)}")
        if any(name.endswith(".weight") for name in unused):
            other_head = files.architecture(config) or unused[0]
    return dataclasses.replace(
        checkpoint,
        head=head,
        vocabulary=vocab,
        unused=tuple(unused),
        other_head=other_head,
        max_seq_length=kept.get("max_seq_length"),
        assumed=sizes.assumed_in(kept),
        notes=tuple(remarks),
    )


def _read_config(path: str) -> dict:
    if not os.path.isfile(path):
        raise CheckpointError(
            f"Expected {CONFIG_FILE} beside the weights. Received: no {path}"
        )
    config = _DEFAULTS | {_SCOPE_KEY: None} | read_json(path, **_FIELDS)
    model_type = config.get("model_type") or (
        re.sub("(For|Model).*", "", files.architecture(config)).lower()
    )
    if model_type != "electra":
        raise CheckpointError(
            f"Expected an ELECTRA in {path}. Received: a model of the type "
            f"{model_type or 'not said'}"
        )
    for name, values in _FIXED.items():
        received = config.get(name, values[0])
        if received not in values:
            raise CheckpointError(
                f"{path}: {name} must be {' or '.join(map(repr, values))}, as "
                f"in the original. Received: {received!r}"
            )
    act = config["hidden_act"]
    return config | {"hidden_act": _HIDDEN_ACTS.get(act, act)}


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
            if name.startswith(prefix)
        )

    config = generator.generator
    is_same = config == discriminator.discriminator and is_shared("generator/")
    if is_same or is_shared("generator/embeddings/"):
        shared = "generator/" if is_same else "generator/embeddings/"
        theirs = {n: t for n, t in theirs.items() if not n.startswith(shared)}
    elif config.embedding_size != config.hidden_size:
        # Untied embeddings of another width the original cannot have.
        raise CheckpointError(
            f"{folder}: the generator's embeddings must be the discriminator's,"
            " or as wide as its hidden vectors. Received: others, "
            f"{config.embedding_size} wide with hidden_size="
            f"{config.hidden_size}. Convert the two directories one by one"
        )
    vocab = discriminator.vocabulary or generator.vocabulary
    remarks = generator.notes + discriminator.notes
    if generator.vocabulary not in (None, vocab):
        remarks += (
            "the generator's tokenizer is another than the discriminator's, "
            "which is what is read here",
        )
    return dataclasses.replace(
        discriminator,
        tensors=ours | theirs,
        generator=None if is_same else config,
        vocabulary=vocab,
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
    models = {}
    scope = sizes.masked_lm_encoder(tensors)
    is_masked_lm = scope == "electra" and _DISCRIMINATOR_HEAD not in tensors
    if head is None and scope is not None:
        models["generator"] = _model(
            checkpoint,
            scope,
            "ElectraForMaskedLM",
            {_SCOPE_KEY: "electra"} if is_masked_lm else {},
            names.pretraining_head(tensors, "generator_predictions/"),
        )
    if checkpoint.discriminator is not None and head is not None:
        models["discriminator"] = _model(
            checkpoint,
            "electra",
            heads.CLASSES[head.kind],
            *heads.write_head(checkpoint, head),
        )
    elif checkpoint.discriminator is not None and not is_masked_lm:
        its_head = names.pretraining_head(tensors, "discriminator_predictions/")
        architecture = "ElectraForPreTraining" if its_head else "ElectraModel"
        models["discriminator"] = _model(
            checkpoint, "electra", architecture, {}, its_head
        )
    if not models:
        raise CheckpointError(
            "Expected a discriminator, or a generator with its head. Received: "
            "a checkpoint with neither"
        )
    return models if len(models) > 1 else {"": next(iter(models.values()))}


def _kept(checkpoint: Checkpoint) -> dict:
    """What transformers has no setting for, for `_read_model`."""
    head = checkpoint.head
    kept = {
        "max_seq_length": checkpoint.max_seq_length,
        "assumed": list(checkpoint.assumed) or None,
        "head": heads.kept(head) or None if head else None,
    }
    return {name: value for name, value in kept.items() if value is not None}


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
        "layer_norm_eps": 1e-12,
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
