"""Token ids -> vectors: ELECTRA's encoder as a Keras model.

Shapes: B batch, L length, D hidden.
"""

import contextlib
import dataclasses
import os
import random
import typing
from collections.abc import Callable, Mapping

import keras
import tensorflow as tf

from electra_tf import configs, files
from electra_tf.checkpoints import reading
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.keras_models import checkpoints, inputs
from electra_tf.keras_models.preprocessor import Preprocessor
from electra_tf.model import encoder as encoder_lib
from electra_tf.text.tokenization import ENCODER_FEATURES
from electra_tf.training import replicas


@contextlib.contextmanager
def policy_scope(policy: keras.dtype_policies.DTypePolicy):
    """Layers that are made here have a policy, whatever the global one is."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def shared_config(model: keras.Model, network: keras.Layer) -> dict:
    """The entries of a config that all models here have."""
    layers = network._flatten_layers(include_self=False)
    frozen = [layer.path for layer in layers if not layer.trainable]
    return {
        "seed": model.seed,
        "dtype": keras.saving.serialize_keras_object(model.dtype_policy),
        "name": model.name,
        "trainable": model.trainable,
    } | ({"frozen": frozen} if frozen else {})


class WholeModel(keras.Model):
    """A model whose weights are there from the beginning."""

    # The networks as a checkpoint of the original has them.
    to_checkpoint: Callable[..., Checkpoint]

    def build(self, input_shape=None):
        """Does nothing: the sizes are known."""

    def get_build_config(self):
        return None

    def save(self, filepath, overwrite=True, **kwargs):
        """See `keras.Model.save`; the file is the old one or whole."""
        path = os.path.expanduser(filepath)
        is_there = path.endswith(".keras") and os.path.isfile(path)
        if not (is_there and overwrite):  # Keras asks where not.
            super().save(path, overwrite, **kwargs)
            return
        path = os.path.realpath(path)  # A link stays one.
        # Keras goes by the ending.
        with files.whole_file(path, ".keras") as temporary:
            super().save(temporary, **kwargs)

    def save_checkpoint(
        self,
        path: str | os.PathLike,
        format: str = "electra_tf",  # noqa: A002
        **kwargs,
    ) -> None:
        """Writes a folder that the gin runs, the tools and others read.

        As "electra_tf" it is a model directory: for `from_checkpoint`, for
        `FinetuningConfig.init_checkpoint`, with `keep_head` or without, and for
        tools/export_saved_model.py.

        Args:
          path: A new or empty folder.
          format: "electra_tf", "huggingface", "kerashub", "original" or
            "model_garden".
          **kwargs: Of `to_checkpoint`: an `Encoder`'s `preprocessor`, whose
            vocabulary is written, too.
        """
        checkpoints.write(self.to_checkpoint(**kwargs), path, format)

    @classmethod
    def from_config(cls, config, custom_objects=None):
        arguments = dict(config)
        frozen = arguments.pop("frozen", ())
        for name in {"preprocessor", "dtype"} & set(arguments):
            if isinstance(arguments[name], dict):
                arguments[name] = keras.saving.deserialize_keras_object(
                    arguments[name], custom_objects
                )
        model = cls(**arguments)
        # Those of a layer behind the layer, which freezes them as well.
        if frozen:
            for layer in model._flatten_layers(include_self=False):
                layer.trainable = layer.path not in frozen
        return model


def freeze_like(network: keras.Layer, other: keras.Layer) -> None:
    """Freezes what is frozen in a network of the same layers."""
    for layer, like in zip(
        network._flatten_layers(), other._flatten_layers(), strict=True
    ):
        layer.trainable = like.trainable


def own_seed(seed: int | None) -> int:
    """The seed given, or one that `keras.utils.set_random_seed` decides."""
    return random.randrange(2**31) if seed is None else seed


def next_dropout_seed(
    seed_generator: keras.random.SeedGenerator, training: bool | None
) -> tf.Tensor | None:
    """What dropout of one call follows from, <int32>[2].

    Another one with every call and on every replica; None without dropout.
    """
    if not training:
        return None
    # As the engine of the gin runs does, whose step is here the call.
    first, call = tf.unstack(tf.cast(seed_generator.next(), tf.int32))
    seed = tf.random.experimental.stateless_fold_in(tf.stack([first, 0]), call)
    # Every replica has the same state of the generator.
    return replicas.seed_of_replica(seed)


def check_features(features, longest: int) -> dict:
    """The encoder's features, as <int32>[B, L]."""
    names = ", ".join(ENCODER_FEATURES)
    if not isinstance(features, Mapping) or set(ENCODER_FEATURES) - {*features}:
        received = list(features) if isinstance(features, Mapping) else features
        raise ValueError(
            f"Expected a dictionary with {names}, as electra_tf.Preprocessor "
            f"makes it. Received: {received!r}"
        )
    tensors = {name: features[name] for name in ENCODER_FEATURES}
    # One row's mask would count for all rows.
    shapes = [tf.TensorShape(x.shape) for x in tensors.values()]
    types = {keras.backend.standardize_dtype(x.dtype) for x in tensors.values()}
    is_rows = [x.rank == 2 and x.is_compatible_with(shapes[0]) for x in shapes]
    if (
        not all(is_rows)
        or max(shape[1] or 0 for shape in shapes) > longest
        or any("int" not in dtype and dtype != "bool" for dtype in types)
    ):
        raise ValueError(
            f"Expected {names} of integers, of one shape (batch, length), and "
            f"at most {longest} positions. Received: {', '.join(sorted(types))}"
            f" of the shapes {', '.join(map(str, shapes))}"
        )
    return tensors


def encode(electra, features, seed_generator, training, **kwargs) -> dict:
    """Calls an encoder of `model.encoder` with what a Keras model is given."""
    tensors = check_features(features, electra.config.max_position_embeddings)
    return electra(
        *(tf.cast(x, tf.int32) for x in tensors.values()),
        dropout_seed=next_dropout_seed(seed_generator, training),
        training=training,
        **kwargs,
    )


@keras.saving.register_keras_serializable(package="electra_tf")
class Encoder(WholeModel):
    """ELECTRA's discriminator without its head, or any other such encoder.

        encoder = electra_tf.Encoder.from_checkpoint("hf://owner/name")
        encoder(preprocessor(["A fine film."]))["sequence_output"]

    It takes {"input_ids", "input_mask", "segment_ids"}: <int32>[B, L] and
    returns {"sequence_output": <float>[B, L, D], "pooled_output": <float>[B,
    D]}, the latter the first token's vector. With `training=True` it drops out;
    with `return_layers=True` it returns more, see `model.encoder.Encoder`,
    which computes all of it.

    Args:
      seed: Of dropout; None for one of its own.
      dtype: Name of a policy, or a policy; None for Keras's global one. The
        normalisations and the softmax are computed in float32 in any case.
      **sizes: Those of `configs.EncoderConfig`: `vocab_size`, `hidden_size`,
        `num_hidden_layers`, `num_attention_heads`, `intermediate_size`, and
        what has a default there.
    """

    def __init__(
        self,
        *,
        seed: int | None = None,
        dtype=None,
        name: str | None = None,
        trainable: bool = True,
        **sizes,
    ):
        super().__init__(name=name, dtype=dtype, autocast=False)
        self.config = configs.EncoderConfig(**sizes)
        with policy_scope(self.dtype_policy):
            self.electra = encoder_lib.Encoder(self.config, "electra")
            self.electra.build()
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(own_seed(seed))
        # And so its layers, which Keras would not ask about.
        self.trainable = trainable
        self.built = True

    @classmethod
    def from_checkpoint(cls, path: checkpoints.Source, **kwargs) -> typing.Self:
        """The encoder of a checkpoint, with its weights.

        Args:
          path: Of a checkpoint of any format that `tools/convert_checkpoint.py`
            reads, "hf://owner/name", or what `checkpoints.read` returned.
          **kwargs: Of the class, such as `dtype`, or `hidden_dropout_prob`,
            which go before what the checkpoint says.

        Raises:
          CheckpointError: If it cannot be read, has no discriminator, or does
            not fit.
        """
        checkpoint, source = checkpoints.read(path), checkpoints.name_of(path)
        sizes = dataclasses.asdict(checkpoint.required_sizes(source))
        model = cls(**(sizes | kwargs))
        reading.assign_all(
            checkpoint.encoder_only(),
            model.electra.variables,
            source,
            "the encoder",
        )
        return model

    from_preset = from_checkpoint

    def to_checkpoint(self, preprocessor: Preprocessor | None = None):
        """The encoder as a checkpoint of the original has it.

        Args:
          preprocessor: Its vocabulary goes with the weights.
        """
        return Checkpoint(
            checkpoints.tensors_of(self.electra),
            discriminator=self.config,
            vocabulary=preprocessor and preprocessor.vocabulary,
            max_seq_length=preprocessor and preprocessor.max_seq_length,
        )

    def save_to_preset(
        self, path: str | os.PathLike, preprocessor: Preprocessor | None = None
    ) -> None:
        """Writes a preset of KerasHub's `ElectraBackbone`.

        KerasHub computes GELU by its tanh approximation whatever this encoder
        has: see `checkpoints.formats.kerashub`.
        """
        self.save_checkpoint(path, "kerashub", preprocessor=preprocessor)

    def predict(self, x, *args, **kwargs):
        """See `keras.Model.predict`."""
        x = inputs.checked(x, None, self.config)
        return super().predict(x, *args, **kwargs)

    def call(self, inputs, training=None, return_layers=False):
        return encode(
            self.electra,
            inputs,
            self.seed_generator,
            training,
            return_layers=return_layers,
        )

    def export(self, filepath, format="tf_saved_model", **kwargs):
        """Exports `call`, see `keras.Model.export`.

        Args:
          **kwargs: Of Keras. `input_signature` is that of `call` by default:
            <int32>[B, L] each.
        """
        tokens = keras.InputSpec(shape=(None, None), dtype="int32")
        signature = dict.fromkeys(ENCODER_FEATURES, tokens)
        kwargs.setdefault("input_signature", [signature])
        return super().export(filepath, format, **kwargs)

    def get_config(self):
        return dataclasses.asdict(self.config) | shared_config(self, self)
