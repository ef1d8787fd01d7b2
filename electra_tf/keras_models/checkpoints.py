"""A path or a handle of the Hugging Face Hub <-> a checkpoint in memory."""

import os

import keras
import numpy as np

from electra_tf import errors, files
from electra_tf.checkpoints import converting, disentangled, reading
from electra_tf.checkpoints.checkpoint import Checkpoint, summarize

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
    return reading.read_checkpoint(source)


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
) -> None:
    """Writes a checkpoint that the commands and `from_checkpoint` read.

    Args:
      checkpoint: What to write.
      path: A folder that is new or empty.
      format: One of `reading.FORMATS`.

    Raises:
      ValueError: If there is something at the path, or the format is unknown.
      CheckpointError: If the format cannot hold it, or the vocabulary is not
        that of the embedding table.
    """
    path = os.path.expanduser(path)
    if format not in reading.FORMATS:
        raise ValueError(
            f"Expected format to be one of {', '.join(reading.FORMATS)}. "
            f"Received: format={format!r}"
        )
    files.refuse_used(path, "path")
    checkpoint.check_vocabulary("the model")  # Nothing would read it again.
    with converting.whole_folder(path) as temporary:
        os.makedirs(temporary)
        reading.format_module(format).write(checkpoint, temporary)
        if format != "electra_tf":
            written = reading.read_checkpoint(temporary)
            if absent := set(checkpoint.tensors) - set(written.tensors):
                errors.warn(
                    f"{path}: the format has no place for {summarize(absent)}"
                )
            if set(written.activations) - set(checkpoint.activations):
                errors.warn(
                    f"{path}: the format computes "
                    f"{'/'.join(written.activations)}, the model "
                    f"{'/'.join(checkpoint.activations)}: outputs differ from "
                    "about the fourth digit on"
                )
