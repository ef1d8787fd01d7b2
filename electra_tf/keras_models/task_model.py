"""A fine-tuning model as a Keras model, from a checkpoint and back.

What computes is `model.finetuning_model.FinetuningModel`. How it learns is in
`engine_model`; here rows are texts or pairs.

Shapes: N rows, B batch, L length, C labels.
"""

import dataclasses
import os
import tempfile
import typing
from collections.abc import Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from electra_tf import configs, errors
from electra_tf.checkpoints import reading, task_heads
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.finetuning import configs as finetuning_configs
from electra_tf.keras_models import checkpoints, inputs
from electra_tf.keras_models import encoder as encoder_lib
from electra_tf.keras_models.encoder import Encoder, WholeModel
from electra_tf.keras_models.preprocessor import Preprocessor
from electra_tf.model import task_head
from electra_tf.model.finetuning_model import FinetuningModel
from electra_tf.model.windows import Windows
from electra_tf.tasks import features as features_lib
from electra_tf.tasks.task import Task
from electra_tf.text.tokenization import ENCODER_FEATURES

# Of models that were not trained on another length; that of the gin runs.
MAX_SEQ_LENGTH = finetuning_configs.FinetuningDataConfig.max_seq_length


class TaskModel(WholeModel):
    """What the models of all tasks have in common but for `fit`.

    Who inherits from it sets its attributes, and says how rows become features.

    Args:
      encoder: An `Encoder`, whose weights are copied; or the sizes of one, or
        what JSON keeps of them.
      labels: See the class; of those that have labels.
      preprocessor: From texts to what the encoder reads; None for a model that
        takes `input_ids`, `input_mask` and `segment_ids`.
      head: All that is known of the head, in place of what the class takes for
        it.
      head_dropout: Share of the activations dropped below the last layer; None
        for that of the original, 0.1.
      seed: Of dropout and of the order of the rows; None for one of its own,
        which `keras.utils.set_random_seed` decides.
      dtype: A dtype policy; None for Keras's.
    """

    # Of `TaskHead`; the first one of a new head.
    kinds: tuple[str, ...]
    # What `from_checkpoint` takes for the head, and for the class itself.
    head_arguments: tuple[str, ...] = ()
    class_arguments: tuple[str, ...] = ("name", "dtype")
    # The head's features that `fit` learns from, and those of no use to it.
    target_names: tuple[str, ...]
    bookkeeping: tuple[str, ...] = ()
    # Of the head's `metric_sums`: what `evaluate` tells.
    score_names: typing.Any = ()
    # Axes of the labels; with several for a row they are two.
    target_rank: typing.Any = 1
    # Of labels that are ids or decisions; None for others.
    num_label_values: typing.Any = None
    # Whether a loss without dropout needs the labels to predict, too.
    teaches_in_evaluation = False

    def __init__(
        self,
        encoder: Encoder | configs.EncoderConfig | Mapping,
        labels: Sequence | int | None = None,
        preprocessor=None,
        *,
        head: task_head.TaskHead | Mapping | None = None,
        head_dropout: float | None = None,
        seed: int | None = None,
        name: str | None = None,
        dtype=None,
        **settings,
    ):
        settings |= {"labels": labels} if head is None else {}
        settings = {k: v for k, v in settings.items() if v is not None}
        if head is None:
            head = self.new_head(None, **settings)
        elif settings:
            raise TypeError(
                f"Expected head alone. Received: {[*settings]}, too"
            )
        if head is None:
            raise ValueError(
                "Expected labels=[...] or head=. Received: neither"
            )
        if isinstance(encoder, Mapping):
            encoder = configs.EncoderConfig(**encoder)
        config = getattr(encoder, "config", encoder)
        if not isinstance(config, configs.EncoderConfig):
            raise ValueError(
                "Expected an electra_tf.Encoder or the sizes of one; "
                f"from_checkpoint takes a path. Received: {encoder!r}"
            )
        if not isinstance(head, task_head.TaskHead):
            head = task_heads.head_from_dict(dict(head), "head")
        if preprocessor is not None:
            has = preprocessor.max_seq_length, preprocessor.vocabulary_size
            most = config.max_position_embeddings, config.vocab_size
            if has[0] > most[0] or has[1] > most[1]:
                raise ValueError(
                    "Expected a preprocessor of at most {} tokens a row and {} "
                    "in its vocabulary, as the encoder has. Received: {} and "
                    "{}".format(*most, *has)
                )
        super().__init__(name=name, dtype=dtype, autocast=False)
        with encoder_lib.policy_scope(self.dtype_policy):
            layers = task_head.make_head(head, config)
            if head_dropout is not None:
                layers.set_dropout(head_dropout)
            self.head_dropout = head_dropout
            self.encoder_config = config
            self.head = head
            self.seed = encoder_lib.own_seed(seed)
            self.seed_generator = keras.random.SeedGenerator(self.seed)
            self.preprocessor = preprocessor
            self.network = FinetuningModel(
                config, [layers], head.windows_of(self.max_seq_length)
            )
        if isinstance(encoder, Encoder):
            reading.assign_all(
                encoder.to_checkpoint(),
                self.network.electra.variables,
                "the encoder given",
                "the encoder",
            )
            encoder_lib.freeze_like(self.network.electra, encoder.electra)
        self._labels = inputs.Labels(
            self.head.labels
            or list(map(str, range(self.head.num_outputs or 0)))
        )
        given = None if labels is None else inputs.given_labels(labels)
        if given is not None and given != list(self.given_labels):
            self.set_options(given_labels=given)
        self.built = True

    @property
    def labels(self) -> tuple[str, ...]:
        """Names of the labels, in the order of the outputs."""
        return self._labels.names

    @property
    def given_labels(self) -> list | tuple:
        """The labels as they were given: names or numbers."""
        given = self.head.options.get("given_labels", ())
        is_same = tuple(map(str, given)) == self._labels.names
        return given if is_same else self.labels

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

    def set_options(self, **options) -> None:
        """Remembers what training tells of the task."""
        self.head = dataclasses.replace(
            self.head, options=self.head.options | options
        )

    # -- Rows.

    def read_inputs(self, x, name: str = "x"):
        """Checks what the user calls x."""
        rows = inputs.texts(x, name)
        kinds = ("texts", "pairs of texts")
        received = len(rows) == 2
        # Windows are those of long texts.
        wanted = False if self.windows else self.has_pairs
        if wanted not in (None, received):
            raise ValueError(
                f"Expected {kinds[wanted]} as {name}, as the model was trained "
                f"on. Received: {kinds[received]}"
            )
        return rows

    def features(self, rows, y, name: str = "y") -> features_lib.Features:
        """What the model reads of rows, and the labels where there are any.

        Returns:
          <...>[N, ...]; names of the task's own begin with the task's.
        """
        first, tokenizer = rows[0], self.preprocessor.tokenizer
        longest = self.max_seq_length
        if self.windows is not None:
            longest = self.windows.most_tokens
            features = features_lib.whole_texts(first, tokenizer, longest)
        else:
            second = rows[1] if len(rows) == 2 else [None] * len(first)
            features = features_lib.text_features(
                first, second, tokenizer, longest
            )
        self.remark(features, rows, longest, "see max_seq_length")
        if y is not None:
            targets = self.targets(y, name, len(first))
            features[f"{self.task_name}_{self.target_names[0]}"] = targets
        return features

    def remark(self, features: features_lib.Features, *args, **kwargs) -> None:
        """Warns of what the model does not read, see `features.remarks`."""
        tokenizer = self.preprocessor.tokenizer
        for line in features_lib.remarks(features, tokenizer, *args, **kwargs):
            errors.warn(line)

    def targets(self, y, name: str, num_rows: int) -> np.ndarray:
        """The labels of a column as numbers, [N, ...]."""
        raise NotImplementedError

    def rows_of_features(self, features: features_lib.Features) -> np.ndarray:
        """Whose row each row of features is, <int>[rows of features]."""
        return np.arange(len(features["input_ids"]))

    def class_weights(self, class_weight, targets) -> np.ndarray:
        """Keras's `class_weight` for each row, <float32>[N]; for each label
        without `targets`, the labels as numbers <int>[N]."""
        raise ValueError(
            "Expected class_weight with a TextClassifier of one label a row. "
            f"Received: class_weight={class_weight!r} of a "
            f"{type(self).__name__}"
        )

    def note(self, x, targets: np.ndarray | None) -> None:
        """Remembers what the rows that `fit` learns from tell of the task.

        Of token ids x is None, and `targets` where nobody has read them.
        """
        if x is None or self.head.kind not in task_head.TEXT_KINDS:
            return
        self.set_options(has_pairs=len(self.read_inputs(x)) == 2)

    @property
    def windows(self) -> Windows | None:
        """How longer texts are read; None for the cut."""
        return self.network.windows

    def default_metrics(self) -> list[keras.metrics.Metric] | None:
        """Those of labels and predictions, beside `score_names`."""
        return None

    # -- The forward pass.

    def answer(self, outputs: dict[str, tf.Tensor]):
        """From the head's outputs to predictions."""
        raise NotImplementedError

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
            dropout_seed=encoder_lib.next_dropout_seed(
                self.seed_generator, training
            ),
        )
        return self.answer(outputs["task_outputs"][self.task_name])

    def task_outputs(self, inputs) -> dict[str, tf.Tensor]:
        """What the head says, e.g. its `logits`, without dropout."""
        outputs = self.network(self.features_of(inputs))
        return dict(outputs["task_outputs"][self.task_name])

    def features_of(self, x, y=None):
        encoder_lib.check_features(
            x,
            self.windows.most_tokens
            if self.windows
            else self.encoder_config.max_position_embeddings,
        )
        features = {}
        for name, values in x.items():
            is_shared = name in ENCODER_FEATURES or name == "task_id"
            features[name if is_shared else f"{self.task_name}_{name}"] = (
                tf.cast(values, tf.int32) if is_shared else values
            )
        if y is not None:
            targets = y if isinstance(y, dict) else {self.target_names[0]: y}
            for name, values in targets.items():
                values = tf.ensure_shape(values, [None] * self.target_rank)
                is_id = self.num_label_values is not None
                if is_id or tf.as_dtype(values.dtype).is_integer:
                    values = tf.cast(values, tf.int32)
                features[f"{self.task_name}_{name}"] = values
        return features

    # -- On disk.

    @classmethod
    def from_checkpoint(
        cls,
        path: checkpoints.Source,
        labels: Sequence | int | None = None,
        *,
        max_seq_length: int | None = None,
        preprocessor: typing.Any = "auto",
        dropout: float | None = None,
        head_dropout: float | None = None,
        seed: int | None = None,
        task: Task | None = None,
        **kwargs,
    ) -> typing.Self:
        """Begins with a pre-trained, or a fine-tuned, checkpoint.

        The head of a fine-tuned one is kept if nothing else is asked for.

        Args:
          path: A model directory of a gin run, a checkpoint of any other
            format, or "hf://owner/name".
          labels: See the class; None for those of the head.
          max_seq_length: Longer texts are cut. None for the length of the
            fine-tuning whose head is kept; with a new head for 128, as the gin
            runs have it, or the model's positions where they are fewer.
          preprocessor: "auto" for the checkpoint's; None for a model that
            takes token ids.
          dropout: In the encoder; None for that of the checkpoint.
          head_dropout: Below the last layer; None for `dropout`, and without
            that for 0.1.
          task: One of fine-tuning's, in place of what the class takes for it:
            labels, for example. `fit` takes its `read_examples(split)`.
          **kwargs: What the task needs; `name` and `dtype`.

        Raises:
          ValueError: If the checkpoint cannot be read, or has not what is
            asked of it.
        """
        if labels is not None:
            kwargs["labels"] = labels
        arguments = {
            name: kwargs.pop(name)
            for name in cls.class_arguments
            if name in kwargs
        }
        description = {} if task is None else task.description()
        kwargs |= cls._arguments_of(description)
        is_auto = preprocessor == "auto"
        checkpoint = checkpoints.read(path)
        source = checkpoints.name_of(path)
        config = checkpoint.required_sizes(source)
        checkpoint.refuse_other_head(source)
        head, is_kept = cls.head_for(checkpoint, source, **kwargs)
        if task is not None and not is_kept:
            head = dataclasses.replace(head, task_name=task.name)
        has_windows = preprocessor is None and "windows" in head.options
        if has_windows or not is_auto and max_seq_length is not None:
            raise ValueError(
                "Expected the checkpoint's own preprocessor, which has "
                "max_seq_length, that of windows too. Received: "
                f"max_seq_length={max_seq_length} with "
                f"preprocessor={preprocessor!r}"
            )
        if max_seq_length is None and not is_kept:
            max_seq_length = min(MAX_SEQ_LENGTH, config.max_position_embeddings)
        if is_auto:
            preprocessor = Preprocessor.from_checkpoint(
                checkpoint, max_seq_length, source=source
            )
        elif isinstance(preprocessor, Preprocessor):
            preprocessor.warn_of_other_tokens(checkpoint)
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
            **arguments | ({} if labels is None else {"labels": labels}),
        )
        variables, what = model.network.electra.variables, "the encoder"
        if is_kept:
            variables, what = model.network.variables, "the model"
            checkpoint.warn_of_heads(source)
        reading.assign_all(checkpoint, variables, source, what)
        if "scheme" in description:  # Of a tagger's answers.
            model.set_options(scheme=description["scheme"])
        return model

    from_preset = from_checkpoint

    @classmethod
    def _arguments_of(cls, description: Mapping) -> dict:
        """Of `head_for`, by what a task says of itself."""
        kind = description.get("kind", cls.kinds[0])
        if kind not in cls.kinds:
            raise ValueError(
                f"Expected a task of {' or '.join(cls.kinds)} for "
                f"{cls.__name__}. Received: {kind}"
            )
        known = {*description} & {*cls.head_arguments}
        arguments = {name: description[name] for name in known}
        if kind != cls.kinds[0]:
            arguments["multi_label"] = True
        return arguments

    @classmethod
    def new_head(
        cls, kept: task_head.TaskHead | None, **arguments
    ) -> task_head.TaskHead | None:
        """The head that is asked for; None where nothing says its labels.

        What is not asked for is as in `kept`, the checkpoint's, if that is one
        for this task.
        """
        raise NotImplementedError

    @classmethod
    def layers_of(cls, head: task_head.TaskHead) -> dict:
        """What must be the same for weights to be kept."""
        return {
            "kind": head.kind,
            "labels": head.labels,
            "num_outputs": head.num_outputs,
            "pooling": head.pooling,
        }

    @classmethod
    def head_for(
        cls, checkpoint: Checkpoint, source: str, **arguments
    ) -> tuple[task_head.TaskHead, bool]:
        """The head to make, and whether its weights are the checkpoint's."""
        there = checkpoint.head
        kept = there if there and there.kind in cls.kinds else None
        head = cls.new_head(kept, **arguments)
        if head is None:
            has = f"a head for {there.kind}" if there else "no fine-tuned head"
            raise errors.CheckpointError(
                f"Expected labels=[...] for a new head, as {source} has {has}. "
                "Received: labels=None"
            )
        if kept is None:
            if there:
                errors.warn(
                    f"A new head for {head.kind}: that of {source} is for "
                    f"{there.kind}"
                )
            return head, False
        kept = dataclasses.replace(kept, labels=kept.labels or head.labels)
        layers, known = cls.layers_of(head), cls.layers_of(kept)
        if layers == known:
            options = kept.options | head.options
            return dataclasses.replace(kept, options=options), True
        new, old = (
            ", ".join(
                f"{name}={inputs.short(one[name], 200)}"
                for name in layers
                if layers[name] != known[name]
            )
            for one in (layers, known)
        )
        errors.warn(f"A new head for {new}: that of {source} has {old}")
        return head, False

    def get_config(self):
        head = dataclasses.asdict(self.head)
        if self.head.labels is not None:  # As JSON has it.
            head["labels"] = list(self.head.labels)
        shared = encoder_lib.shared_config(self, self.network)
        del shared["trainable"]
        return shared | {
            "encoder": dataclasses.asdict(self.encoder_config),
            "head": head,
            "preprocessor": (
                self.preprocessor
                and keras.saving.serialize_keras_object(self.preprocessor)
            ),
            "head_dropout": self.head_dropout,
        }

    def to_checkpoint(self) -> Checkpoint:
        """The model as the readers and writers of checkpoints have it.

        Raises:
          ValueError: If it has no preprocessor, hence no vocabulary.
        """
        if self.preprocessor is None:
            raise ValueError(
                "Expected a model with a preprocessor, whose vocabulary is in "
                "a checkpoint. Received: preprocessor=None"
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

    def encoder(self, **kwargs) -> Encoder:
        """The encoder below the head, with copies of its weights."""
        weights = checkpoints.tensors_of(self.network.electra)
        return Encoder.from_checkpoint(
            Checkpoint(weights, discriminator=self.encoder_config), **kwargs
        )

    def export(self, path: str | os.PathLike, **kwargs) -> str:
        """Writes the next version of a SavedModel that answers raw strings.

        As of tools/export_saved_model.py: docs/reference/signatures.md.

        Args:
          path: Holds the versions 1, 2, ...
          **kwargs: Of `saved_model.export`, such as `has_pairs`, without which
            it goes by what the model was trained on, or `max_seq_length`.

        Returns:
          Path of the new version.
        """
        # Late: serving takes its time to import.
        from electra_tf.serving import saved_model

        with tempfile.TemporaryDirectory() as folder:
            self.save_checkpoint(folder)
            return saved_model.export(
                folder, os.path.expanduser(path), **kwargs
            )
