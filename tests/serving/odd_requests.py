"""Odd requests to the local server, drawn from a seed, and how to ask them."""

import contextlib
import http.client
import json
import random
import socket
import typing

import grpc
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    predict_pb2,
    regression_pb2,
)

MODEL = "/v1/models/letters"
_SERVICE = "/tensorflow.serving.PredictionService/"

_METHODS = {
    _SERVICE + "Predict": predict_pb2.PredictRequest,
    _SERVICE + "Classify": classification_pb2.ClassificationRequest,
    _SERVICE + "Regress": regression_pb2.RegressionRequest,
    _SERVICE + "GetModelMetadata": (
        get_model_metadata_pb2.GetModelMetadataRequest
    ),
    "/tensorflow.serving.ModelService/GetModelStatus": (
        get_model_status_pb2.GetModelStatusRequest
    ),
}
# Of gRPC, beside OK.
_CODES = {
    "INVALID_ARGUMENT",
    "FAILED_PRECONDITION",
    "NOT_FOUND",
    "RESOURCE_EXHAUSTED",
    "UNIMPLEMENTED",
}


class OddRequest(typing.NamedTuple):
    """One request.

    Attributes:
      kind: What is odd about it.
      method: Of gRPC; "" over REST.
      data: What is sent.
      is_whole: False where a server may wait for the rest of a request (REST)
        or find no message in the bytes, which is INTERNAL (gRPC).
    """

    kind: str
    method: str
    data: bytes
    is_whole: bool = True


def draw(seed: int, number: int) -> list[OddRequest]:
    """That many requests, of each kind by turns."""
    random_ = random.Random(seed)
    kinds = (
        _mutated_body,
        _odd_json,
        _odd_examples,
        _odd_path,
        _odd_head,
        _odd_chunks,
        _odd_tensor,
        _odd_message,
        _mutated_message,
    )
    return [kinds[i % len(kinds)](random_) for i in range(number)]


# --- REST ---------------------------------------------------------------------

_BODIES = (
    b'{"instances": ["wa wb", "wc"]}',
    b'{"inputs": {"text": ["wa", {"b64": "d2E="}]}}',
    b'{"signature_name": "tokens", "instances": [{"input_ids": [2, 5, 3], '
    b'"input_mask": [1, 1, 1], "segment_ids": [0, 0, 0]}]}',
    b'{"signature_name": "serving_bytes", "context": {"text": "wa"}, '
    b'"examples": [{"text": "wa"}, {"text": ["wb"]}]}',
)
_VALUES = (
    b"null",
    b"true",
    b"-1",
    b"1e400",
    b"-1e38",
    b"1e39",
    b"NaN",
    b"-Infinity",
    b"1" * 19,
    b"9" * 400,
    b"9" * 5000,
    b"-" + b"9" * 4301,
    b'""',
    b'"wa"',
    b'"\xff\xfe"',
    b'"\\ud800"',
    b'"\\u0000wa"',
    b"[]",
    b"{}",
    b'[["wa"], "wb"]',
    b'{"b64": "d2E="}',
    b'{"b64": "\xc3\xa9"}',
    b'{"b64": 1}',
    b'{"\xff": "wa"}',
    b'{"\\udcff": 1}',
    b'{"\\ud800": 1}',
    b'{"text": "wa", "text": ["wb"]}',
    b'{"text": {"text": {}}}',
    b"[" * 65 + b"1" + b"]" * 65,
    b"[" * 300 + b'"wa"' + b"]" * 300,
    b'{"text": ' + b"[" * 980 + b"]" * 980 + b"}",
    b"[" * 1500 + b"]" * 1500,
    b'{"text":' * 990 + b"1" + b"}" * 990,
    b"[" * 50_000,
)
_KEYS = (b"instances", b"inputs", b"examples", b"context", b"signature_name")


def _post(interface: str, body: bytes) -> bytes:
    head = f"POST {MODEL}:{interface} HTTP/1.1\r\nHost: x\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _mutate(random_: random.Random, data: bytes) -> bytes:
    found = bytearray(data)
    parts = [b"", b"[", b"}", b'"', b"\x00", b"\xff", b"9"]
    for _ in range(random_.randint(1, 4)):
        place = random_.randrange(len(found) + 1)
        end = min(len(found), place + random_.randint(0, 3))
        found[place:end] = random_.choice([*parts, random_.randbytes(2)])
    return bytes(found)


def _mutated_body(random_: random.Random) -> OddRequest:
    body = _mutate(random_, random_.choice(_BODIES))
    interface = random_.choice(["predict", "predict", "classify", "regress"])
    return OddRequest("body", "", _post(interface, body))


def _odd_json(random_: random.Random) -> OddRequest:
    first, second = random_.sample(_VALUES, 2)
    body = random_.choice(
        [
            b'{"%s": %s, "instances": %s}'
            % (random_.choice(_KEYS), first, second),
            b'{"instances": [%s, %s]}' % (first, second),
            b'{"inputs": {"text": %s}}' % first,
            b'{"instances": [{"text": %s}]}' % first,
            b'{"signature_name": "tokens", "inputs": {"input_ids": %s, '
            b'"input_mask": %s, "segment_ids": [[0]]}}' % (first, second),
            first,
        ]
    )
    return OddRequest("json", "", _post("predict", body))


def _odd_examples(random_: random.Random) -> OddRequest:
    first, second = random_.sample(_VALUES, 2)
    name = b'{"signature_name": "serving_bytes", '
    body = random_.choice(
        [
            name
            + b'"examples": [{"text": %s}, {"text": "wa", "more": %s}]}'
            % (first, second),
            name + b'"examples": [%s], "context": %s}' % (first, second),
            name + b'"examples": [{"\xff\xc3": "wa"}, %s]}' % first,
            b'{"examples": %s}' % first,
        ]
    )
    return OddRequest("examples", "", _post("classify", body))


def _odd_path(random_: random.Random) -> OddRequest:
    path = random_.choice(
        [
            "/",
            "//",
            "/v1/models",
            "/v1/models/",
            "/v1/models/other",
            MODEL + "/metadata",
            MODEL + "/METADATA/",
            MODEL + "/versions/" + "9" * random_.choice([1, 19, 20, 5000]),
            MODEL + "/versions/%C2%B2",
            MODEL + "/versions/%D9%A1",
            MODEL + "/labels/stable",
            MODEL + "/versions/1/labels/stable:predict",
            MODEL + ":guess",
            MODEL + ":PREDICT",
            "/v1/models/%FF%FE",
            "/v1/models/%ED%A0%80:predict",
            "/v1/models/let%74ers",
            "/v1/models/a%2Fb:predict",
            "/v1/models/a%0Ab",
            MODEL + "%00",
            MODEL + "?x=%FF#y",
            "/v1/models/" + "a" * 20_000,
            "http://x" + MODEL,
            "http://[" + MODEL,
            "*",
            "<html>",
        ]
    )
    method = random_.choice(
        ["GET", "GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "X"]
    )
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{{}}"
    )
    return OddRequest("path", "", head.encode())


_GET = f"GET {MODEL}".encode()
_PREDICT = f"POST {MODEL}:predict HTTP/1.1\r\n".encode()
_HEADS = (
    b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET \xff\xfe HTTP/1.1\r\n\r\n",
    b"GET http://[x HTTP/1.1\r\n\r\n",
    b"get / HTTP/1.1\r\n\r\n",
    _GET + b"\r\n\r\n",
    _GET + b" HTTP/9.9\r\n\r\n",
    _GET + b" HTTP/1.1\r\nno colon\r\n\r\n",
    _GET + b" HTTP/1.1\r\n folded: 1\r\n\r\n",
    _GET + b" HTTP/1.1\r\nA: \xff\x00\r\n\r\n",
    _GET + b" HTTP/1.1\r\nA: " + b"a" * 300_000 + b"\r\n\r\n",
    _GET + b" HTTP/1.1\r\nExpect: 100-continue\r\n\r\n",
    *(
        _PREDICT + expect + b"Content-Length: " + length + b"\r\n\r\n"
        for expect in (b"", b"Expect: 100-continue\r\n")
        for length in (
            b"-1",
            b"x",
            b"1e3",
            b"\xb2",
            b"1, 1",
            b"9" * 15,
            b"9" * 5000,
        )
    ),
)
_PARTS_OF_HEADS = (
    b"",
    b"GET",
    b"GET / HTTP/1.1\n\n",
    b"\r\n\r\n\r\n\r\n",
    _PREDICT + b"Content-Length: 40\r\n\r\n{",
)


def _odd_head(random_: random.Random) -> OddRequest:
    is_whole = random_.random() < 0.9
    heads = _HEADS if is_whole else _PARTS_OF_HEADS
    return OddRequest("head", "", random_.choice(heads), is_whole)


_CHUNKS = (
    b"zz\r\n{}\r\n0\r\n\r\n",
    b"-2\r\n{}\r\n0\r\n\r\n",
    b"\xb2\r\n{}\r\n0\r\n\r\n",
    b"0x2\r\n{}\r\n0\r\n\r\n",
    b"2 \r\n{}\r\n0\r\n\r\n",
    b"2\r\n{}xx0\r\n\r\n",
    b"1\r\n{}\r\n0\r\n\r\n",
    b"2;\x00\r\n{}\r\n0\r\n\r\n",
    b"2\r\n{}\r\n0\r\n\r\n",
    b"0\r\n\r\n",
    b'f\r\n{"inputs": "a"}\r\n0\r\nA: b\r\n\r\n',
)
_PARTS_OF_CHUNKS = (b"2\r\n{", b"F" * 5000 + b"\r\nx", b"\n\n2\n{}")
_ENCODINGS = (
    b"chunked\r\nContent-Length: 5",
    b"chunked, gzip",
    b"gzip",
    b"identity",
    b"\x0bchunked",
)


def _odd_chunks(random_: random.Random) -> OddRequest:
    is_whole = random_.random() < 0.9
    encoding = b"chunked"
    if random_.random() < 0.3:
        encoding = random_.choice(_ENCODINGS)
    head = _PREDICT + b"Transfer-Encoding: " + encoding + b"\r\n\r\n"
    chunks = random_.choice(_CHUNKS if is_whole else _PARTS_OF_CHUNKS)
    return OddRequest("chunks", "", head + chunks, is_whole)


# --- gRPC ---------------------------------------------------------------------

_DTYPES = (7, 7, 7, 3, 3, 9, 0, 1, 20, 21, 107, 999, -5)
_DIMS = (0, 1, 2, 3, -1, -(2**63), 2**31, 2**40, 2**62, 10**9)
_TENSOR_VALUES = (
    {"string_val": [b"\xff"]},
    {"string_val": [b"wa", b"wb"]},
    {"int_val": [-1, 2**31 - 1]},
    {"int64_val": [-(2**63)]},
    {"float_val": [float("nan")]},
    {"half_val": [2**31 - 1]},
    {"bool_val": [True]},
    {"variant_val": [{"type_name": "x", "metadata": b"\xff"}]},
    {"resource_handle_val": [{"name": "x", "container": "y"}]},
    {"tensor_content": b"\x01"},
    {"tensor_content": b"\x01" * 80},
)
_FEATURES = (
    {"bytes_list": {"value": [b"wa", b"\xff"]}},
    {"bytes_list": {"value": [b"wa"]}},
    {"int64_list": {"value": [2**63 - 1]}},
    {"float_list": {"value": []}},
    {},
)


def _fill_spec(random_: random.Random, request) -> None:
    spec = request.model_spec
    spec.name = random_.choice(["letters"] * 6 + ["", "\x00", "x"])
    spec.signature_name = random_.choice(
        ["", "tokens", "serving_bytes", "no", "\u00e9" * 9000]
    )
    choice = random_.randrange(8)
    if choice == 0:
        spec.version.value = random_.choice([-1, 0, 2**63 - 1])
    elif choice == 1:
        spec.version_label = random_.choice(["", "stable"])


def _fill_tensor(
    random_: random.Random, tensor: tensor_pb2.TensorProto
) -> None:
    tensor.dtype = random_.choice(_DTYPES)
    for _ in range(random_.choice([0, 1, 1, 1, 2, 2, 3, 65, 255, 300])):
        tensor.tensor_shape.dim.add(size=random_.choice(_DIMS))
    tensor.tensor_shape.unknown_rank = random_.random() < 0.1
    tensor.version_number = random_.choice([0, 0, 0, -1, 99])
    for values in random_.sample(_TENSOR_VALUES, random_.randrange(3)):
        tensor.MergeFrom(tensor_pb2.TensorProto(**values))


def _odd_tensor(random_: random.Random) -> OddRequest:
    request = predict_pb2.PredictRequest()
    _fill_spec(random_, request)
    names = {
        "tokens": ["input_ids", "input_mask", "segment_ids"],
        "serving_bytes": ["inputs"],
    }.get(request.model_spec.signature_name, ["text"])
    if random_.random() < 0.2:
        names = random_.sample([*names, "", "\u00e9", "a" * 30_000], 1)
    for name in names:
        _fill_tensor(random_, request.inputs[name])
    request.output_filter.extend(
        random_.choice([[], [], ["label"], ["no"], ["label", "label"]])
    )
    return OddRequest(
        "tensor", _SERVICE + "Predict", request.SerializeToString()
    )


def _odd_message(random_: random.Random) -> OddRequest:
    method = random_.choice(list(_METHODS)[1:])
    request = _METHODS[method]()
    if random_.random() < 0.9:
        _fill_spec(random_, request)
    if hasattr(request, "metadata_field"):
        request.metadata_field.extend(
            random_.choice([[], ["x"], ["signature_def"] * 2, ["", "\x00\n"]])
        )
    elif hasattr(request, "input"):
        examples = request.input.example_list.examples
        if random_.random() < 0.5:
            with_context = request.input.example_list_with_context
            examples = with_context.examples
            feature = with_context.context.features.feature
            feature["text"].float_list.value.append(1)
        for _ in range(random_.randrange(3)):
            feature = examples.add().features.feature
            name = random_.choice(["text", "text", "", "\x00", "input_ids"])
            feature[name].MergeFrom(
                type(feature[name])(**random_.choice(_FEATURES))
            )
    return OddRequest("message", method, request.SerializeToString())


def _mutated_message(random_: random.Random) -> OddRequest:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "letters"
    request.inputs["text"].dtype = 7
    request.inputs["text"].tensor_shape.dim.add(size=2)
    request.inputs["text"].string_val.extend([b"wa", b"wb"])
    data = _mutate(random_, request.SerializeToString())
    method = random_.choice([*_METHODS, *[_SERVICE + "Predict"] * 5])
    return OddRequest("bytes", method, data, is_whole=False)


# --- Answers ------------------------------------------------------------------


def exchange(
    port: int, data: bytes, seconds: float
) -> tuple[http.client.HTTPResponse, bytes]:
    """Sends bytes to the REST port; the answer and its body."""
    with socket.create_connection(("127.0.0.1", port), seconds) as connection:
        # A server that has read enough answers and closes.
        with contextlib.suppress(OSError):
            connection.sendall(data)
        response = http.client.HTTPResponse(
            connection, method="HEAD" if data[:4] == b"HEAD" else None
        )
        response.begin()
        return response, response.read()


def rest_fault(port: int, request: OddRequest) -> str:
    """What is wrong with the answer to a REST request; "" if nothing is."""
    try:
        response, body = exchange(
            port, request.data, 30 if request.is_whole else 0.1
        )
    except (OSError, http.client.HTTPException) as error:
        return f"no answer: {error!r}" if request.is_whole else ""
    if response.getheader("Content-Type") != "application/json":
        return f"{response.status} {response.getheaders()} {body[:80]!r}"
    if request.data[:4] == b"HEAD":
        return ""
    try:
        answer = json.loads(body)
    except ValueError:
        return f"no JSON: {body[:80]!r}"
    if response.status == 200:
        return "" if "error" not in answer else f"200 with {answer}"
    if response.status == 500 or list(answer) != ["error"]:
        return f"{response.status} {answer}"
    if "\n" in answer["error"] or "Traceback" in answer["error"]:
        return answer["error"]
    return ""


def grpc_fault(channel: grpc.Channel, request: OddRequest) -> str:
    """What is wrong with the answer to a gRPC request; "" if nothing is."""
    allowed = _CODES if request.is_whole else _CODES | {"INTERNAL"}
    try:
        channel.unary_unary(request.method)(request.data, timeout=30)
    except grpc.RpcError as error:
        if error.code().name not in allowed or "\n" in error.details():
            return f"{error.code().name} {error.details()[:200]}"
    return ""
