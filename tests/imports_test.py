"""What is imported when: TensorFlow takes seconds, and so does Keras."""

from tests import helpers

# In one process: importing is what is tested.
_PROGRAM = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
    assert not {"tensorflow", "keras"} & sys.modules.keys(), name
"""


def test_no_tensorflow_yet():
    doors = ("run_pretraining", "run_finetuning", "detect", "score", "predict")
    # A mistake in a gin file, or a flag, is said at once.
    modules = ("__main__", *doors, "finetuning.recipe")
    names = ("electra_tf", *(f"electra_tf.{name}" for name in modules))
    result = helpers.execute("-c", _PROGRAM, *names)
    assert result.returncode == 0, result.stderr


_COMMAND = """
import sys
from electra_tf.command_line import arguments

def work():
    import tensorflow  # It looks where Keras is, and imports it later.
    assert not {"matplotlib", "sklearn"} & sys.modules.keys()
    import keras, matplotlib, sklearn
    assert "electra_tf>Encoder" in keras.saving.get_custom_objects()

sys.exit(arguments.ended("a command", work))
"""


def test_keras_gets_our_classes_and_what_a_command_needs_of_others():
    result = helpers.execute("-c", _COMMAND)
    assert result.returncode == 0, result.stderr
