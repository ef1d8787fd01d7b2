"""TF Serving's REST interface: a WSGI application, and the server around it.

waitress reads requests and writes answers, within the limits below. What it
refuses itself comes out as JSON, too.
"""

import gzip
import http
import io
import re
import socket
import zlib

import grpc
import waitress
from tensorflow_serving.apis import model_pb2
from waitress import channel, parser, task

from electra_tf.serving.local_server import rest_json
from electra_tf.serving.local_server.servable import (
    MAX_REQUEST_SIZE,
    Servable,
    ServingError,
    refusal,
)

# tensorflow_serving/model_servers/http_rest_api_util.cc.
_ADDRESS = re.compile(
    r"/v1/models/([^/:]+)(?:/versions/([0-9]+)|/labels/([^/:]+))?([:/].*)?",
    re.IGNORECASE | re.DOTALL,
)
_INTERFACES = {
    ("POST", ":predict"): rest_json.predict,
    ("POST", ":classify"): rest_json.classify,
    ("POST", ":regress"): rest_json.regress,
    ("GET", "/metadata"): rest_json.metadata,
    ("GET", None): rest_json.status,
}

# HTTP status of each code, as the server has them.
_HTTP_STATUS = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.FAILED_PRECONDITION: 400,
    grpc.StatusCode.OUT_OF_RANGE: 400,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.UNIMPLEMENTED: 501,
    grpc.StatusCode.UNAVAILABLE: 503,
}

_LIMITS = {
    "max_request_body_size": MAX_REQUEST_SIZE,
    "max_request_header_size": 1 << 16,
    "connection_limit": 500,
    # Seconds without a byte, after which a connection is closed.
    "channel_timeout": 60,
    # select() would end the server at file descriptor 1,024.
    "asyncore_use_poll": True,
    "log_socket_errors": False,
}
_HEADERS = [("Content-Type", "application/json")]


class _TooLargeError(ServingError):
    """A request whose body is larger than requests may be."""


class RestApplication:
    """The REST interface as a WSGI application.

    Args:
      servable: The model.
    """

    def __init__(self, servable: Servable):
        self._servable = servable

    def __call__(self, environ, start_response):
        method = environ["REQUEST_METHOD"]
        path = environ["PATH_INFO"].encode("latin-1").decode("utf-8", "replace")
        try:
            body = environ["wsgi.input"].read()
            if environ.get("HTTP_CONTENT_ENCODING", "").lower() == "gzip":
                body = _inflate(body)
            body = self._answer(method, path, body)
            status = http.HTTPStatus.OK
        except _TooLargeError as error:
            body = rest_json.dump({"error": error.message})
            status = http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        except Exception as error:
            refused = refusal(error)
            body = rest_json.dump({"error": refused.message})
            status = http.HTTPStatus(_HTTP_STATUS.get(refused.code, 500))
        length = ("Content-Length", str(len(body)))
        start_response(f"{status.value} {status.phrase}", [*_HEADERS, length])
        return [] if method == "HEAD" else [body]

    def _answer(self, method: str, path: str, body: bytes) -> bytes:
        found = _ADDRESS.fullmatch(path)
        if not found or (method, found[4]) not in _INTERFACES:
            raise ServingError(
                f"Malformed request: {method} {path}",
                grpc.StatusCode.INVALID_ARGUMENT
                if path.lower().startswith("/v1/")
                else grpc.StatusCode.NOT_FOUND,
            )
        name, version, label, interface = found.groups()
        spec = model_pb2.ModelSpec(name=name, version_label=label)
        if version:
            # int() itself refuses more than 4,300 digits.
            if len(version) > 19 or int(version) >= 2**63:
                raise ServingError(
                    f"Failed to convert version: {version} to numeric."
                )
            spec.version.value = int(version)
        return _INTERFACES[method, interface](spec, body, self._servable)


def _inflate(body: bytes) -> bytes:
    try:
        with gzip.open(io.BytesIO(body)) as reader:
            inflated = reader.read(MAX_REQUEST_SIZE + 1)
    except (OSError, EOFError, zlib.error):
        raise ServingError(
            "Expected a body packed by gzip, as Content-Encoding says. "
            f"Received: {len(body)} bytes that cannot be unpacked"
        ) from None
    if len(inflated) > MAX_REQUEST_SIZE:
        raise _TooLargeError(
            f"Request Entity Too Large: exceeds {MAX_REQUEST_SIZE} bytes when "
            "unpacked"
        )
    return inflated


class _Parser(parser.HTTPRequestParser):
    """Refuses two kinds of requests that waitress 3.0 leaves unanswered."""

    path = ""  # Asked for where no request line could be read.

    def parse_header(self, header_plus):
        try:
            super().parse_header(header_plus)
        except ValueError as error:  # "http://[", lengths of 5,000 digits.
            raise parser.ParsingError(str(error)) from None

    def received(self, data):
        consumed = super().received(data)
        if self.completed:  # Nothing to wait for, whatever Expect: says.
            self.expect_continue = False
        return consumed


class _ErrorTask(task.ErrorTask):
    """waitress's own refusals, as JSON."""

    def execute(self):
        found = self.request.error
        body = rest_json.dump({"error": f"{found.reason}: {found.body}"})
        self.status = f"{found.code} {found.reason}"
        self.response_headers.extend(_HEADERS)
        self.content_length = len(body)
        self.set_close_on_finish()
        self.write(body)


class _Channel(channel.HTTPChannel):
    parser_class = _Parser
    error_task_class = _ErrorTask


def create_server(
    servable: Servable,
    listener: socket.socket,
    num_threads: int,
    sockets: dict,
):
    """The server, which answers when it is `run`, until no socket is left.

    Args:
      servable: The model.
      listener: A bound socket; the server's from then on.
      num_threads: Requests that are answered at once.
      sockets: Filled with all that the server waits for.
    """
    server = waitress.create_server(
        RestApplication(servable),
        map=sockets,
        sockets=[listener],
        threads=num_threads,
        **_LIMITS,
    )
    server.channel_class = _Channel
    return server
