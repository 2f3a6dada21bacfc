"""Go's scalar types in JSON: strings, booleans, integers, float64, bytes and any JSON."""

from __future__ import annotations

import base64
from typing import Any

from registry.codec import go_base64
from registry.definitions.structs.base import Context, GoType, Link, StructDecodeError, mismatch, mismatch_of

INT32 = (-(2**31), 2**31 - 1)
INT64 = (-(2**63), 2**63 - 1)


class Scalar(GoType):
    def __init__(self, go: str, json_type: type, zero: Any) -> None:
        self.go, self.json_type, self.zero = go, json_type, zero

    def decode(self, value: Any, link: Link, context: Context) -> Any:
        if type(value) is self.json_type:
            return value
        raise mismatch(value, link, self.go)


class Integer(GoType):
    zero = 0

    def __init__(self, go: str, bounds: tuple[int, int]) -> None:
        self.go, self.bounds = go, bounds

    def decode(self, value: Any, link: Link, context: Context) -> Any:
        if type(value) is int and self.bounds[0] <= value <= self.bounds[1]:
            return value
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            # An integer that does not fit into 64 bits is a float by now, but was most likely written as an
            # integer.
            printed = int(value) if isinstance(value, float) and value.is_integer() and abs(value) >= 2**63 else value
            raise mismatch_of(f"number {printed}", link, self.go)
        raise mismatch(value, link, self.go)


class Number(GoType):
    """A float64. A whole number is kept as an int if exact, since Go writes it without a fraction."""

    go = "float64"
    zero = 0

    def decode(self, value: Any, link: Link, context: Context) -> Any:
        if type(value) is int:
            return value if -(2**53) <= value <= 2**53 else _whole(float(value))
        if type(value) is float:
            return _whole(value)
        raise mismatch(value, link, self.go)


class Bytes(GoType):
    """A []byte: base64 in JSON or, which Go accepts too, an array of numbers; kept as base64."""

    go = "[]uint8"
    by_reference = True

    def decode(self, value: Any, link: Link, context: Context) -> Any:
        if type(value) is list:
            octets = [
                0 if v is None else _OCTET.decode(v, (link, i, None, False), context) for i, v in enumerate(value)
            ]
            return base64.b64encode(bytes(octets)).decode()
        if type(value) is not str:
            raise mismatch(value, link, self.go)
        try:
            return base64.b64encode(go_base64.decode(value)).decode()
        except go_base64.Base64Error as error:
            raise StructDecodeError(str(error)) from error


_OCTET = Integer("uint8", (0, 255))


class Raw(GoType):
    """Any JSON, such as a default."""

    go = "v1.JSON"
    by_reference = True

    def decode(self, value: Any, link: Link, context: Context) -> Any:
        return plain_numbers(value)


def plain_numbers(value: Any) -> Any:
    """Converts whole floats in JSON to integers: 2.0 is stored as 2."""
    if type(value) is float:
        return _whole(value)
    if isinstance(value, dict):
        return {k: plain_numbers(v) for k, v in value.items()}
    if type(value) is list:
        return [plain_numbers(v) for v in value]
    return value


def _whole(value: float) -> int | float:
    # Only the shortest digits: Go writes 2^63 as 9223372036854776000.
    if value.is_integer() and -(2**63) <= value < 2**64:
        digits, _, exponent = repr(value).partition("e")
        mantissa, _, fraction = digits.partition(".")
        if exponent:
            return int(mantissa + fraction.ljust(int(exponent), "0"))
        return int(mantissa)
    return value


STRING = Scalar("string", str, "")
BOOL = Scalar("bool", bool, False)
UID = Scalar("types.UID", str, "")
INT_32 = Integer("int32", INT32)
INT_64 = Integer("int64", INT64)
FLOAT_64 = Number()
BYTES = Bytes()
RAW = Raw()
