"""Tests of model/ablations.py and of its use in model/electra.py."""

import math

import numpy as np
import pytest
import tensorflow as tf

from electra_tf import errors
from electra_tf.model import ablations, losses, masking
from tests import helpers
from tests.model import electra_test
from tests.model.electra_test import build


def test_whole_words_need_entries_that_continue_one():
    config = helpers.electra_config(whole_word_masking=True)
    continues_a_word = masking.continues_a_word(["a", "b"])
    with pytest.raises(errors.ConfigError, match="entries that continue a wor"):
        ablations.make_model(config, electra_test.SPECIAL, continues_a_word)


def test_replace_mlm_predicts_the_masked_tokens():
    model = build(discriminator_objective="replace_mlm")
    outputs = forward(model)
    masked, output = outputs["masked_inputs"], outputs["disc_output"]
    sequence = outputs["discriminator_outputs"]["sequence_output"]
    log_probs = tf.nn.log_softmax(model.masked_lm_predictions(sequence))
    rows = [
        (log_probs[row, position], token)
        for row in range(3)
        for position, token, weight in zip(
            masked.masked_lm_positions[row].numpy(),
            masked.masked_lm_ids[row].numpy(),
            masked.masked_lm_weights[row].numpy(),
            strict=True,
        )
        if weight
    ]
    expected = -np.mean([scores[token] for scores, token in rows])
    assert float(output.loss) == pytest.approx(expected, rel=1e-5)
    accuracy = model.metric_sums(outputs)["disc_masked_lm_accuracy"]
    correct = sum(int(np.argmax(scores)) == token for scores, token in rows)
    assert (accuracy.value, accuracy.weight) == (correct, len(rows))


def all_tokens(mask, copy_logits, seen):
    """Of two tokens the softmax says 0.2 and 0.8; the true ones are 1 1."""
    unmasked = masking.Inputs(
        tf.constant([[1, 1]]), tf.constant([mask]), tf.constant([[0, 0]])
    )
    logits = tf.math.log([[[0.2, 0.8], [0.2, 0.8]]])
    copy_logits = copy_logits and tf.fill([1, 2], copy_logits)
    return ablations.all_tokens_mlm_output(
        *(logits, copy_logits, tf.constant([seen]), unmasked),
        tf.constant([[1]]),
    )


def test_all_tokens_mlm_mixes_copy_and_softmax():
    # The copy probability is 0.75.
    output = all_tokens([1, 1], math.log(3.0), seen=[1, 0])
    np.testing.assert_allclose(
        np.exp(-output.per_token_loss), [[0.75 + 0.25 * 0.8, 0.25 * 0.8]], 1e-5
    )
    expected = -(math.log(0.95) + math.log(0.2)) / 2
    assert float(output.loss) == pytest.approx(expected, rel=1e-5)
    # 0.75 + 0.25 * 0.2 for the token that is there.
    assert output.preds.numpy().tolist() == [[0]]


def test_all_tokens_mlm_predicts_where_it_does_not_copy():
    # 0.25 + 0.75 * 0.2 is less than 0.75 * 0.8; the second is padding.
    output = all_tokens([1, 0], -math.log(3.0), seen=[0, 0])
    assert output.preds.numpy().tolist() == [[1]]
    assert float(output.loss) == pytest.approx(-math.log(0.6), rel=1e-5)
    alone = all_tokens([1, 0], None, seen=[0, 0])
    assert float(alone.loss) == pytest.approx(-math.log(0.8), rel=1e-5)


def test_the_reward_is_the_discriminators_loss():
    # Said: replaced with probability 0.75. The first was, the second not.
    logits = tf.fill([1, 3], math.log(3.0))
    reward = losses.rewards(
        logits, tf.constant([[0, 1, 0]]), tf.constant([[1, 2]])
    )
    np.testing.assert_allclose(
        reward, [[-math.log(0.75), -math.log(0.25)]], 1e-5
    )


def test_the_policy_gradient():
    logits = tf.Variable(tf.math.log([[[0.25, 0.75]]]))
    baseline = tf.Variable([[0.0]])
    reward = tf.constant([[-math.log(0.25)]])
    with tf.GradientTape() as tape:
        loss = losses.adversarial_loss(
            logits, tf.constant([[1]]), reward, baseline, tf.constant([[1.0]])
        )
    of_logits, of_baseline = tape.gradient(loss, [logits, baseline])
    # Descending raises the sample's logit: reward ln 4 minus baseline ln 2,
    # times d log p / d logits = [-0.25, 0.25].
    advantage = math.log(4) - math.log(2)
    np.testing.assert_allclose(
        of_logits, [[[0.25 * advantage, -0.25 * advantage]]], rtol=1e-4
    )
    # Cross-entropy moves sigmoid(0) = 0.5 towards exp(-reward) = 0.25.
    np.testing.assert_allclose(of_baseline, [[0.5 - 0.25]], rtol=1e-4)


def forward(model):
    return model(electra_test.features(), electra_test.noise(model.config, 3))


def test_electra_15_learns_from_masked_tokens_alone():
    whole = forward(build())
    masked = forward(
        build(discriminator_objective="replaced_token_detection_of_masked")
    )
    disc = masked["disc_output"]
    np.testing.assert_allclose(disc.logits, whole["disc_output"].logits)
    labels = tf.cast(disc.labels, tf.float32)
    token_losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, disc.logits)
    positions = masked["masked_inputs"].masked_lm_positions.numpy()
    chosen = [
        token_losses[row, column]
        for row in range(3)
        for column in sorted(set(positions[row]) - {0})
    ]
    assert float(disc.loss) == pytest.approx(np.mean(chosen), rel=1e-5)
    assert float(disc.loss) != float(whole["disc_output"].loss)


def test_electra_15_starts_without_the_odds_of_masking():
    frequencies = tf.fill([len(helpers.VOCAB)], 1.0 / len(helpers.VOCAB))

    def first_loss(objective):
        model = build(discriminator_objective=objective)
        model.set_output_biases(frequencies)
        return float(forward(model)["disc_output"].loss)

    of_masked = first_loss("replaced_token_detection_of_masked")
    assert of_masked == pytest.approx(math.log(2.0), abs=0.05)
    assert first_loss("replaced_token_detection") < math.log(2.0) - 0.05


def test_a_unigram_generator_draws_by_frequency():
    model = build(unigram_generator=True)
    frequencies = np.full(20, 0.01, np.float32)
    frequencies[7] = 0.81
    model.set_unigram_generator(frequencies)
    logits = forward(model)["mlm_output"].logits.numpy()
    assert logits.shape[-1] == 20
    probabilities = np.exp(logits[0, 0]) / np.exp(logits[0, 0]).sum()
    assert probabilities[7] == pytest.approx(0.81 / 0.97, rel=1e-4)
    assert probabilities[[helpers.CLS, helpers.SEP, helpers.MASK]].sum() == 0
    paths = {v.path for v in model.trainable_variables}
    assert "unigram_log_probs" not in " ".join(paths)
    assert not any(path.startswith("generator") for path in paths)


def test_every_rewarded_sample_was_seen():
    """Two at one position would meet: the reward would be of neither."""
    outputs = forward(build(generator_training="adversarial", mask_prob=0.75))
    masked, fake = outputs["masked_inputs"], outputs["fake_data"]
    seen = masking.gather_positions(
        fake.inputs.input_ids, masked.masked_lm_positions
    )
    is_rewarded = masked.masked_lm_weights.numpy() > 0
    assert is_rewarded.sum() > 10
    assert (seen == fake.sampled_ids).numpy()[is_rewarded].all()


def test_a_frozen_generator_is_not_trained():
    model = build(generator_training="frozen", untied_generator_embeddings=True)
    assert not any(
        v.path.startswith("generator") for v in model.trainable_variables
    )
    outputs = forward(model)
    assert float(outputs["total_loss"]) == pytest.approx(
        50 * float(outputs["disc_output"].loss)
    )
