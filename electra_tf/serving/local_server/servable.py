"""A SavedModel as a server holds it: requests in, answers or errors out.

Errors have the codes and, where it has one for the case, the words of TF
Serving (tensorflow_serving/servables/tensorflow/predict_util.cc and
classifier.cc), so that a client that handles them here handles them there.
"""

import os
import re
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from electra_tf import errors
from electra_tf.inference import predictor
from electra_tf.serving import server_files, signatures

# Canonical names of codes, as gRPC and TensorFlow have them.
INVALID_ARGUMENT = "INVALID_ARGUMENT"
FAILED_PRECONDITION = "FAILED_PRECONDITION"
NOT_FOUND = "NOT_FOUND"

_CODES = {
    tf.errors.INVALID_ARGUMENT: INVALID_ARGUMENT,
    tf.errors.RESOURCE_EXHAUSTED: "RESOURCE_EXHAUSTED",
    tf.errors.UNIMPLEMENTED: "UNIMPLEMENTED",
    tf.errors.INTERNAL: "INTERNAL",
}


class ServingError(Exception):
    """What a client is told.

    Attributes:
      message: One line.
      code: Canonical name.
    """

    def __init__(self, message: str, code: str = INVALID_ARGUMENT):
        super().__init__(message)
        self.code = code
        self.message = message


class Servable:
    """The newest version below a folder.

    Args:
      base_path: Where the versions 1, 2, ... are.
      name: What clients call the model; by default as its folder is called.

    Attributes:
      version: Number of the version.
      signatures: Name -> SignatureDef.

    Raises:
      ConfigError: If there is no version.
    """

    def __init__(self, base_path: str, name: str | None = None):
        self.name = server_files.model_name(base_path, name)
        version = predictor.newest_version(base_path)
        if version is None:
            raise errors.ConfigError(
                f"Expected versions 1, 2, ... of a SavedModel in {base_path}, "
                "found none: export one with tools/export_saved_model.py"
            )
        self.version = version
        self._model = predictor.SavedModel(
            os.path.join(base_path, str(version))
        )
        self.path = self._model.path
        (meta_graph,) = server_files.read_proto(self.path).meta_graphs
        self.signatures = {
            key: value
            for key, value in meta_graph.signature_def.items()
            if value.method_name
        }

    def check_spec(self, name: str, version: int | None = None) -> None:
        """Refuses requests for another model or version.

        Raises:
          ServingError: If it is not this one.
        """
        if name == self.name and version in (None, self.version):
            return
        wanted = f"Specific({name}, {version})"
        if version is None:
            wanted = f"Latest({name})"
        raise ServingError(
            f"Servable not found for request: {wanted}", NOT_FOUND
        )

    def predict(
        self,
        signature_name: str,
        inputs: Mapping[str, np.ndarray],
        output_filter: Sequence[str] = (),
    ) -> dict[str, np.ndarray]:
        """Answers one request.

        Args:
          signature_name: "" for the default one.
          inputs: Name -> values.
          output_filter: Outputs that are wanted; all without.

        Returns:
          Output name -> values, sorted by name.

        Raises:
          ServingError: If the request does not fit, or the model refuses it.
        """
        signature_name = signature_name or signatures.DEFAULT
        if signature_name not in self.signatures:
            raise ServingError(
                f'Serving signature key "{signature_name}" not found.',
                FAILED_PRECONDITION,
            )
        signature = self.signatures[signature_name]
        _check_inputs(signature, inputs)
        _check_filter(signature, output_filter)
        try:
            outputs = self._model.signatures[signature_name](
                **{name: tf.constant(value) for name, value in inputs.items()}
            )
        except tf.errors.OpError as error:
            raise ServingError(
                _first_cause(error.message or str(error)),
                _CODES.get(error.error_code, "UNKNOWN"),
            ) from None
        wanted = output_filter or sorted(outputs)
        return {name: outputs[name].numpy() for name in wanted}

    def run_examples(
        self,
        signature_name: str,
        examples: Sequence[tf.train.Example],
        method_name: str,
        context: tf.train.Example,
    ) -> dict[str, np.ndarray]:
        """Answers a request of the Classify or Regress interface.

        Args:
          signature_name: "" for the default one.
          examples: One for each answer.
          method_name: `tf.saved_model.CLASSIFY_METHOD_NAME` or
            `REGRESS_METHOD_NAME`.
          context: Features of all examples that do not have their own.

        Returns:
          Output name -> values.

        Raises:
          ServingError: As `predict`, and if the signature is not for that.
        """
        signature_name = signature_name or signatures.DEFAULT
        if signature_name not in self.signatures:
            raise ServingError(
                f"No signature was found with the name: {signature_name}"
            )
        found = self.signatures[signature_name].method_name
        if found != method_name:
            kind = (
                "classification"
                if method_name == tf.saved_model.CLASSIFY_METHOD_NAME
                else "regression"
            )
            raise ServingError(
                f"Expected {kind} signature method_name to be {method_name}. "
                f"Was: {found}"
            )
        if not examples:
            raise ServingError("Input is empty")
        serialized = []
        for example in examples:
            merged = tf.train.Example()
            merged.CopyFrom(context)
            merged.MergeFrom(example)
            serialized.append(merged.SerializeToString())
        return self.predict(
            signature_name, {"inputs": np.array(serialized, object)}
        )

    def warm_up(self) -> int:
        """Runs the warm-up requests beside the model; returns their number."""
        path = os.path.join(
            self.path, predictor.EXTRA_DIR, server_files.WARMUP_FILE
        )
        if not os.path.isfile(path):
            return 0
        from tensorflow_serving.apis import prediction_log_pb2

        number = 0
        for record in tf.data.TFRecordDataset(path):
            log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
            request = log.predict_log.request
            self.predict(
                request.model_spec.signature_name,
                {k: tf.make_ndarray(v) for k, v in request.inputs.items()},
            )
            number += 1
        return number


def _check_inputs(signature, inputs: Mapping[str, np.ndarray]) -> None:
    expected, received = set(signature.inputs), set(inputs)

    def listing(names) -> str:
        return "{" + ",".join(sorted(names)) + "}"

    if len(received) != len(expected):
        raise ServingError(
            "input size does not match signature: "
            f"{len(received)}!={len(expected)} len({listing(received)}) != "
            f"len({listing(expected)}). Sent extra: "
            f"{listing(received - expected)}. Missing but required: "
            f"{listing(expected - received)}."
        )
    for name in sorted(received - expected):
        raise ServingError(
            f"input tensor alias not found in signature: {name}. Inputs "
            f"expected to be in the set {listing(expected)}."
        )
    for name, value in inputs.items():
        wanted = tf.as_dtype(signature.inputs[name].dtype)
        found = tf.as_dtype(
            tf.string if value.dtype.kind in "OSU" else value.dtype
        )
        if found != wanted:
            raise ServingError(
                f"Expects {name} to be {wanted.name} but {found.name} is "
                "provided"
            )
        rank = len(signature.inputs[name].tensor_shape.dim)
        if value.ndim != rank:
            raise ServingError(
                f"Expects {name} to have rank {rank} but one of rank "
                f"{value.ndim} is provided"
            )


def _check_filter(signature, output_filter: Sequence[str]) -> None:
    for i, name in enumerate(output_filter):
        if name not in signature.outputs:
            expected = ",".join(sorted(signature.outputs))
            raise ServingError(
                f"output tensor alias not found in signature: {name} Outputs "
                f"expected to be in the set {{{expected}}}."
            )
        if name in output_filter[:i]:
            raise ServingError(f"duplicate output tensor alias: {name}")


def _first_cause(message: str) -> str:
    """What an op says, without where in the graph it stands."""
    text = re.split(r"\s*\[\[\{\{node", message)[0]
    text = text.rpartition("<stack traces unavailable>")[2]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(lines) or message
