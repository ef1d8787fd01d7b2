"""What must show before TensorFlow is imported, which takes seconds."""

import json

import pytest

from tests import helpers

# In one process each: importing is what is tested.
_PROGRAM = """
import importlib, json, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
print(json.dumps([n for n in ("tensorflow", "keras") if n in sys.modules]))
"""


@pytest.mark.parametrize(
    "modules",
    [
        # A mistake in a gin file, or a flag, is said at once.
        ["electra_tf.run_pretraining", "electra_tf.run_finetuning"],
        ["electra_tf.__main__"],
        ["electra_tf.detect", "electra_tf.score", "electra_tf.predict"],
        ["electra_tf.finetuning.recipe"],
        ["electra_tf"],
    ],
    ids=" ".join,
)
def test_no_tensorflow_yet(modules):
    result = helpers.execute("-c", _PROGRAM, *modules)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == []
