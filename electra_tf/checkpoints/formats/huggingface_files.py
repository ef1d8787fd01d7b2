"""The files of a model of transformers: weights, config.json, tokenizer."""

import dataclasses
import glob
import json
import os
import typing
from collections.abc import Callable, Mapping

import numpy as np
import safetensors.numpy

from electra_tf import errors
from electra_tf.errors import CheckpointError
from electra_tf.files import (
    check_fields,
    read_json,
    refuse_lfs_pointer,
    write_json,
)
from electra_tf.text import cleaning, vocabulary
from electra_tf.text.vocabulary import Vocabulary

CONFIG_FILE = "config.json"
TOKENIZER_CONFIG_FILE = "tokenizer_config.json"
_SPECIAL_TOKENS_FILE = "special_tokens_map.json"
SAFETENSORS_FILE = "model.safetensors"
PICKLED_FILE = "pytorch_model.bin"
_INDEX = ".index.json"
# In the metadata of weights: what transformers has no setting for.
_METADATA = "electra_tf"
_WEIGHTS_FILES = (
    *(SAFETENSORS_FILE, SAFETENSORS_FILE + _INDEX),
    *(PICKLED_FILE, PICKLED_FILE + _INDEX),
)
# Weights that are not read -> the argument of from_pretrained that reads them.
_OTHER_WEIGHTS = {
    "tf_model.h5": "from_tf=True",
    "flax_model.msgpack": "from_flax=True",
}
# What a pickled file may have around its tensors.
_WRAPPERS = ("state_dict", "model_state_dict", "model", "module")
# Part of a model, but no weights.
_BUFFER = "position_ids"
# How transformers writes JSON.
AS_THEY_DO: dict[str, typing.Any] = {"indent": 2, "ensure_ascii": False}
SUBDIRECTORIES = ("generator", "discriminator")


def directory(path: str | os.PathLike) -> str | None:
    """The directory of a model or a pair."""
    path = os.fspath(path)
    if os.path.basename(path) in _WEIGHTS_FILES and os.path.isfile(path):
        path = os.path.dirname(path) or "."
    for folder in parts(path):
        if _has(folder, CONFIG_FILE):
            content = read_json(os.path.join(folder, CONFIG_FILE))
            if "model_type" in content or "architectures" in content:
                return path
    has_weights = any(_has(path, name) for name in _WEIGHTS_FILES)
    return path if has_weights and not _has(path, CONFIG_FILE) else None


def parts(folder: str) -> list[str]:
    """The directory of a model, or those of a generator and a discriminator."""
    pair = [os.path.join(folder, name) for name in SUBDIRECTORIES]
    pair = [part for part in pair if _has(part, CONFIG_FILE)]
    return [folder] if _has(folder, CONFIG_FILE) or not pair else pair


def architecture(config: Mapping) -> str:
    """The first class that config.json names; "" for none."""
    return next(iter(config.get("architectures") or ()), "")


def _has(folder: str, name: str) -> bool:
    return os.path.isfile(os.path.join(folder, name))


# --- Weights -----------------------------------------------------------------


def read_weights(folder: str) -> dict[str, np.ndarray]:
    """All tensors of a directory, in float32."""
    for name, read_file in (
        (SAFETENSORS_FILE, _read_safetensors),
        (PICKLED_FILE, _read_pickled),
    ):
        path = os.path.join(folder, name)
        if _has(folder, name):
            return _in_float32(read_file(path), path)
        if _has(folder, name + _INDEX):
            return _read_shards(path + _INDEX, folder, read_file)
    received = "neither"
    for name in filter(lambda name: _has(folder, name), _OTHER_WEIGHTS):
        received = (
            f"{name}, which an older transformers makes the former of: "
            f"AutoModel.from_pretrained(folder, {_OTHER_WEIGHTS[name]})"
            ".save_pretrained(folder)"
        )
    raise CheckpointError(
        f"Expected {SAFETENSORS_FILE} or {PICKLED_FILE} in {folder}. Received: "
        f"{received}"
    )


def _read_shards(
    index: str, folder: str, read_file: Callable
) -> dict[str, np.ndarray]:
    weight_map = read_json(index, weight_map=dict[str, str]).get("weight_map")
    weight_map = weight_map or {}
    tensors: dict[str, np.ndarray] = {}
    for shard in sorted(set(weight_map.values())):
        content = read_file(os.path.join(folder, os.path.basename(shard)))
        # What another shard has under the same name is of an earlier saving.
        tensors |= {
            n: t for n, t in content.items() if weight_map.get(n) == shard
        }
    missing = set(weight_map or {"weight_map"}) - set(tensors)
    if missing:
        raise CheckpointError(
            f"{index} names {min(missing)}, which no shard holds"
        )
    return _in_float32(tensors, index)


def _read_safetensors(path: str) -> dict[str, np.ndarray]:
    refuse_lfs_pointer(path)
    try:
        return safetensors.numpy.load_file(path)
    except (safetensors.SafetensorError, OSError) as error:
        raise CheckpointError(
            f"Cannot read {path}, which may be cut short: {error}"
        ) from None
    except AttributeError as error:  # A type that NumPy has not got.
        kind = str(error).split()[-1]
        raise CheckpointError(_no_floats("every tensor", path, kind)) from None


def _read_pickled(path: str) -> dict[str, np.ndarray]:
    refuse_lfs_pointer(path)
    try:
        import torch
    except ImportError:
        raise CheckpointError(
            f"{path} takes the package torch: pip install torch --index-url "
            "https://download.pytorch.org/whl/cpu"
        ) from None
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
        for name in _WRAPPERS:
            if isinstance(content.get(name), dict):
                content = content[name]
        return {
            name: (t.float() if t.is_floating_point() else t).numpy()
            for name, t in content.items()
        }
    except Exception as error:  # noqa: BLE001  (unpickling raises anything)
        reason = str(error).split("\n")[0].split(". ")[0]
        raise CheckpointError(
            f"Cannot read {path}; code in it is never run: {reason}"
        ) from None


def _in_float32(
    tensors: Mapping[str, np.ndarray], path: str
) -> dict[str, np.ndarray]:
    tensors = {n: t for n, t in tensors.items() if not n.endswith(_BUFFER)}
    for name, tensor in tensors.items():
        kind = tensor.dtype.name
        if kind not in ("float32", "float16", "bfloat16", "float64"):
            raise CheckpointError(_no_floats(name, path, kind))
    return {n: t.astype(np.float32, copy=False) for n, t in tensors.items()}


def _no_floats(name: str, path: str, kind: str) -> str:
    return f"{path}: {name} must hold floating-point numbers. Received: {kind}"


def write_weights(
    tensors: Mapping[str, np.ndarray], folder: str, kept: dict
) -> None:
    """Writes a file of weights as transformers accepts it.

    `kept` is what `read_metadata` returns, fit for JSON.
    """
    safetensors.numpy.save_file(
        {name: np.ascontiguousarray(t) for name, t in tensors.items()},
        os.path.join(folder, SAFETENSORS_FILE),
        # The format is what transformers asks for.
        metadata={"format": "pt", _METADATA: json.dumps(kept)},
    )


def read_metadata(folder: str) -> dict:
    """What `write_weights` has kept; nothing of other files of weights."""
    if not _has(folder, SAFETENSORS_FILE):
        return {}
    path = os.path.join(folder, SAFETENSORS_FILE)
    with safetensors.safe_open(path, "np") as file:
        return json.loads((file.metadata() or {}).get(_METADATA, "{}"))


# --- Tokenizer ---------------------------------------------------------------

_SPECIAL_TOKENS = {
    f"{name}_token": f"[{name.upper()}]"
    for name in ("unk", "sep", "pad", "cls", "mask")
}
# Their classes that lower-case and strip as tokenizer_config.json says, and by
# default, ...
_BERT_CLASSES = tuple(
    f"{name}Tokenizer{fast}"
    for name in ("Electra", "Bert")
    for fast in ("", "Fast")
)
# ... and those that heed tokenizer.json instead.
_GENERIC_CLASSES = ("PreTrainedTokenizerFast", "TokenizersBackend")
# Setting of tokenizer_config.json -> its name in the normalizer of
# tokenizer.json.
_NORMALIZER = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
_SETTINGS = {
    **dict.fromkeys((*_NORMALIZER, "split_special_tokens"), bool),
    **dict.fromkeys(("tokenizer_class", "text_cleaning"), str),
}
_SPECIAL_TOKENS_NOTE = (
    "special tokens that are written in a text, such as [MASK], are text here, "
    "as in the original; transformers takes them for the tokens, unless it is "
    "told split_special_tokens=True"
)


def read_tokenizer(folder: str, its_class: str | None) -> Vocabulary | None:
    """The vocabulary with the settings with which transformers reads a text.

    Warns of what transformers does otherwise. `its_class` is the tokenizer's,
    where its own file does not say.
    """
    path = os.path.join(folder, TOKENIZER_CONFIG_FILE)
    fast_path = os.path.join(folder, "tokenizer.json")
    settings = _read_if_there(path, **_SETTINGS)
    fast = _read_if_there(
        fast_path, **dict.fromkeys(("normalizer", "model"), dict)
    )
    normalizer = fast.get("normalizer") or {}
    kinds = dict.fromkeys(_NORMALIZER.values(), bool)
    check_fields(normalizer, fast_path, **kinds)
    its_class = settings.get("tokenizer_class") or its_class
    others: dict[str, object] = {}
    if its_class in _GENERIC_CLASSES or not os.path.isfile(path):
        settings |= {n: normalizer.get(t) for n, t in _NORMALIZER.items()}
    elif settings.get("do_lower_case") is None:
        settings["do_lower_case"] = True  # Whatever tokenizer.json says.
        if normalizer.get("lowercase") is False:
            others["lowercase"] = False
    lower, strip = settings.get("do_lower_case"), settings.get("strip_accents")
    strip = lower if strip is None else strip
    vocab_file = os.path.join(folder, vocabulary.VOCAB_FILE)
    vocab = vocabulary.read(vocab_file, lower, strip)
    if vocab is None and (tokens := _tokens_of(fast, fast_path)):
        vocab = Vocabulary(tokens, lower, strip)
    if vocab is None:
        for name in glob.glob(f"{glob.escape(folder)}/*.model"):
            errors.warn(
                f"{name} is a SentencePiece model, which is not read here: "
                f"--vocab-file names a {vocabulary.VOCAB_FILE} of word pieces"
            )
        return None
    if its_class in _GENERIC_CLASSES:
        known = {"normalizer": "BertNormalizer", "model": "WordPiece"}
        for part, kind in known.items():
            if (
                fast
                and (received := (fast.get(part) or {}).get("type")) != kind
            ):
                others[part] = received
    elif its_class not in (None, *_BERT_CLASSES):
        others["tokenizer_class"] = its_class
    if strip and lower is False:
        others["strip_accents"] = True  # Here they are kept in cased text.
    if settings.get("tokenize_chinese_chars") is False:
        others["tokenize_chinese_chars"] = False
    cleaned = settings.get("text_cleaning")
    if cleaned is not None:
        try:
            cleaning.check(cleaned)
        except ValueError as error:
            raise CheckpointError(f"{path}: {error}") from None
        vocab = dataclasses.replace(vocab, text_cleaning=cleaned)
    if others:
        shown = ", ".join(f"{name}={value!r}" for name, value in others.items())
        errors.warn(
            f"text may get other ids here than with the tokenizer's {shown}"
        )
    if not settings.get("split_special_tokens"):
        errors.warn(_SPECIAL_TOKENS_NOTE)
    return vocab


def _read_if_there(path: str, **kinds: typing.Any) -> dict:
    return read_json(path, **kinds) if os.path.isfile(path) else {}


def _tokens_of(fast: dict, path: str) -> tuple[str, ...]:
    """The tokens of tokenizer.json in the order of their ids, if it has any."""
    model = fast.get("model") or {}
    if not isinstance(model.get("vocab"), dict):
        return ()  # Of other models than word pieces a list.
    check_fields(model, path, vocab=dict[str, int])
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    ids = [model["vocab"][token] for token in tokens]
    if ids != list(range(len(ids))):
        raise CheckpointError(
            f"{path}: expected a vocabulary with the ids 0 to {len(ids) - 1}. "
            f"Received: {len(ids)} tokens with others"
        )
    return tuple(tokens)


def write_tokenizer(
    vocab: Vocabulary, max_position_embeddings: int, folder: str
) -> None:
    """vocab.txt and what makes AutoTokenizer agree."""
    errors.warn(_SPECIAL_TOKENS_NOTE)
    vocab = vocab.settled()
    vocabulary.write_tokens(vocab.tokens, folder)
    settings = {
        "tokenizer_class": "ElectraTokenizer",
        "do_lower_case": vocab.do_lower_case,
        "strip_accents": vocab.strip_accents,
        "tokenize_chinese_chars": True,
        "model_max_length": max_position_embeddings,
    }
    if vocab.text_cleaning != "none":
        # No setting of transformers.
        settings["text_cleaning"] = vocab.text_cleaning
    for name, content in (
        (TOKENIZER_CONFIG_FILE, settings | _SPECIAL_TOKENS),
        (_SPECIAL_TOKENS_FILE, _SPECIAL_TOKENS),
    ):
        write_json(os.path.join(folder, name), content, **AS_THEY_DO)
