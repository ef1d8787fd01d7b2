"""A task model <-> what a preset has of it beside KerasHub's encoder.

The names of the files, and what is in which, are those of KerasHub's tasks:
task.json is the model by Keras's serialization, with its preprocessor, and
task.weights.h5 all weights but the encoder's.
"""

import json
import os

import keras

from electra_tf import errors, files, registration
from electra_tf.checkpoints import reading
from electra_tf.checkpoints.formats.kerashub import (
    TASK_FILE,
    TASK_WEIGHTS_FILE,
)


def write_task(model, folder: str) -> None:
    """Writes what is not the encoder's.

    Args:
      model: A `TaskModel`.
      folder: Of the preset.
    """
    config = keras.saving.serialize_keras_object(model)
    # As in KerasHub: a preset says what a model is, not how it learns.
    config.pop("compile_config", None)
    with open(os.path.join(folder, TASK_FILE), "w", encoding="utf-8") as file:
        json.dump(config, file, indent=2)
    keras.saving.save_weights(
        model,
        os.path.join(folder, TASK_WEIGHTS_FILE),
        objects_to_skip=_of_encoder(model) + _optimizers(model),
    )


def read_task(folder: str):
    """The task model that was saved as a preset, with all weights.

    Args:
      folder: What may be a preset.

    Returns:
      A `TaskModel`; None where none was saved.

    Raises:
      CheckpointError: If a file is missing or damaged.
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
            model, weights, objects_to_skip=_of_encoder(model)
        )
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise errors.CheckpointError(
            f"Expected {TASK_FILE} and {TASK_WEIGHTS_FILE} in {folder} as "
            f"save_to_preset writes them. Received: {errors.first_line(error)}"
        ) from None
    checkpoint = reading.read_checkpoint(folder)
    ours = getattr(model.preprocessor, "vocabulary", None)
    theirs = checkpoint.vocabulary
    if ours and theirs and ours.tokens != theirs.tokens:
        raise errors.CheckpointError(
            f"Expected one vocabulary in {folder}. Received: that of "
            f"{TASK_FILE}, and another one in assets"
        )
    reading.assign_all(
        checkpoint,
        model.network.electra.variables,
        folder,
        "the encoder",
    )
    return model


def _of_encoder(model) -> list:
    return list(model.network.electra._flatten_layers())


def _optimizers(model) -> list:
    return [model.optimizer] if model.compiled else []
