"""TF Serving's REST bodies <-> its messages.

https://www.tensorflow.org/tfx/serving/api_rest; refusals in the words of
tensorflow_serving/util/json_tensor.cc.
"""

import base64
import functools
import json
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf import json_format
from tensorflow.core.framework import tensor_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
    predict_pb2,
    regression_pb2,
)

from electra_tf import files
from electra_tf.serving import signatures
from electra_tf.serving.local_server.servable import (
    Servable,
    ServingError,
    as_utf8,
)

# Text is bytes: what is no UTF-8 passes through, as in the server.
_ERRORS = "surrogateescape"
# Half a pair, as JSON writes it, or one of two.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")

# What an element of a feature is called, where it is kept, and as what.
_ELEMENTS = {
    bool: ("int64_list", tf.int64),
    int: ("int64_list", tf.int64),
    float: ("float_list", tf.float32),
    str: ("bytes_list", tf.string),
    dict: ("bytes_list", tf.string),
}


def predict(
    spec: model_pb2.ModelSpec, body: bytes, servable: Servable
) -> bytes:
    """Answers :predict, in rows ("instances") or columns ("inputs")."""
    found = _parse(body, spec)
    name = spec.signature_name or signatures.DEFAULT
    if name not in servable.signatures:
        raise ServingError(
            f'Serving signature name: "{name}" not found in signature def'
        )
    has_rows = "instances" in found
    if has_rows == ("inputs" in found):
        raise _refused_value(
            found,
            "Not formatted correctly expecting only one of 'inputs' or "
            "'instances' keys to exist "
            if has_rows
            else "Missing 'inputs' or 'instances' key",
        )
    rows = _list_of(found, "instances") if has_rows else [found["inputs"]]
    inputs = _inputs(rows, has_rows, servable.signatures[name].inputs)
    response = servable.predict(
        predict_pb2.PredictRequest(model_spec=spec, inputs=inputs)
    )
    columns = {
        name: _plain(tf.make_ndarray(value), name.endswith("_bytes"))
        for name, value in sorted(response.outputs.items())
    }
    answer: dict | list = columns
    if len(columns) == 1:
        (answer,) = columns.values()
    elif has_rows:
        answer = [
            dict(zip(columns, row, strict=True))
            for row in zip(*columns.values(), strict=True)
        ]
    return dump({"predictions" if has_rows else "outputs": answer})


def classify(
    spec: model_pb2.ModelSpec, body: bytes, servable: Servable
) -> bytes:
    """Answers :classify."""
    request = classification_pb2.ClassificationRequest()
    _fill_examples(request, spec, body)
    results = []
    for row in servable.classify(request).result.classifications:
        scores = _floats(found.score for found in row.classes)
        labels = [found.label for found in row.classes]
        results.append(list(zip(labels, scores, strict=True)))
    return dump({"results": results})


def regress(
    spec: model_pb2.ModelSpec, body: bytes, servable: Servable
) -> bytes:
    """Answers :regress."""
    request = regression_pb2.RegressionRequest()
    _fill_examples(request, spec, body)
    regressions = servable.regress(request).result.regressions
    return dump({"results": _floats(found.value for found in regressions)})


def metadata(spec: model_pb2.ModelSpec, _: bytes, servable: Servable) -> bytes:
    """Answers with the signatures."""
    request = get_model_metadata_pb2.GetModelMetadataRequest(
        model_spec=spec, metadata_field=["signature_def"]
    )
    found = _as_dict(servable.metadata(request))
    del found["metadata"]["signature_def"]["@type"]
    return dump(found)


def status(spec: model_pb2.ModelSpec, _: bytes, servable: Servable) -> bytes:
    """Answers that the version is there."""
    request = get_model_status_pb2.GetModelStatusRequest(model_spec=spec)
    return dump(_as_dict(servable.status(request)))


def dump(content) -> bytes:
    """JSON as bytes; text that is no UTF-8 as it is."""
    text = json.dumps(content, indent=1, ensure_ascii=False)
    return text.encode("utf-8", _ERRORS)


# --- Requests -----------------------------------------------------------------


def _each_once(pairs: list[tuple[str, Any]]) -> dict:
    """An object of JSON. Of a name twice `json` would take the last, unsaid."""
    try:
        return files.each_once(pairs)
    except ValueError as error:
        raise ServingError(f"JSON Parse error: {error}") from None


def _parse(body: bytes, spec: model_pb2.ModelSpec) -> dict:
    """The JSON object in a body; the signature that it names goes to `spec`."""
    if not body:
        raise ServingError("JSON Parse error: The document is empty")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        text = body.decode("utf-8", _ERRORS)
        may_have_halves = False
    else:
        may_have_halves = bool(_SURROGATE.search(text))
    try:
        found = json.loads(text, object_pairs_hook=_each_once)
        # Halves would be taken for bytes that are no UTF-8.
        if may_have_halves:
            json.dumps(found, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise _half_a_pair() from None
    except json.JSONDecodeError as error:
        raise ServingError(
            f"JSON Parse error: {error.msg} at offset: {error.pos}"
        ) from None
    except ValueError:  # More than 4,300 digits.
        raise ServingError(
            "JSON Parse error: Number too big to be stored in double."
        ) from None
    if not isinstance(found, dict):
        raise _refused_value(found, "Is not object")
    name = found.get("signature_name", "")
    if not isinstance(name, str):
        raise _refused_value(
            found,
            "not formatted correctly. 'signature_name' key must be a string "
            "value.",
        )
    spec.signature_name = as_utf8(name)
    return found


def _half_a_pair() -> ServingError:
    return ServingError(
        "JSON Parse error: The surrogate pair in string is invalid."
    )


def _list_of(found: dict, key: str) -> list:
    if not isinstance(found[key], list):
        raise _refused_value(found, f"Expecting '{key}' to be an list/array")
    if not found[key]:
        raise _refused_value(found, f"No values in '{key}' array")
    return found[key]


def _inputs(
    rows: list, has_rows: bool, infos: Mapping
) -> dict[str, tensor_pb2.TensorProto]:
    """Inputs by name, of rows, or of one object with all of them."""
    dtypes = {name: tf.as_dtype(info.dtype) for name, info in infos.items()}
    columns: dict[str, list] = {name: [] for name in dtypes}
    has_names = _is_named(rows[0]) or len(dtypes) > 1
    for number, row in enumerate(rows):
        try:
            if has_names != _is_named(row):
                raise ServingError(
                    f"Expecting {'object' if has_names else 'value/list'} but "
                    f"got {_type_name(row)}"
                )
            if not has_names:
                row = dict.fromkeys(dtypes, row)
            missing = [name for name in dtypes if name not in row]
            if missing and not has_rows:
                raise ServingError(
                    f"Missing named input: {missing[0]} in 'inputs' object."
                )
            if set(row) != set(dtypes):
                raise ServingError(
                    f"JSON object: {_shown(row)} keys must be equal to: "
                    + ",".join(sorted(dtypes))
                )
            for name, dtype in dtypes.items():
                columns[name].append(_flat(row[name], dtype))
        except ServingError as error:
            if not has_rows:
                raise
            raise ServingError(
                f"Failed to process element: {number} of 'instances' list. "
                f"Error: INVALID_ARGUMENT: {error.message}"
            ) from None
    inputs = {}
    for name, parts in columns.items():
        shape, values = _stacked(parts) if has_rows else parts[0]
        inputs[name] = tf.make_tensor_proto(values, dtypes[name], shape)
    return inputs


def _is_named(value) -> bool:
    """Whether it is an object, not bytes that JSON cannot hold."""
    return isinstance(value, dict) and not (
        list(value) == ["b64"] and isinstance(value["b64"], str)
    )


def _flat(value, dtype: tf.DType) -> tuple[list[int], list]:
    """The shape of nested lists, and their values one behind the other."""
    if not isinstance(value, list):
        return [], [_scalar(value, dtype)]
    if any(isinstance(part, list) for part in value):
        return _stacked([_flat(part, dtype) for part in value])
    return [len(value)], [_scalar(part, dtype) for part in value]


def _stacked(parts: list[tuple[list[int], list]]) -> tuple[list[int], list]:
    first = parts[0][0] if parts else []
    for shape, _ in parts:
        if shape != first:
            raise ServingError(f"Expecting shape {first} but got: {shape}")
    return [len(parts), *first], [v for _, values in parts for v in values]


@functools.cache
def _range(dtype: tf.DType) -> tuple[type[Any], float, float]:
    """A type as Python's, its least and its greatest number."""
    if dtype == tf.string:
        return str, 0, 0
    if dtype.is_bool or dtype.is_integer:
        return bool if dtype.is_bool else int, dtype.min, dtype.max
    return float, float(dtype.min), float(dtype.max)


def _scalar(value, dtype: tf.DType):
    """A value of that type, as a message holds it."""
    python_type, least, greatest = _range(dtype)
    if python_type is str:
        if isinstance(value, str):
            try:
                return value.encode("utf-8", _ERRORS)
            except UnicodeEncodeError:
                raise _half_a_pair() from None
        if isinstance(value, dict) and not _is_named(value):
            coded = value["b64"]
            if "=" not in coded:  # As absl::Base64Unescape has it.
                coded += "=" * (-len(coded) % 4)
            try:
                return base64.b64decode(coded, validate=True)
            except ValueError:
                raise ServingError("Unable to base64 decode") from None
    elif python_type is float and type(value) in (int, float):
        if not greatest < abs(value) < math.inf:
            return value
    elif type(value) is python_type and least <= value <= greatest:
        return value
    raise _refused_value(
        value,
        f"Type: {_type_name(value)} is not of expected type: {dtype.name}",
    )


def _fill_examples(request, spec: model_pb2.ModelSpec, body: bytes) -> None:
    """Reads a :classify or :regress body."""
    found = _parse(body, spec)
    request.model_spec.CopyFrom(spec)
    examples = request.input.example_list.examples
    if "context" in found:
        with_context = request.input.example_list_with_context
        with_context.context.CopyFrom(_example(found["context"]))
        examples = with_context.examples
    if "examples" not in found:
        raise _refused_value(
            found,
            "When method is classify, key 'examples' is expected and was not "
            "found",
        )
    examples.extend(map(_example, _list_of(found, "examples")))


def _example(row) -> tf.train.Example:
    if not isinstance(row, dict):
        raise ServingError(
            "Example must be JSON object but got JSON " + _type_name(row)
        )
    example = tf.train.Example()
    for name, content in row.items():
        feature = example.features.feature[as_utf8(name)]
        for value in content if isinstance(content, list) else [content]:
            if type(value) not in _ELEMENTS or _is_named(value):
                raise ServingError(
                    f"Feature: {name} has element with unexpected JSON type: "
                    + _type_name(value)
                )
            kind, dtype = _ELEMENTS[type(value)]
            if feature.WhichOneof("kind") not in (None, kind):
                raise ServingError(
                    f"Unexpected element type in feature: {name} expecting "
                    "type: " + feature.WhichOneof("kind").partition("_")[0]
                )
            getattr(feature, kind).value.append(
                _scalar(int(value) if isinstance(value, bool) else value, dtype)
            )
    return example


# --- Answers ------------------------------------------------------------------


def _as_dict(response) -> dict:
    return json_format.MessageToDict(
        response,
        preserving_proto_field_name=True,
        always_print_fields_with_no_presence=True,
    )


def _plain(values: np.ndarray, as_base64: bool = False):
    """An array as nested lists of what JSON has."""
    if values.dtype == np.float32:
        # The shortest number that reads back as the same float32.
        values = values.astype("U").astype(np.float64)

    def convert(value):
        if isinstance(value, list):
            return [convert(part) for part in value]
        if as_base64:
            return {"b64": base64.b64encode(value).decode("ascii")}
        return value.decode("utf-8", _ERRORS)

    plain = values.tolist()
    return convert(plain) if values.dtype == object else plain


def _floats(values) -> list[float]:
    return _plain(np.fromiter(values, np.float32))


def _type_name(value) -> str:
    if isinstance(value, bool):
        return str(value)
    names = {dict: "Object", list: "Array", str: "String", type(None): "Null"}
    return names.get(type(value), "Number")


def _shown(value, most: int = 200) -> str:
    text = json.dumps(value)
    return text if len(text) <= most else text[:most] + "..."


def _refused_value(value, text: str) -> ServingError:
    return ServingError(f"JSON Value: {_shown(value)} {text}")
