"""TensorFlow's checkpoint files: an index, and data in one or more shards."""

import contextlib
import copy
import glob
import os
import re
from collections.abc import Iterator, Mapping

import numpy as np
import safetensors
import tensorflow as tf

from electra_tf import errors, files
from electra_tf.errors import CheckpointError
from electra_tf.files import refuse_lfs_pointer, write_atomically
from electra_tf.training import saving

# Ends every variable's name in an object-based checkpoint of TensorFlow 2.
OBJECT_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"

# What TensorFlow raises for files that are damaged or cut short.
_READ_ERRORS = (tf.errors.OpError, RuntimeError, IndexError, ValueError)


def find(path: str | os.PathLike) -> str | None:
    """The prefix that a path stands for, if there is a checkpoint."""
    prefix = os.fspath(path).removesuffix(".index")
    prefix = re.sub(r"\.data-\d{5}-of-\d{5}$", "", prefix)
    if os.path.isdir(prefix):
        state = saving.checkpoint_state(prefix)
        if state is None:
            # Releases come without the file that names the latest one.
            names = glob.glob(os.path.join(glob.escape(prefix), "*.index"))
            return names[0].removesuffix(".index") if len(names) == 1 else None
        named = state.model_checkpoint_path
        # The one beside it goes first: TensorFlow writes whole paths, and of a
        # folder that was copied they are those of the other one.
        beside = os.path.join(prefix, os.path.basename(named))
        for there in (beside, named):
            if files.exists(f"{there}.index"):
                return there
        raise CheckpointError(
            f"Expected the file 'checkpoint' in {prefix} to name one that is "
            f"there. Received: {os.path.basename(named)}"
        )
    return prefix if files.exists(prefix + ".index") else None


class TensorsOnDisk(Mapping[str, np.ndarray]):
    """Tensors of a checkpoint, each read when it is asked for.

    Attributes:
      prefix: Path of the checkpoint up to ".index".
      shapes: Name -> shape of all tensors in the files.

    Raises:
      CheckpointError: If a file is missing or damaged; of damaged data, when
        they are asked for.
    """

    def __init__(self, prefix: str):
        refuse_lfs_pointer(prefix + ".index")
        there = sorted(glob.glob(glob.escape(prefix) + ".data-?????-of-?????"))
        total = there[0].rpartition("-of-")[2] if there else "00001"
        for number in range(int(total)):
            path = f"{prefix}.data-{number:05d}-of-{total}"
            if path not in there:
                raise CheckpointError(
                    f"Expected {int(total)} data files beside {prefix}.index. "
                    f"Received: {len(there)}; its data file {path} is missing"
                )
            refuse_lfs_pointer(path)
        self.prefix = prefix
        try:
            self._reader = tf.train.load_checkpoint(prefix)
            self.shapes = self._reader.get_variable_to_shape_map()
        except _READ_ERRORS as error:
            raise self._unreadable(error) from None
        self._keys: Mapping[str, str] = {name: name for name in self.shapes}

    def select(self, keys: Mapping[str, str]) -> "TensorsOnDisk":
        """Some of the tensors: name -> name in the files."""
        selected = copy.copy(self)
        selected._keys = dict(keys)
        return selected

    def __getitem__(self, name: str) -> np.ndarray:
        key = self._keys[name]
        try:
            return self._reader.get_tensor(key)
        except _READ_ERRORS as error:
            raise self._unreadable(error) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def _unreadable(self, error: Exception) -> CheckpointError:
        # TensorFlow's message has a stack of lines; the first one tells.
        lines = str(error).splitlines() or [type(error).__name__]
        return CheckpointError(
            f"Cannot read checkpoint {self.prefix}: {lines[0]}"
        )


def is_object_based(prefix: str) -> bool:
    """Whether a checkpoint has the names of TensorFlow 2's objects."""
    try:
        names = tf.train.load_checkpoint(prefix).get_variable_to_shape_map()
    except _READ_ERRORS:
        return False
    return any(name.endswith(OBJECT_SUFFIX) for name in names)


@contextlib.contextmanager
def writing(path: str) -> Iterator[None]:
    """`files.writing`, for what TensorFlow and safetensors raise as well."""
    try:
        with files.writing(path):
            yield
    except (tf.errors.OpError, safetensors.SafetensorError) as error:
        line = errors.first_line(error)
        raise ValueError(f"Cannot write {path!r}: {line}") from None


def write_checkpoint_file(folder: str, name: str) -> None:
    """Writes the file that names a folder's latest checkpoint."""
    write_atomically(
        os.path.join(folder, "checkpoint"),
        f'model_checkpoint_path: "{name}"\n'
        f'all_model_checkpoint_paths: "{name}"\n',
    )
