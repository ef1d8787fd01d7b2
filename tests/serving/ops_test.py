"""Tests of serving/server_files.py."""

import sys

import pytest
import tensorflow as tf
import tensorflow_text as tf_text

from electra_tf.serving import server_files
from tests import notices


def save(function, folder) -> str:
    module = tf.Module()
    module.call = tf.function(
        function, input_signature=[tf.TensorSpec([None], tf.string, "text")]
    )
    tf.saved_model.save(
        module, str(folder), signatures={"serving_default": module.call}
    )
    return str(folder)


def test_exported_ops_are_linked_by_the_server(exported):
    found = server_files.ops_of(exported.path)
    # Of the tokenizer, which is in a function, and of the model.
    assert found >= server_files.TEXT_OPS
    assert {"MatMul", "StaticRegexReplace", "VarHandleOp"} <= found
    assert server_files.foreign_ops(found) == []


def trim(text):
    tokens = tf.expand_dims(tf.strings.bytes_split(text), 0)
    trimmer = tf_text.RoundRobinTrimmer(3)
    return {"text": trimmer.trim([tokens[0], tokens[0]])[0].to_tensor()}


def upper(text):
    changed = tf.numpy_function(lambda x: x, [text], tf.string)
    return {"text": tf.ensure_shape(changed, [None])}


@pytest.mark.parametrize(
    ("function", "name"), [(trim, "RoundRobinTrim"), (upper, "PyFunc")]
)
def test_refuses_an_op_that_the_server_has_not(function, name, tmp_path):
    with pytest.raises(ValueError, match=f"TF-Text.*{name}"):
        server_files.check(save(function, tmp_path))


def test_goes_without_warm_up_where_its_messages_are_missing(
    tmp_path, monkeypatch
):
    for name in ("tensorflow_serving", "tensorflow_serving.apis"):
        monkeypatch.setitem(sys.modules, name, None)
    path = tmp_path / server_files.WARMUP_FILE
    with notices.heard() as lines:
        written = server_files.write_warmup_requests(
            str(path), "film", {"text": ["a"]}
        )
    assert written == [] and not path.exists()
    assert lines[0].startswith("without requests to warm a server up")
