"""ELECTRA in TensorFlow 2 and Keras 3, compatible with the original.

For a notebook, in Keras's own terms:

    import electra_tf

    encoder = electra_tf.Encoder.from_checkpoint("hf://owner/name")

What is named here is imported when it is first asked for.
"""

import importlib

__version__ = "0.1.0"

# By its name, like all that follows: what is below it imports this module, too.
registration = importlib.import_module(f"{__name__}.keras_models.registration")

# Name -> its module.
_MODULES = {
    name: module
    for name, module in registration.CLASSES.items()
    if ".keras_models." in module
}

__all__ = [*_MODULES, "__version__"]  # noqa: PLE0604

registration.register()


def __getattr__(name: str):
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
