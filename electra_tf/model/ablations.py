"""What the paper compares its method with, each as a change of the model.

A class here overrides what is different in `electra.PretrainingModel`: the
generators, objectives and trainings of arXiv:2003.10555 (sections 3.2 and 3.5,
Appendix F), Electric (arXiv:2012.08561) and ways to mask and to sample.
`make_model` puts together what a configuration asks for.

Shapes: B batch, L length, N slots for predictions, D hidden, V vocabulary.
"""

import typing

import numpy as np
import tensorflow as tf

from electra_tf import configs, errors
from electra_tf.model import costs, electra, encoder, losses, masking


def make_model(
    config: configs.ElectraConfig,
    special_ids: masking.SpecialIds,
    continues_a_word: np.ndarray | None = None,
) -> electra.PretrainingModel:
    """The model that a configuration describes: ELECTRA, or another.

    Args:
      config: Sizes, objective and masking.
      special_ids: Ids of [CLS], [SEP] and [MASK].
      continues_a_word: <bool>[V], see `masking.continues_a_word`; needed to
        mask whole words.

    Returns:
      The model, built.

    Raises:
      ConfigError: If whole words are to be masked and no entry continues one.
    """
    if (
        config.whole_word_masking
        and continues_a_word is not None
        and not continues_a_word.any()
    ):
        raise errors.ConfigError(
            "ElectraConfig.whole_word_masking needs a vocabulary with entries "
            "that continue a word, '##...'. Received: one without any, where "
            "each token would be a word"
        )
    model = model_class(config)(config, special_ids)
    if isinstance(model, WholeWordMasking):
        model.continues_a_word = continues_a_word
    return model


def model_class(
    config: configs.ElectraConfig,
) -> type[electra.PretrainingModel]:
    """The class of `make_model`: the paper's, with the changes asked for."""
    objective = config.discriminator_objective
    is_adjusted = config.temperature != 1.0 or config.disallow_correct
    changes = [
        change
        for change, is_wanted in (
            (WholeWordMasking, config.whole_word_masking),
            (AdjustedSampling, is_adjusted),
            (UniformGenerator, config.uniform_generator),
            (UnigramGenerator, config.unigram_generator),
            (MaskedLanguageModel, not config.has_discriminator),
            (TiedNetworks, not config.untied_generator),
            (Electric, config.electric_objective),
            (TwoTowers, config.two_tower_generator),
            (Electra15, objective == "replaced_token_detection_of_masked"),
            (ReplaceMlm, objective == "replace_mlm"),
            (AllTokensMlm, objective == "all_tokens_mlm"),
            (Adversarial, config.generator_training == "adversarial"),
            (Frozen, config.generator_training == "frozen"),
        )
        if is_wanted
    ]
    if not changes:
        return electra.PretrainingModel
    return type("AblatedModel", tuple(changes), {})


def networks(config: configs.ElectraConfig) -> list[costs.Network]:
    """What a step of a configuration's model goes through, to be counted."""
    model = model_class(config)
    both = model.generator_network(config), model.discriminator_network(config)
    return [network for network in both if network is not None]


# How tokens are masked and sampled.


class WholeWordMasking(electra.PretrainingModel):
    """Masks whole words instead of tokens, see `masking.draw_whole_words`."""

    continues_a_word: np.ndarray | None = None

    def mask_inputs(self, inputs, noise):
        config, ids = self.config, inputs.input_ids
        num_slots = config.max_predictions_per_seq
        positions, num_drawn = masking.draw_whole_words(
            masking.is_candidate(ids, inputs.input_mask, self.special_ids),
            tf.gather(tf.constant(self.continues_a_word), ids),
            noise.positions,
            masking.number_of_predictions(
                inputs.input_mask, config.mask_prob, num_slots
            ),
        )
        return masking.mask(
            inputs,
            positions[:, :num_slots],
            noise.mask,
            num_drawn,
            self.special_ids.mask,
            config.masked_token_prob,
        )


class AdjustedSampling(electra.PretrainingModel):
    """Samples at a temperature, or never the true token."""

    def _get_fake_data(self, masked, mlm_logits, sample_uniform):
        logits = tf.stop_gradient(mlm_logits)
        if self.config.temperature != 1.0:
            logits /= self.config.temperature
        if self.config.disallow_correct:
            logits = masking.disallow(logits, masked.masked_lm_ids)
        return super()._get_fake_data(masked, logits, sample_uniform)


# Generators.


class UniformGenerator(electra.PretrainingModel):
    """Draws from the vocabulary: there is no network."""

    @classmethod
    def generator_network(cls, config):
        return None

    def _build_generator(self):
        pass

    def _encode_masked(self, masked, dropout_seed, return_layers):
        return None

    def _masked_lm_logits(self, masked, generator_outputs):
        shape = tf.shape(masked.masked_lm_ids)
        return tf.zeros([shape[0], shape[1], self.config.encoder.vocab_size])


class UnigramGenerator(UniformGenerator):
    """Draws tokens by their frequencies in the training data."""

    def _build_generator(self):
        self.unigram_log_probs = self.add_weight(
            name="unigram_log_probs",
            shape=(self.config.encoder.vocab_size,),
            initializer="zeros",
            trainable=False,
            autocast=False,
        )

    def set_unigram_generator(self, token_frequencies) -> None:
        """Sets the distribution to draw from.

        Args:
          token_frequencies: <float32>[V], summing to 1; special tokens are left
            out.
        """
        self.unigram_log_probs.assign(
            tf.tensor_scatter_nd_sub(
                tf.math.log(token_frequencies),
                [[i] for i in self.special_ids],
                [masking.DISALLOWED_PENALTY] * len(self.special_ids),
            )
        )

    def _masked_lm_logits(self, masked, generator_outputs):
        uniform = super()._masked_lm_logits(masked, generator_outputs)
        return uniform + self.unigram_log_probs.value


class TiedNetworks(electra.PretrainingModel):
    """The generator is the discriminator's network (section 3.2)."""

    @classmethod
    def generator_network(cls, config):
        return costs.Network(
            config.encoder,
            config.max_seq_length,
            num_softmaxes=config.max_predictions_per_seq,
            has_own_layers=False,
            has_own_embeddings=False,
        )

    def _make_generator_network(self):
        return self.electra


class MaskedLanguageModel(TiedNetworks):
    """BERT: the only network is the generator."""

    live_metrics = ("total_loss", "masked_lm_accuracy")

    @classmethod
    def generator_network(cls, config):
        network = super().generator_network(config)
        return network._replace(has_own_layers=True, has_own_embeddings=True)

    @classmethod
    def discriminator_network(cls, config):
        return None

    def _build_discriminator_head(self):
        pass

    def _encode_corrupted(self, corrupted, dropout_seed, return_layers):
        return None

    def _get_discriminator_output(self, outputs, all_reduce_sum):
        return NoDiscriminatorOutput()

    def metric_sums(self, outputs):
        masked = outputs["masked_inputs"]
        return losses.masked_lm_sums(
            outputs["mlm_output"],
            masked.masked_lm_ids,
            masked.masked_lm_weights,
        )


class NoDiscriminatorOutput(typing.NamedTuple):
    """Where there is no discriminator."""

    loss: float = 0.0


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
        # Outside this layer's scope, as they are named.
        self.left_to_right.build()
        self.right_to_left.build()
        self.built = True

    def call(self, inputs, dropout_seed=None):
        """Unmasked inputs -> <float>[B, L, 2 * D]."""
        args = (inputs.input_ids, inputs.input_mask, inputs.segment_ids)
        rtl_seed = None if dropout_seed is None else dropout_seed[::-1]
        ltr = self.left_to_right(*args, dropout_seed)["sequence_output"]
        rtl = self.right_to_left(*args, rtl_seed)["sequence_output"]
        return tf.concat(
            [tf.roll(ltr, 1, axis=1), tf.roll(rtl, -1, axis=1)], axis=-1
        )


class TwoTowers(electra.PretrainingModel):
    """The generator reads from the left and from the right, never [MASK]."""

    @classmethod
    def generator_network(cls, config):
        network = super().generator_network(config)
        return network._replace(num_softmaxes=network.length, num_towers=2)

    def _build_generator(self):
        config = self.config.generator
        self.generator = TwoTowerGenerator(config, self._shared_embeddings())
        self.cloze_predictions = electra.MaskedLmHead(
            config,
            self.generator.left_to_right.embeddings,
            2 * config.hidden_size,
            "cloze_predictions",
        )
        self.cloze_predictions.build()

    def _encode_masked(self, masked, dropout_seed, return_layers):
        sequence = self.generator(masking.unmask(masked), dropout_seed)
        logits = tf.cast(self.cloze_predictions(sequence), tf.float32)
        return {"sequence_output": sequence, "cloze_logits": logits}

    def _masked_lm_logits(self, masked, generator_outputs):
        return masking.gather_positions(
            generator_outputs["cloze_logits"], masked.masked_lm_positions
        )

    def cloze_output(
        self, outputs, all_reduce_sum=losses.identity
    ) -> losses.MaskedLmOutput:
        """The scores, [B, L, V], at every position that is not special."""
        unmasked = masking.unmask(outputs["masked_inputs"])
        candidate = masking.is_candidate(
            unmasked.input_ids, unmasked.input_mask, self.special_ids
        )
        return losses.masked_lm_output(
            outputs["generator_outputs"]["cloze_logits"],
            unmasked.input_ids,
            tf.cast(candidate, tf.float32),
            all_reduce_sum,
        )

    def _get_generator_loss(self, outputs, all_reduce_sum):
        return self.cloze_output(outputs, all_reduce_sum).loss


class Electric(TwoTowers):
    """Noise-contrastive estimation: real or sampled (arXiv:2012.08561).

    Its loss has the probabilities q of the generator as it is, also where the
    samples are drawn at a temperature or without the true token, as in the
    original's `_get_discriminator_output`: what it learns is then no -log p.
    """

    # The odds of masking are added to the logits already.
    masks_are_the_prior = False

    def _get_fake_data(self, masked, *args, **kwargs):
        """Label 1 marks every sampled position."""
        fake_data = super()._get_fake_data(masked, *args, **kwargs)
        return fake_data._replace(is_fake_tokens=is_masked(masked))

    def _discriminator_logits(self, outputs):
        """Adds log q(x) and the odds of masking (section 2.2 there)."""
        logits = tf.cast(super()._discriminator_logits(outputs), tf.float32)
        log_probs = -tf.nn.sparse_softmax_cross_entropy_with_logits(
            outputs["fake_data"].inputs.input_ids,
            outputs["generator_outputs"]["cloze_logits"],
        )
        logits += tf.stop_gradient(log_probs)
        return logits + electra.log_odds(self.config.mask_prob)


def is_masked(masked: masking.Inputs) -> tf.Tensor:
    """<int32>[B, L], 1 at the masked positions of a masked batch."""
    _, written = masking.scatter_update(
        masked.input_ids, masked.masked_lm_ids, masked.masked_lm_positions
    )
    return written


# What the second network learns (Table 5).


class Electra15(electra.PretrainingModel):
    """ELECTRA 15 %: the loss is that of the masked positions alone."""

    # The odds of masking say nothing of the positions that are masked.
    masks_are_the_prior = False

    def _get_discriminator_output(self, outputs, all_reduce_sum):
        masked = outputs["masked_inputs"]
        return losses.discriminator_output(
            self._discriminator_logits(outputs),
            outputs["fake_data"].is_fake_tokens,
            masked.input_mask,
            all_reduce_sum,
            loss_mask=is_masked(masked),
        )


class TokenPredictor(electra.PretrainingModel):
    """The second network says what the true tokens are."""

    live_metrics = (
        "total_loss",
        "masked_lm_loss",
        "disc_loss",
        "disc_masked_lm_accuracy",
    )

    @classmethod
    def discriminator_network(cls, config):
        network = super().discriminator_network(config)
        return network._replace(
            num_verdicts=0, num_softmaxes=config.max_predictions_per_seq
        )

    def _build_discriminator_head(self):
        self.masked_lm_predictions = electra.MaskedLmHead(
            self.config.encoder,
            self.electra.embeddings,
            self.config.encoder.hidden_size,
            "masked_lm_predictions",
        )
        self.masked_lm_predictions.build()

    def _discriminator_sums(self, outputs):
        """Loss, and accuracy at the masked positions."""
        output, masked = outputs["disc_output"], outputs["masked_inputs"]
        return {
            "disc_loss": losses.weighted_sums(
                output.per_token_loss, output.weights
            ),
            "disc_masked_lm_accuracy": losses.weighted_sums(
                output.preds == masked.masked_lm_ids, masked.masked_lm_weights
            ),
        }


class ReplaceMlm(TokenPredictor):
    """The true tokens at the masked positions (section 3.5).

    A masked language model whose masked positions hold samples of the
    generator instead of [MASK].
    """

    def _get_discriminator_output(self, outputs, all_reduce_sum):
        masked = outputs["masked_inputs"]
        sequence = outputs["discriminator_outputs"]["sequence_output"]
        weights = masked.masked_lm_weights
        output = losses.masked_lm_output(
            self.masked_lm_predictions(
                masking.gather_positions(sequence, masked.masked_lm_positions)
            ),
            masked.masked_lm_ids,
            weights,
            all_reduce_sum,
        )
        return TokenOutput(
            output.preds, output.per_example_loss, weights, output.loss
        )


class AllTokensMlm(TokenPredictor):
    """The true token of every position, with or without a copy mechanism."""

    @classmethod
    def discriminator_network(cls, config):
        network = super().discriminator_network(config)
        return network._replace(
            num_softmaxes=network.length,
            num_numbers=network.length if config.copy_mechanism else 0,
        )

    def _build_discriminator_head(self):
        super()._build_discriminator_head()
        config = self.config.encoder
        self.copy_predictions = None
        if self.config.copy_mechanism:
            self.copy_predictions = encoder.Dense(
                config.hidden_size,
                1,
                config.initializer_range,
                "copy_predictions",
            )
            self.copy_predictions.build()

    def set_output_biases(self, token_frequencies):
        super().set_output_biases(token_frequencies)
        if self.copy_predictions is not None:
            log_odds = electra.log_odds(self.config.mask_prob)
            self.copy_predictions.bias.assign([-log_odds])

    def _get_discriminator_output(self, outputs, all_reduce_sum):
        masked = outputs["masked_inputs"]
        sequence = outputs["discriminator_outputs"]["sequence_output"]
        copy_logits = None
        if self.copy_predictions is not None:
            copy_logits = self.copy_predictions(sequence)[..., 0]
        return all_tokens_mlm_output(
            self.masked_lm_predictions(sequence),
            copy_logits,
            outputs["fake_data"].inputs.input_ids,
            masking.unmask(masked),
            masked.masked_lm_positions,
            all_reduce_sum,
        )


class TokenOutput(typing.NamedTuple):
    """What a network that predicts the true tokens of corrupted text says.

    Attributes:
      preds: <int32>[B, N], at the masked positions.
      per_token_loss: <float32>[B, N], or [B, L] where all tokens are predicted.
      weights: <float32>, of the shape of `per_token_loss`.
      loss: <float32>[], nats per predicted token.
    """

    preds: tf.Tensor
    per_token_loss: tf.Tensor
    weights: tf.Tensor
    loss: tf.Tensor


def all_tokens_mlm_output(
    logits: tf.Tensor,
    copy_logits: tf.Tensor | None,
    corrupted_ids: tf.Tensor,
    unmasked: masking.Inputs,
    masked_lm_positions: tf.Tensor,
    all_reduce_sum: losses.AllReduceSum = losses.identity,
) -> TokenOutput:
    """All-Tokens MLM: the true token of every position (section 3.5).

    With the copy mechanism p(x) = D * [x is the token that is there] +
    (1 - D) * softmax(logits)[x], where D = sigmoid(copy_logits). The logits are
    <float>[B, L, V] and [B, L]; `copy_logits` is None for a softmax alone.
    """
    logits = tf.cast(logits, tf.float32)
    per_token_loss = losses.cross_entropy(logits, unmasked.input_ids)
    preds = tf.argmax(logits, axis=-1, output_type=tf.int32)
    if copy_logits is not None:
        copy_logits = tf.cast(copy_logits, tf.float32)
        log_copy = tf.math.log_sigmoid(copy_logits)
        log_predict = tf.math.log_sigmoid(-copy_logits)

        def logit_of(ids):
            return tf.gather(logits, ids, axis=-1, batch_dims=2)

        def with_copy(predicted):
            return log_copy + tf.nn.softplus(predicted - log_copy)

        log_total = tf.stop_gradient(
            per_token_loss + logit_of(unmasked.input_ids)
        )
        predicted = log_predict - per_token_loss
        per_token_loss = -tf.where(
            unmasked.input_ids == corrupted_ids,
            with_copy(predicted),
            predicted,
        )
        # The token that is there against the best of the softmax.
        copied = with_copy(log_predict + logit_of(corrupted_ids) - log_total)
        best = log_predict + tf.reduce_max(logits, axis=-1) - log_total
        preds = tf.where(copied >= best, corrupted_ids, preds)
    weights = tf.cast(unmasked.input_mask, tf.float32)
    return TokenOutput(
        masking.gather_positions(preds, masked_lm_positions),
        per_token_loss,
        weights,
        losses.weighted_mean(per_token_loss, weights, all_reduce_sum),
    )


# How the generator learns.


class Frozen(electra.PretrainingModel):
    """Of the second of two stages, where the generator rests (section 3.2)."""

    @classmethod
    def generator_network(cls, config):
        return super().generator_network(config)._replace(is_trained=False)

    def _build_generator(self):
        super()._build_generator()
        self.generator.trainable = False
        self.generator_predictions.trainable = False

    def _get_generator_loss(self, outputs, all_reduce_sum):
        return 0.0


class Adversarial(electra.PretrainingModel):
    """The generator is rewarded where the discriminator is wrong."""

    @classmethod
    def generator_network(cls, config):
        network = super().generator_network(config)
        return network._replace(num_numbers=network.num_softmaxes)

    def _build_discriminator_head(self):
        super()._build_discriminator_head()
        self.reward_baseline = RewardBaseline(self.config.generator)
        self.reward_baseline.build()

    def _get_generator_loss(self, outputs, all_reduce_sum):
        masked = outputs["masked_inputs"]
        # Whether the baseline moves the generator, too, the paper leaves open.
        sequence = tf.stop_gradient(
            outputs["generator_outputs"]["sequence_output"]
        )
        return losses.adversarial_loss(
            outputs["mlm_output"].logits,
            outputs["fake_data"].sampled_ids,
            losses.rewards(
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


class RewardBaseline(encoder.Layer):
    """Expects the reward of a sample from the generator's own vectors.

    b = -log sigmoid(w . h), h being the generator's output at the masked
    position (Appendix F of arXiv:2003.10555).
    """

    def __init__(self, config: configs.EncoderConfig):
        super().__init__(name="reward_baseline")
        self.dense = encoder.Dense(
            config.hidden_size, 1, config.initializer_range, "dense"
        )

    def call(self, x):
        """<float>[B, N, D] -> logits <float32>[B, N] of expected rewards."""
        return tf.cast(self.dense(x), tf.float32)[..., 0]
