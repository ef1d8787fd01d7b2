"""Reading a checkpoint of any format: the one way in for everybody else."""

import dataclasses
import importlib
import os
import types
from collections.abc import Iterable

import keras
import numpy as np

from electra_tf.checkpoints import hub, task_heads
from electra_tf.checkpoints.checkpoint import Checkpoint, LoadReport
from electra_tf.errors import CheckpointError

# Name -> its module, imported when it is needed, and what it is called in
# messages. A path is tried in this order: first those whose directories say
# what they are.
FORMATS = {
    "electra_tf": ("electra_tf_format", "a model directory of electra_tf"),
    "huggingface": ("huggingface", "a Hugging Face directory"),
    "kerashub": ("kerashub", "a KerasHub preset"),
    "original": ("original", "a TensorFlow 1 checkpoint of the original"),
    "model_garden": ("model_garden", "a checkpoint of the Model Garden"),
}
_LEAST_LENGTH = 3
TITLES = {name: title for name, (_, title) in FORMATS.items()}


def format_module(name: str) -> types.ModuleType:
    """The module of a format.

    It has `recognise(path)`, `read(path)` and `write(checkpoint, path)`, the
    path of a folder; where the format cannot hold all of a checkpoint,
    `notes(checkpoint)`, of one to be written; where another library can run the
    format, `forward(path, inputs)`; and, where models have a page that says
    what they are, `write_card(checkpoint, folder, path, source, scores)`.

    Args:
      name: One of `FORMATS`.
    """
    return importlib.import_module(
        f"electra_tf.checkpoints.formats.{FORMATS[name][0]}"
    )


def recognise(path: str | os.PathLike) -> str:
    """The format of a checkpoint.

    Args:
      path: A directory or file, the prefix of a TensorFlow checkpoint, or a
        handle: see `hub.local_path`.

    Returns:
      One of `FORMATS`.

    Raises:
      CheckpointError: If there is none, or of no format known here.
    """
    path = hub.local_path(path)
    for name in FORMATS:
        if format_module(name).recognise(path):
            return name
    received = f"the file {path}"
    if not os.path.exists(path):
        received = f"{path}, does not exist"
        if hub.is_handle(hub.HANDLE + path):
            received += f" (of the Hugging Face Hub: {hub.HANDLE}{path})"
    elif os.path.isdir(path):
        names = sorted(os.listdir(path))
        shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
        received = f"{path}, a folder with {shown or 'nothing in it'}"
    raise CheckpointError(
        "Expected a checkpoint: a model directory of electra_tf, a folder or "
        "prefix of the original's model.ckpt-N, or a directory of Hugging "
        f"Face, KerasHub or the Model Garden. Received: {received}"
    )


def read_checkpoint(path: str | os.PathLike, **settings) -> Checkpoint:
    """Reads a checkpoint of any format.

    Args:
      path: See `recognise`.
      **settings: What else the format's `read` takes.

    Raises:
      CheckpointError: If it cannot be read, is no ELECTRA, or its vocabulary
        or what is said of its head does not fit the weights.
    """
    path = hub.local_path(path)
    checkpoint = format_module(recognise(path)).read(path, **settings)
    checkpoint.check_vocabulary(path)
    checkpoint.check_head(path)
    if checkpoint.head is not None:
        head = task_heads.with_options_of_task(checkpoint.head)
        checkpoint = dataclasses.replace(checkpoint, head=head)
    step, length = checkpoint.global_step, checkpoint.max_seq_length
    if step is not None and not 0 <= step < 2**63:
        raise CheckpointError(
            f"{path}: global_step must be from 0 to 2^63 - 1. Received: {step}"
        )
    if length is not None and length < _LEAST_LENGTH:
        raise CheckpointError(
            f"{path}: max_seq_length must be at least {_LEAST_LENGTH}, for "
            f"[CLS], [SEP] and a token. Received: {length}"
        )
    odd = [n for n, t in checkpoint.tensors.items() if not np.isfinite(t).all()]
    if odd:
        # No refusal: a run that diverged may be looked at.
        note = f"{len(odd)} tensors hold NaN or infinity, such as {odd[0]}"
        return dataclasses.replace(checkpoint, notes=(*checkpoint.notes, note))
    return checkpoint


def assign(
    checkpoint: Checkpoint, variables: Iterable[keras.Variable], source: str
) -> LoadReport:
    """Assigns a checkpoint's weights to variables of the same names.

    Nothing is assigned unless everything that has a name in common fits.

    Args:
      checkpoint: The weights.
      variables: To be assigned.
      source: Path of the checkpoint, for the error message.

    Returns:
      The names that were used, unused and missing, sorted.

    Raises:
      CheckpointError: If the shape of a tensor is not that of its variable.
    """
    by_name = {variable.path: variable for variable in variables}
    tensors = checkpoint.tensors
    used = sorted(by_name.keys() & tensors.keys())
    for name in used:
        expected, received = tuple(by_name[name].shape), tensors[name].shape
        if expected != tuple(received):
            raise CheckpointError(
                f"{source}: {name} must have the shape {list(expected)}. "
                f"Received: {list(received)}. Is the checkpoint of another "
                "model size or vocabulary?"
            )
    for name in used:
        by_name[name].assign(np.asarray(tensors[name]))
    return LoadReport(
        used=tuple(used),
        unused=tuple(sorted(tensors.keys() - by_name.keys())),
        missing=tuple(sorted(by_name.keys() - tensors.keys())),
    )


def assign_all(
    checkpoint: Checkpoint,
    variables: Iterable[keras.Variable],
    source: str,
    what: str,
) -> None:
    """Like `assign`, for variables all of which must be in the checkpoint.

    Args:
      checkpoint: The weights.
      variables: To be assigned.
      source: Path of the checkpoint, for error messages.
      what: What the variables are, for the error message.

    Raises:
      CheckpointError: If one is missing or does not fit.
    """
    variables = list(variables)
    missing = {v.path for v in variables} - set(checkpoint.tensors)
    if missing:
        raise CheckpointError(
            f"Expected all weights of {what} in {source}. Received: a "
            f"checkpoint without {len(missing)} of them, such as {min(missing)}"
        )
    assign(checkpoint, variables, source)
