"""Exports of every kind in TensorFlow's C++ runtime and saved_model_cli.

Not part of the default run: `make test-serving`.
"""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.checkpoints.formats import electra_tf_format
from electra_tf.serving import saved_model, server_files
from tests import helpers
from tests.checkpoints import models
from tests.serving import answers_test, native
from tests.serving.conftest import NASTY

CHECKPOINTS = {
    "classification": lambda: models.finetuned(),
    "regression": lambda: models.finetuned("regression", 1),
    "tagging": lambda: models.finetuned("tagging", 4),
    "question_answering": lambda: answers_test.checkpoint(answers_test.JOINT),
    "encoding": lambda: models.pretrained(),
    "replaced_token_detection": lambda: models.pretrained(),
}


def export(kind, folder):
    electra_tf_format.write(CHECKPOINTS[kind](), str(folder / "model"))
    return saved_model.export(
        str(folder / "model"), str(folder / "served"), kind=kind
    )


@pytest.mark.parametrize("kind", CHECKPOINTS)
def test_cpp_runtime_answers_as_python(kind, cpp_program, tmp_path):
    if cpp_program is None:
        pytest.skip("no C++ compiler here")
    path = export(kind, tmp_path)
    assert server_files.foreign_ops(server_files.ops_of(path)) == []
    signature = tf.saved_model.load(path).signatures["serving_default"]
    names = list(signature.structured_input_signature[1])
    texts = np.array([*NASTY, b"wa wb wc", b"wd, we."], object)
    inputs = dict.fromkeys(names, texts)
    expected = signature(**{k: tf.constant(v) for k, v in inputs.items()})
    found = native.ask(cpp_program, path, "serving_default", inputs, tmp_path)
    assert sorted(found) == sorted(expected)
    rows = np.arange(len(texts))
    if kind == "question_answering":
        # Equally good answers, of a text that repeats itself, are ordered by
        # the last bit.
        ties = -np.diff(expected["scores"].numpy()) < 1e-5
        is_answer = expected["starts"].numpy()[:, 1:] >= 0
        rows = rows[~(ties & is_answer).any(axis=1)]
        assert len(rows) > len(texts) // 2
    for name, values in expected.items():
        if values.dtype == tf.float32:
            np.testing.assert_allclose(found[name], values, atol=1e-5)
        else:
            np.testing.assert_array_equal(
                found[name][rows], values.numpy()[rows]
            )


def test_saved_model_cli(exported, tmp_path):
    # The command knows the ops of tensorflow_text once that is imported.
    program = (
        "import sys, tensorflow_text\n"
        "from tensorflow.python.tools import saved_model_cli\n"
        "sys.exit(saved_model_cli.main())\n"
    )
    subprocess.run(
        [
            *(sys.executable, "-c", program, "run"),
            *("--dir", exported.path, "--tag_set", "serve"),
            *("--signature_def", "serving_default"),
            *("--input_exprs", 'text=[b"wa wb", b""]'),
            *("--outdir", str(tmp_path)),
        ],
        check=True,
        env=helpers.environment(),
        capture_output=True,
    )
    signature = tf.saved_model.load(exported.path).signatures["serving_default"]
    expected = signature(text=tf.constant(["wa wb", ""]))
    np.testing.assert_allclose(
        np.load(tmp_path / "scores.npy"), expected["scores"], atol=1e-5
    )
    np.testing.assert_array_equal(
        np.load(tmp_path / "label.npy", allow_pickle=True), expected["label"]
    )
