"""TensorFlow's checkpoint files: an index, and data in one or more shards."""

import glob
import os
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import tensorflow as tf

from electra_tf.errors import CheckpointError
from electra_tf.files import refuse_lfs_pointer, write_atomically

# Ends every variable's name in an object-based checkpoint of TensorFlow 2.
OBJECT_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"

# What TensorFlow raises for files that are damaged or cut short.
_READ_ERRORS = (tf.errors.OpError, RuntimeError, IndexError)


def open_checkpoint(prefix: str):
    """Opens a checkpoint.

    Args:
      prefix: Path up to ".index".

    Returns:
      TensorFlow's reader, and name -> shape of all tensors.

    Raises:
      CheckpointError: If a file is missing or damaged.
    """
    refuse_missing_shards(prefix)
    try:
        reader = tf.train.load_checkpoint(prefix)
        return reader, reader.get_variable_to_shape_map()
    except _READ_ERRORS as error:
        raise _unreadable(prefix, error) from None


def read_tensors(
    prefix: str, reader, names: Iterable[str]
) -> dict[str, np.ndarray]:
    """Reads tensors.

    Args:
      prefix: For the error message.
      reader: Of `open_checkpoint`.
      names: Of the tensors.

    Returns:
      Name -> value.

    Raises:
      CheckpointError: If the data are damaged.
    """
    try:
        return {name: reader.get_tensor(name) for name in names}
    except _READ_ERRORS as error:
        raise _unreadable(prefix, error) from None


class TensorsOnDisk(Mapping[str, np.ndarray]):
    """Tensors of a checkpoint, each read when it is asked for.

    Args:
      prefix: For error messages.
      reader: Of `open_checkpoint`.
      keys: Name -> name in the file.
    """

    def __init__(self, prefix: str, reader, keys: Mapping[str, str]):
        self._prefix = prefix
        self._reader = reader
        self._keys = dict(keys)

    def __getitem__(self, name: str) -> np.ndarray:
        key = self._keys[name]
        return read_tensors(self._prefix, self._reader, [key])[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


def is_object_based(prefix: str) -> bool:
    """Whether a checkpoint has the names of TensorFlow 2's objects."""
    try:
        names = tf.train.load_checkpoint(prefix).get_variable_to_shape_map()
    except _READ_ERRORS:
        return False
    return any(name.endswith(OBJECT_SUFFIX) for name in names)


def write_checkpoint_file(folder: str, name: str) -> None:
    """Writes the file that names a folder's latest checkpoint."""
    write_atomically(
        os.path.join(folder, "checkpoint"),
        f'model_checkpoint_path: "{name}"\n'
        f'all_model_checkpoint_paths: "{name}"\n',
    )


def refuse_missing_shards(prefix: str) -> None:
    """Refuses a checkpoint some of whose files were lost or not fetched.

    Args:
      prefix: Of the checkpoint.

    Raises:
      CheckpointError: If there are not all its data files, or Git LFS
        pointers in their place.
    """
    refuse_lfs_pointer(prefix + ".index")
    found = sorted(glob.glob(glob.escape(prefix) + ".data-?????-of-?????"))
    if not found:
        raise CheckpointError(
            f"{prefix}.index is there, but its data file "
            f"{prefix}.data-00000-of-00001 is missing"
        )
    total = found[0].rpartition("-of-")[2]
    for number in range(int(total)):
        path = f"{prefix}.data-{number:05d}-of-{total}"
        if path not in found:
            raise CheckpointError(
                f"Expected {int(total)} data files of {prefix}. Received: "
                f"{len(found)}, without {path}"
            )
        refuse_lfs_pointer(path)


def _unreadable(prefix: str, error: Exception) -> CheckpointError:
    # TensorFlow's message has a stack of lines; the first one tells.
    reason = str(error).splitlines()[0]
    return CheckpointError(f"Cannot read checkpoint {prefix}: {reason}")
