"""Do a checkpoint and its conversion compute the same?

The networks of this package run on the tensors that were read, and the library
of the other format, where it is installed, on the files. Outputs are compared
on real tokens; what is computed at padding means nothing.

Shapes: B batch, L length, D hidden, V vocabulary, C labels.
"""

import dataclasses
import reprlib
import typing
from collections.abc import Mapping

import keras
import numpy as np
import tensorflow as tf

from electra_tf import configs
from electra_tf.checkpoints import reading, sizes
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.errors import CheckpointError
from electra_tf.model import electra, task_head
from electra_tf.text.tokenization import ENCODER_FEATURES

# Largest difference, as a share of the array's largest magnitude.
TOLERANCE = 1e-5

_BATCH_SIZE = 4
_LENGTH = 24


class Difference(typing.NamedTuple):
    """Two arrays of one output: the largest difference and value."""

    output: str
    largest: float
    magnitude: float

    @property
    def share(self) -> float:
        return self.largest / max(self.magnitude, 1e-30)

    @property
    def fits(self) -> bool:
        # Not (a > b), which a NaN would pass.
        return self.share <= TOLERANCE


def random_inputs(
    config: configs.EncoderConfig, head: task_head.TaskHead | None = None
) -> dict[str, np.ndarray]:
    """Random tokens in rows of different lengths, in all segments.

    A tagger's words are all in its segment.

    Returns:
      `input_ids`, `input_mask` and `segment_ids` <int32>[B, L].
    """
    random = np.random.default_rng(0)
    length = min(_LENGTH, config.max_position_embeddings)
    shape, num_segments = (_BATCH_SIZE, length), config.type_vocab_size
    # The first row has no padding, the last one hardly a token.
    lengths = np.linspace(length, min(2, length), _BATCH_SIZE).astype(int)
    positions, lengths = np.arange(length), lengths[:, np.newaxis]
    mask = positions < lengths
    segments = np.minimum(positions * num_segments // lengths, num_segments - 1)
    if head is not None and head.kind == "tagging":
        segments = np.full(shape, head.segment_of_words())
    ids = random.integers(0, config.vocab_size, shape)
    return {
        "input_ids": (ids * mask).astype(np.int32),
        "input_mask": mask.astype(np.int32),
        "segment_ids": (segments * mask).astype(np.int32),
    }


def forward(
    checkpoint: Checkpoint, inputs: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """What the networks here compute from a checkpoint.

    Returns:
      As far as there are such networks: "sequence_output" [B, L, D] and
      "discriminator_logits" [B, L] of the discriminator,
      "generator_sequence_output" [B, L, D] and "generator_logits" [B, L, V] of
      the generator; of the fine-tuned head "logits" [B, C] ([B, L, C] of
      tagging, where every token is a word), or for a head without joint
      prediction "start_logits" and "end_logits" [B, L], on tokens that
      cannot be in an answer too.
    """
    previous = keras.config.dtype_policy()
    keras.config.set_dtype_policy("float32")
    try:
        outputs = _outputs(checkpoint, inputs)
        return {name: np.asarray(x) for name, x in outputs.items()}
    finally:
        keras.config.set_dtype_policy(previous)


def _outputs(checkpoint, inputs) -> dict:
    """Of the discriminator with its head, and of a masked language model."""
    args = [tf.constant(inputs[name]) for name in ENCODER_FEATURES]
    outputs = {}
    if checkpoint.discriminator is not None:
        part = "encoding" if checkpoint.other_head else ""
        model = reading.load_model("the checkpoint", part, checkpoint)
        network = getattr(model, "electra", getattr(model, "encoder", model))
        sequence = network(*args)["sequence_output"]
        outputs["sequence_output"] = sequence
        if isinstance(model, electra.Discriminator):
            outputs["discriminator_logits"] = model.head(sequence)
        elif network is not model:
            (head,) = model.task_specific.heads
            kind = checkpoint.head.kind
            outputs |= _task_outputs(head, kind, inputs, sequence)
    if sizes.masked_lm_encoder(checkpoint.tensors) in checkpoint.encoders:
        model = reading.load_model("the checkpoint", "masked_lm", checkpoint)
        sequence = model.encoder(*args)["sequence_output"]
        outputs["generator_sequence_output"] = sequence
        outputs["generator_logits"] = model.head(sequence)
    return outputs


def _task_outputs(head, kind, inputs, sequence) -> dict:
    if kind == "question_answering":
        if head.config.joint_prediction:
            return {}
        return {
            "start_logits": head.start(sequence)[..., 0],
            "end_logits": head.end(sequence)[..., 0],
        }
    features = dict(inputs)
    if kind == "tagging":
        shape = inputs["input_ids"].shape
        positions = tf.broadcast_to(tf.range(shape[1]), shape)
        features[f"{head.task_name}_labeled_positions"] = positions
    encoded = {"sequence_output": sequence, "pooled_output": sequence[:, 0]}
    outputs = head(encoded, features)
    if kind == "regression":
        return {"logits": outputs["predictions"][:, tf.newaxis]}
    return {"logits": outputs["logits"]}


def compare(
    computed: Mapping[str, np.ndarray],
    expected: Mapping[str, np.ndarray],
    input_mask: np.ndarray,
) -> list[Difference]:
    """Compares the outputs that both sides have, on real tokens.

    Returns:
      One difference per output, in the order of their names.

    Raises:
      CheckpointError: If they have none in common.
    """
    differences = []
    for name in sorted(computed.keys() & expected.keys()):
        a, b = (np.asarray(x[name], np.float64) for x in (computed, expected))
        if a.shape[:2] == input_mask.shape:
            a, b = a[input_mask > 0], b[input_mask > 0]
        largest, magnitude = np.max(np.abs(a - b)), np.max(np.abs(a))
        differences.append(Difference(name, float(largest), float(magnitude)))
    if not differences:
        raise CheckpointError(
            f"Expected outputs such as {', '.join(sorted(computed))}. Received:"
            f" {', '.join(sorted(expected))}"
        )
    return differences


def unequal_tensors(
    written: Checkpoint, read_again: Checkpoint
) -> tuple[list[str], list[str]]:
    """Names of tensors and slots that a reader finds otherwise, or not at all.

    Returns:
      Those that are in both but not equal bit by bit, and those that are only
      in the first.
    """

    unequal, absent = [], []
    for part in ("tensors", "optimizer"):
        there = getattr(read_again, part)
        for name, tensor in getattr(written, part).items():
            if name not in there:
                absent.append(name)
                continue
            other = there[name]
            is_same = (tensor.dtype, tensor.shape) == (other.dtype, other.shape)
            if not (is_same and tensor.tobytes() == other.tobytes()):
                unequal.append(name)
    return unequal, absent


def lost_settings(written: Checkpoint, read_again: Checkpoint) -> list[str]:
    """What was known before writing, and is not, or is otherwise, thereafter.

    Returns:
      Such as "max_seq_length=128": every field of vocabulary and head, and what
      no shape tells of the encoders, but for their activations, which outputs
      show.
    """
    there = _settings(read_again)
    return [
        f"{name}={reprlib.repr(value)}"
        for name, value in _settings(written).items()
        if value not in (None, there.get(name))
    ]


def _settings(checkpoint: Checkpoint) -> dict[str, typing.Any]:
    """Name -> value, None where nothing is known."""
    settings: dict[str, typing.Any] = {
        "max_seq_length": checkpoint.max_seq_length,
        "global_step": checkpoint.global_step,
    }
    for scope, config in checkpoint.encoders.items():
        prefix = "generator's " if scope == "generator" else ""
        for name, value in sizes.not_in_tensors(config).items():
            if name not in ("hidden_act", *checkpoint.assumed):
                settings[prefix + name] = value
    if (vocab := checkpoint.vocabulary) is not None:
        settings |= vocab.treatment()
        settings["vocabulary"] = f"{len(vocab.tokens)} tokens"
    if checkpoint.head is not None:
        fields = dataclasses.asdict(checkpoint.head)
        settings |= fields.pop("options") | fields
    return settings
