"""Numbers in Go's semantics: int64 and float64, their conversions and their printed forms."""

from __future__ import annotations

import math
import struct

from registry.budget import spend
from registry.emulation import emulated
from registry.schema.values import Json, same

_MAX_SAFE = float((1 << 53) - 1)
_EPSILON = 1e-9


def is_json_integer(number: float) -> bool:
    """Whether a float is treated as an integer: whole, below 2^53, or very nearly whole.

    Follows go-openapi/swag IsFloat64AJSONInteger: a relative error below 1e-9 is allowed, in 1.36 only above a positive
    integer.
    """
    if not -_MAX_SAFE <= number <= _MAX_SAFE:
        return False
    if number.is_integer():
        return True
    if emulated().is_1_37:
        whole = math.floor(abs(number) + 0.5)
        return abs(abs(number) - whole) < _EPSILON * whole
    if number < 1:
        return False
    whole = math.floor(number)
    return (number - whole) / (number + whole) < _EPSILON


def to_int64(number: float) -> int:
    """Go's int64(number): truncated towards zero; out of range it is the least int64, as on amd64."""
    if -9223372036854775808.0 <= number < 9223372036854775808.0:
        return int(number)
    return -1 << 63


def fits_float32(number: float) -> bool:
    try:
        struct.pack("<f", number)
    except OverflowError:
        return False
    return True


def matches_enum(value: Json, enum: tuple[Json, ...]) -> bool:
    """Whether `value` equals an element of `enum`, after Go's conversion to the type of each.

    2.5 becomes 2 before it is compared to 2, and 97 becomes "a" before it is compared to "a"; null matches nothing.
    """
    kind = value.__class__
    spend(len(enum) * 4)
    for known in enum:
        other = known.__class__
        if kind is other:
            if value is not None and same(value, known):
                return True
        elif kind is float and other is int:
            if to_int64(value) == known:
                return True
        elif kind is int and ((other is float and float(value) == known) or (other is str and _rune(value) == known)):
            return True
    return False


def _rune(code: int) -> str:
    """Go's string(code): the character with that code point, U+FFFD where there is none."""
    if 0 <= code <= 0x10FFFF and not 0xD800 <= code <= 0xDFFF:
        return chr(code)
    return "\ufffd"
