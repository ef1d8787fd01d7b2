"""Contents -> digests, by which a run knows what its models learned from.

They are of contents, not of files: rows that move to another line, or to
another file, are the same.
"""

import dataclasses
import hashlib
import typing
from collections.abc import Iterable, Mapping

import numpy as np

from electra_tf import files

# Where an example comes from, and which one it is: not what it says.
_NO_CONTENT = ("source", "eid")


def of_values(values: Iterable) -> str:
    """The digest of values in order: texts, numbers, and what is made of them.

    Of named tuples, dataclasses and other objects the fields count that differ
    from their defaults, but for those that say where an example is from.
    """
    return files.sha256_of_values(map(_plain, values))


def of_tensors(tensors: Mapping[str, np.ndarray]) -> str:
    """The digest of named tensors, whatever their order."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = np.ascontiguousarray(tensors[name])
        digest.update(f"{name} {tensor.dtype} {tensor.shape}\n".encode())
        digest.update(tensor.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _plain(value: typing.Any) -> object:
    """A value whose `repr` says its content, and nothing else."""
    if value is None or isinstance(value, str | bytes | bool | int | float):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    defaults: Mapping = {}
    if dataclasses.is_dataclass(value):
        defaults = {f.name: f.default for f in dataclasses.fields(value)}
        value = {name: getattr(value, name) for name in defaults}
    elif isinstance(value, tuple) and hasattr(value, "_asdict"):
        defaults = getattr(value, "_field_defaults", {})
        value = value._asdict()
    elif isinstance(value, set | frozenset):
        return sorted(map(repr, map(_plain, value)))
    elif isinstance(value, list | tuple) and set(map(type, value)) <= {str}:
        return list(value)  # Words: many, and soon done.
    elif isinstance(value, Iterable) and not isinstance(value, Mapping):
        return [_plain(item) for item in value]
    elif not isinstance(value, Mapping):
        value = getattr(value, "__dict__", {})
    return {
        name: _plain(content)
        for name, content in sorted(value.items(), key=repr)
        if name not in _NO_CONTENT
        and not (name in defaults and _plain(defaults[name]) == _plain(content))
    }
