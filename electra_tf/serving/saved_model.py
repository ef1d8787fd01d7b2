"""A checkpoint -> the next version of a SavedModel that answers raw strings.

Tokenization, truncation, padding and the label names are in the graph, so that
whoever serves it needs TensorFlow and the ops of tensorflow_text, but none of
this package.
"""

import os
import shutil
import tempfile

import tensorflow as tf

from electra_tf import files
from electra_tf.checkpoints import tensor_files
from electra_tf.inference import predictor
from electra_tf.model import task_head
from electra_tf.serving import (
    answer_signatures,
    exportable,
    kinds,
    server_files,
    signatures,
    text_signatures,
    token_signatures,
)

_MODELS: dict[str, type[signatures.ServedModel]] = {
    **dict.fromkeys(task_head.TEXT_KINDS, text_signatures.TextModel),
    "tagging": token_signatures.Tagger,
    "question_answering": answer_signatures.QuestionAnswerer,
    kinds.ENCODING: token_signatures.Encoder,
    kinds.DETECTION: token_signatures.Detector,
}


def make_served_model(source: exportable.Source) -> signatures.ServedModel:
    """The signatures of a model, by what it does."""
    return _MODELS[source.kind](source)


def export(model_dir: str, output_dir: str, **options) -> str:
    """Writes the next version of a SavedModel, and what its server needs.

    TF Serving polls for new versions, so it is written under another name and
    then renamed.

    Args:
      model_dir: What to export, as in `exportable.load`.
      output_dir: Holds the versions 1, 2, ...
      **options: Of `exportable.load`, such as `kind` or `has_pairs`.

    Returns:
      Path of the new version.

    Raises:
      ValueError: If there is no such model, or it cannot be exported.
    """
    files.refuse_signs(output_dir, "--output")
    with tempfile.TemporaryDirectory() as vocab_dir:
        source = exportable.load(model_dir, vocab_dir, **options)
        model = make_served_model(source)
        name = server_files.model_name(output_dir)
        with tensor_files.writing(output_dir):
            path = _save(model, source.metadata, output_dir, name)
    server_files.write(output_dir, name)
    return path


def _save(
    model: signatures.ServedModel, metadata: dict, output_dir: str, name: str
) -> str:
    os.makedirs(output_dir, exist_ok=True)
    temporary = os.path.join(output_dir, f"tmp-{os.getpid()}")
    try:
        tf.saved_model.save(model, temporary, signatures=model.signatures())
        server_files.check(temporary)
        extra = os.path.join(temporary, predictor.EXTRA_DIR)
        os.makedirs(extra, exist_ok=True)
        metadata = metadata | {
            "signatures": _describe_signatures(temporary),
            "git_commit": files.git_commit(),
            "versions": files.versions(
                ("tensorflow", "tensorflow-text", "keras")
            ),
            "warmup_requests": server_files.write_warmup_requests(
                os.path.join(extra, server_files.WARMUP_FILE),
                name,
                model.example_inputs(),
            ),
        }
        files.write_json(
            os.path.join(extra, predictor.METADATA_FILE),
            metadata,
            ensure_ascii=False,
        )
        return _rename_to_next_version(temporary, output_dir)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _rename_to_next_version(temporary: str, output_dir: str) -> str:
    while True:
        newest = max(predictor.numbered(output_dir), default=0)
        path = os.path.join(output_dir, str(newest + 1))
        try:
            os.rename(temporary, path)
            return path
        except OSError:
            # Another export may just have taken this number.
            if not os.path.exists(path):
                raise


def _describe_signatures(path: str) -> dict:
    """Names, types and shapes of inputs and outputs; None for any size."""

    def describe(tensors) -> dict:
        return {
            name: {
                "dtype": tf.as_dtype(tensors[name].dtype).name,
                "shape": tf.TensorShape(tensors[name].tensor_shape).as_list(),
            }
            for name in sorted(tensors)
        }

    (meta_graph,) = server_files.read_proto(path).meta_graphs
    return {
        name: {
            "inputs": describe(signature.inputs),
            "outputs": describe(signature.outputs),
        }
        for name, signature in sorted(meta_graph.signature_def.items())
        if signature.method_name
    }
