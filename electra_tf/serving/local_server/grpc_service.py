"""TF Serving's gRPC interface, by its own protos."""

import grpc
import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
    regression_pb2,
)

from electra_tf.serving import signatures
from electra_tf.serving.local_server.servable import Servable, ServingError


def add_to_server(servable: Servable, server: grpc.Server) -> None:
    """Registers PredictionService and ModelService.

    Args:
      servable: The model.
      server: Not started.
    """
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        _PredictionService(servable), server
    )
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(
        _ModelService(servable), server
    )


def _refusing(method):
    """A method of a service whose ServingErrors become the client's."""

    def answer(self, request, context):
        try:
            return method(self, request)
        except ServingError as error:
            context.abort(
                getattr(grpc.StatusCode, error.code, grpc.StatusCode.UNKNOWN),
                error.message,
            )

    return answer


class _Service:
    def __init__(self, servable: Servable):
        self._servable = servable

    def _check_spec(self, spec) -> None:
        has_version = spec.WhichOneof("version_choice") == "version"
        self._servable.check_spec(
            spec.name, spec.version.value if has_version else None
        )

    def _spec(self, signature_name: str = "") -> model_pb2.ModelSpec:
        return model_pb2.ModelSpec(
            name=self._servable.name,
            version={"value": self._servable.version},
            signature_name=signature_name,
        )


class _PredictionService(
    _Service, prediction_service_pb2_grpc.PredictionServiceServicer
):
    @_refusing
    def Predict(self, request):
        self._check_spec(request.model_spec)
        name = request.model_spec.signature_name or signatures.DEFAULT
        outputs = self._servable.predict(
            name,
            {key: _array(key, value) for key, value in request.inputs.items()},
            list(request.output_filter),
        )
        return predict_pb2.PredictResponse(
            model_spec=self._spec(name),
            outputs={k: tf.make_tensor_proto(v) for k, v in outputs.items()},
        )

    @_refusing
    def Classify(self, request):
        outputs = self._run_examples(
            request, tf.saved_model.CLASSIFY_METHOD_NAME
        )
        response = classification_pb2.ClassificationResponse(
            model_spec=self._spec(request.model_spec.signature_name)
        )
        for classes, scores in zip(
            outputs["classes"], outputs["scores"], strict=True
        ):
            row = response.result.classifications.add()
            for label, score in zip(classes, scores, strict=True):
                row.classes.add(label=label.decode("utf-8"), score=score)
        return response

    @_refusing
    def Regress(self, request):
        outputs = self._run_examples(
            request, tf.saved_model.REGRESS_METHOD_NAME
        )
        return regression_pb2.RegressionResponse(
            model_spec=self._spec(request.model_spec.signature_name),
            result={"regressions": [{"value": v} for v in outputs["outputs"]]},
        )

    @_refusing
    def GetModelMetadata(self, request):
        self._check_spec(request.model_spec)
        if list(request.metadata_field) != ["signature_def"]:
            raise ServingError(
                f"Metadata field {', '.join(request.metadata_field)} is not "
                "supported"
            )
        response = get_model_metadata_pb2.GetModelMetadataResponse(
            model_spec=self._spec()
        )
        response.metadata["signature_def"].Pack(
            get_model_metadata_pb2.SignatureDefMap(
                signature_def=self._servable.signatures
            )
        )
        return response

    def _run_examples(self, request, method_name: str):
        self._check_spec(request.model_spec)
        # One of the two lists is there, the other one is empty.
        with_context = request.input.example_list_with_context
        return self._servable.run_examples(
            request.model_spec.signature_name,
            [*request.input.example_list.examples, *with_context.examples],
            method_name,
            with_context.context,
        )


class _ModelService(_Service, model_service_pb2_grpc.ModelServiceServicer):
    @_refusing
    def GetModelStatus(self, request):
        self._check_spec(request.model_spec)
        response = get_model_status_pb2.GetModelStatusResponse()
        response.model_version_status.add(
            version=self._servable.version,
            state=get_model_status_pb2.ModelVersionStatus.AVAILABLE,
        )
        return response


def _array(name: str, value) -> np.ndarray:
    try:
        return tf.make_ndarray(value)
    except (TypeError, ValueError) as error:
        raise ServingError(f"tensor parsing error: {name}: {error}") from None
