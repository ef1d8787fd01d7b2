"""Small random checkpoints of every kind, for the tests of this folder."""

import dataclasses

import numpy as np
import tensorflow as tf

from electra_tf.checkpoints import sizes, verify
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.model.task_head import TaskHead
from electra_tf.text.vocabulary import Vocabulary
from tests import helpers

VOCABULARY = Vocabulary(tuple(helpers.VOCAB), True, True)
ENCODER = helpers.encoder_config()
# What the original's --hparams would be.
HPARAMS = {
    "vocab_size": ENCODER.vocab_size,
    "embedding_size": ENCODER.embedding_size,
    "model_hparam_overrides": {
        name: value
        for name, value in dataclasses.asdict(ENCODER).items()
        if name not in ("vocab_size", "embedding_size")
    },
}
GENERATOR = helpers.electra_config().generator


def random_tensors(shapes, seed=0) -> dict[str, np.ndarray]:
    """Name -> weights, large enough to matter."""
    random = np.random.default_rng(seed)
    return {
        name: (random.normal(0, 0.4, shape) + name.endswith("gamma")).astype(
            np.float32
        )
        for name, shape in shapes.items()
    }


def write_tf1(prefix, tensors: dict) -> str:
    """Writes variables by name, as the original does."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variables = {
            name: tf.compat.v1.get_variable(
                name, initializer=value, use_resource=False
            )
            for name, value in tensors.items()
        }
        session.run(tf.compat.v1.global_variables_initializer())
        return tf.compat.v1.train.Saver(variables).save(
            session, str(prefix), write_meta_graph=False, write_state=False
        )


def encoder_alone(tokens=None, **changes) -> Checkpoint:
    """An encoder with the GELU of the libraries that have one only."""
    config = helpers.encoder_config(**{"hidden_act": "gelu_new"} | changes)
    return Checkpoint(
        random_tensors(sizes.encoder_shapes(config, "electra")),
        config,
        vocabulary=tokens and Vocabulary(tuple(tokens), True, True),
    )


# Of text pairs, for the encoders of other libraries.
INPUTS = helpers.inputs([0, 1, 2]) | {
    "segment_ids": np.array([[0] * 5 + [1] * 7] * 3, np.int32)
}


def sequence_output(checkpoint) -> np.ndarray:
    """What the encoder of a checkpoint, which has nothing else, computes."""
    (output,) = verify.forward(checkpoint, INPUTS).values()
    return output


def assert_close(received, expected) -> None:
    """Arrays that differ by rounding."""
    difference = np.abs(received - expected).max()
    assert difference <= 1e-5 * np.abs(expected).max(), difference


def pretrained(untied=False, slots=False, **changes) -> Checkpoint:
    """A generator and its discriminator."""
    generator = GENERATOR
    if untied:
        width = generator.hidden_size
        generator = dataclasses.replace(generator, embedding_size=width)
    tensors = random_tensors(
        sizes.encoder_shapes(ENCODER, "electra")
        | sizes.encoder_shapes(generator, "generator", untied)
        | sizes.discriminator_head_shapes(ENCODER)
        | sizes.masked_lm_head_shapes(generator)
    )
    checkpoint = Checkpoint(tensors, ENCODER, generator, vocabulary=VOCABULARY)
    if slots:
        shapes = {
            f"{name}/{slot}": tensor.shape
            for slot in ("adam_m", "adam_v")
            for name, tensor in tensors.items()
        }
        changes = {
            "optimizer": random_tensors(shapes, seed=1),
            "global_step": 7,
        } | changes
    return dataclasses.replace(checkpoint, **changes)


def electric(untied=False, **tower_changes) -> Checkpoint:
    """Two towers and their discriminator."""
    tower = GENERATOR
    if untied:
        tower = dataclasses.replace(tower, embedding_size=tower.hidden_size)
    tower = dataclasses.replace(tower, **tower_changes)
    tensors = random_tensors(
        sizes.encoder_shapes(ENCODER, "electra")
        | sizes.encoder_shapes(tower, "generator_ltr", untied)
        | sizes.encoder_shapes(tower, "generator_rtl", untied)
        | sizes.discriminator_head_shapes(ENCODER)
        | sizes.masked_lm_head_shapes(tower, "cloze_predictions", 2)
    )
    return Checkpoint(tensors, ENCODER, vocabulary=VOCABULARY)


def with_hidden_act(checkpoint: Checkpoint, hidden_act: str) -> Checkpoint:
    """The same weights below another activation."""

    def changed(config):
        return config and dataclasses.replace(config, hidden_act=hidden_act)

    return dataclasses.replace(
        checkpoint,
        discriminator=changed(checkpoint.discriminator),
        generator=changed(checkpoint.generator),
    )


def with_three_segments() -> Checkpoint:
    """An encoder with more segments than ELECTRA takes apart."""
    config = dataclasses.replace(ENCODER, type_vocab_size=3)
    return Checkpoint(
        random_tensors(sizes.encoder_shapes(config, "electra")),
        config,
        vocabulary=VOCABULARY,
    )


_LIKE_TRANSFORMERS = {
    "joint_prediction": False,
    "answerable_classifier": False,
    "answerable_uses_start_logits": False,
    "qa_na_threshold": 0.0,
}


def finetuned(
    kind="classification", num_outputs=3, settings=None, **changes
) -> Checkpoint:
    """An encoder with a head of one layer, or for question answering of two."""
    shapes = sizes.encoder_shapes(ENCODER, "electra")
    labels = tuple(f"label {i}" for i in range(num_outputs))
    fields: dict = {"labels": labels, "num_outputs": num_outputs}
    layers = {"dense": num_outputs}
    if kind == "question_answering":
        layers = {"dense": 1, "dense_1": 1}
        fields = {"options": _LIKE_TRANSFORMERS}
    elif kind == "regression":
        fields["labels"] = None
    elif kind == "tagging":
        fields["segment"] = 1
    for layer, width in layers.items():
        scope = f"task_specific/letters/{layer}"
        shapes[f"{scope}/kernel"] = (ENCODER.hidden_size, width)
        shapes[f"{scope}/bias"] = (width,)
    head = TaskHead(kind, "letters", **fields | (settings or {}))
    return dataclasses.replace(
        Checkpoint(
            random_tensors(shapes), ENCODER, head=head, vocabulary=VOCABULARY
        ),
        **changes,
    )


def renamed_task(checkpoint: Checkpoint, task_name: str) -> Checkpoint:
    """The same head under another task's name."""
    head = checkpoint.head
    assert head is not None
    tensors = {
        name.replace(f"/{head.task_name}/", f"/{task_name}/"): tensor
        for name, tensor in checkpoint.tensors.items()
    }
    head = dataclasses.replace(head, task_name=task_name)
    return dataclasses.replace(checkpoint, tensors=tensors, head=head)


def assert_same_tensors(ours, theirs) -> None:
    """The same names, types and bits, optimizer slots included."""
    for a, b in (
        (ours.tensors, theirs.tensors),
        (ours.optimizer, theirs.optimizer),
    ):
        assert sorted(a) == sorted(b)
        for name, tensor in a.items():
            assert tensor.dtype == b[name].dtype, name
            assert tensor.tobytes() == b[name].tobytes(), name
