"""Errors of converting a strategically merged object to its Go struct.

kube-apiserver does not decode the result of a strategic merge patch, it converts a map to the struct by reflection,
and that has error texts of its own, without a path:

    conversion_fault(ConfigMap, {"data": {"a": 1}})  == "cannot convert int64 to string"
    conversion_fault(ConfigMap, {"data": "a"})       == "cannot restore map from string"

Follows apimachinery pkg/runtime/converter.go (fromUnstructured).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from registry.codec import go_base64
from registry.codec.structs.base import ROOT, DecodingContext, GoType, StructDecodeError
from registry.codec.structs.scalars import Bytes, GoScalar, Integer, Number
from registry.codec.structs.structs import GoMap, GoSlice, Pointer, Struct

_KINDS: Final = {str: "string", bool: "bool", int: "int64", float: "float64", list: "slice"}
_GO_KINDS: Final = {str: "string", bool: "bool"}


def conversion_fault(go_type: GoType, value: Any) -> str | None:
    """The first error in the order of the struct's fields; None if the value can be converted."""
    return next(_faults(go_type, value), None)


def _faults(go_type: GoType, value: Any) -> Iterator[str]:
    if value is None:
        return
    match go_type:
        case Pointer():
            yield from _faults(go_type.element, value)
        case Struct() | GoMap():
            yield from _members(go_type, value)
        case GoSlice():
            if type(value) is not list:
                yield f"cannot restore slice from {_kind(value)}"
                return
            for item in value:
                yield from _faults(go_type.element, item)
        case Bytes():
            yield from _bytes(value)
        case GoScalar() | Integer() | Number():
            yield from _scalar(go_type, value)
        case _:
            yield from _custom(go_type, value)


def _members(go_type: Struct | GoMap, value: Any) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"cannot restore {'struct from:' if isinstance(go_type, Struct) else 'map from'} {_kind(value)}"
    elif isinstance(go_type, Struct):
        for field in go_type.fields:
            yield from _faults(field.type, value.get(field.name))
    else:
        for member in value.values():
            yield from _faults(go_type.element, member)


def _bytes(value: Any) -> Iterator[str]:
    if type(value) is list and any(isinstance(item, str | bool | dict | list) for item in value):
        yield "unrecognized type: uint8"  # the first item that is no byte
        return
    if type(value) is not str:
        yield f"cannot restore slice from {_kind(value)}"
        return
    try:
        go_base64.decode(value)
    except go_base64.Base64Error as error:
        yield f"error decoding from json: {error}"


def _scalar(go_type: GoScalar | Integer | Number, value: Any) -> Iterator[str]:
    """JSON converts neither texts nor booleans; Go could convert an integer to a text."""
    actual = _kind(value)
    wanted = _GO_KINDS.get(go_type.json_type, "interface") if isinstance(go_type, GoScalar) else go_type.go
    if actual == wanted or (actual == "int64" and not isinstance(go_type, GoScalar)):
        return
    if actual == "float64" and not isinstance(go_type, GoScalar):
        if isinstance(go_type, Integer) and not value.is_integer():
            yield f"cannot convert float64 to {go_type.go}"
    elif actual == "int64" and wanted == "string":
        yield f"cannot convert int64 to {go_type.go}"
    else:
        yield f"unrecognized type: {wanted}"


def _custom(go_type: GoType, value: Any) -> Iterator[str]:
    """Types that decode themselves do so here too."""
    try:
        context = DecodingContext(None)
        context.finish(go_type.decode(value, ROOT, context))
    except StructDecodeError as error:
        yield str(error)


def _kind(value: Any) -> str:
    return "map" if isinstance(value, dict) else _KINDS[type(value)]
