"""The messages of google.protobuf that expressions can construct: `google.protobuf.Int64Value{value: 5}` is 5.

All of them but Empty become values of other types at once. An Any is not unpacked: it is the error that cel-go has for
one of an unknown type.

Follows cel-go common/types/pb, interpreter evalObj, and ConvertToNative in common/types.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from registry.budget import spend
from registry.cel.common import types
from registry.cel.common.maps import Map
from registry.cel.common.times import SECOND, Duration, Timestamp, timestamp
from registry.cel.common.types import Type
from registry.cel.common.values import (
    INT_MAX,
    INT_MIN,
    EvalError,
    MapValue,
    Opaque,
    Optional,
    TypeValue,
    Uint,
    Value,
    elements,
    is_list,
    type_of,
)

_JSON_MAP: Final = types.map_of(types.STRING, types.DYN)
_JSON_LIST: Final = types.list_of(types.DYN)
_MAX_SAFE: Final = (1 << 53) - 1
# The value of this name is 0.
NULL_VALUE: Final = "google.protobuf.NullValue.NULL_VALUE"


class Empty(Opaque):
    """A message without fields."""

    __slots__ = ()

    type = TypeValue("google.protobuf.Empty")
    has_text = False

    def equals(self, other: Value) -> bool:
        return type(other) is Empty


@dataclass(frozen=True, slots=True)
class Message:
    """The type of an expression that constructs a message, the types and Go types of its fields, and how it is made."""

    type: Type
    fields: Mapping[str, tuple[Type, str]]
    make: Callable[[dict[str, Any]], Value]


def make_message(name: str, values: Mapping[str, Value]) -> Value:
    """Makes a message of MESSAGES. Raises EvalError for values that are dyn and of a wrong type, or out of range."""
    message = MESSAGES[name]
    return message.make({field: _field(name, field, message.fields[field][1], of) for field, of in values.items()})


def _field(name: str, field: str, go: str, value: Value) -> Any:
    if (go == "map" and not isinstance(value, MapValue)) or (go == "list" and not is_list(value)):
        raise EvalError(f"unsupported field type for {name}.{field}: {_type_text(value)}")
    try:
        return _native(value, go)
    except EvalError as error:
        raise EvalError(f"field type conversion error for {name}.{field} value type: {error}") from None


def _is_container(value: Value) -> bool:
    return is_list(value) or isinstance(value, MapValue)


def _type_text(value: Value) -> str:
    return "list(dyn)" if is_list(value) else "map(dyn, dyn)" if isinstance(value, MapValue) else type_of(value).name


def _native(value: Value, go: str) -> Any:
    """Converts to a Go type, of which the JSON types become CEL values again. Raises EvalError."""
    if type(value) is Optional:
        value = value.get()
    of = type(value)
    if of is int and go in ("int64", "int32"):
        return _within(value, -(1 << 31), 1 << 31, "integer overflow") if go == "int32" else value
    if of is Uint and go in ("uint64", "uint32"):
        return _within(value, 0, 1 << 32, "unsigned integer overflow") if go == "uint32" else value
    if of is float and go in ("float64", "float32"):
        return _float32(value) if go == "float32" else value
    if _PLAIN.get(go) is of:
        return value
    # Lists and maps of an object are read item by item, but are no JSON themselves.
    if go == "list" or (of is list and go in ("*structpb.ListValue", "*structpb.Value")):
        items = elements(value)
        spend(len(items))
        return [_native(item, "*structpb.Value") for item in items]
    if go == "map" or (of is Map and go in ("*structpb.Struct", "*structpb.Value")):
        spend(len(value))
        return Map.of(
            [(_native(key, "string"), _native(value.find(key), "*structpb.Value")) for key in value.all_keys()]
        )
    if go == "*structpb.Value":
        return _json(value)
    raise _unconvertible(value, go)


_PLAIN: Final = {"string": str, "bool": bool, "[]uint8": bytes}


def _within(value: int, low: int, high: int, error: str) -> int:
    if not low <= value < high:
        raise EvalError(error)
    return value


def _float32(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _json(value: Value) -> Value:
    """A scalar as JSON has it: an integer is a double, or a text where a double is not exact."""
    match value:
        case None | bool() | float() | str():
            return value
        case int():
            return float(value) if -_MAX_SAFE <= value <= _MAX_SAFE else str(int(value))
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case Duration() | Timestamp():
            return value.text()
        case Empty():
            return Map()
        case _:
            raise _unconvertible(value, "*structpb.Value")


def _unconvertible(value: Value, go: str) -> EvalError:
    if type(value) is TypeValue:
        return EvalError("type conversion not supported for 'type'")
    if type(value) is not list and type(value) is not Map and _is_container(value):
        return EvalError(f"type conversion error from '{_type_text(value)}' to '{go}'")
    of = type_of(value).name
    if of in ("int", "uint"):
        return EvalError(f"unsupported type conversion from '{of}' to {go}")
    if of == "string":
        return EvalError(f"unsupported native conversion from string to '{go}'")
    named = {"bool": "bool", "bytes": "Bytes", "double": "Double", "list": "list", "map": "map"}.get(of)
    return EvalError(f"type conversion error from {named or repr(of.rpartition('.')[2])} to '{go}'")


def _duration(values: dict[str, int]) -> Duration:
    return Duration(max(INT_MIN, min(_nanoseconds(values), INT_MAX)))


def _nanoseconds(values: dict[str, int]) -> int:
    return values.get("seconds", 0) * SECOND + values.get("nanos", 0)


def _unpack(values: dict[str, Any]) -> Value:
    raise EvalError("unsupported conversion to ref.Val: (*dynamicpb.Message)")


def _one_of(values: dict[str, Any]) -> Value:
    """The last of the fields that are set; null has a number."""
    field, value = values.popitem() if values else ("null_value", 0)
    return None if field == "null_value" else value


def _wrapper(of: Type, go: str, unset: Value) -> Message:
    return Message(types.wrapper_of(of), {"value": (of, go)}, lambda values: values.get("value", unset))


_TIME: Final = {"seconds": (types.INT, "int64"), "nanos": (types.INT, "int32")}
_VALUE: Final = {
    "null_value": (types.INT, "int32"),
    "bool_value": (types.BOOL, "bool"),
    "number_value": (types.DOUBLE, "float64"),
    "string_value": (types.STRING, "string"),
    "struct_value": (_JSON_MAP, "*structpb.Struct"),
    "list_value": (_JSON_LIST, "*structpb.ListValue"),
}
_ANY: Final = Type(types.TypeKind.DYN, "any", "google.protobuf.Any")

MESSAGES: Final[Mapping[str, Message]] = {
    f"google.protobuf.{name}": message
    for name, message in {
        "Any": Message(_ANY, {"type_url": (types.STRING, "string"), "value": (types.BYTES, "[]uint8")}, _unpack),
        "BoolValue": _wrapper(types.BOOL, "bool", False),
        "BytesValue": _wrapper(types.BYTES, "[]uint8", b""),
        "DoubleValue": _wrapper(types.DOUBLE, "float64", 0.0),
        "Duration": Message(types.DURATION, _TIME, _duration),
        "Empty": Message(types.struct(Empty.type.name, {}), {}, lambda values: Empty()),
        "FloatValue": _wrapper(types.DOUBLE, "float32", 0.0),
        "Int32Value": _wrapper(types.INT, "int32", 0),
        "Int64Value": _wrapper(types.INT, "int64", 0),
        "ListValue": Message(_JSON_LIST, {"values": (_JSON_LIST, "list")}, lambda values: values.get("values", [])),
        "StringValue": _wrapper(types.STRING, "string", ""),
        "Struct": Message(_JSON_MAP, {"fields": (_JSON_MAP, "map")}, lambda values: values.get("fields", Map())),
        "Timestamp": Message(types.TIMESTAMP, _TIME, lambda values: timestamp(_nanoseconds(values))),
        "UInt32Value": _wrapper(types.UINT, "uint32", Uint(0)),
        "UInt64Value": _wrapper(types.UINT, "uint64", Uint(0)),
        "Value": Message(types.DYN, _VALUE, _one_of),
    }.items()
}
