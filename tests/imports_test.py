"""What must show before TensorFlow is imported, which takes seconds."""

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
