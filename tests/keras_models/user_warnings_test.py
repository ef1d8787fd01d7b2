"""Warnings name the line that called the package."""

import warnings

import keras

from electra_tf.keras_models import user_warnings


def _line_of(found) -> str:
    with open(found.filename, encoding="utf-8") as file:
        return file.read().splitlines()[found.lineno - 1].strip()


def test_a_call_by_itself():
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        user_warnings.warn("something")  # This line.
    assert [str(w.message) for w in found] == ["something"]
    assert _line_of(found[0]).endswith("# This line.")


def test_keras_and_this_package_lie_between():
    class Layer(keras.layers.Layer):
        def call(self, inputs):
            user_warnings.warn("in a layer")  # This line.
            return inputs

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        Layer()(keras.ops.zeros(1))
    assert _line_of(found[0]).endswith("# This line.")
