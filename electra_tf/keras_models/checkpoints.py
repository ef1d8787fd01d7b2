"""A path or a handle of the Hugging Face Hub <-> a checkpoint in memory.

Of a task model a preset has task.json, the model by Keras's serialization with
its preprocessor, and task.weights.h5, all weights but the encoder's, as
KerasHub's tasks have them; the encoder beside them is KerasHub's.
"""

import json
import os
import shutil
from collections.abc import Callable

import keras
import numpy as np

from electra_tf import configs, errors, files, registration
from electra_tf.checkpoints import disentangled, hub, reading
from electra_tf.checkpoints.checkpoint import Checkpoint, summarize
from electra_tf.checkpoints.formats.kerashub import (
    TASK_FILE,
    TASK_WEIGHTS_FILE,
)

# What `from_checkpoint` takes.
Source = str | os.PathLike | Checkpoint


def name_of(source: Source) -> str:
    """What messages call a checkpoint."""
    if isinstance(source, Checkpoint):
        return "the checkpoint"
    return os.fspath(source)


def read(source: Source) -> Checkpoint:
    """Reads a checkpoint of any format.

    Raises:
      CheckpointError: If it cannot be read.
    """
    if isinstance(source, Checkpoint):
        return source
    path = hub.local_path(source)
    task = read_task(path)
    if task is not None:
        return task.to_checkpoint()
    return reading.read_checkpoint(source)


def sizes_of(checkpoint: Checkpoint, source: str) -> configs.EncoderConfig:
    """Those of the encoder; a generator alone is refused."""
    if checkpoint.discriminator is None:
        raise errors.CheckpointError(
            "Expected a checkpoint with a discriminator. Received: "
            f"{source}, with a generator only"
        )
    return checkpoint.discriminator


def tensors_of(network: keras.layers.Layer) -> dict[str, np.ndarray]:
    """The weights of a network, by the names of the original's variables.

    What disentangled embeddings differ by is in the discriminator's table.
    """
    for part in network._flatten_layers():
        if part.quantization_mode or getattr(part, "lora_enabled", False):
            raise ValueError(
                "Expected layers as they were made. Received: "
                f"{part.path} after quantize() or enable_lora()"
            )
    # What a policy such as "bfloat16" has is in no format.
    return disentangled.fold(
        {v.path: np.asarray(v.numpy(), "f4") for v in network.variables}
    )


def write(
    checkpoint: Checkpoint,
    path: str | os.PathLike,
    format: str = "electra_tf",  # noqa: A002
    beside: Callable[[str], None] | None = None,
) -> None:
    """Writes a checkpoint that the commands and `from_checkpoint` read.

    Args:
      checkpoint: What to write.
      path: A folder that is new or empty.
      format: One of `reading.FORMATS`.
      beside: Writes more, into the folder that it is given.

    Raises:
      ValueError: If there is something at the path, or the format is unknown.
      CheckpointError: If the format cannot hold it, or the vocabulary is not
        that of the embedding table.
    """
    # A link to an empty folder stays one.
    path = os.path.realpath(os.fspath(path))
    if format not in reading.FORMATS:
        raise ValueError(
            f"Expected format to be one of {', '.join(reading.FORMATS)}. "
            f"Received: format={format!r}"
        )
    files.refuse_used(path, "path")
    checkpoint.check_vocabulary("the model")  # Nothing would read it again.
    temporary = f"{path}.tmp{os.getpid()}"
    try:
        os.makedirs(temporary)
        reading.format_module(format).write(checkpoint, temporary)
        if beside is not None:
            beside(temporary)
        elif format != "electra_tf":
            for line in _left_behind(checkpoint, temporary):
                errors.warn(f"{path}: {line}")
        os.replace(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _left_behind(checkpoint: Checkpoint, folder: str) -> list[str]:
    """What of a model is not in what was written, a line each."""
    found = reading.read_checkpoint(folder)
    lines = []
    if absent := set(checkpoint.tensors) - set(found.tensors):
        lines.append(f"the format has no place for {summarize(absent)}")
    if set(found.activations) - set(checkpoint.activations):
        lines.append(
            f"the format computes {'/'.join(found.activations)}, the model "
            f"{'/'.join(checkpoint.activations)}: outputs differ from about "
            "the fourth digit on"
        )
    return lines


def write_task(model, folder: str) -> None:
    """Writes what of a task model is not the encoder's."""
    config = keras.saving.serialize_keras_object(model)
    # As in KerasHub: a preset says what a model is, not how it learns.
    config.pop("compile_config", None)
    with open(os.path.join(folder, TASK_FILE), "w", encoding="utf-8") as file:
        json.dump(config, file, indent=2)
    keras.saving.save_weights(
        model,
        os.path.join(folder, TASK_WEIGHTS_FILE),
        objects_to_skip=list(model.network.electra._flatten_layers())
        + ([model.optimizer] if model.compiled else []),
    )


def read_task(folder: str):
    """The task model that was saved as a preset, with all weights.

    Returns:
      A `TaskModel`; None where none was saved.
    """
    path = os.path.join(folder, TASK_FILE)
    if not os.path.isfile(path):
        return None
    config = files.read_json(path)
    package, _, name = str(config.get("registered_name")).partition(">")
    if package != registration.PACKAGE or name not in registration.CLASSES:
        return None
    weights = os.path.join(folder, TASK_WEIGHTS_FILE)
    files.refuse_lfs_pointer(weights)
    try:
        model = keras.saving.deserialize_keras_object(config)
        keras.saving.load_weights(
            model,
            weights,
            objects_to_skip=model.network.electra._flatten_layers(),
        )
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise errors.CheckpointError(
            f"Expected {TASK_FILE} and {TASK_WEIGHTS_FILE} in {folder} as "
            f"save_to_preset writes them. Received: {errors.first_line(error)}"
        ) from None
    checkpoint = reading.read_checkpoint(folder)
    variables = model.network.electra.variables
    reading.assign_all(checkpoint, variables, folder, "the encoder")
    return model
