"""Logits -> losses and metrics.

Sums over a batch go through `all_reduce_sum`, so that a loss is normalised by
the weights of the whole global batch: each replica holds its share of the loss,
and the shares add up to the loss of the whole.

Shapes: B batch, L length, N slots for predictions, V vocabulary.
"""

import typing
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from electra_tf.model import kernels, masking

AllReduceSum = Callable[[tf.Tensor], tf.Tensor]

# The original adds this to every sum of weights that it divides by.
WEIGHT_FLOOR = 1e-6
# tf.metrics.auc of TF1, which the original's evaluation uses.
NUM_AUC_THRESHOLDS = 200


def identity(tensor: tf.Tensor) -> tf.Tensor:
    """The all-reduce of a single replica."""
    return tensor


def weighted_mean(
    values: tf.Tensor,
    weights: tf.Tensor,
    all_reduce_sum: AllReduceSum = identity,
) -> tf.Tensor:
    """sum(values * weights) / (sum(weights) + 1e-6), the original's mean.

    Args:
      values: <float32>[...].
      weights: <float32>[...].
      all_reduce_sum: Sums the weights over replicas.

    Returns:
      <float32>[], this replica's share of the mean.
    """
    total = all_reduce_sum(tf.reduce_sum(weights))
    return tf.reduce_sum(values * weights) / (total + WEIGHT_FLOOR)


class MaskedLmOutput(typing.NamedTuple):
    """The generator's output.

    Attributes:
      logits: <float32>[B, N, V].
      preds: <int32>[B, N].
      per_example_loss: <float32>[B, N], filled in unused slots too.
      loss: <float32>[].
    """

    logits: tf.Tensor
    preds: tf.Tensor
    per_example_loss: tf.Tensor
    loss: tf.Tensor


def masked_lm_output(
    logits: tf.Tensor,
    token_ids: tf.Tensor,
    weights: tf.Tensor,
    all_reduce_sum: AllReduceSum = identity,
) -> MaskedLmOutput:
    """L_MLM of arXiv:2003.10555, section 2 (the original's softmax output).

    Args:
      logits: <float>[B, N, V], taken as float32.
      token_ids: <int32>[B, N], the true tokens.
      weights: <float32>[B, N].
      all_reduce_sum: Sums the weights over replicas.

    Returns:
      The output, its loss in nats per masked token.
    """
    logits = tf.cast(logits, tf.float32)
    per_example_loss = cross_entropy(logits, token_ids)
    return MaskedLmOutput(
        logits=logits,
        preds=tf.argmax(logits, axis=-1, output_type=tf.int32),
        per_example_loss=per_example_loss,
        loss=weighted_mean(per_example_loss, weights, all_reduce_sum),
    )


@kernels.with_gradient
def cross_entropy(logits, token_ids):
    """-log softmax(logits)[token], its gradient written out.

    TensorFlow's operation goes through the vocabulary twice as often. What is
    exponentiated here is what `masking.sample` exponentiates, so a graph has it
    once.

    Args:
      logits: <float32>[B, N, V].
      token_ids: <int32>[B, N].

    Returns:
      <float32>[B, N].
    """
    largest = tf.reduce_max(logits, axis=-1, keepdims=True)
    exps = tf.exp(logits - largest)
    total = tf.reduce_sum(exps, axis=-1)
    token_logits = tf.gather(logits, token_ids, axis=-1, batch_dims=2)

    def gradient(upstream):
        logits_gradient = exps * (upstream / total)[..., tf.newaxis]
        rows, slots = tf.meshgrid(
            *(tf.range(size) for size in tf.unstack(tf.shape(token_ids))),
            indexing="ij",
        )
        tokens = tf.stack([rows, slots, token_ids], axis=-1)
        return tf.tensor_scatter_nd_sub(logits_gradient, tokens, upstream), None

    return tf.math.log(total) + largest[..., 0] - token_logits, gradient


class DiscriminatorOutput(typing.NamedTuple):
    """The discriminator's output.

    Attributes:
      logits: <float32>[B, L].
      probs: <float32>[B, L], probability of having been replaced.
      preds: <int32>[B, L].
      per_example_loss: <float32>[B].
      labels: <int32>[B, L].
      loss: <float32>[].
    """

    logits: tf.Tensor
    probs: tf.Tensor
    preds: tf.Tensor
    per_example_loss: tf.Tensor
    labels: tf.Tensor
    loss: tf.Tensor


def discriminator_output(
    logits: tf.Tensor,
    is_fake_tokens: tf.Tensor,
    input_mask: tf.Tensor,
    all_reduce_sum: AllReduceSum = identity,
    loss_mask: tf.Tensor | None = None,
) -> DiscriminatorOutput:
    """L_Disc of arXiv:2003.10555, section 2, averaged over real tokens.

    Two departures, both as the released code has them: label 1 means
    *replaced*, and the sum is divided by 1e-6 + the number of real tokens.

    Args:
      logits: <float32>[B, L], before the sigmoid.
      is_fake_tokens: <int32>[B, L], 1 where the token was changed.
      input_mask: <int32>[B, L], 1 on real tokens, 0 on padding.
      all_reduce_sum: Sums the weights over replicas.
      loss_mask: <int32>[B, L], the tokens to learn from; None for all real
        ones.

    Returns:
      The output, its loss in nats per token.
    """
    logits = tf.cast(logits, tf.float32)
    weights = tf.cast(
        input_mask if loss_mask is None else loss_mask, tf.float32
    )
    losses = tf.nn.sigmoid_cross_entropy_with_logits(
        labels=tf.cast(is_fake_tokens, tf.float32), logits=logits
    )
    per_example_loss = tf.reduce_sum(losses * weights, axis=-1) / (
        WEIGHT_FLOOR + tf.reduce_sum(weights, axis=-1)
    )
    return DiscriminatorOutput(
        logits=logits,
        probs=tf.sigmoid(logits),
        preds=tf.cast(tf.round((tf.sign(logits) + 1) / 2), tf.int32),
        per_example_loss=per_example_loss,
        labels=is_fake_tokens,
        loss=weighted_mean(losses, weights, all_reduce_sum),
    )


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
    all_reduce_sum: AllReduceSum = identity,
) -> tf.Tensor:
    """REINFORCE with a learned baseline (Appendix F of arXiv:2003.10555).

    Its gradient raises log p_G(sample) by reward - baseline, and moves the
    baseline towards the reward by cross-entropy: sigmoid(w . h) is to be
    exp(-reward).

    Args:
      mlm_logits: <float32>[B, N, V] of the generator.
      sampled_ids: <int32>[B, N].
      reward: <float32>[B, N], see `rewards`.
      baseline_logits: <float32>[B, N] of `ablations.RewardBaseline`.
      weights: <float32>[B, N].
      all_reduce_sum: Sums the weights over replicas.

    Returns:
      <float32>[], this replica's share.
    """
    baseline = tf.stop_gradient(tf.nn.softplus(-baseline_logits))
    minus_log_prob = cross_entropy(mlm_logits, sampled_ids)
    policy_loss = (reward - baseline) * minus_log_prob
    baseline_loss = tf.nn.sigmoid_cross_entropy_with_logits(
        labels=tf.exp(-reward), logits=baseline_logits
    )
    return weighted_mean(policy_loss + baseline_loss, weights, all_reduce_sum)


class Sums(typing.NamedTuple):
    """A weighted sum and the sum of its weights; adding two merges them."""

    value: tf.Tensor
    weight: tf.Tensor


class SumsOfTask(Sums):
    """Those of one of several tasks, of which a batch may have no row."""


def weighted_sums(values: tf.Tensor, weights: tf.Tensor) -> Sums:
    """What a weighted mean of a batch adds to that of the whole set."""
    weights = tf.cast(weights, tf.float32)
    values = tf.cast(values, tf.float32)
    return Sums(tf.reduce_sum(values * weights), tf.reduce_sum(weights))


def masked_lm_sums(
    output: MaskedLmOutput,
    token_ids: tf.Tensor,
    weights: tf.Tensor,
    sampled_ids: tf.Tensor | None = None,
) -> dict[str, Sums]:
    """Accuracy and loss of the generator over one batch, before dividing.

    Args:
      output: The generator's output.
      token_ids: <int32>[B, N].
      weights: <float32>[B, N].
      sampled_ids: <int32>[B, N], for how often a sample is the true token.

    Returns:
      Sums under the original's metric names.
    """
    sums = {
        "masked_lm_accuracy": weighted_sums(output.preds == token_ids, weights),
        "masked_lm_loss": weighted_sums(output.per_example_loss, weights),
    }
    if sampled_ids is not None:
        sums["sampled_masked_lm_accuracy"] = weighted_sums(
            sampled_ids == token_ids, weights
        )
    return sums


def discriminator_sums(
    output: DiscriminatorOutput, input_mask: tf.Tensor
) -> dict[str, Sums]:
    """The discriminator's metrics over one batch, before dividing.

    Under the original's names and as in the original: disc_auc counts padding
    as label 0 with probability 0, and disc_precision and disc_recall are
    accuracies weighted by prediction or label. "disc_auc" holds histograms of
    the probabilities <float32>[201]: of replaced tokens as `value`, of all
    others as `weight`.
    """
    correct = output.preds == output.labels
    labels = output.labels * input_mask
    # Every example weighs the same in the original's disc_loss.
    examples = tf.ones_like(output.per_example_loss)
    return {
        "disc_loss": weighted_sums(output.per_example_loss, examples),
        "disc_auc": _auc_histograms(
            labels, output.probs * tf.cast(input_mask, tf.float32)
        ),
        "disc_accuracy": weighted_sums(correct, input_mask),
        "disc_precision": weighted_sums(correct, output.preds * input_mask),
        "disc_recall": weighted_sums(correct, labels),
        "replaced_rate": weighted_sums(output.labels, input_mask),
    }


def _auc_histograms(labels: tf.Tensor, probs: tf.Tensor) -> Sums:
    """Counts of probabilities by the number of thresholds that they exceed."""
    probs = tf.reshape(probs, [-1])
    labels = tf.reshape(labels, [-1])
    inner = np.arange(1, NUM_AUC_THRESHOLDS - 1) / (NUM_AUC_THRESHOLDS - 1.0)
    # Those of tf.metrics.auc: -1e-7, 1/199, ..., 1 + 1e-7.
    thresholds = np.concatenate([[-1e-7], inner, [1 + 1e-7]])
    exceeded = tf.searchsorted(
        tf.constant(thresholds, tf.float32), probs, side="left"
    )
    num_bins = NUM_AUC_THRESHOLDS + 1

    def histogram(selected):
        return tf.math.unsorted_segment_sum(
            tf.cast(selected, tf.float32), exceeded, num_bins
        )

    return Sums(histogram(labels == 1), histogram(labels != 1))


def auc(positives, negatives) -> tf.Tensor:
    """Area under the ROC curve by trapezoids, as tf.metrics.auc has it.

    Its 1e-6 makes every recall 1 where nothing was replaced, so the area is
    that under the fallout, and almost 1. `positives` and `negatives` are
    <float64>[201], the histograms of replaced tokens and of all others.
    """
    # Entry i: how many exceed threshold i.
    true_positives = tf.cumsum(positives, reverse=True)[1:]
    false_positives = tf.cumsum(negatives, reverse=True)[1:]
    floor = tf.constant(WEIGHT_FLOOR, tf.float64)
    recall = (true_positives + floor) / (tf.reduce_sum(positives) + floor)
    fallout = false_positives / (tf.reduce_sum(negatives) + floor)
    widths = fallout[:-1] - fallout[1:]
    return tf.reduce_sum(widths * (recall[:-1] + recall[1:]) / 2.0)


def metrics_from_sums(sums: dict[str, Sums]) -> dict[str, float]:
    """Divides accumulated sums into the metrics that they stand for.

    Args:
      sums: Added up over batches and replicas, as numpy arrays or tensors.

    Returns:
      Metric name -> value; of means 0 where nothing was weighed, as in TF1, but
      nothing of a task without a row.
    """
    metrics = {}
    for name, metric in sums.items():
        value = np.asarray(metric.value, np.float64)
        weight = np.asarray(metric.weight, np.float64)
        if isinstance(metric, SumsOfTask) and not weight:
            continue
        if name == "disc_auc":
            metrics[name] = float(auc(value, weight))
        else:
            metrics[name] = float(value / weight) if weight else 0.0
    return metrics
