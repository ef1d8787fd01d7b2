"""The files of a model of transformers: weights, config.json, tokenizer."""

import dataclasses
import json
import os
import typing
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import safetensors.numpy

from electra_tf.errors import CheckpointError
from electra_tf.files import (
    check_fields,
    read_json,
    refuse_lfs_pointer,
    write_atomically,
)
from electra_tf.text import cleaning, vocabulary
from electra_tf.text.vocabulary import Vocabulary

CONFIG_FILE = "config.json"
TOKENIZER_CONFIG_FILE = "tokenizer_config.json"
_SPECIAL_TOKENS_FILE = "special_tokens_map.json"
SAFETENSORS_FILE = "model.safetensors"
PICKLED_FILE = "pytorch_model.bin"
_WEIGHTS_FILES = (
    SAFETENSORS_FILE,
    f"{SAFETENSORS_FILE}.index.json",
    PICKLED_FILE,
    f"{PICKLED_FILE}.index.json",
)
SUBDIRECTORIES = ("generator", "discriminator")


def directory(path: str | os.PathLike) -> str | None:
    """The directory of a model or a pair."""
    path = os.fspath(path)
    if os.path.isfile(path) and os.path.basename(path) in _WEIGHTS_FILES:
        path = os.path.dirname(path) or "."
    if not os.path.isdir(path):
        return None
    for folder in (path, *(os.path.join(path, s) for s in SUBDIRECTORIES)):
        if _has_config(folder):
            content = read_json(os.path.join(folder, CONFIG_FILE))
            if "model_type" in content or "architectures" in content:
                return path
    has_weights = any(
        os.path.isfile(os.path.join(path, name)) for name in _WEIGHTS_FILES
    )
    return path if has_weights and not _has_config(path) else None


def parts(folder: str) -> list[str]:
    """The directory of a model, or those of a generator and a discriminator."""
    found = [os.path.join(folder, name) for name in SUBDIRECTORIES]
    found = [part for part in found if _has_config(part)]
    return [folder] if _has_config(folder) or not found else found


def architecture(config: Mapping) -> str:
    """The first class that config.json names; "" for none."""
    return next(iter(config.get("architectures") or ()), "")


def _has_config(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, CONFIG_FILE))


def write_json(content: dict, folder: str, name: str) -> None:
    """Writes one of a model's files of settings."""
    text = json.dumps(content, indent=2, ensure_ascii=False)
    write_atomically(os.path.join(folder, name), text + "\n")


# --- Weights -----------------------------------------------------------------


def read_weights(folder: str) -> dict[str, np.ndarray]:
    """All tensors of a directory, in float32.

    Raises:
      CheckpointError: If it has none, or they cannot be read.
    """
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
    weight_map = read_json(index, weight_map=dict[str, str]).get("weight_map")
    if not weight_map:
        raise CheckpointError(f"Cannot read {index}: it has no weight_map")
    tensors: dict[str, np.ndarray] = {}
    for name in sorted(set(weight_map.values())):
        path = os.path.join(folder, os.path.basename(name))
        if not os.path.isfile(path):
            raise CheckpointError(f"{index} names the shard {path}, not found")
        found = read_file(path)
        named = {
            tensor for tensor, shard in weight_map.items() if shard == name
        }
        if missing := sorted(named - set(found)):
            raise CheckpointError(
                f"{index} names {missing[0]}, which {path} does not hold"
            )
        # What another shard has under the same name is of an earlier saving.
        tensors |= {tensor: found[tensor] for tensor in named}
    return tensors


def _read_safetensors(path: str) -> dict[str, np.ndarray]:
    refuse_lfs_pointer(path)
    try:
        found = safetensors.numpy.load_file(path)
    except (safetensors.SafetensorError, OSError) as error:
        raise CheckpointError(
            f"Cannot read {path}, which may be cut short: {error}"
        ) from None
    except AttributeError as error:  # A type that NumPy has not got.
        raise CheckpointError(
            f"{path} must hold floating-point numbers of 16, 32 or 64 bits. "
            f"Received: {str(error).split()[-1]}"
        ) from None
    return {name: _as_float32(t, name, path) for name, t in found.items()}


def _read_pickled(path: str) -> dict[str, np.ndarray]:
    refuse_lfs_pointer(path)
    try:
        import torch
    except ImportError:
        raise CheckpointError(
            f"{path} takes the package torch: pip install "
            "'electra_tf[interop]', or pip install torch"
        ) from None
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


def write_weights(tensors: Mapping[str, np.ndarray], folder: str) -> None:
    """Writes a file of weights as transformers accepts it."""
    safetensors.numpy.save_file(
        {name: np.ascontiguousarray(t) for name, t in tensors.items()},
        os.path.join(folder, SAFETENSORS_FILE),
        # transformers refuses files that do not say so.
        metadata={"format": "pt"},
    )


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
# Of tokenizer.json, which the latter heed: what is had here of its parts, ...
_PARTS = {
    "normalizer": "BertNormalizer",
    "pre_tokenizer": "BertPreTokenizer",
    "model": "WordPiece",
}
_WORD_PIECES = {
    "unk_token": vocabulary.UNK_TOKEN,
    "continuing_subword_prefix": vocabulary.SUFFIX_INDICATOR,
    "max_input_chars_per_word": 100,
}
# ... and what is read of the normalizer.
_NORMALIZER = {
    "type": str,
    "lowercase": bool,
    "strip_accents": bool,
    "handle_chinese_chars": bool,
}
SPECIAL_TOKENS_NOTE = (
    "special tokens that are written in a text, such as [MASK], are text here, "
    "as in the original; transformers takes them for the tokens, unless it is "
    "told split_special_tokens=True"
)


def read_tokenizer(
    folder: str, its_class: str | None
) -> tuple[Vocabulary | None, tuple[str, ...]]:
    """The vocabulary and its settings, and remarks on them.

    The settings are those with which transformers reads a text, as far as this
    package can read one so.

    Args:
      folder: Of the model.
      its_class: The tokenizer's, where its own file does not say.
    """
    path = os.path.join(folder, TOKENIZER_CONFIG_FILE)
    said = _read_if_there(
        path,
        do_lower_case=bool,
        strip_accents=bool,
        tokenize_chinese_chars=bool,
        split_special_tokens=bool,
        tokenizer_class=str,
        added_tokens_decoder=dict[str, dict],
        additional_special_tokens=list,
        text_cleaning=str,
    )
    fast_path = os.path.join(folder, "tokenizer.json")
    fast = _read_if_there(
        fast_path, **dict.fromkeys(_PARTS, dict), added_tokens=list[dict]
    )
    check_fields(fast.get("normalizer") or {}, fast_path, **_NORMALIZER)
    settings, remarks = _settled(said, fast, path, fast_path, its_class)
    lower, strip = settings.get("do_lower_case"), settings.get("strip_accents")
    if strip is None:
        strip = lower
    found = vocabulary.read(
        os.path.join(folder, vocabulary.VOCAB_FILE), lower, strip
    )
    tokens = _tokens_of(fast, fast_path)
    if found is None and tokens:
        found = Vocabulary(tokens, lower, strip)
    if found is None:
        return None, ()
    if tokens and tokens != found.tokens:
        remarks.append(
            f"{fast_path} has other tokens than {vocabulary.VOCAB_FILE}, which "
            "is what is read here"
        )
    cleaned = settings.get("text_cleaning")
    if cleaned is not None:
        try:
            cleaning.check(cleaned)
        except ValueError as error:
            raise CheckpointError(f"{path}: {error}") from None
        found = dataclasses.replace(found, text_cleaning=cleaned)
    more = _read_if_there(
        os.path.join(folder, _SPECIAL_TOKENS_FILE),
        additional_special_tokens=list,
    )
    added = [
        *_read_if_there(os.path.join(folder, "added_tokens.json")),
        *(fast.get("added_tokens") or ()),
    ]
    remarks += _remarks_on_tokens(settings, more, added, folder)
    return found, tuple(remarks)


def _read_if_there(path: str, **kinds: typing.Any) -> dict:
    return read_json(path, **kinds) if os.path.isfile(path) else {}


def _settled(
    said: dict, fast: dict, path: str, fast_path: str, its_class: str | None
) -> tuple[dict, list[str]]:
    """How transformers treats a text, and in what it is treated otherwise here.

    Args:
      said: Of tokenizer_config.json.
      fast: Of tokenizer.json, likewise.
      path: Of the former, for remarks.
      fast_path: Of the latter.
      its_class: See `read_tokenizer`.
    """
    found = dict(said)
    is_there = os.path.isfile(path)
    remarks = []
    normalizer = fast.get("normalizer") or {}
    its_class = found.get("tokenizer_class") or its_class
    if fast and its_class in _GENERIC_CLASSES:
        kinds = {part: (fast.get(part) or {}).get("type") for part in _PARTS}
        remarks += [
            f"{fast_path}: text may get other ids here than its {part}, "
            f"{kind or 'none'}, gives it"
            for part, kind in kinds.items()
            if kind != _PARTS[part]
        ]
        remarks += [
            f"{fast_path}: text may get other ids here than with its {name}, "
            f"{theirs!r}"
            for name, usual in _WORD_PIECES.items()
            if kinds["model"] == _PARTS["model"]
            and (theirs := fast["model"].get(name, usual)) != usual
        ]
    if not is_there or its_class in _GENERIC_CLASSES:
        found |= {
            ours: normalizer.get(theirs)
            for ours, theirs in (
                ("do_lower_case", "lowercase"),
                ("strip_accents", "strip_accents"),
                ("tokenize_chinese_chars", "handle_chinese_chars"),
            )
        }
        if not is_there and found["do_lower_case"] is False:
            remarks.append(
                f"{fast_path} says lowercase false, which transformers passes "
                f"over without a {TOKENIZER_CONFIG_FILE}"
            )
        path = fast_path
    elif found.get("do_lower_case") is None:
        found["do_lower_case"] = True  # Whatever tokenizer.json says.
        if normalizer.get("lowercase") is False:
            remarks.append(
                f"{path} does not say do_lower_case: taken as true, as "
                f"transformers does, although {fast_path} says lowercase false "
                "(--do-lower-case)"
            )
    if its_class not in (None, *_BERT_CLASSES, *_GENERIC_CLASSES):
        remarks.append(
            f"{path}: text gets other ids here than {its_class} gives it"
        )
    if found.get("strip_accents") and found.get("do_lower_case") is False:
        remarks.append(
            f"{path}: strip_accents=true without lower-casing does not travel; "
            "here accents are kept"
        )
    if found.get("tokenize_chinese_chars") is False:
        remarks.append(
            f"{path}: tokenize_chinese_chars=False does not travel; here every "
            "ideograph is a word"
        )
    return found, remarks


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


def _remarks_on_tokens(
    settings: dict, more: dict, added: list, folder: str
) -> list[str]:
    """Tokens that transformers finds in a text before it is split.

    Args:
      settings: Of tokenizer_config.json.
      more: Of special_tokens_map.json.
      added: Tokens of other files.
      folder: Of the model, for remarks.
    """

    def content(token: object) -> object:
        return token.get("content") if isinstance(token, dict) else token

    found = []
    for name, ours in _SPECIAL_TOKENS.items():
        both = content(settings.get(name)), content(more.get(name))
        theirs = next((t for t in both if t not in (None, ours)), ours)
        if theirs != ours:
            found.append(f"{folder}: {name} is {theirs!r} there, {ours!r} here")
    for said in (settings, more):
        added += said.get("additional_special_tokens") or ()
        extra = said.get("extra_special_tokens")
        extra = extra.values() if isinstance(extra, dict) else extra
        added += extra if isinstance(extra, Iterable) else ()
    added += (settings.get("added_tokens_decoder") or {}).values()
    ours_too = _SPECIAL_TOKENS.values()
    others = sorted({str(content(token)) for token in added} - set(ours_too))
    if others:
        found.append(
            f"{folder}: {len(others)} added tokens, such as {others[0]!r}, are "
            "tokens there wherever a text has them, not here"
        )
    if not settings.get("split_special_tokens"):
        found.append(SPECIAL_TOKENS_NOTE)
    return found


def write_tokenizer(
    vocab: Vocabulary, max_position_embeddings: int, folder: str
) -> None:
    """vocab.txt and what makes AutoTokenizer agree with ours."""
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
        # A setting of ours.
        settings["text_cleaning"] = vocab.text_cleaning
    write_json(settings | _SPECIAL_TOKENS, folder, TOKENIZER_CONFIG_FILE)
    write_json(_SPECIAL_TOKENS, folder, _SPECIAL_TOKENS_FILE)
