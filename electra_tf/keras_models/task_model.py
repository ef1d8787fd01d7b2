"""A fine-tuning model as a Keras model, from a checkpoint and back.

What computes is `model.finetuning_model.FinetuningModel`. How it learns is in
`engine_model`, what it reads in `text_pipeline`, and the tasks are in files of
their own.

Shapes: B batch, L length.
"""

import dataclasses
import functools
import os
import tempfile
import types
import typing
from collections.abc import Mapping

import keras
import tensorflow as tf

from electra_tf import configs, errors
from electra_tf.checkpoints import hub, reading, task_heads
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.finetuning import configs as finetuning_configs
from electra_tf.keras_models import (
    checkpoints,
    freezing,
    presets,
)
from electra_tf.keras_models.encoder import (
    Encoder,
    check_features,
    next_dropout_seed,
    objects_in,
    own_seed,
    policy_scope,
    sizes_from,
)
from electra_tf.keras_models.preprocessor import Preprocessor
from electra_tf.keras_models.text_pipeline import TextPipeline
from electra_tf.model import task_head
from electra_tf.model.finetuning_model import FinetuningModel
from electra_tf.model.windows import Windows
from electra_tf.text.tokenization import ENCODER_FEATURES

# Of models that were not trained on another length; that of the gin runs.
MAX_SEQ_LENGTH = finetuning_configs.FinetuningDataConfig.max_seq_length
# Kinds of heads on a text or a pair of texts.
_WITH_PAIRS = ("classification", "multi_label_classification", "regression")


class TaskModel(TextPipeline):
    """What the models of all tasks have in common.

    Args:
      encoder: An `Encoder`, whose weights are copied; or the sizes of one, or
        what JSON keeps of them.
      head: The task's head, likewise.
      preprocessor: From texts to what the encoder reads; None for a model that
        takes `input_ids`, `input_mask` and `segment_ids`.
      head_dropout: Share of the activations dropped below the last layer; None
        for that of the original, 0.1.
      seed: Of dropout and of the order of the rows; None for one of its own,
        which `keras.utils.set_random_seed` decides.
      name: Of the model.
      dtype: A dtype policy; None for Keras's.
    """

    # Of `TaskHead`.
    kind: str
    # What `from_checkpoint` takes for the head, and for the class itself.
    head_arguments: tuple[str, ...] = ()
    class_arguments: tuple[str, ...] = ("name", "dtype")

    def __init__(
        self,
        encoder: Encoder | configs.EncoderConfig | Mapping,
        head: task_head.TaskHead | Mapping,
        preprocessor=None,
        head_dropout: float | None = None,
        seed: int | None = None,
        name: str | None = None,
        dtype=None,
    ):
        config = _sizes_of(encoder)
        if not isinstance(head, task_head.TaskHead):
            head = task_heads.head_from_dict(dict(head), "head")
        _check_preprocessor(preprocessor, config)
        super().__init__(name=name, dtype=dtype, autocast=False)
        with policy_scope(self.dtype_policy):
            layers = task_head.make_head(head, config)
            if head_dropout is not None:
                layers.set_dropout(head_dropout)
            self.head_dropout = head_dropout
            self.encoder_config = config
            # Not a dict that Keras would wrap.
            self._of_head = types.SimpleNamespace(head=head)
            self.seed = own_seed(seed)
            self.seed_generator = keras.random.SeedGenerator(self.seed)
            self.preprocessor = preprocessor
            self.network = FinetuningModel(config, [layers], self._windows())
        if isinstance(encoder, Encoder):
            reading.assign_all(
                encoder.to_checkpoint(),
                self.network.electra.variables,
                "the encoder given",
                "the encoder",
            )
            freezing.freeze_like(self.network.electra, encoder.electra)
        self.built = True

    @property
    def head(self) -> task_head.TaskHead:
        """What is known of the head: kind, labels, options."""
        return self._of_head.head

    @property
    def task_name(self) -> str:
        """Scope of the head's variables in checkpoints."""
        return self.head.task_name

    @property
    def has_pairs(self) -> bool | None:
        """Whether the inputs are pairs; None where nothing has said so yet."""
        return self.head.has_pairs

    @property
    def max_seq_length(self) -> int:
        """Longer inputs are cut, unless there are `windows`."""
        if self.preprocessor is None:
            return self.encoder_config.max_position_embeddings
        return self.preprocessor.max_seq_length

    @property
    def windows(self) -> Windows | None:
        """How longer texts are read, as in the run that trained the model."""
        return self.network.windows

    def _windows(self) -> Windows | None:
        return self.head.windows_of(self.max_seq_length)

    def note(self, **options) -> None:
        """Remembers what training tells of the task."""
        head = self.head
        self._of_head.head = dataclasses.replace(
            head, options={**head.options, **options}
        )

    # -- The forward pass.

    def call(self, inputs, training=None):
        """Predicts from token ids.

        Args:
          inputs: `input_ids`, `input_mask` and `segment_ids` <int32>[B, L], and
            what else the task needs.
          training: True for dropout.

        Returns:
          What `predict` returns.
        """
        outputs = self.network(
            self.features_of(inputs),
            dropout_seed=next_dropout_seed(self.seed_generator, training),
        )
        return self.answer(outputs["task_outputs"][self.task_name])

    def task_outputs(self, inputs) -> dict[str, tf.Tensor]:
        """What the head says, e.g. its `logits`, without dropout.

        Args:
          inputs: See `call`.
        """
        outputs = self.network(self.features_of(inputs))
        return dict(outputs["task_outputs"][self.task_name])

    def features_of(self, x, y=None):
        longest = self.encoder_config.max_position_embeddings
        if self.windows is not None:
            longest = self.windows.most_tokens
        check_features(x, longest)
        features = {}
        for name, values in x.items():
            is_shared = name in ENCODER_FEATURES or name == "task_id"
            features[name if is_shared else f"{self.task_name}_{name}"] = (
                tf.cast(values, tf.int32) if is_shared else values
            )
        if y is not None:
            targets = y if isinstance(y, dict) else {self.target_names[0]: y}
            for name, values in targets.items():
                rank = tf.TensorShape(values.shape).rank
                if rank not in (None, self.target_rank):
                    shape = ("rows", "outputs")[: self.target_rank]
                    raise ValueError(
                        f"Expected labels of the shape ({', '.join(shape)}). "
                        f"Received: {name} of the shape {values.shape}"
                    )
                values = tf.ensure_shape(values, [None] * self.target_rank)
                if tf.as_dtype(values.dtype).is_integer:
                    values = tf.cast(values, tf.int32)
                features[f"{self.task_name}_{name}"] = values
        return features

    def note_pairs(self, has_pairs, names=None):
        if self.head.kind not in _WITH_PAIRS:
            return
        self.note(has_pairs=has_pairs)
        # The same ones in another order were read in the first one.
        known = self.head.options.get("text_columns") or ()
        if names and set(names) != set(known):
            self.note(text_columns=list(names))

    # -- On disk.

    @classmethod
    def from_checkpoint(
        cls,
        path: checkpoints.Source,
        *,
        max_seq_length: int | None = None,
        preprocessor: typing.Any = "auto",
        dropout: float | None = None,
        head_dropout: float | None = None,
        seed: int | None = None,
        **kwargs,
    ) -> typing.Self:
        """Begins with a pre-trained, or a fine-tuned, checkpoint.

        Args:
          path: A model directory of a gin run, a checkpoint of any other
            format, or "hf://owner/name". Of what `save_to_preset` wrote, the
            very model, if nothing else is asked for.
          max_seq_length: Longer texts are cut. None for the length of the
            fine-tuning whose head is kept; with a new head for 128, as the gin
            runs have it, or the model's positions where they are fewer.
          preprocessor: "auto" for the checkpoint's; None for a model that
            takes token ids.
          dropout: In the encoder; None for that of the checkpoint.
          head_dropout: Below the last layer; None for `dropout`, and without
            that for 0.1.
          seed: See the class.
          **kwargs: What the task needs, such as `labels`; `name` and `dtype`.

        Raises:
          ValueError: If the checkpoint cannot be read, or has not what is
            asked of it.
        """
        unknown = set(kwargs) - {*cls.head_arguments, *cls.class_arguments}
        if unknown:
            raise ValueError(
                f"Expected {cls.__name__}.from_checkpoint with max_seq_length, "
                "preprocessor, dropout, head_dropout, seed, "
                + ", ".join((*cls.head_arguments, *cls.class_arguments))
                + f". Received: {', '.join(sorted(unknown))}"
            )
        of_class = {
            name: kwargs.pop(name)
            for name in cls.class_arguments
            if name in kwargs
        }
        asked = (max_seq_length, dropout, head_dropout, seed, *kwargs.values())
        is_auto = isinstance(preprocessor, str) and preprocessor == "auto"
        if (
            is_auto
            and not of_class
            and all(value is None for value in asked)
            and not isinstance(path, Checkpoint)
        ):
            saved = presets.read_task(hub.local_path(path))
            if type(saved) is cls:
                return saved
        checkpoint = checkpoints.read(path)
        source = checkpoints.name_of(path)
        config = checkpoints.sizes_of(checkpoint, source)
        head, is_kept = cls.head_for(checkpoint, source, **kwargs)
        theirs = checkpoint.head
        if theirs is not None and theirs.kind != head.kind:
            errors.warn(
                f"A new head for {head.kind}: that of {source} is for "
                f"{theirs.kind}"
            )
        if not is_auto:
            _refuse_length_beside(max_seq_length, preprocessor)
        if preprocessor is None and "windows" in head.options:
            raise ValueError(
                f"Expected a preprocessor, as the model in {source} reads long "
                "texts in windows, and nothing else says of how many tokens. "
                "Received: preprocessor=None"
            )
        if max_seq_length is None and not is_kept:
            max_seq_length = min(MAX_SEQ_LENGTH, config.max_position_embeddings)
        if is_auto:
            preprocessor = Preprocessor.of_checkpoint(
                checkpoint, source, max_seq_length
            )
        elif isinstance(preprocessor, Preprocessor):
            preprocessor.warn_of_other_tokens(checkpoint, source)
        if dropout is not None:
            config = dataclasses.replace(
                config,
                hidden_dropout_prob=dropout,
                attention_probs_dropout_prob=dropout,
            )
            head_dropout = dropout if head_dropout is None else head_dropout
        model = cls(
            config,
            preprocessor=preprocessor,
            head=head,
            head_dropout=head_dropout,
            seed=seed,
            **of_class,
        )
        variables, what = model.network.electra.variables, "the encoder"
        if is_kept:
            variables, what = model.network.variables, "the model"
            for note in checkpoint.notes_of_heads():
                errors.warn(f"{source}: {note}")
        reading.assign_all(checkpoint, variables, source, what)
        return model

    from_preset = from_checkpoint

    @classmethod
    def head_for(
        cls, checkpoint: Checkpoint, source: str
    ) -> tuple[task_head.TaskHead, bool]:
        """The head to make, and whether its weights are the checkpoint's."""
        raise NotImplementedError

    @classmethod
    def kept(cls, checkpoint: Checkpoint) -> task_head.TaskHead | None:
        """The checkpoint's head, if it is one for this task."""
        head = checkpoint.head
        return head if head is not None and head.kind == cls.kind else None

    def get_config(self):
        head = dataclasses.asdict(self.head)
        if self.head.labels is not None:  # As JSON has it.
            head["labels"] = list(self.head.labels)
        return {
            "encoder": dataclasses.asdict(self.encoder_config),
            "head": head,
            "preprocessor": (
                self.preprocessor
                and keras.saving.serialize_keras_object(self.preprocessor)
            ),
            "head_dropout": self.head_dropout,
            "seed": self.seed,
            "name": self.name,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            **freezing.config_of(self.network),
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        arguments = objects_in(config, custom_objects)
        frozen = arguments.pop("frozen", ())
        model = cls(**arguments)
        freezing.freeze(model.network, frozen)
        return model

    def save(self, filepath, overwrite=True, **kwargs):
        """See `keras.Model.save`; to a .keras file."""
        checkpoints.save_keras(super().save, filepath, overwrite, **kwargs)

    def to_checkpoint(self) -> Checkpoint:
        """The model as the readers and writers of checkpoints have it.

        Raises:
          ValueError: If it has no preprocessor, hence no vocabulary.
        """
        if not isinstance(self.preprocessor, Preprocessor):
            raise ValueError(
                "Expected a model with an electra_tf.Preprocessor, whose "
                "vocabulary belongs to a checkpoint. Received: "
                f"preprocessor={self.preprocessor!r}"
            )
        optimizer = self.optimizer if self.compiled else None
        return Checkpoint(
            tensors=checkpoints.tensors_of(self.network),
            discriminator=self.encoder_config,
            head=self.head,
            global_step=(
                int(optimizer.iterations.numpy()) if optimizer else None
            ),
            vocabulary=self.preprocessor.vocabulary,
            max_seq_length=self.max_seq_length,
        )

    def save_checkpoint(
        self,
        path: str | os.PathLike,
        format: str = "electra_tf",  # noqa: A002
    ) -> None:
        """Writes a folder that the gin runs, the tools and others read.

        As "electra_tf" it is a model directory: for `from_checkpoint`, for
        `FinetuningConfig.init_checkpoint`, with `keep_head` or without, and for
        tools/export_saved_model.py.

        Args:
          path: A new or empty folder.
          format: See `Encoder.save_checkpoint`.
        """
        checkpoints.write(self.to_checkpoint(), path, format)

    def save_to_preset(self, path: str | os.PathLike) -> None:
        """Writes a preset, which `from_preset` takes.

        The encoder and the tokenizer are KerasHub's `ElectraBackbone`, see
        `Encoder.save_to_preset`; task.json and task.weights.h5 have the rest.
        Optimizer and losses stay behind.

        Args:
          path: A new or empty folder.

        Raises:
          ValueError: If there is something at the path, the model has no
            preprocessor, or KerasHub cannot hold the encoder.
        """
        checkpoints.write(
            self.to_checkpoint(),
            path,
            "kerashub",
            beside=functools.partial(presets.write_task, self),
        )

    def encoder(self, **kwargs) -> Encoder:
        """The encoder below the head, with copies of its weights.

        Args:
          **kwargs: Of `Encoder`.
        """
        weights = checkpoints.tensors_of(self.network.electra)
        return Encoder.from_checkpoint(
            Checkpoint(weights, discriminator=self.encoder_config), **kwargs
        )

    def export(
        self,
        path: str | os.PathLike,
        *,
        has_pairs: bool | None = None,
        max_seq_length: int | None = None,
        name: str | None = None,
    ) -> str:
        """Writes the next version of a SavedModel that answers raw strings.

        It is that of tools/export_saved_model.py, see docs/serving.md.

        Args:
          path: Holds the versions 1, 2, ...
          has_pairs: Whether it takes pairs of texts; None to go by what the
            model was trained on.
          max_seq_length: Where to cut; None for the model's.
          name: What the server calls the model; as `path` is called by
            default.

        Returns:
          Path of the new version.
        """
        # Late: serving takes its time to import.
        from electra_tf.serving import saved_model

        with tempfile.TemporaryDirectory() as folder:
            self.save_checkpoint(folder)
            return saved_model.export(
                folder,
                os.fspath(path),
                has_pairs=has_pairs,
                max_seq_length=max_seq_length,
                name=name,
            )


def _sizes_of(encoder) -> configs.EncoderConfig:
    """Those of whatever a model was given as its encoder.

    Raises:
      ValueError: If it is none.
    """
    if isinstance(encoder, Encoder):
        return encoder.config
    if isinstance(encoder, configs.EncoderConfig):
        return encoder
    if not isinstance(encoder, Mapping):
        raise ValueError(
            "Expected an electra_tf.Encoder or the sizes of one; "
            f"from_checkpoint takes a path. Received: {encoder!r}"
        )
    return sizes_from(encoder)


def _refuse_length_beside(max_seq_length: int | None, preprocessor) -> None:
    """Refuses a length that nothing would be cut to."""
    if max_seq_length is None:
        return
    if preprocessor is None:
        cut = "token ids, which nothing cuts"
    elif getattr(preprocessor, "max_seq_length", None) != max_seq_length:
        cut = f"preprocessor={preprocessor!r}"
    else:
        return
    raise ValueError(
        "Expected max_seq_length for the checkpoint's own preprocessor. "
        f"Received: max_seq_length={max_seq_length} with {cut}"
    )


def _check_preprocessor(preprocessor, encoder: configs.EncoderConfig) -> None:
    """Refuses one that is none, or does not fit the encoder."""
    if preprocessor is None:
        return
    if not isinstance(preprocessor, Preprocessor):
        raise ValueError(
            "Expected an electra_tf.Preprocessor, or None for a model that "
            f"takes token ids. Received: preprocessor={preprocessor!r}"
        )
    for name, received, most in (
        (
            "max_seq_length",
            preprocessor.max_seq_length,
            encoder.max_position_embeddings,
        ),
        ("vocabulary_size", preprocessor.vocabulary_size, encoder.vocab_size),
    ):
        if received > most:
            raise ValueError(
                f"Expected a preprocessor with a {name} of at most {most}, as "
                f"the encoder has it. Received: {name}={received}"
            )
