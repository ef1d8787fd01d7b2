"""Tests of keras_models/overrides.py."""

import keras
import pytest
import tensorflow as tf

import electra_tf
from tests.keras_models import tasks


class OtherCall(electra_tf.TextClassifier):
    def call(self, inputs, training=None):
        return 1.0 - super().call(inputs, training)


class OtherLoss(electra_tf.TextClassifier):
    def compute_loss(self, *args, **kwargs):
        return 2.0 * super().compute_loss(*args, **kwargs)


class OwnSteps(OtherCall):
    def train_step(self, data):
        return super().train_step(data)


class OtherPretraining(electra_tf.PretrainingModel):
    def compute_loss(self, *args, **kwargs):
        return 2.0 * super().compute_loss(*args, **kwargs)


def _classifier(cls, pretrained):
    return cls.from_checkpoint(pretrained, labels=tasks.LABELS)


@pytest.mark.parametrize(
    ("cls", "name"), [(OtherCall, "call"), (OtherLoss, "compute_loss")]
)
def test_what_fit_would_not_call_is_refused(pretrained, cls, name):
    model = _classifier(cls, pretrained)
    with pytest.raises(ValueError) as caught:
        model.fit(tasks.TEXTS, tasks.TARGETS, verbose=0)
    assert str(caught.value) == (
        f"Expected {cls.__name__} with a train_step beside its {name}, which "
        f"fit's own step would not call. Received: {name} without one"
    )
    # For what does not train.
    assert model.predict(tasks.TEXTS[:2], verbose=0).shape == (2, 2)


def test_a_pretraining_model_as_well(pretrained):
    model = OtherPretraining.from_checkpoint(pretrained)
    with pytest.raises(ValueError, match="beside its compute_loss"):
        model.compile()


def test_steps_of_its_own_are_a_subclasses_affair(pretrained):
    _classifier(OwnSteps, pretrained).compile()


def test_other_losses_are_added_to_one_of_keras_alone(pretrained):
    model = tasks.classifier(pretrained, dropout=0.0)
    kernel = model.network.task_specific.trainable_variables[0]
    kernel.regularizer = keras.regularizers.L2(1.0)
    with pytest.raises(ValueError, match="loss='auto' and 1 of them"):
        model.evaluate(tasks.TEXTS, tasks.TARGETS, verbose=0)
    losses = []
    for regularizer in (None, keras.regularizers.L2(1.0)):
        kernel.regularizer = regularizer
        model.compile(loss="sparse_categorical_crossentropy")
        losses.append(
            model.evaluate(
                tasks.TEXTS, tasks.TARGETS, batch_size=20, verbose=0
            )[0]
        )
    penalty = tf.reduce_sum(tf.square(kernel.value))
    assert losses[1] - losses[0] == pytest.approx(float(penalty), rel=1e-4)
