"""Rules that a configuration's fields must keep, and the errors if they do not.

No TensorFlow is imported here, as in `configs`.
"""

import dataclasses
import json
import math
import os
import re
import reprlib
import sys
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence

from electra_tf import errors

# An int above it is no float.
_LARGEST = sys.float_info.max


def check_types(config) -> None:
    """gin accepts '128' for an int, so types are checked here.

    With them the rules that stand in a type, such as `Positive[int]`.

    Args:
      config: A dataclass; whole numbers among its floats become floats, whole
        floats among its ints become ints, and "~" becomes the home folder.

    Raises:
      ConfigError: If a value is of another type, or breaks the rule of its own.
    """
    owner = type(config).__name__
    hints = typing.get_type_hints(type(config))
    for field in dataclasses.fields(config):
        name, value = field.name, getattr(config, field.name)
        allowed = hints[name]
        if typing.get_origin(allowed) is tuple:
            _check_tuple(config, name, typing.get_args(allowed)[0])
            continue
        options = typing.get_args(allowed) or (allowed,)
        options = tuple(typing.get_origin(o) or o for o in options)
        is_number = type(value) is int
        if float in options and is_number and abs(value) <= _LARGEST:
            value = float(value)
        elif int in options and type(value) is float and value.is_integer():
            value = int(value)  # 1e6 steps
        elif isinstance(value, str):  # Globs are separated by commas.
            value = ",".join(map(os.path.expanduser, value.split(",")))
        object.__setattr__(config, name, value)
        if type(value) is int and int in options and abs(value) >= 2**63:
            raise errors.ConfigError(
                f"{owner}.{name} must be an int of 64 bits. Received: "
                f"{reprlib.repr(value)}"
            )
        is_bool = isinstance(value, bool)
        if not isinstance(value, options) or (is_bool and bool not in options):
            expected = " or ".join(
                "None" if o is type(None) else o.__name__ for o in options
            )
            raise errors.ConfigError(
                f"{owner}.{name} must be {expected}. Received: {value!r}"
            )
    hints = typing.get_type_hints(type(config), include_extras=True)
    for name, hint in hints.items():
        for rule in getattr(hint, "__metadata__", ()):
            rule(config, name)


def _check_tuple(config, name: str, kind: type) -> None:
    """Turns a list, one value or text with commas into a tuple."""
    value = getattr(config, name)
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    elif not isinstance(value, (list, tuple)):
        value = [value]
    if kind is float:
        value = [
            # Not a bool.
            float(v) if type(v) is int and abs(v) <= _LARGEST else v
            for v in value
        ]
    if not all(type(v) is kind for v in value):
        raise errors.ConfigError(
            f"{type(config).__name__}.{name} must be a list of "
            f"{kind.__name__}. Received: {getattr(config, name)!r}"
        )
    object.__setattr__(config, name, tuple(value))


def require(config, condition: bool, name: str, rule: str) -> None:
    """Raises a ConfigError with rule and value where a condition fails."""
    if not condition:
        raise errors.ConfigError(
            f"{type(config).__name__}.{name} must be {rule}. "
            f"Received: {name}={getattr(config, name)!r}"
        )


def _rule(rule: str, holds: Callable[[typing.Any], bool]) -> Callable:
    """What requires something of each of the named fields."""

    def check(config, *names: str) -> None:
        for name in names:
            require(config, holds(getattr(config, name)), name, rule)

    return check


# None is right where the type allows it.
require_positive = _rule("positive", lambda x: x is None or 0 < x < math.inf)
_require_fraction = _rule(
    "at least 0 and below 1", lambda x: x is None or 0.0 <= x < 1.0
)
_require_not_negative = _rule("0 or more", lambda x: not x or 0 < x < math.inf)

# Of paths that TensorFlow writes; it takes these signs for a glob's.
WITHOUT_SIGNS = "a path without [, ] and \\, which TensorFlow takes for signs"


def has_signs(path: str) -> bool:
    """Whether it is no `WITHOUT_SIGNS`."""
    return bool(set(path) & set("[]\\"))


def require_one_of(config, **choices: Sequence) -> None:
    """Requires that each named field has one of the values given for it."""
    for name, values in choices.items():
        rule = "one of " + ", ".join(str(value) for value in values)
        require(config, getattr(config, name) in values, name, rule)


def require_together(config, condition: bool, rule: str) -> None:
    """Raises a ConfigError with the values of several fields.

    Args:
      config: A dataclass; the fields are its own and those of its parts.
      condition: Whether they go together.
      rule: What is required, as a sentence without its full stop, in which all
        fields are named.

    Raises:
      ConfigError: If the condition fails.
    """
    if condition:
        return
    values = dict(vars(config))
    for part in vars(config).values():
        if dataclasses.is_dataclass(part):
            values = vars(part) | values
    words = dict.fromkeys(re.findall(r"[a-z]\w*", rule))
    received = [
        f"{word}={values[word]!r}"
        for word in words
        if word in values and not dataclasses.is_dataclass(values[word])
    ]
    raise errors.ConfigError(f"{rule}. Received: {', '.join(received)}")


def require_same(
    values: Mapping,
    before: Mapping,
    where: str,
    may_differ: Iterable[str] = (),
    way_out: str = "Choose another --model_dir, or the old values to continue "
    "that run",
) -> None:
    """Refuses to go on with what was begun otherwise.

    Args:
      values: Name -> value, as JSON has them, or such a mapping; a tuple equals
        a list, and None what is missing.
      before: Likewise, of what is there.
      where: Opens the message, such as "models/a holds another run's model".
      may_differ: Names that are not compared; "run" for all of "run.seed".
      way_out: Closes the message.

    Raises:
      ConfigError: If values differ; it names the first five, without those
        that are digests.
    """
    values = json.loads(json.dumps(values))
    names = [
        name if _is_digest(a) or _is_digest(b) else f"{name}={a!r} (was {b!r})"
        for name, a, b in differences(values, before)
        if not any(f"{name}.".startswith(f"{may}.") for may in may_differ)
    ]
    if names:
        more = f" and {len(names) - 5} more" if len(names) > 5 else ""
        raise errors.ConfigError(
            f"{where}. This run differs in: {', '.join(names[:5])}{more}. "
            f"{way_out}"
        )


def differences(
    values: Mapping, others: Mapping, prefix: str = ""
) -> list[tuple[str, object, object]]:
    """Names and values in which two mappings of mappings differ."""
    differing: list[tuple[str, object, object]] = []
    for name in sorted({*values, *others}):
        a, b = values.get(name), others.get(name)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            differing += differences(a, b, f"{prefix}{name}.")
        elif a != b:
            differing.append((prefix + name, a, b))
    return differing


def _is_digest(value: object) -> bool:
    return isinstance(value, str) and bool(re.fullmatch("[0-9a-f]{64}", value))


_T = typing.TypeVar("_T")
# Types of fields that say what their values must be.
Positive = typing.Annotated[_T, require_positive]
Fraction = typing.Annotated[_T, _require_fraction]
NotNegative = typing.Annotated[_T, _require_not_negative]
LocalFolder = typing.Annotated[
    _T,
    _rule("a path", bool),
    _rule(
        "a folder of this machine (a bucket can be mounted)",
        lambda path: "://" not in path,
    ),
    _rule(WITHOUT_SIGNS, lambda path: not has_signs(path)),
]
# That Keras and an int32 of TensorFlow can hold.
Seed = typing.Annotated[
    _T, _require_not_negative, _rule("less than 2**31", lambda x: x < 2**31)
]
