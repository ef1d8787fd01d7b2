"""Tests of tools/benchmarks/reference_graph.py."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf import configs
from electra_tf.model import ablations, masking
from electra_tf.training import optimization, replicas
from tests import helpers
from tools.benchmarks import reference_graph

SPECIAL = masking.SpecialIds(helpers.CLS, helpers.SEP, helpers.MASK)
OPTIMIZER = configs.OptimizerConfig(1e-2, num_warmup_steps=2)


def build():
    keras.utils.set_random_seed(0)
    config = helpers.electra_config(
        helpers.encoder_config(initializer_range=0.5)
    )
    model = ablations.make_model(config, SPECIAL)
    weights = {v.path: v.numpy() for v in model.variables}
    reference = reference_graph.ReferenceGraph(
        config, OPTIMIZER, 10, SPECIAL, weights
    )
    return model, reference


def data():
    features = {k: tf.constant(v) for k, v in helpers.inputs(range(3)).items()}
    rng = np.random.default_rng(0)
    slots = (3, 3)
    noise = masking.Noise(
        *(
            tf.constant(rng.uniform(size=shape), tf.float32)
            for shape in (slots, slots, (*slots, len(helpers.VOCAB)))
        )
    )
    return features, noise


@pytest.mark.dear
def test_loss_and_gradients_are_those_of_the_model():
    model, reference = build()
    features, noise = data()
    with tf.GradientTape() as tape:
        expected = model(features, noise)["total_loss"]
    of_model = tape.gradient(
        expected, [v.value for v in model.trainable_variables]
    )
    with tf.GradientTape() as tape:
        found = reference.loss(features, noise)
    of_reference = tape.gradient(
        found, [reference.variables[v.path] for v in model.trainable_variables]
    )
    assert float(found) == pytest.approx(float(expected), rel=1e-5)
    for ours, theirs in zip(of_model, of_reference, strict=True):
        np.testing.assert_allclose(
            tf.convert_to_tensor(theirs), tf.convert_to_tensor(ours), atol=1e-4
        )


@pytest.mark.dear
def test_update_is_that_of_the_optimizer():
    model, reference = build()
    optimizer = optimization.AdamWeightDecay(OPTIMIZER, 10)
    optimizer.build(model.trainable_variables)
    variables = model.trainable_variables
    gradients = [tf.fill(v.shape, 0.5) for v in variables]
    optimizer.iterations.assign(1)
    optimizer.apply_summed(gradients, variables)
    clipped, _ = tf.clip_by_global_norm(gradients, OPTIMIZER.clip_norm)
    for variable, gradient in zip(variables, clipped, strict=True):
        reference._update(variable.path, gradient, reference.schedule(1))
        np.testing.assert_allclose(
            reference.variables[variable.path], variable.value, atol=1e-6
        )


@pytest.mark.dear
def test_it_trains_with_dropout():
    _, reference = build()
    features, _ = data()
    endless = tf.data.Dataset.from_tensors(features).repeat()
    iterator = iter(endless.with_options(replicas.UNTUNED))
    loss = reference.train(iterator, tf.constant(3))
    assert np.isfinite(float(loss))
    assert int(reference.global_step) == 3
