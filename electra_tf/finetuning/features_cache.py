"""Features that an earlier run made of the same examples, kept on disk.

A file holds the features of one split. Its name says what they were made from,
so that a file never has to be judged out of date: other contents have another
name. Any of them may be deleted at any time.

Shapes: N rows, L length.
"""

import hashlib
import importlib.metadata
import inspect
import io
import json
import os
import pathlib
import sys
import zipfile
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from electra_tf.finetuning import configs as finetuning_configs
from electra_tf.finetuning.features import Features, num_rows
from electra_tf.finetuning.tasks.task import Task
from electra_tf.text import tokenization

FOLDER = "features_cache"
# Beside a feature: the shape and the type that it has in memory.
_SHAPE, _TYPE = "/shape", "/type"
_PACKAGES = ("numpy", "tensorflow", "tensorflow-text")
_PLAIN = (str, bytes, int, float, bool, type(None))


def folder(config: finetuning_configs.FinetuningConfig) -> str:
    """Where the features of a run are kept; '' for nowhere."""
    chosen = config.data.features_cache_dir
    if chosen is None:
        return ""
    beside = os.path.dirname(os.path.normpath(config.run.model_dir))
    return chosen or os.path.join(beside, FOLDER)


def features_of(
    task: Task,
    split: str,
    examples: Sequence,
    tokenizer: tokenization.FullTokenizer,
    max_seq_length: int,
    cache_dir: str,
) -> Features:
    """The task's features, from the cache if they are there.

    Says on stderr when they come from there. A file that cannot be read is made
    anew; a cache that cannot be written is said so and does without.

    Args:
      task: Makes them.
      split: Of the examples; "train" for training.
      examples: All of that split.
      tokenizer: Splits their texts.
      max_seq_length: L.
      cache_dir: Folder of the cache, local or remote; '' for none.

    Returns:
      What `task.features` returns.
    """
    if not cache_dir:
        return task.features(
            examples, tokenizer, max_seq_length, split == "train"
        )
    name = key(task, split, examples, tokenizer, max_seq_length)
    path = os.path.join(cache_dir, f"{task.name}_{split}_{name}.npz")
    what = f"features of {task.name} {split}"
    if tf.io.gfile.exists(path):
        try:
            features = _read(path)
        except (
            ValueError,
            KeyError,
            OSError,
            EOFError,
            tf.errors.OpError,
        ) as e:
            reason = " ".join(str(e).split())
            print(
                f"{what}: made anew, as {path} cannot be read ({reason})",
                file=sys.stderr,
            )
        else:
            print(
                f"{what}: {num_rows(features)} rows of an earlier run, {path}",
                file=sys.stderr,
            )
            return features
    features = task.features(
        examples, tokenizer, max_seq_length, split == "train"
    )
    try:
        _write(path, features)
    except (OSError, tf.errors.OpError) as error:
        reason = " ".join(str(error).split())
        print(f"{what}: not kept in {path} ({reason})", file=sys.stderr)
    return features


def key(
    task: Task,
    split: str,
    examples: Sequence,
    tokenizer: tokenization.FullTokenizer,
    max_seq_length: int,
) -> str:
    """A digest of all that features depend on, 32 hexadecimal digits.

    These are the examples as they were read, the vocabulary and how text is
    treated, the task's options and labels, the length, and the code: this
    package's, the task's own, and the versions of the packages below it.
    """
    digest = hashlib.blake2b(digest_size=16)

    def add(value) -> None:
        data = value if isinstance(value, bytes) else repr(value).encode()
        # The length first: values must not run into each other.
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)

    for path in _source_files(task):
        add(path.name)
        add(path.read_bytes())
    for package in _PACKAGES:
        add(importlib.metadata.version(package))
    add([split == "train", max_seq_length, task.name])
    add(json.dumps(task.description(), sort_keys=True, default=repr))
    add(sorted((k, v) for k, v in vars(task).items() if _is_option(k, v)))
    add(list(tokenizer.vocab))
    add(
        [
            getattr(tokenizer, name, None)
            for name in ("do_lower_case", "strip_accents", "text_cleaning")
        ]
    )
    for example in examples:
        add(example)
    return digest.hexdigest()


def _source_files(task: Task) -> list[pathlib.Path]:
    """Of the package, and of the classes that the task is made of."""
    here = pathlib.Path(__file__).parent
    files = {*here.glob("*.py"), *here.parent.glob("*.py")}
    for kind in type(task).__mro__:
        try:
            files.add(pathlib.Path(inspect.getfile(kind)))
        except (TypeError, OSError):  # Built in, or typed by hand.
            continue
    return sorted(path for path in files if path.is_file())


def _is_option(name: str, value) -> bool:
    """Whether an attribute of a task is a plain public value."""
    if name.startswith("_"):
        return False
    if isinstance(value, (list, tuple)):
        return all(isinstance(item, _PLAIN) for item in value)
    return isinstance(value, _PLAIN)


def _write(path: str, features: Features) -> None:
    """Writes a file that is, at any moment, either missing or whole."""
    arrays: dict[str, np.ndarray] = {}
    for name, values in features.items():
        arrays[name] = _shrink(values)
        arrays[name + _SHAPE] = np.array(values.shape, np.int64)
        arrays[name + _TYPE] = np.array(values.dtype.str)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    tf.io.gfile.makedirs(os.path.dirname(path))
    temporary = f"{path}.tmp{os.getpid()}"
    try:
        with tf.io.gfile.GFile(temporary, "wb") as writer:
            writer.write(buffer.getvalue())
        tf.io.gfile.rename(temporary, path, overwrite=True)
    except BaseException:
        if tf.io.gfile.exists(temporary):
            tf.io.gfile.remove(temporary)
        raise


def _shrink(values: np.ndarray) -> np.ndarray:
    """The same numbers without padding, in as few bytes as they need."""
    if values.ndim == 2 and values.size:
        used = np.flatnonzero(values.any(axis=0))
        values = values[:, : used[-1] + 1 if len(used) else 0]
    if values.dtype.kind in "iu" and values.size:
        lowest, highest = int(values.min()), int(values.max())
        kind = np.result_type(
            np.min_scalar_type(lowest), np.min_scalar_type(highest)
        )
        if kind.itemsize < values.dtype.itemsize:
            values = values.astype(kind)
    return values


def _read(path: str) -> Features:
    """What `_write` wrote.

    Raises:
      ValueError, KeyError, OSError, EOFError: If it is damaged.
    """
    with tf.io.gfile.GFile(path, "rb") as reader:
        buffer = io.BytesIO(reader.read())
    features: Features = {}
    try:
        # Checks the sums of what it reads.
        with np.load(buffer, allow_pickle=False) as stored:
            names = [n for n in stored.files if not n.endswith((_SHAPE, _TYPE))]
            for name in names:
                values = stored[name]
                shape = tuple(stored[name + _SHAPE].tolist())
                kind = np.dtype(str(stored[name + _TYPE]))
                if values.shape == shape:
                    features[name] = values.astype(kind, copy=False)
                else:
                    features[name] = np.zeros(shape, kind)
                    features[name][:, : values.shape[1]] = values
    except zipfile.BadZipFile as error:
        raise ValueError(str(error)) from None
    if "input_ids" not in features:
        raise ValueError("it has no input_ids")
    return features
