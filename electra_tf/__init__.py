"""ELECTRA in TensorFlow 2 and Keras 3, number for number the original.

For a notebook, in Keras's own terms:

    import electra_tf

    preprocessor = electra_tf.Preprocessor.from_checkpoint("hf://owner/name")

What is named here is imported when it is first asked for.
"""

import importlib

__version__ = "0.1.0"

# Name -> the module of `keras_models` that it is in.
_MODULES = {
    "Preprocessor": "preprocessor",
}

__all__ = [*_MODULES, "__version__"]  # noqa: PLE0604


def __getattr__(name: str):
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(
        f"{__name__}.keras_models.{_MODULES[name]}"
    )
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
