"""A SavedModel as a server holds it: TF Serving's requests in, its answers out.

Refusals have the codes and, where it has one for the case, the words of TF
Serving (tensorflow_serving/servables/tensorflow/predict_util.cc and
classifier.cc), so that a client that handles them here handles them there.
"""

import glob
import logging
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
    predict_pb2,
    prediction_log_pb2,
    regression_pb2,
)

from electra_tf import errors
from electra_tf.inference import predictor
from electra_tf.serving import server_files, signatures

# Bytes of a request, over either interface.
MAX_REQUEST_SIZE = 1 << 26
# Characters of what a client is told: gRPC has 8 KB for it, percent-encoded.
_MAX_MESSAGE_LENGTH = 500
# A tensor may say in a few bytes that it has one value this many times.
_MAX_REPEATED = 1 << 20

_STATUS_CODES = {code.value[0]: code for code in grpc.StatusCode}


class ServingError(Exception):
    """What a client is told.

    Attributes:
      message: One line of UTF-8.
      code: The canonical code.
    """

    def __init__(
        self,
        message: str,
        code: grpc.StatusCode = grpc.StatusCode.INVALID_ARGUMENT,
    ):
        message = " ".join(as_utf8(message).split())
        if len(message) > _MAX_MESSAGE_LENGTH:
            message = message[:_MAX_MESSAGE_LENGTH] + "..."
        super().__init__(message)
        self.code = code
        self.message = message


def as_utf8(text: str) -> str:
    """Text as messages hold it: bytes that are no UTF-8 as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def refusal(error: Exception) -> ServingError:
    """What a client is told of any error, over either interface."""
    if isinstance(error, ServingError):
        return error
    if isinstance(error, tf.errors.OpError):
        return ServingError(
            errors.cause(error.message or str(error)),
            _STATUS_CODES.get(error.error_code, grpc.StatusCode.UNKNOWN),
        )
    if isinstance(error, RecursionError):
        return ServingError("JSON Parse error: nested too deeply")
    logging.getLogger(__name__).error("Unexpected", exc_info=error)
    return ServingError(
        f"{type(error).__name__}: {error}", grpc.StatusCode.INTERNAL
    )


class Servable:
    """The newest version below a folder.

    Its methods take and give the messages of TF Serving's interfaces, and raise
    ServingError or what TensorFlow raises: see `refusal`.

    Args:
      base_path: Where the versions 1, 2, ... are.
      name: What clients call the model; by default as its folder is called.

    Attributes:
      notes: Lines for the user: see `predictor.SavedModel`.
      path: Of the version.
      version: Its number.
      signatures: Name -> SignatureDef.

    Raises:
      ConfigError: If there is no version, or it has no signature.
    """

    def __init__(self, base_path: str, name: str | None = None):
        self.name = server_files.model_name(base_path, name)
        version = predictor.newest_version(base_path)
        if version is None:
            raise errors.ConfigError(
                "Expected a folder of the versions 1, 2, ... of a SavedModel. "
                f"Received: {base_path}, {_what_else(base_path)}"
            )
        self.version = version
        self._model: Any = predictor.SavedModel(base_path)
        self.notes = self._model.notes
        self.path = self._model.path
        (meta_graph,) = server_files.read_proto(self.path).meta_graphs
        self.signatures = {
            key: value
            for key, value in meta_graph.signature_def.items()
            if value.method_name
        }
        if not self.signatures:
            raise errors.ConfigError(
                "Expected a SavedModel with the signature "
                f"{signatures.DEFAULT}. Received: {self.path}, with no "
                "signature"
            )

    def predict(self, request):
        """Answers a PredictRequest with a PredictResponse."""
        self._check_spec(request.model_spec)
        name = request.model_spec.signature_name or signatures.DEFAULT
        outputs = self._run(name, request.inputs, request.output_filter)
        return predict_pb2.PredictResponse(
            model_spec=self._spec(name),
            outputs={k: tf.make_tensor_proto(v) for k, v in outputs.items()},
        )

    def classify(self, request):
        """Answers a ClassificationRequest with a ClassificationResponse."""
        outputs = self._run_examples(
            request, "classification", tf.saved_model.CLASSIFY_METHOD_NAME
        )
        response = classification_pb2.ClassificationResponse(
            model_spec=self._spec(request.model_spec.signature_name)
        )
        for row in zip(outputs["classes"], outputs["scores"], strict=True):
            response.result.classifications.add(
                classes=[
                    {"label": label.decode("utf-8"), "score": score}
                    for label, score in zip(*row, strict=True)
                ]
            )
        return response

    def regress(self, request):
        """Answers a RegressionRequest with a RegressionResponse."""
        outputs = self._run_examples(
            request, "regression", tf.saved_model.REGRESS_METHOD_NAME
        )
        return regression_pb2.RegressionResponse(
            model_spec=self._spec(request.model_spec.signature_name),
            result={"regressions": [{"value": v} for v in outputs["outputs"]]},
        )

    def metadata(self, request):
        """Answers a GetModelMetadataRequest: tells the signatures."""
        self._check_spec(request.model_spec)
        if set(request.metadata_field) != {"signature_def"}:
            raise ServingError(
                f"Metadata field {', '.join(request.metadata_field)} is not "
                "supported"
            )
        response = get_model_metadata_pb2.GetModelMetadataResponse(
            model_spec=self._spec()
        )
        response.metadata["signature_def"].Pack(
            get_model_metadata_pb2.SignatureDefMap(
                signature_def=self.signatures
            )
        )
        return response

    def status(self, request):
        """Answers a GetModelStatusRequest: the version is there."""
        self._check_spec(request.model_spec)
        response = get_model_status_pb2.GetModelStatusResponse()
        response.model_version_status.add(
            version=self.version,
            state=get_model_status_pb2.ModelVersionStatus.AVAILABLE,
            status={},
        )
        return response

    def warm_up(self) -> int:
        """Runs the warm-up requests beside the model; returns their number.

        Raises:
          ConfigError: If their file is damaged, or the model refuses one.
        """
        path = os.path.join(
            self.path, predictor.EXTRA_DIR, server_files.WARMUP_FILE
        )
        if not os.path.isfile(path):
            return 0
        number = 0
        try:
            for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
                log = prediction_log_pb2.PredictionLog.FromString(record)
                request = log.predict_log.request
                self._run(
                    request.model_spec.signature_name or signatures.DEFAULT,
                    request.inputs,
                )
                number += 1
        except (ServingError, tf.errors.OpError, DecodeError) as error:
            reason = getattr(error, "message", str(error))
            raise errors.ConfigError(
                f"Expected warm-up requests in {path}. Received, as number "
                f"{number + 1}: {errors.cause(reason)}"
            ) from None
        return number

    def _check_spec(self, spec: model_pb2.ModelSpec) -> None:
        choice = spec.WhichOneof("version_choice")
        wanted = f"Latest({spec.name})"
        if choice == "version":
            wanted = f"Specific({spec.name}, {spec.version.value})"
        if spec.name != self.name or (
            choice == "version" and spec.version.value != self.version
        ):
            raise ServingError(
                f"Servable not found for request: {wanted}",
                grpc.StatusCode.NOT_FOUND,
            )
        if choice == "version_label":
            raise ServingError(
                f"Unrecognized servable version label: {spec.version_label}"
            )

    def _spec(self, signature_name: str = "") -> model_pb2.ModelSpec:
        return model_pb2.ModelSpec(
            name=self.name,
            version={"value": self.version},
            signature_name=signature_name,
        )

    def _run(
        self,
        signature_name: str,
        inputs: Mapping[str, tensor_pb2.TensorProto],
        output_filter: Sequence[str] = (),
    ) -> dict[str, np.ndarray]:
        """Output name -> values: those of the filter, or all, sorted."""
        if signature_name not in self.signatures:
            raise ServingError(
                f'Serving signature key "{signature_name}" not found.',
                grpc.StatusCode.FAILED_PRECONDITION,
            )
        signature = self.signatures[signature_name]
        _check_names(signature, inputs, output_filter)
        tensors = {
            name: _tensor(name, value, signature.inputs[name])
            for name, value in inputs.items()
        }
        outputs = self._model.signatures[signature_name](**tensors)
        wanted = output_filter or sorted(outputs)
        return {name: outputs[name].numpy() for name in wanted}

    def _run_examples(
        self, request, kind: str, method_name: str
    ) -> dict[str, np.ndarray]:
        self._check_spec(request.model_spec)
        name = request.model_spec.signature_name or signatures.DEFAULT
        if name not in self.signatures:
            raise ServingError(f"No signature was found with the name: {name}")
        found = self.signatures[name].method_name
        if found != method_name:
            raise ServingError(
                f"Expected {kind} signature method_name to be {method_name}. "
                f"Was: {found}"
            )
        # One of the two lists is there, the other one is empty.
        with_context = request.input.example_list_with_context
        context = with_context.context.SerializeToString()
        serialized = [
            context + example.SerializeToString()  # Which merges them.
            for example in (
                *request.input.example_list.examples,
                *with_context.examples,
            )
        ]
        if not serialized:
            raise ServingError("Input is empty")
        return self._run(
            name, {"inputs": tf.make_tensor_proto(serialized, tf.string)}
        )


def _what_else(path: str) -> str:
    """What is at a path that has no versions, and what to do about it."""
    if os.path.isfile(
        os.path.join(path, tf.saved_model.SAVED_MODEL_FILENAME_PB)
    ):
        return (
            "one version itself: give the folder in which it is called 1, 2 or "
            "so on"
        )
    if glob.glob(os.path.join(glob.escape(path), "*.tflite")):
        return "which has files for LiteRT: add --runtime=litert"
    if os.path.isdir(path):
        what = "which has none"
    else:
        what = "a file" if os.path.exists(path) else "which does not exist"
    return f"{what}: export one with electra-tf export"


def _check_names(
    signature, inputs: Mapping, output_filter: Sequence[str]
) -> None:
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
    for i, name in enumerate(output_filter):
        if name not in signature.outputs:
            raise ServingError(
                f"output tensor alias not found in signature: {name} Outputs "
                f"expected to be in the set {listing(signature.outputs)}."
            )
        if name in output_filter[:i]:
            raise ServingError(f"duplicate output tensor alias: {name}")


def _tensor(name: str, value: tensor_pb2.TensorProto, info) -> tf.Tensor:
    """The input of that name, if it is what the signature says."""
    if value.dtype != info.dtype:
        raise ServingError(
            f"Expects {name} to be {_dtype_name(info.dtype)} but "
            f"{_dtype_name(value.dtype)} is provided"
        )
    shape = [dim.size for dim in value.tensor_shape.dim]
    rank = len(info.tensor_shape.dim)
    if len(shape) != rank:
        raise ServingError(
            f"Expects {name} to have rank {rank} but one of rank {len(shape)} "
            "is provided"
        )
    # Before memory is taken: every value that is there has a byte or more.
    if math.prod(shape) > max(value.ByteSize(), _MAX_REPEATED):
        raise ServingError(
            f"tensor parsing error: {name}: {value.ByteSize()} bytes for the "
            f"shape {shape}"
        )
    try:
        # As the server does it, odd dimensions and missing values included.
        return tf.io.parse_tensor(value.SerializeToString(), info.dtype)
    except tf.errors.InvalidArgumentError:
        raise ServingError(f"tensor parsing error: {name}") from None


def _dtype_name(number: int) -> str:
    try:
        return tf.as_dtype(number).name
    except TypeError:
        return f"unknown dtype enum ({number})"
