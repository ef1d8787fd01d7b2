"""TF Serving's REST interface as a WSGI application."""

import re

import tensorflow as tf
from google.protobuf import json_format
from werkzeug import wrappers

from electra_tf.serving.local_server import rest_json
from electra_tf.serving.local_server.servable import Servable, ServingError

_PREDICTION = re.compile(
    r"/v1/models/([^/:]+)(?:/versions/(\d+))?:(classify|regress|predict)",
    re.IGNORECASE,
)
# What a prediction of examples is called in a SavedModel, and its answer.
_OF_EXAMPLES = {
    "classify": (
        tf.saved_model.CLASSIFY_METHOD_NAME,
        rest_json.format_classifications,
    ),
    "regress": (
        tf.saved_model.REGRESS_METHOD_NAME,
        rest_json.format_regressions,
    ),
}
_STATUS = re.compile(
    r"/v1/models/([^/:]+)(?:/versions/(\d+))?(/metadata)?", re.IGNORECASE
)

# HTTP status of each code, as the server has them.
_HTTP_STATUS = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 412,
    "NOT_FOUND": 404,
    "RESOURCE_EXHAUSTED": 429,
    "UNIMPLEMENTED": 501,
}


class RestApplication:
    """The REST interface as a WSGI application.

    Args:
      servable: The model.
    """

    def __init__(self, servable: Servable):
        self._servable = servable

    def __call__(self, environ, start_response):
        request = wrappers.Request(environ)
        try:
            body, status = self._answer(request), 200
        except ServingError as error:
            status = _HTTP_STATUS.get(error.code, 500)
            body = rest_json.dump({"error": error.message})
        response = wrappers.Response(
            body, status, content_type="application/json"
        )
        return response(environ, start_response)

    def _answer(self, request) -> bytes:
        if request.method == "POST":
            found = _PREDICTION.fullmatch(request.path)
            if found:
                name, version, method = found.groups()
                self._check_spec(name, version)
                return self._run(method.lower(), request.get_data())
        elif request.method == "GET":
            found = _STATUS.fullmatch(request.path)
            if found:
                name, version, wants_metadata = found.groups()
                self._check_spec(name, version)
                return self._metadata() if wants_metadata else self._status()
        raise ServingError(
            f"Malformed request: {request.method} {request.path}"
        )

    def _check_spec(self, name: str, version: str | None) -> None:
        self._servable.check_spec(
            name, None if version is None else int(version)
        )

    def _run(self, method: str, body: bytes) -> bytes:
        servable = self._servable
        if method == "predict":
            name, inputs, is_row_format = rest_json.parse_predict(
                body, servable.signatures
            )
            outputs = servable.predict(name, inputs)
            return rest_json.format_predictions(outputs, is_row_format)
        name, examples, context = rest_json.parse_examples(body)
        method_name, format_answer = _OF_EXAMPLES[method]
        return format_answer(
            servable.run_examples(name, examples, method_name, context)
        )

    def _metadata(self) -> bytes:
        return rest_json.dump(
            {
                "model_spec": {
                    "name": self._servable.name,
                    "signature_name": "",
                    "version": str(self._servable.version),
                },
                "metadata": {
                    "signature_def": {
                        "signature_def": {
                            name: json_format.MessageToDict(
                                signature, preserving_proto_field_name=True
                            )
                            for name, signature in sorted(
                                self._servable.signatures.items()
                            )
                        }
                    }
                },
            }
        )

    def _status(self) -> bytes:
        return rest_json.dump(
            {
                "model_version_status": [
                    {
                        "version": str(self._servable.version),
                        "state": "AVAILABLE",
                        "status": {"error_code": "OK", "error_message": ""},
                    }
                ]
            }
        )
