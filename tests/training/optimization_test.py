"""Tests of training/optimization.py."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf import configs
from electra_tf.model import encoder
from electra_tf.training import optimization
from tests import helpers, notices

# Round numbers, so that an update can be checked by hand.
ROUND = {
    "learning_rate": 0.1,
    "num_warmup_steps": 0,
    "weight_decay_rate": 0.25,
    "beta_1": 0.5,
    "beta_2": 0.75,
    "epsilon": 0.1,
    "clip_norm": 1.0,
}


def make(variables, num_train_steps=10, scales=None, merge=True, **changes):
    optimizer = optimization.AdamWeightDecay(
        configs.OptimizerConfig(**(ROUND | changes)),
        num_train_steps,
        scales,
        clip_norm_of_unmerged_rows=not merge,
    )
    optimizer.build(variables)
    return optimizer


def variable(value, name="kernel"):
    return keras.Variable(np.asarray(value, np.float32), name=name)


def constants(*values):
    return [tf.constant(value, tf.float32) for value in values]


@pytest.mark.parametrize(
    ("settings", "steps", "rates"),
    [
        # Linear decay from the start on, times 0, 1/2, 1, 1...
        ((1.0, 10, 2), (0, 1, 2, 5, 10, 12), (0.0, 0.45, 0.8, 0.5, 0.0, 0.0)),
        ((0.2, 10, 0), (0, 5), (0.2, 0.1)),
        ((1.0, 10, 0, 2.0), (5,), (0.25,)),
    ],
)
def test_schedule(settings, steps, rates):
    rate = optimization.WarmupPolynomialDecay(*settings)
    assert [float(rate(step)) for step in steps] == pytest.approx(rates)


def test_schedule_stays_at_its_peak_before_the_last_steps():
    rate = optimization.WarmupPolynomialDecay(1.0, 10, 2, 1.0, 4)
    found = [float(rate(step)) for step in range(12)]
    expected = [0, 0.5, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25, 0, 0]
    assert found == pytest.approx(expected)
    # Of another length it is the same until the first decay.
    longer = optimization.WarmupPolynomialDecay(1.0, 20, 2, 1.0, 4)
    assert [float(longer(step)) for step in range(7)] == found[:7]


def test_the_update_by_hand():
    w = variable(1.0)
    optimizer = make([w])
    norm = optimizer.apply_summed(constants(0.6), [w])
    # m = 0.5 * 0.6 = 0.3, v = 0.25 * 0.36 = 0.09; 0.3 / (0.3 + 0.1) = 0.75;
    # and 0.25 * 1 of decay: 1 - 0.1 * (0.75 + 0.25).
    assert float(norm) == pytest.approx(0.6)
    assert float(optimizer.adam_m[0]) == pytest.approx(0.3)
    assert float(optimizer.adam_v[0]) == pytest.approx(0.09)
    assert float(w) == pytest.approx(0.9)
    optimizer.apply_summed(constants(0.3), [w])
    # m = 0.5 * 0.3 + 0.5 * 0.3, v = 0.75 * 0.09 + 0.25 * 0.09, rate 0.09:
    # 0.9 - 0.09 * (0.75 + 0.25 * 0.9).
    assert float(optimizer.adam_m[0]) == pytest.approx(0.3)
    assert float(optimizer.adam_v[0]) == pytest.approx(0.09)
    assert float(w) == pytest.approx(0.81225)
    assert int(optimizer.iterations) == 2


def test_gradients_are_clipped_by_their_global_norm():
    a, b = variable(0.0), variable([0.0, 0.0])
    optimizer = make([a, b])
    norm = optimizer.apply_summed(constants(3.0, [0.0, 4.0]), [a, b])
    assert float(norm) == pytest.approx(5.0)
    # 3 / 5 and 4 / 5, halved.
    assert float(optimizer.adam_m[0]) == pytest.approx(0.3)
    assert optimizer.adam_m[1].numpy().tolist() == pytest.approx([0.0, 0.4])
    # What is smaller than clip_norm stays.
    optimizer = make([a], clip_norm=2.0)
    optimizer.apply_summed(constants(1.5), [a])
    assert float(optimizer.adam_m[0]) == pytest.approx(0.75)


def test_decay_leaves_biases_and_layer_norm():
    layer = encoder.LayerNorm(1)
    layer.build()
    kernel, bias = variable(1.0), variable(1.0, "bias")
    optimizer = make([kernel, bias, layer.gamma])
    optimizer.apply_summed(
        constants(0.0, 0.0, [0.0]), [kernel, bias, layer.gamma]
    )
    # 1 - 0.1 * 0.25 * 1.
    assert float(kernel) == pytest.approx(0.975)
    assert float(bias) == 1.0
    assert layer.gamma.numpy().tolist() == [1.0]


@pytest.mark.parametrize("scale", [0.0, 0.5, 2.0])
def test_word_embeddings_may_have_a_share_of_their_own(scale):
    embeddings = encoder.Embeddings(
        helpers.encoder_config(), is_disentangled=True
    )
    embeddings.build()
    variables = embeddings.trainable_variables
    before = {v.path: v.numpy() for v in variables}
    moved = {}
    for share in (1.0, scale):
        for v in variables:
            v.assign(before[v.path])
        scales = dict.fromkeys(before, 0.5)
        optimizer = make(variables, scales=scales, embeddings_lr_scale=share)
        optimizer.apply_summed([tf.ones(v.shape) for v in variables], variables)
        moved[share] = {v.path: v.numpy() - before[v.path] for v in variables}
    table = embeddings.word_embeddings.path
    for path, of_all in moved[1.0].items():
        is_words = path in (table, f"{table}_delta")
        np.testing.assert_allclose(
            *(moved[scale][path], scale * of_all if is_words else of_all),
            rtol=1e-4,
            atol=1e-6,
        )
    assert np.abs(moved[1.0][table]).min() > 0.0
    assert scale or not moved[scale][table].any()


@pytest.mark.parametrize("skips", [False, True])
def test_small_variables_together_are_updated_as_by_themselves(
    monkeypatch, skips
):
    rng = np.random.default_rng(1)
    names = ("kernel", "bias", "table", "gamma", "other")
    shapes = ([3, 2], [2], [2, 2, 2], [1], [5])
    first = [rng.normal(size=shape) for shape in shapes]
    gradients = [[rng.normal(size=s) for s in shapes] for _ in range(3)]
    if skips:
        gradients[1][0][0, 0] = np.inf
    found = {}
    # All at once but for the one with a rate of its own, then none.
    for least in (1000, 0):
        monkeypatch.setattr(optimization, "_LARGE", least)
        variables = [
            variable(x, name=n) for x, n in zip(first, names, strict=True)
        ]
        optimizer = make(variables, scales={"other": 0.5})
        optimizer.skips_non_finite_updates = skips
        for of_step in gradients:
            optimizer.apply_summed(constants(*of_step), variables)
        assert int(optimizer.iterations) == 3 - skips
        found[least] = [v.numpy() for v in (*variables, *optimizer.variables)]
    for together, alone in zip(*found.values(), strict=True):
        np.testing.assert_array_equal(together, alone)


def test_slots_have_the_names_of_the_original():
    a, b = variable(1.0, "a"), variable([1.0, 2.0], "b")
    slots = make([a, b]).slots()
    assert list(slots) == ["a/adam_m", "a/adam_v", "b/adam_m", "b/adam_v"]
    assert tuple(slots["b/adam_v"].shape) == (2,)


@pytest.mark.parametrize(("merge", "expected"), [(True, 7.0), (False, 5.0)])
def test_the_norm_of_words_that_occur_twice(merge, expected):
    embeddings = encoder.Embeddings(helpers.encoder_config(embedding_size=1))
    embeddings.build()
    table = embeddings.word_embeddings
    rows = tf.IndexedSlices(
        tf.constant([[3.0], [4.0]]), tf.constant([9, 9]), tf.constant([20, 1])
    )
    optimizer = make([table], merge=merge)
    assert float(optimizer.apply_summed([rows], [table])) == (
        pytest.approx(expected)
    )
    # The update takes the sum, clipped: 7 / norm, halved.
    moments = optimizer.adam_m[0].numpy()
    assert moments[9].tolist() == pytest.approx([3.5 / expected])
    assert np.count_nonzero(moments) == 1


@pytest.mark.parametrize(
    ("path", "exponent"),
    [
        ("task_specific/mnli/dense/kernel", 0),
        ("electra/encoder/layer_11/output/dense/kernel", 2),
        ("electra/encoder/layer_10/output/dense/kernel", 3),
        ("electra/encoder/layer_0/output/dense/kernel", 13),
        ("electra/embeddings/word_embeddings", 14),
        ("electra/embeddings_project/kernel", 14),
    ],
)
def test_layerwise_scale(path, exponent):
    scale = optimization.layerwise_scale(path, 12, 0.8)
    assert scale == pytest.approx(0.8**exponent)
    unscaled_top = optimization.layerwise_scale(path, 12, 0.8, False)
    assert unscaled_top == pytest.approx(0.8 ** max(0, exponent - 2))
    for decay in (-1.0, 0.0, 1.0):
        assert optimization.layerwise_scale(path, 12, decay) == 1.0


# LAMB.


def test_lamb_is_that_of_keras_where_nothing_decays():
    values = np.array([[0.5, -1.0], [2.0, 0.25]], np.float32)
    ours, of_keras = variable(values), variable(values)
    settings = {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-6}
    changes = {"weight_decay_rate": 0.0, "clip_norm": 1e9} | settings
    optimizer = make([ours], 10**9, optimizer="lamb", **changes)
    library = keras.optimizers.Lamb(learning_rate=0.1, **settings)
    for seed in range(5):
        gradient = np.random.default_rng(seed).normal(size=(2, 2))
        optimizer.apply_summed(constants(gradient), [ours])
        library.apply(constants(gradient), [of_keras])
        np.testing.assert_allclose(ours.numpy(), of_keras.numpy(), atol=1e-6)


def test_a_lamb_update_by_hand():
    kernel = variable([3.0, 4.0])
    bias = variable([3.0, 4.0], name="bias")
    optimizer = make([kernel, bias], optimizer="lamb", clip_norm=100.0)
    gradient = [0.6, 0.0]
    optimizer.apply_summed(constants(gradient, gradient), [kernel, bias])
    # m and v without bias are the gradient and its square: 0.6 / 0.7, and 0.25
    # of the weights decays: a step [0.857 + 0.75, 1], brought to the length 5.
    step = np.array([0.6 / 0.7 + 0.75, 1.0])
    step *= 5.0 / np.linalg.norm(step)
    np.testing.assert_allclose(
        kernel.numpy(), np.array([3.0, 4.0]) - 0.1 * step, rtol=1e-6
    )
    # Biases neither decay nor are they adapted.
    np.testing.assert_allclose(
        bias.numpy(), [3.0 - 0.1 * 0.6 / 0.7, 4.0], rtol=1e-6
    )


def test_lamb_leaves_a_weight_of_zeros_its_step():
    kernel = variable([0.0, 0.0])
    optimizer = make([kernel], optimizer="lamb")
    optimizer.apply_summed(constants([0.6, 0.0]), [kernel])
    np.testing.assert_allclose(
        kernel.numpy(), [-0.1 * 0.6 / 0.7, 0.0], rtol=1e-6
    )


@pytest.mark.parametrize(
    ("changes", "num_steps", "line", "enough"),
    [
        (
            {"num_warmup_steps": 10_000},
            *(24, "a warm-up of 10000 and a decay of 0 steps leave", 10_001),
        ),
        (
            {"warmup_proportion": 0.1},
            *(1, "a training of one step learns nothing", 2),
        ),
        (
            {
                "num_warmup_steps": 3,
                "schedule": configs.WARMUP_STABLE_DECAY,
                "num_decay_steps": 8,
            },
            *(10, "a warm-up of 3 and a decay of 8 steps leave nothing", 11),
        ),
    ],
)
def test_a_schedule_that_teaches_little_is_said(
    changes, num_steps, line, enough
):
    optimizer = configs.OptimizerConfig(1e-3, **changes)
    (said,) = notices.of(optimization.warn_of_schedule, optimizer, num_steps)
    assert said.startswith(line)
    assert not notices.of(optimization.warn_of_schedule, optimizer, enough)
