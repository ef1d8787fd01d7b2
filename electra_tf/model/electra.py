"""Generator -> sampled tokens -> discriminator: the pre-training model.

The method of arXiv:2003.10555 (section 2) and nothing else, in
`PretrainingModel`. What the paper compares it with overrides parts of it in
`ablations`, whose `make_model` chooses.

Names of layers are the variable scopes of the original, so that checkpoints
compare by name.

Shapes: B batch, L length, N slots for predictions, D hidden, E embedding,
V vocabulary.
"""

import math
import typing

import keras
import tensorflow as tf

from electra_tf import configs
from electra_tf.model import costs, encoder, kernels, losses, masking


class FakeData(typing.NamedTuple):
    """The discriminator's input.

    Attributes:
      inputs: The batch with sampled tokens in place.
      is_fake_tokens: <int32>[B, L], 1 where the token was changed.
      sampled_ids: <int32>[B, N].
    """

    inputs: masking.Inputs
    is_fake_tokens: tf.Tensor
    sampled_ids: tf.Tensor


class MaskedLmHead(encoder.Layer):
    """Dense, activation, LayerNorm, product with the embedding table, bias.

    Args:
      config: Of the encoder below.
      embeddings: Holds the table, which is shared.
      input_size: Width of what comes in.
      name: "generator_predictions", or Electric's "cloze_predictions".
    """

    def __init__(
        self,
        config: configs.EncoderConfig,
        embeddings: encoder.Embeddings,
        input_size: int,
        name: str,
    ):
        super().__init__(name=name)
        self.config = config
        self.embeddings = embeddings
        self.input_size = input_size
        width = typing.cast(int, config.embedding_size)
        self.dense = encoder.Dense(
            input_size, width, config.initializer_range, "dense"
        )
        # The original takes the encoder's. It has no gelu_new; where that is
        # from, this head has GELU with the error function.
        self.hidden_act = (
            "gelu" if config.hidden_act == "gelu_new" else config.hidden_act
        )
        self.layer_norm = encoder.LayerNorm(width)

    def build(self, input_shape=None):
        super().build()
        self.output_bias = self.add_weight(
            name="output_bias",
            shape=(self.config.vocab_size,),
            initializer="zeros",
        )

    def call(self, x):
        """<float>[B, N, D] -> scores of the vocabulary <float>[B, N, V]."""
        shape = tf.shape(x)
        x = tf.reshape(x, [-1, self.input_size])
        activated = kernels.activation(
            self.dense(x), hidden_act=self.hidden_act
        )
        x = self.layer_norm(activated)
        table = tf.cast(self.embeddings.word_embeddings.value, x.dtype)
        logits = kernels.products_with_table(x, table)
        logits += tf.cast(self.output_bias.value, x.dtype)
        return tf.reshape(logits, [shape[0], shape[1], self.config.vocab_size])


class DiscriminatorHead(encoder.Layer):
    """Dense, activation, one logit per token."""

    def __init__(self, config: configs.EncoderConfig):
        super().__init__(name="discriminator_predictions")
        self.config = config
        width = config.hidden_size
        self.dense = encoder.Dense(
            width, width, config.initializer_range, "dense"
        )
        # Glorot: the original gives the last layer no initializer.
        self.dense_1 = encoder.Dense(width, 1, None, "dense_1")

    def call(self, x):
        """<float>[B, L, D] -> <float>[B, L], high where replaced."""
        shape = tf.shape(x)
        x = tf.reshape(x, [-1, self.config.hidden_size])
        activated = kernels.activation(
            self.dense(x), hidden_act=self.config.hidden_act
        )
        logits = self.dense_1(activated)
        return tf.reshape(logits, shape[:2])


class Discriminator(tf.Module):
    """The encoder and its head, to be asked when they are trained.

    Args:
      config: Sizes.
    """

    def __init__(self, config: configs.EncoderConfig):
        super().__init__(name="discriminator")
        self.encoder = encoder.Encoder(config, "electra")
        self.encoder.build()
        self.head = DiscriminatorHead(config)
        self.head.build()

    @property
    def keras_variables(self) -> list:
        """Of both, as Keras has them: their paths are the original's names."""
        return [*self.encoder.variables, *self.head.variables]

    def logits(self, input_ids, input_mask, segment_ids):
        """Scores tokens.

        Args:
          input_ids: <int32>[B, L].
          input_mask: <int32>[B, L], 1 on tokens, 0 on padding.
          segment_ids: <int32>[B, L].

        Returns:
          <float32>[B, L], the head's output: before the sigmoid, or Electric's
          energies.
        """
        outputs = self.encoder(input_ids, input_mask, segment_ids)
        return tf.cast(self.head(outputs["sequence_output"]), tf.float32)

    @tf.function(
        input_signature=[tf.TensorSpec([None, None], tf.int32)] * 3,
        autograph=False,
    )
    def probabilities(self, input_ids, input_mask, segment_ids):
        """Judges tokens; takes what `logits` takes.

        Returns:
          <float32>[B, L], the probabilities of having been replaced.
        """
        return tf.sigmoid(self.logits(input_ids, input_mask, segment_ids))


class PretrainingModel(keras.Model):
    """ELECTRA: a generator, and a discriminator that finds its samples.

    Args:
      config: Sizes, objective and masking.
      special_ids: Ids of [CLS], [SEP] and [MASK].
    """

    # Whether a token is replaced, for all that is known, as often as masked.
    masks_are_the_prior = True
    # Of `metric_sums`, for the line that shows a run as it goes.
    live_metrics: tuple[str, ...] = (
        "total_loss",
        "masked_lm_loss",
        "disc_loss",
        "disc_auc",
    )

    def __init__(
        self, config: configs.ElectraConfig, special_ids: masking.SpecialIds
    ):
        super().__init__(name="pretraining_model", autocast=False)
        self.config = config
        self.special_ids = special_ids
        self.electra = encoder.Encoder(
            config.encoder,
            "electra",
            is_disentangled=config.disentangled_embeddings,
        )
        self.electra.build()
        self._build_generator()
        self._build_discriminator_head()
        self.built = True

    @classmethod
    def generator_network(
        cls, config: configs.ElectraConfig
    ) -> costs.Network | None:
        """What predicts masked tokens; None where that is no network."""
        return costs.Network(
            config.generator,
            config.max_seq_length,
            num_softmaxes=config.max_predictions_per_seq,
            has_own_embeddings=config.untied_generator_embeddings,
        )

    @classmethod
    def discriminator_network(
        cls, config: configs.ElectraConfig
    ) -> costs.Network | None:
        """What reads corrupted text; None without a discriminator."""
        encoder, own_table = config.encoder, 0
        if config.disentangled_embeddings:
            own_table = encoder.vocab_size * (encoder.embedding_size or 0)
        return costs.Network(
            encoder,
            config.max_seq_length,
            num_verdicts=config.max_seq_length,
            num_other_weights=own_table,
        )

    def _build_generator(self) -> None:
        self.generator = self._make_generator_network()
        self.generator_predictions = MaskedLmHead(
            self.generator.config,
            self.generator.embeddings,
            self.generator.config.hidden_size,
            "generator_predictions",
        )
        self.generator_predictions.build()

    def _make_generator_network(self) -> encoder.Encoder:
        """Smaller than the discriminator (section 3.2), and built."""
        network = encoder.Encoder(
            self.config.generator, "generator", self._shared_embeddings()
        )
        network.build()
        return network

    def _shared_embeddings(self) -> encoder.Embeddings | None:
        """The discriminator's, or None for a generator with its own."""
        if self.config.untied_generator_embeddings:
            return None
        return self.electra.embeddings

    def _build_discriminator_head(self) -> None:
        self.discriminator_predictions = DiscriminatorHead(self.config.encoder)
        self.discriminator_predictions.build()

    def set_output_biases(self, token_frequencies) -> None:
        """Starts the output biases at what is known before any context.

        Args:
          token_frequencies: <float32>[V], summing to 1.
        """
        for layer in self.layers:
            if isinstance(layer, MaskedLmHead):
                layer.output_bias.assign(tf.math.log(token_frequencies))
            elif isinstance(layer, DiscriminatorHead):
                prior = (
                    self.config.mask_prob if self.masks_are_the_prior else 0.5
                )
                layer.dense_1.bias.assign([log_odds(prior)])

    def call(
        self,
        features,
        noise: masking.Noise,
        dropout_seed=None,
        all_reduce_sum=losses.identity,
        return_layers=False,
    ):
        """One forward pass over raw examples.

        Args:
          features: {"input_ids", "input_mask", "segment_ids"}: <int32>[B, L].
          noise: The uniform draws of this batch.
          dropout_seed: <int32>[2], or None for no dropout.
          all_reduce_sum: Sums over replicas, for the losses.
          return_layers: Add the encoders' inner outputs to
            "generator_outputs" and "discriminator_outputs".

        Returns:
          "total_loss" <float32>[] (this replica's share), "masked_inputs",
          "generator_outputs", "mlm_output" (MaskedLmOutput), "fake_data"
          (FakeData), "discriminator_outputs" and "disc_output"
          (DiscriminatorOutput); ablations may have None or others there.
        """
        unmasked = masking.Inputs(
            features["input_ids"],
            features["input_mask"],
            features["segment_ids"],
        )
        # Two networks of one seed would drop out alike.
        generator_seed = None if dropout_seed is None else dropout_seed + [0, 1]
        masked = self.mask_inputs(unmasked, noise)
        generator_outputs = self._encode_masked(
            masked, generator_seed, return_layers
        )
        mlm_output = self._get_masked_lm_output(
            masked, generator_outputs, all_reduce_sum
        )
        fake_data = self._get_fake_data(masked, mlm_output.logits, noise.sample)
        outputs: dict[str, typing.Any] = {
            "masked_inputs": masked,
            "generator_outputs": generator_outputs,
            "mlm_output": mlm_output,
            "fake_data": fake_data,
            "discriminator_outputs": self._encode_corrupted(
                fake_data.inputs, dropout_seed, return_layers
            ),
        }
        disc_output = self._get_discriminator_output(outputs, all_reduce_sum)
        outputs["disc_output"] = disc_output
        outputs["total_loss"] = (
            self.config.gen_weight
            * self._get_generator_loss(outputs, all_reduce_sum)
            + self.config.disc_weight * disc_output.loss
        )
        return outputs

    def training_loss(
        self,
        features,
        dropout_seed,
        all_reduce_sum,
    ) -> tuple[tf.Tensor, dict[str, losses.Sums]]:
        """The engine's view of the model, see `engine.LossFunction`.

        "total_loss" of `call` and `metric_sums`; "noise" is a feature.
        """
        features = dict(features)
        noise = features.pop("noise")
        outputs = self(
            features,
            noise=noise,
            dropout_seed=dropout_seed,
            all_reduce_sum=all_reduce_sum,
        )
        return outputs["total_loss"], self.metric_sums(outputs)

    def mask_inputs(
        self, inputs: masking.Inputs, noise: masking.Noise
    ) -> masking.Inputs:
        """Masks a share of the tokens."""
        return masking.mask_tokens(inputs, noise, self.config, self.special_ids)

    def _encode_masked(self, masked, dropout_seed, return_layers):
        """h_G(x^masked)."""
        return _encode(self.generator, masked, dropout_seed, return_layers)

    def _get_masked_lm_output(
        self, masked, generator_outputs, all_reduce_sum
    ) -> losses.MaskedLmOutput:
        """p_G at the masked positions, and L_MLM."""
        return losses.masked_lm_output(
            self._masked_lm_logits(masked, generator_outputs),
            masked.masked_lm_ids,
            masked.masked_lm_weights,
            all_reduce_sum,
        )

    def _masked_lm_logits(self, masked, generator_outputs) -> tf.Tensor:
        """The generator's logits <float>[B, N, V] at the masked positions."""
        return self.generator_predictions(
            masking.gather_positions(
                generator_outputs["sequence_output"],
                masked.masked_lm_positions,
            )
        )

    def _get_fake_data(self, masked, mlm_logits, sample_uniform) -> FakeData:
        """x^corrupt: samples of the generator at the masked positions.

        Label 1 marks a token that differs from the true one.
        """
        unmasked = masking.unmask(masked)
        sampled = masking.sample(tf.stop_gradient(mlm_logits), sample_uniform)
        corrupted_ids, is_sampled = masking.scatter_update(
            unmasked.input_ids, sampled, masked.masked_lm_positions
        )
        is_changed = tf.cast(corrupted_ids != unmasked.input_ids, tf.int32)
        return FakeData(
            unmasked._replace(input_ids=corrupted_ids),
            is_sampled * is_changed,
            sampled,
        )

    def _encode_corrupted(self, corrupted, dropout_seed, return_layers):
        """h_D(x^corrupt)."""
        return _encode(self.electra, corrupted, dropout_seed, return_layers)

    def _get_discriminator_output(
        self, outputs, all_reduce_sum
    ) -> losses.DiscriminatorOutput:
        """D(x^corrupt, t) of every token, and L_Disc."""
        return losses.discriminator_output(
            self._discriminator_logits(outputs),
            outputs["fake_data"].is_fake_tokens,
            outputs["masked_inputs"].input_mask,
            all_reduce_sum,
        )

    def _discriminator_logits(self, outputs) -> tf.Tensor:
        """<float>[B, L], before the sigmoid."""
        return self.discriminator_predictions(
            outputs["discriminator_outputs"]["sequence_output"]
        )

    def _get_generator_loss(self, outputs, all_reduce_sum) -> tf.Tensor:
        """Maximum likelihood: samples carry no gradient back."""
        return outputs["mlm_output"].loss

    def metric_sums(self, outputs) -> dict[str, losses.Sums]:
        """The original's evaluation metrics of what `call` says, as sums."""
        masked = outputs["masked_inputs"]
        sums = losses.masked_lm_sums(
            outputs["mlm_output"],
            masked.masked_lm_ids,
            masked.masked_lm_weights,
            outputs["fake_data"].sampled_ids,
        )
        return sums | self._discriminator_sums(outputs)

    def _discriminator_sums(self, outputs) -> dict[str, losses.Sums]:
        return losses.discriminator_sums(
            outputs["disc_output"], outputs["masked_inputs"].input_mask
        )


def _encode(network, inputs: masking.Inputs, dropout_seed, return_layers):
    return network(
        inputs.input_ids,
        inputs.input_mask,
        inputs.segment_ids,
        dropout_seed=dropout_seed,
        return_layers=return_layers,
    )


def log_odds(probability: float) -> float:
    """The logit of a probability."""
    return math.log(probability / (1 - probability))
