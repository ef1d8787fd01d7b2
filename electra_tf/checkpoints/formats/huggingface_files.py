"""The files of a model of transformers: weights, config.json, tokenizer."""

import json
import os
from collections.abc import Callable, Mapping

import numpy as np
import safetensors.numpy

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


def _has_config(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, CONFIG_FILE))


def write_json(content: dict, folder: str, name: str) -> None:
    """Writes one of a model's files of settings."""
    text = json.dumps(content, indent=2, ensure_ascii=False)
    write_atomically(os.path.join(folder, name), text + "\n")


# --- Weights -----------------------------------------------------------------


def read_weights(folder: str) -> dict[str, np.ndarray]:
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
    refuse_lfs_pointer(path)
    try:
        found = safetensors.numpy.load_file(path)
    except (safetensors.SafetensorError, OSError) as error:
        raise CheckpointError(
            f"Cannot read {path}, which may be cut short: {error}"
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


def read_tokenizer(
    folder: str,
) -> tuple[Vocabulary | None, tuple[str, ...]]:
    """The vocabulary and its settings, and remarks on them."""
    path = os.path.join(folder, TOKENIZER_CONFIG_FILE)
    settings = read_json(path) if os.path.isfile(path) else {}
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
    if settings.get("tokenize_chinese_chars", True) is not False:
        return found, ()
    return found, (
        f"{path}: tokenize_chinese_chars=False does not travel; here every "
        "ideograph is a word",
    )


def write_tokenizer(
    vocab: Vocabulary, max_position_embeddings: int, folder: str
) -> None:
    """vocab.txt and what makes AutoTokenizer agree with ours."""
    vocab = vocab.settled()
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
        "do_lower_case": vocab.do_lower_case,
        "strip_accents": vocab.strip_accents,
        "tokenize_chinese_chars": True,
        "model_max_length": max_position_embeddings,
    }
    write_json(settings | special, folder, TOKENIZER_CONFIG_FILE)
    write_json(special, folder, "special_tokens_map.json")
