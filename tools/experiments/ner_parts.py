"""Pre-trained weights in parts, or with smaller word embeddings."""

import dataclasses
import os
import re
import zlib

import numpy as np

from electra_tf import files
from electra_tf.checkpoints import reading
from electra_tf.checkpoints.formats import electra_tf_format
from electra_tf.finetuning import digests

# Name of a part -> the tensors of the encoder that it keeps; the others are as
# before training.
PARTS = {
    "embeddings": re.compile(r"electra/embeddings"),
    "layers": re.compile(r"electra/encoder/"),
}
# All of the weights, the word embeddings multiplied so that their deviation is
# what it was before training.
RESCALED = "rescaled"
_WORDS = "electra/embeddings/word_embeddings"
# Of a normal distribution without what is beyond two deviations.
_TRUNCATED_DEVIATION = 0.8796
_MARK = "part.txt"


def write(pretrained: str, part: str, folder: str) -> None:
    """Writes a checkpoint that keeps a part of another one.

    Args:
      pretrained: A model directory.
      part: One of `PARTS`, or `RESCALED`.
      folder: The model directory to write; left alone where it is complete.

    Raises:
      ValueError: If it is complete, but a part of other weights.
    """
    mark = os.path.join(folder, _MARK)
    checkpoint = reading.read_checkpoint(pretrained).encoder_only()
    assert checkpoint.discriminator is not None  # Or encoder_only had raised.
    written = (
        f"{part} of {pretrained}\n{digests.of_tensors(checkpoint.tensors)}\n"
    )
    if os.path.exists(mark):
        # Earlier versions wrote the first line alone.
        if not written.startswith(_read(mark)):
            raise ValueError(
                f"Expected {part} of the weights in {pretrained}. Received: "
                f"{folder}, of others; move it and what began with it away."
            )
        return
    scale = checkpoint.discriminator.initializer_range
    tensors = {
        name: changed(name, tensor, part, scale)
        for name, tensor in checkpoint.tensors.items()
    }
    electra_tf_format.write(
        dataclasses.replace(checkpoint, tensors=tensors), folder
    )
    files.write_atomically(mark, written)


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def changed(
    name: str, tensor: np.ndarray, part: str, scale: float
) -> np.ndarray:
    """A tensor of the encoder as a part of the weights has it.

    Args:
      name: Of the tensor.
      tensor: As it was learned.
      part: One of `PARTS`, or `RESCALED`.
      scale: The initializer's.
    """
    if part == RESCALED:
        if name != _WORDS:
            return tensor
        factor = _TRUNCATED_DEVIATION * scale / tensor.std()
        return (factor * tensor).astype(np.float32)
    if PARTS[part].match(name):
        return tensor
    return initial(name, tensor.shape, scale)


def initial(name: str, shape: tuple[int, ...], scale: float) -> np.ndarray:
    """A tensor as the model begins with it, the same at every call.

    Args:
      name: Of the tensor.
      shape: Of the tensor.
      scale: Deviation of a normal distribution without its tails.
    """
    if name.endswith("gamma"):
        return np.ones(shape, np.float32)
    if name.endswith(("beta", "bias")):
        return np.zeros(shape, np.float32)
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    values = generator.standard_normal(shape)
    while (far := np.abs(values) > 2.0).any():
        values[far] = generator.standard_normal(int(far.sum()))
    return (scale * values).astype(np.float32)


def deviations(pretrained: str) -> dict[str, float]:
    """Standard deviations of what a network has learned, by kind of tensor."""
    checkpoint = reading.read_checkpoint(pretrained).encoder_only()
    assert checkpoint.discriminator is not None
    found: dict[str, list[np.ndarray]] = {}
    for name, tensor in checkpoint.tensors.items():
        kind = "layers" if "/encoder/" in name else name.rsplit("/", 1)[-1]
        if tensor.ndim > 1:
            found.setdefault(kind, []).append(tensor.ravel())
    return {"initial": checkpoint.discriminator.initializer_range} | {
        kind: float(np.concatenate(tensors).std())
        for kind, tensors in found.items()
    }
