"""What the paper compares replaced-token detection and joint training with.

The losses of Table 5 of arXiv:2003.10555 that predict tokens, and that of
Appendix F, which trains the generator against the discriminator.

Shapes: B batch, L length, N slots for predictions, D hidden, V vocabulary.
"""

import typing

import tensorflow as tf

from electra_tf import configs
from electra_tf.model import encoder, losses, masking


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


def replace_mlm_output(
    logits: tf.Tensor,
    masked: masking.Inputs,
    all_reduce_sum: losses.AllReduceSum = losses.identity,
) -> TokenOutput:
    """Replace MLM: the true tokens at the masked positions (section 3.4).

    A masked language model whose masked positions hold samples of the
    generator instead of [MASK].

    Args:
      logits: <float>[B, N, V], at the masked positions.
      masked: The masked batch, for its masked_lm fields.
      all_reduce_sum: Sums the weights over replicas.

    Returns:
      TokenOutput.
    """
    output = losses.masked_lm_output(
        logits, masked.masked_lm_ids, masked.masked_lm_weights, all_reduce_sum
    )
    return TokenOutput(
        output.preds,
        output.per_example_loss,
        typing.cast(tf.Tensor, masked.masked_lm_weights),
        output.loss,
    )


def all_tokens_mlm_output(
    logits: tf.Tensor,
    copy_logits: tf.Tensor | None,
    corrupted_ids: tf.Tensor,
    unmasked: masking.Inputs,
    masked_lm_positions: tf.Tensor,
    all_reduce_sum: losses.AllReduceSum = losses.identity,
) -> TokenOutput:
    """All-Tokens MLM: the true token of every position (section 3.4).

    With the copy mechanism p(x) = D * [x is the token that is there] +
    (1 - D) * softmax(logits)[x], where D = sigmoid(copy_logits).

    Args:
      logits: <float>[B, L, V].
      copy_logits: <float>[B, L]; None for a softmax alone.
      corrupted_ids: <int32>[B, L], what the network saw.
      unmasked: The true batch.
      masked_lm_positions: <int32>[B, N].
      all_reduce_sum: Sums the weights over replicas.

    Returns:
      TokenOutput, its loss averaged over real tokens.
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
        of_copied = with_copy(log_predict + logit_of(corrupted_ids) - log_total)
        best = log_predict + tf.reduce_max(logits, axis=-1) - log_total
        preds = tf.where(of_copied >= best, corrupted_ids, preds)
    weights = tf.cast(unmasked.input_mask, tf.float32)
    return TokenOutput(
        masking.gather_positions(preds, masked_lm_positions),
        per_token_loss,
        weights,
        losses.weighted_mean(per_token_loss, weights, all_reduce_sum),
    )


def token_sums(
    output: TokenOutput, masked: masking.Inputs
) -> dict[str, losses.Sums]:
    """Loss, and accuracy at the masked positions, before dividing."""
    weights = typing.cast(tf.Tensor, masked.masked_lm_weights)
    return {
        "disc_loss": losses.weighted_sums(
            output.per_token_loss, output.weights
        ),
        "disc_masked_lm_accuracy": losses.weighted_sums(
            output.preds == masked.masked_lm_ids, weights
        ),
    }


class RewardBaseline(encoder.Layer):
    """Expects the reward of a sample from the generator's own vectors.

    b = -log sigmoid(w . h), h being the generator's output at the masked
    position (Appendix F of arXiv:2003.10555).
    """

    def __init__(self, config: configs.EncoderConfig):
        super().__init__(name="reward_baseline")
        self.hidden_size = config.hidden_size
        self.dense = encoder.dense(1, config.initializer_range, "dense")

    def build(self, input_shape=None):
        self.dense.build((None, None, self.hidden_size))

    def call(self, x):
        """Logits of the expected rewards.

        Args:
          x: <float>[B, N, D].

        Returns:
          <float32>[B, N].
        """
        return tf.cast(self.dense(x), tf.float32)[..., 0]


def rewards(
    disc_logits: tf.Tensor,
    is_fake_tokens: tf.Tensor,
    masked_lm_positions: tf.Tensor,
) -> tf.Tensor:
    """R of Appendix F: the discriminator's loss at each sampled token.

    Args:
      disc_logits: <float32>[B, L], high where replaced.
      is_fake_tokens: <int32>[B, L].
      masked_lm_positions: <int32>[B, N].

    Returns:
      <float32>[B, N], nats, without gradient.
    """
    per_token_loss = tf.nn.sigmoid_cross_entropy_with_logits(
        labels=tf.cast(is_fake_tokens, tf.float32), logits=disc_logits
    )
    return tf.stop_gradient(
        masking.gather_positions(per_token_loss, masked_lm_positions)
    )


def adversarial_loss(
    mlm_logits: tf.Tensor,
    sampled_ids: tf.Tensor,
    reward: tf.Tensor,
    baseline_logits: tf.Tensor,
    weights: tf.Tensor,
    all_reduce_sum: losses.AllReduceSum = losses.identity,
) -> tf.Tensor:
    """REINFORCE with a learned baseline (Appendix F of arXiv:2003.10555).

    Its gradient raises log p_G(sample) by reward - baseline, and moves the
    baseline towards the reward by cross-entropy: sigmoid(w . h) is to be
    exp(-reward).

    Args:
      mlm_logits: <float32>[B, N, V] of the generator.
      sampled_ids: <int32>[B, N].
      reward: <float32>[B, N], see `rewards`.
      baseline_logits: <float32>[B, N] of `RewardBaseline`.
      weights: <float32>[B, N].
      all_reduce_sum: Sums the weights over replicas.

    Returns:
      <float32>[], this replica's share.
    """
    baseline = tf.stop_gradient(tf.nn.softplus(-baseline_logits))
    minus_log_prob = losses.cross_entropy(mlm_logits, sampled_ids)
    policy_loss = (reward - baseline) * minus_log_prob
    baseline_loss = tf.nn.sigmoid_cross_entropy_with_logits(
        labels=tf.exp(-reward), logits=baseline_logits
    )
    return losses.weighted_mean(
        policy_loss + baseline_loss, weights, all_reduce_sum
    )
