"""ELECTRA's training step done the original's way, to compare speed with.

The arithmetic of `model.electra` (a test compares the losses), but with
the operations of the released TensorFlow 1 code, in plain TensorFlow: one-hot
labels against a full log-softmax, Gumbel noise and a softmax before the argmax
that samples, float dropout noise, layer normalisation, GELU and optimizer
operation by operation, gradients of every embedding table dense, every row
padded to the full length. `bench.py training` measures the two.

Shapes: B batch, L length, N slots for predictions, D hidden, E embedding,
H heads, V vocabulary.
"""

import typing
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from electra_tf import configs
from electra_tf.model import masking
from electra_tf.training import optimization


class ReferenceGraph:
    """The plain objective of ELECTRA, with a generator of its own.

    Args:
      config: Sizes; other objectives are not done here.
      optimizer: Rates.
      num_train_steps: Length of the schedule.
      special_ids: Ids of [CLS], [SEP] and [MASK].
      weights: Name in the original -> initial value.
    """

    def __init__(
        self,
        config: configs.ElectraConfig,
        optimizer: configs.OptimizerConfig,
        num_train_steps: int,
        special_ids: masking.SpecialIds,
        weights: Mapping[str, np.ndarray],
    ):
        self.config = config
        self.optimizer = optimizer
        self.special_ids = special_ids
        self.variables = {
            name: tf.Variable(value, name=name.replace("/", "."))
            for name, value in weights.items()
        }
        self.slots = {
            name: (
                tf.Variable(tf.zeros_like(variable)),
                tf.Variable(tf.zeros_like(variable)),
            )
            for name, variable in self.variables.items()
        }
        self.global_step = tf.Variable(0, dtype=tf.int64)
        assert optimizer.learning_rate is not None
        self.schedule = optimization.WarmupPolynomialDecay(
            optimizer.learning_rate,
            num_train_steps,
            optimizer.warmup_steps(num_train_steps),
            optimizer.lr_decay_power,
        )

    @tf.function
    def train(self, iterator, num_steps: tf.Tensor) -> tf.Tensor:
        """Trains on the next batches of an iterator; the last loss."""
        loss = tf.constant(0.0)
        for _ in tf.range(num_steps):
            loss = self.train_step(next(iterator))
        return loss

    def train_step(self, features) -> tf.Tensor:
        """Forward, backward and update on {name: <int32>[B, L]}."""
        names = list(self.variables)
        with tf.GradientTape() as tape:
            loss = self.loss(features, is_training=True)
        gradients = tape.gradient(loss, [self.variables[n] for n in names])
        dense = [tf.convert_to_tensor(g) for g in gradients]
        clipped, _ = tf.clip_by_global_norm(dense, self.optimizer.clip_norm)
        rate = self.schedule(self.global_step)
        for name, gradient in zip(names, clipped, strict=True):
            self._update(name, gradient, rate)
        self.global_step.assign_add(1)
        return loss

    def _update(self, name, gradient, rate):
        config, variable = self.optimizer, self.variables[name]
        m, v = self.slots[name]
        next_m = tf.multiply(config.beta_1, m) + tf.multiply(
            1.0 - config.beta_1, gradient
        )
        next_v = tf.multiply(config.beta_2, v) + tf.multiply(
            1.0 - config.beta_2, tf.square(gradient)
        )
        update = next_m / (tf.sqrt(next_v) + config.epsilon)
        if not optimization.NOT_DECAYED.search(name):
            update += config.weight_decay_rate * variable
        variable.assign(variable - rate * update)
        m.assign(next_m)
        v.assign(next_v)

    def loss(self, features, noise=None, is_training=False) -> tf.Tensor:
        """The weighted sum of both networks' losses.

        Args:
          features: {"input_ids", "input_mask", "segment_ids"}: <int32>[B, L].
          noise: masking.Noise with `sample` <float32>[B, N, V]; None draws
            anew, as the original does.
          is_training: Whether there is dropout.

        Returns:
          <float32>[].
        """
        config = self.config
        inputs = masking.Inputs(
            features["input_ids"],
            features["input_mask"],
            features["segment_ids"],
        )
        if noise is None:
            slots = [
                tf.shape(inputs.input_ids)[0],
                config.max_predictions_per_seq,
            ]
            noise = masking.Noise(
                tf.random.uniform(slots),
                tf.random.uniform(slots),
                tf.random.uniform([*slots, config.encoder.vocab_size]),
            )
        masked = masking.mask_tokens(inputs, noise, config, self.special_ids)
        generator = config.generator
        sequence = self._encoder(masked, generator, "generator", is_training)
        logits = self._generator_logits(sequence, masked, generator)
        one_hot_ids = tf.one_hot(
            masked.masked_lm_ids, config.encoder.vocab_size
        )
        log_probs = tf.nn.log_softmax(logits)
        generator_losses = -tf.reduce_sum(log_probs * one_hot_ids, axis=-1)
        generator_loss = _mean(generator_losses, masked.masked_lm_weights)

        # The original draws a one-hot vector for each token.
        gumbel = -tf.math.log(
            -tf.math.log(noise.sample + masking.GUMBEL_FLOOR)
            + masking.GUMBEL_FLOOR
        )
        logits = tf.stop_gradient(logits) / config.temperature
        sampled = tf.one_hot(
            tf.argmax(tf.nn.softmax(logits + gumbel), axis=-1),
            config.encoder.vocab_size,
        )
        unmasked = masking.unmask(masked)
        corrupted_ids, is_sampled = masking.scatter_update(
            unmasked.input_ids,
            tf.argmax(sampled, axis=-1, output_type=tf.int32),
            masked.masked_lm_positions,
        )
        is_fake = is_sampled * tf.cast(
            corrupted_ids != unmasked.input_ids, tf.int32
        )
        corrupted = unmasked._replace(input_ids=corrupted_ids)
        sequence = self._encoder(
            corrupted, config.encoder, "electra", is_training
        )
        discriminator_losses = tf.nn.sigmoid_cross_entropy_with_logits(
            labels=tf.cast(is_fake, tf.float32),
            logits=self._discriminator_logits(sequence),
        )
        discriminator_loss = _mean(
            discriminator_losses, tf.cast(corrupted.input_mask, tf.float32)
        )
        return (
            config.gen_weight * generator_loss
            + config.disc_weight * discriminator_loss
        )

    def _encoder(self, inputs, config, scope, is_training) -> tf.Tensor:
        """<float32>[B, L, D]."""
        batch_size, length = inputs.input_ids.shape
        dropout = config.hidden_dropout_prob if is_training else 0.0
        x = self._embeddings(inputs, dropout)
        if config.embedding_size != config.hidden_size:
            x = self._dense(x, f"{scope}/embeddings_project")
        from_tokens = tf.ones([batch_size, length, 1])
        to_tokens = tf.cast(inputs.input_mask, tf.float32)[:, tf.newaxis, :]
        allowed = tf.expand_dims(from_tokens * to_tokens, axis=1)
        bias = (1.0 - allowed) * -10000.0
        for index in range(config.num_hidden_layers):
            layer = f"{scope}/encoder/layer_{index}"
            context = self._attention(
                x, bias, config, f"{layer}/attention/self", is_training
            )
            attended = self._residual(
                context, x, f"{layer}/attention/output", dropout
            )
            wide = _gelu(self._dense(attended, f"{layer}/intermediate/dense"))
            x = self._residual(wide, attended, f"{layer}/output", dropout)
        return tf.reshape(x, [batch_size, length, config.hidden_size])

    def _embeddings(self, inputs, dropout) -> tf.Tensor:
        """<float32>[B * L, E], of the discriminator for both networks."""
        config, scope = self.config.encoder, "electra/embeddings"
        batch_size, length = inputs.input_ids.shape
        shape = [batch_size, length, config.embedding_size]
        words = tf.nn.embedding_lookup(
            self.variables[f"{scope}/word_embeddings"], inputs.input_ids
        )
        segments = tf.matmul(
            tf.one_hot(
                tf.reshape(inputs.segment_ids, [-1]), config.type_vocab_size
            ),
            self.variables[f"{scope}/token_type_embeddings"],
        )
        positions = self.variables[f"{scope}/position_embeddings"][:length]
        x = words + tf.reshape(segments, shape) + positions[tf.newaxis]
        x = self._layer_norm(x, f"{scope}/LayerNorm")
        return tf.reshape(_dropout(x, dropout), [-1, config.embedding_size])

    def _attention(self, x, bias, config, scope, is_training) -> tf.Tensor:
        """<float32>[B * L, D]."""
        heads = config.num_attention_heads
        width = config.hidden_size // heads
        length = bias.shape[-1]

        def split_heads(name):
            projected = self._dense(x, f"{scope}/{name}")
            split = tf.reshape(projected, [-1, length, heads, width])
            return tf.transpose(split, [0, 2, 1, 3])

        query, key = split_heads("query"), split_heads("key")
        scores = tf.matmul(query, key, transpose_b=True)
        scores = tf.multiply(scores, width**-0.5) + bias
        rate = config.attention_probs_dropout_prob if is_training else 0.0
        probs = _dropout(tf.nn.softmax(scores), rate)
        context = tf.matmul(probs, split_heads("value"))
        context = tf.transpose(context, [0, 2, 1, 3])
        return tf.reshape(context, [-1, config.hidden_size])

    def _residual(self, x, residual, scope, dropout) -> tf.Tensor:
        x = _dropout(self._dense(x, f"{scope}/dense"), dropout)
        return self._layer_norm(x + residual, f"{scope}/LayerNorm")

    def _generator_logits(self, sequence, masked, config) -> tf.Tensor:
        """<float32>[B, N, V]."""
        batch_size, slots = masked.masked_lm_positions.shape
        length = sequence.shape[1]
        rows = length * tf.range(batch_size)[:, tf.newaxis]
        flat = tf.reshape(rows + masked.masked_lm_positions, [-1])
        x = tf.gather(tf.reshape(sequence, [-1, config.hidden_size]), flat)
        scope = "generator_predictions"
        x = self._layer_norm(
            _gelu(self._dense(x, f"{scope}/dense")), f"{scope}/LayerNorm"
        )
        table = self.variables["electra/embeddings/word_embeddings"]
        logits = tf.matmul(x, table, transpose_b=True)
        logits = tf.nn.bias_add(logits, self.variables[f"{scope}/output_bias"])
        return tf.reshape(logits, [batch_size, slots, config.vocab_size])

    def _discriminator_logits(self, sequence) -> tf.Tensor:
        """<float32>[B, L]."""
        scope = "discriminator_predictions"
        x = tf.reshape(sequence, [-1, sequence.shape[-1]])
        x = _gelu(self._dense(x, f"{scope}/dense"))
        return tf.reshape(
            self._dense(x, f"{scope}/dense_1"), sequence.shape[:2]
        )

    def _dense(self, x, scope) -> tf.Tensor:
        x = tf.matmul(x, self.variables[f"{scope}/kernel"])
        return tf.nn.bias_add(x, self.variables[f"{scope}/bias"])

    def _layer_norm(self, x, scope) -> tf.Tensor:
        mean, variance = tf.nn.moments(x, axes=[-1], keepdims=True)
        return tf.nn.batch_normalization(
            x,
            mean,
            variance,
            self.variables[f"{scope}/beta"],
            self.variables[f"{scope}/gamma"],
            1e-12,
        )


def _dropout(x: tf.Tensor, rate: float) -> tf.Tensor:
    return tf.nn.dropout(x, rate) if rate else x


def _gelu(x: tf.Tensor) -> tf.Tensor:
    return x * (0.5 * (1.0 + tf.math.erf(x / tf.sqrt(2.0))))


def _mean(values, weights) -> typing.Any:
    return tf.reduce_sum(values * weights) / (1e-6 + tf.reduce_sum(weights))
