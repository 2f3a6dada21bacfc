"""Conversions between types: int(), uint(), double(), string(), bytes(), bool(), and type().

duration() and timestamp() are in clock.py. Types of libraries have a `text()` for string().

Follows cel-go common/types, `ConvertToType`, and Go's strconv.
"""

from __future__ import annotations

import math
import re
from typing import Final

from registry.cel.common.messages import Empty
from registry.cel.common.times import SECOND, Duration, Timestamp
from registry.cel.common.values import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    INT,
    INT_MAX,
    INT_MIN,
    LIST,
    MAP,
    NULL_TYPE,
    OPTIONAL,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    UINT_MAX,
    EvalError,
    Opaque,
    TypeValue,
    Uint,
    Value,
    type_of,
)
from registry.cel.ext.table import function, mismatch, traversal
from registry.codec.go_text import go_g

# Names of types in an expression; libraries add theirs.
TYPE_NAMES: Final = {
    type_.name: type_
    for type_ in (
        BOOL,
        BYTES,
        DOUBLE,
        DURATION,
        INT,
        LIST,
        MAP,
        NULL_TYPE,
        OPTIONAL,
        STRING,
        TIMESTAMP,
        TYPE,
        UINT,
        Empty.type,
    )
}

# Doubles beyond these do not fit into the integers; nor do the bounds themselves, as in cel-go.
_INT_BOUND: Final = float(1 << 63)
_UINT_BOUND: Final = float(1 << 64)


def conversion_error(value: Value, target: TypeValue) -> EvalError:
    return EvalError(f"type conversion error from '{type_of(value).name}' to '{target.name}'")


@function("type", 1)
def type_function(value: Value) -> TypeValue:
    return type_of(value)


@function("dyn", 1)
def dyn(value: Value) -> Value:
    return value


@function("int", 1)
def to_int(value: Value) -> int:
    kind = type(value)
    if kind is int:
        return int(value)
    if kind is Uint:
        if value > INT_MAX:
            raise EvalError("integer overflow")
        return int(value)
    if kind is float:
        if not -_INT_BOUND < value < _INT_BOUND:
            raise EvalError("integer overflow")
        return int(value)
    if kind is str:
        number = _parse_integer(value, signed=True)
        if number is None:
            raise conversion_error(value, INT)
        return number
    if kind is Timestamp:
        return int(value.nanoseconds // SECOND)
    if kind is Duration:
        return int(value.nanoseconds)
    raise mismatch("int", value)


@function("uint", 1)
def to_uint(value: Value) -> Uint:
    kind = type(value)
    if kind is Uint:
        return Uint(value)
    if kind is int:
        if value < 0:
            raise EvalError("unsigned integer overflow")
        return Uint(value)
    if kind is float:
        if not 0 <= value < _UINT_BOUND:
            raise EvalError("unsigned integer overflow")
        return Uint(value)
    if kind is str:
        number = _parse_integer(value, signed=False)
        if number is None:
            raise conversion_error(value, UINT)
        return Uint(number)
    raise mismatch("uint", value)


def _parse_integer(text: str, *, signed: bool) -> int | None:
    """strconv.ParseInt and ParseUint in base 10: no blanks, no underscores; a sign is allowed for the former only."""
    match = (_SIGNED if signed else _UNSIGNED).fullmatch(text)
    if match is None or len(match[2]) > _MAX_DIGITS:
        return None
    number = int(f"{match[1]}{match[2] or 0}")
    return number if (INT_MIN if signed else 0) <= number <= (INT_MAX if signed else UINT_MAX) else None


_SIGNED: Final = re.compile(r"([+-]?)(?=[0-9])0*+([0-9]*+)", re.ASCII)
_UNSIGNED: Final = re.compile(r"()(?=[0-9])0*+([0-9]*+)", re.ASCII)
_MAX_DIGITS: Final = 20  # of 2^64 - 1, without leading zeros

_FLOAT: Final = re.compile(
    r"[+-]?(?:[0-9][0-9_]*+(?:\.[0-9]*+)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|inf|infinity|nan)",
    re.ASCII | re.IGNORECASE,
)
_HEX_FLOAT: Final = re.compile(r"[+-]?0x[0-9a-f]*+(?:\.[0-9a-f]*+)?p[+-]?[0-9]+", re.ASCII | re.IGNORECASE)


@function("double", 1)
def to_double(value: Value) -> float:
    kind = type(value)
    if kind is float:
        return float(value)
    if kind is int or kind is Uint:
        return float(value)
    if kind is str:
        number = _parse_float(value)
        if number is None:
            raise conversion_error(value, DOUBLE)
        return number
    raise mismatch("double", value)


def _parse_float(text: str) -> float | None:
    if len(text) > 4096:
        return None
    if _HEX_FLOAT.fullmatch(text):
        try:
            return float.fromhex(text)
        except (ValueError, OverflowError):
            return None
    if not _FLOAT.fullmatch(text) or "_" in text:
        return None
    if text[:1] in "+-" and text[1:].lower() == "nan":
        return None
    number = float(text)
    return None if math.isinf(number) and "n" not in text.lower() else number  # out of range is an error in Go


@function(
    "string", 1, cost=lambda arguments, result: traversal()(arguments, result) if type(arguments[0]) is bytes else 1
)
def to_string(value: Value) -> str:
    kind = type(value)
    if kind is str:
        return str(value)
    plain = plain_text(value)
    if plain is not None:
        return plain
    if kind is bytes:
        try:
            return str(value, "utf-8")
        except UnicodeDecodeError:
            raise EvalError("invalid UTF-8 in bytes, cannot convert to string") from None
    if isinstance(value, Opaque) and value.has_text:
        return value.text()
    raise mismatch("string", value)


def plain_text(value: Value) -> str | None:
    """A bool or a number as text; None for other types."""
    kind = type(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is int or kind is Uint:
        return int.__repr__(value)
    return go_g(value) if kind is float else None


@function("bytes", 1, cost=lambda arguments, result: traversal()(arguments, result))
def to_bytes(value: Value) -> bytes:
    if type(value) is bytes:
        return bytes(value)
    if type(value) is str:
        return value.encode("utf-8", "replace")
    raise mismatch("bytes", value)


@function("bool", 1)
def to_bool(value: Value) -> bool:
    if type(value) is bool:
        return bool(value)
    if type(value) is str:
        if value in ("1", "t", "T", "TRUE", "true", "True"):
            return True
        if value in ("0", "f", "F", "FALSE", "false", "False"):
            return False
        raise conversion_error(value, BOOL)
    raise mismatch("bool", value)
