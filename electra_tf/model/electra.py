"""Generator -> sampled tokens -> discriminator: the pre-training model.

Names of layers are the variable scopes of the original, so that checkpoints
compare by name.

Shapes: B batch, L length, N slots for predictions, D hidden, E embedding,
V vocabulary.
"""

import math
import typing

import keras
import numpy as np
import tensorflow as tf

from electra_tf import configs
from electra_tf.model import ablations, encoder, kernels, losses, masking


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
        self.dense = encoder.dense(width, config.initializer_range, "dense")
        # The original takes the encoder's. It has no gelu_new; where that is
        # from, this head has GELU with the error function.
        self.hidden_act = (
            "gelu" if config.hidden_act == "gelu_new" else config.hidden_act
        )
        self.layer_norm = encoder.LayerNorm(width)

    def build(self, input_shape=None):
        self.dense.build((None, self.input_size))
        self.layer_norm.build()
        self.output_bias = self.add_weight(
            name="output_bias",
            shape=(self.config.vocab_size,),
            initializer="zeros",
        )

    def call(self, x):
        """Scores the vocabulary.

        Args:
          x: <float>[B, N, D].

        Returns:
          <float>[B, N, V].
        """
        shape = tf.shape(x)
        x = tf.reshape(x, [-1, self.input_size])
        activated = kernels.activation(
            self.dense(x), hidden_act=self.hidden_act
        )
        x = self.layer_norm(activated)
        table = tf.cast(self.embeddings.word_embeddings.value, x.dtype)
        logits = tf.matmul(x, table, transpose_b=True)
        logits += tf.cast(self.output_bias.value, x.dtype)
        return tf.reshape(logits, [shape[0], shape[1], self.config.vocab_size])


class DiscriminatorHead(encoder.Layer):
    """Dense, activation, one logit per token."""

    def __init__(self, config: configs.EncoderConfig):
        super().__init__(name="discriminator_predictions")
        self.config = config
        self.dense = encoder.dense(
            config.hidden_size, config.initializer_range, "dense"
        )
        # Glorot: the original gives the last layer no initializer.
        self.dense_1 = encoder.dense(1, None, "dense_1")

    def build(self, input_shape=None):
        self.dense.build((None, self.config.hidden_size))
        self.dense_1.build((None, self.config.hidden_size))

    def call(self, x):
        """Scores every token.

        Args:
          x: <float>[B, L, D].

        Returns:
          <float>[B, L], before the sigmoid; high where replaced.
        """
        shape = tf.shape(x)
        x = tf.reshape(x, [-1, self.config.hidden_size])
        activated = kernels.activation(
            self.dense(x), hidden_act=self.config.hidden_act
        )
        logits = self.dense_1(activated)
        return tf.reshape(logits, shape[:2])


class TwoTowerGenerator(encoder.Layer):
    """Electric's generator: every token scored from the tokens around it.

    A left-to-right tower moved one position to the right and a right-to-left
    tower moved one to the left, side by side (arXiv:2012.08561, section 3). The
    moves wrap around the ends of the row, as in the original.

    Args:
      config: Of each tower.
      embeddings: To share; None for tables of its own in each tower.
    """

    def __init__(
        self,
        config: configs.EncoderConfig,
        embeddings: encoder.Embeddings | None,
    ):
        super().__init__(name="two_towers")
        self.left_to_right = encoder.Encoder(
            config, "generator_ltr", embeddings, "left_to_right"
        )
        self.right_to_left = encoder.Encoder(
            config, "generator_rtl", embeddings, "right_to_left"
        )

    def build_towers(self):
        """Builds the towers outside this layer's scope, as they are named."""
        self.left_to_right.build()
        self.right_to_left.build()
        self.built = True

    def call(self, inputs, dropout_seed=None):
        """Encodes unmasked inputs.

        Args:
          inputs: masking.Inputs.
          dropout_seed: <int32>[2], or None.

        Returns:
          <float>[B, L, 2 * D].
        """
        args = (inputs.input_ids, inputs.input_mask, inputs.segment_ids)
        rtl_seed = None if dropout_seed is None else dropout_seed[::-1]
        ltr = self.left_to_right(*args, dropout_seed)["sequence_output"]
        rtl = self.right_to_left(*args, rtl_seed)["sequence_output"]
        return tf.concat(
            [tf.roll(ltr, 1, axis=1), tf.roll(rtl, -1, axis=1)], axis=-1
        )


class PretrainingModel(keras.Model):
    """ELECTRA, its generator, and the original's other objectives.

    Args:
      config: Sizes, objective and masking.
      special_ids: Ids of [CLS], [SEP] and [MASK].
      continues_a_word: <bool>[V], see `masking.continues_a_word`; needed to
        mask whole words.
    """

    def __init__(
        self,
        config: configs.ElectraConfig,
        special_ids: masking.SpecialIds,
        continues_a_word: np.ndarray | None = None,
    ):
        super().__init__(name="pretraining_model", autocast=False)
        self.continues_a_word = continues_a_word
        self.config = config
        self.special_ids = special_ids
        self.electra = encoder.Encoder(
            config.encoder,
            "electra",
            is_disentangled=config.disentangled_embeddings,
        )
        self.electra.build()
        self.generator: typing.Any = None
        self.generator_predictions: typing.Any = None
        self.cloze_predictions: typing.Any = None
        self.discriminator_predictions: typing.Any = None
        if config.two_tower_generator:
            self._build_two_tower_generator()
        elif config.has_generator_network:
            self._build_masked_lm_generator()
        if config.has_binary_discriminator:
            self.discriminator_predictions = DiscriminatorHead(config.encoder)
            self.discriminator_predictions.build()
        self._build_ablations()
        self.built = True

    def _build_ablations(self):
        """What the paper's other objectives and generators need."""
        config = self.config
        self.masked_lm_predictions: typing.Any = None
        self.copy_predictions: typing.Any = None
        self.reward_baseline: typing.Any = None
        self.unigram_log_probs: typing.Any = None
        if config.has_discriminator and not config.has_binary_discriminator:
            self.masked_lm_predictions = MaskedLmHead(
                config.encoder,
                self.electra.embeddings,
                config.encoder.hidden_size,
                "masked_lm_predictions",
            )
            self.masked_lm_predictions.build()
            if (
                config.discriminator_objective == "all_tokens_mlm"
                and config.copy_mechanism
            ):
                self.copy_predictions = encoder.dense(
                    1, config.encoder.initializer_range, "copy_predictions"
                )
                self.copy_predictions.build((None, config.encoder.hidden_size))
        if config.generator_training == "adversarial":
            self.reward_baseline = ablations.RewardBaseline(config.generator)
            self.reward_baseline.build()
        elif config.generator_training == "frozen":
            self.generator.trainable = False
            self.generator_predictions.trainable = False
        if config.unigram_generator:
            self.unigram_log_probs = self.add_weight(
                name="unigram_log_probs",
                shape=(config.encoder.vocab_size,),
                initializer="zeros",
                trainable=False,
                autocast=False,
            )

    def _build_masked_lm_generator(self):
        config = self.config
        if config.has_discriminator and config.untied_generator:
            shared = (
                None
                if config.untied_generator_embeddings
                else self.electra.embeddings
            )
            self.generator = encoder.Encoder(
                config.generator, "generator", shared
            )
            self.generator.build()
        else:
            # A masked language model, or a generator that is the
            # discriminator.
            self.generator = self.electra
        self.generator_predictions = MaskedLmHead(
            self.generator.config,
            self.generator.embeddings,
            self.generator.config.hidden_size,
            "generator_predictions",
        )
        self.generator_predictions.build()

    def _build_two_tower_generator(self):
        config = self.config.generator
        self.generator = TwoTowerGenerator(
            config,
            None
            if self.config.untied_generator_embeddings
            else self.electra.embeddings,
        )
        self.generator.build_towers()
        self.cloze_predictions = MaskedLmHead(
            config,
            self.generator.left_to_right.embeddings,
            2 * config.hidden_size,
            "cloze_predictions",
        )
        self.cloze_predictions.build()

    def set_unigram_generator(self, token_frequencies) -> None:
        """Sets the distribution that a unigram generator draws from.

        Args:
          token_frequencies: <float32>[V], summing to 1; special tokens are left
            out.
        """
        self.unigram_log_probs.assign(
            tf.tensor_scatter_nd_sub(
                tf.math.log(token_frequencies),
                [[i] for i in self.special_ids],
                [masking.DISALLOWED_LOGIT] * len(self.special_ids),
            )
        )

    def set_output_biases(self, token_frequencies) -> None:
        """Starts the output biases at what is known before any context.

        Args:
          token_frequencies: <float32>[V], summing to 1.
        """
        for head in (
            self.generator_predictions,
            self.cloze_predictions,
            self.masked_lm_predictions,
        ):
            if head is not None:
                head.output_bias.assign(tf.math.log(token_frequencies))
        mask_prob = self.config.mask_prob
        log_odds = math.log(mask_prob / (1 - mask_prob))
        if self.copy_predictions is not None:
            self.copy_predictions.bias.assign([-log_odds])
        # Electric's logits have the odds of masking added to them already.
        if (
            self.config.electra_objective
            and self.config.has_binary_discriminator
        ):
            self.discriminator_predictions.dense_1.bias.assign([log_odds])

    def call(
        self,
        features,
        noise: masking.Noise,
        dropout_seed=None,
        all_reduce_sum=losses.identity,
        return_layers=False,
        share_of_training: tf.Tensor | float = 0.0,
    ):
        """One forward pass over raw examples.

        Args:
          features: {"input_ids", "input_mask", "segment_ids"}: <int32>[B, L].
          noise: The uniform draws of this batch.
          dropout_seed: <int32>[2], or None for no dropout.
          all_reduce_sum: Sums over replicas, for the losses.
          return_layers: Add the encoders' inner outputs under
            "generator_outputs" and "discriminator_outputs".
          share_of_training: <float32>[], steps taken of those planned, between
            0 and 1, for `ElectraConfig.final_temperature`.

        Returns:
          "total_loss" <float32>[] (this replica's share), "masked_inputs",
          "mlm_output" (MaskedLmOutput), "fake_data" (FakeData), and where the
          objective has them "cloze_output" and "disc_output"
          (DiscriminatorOutput, or objectives.TokenOutput).
        """
        config = self.config
        unmasked = masking.Inputs(
            features["input_ids"],
            features["input_mask"],
            features["segment_ids"],
        )
        masked = self._mask(unmasked, noise)
        # Two networks of one seed would drop out alike.
        generator_seed = None if dropout_seed is None else dropout_seed + [0, 1]
        outputs: dict[str, typing.Any] = {"masked_inputs": masked}
        cloze_output = None
        if config.two_tower_generator:
            sequence = self.generator(unmasked, generator_seed)
            cloze_output = self._get_cloze_output(
                unmasked, sequence, all_reduce_sum
            )
            mlm_output = losses.masked_lm_output(
                masking.gather_positions(
                    cloze_output.logits, masked.masked_lm_positions
                ),
                masked.masked_lm_ids,
                masked.masked_lm_weights,
                all_reduce_sum,
            )
            outputs["cloze_output"] = cloze_output
            outputs["generator_outputs"] = {"sequence_output": sequence}
        else:
            generator_outputs = None
            if config.has_generator_network:
                generator_outputs = self.generator(
                    masked.input_ids,
                    masked.input_mask,
                    masked.segment_ids,
                    dropout_seed=generator_seed,
                    return_layers=return_layers,
                )
            mlm_output = self._get_masked_lm_output(
                masked, generator_outputs, all_reduce_sum
            )
            outputs["generator_outputs"] = generator_outputs
        outputs["mlm_output"] = mlm_output
        fake_data = self._get_fake_data(
            masked, mlm_output.logits, noise.sample, share_of_training
        )
        outputs["fake_data"] = fake_data
        disc_output: typing.Any = None
        if config.has_discriminator:
            discriminator_outputs = self.electra(
                fake_data.inputs.input_ids,
                fake_data.inputs.input_mask,
                fake_data.inputs.segment_ids,
                dropout_seed=dropout_seed,
                return_layers=return_layers,
            )
            if config.has_binary_discriminator:
                disc_output = self._get_discriminator_output(
                    fake_data.inputs,
                    discriminator_outputs,
                    fake_data.is_fake_tokens,
                    cloze_output,
                    all_reduce_sum,
                    self._loss_mask(masked),
                )
            else:
                disc_output = self._get_token_output(
                    masked, fake_data, discriminator_outputs, all_reduce_sum
                )
            outputs["disc_output"] = disc_output
            outputs["discriminator_outputs"] = discriminator_outputs
        total_loss = 0.0
        if config.generator_training == "adversarial":
            total_loss = config.gen_weight * self._get_adversarial_loss(
                outputs, all_reduce_sum
            )
        elif config.generator_training == "maximum_likelihood":
            total_loss = config.gen_weight * (cloze_output or mlm_output).loss
        if disc_output is not None:
            total_loss += config.disc_weight * disc_output.loss
        outputs["total_loss"] = total_loss
        return outputs

    def _loss_mask(self, masked: masking.Inputs) -> tf.Tensor | None:
        """The tokens that the discriminator learns from; None for all."""
        if self.config.discriminator_objective == "replaced_token_detection":
            return None
        _, is_masked = masking.scatter_update(
            masked.input_ids, masked.masked_lm_ids, masked.masked_lm_positions
        )
        return is_masked

    def _get_token_output(
        self, masked, fake_data, discriminator_outputs, all_reduce_sum
    ) -> ablations.TokenOutput:
        """The true tokens of the corrupted text, of the masked ones or all."""
        sequence = discriminator_outputs["sequence_output"]
        if self.config.discriminator_objective == "replace_mlm":
            return ablations.replace_mlm_output(
                self.masked_lm_predictions(
                    masking.gather_positions(
                        sequence, masked.masked_lm_positions
                    )
                ),
                masked,
                all_reduce_sum,
            )
        copy_logits = None
        if self.copy_predictions is not None:
            copy_logits = self.copy_predictions(sequence)[..., 0]
        return ablations.all_tokens_mlm_output(
            self.masked_lm_predictions(sequence),
            copy_logits,
            fake_data.inputs.input_ids,
            masking.unmask(masked),
            masked.masked_lm_positions,
            all_reduce_sum,
        )

    def _get_adversarial_loss(self, outputs, all_reduce_sum) -> tf.Tensor:
        """The generator is rewarded where the discriminator is wrong."""
        masked = outputs["masked_inputs"]
        # Whether the baseline moves the generator, too, the paper leaves open.
        sequence = tf.stop_gradient(
            outputs["generator_outputs"]["sequence_output"]
        )
        return ablations.adversarial_loss(
            outputs["mlm_output"].logits,
            outputs["fake_data"].sampled_ids,
            ablations.rewards(
                outputs["disc_output"].logits,
                outputs["fake_data"].is_fake_tokens,
                masked.masked_lm_positions,
            ),
            self.reward_baseline(
                masking.gather_positions(sequence, masked.masked_lm_positions)
            ),
            masked.masked_lm_weights,
            all_reduce_sum,
        )

    def _mask(
        self, inputs: masking.Inputs, noise: masking.Noise
    ) -> masking.Inputs:
        """Draws positions and masks them."""
        config = self.config
        candidate = masking.is_candidate(
            inputs.input_ids, inputs.input_mask, tuple(self.special_ids)
        )
        if config.whole_word_masking:
            return self._mask_whole_words(inputs, candidate, noise)
        positions = masking.draw_positions(
            candidate, noise.positions, config.distinct_positions
        )[:, : config.max_predictions_per_seq]
        return self.mask_positions(inputs, positions, noise.mask)

    def _mask_whole_words(
        self, inputs: masking.Inputs, candidate: tf.Tensor, noise: masking.Noise
    ) -> masking.Inputs:
        """Draws words of the <bool>[B, L] candidates and masks them."""
        config = self.config
        if self.continues_a_word is None:
            raise ValueError(
                "Expected continues_a_word for whole_word_masking=True. "
                "Received: None"
            )
        positions, num_drawn = masking.draw_whole_words(
            candidate,
            tf.gather(tf.constant(self.continues_a_word), inputs.input_ids),
            noise.positions,
            masking.number_of_predictions(
                inputs.input_mask,
                config.mask_prob,
                config.max_predictions_per_seq,
            ),
        )
        return masking.mask(
            inputs,
            positions[:, : config.max_predictions_per_seq],
            noise.mask,
            num_drawn,
            self.special_ids.mask,
            config.masked_token_prob,
        )

    def mask_positions(
        self,
        inputs: masking.Inputs,
        drawn_positions: tf.Tensor,
        mask_uniform: tf.Tensor,
    ) -> masking.Inputs:
        """Masks drawn positions, as many as each row's length asks for.

        Args:
          inputs: The unmasked batch.
          drawn_positions: <int32>[B, N].
          mask_uniform: <float32>[B, N].

        Returns:
          The masked batch.
        """
        config = self.config
        wanted = masking.number_of_predictions(
            inputs.input_mask,
            config.mask_prob,
            config.max_predictions_per_seq,
        )
        candidate = masking.is_candidate(
            inputs.input_ids, inputs.input_mask, tuple(self.special_ids)
        )
        # A row with nothing to mask gives NaN in the original; here it has
        # no predictions. Distinct positions cannot outnumber the candidates.
        num_candidates = tf.reduce_sum(tf.cast(candidate, tf.int32), axis=-1)
        limit = (
            num_candidates
            if config.distinct_positions
            else tf.where(num_candidates > 0, wanted, 0)
        )
        return masking.mask(
            inputs,
            drawn_positions,
            mask_uniform,
            tf.minimum(wanted, limit),
            self.special_ids.mask,
            config.masked_token_prob,
        )

    def _get_masked_lm_output(
        self, inputs, generator_outputs, all_reduce_sum=losses.identity
    ) -> losses.MaskedLmOutput:
        """The generator's predictions at the masked positions.

        Args:
          inputs: The masked batch.
          generator_outputs: Of the generator; None for a uniform or unigram
            one.
          all_reduce_sum: Sums over replicas.

        Returns:
          losses.MaskedLmOutput.
        """
        if generator_outputs is None:
            shape = tf.shape(inputs.masked_lm_ids)
            logits = tf.zeros(
                [shape[0], shape[1], self.config.encoder.vocab_size]
            )
            if self.unigram_log_probs is not None:
                logits += self.unigram_log_probs.value
        else:
            logits = self.generator_predictions(
                masking.gather_positions(
                    generator_outputs["sequence_output"],
                    inputs.masked_lm_positions,
                )
            )
        return losses.masked_lm_output(
            logits,
            inputs.masked_lm_ids,
            inputs.masked_lm_weights,
            all_reduce_sum,
        )

    def _get_cloze_output(
        self, inputs, sequence, all_reduce_sum=losses.identity
    ) -> losses.MaskedLmOutput:
        """Electric's generator scores every position that is not special."""
        candidate = masking.is_candidate(
            inputs.input_ids, inputs.input_mask, tuple(self.special_ids)
        )
        return losses.masked_lm_output(
            self.cloze_predictions(sequence),
            inputs.input_ids,
            tf.cast(candidate, tf.float32),
            all_reduce_sum,
        )

    def _get_fake_data(
        self, inputs, mlm_logits, sample_uniform, share_of_training=0.0
    ) -> FakeData:
        """Samples tokens into the masked positions.

        Args:
          inputs: The masked batch.
          mlm_logits: <float32>[B, N, V].
          sample_uniform: <float32>[B, N] or [B, N, V], see `Noise`.
          share_of_training: See `call`.

        Returns:
          FakeData. Label 1 marks a token that differs from the true one; for
          Electric, every sampled position.
        """
        config = self.config
        unmasked = masking.unmask(inputs)
        logits = tf.stop_gradient(mlm_logits)
        if config.final_temperature is not None:
            change = config.final_temperature - config.temperature
            logits /= config.temperature + change * share_of_training
        elif config.temperature != 1.0:
            logits /= config.temperature
        if config.disallow_correct:
            logits = masking.disallow(logits, inputs.masked_lm_ids)
        if sample_uniform.shape.rank == 3:
            sampled = masking.sample_with_gumbel_noise(logits, sample_uniform)
        else:
            sampled = masking.sample(logits, sample_uniform)
        updated_ids, is_sampled = masking.scatter_update(
            unmasked.input_ids, sampled, inputs.masked_lm_positions
        )
        if config.electric_objective:
            is_fake = is_sampled
        else:
            is_fake = is_sampled * tf.cast(
                updated_ids != unmasked.input_ids, tf.int32
            )
        return FakeData(
            unmasked._replace(input_ids=updated_ids), is_fake, sampled
        )

    def _get_discriminator_output(
        self,
        inputs,
        discriminator_outputs,
        is_fake_tokens,
        cloze_output=None,
        all_reduce_sum=losses.identity,
        loss_mask=None,
    ) -> losses.DiscriminatorOutput:
        """The discriminator's verdict on every token.

        Args:
          inputs: The corrupted batch.
          discriminator_outputs: Of the discriminator's encoder.
          is_fake_tokens: <int32>[B, L].
          cloze_output: Electric's generator, whose log-probability of each
            token and the odds of masking are added to the logits
            (arXiv:2012.08561, section 2.2).
          all_reduce_sum: Sums over replicas.
          loss_mask: <int32>[B, L], the tokens to learn from; None for all.

        Returns:
          losses.DiscriminatorOutput.
        """
        logits = tf.cast(
            self.discriminator_predictions(
                discriminator_outputs["sequence_output"]
            ),
            tf.float32,
        )
        if self.config.electric_objective:
            log_probs = -tf.nn.sparse_softmax_cross_entropy_with_logits(
                inputs.input_ids, cloze_output.logits
            )
            mask_prob = self.config.mask_prob
            logits += tf.stop_gradient(log_probs)
            logits += math.log(mask_prob / (1 - mask_prob))
        return losses.discriminator_output(
            logits, is_fake_tokens, inputs.input_mask, all_reduce_sum, loss_mask
        )

    def metric_sums(self, outputs) -> dict[str, losses.Sums]:
        """The original's evaluation metrics of one batch, as sums.

        Args:
          outputs: Of `call`.

        Returns:
          Name -> losses.Sums.
        """
        masked = outputs["masked_inputs"]
        sums = losses.masked_lm_sums(
            outputs["mlm_output"],
            masked.masked_lm_ids,
            masked.masked_lm_weights,
        )
        if self.config.has_discriminator:
            sums |= losses.sampled_masked_lm_sums(
                outputs["fake_data"].sampled_ids,
                masked.masked_lm_ids,
                masked.masked_lm_weights,
            )
            if self.config.has_binary_discriminator:
                sums |= losses.discriminator_sums(
                    outputs["disc_output"], masked.input_mask
                )
            else:
                sums |= ablations.token_sums(outputs["disc_output"], masked)
        return sums
