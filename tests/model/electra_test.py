"""Tests of model/electra.py."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.model import ablations, electra, losses, masking
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
ENCODER = [
    "embeddings/word_embeddings",
    "embeddings/token_type_embeddings",
    "embeddings/position_embeddings",
    "embeddings/LayerNorm/beta",
    "embeddings/LayerNorm/gamma",
    "embeddings_project/kernel",
    "embeddings_project/bias",
    "encoder/layer_0/attention/self/query/kernel",
    "encoder/layer_0/attention/self/query/bias",
    "encoder/layer_0/attention/self/key/kernel",
    "encoder/layer_0/attention/self/key/bias",
    "encoder/layer_0/attention/self/value/kernel",
    "encoder/layer_0/attention/self/value/bias",
    "encoder/layer_0/attention/output/dense/kernel",
    "encoder/layer_0/attention/output/dense/bias",
    "encoder/layer_0/attention/output/LayerNorm/beta",
    "encoder/layer_0/attention/output/LayerNorm/gamma",
    "encoder/layer_0/intermediate/dense/kernel",
    "encoder/layer_0/intermediate/dense/bias",
    "encoder/layer_0/output/dense/kernel",
    "encoder/layer_0/output/dense/bias",
    "encoder/layer_0/output/LayerNorm/beta",
    "encoder/layer_0/output/LayerNorm/gamma",
]
BESIDE_EMBEDDINGS = ENCODER[5:]
HEAD = [
    "dense/kernel",
    "dense/bias",
    "LayerNorm/beta",
    "LayerNorm/gamma",
    "output_bias",
]
DISCRIMINATOR_HEAD = [
    "dense/kernel",
    "dense/bias",
    "dense_1/kernel",
    "dense_1/bias",
]


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


def scoped(scope, names):
    return [f"{scope}/{name}" for name in names]


@pytest.mark.parametrize(
    ("objective", "expected"),
    [
        (
            "electra",
            scoped("electra", ENCODER)
            + scoped("generator", BESIDE_EMBEDDINGS)
            + scoped("generator_predictions", HEAD)
            + scoped("discriminator_predictions", DISCRIMINATOR_HEAD),
        ),
        (
            "untied_embeddings",
            # As wide as the generator: no projection.
            scoped("electra", ENCODER)
            + scoped("generator", ENCODER[:5] + ENCODER[7:])
            + scoped("generator_predictions", HEAD)
            + scoped("discriminator_predictions", DISCRIMINATOR_HEAD),
        ),
        (
            "tied",
            scoped("electra", ENCODER)
            + scoped("generator_predictions", HEAD)
            + scoped("discriminator_predictions", DISCRIMINATOR_HEAD),
        ),
        (
            "uniform",
            scoped("electra", ENCODER)
            + scoped("discriminator_predictions", DISCRIMINATOR_HEAD),
        ),
        (
            "masked_lm",
            scoped("electra", ENCODER) + scoped("generator_predictions", HEAD),
        ),
        (
            "electric",
            scoped("electra", ENCODER)
            + scoped("generator_ltr", BESIDE_EMBEDDINGS)
            + scoped("generator_rtl", BESIDE_EMBEDDINGS)
            + scoped("cloze_predictions", HEAD)
            + scoped("discriminator_predictions", DISCRIMINATOR_HEAD),
        ),
        (
            "electric_untied_embeddings",
            # A set of tables for each tower, as wide as the tower.
            scoped("electra", ENCODER)
            + scoped("generator_ltr", ENCODER[:5] + ENCODER[7:])
            + scoped("generator_rtl", ENCODER[:5] + ENCODER[7:])
            + scoped("cloze_predictions", HEAD)
            + scoped("discriminator_predictions", DISCRIMINATOR_HEAD),
        ),
    ],
)
def test_variables_have_the_names_of_the_original(objective, expected):
    model = build(**OBJECTIVES[objective])
    assert sorted(v.path for v in model.variables) == sorted(expected)
    assert len(model.trainable_variables) == len(expected)


def test_variable_shapes():
    shapes = {v.path: tuple(v.shape) for v in build().variables}
    assert shapes["generator/embeddings_project/kernel"] == (6, 4)
    assert shapes["generator/encoder/layer_0/intermediate/dense/kernel"] == (
        4,
        16,
    )
    assert shapes["generator_predictions/dense/kernel"] == (4, 6)
    assert shapes["generator_predictions/output_bias"] == (20,)
    assert shapes["discriminator_predictions/dense/kernel"] == (8, 8)
    assert shapes["discriminator_predictions/dense_1/kernel"] == (8, 1)


def test_variable_shapes_of_towers_with_tables_of_their_own():
    model = build(**OBJECTIVES["electric_untied_embeddings"])
    shapes = {v.path: tuple(v.shape) for v in model.variables}
    for tower in ("generator_ltr", "generator_rtl"):
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
    encoder = helpers.encoder_config(
        num_hidden_layers=1, hidden_act=hidden_act, initializer_range=0.5
    )
    model = build(encoder)
    x = tf.random.stateless_normal([1, 2, 8], [1, 2])
    head = model.discriminator_predictions
    activated = ACTIVATIONS[hidden_act](head.dense(x))
    np.testing.assert_allclose(
        head(x), head.dense_1(activated)[..., 0], atol=1e-6
    )
    # GELU's approximation is that of libraries whose generator's head has not.
    name = "gelu" if hidden_act == "gelu_new" else hidden_act
    head, x = model.generator_predictions, x[..., :4]
    activated = head.layer_norm(ACTIVATIONS[name](head.dense(x)))
    np.testing.assert_allclose(
        head(x),
        activated
        @ tf.transpose(model.electra.embeddings.word_embeddings.value),
        atol=1e-5,
    )


def loss_and_gradients(model, data, draws):
    with tf.GradientTape() as tape:
        outputs = model(data, draws)
    values = [v.value for v in model.trainable_variables]
    gradients = tape.gradient(outputs["total_loss"], values)
    return (
        outputs["total_loss"],
        [tf.convert_to_tensor(g) for g in gradients],
        outputs,
    )


@pytest.mark.parametrize(
    "objective",
    [
        name
        if name in ("electra", "masked_lm")
        else pytest.param(name, marks=pytest.mark.dear)
        for name in OBJECTIVES
    ],
)
def test_a_step_eagerly_and_compiled(objective):
    model = build(**OBJECTIVES[objective])
    data, draws = features(), noise(model.config, 3)
    loss, gradients, outputs = loss_and_gradients(model, data, draws)
    assert loss.shape == ()
    assert loss.dtype == tf.float32
    assert math.isfinite(float(loss))
    assert (outputs["discriminator_outputs"] is None) == (
        objective == "masked_lm"
    )
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
    for gradient, compiled_gradient in zip(
        gradients, compiled_gradients, strict=True
    ):
        np.testing.assert_allclose(compiled_gradient, gradient, atol=1e-4)


def test_dropout_makes_a_difference():
    model = build()
    data, draws = features(), noise(model.config, 3)

    def loss(seed):
        return float(model(data, draws, dropout_seed=seed)["total_loss"])

    assert loss(tf.constant([1, 2])) == loss(tf.constant([1, 2]))
    assert (
        len({loss(None), loss(tf.constant([1, 2])), loss(tf.constant([1, 3]))})
        == 3
    )


def test_bfloat16_keeps_losses_in_float32(mixed_bfloat16):
    model = build()
    outputs = model(features(), noise(model.config, 3))
    assert outputs["total_loss"].dtype == tf.float32
    assert outputs["mlm_output"].logits.dtype == tf.float32
    assert outputs["disc_output"].logits.dtype == tf.float32
    assert {v.dtype for v in model.variables} == {"float32"}


def test_the_loss_is_the_weighted_sum():
    model = build(gen_weight=2.0, disc_weight=3.0)
    outputs = model(features(), noise(model.config, 3))
    generator, discriminator = outputs["mlm_output"], outputs["disc_output"]
    assert float(outputs["total_loss"]) == pytest.approx(
        2 * float(generator.loss) + 3 * float(discriminator.loss)
    )


def test_an_untrained_model_knows_nothing():
    model = build()
    outputs = model(features(), noise(model.config, 3))
    # 20 tokens, 2 labels.
    assert float(outputs["mlm_output"].loss) == pytest.approx(
        math.log(20), abs=0.1
    )
    assert float(outputs["disc_output"].loss) == pytest.approx(
        math.log(2), abs=0.1
    )


def test_a_uniform_generator_has_the_loss_of_its_vocabulary():
    model = build(uniform_generator=True)
    outputs = model(features(), noise(model.config, 3))
    assert float(outputs["mlm_output"].loss) == pytest.approx(math.log(20))


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


def test_metrics_are_those_of_the_original():
    masked_lm = {"masked_lm_accuracy", "masked_lm_loss"}
    model = build(electra_objective=False)
    outputs = model(features(), noise(model.config, 3))
    assert set(model.metric_sums(outputs)) == masked_lm
    model = build()
    outputs = model(features(), noise(model.config, 3))
    assert set(model.metric_sums(outputs)) == masked_lm | {
        "sampled_masked_lm_accuracy",
        "disc_loss",
        "disc_auc",
        "disc_accuracy",
        "disc_precision",
        "disc_recall",
        "replaced_rate",
    }


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


def test_label_1_is_a_token_that_changed():
    # The first sample is the true token; the unused slot is ignored.
    fake = build()._get_fake_data(masked_inputs(), sure([13, 17, 9]), HALF)
    assert fake.sampled_ids.numpy().tolist() == [[13, 17, 9]]
    assert fake.inputs.input_ids.numpy().tolist() == [[2, 17, 12, 13, 3, 0]]
    assert fake.is_fake_tokens.numpy().tolist() == [[0, 1, 0, 0, 0, 0]]


def test_label_1_of_electric_is_every_sampled_token():
    model = build(**OBJECTIVES["electric"])
    fake = model._get_fake_data(masked_inputs(), sure([13, 17, 9]), HALF)
    assert fake.inputs.input_ids.numpy().tolist() == [[2, 17, 12, 13, 3, 0]]
    assert fake.is_fake_tokens.numpy().tolist() == [[0, 1, 0, 1, 0, 0]]


def test_the_true_token_can_be_disallowed():
    model = build(disallow_correct=True)
    logits = sure([13, 17, 9]) + 50.0 * tf.one_hot([[8, 8, 8]], 20)
    fake = model._get_fake_data(masked_inputs(), logits, HALF)
    assert fake.sampled_ids.numpy().tolist() == [[8, 17, 9]]
    assert fake.is_fake_tokens.numpy().tolist() == [[0, 1, 0, 1, 0, 0]]


def test_temperature_flattens_the_samples():
    # Token 0 has logit 3, the 19 others 0: 51 % of the mass, and 5 % of it at
    # temperature 100.
    logits = 3.0 * tf.one_hot([[0, 0, 0]], 20)
    cold = build()._get_fake_data(masked_inputs(), logits, HALF)
    hot = build(temperature=100.0)._get_fake_data(masked_inputs(), logits, HALF)
    assert cold.sampled_ids.numpy().tolist() == [[0, 0, 0]]
    assert hot.sampled_ids.numpy().tolist() == [[9, 9, 9]]


def test_gumbel_noise_is_taken_by_its_rank():
    uniform = np.full((1, 3, 20), 0.5, np.float32)
    uniform[0, :, 7] = 0.9
    fake = build()._get_fake_data(
        masked_inputs(), tf.zeros([1, 3, 20]), tf.constant(uniform)
    )
    assert fake.sampled_ids.numpy().tolist() == [[7, 7, 7]]


def test_masks_a_share_of_each_row():
    model = build(masked_token_prob=1.0)
    masked = model(features(), noise(model.config, 3))["masked_inputs"]
    # 12, 11 and 10 tokens times 0.25 are 3, 2.75 and 2.5: 3, 3 and 2.
    assert masked.masked_lm_weights.numpy().tolist() == [
        [1, 1, 1],
        [1, 1, 1],
        [1, 1, 0],
    ]
    ids, positions = (
        helpers.inputs([0, 1, 2])["input_ids"],
        (masked.masked_lm_positions.numpy()),
    )
    for row in range(3):
        used = positions[row][positions[row] > 0]
        assert (ids[row][used] > helpers.MASK).all()
        assert (masked.input_ids.numpy()[row][used] == helpers.MASK).all()
        others = np.setdiff1d(np.arange(LENGTH), used)
        assert (masked.input_ids.numpy()[row] == ids[row])[others].all()


def test_a_row_without_candidates_has_no_predictions():
    data = features([0, 1])
    empty = tf.constant([[2, 3] + [0] * 10])
    data = {
        "input_ids": tf.concat([data["input_ids"], empty], 0),
        "input_mask": tf.concat(
            [data["input_mask"], tf.cast(empty > 0, tf.int32)], 0
        ),
        "segment_ids": tf.concat([data["segment_ids"], 0 * empty], 0),
    }
    for objective in ("electra", "distinct"):
        model = build(**OBJECTIVES[objective])
        outputs = model(data, noise(model.config, 3))
        masked = outputs["masked_inputs"]
        assert masked.masked_lm_weights.numpy()[2].tolist() == [0, 0, 0]
        assert masked.input_ids.numpy()[2].tolist() == empty[0].numpy().tolist()
        assert math.isfinite(float(outputs["total_loss"]))


def test_distinct_positions_are_distinct():
    model = build(distinct_positions=True)
    for seed in range(5):
        masked = model(features(), noise(model.config, 3, seed))[
            "masked_inputs"
        ]
        positions = masked.masked_lm_positions.numpy()[0]
        assert len(set(positions.tolist())) == 3


# Words wa to we have the continuations wf to wo after them.
CONTINUES = np.arange(len(helpers.VOCAB)) >= 10


def test_masks_whole_words():
    keras.utils.set_random_seed(0)
    config = helpers.electra_config(
        ONE_LAYER, whole_word_masking=True, masked_token_prob=1.0, mask_prob=0.5
    )
    model = ablations.make_model(config, SPECIAL, CONTINUES)
    #       [CLS] wa ##  wb wc ##  ##  [SEP]
    ids = tf.constant([[2, 5, 10, 6, 7, 12, 13, 3] + [0] * 4])
    data = {
        "input_ids": ids,
        "input_mask": tf.cast(ids > 0, tf.int32),
        "segment_ids": tf.zeros_like(ids),
    }
    inputs = masking.Inputs(**data)
    masked = {
        tuple(
            np.flatnonzero(
                model.mask_inputs(inputs, draws).input_ids[0] == helpers.MASK
            )
        )
        for draws in (noise(config, 1, seed) for seed in range(30))
    }
    # Four of eight tokens, as whole words: two and one, or three and one.
    assert masked == {(1, 2, 3), (3, 4, 5, 6)}


def test_whole_words_need_the_vocabulary():
    model = build(whole_word_masking=True)
    with pytest.raises(ValueError, match="Expected continues_a_word"):
        model(features(), noise(model.config, 3))


def test_distinct_positions_do_not_outnumber_the_candidates():
    model = build(distinct_positions=True, mask_prob=0.5)
    # Four tokens of which two are words; 6 slots, 2 of them wanted.
    ids = tf.constant([[2, 7, 3, 3] + [0] * 8])
    data = {
        "input_ids": ids,
        "input_mask": tf.cast(ids > 0, tf.int32),
        "segment_ids": 0 * ids,
    }
    masked = model(data, noise(model.config, 1))["masked_inputs"]
    assert masked.masked_lm_positions.numpy().tolist() == [[1, 0, 0, 0, 0, 0]]
    assert masked.masked_lm_weights.numpy().tolist() == [[1, 0, 0, 0, 0, 0]]


def test_electric_adds_the_noise_odds():
    model = build(**OBJECTIVES["electric"])
    data = features([0])
    encoded = model.electra(**data)
    own = model.discriminator_predictions(encoded["sequence_output"])
    inputs = masking.Inputs(**data)
    labels = tf.zeros_like(inputs.input_ids)
    output = model._get_discriminator_output(
        {
            "masked_inputs": inputs,
            "generator_outputs": {"cloze_logits": tf.zeros([1, LENGTH, 20])},
            "fake_data": electra.FakeData(inputs, labels, labels),
            "discriminator_outputs": encoded,
        },
        losses.identity,
    )
    # log q = log 1/20 of a uniform generator, and log(0.25 / 0.75).
    np.testing.assert_allclose(
        output.logits, own + math.log(1 / 20) + math.log(1 / 3), rtol=1e-5
    )


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
    model = build(**OBJECTIVES["disentangled"])
    shared = build()
    delta = model.electra.embeddings.word_embeddings_delta
    assert not np.any(delta.numpy())
    drawn = noise(model.config, 3)
    # With no difference yet, the losses are those of shared embeddings.
    for variable in shared.variables:
        (same,) = (v for v in model.variables if v.path == variable.path)
        same.assign(variable)
    assert float(model(features(), drawn)["total_loss"]) == pytest.approx(
        float(shared(features(), drawn)["total_loss"]), rel=1e-6
    )
    delta.assign(tf.random.stateless_normal(delta.shape, [1, 2]))
    before = shared(features(), drawn)
    after = model(features(), drawn)
    np.testing.assert_array_equal(
        after["mlm_output"].logits, before["mlm_output"].logits
    )
    assert (
        np.abs(after["disc_output"].logits - before["disc_output"].logits).max()
        > 1e-3
    )


def test_disentangled_words_learn_from_the_generator_alone():
    model = build(**OBJECTIVES["disentangled"])
    embeddings = model.electra.embeddings
    drawn = noise(model.config, 3)
    with tf.GradientTape(persistent=True) as tape:
        outputs = model(features(), drawn)
    tables = [
        embeddings.word_embeddings.value,
        embeddings.word_embeddings_delta.value,
    ]
    of_generator = tape.gradient(outputs["mlm_output"].loss, tables)
    of_discriminator = tape.gradient(outputs["disc_output"].loss, tables)
    assert of_generator[1] is None
    assert np.any(tf.convert_to_tensor(of_generator[0]).numpy())
    assert np.any(tf.convert_to_tensor(of_discriminator[1]).numpy())
    words = of_discriminator[0]
    assert words is None or not np.any(tf.convert_to_tensor(words).numpy())
