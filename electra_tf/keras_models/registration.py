"""Keras finds this package's classes in files, though nobody imported them.

`keras.models.load_model` looks classes up by the names under which they
registered, which they do when their modules are imported; `import electra_tf`
imports none of them. So stand-ins are registered in their places, once Keras
itself is imported. Nothing else is imported here.
"""

import importlib
import importlib.abc
import importlib.machinery
import sys

PACKAGE = "electra_tf"

# Name -> module, of what may stand in a .keras file.
CLASSES = {
    "Preprocessor": f"{PACKAGE}.keras_models.preprocessor",
    "Encoder": f"{PACKAGE}.keras_models.encoder",
    "PretrainingModel": f"{PACKAGE}.keras_models.pretraining_model",
    "AdamWeightDecay": f"{PACKAGE}.training.optimization",
    "TextClassifier": f"{PACKAGE}.keras_models.text_models",
    "TextRegressor": f"{PACKAGE}.keras_models.text_models",
    "TokenClassifier": f"{PACKAGE}.keras_models.token_classifier",
    "QuestionAnswerer": f"{PACKAGE}.keras_models.question_answerer",
    "FinetuningOptimizer": f"{PACKAGE}.keras_models.optimizers",
}


# Keras imports these for pictures and wrappers, which takes half as long as
# TensorFlow. It does without where a command says that it has no use for them.
_LEFT_OUT = ("matplotlib", "sklearn")
is_command = False


class _StandIn:
    """Makes objects of a class that is imported for the first of them."""

    def __init__(self, name: str):
        self.name = name

    def from_config(self, config):
        module = importlib.import_module(CLASSES[self.name])
        return getattr(module, self.name).from_config(config)


class _WithKeras(importlib.abc.MetaPathFinder):
    """Registers the stand-ins when Keras has been imported."""

    def find_spec(self, fullname, path, target=None):
        if fullname != "keras":
            return None
        # It may be asked more than once: TensorFlow looks where Keras is.
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def execute_and_register(module):
            sys.meta_path.remove(self)
            absent = set(_LEFT_OUT if is_command else ()) - sys.modules.keys()
            sys.modules.update(dict.fromkeys(absent))  # type: ignore
            execute(module)
            for name in absent:
                del sys.modules[name]
            register()

        spec.loader.exec_module = execute_and_register  # type: ignore
        return spec


def register() -> None:
    """Registers the classes, at once or with Keras."""
    keras = sys.modules.get("keras")
    if not hasattr(keras, "saving"):
        sys.meta_path.insert(0, _WithKeras())
        return
    registered = keras.saving.get_custom_objects()  # type: ignore
    for name in CLASSES:
        # Importing a module puts the class itself there.
        registered.setdefault(f"{PACKAGE}>{name}", _StandIn(name))
