"""Directories of Hugging Face's transformers: config.json and weights.

There, the two networks are models of their own: the generator an
ElectraForMaskedLM with a copy of the embedding tables, the discriminator an
ElectraForPreTraining. A pair is a directory with the subdirectories
`generator` and `discriminator`, as which Google's releases are on the hub. A
fine-tuned model is an ElectraFor...Classification or ...QuestionAnswering.

Names are in `names`, fine-tuned heads in `huggingface_heads`, and
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

from electra_tf import configs, errors
from electra_tf.checkpoints import sizes, task_heads
from electra_tf.checkpoints.checkpoint import Checkpoint, summarize
from electra_tf.checkpoints.formats import huggingface_card, names
from electra_tf.checkpoints.formats import huggingface_files as files
from electra_tf.checkpoints.formats import huggingface_heads as heads
from electra_tf.checkpoints.formats.huggingface_files import CONFIG_FILE
from electra_tf.errors import CheckpointError
from electra_tf.files import read_json, write_json
from electra_tf.text import vocabulary

# hidden_act there -> here, where it is another.
_HIDDEN_ACTS = {"gelu_pytorch_tanh": "gelu_new"}

# Key of this package in config.json: whose encoder it is, where the class does
# not say (a masked language model has a discriminator's names in the original).
_SCOPE_KEY = "electra_scope"

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
# What is read of config.json, and checked nowhere else.
_FIELDS = {
    **dict.fromkeys(("model_type", "problem_type", "tokenizer_class"), str),
    "architectures": list[str],
    "id2label": dict,
    heads.TAGGING_KEY: dict,
    _SCOPE_KEY: str,
}
_DISCRIMINATOR_HEAD = "discriminator_predictions/dense/kernel"


write_card = huggingface_card.write


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

    What transformers has no setting for is metadata of the weights, for `read`;
    weights that transformers trains do not have it any more.

    Raises:
      CheckpointError: If transformers has no such model.
    """
    vocab = checkpoint.vocabulary
    if vocab is None:
        errors.warn("no tokenizer is written, for want of a vocabulary")
    if sizes.has_towers(checkpoint.tensors):
        errors.warn("transformers has no two-tower generator")
    for part, (config, tensors) in _models(checkpoint).items():
        folder = os.path.join(path, part)
        os.makedirs(folder, exist_ok=True)
        kept = {
            "head": checkpoint.head and dataclasses.asdict(checkpoint.head),
            "max_seq_length": checkpoint.max_seq_length,
        }
        files.write_weights(tensors, folder, kept)
        config_file = os.path.join(folder, CONFIG_FILE)
        write_json(config_file, config, **files.AS_THEY_DO)
        if vocab is not None:
            positions = config["max_position_embeddings"]
            files.write_tokenizer(vocab, positions, folder)


def _warn_of_masked_lm(hidden_act: str) -> None:
    """Warns of what a masked language model's head computes otherwise."""
    if hidden_act not in ("gelu", "gelu_new"):
        errors.warn(
            "in a masked language model's head transformers computes GELU, and "
            f"this package {hidden_act}, as the original does, unless model."
            "generator_predictions.activation = transformers.activations."
            f"ACT2FN[{hidden_act!r}]"
        )


def forward(
    path: str, inputs: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """What transformers computes, in a process; see `reading.format_module`.

    With one change, where `write` advises it: a masked language model's head
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
            line = (done.stderr.strip().splitlines() or [""])[-1]
            raise CheckpointError(
                f"transformers cannot run {path}: {line} (exit code "
                f"{done.returncode}). Of torch the wheel for the CPU will do: "
                "pip install torch --index-url https://download.pytorch.org/"
                "whl/cpu; --no-verify goes without"
            )
        with np.load(back) as outputs:
            return dict(outputs)


# --- Reading -----------------------------------------------------------------


def _read_model(folder: str) -> Checkpoint:
    path = os.path.join(folder, CONFIG_FILE)
    config = _read_config(path)
    # An ElectraModel has no prefix, and a head beside it none either.
    bare = re.compile(r"^(?=(embeddings|embeddings_project|encoder)\.)")
    weights = files.read_weights(folder)
    left = {bare.sub("electra.", name): t for name, t in weights.items()}
    sizes.refuse_other_architecture(left, folder)
    is_generator = any(name.startswith("generator_") for name in left)
    scope = config[_SCOPE_KEY] or ("generator" if is_generator else "electra")
    tensors: dict[str, np.ndarray] = {}
    for name in sorted(left):
        if original := names.from_transformers(name, scope):
            tensors[original] = names.transposed(original, left.pop(name))
    table = tensors.get(f"{scope}/embeddings/word_embeddings")
    tied = left.pop(names.TIED, None)
    if not (tied is None or table is None or np.array_equal(tied, table)):
        raise CheckpointError(
            f"{folder}: the output layer {names.TIED} must be the table of "
            "word embeddings. Received: another matrix, which ELECTRA does not "
            "have"
        )
    head, head_tensors, used = heads.read_head(left, config, folder)
    kept = files.read_metadata(folder)
    if head is not None and kept.get("head"):
        # The names of labels may have been changed in config.json.
        said = {
            "hidden_activation": head.hidden_activation,
            "labels": head.labels and list(head.labels),
        }
        unit = head.options if head.kind == "regression" else {}
        head = task_heads.head_from_dict(kept["head"] | said, folder)
        head = dataclasses.replace(head, options=unit | head.options)
    vocab = files.read_tokenizer(folder, config.get("tokenizer_class"))
    fields = [f.name for f in dataclasses.fields(configs.EncoderConfig)]
    said = {name: config[name] for name in fields if name in config}
    checkpoint = sizes.read_sizes(tensors | head_tensors, folder, {scope: said})
    (encoder,) = checkpoint.encoders.values()
    if is_generator:
        shapes = sizes.masked_lm_head_shapes(encoder)
        sizes.check_shapes(tensors, shapes, folder)
        _warn_of_masked_lm(encoder.hidden_act)
    unused = sorted(left.keys() - used)
    other_head = ""
    if unused:
        errors.warn(f"{folder}: nothing reads {summarize(unused)}")
        if any(name.endswith(".weight") for name in unused):
            other_head = files.architecture(config) or unused[0]
    return dataclasses.replace(
        checkpoint,
        head=head,
        vocabulary=vocab,
        unused=tuple(unused),
        other_head=other_head,
        max_seq_length=kept.get("max_seq_length"),
        assumed=(),  # transformers has a default for all.
    )


def _read_config(path: str) -> dict:
    if not os.path.isfile(path):
        raise CheckpointError(
            f"Expected {CONFIG_FILE} beside the weights. Received: no {path}"
        )
    config = _DEFAULTS | {_SCOPE_KEY: None} | read_json(path, **_FIELDS)
    name = re.sub("(For|Model).*", "", files.architecture(config)).lower()
    if (model_type := config.get("model_type") or name) != "electra":
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
    if generator.generator is None or discriminator.discriminator is None:
        raise CheckpointError(
            f"Expected an ElectraForMaskedLM in {folder}/generator and another "
            f"ELECTRA in {folder}/discriminator. Received: two models of a kind"
        )
    small, large = generator.tensors, discriminator.tensors

    def is_shared(prefix: str) -> bool:
        return all(
            (other := re.sub("^generator/", "electra/", name)) in large
            and np.array_equal(tensor, large[other])
            for name, tensor in small.items()
            if name.startswith(prefix)
        )

    config = generator.generator
    is_same = config == discriminator.discriminator and is_shared("generator/")
    if is_same or is_shared("generator/embeddings/"):
        shared = "generator/" if is_same else "generator/embeddings/"
        small = {n: t for n, t in small.items() if not n.startswith(shared)}
    elif config.embedding_size != config.hidden_size:
        # Untied embeddings of another width the original cannot have.
        raise CheckpointError(
            f"{folder}: the generator's embeddings must be the discriminator's,"
            " or as wide as its hidden vectors. Received: others, "
            f"{config.embedding_size} wide with hidden_size="
            f"{config.hidden_size}. Convert the two directories one by one"
        )
    return dataclasses.replace(
        discriminator,
        tensors=large | small,
        generator=None if is_same else config,
        vocabulary=discriminator.vocabulary or generator.vocabulary,
        unused=generator.unused + discriminator.unused,
    )


# --- Writing -----------------------------------------------------------------


def _models(
    checkpoint: Checkpoint,
) -> dict[str, tuple[dict, dict[str, np.ndarray]]]:
    """Subdirectory ("" for none) -> config.json and the tensors."""
    tensors, head = checkpoint.tensors, checkpoint.head

    def pretrained(part: str) -> dict[str, np.ndarray]:
        there = [n for n in names.HEAD_NAMES if n in tensors]
        there = [n for n in there if n.startswith(part)]
        return names.to_transformers(tensors, there)

    models = {}
    scope = sizes.masked_lm_encoder(tensors)
    is_masked_lm = scope == "electra" and _DISCRIMINATOR_HEAD not in tensors
    if head is None and scope is not None:
        if scope in checkpoint.encoders:
            _warn_of_masked_lm(checkpoint.encoders[scope].hidden_act)
        config = _config(checkpoint, scope, "ElectraForMaskedLM")
        if is_masked_lm:
            config[_SCOPE_KEY] = "electra"
        models["generator"] = config, pretrained("generator_predictions/")
    if checkpoint.discriminator is not None and head is not None:
        config = _config(checkpoint, "electra", heads.CLASSES[head.kind])
        settings, head_tensors = heads.write_head(checkpoint, head)
        models["discriminator"] = config | settings, head_tensors
    elif checkpoint.discriminator is not None and not is_masked_lm:
        head_tensors = pretrained("discriminator_predictions/")
        name = "ElectraForPreTraining" if head_tensors else "ElectraModel"
        config = _config(checkpoint, "electra", name)
        models["discriminator"] = config, head_tensors
    if not models:
        raise CheckpointError(
            "Expected a discriminator, or a generator with its head. Received: "
            "a checkpoint with neither"
        )
    for part, (_, head_tensors) in models.items():
        its_scope = scope or "electra" if part == "generator" else "electra"
        shapes = sizes.encoder_shapes(checkpoint.encoders[its_scope], its_scope)
        head_tensors |= names.to_transformers(tensors, shapes)
    return models if len(models) > 1 else {"": next(iter(models.values()))}


def _config(checkpoint: Checkpoint, scope: str, architecture: str) -> dict:
    """config.json of a model, without the settings of its head."""
    tokens = checkpoint.vocabulary.tokens if checkpoint.vocabulary else ()
    pad = vocabulary.PAD_TOKEN
    return {
        "architectures": [architecture],
        "model_type": "electra",
        **dataclasses.asdict(checkpoint.encoders[scope]),
        "classifier_dropout": 0.1,
        "pad_token_id": tokens.index(pad) if pad in tokens else 0,
        "torch_dtype": "float32",
    }
