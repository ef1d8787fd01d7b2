"""Keras's own checks of a layer, for layers whose input is a dictionary.

In the manner of `keras.src.testing.TestCase.run_layer_test`, which gives the
entries of a dictionary as arguments.
"""

import keras
import numpy as np
from keras.src import testing

FLOAT_POLICIES = ("float32", "float64", "bfloat16", "float16")
POLICIES = (*FLOAT_POLICIES, "mixed_bfloat16", "mixed_float16")


def leaves(outputs) -> dict:
    """Path -> tensor of a nest of outputs."""
    return {
        "/".join(map(str, path)): x
        for path, x in keras.tree.flatten_with_path(outputs)
    }


def assert_same_bits(found, expected) -> None:
    found, expected = leaves(found), leaves(expected)
    assert found.keys() == expected.keys()
    for path, x in expected.items():
        # numpy has no equality of bfloat16.
        a, b = (keras.ops.convert_to_numpy(y) for y in (found[path], x))
        assert a.dtype == b.dtype, path
        assert a.tobytes() == b.tobytes(), path


def check_config(layer) -> None:
    """Config, JSON, pickling and attributes, as Keras checks them."""
    testing.TestCase().run_class_serialization_test(layer)


def _symbols(inputs) -> dict:
    return {
        name: keras.Input(
            x.shape[1:],
            dtype=keras.backend.standardize_dtype(x.dtype),
            name=name,
        )
        for name, x in inputs.items()
    }


def check_saving(layer, inputs, folder) -> None:
    """A .keras file, alone and within a functional model; weights alone."""
    expected = layer(inputs)
    symbols = _symbols(inputs)
    functional = keras.Model(symbols, layer(symbols))
    assert_same_bits(functional(inputs), expected)
    for model in (layer, functional):
        path = folder / f"{model.name}.keras"
        model.save(path)
        again = keras.models.load_model(path)
        assert_same_bits(again(inputs), expected)
        assert again.get_config() == model.get_config()
    path = folder / "of.weights.h5"
    layer.save_weights(path)
    fresh = type(layer).from_config(layer.get_config())
    assert not all(
        np.array_equal(a, b)
        for a, b in zip(fresh.get_weights(), layer.get_weights(), strict=True)
    )
    fresh.load_weights(path)
    assert_same_bits(fresh(inputs), expected)
