"""TF Serving's gRPC interface, by its own protos."""

import grpc
from tensorflow_serving.apis import (
    model_service_pb2_grpc,
    prediction_service_pb2_grpc,
)

from electra_tf.serving.local_server.servable import Servable, refusal


def add_to_server(servable: Servable, server: grpc.Server) -> None:
    """Registers PredictionService and ModelService.

    Args:
      servable: The model.
      server: Not started.
    """
    prediction = prediction_service_pb2_grpc.PredictionServiceServicer()
    prediction.Predict = _refusing(servable.predict)
    prediction.Classify = _refusing(servable.classify)
    prediction.Regress = _refusing(servable.regress)
    prediction.GetModelMetadata = _refusing(servable.metadata)
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        prediction, server
    )
    model = model_service_pb2_grpc.ModelServiceServicer()
    model.GetModelStatus = _refusing(servable.status)
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(model, server)


def _refusing(method):
    """A method of a service whose errors become the client's."""

    def answer(request, context: grpc.ServicerContext):
        try:
            return method(request)
        except Exception as error:
            refused = refusal(error)
        context.abort(refused.code, refused.message)

    return answer
