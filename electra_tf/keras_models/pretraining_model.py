"""A generator and a discriminator that `fit` pre-trains, as a Keras model.

Networks, objectives, losses, optimizer and one replica's step are those of the
gin runs: `ablations.make_model` and `engine.Engine`.

Shapes: B batch, L length, D hidden.
"""

import dataclasses
import functools
import os
import types
import typing
from collections.abc import Mapping

import keras
import numpy as np
import tensorflow as tf

from electra_tf import configs, errors, model_directory, pretraining
from electra_tf.checkpoints import disentangled, hub, reading, sizes
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.keras_models import checkpoints, inputs, optimizers
from electra_tf.keras_models import encoder as encoder_lib
from electra_tf.keras_models.preprocessor import Preprocessor
from electra_tf.model import ablations, losses, masking
from electra_tf.pretraining_data import batches, draws
from electra_tf.pretraining_data.records import FEATURE_NAMES
from electra_tf.training import engine as engine_lib
from electra_tf.training import optimization, replicas

_ENCODER_FIELDS = {f.name for f in dataclasses.fields(configs.EncoderConfig)}
BATCH_SIZE = 128
# Of the paper's small model; the warm-up has its share of the steps, too.
DEFAULT_OPTIMIZER = configs.OptimizerConfig(
    learning_rate=5e-4, warmup_proportion=0.01
)


@keras.saving.register_keras_serializable(package="electra_tf")
class PretrainingModel(encoder_lib.WholeModel):
    """ELECTRA's pre-training.

        model = electra_tf.PretrainingModel(
            electra_tf.Preprocessor("vocab.txt"), hidden_size=256,
            num_hidden_layers=12, num_attention_heads=4,
            intermediate_size=1024, embedding_size=128, max_seq_length=128)
        model.fit("train/*tfrecord*", batch_size=128, epochs=3,
                  validation_data="heldout/*tfrecord*")
        model.save_checkpoint("pretrained")

    Called with {"input_ids", "input_mask", "segment_ids"}: <int32>[B, L] it
    returns the discriminator's "sequence_output" <float>[B, L, D] and
    "pooled_output" <float>[B, D], and where it detects replaced tokens
    "disc_logits" <float32>[B, L], high where it takes a token for replaced.
    `fit` masks and samples.

    Args:
      preprocessor: With the vocabulary; it turns texts into ids, too.
      seed: Of the order of the data, of masks, samples and dropout; None to
        draw one.
      **settings: Those of `configs.EncoderConfig` and `configs.ElectraConfig`,
        such as `hidden_size`, `mask_prob` or `discriminator_objective`; the
        size of the vocabulary and the length are the preprocessor's where they
        are not given.
    """

    def __init__(
        self,
        preprocessor: Preprocessor,
        *,
        seed: int | None = None,
        dtype=None,
        name: str | None = None,
        trainable: bool = True,
        **settings,
    ):
        super().__init__(
            name=name, dtype=dtype, trainable=trainable, autocast=False
        )
        self.config = _model_config(preprocessor, settings)
        self.preprocessor = preprocessor
        self.seed = encoder_lib.own_seed(seed)
        vocabulary = preprocessor.vocabulary
        with encoder_lib.policy_scope(self.dtype_policy):
            self.network = ablations.make_model(
                self.config,
                masking.SpecialIds.of(vocabulary),
                masking.continues_a_word(vocabulary.tokens),
            )
        self.seed_generator = keras.random.SeedGenerator(self.seed)
        self.built = True
        self.optimizer: optimization.AdamWeightDecay | None = None
        self._optimizer_config: configs.OptimizerConfig | None = None
        self._training: typing.Any = None

    # --- Checkpoints ------------------------------------------------

    @classmethod
    def from_checkpoint(
        cls,
        path: checkpoints.Source,
        preprocessor: Preprocessor | None = None,
        **kwargs,
    ) -> typing.Self:
        """The model of a checkpoint, with its weights.

        Args:
          path: Of a checkpoint with a generator and a discriminator: a model
            directory of a pre-training run, which knows its objective, or one
            of any format, "hf://owner/name", or what `checkpoints.read`
            returned, whose objective is the paper's where nothing else is
            given.
          preprocessor: None for that of the checkpoint.
          **kwargs: Of the class; they go before what the checkpoint says.

        Raises:
          CheckpointError: If it cannot be read or lacks a part of the model.
        """
        source = checkpoints.name_of(path)
        if not isinstance(path, Checkpoint):
            path = hub.local_path(path)
        checkpoint = checkpoints.read(path)
        if preprocessor is None:
            preprocessor = Preprocessor.from_checkpoint(
                checkpoint, source=source
            )
        preprocessor.warn_of_other_tokens(checkpoint)
        settings = _settings_of_run(path)
        if not settings:
            settings = _settings_in(checkpoint, source, kwargs)
        model = cls(preprocessor, **(settings | kwargs))
        sizes.require_same(model.config, checkpoint, source)
        if model.config.disentangled_embeddings:
            tensors = disentangled.unfold(checkpoint.tensors)
            checkpoint = dataclasses.replace(checkpoint, tensors=tensors)
        reading.assign_all(
            checkpoint, model.network.variables, source, "the model"
        )
        return model

    from_preset = from_checkpoint

    def to_checkpoint(self) -> Checkpoint:
        """Both networks, the optimizer's state and the vocabulary."""
        config, optimizer = self.config, self.optimizer
        state: dict[str, typing.Any] = {}
        if isinstance(optimizer, optimization.AdamWeightDecay):
            # Disentangled embeddings are tables that no checkpoint has.
            is_whole = optimizer.built and not config.disentangled_embeddings
            slots = optimizer.slots() if is_whole else {}
            state = {
                "optimizer": {n: slot.numpy() for n, slot in slots.items()},
                "global_step": int(optimizer.iterations.numpy()),
            }
        has_generator = config.has_discriminator and config.has_own_generator
        return Checkpoint(
            checkpoints.tensors_of(self.network),
            discriminator=config.encoder,
            generator=config.generator if has_generator else None,
            vocabulary=self.preprocessor.vocabulary,
            max_seq_length=config.max_seq_length,
            is_electric=config.electric_objective,
            **state,
        )

    def encoder(self, **kwargs) -> encoder_lib.Encoder:
        """The discriminator's encoder, with copies of its weights."""
        return encoder_lib.Encoder.from_checkpoint(
            self.to_checkpoint(), **kwargs
        )

    # --- Keras ------------------------------------------------------

    def call(self, inputs, training=None):
        network = self.network
        outputs = encoder_lib.encode(
            network.electra, inputs, self.seed_generator, training
        )
        if self.config.has_binary_discriminator:
            logits = network.discriminator_predictions(
                outputs["sequence_output"]
            )
            outputs["disc_logits"] = tf.cast(logits, tf.float32)
        return outputs

    def get_config(self):
        settings = dataclasses.asdict(self.config)
        return {
            **settings.pop("encoder"),
            **settings,
            **encoder_lib.shared_config(self, self.network),
            "preprocessor": keras.saving.serialize_keras_object(
                self.preprocessor
            ),
        }

    # --- Training ---------------------------------------------------

    def compile(
        self,
        optimizer: typing.Any = "auto",
        *,
        learning_rate: float | None = None,
        num_train_steps: int | None = None,
        micro_batch_size: int = 0,
        jit_compile: bool = False,
        **kwargs,
    ):
        """Chooses how to train; `fit` calls it where nobody did.

        Args:
          optimizer: "auto" for the paper's: Adam with decoupled weight decay
            and a rate that warms up and falls to 0. A `configs.OptimizerConfig`
            changes any of that; an `optimization.AdamWeightDecay` is taken as
            it is.
          learning_rate: The peak; 5e-4 where nothing else says it.
          num_train_steps: Where the rate reaches 0; None for the end of the
            first `fit`.
          micro_batch_size: Examples that a replica works on at once, to save
            memory; 0 for all of its share. The numbers are the same but for
            dropout and rounding.
          jit_compile: Compile each replica's step with XLA.
          **kwargs: `run_eagerly` and `steps_per_execution`, as Keras has them.

        Raises:
          ValueError: If learning_rate or num_train_steps comes with an
            optimizer that has its own, or a number is none.
        """
        config = optimizers.asked_config(
            optimizer, learning_rate, num_train_steps, DEFAULT_OPTIMIZER
        )
        if config is not None:
            optimization.refuse_layerwise_rates(config)
            optimizer = None
        elif not isinstance(optimizer, optimization.AdamWeightDecay):
            raise ValueError(
                "Expected optimizer to be 'auto', a configs.OptimizerConfig or "
                "an optimization.AdamWeightDecay, the optimizer that ELECTRA "
                f"has. Received: optimizer={optimizer!r}"
            )
        self._optimizer_config = config
        self._compiled_with = kwargs | {
            "micro_batch_size": micro_batch_size,
            "jit_compile": jit_compile,
        }
        self._training = None
        # Without an optimizer, it is made when it is known for how many steps.
        super().compile(
            optimizer=optimizer,
            loss=None,
            # The engine does both.
            auto_scale_loss=False,
            jit_compile=False,
            **kwargs,
        )
        if num_train_steps is not None:
            self._make_optimizer(num_train_steps)

    def get_compile_config(self):
        if self.optimizer is None:
            return None
        return {
            "optimizer": keras.saving.serialize_keras_object(self.optimizer),
            **self._compiled_with,
        }

    def compile_from_config(self, config):
        optimizer = keras.saving.deserialize_keras_object(config["optimizer"])
        optimizer.build(self.network.trainable_variables)
        self.compile(**(config | {"optimizer": optimizer}))

    def data(
        self, pattern: str | os.PathLike, heldout: bool = False
    ) -> batches.PretrainingData:
        """The examples of TFRecords; held out in order, with other masks.

        Its `dataset(batch_size)` is what `fit` takes.
        """
        data = batches.PretrainingData(
            os.path.expanduser(pattern),
            self.config,
            self.seed + (pretraining.EVAL_SEED_OFFSET if heldout else 0),
            shuffle=not heldout,
        )
        data.refuse_without_text(self.preprocessor.vocabulary)
        return data

    def fit(
        self,
        x,
        batch_size: int | None = None,
        epochs: int = 1,
        validation_data=None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_batch_size: int | None = None,
        callbacks=None,
        **kwargs,
    ):
        """Pre-trains.

        Args:
          x: Glob of TFRecords of `tools/build_pretraining_dataset.py`; or a
            `tf.data.Dataset` of batches, of `data(...)` or of ids alone, as the
            preprocessor makes them, to be masked at random.
          batch_size: Examples of a step over all replicas, 128 by default; of a
            glob only.
          epochs: Passes over the data, each of `steps_per_epoch`.
          validation_data: Like `x`.
          initial_epoch: Passes that were made before.
          steps_per_epoch: None for all examples once.
          validation_steps: Batches; None for all.
          validation_batch_size: None for `batch_size`.

        Returns:
          Keras's History.
        """
        if not self.compiled:
            self.compile()
        size, data = batch_size or BATCH_SIZE, None
        if isinstance(x, str | os.PathLike):
            data = self.data(x)
            steps_per_epoch = steps_per_epoch or max(1, len(data) // size)
            if self.config.unigram_generator:
                self.network.set_unigram_generator(data.token_frequencies())
            start = optimizers.Start()
            x = start.dataset(functools.partial(data.dataset, size))
            callbacks = [*keras.tree.flatten(callbacks or []), start]
        x = self._checked(x, "x")
        if isinstance(validation_data, str | os.PathLike):
            validation_data = self._heldout(
                validation_data,
                validation_batch_size or size,
                validation_steps,
                data,
            )
            validation_steps = None
        elif validation_data is not None:
            validation_data = self._checked(validation_data, "validation_data")
        steps = steps_per_epoch or int(x.cardinality())
        num_steps = None if steps < 0 else steps * (epochs - initial_epoch)
        self._make_optimizer(num_steps)
        optimizers.warn_of_the_end(self.optimizer, num_steps, callbacks)
        self._prepare_steps(
            x.element_spec, self._compiled_with["micro_batch_size"]
        )
        return super().fit(
            x,
            epochs=epochs,
            validation_data=validation_data,
            initial_epoch=initial_epoch,
            steps_per_epoch=steps_per_epoch,
            validation_steps=validation_steps,
            callbacks=callbacks,
            **kwargs,
            shuffle=False,  # A dataset has an order.
        )

    def evaluate(self, x, batch_size: int | None = None, steps=None, **kwargs):
        """Losses and metrics without dropout; takes what `fit` takes."""
        if not self.compiled:
            self.compile()
        if isinstance(x, str | os.PathLike):
            x, steps = self._heldout(x, batch_size or BATCH_SIZE, steps), None
        if not kwargs.get("_use_cached_eval_dataset"):
            x = self._checked(x, "x")
            self._prepare_steps(x.element_spec)
        return super().evaluate(x, steps=steps, **kwargs)

    def predict(self, x, *args, **kwargs):
        """The outputs of `call` for token ids, see `keras.Model.predict`."""
        x = inputs.checked(x, None, self.config.encoder)
        return super().predict(x, *args, **kwargs)

    def train_step(self, data):
        optimizers.refuse_passed_over(self, PretrainingModel, "train_step")
        engine = self._training.engine
        loss_scale = engine.loss_scale
        scale = loss_scale.scale.read_value() if loss_scale else 1.0
        # Where a dataset ends without having said so, the step is not counted.
        with tf.control_dependencies(tf.nest.flatten(data)):
            step = self.optimizer.iterations.value
            features = self._with_noise(data, step)
            seed = tf.constant(self.seed, tf.int64)
            sums = engine.compiled_step(features, seed, step, scale)
            if loss_scale:
                # The norm of a step that was not taken has no weight.
                loss_scale.update(sums["gradient_norm"].weight > 0)
            return self._note(sums)

    def test_step(self, data):
        optimizers.refuse_passed_over(self, PretrainingModel, "test_step")
        features = self._with_noise(data)
        return self._note(self._training.engine.replica_eval(features))

    @property
    def metrics(self) -> list:
        return list(self._training.ratios.values()) if self._training else []

    def _note(self, sums: dict[str, losses.Sums]) -> dict:
        """Adds a batch to the metrics, and returns what they have become."""
        ratios = self._training.ratios
        results = {}
        for name, batch in sums.items():
            name = "loss" if name == "total_loss" else name
            if name in ratios:
                ratios[name].update_state(batch)
                results[name] = ratios[name].result()
        return results

    def _make_optimizer(self, num_train_steps: int | None) -> None:
        """Makes what `compile` asked for, once it is known for how long."""
        if self.optimizer is not None or self._optimizer_config is None:
            return
        if num_train_steps is None:
            raise ValueError(
                "Expected steps_per_epoch, with a dataset that does not say "
                "how many batches it has. Received: steps_per_epoch=None"
            )
        config = self._optimizer_config
        optimization.warn_of_schedule(config, num_train_steps)
        with self.distribute_strategy.scope():
            optimizer = optimization.AdamWeightDecay(config, num_train_steps)
            optimizer.build(self.network.trainable_variables)
        self.optimizer = optimizer

    def _prepare_steps(self, element_spec, micro_batch_size: int = 0) -> None:
        """Makes what the steps of `fit` and `evaluate` are made of."""
        network = self.network
        if self.config.unigram_generator and not np.any(
            network.unigram_log_probs.numpy()
        ):
            raise ValueError(
                "Expected fit on a glob of TFRecords first, which tells the "
                "unigram generator how frequent tokens are. Received: a dataset"
            )
        size = element_spec["input_ids"].shape[0]
        known = self._training and self._training.engine
        if known and self.optimizer in (None, known.optimizer):
            cut = known.run.micro_batch_size, known.batch_size
            if not micro_batch_size or cut == (micro_batch_size, size):
                return
        self.train_function = self.test_function = None
        if size is None and micro_batch_size:
            raise ValueError(
                "Expected batches of one size, drop_remainder=True, for "
                f"micro_batch_size={micro_batch_size}. Received: {element_spec}"
            )
        size = size or self.distribute_strategy.num_replicas_in_sync
        policy = self.dtype_policy.name
        run = configs.RunConfig(
            model_dir="none",
            seed=self.seed,
            micro_batch_size=micro_batch_size,
            dtype_policy=policy if policy == "mixed_float16" else "float32",
            jit_compile=self._compiled_with["jit_compile"],
        )
        strategy = self.distribute_strategy
        with strategy.scope():
            engine = engine_lib.Engine(
                strategy,
                network,
                network.training_loss,
                self.optimizer
                or optimization.AdamWeightDecay(DEFAULT_OPTIMIZER, 1),
                run,
                size,
                typing.cast(typing.Any, None),  # Keras gives the batches.
            )
            # In none of the model's files.
            self._training = types.SimpleNamespace(
                engine=engine, ratios=self._ratios(element_spec)
            )

    def _ratios(self, element_spec) -> dict[str, "_Ratio"]:
        """The objective's metrics: a trace tells, no computation."""

        @functools.partial(tf.function, autograph=False)
        def trace(batch):
            features = self._with_noise(batch)
            return self.network.training_loss(features, None, losses.identity)

        _, sums = trace.get_concrete_function(element_spec).structured_outputs
        shapes = {name: tuple(x.value.shape) for name, x in sums.items()}
        names = ("loss", *shapes, "gradient_norm")
        return {name: _Ratio(name, shapes.get(name, ())) for name in names}

    def _checked(self, x, argument: str) -> tf.data.Dataset:
        """A dataset of batches that the model can learn from, or an error."""
        shape = [None, self.config.max_seq_length]
        spec = getattr(x, "element_spec", x)
        if isinstance(spec, tuple) and len(spec) == 1:
            x, (spec,) = x.map(lambda features: features), spec
        if not isinstance(x, tf.data.Dataset) or any(
            not isinstance(spec, dict)
            or name not in spec
            or not spec[name].shape.is_compatible_with(shape)
            for name in FEATURE_NAMES
        ):
            raise ValueError(
                f"Expected {argument} as a glob of TFRecords or a "
                f"tf.data.Dataset of batches of {', '.join(FEATURE_NAMES)}, "
                f"each of the shape {shape} (Preprocessor(pad_to_max=True)). "
                f"Received: {inputs.short(spec, 200)}"
            )
        # Those of TFRecords, with their draws, have been looked at.
        if "noise" in spec:
            return x
        return inputs.checked(x, None, self.config.encoder)

    def _with_noise(self, data, step=None) -> dict:
        """The features of a batch, with draws where they come without.

        They follow from the step; in an evaluation they are always the same.
        """
        features = dict(data)
        if "noise" not in features:
            seed = tf.constant([self.seed, pretraining.EVAL_SEED_OFFSET])
            if step is not None:
                seed = tf.random.experimental.stateless_fold_in(
                    tf.constant([self.seed, 1]), tf.cast(step, tf.int32)
                )
            rows = tf.shape(features["input_ids"])[0]
            uniform = tf.random.stateless_uniform(
                [rows, draws.noise_width(self.config)],
                replicas.seed_of_replica(seed),
            )
            features["noise"] = draws.split_noise(self.config, uniform)
        ids = {n: tf.cast(features[n], tf.int32) for n in FEATURE_NAMES}
        return ids | {"noise": features["noise"]}

    def _heldout(
        self, pattern, batch_size, steps, train=None
    ) -> tf.data.Dataset:
        data = self.data(pattern, heldout=True)
        most = len(data) // batch_size
        if not most:
            raise ValueError(
                "Expected a batch size of no more than the held-out examples. "
                f"Received: {batch_size}, but {pattern} holds {len(data)}"
            )
        data.warn_as_heldout(train, batch_size, steps)
        return data.dataset(batch_size).take(min(steps or most, most))


class _Ratio(keras.metrics.Metric):
    """One of the engine's metrics over batches; its sums have a shape."""

    def __init__(self, name: str, shape):
        super().__init__(name=name, dtype="float64")
        self.is_auc = name == "disc_auc"
        optimizers.directed(self)
        self.value, self.weight = (
            self.add_variable(shape, "zeros", "float64", name=part)
            for part in ("value", "weight")
        )

    def update_state(self, sums: losses.Sums):
        self.value.assign_add(tf.cast(sums.value, tf.float64))
        self.weight.assign_add(tf.cast(sums.weight, tf.float64))

    def result(self):
        value, weight = self.value.value, self.weight.value
        if self.is_auc:
            return losses.auc(value, weight)
        return tf.math.divide_no_nan(value, weight)


def _model_config(
    preprocessor: Preprocessor, settings: dict
) -> configs.ElectraConfig:
    """The settings, by the class that they belong to."""
    encoder = {n: x for n, x in settings.items() if n in _ENCODER_FIELDS}
    encoder = {"vocab_size": preprocessor.vocabulary_size} | encoder
    if encoder["vocab_size"] < preprocessor.vocabulary_size:
        raise ValueError(
            "Expected vocab_size to have room for the preprocessor's "
            f"{preprocessor.vocabulary_size} tokens. Received: "
            f"vocab_size={encoder['vocab_size']}"
        )
    model = {n: x for n, x in settings.items() if n not in _ENCODER_FIELDS}
    model = {"max_seq_length": preprocessor.max_seq_length} | model
    return configs.ElectraConfig(
        encoder=configs.EncoderConfig(**encoder), **model
    )


def _settings_of_run(source: checkpoints.Source) -> dict:
    """The settings of a pre-training run; none of any other checkpoint."""
    if isinstance(source, Checkpoint):
        return {}
    try:
        folder = model_directory.folder_of(source) or ""
        run = model_directory.read_pretraining_config(folder)
    except errors.ConfigError:
        return {}
    settings = dataclasses.asdict(run.model)
    return settings.pop("encoder") | settings


def _settings_in(checkpoint: Checkpoint, source: str, asked: Mapping) -> dict:
    """What a checkpoint says of the model that it was trained as."""
    generator, encoder = checkpoint.generator, checkpoint.discriminator
    if generator is None or encoder is None:
        missing = "generator" if generator is None else "discriminator"
        raise errors.CheckpointError(
            "Expected a checkpoint with a generator and a discriminator. "
            f"Received: {source}, without a {missing}"
        )
    settings = dataclasses.asdict(encoder) | {
        "generator_hidden_size": generator.hidden_size / encoder.hidden_size,
        "generator_layers": (
            generator.num_hidden_layers / encoder.num_hidden_layers
        ),
        "untied_generator_embeddings": (
            "generator/embeddings/word_embeddings" in checkpoint.tensors
            and not asked.get("disentangled_embeddings")
        ),
    }
    if checkpoint.max_seq_length is not None:
        settings["max_seq_length"] = checkpoint.max_seq_length
    return settings
