"""Tests of model/electra.py."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.model import ablations, masking
from tests import helpers

LENGTH = helpers.LENGTH
SPECIAL = masking.SpecialIds(helpers.CLS, helpers.SEP, helpers.MASK)
# One layer: what is compiled below is compiled sooner.
ONE_LAYER = helpers.encoder_config(num_hidden_layers=1)
OBJECTIVES = {
    "electra": {},
    "masked_lm": {"electra_objective": False},
    "uniform": {"uniform_generator": True},
    "tied": {"untied_generator": False, "generator_hidden_size": 1.0},
    "untied_embeddings": {"untied_generator_embeddings": True},
    "disentangled": {"disentangled_embeddings": True},
    "distinct": {"distinct_positions": True, "disallow_correct": True},
    "electric": {"electra_objective": False, "electric_objective": True},
    "electric_untied_embeddings": {
        "electra_objective": False,
        "electric_objective": True,
        "untied_generator_embeddings": True,
    },
    "masked_only": {
        "discriminator_objective": "replaced_token_detection_of_masked"
    },
    "replace_mlm": {"discriminator_objective": "replace_mlm"},
    "all_tokens_mlm": {"discriminator_objective": "all_tokens_mlm"},
    "unigram": {"unigram_generator": True},
    "adversarial": {"generator_training": "adversarial"},
    "frozen": {
        "generator_training": "frozen",
        "untied_generator_embeddings": True,
    },
}
TOWERS = ("generator_ltr", "generator_rtl")


def build(encoder=ONE_LAYER, **changes):
    keras.utils.set_random_seed(0)
    config = helpers.electra_config(encoder, **changes)
    return ablations.make_model(config, SPECIAL)


def noise(config, batch_size, seed=0):
    num_slots = config.max_predictions_per_seq
    rng = np.random.default_rng(seed)

    def draw(width):
        uniform = rng.uniform(size=(batch_size, width))
        return tf.constant(uniform, tf.float32)

    return masking.Noise(
        draw(config.num_position_draws), draw(num_slots), draw(num_slots)
    )


def features(numbers=(0, 1, 2)):
    return {k: tf.constant(v) for k, v in helpers.inputs(numbers).items()}


def of_ids(rows):
    """Features of token ids, where 0 is padding."""
    ids = tf.constant(rows)
    mask = tf.cast(ids > 0, tf.int32)
    return {"input_ids": ids, "input_mask": mask, "segment_ids": 0 * ids}


def test_variable_shapes_of_towers_with_tables_of_their_own():
    model = build(**OBJECTIVES["electric_untied_embeddings"])
    shapes = {v.path: tuple(v.shape) for v in model.variables}
    for tower in TOWERS:
        assert shapes[f"{tower}/embeddings/word_embeddings"] == (20, 4)
        assert shapes[f"{tower}/embeddings/position_embeddings"] == (LENGTH, 4)
    # Of both towers, into the left-to-right one's table.
    assert shapes["cloze_predictions/dense/kernel"] == (8, 4)
    assert shapes["electra/embeddings/word_embeddings"] == (20, 6)
    head = model.cloze_predictions
    x = tf.ones([1, 2, 8])
    before = head(x).numpy()
    ltr, rtl = model.generator.left_to_right, model.generator.right_to_left
    rtl.embeddings.word_embeddings.assign_add(tf.ones([20, 4]))
    np.testing.assert_array_equal(head(x), before)
    ltr.embeddings.word_embeddings.assign(tf.zeros([20, 4]))
    np.testing.assert_array_equal(head(x), tf.zeros([1, 2, 20]))


ACTIVATIONS = {
    "gelu": lambda x: tf.nn.gelu(x, approximate=False),
    "gelu_new": lambda x: tf.nn.gelu(x, approximate=True),
    "relu": tf.nn.relu,
    "tanh": tf.tanh,
    "linear": lambda x: x,
}


@pytest.mark.parametrize("hidden_act", ACTIVATIONS)
def test_heads_have_the_activation_of_the_encoder(hidden_act):
    model = build(
        helpers.encoder_config(
            num_hidden_layers=1, hidden_act=hidden_act, initializer_range=0.5
        )
    )
    x = tf.random.stateless_normal([1, 2, 8], [1, 2])
    head = model.discriminator_predictions
    expected = head.dense_1(ACTIVATIONS[hidden_act](head.dense(x)))[..., 0]
    np.testing.assert_allclose(head(x), expected, atol=1e-6)
    # GELU's approximation is that of libraries whose generator's head has not.
    name = "gelu" if hidden_act == "gelu_new" else hidden_act
    head, x = model.generator_predictions, x[..., :4]
    words = model.electra.embeddings.word_embeddings.value
    activated = head.layer_norm(ACTIVATIONS[name](head.dense(x)))
    expected = activated @ tf.transpose(words)
    np.testing.assert_allclose(head(x), expected, atol=1e-5)


def loss_and_gradients(model, data, draws):
    with tf.GradientTape() as tape:
        outputs = model(data, draws)
    loss = outputs["total_loss"]
    values = [v.value for v in model.trainable_variables]
    gradients = map(tf.convert_to_tensor, tape.gradient(loss, values))
    return loss, list(gradients), outputs


@pytest.mark.parametrize(
    "objective",
    [
        *("electra", "masked_lm"),
        *(
            pytest.param(name, marks=pytest.mark.dear)
            for name in OBJECTIVES
            if name not in ("electra", "masked_lm")
        ),
    ],
)
def test_a_step_eagerly_and_compiled(objective):
    model = build(**OBJECTIVES[objective])
    data, draws = features(), noise(model.config, 3)
    loss, gradients, outputs = loss_and_gradients(model, data, draws)
    assert (loss.shape, loss.dtype) == ((), tf.float32)
    assert math.isfinite(float(loss))
    is_alone = objective == "masked_lm"
    assert (outputs["discriminator_outputs"] is None) == is_alone
    # Attention keys' biases cancel in the softmax, all else learns.
    for variable, gradient in zip(
        model.trainable_variables, gradients, strict=True
    ):
        if "key/bias" not in variable.path:
            assert np.abs(gradient).max() > 0, variable.path

    @tf.function(jit_compile=True)
    def compiled(data, draws):
        return loss_and_gradients(model, data, draws)[:2]

    compiled_loss, compiled_gradients = compiled(data, draws)
    assert float(compiled_loss) == pytest.approx(float(loss), rel=1e-5)
    for one, other in zip(gradients, compiled_gradients, strict=True):
        np.testing.assert_allclose(other, one, atol=1e-4)


def test_bfloat16_keeps_losses_in_float32(mixed_bfloat16):
    model = build()
    outputs = model(features(), noise(model.config, 3))
    assert outputs["total_loss"].dtype == tf.float32
    assert outputs["mlm_output"].logits.dtype == tf.float32
    assert outputs["disc_output"].logits.dtype == tf.float32
    assert {v.dtype for v in model.variables} == {"float32"}


def test_the_discriminator_does_not_train_the_generator():
    model = build(gen_weight=0.0)
    _, gradients, _ = loss_and_gradients(
        model, features(), noise(model.config, 3)
    )
    for variable, gradient in zip(
        model.trainable_variables, gradients, strict=True
    ):
        if variable.path.startswith("generator"):
            assert not np.any(gradient), variable.path


def masked_inputs():
    """Tokens 11, 12, 13 between [CLS] and [SEP]; 11 and 13 are masked."""
    return masking.Inputs(
        input_ids=tf.constant([[2, 4, 12, 4, 3, 0]]),
        input_mask=tf.constant([[1, 1, 1, 1, 1, 0]]),
        segment_ids=tf.constant([[0] * 6]),
        masked_lm_positions=tf.constant([[3, 1, 0]]),
        masked_lm_ids=tf.constant([[13, 11, 0]]),
        masked_lm_weights=tf.constant([[1.0, 1.0, 0.0]]),
    )


def sure(tokens, vocab_size=20):
    """Logits of a generator that draws these tokens."""
    return 100.0 * tf.one_hot([tokens], vocab_size)


HALF = tf.constant([[0.5, 0.5, 0.5]])


def fake_data(logits, **changes):
    """Samples, ids and labels of a model that draws by these logits."""
    fake = build(**changes)._get_fake_data(masked_inputs(), logits, HALF)
    parts = (fake.sampled_ids, fake.inputs.input_ids, fake.is_fake_tokens)
    return [part.numpy()[0].tolist() for part in parts]


def test_label_1_is_a_token_that_changed():
    # The first sample is the true token; the unused slot is ignored.
    ids = [2, 17, 12, 13, 3, 0]
    logits = sure([13, 17, 9])
    assert fake_data(logits) == [[13, 17, 9], ids, [0, 1, 0, 0, 0, 0]]
    # In Electric it is every token that was sampled.
    electric = fake_data(logits, **OBJECTIVES["electric"])
    assert electric[1:] == [ids, [0, 1, 0, 1, 0, 0]]


def test_the_true_token_can_be_disallowed():
    logits = sure([13, 17, 9]) + 50.0 * tf.one_hot([[8, 8, 8]], 20)
    sampled, _, is_fake = fake_data(logits, disallow_correct=True)
    assert sampled == [8, 17, 9]
    assert is_fake == [0, 1, 0, 1, 0, 0]


def test_temperature_flattens_the_samples():
    # Token 0 has logit 3, the 19 others 0: 51 % of the mass, and 5 % of it at
    # temperature 100.
    logits = 3.0 * tf.one_hot([[0, 0, 0]], 20)
    assert fake_data(logits)[0] == [0, 0, 0]
    assert fake_data(logits, temperature=100.0)[0] == [9, 9, 9]


def test_a_row_without_candidates_has_no_predictions():
    ids = helpers.inputs([0, 1])["input_ids"].tolist()
    data = of_ids([*ids, [2, 3] + [0] * 10])
    for objective in ("electra", "distinct"):
        model = build(**OBJECTIVES[objective])
        outputs = model(data, noise(model.config, 3))
        masked = outputs["masked_inputs"]
        assert masked.masked_lm_weights.numpy()[2].tolist() == [0, 0, 0]
        assert masked.input_ids.numpy()[2].tolist() == [2, 3] + [0] * 10
        assert math.isfinite(float(outputs["total_loss"]))


# Words wa to we have the continuations wf to wo after them.
CONTINUES = np.arange(len(helpers.VOCAB)) >= 10


def test_masks_whole_words():
    keras.utils.set_random_seed(0)
    config = helpers.electra_config(
        ONE_LAYER, whole_word_masking=True, masked_token_prob=1.0, mask_prob=0.5
    )
    model = ablations.make_model(config, SPECIAL, CONTINUES)
    #              [CLS] wa ## wb wc ##  ##  [SEP]
    data = of_ids([[2, 5, 10, 6, 7, 12, 13, 3] + [0] * 4])
    inputs = masking.Inputs(**data)
    rows = [
        model.mask_inputs(inputs, noise(config, 1, seed)).input_ids[0]
        for seed in range(30)
    ]
    masked = {tuple(np.flatnonzero(row == helpers.MASK)) for row in rows}
    # Four of eight tokens, as whole words: two and one, or three and one.
    assert masked == {(1, 2, 3), (3, 4, 5, 6)}


def test_distinct_positions_do_not_outnumber_the_candidates():
    model = build(distinct_positions=True, mask_prob=0.5)
    # Four tokens of which two are words; 6 slots, 2 of them wanted.
    data = of_ids([[2, 7, 3, 3] + [0] * 8])
    masked = model(data, noise(model.config, 1))["masked_inputs"]
    assert masked.masked_lm_positions.numpy().tolist() == [[1, 0, 0, 0, 0, 0]]
    assert masked.masked_lm_weights.numpy().tolist() == [[1, 0, 0, 0, 0, 0]]


def test_electric_scores_a_token_without_seeing_it():
    encoder = helpers.encoder_config(initializer_range=0.5)
    model = build(encoder, **OBJECTIVES["electric"])
    data = features([0])
    changed = helpers.inputs([0])
    changed["input_ids"][0, 5] = 17
    before = model.generator(masking.Inputs(**data)).numpy()[0]
    after = model.generator(masking.Inputs(**changed)).numpy()[0]
    difference = np.abs(after - before).max(-1)
    assert difference[5] < 1e-6
    assert (np.delete(difference, 5) > 1e-6).all()


def test_generator_and_discriminator_drop_out_apart():
    # Of one size and with tied weights, two networks on the same input.
    model = build(**OBJECTIVES["tied"], masked_token_prob=0.0)
    outputs = model(
        features(),
        noise(model.config, 3)._replace(sample=tf.zeros([3, 3])),
        dropout_seed=tf.constant([1, 2]),
        return_layers=True,
    )
    np.testing.assert_array_equal(
        outputs["masked_inputs"].input_ids, features()["input_ids"]
    )
    generator = outputs["generator_outputs"]["embedding_output"]
    discriminator = outputs["discriminator_outputs"]["embedding_output"]
    unchanged = outputs["fake_data"].is_fake_tokens.numpy() == 0
    difference = np.abs(generator - discriminator).max(-1)
    assert (difference[unchanged] > 0).mean() > 0.5


# Gradient-disentangled embeddings.


def test_disentangled_words_are_the_generators_plus_a_difference():
    model, shared = build(**OBJECTIVES["disentangled"]), build()
    delta = model.electra.embeddings.word_embeddings_delta
    assert not np.any(delta.numpy())
    drawn = noise(model.config, 3)
    # With no difference yet, the losses are those of shared embeddings.
    of_model = {v.path: v for v in model.variables}
    for variable in shared.variables:
        of_model[variable.path].assign(variable)
    before, after = shared(features(), drawn), model(features(), drawn)
    loss = float(before["total_loss"])
    assert float(after["total_loss"]) == pytest.approx(loss, rel=1e-6)
    delta.assign(tf.random.stateless_normal(delta.shape, [1, 2]))
    after = model(features(), drawn)
    np.testing.assert_array_equal(
        after["mlm_output"].logits, before["mlm_output"].logits
    )
    moved = after["disc_output"].logits - before["disc_output"].logits
    assert np.abs(moved).max() > 1e-3


def test_disentangled_words_learn_from_the_generator_alone():
    model = build(**OBJECTIVES["disentangled"])
    embeddings = model.electra.embeddings
    tables = [embeddings.word_embeddings, embeddings.word_embeddings_delta]
    with tf.GradientTape(persistent=True) as tape:
        outputs = model(features(), noise(model.config, 3))

    def learns(name):
        loss = outputs[name].loss
        gradients = tape.gradient(loss, [table.value for table in tables])
        return [
            g is not None and np.any(tf.convert_to_tensor(g)) for g in gradients
        ]

    assert learns("mlm_output") == [True, False]
    assert learns("disc_output") == [False, True]
