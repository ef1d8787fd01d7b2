"""Answers TF Serving's REST requests on this machine, for development.

    electra-tf serve --model_base_path=models/served

A client can be written and tried with it where TF Serving's image cannot run:
`:predict` in rows and columns, and the model's status
(https://www.tensorflow.org/tfx/serving/api_rest), with TF Serving's codes. It
has one model, its newest version, no batching, and listens on this machine
only.
"""

import base64
import http
import json
import logging
import os
import re
import signal
import sys

import numpy as np

from electra_tf import errors
from electra_tf.command_line import arguments

HOST = "127.0.0.1"
_PATH = re.compile(r"/v1/models/([^/:]+)(?:/versions/([0-9]+))?(:predict)?")
# Python's types of the values of a tensor, by the kind of its NumPy dtype.
_VALUES = {"b": (bool,), "i": (int,), "u": (int,), "f": (int, float)}

_port = arguments.number(int, range(65536).__contains__, "a port below 65536")


class RequestError(Exception):
    """What a client is told, and the HTTP status."""

    def __init__(self, message: str, status: int = 400):
        super().__init__(message)
        self.status = status


class RestModel:
    """The newest version of a model as a WSGI application.

    Args:
      base_path: Folder of the versions.
      name: What clients call the model; by default its name in the server's
        configuration, or that of the folder.

    Attributes:
      name: Of the model.
      version: Its number.

    Raises:
      ValueError: If there is no such model.
    """

    def __init__(self, base_path: str, name: str | None = None):
        # Imports TensorFlow: late, so that --help is quick.
        from electra_tf.inference import predictor
        from electra_tf.serving import server_files

        self.name = name or server_files.model_name(base_path)
        version = predictor.newest_version(base_path)
        if version is None:
            raise errors.ConfigError(
                "Expected a folder of the versions 1, 2, ... of a SavedModel, "
                f"as electra-tf export writes it. Received: {base_path}"
            )
        self.version = version
        self._model = predictor.SavedModel(base_path)

    def __call__(self, environ, start_response):
        method = environ["REQUEST_METHOD"]
        path = environ["PATH_INFO"].encode("latin-1").decode(errors="replace")
        status = 200
        try:
            content = self._answer(method, path, environ["wsgi.input"].read())
            # Of numbers JSON has the finite ones alone.
            text = json.dumps(content, allow_nan=False, ensure_ascii=False)
        except Exception as error:
            status, message = _refusal(error)
            text = json.dumps({"error": " ".join(message.split())})
        body = text.encode()
        start_response(
            f"{status} {http.HTTPStatus(status).phrase}",
            [
                ("Content-Type", "application/json"),
                ("Content-Length", str(len(body))),
            ],
        )
        return [body]

    def _answer(self, method: str, path: str, body: bytes) -> dict:
        address = _PATH.fullmatch(path)
        verb = address and address[3]
        if not address or method != ("POST" if verb == ":predict" else "GET"):
            raise RequestError(
                f"Malformed request: {method} {path}",
                400 if path.startswith("/v1/") else 404,
            )
        name, version = address[1], address[2]
        if name != self.name or version not in (None, str(self.version)):
            asked = f"Latest({name})"
            if version:
                asked = f"Specific({name}, {version})"
            raise RequestError(f"Servable not found for request: {asked}", 404)
        if verb == ":predict":
            return self._predict(body)
        state: dict = {"version": str(self.version), "state": "AVAILABLE"}
        state["status"] = {"error_code": "OK", "error_message": ""}
        return {"model_version_status": [state]}

    def _predict(self, body: bytes) -> dict:
        try:
            request = json.loads(body)
        except ValueError as error:  # Bytes that are no UTF-8 among them.
            raise RequestError(f"JSON Parse error: {error}") from None
        in_rows = "instances" in request if isinstance(request, dict) else None
        if in_rows is None or in_rows == ("inputs" in request):
            raise RequestError(
                "Expected an object with one of the keys 'instances' (rows) "
                f"and 'inputs' (columns). Received: {_shown(request)}"
            )
        name = request.get("signature_name", "serving_default")
        if not isinstance(name, str) or name not in self._model.signatures:
            raise RequestError(
                f'Serving signature name: "{name}" not found in signature def'
            )
        signature = self._model.signatures[name]
        specs = signature.structured_input_signature[1]
        if in_rows:
            rows = request["instances"]
            if not isinstance(rows, list) or not rows:
                raise RequestError(
                    "Expected 'instances' to be a list of rows. Received: "
                    + _shown(rows)
                )
            named = [_by_name(row, specs) for row in rows]
            columns = {key: [row[key] for row in named] for key in specs}
        else:
            columns = _by_name(request["inputs"], specs)
        tensors = {k: _tensor(k, columns[k], specs[k]) for k in specs}
        outputs = signature(**tensors)
        answers = {key: _plain(outputs[key].numpy()) for key in sorted(outputs)}
        answer: dict | list = answers
        if len(answers) == 1:
            (answer,) = answers.values()
        elif in_rows:
            by_row = zip(*answers.values(), strict=True)
            answer = [dict(zip(answers, row, strict=True)) for row in by_row]
        return {"predictions" if in_rows else "outputs": answer}


def _refusal(error: Exception) -> tuple[int, str]:
    """The HTTP status of an error, and what the client is told."""
    if isinstance(error, RequestError):
        return error.status, str(error)
    if isinstance(error, RecursionError):
        return 400, "JSON Parse error: nested too deeply"
    # TensorFlow's, which is not imported here.
    if type(error).__name__ == "InvalidArgumentError":
        return 400, errors.first_line(error)
    logging.getLogger(__name__).error("Unexpected", exc_info=error)
    return 500, f"{type(error).__name__}: {errors.first_line(error)}"


def _shown(value) -> str:
    return json.dumps(value)[:200]


def _is_bytes(value) -> bool:
    return isinstance(value, dict) and list(value) == ["b64"]


def _by_name(value, names) -> dict:
    """All inputs by name; the only one may come without."""
    if len(names) == 1 and (not isinstance(value, dict) or _is_bytes(value)):
        return dict.fromkeys(names, value)
    if not isinstance(value, dict) or set(value) != set(names):
        raise RequestError(
            f"Expected the inputs {', '.join(names)}. Received: "
            + _shown(value)
        )
    return value


def _tensor(name: str, value, spec):
    """The input of that name, if it is what the signature says."""
    import tensorflow as tf

    rank, part = 0, value
    while isinstance(part, list):
        rank, part = rank + 1, part[0] if part else None
    if rank != spec.shape.rank:
        raise RequestError(
            f"Expects {name} to have rank {spec.shape.rank} but one of rank "
            f"{rank} is provided"
        )
    try:
        return tf.constant(_values(value, spec.dtype), spec.dtype)
    except (TypeError, ValueError) as error:
        raise RequestError(f"Input {name}: {error}") from None


def _values(value, dtype):
    """Nested lists with each value as a tensor of that type holds it."""
    if isinstance(value, list):
        return [_values(part, dtype) for part in value]
    if dtype.name == "string":
        if isinstance(value, str):
            return value.encode()
        if _is_bytes(value):
            return base64.b64decode(value["b64"], validate=True)
    elif type(value) in _VALUES[np.dtype(dtype.as_numpy_dtype).kind] and (
        dtype.is_bool or dtype.min <= value <= dtype.max
    ):
        return value
    raise ValueError(
        f"JSON Value: {_shown(value)} is not of expected type: {dtype.name}"
    )


def _plain(values: np.ndarray) -> list:
    """An array as nested lists of what JSON has."""
    if values.dtype == object:
        decode = np.vectorize(lambda b: b.decode(errors="replace"), [object])
        return decode(values).tolist()
    if values.dtype == np.float32:
        # The shortest number that reads back as the same float32.
        values = values.astype("U").astype(np.float64)
    return values.tolist()


def create_server(model: RestModel, port: int = 0):
    """A server on this machine, which answers while its `run` runs.

    Args:
      model: What it serves.
      port: 0 for any free one.

    Returns:
      waitress's server, `effective_port` of which is the port.

    Raises:
      ValueError: If the port is taken.
    """
    import waitress  # An extra.

    try:
        return waitress.create_server(
            model,
            host=HOST,
            port=port,
            threads=32,
            max_request_body_size=1 << 26,
            # select() would end the server at file descriptor 1,024.
            asyncore_use_poll=True,
        )
    except OSError as error:
        raise errors.ConfigError(
            f"Expected a free port (--rest_api_port). Received: {port}, "
            f"{error.strerror}"
        ) from None


def main(argv=None) -> int:
    """Parses the flags and serves until Ctrl-C; returns the exit code."""
    parser = arguments.ArgumentParser("electra-tf serve", __doc__)
    add, line = parser.add_argument, "directory of the versions"
    add("--model-base-path", required=True, help=line)
    parser.add_values(str, model_name="default: as --model_base_path is called")
    line = "0 for any free one (default: %(default)s)"
    add("--rest-api-port", type=_port, default=8501, help=line)
    return arguments.run(_serve, parser, argv)


def _serve(args) -> None:
    # What short texts want; read when TensorFlow's first operation runs.
    os.environ["TF_NUM_INTRAOP_THREADS"] = "1"
    # How many requests wait is no news.
    logging.getLogger("waitress").setLevel(logging.ERROR)
    # As Ctrl-C does it: what runs is answered.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    model = RestModel(args.model_base_path, args.model_name)
    server = create_server(model, args.rest_api_port)
    print(
        f"serving {model.name}, version {model.version}: http://{HOST}:"
        f"{server.effective_port}/v1/models/{model.name}; for development only",
        flush=True,
    )
    server.run()
    print("stopped")


if __name__ == "__main__":
    sys.exit(main())
