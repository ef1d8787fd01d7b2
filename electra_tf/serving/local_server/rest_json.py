"""TF Serving's REST bodies <-> arrays.

https://www.tensorflow.org/tfx/serving/api_rest; refusals in the words of
tensorflow_serving/util/json_tensor.cc.
"""

import base64
import binascii
import json
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from electra_tf.serving.local_server.servable import (
    INVALID_ARGUMENT,
    ServingError,
)

# Text is bytes: what is no UTF-8 passes through, as in the server.
_ERRORS = "surrogateescape"

_TYPE_NAMES = {
    dict: "Object",
    list: "Array",
    str: "String",
    int: "Number",
    float: "Number",
    type(None): "Null",
}


def _parse(body: bytes) -> tuple[dict, str]:
    """The JSON object in a request's body, and the signature that it names."""
    if not body:
        raise ServingError("JSON Parse error: The document is empty")
    try:
        found = json.loads(body.decode("utf-8", _ERRORS))
    except json.JSONDecodeError as error:
        raise ServingError(
            f"JSON Parse error: {error.msg} at offset: {error.pos}"
        ) from None
    except RecursionError:
        raise ServingError("JSON Parse error: nested too deeply") from None
    if not isinstance(found, dict):
        raise _refused_value(found, "Is not object")
    name = found.get("signature_name", "")
    if not isinstance(name, str):
        raise _refused_value(
            found,
            "not formatted correctly. 'signature_name' key must be a string "
            "value.",
        )
    return found, name


def parse_predict(
    body: bytes, signatures: Mapping
) -> tuple[str, dict[str, np.ndarray], bool]:
    """Reads the row format ("instances") or the columnar one ("inputs").

    Args:
      body: Of the request.
      signatures: Name -> SignatureDef.

    Returns:
      The signature's name, "" for the default one, its inputs by name, and
      whether the answer is to have the row format too.

    Raises:
      ServingError: If it does not fit.
    """
    found, name = _parse(body)
    wanted = name or tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
    if wanted not in signatures:
        raise ServingError(
            f'Serving signature name: "{wanted}" not found in signature def'
        )
    dtypes = {
        key: tf.as_dtype(info.dtype)
        for key, info in signatures[wanted].inputs.items()
    }
    if "instances" in found and "inputs" in found:
        raise _refused_value(
            found,
            "Not formatted correctly expecting only one of 'inputs' or "
            "'instances' keys to exist ",
        )
    if "instances" in found:
        rows = found["instances"]
        if not isinstance(rows, list):
            raise _refused_value(
                found, "Excepting 'instances' to be an list/array"
            )
        if not rows:
            raise _refused_value(found, "No values in 'instances' array")
        return name, _of_rows(rows, dtypes), True
    if "inputs" in found:
        return name, _of_columns(found["inputs"], dtypes), False
    raise ServingError("Missing 'inputs' or 'instances' key")


def _of_rows(rows: list, dtypes: Mapping) -> dict[str, np.ndarray]:
    has_names = _is_named(rows[0])
    if not has_names and len(dtypes) > 1:
        raise ServingError(
            "instances is a plain list, but expecting list of objects as "
            "multiple input tensors required as per tensorinfo_map"
        )
    columns: dict[str, list] = {name: [] for name in dtypes}
    for number, row in enumerate(rows):
        if has_names != _is_named(row):
            raise ServingError(
                f"Expecting object but got list at item {number} of input list"
                if has_names
                else f"Expecting value/list but got object at item {number} of "
                "input list"
            )
        if has_names and set(row) != set(dtypes):
            raise ServingError(
                f"Failed to process element: {number} of 'instances' list. "
                f"JSON object: {_shown(row)} keys must be equal to: "
                + ",".join(sorted(dtypes))
            )
        for name, dtype in dtypes.items():
            try:
                array = _array(row[name] if has_names else row, dtype)
                first = columns[name][0] if columns[name] else array
                if array.shape != first.shape:
                    raise ServingError(
                        f"Expecting shape {_shape(first)} but got: "
                        f"{_shape(array)}"
                    )
            except ServingError as error:
                key = f" key: {name}" if has_names else ""
                raise ServingError(
                    f"Failed to process element: {number}{key} of 'instances' "
                    f"list. Error: {INVALID_ARGUMENT}: {error.message}"
                ) from None
            columns[name].append(array)
    return {name: np.stack(arrays) for name, arrays in columns.items()}


def _of_columns(value, dtypes: Mapping) -> dict[str, np.ndarray]:
    if not _is_named(value):
        if len(dtypes) > 1:
            raise ServingError(
                "inputs is a plain value/list, but expecting an object as "
                "multiple input tensors required as per tensorinfo_map"
            )
        (name,) = dtypes
        return {name: _array(value, dtypes[name])}
    for name in dtypes:
        if name not in value:
            raise ServingError(
                f"Missing named input: {name} in 'inputs' object."
            )
    return {name: _array(value[name], dtypes[name]) for name in dtypes}


def _is_named(value) -> bool:
    return isinstance(value, dict) and not _is_base64(value)


def _is_base64(value) -> bool:
    return (
        isinstance(value, dict)
        and list(value) == ["b64"]
        and isinstance(value["b64"], str)
    )


def _array(value, dtype: tf.DType) -> np.ndarray:
    """A JSON value as an array of that type."""
    shape: list[int] = []
    level = value
    while isinstance(level, list):
        shape.append(len(level))
        level = level[0] if level else None
    flat: list = []

    def add(part, depth):
        if isinstance(part, list):
            if depth >= len(shape):
                raise ServingError(
                    f"Encountered list at unexpected level: {depth} expected "
                    f"< {len(shape)}"
                )
            if len(part) != shape[depth]:
                raise ServingError(
                    f"Encountered list at unexpected size: {len(part)} at "
                    f"level: {depth} expected size: {shape[depth]}"
                )
            for inner in part:
                add(inner, depth + 1)
            return
        if depth != len(shape):
            raise _refused_value(
                part,
                f"found at incorrect level: {depth + 1} in the JSON DOM. "
                f"Expected at level: {len(shape)}",
            )
        flat.append(_scalar(part, dtype))

    add(value, 0)
    return np.array(flat, dtype.as_numpy_dtype).reshape(shape)


def _scalar(value, dtype: tf.DType):
    if dtype == tf.string:
        if isinstance(value, dict):
            return _from_base64(value)
        if isinstance(value, str):
            return _encode(value)
    elif dtype.is_integer:
        limits = np.iinfo(dtype.as_numpy_dtype)
        if type(value) is int and limits.min <= value <= limits.max:
            return value
    elif dtype.is_floating:
        if type(value) in (int, float):
            return value
    elif dtype == tf.bool and type(value) is bool:
        return value
    raise _refused_value(
        value,
        f"Type: {_type_name(value)} is not of expected type: {dtype.name}",
    )


def _from_base64(value: dict) -> bytes:
    if not _is_base64(value):
        raise _refused_value(value, "not formatted correctly for base64 data")
    try:
        return base64.b64decode(value["b64"], validate=True)
    except (binascii.Error, ValueError):
        raise ServingError("Unable to base64 decode") from None


def _encode(text: str) -> bytes:
    try:
        return text.encode("utf-8", _ERRORS)
    except UnicodeEncodeError:
        raise ServingError(
            "JSON Parse error: The surrogate pair in string is invalid."
        ) from None


def parse_examples(
    body: bytes,
) -> tuple[str, list[tf.train.Example], tf.train.Example]:
    """Reads a :classify or :regress body.

    Returns:
      The signature's name, "" for the default one, the examples, and the
      context, whose features all of them have.

    Raises:
      ServingError: If it does not fit.
    """
    found, name = _parse(body)
    context = _example(found.get("context", {}))
    if "examples" not in found:
        raise _refused_value(
            found,
            "When method is classify, key 'examples' is expected and was not "
            "found",
        )
    rows = found["examples"]
    if not isinstance(rows, list):
        raise _refused_value(
            found, "Expecting 'examples' value to be an list/array"
        )
    if not rows:
        raise _refused_value(found, "'examples' value is an empty array")
    return name, [_example(row) for row in rows], context


def _example(row) -> tf.train.Example:
    if not isinstance(row, dict):
        raise ServingError(
            "Example must be JSON object but got JSON " + _type_name(row)
        )
    example = tf.train.Example()
    for name, content in row.items():
        feature = example.features.feature[_encode(name).decode("utf-8")]
        for value in content if isinstance(content, list) else [content]:
            kind, converted = _feature_value(name, value)
            if feature.WhichOneof("kind") not in (None, kind):
                raise ServingError(
                    f"Unexpected element type in feature: {name} expecting "
                    "type: " + feature.WhichOneof("kind").partition("_")[0]
                )
            getattr(feature, kind).value.append(converted)
    return example


def _feature_value(name: str, value):
    if isinstance(value, bool):
        return "int64_list", int(value)
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return "int64_list", value
    if isinstance(value, float):
        return "float_list", value
    if isinstance(value, str):
        return "bytes_list", _encode(value)
    if _is_base64(value):
        return "bytes_list", _from_base64(value)
    raise ServingError(
        f"Feature: {name} has element with unexpected JSON type: "
        + _type_name(value)
    )


def format_predictions(
    outputs: Mapping[str, np.ndarray], is_row_format: bool
) -> bytes:
    """The body of an answer to :predict, in the format of the request."""
    columns = {
        name: _plain(name, values) for name, values in sorted(outputs.items())
    }
    found: dict | list = columns
    if len(columns) == 1:
        (found,) = columns.values()
    elif is_row_format:
        found = [
            dict(zip(columns, row, strict=True))
            for row in zip(*columns.values(), strict=True)
        ]
    return dump({"predictions" if is_row_format else "outputs": found})


def format_classifications(outputs: Mapping[str, np.ndarray]) -> bytes:
    """The body of an answer to :classify."""
    classes = _plain("classes", outputs["classes"])
    scores = _plain("scores", outputs["scores"])
    return dump(
        {
            "results": [
                list(zip(*row, strict=True))
                for row in zip(classes, scores, strict=True)
            ]
        }
    )


def format_regressions(outputs: Mapping[str, np.ndarray]) -> bytes:
    """The body of an answer to :regress."""
    return dump({"results": _plain("outputs", outputs["outputs"])})


def dump(content) -> bytes:
    """JSON as bytes; text that is no UTF-8 as it is."""
    text = json.dumps(content, indent=1, ensure_ascii=False)
    return text.encode("utf-8", _ERRORS)


def _plain(name: str, values: np.ndarray):
    """An array as nested lists of what JSON has."""
    if values.dtype == object:

        def convert(value):
            if isinstance(value, list):
                return [convert(part) for part in value]
            if name.endswith("_bytes"):
                return {"b64": base64.b64encode(value).decode("ascii")}
            return value.decode("utf-8", _ERRORS)

        return convert(values.tolist())
    if values.dtype == np.float32:
        # The shortest number that reads back as the same float32.
        return values.astype("U").astype(np.float64).tolist()
    return values.tolist()


def _shape(array: np.ndarray) -> str:
    return f"[{','.join(map(str, array.shape))}]"


def _type_name(value) -> str:
    return _TYPE_NAMES.get(type(value)) or str(value)  # True or False.


def _shown(value, most: int = 200) -> str:
    text = json.dumps(value)
    return text if len(text) <= most else text[:most] + "..."


def _refused_value(value, message: str) -> ServingError:
    return ServingError(f"JSON Value: {_shown(value)} {message}")
